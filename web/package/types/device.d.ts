// Where to compute.

import type { ErrorCode } from "./errors.js";

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
  readonly adapter: {
    readonly name: string;
    readonly vendor: string;
    readonly architecture: string;
    readonly software: boolean;
  } | null;
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
   * Gives the memory back; a device that this package opened is destroyed, and lost to its attentions. Idempotent.
   */
  free(): void;
  [Symbol.dispose](): void;
}
