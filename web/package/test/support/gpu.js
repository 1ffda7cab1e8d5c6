// A GPU for the tests: Dawn, Chrome's WebGPU, where a browser would have it.

import { create, globals } from "webgpu";

Object.assign(globalThis, globals);

/** Dawn's WebGPU; it lives as long as this does. */
export const gpu = create([]);

/** Shows the package this WebGPU, or none. */
export function show(webgpu) {
  Object.defineProperty(globalThis, "navigator", { value: { gpu: webgpu }, configurable: true, writable: true });
}

show(gpu);

/** A device of a page's own. */
export async function ownDevice(descriptor) {
  const adapter = await gpu.requestAdapter();
  if (!adapter) {
    throw new Error("Dawn finds no adapter; let VK_DRIVER_FILES name a Vulkan driver, for instance SwiftShader's");
  }
  return adapter.requestDevice(descriptor);
}
