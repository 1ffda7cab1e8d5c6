// The dispatch graph as data.

import type { Training } from "./call.js";

/** A shape, or what has one: of a tensor nothing else is looked at. */
export type ShapeLike = readonly number[] | { readonly shape: readonly number[] };

/** Shapes instead of numbers: what decides the dispatch graph. */
export interface CallShape {
  query: ShapeLike;
  key?: ShapeLike | null;
  value?: ShapeLike | null;
  /** A plain list is the shape of the lengths here, not the lengths. */
  validLens?: ShapeLike | null;
  mask?: ShapeLike | null;
  bias?: ShapeLike | null;
  causal?: boolean;
  queryOffset?: number | bigint;
  window?: number | bigint | null;
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
