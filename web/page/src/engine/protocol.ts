// What the page and its worker say to each other. The worker has the engine, the page has the view.

import type {
  AlignmentReport,
  Backend,
  Change,
  CopyBothReport,
  DeviceInfo,
  DeviceLost,
  Explanation,
  HeadsAreFreeReport,
  HeadStatistics,
  Profile,
  Progress,
  PruningStep,
  Tensor,
  Timing,
  Verification,
} from "multihead";

/** What may be changed live, on top of what a source says by itself. */
export interface Settings {
  causal: boolean;
  /** Key j is visible when |j − position| < window; a bigint where a file says more than a number has. */
  window: number | bigint | null;
  /** Key j is visible when j < validLen, in every batch entry. */
  validLen: number | null;
  temperature: number;
}

/** Random numbers of chosen sizes: self-attention with E = H·d. */
export interface RandomSizes {
  numTokens: number;
  numHeads: number;
  headDim: number;
  seed: number;
}

/** What is looked at: one attention layer or several, and what they read. */
export interface Sheet {
  /** By which calls name it: whatever else was opened meanwhile, they are about this one. */
  id: number;
  kind: "model" | "random" | "file";
  title: string;
  about: string | null;
  numLayers: number;
  numHeads: number;
  /** B. */
  numEntries: number;
  numQueries: number;
  numKeys: number;
  /** For each batch entry its words, as short as labels are, or none: see `wordsOf`. */
  tokens: string[][];
  /** Whether queries and keys are the same tokens. */
  selfAttention: boolean;
  /** What the source sets by itself; the controls begin there. */
  initial: Settings;
  queryOffset: number | bigint;
  /** What hides keys in the source and has no control: "attend_mask", "bias", "valid_lens". */
  ownMasks: string[];
  /** Of a file only: which weights its call drops. */
  dropout: { probability: number; seed: number | bigint } | null;
}

/** One layer, computed, as one batch entry sees it. */
export interface LayerAnswer {
  layer: number;
  entry: number;
  /** (1, H, Lq, columns): the maps of this batch entry. */
  weights: Tensor;
  outputShape: readonly number[];
  /** For each head. */
  statistics: readonly HeadStatistics[];
  timing: Timing;
  dispatches: number;
  verification: Verification;
  /** Against the answer that a case file carries. */
  expected: { ok: boolean; maxError: number; tolerance: number } | null;
}

/** What switching heads off does to a layer's output. */
export interface Without {
  layer: number;
  together: Change;
  each: Change[];
  order: PruningStep[];
}

/** How one layer would be worked off, and what each dispatch took. */
export interface MachineReport {
  layer: number;
  explanation: Explanation;
  profile: Profile;
}

/** What the page may ask of the worker. Every answer is a promise on the page's side. */
export interface Calls {
  open(backend: Backend): DeviceInfo;
  /** The sentences that there are; the file at `url` has so many bytes. */
  loadModel(url: string, bytes: number): string[];
  useSentence(index: number): Sheet;
  useRandom(sizes: RandomSizes): Sheet;
  useFile(bytes: Uint8Array, name: string): Sheet;
  /** The first argument of this and the next three is the sheet's `id`. */
  compute(sheet: number, layer: number, settings: Settings, entry: number): LayerAnswer;
  without(sheet: number, layer: number, settings: Settings, heads: number[]): Without;
  machine(sheet: number, layer: number, settings: Settings): MachineReport;
  caseFile(sheet: number, layer: number, settings: Settings): Uint8Array;
  npy(tensor: Tensor): Uint8Array;
  copyBoth(numSamples: number, valueDim: number): CopyBothReport;
  alignment(query: string, key: string): AlignmentReport;
  /** Without runs it counts and does not measure. */
  headsAreFree(numHiddens: number, heads: number[], runs: number): HeadsAreFreeReport;
  destroyDevice(): void;
}

export type CallName = keyof Calls;

/** From the page. */
export interface Request {
  id: number;
  name: CallName;
  args: unknown[];
}

/** An error that crossed over, with its code. */
export interface Fault {
  code: string;
  message: string;
}

/** From the worker. */
export type Message =
  | { kind: "result"; id: number; value: unknown }
  | { kind: "fault"; id: number; fault: Fault }
  | { kind: "progress"; id: number; progress: Progress }
  | { kind: "lost"; lost: DeviceLost };
