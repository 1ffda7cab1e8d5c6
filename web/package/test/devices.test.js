// Where to compute: devices of the package's own and of pages, their loss, and why there is none.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { gpu, ownDevice, show } from "./support/gpu.js";
import { projections, tensor } from "./support/data.js";
import { Attention, Device } from "../index.js";

const query = tensor([1, 4, 8], 1);

afterEach(() => {
  show(gpu);
  delete globalThis.isSecureContext;
});

test("a device says what it is", async () => {
  const device = await Device.open();
  assert.equal(device.info.backend, "webgpu");
  assert.equal(device.info.software, true, "SwiftShader runs on the CPU");
  assert.match(device.info.warning, /software adapter/);
  assert.equal(device.info.fallback, null);
  assert.ok(device.info.limits.maxStorageBufferBindingSize >= 2 ** 27);
  assert.ok(device.info.features.every((feature) => typeof feature === "string"));
  assert.equal(device.info.timestamps, device.info.features.includes("timestamp-query"));
  assert.ok(device.gpu instanceof GPUDevice);
  assert.equal(device.isLost, false);
  const probe = await Device.probe();
  assert.deepEqual([probe.webgpu, probe.code, probe.adapter.software], [true, null, true]);
  device.free();
});

test("a page's own device is used, and neither destroyed nor listened to", async () => {
  const own = await ownDevice();
  let lost = false;
  own.lost.then(() => (lost = true));
  const attention = await Attention.create({ numHeads: 2, weights: projections(8), device: own });
  assert.equal(attention.device.gpu, own);
  const { verification } = await attention.run({ query, verify: true });
  assert.ok(verification.ok);
  const other = await Attention.create({ numHeads: 4, device: own });
  assert.equal(other.device, attention.device, "kernels are compiled once for a device");
  attention.free();
  attention.device.free();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(lost, false);
  assert.equal(own.onuncapturederror ?? null, null);
  const again = await Attention.create({ numHeads: 2, device: own });
  assert.equal((await again.run({ query })).output.data.length, 32);
  own.destroy();
  await own.lost;
  await assert.rejects(again.run({ query }), { code: "device-lost" });
  await assert.rejects(Device.open({ gpu: own }), { code: "device-lost" });
});

test("a lost device gives an error, never an answer, and another one works", async () => {
  const device = await Device.open({ backend: "webgpu" });
  const attention = await Attention.create({ numHeads: 2, weights: projections(8), device });
  const { output } = await attention.run({ query });
  const running = attention.run({ query: tensor([1, 64, 8], 2) });
  device.gpu.destroy();
  await assert.rejects(running, { name: "MultiheadError", code: "device-lost" });
  const { reason } = await device.lost;
  assert.equal(reason, "destroyed");
  assert.equal(device.isLost, true);
  for (const work of [
    () => attention.run({ query }),
    () => attention.runByHead({ query }),
    () => Attention.create({ numHeads: 2, device }),
  ]) {
    await assert.rejects(work, { code: "device-lost" });
  }
  const again = await Attention.create({ numHeads: 2, weights: projections(8), backend: "webgpu" });
  assert.deepEqual((await again.run({ query })).output, output);
});

test("the shared device is replaced when it was lost", async () => {
  const first = await Attention.create({ numHeads: 2 });
  const second = await Attention.create({ numHeads: 2 });
  assert.equal(first.device, second.device);
  first.device.gpu.destroy();
  await first.device.lost;
  const third = await Attention.create({ numHeads: 2 });
  assert.notEqual(third.device, first.device);
  assert.equal((await third.run({ query })).output.data.length, 32);
});

test("freeing a device of the package's own ends it", async () => {
  const device = await Device.open({ backend: "webgpu" });
  const attention = await Attention.create({ numHeads: 2, device });
  device.free();
  assert.equal((await device.lost).reason, "destroyed");
  await assert.rejects(attention.run({ query }), { code: "device-lost" });
});

const NOTHING = {
  "no-webgpu": () => show(undefined),
  "insecure-context": () => {
    show(undefined);
    globalThis.isSecureContext = false;
  },
  "no-adapter": () => show({ requestAdapter: async () => null }),
};

for (const [code, prepare] of Object.entries(NOTHING)) {
  test(`without a GPU the CPU computes and says why: ${code}`, async () => {
    prepare();
    const probe = await Device.probe();
    assert.deepEqual([probe.webgpu, probe.code, probe.adapter], [false, code, null]);
    await assert.rejects(Device.open({ backend: "webgpu" }), { name: "MultiheadError", code });
    const device = await Device.open();
    assert.equal(device.info.backend, "cpu");
    assert.equal(device.info.fallback.code, code);
    assert.equal(device.info.fallback.message, probe.message);
    assert.match(device.info.warning, /the CPU computes/);
    assert.equal(device.gpu, null);
    const attention = await Attention.create({ numHeads: 2, weights: projections(8), device });
    assert.ok((await attention.run({ query, verify: true })).verification.ok);
  });
}

test("an adapter that fails is no adapter", async () => {
  const failing = async () => {
    throw new Error("driver crashed");
  };
  show({ requestAdapter: failing });
  await assert.rejects(Device.open({ backend: "webgpu" }), { code: "no-adapter", message: /driver crashed/ });
  const adapter = await gpu.requestAdapter();
  const { features, limits, info } = adapter;
  show({
    requestAdapter: async () => ({ features, limits, info, requestDevice: failing }),
    wgslLanguageFeatures: new Set(),
  });
  await assert.rejects(Device.open({ backend: "webgpu" }), { code: "gpu-refused", message: /driver crashed/ });
  assert.equal((await Device.open()).info.fallback.code, "gpu-refused");
});

test("a device with too little is refused with numbers", async () => {
  const poor = await ownDevice();
  const limits = {};
  for (const name in poor.limits) {
    limits[name] = poor.limits[name];
  }
  limits.maxStorageBuffersPerShaderStage = 4;
  const told = new Proxy(poor, {
    get: (device, name) =>
      name === "limits" ? limits : typeof device[name] === "function" ? device[name].bind(device) : device[name],
  });
  await assert.rejects(Device.open({ gpu: told }), { code: "limit-exceeded", need: 8, have: 4, unit: "buffers" });
});

test("what is no device is refused", async () => {
  for (const given of [5, "gpu", {}, gpu, []]) {
    await assert.rejects(Device.open({ gpu: given }), { code: "bad-input" });
  }
  await assert.rejects(Device.open({ backend: "webgl" }), { code: "bad-input" });
  await assert.rejects(Device.open({ adapter: "x" }), { code: "bad-input" });
});

test("what the package shows wgpu is gone afterwards", async () => {
  show(undefined);
  const before = Object.getOwnPropertyNames(globalThis).sort();
  const device = await Device.open({ gpu: await ownDevice() });
  assert.deepEqual(Object.getOwnPropertyNames(globalThis).sort(), before);
  assert.equal(globalThis.navigator.gpu, undefined);
  device.free();
});
