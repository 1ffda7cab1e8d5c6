// Where attention layers come from: the model's file, random numbers, a visitor's case file.

import {
  Attention,
  type CaseInputs,
  type Device,
  fromSafetensors,
  type IntegersLike,
  type OpenedCase,
  type Projections,
  type Tensor,
} from "multihead";
import { gaussian } from "./random";
import type { RandomSizes, Settings, Sheet } from "./protocol";

/** A layer on a device, and what it reads. */
export interface Layer {
  attention: Attention;
  inputs: CaseInputs;
  /** Of a case file only: the answer that it carries. */
  expected: OpenedCase["expected"] | null;
  tolerance: number;
}

/** A source: makes its layers anew on whatever device there is, as after a loss. */
export interface Source {
  /** What the page is told; its `id` comes when it is opened. */
  sheet: Omit<Sheet, "id">;
  /** The words of each batch entry, whole. */
  tokens: readonly (readonly string[])[];
  layer(index: number, device: Device): Promise<Layer>;
}

/** Tokens of a file's sequences at most: each has a word beside the map. */
const LONGEST_SEQUENCE = 65_536;

/** Letters of a label at most. */
const LONGEST_LABEL = 32;

const NO_CHANGE: Settings = { causal: false, window: null, validLen: null, temperature: 1 };

/** What all sheets have that are tokens looking at each other, and no mask. */
const SELF_ATTENTION = { selfAttention: true, initial: NO_CHANGE, queryOffset: 0, ownMasks: [], dropout: null };

/** All layers of a model, and the hidden states (1, tokens, E) that enter each layer for some sentences. */
export class Model {
  readonly sentences: string[];
  readonly numLayers: number;
  readonly numHeads: number;
  readonly #bytes: Uint8Array;
  readonly #tokens: string[][];
  readonly #hidden: ReadonlyMap<string, Tensor>;

  static async read(bytes: Uint8Array): Promise<Model> {
    const { tensors, metadata } = await fromSafetensors(bytes);
    // The weights are read again, layer by layer; as f32 they would take twice the file.
    const hidden = Object.entries(tensors).filter(([name]) => name.startsWith("sentence."));
    return new Model(bytes, new Map(hidden), metadata);
  }

  private constructor(bytes: Uint8Array, hidden: Map<string, Tensor>, metadata: Readonly<Record<string, string>>) {
    const settings = JSON.parse(metadata["attention"] ?? "{}") as { num_heads: number; num_layers: number };
    this.#bytes = bytes;
    this.#hidden = hidden;
    this.#tokens = JSON.parse(metadata["tokens"] ?? "[]") as string[][];
    this.sentences = JSON.parse(metadata["sentences"] ?? "[]") as string[];
    this.numHeads = settings.num_heads;
    this.numLayers = settings.num_layers;
  }

  /** What each layer does with a sentence. */
  source(sentence: number): Source {
    const tokens = this.#tokens[sentence] ?? [];
    const sheet: Source["sheet"] = {
      kind: "model",
      title: this.sentences[sentence] ?? "",
      about: "all-MiniLM-L6-v2, by sentence-transformers (Apache-2.0)",
      numLayers: this.numLayers,
      numHeads: this.numHeads,
      ...ofSequence(tokens),
      ...SELF_ATTENTION,
    };
    const layer = async (index: number, device: Device): Promise<Layer> => {
      const query = this.#hidden.get(`sentence.${sentence}.layer.${index}.hidden`);
      if (!query)
        throw new RangeError(`the model's file has no hidden states for sentence ${sentence}, layer ${index}`);
      const prefix = `encoder.layer.${index}.`;
      const attention = await Attention.create({ numHeads: this.numHeads, weights: this.#bytes, prefix, device });
      return { attention, inputs: { query }, expected: null, tolerance: 0 };
    };
    return { sheet, tokens: [tokens], layer };
  }
}

/** What a sheet says of one sequence of tokens that look at each other. */
function ofSequence(tokens: readonly string[]): Pick<Sheet, "numEntries" | "numQueries" | "numKeys" | "tokens"> {
  return { numEntries: 1, numQueries: tokens.length, numKeys: tokens.length, tokens: [tokens.map(label)] };
}

/** A word as long as there is room for beside a map; a file may hold any. */
function label(word: string): string {
  // Cut first: a word may have millions of letters.
  const letters = Array.from(word.slice(0, 4 * LONGEST_LABEL));
  return letters.length > LONGEST_LABEL ? `${letters.slice(0, LONGEST_LABEL - 1).join("")}…` : word;
}

/** Self-attention over random numbers, with random projections of a trained layer's size. */
export function randomSource(sizes: RandomSizes): Source {
  const { numTokens, numHeads, headDim, seed } = sizes;
  const width = numHeads * headDim;
  const tokens = Array.from({ length: numTokens }, (_, index) => `t${index}`);
  const normal = gaussian(seed);
  const tensor = (scale: number, ...shape: number[]): Tensor => {
    const data = new Float32Array(shape.reduce((product, size) => product * size, 1));
    return { data: data.map(() => scale * normal()), shape };
  };
  // Scores of a few units, so that maps are neither even nor one key each.
  const square = () => tensor(1.5 / Math.sqrt(width), width, width);
  const weights: Projections = { W_q: square(), W_k: square(), W_v: square(), W_o: square() };
  const query = tensor(1, 1, numTokens, width);
  const sheet: Source["sheet"] = {
    kind: "random",
    title: `random numbers, seed ${seed}`,
    about: `${numTokens} tokens, ${numHeads} heads of width ${headDim}, E = ${width}`,
    numLayers: 1,
    numHeads,
    ...ofSequence(tokens),
    ...SELF_ATTENTION,
  };
  const layer = async (_: number, device: Device): Promise<Layer> => {
    const attention = await Attention.create({ numHeads, weights, device });
    return { attention, inputs: { query }, expected: null, tolerance: 0 };
  };
  return { sheet, tokens: [tokens], layer };
}

/** A visitor's case file. It is opened once to see what it holds and whether it fits, then again on each device. */
export async function fileSource(bytes: Uint8Array, name: string, device: Device): Promise<Source> {
  const first = await Attention.fromCase(bytes, { device });
  const sheet = sheetOf(first, name);
  try {
    if (sheet.numEntries === 0 || sheet.numQueries === 0) {
      throw new RangeError(`${name} asks nothing: its query has shape (${first.inputs.query.shape.join(", ")})`);
    }
    const longest = Math.max(sheet.numQueries, sheet.numKeys);
    if (longest > LONGEST_SEQUENCE) {
      throw new RangeError(`${name} has a sequence of ${longest} tokens; this page shows up to ${LONGEST_SEQUENCE}`);
    }
    await first.attention.explain({ ...first.inputs, returnWeights: true });
  } finally {
    first.attention.free();
  }
  const layer = async (_: number, device: Device): Promise<Layer> => {
    const { attention, inputs, expected, tolerance } = await Attention.fromCase(bytes, { device });
    return { attention, inputs, expected, tolerance };
  };
  return { sheet, tokens: first.tokens ?? [], layer };
}

function sheetOf(opened: OpenedCase, name: string): Source["sheet"] {
  const { attention, inputs, tokens, settings } = opened;
  const [numEntries = 0, numQueries = 0] = inputs.query.shape;
  const numKeys = (inputs.key ?? inputs.query).shape[1] ?? 0;
  const given = { attend_mask: inputs.mask, bias: inputs.bias, valid_lens: inputs.validLens };
  return {
    kind: "file",
    title: name,
    about: opened.about,
    numLayers: 1,
    numHeads: attention.numHeads,
    numEntries,
    numQueries,
    numKeys,
    tokens: (tokens ?? []).map((words) => words.map(label)),
    selfAttention: !inputs.key && numQueries === numKeys,
    initial: { ...NO_CHANGE, causal: settings.causal ?? false, window: settings.window ?? null },
    queryOffset: settings.query_offset ?? 0,
    ownMasks: Object.entries(given).flatMap(([mask, value]) => (value ? [mask] : [])),
    dropout: inputs.training ? { probability: inputs.training.dropout, seed: inputs.training.seed ?? 0 } : null,
  };
}

/** A layer's call under the visitor's settings. A key must be let through by both. */
export function callUnder(inputs: CaseInputs, settings: Settings): CaseInputs & { temperature: number } {
  const { validLen, ...others } = settings;
  return {
    ...inputs,
    ...others,
    validLens: validLen === null ? (inputs.validLens ?? null) : shortened(inputs, validLen),
  };
}

/** Valid lengths (B,) or (B, Lq), none above `limit`. */
function shortened({ query, validLens }: CaseInputs, limit: number): IntegersLike {
  const batch = query.shape[0] ?? 0;
  const { data, shape } = validLens ?? { data: new Int32Array(batch).fill(limit), shape: [batch] };
  return { data: [...data].map((length) => Math.min(Number(length), limit)), shape };
}
