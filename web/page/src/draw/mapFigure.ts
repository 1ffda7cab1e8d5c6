// The large map: queries in rows, keys in columns, a bar that says what the colours mean.

import { ticks } from "d3-array";
import { type Figure, fitted, type Mark, pixelsOf, widthOf } from "./figure";
import * as words from "./format";
import type { Inks } from "./inks";
import { type HeadMap, MOST_DRAWN, pixelsOfMap, strongest, weightAt } from "./map";
import { colorOf, type Palette } from "./palette";

export interface MapOptions {
  /** The figure is at most so many points wide. */
  width: number;
  palette: Palette;
  inks: Inks;
  /** Above the map; none on the page, which has a heading. */
  title?: string;
  /** The row and the column that are marked. */
  row?: number | null;
  column?: number | null;
  /** What the axes are called. */
  axes?: { rows: string; columns: string };
}

/** A map and where its cells are. */
export interface PlacedMap {
  figure: Figure;
  left: number;
  top: number;
  cell: number;
  rows: number;
  columns: number;
}

const SMALL = 10;
/** Words are smaller on narrow figures, so that all of them have room. */
const textSize = (width: number) => (width < 480 ? 10 : 12);
const LARGEST_CELL = 30;
/** Room for the colour bar and its numbers. */
const BAR = 50;
/** Labels are turned by so many degrees, their ends at the cells. */
const TURN = -52;

/** The figure of a map. */
export function mapFigure(map: HeadMap, options: MapOptions): PlacedMap {
  const [rows, columns] = [Math.min(map.rows, MOST_DRAWN), Math.min(map.columns, MOST_DRAWN)];
  const text = textSize(options.width);
  const longest = (labels: readonly string[]) =>
    Math.max(14, ...labels.slice(0, 256).map((label) => widthOf(label, text)));
  const room = Math.min(110, options.width * 0.22);
  const left = Math.ceil(Math.min(room, longest(map.queries))) + 26;
  const top = (options.title ? 26 : 4) + 18;
  const across = options.width - left - BAR - 6;
  const cell = Math.max(
    0.1,
    Math.min(LARGEST_CELL, across / Math.max(1, columns), (options.width * 0.86) / Math.max(1, rows)),
  );
  const below = Math.ceil(Math.min(room, longest(map.keys)) * Math.sin((-TURN * Math.PI) / 180)) + 18;
  const placed = { left, top, cell, rows, columns };
  const height = Math.max(90, rows * cell) + top + below;
  const figure: Figure = {
    width: options.width,
    height: Math.ceil(height),
    title: options.title ?? `layer ${map.layer}, head ${map.head}`,
    description: summary(map),
    marks: [],
  };
  figure.marks.push(
    { kind: "rect", x: 0, y: 0, width: figure.width, height: figure.height, fill: options.inks.back },
    ...heading(options),
    cells(map, placed, options),
    ...labels(map, placed, options, room),
    ...highlights(placed, options),
    ...bar(map, placed, options),
  );
  return { ...placed, figure };
}

/** A map in words, for people who do not see it. */
export function summary(map: HeadMap): string {
  if (map.weights.length === 0) return "This map has no cells.";
  const links = strongest(map).map(({ row, column, weight }) => {
    return `${map.queries[row]} to ${map.keys[column]} ${words.share(weight)}`;
  });
  const told = links.length > 0 ? `Strongest: ${links.join("; ")}.` : "No query sees a key.";
  return `${words.several(map.rows, "query", "queries")} by ${words.several(map.columns, "key")}. ${told}`;
}

function heading({ title, width, inks }: MapOptions): Mark[] {
  if (!title) return [];
  const text = fitted(title, 13, width - 12, true);
  return [{ kind: "text", x: 6, y: 18, text, size: 13, fill: inks.ink, anchor: "start", bold: true }];
}

function cells(
  map: HeadMap,
  { left, top, cell, rows, columns }: Omit<PlacedMap, "figure">,
  { palette }: MapOptions,
): Mark {
  return { kind: "cells", x: left, y: top, width: columns * cell, height: rows * cell, ...pixelsOfMap(map, palette) };
}

/** Every word where there is room for it, else every second, fifth … */
function labels(map: HeadMap, placed: Omit<PlacedMap, "figure">, options: MapOptions, room: number): Mark[] {
  const { left, top, cell, rows, columns } = placed;
  const { inks, axes } = options;
  const text = textSize(options.width);
  const every = Math.max(1, Math.ceil((text + 1) / cell));
  const marks: Mark[] = [];
  for (let row = 0; row < rows; row += every) {
    const chosen = row === options.row;
    marks.push({
      kind: "text",
      x: left - 7,
      y: top + (row + 0.5) * cell + text * 0.36,
      text: fitted(map.queries[row] ?? "", text, room),
      size: text,
      fill: chosen ? inks.mark : inks.ink,
      anchor: "end",
      bold: chosen,
    });
  }
  for (let column = 0; column < columns; column += every) {
    const chosen = column === options.column;
    marks.push({
      kind: "text",
      x: left + (column + 0.5) * cell + 4,
      y: top + rows * cell + 12,
      text: fitted(map.keys[column] ?? "", text, room),
      size: text,
      fill: chosen ? inks.mark : inks.ink,
      anchor: "end",
      turn: TURN,
      bold: chosen,
    });
  }
  const axis = { kind: "text", size: SMALL, fill: inks.muted, bold: false } as const;
  marks.push({
    ...axis,
    x: left + (columns * cell) / 2,
    y: top - 7,
    text: axes?.columns ?? "is looked at (key)",
    anchor: "middle",
  });
  marks.push({
    ...axis,
    x: 9,
    y: top + (rows * cell) / 2,
    text: axes?.rows ?? "looks (query)",
    anchor: "middle",
    turn: -90,
  });
  return marks;
}

function highlights(placed: Omit<PlacedMap, "figure">, { row, column, inks }: MapOptions): Mark[] {
  const { left, top, cell, rows, columns } = placed;
  const frame = { kind: "frame", stroke: inks.mark, line: 2 } as const;
  const marks: Mark[] = [];
  if (row != null && row < rows)
    marks.push({ ...frame, x: left, y: top + row * cell, width: columns * cell, height: cell });
  if (column != null && column < columns) {
    marks.push({ ...frame, x: left + column * cell, y: top, width: cell, height: rows * cell });
  }
  return marks;
}

/** The colour bar, with a mark where the value of the marked cell is. */
function bar(map: HeadMap, placed: Omit<PlacedMap, "figure">, { palette, inks, row, column }: MapOptions): Mark[] {
  const { left, top, cell, rows, columns } = placed;
  const [x, height, steps] = [left + columns * cell + 18, Math.max(70, Math.min(200, rows * cell)), 64];
  const at = (value: number) => top + height * (1 - value);
  const pixels = pixelsOf(1, steps, (step) => colorOf(palette, 1 - step / (steps - 1)));
  const marks: Mark[] = [{ kind: "cells", x, y: top, width: 10, height, columns: 1, rows: steps, pixels }];
  for (const value of ticks(0, 1, 4)) {
    const text = value.toFixed(1);
    marks.push({
      kind: "text",
      x: x + 15,
      y: at(value) + SMALL * 0.36,
      text,
      size: SMALL,
      fill: inks.muted,
      anchor: "start",
    });
  }
  if (row != null && column != null && row < rows && column < columns) {
    const value = weightAt(map, row, column);
    if (value >= 0 && value <= 1)
      marks.push({ kind: "frame", x: x - 3, y: at(value) - 2, width: 16, height: 4, stroke: inks.mark, line: 2 });
  }
  return marks;
}
