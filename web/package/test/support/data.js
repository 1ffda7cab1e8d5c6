// Tensors and cases for the tests.

import { readdir, readFile } from "node:fs/promises";

const CASES = new URL("../../../../tests/cases/", import.meta.url);

/** Names of all case files. */
export async function caseNames() {
  const files = await readdir(CASES);
  return files.filter((name) => name.endsWith(".safetensors")).sort();
}

/** The bytes of a case file. */
export async function caseBytes(name) {
  return new Uint8Array(await readFile(new URL(name, CASES)));
}

/** Numbers between -1 and 1 that are the same every time (a linear congruential generator of Knuth's). */
export function numbers(count, seed = 1) {
  let state = BigInt(seed);
  const next = () => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffff_ffff_ffff_ffffn;
    return Number(state >> 33n) / 2 ** 30 - 1;
  };
  return Float32Array.from({ length: count }, next);
}

/** A tensor of such numbers. */
export function tensor(shape, seed) {
  return {
    data: numbers(
      shape.reduce((product, axis) => product * axis, 1),
      seed,
    ),
    shape,
  };
}

/** Projections of a layer of this width. */
export function projections(width, seed = 10) {
  const scaled = (offset) => {
    const { data, shape } = tensor([width, width], seed + offset);
    return { data: data.map((number) => number / Math.sqrt(width)), shape };
  };
  return { W_q: scaled(0), W_k: scaled(1), W_v: scaled(2), W_o: scaled(3), b_o: tensor([width], seed + 4) };
}
