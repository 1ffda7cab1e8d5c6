// Where to compute: WebGPU with the reasons why not, or the CPU.

import { absent, oneOf, options, refuse, shown } from "./checks.js";
import { faultOf, guarded, guardedAsync, MultiheadError } from "./errors.js";
import { load } from "./load.js";
import { Instance, kernels, Place } from "../wasm/multihead.js";

/** @import { Backend, DeviceInfo, DeviceLost, DeviceOptions, Probe } from "../types/device.js" */

/** @type {readonly Backend[]} */
const BACKENDS = ["auto", "webgpu", "cpu"];

/** Who may make objects: nobody outside of this package. */
export const OWN = Symbol("multihead");

/** A place to compute. */
export class Device {
  /** @type {Place | undefined} */
  #place;
  #owned;
  /** @type {DeviceLost | undefined} */
  #end;

  /**
   * @param {symbol} own
   * @param {Place} place
   * @param {{ owned: boolean, fallback: MultiheadError | null }} about
   */
  constructor(own, place, about) {
    onlyOwn(own, "Device.open()");
    this.#place = place;
    this.#owned = about.owned;
    /** @type {GPUDevice | null} */
    this.gpu = place.gpu ?? null;
    /** @type {DeviceInfo} */
    this.info = this.gpu ? infoOfGpu(this.gpu, place.name) : infoOfCpu(about.fallback);
    /** @type {Promise<DeviceLost>} */
    this.lost = this.gpu ? this.#watched(this.gpu) : new Promise(() => {});
  }

  /** @param {GPUDevice} gpu */
  async #watched(gpu) {
    const { reason, message } = await gpu.lost;
    this.#end = { reason: reason === "destroyed" ? "destroyed" : "unknown", message };
    return this.#end;
  }

  /** @param {DeviceOptions} [given] */
  static async open(given = {}) {
    const { backend, gpu } = options("the options of Device.open", given, ["backend", "gpu"]);
    const wanted = absent(backend) ? "auto" : oneOf("backend", backend, BACKENDS);
    if (!absent(gpu)) {
      if (!absent(backend)) {
        refuse("give either a gpu or a backend, not both");
      }
      return Device.#adopted(gpu);
    }
    await load();
    if (wanted === "cpu") {
      return Device.#onCpu(null);
    }
    try {
      return await Device.#onGpu();
    } catch (thrown) {
      const fault = faultOf(thrown);
      if (wanted === "webgpu" || fault.code === "internal") {
        throw fault;
      }
      return Device.#onCpu(fault);
    }
  }

  /** @param {MultiheadError | null} fallback */
  static #onCpu(fallback) {
    return new Device(
      OWN,
      guarded(() => Place.cpu()),
      { owned: false, fallback },
    );
  }

  static async #onGpu() {
    const found = await adapter();
    if (found instanceof MultiheadError) {
      throw found;
    }
    const instance = presenting(found.gpu, () => guarded(() => new Instance()));
    const place = await guardedAsync(() => instance.open());
    return new Device(OWN, place, { owned: true, fallback: null });
  }

  /** @param {any} gpu */
  static async #adopted(gpu) {
    if (!(typeof gpu === "object" && typeof gpu.createComputePipeline === "function" && gpu.queue && gpu.limits)) {
      refuse(`gpu should be a GPUDevice, but is ${shown(gpu)}`);
    }
    if (!gpu.adapterInfo) {
      const sentence =
        "this browser's GPUDevice does not say what it is (adapterInfo); " +
        "use a newer browser, or let the library open a device";
      throw new MultiheadError("no-webgpu", sentence);
    }
    await load();
    const lost = await Promise.race([gpu.lost, Promise.resolve(undefined)]);
    if (lost) {
      throw lostError(lost.message);
    }
    const instance = presenting(onlyDevice(gpu), () => guarded(() => new Instance()));
    const place = await guardedAsync(() => instance.adopt());
    return new Device(OWN, place, { owned: false, fallback: null });
  }

  /** @returns {Promise<Probe>} */
  static async probe() {
    const found = await adapter();
    if (found instanceof MultiheadError) {
      return { webgpu: false, code: found.code, message: found.message, adapter: null };
    }
    const { vendor, architecture, description, isFallbackAdapter } = found.adapter.info;
    const told = { name: description || "unnamed adapter", vendor, architecture, software: isFallbackAdapter === true };
    return { webgpu: true, code: null, message: null, adapter: told };
  }

  get isLost() {
    return this.#end !== undefined;
  }

  /** Whether there is nothing left to compute on. */
  get isFreed() {
    return this.#place === undefined;
  }

  kernels() {
    return guarded(() => kernels());
  }

  /** The device for the wasm, unless it is gone. */
  place() {
    if (this.#place === undefined) {
      throw new MultiheadError("freed", "the device was freed; open another one");
    }
    this.checkAlive();
    return this.#place;
  }

  /** Refuses to compute on a lost device, where everything looks like success. */
  checkAlive() {
    if (this.#end) {
      throw lostError(this.#end.message);
    }
  }

  free() {
    const place = this.#place;
    this.#place = undefined;
    if (place) {
      place.free();
      if (this.#owned) {
        this.gpu?.destroy();
      }
    }
  }

  [disposal()]() {
    this.free();
  }
}

/** `Symbol.dispose`, where there is one. */
export function disposal() {
  return Symbol.dispose ?? Symbol.for("multihead.dispose");
}

/**
 * @param {symbol} own
 * @param {string} door
 */
export function onlyOwn(own, door) {
  if (own !== OWN) {
    refuse(`there is no public constructor; use ${door}`);
  }
}

function lostError(/** @type {string} */ said) {
  const reason = said ? ` (${said})` : "";
  const sentence = `the GPU device was lost${reason}; open a device again, or compute on the CPU`;
  return new MultiheadError("device-lost", sentence);
}

/** Why there may be no adapter, and what to do then. */
const NONE = {
  insecure:
    "browsers give WebGPU only to pages that came over HTTPS or from localhost; " +
    "serve this page so, or compute on the CPU",
  unknown:
    "this browser has no WebGPU, or it is switched off; " +
    "use a current Chrome, Edge, Firefox or Safari, or compute on the CPU",
  blocked:
    "the browser has WebGPU, but no adapter for this page: its GPU or driver is blocked or missing; " +
    "see chrome://gpu or about:support, or compute on the CPU",
};

/**
 * The adapter that there is, or why there is none.
 * @returns {Promise<{ gpu: GPU, adapter: GPUAdapter } | MultiheadError>}
 */
async function adapter() {
  const gpu = /** @type {GPU | undefined} */ (globalThis.navigator?.gpu);
  if (!gpu) {
    return globalThis.isSecureContext === false
      ? new MultiheadError("insecure-context", NONE.insecure)
      : new MultiheadError("no-webgpu", NONE.unknown);
  }
  try {
    const found = await gpu.requestAdapter();
    if (found) {
      return { gpu, adapter: found };
    }
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    const sentence = `the browser's WebGPU refuses an adapter (${said}); compute on the CPU`;
    return new MultiheadError("no-adapter", sentence, { cause });
  }
  return new MultiheadError("no-adapter", NONE.blocked);
}

/**
 * wgpu has no door for a device of JavaScript's; but it takes whatever device an adapter gives it. So this is WebGPU
 * with one adapter, which has one device.
 * @param {GPUDevice} device
 */
function onlyDevice(device) {
  const { features, limits, adapterInfo: info } = device;
  const requestDevice = () => Promise.resolve(device);
  return {
    requestAdapter: () => Promise.resolve({ features, limits, info, requestDevice }),
    wgslLanguageFeatures: new Set(),
  };
}

/**
 * wgpu finds WebGPU at `navigator.gpu` of a window or a worker, at the moment when an instance is made. For that moment
 * this WebGPU is there, whatever kind of place this is (Node has no window).
 * @template T
 * @param {unknown} gpu
 * @param {() => T} make
 * @returns {T}
 */
function presenting(gpu, make) {
  /** @type {(() => void)[]} */
  const undo = [];
  const define = (/** @type {any} */ object, /** @type {string} */ name, /** @type {unknown} */ value) => {
    const before = Object.getOwnPropertyDescriptor(object, name);
    Object.defineProperty(object, name, { value, configurable: true });
    undo.unshift(() => (before ? Object.defineProperty(object, name, before) : delete object[name]));
  };
  if (!("Window" in globalThis) && !("WorkerGlobalScope" in globalThis)) {
    define(globalThis, "Window", Object);
  }
  if (!globalThis.navigator) {
    define(globalThis, "navigator", {});
  }
  if (globalThis.navigator.gpu !== gpu) {
    define(globalThis.navigator, "gpu", gpu);
  }
  try {
    return make();
  } finally {
    undo.forEach((put) => put());
  }
}

/** What a software adapter means for whoever computes on it. */
const SOFTWARE = "shaders run on the CPU, and times say nothing about a GPU";

/**
 * @param {GPUDevice} gpu
 * @param {string} name
 * @returns {DeviceInfo}
 */
function infoOfGpu(gpu, name) {
  const info = /** @type {any} */ (gpu.adapterInfo ?? {});
  const software = info.isFallbackAdapter === true;
  const limits = /** @type {Record<string, number>} */ ({});
  for (const limit in gpu.limits) {
    const value = /** @type {any} */ (gpu.limits)[limit];
    if (typeof value === "number") {
      limits[limit] = value;
    }
  }
  return {
    name,
    backend: "webgpu",
    vendor: info.vendor ?? "",
    architecture: info.architecture ?? "",
    software,
    warning: software ? `"${name}" is a software adapter: ${SOFTWARE}` : null,
    fallback: null,
    timestamps: gpu.features.has("timestamp-query"),
    subgroup: [info.subgroupMinSize ?? 0, info.subgroupMaxSize ?? 0],
    features: [...gpu.features].sort(),
    limits,
  };
}

/**
 * @param {MultiheadError | null} fallback
 * @returns {DeviceInfo}
 */
function infoOfCpu(fallback) {
  return {
    name: "cpu",
    backend: "cpu",
    vendor: "",
    architecture: "",
    software: true,
    warning: fallback ? `the CPU computes, because there is no GPU: ${fallback.message}` : null,
    fallback: fallback && { code: fallback.code, message: fallback.message },
    timestamps: false,
    subgroup: [0, 0],
    features: [],
    limits: {},
  };
}

/** Devices that attentions share, by backend. @type {Map<Backend, Promise<Device>>} */
const shared = new Map();

/**
 * The device that all share who name none; a lost one is replaced.
 * @param {Backend} backend
 * @returns {Promise<Device>}
 */
export async function sharedDevice(backend) {
  const known = shared.get(backend);
  const device = known && (await known.catch(() => undefined));
  if (device && !device.isLost && !device.isFreed) {
    return device;
  }
  if (shared.get(backend) === known) {
    shared.set(backend, Device.open({ backend }));
  }
  return /** @type {Promise<Device>} */ (shared.get(backend));
}

/** Devices of pages, so that kernels are compiled once for each. @type {WeakMap<object, Device>} */
const adopted = new WeakMap();

/**
 * The device around a page's own.
 * @param {unknown} gpu
 * @returns {Promise<Device>}
 */
async function around(gpu) {
  const known = typeof gpu === "object" && gpu !== null ? adopted.get(gpu) : undefined;
  if (known && !known.isFreed) {
    return known;
  }
  const device = await Device.open({ gpu: /** @type {GPUDevice} */ (gpu) });
  adopted.set(/** @type {object} */ (gpu), device);
  return device;
}

/**
 * The device that options name.
 * @param {unknown} device
 * @param {unknown} backend
 * @returns {Promise<Device>}
 */
export async function deviceOf(device, backend) {
  if (absent(device)) {
    return sharedDevice(absent(backend) ? "auto" : oneOf("backend", backend, BACKENDS));
  }
  if (!absent(backend)) {
    refuse("give either a device or a backend, not both");
  }
  return device instanceof Device ? device : around(device);
}
