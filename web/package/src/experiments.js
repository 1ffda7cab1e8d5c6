// The experiments of `multihead experiment`: the same Rust.

import { absent, finite, listener, MOST, options, text, whole, wholes } from "./checks.js";
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

/** A whole number or what stands for it. */
function orElse(/** @type {string} */ name, /** @type {any} */ about, /** @type {number} */ usual, most = MOST) {
  return absent(about[name]) ? usual : whole(name, about[name], 0, most);
}

const seedOf = (/** @type {any} */ about) => orElse("seed", about, 0, Number.MAX_SAFE_INTEGER);

/** One head cannot report two values, whatever its weights; two heads can. */
export async function copyBoth(/** @type {any} */ given = {}) {
  return experiment("copyBoth", given, ["numSamples", "valueDim", "seed", "onProgress"], (place, about) =>
    wasm.copyBoth(
      place,
      orElse("numSamples", about, 65_536),
      orElse("valueDim", about, 16),
      seedOf(about),
      listener("onProgress", about.onProgress),
    ),
  );
}

/** Letters of one word attend to letters of another. */
export async function alignment(/** @type {any} */ given = {}) {
  return experiment("alignment", given, ["query", "key", "embeddingDim", "sharpness", "seed"], (place, about) =>
    wasm.alignment(
      place,
      absent(about.query) ? "attention" : text("query", about.query),
      absent(about.key) ? "translation" : text("key", about.key),
      orElse("embeddingDim", about, 1024),
      absent(about.sharpness) ? 10 : finite("sharpness", about.sharpness),
      seedOf(about),
    ),
  );
}

/** What more heads cost: no parameters and no matrix products, but exponentials. */
export async function headsAreFree(/** @type {any} */ given = {}) {
  return experiment("headsAreFree", given, ["numHiddens", "heads", "numTokens", "runs", "onProgress"], (place, about) =>
    wasm.headsAreFree(
      place,
      Uint32Array.from(absent(about.numHiddens) ? [256] : wholes("numHiddens", about.numHiddens, 0)),
      Uint32Array.from(absent(about.heads) ? [1, 2, 4, 8] : wholes("heads", about.heads, 0)),
      orElse("numTokens", about, 64),
      orElse("runs", about, 5),
      listener("onProgress", about.onProgress),
    ),
  );
}

/** Every shape of a call: the reshape trick of D2L §10.3.2. */
export async function shapes(/** @type {any} */ given = {}) {
  return experiment("shapes", given, ["numHiddens", "numHeads"], (place, about) =>
    wasm.shapes(place, orElse("numHiddens", about, 100), orElse("numHeads", about, 5)),
  );
}
