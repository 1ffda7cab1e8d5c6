// Colours for weights: scales of even lightness that colour-blind eyes read too.

import { interpolateCividis, interpolateViridis } from "d3-scale-chromatic";

export const PALETTES = ["viridis", "cividis"] as const;
export type Palette = (typeof PALETTES)[number];

export type Rgb = readonly [number, number, number];

/** What a weight is shown as that is no weight: NaN, infinite, negative. On no palette. */
const INVALID: Rgb = [216, 27, 96];

const STEPS = 256;

const TABLES: Record<Palette, readonly Rgb[]> = {
  viridis: table(interpolateViridis),
  cividis: table(interpolateCividis),
};

/** The colour of a weight on a scale from 0 to 1. */
export function colorOf(palette: Palette, weight: number): Rgb {
  if (!(weight >= 0 && weight < Infinity)) return INVALID;
  return TABLES[palette][Math.round(Math.min(1, weight) * (STEPS - 1))] ?? INVALID;
}

function table(interpolate: (share: number) => string): Rgb[] {
  return Array.from({ length: STEPS }, (_, step) => parse(interpolate(step / (STEPS - 1))));
}

/** "#440154" or "rgb(0, 34, 81)". */
function parse(css: string): Rgb {
  const parts = css.startsWith("#")
    ? [css.slice(1, 3), css.slice(3, 5), css.slice(5, 7)].map((part) => Number.parseInt(part, 16))
    : (css.match(/\d+/g) ?? []).map(Number);
  return [parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0];
}
