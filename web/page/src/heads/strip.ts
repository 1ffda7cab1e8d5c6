// The sentence: choose a token, and the others are shaded by how much it looks at them.

import { byId, element, isolated } from "../dom";
import * as words from "../draw/format";
import { type HeadMap, nansOf, rowOf } from "../draw/map";
import type { App } from "../state/app";
import { nameOf, shown, type Shown } from "../state/shown";
import { wordsOf } from "../state/words";

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
    const now = state.sheet && wordsOf(state.sheet, state.view.entry);
    const list = now?.queries ?? [];
    if (list !== tokens) {
      tokens = list;
      strip.replaceChildren(
        ...list
          .slice(0, MOST_TOKENS)
          .map((token, index) => element("button", { type: "button", "data-index": index }, isolated(token))),
      );
      keys.replaceChildren(
        ...(now?.keys ?? []).slice(0, MOST_TOKENS).map((token) => element("span", {}, isolated(token))),
      );
    }
    const view = shown(state);
    keys.hidden = !state.sheet || state.sheet.selfAttention;
    shade(strip, keys, view, state.view.query);
    const failed = !view && state.sheet && state.notices.compute;
    finding.replaceChildren(
      ...(failed ? ["This could not be computed, so that there is nothing to see."] : said(view)),
    );
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
  const here = `In ${nameOf(sheet, place)}, `;
  if (row !== null) return [here, element("b", {}, isolated(map.queries[row] ?? "")), ...ofRow(map, row)];
  const nans = nansOf(map);
  if (nans > 0) return [here, `${words.count(nans)} of ${words.count(map.weights.length)} weights are NaN.`];
  const statistics = view.answer.statistics[place.head];
  const pattern = statistics?.pattern;
  if (!statistics || !pattern) return [here, "no query sees a key."];
  const share = words.share(statistics.patternScore);
  if (pattern === "broad") return [here, `attention is spread: even to ${share}.`];
  const { of, place: goal } = GOALS[pattern];
  return [here, `${share} of ${of} goes to the `, element("b", {}, goal), "."];
}

function ofRow(map: HeadMap, row: number): (Node | string)[] {
  const weights = rowOf(map, row);
  if (weights.some(Number.isNaN)) return [" has weights that are NaN."];
  const best = weights.reduce((best, weight, key) => (weight > (weights[best] ?? 0) ? key : best), 0);
  const weight = weights[best] ?? 0;
  if (weight === 0) return [" sees no key: its weights are zeros."];
  return [
    " looks most at ",
    element("b", {}, isolated(map.keys[best] ?? "")),
    `: ${words.share(weight)} of its attention.`,
  ];
}

const ALL = "all attention";

/** Where attention goes, and whose it is: a mean is over the tokens that have such a place. */
const GOALS = {
  previous: { of: "the attention of tokens that have one before them", place: "token before" },
  next: { of: "the attention of tokens that have one after them", place: "token after" },
  self: { of: ALL, place: "token itself" },
  first: { of: ALL, place: "first token" },
  separator: { of: ALL, place: "separator" },
} as const;
