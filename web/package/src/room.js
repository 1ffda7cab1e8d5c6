// How much wasm's memory still takes.

import { MultiheadError } from "./errors.js";
import { hasRoom } from "../wasm/multihead.js";

/** Refuses tensors that the wasm's memory has no room for: it would end there. */
export function checkRoom(/** @type {any[]} */ tensors) {
  const lengths = tensors.map((tensor) => Number(tensor?.data?.length ?? tensor?.length ?? 0));
  const need = 8 * lengths.reduce((sum, length) => sum + (Number.isFinite(length) ? length : 0), 0);
  // Little always fits.
  if (need > 2 ** 20 && !hasRoom(need)) {
    const about = { need, have: 0, limit: "what is left of wasm's memory", unit: "bytes" };
    const sentence =
      `these tensors need ${need} bytes, which wasm's memory has not left; ` +
      "give fewer batch entries at once, or free what is not used";
    throw new MultiheadError("limit-exceeded", sentence, about);
  }
}
