// One head's map as a value: numbers, words on both axes.

import type { LayerAnswer, Sheet } from "../engine/protocol";
import { pixelsOf } from "./figure";
import { colorOf, type Palette } from "./palette";

/** What is drawn of an axis at most; a canvas ends somewhere. */
export const MOST_DRAWN = 2048;

export interface HeadMap {
  layer: number;
  head: number;
  /** (rows, columns), row-major. */
  weights: Float32Array;
  rows: number;
  columns: number;
  queries: readonly string[];
  keys: readonly string[];
}

const known = new WeakMap<LayerAnswer, Map<number, HeadMap>>();

/** The map of a head in an answer; the same one each time. */
export function mapOf(sheet: Sheet, answer: LayerAnswer, head: number): HeadMap {
  const maps = known.get(answer) ?? new Map<number, HeadMap>();
  known.set(answer, maps);
  const map = maps.get(head) ?? cut(sheet, answer, head);
  maps.set(head, map);
  return map;
}

function cut(sheet: Sheet, answer: LayerAnswer, head: number): HeadMap {
  const { data, shape } = answer.weights;
  const [rows = 0, columns = 0] = shape.slice(2);
  const words = sheet.entries[answer.entry] ?? { queries: [], keys: [] };
  // `bias_k` makes a column after all keys.
  const keys = Array.from({ length: columns }, (_, key) => words.keys[key] ?? "bias_k");
  const weights = data.subarray(head * rows * columns, (head + 1) * rows * columns);
  return { layer: answer.layer, head, weights, rows, columns, queries: words.queries, keys };
}

export function weightAt(map: HeadMap, row: number, column: number): number {
  return map.weights[row * map.columns + column] ?? Number.NaN;
}

export function rowOf(map: HeadMap, row: number): Float32Array {
  return map.weights.subarray(row * map.columns, (row + 1) * map.columns);
}

/** One weight, where it stands. */
export interface Link {
  row: number;
  column: number;
  weight: number;
}

/** The `count` largest weights, largest first. NaN counts as largest, so that it shows. */
export function strongest(map: HeadMap, count: number): Link[] {
  const rank = (weight: number) => (Number.isNaN(weight) ? Infinity : weight);
  const best: Link[] = [];
  map.weights.forEach((weight, place) => {
    const last = best[count - 1];
    if (last && rank(weight) <= rank(last.weight)) return;
    best.push({ row: Math.floor(place / map.columns), column: place % map.columns, weight });
    best.sort((one, other) => rank(other.weight) - rank(one.weight));
    best.length = Math.min(best.length, count);
  });
  return best;
}

export interface Pixels {
  columns: number;
  rows: number;
  pixels: Uint8ClampedArray<ArrayBuffer>;
}

const painted = new WeakMap<HeadMap, Partial<Record<Palette, Pixels>>>();

/** The map's cells as colours, as far as they are drawn. */
export function pixelsOfMap(map: HeadMap, palette: Palette): Pixels {
  const colored = painted.get(map) ?? {};
  painted.set(map, colored);
  const [rows, columns] = [Math.min(map.rows, MOST_DRAWN), Math.min(map.columns, MOST_DRAWN)];
  const color = (row: number, column: number) => colorOf(palette, weightAt(map, row, column));
  colored[palette] ??= { columns, rows, pixels: pixelsOf(columns, rows, color) };
  return colored[palette];
}
