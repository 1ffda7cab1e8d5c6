// The sentence: choose a token, and the others are shaded by how much it looks at them.

import { byId, element } from "../dom";
import * as words from "../draw/format";
import { type HeadMap, rowOf, weightAt } from "../draw/map";
import type { App } from "../state/app";
import { nameOf, shown, type Shown } from "../state/shown";

/** Tokens beyond are in the map only. */
const MOST_TOKENS = 256;

export function mountStrip(app: App): void {
  const strip = byId("strip", HTMLElement);
  const keys = byId("key-strip", HTMLElement);
  const finding = byId("finding", HTMLElement);
  let tokens: readonly string[] = [];
  strip.addEventListener("pointerover", (event) => {
    const index = indexOf(event.target);
    app.set({ cell: index === null || event.pointerType === "touch" ? null : { row: index, column: null } });
  });
  strip.addEventListener("pointerleave", () => app.set({ cell: null }));
  strip.addEventListener("click", (event) => {
    const index = indexOf(event.target);
    if (index !== null) app.setView({ query: index === app.state.view.query ? null : index });
  });
  strip.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const index = indexOf(event.target);
    if (step === undefined || index === null) return;
    event.preventDefault();
    const next = strip.children[index + step];
    if (next instanceof HTMLElement) next.focus();
  });
  app.subscribe((state) => {
    const now = state.sheet?.entries[state.view.entry];
    const list = now?.queries ?? [];
    if (list !== tokens) {
      tokens = list;
      strip.replaceChildren(
        ...list
          .slice(0, MOST_TOKENS)
          .map((token, index) => element("button", { type: "button", "data-index": index }, token)),
      );
      keys.replaceChildren(...(now?.keys ?? []).slice(0, MOST_TOKENS).map((token) => element("span", {}, token)));
    }
    const view = shown(state);
    keys.hidden = !state.sheet || state.sheet.selfAttention;
    shade(strip, keys, view, state.view.query);
    finding.replaceChildren(...said(view));
    finding.dataset["stale"] = String(state.stale);
  });
}

function indexOf(target: EventTarget | null): number | null {
  const button = target instanceof Element ? target.closest("button") : null;
  return button ? Number(button.dataset["index"]) : null;
}

function shade(strip: HTMLElement, keys: HTMLElement, view: Shown | null, locked: number | null): void {
  const row = view && view.row !== null ? rowOf(view.map, view.row) : null;
  const shaded = view && !view.sheet.selfAttention ? keys : strip;
  [...strip.children].forEach((child, index) => child.setAttribute("aria-pressed", String(index === locked)));
  for (const place of [strip, keys]) {
    [...place.children].forEach((child, index) => {
      const weight = place === shaded ? (row?.[index] ?? 0) : 0;
      if (child instanceof HTMLElement)
        child.style.backgroundColor = weight > 0 ? `rgba(var(--shade), ${(0.06 + 0.6 * weight).toFixed(3)})` : "";
    });
  }
}

/** The one sentence that says what there is to see. */
function said(view: Shown | null): (Node | string)[] {
  if (!view) return ["\u00a0"];
  const { map, sheet, place, row } = view;
  const bold = (text: string) => element("b", {}, text);
  const here = `In ${nameOf(sheet, place)}, `;
  if (row !== null) {
    const key = largest(map, row);
    if (key === null) return [here, bold(map.queries[row] ?? ""), " sees no key: its weights are zeros."];
    const weight = words.share(weightAt(map, row, key));
    return [
      here,
      bold(map.queries[row] ?? ""),
      " looks most at ",
      bold(map.keys[key] ?? ""),
      `: ${weight} of its attention.`,
    ];
  }
  const statistics = view.answer.statistics[place.head];
  const pattern = statistics?.pattern;
  if (!statistics || !pattern) return [here, "no query sees a key."];
  const share = words.share(statistics.patternScore);
  if (pattern === "broad") return [here, `attention is spread: even to ${share}.`];
  return [here, `${share} of all attention goes to the `, bold(PLACES[pattern]), "."];
}

const PLACES = {
  previous: "token before",
  next: "token after",
  self: "token itself",
  first: "first token",
  separator: "separator",
} as const;

function largest(map: HeadMap, row: number): number | null {
  const weights = rowOf(map, row);
  const best = weights.reduce((best, weight, key) => (weight > (weights[best] ?? 0) ? key : best), 0);
  return (weights[best] ?? 0) > 0 || Number.isNaN(weights[best]) ? best : null;
}
