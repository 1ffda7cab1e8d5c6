/**
 * Multi-head attention on the browser's GPU: softmax(scale · Q·Kᵀ + bias)·V for all heads at once, through WebGPU, or on
 * the CPU by the very code that the GPU is tested against.
 *
 * ```js
 * import { Attention } from "multihead";
 *
 * const attention = await Attention.create({ numHeads: 12, weights: { W_q, W_k, W_v, W_o } });
 * const { output, weights, timing } = await attention.run({ query, causal: true, returnWeights: true });
 * ```
 *
 * Letters in shapes: B batch entries, Lq queries, Lk keys, E width of queries and of the output, H query heads, G
 * key/value heads, d width of a query or key head, dv width of a value head. Everything is row-major and computed in
 * 32-bit floats. Whatever goes wrong is a {@link MultiheadError}; after one, every object goes on working.
 */

// ---------------------------------------------------------------------------------------------------- tensors

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
    | readonly number[];
  readonly shape: readonly number[];
}

/** Truth values with their axes: 0 or false, 1 or true. */
export interface BooleansLike {
  readonly data: Uint8Array | readonly (boolean | 0 | 1)[];
  readonly shape: readonly number[];
}

// ---------------------------------------------------------------------------------------------------- errors

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

// ---------------------------------------------------------------------------------------------------- devices

/** Where to compute: the GPU and without one the CPU; the GPU or an error; the CPU. */
export type Backend = "auto" | "webgpu" | "cpu";

/** What is known of the place that computes. */
export interface DeviceInfo {
  /** The adapter's name; browsers often keep it to themselves ("unnamed adapter"). "cpu" for the CPU path. */
  readonly name: string;
  /** How it is reached. */
  readonly backend: "webgpu" | "cpu";
  /** What WebGPU says of the hardware; empty strings where it says nothing. */
  readonly vendor: string;
  readonly architecture: string;
  /** Whether shaders run on the CPU (SwiftShader, lavapipe, WARP), or the CPU path computes. */
  readonly software: boolean;
  /** A plain sentence where something deserves one: a software adapter, or the reason why the CPU computes. */
  readonly warning: string | null;
  /** Why there is no GPU; only for `backend: "auto"` that came to the CPU. */
  readonly fallback: { readonly code: ErrorCode; readonly message: string } | null;
  /** Whether the device takes times of its own, so that a profile is exact. */
  readonly timestamps: boolean;
  /** Smallest and largest subgroup, 0 where unknown. wgpu cannot use subgroups in browsers. */
  readonly subgroup: readonly [number, number];
  /** The device's WebGPU features. */
  readonly features: readonly string[];
  /** The device's WebGPU limits. */
  readonly limits: Readonly<Record<string, number>>;
}

/** What `Device.probe` found, without opening a device. */
export interface Probe {
  /** Whether `Device.open({ backend: "webgpu" })` can be expected to work. */
  readonly webgpu: boolean;
  /** Why not: "no-webgpu", "insecure-context", "no-adapter". */
  readonly code: ErrorCode | null;
  /** The same as a sentence for a person. */
  readonly message: string | null;
  /** Of the adapter that there is. */
  readonly adapter: { readonly name: string; readonly vendor: string; readonly architecture: string; readonly software: boolean } | null;
}

/** How a device ended. */
export interface DeviceLost {
  /** "destroyed" where somebody asked for it, else "unknown". */
  readonly reason: "destroyed" | "unknown";
  readonly message: string;
}

export interface DeviceOptions {
  /** Default "auto". */
  backend?: Backend;
  /** A device of the page's own. It is used and never destroyed; nothing is installed on it. */
  gpu?: GPUDevice;
}

/** A place to compute, shared by as many attentions as you like; kernels are compiled once for each. */
export class Device {
  private constructor();
  /**
   * Opens a device. With "auto" this fails only for bad options: without a GPU, the CPU computes and `info.fallback`
   * says why.
   */
  static open(options?: DeviceOptions): Promise<Device>;
  /** Whether there is WebGPU, and if not, why. Never fails. */
  static probe(): Promise<Probe>;
  readonly info: DeviceInfo;
  /** The WebGPU device; null on the CPU. `gpu.destroy()` provokes a loss. */
  readonly gpu: GPUDevice | null;
  /** Resolves when the device is lost, as `GPUDevice.lost` does; never on the CPU. */
  readonly lost: Promise<DeviceLost>;
  /** Whether the device is lost. */
  readonly isLost: boolean;
  /** Names of the kernels that this package can run in a browser, by op: `{ matmul: [...], softmax: [...], … }`. */
  kernels(): Readonly<Record<string, readonly string[]>>;
  /**
   * Gives the memory back; a device that this package opened is destroyed, and lost to the attentions on it. Idempotent.
   */
  free(): void;
  [Symbol.dispose](): void;
}

// ---------------------------------------------------------------------------------------------------- attention

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
   * The projections, or the bytes of a `.safetensors` file that has them in D2L's, PyTorch's, BERT's, Llama's or GPT-2's
   * layout; without, core attention: query, key and value are used as projected heads side by side.
   */
  weights?: Projections | Uint8Array | ArrayBuffer;
  /** Where the names of the weights begin in the file: `"encoder.layer.3."`. */
  prefix?: string;
  /** Where to compute; by default a device that all attentions share. */
  device?: Device | GPUDevice;
  /** Which default device to share; not together with `device`. Default "auto". */
  backend?: Backend;
}

/**
 * That a call is one of training: each weight is zero with probability `dropout` and otherwise multiplied with
 * 1 / (1 − dropout). What is dropped follows from seed, step and place alone, the same on every device.
 */
export interface Training {
  /** 0 to 1. */
  readonly dropout: number;
  /** A whole number from 0 on; default 0. */
  readonly seed?: number;
  /** A whole number from 0 on: each step of training has a pattern of its own. Default 0. */
  readonly step?: number;
  /** Whether weights that come back are those after dropout. Default false: those before, which sum to 1. */
  readonly returnsDropped?: boolean;
}

/** Which keys a query may see, and what is read. A key is visible when everything given lets it through. */
export interface AttentionInputs {
  /** (B, Lq, E). */
  query: TensorLike;
  /** (B, Lk, width of the keys); by default the query: self-attention. */
  key?: TensorLike | null;
  /** (B, Lk, width of the values); by default the key. */
  value?: TensorLike | null;
  /** (B,) or (B, Lq): key j is visible when j < length. A plain list of numbers is (B,). */
  validLens?: IntegersLike | Int32Array | Uint32Array | readonly number[] | null;
  /** true = may attend. (Lq, Lk), (B, Lq, Lk), (1|B, 1|H, Lq, Lk). */
  mask?: BooleansLike | null;
  /** Added to the scaled score, in the shapes of `mask`. −Infinity hides the key; a finite value never does. */
  bias?: TensorLike | null;
  /** Query i stands at position i + `queryOffset` and sees keys up to there. Default false. */
  causal?: boolean;
  /** Any whole number; default 0. */
  queryOffset?: number;
  /** Key j is visible when |j − position| < window; at least 1. */
  window?: number | null;
  /** Which weights are dropped; default none: evaluation. */
  training?: Training | null;
}

export interface CallOptions {
  /** Instead of the attention's own scale. */
  scale?: number;
  /** Divides the scale; above 0. Default 1: above, attention spreads; below, it sharpens. */
  temperature?: number;
  /** What each head's part of the output is multiplied with, (H,): 0 switches a head off. Default all 1. */
  headScale?: Float32Array | readonly number[] | null;
  /** Names of kernels to take wherever they apply, instead of those that suit the device: for comparisons. */
  preferredKernels?: readonly string[];
  /** Whether attention streams over the keys without storing scores; default "auto", where that gains. */
  fused?: "auto" | "on" | "off";
}

export interface RunOptions extends AttentionInputs, CallOptions {
  /** Whether the attention weights come back. Default false. */
  returnWeights?: boolean;
  /** Whether the answer is held against the reference before it is given, as {@link Attention.verify} does. Default false. */
  verify?: boolean;
  /** Whether each dispatch is timed. Dispatches then do not overlap. Default false. */
  profile?: boolean;
  /** Called after each part of about 100 ms. */
  onProgress?: (progress: Progress) => void;
}

/** How far something has come. */
export interface Progress {
  readonly done: number;
  /** More than 0. */
  readonly total: number;
}

/** Wall time in milliseconds. */
export interface Timing {
  /** Choosing kernels, making buffers and pipelines, uploading parameters; 0 where the same call was compiled before. */
  readonly compile: number;
  /** Handing the inputs to the queue. */
  readonly upload: number;
  /** From recording to the last byte in a readable buffer; on the CPU, everything. */
  readonly gpu: number;
  /** Copying out of that buffer. */
  readonly readback: number;
}

/** What one dispatch took. */
export interface ProfileStep {
  readonly op: string;
  readonly kernel: string;
  readonly output: string;
  readonly flops: number;
  /** Milliseconds from the beginning of the first dispatch on. */
  readonly start: number;
  /** Milliseconds. */
  readonly took: number;
  /** 10⁹ operations a second; null where it has no product or took no time that the clock would notice. */
  readonly gflops: number | null;
}

export interface Profile {
  /** "device": the GPU's own timestamps; "host": wall time, each dispatch submitted alone. */
  readonly clock: "device" | "host";
  readonly steps: readonly ProfileStep[];
}

export interface AttentionResult {
  /** (B, Lq, E), or (B, Lq, H·dv) without projections. A query that sees no key gives the output's bias, or zeros. */
  readonly output: Tensor;
  /** (B, H, Lq, Lk), Lk + 1 columns with `bias_k`; only with `returnWeights`. Rows sum to 1, or are zeros. */
  readonly weights?: Tensor;
  readonly timing: Timing;
  /** How many dispatches were recorded. */
  readonly dispatches: number;
  /** Whether attention streamed: no score was ever stored. */
  readonly streamed: boolean;
  /** Only with `profile`. */
  readonly profile?: Profile;
  /** Only with `verify`. */
  readonly verification?: Verification;
}

/** One tensor against the reference in 64-bit floats. */
export interface TensorVerification {
  /** Largest |got − truth|; NaN where one of the two is NaN and the other is not. */
  readonly maxError: number;
  /** What plain 32-bit arithmetic on the CPU is off by, largest difference. */
  readonly referenceError: number;
  /** What is allowed: 4 · referenceError + 2⁻²⁰ · largest |truth|. */
  readonly allowed: number;
  /** Whether `maxError` is within `allowed`. */
  readonly ok: boolean;
  /** NaN among what was computed, and among the truth. */
  readonly nans: number;
  readonly expectedNans: number;
  /** Where the largest error is, axis by axis; null where there are no numbers. */
  readonly worst: readonly number[] | null;
}

/** An answer against the CPU reference. */
export interface Verification {
  readonly ok: boolean;
  /** The larger one of output and weights. */
  readonly maxError: number;
  /** NaN in all that was computed. */
  readonly nans: number;
  readonly output: TensorVerification;
  /** Where the weights came back. */
  readonly weights: TensorVerification | null;
  /** Largest error of each head's weights, over all batch entries: (H,); null where the weights did not come back. */
  readonly heads: readonly number[] | null;
  /** Milliseconds that the reference took. */
  readonly took: number;
}

/** How far an output moved. */
export interface Change {
  /** ‖o′ − o‖ / ‖o‖: 0 = nothing happened. */
  readonly relative: number;
  /** The cosine of the angle between o and o′. */
  readonly cosine: number;
}

export interface PruningStep extends Change {
  /** The head that is switched off in this step, with all of the steps before. */
  readonly head: number;
}

/** An output, and the parts that it is the sum of: what heads can be switched off in without computing again. */
export class ByHead {
  private constructor();
  /** As in a result; every head on. */
  readonly output: Tensor;
  /** (B, H, Lq, Lk). */
  readonly weights: Tensor;
  /** (B, H, Lq, E): what each head adds to the output; (B, H, Lq, dv) without projections. */
  readonly contributions: Tensor;
  /** Whether contributions are summed (there is a W_o) or stand side by side in the output. */
  readonly summed: boolean;
  readonly numHeads: number;
  /** What switching these heads off does to the output, exactly, over all rows that count. */
  without(heads: readonly number[]): Change;
  /** The output (B, Lq, E) without these heads. */
  outputWithout(heads: readonly number[]): Tensor;
  /** What switching each head off alone does: (H,). */
  withoutEach(): readonly Change[];
  /** All heads in the greedy order: next goes whichever leaves the output nearest to what it was with all. */
  pruningOrder(): readonly PruningStep[];
  free(): void;
  [Symbol.dispose](): void;
}

export interface ByHeadOptions extends AttentionInputs {
  scale?: number;
  temperature?: number;
  /**
   * How many rows of each batch entry count, (B,). By default the valid lengths where they are (B,) and a sequence
   * attends to itself, else all.
   */
  counted?: readonly number[];
}

/** Shapes instead of numbers: what decides the dispatch graph. */
export interface CallShape {
  query: readonly number[];
  key?: readonly number[] | null;
  value?: readonly number[] | null;
  validLens?: readonly number[] | null;
  mask?: readonly number[] | null;
  bias?: readonly number[] | null;
  causal?: boolean;
  queryOffset?: number;
  window?: number | null;
  /** Of it only whether there is one, and `returnsDropped`, decide the graph. */
  training?: Training | null;
  scale?: number;
  temperature?: number;
  returnWeights?: boolean;
  preferredKernels?: readonly string[];
  fused?: "auto" | "on" | "off";
}

/** A tensor of the graph. */
export interface GraphValue {
  /** Its index in `values`; edges are such indices. */
  readonly id: number;
  /** "query", "W_q", "scores", "output"… */
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: "f32" | "u32" | "bool" | "f16";
  readonly bytes: number;
  /** Given with every run, given once, or computed. */
  readonly source: "input" | "parameter" | "node";
  /** The index of the node that computes it. */
  readonly node: number | null;
  readonly isOutput: boolean;
}

/** An operation of the graph. */
export interface GraphNode {
  readonly id: number;
  /** "matmul", "transpose_qkv", "softmax", "attention"… */
  readonly op: string;
  /** "query · W_qᵀ + b_q". */
  readonly formula: string;
  /** Ids of the values it reads. */
  readonly inputs: readonly number[];
  /** Id of the value it writes. */
  readonly output: number;
  /** Operations of its matrix products, a multiplication and an addition counted as two. */
  readonly flops: number;
  /** Bytes it reads and writes. */
  readonly bytes: number;
  /** Computed once, when the call is compiled: packed weights. */
  readonly once: boolean;
}

export interface Graph {
  readonly values: readonly GraphValue[];
  readonly nodes: readonly GraphNode[];
  readonly flops: number;
  readonly bytes: number;
  /** Elements of all parameters. */
  readonly parameters: number;
}

/** One dispatch. */
export interface DispatchStep {
  /** The node of the rewritten graph that it is (a part of). */
  readonly node: number;
  readonly op: string;
  /** The kernel variant: the name of a file in shaders/. */
  readonly kernel: string;
  readonly inputs: readonly string[];
  readonly output: string;
  /** (batch, rows, columns) of what it works on. */
  readonly shape: readonly [number, number, number];
  readonly workgroups: readonly [number, number, number];
  readonly flops: number;
}

/** The dispatch graph as data: what is computed, what it was rewritten to, and how the device works it off. */
export interface Explanation {
  /** As it is built: D2L §10.3 op by op. */
  readonly graph: Graph;
  /** As it is computed. */
  readonly rewritten: Graph;
  /** What rewriting did. */
  readonly rewriting: {
    /** Projections of one input that became one product of packed weights. */
    readonly packed: boolean;
    /** Scores, softmax and the product with the values that became one streaming op. */
    readonly streams: boolean;
    readonly nodesBefore: number;
    readonly nodesAfter: number;
  };
  readonly steps: readonly DispatchStep[];
  /** Bytes of all buffers alive at once. */
  readonly peakBytes: number;
  /** The graph as `multihead plan` prints it. */
  readonly text: string;
  /** Heads and widths. */
  readonly sizes: {
    readonly numHeads: number;
    readonly numKvHeads: number;
    readonly headDim: number;
    readonly valueDim: number;
    readonly scale: number;
  };
}

/** What a case file says besides its tensors; see the file format in the repository's README. */
export interface CaseSettings {
  readonly num_heads?: number;
  readonly num_kv_heads?: number;
  readonly head_dim?: number;
  readonly causal?: boolean;
  readonly query_offset?: number;
  readonly window?: number;
  readonly scale?: number;
  readonly prefix?: string;
  readonly tolerance?: number;
  readonly dropout?: number;
  readonly seed?: number;
}

/** A case file, opened: an attention, what to run it with, and what should come out. */
export interface OpenedCase {
  readonly attention: Attention;
  /** To be given to `attention.run`, changed or not. */
  readonly inputs: AttentionInputs;
  /** The answer that the file carries. */
  readonly expected: { readonly output: Tensor | null; readonly weights: Tensor | null };
  /** t of |got − expected| ≤ t·(1 + |expected|). */
  readonly tolerance: number;
  readonly about: string | null;
  /** The tokens of each batch entry. */
  readonly tokens: readonly (readonly string[])[] | null;
  readonly settings: CaseSettings;
}

/** An answer against the one that a case file carries; NaN equals only NaN. */
export interface Comparison {
  readonly ok: boolean;
  readonly maxError: number;
  readonly worst: { readonly tensor: string; readonly index: readonly number[]; readonly got: number; readonly expected: number } | null;
}

/** A case to be written. */
export interface CaseOptions extends AttentionInputs {
  about?: string;
  tokens?: readonly (readonly string[])[];
  /** What `run` gave for these inputs: written as the expected answer. */
  expected?: { output?: TensorLike | null; weights?: TensorLike | null };
  tolerance?: number;
  scale?: number;
  temperature?: number;
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
  /** What a call of these shapes would do on this device, or on the portable profile where the CPU computes. */
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

// ---------------------------------------------------------------------------------------------------- heads

export type Pattern = "previous" | "next" | "self" | "first" | "separator" | "broad";

/** What one head does, averaged over the queries that count. Means are NaN where nothing counts. */
export interface HeadStatistics {
  readonly head: number;
  readonly numCounted: number;
  /** Mean entropy of a row in bits: 0 = one key gets everything, log₂ n = n keys share equally. */
  readonly entropyBits: number;
  /** Mean of 2^entropy, in keys. */
  readonly effectiveKeys: number;
  /** Mean distance that attention goes, in tokens. */
  readonly meanDistance: number;
  readonly shareOnSelf: number;
  readonly shareOnPrevious: number;
  readonly shareOnNext: number;
  readonly shareOnFirst: number;
  /** NaN where no token is a separator. */
  readonly shareOnSeparator: number;
  /** The largest weight; null where no query counts. */
  readonly strongest: { readonly query: number; readonly key: number; readonly weight: number } | null;
  /** The named pattern that the map is nearest to, and how near, from 0 to 1. */
  readonly pattern: Pattern | null;
  readonly patternScore: number;
  /** How much of the map each pattern is. */
  readonly patternScores: Readonly<Record<Pattern, number>>;
  /** Links between labelled words, where the tokens are one of the labelled sentences. */
  readonly links: readonly LabelledLink[];
}

/** One link of the kind "it → trophy, not suitcase", and what a head gives it. */
export interface LabelledLink {
  readonly relation: "pronoun-to-antecedent" | "verb-to-subject" | "preposition-to-object";
  /** Places among the tokens. */
  readonly from: number;
  readonly to: number;
  readonly rival: number;
  readonly share: number;
  readonly rivalShare: number;
  /** Whether, of all other words, the right one gets most. */
  readonly found: boolean;
}

export interface StatisticsOptions {
  /** Which batch entry; default 0. */
  batch?: number;
  /** Only the first so many queries count. By default those before the first "[PAD]", else all. */
  numValid?: number;
  /** Query i stands at position i + `queryOffset`. */
  queryOffset?: number;
  /** The tokens of queries and keys: which of them are separators, and which words are labelled. */
  tokens?: readonly string[];
}

/** Statistics of every head; `weights` has shape (B, H, Lq, Lk). */
export function headStatistics(weights: TensorLike, options?: StatisticsOptions): Promise<readonly HeadStatistics[]>;

// ---------------------------------------------------------------------------------------------------- experiments

/** What all experiments of D2L §10.3 take; they are those of `multihead experiment`. */
export interface ExperimentOptions {
  /** By default the shared device. */
  device?: Device;
  onProgress?: (progress: Progress) => void;
}

export interface CopyBothOptions extends ExperimentOptions {
  /** Pairs of values that the readout is fitted on; at least 16 · valueDim. Default 65536. */
  numSamples?: number;
  /** Numbers in one value. Default 16. */
  valueDim?: number;
  seed?: number;
}

export interface CopyBothReport {
  readonly device: string;
  readonly numSamples: number;
  readonly valueDim: number;
  /** √½: what no split of one head's attention gets below. */
  readonly theory: number;
  readonly rows: readonly {
    readonly heads: number;
    /** The attention weights that the graph computed, a pair for each head. */
    readonly weights: readonly (readonly [number, number])[];
    /** ‖T̂ − T‖ / ‖T‖ of the best linear readout. */
    readonly relativeError: number;
  }[];
  /** A readout that is given another mixture than it was fitted on: the bound can be missed. */
  readonly control: {
    readonly fittedOn: readonly (readonly [number, number])[];
    readonly given: readonly (readonly [number, number])[];
    readonly relativeError: number;
  };
  /** As the program prints it. */
  readonly text: string;
}

/** One head cannot report two values, whatever its weights; two heads can. */
export function copyBoth(options?: CopyBothOptions): Promise<CopyBothReport>;

export interface AlignmentOptions extends ExperimentOptions {
  /** The word whose letters ask; default "attention". At most 64 letters of any script. */
  query?: string;
  /** The word whose letters are asked; default "translation". */
  key?: string;
  /** Numbers in one embedding; default 1024. */
  embeddingDim?: number;
  /** The score of two equal letters; default 10. */
  sharpness?: number;
  seed?: number;
}

export interface AlignmentReport {
  readonly device: string;
  readonly embeddingDim: number;
  readonly letters: readonly {
    readonly letter: string;
    /** One partner gets nearly everything; `copies` share alike; no partner: all get about the same. */
    readonly regime: "sharp" | "split" | "diffuse";
    readonly copies?: number;
    readonly shareOnPartners: number;
    readonly effectiveKeys: number;
    /** Whether the row is what the regime says. */
    readonly holds: boolean;
  }[];
  readonly keys: readonly string[];
  readonly separated: boolean;
  /** (1, 1, Lq, Lk). */
  readonly weights: Tensor;
  readonly text: string;
}

/** Letters of one word attend to letters of another by dot products of shared random embeddings. */
export function alignment(options?: AlignmentOptions): Promise<AlignmentReport>;

export interface HeadsAreFreeOptions extends ExperimentOptions {
  /** Widths d, each divisible by every number of heads; default [256]. */
  numHiddens?: readonly number[];
  /** Numbers of heads h; default [1, 2, 4, 8]. */
  heads?: readonly number[];
  /** n; default 64. */
  numTokens?: number;
  /** Timed runs after a first that is not; 0 = count only. Default 5. */
  runs?: number;
}

export interface HeadsAreFreeReport {
  readonly device: string;
  readonly numTokens: number;
  readonly runs: number;
  readonly rows: readonly {
    readonly numHiddens: number;
    readonly heads: number;
    readonly parameters: number;
    /** 4d². */
    readonly parametersFormula: number;
    readonly flops: number;
    /** 8nd² + 4n²d. */
    readonly flopsFormula: number;
    /** h·n². */
    readonly exponentials: number;
    /** Upload and readback left out; null where not measured. */
    readonly medianMs: number | null;
  }[];
  readonly text: string;
}

/** What more heads cost: no parameters and no matrix products, but exponentials. */
export function headsAreFree(options?: HeadsAreFreeOptions): Promise<HeadsAreFreeReport>;

export interface ShapesOptions extends ExperimentOptions {
  /** E; default 100. */
  numHiddens?: number;
  /** H, which divides E; default 5. */
  numHeads?: number;
}

export interface ShapesReport {
  readonly device: string;
  readonly numHiddens: number;
  readonly numHeads: number;
  readonly calls: readonly {
    readonly about: string;
    readonly steps: readonly { readonly op: string; readonly name: string; readonly shape: readonly number[]; readonly how: string }[];
    /** The axes of what the device gave back. */
    readonly output: readonly number[];
  }[];
  readonly text: string;
}

/** Every shape of a call: the reshape trick of D2L §10.3.2. */
export function shapes(options?: ShapesOptions): Promise<ShapesReport>;

// ---------------------------------------------------------------------------------------------------- files

/** The bytes of a NumPy `.npy` file (version 1.0, little-endian f32, C order). */
export function toNpy(tensor: TensorLike): Uint8Array;

/** The bytes of a `.safetensors` file of f32 tensors. The same tensors give the same bytes. */
export function toSafetensors(tensors: Readonly<Record<string, TensorLike>>, metadata?: Readonly<Record<string, string>>): Promise<Uint8Array>;

/** The tensors of a `.safetensors` file (F16, BF16, F32, F64; as f32), and its metadata. */
export function fromSafetensors(bytes: Uint8Array | ArrayBuffer): Promise<{
  readonly tensors: Readonly<Record<string, Tensor>>;
  readonly metadata: Readonly<Record<string, string>>;
}>;

// ---------------------------------------------------------------------------------------------------- loading

/**
 * Fetches and compiles the wasm. Everything else does so by itself, from beside this module; call it to do so early, or
 * to say where the wasm is. After a failure the next call tries again.
 */
export function load(wasm?: string | URL | Response | BufferSource | WebAssembly.Module): Promise<void>;
