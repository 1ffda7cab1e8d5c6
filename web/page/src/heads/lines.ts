// The token view.

import { byId, onWidth, say } from "../dom";
import { pageInks } from "../draw/inks";
import { linesFigure, type PlacedLines } from "../draw/linesFigure";
import { paintOnPage } from "../draw/paint";
import type { App, State } from "../state/app";
import { shown } from "../state/shown";

export function mountLines(app: App): void {
  const canvas = byId("lines", HTMLCanvasElement);
  const frame = byId("lines-frame", HTMLElement);
  const threshold = byId("threshold", HTMLInputElement);
  const only = byId("lines-one", HTMLInputElement);
  let width = 0;
  let placed: PlacedLines | null = null;
  const draw = (state: State) => {
    const view = shown(state);
    const { threshold: least, onlyQuery } = state.view;
    threshold.valueAsNumber = least;
    say(byId("threshold-out", HTMLElement), least.toFixed(2));
    only.checked = onlyQuery;
    frame.dataset["stale"] = String(state.stale);
    canvas.hidden = !view || width === 0;
    if (!view || width === 0) return;
    placed = linesFigure(view.map, { width, inks: pageInks(), threshold: least, row: view.row, onlyRow: onlyQuery });
    paintOnPage(placed.figure, canvas);
  };
  const rowAt = (event: MouseEvent): number | null => {
    if (!placed) return null;
    const row = Math.floor((event.clientY - canvas.getBoundingClientRect().top - placed.top) / placed.lineHeight);
    return row >= 0 && row < placed.rows ? row : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    const row = rowAt(event);
    app.set({ cell: row === null ? null : { row, column: null } });
  });
  canvas.addEventListener("pointerleave", () => app.set({ cell: null }));
  canvas.addEventListener("click", (event) => {
    const row = rowAt(event);
    if (row !== null) app.setView({ query: row === app.state.view.query ? null : row });
  });
  threshold.addEventListener("input", () => app.setView({ threshold: threshold.valueAsNumber }));
  only.addEventListener("change", () => app.setView({ onlyQuery: only.checked }));
  onWidth(frame, (now) => {
    width = now;
    draw(app.state);
  });
  app.subscribe(draw);
}
