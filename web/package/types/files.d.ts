// Tensors as files of NumPy and of safetensors.

import type { Tensor, TensorLike } from "./tensors.js";

/** The bytes of a NumPy `.npy` file (version 1.0, little-endian f32, C order). */
export function toNpy(tensor: TensorLike): Uint8Array;

/** The bytes of a `.safetensors` file of f32 tensors. The same tensors give the same bytes. */
export function toSafetensors(
  tensors: Readonly<Record<string, TensorLike>>,
  metadata?: Readonly<Record<string, string>>,
): Promise<Uint8Array>;

/** The tensors of a `.safetensors` file (F16, BF16, F32, F64; as f32), and its metadata. */
export function fromSafetensors(bytes: Uint8Array | ArrayBuffer): Promise<{
  readonly tensors: Readonly<Record<string, Tensor>>;
  readonly metadata: Readonly<Record<string, string>>;
}>;
