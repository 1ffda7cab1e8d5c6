// Compiling every variant of a shader, wherever there is WebGPU: in Node with Dawn, in a browser.

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
  "read-texels": { storageTexture: { access: "read-only", format: "rgba32float" } },
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
  const refusal = await pipeline.then(
    () => undefined,
    (error) => error.message,
  );
  const { messages } = await module.getCompilationInfo();
  const scope = await device.popErrorScope();
  const said = messages.map(({ type, lineNum, message }) => `${type} in line ${lineNum}: ${message}`);
  return [...said, refusal, scope?.message].filter((text) => text !== undefined);
}

/** Every variant of these kernels with what is said of it. */
export async function compiled(devices, kernels) {
  const variants = kernels.flatMap((kernel) => constantsOf(kernel).map((constants) => ({ kernel, constants })));
  for (const variant of variants) {
    const device = variant.kernel.subgroups ? devices.subgroups : devices.portable;
    variant.said = await complaints(device, variant.kernel, variant.constants);
  }
  return variants;
}
