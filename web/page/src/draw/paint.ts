// A figure on a canvas, and from there as a PNG file.

import { type CellsMark, DASHES, type Figure, FONT, type Mark, type TextMark } from "./figure";

/** Paints the figure; one point becomes `scale` pixels. */
function paint(figure: Figure, canvas: HTMLCanvasElement, scale: number): void {
  const [width, height] = [Math.round(figure.width * scale), Math.round(figure.height * scale)];
  // Setting a size clears the canvas and costs a layout, so only where it changed.
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  if (!context) return;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  for (const mark of figure.marks) paintMark(context, mark);
}

/** Paints the figure where it stands on the page, as finely as the screen is. */
export function paintOnPage(figure: Figure, canvas: HTMLCanvasElement): void {
  paint(figure, canvas, window.devicePixelRatio || 1);
  canvas.style.width = `${figure.width}px`;
  canvas.style.height = `${figure.height}px`;
}

/** The figure as a PNG file of `scale` pixels a point. */
export function toPng(figure: Figure, scale: number): Promise<Blob> {
  const canvas = document.createElement("canvas");
  paint(figure, canvas, scale);
  return new Promise((resolve, reject) => {
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large for this browser"))),
      "image/png",
    );
  });
}

const canvases = new WeakMap<CellsMark["pixels"], HTMLCanvasElement>();

/** A canvas with one pixel for each cell; the same one for the same pixels. */
export function cellsCanvas({
  columns,
  rows,
  pixels,
}: Pick<CellsMark, "columns" | "rows" | "pixels">): HTMLCanvasElement {
  const made = canvases.get(pixels);
  if (made) return made;
  const canvas = document.createElement("canvas");
  canvases.set(pixels, canvas);
  Object.assign(canvas, { width: columns, height: rows });
  if (columns > 0 && rows > 0) canvas.getContext("2d")?.putImageData(new ImageData(pixels, columns, rows), 0, 0);
  return canvas;
}

function paintMark(context: CanvasRenderingContext2D, mark: Mark): void {
  switch (mark.kind) {
    case "rect":
      context.fillStyle = mark.fill;
      context.fillRect(mark.x, mark.y, mark.width, mark.height);
      return;
    case "frame":
      context.strokeStyle = mark.stroke;
      context.lineWidth = mark.line;
      context.strokeRect(mark.x, mark.y, mark.width, mark.height);
      return;
    case "line":
      context.strokeStyle = mark.stroke;
      context.lineWidth = mark.line;
      context.globalAlpha = mark.opacity ?? 1;
      context.setLineDash(mark.dashed ? DASHES : []);
      context.beginPath();
      context.moveTo(...mark.from);
      context.lineTo(...mark.to);
      context.stroke();
      context.globalAlpha = 1;
      context.setLineDash([]);
      return;
    case "cells":
      if (mark.columns === 0 || mark.rows === 0) return;
      context.imageSmoothingEnabled = false;
      context.drawImage(cellsCanvas(mark), mark.x, mark.y, mark.width, mark.height);
      return;
    case "text":
      paintText(context, mark);
  }
}

function paintText(context: CanvasRenderingContext2D, mark: TextMark): void {
  context.save();
  context.translate(mark.x, mark.y);
  context.rotate(((mark.turn ?? 0) * Math.PI) / 180);
  context.font = `${mark.bold ? 600 : 400} ${mark.size}px ${FONT}`;
  context.fillStyle = mark.fill;
  context.textAlign = ({ start: "left", middle: "center", end: "right" } as const)[mark.anchor];
  context.fillText(mark.text, 0, 0);
  context.restore();
}
