// Calls: order, copies, options, verification, what is kept compiled.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import "./support/gpu.js";
import { caseBytes, projections, tensor } from "./support/data.js";
import { Attention, Device, headsAreFree } from "../index.js";
import initialise from "../wasm/multihead.js";

const query = tensor([2, 5, 8], 1);
let device;
let attention;

before(async () => {
  device = await Device.open({ backend: "webgpu" });
  attention = await Attention.create({ numHeads: 2, weights: projections(8), device });
});

/** What microtasks throw from now on, until the test is over. */
function caught(test) {
  const { queueMicrotask } = globalThis;
  const thrown = [];
  test.after(() => Object.assign(globalThis, { queueMicrotask }));
  globalThis.queueMicrotask = (work) =>
    queueMicrotask(() => {
      try {
        work();
      } catch (error) {
        thrown.push(error.message);
      }
    });
  return thrown;
}

test("a first call gives tensors with shapes and times", async () => {
  const result = await attention.run({ query, returnWeights: true });
  assert.deepEqual(result.output.shape, [2, 5, 8]);
  assert.deepEqual(result.weights.shape, [2, 2, 5, 5]);
  assert.ok(result.output.data instanceof Float32Array);
  const rows = Array.from({ length: 20 }, (_, row) => result.weights.data.subarray(5 * row, 5 * row + 5));
  assert.ok(rows.every((row) => Math.abs(row.reduce((sum, weight) => sum + weight, 0) - 1) < 2 ** -20));
  const { compile, upload, gpu, readback } = result.timing;
  assert.ok(compile > 0 && upload >= 0 && gpu > 0 && readback >= 0, JSON.stringify(result.timing));
  assert.ok(result.dispatches > 1);
  assert.equal("weights" in (await attention.run({ query })), false);
});

test("the same call compiles once", async () => {
  const shape = { query: tensor([1, 7, 8], 4), window: 3 };
  assert.ok((await attention.run(shape)).timing.compile > 0);
  assert.equal((await attention.run({ ...shape, query: tensor([1, 7, 8], 5) })).timing.compile, 0);
  assert.ok((await attention.run({ ...shape, window: 2 })).timing.compile > 0);
});

test("calls that overlap are worked off in order, with the numbers of when they were made", async () => {
  const alone = [];
  const inputs = [1, 2, 3, 4].map((seed) => tensor([2, 5, 8], seed));
  for (const query of inputs) {
    alone.push((await attention.run({ query, causal: true })).output);
  }
  const order = [];
  const calls = inputs.map(async (query, place) => {
    const { output } = await attention.run({ query, causal: true });
    order.push(place);
    return output;
  });
  const refused = attention.run({ query, key: tensor([1, 1, 1]) }).catch((error) => error.code);
  inputs.forEach(({ data }) => data.fill(NaN));
  assert.deepEqual(await Promise.all(calls), alone);
  assert.deepEqual(order, [0, 1, 2, 3]);
  assert.equal(await refused, "bad-input");
});

test("two attentions on one device do not disturb each other", async () => {
  const other = await Attention.create({ numHeads: 4, weights: projections(8, 50), device });
  const alone = [await attention.run({ query }), await other.run({ query })];
  const together = await Promise.all([attention.run({ query }), other.run({ query }), attention.run({ query })]);
  assert.deepEqual(together[0].output, alone[0].output);
  assert.deepEqual(together[1].output, alone[1].output);
  assert.deepEqual(together[2].output, alone[0].output);
  other.free();
});

test("GPU and CPU agree with the reference, and say how far", async () => {
  const cpu = await Attention.create({ numHeads: 2, weights: projections(8), backend: "cpu" });
  for (const layer of [attention, cpu]) {
    const { verification } = await layer.run({ query, validLens: [3, 5], returnWeights: true, verify: true });
    assert.ok(verification.ok, JSON.stringify(verification));
    assert.ok(verification.maxError <= verification.output.allowed + verification.weights.allowed);
    assert.equal(verification.heads.length, 2);
    assert.equal(Math.max(...verification.heads), verification.weights.maxError);
    assert.equal(verification.nans, 0);
    assert.ok(verification.took > 0);
    const without = await layer.run({ query, verify: true });
    assert.equal(without.verification.weights, null);
    assert.equal(without.verification.heads, null);
  }
});

test("the reference is the truth, rounded once", async () => {
  const call = { query, validLens: [3, 5], bias: tensor([5, 5], 7) };
  const reference = await attention.reference(call);
  const { output, weights } = await attention.verify(reference, call);
  for (const [verified, { data }] of [
    [output, reference.output],
    [weights, reference.weights],
  ]) {
    const largest = data.reduce((most, number) => Math.max(most, Math.abs(number)), 0);
    assert.ok(verified.maxError <= 2 ** -24 * largest, `${verified.maxError} of ${largest}`);
    assert.ok(verified.referenceError > 0, "plain arithmetic in 32 bits is another answer");
  }
});

test("a wrong answer is not verified, and the head that is wrong is named", async () => {
  const call = { query, causal: true };
  const right = await attention.run({ ...call, returnWeights: true });
  assert.ok((await attention.verify(right, call)).ok);
  const wrong = { output: right.output, weights: { data: right.weights.data.slice(), shape: right.weights.shape } };
  wrong.weights.data[25] += 1e-3;
  const told = await attention.verify(wrong, call);
  assert.equal(told.ok, false);
  assert.deepEqual([told.output.ok, told.weights.ok, told.weights.worst], [true, false, [0, 1, 0, 0]]);
  assert.ok(told.heads[0] < 1e-6 && Math.abs(told.heads[1] - 1e-3) < 1e-6);
  wrong.weights.data[0] = NaN;
  const nan = await attention.verify(wrong, call);
  assert.deepEqual([nan.ok, nan.nans, nan.weights.expectedNans, nan.maxError], [false, 1, 0, NaN]);
  assert.equal((await attention.verify(right, { query })).ok, false, "an answer to another mask");
  await assert.rejects(attention.verify(right, { query: tensor([1, 5, 8]) }), { code: "bad-input" });
  await assert.rejects(attention.verify({}, call), { code: "bad-input" });
});

test("nothing is left in memory of what was freed", async () => {
  const { memory } = await initialise();
  const once = async (backend) => {
    const layer = await Attention.create({ numHeads: 2, weights: projections(64), backend });
    await layer.run({ query: tensor([2, 16, 64]), returnWeights: true, verify: true });
    (await layer.runByHead({ query: tensor([1, 16, 64]) })).free();
    layer.free();
  };
  for (const backend of ["cpu", "webgpu"]) {
    for (let round = 0; round < 5; round += 1) {
      await once(backend);
    }
    const before = memory.buffer.byteLength;
    for (let round = 0; round < 20; round += 1) {
      await once(backend);
    }
    assert.ok(
      memory.buffer.byteLength - before < 2 ** 20,
      `${memory.buffer.byteLength - before} bytes more on ${backend}`,
    );
  }
});

test("NaN is counted", async () => {
  const spoilt = { data: query.data.slice(), shape: query.shape };
  spoilt.data[0] = NaN;
  const { verification } = await attention.run({ query, key: spoilt, verify: true, returnWeights: true });
  assert.ok(verification.nans > 0);
  assert.equal(verification.output.nans, verification.output.expectedNans);
  const mask = { data: Array.from({ length: 25 }, (_, place) => place % 5 !== 0), shape: [5, 5] };
  const hidden = await attention.run({ query, key: spoilt, mask, verify: true });
  assert.equal(hidden.verification.nans, 0, "a hidden key takes no part");
});

test("masks do what they say", async () => {
  const { weights: causal } = await attention.run({ query, causal: true, returnWeights: true });
  assert.ok([1, 2, 3, 4].every((key) => causal.data[key] === 0));
  const { weights: lens } = await attention.run({ query, validLens: new Int32Array([1, 0]), returnWeights: true });
  const wideLens = { data: new BigUint64Array([1n, 0n]), shape: [2] };
  assert.deepEqual((await attention.run({ query, validLens: wideLens, returnWeights: true })).weights, lens);
  assert.equal(lens.data[0], 1);
  assert.ok(
    lens.data.subarray(50).every((weight) => weight === 0),
    "no key, no weight",
  );
  const { weights: window } = await attention.run({ query, window: 1, returnWeights: true });
  assert.ok(window.data.every((weight, place) => weight === ((place % 25) % 6 === 0 ? 1 : 0)));
  const shifted = await attention.run({ query, causal: true, queryOffset: -2, returnWeights: true });
  assert.ok(shifted.weights.data.subarray(0, 10).every((weight) => weight === 0));
  const bias = {
    data: Float32Array.from({ length: 25 }, (_, place) => (place % 5 === 0 ? 0 : -Infinity)),
    shape: [5, 5],
  };
  const { weights: biased } = await attention.run({ query, bias, returnWeights: true });
  assert.ok(biased.data.every((weight, place) => weight === (place % 5 === 0 ? 1 : 0)));
});

test("whole numbers of 64 bits are taken as bigints", async () => {
  const all = { query, causal: true, returnWeights: true };
  const usual = await attention.run(all);
  // Positions i + 2⁶³ − 1, of which the window reaches back to 0 and no further: all keys but those before i.
  const far = await attention.run({ ...all, queryOffset: 2n ** 63n - 1n, window: 2n ** 63n });
  assert.ok(far.weights.data.every((weight, place) => weight > 0 === place % 5 >= Math.floor(place / 5) % 5));
  for (const [bigint, number] of [
    [{ queryOffset: 0n, window: 2n ** 64n - 1n }, {}],
    [
      { queryOffset: -1n, window: 2n },
      { queryOffset: -1, window: 2 },
    ],
  ]) {
    const [one, other] = await Promise.all([bigint, number].map((mask) => attention.run({ ...all, ...mask })));
    assert.deepEqual(one.weights, other.weights);
  }
  assert.deepEqual((await attention.run({ ...all, window: 2n ** 64n - 1n })).weights, usual.weights);
});

test("temperature divides the scale", async () => {
  const half = await attention.run({ query, temperature: 2, returnWeights: true });
  const same = await attention.run({ query, scale: 0.25, returnWeights: true });
  assert.deepEqual([half.output, half.weights], [same.output, same.weights]);
  const flat = await attention.run({ query, scale: 0, returnWeights: true });
  assert.ok(flat.weights.data.every((weight) => Math.abs(weight - 0.2) <= 0.2 * 2 ** -20));
});

test("heads are switched off alike in every way", async () => {
  for (const weights of [projections(8), undefined]) {
    const layer = await Attention.create({ numHeads: 2, weights, device });
    const byHead = await layer.runByHead({ query });
    const whole = await layer.run({ query });
    assert.ok((await layer.verify(byHead, { query })).ok);
    for (const [off, headScale] of [
      [[0], [0, 1]],
      [[1], [1, 0]],
      [
        [0, 1],
        [0, 0],
      ],
      [[], [1, 1]],
    ]) {
      const scaled = await layer.run({ query, headScale, verify: true });
      assert.ok(scaled.verification.ok);
      const without = byHead.outputWithout(off);
      const { output: verified } = await layer.verify({ output: without }, { query, headScale });
      assert.ok(verified.ok, `${off}: ${JSON.stringify(verified)}`);
      const [moved, all] = [0, 1].map((which) =>
        Math.hypot(...whole.output.data.map((o, i) => (which ? o : without.data[i] - o))),
      );
      assert.ok(Math.abs(byHead.without(off).relative - moved / all) < 1e-5);
    }
    assert.equal(byHead.withoutEach().length, 2);
    assert.deepEqual(byHead.withoutEach()[1], byHead.without([1, 1]));
    assert.deepEqual(
      byHead
        .pruningOrder()
        .map(({ head }) => head)
        .sort(),
      [0, 1],
    );
    assert.throws(() => byHead.without([2]), { name: "MultiheadError", code: "bad-input" });
    assert.equal(byHead.summed, weights !== undefined);
  }
});

test("only rows that count move an output", async () => {
  const byHead = await attention.runByHead({ query, counted: [1, 0] });
  const [row, all] = [byHead.output, byHead.outputWithout([0])].map(({ data }) => Array.from(data.subarray(0, 8)));
  const relative = Math.hypot(...row.map((number, place) => number - all[place])) / Math.hypot(...row);
  assert.ok(Math.abs(byHead.without([0]).relative - relative) < 1e-5);
});

test("a profile times every dispatch", async () => {
  const { profile, dispatches, output } = await attention.run({ query, profile: true });
  assert.equal(profile.steps.length, dispatches);
  assert.ok(["device", "host"].includes(profile.clock));
  assert.ok(profile.steps.every(({ took, start, kernel }) => took >= 0 && start >= 0 && kernel.length > 0));
  assert.deepEqual(output, (await attention.run({ query })).output);
});

test("progress ends with all, and what a listener throws is the call's error", async (test) => {
  const told = [];
  const result = await attention.run({ query, onProgress: (progress) => told.push(progress) });
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(told.at(-1).done, told.at(-1).total);
  const thrown = caught(test);
  const cause = new Error("mine");
  let calls = 0;
  const throwing = () => {
    calls += 1;
    throw cause;
  };
  for (const work of [
    () => attention.run({ query, onProgress: throwing }),
    () => headsAreFree({ device, numHiddens: [8], heads: [1, 2], runs: 0, onProgress: throwing }),
  ]) {
    await assert.rejects(work, { name: "MultiheadError", code: "bad-input", cause });
  }
  assert.equal(calls, 2, "nobody is called again after that");
  assert.deepEqual(thrown, [], "nothing goes uncaught");
  assert.deepEqual((await attention.run({ query })).output, result.output, "the attention should work as before");
});

test("the graph is told as data", async () => {
  const told = await attention.explain({ query: [2, 5, 8], causal: true, returnWeights: true });
  assert.equal(told.graph.nodes.length, 11);
  assert.equal(told.rewriting.nodesBefore, 11);
  assert.equal(told.rewriting.nodesAfter, told.rewritten.nodes.length);
  const { values, nodes } = told.rewritten;
  for (const node of nodes) {
    assert.equal(values[node.output].node, node.id);
    assert.ok(
      node.inputs.every((id) => values[id].source !== "node" || values[id].node < node.id),
      "edges go forward",
    );
  }
  assert.equal(values.filter(({ isOutput }) => isOutput).length, 2);
  const steps = told.steps.reduce((sum, { flops }) => sum + flops, 0);
  assert.ok(Math.abs(steps - told.rewritten.flops) < 1e-6 * steps);
  assert.ok(told.steps.every(({ workgroups, kernel, node }) => workgroups.length === 3 && kernel && nodes[node]));
  assert.match(told.text, /query · W_qᵀ/);
  assert.deepEqual(told.sizes, { numHeads: 2, numKvHeads: 2, headDim: 4, valueDim: 4, scale: 0.5 });
  const given = { query, causal: true, mask: { data: Array(25).fill(true), shape: [5, 5] } };
  const [ofTensors, ofShapes] = [given, { query: [2, 5, 8], causal: true, mask: [5, 5] }].map((call) =>
    attention.explain(call),
  );
  assert.deepEqual(await ofTensors, await ofShapes, "a tensor stands for its shape");
  const streamed = await attention.explain({ query: [2, 5, 8], fused: "on" });
  assert.equal(streamed.rewriting.streams, true);
  const ran = await attention.run({ query, fused: "on" });
  assert.equal(ran.streamed, true);
  assert.equal(ran.dispatches, streamed.steps.length);
});

test("a kernel can be asked for", async () => {
  const kernels = device.kernels();
  assert.ok(kernels.matmul.length > 2 && kernels.softmax.length > 1);
  assert.deepEqual(kernels.transpose_qkv, ["transpose_qkv"], "nothing lies in textures in a browser");
  for (const kernel of kernels.matmul) {
    const call = { query, preferredKernels: [kernel], fused: "off" };
    const { steps } = await attention.explain(call);
    assert.ok(
      steps.some((step) => step.kernel === kernel),
      kernel,
    );
    assert.ok((await attention.run({ ...call, verify: true })).verification.ok, kernel);
  }
});

test("weights may come as a file", async () => {
  const file = await caseBytes("bert_layer.safetensors");
  const opened = await Attention.fromCase(file, { device });
  const layer = await Attention.create({
    numHeads: opened.attention.numHeads,
    weights: file,
    prefix: opened.settings.prefix ?? "",
    device,
  });
  const [a, b] = [await opened.attention.run(opened.inputs), await layer.run(opened.inputs)];
  assert.deepEqual(a.output, b.output);
});

test("training drops what seed and step say", async () => {
  const run = (training) => attention.run({ query, training, returnWeights: true });
  const [evaluated, none, all] = [
    await run(null),
    await run({ dropout: 0 }),
    await run({ dropout: 1, returnsDropped: true }),
  ];
  assert.deepEqual(none.output.data, evaluated.output.data);
  assert.ok(all.weights.data.every((weight) => weight === 0));
  const dropped = await run({ dropout: 0.25, seed: 3, step: 1, returnsDropped: true });
  const kept = dropped.weights.data.filter((weight) => weight > 0).length;
  assert.ok(kept > 50 && kept < 95, `${kept} of 100 weights`);
  assert.ok(
    dropped.weights.data.every(
      (weight, place) => weight === 0 || Math.abs(weight * 0.75 - evaluated.weights.data[place]) < 1e-6,
    ),
  );
  const again = await run({ dropout: 0.25, seed: 3, step: 1 });
  assert.deepEqual(again.output.data, dropped.output.data);
  assert.ok(
    again.weights.data.every((weight) => weight > 0),
    "weights that come back are those before dropout",
  );
  const other = await run({ dropout: 0.25, seed: 3, step: 2 });
  assert.notDeepEqual(other.output.data, dropped.output.data);
  const { verification } = await attention.run({ query, training: { dropout: 0.25, seed: 3 }, verify: true });
  assert.equal(verification.nans, 0);
  await assert.rejects(() => run({ dropout: 1.5 }), /training\.dropout is 1\.5, but must be between 0 and 1/);
});
