// All heads as small maps: hover shows one, a click keeps it.

import { byId, element } from "../dom";
import * as words from "../draw/format";
import { mapOf, pixelsOfMap } from "../draw/map";
import { cellsCanvas } from "../draw/paint";
import type { LayerAnswer, Sheet } from "../engine/protocol";
import type { App, State } from "../state/app";
import { nameOf } from "../state/shown";
import { type HeadPlace, samePlace } from "../state/view";

/** Heads beside each other at most, in a source of many layers and of one. */
const [OF_MANY, OF_ONE] = [12, 6];

export function mountGrid(app: App): void {
  const grid = byId("grid", HTMLElement);
  const heads = new Grid(app, grid);
  app.subscribe((state, before) => heads.draw(state, before));
}

class Grid {
  readonly #app: App;
  readonly #grid: HTMLElement;
  #buttons: HTMLButtonElement[] = [];
  #columns = OF_MANY;
  /** What is painted on the buttons of each layer. */
  #painted: (LayerAnswer | null)[] = [];
  #palette = "";

  constructor(app: App, grid: HTMLElement) {
    this.#app = app;
    this.#grid = grid;
    grid.addEventListener("pointerover", (event) => {
      if (event.pointerType !== "touch") app.set({ preview: this.#placeOf(event.target) });
    });
    grid.addEventListener("pointerleave", () => app.set({ preview: null }));
    grid.addEventListener("focusin", (event) => app.set({ preview: this.#placeOf(event.target) }));
    grid.addEventListener("focusout", () => app.set({ preview: null }));
    grid.addEventListener("click", (event) => {
      const place = this.#placeOf(event.target);
      if (place) void app.lock(place);
    });
    grid.addEventListener("keydown", (event) => this.#onKey(event));
  }

  draw(state: State, before: State): void {
    const { sheet, view } = state;
    if (sheet !== before.sheet) this.#lay(sheet);
    if (!sheet) return;
    if (view.palette !== this.#palette) this.#painted = [];
    this.#palette = view.palette;
    for (let layer = 0; layer < sheet.numLayers; layer += 1) {
      const answer = state.answers[layer] ?? null;
      if (this.#painted[layer] !== answer) this.#paint(sheet, layer, answer, state);
      this.#painted[layer] = answer;
    }
    this.#buttons.forEach((button, index) => {
      const place = placeAt(sheet, index);
      const pattern = state.answers[place.layer]?.statistics[place.head]?.pattern;
      button.ariaCurrent = String(samePlace(place, view.locked));
      button.tabIndex = samePlace(place, view.locked) ? 0 : -1;
      button.dataset["off"] = String(view.off.some((off) => samePlace(off, place)));
      button.dataset["dim"] = String(view.pattern !== null && pattern !== undefined && pattern !== view.pattern);
    });
    this.#grid.dataset["stale"] = String(state.stale);
    this.#grid.ariaBusy = String(state.stale || state.answers.length < sheet.numLayers || state.answers.includes(null));
  }

  #lay(sheet: Sheet | null): void {
    this.#painted = [];
    const numHeads = sheet?.numHeads ?? 0;
    this.#buttons = Array.from({ length: (sheet?.numLayers ?? 0) * numHeads }, () =>
      element("button", { type: "button" }, element("canvas", { width: 1, height: 1 })),
    );
    const layered = (sheet?.numLayers ?? 0) > 1;
    this.#columns = Math.min(numHeads, layered ? OF_MANY : OF_ONE);
    const heads = `repeat(${Math.max(1, this.#columns)}, minmax(0, 1fr))`;
    this.#grid.style.gridTemplateColumns = layered ? `1.3rem ${heads}` : heads;
    this.#grid.replaceChildren();
    this.#buttons.forEach((button, index) => {
      if (layered && index % numHeads === 0) {
        this.#grid.append(
          element(
            "span",
            { class: "layer", "aria-hidden": "true", title: `layer ${index / numHeads}` },
            String(index / numHeads),
          ),
        );
      }
      this.#grid.append(button);
    });
  }

  #paint(sheet: Sheet, layer: number, answer: LayerAnswer | null, { view }: State): void {
    for (let head = 0; head < sheet.numHeads; head += 1) {
      const button = this.#buttons[layer * sheet.numHeads + head];
      const canvas = button?.querySelector("canvas");
      if (!button || !canvas) continue;
      const pixels = answer ? pixelsOfMap(mapOf(sheet, answer, head), view.palette) : null;
      Object.assign(canvas, { width: Math.max(1, pixels?.columns ?? 1), height: Math.max(1, pixels?.rows ?? 1) });
      if (pixels && pixels.columns * pixels.rows > 0) canvas.getContext("2d")?.drawImage(cellsCanvas(pixels), 0, 0);
      const statistics = answer?.statistics[head];
      const pattern = statistics?.pattern ? `, ${statistics.pattern} ${words.share(statistics.patternScore)}` : "";
      button.ariaLabel = `${nameOf(sheet, { layer, head })}${pattern}`;
      button.title = button.ariaLabel;
    }
  }

  #placeOf(target: EventTarget | null): HeadPlace | null {
    const button = target instanceof Element ? target.closest("button") : null;
    const { sheet } = this.#app.state;
    const index = button ? this.#buttons.indexOf(button) : -1;
    return sheet && index >= 0 ? placeAt(sheet, index) : null;
  }

  #onKey(event: KeyboardEvent): void {
    const place = this.#placeOf(event.target);
    const { sheet } = this.#app.state;
    if (!place || !sheet || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "x" || event.key === "X") {
      void this.#app.toggle(place);
      return;
    }
    const index = place.layer * sheet.numHeads + place.head;
    const steps: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -this.#columns,
      ArrowDown: this.#columns,
    };
    const step = steps[event.key];
    const next = { Home: 0, End: this.#buttons.length - 1 }[event.key] ?? (step === undefined ? null : index + step);
    if (next === null) return;
    event.preventDefault();
    this.#buttons[next]?.focus();
  }
}

function placeAt(sheet: Sheet, index: number): HeadPlace {
  return { layer: Math.floor(index / sheet.numHeads), head: index % sheet.numHeads };
}
