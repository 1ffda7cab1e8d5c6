// Compiles every variant of every shader with Dawn and Tint, as Chrome would: node compile.js SHADERS.json
//
// The file comes from tests/shaders.rs: { kernels, refused }, each a list of { name, wgsl, num_reads, overrides }. All
// of `kernels` must compile without a word, and none of `refused`: a compiler that takes everything proves nothing.

import { readFile } from "node:fs/promises";
import { create, globals } from "webgpu";

Object.assign(globalThis, globals);

// Dawn lives as long as this does.
const gpu = create([]);

/** Every way to fix a kernel's overrides, which are truth values. */
function constantsOf({ overrides }) {
  const fixed = (bits) => Object.fromEntries(overrides.map((name, place) => [name, (bits >> place) & 1]));
  return Array.from({ length: 1 << overrides.length }, (_, bits) => fixed(bits));
}

/** The rule for all kernels: parameters at 0, inputs read-only from 1 on, the output last. */
function layoutOf(device, { num_reads }) {
  const typeOf = (binding) => (binding === 0 ? "uniform" : binding <= num_reads ? "read-only-storage" : "storage");
  const entries = Array.from({ length: num_reads + 2 }, (_, binding) => ({
    binding,
    visibility: GPUShaderStage.COMPUTE,
    buffer: { type: typeOf(binding) },
  }));
  return device.createPipelineLayout({ bindGroupLayouts: [device.createBindGroupLayout({ entries })] });
}

/** What the compiler says of one variant, warnings included; nothing if it is content. */
async function complaints(device, kernel, constants) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ label: kernel.name, code: kernel.wgsl });
  const descriptor = { label: kernel.name, layout: layoutOf(device, kernel), compute: { module, constants } };
  const pipeline = device.createComputePipelineAsync(descriptor);
  const refusal = await pipeline.then(() => undefined, (error) => error.message);
  const { messages } = await module.getCompilationInfo();
  const scope = await device.popErrorScope();
  const said = messages.map(({ type, lineNum, message }) => `${type} in line ${lineNum}: ${message}`);
  return [...said, refusal, scope?.message].filter((text) => text !== undefined);
}

/** Every variant of these kernels with what is said of it. */
async function compiled(device, kernels) {
  const variants = kernels.flatMap((kernel) => constantsOf(kernel).map((constants) => ({ kernel, constants })));
  for (const variant of variants) {
    variant.said = await complaints(device, variant.kernel, variant.constants);
  }
  return variants;
}

/** A device with WebGPU's default limits and no features: what compiles here compiles for everyone. */
async function open() {
  const adapter = await gpu.requestAdapter();
  if (!adapter) {
    throw new Error("Dawn finds no adapter; let VK_DRIVER_FILES name a Vulkan driver, for instance SwiftShader's");
  }
  const { vendor, architecture, description } = adapter.info;
  return { name: [vendor, architecture, description].join(" "), device: await adapter.requestDevice() };
}

async function main(file) {
  const { kernels, refused } = JSON.parse(await readFile(file, "utf8"));
  const { name, device } = await open();
  const variants = await compiled(device, kernels);
  const faults = variants.filter(({ said }) => said.length > 0);
  for (const { kernel, constants, said } of faults) {
    console.error(`${kernel.name} ${JSON.stringify(constants)}\n  ${said.join("\n  ")}`);
  }
  const missed = (await compiled(device, refused)).filter(({ said }) => said.length === 0);
  for (const { kernel } of missed) {
    console.error(`${kernel.name} should be refused, but is not`);
  }
  console.log(`${variants.length} variants of ${kernels.length} shaders, ${faults.length} refused, on ${name}`);
  console.log(`${refused.length} shaders that must be refused, ${missed.length} taken`);
  return kernels.length > 0 && refused.length > 0 && faults.length + missed.length === 0;
}

// Dawn keeps Node alive, so that the end is said aloud.
process.exit((await main(process.argv[2])) ? 0 : 1);
