// A figure as the text of an SVG file.

import { type CellsMark, DASHES, type Figure, FONT, type Mark } from "./figure";
import { unturned } from "./format";
import { cellsCanvas } from "./paint";

/** Up to here each cell is a rectangle of its own, which editors can change; above, the cells are one picture. */
const MOST_RECTANGLES = 4096;

export function toSvg(figure: Figure): string {
  const { width, height, title, description } = figure;
  const body = figure.marks.map(element).join("\n");
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${number(width)}" height="${number(height)}"`,
    ` viewBox="0 0 ${number(width)} ${number(height)}" role="img" font-family="${escaped(FONT)}">\n`,
    `<title>${escaped(title)}</title>\n<desc>${escaped(description)}</desc>\n`,
    `${body}\n</svg>\n`,
  ].join("");
}

function element(mark: Mark): string {
  switch (mark.kind) {
    case "rect":
      return rectangle(mark, `fill="${mark.fill}"`);
    case "frame":
      return rectangle(mark, `fill="none" stroke="${mark.stroke}" stroke-width="${number(mark.line)}"`);
    case "line": {
      const [[x1, y1], [x2, y2]] = [mark.from.map(number), mark.to.map(number)];
      const ends = `x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"`;
      const opacity = mark.opacity === undefined ? "" : ` stroke-opacity="${number(mark.opacity)}"`;
      const dashes = mark.dashed ? ` stroke-dasharray="${DASHES.join(" ")}"` : "";
      return `<line ${ends} stroke="${mark.stroke}" stroke-width="${number(mark.line)}"${opacity}${dashes}/>`;
    }
    case "cells":
      return mark.columns * mark.rows <= MOST_RECTANGLES ? rectangles(mark) : picture(mark);
    case "text": {
      const turn = mark.turn ? ` transform="rotate(${number(mark.turn)} ${number(mark.x)} ${number(mark.y)})"` : "";
      const weight = mark.bold ? ` font-weight="600"` : "";
      const style = `font-size="${number(mark.size)}" fill="${mark.fill}" text-anchor="${mark.anchor}"`;
      return `<text x="${number(mark.x)}" y="${number(mark.y)}" ${style}${weight}${turn}>${escaped(mark.text)}</text>`;
    }
  }
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function rectangle({ x, y, width, height }: Box, style: string): string {
  return `<rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" ${style}/>`;
}

function rectangles({ x, y, width, height, columns, rows, pixels }: CellsMark): string {
  const [across, down] = [width / columns, height / rows];
  const cells: string[] = [];
  for (let place = 0; place < columns * rows; place += 1) {
    const [red, green, blue] = pixels.subarray(place * 4);
    const box = {
      x: x + (place % columns) * across,
      y: y + Math.floor(place / columns) * down,
      width: across,
      height: down,
    };
    cells.push(rectangle(box, `fill="rgb(${red},${green},${blue})"`));
  }
  // Edges that lie on each other must not shine through.
  return `<g shape-rendering="crispEdges">\n${cells.join("\n")}\n</g>`;
}

function picture(mark: CellsMark): string {
  const { x, y, width, height } = mark;
  const place = `x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}"`;
  const style = `preserveAspectRatio="none" style="image-rendering:pixelated"`;
  return `<image ${place} ${style} href="${cellsCanvas(mark).toDataURL("image/png")}"/>`;
}

function number(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function escaped(text: string): string {
  // Below space, XML has tab and line ends only.
  const printable = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return unturned(printable).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}
