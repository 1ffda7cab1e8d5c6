// What each head does, in numbers.

import type { TensorLike } from "./tensors.js";

export type Pattern = "previous" | "next" | "self" | "first" | "separator" | "broad";

/** What one head does, averaged over the queries that count. Means are NaN where nothing counts. */
export interface HeadStatistics {
  readonly head: number;
  readonly numCounted: number;
  /** Mean entropy of a row in bits: 0 = one key gets everything, log₂ n = n keys share equally. */
  readonly entropyBits: number;
  /** Mean of 2^entropy, in keys. */
  readonly effectiveKeys: number;
  /** Mean distance that attention goes, in tokens. */
  readonly meanDistance: number;
  readonly shareOnSelf: number;
  readonly shareOnPrevious: number;
  readonly shareOnNext: number;
  readonly shareOnFirst: number;
  /** NaN where no token is a separator. */
  readonly shareOnSeparator: number;
  /** The largest weight; null where no query counts. */
  readonly strongest: { readonly query: number; readonly key: number; readonly weight: number } | null;
  /** The named pattern that the map is nearest to, and how near, from 0 to 1. */
  readonly pattern: Pattern | null;
  readonly patternScore: number;
  /** How much of the map each pattern is. */
  readonly patternScores: Readonly<Record<Pattern, number>>;
  /** Links between labelled words, where the tokens are one of the labelled sentences. */
  readonly links: readonly LabelledLink[];
}

/** One link of the kind "it → trophy, not suitcase", and what a head gives it. */
export interface LabelledLink {
  readonly relation: "pronoun-to-antecedent" | "verb-to-subject" | "preposition-to-object";
  /** Places among the tokens. */
  readonly from: number;
  readonly to: number;
  readonly rival: number;
  readonly share: number;
  readonly rivalShare: number;
  /** Whether, of all other words, the right one gets most. */
  readonly found: boolean;
}

export interface StatisticsOptions {
  /** Which batch entry; default 0. */
  batch?: number;
  /** Only the first so many queries count. By default those before the first "[PAD]", else all. */
  numValid?: number;
  /** Query i stands at position i + `queryOffset`. */
  queryOffset?: number | bigint;
  /**
   * The tokens of the keys, all but the column of a `bias_k`: which of them are separators, and which words are
   * labelled. An empty list is none.
   */
  tokens?: readonly string[];
}

/** Statistics of every head; `weights` has shape (B, H, Lq, Lk). */
export function headStatistics(weights: TensorLike, options?: StatisticsOptions): Promise<readonly HeadStatistics[]>;
