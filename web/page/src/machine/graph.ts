// The dispatch graph as a drawing: one box for each operation, in the order in which values become known.

import type { Graph, GraphNode, ProfileStep } from "multihead";
import { drawing } from "../dom";
import { fitted } from "../draw/figure";
import * as words from "../draw/format";
import type { MachineReport } from "../engine/protocol";

interface Box {
  node: GraphNode;
  x: number;
  y: number;
}

const [WIDTH, HEIGHT, GAP_Y, EDGE] = [152, 74, 18, 12];
/** Below this width ranks run from top to bottom. */
const NARROW = 800;

/** Between boxes side by side: in ranks from left to right there are edges to be seen. */
const gapOf = (down: boolean): number => (down ? 8 : 26);

/** The graph as it runs, with kernels and times, or as it was built. */
export function drawGraph(report: MachineReport, kind: "rewritten" | "graph", width: number): SVGElement {
  const graph = report.explanation[kind];
  const ranks = ranksOf(graph);
  const down = width < NARROW;
  const gap = gapOf(down);
  const widest = Math.max(...ranks.map((rank) => rank.length));
  const [across, along] = down ? [widest, ranks.length] : [ranks.length, widest];
  const boxWidth = Math.min(WIDTH, Math.max(96, (width - 2 * EDGE - (across - 1) * gap) / across));
  const total = {
    width: across * (boxWidth + gap) - gap + 2 * EDGE,
    height: along * (HEIGHT + GAP_Y) - GAP_Y + 2 * EDGE,
  };
  const boxes = ranks.flatMap((rank, depth) =>
    rank.map((node, place): Box => {
      // Each rank in the middle of the widest.
      const shift = (widest - rank.length) / 2 + place;
      const [column, row] = down ? [shift, depth] : [depth, shift];
      return { node, x: EDGE + column * (boxWidth + gap), y: EDGE + row * (HEIGHT + GAP_Y) };
    }),
  );
  const size = { width: Math.max(total.width, 1), height: Math.max(total.height, 1) };
  const picture = drawing("svg", {
    ...size,
    viewBox: `0 0 ${size.width} ${size.height}`,
    role: "list",
    "aria-label": "Operations",
  });
  picture.append(...edges(graph, boxes, boxWidth, down));
  const times = timesOf(report);
  const longest = Math.max(...[...times.values()].map(({ took }) => took), 1e-9);
  picture.append(...boxes.map((box) => drawBox(box, graph, times, longest, boxWidth)));
  return picture;
}

/** Nodes by how many nodes come before them. What is done once, when a call is compiled, is no part of the call. */
function ranksOf({ nodes, values }: Graph): GraphNode[][] {
  const depths: number[] = [];
  const ranks: GraphNode[][] = [];
  nodes.forEach((node, index) => {
    if (node.once) return;
    const before = node.inputs.map((id) => values[id]?.node).filter((from) => from !== null && from !== undefined);
    const depth = Math.max(-1, ...before.map((from) => depths[from] ?? -1)) + 1;
    depths[index] = depth;
    (ranks[depth] ??= []).push(node);
  });
  return ranks;
}

interface Time {
  kernel: string;
  took: number;
}

/** By what a dispatch writes; a node that was cut into several dispatches has their sum. */
function timesOf({ profile }: MachineReport): Map<string, Time> {
  const times = new Map<string, Time>();
  for (const { op, output, kernel, took } of profile.steps as readonly ProfileStep[]) {
    const key = `${op} ${output}`;
    times.set(key, { kernel, took: took + (times.get(key)?.took ?? 0) });
  }
  return times;
}

function edges({ values }: Graph, boxes: readonly Box[], width: number, down: boolean): SVGElement[] {
  const byNode = new Map(boxes.map((box) => [box.node.id, box]));
  return boxes.flatMap((box) =>
    box.node.inputs.flatMap((id) => {
      const from = values[id]?.node;
      const source = from === null || from === undefined ? undefined : byNode.get(from);
      return source ? [drawing("path", { class: "edge", d: curve(source, box, width, down) })] : [];
    }),
  );
}

/** Straight past the ranks between, which it would seem to enter, then bent towards its end. */
function curve(from: Box, to: Box, width: number, down: boolean): string {
  const [x0, y0] = down ? [from.x + width / 2, from.y + HEIGHT] : [from.x + width, from.y + HEIGHT / 2];
  const [x2, y2] = down ? [to.x + width / 2, to.y] : [to.x, to.y + HEIGHT / 2];
  const [x1, y1] = down ? [x0, Math.max(y0, y2 - GAP_Y)] : [Math.max(x0, x2 - gapOf(down)), y0];
  const start = `M${x0} ${y0} L${x1} ${y1}`;
  const bend = down
    ? `${x1} ${(y1 + y2) / 2}, ${x2} ${(y1 + y2) / 2}`
    : `${(x1 + x2) / 2} ${y1}, ${(x1 + x2) / 2} ${y2}`;
  return `${start} C${bend}, ${x2} ${y2}`;
}

function drawBox(
  { node, x, y }: Box,
  { values }: Graph,
  times: Map<string, Time>,
  longest: number,
  width: number,
): SVGElement {
  const value = values[node.output];
  const time = times.get(`${node.op} ${value?.name}`);
  const shape = value ? words.shape(value.shape) : "";
  const took = time ? words.milliseconds(time.took) : "";
  const label = `${node.op}: ${value?.name} ${shape}, ${node.formula}${time ? `, kernel ${time.kernel}, ${took}` : ""}`;
  const line = (dy: number, text: string, kind = "") =>
    drawing("text", { x: 9, y: dy, class: kind || null }, fitted(text, kind === "op" ? 12.5 : 11, width - 16));
  return drawing(
    "g",
    { class: "node", transform: `translate(${x} ${y})`, role: "listitem", "aria-label": label },
    drawing("title", {}, label),
    drawing("rect", { width, height: HEIGHT, rx: 6 }),
    line(17, node.op, "op"),
    line(33, `${value?.name ?? ""} ${shape}`),
    line(47, time?.kernel ?? node.formula),
    line(61, took),
    drawing("rect", {
      class: "heat",
      x: 0,
      y: HEIGHT - 4,
      width: time ? Math.max(2, (width * time.took) / longest) : 0,
      height: 4,
      rx: 2,
    }),
  );
}
