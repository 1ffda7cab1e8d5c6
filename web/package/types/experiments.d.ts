// The experiments of D2L §10.3: those of `multihead experiment`.

import type { Device } from "./device.js";
import type { Tensor } from "./tensors.js";
import type { Progress } from "./times.js";

/** What all experiments take. What is not given is as in the program `multihead experiment`. */
export interface ExperimentOptions {
  /** By default the shared device. */
  device?: Device | GPUDevice;
}

export interface CopyBothOptions extends ExperimentOptions {
  /** Pairs of values that the readout is fitted on; at least 16 · valueDim. Default 32768. */
  numSamples?: number;
  /** Numbers in one value. Default 32. */
  valueDim?: number;
  seed?: number;
  /** Called after each row of the report. If it throws, so does the experiment, with that as `cause`. */
  onProgress?: (progress: Progress) => void;
}

export interface CopyBothReport {
  readonly device: string;
  readonly seed: number;
  readonly numSamples: number;
  readonly valueDim: number;
  /**
   * √½: what no split of one head's attention gets below. Measured errors lie a little below it, since the readout is
   * fitted on the very samples that it is measured on.
   */
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
  readonly seed: number;
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
  /** Called after each row of the report. If it throws, so does the experiment, with that as `cause`. */
  onProgress?: (progress: Progress) => void;
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
    readonly steps: readonly {
      readonly op: string;
      readonly name: string;
      readonly shape: readonly number[];
      readonly how: string;
    }[];
    /** The axes of what the device gave back. */
    readonly output: readonly number[];
  }[];
  readonly text: string;
}

/** Every shape of a call: the reshape trick of D2L §10.3.2. */
export function shapes(options?: ShapesOptions): Promise<ShapesReport>;
