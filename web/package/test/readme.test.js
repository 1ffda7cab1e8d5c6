// The examples of README.md run, and say what is written beside them.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
const examples = Array.from(readme.matchAll(/^```js\n(.*?)^```/gms), ([, code]) => code);
const here = (file) => JSON.stringify(new URL(file, import.meta.url).href);

/** Runs an example in a process of its own, then prints an expression as JSON. */
function printed(example, expression) {
  const code = example.replaceAll('"multihead"', here("../index.js"));
  const print = `console.log(JSON.stringify(${expression}));process.exit()`;
  const program = `await import(${here("support/gpu.js")});\n${code}\n${print}`;
  return JSON.parse(execFileSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" }));
}

test("the first example computes what its comments say", () => {
  const parts = [
    "answer.output.shape",
    "[...answer.weights.data.slice(0, 3)]",
    "answer.verification.ok",
    "Object.keys(answer.timing)",
    "attention.device.info.backend",
  ];
  const said = printed(examples[0], `[${parts}]`);
  assert.deepEqual(said, [[1, 3, 4], [1, 0, 0], true, ["compile", "upload", "gpu", "readback"], "webgpu"]);
});

test("the example of Dawn opens a GPU", () => {
  const example = examples[2].replace('"webgpu"', JSON.stringify(import.meta.resolve("webgpu")));
  assert.equal(printed(example, "device.info.backend"), "webgpu");
});

test("the example of an error gives that error", () => {
  const [is, code, message] = printed(examples[1], "[error instanceof MultiheadError, error.code, error.message]");
  assert.equal(is, true);
  assert.ok(examples[1].includes(`// "${code}"`), code);
  assert.ok(examples[1].includes(`// "${message}"`), message);
});
