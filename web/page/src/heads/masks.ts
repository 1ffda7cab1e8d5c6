// Masks and temperature: what is changed here is computed at once.

import { byId, say } from "../dom";
import type { App, State } from "../state/app";
import { clamp, RANGES } from "../state/view";

export function mountMasks(app: App): void {
  const causal = byId("causal", HTMLInputElement);
  const none = byId("mask-none", HTMLButtonElement);
  const temperature = byId("temperature", HTMLInputElement);
  causal.addEventListener("change", () => void app.changeSettings({ causal: causal.checked }));
  none.addEventListener("click", () => void app.changeSettings({ causal: false, window: null, validLen: null }));
  temperature.addEventListener("input", () => {
    const value = Number((10 ** temperature.valueAsNumber).toFixed(3));
    void app.changeSettings({ temperature: clamp(value, ...RANGES.temperature) });
  });
  const valid = new Limit(app, "valid", "validLen");
  const window = new Limit(app, "window", "window");
  app.subscribe((state) => {
    const { settings } = state.view;
    const keys = state.sheet?.numKeys ?? 0;
    causal.checked = settings.causal;
    none.ariaPressed = String(!settings.causal && settings.window === null && settings.validLen === null);
    const position = Math.log10(settings.temperature);
    if (document.activeElement !== temperature) temperature.valueAsNumber = position;
    temperature.ariaValueText = `${settings.temperature}`;
    say(byId("temperature-out", HTMLElement), settings.temperature.toPrecision(3));
    valid.draw(state, keys);
    window.draw(state, keys);
    say(byId("own-masks", HTMLElement), ownMasks(state));
  });
}

/** A mask with a number: a box that switches it on, a slider. */
class Limit {
  readonly #name: "validLen" | "window";
  readonly #box: HTMLInputElement;
  readonly #slider: HTMLInputElement;
  readonly #out: HTMLElement;

  constructor(app: App, id: string, name: "validLen" | "window") {
    this.#name = name;
    this.#box = byId(`${id}-on`, HTMLInputElement);
    this.#slider = byId(id, HTMLInputElement);
    this.#out = byId(`${id}-out`, HTMLElement);
    const change = () => void app.changeSettings({ [name]: this.#box.checked ? this.#slider.valueAsNumber : null });
    this.#box.addEventListener("change", change);
    this.#slider.addEventListener("input", () => {
      this.#box.checked = true;
      change();
    });
  }

  draw({ view }: State, keys: number): void {
    const value = view.settings[this.#name];
    const untouched = this.#slider.max !== String(keys);
    this.#slider.max = String(keys);
    if (value !== null) this.#slider.valueAsNumber = Number(value);
    else if (untouched) this.#slider.valueAsNumber = Math.max(1, Math.ceil(keys / (this.#name === "window" ? 4 : 2)));
    this.#box.checked = value !== null;
    say(this.#out, value === null ? "all" : String(value));
  }
}

/** What a file sets by itself: what the controls above can change, what moves its queries, what else hides keys. */
function ownMasks({ sheet }: State): string {
  if (!sheet) return "";
  const { initial, queryOffset, ownMasks, dropout } = sheet;
  const set = [initial.causal ? "causal" : "", initial.window === null ? "" : `window ${initial.window}`].filter(
    Boolean,
  );
  const told = [
    set.length > 0 ? `The file sets ${set.join(" and ")}; the controls begin there.` : "",
    // A file's offset may be 0n.
    Number(queryOffset) === 0 ? "" : `It has query_offset ${queryOffset}: query 0 stands at position ${queryOffset}.`,
    ownMasks.length > 0
      ? `The file also has ${ownMasks.join(" and ")}; a key is visible when everything lets it through.`
      : "",
    dropout
      ? `Its call drops weights: dropout ${dropout.probability}, seed ${dropout.seed}. Maps show the weights before that.`
      : "",
  ];
  return told.filter(Boolean).join(" ");
}
