// Fetching and compiling the wasm, once.

import { MultiheadError } from "./errors.js";
import initialise from "../wasm/multihead.js";

/** What is under way or done; after a failure nothing. @type {Promise<void> | undefined} */
let loading;

/**
 * Fetches and compiles the wasm, unless that has been done.
 * @param {string | URL | Response | BufferSource | WebAssembly.Module} [wasm] by default beside this module
 * @returns {Promise<void>}
 */
export function load(wasm) {
  loading ??= start(wasm).catch((cause) => {
    loading = undefined;
    const said = cause instanceof Error ? cause.message : String(cause);
    const sentence =
      `the library's wasm cannot be loaded (${said}); see that multihead_bg.wasm is served as application/wasm ` +
      "and that the page's policy allows 'wasm-unsafe-eval'";
    throw new MultiheadError("not-loaded", sentence, { cause });
  });
  return loading;
}

/** @param {string | URL | Response | BufferSource | WebAssembly.Module} [wasm] */
async function start(wasm) {
  const place = wasm ?? new URL("../wasm/multihead_bg.wasm", import.meta.url);
  await initialise({ module_or_path: await readable(place) });
}

/**
 * Node fetches no files; what a browser can fetch is left to it.
 * @param {string | URL | Response | BufferSource | WebAssembly.Module} place
 */
async function readable(place) {
  if (!(place instanceof URL && place.protocol === "file:" && typeof process === "object")) {
    return place;
  }
  // A name that bundlers do not follow: browsers have no such module.
  const files = "node:fs/promises";
  return (await import(/* @vite-ignore */ /* webpackIgnore: true */ files)).readFile(place);
}
