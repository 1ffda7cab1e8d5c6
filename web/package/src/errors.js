// The one error class, and what becomes of whatever the wasm throws.

/** @import { ErrorCode } from "../types/errors.js" */

/** A sentence that says what to do, and a code for programs. */
export class MultiheadError extends Error {
  /**
   * @param {ErrorCode} code
   * @param {string} message
   * @param {{ need?: number, have?: number, limit?: string, unit?: string, cause?: unknown }} [about]
   */
  constructor(code, message, { cause, ...numbers } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "MultiheadError";
    this.code = code;
    Object.assign(this, numbers);
  }
}

/** The library's names of what options are called here. */
const NAMES = [
  ["num_heads", "numHeads"],
  ["num_kv_heads", "numKvHeads"],
  ["head_dim", "headDim"],
  ["num_hiddens", "numHiddens"],
  ["value_dim", "valueDim"],
  ["num_samples", "numSamples"],
  ["embedding_dim", "embeddingDim"],
  ["query_offset", "queryOffset"],
  ["valid_lens", "validLens"],
  ["attend_mask", "mask"],
];

/** A sentence of the library in the names of this package. */
function renamed(/** @type {string} */ sentence) {
  return NAMES.reduce((text, [from, to]) => text.replace(new RegExp(`\\b${from}\\b`, "g"), to), sentence);
}

/** Once the wasm has failed where it must not, nothing that it says can be trusted. */
let broken = /** @type {MultiheadError | undefined} */ (undefined);

/** How to end what waits for the wasm: a promise of what panicked is never settled by itself. */
const waiting = /** @type {Set<(fault: MultiheadError) => void>} */ (new Set());

/**
 * The wasm has come to its end: everything that waits for it, and everything that is asked for later, says so.
 * @param {string} said
 * @param {unknown} [cause]
 */
export function fallen(said, cause) {
  broken ??= internal(said, cause);
  waiting.forEach((reject) => reject(/** @type {MultiheadError} */ (broken)));
  waiting.clear();
  return broken;
}

function internal(/** @type {string} */ said, /** @type {unknown} */ cause) {
  const sentence = `the library failed where it must not (${said}); load the page again, and please report this`;
  return new MultiheadError("internal", sentence, { cause });
}

/**
 * What was thrown, as the error of this package.
 * @param {unknown} thrown
 * @param {(sentence: string) => string} [named] what becomes of the library's names: by default those of this package
 * @returns {MultiheadError}
 */
export function faultOf(thrown, named = renamed) {
  if (thrown instanceof MultiheadError) {
    return thrown;
  }
  if (isTold(thrown)) {
    const { code, message, ...numbers } = thrown;
    const given = Object.entries(numbers).filter(([, value]) => value !== null);
    return new MultiheadError(code, named(message), Object.fromEntries(given));
  }
  const said = thrown instanceof Error ? thrown.message : String(thrown);
  return thrown instanceof WebAssembly.RuntimeError ? fallen(said, thrown) : internal(said, thrown);
}

/**
 * Whether this is a fault as the wasm throws it.
 * @param {unknown} thrown
 * @returns {thrown is { code: ErrorCode, message: string, need: number | null, have: number | null }}
 */
function isTold(thrown) {
  return typeof thrown === "object" && thrown !== null && !(thrown instanceof Error) && "code" in thrown;
}

/** Refuses to go on after a fault of the library itself. */
export function checkSound() {
  if (broken) {
    throw broken;
  }
}

/**
 * Does something with the wasm; what it throws is a MultiheadError.
 * @template T
 * @param {() => T} work
 * @param {(sentence: string) => string} [named] see `faultOf`
 * @returns {T}
 */
export function guarded(work, named) {
  checkSound();
  try {
    return work();
  } catch (thrown) {
    throw faultOf(thrown, named);
  }
}

/** The names as a file has them. */
export function asInFile(/** @type {string} */ sentence) {
  return sentence;
}

/**
 * The same for what takes time.
 * @template T
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function guardedAsync(work) {
  checkSound();
  const { promise: end, reject } = withReject();
  waiting.add(reject);
  try {
    return await Promise.race([work(), end]);
  } catch (thrown) {
    throw faultOf(thrown);
  } finally {
    waiting.delete(reject);
  }
}

/** A promise that is never kept, and how to break it. */
function withReject() {
  /** @type {(fault: MultiheadError) => void} */
  let reject = () => {};
  const promise = /** @type {Promise<never>} */ (new Promise((_, no) => (reject = no)));
  return { promise, reject };
}
