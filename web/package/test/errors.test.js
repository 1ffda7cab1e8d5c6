// Hostile input: always a MultiheadError with a code, never a trap, and the object goes on working.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import "./support/gpu.js";
import { caseBytes, numbers, projections, tensor } from "./support/data.js";
import {
  alignment,
  Attention,
  ByHead,
  copyBoth,
  Device,
  fromSafetensors,
  headsAreFree,
  headStatistics,
  load,
  MultiheadError,
  shapes,
  toNpy,
  toSafetensors,
} from "../index.js";

/** What was refused, with its code; fails where nothing was. */
async function refused(work, code = "bad-input") {
  let answer;
  try {
    answer = await work();
  } catch (error) {
    assert.ok(error instanceof MultiheadError, `${error?.stack ?? error}`);
    assert.equal(error.code, code, error.message);
    assert.ok(error.message.length > 10, error.message);
    return error;
  }
  return assert.fail(`should be refused, but gave ${JSON.stringify(answer)?.slice(0, 200)}`);
}

/** What is no count, no size and no place. */
const NO_COUNTS = [-1, 0, 0.5, NaN, Infinity, 2 ** 32, "8", [8], {}, true, 8n, Symbol("8"), () => 8];

const query = tensor([1, 3, 8], 1);
const detached = new Float32Array(24);
structuredClone(detached, { transfer: [detached.buffer] });

/** Tensors that are none. */
const NO_TENSORS = {
  "a string": "query",
  "a number": 5,
  "a function": () => query,
  "a bare array": query.data,
  "no data": { shape: [1, 3, 8] },
  "no shape": { data: query.data },
  "too few numbers": { data: query.data.subarray(1), shape: [1, 3, 8] },
  "too many numbers": { data: numbers(25), shape: [1, 3, 8] },
  "a shape with a hole": { data: query.data, shape: [1, NaN, 8] },
  "a negative shape": { data: query.data, shape: [-1, -3, 8] },
  "an infinite shape": { data: query.data, shape: [1, Infinity, 8] },
  "a shape of 2^32": { data: query.data, shape: [1, 3, 2 ** 32] },
  "a shape of halves": { data: query.data, shape: [2, 1.5, 8] },
  "a shape of strings": { data: query.data, shape: ["1", "3", "8"] },
  "a shape that is no list": { data: query.data, shape: 24 },
  "whole numbers": { data: new Int32Array(24), shape: [1, 3, 8] },
  bigints: { data: new BigInt64Array(24), shape: [1, 3, 8] },
  strings: { data: Array(24).fill("1"), shape: [1, 3, 8] },
  "a view of bytes": { data: new DataView(new ArrayBuffer(96)), shape: [1, 3, 8] },
  "an empty list": { data: [], shape: [1, 3, 8] },
  "detached data": { data: detached, shape: [1, 3, 8] },
  "a misspelt property": { data: query.data, shape: [1, 3, 8], stride: [24, 8, 1] },
};

for (const backend of ["webgpu", "cpu"]) {
  test(`calls that cannot be, on ${backend}`, async () => {
    const attention = await Attention.create({ numHeads: 2, weights: projections(8), backend });
    const before = await attention.run({ query, causal: true });
    for (const name of ["query", "key", "value", "bias"]) {
      for (const [what, given] of Object.entries(NO_TENSORS)) {
        const error = await refused(() => attention.run({ query, [name]: given }));
        assert.match(error.message, new RegExp(name), what);
      }
    }
    for (const rank of [[], [24], [3, 8], [1, 1, 3, 8]]) {
      await refused(() => attention.run({ query: tensor(rank) }));
    }
    for (const given of [undefined, null, 5, "query", [], query.data, {}, { Query: query }, { query, masc: null }]) {
      await refused(() => attention.run(given));
    }
    await refused(() => attention.run({ query: tensor([1, 3, 7]) }));
    await refused(() => attention.run({ query, key: tensor([2, 3, 8]) }));
    await refused(() => attention.run({ query, key: tensor([1, 4, 8]), value: tensor([1, 5, 8]) }));
    for (const lens of [
      [4],
      [-1],
      [1, 2],
      [0.5],
      [NaN],
      [2 ** 53],
      ["1"],
      "3",
      { data: [1], shape: [2] },
      new Float32Array([1]).fill(0.5),
    ]) {
      await refused(() => attention.run({ query, validLens: lens }));
    }
    for (const data of [Array(9).fill(2), new Uint8Array(9).fill(7), Array(9).fill("1"), new Float32Array(9)]) {
      await refused(() => attention.run({ query, mask: { data, shape: [3, 3] } }));
    }
    await refused(() => attention.run({ query, mask: { data: Array(6).fill(true), shape: [2, 3] } }));
    await refused(() => attention.run({ query, bias: tensor([3, 2, 3]) }));
    // Windows and offsets have 64 bits, which numbers up to 2^53 and bigints are taken for.
    for (const window of [...NO_COUNTS.filter((given) => ![2 ** 32, 8n].includes(given)), 2 ** 53, 0n, 2n ** 64n]) {
      await refused(() => attention.run({ query, window }));
    }
    for (const queryOffset of [0.5, NaN, Infinity, "1", 2 ** 53, {}, 2n ** 63n, -(2n ** 63n) - 1n]) {
      await refused(() => attention.run({ query, queryOffset }));
    }
    for (const scale of [NaN, Infinity, 1e39, "1", {}]) {
      await refused(() => attention.run({ query, scale }));
    }
    for (const temperature of [0, -1, NaN, Infinity, "1"]) {
      await refused(() => attention.run({ query, temperature }));
    }
    for (const headScale of [[1], [1, 1, 1], [1, NaN], ["1", "1"], "11", { 0: 1, 1: 1, length: 2 }]) {
      await refused(() => attention.run({ query, headScale }));
    }
    for (const causal of [1, "true", {}, []]) {
      await refused(() => attention.run({ query, causal }));
    }
    await refused(() => attention.run({ query, preferredKernels: ["no_such_kernel"] }));
    await refused(() => attention.run({ query, preferredKernels: "matmul_tiled" }));
    await refused(() => attention.run({ query, fused: "maybe" }));
    await refused(() => attention.run({ query, onProgress: "call me" }));
    await refused(() => attention.runByHead({ query, counted: [1, 2] }));
    await refused(() => attention.runByHead({ query, counted: [4] }));
    await refused(() => attention.runByHead({ query, headScale: [1, 1] }));
    await refused(() => attention.explain({ query: [1, 3] }));
    await refused(() => attention.explain({ query: [1, 3, 7] }));
    await refused(() => attention.explain({ query: "1,3,8" }));
    await refused(() => attention.toCase({ query, tokens: [["a", 1]] }));
    const after = await attention.run({ query, causal: true });
    assert.deepEqual(after.output, before.output, "the attention should work as before");
    attention.free();
  });
}

test("arrays of another window are arrays", async () => {
  const other = runInNewContext(
    "({ data: new Float32Array(24).fill(0.5), shape: [1, 3, 8], bytes: new Uint8Array(8) })",
  );
  assert.ok(!(other.data instanceof Float32Array));
  const attention = await Attention.create({ numHeads: 2, backend: "cpu" });
  const { output } = await attention.run({ query: { data: other.data, shape: other.shape } });
  assert.ok(output.data.every((number) => Math.abs(number - 0.5) < 1e-6));
  await refused(() => Attention.fromCase(other.bytes));
});

test("layers that cannot be", async () => {
  const weights = projections(8);
  for (const numHeads of NO_COUNTS) {
    await refused(() => Attention.create({ numHeads }));
    await refused(() => Attention.create({ numHeads: 2, numKvHeads: numHeads }));
  }
  for (const given of [undefined, null, 5, "options", [], {}, { heads: 2 }]) {
    await refused(() => Attention.create(given));
  }
  await refused(() => Attention.create({ numHeads: 3, weights }));
  await refused(() => Attention.create({ numHeads: 4, numKvHeads: 3 }));
  await refused(() => Attention.create({ numHeads: 2, headDim: 5, weights }));
  for (const name of ["W_q", "W_k", "W_v", "W_o"]) {
    const error = await refused(() => Attention.create({ numHeads: 2, weights: { ...weights, [name]: undefined } }));
    assert.match(error.message, new RegExp(name));
    await refused(() => Attention.create({ numHeads: 2, weights: { ...weights, [name]: tensor([8, 8, 1]) } }));
  }
  await refused(() => Attention.create({ numHeads: 2, weights: { ...weights, w_q: weights.W_q } }));
  await refused(() => Attention.create({ numHeads: 2, weights: { ...weights, bias_k: tensor([1, 1, 8]) } }));
  await refused(() => Attention.create({ numHeads: 2, weights: "weights.safetensors" }));
  await refused(() => Attention.create({ numHeads: 2, weights: new Uint8Array(7) }));
  await refused(() => Attention.create({ numHeads: 2, prefix: "encoder." }));
  await refused(() => Attention.create({ numHeads: 2, backend: "cuda" }));
  await refused(() => Attention.create({ numHeads: 2, device: {} }));
  await refused(() => Attention.create({ numHeads: 2, device: "cpu" }));
  const device = await Device.open({ backend: "cpu" });
  await refused(() => Attention.create({ numHeads: 2, device, backend: "cpu" }));
  await refused(() => new Attention());
  await refused(() => new Device());
  await refused(() => new ByHead());
});

test("files that are none", async () => {
  const good = await caseBytes("head_dim_7.safetensors");
  for (const bytes of [
    undefined,
    null,
    "case",
    5,
    [],
    new Uint8Array(),
    new Uint8Array(8),
    new Uint16Array(8),
    good.slice(0, -1),
    good.slice(1),
  ]) {
    await refused(() => Attention.fromCase(bytes));
    await refused(() => fromSafetensors(bytes));
  }
  const given = new Uint8Array(good);
  structuredClone(given, { transfer: [given.buffer] });
  await refused(() => Attention.fromCase(given));
  await refused(() => Attention.fromCase(good, { backend: "cpu", name: "x" }));
  const { attention } = await Attention.fromCase(good, { backend: "cpu" });
  assert.ok(attention.numHeads >= 1);
});

test("other functions", async () => {
  for (const given of Object.values(NO_TENSORS)) {
    await refused(async () => toNpy(given));
    await refused(() => headStatistics(given));
    await refused(() => toSafetensors({ a: given }));
  }
  await refused(() => toSafetensors("tensors"));
  await refused(() => toSafetensors({ a: query }, { key: 5 }));
  const weights = tensor([1, 1, 2, 2]);
  await refused(() => headStatistics(query));
  await refused(() => headStatistics(weights, { batch: 1 }));
  await refused(() => headStatistics(weights, { numValid: 3 }));
  await refused(() => headStatistics(weights, { tokens: [1] }));
  await refused(() => headStatistics(weights, { tokens: ["a", "b", "c"] }));
  await refused(() => headStatistics(tensor([1, 1, 3, 3]), { tokens: ["a"] }));
  await refused(() => copyBoth({ numSamples: 10 }));
  await refused(() => copyBoth({ numSamples: -1 }));
  await refused(() => copyBoth({ seed: NaN }));
  await refused(() => copyBoth({ onProgress: 5 }));
  await refused(() => alignment({ query: "" }));
  await refused(() => alignment({ query: 5 }));
  await refused(() => alignment({ query: "a".repeat(65) }));
  await refused(() => alignment({ sharpness: 1e9 }));
  await refused(() => alignment({ onProgress: () => {} }));
  await refused(() => headsAreFree({ heads: [3] }));
  await refused(() => headsAreFree({ heads: [0] }));
  await refused(() => headsAreFree({ numHiddens: [2 ** 31], heads: [1], runs: 0 }));
  await refused(() => shapes({ numHeads: 0 }));
  await refused(() => shapes({ numHiddens: 100, numHeads: 7 }));
  await refused(() => shapes({ device: {} }));
  assert.equal((await shapes({ device: await Device.open({ backend: "cpu" }) })).numHeads, 5);
});

test("what does not fit is refused with numbers, and nothing breaks", async () => {
  for (const backend of ["webgpu", "cpu"]) {
    const attention = await Attention.create({ numHeads: 1, backend });
    const long = { data: new Float32Array(40_000), shape: [1, 40_000, 1] };
    const error = await refused(() => attention.run({ query: long, returnWeights: true }), "limit-exceeded");
    assert.ok(error.need > error.have, `${error.need} > ${error.have}: ${error.message}`);
    assert.ok(error.limit && error.unit);
    // Too many numbers to name, and shapes whose product wraps around in 32 bits.
    for (const query of [
      [1, 2 ** 31, 8],
      [2 ** 16, 2 ** 16, 1],
      [2 ** 32 - 1, 2 ** 32 - 1, 2 ** 32 - 1],
      [1, 2 ** 30, 2 ** 30],
    ]) {
      await attention.explain({ query }).then(
        ({ steps }) => assert.ok(steps.length < 1e6),
        (error) =>
          assert.ok(
            error instanceof MultiheadError && ["bad-input", "limit-exceeded"].includes(error.code),
            `${query}: ${error.code} ${error.message}`,
          ),
      );
    }
    const answer = await attention.run({ query: { data: new Float32Array(2), shape: [1, 2, 1] } });
    assert.deepEqual(Array.from(answer.output.data), [0, 0]);
  }
});

test("the wasm is loaded once, from one place", async () => {
  await load();
  await load(new URL("../wasm/multihead_bg.wasm", import.meta.url));
  for (const wasm of [5, null, {}, [], () => {}, true, "nope.wasm", new Uint8Array(8)]) {
    await refused(() => load(wasm));
  }
});

test("what was freed says so", async () => {
  const attention = await Attention.create({ numHeads: 2, backend: "cpu" });
  const running = attention.run({ query });
  attention.free();
  attention.free();
  assert.equal((await running).output.data.length, 24, "a call under way is finished");
  await refused(() => attention.run({ query }), "freed");
  await refused(() => attention.explain({ query: [1, 3, 8] }), "freed");
  for (const backend of ["webgpu", "cpu"]) {
    const device = await Device.open({ backend });
    const left = await Attention.create({ numHeads: 2, device });
    device.free();
    device.free();
    await refused(() => Attention.create({ numHeads: 2, device }), "freed");
    await refused(() => left.run({ query }), "freed");
  }
  const other = await Attention.create({ numHeads: 2, backend: "cpu" });
  const byHead = await other.runByHead({ query });
  byHead.free();
  byHead.free();
  await refused(async () => byHead.without([0]), "freed");
});
