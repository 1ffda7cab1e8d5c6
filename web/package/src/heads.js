// What each head does, in numbers.

import { absent, options, tensor, whole } from "./checks.js";
import { names, optional } from "./calls.js";
import { guarded } from "./errors.js";
import { load } from "./load.js";
import { headStatistics as statisticsOf } from "../wasm/multihead.js";

/** @import { HeadStatistics, StatisticsOptions, TensorLike } from "../index.js" */

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
  const safe = Number.MAX_SAFE_INTEGER;
  const queryOffset = absent(about.queryOffset) ? 0 : whole("queryOffset", about.queryOffset, -safe, safe);
  const tokens = absent(about.tokens) ? [] : names("tokens", about.tokens);
  await load();
  return guarded(() => statisticsOf(maps, batch, numValid, queryOffset, tokens));
}
