// Case files: opened, and written.

import type { Attention } from "./attention.js";
import type { AttentionInputs } from "./call.js";
import type { IntegersLike, Tensor, TensorLike } from "./tensors.js";

/** What a case file says besides its tensors; see the file format in the repository's README. */
export interface CaseSettings {
  readonly num_heads?: number;
  readonly num_kv_heads?: number;
  readonly head_dim?: number;
  readonly causal?: boolean;
  readonly query_offset?: number;
  readonly window?: number;
  readonly scale?: number;
  readonly prefix?: string;
  readonly tolerance?: number;
  readonly dropout?: number;
  readonly seed?: number;
}

/** What a case file has its attention compute. */
export interface CaseInputs extends AttentionInputs {
  validLens?: IntegersLike | null;
}

/** A case file, opened: an attention, what to run it with, and what should come out. */
export interface OpenedCase {
  readonly attention: Attention;
  /** To be given to `attention.run`, changed or not. */
  readonly inputs: CaseInputs;
  /** The answer that the file carries. */
  readonly expected: { readonly output: Tensor | null; readonly weights: Tensor | null };
  /** t of |got − expected| ≤ t·(1 + |expected|). */
  readonly tolerance: number;
  readonly about: string | null;
  /** The tokens of each batch entry. */
  readonly tokens: readonly (readonly string[])[] | null;
  readonly settings: CaseSettings;
}

/** A case to be written. */
export interface CaseOptions extends AttentionInputs {
  about?: string;
  tokens?: readonly (readonly string[])[];
  /** What `run` gave for these inputs: written as the expected answer. */
  expected?: { output?: TensorLike | null; weights?: TensorLike | null };
  tolerance?: number;
  scale?: number;
  temperature?: number;
}
