// Files that mean harm: always an answer or a MultiheadError with a code, never the end of the wasm.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { caseBytes, numbers } from "./support/data.js";
import { Attention, Device, fromSafetensors, MultiheadError } from "../index.js";

let device;

before(async () => {
  device = await Device.open({ backend: "cpu" });
});

/** The bytes of a safetensors file. A tensor is its shape, of f32, or has a type and bytes as well. */
function file(tensors, settings, metadata = {}) {
  let end = 0;
  const parts = [];
  const header = {
    __metadata__: { attention: typeof settings === "string" ? settings : JSON.stringify(settings), ...metadata },
  };
  for (const [name, given] of Object.entries(tensors)) {
    const shape = Array.isArray(given) ? given : given.shape;
    const data = given.data ?? numbers(shape.reduce((product, axis) => product * axis, 1));
    parts.push(new Uint8Array(data.buffer));
    header[name] = { dtype: given.dtype ?? "F32", shape, data_offsets: [end, (end += data.byteLength)] };
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(json.length), true);
  return new Uint8Array(Buffer.concat([Buffer.from(length.buffer), json, ...parts]));
}

/** Opens a case and does with it what a page does; what went wrong, or null. */
async function faultOf(bytes) {
  try {
    const { attention, inputs } = await Attention.fromCase(bytes, { device });
    try {
      const { graph } = await attention.explain({ ...inputs, returnWeights: true });
      // Large work is no harm, and takes its time.
      if (graph.flops > 1e7 || graph.bytes > 1e8) return null;
      await attention.run({ ...inputs, returnWeights: true, verify: true });
      await attention.runByHead(inputs);
      await attention.toCase(inputs);
    } finally {
      attention.free();
    }
    return null;
  } catch (fault) {
    assert.ok(fault instanceof MultiheadError, `${fault?.stack ?? fault}`);
    assert.notEqual(fault.code, "internal", fault.message);
    return fault;
  }
}

const SMALL = { query: [1, 3, 4] };
const int64 = (...values) => ({ dtype: "I64", shape: [values.length], data: BigInt64Array.from(values) });

test("settings of 64 bits are run, and told to the last digit", async () => {
  for (const [name, digits] of [
    ["query_offset", "9007199254740993"],
    ["query_offset", "9223372036854775807"],
    ["query_offset", "-9223372036854775808"],
    ["window", "9007199254740992"],
    ["window", "18446744073709551615"],
    ["seed", "18446744073709551615"],
  ]) {
    const bytes = file(SMALL, `{"num_heads": 2, "causal": true, "${name}": ${digits}}`);
    assert.equal(await faultOf(bytes), null, `${name} ${digits}`);
    const { settings, inputs } = await Attention.fromCase(bytes, { device });
    assert.equal(settings[name], BigInt(digits));
    if (name !== "seed") assert.equal(inputs[name === "window" ? "window" : "queryOffset"], BigInt(digits));
  }
  const { settings } = await Attention.fromCase(file(SMALL, { num_heads: 2, window: 3, seed: 7 }), { device });
  assert.deepEqual(settings, { num_heads: 2, window: 3, seed: 7 }, "small numbers are numbers");
});

test("sizes beyond all measure are refused, or harmless", async () => {
  const most = 2 ** 32 - 1;
  for (const shape of [
    [most, 0, 4],
    [0, most, 4],
    [1, 0, most],
    [most, most, 0],
    [2 ** 16, 2 ** 16, 0],
    [2 ** 31, 1, 0],
    [1, 2 ** 30, 0],
    [0, 0, 0],
    [1, 3, 0],
  ]) {
    for (const heads of [1, 2, 3, most]) {
      await faultOf(file({ query: shape }, { num_heads: heads }));
      await faultOf(file({ query: shape, key: [1, 2, 4] }, { num_heads: heads, head_dim: most }));
      await faultOf(file({ query: [1, 3, 4], key: shape }, { num_heads: heads, num_kv_heads: most }));
    }
  }
  for (const settings of [
    { num_heads: most },
    { num_heads: 2 ** 31, head_dim: 2 ** 31 },
    { num_heads: 4, head_dim: most },
    { num_heads: 4, num_kv_heads: most },
    { num_heads: 2, scale: 1e38, tolerance: 1e308 },
    `{"num_heads": 18446744073709551615}`,
    `{"num_heads": 2, "window": 18446744073709551616}`,
    `{"num_heads": 2, "scale": 1e400}`,
    `[`.repeat(100_000),
  ]) {
    await faultOf(file(SMALL, settings));
  }
});

test("masks, lengths and words that do not fit are refused when the file is opened", async () => {
  const bits = (shape, byte = 1) => ({
    dtype: "U8",
    shape,
    data: new Uint8Array(shape.reduce((a, b) => a * b, 1)).fill(byte),
  });
  for (const [tensors, metadata] of [
    [{ valid_lens: int64(2n ** 62n) }],
    [{ valid_lens: int64(-1n) }],
    [{ valid_lens: int64(4n) }],
    [{ valid_lens: int64(1n, 2n) }],
    [{ attend_mask: bits([3, 4]) }],
    [{ attend_mask: bits([3, 3], 7) }],
    [{ bias: [2, 3, 3] }],
    [{ key: [2, 5, 4] }],
    [{ key: [1, 5, 6] }],
    [{ key: [1, 5, 4], value: [1, 6, 4] }],
    [{}, { tokens: JSON.stringify([["a", "b"]]) }],
    [{}, { tokens: JSON.stringify([["a", "b", "c", "d"]]) }],
    [{}, { tokens: "[[1, 2, 3]]" }],
  ]) {
    const bytes = file({ ...SMALL, ...tensors }, { num_heads: 2 }, metadata);
    await assert.rejects(Attention.fromCase(bytes, { device }), { name: "MultiheadError", code: "bad-input" });
  }
  const named = { tokens: JSON.stringify([["a", "b", "x".repeat(100_000)]]) };
  assert.equal(await faultOf(file(SMALL, { num_heads: 2 }, named)), null);
});

test("what a file calls its settings is what an error calls them", async () => {
  const fault = await faultOf(file(SMALL, { num_heads: 3 }));
  assert.match(fault?.message ?? "", /num_heads/);
});

test("spoilt case files are refused, or computed", async () => {
  let state = 1;
  const random = (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  let refused = 0;
  for (const name of ["r14_causal_and_mask", "valid_lens_per_query", "torch_bias_kv", "llama_gqa_8_2"]) {
    const good = await caseBytes(`${name}.safetensors`);
    const header = Number(new DataView(good.buffer).getBigUint64(0, true));
    for (let turn = 0; turn < 120; turn += 1) {
      const bytes = good.slice();
      // Digits become other digits, so that shapes and settings lie; some other byte becomes anything.
      for (let change = 0; change <= random(3); change += 1) {
        const place = 8 + random(header);
        const isDigit = bytes[place] >= 48 && bytes[place] < 58;
        bytes[place] = isDigit ? 48 + random(10) : turn % 4 === 0 ? random(256) : bytes[place];
      }
      const cut = turn % 10 === 0 ? bytes.slice(0, random(bytes.length)) : bytes;
      refused += (await faultOf(cut)) === null ? 0 : 1;
      await fromSafetensors(cut).catch((fault) => assert.notEqual(fault.code, "internal", fault.message));
    }
  }
  assert.ok(refused > 50, `${refused}`);
  assert.equal(await faultOf(file(SMALL, { num_heads: 2 })), null, "the library should work as before");
});
