// What JavaScript gives, as what the wasm takes: types are checked here, meanings there.

import { MultiheadError } from "./errors.js";

/** The largest axis, count or width that wasm knows. */
export const MOST = 0xffff_ffff;

/**
 * @param {string} message
 * @returns {never}
 */
export function refuse(message) {
  throw new MultiheadError("bad-input", message);
}

/** A value as a sentence shows it. */
export function shown(/** @type {unknown} */ value) {
  if (typeof value === "string") {
    return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  }
  if (typeof value === "object" && value !== null) {
    return Array.isArray(value) ? `a list of ${value.length}` : `an object (${value.constructor?.name ?? "Object"})`;
  }
  return typeof value === "function" ? "a function" : `${String(value)}${typeof value === "bigint" ? "n" : ""}`;
}

/**
 * @template T
 * @param {any} given
 * @param {(given: any) => T} made
 * @returns {T | undefined}
 */
export function optional(given, made) {
  return absent(given) ? undefined : made(given);
}

/**
 * An object with no property but these.
 * @param {string} what
 * @param {any} value
 * @param {readonly string[]} known
 * @returns {Record<string, any>}
 */
export function options(what, value, known) {
  if (typeof value !== "object" || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) {
    refuse(`${what} should be an object, but is ${shown(value)}`);
  }
  for (const name of Object.keys(value)) {
    if (!known.includes(name)) {
      refuse(`${what} has no property "${name}"; there are ${known.join(", ")}`);
    }
  }
  return value;
}

/** What was not given: undefined, or null. */
export function absent(/** @type {unknown} */ value) {
  return value === undefined || value === null;
}

/**
 * @param {string} what
 * @param {unknown} value
 * @param {number} least
 * @param {number} [most]
 * @returns {number}
 */
export function whole(what, value, least, most = MOST) {
  if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) {
    return value;
  }
  return refuse(`${what} is ${shown(value)}, but must be a whole number between ${least} and ${most}`);
}

/**
 * A whole number of 64 bits: a number as far as it has all of them, or a bigint.
 * @param {string} what
 * @param {unknown} value
 * @param {bigint} least
 * @param {bigint} most
 * @returns {bigint}
 */
export function wide(what, value, least, most) {
  if (typeof value === "bigint" && value >= least && value <= most) {
    return value;
  }
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) {
    return BigInt(value);
  }
  const safe = Number.MAX_SAFE_INTEGER;
  return refuse(
    `${what} is ${shown(value)}, but must be a whole number between ${least} and ${most}, a bigint beyond ±${safe}`,
  );
}

/**
 * Where the first query stands; 0 where nothing is said.
 * @param {unknown} value
 */
export function queryOffset(value) {
  return absent(value) ? 0n : wide("queryOffset", value, -(2n ** 63n), 2n ** 63n - 1n);
}

/**
 * How far a query sees.
 * @param {unknown} value
 */
export function windowWidth(value) {
  return wide("window", value, 1n, 2n ** 64n - 1n);
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {number}
 */
export function finite(what, value) {
  if (typeof value === "number" && Math.abs(value) <= 3.4028234663852886e38) {
    return value;
  }
  return refuse(`${what} is ${shown(value)}, but must be a finite 32-bit float`);
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {boolean}
 */
export function flag(what, value) {
  if (absent(value)) {
    return false;
  }
  return typeof value === "boolean" ? value : refuse(`${what} is ${shown(value)}, but must be true or false`);
}

/**
 * @param {string} what
 * @param {unknown} value
 * @returns {string}
 */
export function text(what, value) {
  return typeof value === "string" ? value : refuse(`${what} is ${shown(value)}, but must be a string`);
}

/**
 * A list of strings.
 * @param {string} what
 * @param {unknown} value
 * @returns {string[]}
 */
export function texts(what, value) {
  if (!Array.isArray(value)) {
    return refuse(`${what} should be a list of strings, but is ${shown(value)}`);
  }
  return value.map((one, place) => text(`${what}[${place}]`, one));
}

/**
 * @template {string} T
 * @param {string} what
 * @param {unknown} value
 * @param {readonly T[]} choices
 * @returns {T}
 */
export function oneOf(what, value, choices) {
  const found = choices.find((choice) => choice === value);
  return (
    found ?? refuse(`${what} is ${shown(value)}, but must be one of ${choices.map((name) => `"${name}"`).join(", ")}`)
  );
}

/**
 * A list of whole numbers, plain or typed.
 * @param {string} what
 * @param {any} value
 * @param {number} least
 * @param {number} [most]
 * @returns {number[]}
 */
export function wholes(what, value, least, most = MOST) {
  if (!Array.isArray(value) && !isTyped(value)) {
    refuse(`${what} should be a list of numbers, but is ${shown(value)}`);
  }
  return Array.from(value, (number, place) => whole(`${what}[${place}]`, number, least, most));
}

/**
 * The name of a typed array's kind, whichever window or worker it comes from.
 * @param {any} value
 * @returns {string | undefined}
 */
export function kindOf(value) {
  return isTyped(value) ? value[Symbol.toStringTag] : undefined;
}

/** Whether this is a typed array. */
function isTyped(/** @type {unknown} */ value) {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

/**
 * Axes as the wasm takes them.
 * @param {string} what
 * @param {unknown} value
 */
export function axes(what, value) {
  return Uint32Array.from(wholes(`the shape of ${what}`, value, 0));
}

/** Whether this is an ArrayBuffer of any window or worker. */
export function isBuffer(/** @type {any} */ value) {
  return (
    ["ArrayBuffer", "SharedArrayBuffer"].includes(value?.[Symbol.toStringTag]) && typeof value.byteLength === "number"
  );
}

/** Whether somebody transferred this buffer; not every browser says so by itself. */
function isDetached(/** @type {ArrayBufferLike} */ buffer) {
  try {
    new Uint8Array(buffer);
    return false;
  } catch {
    return true;
  }
}

/** A wasm's memory cannot hold more at once. */
const MOST_BYTES = 2 ** 31 - 1;

/**
 * The two halves of a tensor, its data of some kind, not detached and not too long.
 * @param {string} what
 * @param {any} value
 * @returns {{ data: any, shape: Uint32Array<ArrayBuffer> }}
 */
function halves(what, value) {
  const { data, shape } = options(what, value, ["data", "shape"]);
  if (!Array.isArray(data) && !isTyped(data)) {
    refuse(`the data of ${what} should be a typed array or a list, but is ${shown(data)}`);
  }
  if (isTyped(data) && isDetached(data.buffer)) {
    refuse(`the data of ${what} was given away: its buffer is detached; make the call before you transfer it`);
  }
  if (data.length * 8 > MOST_BYTES) {
    const [need, have] = [data.length, Math.floor(MOST_BYTES / 8)];
    const sentence = `${what} has ${need} numbers, but one tensor in wasm may have ${have}; give fewer batch entries`;
    const about = { need, have, limit: "one tensor in wasm", unit: "numbers" };
    throw new MultiheadError("limit-exceeded", sentence, about);
  }
  const sized = axes(what, shape);
  const length = sized.reduce((product, axis) => product * axis, 1);
  if (data.length !== length) {
    const shown = Array.from(sized).join(", ");
    refuse(`the data of ${what} has ${data.length} numbers, but its shape (${shown}) has room for ${length}`);
  }
  return { data, shape: sized };
}

/**
 * Numbers as f32, copied.
 * @param {string} what
 * @param {unknown} value
 */
export function tensor(what, value) {
  const { data, shape } = halves(what, value);
  if (!(Array.isArray(data) || kindOf(data) === "Float32Array" || kindOf(data) === "Float64Array")) {
    refuse(`the data of ${what} should be a Float32Array, a Float64Array or a list of numbers, but is ${shown(data)}`);
  }
  if (Array.isArray(data)) {
    const place = data.findIndex((number) => typeof number !== "number");
    if (place >= 0) {
      refuse(`the data of ${what} has ${shown(data[place])} at place ${place}, which is no number`);
    }
  }
  return { data: new Float32Array(data), shape };
}

/**
 * Lengths as whole doubles, copied; a list stands for (B,).
 * @param {string} what
 * @param {any} value
 */
export function lengths(what, value) {
  const given = Array.isArray(value) || isTyped(value) ? { data: value, shape: [value.length] } : value;
  const { data, shape } = halves(what, given);
  const number = (/** @type {unknown} */ length, /** @type {number} */ place) => {
    const plain = typeof length === "bigint" ? Number(length) : length;
    return whole(`${what}[${place}]`, plain, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  };
  return { data: Float64Array.from(Array.from(/** @type {ArrayLike<unknown>} */ (data), number)), shape };
}

/**
 * Truth values as bytes, copied.
 * @param {string} what
 * @param {unknown} value
 */
export function booleans(what, value) {
  const { data, shape } = halves(what, value);
  if (kindOf(data) === "Uint8Array" && data.every((/** @type {number} */ byte) => byte <= 1)) {
    return { data: new Uint8Array(data), shape };
  }
  if (!Array.isArray(data) && kindOf(data) !== "Uint8Array") {
    refuse(`the data of ${what} should be a Uint8Array or a list of truth values, but is ${shown(data)}`);
  }
  const byte = (/** @type {unknown} */ truth, /** @type {number} */ place) => {
    const known = truth === true || truth === 1 || truth === false || truth === 0;
    return known ? Number(truth) : refuse(`${what}[${place}] is ${shown(truth)}, but must be true or false, 1 or 0`);
  };
  return { data: Uint8Array.from(Array.from(/** @type {ArrayLike<unknown>} */ (data), byte)), shape };
}

/**
 * The bytes of a file, copied.
 * @param {string} what
 * @param {unknown} value
 * @returns {Uint8Array}
 */
export function bytes(what, value) {
  const given = /** @type {any} */ (value);
  const buffer = kindOf(given) === "Uint8Array" ? given.buffer : given;
  if (isBuffer(buffer) && !isDetached(buffer)) {
    return new Uint8Array(new Uint8Array(given));
  }
  return refuse(`${what} should be a Uint8Array or an ArrayBuffer that was not given away, but is ${shown(value)}`);
}

/** @typedef {((about: any) => void) & { fault?: MultiheadError }} Listener */

/**
 * A function that is called later and by itself, so that what it throws does not go through the wasm. What it threw
 * first is its `fault`, after which it is not called again.
 * @param {string} what
 * @param {unknown} value
 * @returns {Listener | undefined}
 */
export function listener(what, value) {
  if (absent(value)) {
    return undefined;
  }
  if (typeof value !== "function") {
    return refuse(`${what} is ${shown(value)}, but must be a function`);
  }
  const call = (/** @type {any} */ about) => {
    if (tell.fault) {
      return;
    }
    try {
      value(about);
    } catch (cause) {
      const said = cause instanceof Error ? cause.message : String(cause);
      tell.fault = new MultiheadError("bad-input", `${what} threw (${said}); see the cause of this error`, { cause });
    }
  };
  /** @type {Listener} */
  const tell = (about) => queueMicrotask(() => call(about));
  return tell;
}

/**
 * What the work gives, unless its listener threw.
 * @template T
 * @param {Listener | undefined} listener
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function heard(listener, work) {
  const done = await work();
  if (listener?.fault) {
    throw listener.fault;
  }
  return done;
}
