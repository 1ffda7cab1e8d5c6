// A product of 256³ on one device: with the kernel that the package chooses there, as a layer's output projection, and
// with the tile that textbooks have. Both are timed by the host's clock, each dispatch submitted alone, in turn. Shows
// the times and sends them to the server that the page came from.

import { Attention, Device } from "./package/index.js";

const SIDE = 256;
const ROUNDS = 9;

/** Numbers around 0 that are the same in every run. */
function numbers(count, seed) {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  });
}

function matrix(seed) {
  return { data: numbers(SIDE * SIDE, seed), shape: [SIDE, SIDE] };
}

/** A layer as wide as its input is long: its output projection is 256³. */
async function ours(gpu) {
  const device = await Device.open({ gpu });
  const weights = { W_q: matrix(1), W_k: matrix(2), W_v: matrix(3), W_o: matrix(4) };
  const attention = await Attention.create({ numHeads: 4, weights, device });
  const query = { data: numbers(SIDE * SIDE, 5), shape: [1, SIDE, SIDE] };
  return async () => {
    const { profile } = await attention.run({ query, profile: true });
    const { kernel, took, flops } = profile.steps.find(({ output }) => output === "output");
    if (profile.clock !== "host" || flops !== 2 * SIDE ** 3) {
      throw new Error(`another product was timed: ${flops} operations by the ${profile.clock}'s clock`);
    }
    return { kernel, took };
  };
}

async function textbook(gpu) {
  const code = await (await fetch("tile.wgsl")).text();
  const module = gpu.createShaderModule({ code });
  const pipeline = await gpu.createComputePipelineAsync({ layout: "auto", compute: { module } });
  const buffer = (data, usage) => {
    const made = gpu.createBuffer({ size: data.byteLength, usage: usage | GPUBufferUsage.COPY_DST });
    gpu.queue.writeBuffer(made, 0, data);
    return made;
  };
  const { STORAGE, UNIFORM, COPY_SRC, MAP_READ } = GPUBufferUsage;
  const [lhs, rhs] = [numbers(SIDE * SIDE, 6), numbers(SIDE * SIDE, 7)];
  const out = buffer(new Float32Array(SIDE * SIDE), STORAGE | COPY_SRC);
  const bound = [buffer(Uint32Array.of(SIDE), UNIFORM), buffer(lhs, STORAGE), buffer(rhs, STORAGE), out];
  const entries = bound.map((of, binding) => ({ binding, resource: { buffer: of } }));
  const group = gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  const once = async () => {
    const start = performance.now();
    const encoder = gpu.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(SIDE / 16, SIDE / 16);
    pass.end();
    gpu.queue.submit([encoder.finish()]);
    await gpu.queue.onSubmittedWorkDone();
    return performance.now() - start;
  };
  await once();
  const read = gpu.createBuffer({ size: out.size, usage: MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = gpu.createCommandEncoder();
  encoder.copyBufferToBuffer(out, 0, read, 0, out.size);
  gpu.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  check(new Float32Array(read.getMappedRange()), lhs, rhs);
  return once;
}

/** A tile that is wrong would be no measure. */
function check(got, lhs, rhs) {
  for (let place = 0; place < got.length; place += 97) {
    const [row, col] = [Math.floor(place / SIDE), place % SIDE];
    const right = Array.from({ length: SIDE }, (_, k) => lhs[row * SIDE + k] * rhs[k * SIDE + col]);
    const off = Math.abs(got[place] - right.reduce((sum, term) => sum + term));
    if (!(off < 1e-4)) {
      throw new Error(`the textbook's tile is off by ${off} at (${row}, ${col})`);
    }
  }
}

function median(times) {
  return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)];
}

async function report() {
  const adapter = await navigator.gpu.requestAdapter();
  // Without features there are no timestamps, so that the host's clock times both.
  const gpu = await adapter.requestDevice();
  const sides = { ours: await ours(gpu), textbook: await textbook(gpu) };
  const [times, ratios] = [{ ours: [], textbook: [] }, []];
  await sides.ours();
  let kernel;
  for (let round = 0; round < ROUNDS; round++) {
    const here = await sides.ours();
    const there = await sides.textbook();
    kernel = here.kernel;
    times.ours.push(here.took);
    times.textbook.push(there);
    ratios.push(there / here.took);
  }
  const { architecture, description } = adapter.info;
  return {
    adapter: `${architecture} ${description}`.trim(),
    kernel,
    ours_ms: median(times.ours),
    textbook_ms: median(times.textbook),
    ratio: median(ratios),
  };
}

const outcome = await report().catch((error) => ({ error: String(error) }));
document.getElementById("report").textContent = JSON.stringify(outcome, null, 2);
await fetch("report", { method: "POST", body: JSON.stringify(outcome) });
