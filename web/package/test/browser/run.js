// Computes every case of cases.json through the package, with the kernels that it would choose and with every other
// one; compiles every variant of every shader; computes one case in a worker. Shows the answers and sends them to the
// server that the page came from.

import { compiled } from "./shaders/variants.js";
import { Attention, Device } from "./package/index.js";

/** What to ask for in each round: nothing, so that the profile chooses; then each kernel that is one of several. */
function rounds(device) {
  const kernels = Object.values(device.kernels())
    .filter((ofOp) => ofOp.length > 1)
    .flat();
  const streams = (name) => name.startsWith("attention");
  const each = kernels.map((kernel) => ({ preferred: [kernel], fused: streams(kernel) ? "on" : "off" }));
  return [{ preferred: [], fused: "auto" }, { preferred: [], fused: "on" }, ...each];
}

/** One case in one round, as a line of the report. */
async function computed(device, name, bytes, { preferred, fused }) {
  const about = { case: name, preferred, fused };
  try {
    const { attention, inputs, expected, tolerance } = await Attention.fromCase(bytes, { device });
    const how = { preferredKernels: preferred, fused, returnWeights: expected.weights !== null };
    const answer = await attention.run({ ...inputs, ...how });
    const comparison = await Attention.compare(answer, expected, tolerance);
    const { steps } = await attention.explain({ ...inputs, ...how });
    const kernels = [...new Set(steps.map((step) => step.kernel))];
    attention.free();
    // JSON has no NaN.
    const { ok: agrees, maxError, worst } = comparison;
    return { ...about, kernels, agrees, maxError: String(maxError), worst: JSON.stringify(worst) };
  } catch (error) {
    return { ...about, error: `${error.code}: ${error.message}` };
  }
}

/** What the browser's compiler says of the shaders. */
async function shaders() {
  const { kernels, refused } = await (await fetch("shaders.json")).json();
  const adapter = await navigator.gpu.requestAdapter();
  const has = adapter.features.has("subgroups");
  const device = await adapter.requestDevice({ requiredFeatures: has ? ["subgroups"] : [] });
  const devices = { portable: device, subgroups: device };
  const possible = kernels.filter(({ subgroups }) => has || !subgroups);
  const variants = await compiled(devices, possible);
  const missed = (await compiled(devices, refused)).filter(({ said }) => said.length === 0);
  device.destroy();
  return {
    variants: variants.length,
    faults: variants
      .filter(({ said }) => said.length > 0)
      .map(({ kernel, said }) => `${kernel.name}: ${said.join("; ")}`),
    missed: missed.map(({ kernel }) => kernel.name),
  };
}

/** One case, computed in a worker. */
function inWorker(name) {
  const worker = new Worker("worker.js", { type: "module" });
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(`the worker failed: ${message}`));
    worker.postMessage(name);
  }).finally(() => worker.terminate());
}

async function report() {
  const device = await Device.open({ backend: "webgpu" });
  const names = await (await fetch("cases.json")).json();
  const lines = [];
  for (const name of names) {
    const bytes = await (await fetch(`cases/${name}`)).bytes();
    for (const round of rounds(device)) {
      lines.push(await computed(device, name, bytes, round));
    }
  }
  // The first case is a right one.
  return { adapter: device.info.name, lines, shaders: await shaders(), worker: await inWorker(names[0]) };
}

const outcome = await report().catch((error) => ({ error: String(error) }));
document.getElementById("report").textContent = JSON.stringify(outcome, null, 2);
await fetch("report", { method: "POST", body: JSON.stringify(outcome) });
