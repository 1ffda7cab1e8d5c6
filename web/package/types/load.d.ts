// Fetching and compiling the wasm.

/**
 * Fetches and compiles the wasm. Everything else does so by itself, from beside this module; call it to do so early, or
 * to say where the wasm is. After a failure the next call tries again.
 */
export function load(wasm?: string | URL | Response | BufferSource | WebAssembly.Module): Promise<void>;
