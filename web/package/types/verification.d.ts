// Answers against the CPU reference, and against what a file expects.

/** One tensor against the reference in 64-bit floats. */
export interface TensorVerification {
  /** Largest |got − truth|; NaN where one of the two is NaN and the other is not. */
  readonly maxError: number;
  /** What plain 32-bit arithmetic on the CPU is off by, largest difference. */
  readonly referenceError: number;
  /** What is allowed: 4 · referenceError + 2⁻²⁰ · largest |truth|. */
  readonly allowed: number;
  /** Whether `maxError` is within `allowed`. */
  readonly ok: boolean;
  /** NaN among what was computed, and among the truth. */
  readonly nans: number;
  readonly expectedNans: number;
  /** Where the largest error is, axis by axis; null where there are no numbers. */
  readonly worst: readonly number[] | null;
}

/** An answer against the CPU reference. */
export interface Verification {
  readonly ok: boolean;
  /** The larger one of output and weights. */
  readonly maxError: number;
  /** NaN in all that was computed. */
  readonly nans: number;
  readonly output: TensorVerification;
  /** Where the weights came back. */
  readonly weights: TensorVerification | null;
  /** Largest error of each head's weights, over all batch entries: (H,); null where the weights did not come back. */
  readonly heads: readonly number[] | null;
  /** Milliseconds that the reference took. */
  readonly took: number;
}

/** An answer against the one that a case file carries; NaN equals only NaN. */
export interface Comparison {
  readonly ok: boolean;
  readonly maxError: number;
  readonly worst: {
    readonly tensor: string;
    readonly index: readonly number[];
    readonly got: number;
    readonly expected: number;
  } | null;
}
