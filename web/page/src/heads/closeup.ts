// The large map of one head: pointer and arrow keys read its values.

import { byId, isolated, onWidth, say } from "../dom";
import * as words from "../draw/format";
import { pageInks } from "../draw/inks";
import { MOST_DRAWN, weightAt } from "../draw/map";
import { mapFigure, type PlacedMap, summary } from "../draw/mapFigure";
import { paintOnPage } from "../draw/paint";
import { PALETTES } from "../draw/palette";
import type { App, State } from "../state/app";
import { nameOf, shown, type Shown, shownPlace } from "../state/shown";
import { clamp } from "../state/view";

export function mountCloseup(app: App): void {
  const canvas = byId("map", HTMLCanvasElement);
  const frame = byId("map-frame", HTMLElement);
  const palette = byId("palette", HTMLSelectElement);
  let width = 0;
  let placed: PlacedMap | null = null;
  const draw = (state: State) => {
    const view = shown(state);
    placed = view && width > 0 ? drawMap(view, state, canvas, width) : null;
    canvas.hidden = !placed;
    frame.dataset["stale"] = String(state.stale);
    palette.value = state.view.palette;
    const kept = state.preview ? " (preview)" : "";
    say(byId("map-title", HTMLElement), words.capital(nameOf(state.sheet, shownPlace(state))) + kept);
    say(byId("readout", HTMLElement), ...(view ? readout(view) : []));
    say(byId("map-summary", HTMLElement), view ? summary(view.map) : "");
  };
  const at = (event: PointerEvent | MouseEvent) => (placed ? cellAt(placed, canvas, event) : null);
  canvas.addEventListener("pointermove", (event) => app.set({ cell: at(event) }));
  canvas.addEventListener("pointerleave", () => app.set({ cell: null }));
  canvas.addEventListener("click", (event) => {
    const cell = at(event);
    if (cell) app.setView({ query: cell.row === app.state.view.query ? null : cell.row });
  });
  canvas.addEventListener("keydown", (event) => {
    const view = shown(app.state);
    if (view) onKey(app, view, event);
  });
  canvas.addEventListener("blur", () => app.set({ cell: null }));
  palette.addEventListener("change", () => {
    app.setView({ palette: PALETTES.find((name) => name === palette.value) ?? "viridis" });
  });
  onWidth(frame, (now) => {
    width = now;
    draw(app.state);
  });
  app.subscribe(draw);
}

function drawMap({ map, row, column }: Shown, { view }: State, canvas: HTMLCanvasElement, width: number): PlacedMap {
  const placed = mapFigure(map, { width, palette: view.palette, inks: pageInks(), row, column });
  paintOnPage(placed.figure, canvas);
  return placed;
}

function cellAt(
  placed: PlacedMap,
  canvas: HTMLCanvasElement,
  event: MouseEvent,
): { row: number; column: number } | null {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - placed.left) / placed.cell);
  const row = Math.floor((event.clientY - box.top - placed.top) / placed.cell);
  return row >= 0 && column >= 0 && row < placed.rows && column < placed.columns ? { row, column } : null;
}

/** Arrow keys move from cell to cell, Enter keeps the row, Escape lets go. */
function onKey(app: App, { map, row, column }: Shown, event: KeyboardEvent): void {
  const step = ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] } as const)[event.key];
  if (step && map.rows > 0 && map.columns > 0) {
    event.preventDefault();
    const fresh = column === null;
    const next = (now: number, by: number, count: number) => clamp(now + (fresh ? 0 : by), 0, count - 1);
    app.set({ cell: { row: next(row ?? 0, step[0], map.rows), column: next(column ?? 0, step[1], map.columns) } });
  } else if (event.key === "Enter" && row !== null) {
    app.setView({ query: row });
  } else if (event.key === "Escape") {
    app.set({ cell: null });
  }
}

function readout({ map, row, column }: Shown): (HTMLElement | string)[] {
  const drawn = Math.max(map.rows, map.columns) > MOST_DRAWN ? ` The first ${MOST_DRAWN} of each axis are drawn.` : "";
  if (map.weights.length === 0) return ["There is nothing to see: the map has no cells."];
  const point = matchMedia("(pointer: coarse)").matches ? "Tap" : "Point at";
  if (row === null || column === null) return [`${point} a cell to read its weight.${drawn}`];
  const weight = weightAt(map, row, column);
  const value = Number.isFinite(weight) ? weight.toFixed(4) : String(weight);
  return [
    isolated(map.queries[row] ?? ""),
    " → ",
    isolated(map.keys[column] ?? ""),
    `: ${value} (${words.share(weight)}), row ${row}, column ${column}.${drawn}`,
  ];
}
