// All verifications of what is shown, as one verdict.

import type { LayerAnswer } from "../engine/protocol";

export interface Verdict {
  /** Whether everything is as in the reference, NaN where it has NaN. */
  ok: boolean;
  /** Over all layers, outputs and weights. */
  maxError: number;
  allowed: number;
  /** Whether the answers that a case file carries are met; true where there is none. */
  expected: boolean;
  nans: number;
  expectedNans: number;
  /** How many numbers were held against the reference. */
  numbers: number;
  layers: number;
  /** Milliseconds that the reference took. */
  took: number;
}

/** `null` while there is nothing to judge. */
export function judge(answers: readonly (LayerAnswer | null)[]): Verdict | null {
  const present = answers.filter((answer) => answer !== null);
  if (present.length === 0) return null;
  const verdict = {
    ok: true,
    expected: true,
    maxError: 0,
    allowed: 0,
    nans: 0,
    expectedNans: 0,
    numbers: 0,
    layers: present.length,
    took: 0,
  };
  for (const { verification, weights, outputShape, expected } of present) {
    verdict.ok &&= verification.ok;
    verdict.expected &&= expected?.ok ?? true;
    verdict.maxError = worse(verdict.maxError, verification.maxError);
    verdict.took += verification.took;
    verdict.numbers += weights.data.length + outputShape.reduce((product, axis) => product * axis, 1);
    for (const tensor of [verification.output, verification.weights]) {
      if (!tensor) continue;
      verdict.allowed = Math.max(verdict.allowed, tensor.allowed);
      verdict.nans += tensor.nans;
      verdict.expectedNans += tensor.expectedNans;
    }
  }
  return verdict;
}

/** The larger error; NaN is worse than any number. */
function worse(one: number, other: number): number {
  return Number.isNaN(one) || Number.isNaN(other) ? Number.NaN : Math.max(one, other);
}
