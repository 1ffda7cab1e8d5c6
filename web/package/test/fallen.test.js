// When the wasm comes to its end: everything that waits for it says so, and so does everything that is asked for later.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ownDevice } from "./support/gpu.js";
import { tensor } from "./support/data.js";
import { Attention } from "../index.js";

const query = tensor([1, 3, 8], 1);

test("a panic is told of with a code, to those who wait as well", async () => {
  const attention = await Attention.create({ numHeads: 2, device: await ownDevice() });
  const waiting = attention.run({ query });
  // The library relies on its own objects taking properties, and panics where they do not.
  const { set } = Reflect;
  Reflect.set = () => {
    throw new Error("no");
  };
  const message =
    /^the library failed where it must not \(panicked at src.*should take any property.*load the page again/s;
  const fault = { name: "MultiheadError", code: "internal", message };
  await assert.rejects(attention.reference({ query }), fault);
  Reflect.set = set;
  await assert.rejects(waiting, fault);
  await assert.rejects(attention.run({ query }), fault);
  await assert.rejects(Attention.create({ numHeads: 2 }), fault);
});
