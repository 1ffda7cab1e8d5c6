// How the package reads in TypeScript; only its types are checked.

import {
  alignment,
  Attention,
  type AttentionResult,
  type ByHead,
  copyBoth,
  Device,
  type ErrorCode,
  headStatistics,
  MultiheadError,
  toNpy,
  type Tensor,
} from "../index.js";
import type * as Made from "../src/attention.js";
import type { Device as MadeDevice } from "../src/device.js";

export async function everyday(gpu: GPUDevice, W: Tensor, query: Tensor): Promise<AttentionResult> {
  const device = await Device.open({ gpu });
  using attention = await Attention.create({ numHeads: 2, weights: { W_q: W, W_k: W, W_v: W, W_o: W }, device });
  const result = await attention.run({ query, validLens: [3], causal: true, returnWeights: true, verify: true });
  const ok: boolean | undefined = result.verification?.ok;
  const statistics = result.weights && (await headStatistics(result.weights, { tokens: ["a", "b"] }));
  const entropy: number = statistics?.[0]?.entropyBits ?? NaN;
  const byHead: ByHead = await attention.runByHead({ query });
  const moved: number = byHead.without([0]).relative;
  const file: Uint8Array = toNpy(result.output);
  const letters = (await alignment({ query: "a", key: "b" })).letters.map(({ letter }) => letter);
  const theory: number = (await copyBoth({ onProgress: ({ done, total }) => console.log(done / total) })).theory;
  console.log(ok, entropy, moved, file.length, letters, theory, device.info.limits["maxBufferSize"]);
  return result;
}

export async function told(work: () => Promise<void>): Promise<ErrorCode | null> {
  try {
    await work();
    return null;
  } catch (error) {
    return error instanceof MultiheadError ? error.code : "internal";
  }
}

export async function mistakes(query: Tensor): Promise<void> {
  // @ts-expect-error heads have to be counted
  await Attention.create({ weights: new Uint8Array() });
  // @ts-expect-error a misspelt option
  await Attention.create({ numHeads: 2, numKVHeads: 2 });
  const attention = await Attention.create({ numHeads: 2 });
  // @ts-expect-error a call has a query
  await attention.run({ causal: true });
  // @ts-expect-error shapes are lists
  await attention.run({ query: { data: query.data, shape: 3 } });
  // @ts-expect-error letters are aligned in one call, of which there is no progress
  await alignment({ onProgress: console.log });
  // @ts-expect-error there is no public constructor
  new Device();
}

/** For each member of a declared class: true where the class that is made has one of its type, else its name. */
type Kept<Declared, Made> = {
  [Name in keyof Declared]: Name extends keyof Made ? (Made[Name] extends Declared[Name] ? true : Name) : Name;
};

/** `Symbol.dispose` is given its name when it is there, which TypeScript does not see. */
export const kept: [
  Record<Exclude<keyof Attention, "device" | "runByHead" | typeof Symbol.dispose>, true>,
  Record<Exclude<keyof Device, typeof Symbol.dispose>, true>,
  Record<Exclude<keyof ByHead, typeof Symbol.dispose>, true>,
] = [{} as Kept<Attention, Made.Attention>, {} as Kept<Device, MadeDevice>, {} as Kept<ByHead, Made.ByHead>];
