// An output that comes apart into its heads.

import type { AttentionInputs } from "./call.js";
import type { Tensor } from "./tensors.js";

export interface ByHeadOptions extends AttentionInputs {
  scale?: number;
  temperature?: number;
  /**
   * How many rows of each batch entry count, (B,). By default the valid lengths where they are (B,) and a sequence
   * attends to itself, else all.
   */
  counted?: readonly number[];
}

/** An output, and the parts that it is the sum of: what heads can be switched off in without computing again. */
export class ByHead {
  private constructor();
  /** As in a result; every head on. */
  readonly output: Tensor;
  /** (B, H, Lq, Lk). */
  readonly weights: Tensor;
  /** (B, H, Lq, E): what each head adds to the output; (B, H, Lq, dv) without projections. */
  readonly contributions: Tensor;
  /** Whether contributions are summed (there is a W_o) or stand side by side in the output. */
  readonly summed: boolean;
  readonly numHeads: number;
  /** What switching these heads off does to the output, exactly, over all rows that count. */
  without(heads: readonly number[]): Change;
  /** The output (B, Lq, E) without these heads. */
  outputWithout(heads: readonly number[]): Tensor;
  /** What switching each head off alone does: (H,). */
  withoutEach(): readonly Change[];
  /** All heads in the greedy order: next goes whichever leaves the output nearest to what it was with all. */
  pruningOrder(): readonly PruningStep[];
  free(): void;
  [Symbol.dispose](): void;
}

/** How far an output moved. */
export interface Change {
  /** ‖o′ − o‖ / ‖o‖: 0 = nothing happened. */
  readonly relative: number;
  /** The cosine of the angle between o and o′. */
  readonly cosine: number;
}

export interface PruningStep extends Change {
  /** The head that is switched off in this step, with all of the steps before. */
  readonly head: number;
}
