/**
 * Multi-head attention on the browser's GPU: softmax(scale · Q·Kᵀ + bias)·V for all heads at once, through WebGPU, or
 * on the CPU by the very code that the GPU is tested against.
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

export * from "./types/attention.js";
export * from "./types/byHead.js";
export * from "./types/call.js";
export * from "./types/cases.js";
export * from "./types/device.js";
export * from "./types/errors.js";
export * from "./types/experiments.js";
export * from "./types/files.js";
export * from "./types/graph.js";
export * from "./types/heads.js";
export * from "./types/load.js";
export * from "./types/tensors.js";
export * from "./types/times.js";
export * from "./types/verification.js";
