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

/**
 * What was thrown, as the error of this package.
 * @param {unknown} thrown
 * @returns {MultiheadError}
 */
export function faultOf(thrown) {
  if (thrown instanceof MultiheadError) {
    return thrown;
  }
  if (isTold(thrown)) {
    const { code, message, ...numbers } = thrown;
    const given = Object.entries(numbers).filter(([, value]) => value !== null);
    return new MultiheadError(code, renamed(message), Object.fromEntries(given));
  }
  const said = thrown instanceof Error ? thrown.message : String(thrown);
  const sentence = `the library failed where it must not (${said}); load the page again, and please report this`;
  const fault = new MultiheadError("internal", sentence, { cause: thrown });
  if (thrown instanceof WebAssembly.RuntimeError) {
    broken = fault;
  }
  return fault;
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
 * @returns {T}
 */
export function guarded(work) {
  checkSound();
  try {
    return work();
  } catch (thrown) {
    throw faultOf(thrown);
  }
}

/**
 * The same for what takes time.
 * @template T
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function guardedAsync(work) {
  checkSound();
  try {
    return await work();
  } catch (thrown) {
    throw faultOf(thrown);
  }
}
