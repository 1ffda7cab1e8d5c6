// A figure is a value: a list of marks in points. It is painted on a canvas, or written down as SVG.

export type Anchor = "start" | "middle" | "end";

export interface TextMark {
  kind: "text";
  x: number;
  y: number;
  text: string;
  size: number;
  fill: string;
  anchor: Anchor;
  /** Degrees clockwise around (x, y). */
  turn?: number;
  bold?: boolean;
}

export interface RectMark {
  kind: "rect";
  x: number;
  y: number;
  width: number;
  height: number;
  fill: string;
}

/** The edge of a rectangle. */
export interface FrameMark {
  kind: "frame";
  x: number;
  y: number;
  width: number;
  height: number;
  stroke: string;
  line: number;
}

export interface LineMark {
  kind: "line";
  from: readonly [number, number];
  to: readonly [number, number];
  stroke: string;
  line: number;
  /** 0 to 1; by default 1. */
  opacity?: number;
  dashed?: boolean;
}

/** Cells of one colour each, stretched over a rectangle; `pixels` is RGBA, row-major. */
export interface CellsMark {
  kind: "cells";
  x: number;
  y: number;
  width: number;
  height: number;
  columns: number;
  rows: number;
  pixels: Uint8ClampedArray<ArrayBuffer>;
}

export type Mark = TextMark | RectMark | FrameMark | LineMark | CellsMark;

export interface Figure {
  width: number;
  height: number;
  /** What a person who does not see it is told. */
  title: string;
  description: string;
  marks: Mark[];
}

export const FONT = "'Inter Variable', Inter, 'Helvetica Neue', Arial, sans-serif";

/** Lengths of dash and gap of a dashed line, in points. */
export const DASHES = [4, 3];

const measuring = document.createElement("canvas").getContext("2d");

/** The width of a text in points. */
export function widthOf(text: string, size: number, bold = false): number {
  if (!measuring) return text.length * size * 0.6;
  measuring.font = `${bold ? 600 : 400} ${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

/** The text, or as much of it as fits. */
export function fitted(text: string, size: number, width: number, bold = false): string {
  if (widthOf(text, size, bold) <= width) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && widthOf(`${letters.join("")}…`, size, bold) > width) letters.pop();
  return `${letters.join("")}…`;
}

/** RGBA of a grid of cells. */
export function pixelsOf(
  columns: number,
  rows: number,
  color: (row: number, column: number) => readonly [number, number, number],
): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(columns * rows * 4);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const place = (row * columns + column) * 4;
      pixels.set(color(row, column), place);
      pixels[place + 3] = 255;
    }
  }
  return pixels;
}
