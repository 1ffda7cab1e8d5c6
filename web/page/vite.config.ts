import { readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const MODEL = fileURLToPath(new URL("../../examples/data/heads/minilm_heads.safetensors", import.meta.url));

/** The page's data lies once in the repository, among the examples; the build puts it beside the page. */
function modelData(): Plugin {
  return {
    name: "model-data",
    generateBundle() {
      this.emitFile({ type: "asset", fileName: "data/minilm_heads.safetensors", source: readFileSync(MODEL) });
    },
  };
}

export default defineConfig({
  // Relative, so that the page works below any address.
  base: "./",
  plugins: [modelData()],
  // Servers that compress do not say how long a file is.
  define: { MODEL_BYTES: statSync(MODEL).size },
  worker: { format: "es" },
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2022",
    // The Content-Security-Policy has no room for `data:` fonts and inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
