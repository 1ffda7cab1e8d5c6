// The case files' answers, which were computed apart from this code, through the package: on Dawn and on the CPU path.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import "./support/gpu.js";
import { caseBytes, caseNames } from "./support/data.js";
import { Attention, Device } from "../index.js";

/** SwiftShader is slow, and so is the reference. */
const MOST_FLOPS = 10e6;

const names = await caseNames();
const backends = ["webgpu", "cpu"];
const devices = {};

before(async () => {
  for (const backend of backends) {
    devices[backend] = await Device.open({ backend });
  }
});

after(() => Object.values(devices).forEach((device) => device.free()));

/** Computes a case; null where it is too large. */
async function computed(name, backend) {
  const { attention, inputs, expected, tolerance } = await Attention.fromCase(await caseBytes(name), {
    device: devices[backend],
  });
  try {
    const { graph } = await attention.explain(inputs);
    if (graph.flops > MOST_FLOPS || graph.bytes > 2 ** 26) {
      return null;
    }
    const answer = await attention.run({ ...inputs, returnWeights: expected.weights !== null });
    return await Attention.compare(answer, expected, tolerance);
  } finally {
    attention.free();
  }
}

for (const backend of backends) {
  let checked = 0;
  for (const name of names) {
    test(`${name} on ${backend}`, async () => {
      const comparison = await computed(name, backend);
      if (comparison) {
        checked += 1;
        assert.ok(comparison.ok, `${name} is off by ${comparison.maxError}: ${JSON.stringify(comparison.worst)}`);
      }
    });
  }
  test(`most cases were small enough for ${backend}`, () => {
    assert.ok(checked > 35 && checked > names.length * 0.7, `${checked} of ${names.length}`);
  });
}

test("a wrong answer is noticed", async () => {
  const { attention, inputs, expected, tolerance } = await Attention.fromCase(
    await caseBytes("head_dim_7.safetensors"),
    {
      device: devices.webgpu,
    },
  );
  const answer = await attention.run(inputs);
  answer.output.data[3] += 0.5;
  const comparison = await Attention.compare(answer, expected, tolerance);
  assert.equal(comparison.ok, false);
  assert.equal(comparison.worst.tensor, "output");
  assert.ok(Math.abs(comparison.maxError - 0.5) < 1e-3);
  assert.equal(await Attention.compare(answer, {}), null, "nothing expected, nothing compared");
});
