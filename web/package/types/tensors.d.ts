// What goes in and what comes back: numbers with their axes.

/** Numbers with their axes, row-major. What comes back is always of this kind. */
export interface Tensor {
  readonly data: Float32Array;
  /** Sizes of the axes, outermost first; their product is `data.length`. */
  readonly shape: readonly number[];
}

/** What is taken for a tensor of numbers; it is copied when the call is made. */
export interface TensorLike {
  readonly data: Float32Array | Float64Array | readonly number[];
  readonly shape: readonly number[];
}

/** Whole numbers with their axes: lengths. */
export interface IntegersLike {
  readonly data:
    | Int8Array
    | Uint8Array
    | Int16Array
    | Uint16Array
    | Int32Array
    | Uint32Array
    | BigInt64Array
    | BigUint64Array
    | readonly number[];
  readonly shape: readonly number[];
}

/** Truth values with their axes: 0 or false, 1 or true. */
export interface BooleansLike {
  readonly data: Uint8Array | readonly (boolean | 0 | 1)[];
  readonly shape: readonly number[];
}
