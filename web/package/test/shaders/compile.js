// Compiles every variant of every shader with Dawn and Tint, as Chrome would: node compile.js SHADERS.json
//
// The file comes from tests/shaders.rs: { kernels, refused }, each a list of
// { name, wgsl, slots, overrides, subgroups, unrolled }. All of `kernels` must compile without a word, and none of
// `refused`: a compiler that takes everything proves nothing.

import { readFile } from "node:fs/promises";
import { create, globals } from "webgpu";

import { compiled } from "./variants.js";

Object.assign(globalThis, globals);

// Dawn lives as long as this does.
const gpu = create([]);

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
