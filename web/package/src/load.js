// Fetching and compiling the wasm, once.

import { isBuffer, refuse, shown } from "./checks.js";
import { fallen, MultiheadError } from "./errors.js";
import initialise, { onPanic } from "../wasm/multihead.js";

/** Where the wasm is, unless somebody says otherwise. */
const BESIDE = new URL("../wasm/multihead_bg.wasm", import.meta.url);

/** @typedef {string | URL | Response | BufferSource | WebAssembly.Module} Source */

/** What is under way or done, and of what; after a failure nothing. @type {{ place: Source, done: Promise<void> } | undefined} */
let loading;

/**
 * Fetches and compiles the wasm, unless that has been done.
 * @param {Source} [wasm] by default beside this module
 * @returns {Promise<void>}
 */
export async function load(wasm) {
  if (wasm !== undefined && !isSource(wasm)) {
    refuse(`the wasm is ${shown(wasm)}, but must be an address, a response, bytes, or a compiled module`);
  }
  const place = wasm ?? BESIDE;
  loading ??= { place, done: start(place).catch(failed) };
  if (wasm !== undefined && named(wasm) !== named(loading.place)) {
    refuse(
      "the wasm was loaded from elsewhere already, and is loaded once; say where it is before anything else is called",
    );
  }
  return loading.done;
}

/** Whether this can be wasm. */
function isSource(/** @type {unknown} */ wasm) {
  const kinds = [URL, Response, WebAssembly.Module];
  return (
    typeof wasm === "string" || isBuffer(wasm) || ArrayBuffer.isView(wasm) || kinds.some((kind) => wasm instanceof kind)
  );
}

/** An address as text, so that equal ones are the same. */
function named(/** @type {Source} */ place) {
  return place instanceof URL ? place.href : place;
}

/**
 * @param {unknown} cause
 * @returns {never}
 */
function failed(cause) {
  loading = undefined;
  const said = cause instanceof Error ? cause.message : String(cause);
  const sentence =
    `the library's wasm cannot be loaded (${said}); see that multihead_bg.wasm is served as application/wasm ` +
    "and that the page's policy allows 'wasm-unsafe-eval'";
  throw new MultiheadError("not-loaded", sentence, { cause });
}

async function start(/** @type {Source} */ place) {
  await initialise({ module_or_path: await readable(place) });
  onPanic(fallen);
}

/**
 * Node fetches no files; what a browser can fetch is left to it.
 * @param {Source} place
 */
async function readable(place) {
  if (!(place instanceof URL && place.protocol === "file:" && typeof process === "object")) {
    return place;
  }
  // A name that bundlers do not follow: browsers have no such module.
  const files = "node:fs/promises";
  return (await import(/* @vite-ignore */ /* webpackIgnore: true */ files)).readFile(place);
}
