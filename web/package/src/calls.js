// Calls as the wasm takes them: every property of its type, every number copied.

import {
  absent,
  axes,
  booleans,
  finite,
  flag,
  kindOf,
  lengths,
  listener,
  oneOf,
  optional,
  options,
  queryOffset,
  refuse,
  shown,
  tensor,
  texts,
  text,
  wholes,
  wide,
  windowWidth,
} from "./checks.js";
import { checkRoom } from "./room.js";

/** What says which keys a query may see, and what is read. */
export const INPUTS = [
  "query",
  "key",
  "value",
  "validLens",
  "mask",
  "bias",
  "causal",
  "queryOffset",
  "window",
  "training",
];
const SCALE = ["scale", "temperature"];
export const CALL = [...INPUTS, ...SCALE, "headScale", "preferredKernels", "fused"];
export const RUN = [...CALL, "returnWeights", "verify", "profile", "onProgress"];
export const BY_HEAD = [...INPUTS, ...SCALE, "counted"];
export const SHAPES = [...INPUTS, ...SCALE, "returnWeights", "preferredKernels", "fused"];
export const CASE = [...INPUTS, ...SCALE, "about", "tokens", "expected", "tolerance"];

/**
 * A call with its numbers.
 * @param {string} what
 * @param {unknown} given
 * @param {readonly string[]} known
 */
export function callOf(what, given, known) {
  const call = options(what, given, known);
  if (absent(call.query)) {
    refuse("query is missing; give { data, shape } with shape (B, Lq, E)");
  }
  checkRoom([call.query, call.key, call.value, call.bias, call.mask, call.validLens]);
  return {
    query: tensor("query", call.query),
    key: optional(call.key, (key) => tensor("key", key)),
    value: optional(call.value, (value) => tensor("value", value)),
    validLens: optional(call.validLens, (lens) => lengths("validLens", lens)),
    mask: optional(call.mask, (mask) => booleans("mask", mask)),
    bias: optional(call.bias, (bias) => tensor("bias", bias)),
    ...settingsOf(call),
  };
}

/**
 * A call of which only the shapes count: each may be that of a tensor.
 * @param {unknown} given
 */
export function shapesOf(given) {
  const call = options("the shapes of a call", given, SHAPES);
  if (absent(call.query)) {
    refuse("the shape of query is missing; give [B, Lq, E]");
  }
  const shapeOf = (/** @type {any} */ given) => given.shape ?? given;
  const shape = (/** @type {string} */ name) =>
    optional(call[name], (given) => ({ shape: axes(name, shapeOf(given)) }));
  const [query, key, value, validLens, mask, bias] = ["query", "key", "value", "validLens", "mask", "bias"].map(shape);
  return { query, key, value, validLens, mask, bias, ...settingsOf(call) };
}

/** Everything of a call that is no tensor. */
function settingsOf(/** @type {Record<string, any>} */ call) {
  const temperature = absent(call.temperature) ? 1 : finite("temperature", call.temperature);
  if (!(temperature > 0)) {
    refuse(`temperature is ${shown(temperature)}, but must be above 0`);
  }
  return {
    causal: flag("causal", call.causal),
    queryOffset: queryOffset(call.queryOffset),
    window: optional(call.window, windowWidth),
    training: optional(call.training, training),
    scale: optional(call.scale, (scale) => finite("scale", scale)),
    temperature,
    headScale: optional(call.headScale, headScale),
    preferredKernels: absent(call.preferredKernels) ? [] : texts("preferredKernels", call.preferredKernels),
    fused: absent(call.fused) ? "auto" : oneOf("fused", call.fused, ["auto", "on", "off"]),
    returnWeights: flag("returnWeights", call.returnWeights),
    profile: flag("profile", call.profile),
    onProgress: listener("onProgress", call.onProgress),
    counted: optional(call.counted, (counted) => Uint32Array.from(wholes("counted", counted, 0))),
  };
}

/** Which weights are dropped. */
function training(/** @type {unknown} */ given) {
  const { dropout, seed, step, returnsDropped } = options("training", given, [
    "dropout",
    "seed",
    "step",
    "returnsDropped",
  ]);
  const probability = finite("training.dropout", dropout);
  if (!(probability >= 0 && probability <= 1)) {
    refuse(`training.dropout is ${shown(probability)}, but must be between 0 and 1`);
  }
  const count = (/** @type {string} */ name, /** @type {unknown} */ number) =>
    absent(number) ? 0n : wide(`training.${name}`, number, 0n, 2n ** 64n - 1n);
  return {
    dropout: probability,
    seed: count("seed", seed),
    step: count("step", step),
    returnsDropped: flag("training.returnsDropped", returnsDropped),
  };
}

/** (H,), each finite. */
function headScale(/** @type {any} */ given) {
  if (!Array.isArray(given) && kindOf(given) !== "Float32Array" && kindOf(given) !== "Float64Array") {
    refuse(`headScale should be a list of numbers, but is ${shown(given)}`);
  }
  return Float32Array.from(Array.from(given, (factor, head) => finite(`headScale[${head}]`, factor)));
}

/**
 * What a case file says besides its call.
 * @param {Record<string, any>} given
 */
export function caseOf({ about, tokens, expected, tolerance }) {
  const { output, weights } = absent(expected) ? {} : /** @type {any} */ (expected);
  const lists = (/** @type {unknown} */ given) =>
    Array.isArray(given)
      ? given.map((list, entry) => texts(`tokens[${entry}]`, list))
      : refuse(`tokens should be a list of lists of strings, but is ${shown(given)}`);
  return {
    about: optional(about, (about) => text("about", about)),
    tokens: optional(tokens, (tokens) => JSON.stringify(lists(tokens))),
    tolerance: optional(tolerance, (tolerance) => finite("tolerance", tolerance)),
    expectedOutput: optional(output, (output) => tensor("the expected output", output)),
    expectedWeights: optional(weights, (weights) => tensor("the expected weights", weights)),
  };
}
