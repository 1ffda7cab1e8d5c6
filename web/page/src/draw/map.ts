// One head's map as a value: numbers, words on both axes.

import type { Tensor } from "multihead";
import type { LayerAnswer, Sheet } from "../engine/protocol";

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

/** The map of a head in an answer. */
export function mapOf(sheet: Sheet, answer: LayerAnswer, head: number): HeadMap {
  const { rows, columns, data } = planes(answer.weights);
  const words = sheet.entries[answer.entry] ?? { queries: [], keys: [] };
  // `bias_k` makes a column after all keys.
  const keys = Array.from({ length: columns }, (_, key) => words.keys[key] ?? "bias_k");
  const weights = data.subarray(head * rows * columns, (head + 1) * rows * columns);
  return { layer: answer.layer, head, weights, rows, columns, queries: words.queries, keys };
}

function planes({ data, shape }: Tensor): { data: Float32Array; rows: number; columns: number } {
  return { data, rows: shape[2] ?? 0, columns: shape[3] ?? 0 };
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
