// Statistics of heads, experiments, and files.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import "./support/gpu.js";
import { caseBytes, projections, tensor } from "./support/data.js";
import {
  alignment,
  Attention,
  copyBoth,
  Device,
  fromSafetensors,
  headsAreFree,
  headStatistics,
  shapes,
  toNpy,
  toSafetensors,
} from "../index.js";

let device;

before(async () => {
  device = await Device.open({ backend: "webgpu" });
});

test("statistics of a head that is known", async () => {
  // One head, three tokens: each looks at the one before it, the first at itself.
  const weights = { data: [1, 0, 0, 1, 0, 0, 0, 1, 0], shape: [1, 1, 3, 3] };
  const [head] = await headStatistics(weights, { tokens: ["a", "b", "[SEP]"] });
  assert.equal(head.entropyBits, 0);
  assert.equal(head.shareOnPrevious, 1);
  assert.ok(Math.abs(head.shareOnSelf - 1 / 3) < 1e-12);
  assert.ok(Math.abs(head.shareOnFirst - 2 / 3) < 1e-12);
  assert.equal(head.shareOnSeparator, 0);
  assert.equal(head.pattern, "previous");
  assert.equal(head.patternScore, 1);
  assert.deepEqual(head.strongest, { query: 0, key: 0, weight: 1 });
  assert.equal(head.numCounted, 3);
  assert.deepEqual(Object.keys(head.patternScores).sort(), ["broad", "first", "next", "previous", "self", "separator"]);
  const [padded] = await headStatistics(weights, { tokens: ["a", "[PAD]", "[PAD]"] });
  assert.equal(padded.numCounted, 1);
  assert.ok(Number.isNaN(padded.shareOnSeparator), "no separator, no number");
});

test("labelled links of a sentence that is known", async () => {
  const file = await readFile(new URL("../../../examples/data/minilm_trophy_layer1.safetensors", import.meta.url));
  const { attention, inputs, tokens } = await Attention.fromCase(new Uint8Array(file), { backend: "cpu" });
  const { weights } = await attention.run({ ...inputs, returnWeights: true });
  const heads = await headStatistics(weights, { tokens: tokens[0] });
  assert.equal(heads.length, 12);
  const pronoun = heads[0].links.find(({ relation }) => relation === "pronoun-to-antecedent");
  assert.deepEqual(
    [tokens[0][pronoun.from], tokens[0][pronoun.to], tokens[0][pronoun.rival]],
    ["it", "trophy", "suitcase"],
  );
  const row = weights.data.subarray(pronoun.from * 16, pronoun.from * 16 + 16);
  assert.equal(pronoun.share, row[pronoun.to]);
  assert.equal(heads[8].pattern, "next", "as the picture in the README shows");
});

test("one head cannot copy two values, two can", async () => {
  const told = [];
  const report = await copyBoth({
    device,
    numSamples: 2048,
    valueDim: 4,
    onProgress: (progress) => told.push(progress.done),
  });
  const [one, two] = [1, 2].map((heads) => report.rows.filter((row) => row.heads === heads));
  assert.ok(one.length >= 3 && one.every(({ relativeError }) => Math.abs(relativeError - Math.SQRT1_2) < 0.02));
  assert.ok(two.length >= 2 && two.every(({ relativeError }) => relativeError < 1e-4));
  assert.ok(report.control.relativeError > 0.1);
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(told, [1, 2, 3, 4, 5, 6]);
  assert.match(report.text, /head/);
});

test("letters are aligned, of any script", async () => {
  const report = await alignment({ device });
  assert.equal(report.separated, true);
  assert.deepEqual(report.weights.shape, [1, 1, 9, 11]);
  assert.ok(report.weights.data instanceof Float32Array);
  assert.ok(report.letters.some(({ regime, copies }) => regime === "split" && copies === 2));
  const other = await alignment({ device, query: "übersetzung", key: "übersetzen", seed: 3 });
  assert.equal(other.letters[0].letter, "ü");
});

test("more heads cost exponentials only", async () => {
  const report = await headsAreFree({ device, numHiddens: [16], heads: [1, 2, 4], numTokens: 8, runs: 2 });
  assert.equal(new Set(report.rows.map(({ flops }) => flops)).size, 1);
  assert.deepEqual(
    report.rows.map(({ exponentials }) => exponentials),
    [64, 128, 256],
  );
  assert.ok(
    report.rows.every(
      ({ medianMs, parameters, parametersFormula }) => medianMs > 0 && parameters === parametersFormula,
    ),
  );
  const counted = await headsAreFree({ device, numHiddens: [64], heads: [1], runs: 0 });
  assert.equal(counted.rows[0].medianMs, null);
});

test("shapes are told", async () => {
  const report = await shapes({ device });
  assert.deepEqual([report.numHiddens, report.numHeads, report.calls.length], [100, 5, 2]);
  assert.deepEqual(report.calls[0].output, [2, 4, 100]);
  assert.ok(report.calls[0].steps.some(({ op, shape }) => op === "transpose_qkv" && shape.join() === "10,4,20"));
});

test("a case goes to a file and back", async () => {
  const layer = await Attention.create({ numHeads: 2, numKvHeads: 2, weights: projections(8), device });
  const inputs = {
    query: tensor([2, 3, 8]),
    key: tensor([2, 4, 8], 2),
    validLens: [4, 1],
    causal: true,
    queryOffset: 1,
    window: 9,
  };
  const answer = await layer.run({ ...inputs, temperature: 2, returnWeights: true });
  const bytes = await layer.toCase({
    ...inputs,
    temperature: 2,
    about: "a case",
    tokens: [
      ["a", "b", "c"],
      ["d", "ë", '"f"'],
    ],
    expected: answer,
    tolerance: 1e-5,
  });
  const opened = await Attention.fromCase(bytes, { device });
  assert.equal(opened.about, "a case");
  assert.deepEqual(opened.tokens, [
    ["a", "b", "c"],
    ["d", "ë", '"f"'],
  ]);
  assert.equal(opened.tolerance, 1e-5);
  assert.deepEqual(opened.expected.output, answer.output);
  assert.deepEqual(opened.expected.weights, answer.weights);
  const again = await opened.attention.run({ ...opened.inputs, returnWeights: true });
  assert.deepEqual([again.output, again.weights], [answer.output, answer.weights]);
  assert.deepEqual([opened.inputs.causal, opened.inputs.queryOffset, opened.inputs.window], [true, 1, 9]);
});

test("every case file is what it was after being written", async () => {
  for (const name of [
    "r08_bias_minus_inf",
    "r07_true_means_attend",
    "torch_bias_kv",
    "llama_gqa_8_2",
    "valid_lens_per_query",
  ]) {
    const { attention, inputs, expected, ...about } = await Attention.fromCase(await caseBytes(`${name}.safetensors`), {
      device,
    });
    const { tolerance, tokens } = about;
    const bytes = await attention.toCase({
      ...inputs,
      about: about.about ?? undefined,
      tokens: tokens ?? undefined,
      expected,
      tolerance,
    });
    const again = await Attention.fromCase(bytes, { device });
    assert.deepEqual(again.inputs, inputs, name);
    assert.deepEqual(again.expected, expected, name);
    const answers = [await attention.run(inputs), await again.attention.run(again.inputs)];
    assert.deepEqual(answers[0].output, answers[1].output, name);
  }
});

test("tensors go to safetensors and back", async () => {
  const tensors = { b: tensor([2, 3]), a: tensor([], 2), __proto__x: tensor([0, 4]) };
  const bytes = await toSafetensors(tensors, { about: "three tensors" });
  const read = await fromSafetensors(bytes);
  assert.deepEqual(read.metadata, { about: "three tensors" });
  assert.deepEqual(Object.keys(read.tensors).sort(), ["__proto__x", "a", "b"]);
  assert.deepEqual(read.tensors.b, tensors.b);
  assert.deepEqual(read.tensors.a.shape, []);
  assert.deepEqual(
    await toSafetensors({ a: tensors.a, __proto__x: tensors["__proto__x"], b: tensors.b }, { about: "three tensors" }),
    bytes,
  );
});

test("a .npy file is what NumPy's format says", () => {
  // NEP 1: magic, version, length of the header, a dictionary, padding to 64 bytes, the numbers.
  const file = toNpy({ data: [1.5, -2, 3, 4, 5, 6], shape: [2, 3] });
  assert.deepEqual(Array.from(file.subarray(0, 8)), [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0]);
  const length = file[8] + 256 * file[9];
  assert.equal((10 + length) % 64, 0);
  const header = new TextDecoder().decode(file.subarray(10, 10 + length));
  assert.match(header, /^\{'descr': '<f4', 'fortran_order': False, 'shape': \(2, 3\), \} *\n$/);
  const numbers = new Float32Array(file.slice(10 + length).buffer);
  assert.deepEqual(Array.from(numbers), [1.5, -2, 3, 4, 5, 6]);
  for (const [shape, written] of [
    [[6], "(6,)"],
    [[], "()"],
    [[0, 3], "(0, 3)"],
  ]) {
    const count = shape.reduce((product, axis) => product * axis, 1);
    const text = new TextDecoder("latin1").decode(toNpy({ data: new Float32Array(count), shape }));
    assert.ok(text.includes(`'shape': ${written}, }`), text.slice(10));
  }
});

test("wasm is loaded by itself, in a process of its own too", () => {
  const program = `
    import { Device, load } from ${JSON.stringify(new URL("../index.js", import.meta.url).href)};
    const failure = await load(new Uint8Array([0, 1, 2])).catch((error) => error.code);
    const device = await Device.open();
    console.log(JSON.stringify([failure, device.info.backend, device.info.fallback.code]));
  `;
  const said = execFileSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  assert.deepEqual(JSON.parse(said), ["not-loaded", "cpu", "no-webgpu"]);
});
