// One head's map as a value: numbers, words on both axes.

import type { LayerAnswer, Sheet } from "../engine/protocol";
import { wordsOf } from "../state/words";
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
  const words = wordsOf(sheet, answer.entry);
  // `bias_k` makes a column after all keys.
  const keys = Array.from({ length: columns }, (_, key) => words.keys[key] ?? "bias_k");
  const weights = data.subarray(head * rows * columns, (head + 1) * rows * columns);
  return { layer: answer.layer, head, weights, rows, columns, queries: words.queries, keys };
}

/** How many weights are NaN. */
export function nansOf({ weights }: HeadMap): number {
  return weights.reduce((count, weight) => count + (Number.isNaN(weight) ? 1 : 0), 0);
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

/** Links that are listed and told of. */
const LISTED = 5;

const listed = new WeakMap<HeadMap, Link[]>();

/** The largest weights, largest first; none that is 0. NaN counts as largest, so that it shows. */
export function strongest(map: HeadMap): readonly Link[] {
  const best = listed.get(map) ?? strongestOf(map);
  listed.set(map, best);
  return best;
}

function strongestOf(map: HeadMap): Link[] {
  const rank = (weight: number) => (Number.isNaN(weight) ? Infinity : weight);
  const best: Link[] = [];
  map.weights.forEach((weight, place) => {
    const last = best[LISTED - 1];
    if (weight === 0 || (last && rank(weight) <= rank(last.weight))) return;
    best.push({ row: Math.floor(place / map.columns), column: place % map.columns, weight });
    best.sort((one, other) => rank(other.weight) - rank(one.weight));
    best.length = Math.min(best.length, LISTED);
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

/** Cells of a small map at most, on each axis. */
const MOST_SMALL = 96;

const small = new WeakMap<HeadMap, Partial<Record<Palette, Pixels>>>();

/** The map as it is shown among all heads: of many cells that share a pixel, the one with the largest weight. */
export function smallPixelsOf(map: HeadMap, palette: Palette): Pixels {
  const step = Math.max(1, Math.ceil(Math.max(map.rows, map.columns) / MOST_SMALL));
  if (step === 1) return pixelsOfMap(map, palette);
  const colored = small.get(map) ?? {};
  small.set(map, colored);
  const [rows, columns] = [Math.ceil(map.rows / step), Math.ceil(map.columns / step)];
  const color = (row: number, column: number) => colorOf(palette, largestIn(map, row * step, column * step, step));
  colored[palette] ??= { columns, rows, pixels: pixelsOf(columns, rows, color) };
  return colored[palette];
}

/** The largest weight in a square of so many cells; NaN is larger than any. */
function largestIn(map: HeadMap, top: number, left: number, side: number): number {
  let largest = 0;
  for (let row = top; row < Math.min(top + side, map.rows); row += 1) {
    for (
      let place = row * map.columns + left;
      place < row * map.columns + Math.min(left + side, map.columns);
      place += 1
    ) {
      const weight = map.weights[place] ?? 0;
      if (!(weight <= largest)) largest = weight;
      if (Number.isNaN(largest)) return largest;
    }
  }
  return largest;
}
