// Computes every case of cases.json on this browser's GPU, with the kernels it would choose and with every other one,
// shows the answers and sends them to the server that the page came from.

import init, { WebGpu, kernelsOf } from "./multihead.js";

/** The kernels to prefer: none, so that the device's profile chooses; then each one that there is. */
function preferences() {
  const kernels = ["matmul", "softmax"].flatMap((op) => kernelsOf(op));
  return [[], ...kernels.map((kernel) => [kernel])];
}

/** One case with these kernels, as a line of the report. */
async function computed(gpu, name, bytes, preferred) {
  const about = { case: name, preferred };
  try {
    const answer = await gpu.compute(bytes, preferred);
    const { kernels, agrees, maxError, worst, outputShape } = answer;
    // JSON has no NaN.
    return { ...about, kernels, agrees, maxError: String(maxError), worst, outputShape: [...outputShape] };
  } catch (error) {
    return { ...about, error: String(error) };
  }
}

async function report() {
  await init();
  const gpu = await WebGpu.open();
  const lines = [];
  for (const name of await (await fetch("cases.json")).json()) {
    const bytes = await (await fetch(`cases/${name}`)).bytes();
    for (const preferred of preferences()) {
      lines.push(await computed(gpu, name, bytes, preferred));
    }
  }
  return { adapter: gpu.adapter, lines };
}

const outcome = await report().catch((error) => ({ error: String(error) }));
document.getElementById("report").textContent = JSON.stringify(outcome, null, 2);
await fetch("report", { method: "POST", body: JSON.stringify(outcome) });
