// How far something is, and how long it took.

/** How far something has come. */
export interface Progress {
  readonly done: number;
  /** More than 0. */
  readonly total: number;
}

/** Wall time in milliseconds. */
export interface Timing {
  /** Choosing kernels, making buffers and pipelines, uploading parameters; 0 where the call was compiled before. */
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
