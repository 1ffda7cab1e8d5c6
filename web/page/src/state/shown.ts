// What is in view, out of the state: the head under the pointer, else the locked one.

import type { DeviceInfo } from "multihead";
import { type HeadMap, mapOf } from "../draw/map";
import type { LayerAnswer, Sheet } from "../engine/protocol";
import type { State } from "./app";
import type { HeadPlace } from "./view";

export interface Shown {
  sheet: Sheet;
  place: HeadPlace;
  answer: LayerAnswer;
  map: HeadMap;
  /** The row that is looked at, and the column. */
  row: number | null;
  column: number | null;
}

export function shownPlace(state: State): HeadPlace {
  return state.preview ?? state.view.locked;
}

/** `null` while there is no answer for it. */
export function shown(state: State): Shown | null {
  const { sheet, answers, view, cell } = state;
  const place = shownPlace(state);
  const answer = answers[place.layer];
  if (!sheet || !answer || place.head >= sheet.numHeads) return null;
  const map = mapOf(sheet, answer, place.head);
  const row = cell?.row ?? view.query;
  return { sheet, place, answer, map, row: row !== null && row < map.rows ? row : null, column: cell?.column ?? null };
}

/** "layer 3, head 1", or "head 1" where there is one layer only. */
export function nameOf(sheet: Sheet | null, { layer, head }: HeadPlace): string {
  return [layerName(sheet, layer), `head ${head}`].filter(Boolean).join(", ");
}

/** "layer 3", or nothing where there is one layer only. */
export function layerName(sheet: Sheet | null, layer: number): string {
  return sheet?.numLayers === 1 ? "" : `layer ${layer}`;
}

/** What a device is called; many browsers keep the adapter's name to themselves. */
export function deviceName({ name, vendor, architecture, backend }: DeviceInfo): string {
  const hardware = [vendor, architecture].filter(Boolean).join(" ");
  return backend === "webgpu" && name === "unnamed adapter" && hardware ? hardware : name;
}
