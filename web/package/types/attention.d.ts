// A layer, and what can be asked of it.

import type { ByHead, ByHeadOptions } from "./byHead.js";
import type { AttentionInputs, AttentionResult, CallOptions, RunOptions } from "./call.js";
import type { CaseOptions, OpenedCase } from "./cases.js";
import type { Backend, Device } from "./device.js";
import type { CallShape, Explanation } from "./graph.js";
import type { Tensor, TensorLike } from "./tensors.js";
import type { Comparison, Verification } from "./verification.js";

/** The projections, stored (out, in): y = x·Wᵀ + b. */
export interface Projections {
  /** (H·d, E). */
  W_q: TensorLike;
  /** (G·d, width of the keys). */
  W_k: TensorLike;
  /** (G·dv, width of the values). */
  W_v: TensorLike;
  /** (E, H·dv). */
  W_o: TensorLike;
  /** (H·d,). */
  b_q?: TensorLike;
  /** (G·d,). */
  b_k?: TensorLike;
  /** (G·dv,). */
  b_v?: TensorLike;
  /** (E,). */
  b_o?: TensorLike;
  /** (1, 1, G·d): one more key, after all others, that every query sees. Comes with `bias_v`. */
  bias_k?: TensorLike;
  /** (1, 1, G·dv). */
  bias_v?: TensorLike;
}

export interface AttentionOptions {
  /** H, at least 1. */
  numHeads: number;
  /** G, which divides H. By default what the weights say, else H. */
  numKvHeads?: number;
  /** d. By default what the weights say, else E / H. */
  headDim?: number;
  /** What scores are multiplied with; by default 1/√d. Any finite number, 0 and negative ones too. */
  scale?: number;
  /**
   * The projections, or the bytes of a `.safetensors` file that has them in D2L's, PyTorch's, BERT's, Llama's or
   * GPT-2's layout; without, core attention: query, key and value are used as projected heads side by side.
   */
  weights?: Projections | Uint8Array | ArrayBuffer;
  /** Where the names of the weights begin in the file: `"encoder.layer.3."`. */
  prefix?: string;
  /** Where to compute; by default a device that all attentions share. */
  device?: Device | GPUDevice;
  /** Which default device to share; not together with `device`. Default "auto". */
  backend?: Backend;
}

/** A layer of multi-head attention on a device. */
export class Attention {
  private constructor();
  /** Makes a layer. The weights are copied. */
  static create(options: AttentionOptions): Promise<Attention>;
  /** Opens a case file (`.safetensors` with the metadata key `attention`) from its bytes. */
  static fromCase(
    bytes: Uint8Array | ArrayBuffer,
    options?: { device?: Device | GPUDevice; backend?: Backend },
  ): Promise<OpenedCase>;

  readonly device: Device;
  readonly numHeads: number;
  /** Whether there are projections. */
  readonly hasProjections: boolean;

  /**
   * Computes one call. Inputs are copied when it is made; calls that overlap are worked off one after the other, in
   * order. A call with shapes and masks of kinds seen before compiles nothing.
   */
  run(options: RunOptions): Promise<AttentionResult>;
  /**
   * Holds an answer of `run` against the CPU reference, computed here in wasm: once in 64-bit floats, the truth, and
   * once in 32-bit floats, to see which error is fair. Takes its time on large calls, on the thread that asks.
   */
  verify(
    answer: { output: TensorLike; weights?: TensorLike | null },
    options: AttentionInputs & CallOptions,
  ): Promise<Verification>;
  /** Computes one call together with what each head adds to its output. */
  runByHead(options: ByHeadOptions): Promise<ByHead>;
  /** The reference on the CPU, in 64-bit floats rounded once at the end: the truth that `verify` measures against. */
  reference(options: AttentionInputs & CallOptions): Promise<{ readonly output: Tensor; readonly weights: Tensor }>;
  /**
   * What a call of these shapes would do on this device, or on the portable profile where the CPU computes. The inputs
   * of a call will do for their shapes.
   */
  explain(shape: CallShape): Promise<Explanation>;
  /** Holds an answer against an expected one, elementwise: |got − expected| ≤ tolerance · (1 + |expected|). */
  static compare(
    got: { output: TensorLike; weights?: TensorLike | null },
    expected: { output?: TensorLike | null; weights?: TensorLike | null },
    tolerance?: number,
  ): Promise<Comparison | null>;
  /** The bytes of a case file of this layer with these inputs. */
  toCase(options: CaseOptions): Promise<Uint8Array>;
  /** Gives the memory back, on the host and on the device. Idempotent; waits for nobody. */
  free(): void;
  [Symbol.dispose](): void;
}
