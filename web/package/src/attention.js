// The layer: calls in order, whatever the caller waits for.

import {
  absent,
  bytes,
  finite,
  flag,
  isBuffer,
  kindOf,
  optional,
  options,
  refuse,
  shown,
  tensor,
  text,
  whole,
  wholes,
} from "./checks.js";
import { BY_HEAD, CALL, callOf, CASE, caseOf, RUN, shapesOf } from "./calls.js";
import { deviceOf, disposal, onlyOwn, OWN } from "./device.js";
import { guarded, guardedAsync, MultiheadError } from "./errors.js";
import { load } from "./load.js";
import { checkRoom } from "./room.js";
import { compare, Layer, openCase } from "../wasm/multihead.js";

/** @import { Device } from "./device.js" */
/** @import { ByHead as WasmByHead } from "../wasm/multihead.js" */
/** @import { ByHeadOptions, Change, PruningStep } from "../types/byHead.js" */
/** @import { AttentionInputs, AttentionResult, CallOptions, RunOptions } from "../types/call.js" */
/** @import { CaseOptions, OpenedCase } from "../types/cases.js" */
/** @import { CallShape, Explanation } from "../types/graph.js" */
/** @import { Tensor, TensorLike } from "../types/tensors.js" */
/** @import { Comparison, Verification } from "../types/verification.js" */

const OPTIONS = ["numHeads", "numKvHeads", "headDim", "scale", "weights", "prefix", "device", "backend"];
const REQUIRED = ["W_q", "W_k", "W_v", "W_o"];
const PROJECTIONS = [...REQUIRED, "b_q", "b_k", "b_v", "b_o", "bias_k", "bias_v"];

/** A layer of multi-head attention on a device. */
export class Attention {
  /** @type {Layer | undefined} */
  #layer;
  /** When everything that was asked for so far is over. @type {Promise<unknown>} */
  #over = Promise.resolve();

  /**
   * @param {symbol} own
   * @param {Device} device
   * @param {Layer} layer
   */
  constructor(own, device, layer) {
    onlyOwn(own, "Attention.create()");
    this.device = device;
    this.numHeads = layer.numHeads;
    this.hasProjections = layer.hasProjections;
    this.#layer = layer;
  }

  /** @param {unknown} given */
  static async create(given) {
    const asked = options("the options of Attention.create", given, OPTIONS);
    const size = (/** @type {string} */ name) => optional(asked[name], (given) => whole(name, given, 1));
    /** @type {[number, number | undefined, number | undefined, number | undefined]} */
    const heads = [
      size("numHeads") ?? refuse("numHeads is missing; give the number of query heads"),
      size("numKvHeads"),
      size("headDim"),
      optional(asked.scale, (scale) => finite("scale", scale)),
    ];
    await load();
    const layer = layerMaker(asked, heads);
    const device = await deviceOf(asked.device, asked.backend);
    return new Attention(
      OWN,
      device,
      guarded(() => layer(device.place())),
    );
  }

  /**
   * @param {unknown} given
   * @param {{ device?: unknown, backend?: unknown }} [where]
   * @returns {Promise<OpenedCase>}
   */
  static async fromCase(given, where = {}) {
    const { device: named, backend } = options("the options of Attention.fromCase", where, ["device", "backend"]);
    const file = bytes("a case file", given);
    await load();
    checkRoom([file]);
    const device = await deviceOf(named, backend);
    const { layer, ...opened } = guarded(() => openCase(device.place(), file));
    return { attention: new Attention(OWN, device, layer), ...opened };
  }

  /**
   * @param {RunOptions} given
   * @returns {Promise<AttentionResult>}
   */
  async run(given) {
    const call = callOf("the options of run", given, RUN);
    const verify = flag("verify", given.verify);
    const answer = await this.#inTurn((layer) => layer.run(call));
    return verify ? { ...answer, verification: this.#verified(call, answer) } : answer;
  }

  /**
   * @param {{ output: TensorLike, weights?: TensorLike | null }} answer
   * @param {AttentionInputs & CallOptions} given
   * @returns {Promise<Verification>}
   */
  async verify(answer, given) {
    const call = callOf("the options of verify", given, CALL);
    if (typeof answer !== "object" || answer === null) {
      refuse(`an answer should be what run gave, but is ${shown(answer)}`);
    }
    const output = tensor("the output", answer.output);
    return this.#verified(call, { output, weights: optional(answer.weights, (given) => tensor("the weights", given)) });
  }

  /**
   * @param {any} call
   * @param {{ output: any, weights?: any }} answer
   * @returns {Verification}
   */
  #verified(call, { output, weights }) {
    return this.#atOnce((layer) => layer.verify(call, output, weights));
  }

  /**
   * @param {ByHeadOptions} given
   * @returns {Promise<ByHead>}
   */
  async runByHead(given) {
    const call = callOf("the options of runByHead", given, BY_HEAD);
    const run = await this.#inTurn((layer) => layer.runByHead(call));
    return new ByHead(OWN, run, this.numHeads);
  }

  /** @param {AttentionInputs & CallOptions} given */
  async reference(given) {
    const call = callOf("the options of reference", given, CALL);
    return /** @type {Promise<{ output: Tensor, weights: Tensor }>} */ (this.#atOnce((layer) => layer.reference(call)));
  }

  /**
   * @param {CallShape} given
   * @returns {Promise<Explanation>}
   */
  async explain(given) {
    const shapes = shapesOf(given);
    return this.#atOnce((layer) => layer.explain(shapes));
  }

  /**
   * @param {{ output: TensorLike, weights?: TensorLike | null }} got
   * @param {{ output?: TensorLike | null, weights?: TensorLike | null }} expected
   * @param {number} [tolerance]
   * @returns {Promise<Comparison | null>}
   */
  static async compare(got, expected, tolerance = 1e-4) {
    await load();
    const known = (/** @type {string} */ what, /** @type {any} */ given) => {
      if (typeof given !== "object" || given === null) {
        refuse(`${what} should be an object with output and weights, but is ${shown(given)}`);
      }
      return (/** @type {string} */ name) => optional(given[name], (value) => tensor(`${what}'s ${name}`, value));
    };
    const [computed, wanted] = [known("the answer", got), known("what is expected", expected)];
    const output = computed("output") ?? refuse("the answer has no output; give what run gave");
    const limit = finite("tolerance", tolerance);
    return guarded(() => compare(output, computed("weights"), wanted("output"), wanted("weights"), limit));
  }

  /**
   * @param {CaseOptions} given
   * @returns {Promise<Uint8Array>}
   */
  async toCase(given) {
    const call = callOf("the options of toCase", given, CASE);
    const about = caseOf(given);
    return this.#atOnce((layer) => layer.toCase(call, about));
  }

  free() {
    const layer = this.#layer;
    this.#layer = undefined;
    // Calls under way have the layer until they are over.
    this.#over = this.#over.then(() => layer?.free());
  }

  [disposal()]() {
    this.free();
  }

  /** The layer, unless it is gone. */
  #own() {
    if (this.#layer === undefined) {
      throw new MultiheadError("freed", "the attention was freed; create another one");
    }
    return this.#layer;
  }

  /**
   * Does something that does not need the device.
   * @template T
   * @param {(layer: Layer) => T} work
   */
  #atOnce(work) {
    const layer = this.#own();
    return guarded(() => work(layer));
  }

  /**
   * Does something on the device after all that was asked for before. What fails does not stop the next.
   * @template T
   * @param {(layer: Layer) => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(work) {
    const layer = this.#own();
    const turn = this.#over.then(async () => {
      this.device.checkAlive();
      const done = await guardedAsync(() => work(layer));
      this.device.checkAlive();
      return done;
    });
    this.#over = turn.then(nothing, nothing);
    return turn;
  }
}

/** What a call leaves behind for the next: neither its answer nor its error. */
function nothing() {}

/**
 * What makes the layer, once its device is known; the weights are copied now.
 * @param {Record<string, any>} asked
 * @param {[number, number | undefined, number | undefined, number | undefined]} heads
 * @returns {(place: import("../wasm/multihead.js").Place) => Layer}
 */
function layerMaker({ weights, prefix }, heads) {
  if (absent(weights)) {
    if (!absent(prefix)) {
      refuse("prefix says where weights stand in a file, but weights is no file");
    }
    return (place) => new Layer(place, ...heads);
  }
  if (kindOf(weights) === "Uint8Array" || isBuffer(weights)) {
    const file = bytes("weights", weights);
    checkRoom([file]);
    const under = absent(prefix) ? "" : text("prefix", prefix);
    return (place) => Layer.ofFile(place, ...heads, file, under);
  }
  const projections = projectionsOf(weights);
  return (place) => new Layer(place, ...heads, projections);
}

/** The projections, copied. */
function projectionsOf(/** @type {unknown} */ given) {
  const weights = options("weights", given, PROJECTIONS);
  checkRoom(Object.values(weights));
  const missing = REQUIRED.filter((name) => absent(weights[name]));
  if (missing.length > 0) {
    refuse(`weights has no ${missing.join(", ")}; give ${REQUIRED.join(", ")}, or no weights for core attention`);
  }
  return Object.fromEntries(PROJECTIONS.map((name) => [name, optional(weights[name], (given) => tensor(name, given))]));
}

/** An output that comes apart into its heads. */
export class ByHead {
  /** @type {WasmByHead | undefined} */
  #run;

  /**
   * @param {symbol} own
   * @param {WasmByHead} run
   * @param {number} numHeads
   */
  constructor(own, run, numHeads) {
    onlyOwn(own, "attention.runByHead()");
    this.#run = run;
    this.numHeads = numHeads;
    this.summed = run.summed;
    /** @type {Tensor} */
    this.output = run.output;
    /** @type {Tensor} */
    this.weights = run.weights;
    /** @type {Tensor} */
    this.contributions = run.contributions;
  }

  /**
   * @param {readonly number[]} heads
   * @returns {Change}
   */
  without(heads) {
    return guarded(() => this.#own().without(this.#known(heads)));
  }

  /**
   * @param {readonly number[]} heads
   * @returns {Tensor}
   */
  outputWithout(heads) {
    return guarded(() => this.#own().outputWithout(this.#known(heads)));
  }

  /** @returns {readonly Change[]} */
  withoutEach() {
    return guarded(() => this.#own().withoutEach());
  }

  /** @returns {readonly PruningStep[]} */
  pruningOrder() {
    return guarded(() => this.#own().pruningOrder());
  }

  free() {
    this.#run?.free();
    this.#run = undefined;
  }

  [disposal()]() {
    this.free();
  }

  #own() {
    if (this.#run === undefined) {
      throw new MultiheadError("freed", "this run was freed; run it again");
    }
    return this.#run;
  }

  #known(/** @type {unknown} */ heads) {
    return Uint32Array.from(wholes("heads", heads, 0, this.numHeads - 1));
  }
}
