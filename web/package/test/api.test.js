// index.d.ts says what there is, and nothing else.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import "./support/gpu.js";
import * as multihead from "../index.js";
import { Attention, ByHead, Device } from "../index.js";
import { tensor } from "./support/data.js";

const declared = await readFile(new URL("../index.d.ts", import.meta.url), "utf8");

/** Names after `export class`, `export function`, `export const`. */
function exported() {
  return Array.from(declared.matchAll(/^export (?:class|function|const) (\w+)/gm), ([, name]) => name).sort();
}

/** What a class of index.d.ts declares: public members, `static` before the static ones. */
function members(name) {
  const body = declared.split(new RegExp(`^export class ${name}\\b.*$`, "m"))[1].split(/^}/m)[0];
  const lines = Array.from(body.matchAll(/^ {2}(static )?(?:readonly )?(\w+)[?(<:]/gm));
  return [...new Set(lines.map(([, fixed, member]) => (fixed ?? "") + member))].filter((member) => member !== "private" && member !== "constructor").sort();
}

/** What an object of the class offers. */
async function offered(object) {
  const type = object.constructor;
  const own = Object.getOwnPropertyNames(object);
  const shared = Object.getOwnPropertyNames(type.prototype).filter((name) => name !== "constructor");
  const fixed = Object.getOwnPropertyNames(type).filter((name) => !["length", "name", "prototype"].includes(name));
  return [...own, ...shared, ...fixed.map((name) => `static ${name}`)].sort();
}

test("everything declared is there, and everything there is declared", () => {
  assert.deepEqual(Object.keys(multihead).sort(), exported());
});

/** Of use within the package alone. */
const INTERNAL = { Device: ["checkAlive", "isFreed", "place"], Attention: [], ByHead: [] };

test("classes have the members that are declared", async () => {
  const device = await Device.open({ backend: "cpu" });
  const attention = await Attention.create({ numHeads: 2, device });
  const byHead = await attention.runByHead({ query: tensor([1, 2, 4]) });
  for (const [type, object] of [[Device, device], [Attention, attention], [ByHead, byHead]]) {
    const there = (await offered(object)).filter((name) => !INTERNAL[type.name].includes(name));
    assert.deepEqual(there, members(type.name), type.name);
  }
});

test("objects can be disposed of", { skip: Symbol.dispose === undefined }, async () => {
  const attention = await Attention.create({ numHeads: 2, backend: "cpu" });
  attention[Symbol.dispose]();
  await assert.rejects(attention.explain({ query: [1, 2, 4] }), { code: "freed" });
});
