// One head in numbers, and what its layer is without it.

import type { HeadStatistics } from "multihead";
import { bar, byId, element, isolated, say } from "../dom";
import * as words from "../draw/format";
import { nansOf, strongest } from "../draw/map";
import type { Sheet } from "../engine/protocol";
import type { App, State } from "../state/app";
import { nameOf, shown, type Shown } from "../state/shown";
import { samePlace, type View } from "../state/view";

export function mountDetails(app: App): void {
  const statistics = byId("statistics", HTMLElement);
  const links = byId("links", HTMLElement);
  const button = byId("switch-off", HTMLButtonElement);
  const allOn = byId("all-on", HTMLButtonElement);
  const without = byId("without", HTMLElement);
  let drawn: Shown["map"] | null = null;
  button.addEventListener("click", () => void app.toggle(app.state.view.locked));
  allOn.addEventListener("click", () => void app.allOn());
  app.subscribe((state) => {
    const view = shown(state);
    if (view?.map !== drawn || !view) {
      statistics.replaceChildren(...(view ? rows(view) : []));
      links.replaceChildren(...(view ? linkItems(view) : []));
    }
    drawn = view?.map ?? null;
    statistics.dataset["stale"] = links.dataset["stale"] = String(state.stale);
    const { off, locked } = state.view;
    const isOff = off.some((place) => samePlace(place, locked));
    button.ariaPressed = String(isOff);
    button.disabled = !state.sheet;
    say(button, isOff ? `Switch ${nameOf(state.sheet, locked)} on` : `Switch ${nameOf(state.sheet, locked)} off`);
    allOn.hidden = off.length === 0;
    say(without, withoutText(state));
  });
}

function rows({ answer, place, map }: Shown): Node[] {
  const head = answer.statistics[place.head];
  if (!head) return [];
  const nans = nansOf(map);
  if (nans > 0) return [row("weights", `${words.count(nans)} of ${words.count(map.weights.length)} are NaN`)];
  if (head.numCounted === 0) return [row("keys", "no query sees one")];
  const keys = `${words.decimal(head.entropyBits)} bits, ${head.effectiveKeys.toFixed(1)} keys`;
  return [
    row("pattern", head.pattern ? `${head.pattern} ${words.share(head.patternScore)}` : "–"),
    row("entropy", keys),
    row("distance", `${head.meanDistance.toFixed(1)} tokens`),
    row(
      "over",
      head.numCounted === map.rows ? allOf(map.rows) : `the ${head.numCounted} of ${map.rows} queries that count`,
    ),
    // Nothing goes to what there is not: a separator, a token after the only one.
    ...shares(head).map(([name, share]) => row(name, Number.isNaN(share) ? "–" : words.share(share), share)),
  ];
}

/** "all 16 queries", "the 1 query". */
function allOf(queries: number): string {
  return `${queries === 1 ? "the" : "all"} ${words.several(queries, "query", "queries")}`;
}

function shares(head: HeadStatistics): [string, number][] {
  return [
    ["previous token", head.shareOnPrevious],
    ["next token", head.shareOnNext],
    ["itself", head.shareOnSelf],
    ["first token", head.shareOnFirst],
    ["separator", head.shareOnSeparator],
  ];
}

function row(name: string, value: string, share?: number): Node {
  const told = [element("dt", {}, name), element("dd", {}, value)];
  if (share !== undefined) told.push(element("dd", { class: "track", "aria-hidden": "true" }, bar(share)));
  return element("div", {}, ...told);
}

function linkItems({ map }: Shown): Node[] {
  return strongest(map).map(({ row, column, weight }) => {
    const [query, key] = [map.queries[row] ?? "", map.keys[column] ?? ""];
    return element("li", {}, isolated(query), " → ", isolated(key), ` ${words.share(weight)}`);
  });
}

/** How far the output of the layer in view moves. */
function withoutText({ without, view, sheet, stale }: State): string {
  if (!without || stale || without.layer !== view.locked.layer) return "";
  const layer = sheet?.numLayers === 1 ? "the output" : `layer ${without.layer}’s output`;
  const heads = view.off.filter((place) => place.layer === without.layer).map(({ head }) => head);
  const alone = without.each[view.locked.head];
  const change = heads.length > 0 ? without.together : alone;
  if (!change) return "";
  // Of an output of zeros no share can be taken, and none of NaN.
  if (!Number.isFinite(change.relative)) return `What heads add to ${layer} cannot be told: it is zero or NaN.`;
  const moved = `${words.share(change.relative)} of its length (cosine ${words.decimal(change.cosine)})`;
  if (heads.length > 0) {
    const names = heads.length === 1 ? `head ${heads[0]}` : `heads ${heads.sort((a, b) => a - b).join(", ")}`;
    return `Without ${names}, ${layer} moves by ${moved}. ${rowsOfWithout(view, sheet)}`;
  }
  const [least] = without.order;
  const missed = least ? ` The layer would miss head ${least.head} least: ${words.share(least.relative)}.` : "";
  return `Without head ${view.locked.head}, ${layer} would move by ${moved}.${missed} ${rowsOfWithout(view, sheet)}`;
}

/** Which rows of the output this is over: unlike statistics, those of all batch entries, and those that see no key. */
function rowsOfWithout({ settings }: View, sheet: Sheet | null): string {
  if (!sheet) return "";
  const { selfAttention, ownMasks, numQueries, numEntries } = sheet;
  const entries = numEntries === 1 ? "" : ` of each of ${numEntries} batch entries`;
  // Where a sequence looks at itself, a token that is no valid key is no query that counts either.
  if (selfAttention && ownMasks.includes("valid_lens")) return `Over the queries that count${entries}.`;
  const counted = selfAttention ? Math.min(settings.validLen ?? numQueries, numQueries) : numQueries;
  const queries = counted === numQueries ? allOf(numQueries) : `the first ${counted} of ${numQueries} queries`;
  return `Over ${queries}${entries}.`;
}
