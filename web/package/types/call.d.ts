// One call: what goes in, and what comes back.

import type { BooleansLike, IntegersLike, Tensor, TensorLike } from "./tensors.js";
import type { Profile, Progress, Timing } from "./times.js";
import type { Verification } from "./verification.js";

/**
 * That a call is one of training: each weight is zero with probability `dropout` and otherwise multiplied with
 * 1 / (1 − dropout). What is dropped follows from seed, step and place alone, the same on every device.
 */
export interface Training {
  /** 0 to 1. */
  readonly dropout: number;
  /** A whole number of 64 bits from 0 on, a bigint where a number has not all of them; default 0. */
  readonly seed?: number | bigint;
  /** The same: each step of training has a pattern of its own. */
  readonly step?: number | bigint;
  /** Whether weights that come back are those after dropout. Default false: those before, which sum to 1. */
  readonly returnsDropped?: boolean;
}

/** Which keys a query may see, and what is read. A key is visible when everything given lets it through. */
export interface AttentionInputs {
  /** (B, Lq, E). */
  query: TensorLike;
  /** (B, Lk, width of the keys); by default the query: self-attention. */
  key?: TensorLike | null;
  /** (B, Lk, width of the values); by default the key. */
  value?: TensorLike | null;
  /** (B,) or (B, Lq): key j is visible when j < length. A plain list of numbers is (B,). */
  validLens?: IntegersLike | Int32Array | Uint32Array | readonly number[] | null;
  /** true = may attend. (Lq, Lk), (B, Lq, Lk), (1|B, 1|H, Lq, Lk). */
  mask?: BooleansLike | null;
  /** Added to the scaled score, in the shapes of `mask`. −Infinity hides the key; a finite value never does. */
  bias?: TensorLike | null;
  /** Query i stands at position i + `queryOffset` and sees keys up to there. Default false. */
  causal?: boolean;
  /** Any whole number of 64 bits, a bigint where a number has not all of them; default 0. */
  queryOffset?: number | bigint;
  /** Key j is visible when |j − position| < window; at least 1. */
  window?: number | bigint | null;
  /** Which weights are dropped; default none: evaluation. */
  training?: Training | null;
}

export interface CallOptions {
  /** Instead of the attention's own scale. */
  scale?: number;
  /** Divides the scale; above 0. Default 1: above, attention spreads; below, it sharpens. */
  temperature?: number;
  /** What each head's part of the output is multiplied with, (H,): 0 switches a head off. Default all 1. */
  headScale?: Float32Array | readonly number[] | null;
  /** Names of kernels to take wherever they apply, instead of those that suit the device: for comparisons. */
  preferredKernels?: readonly string[];
  /** Whether attention streams over the keys without storing scores; default "auto", where that gains. */
  fused?: "auto" | "on" | "off";
}

export interface RunOptions extends AttentionInputs, CallOptions {
  /** Whether the attention weights come back. Default false. */
  returnWeights?: boolean;
  /** Whether the answer is held against the reference before it is given, as `Attention.verify` does. Default false. */
  verify?: boolean;
  /** Whether each dispatch is timed. Dispatches then do not overlap. Default false. */
  profile?: boolean;
  /** Called after each part of about 100 ms. If it throws, so does the call, with that as `cause`. */
  onProgress?: (progress: Progress) => void;
}

export interface AttentionResult {
  /** (B, Lq, E), or (B, Lq, H·dv) without projections. A query that sees no key gives the output's bias, or zeros. */
  readonly output: Tensor;
  /** (B, H, Lq, Lk), Lk + 1 columns with `bias_k`; only with `returnWeights`. Rows sum to 1, or are zeros. */
  readonly weights?: Tensor;
  readonly timing: Timing;
  /** How many dispatches were recorded. */
  readonly dispatches: number;
  /** Whether attention streamed: no score was ever stored. */
  readonly streamed: boolean;
  /** Only with `profile`. */
  readonly profile?: Profile;
  /** Only with `verify`. */
  readonly verification?: Verification;
}
