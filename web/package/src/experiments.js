// The experiments of `multihead experiment`: the same Rust.

import { finite, heard, listener, MOST, optional, options, text, whole, wholes } from "./checks.js";
import { deviceOf } from "./device.js";
import { guardedAsync } from "./errors.js";
import { load } from "./load.js";
import * as wasm from "../wasm/multihead.js";

/** @import { Place } from "../wasm/multihead.js" */

/**
 * @param {string} name
 * @param {unknown} given
 * @param {readonly string[]} own
 * @param {(place: Place, about: Record<string, any>) => Promise<any>} run
 */
async function experiment(name, given, own, run) {
  const about = options(`the options of ${name}`, given, ["device", ...own]);
  await load();
  const device = await deviceOf(about.device, undefined);
  const report = await guardedAsync(() => run(device.place(), about));
  device.checkAlive();
  return camelCased(report);
}

/**
 * The names that Rust gives its fields, as JavaScript's; tensors and text stay what they are.
 * @returns {any}
 */
function camelCased(/** @type {any} */ value) {
  if (Array.isArray(value)) {
    return value.map(camelCased);
  }
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) {
    return value;
  }
  const renamed = (/** @type {string} */ name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [renamed(name), camelCased(inner)]));
}

/** A whole number; what is absent is as in the program. */
function count(/** @type {string} */ name, /** @type {any} */ about, most = MOST) {
  return optional(about[name], (given) => whole(name, given, 0, most));
}

/** Some whole numbers, likewise. */
function counts(/** @type {string} */ name, /** @type {any} */ about) {
  return optional(about[name], (given) => Uint32Array.from(wholes(name, given, 0)));
}

const seedOf = (/** @type {any} */ about) => count("seed", about, Number.MAX_SAFE_INTEGER);

/** One head cannot report two values, whatever its weights; two heads can. */
export async function copyBoth(/** @type {any} */ given = {}) {
  return experiment("copyBoth", given, ["numSamples", "valueDim", "seed", "onProgress"], (place, about) => {
    const tell = listener("onProgress", about.onProgress);
    const sizes = [count("numSamples", about), count("valueDim", about)];
    return heard(tell, () => wasm.copyBoth(place, sizes[0], sizes[1], seedOf(about), tell));
  });
}

/** Letters of one word attend to letters of another. */
export async function alignment(/** @type {any} */ given = {}) {
  return experiment("alignment", given, ["query", "key", "embeddingDim", "sharpness", "seed"], (place, about) => {
    const word = (/** @type {string} */ name) => optional(about[name], (given) => text(name, given));
    const sharpness = optional(about.sharpness, (given) => finite("sharpness", given));
    return wasm.alignment(place, word("query"), word("key"), count("embeddingDim", about), sharpness, seedOf(about));
  });
}

/** What more heads cost: no parameters and no matrix products, but exponentials. */
export async function headsAreFree(/** @type {any} */ given = {}) {
  return experiment(
    "headsAreFree",
    given,
    ["numHiddens", "heads", "numTokens", "runs", "onProgress"],
    (place, about) => {
      const tell = listener("onProgress", about.onProgress);
      const [widths, heads] = [counts("numHiddens", about), counts("heads", about)];
      const [numTokens, runs] = [count("numTokens", about), count("runs", about)];
      return heard(tell, () => wasm.headsAreFree(place, widths, heads, numTokens, runs, tell));
    },
  );
}

/** Every shape of a call: the reshape trick of D2L §10.3.2. */
export async function shapes(/** @type {any} */ given = {}) {
  return experiment("shapes", given, ["numHiddens", "numHeads"], (place, about) =>
    wasm.shapes(place, count("numHiddens", about), count("numHeads", about)),
  );
}
