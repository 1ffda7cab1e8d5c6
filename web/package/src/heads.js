// What each head does, in numbers.

import { absent, optional, options, queryOffset, refuse, tensor, texts, whole } from "./checks.js";
import { guarded } from "./errors.js";
import { load } from "./load.js";
import { headStatistics as statisticsOf } from "../wasm/multihead.js";

/** @import { HeadStatistics, StatisticsOptions } from "../types/heads.js" */
/** @import { TensorLike } from "../types/tensors.js" */

/**
 * @param {TensorLike} weights
 * @param {StatisticsOptions} [given]
 * @returns {Promise<readonly HeadStatistics[]>}
 */
export async function headStatistics(weights, given = {}) {
  const about = options("the options of headStatistics", given, ["batch", "numValid", "queryOffset", "tokens"]);
  const maps = tensor("weights", weights);
  const batch = absent(about.batch) ? 0 : whole("batch", about.batch, 0);
  const numValid = optional(about.numValid, (count) => whole("numValid", count, 0));
  const offset = queryOffset(about.queryOffset);
  const tokens = absent(about.tokens) ? [] : texts("tokens", about.tokens);
  checkTokens(tokens.length, maps.shape);
  await load();
  return guarded(() => statisticsOf(maps, batch, numValid, offset, tokens));
}

/**
 * A token for each key; the column that `bias_k` makes after all keys has none. No tokens at all say nothing.
 * @param {number} count
 * @param {Uint32Array} shape
 */
function checkTokens(count, shape) {
  const [, , , columns] = shape;
  if (columns !== undefined && count > 0 && count !== columns && count !== columns - 1) {
    refuse(`tokens has ${count} words, but the weights are those of ${columns} keys`);
  }
}
