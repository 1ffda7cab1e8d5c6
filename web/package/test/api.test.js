// The declarations say what there is, and nothing else.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { test } from "node:test";
import "./support/gpu.js";
import * as multihead from "../index.js";
import { Attention, ByHead, Device } from "../index.js";
import { tensor } from "./support/data.js";

const FOLDER = new URL("../types/", import.meta.url);
const texts = (await readdir(FOLDER)).map((name) => readFile(new URL(name, FOLDER), "utf8"));
const declared = (await Promise.all(texts)).join("\n");

/** Names after `export class`, `export function`, `export const`. */
function exported() {
  return Array.from(declared.matchAll(/^export (?:class|function|const) (\w+)/gm), ([, name]) => name).sort();
}

/** What a class declares: public members, `static` before the static ones. */
function members(name) {
  const body = declared.split(new RegExp(`^export class ${name}\\b.*$`, "m"))[1].split(/^}/m)[0];
  const lines = Array.from(body.matchAll(/^ {2}(static )?(?:readonly )?(\w+)[?(<:]/gm));
  const names = new Set(lines.map(([, fixed, member]) => (fixed ?? "") + member));
  return [...names].filter((name) => name !== "constructor").sort();
}

/** What an interface declares, with what it extends. */
function properties(name) {
  const [, bases, body] = new RegExp(`^export interface ${name}(?: extends ([^{]+))? \\{(.*?)^\\}`, "ms").exec(
    declared,
  );
  const own = Array.from(body.matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm), ([, property]) => property);
  const inherited = (bases?.split(",") ?? []).flatMap((base) => properties(base.trim()));
  return [...new Set([...own, ...inherited])].sort();
}

/** What an object of the class offers. */
function offered(object) {
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
  for (const [type, object] of [
    [Device, device],
    [Attention, attention],
    [ByHead, byHead],
  ]) {
    const there = offered(object).filter((name) => !INTERNAL[type.name].includes(name));
    assert.deepEqual(there, members(type.name), type.name);
  }
});

test("options that are declared are taken, and no others", async () => {
  const attention = await Attention.create({ numHeads: 2, backend: "cpu" });
  const weights = tensor([1, 1, 2, 2]);
  const answer = { output: tensor([1, 2, 4]) };
  for (const [names, take] of [
    [["AttentionOptions"], Attention.create],
    [["Projections"], (weights) => Attention.create({ numHeads: 2, weights })],
    [["DeviceOptions"], Device.open],
    [["RunOptions"], (given) => attention.run(given)],
    [["ByHeadOptions"], (given) => attention.runByHead(given)],
    [["AttentionInputs", "CallOptions"], (given) => attention.verify(answer, given)],
    [["AttentionInputs", "CallOptions"], (given) => attention.reference(given)],
    [["CallShape"], (given) => attention.explain(given)],
    [["CaseOptions"], (given) => attention.toCase(given)],
    [["StatisticsOptions"], (given) => multihead.headStatistics(weights, given)],
    [["CopyBothOptions"], multihead.copyBoth],
    [["AlignmentOptions"], multihead.alignment],
    [["HeadsAreFreeOptions"], multihead.headsAreFree],
    [["ShapesOptions"], multihead.shapes],
  ]) {
    const refusal = await take({ unheardOf: 1 }).catch((error) => error);
    const [, taken] = /has no property "unheardOf"; there are (.+)$/.exec(refusal.message);
    assert.deepEqual(taken.split(", ").sort(), names.flatMap(properties).sort(), names.join(", "));
  }
});

test("reports have the properties that are declared", async () => {
  const device = await Device.open({ backend: "cpu" });
  for (const [name, report] of [
    ["CopyBothReport", await multihead.copyBoth({ device, numSamples: 64, valueDim: 2 })],
    ["AlignmentReport", await multihead.alignment({ device })],
    ["HeadsAreFreeReport", await multihead.headsAreFree({ device, numHiddens: [8], runs: 0 })],
    ["ShapesReport", await multihead.shapes({ device })],
  ]) {
    assert.deepEqual(Object.keys(report).sort(), properties(name), name);
  }
});

test("objects can be disposed of", { skip: Symbol.dispose === undefined }, async () => {
  const attention = await Attention.create({ numHeads: 2, backend: "cpu" });
  attention[Symbol.dispose]();
  await assert.rejects(attention.explain({ query: [1, 2, 4] }), { code: "freed" });
});
