// All heads of a layer side by side, for a paper.

import { type Figure, fitted, type Mark } from "./figure";
import * as words from "./format";
import type { Inks } from "./inks";
import { type HeadMap, pixelsOfMap } from "./map";
import type { Palette } from "./palette";

const SIDE = 130;
const GAP = 16;
const HEADING = 34;
const NAME = 18;
const PER_ROW = 6;

/** Small maps with their heads' names; `notes[head]` stands beside the name. */
export function gridFigure(
  maps: readonly HeadMap[],
  notes: readonly string[],
  title: string,
  palette: Palette,
  inks: Inks,
): Figure {
  const columns = Math.min(PER_ROW, Math.max(1, maps.length));
  const rows = Math.ceil(maps.length / columns);
  const width = GAP + columns * (SIDE + GAP);
  const height = HEADING + rows * (SIDE + NAME + GAP);
  const heading = fitted(title, 14, width - 2 * GAP, true);
  const marks: Mark[] = [
    { kind: "rect", x: 0, y: 0, width, height, fill: inks.back },
    { kind: "text", x: GAP, y: 21, text: heading, size: 14, fill: inks.ink, anchor: "start", bold: true },
  ];
  maps.forEach((map, index) => {
    const x = GAP + (index % columns) * (SIDE + GAP);
    const y = HEADING + Math.floor(index / columns) * (SIDE + NAME + GAP);
    const longer = Math.max(map.rows, map.columns, 1);
    const size = { width: (SIDE * map.columns) / longer, height: (SIDE * map.rows) / longer };
    marks.push({ kind: "text", x, y: y + 12, text: `head ${map.head}`, size: 11, fill: inks.ink, anchor: "start" });
    marks.push({
      kind: "text",
      x: x + SIDE,
      y: y + 12,
      text: notes[index] ?? "",
      size: 11,
      fill: inks.muted,
      anchor: "end",
    });
    marks.push({ kind: "cells", x, y: y + NAME, ...size, ...pixelsOfMap(map, palette) });
  });
  return {
    width,
    height,
    title,
    description: `Attention maps of ${words.several(maps.length, "head")}: queries in rows, keys in columns.`,
    marks,
  };
}
