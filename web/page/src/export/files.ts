// What a visitor takes away: pictures for a paper, numbers, a link.

import type { Tensor } from "multihead";
import type { Figure } from "../draw/figure";
import * as words from "../draw/format";
import { gridFigure } from "../draw/gridFigure";
import { PAPER } from "../draw/inks";
import { linesFigure } from "../draw/linesFigure";
import { type HeadMap, mapOf, rowOf } from "../draw/map";
import { mapFigure } from "../draw/mapFigure";
import { toPng } from "../draw/paint";
import { toSvg } from "../draw/svg";
import type { Settings } from "../engine/protocol";
import type { App } from "../state/app";
import { layerName, nameOf, type Shown } from "../state/shown";
import type { HeadPlace } from "../state/view";

/** A file on its way to the visitor's disk. */
export interface Taken {
  name: string;
  blob: Blob;
}

/** Pixels a point: 600 points of a column become 1,800 pixels. */
const FINE = 3;
const [MAP_WIDTH, LINES_WIDTH] = [560, 480];

type PictureName = "map" | "layer" | "lines";

/** What can be taken, by the name on its button. */
export const FILES: Readonly<Record<string, (app: App, view: Shown) => Promise<Taken>>> = {
  "map-png": (app, view) => png(app, view, "map"),
  "map-svg": (app, view) => svg(app, view, "map"),
  "layer-png": (app, view) => png(app, view, "layer"),
  "layer-svg": (app, view) => svg(app, view, "layer"),
  "lines-png": (app, view) => png(app, view, "lines"),
  "lines-svg": (app, view) => svg(app, view, "lines"),
  csv: async (_, view) => file(view, "csv", "text/csv", toCsv(view.map)),
  npy: async (app, view) => {
    const bytes = await app.engine.call("npy", [layerTensor(view)]);
    return { name: `multihead-layer${view.place.layer}.npy`, blob: new Blob([bytes as Uint8Array<ArrayBuffer>]) };
  },
  case: async (app, view) => {
    const bytes = await app.engine.call("caseFile", [view.sheet.id, view.place.layer, app.state.view.settings]);
    return {
      name: `multihead-layer${view.place.layer}.safetensors`,
      blob: new Blob([bytes as Uint8Array<ArrayBuffer>]),
    };
  },
};

/** A map as comma-separated values: keys in the first line, queries in the first column. */
export function toCsv(map: HeadMap): string {
  const cell = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const lines = [["query", ...map.keys].map(cell).join(",")];
  for (let row = 0; row < map.rows; row += 1) {
    lines.push([cell(map.queries[row] ?? ""), ...rowOf(map, row)].join(","));
  }
  return `${lines.join("\r\n")}\r\n`;
}

/** What a picture shows, under which masks, of which sentence: away from the page nothing else says so. */
function titleOf({ sheet, place }: Shown, settings: Settings, kind: PictureName): string {
  const { causal, window, validLen, temperature } = settings;
  const named = kind === "layer" ? layerName(sheet, place.layer) : nameOf(sheet, place);
  const under = [
    causal ? "causal" : "",
    window === null ? "" : `window ${window}`,
    validLen === null ? "" : `valid_len ${validLen}`,
    ...sheet.ownMasks,
    temperature === 1 ? "" : `temperature ${temperature}`,
  ];
  return [named, under.filter(Boolean).join(", "), sheet.title].filter(Boolean).join(" · ");
}

/** The figure of one kind, black on white. */
function figure({ state }: App, view: Shown, kind: PictureName): Figure {
  const { palette, threshold, onlyQuery, query, settings } = state.view;
  const title = titleOf(view, settings, kind);
  switch (kind) {
    case "map":
      return mapFigure(view.map, { width: MAP_WIDTH, palette, inks: PAPER, title }).figure;
    case "lines":
      return linesFigure(view.map, {
        width: LINES_WIDTH,
        inks: PAPER,
        threshold,
        row: query,
        onlyRow: onlyQuery,
        title,
      }).figure;
    case "layer": {
      const maps = view.answer.statistics.map(({ head }) => mapOf(view.sheet, view.answer, head));
      const notes = view.answer.statistics.map(({ pattern, patternScore }) =>
        pattern ? `${pattern} ${words.share(patternScore)}` : "",
      );
      return gridFigure(maps, notes, title, palette, PAPER);
    }
  }
}

async function png(app: App, view: Shown, kind: PictureName): Promise<Taken> {
  return picture(figure(app, view, kind), name(view.place, kind, "png"));
}

async function svg(app: App, view: Shown, kind: PictureName): Promise<Taken> {
  return picture(figure(app, view, kind), name(view.place, kind, "svg"));
}

/** A figure as the file that its name's ending says. */
export async function picture(figure: Figure, name: string): Promise<Taken> {
  const blob = name.endsWith(".svg") ? new Blob([toSvg(figure)], { type: "image/svg+xml" }) : await toPng(figure, FINE);
  return { name, blob };
}

function file({ place }: Shown, ending: string, type: string, text: string): Taken {
  return { name: name(place, "map", ending), blob: new Blob([text], { type }) };
}

function name({ layer, head }: HeadPlace, kind: PictureName, ending: string): string {
  return kind === "layer"
    ? `multihead-layer${layer}.${ending}`
    : `multihead-layer${layer}-head${head}-${kind}.${ending}`;
}

/** All maps of the layer: (H, Lq, columns). */
function layerTensor({ answer }: Shown): Tensor {
  return { data: answer.weights.data, shape: answer.weights.shape.slice(1) };
}

/** Hands a file to the browser's downloads. */
export function save({ name, blob }: Taken): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser has it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
