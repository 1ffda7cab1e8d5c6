// Colours for weights: scales of even lightness that colour-blind eyes read too.

import { interpolateCividis, interpolateViridis } from "d3-scale-chromatic";

export const PALETTES = ["viridis", "cividis"] as const;
export type Palette = (typeof PALETTES)[number];

export type Rgb = readonly [number, number, number];

/** What a weight is shown as that is no weight: NaN, infinite, negative. On no palette. */
export const INVALID: Rgb = [216, 27, 96];

const STEPS = 256;

const TABLES: Record<Palette, readonly Rgb[]> = {
  viridis: table(interpolateViridis),
  cividis: table(interpolateCividis),
};

/** The colour of `weight` on a scale from 0 to `top`. */
export function colorOf(palette: Palette, weight: number, top: number): Rgb {
  if (!(weight >= 0 && weight < Infinity)) return INVALID;
  const share = top > 0 ? Math.min(1, weight / top) : 0;
  return TABLES[palette][Math.round(share * (STEPS - 1))] ?? INVALID;
}

/** The same as CSS. */
export function cssOf([red, green, blue]: Rgb): string {
  return `rgb(${red},${green},${blue})`;
}

/** Black or white, whichever reads better on the colour (WCAG's relative luminance). */
export function inkOn(color: Rgb): string {
  const linear = (part: number) => (part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = 0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2]);
  return luminance > 0.179 ? "#000000" : "#ffffff";
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
