// Tensors as files of NumPy and of safetensors.

import { bytes, options, tensor, text } from "./checks.js";
import { guarded } from "./errors.js";
import { load } from "./load.js";
import { checkRoom } from "./room.js";
import * as wasm from "../wasm/multihead.js";

/** @import { Tensor, TensorLike } from "../types/tensors.js" */

/** Where NumPy wants the numbers to begin. */
const ALIGNMENT = 64;

/** "\x93NUMPY", version 1.0. */
const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0];

/**
 * The bytes of a `.npy` file: magic, length of the header, a Python dictionary padded by spaces, the numbers
 * (NEP 1, version 1.0).
 * @param {TensorLike} given
 * @returns {Uint8Array}
 */
export function toNpy(given) {
  const { data, shape } = tensor("the tensor", given);
  const axes = shape.length === 1 ? `${shape[0]},` : Array.from(shape).join(", ");
  const dictionary = `{'descr': '<f4', 'fortran_order': False, 'shape': (${axes}), }`;
  const begin = Math.ceil((MAGIC.length + 2 + dictionary.length + 1) / ALIGNMENT) * ALIGNMENT;
  const header = new TextEncoder().encode(`${dictionary.padEnd(begin - MAGIC.length - 3)}\n`);
  const file = new Uint8Array(begin + data.byteLength);
  const view = new DataView(file.buffer);
  file.set(MAGIC);
  view.setUint16(MAGIC.length, header.length, true);
  file.set(header, MAGIC.length + 2);
  data.forEach((number, place) => view.setFloat32(begin + 4 * place, number, true));
  return file;
}

/**
 * @param {Readonly<Record<string, TensorLike>>} tensors
 * @param {Readonly<Record<string, string>>} [metadata]
 * @returns {Promise<Uint8Array>}
 */
export async function toSafetensors(tensors, metadata = {}) {
  const given = Object.entries(options("the tensors", tensors, Object.keys(tensors ?? {})));
  const said = Object.entries(options("the metadata", metadata, Object.keys(metadata ?? {})));
  await load();
  checkRoom(given.map(([, value]) => value));
  const numbers = given.map(([name, value]) => tensor(name, value));
  const values = said.map(([key, value]) => text(`the metadata ${key}`, value));
  return guarded(() =>
    wasm.toSafetensors(
      given.map(([name]) => name),
      numbers,
      said.map(([key]) => key),
      values,
    ),
  );
}

/**
 * @param {Uint8Array | ArrayBuffer} given
 * @returns {Promise<{ tensors: Record<string, Tensor>, metadata: Record<string, string> }>}
 */
export async function fromSafetensors(given) {
  const file = bytes("a safetensors file", given);
  await load();
  checkRoom([file]);
  return guarded(() => wasm.fromSafetensors(file));
}
