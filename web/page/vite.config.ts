import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

/** The page's data lies once in the repository, among the examples; the build puts it beside the page. */
function modelData(): Plugin {
  const file = fileURLToPath(new URL("../../examples/data/heads/minilm_heads.safetensors", import.meta.url));
  return {
    name: "model-data",
    generateBundle() {
      this.emitFile({ type: "asset", fileName: "data/minilm_heads.safetensors", source: readFileSync(file) });
    },
  };
}

export default defineConfig({
  // Relative, so that the page works below any address.
  base: "./",
  plugins: [modelData()],
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
