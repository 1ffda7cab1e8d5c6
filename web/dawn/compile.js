// Compiles every variant of every shader with Dawn and Tint, as Chrome would: node compile.js SHADERS.json
//
// The file comes from tests/shaders.rs: { kernels, refused }, each a list of
// { name, wgsl, slots, overrides, subgroups, unrolled }. All
// of `kernels` must compile without a word, and none of `refused`: a compiler that takes everything proves nothing.

import { readFile } from "node:fs/promises";
import { create, globals } from "webgpu";

Object.assign(globalThis, globals);

// Dawn lives as long as this does.
const gpu = create([]);

/** Every way to fix a kernel's overrides, which are truth values. */
function constantsOf({ overrides, unrolled }) {
  if (unrolled) {
    return [{}];
  }
  const fixed = (bits) => Object.fromEntries(overrides.map((name, place) => [name, (bits >> place) & 1]));
  return Array.from({ length: 1 << overrides.length }, (_, bits) => fixed(bits));
}

/** What each of a kernel's slots is bound to. */
const BOUND = {
  read: { buffer: { type: "read-only-storage" } },
  write: { buffer: { type: "storage" } },
  "read-texels": { texture: { sampleType: "unfilterable-float" } },
  "write-texels": { storageTexture: { access: "write-only", format: "rgba32float" } },
};

/** The rule for all kernels: parameters at 0, then the slots. */
function layoutOf(device, { slots }) {
  const bound = [{ buffer: { type: "uniform" } }, ...slots.map((slot) => BOUND[slot])];
  const entries = bound.map((what, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, ...what }));
  return device.createPipelineLayout({ bindGroupLayouts: [device.createBindGroupLayout({ entries })] });
}

/** The text as Chrome wants it: naga knows subgroups without being told, and asks less of the flow around them. */
function codeOf({ wgsl, subgroups }) {
  return subgroups ? `enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n${wgsl}` : wgsl;
}

/** What the compiler says of one variant, warnings included; nothing if it is content. */
async function complaints(device, kernel, constants) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ label: kernel.name, code: codeOf(kernel) });
  const descriptor = { label: kernel.name, layout: layoutOf(device, kernel), compute: { module, constants } };
  // Tint has read an unrolled text when it is a module; a driver would take minutes over its pipelines.
  const pipeline = kernel.unrolled ? Promise.resolve() : device.createComputePipelineAsync(descriptor);
  const refusal = await pipeline.then(() => undefined, (error) => error.message);
  const { messages } = await module.getCompilationInfo();
  const scope = await device.popErrorScope();
  const said = messages.map(({ type, lineNum, message }) => `${type} in line ${lineNum}: ${message}`);
  return [...said, refusal, scope?.message].filter((text) => text !== undefined);
}

/** Every variant of these kernels with what is said of it. */
async function compiled(devices, kernels) {
  const variants = kernels.flatMap((kernel) => constantsOf(kernel).map((constants) => ({ kernel, constants })));
  for (const variant of variants) {
    const device = variant.kernel.subgroups ? devices.subgroups : devices.portable;
    variant.said = await complaints(device, variant.kernel, variant.constants);
  }
  return variants;
}

/** A device with WebGPU's default limits, and one with subgroups beside: what compiles here compiles for everyone. */
async function open() {
  const adapter = await gpu.requestAdapter();
  if (!adapter) {
    throw new Error("Dawn finds no adapter; let VK_DRIVER_FILES name a Vulkan driver, for instance SwiftShader's");
  }
  const { vendor, architecture, description } = adapter.info;
  const portable = await adapter.requestDevice();
  // An adapter makes one device only.
  const other = await gpu.requestAdapter();
  const subgroups = await other.requestDevice({ requiredFeatures: ["subgroups"] });
  return { name: [vendor, architecture, description].join(" "), devices: { portable, subgroups } };
}

async function main(file) {
  const { kernels, refused } = JSON.parse(await readFile(file, "utf8"));
  const { name, devices } = await open();
  const variants = await compiled(devices, kernels);
  const faults = variants.filter(({ said }) => said.length > 0);
  for (const { kernel, constants, said } of faults) {
    console.error(`${kernel.name} ${JSON.stringify(constants)}\n  ${said.join("\n  ")}`);
  }
  const missed = (await compiled(devices, refused)).filter(({ said }) => said.length === 0);
  for (const { kernel } of missed) {
    console.error(`${kernel.name} should be refused, but is not`);
  }
  console.log(`${variants.length} variants of ${kernels.length} texts, ${faults.length} refused, on ${name}`);
  console.log(`${refused.length} shaders that must be refused, ${missed.length} taken`);
  return kernels.length > 0 && refused.length > 0 && faults.length + missed.length === 0;
}

// Dawn keeps Node alive, so that the end is said aloud.
process.exit((await main(process.argv[2])) ? 0 : 1);
