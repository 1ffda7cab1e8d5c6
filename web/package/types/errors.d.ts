// What goes wrong.

/** What kind of thing went wrong. */
export type ErrorCode =
  /** The browser has no WebGPU (`navigator.gpu` is undefined). */
  | "no-webgpu"
  /** The page came over plain HTTP from another machine; browsers give WebGPU to secure contexts alone. */
  | "insecure-context"
  /** There is WebGPU, but no adapter that it may use, or none that gives a device. */
  | "no-adapter"
  /** The device went away; its results are not to be trusted. Create a new `Device`. */
  | "device-lost"
  /** The work needs more than the device, or the memory of wasm, has: see `need`, `have` and `limit`. */
  | "limit-exceeded"
  /** Arguments or a file that contradict themselves or each other. */
  | "bad-input"
  /** The driver, or WebGPU's validation, refused an object. */
  | "gpu-refused"
  /** The object was freed. */
  | "freed"
  /** The library's wasm could not be fetched or compiled. */
  | "not-loaded"
  /** A fault of this library. What else it computed may be wrong: load the page again, and report it. */
  | "internal";

/** The one error of this package: a sentence that says what to do, and a code for programs. */
export class MultiheadError extends Error {
  readonly name: "MultiheadError";
  readonly code: ErrorCode;
  /** For `limit-exceeded`: how much is needed. */
  readonly need?: number;
  /** For `limit-exceeded`: how much there is. */
  readonly have?: number;
  /** For `limit-exceeded`: which limit. */
  readonly limit?: string;
  /** For `limit-exceeded`: what is counted, for instance "bytes". */
  readonly unit?: string;
}
