// The token view: a line from each query to each key, as thick as the weight.

import { type Figure, fitted, type Mark, widthOf } from "./figure";
import type { Inks } from "./inks";
import { type HeadMap, weightAt } from "./map";
import { summary } from "./mapFigure";

export interface LinesOptions {
  width: number;
  inks: Inks;
  /** Weights below are left out. */
  threshold: number;
  /** The token that asks, and whether the others' lines are left out. */
  row: number | null;
  onlyRow: boolean;
  title?: string;
}

const TEXT = 13;
const LINE_HEIGHT = 22;
/** Words beyond are not drawn: a canvas ends somewhere, and so does what a person reads. */
const MOST_WORDS = 256;

export interface PlacedLines {
  figure: Figure;
  top: number;
  lineHeight: number;
  rows: number;
}

/** The figure of the lines. */
export function linesFigure(map: HeadMap, options: LinesOptions): PlacedLines {
  const [rows, columns] = [Math.min(map.rows, MOST_WORDS), Math.min(map.columns, MOST_WORDS)];
  const top = options.title ? 34 : 8;
  const room = options.width * 0.3;
  const widest = (labels: readonly string[]) =>
    Math.min(room, Math.max(10, ...labels.slice(0, MOST_WORDS).map((text) => widthOf(text, TEXT, true))));
  const [left, right] = [widest(map.queries) + 14, options.width - widest(map.keys) - 14];
  const middle = (place: number) => top + (place + 0.5) * LINE_HEIGHT;
  const { inks, row: chosen, threshold, title } = options;
  const height = top + Math.max(rows, columns) * LINE_HEIGHT + 6;
  const marks: Mark[] = [{ kind: "rect", x: 0, y: 0, width: options.width, height, fill: inks.back }];
  if (title)
    marks.push({
      kind: "text",
      x: 6,
      y: 18,
      text: fitted(title, 13, options.width - 12, true),
      size: 13,
      fill: inks.ink,
      anchor: "start",
      bold: true,
    });
  for (let row = 0; row < rows; row += 1) {
    const strong = row === chosen;
    if (options.onlyRow && chosen !== null && !strong) continue;
    for (let column = 0; column < columns; column += 1) {
      const weight = weightAt(map, row, column);
      if (!(weight >= threshold && weight > 0)) continue;
      marks.push({
        kind: "line",
        from: [left, middle(row)],
        to: [right, middle(column)],
        stroke: strong ? inks.mark : inks.ink,
        line: 0.5 + 5 * weight,
        opacity: strong ? 0.25 + 0.75 * weight : 0.08 + 0.62 * weight,
      });
    }
  }
  const received = (column: number) => (chosen === null ? 0 : weightAt(map, chosen, column));
  for (let row = 0; row < rows; row += 1) {
    const strong = row === chosen;
    const text = fitted(map.queries[row] ?? "", TEXT, room);
    marks.push({
      kind: "text",
      x: left - 8,
      y: middle(row) + TEXT * 0.36,
      text,
      size: TEXT,
      fill: strong ? inks.mark : inks.ink,
      anchor: "end",
      bold: strong,
    });
  }
  for (let column = 0; column < columns; column += 1) {
    const strong = received(column) >= 0.25;
    const text = fitted(map.keys[column] ?? "", TEXT, room);
    marks.push({
      kind: "text",
      x: right + 8,
      y: middle(column) + TEXT * 0.36,
      text,
      size: TEXT,
      fill: strong ? inks.mark : inks.ink,
      anchor: "start",
      bold: strong,
    });
  }
  const figure = { width: options.width, height, title: title ?? "token view", description: summary(map), marks };
  return { figure, top, lineHeight: LINE_HEIGHT, rows };
}
