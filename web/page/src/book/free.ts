// Heads are free: what more heads cost on this device, beside what counting says.

import type { HeadsAreFreeReport } from "multihead";
import { scaleLinear, scalePoint } from "d3-scale";
import { byId, element, onWidth, say } from "../dom";
import type { Figure, Mark } from "../draw/figure";
import * as words from "../draw/format";
import { type Inks, pageInks } from "../draw/inks";
import { paintOnPage } from "../draw/paint";
import type { App } from "../state/app";
import { mountLive } from "./live";

const HEADS = [1, 2, 4, 8, 16];
/** Timed runs for each number of heads; their median counts. */
const RUNS = 5;

export function mountFree(app: App): void {
  const form = byId("free-form", HTMLFormElement);
  const width = byId("free-width", HTMLSelectElement);
  const canvas = byId("free-chart", HTMLCanvasElement);
  const place = byId("free-table", HTMLTableElement);
  const note = byId("free-note", HTMLElement);
  const button = form.querySelector("button");
  let report: HeadsAreFreeReport | null = null;
  let room = 0;
  const draw = () => {
    canvas.hidden = !report;
    if (!report || room === 0) return;
    const chart = chartFigure(report, Math.min(room, 560), pageInks());
    paintOnPage(chart, canvas);
    canvas.ariaLabel = chart.description;
  };
  const run = async (runs: number) => {
    if (button) button.disabled = true;
    const onProgress = ({ done, total }: { done: number; total: number }) => say(note, `timing… ${done} of ${total}`);
    try {
      report = await app.engine.call(
        "headsAreFree",
        [Number(width.value), HEADS, runs],
        runs > 0 ? onProgress : undefined,
      );
      place.replaceChildren(...table(report));
      const timed = `medians of ${report.runs} runs on ${report.device}`;
      say(note, `${report.numTokens} tokens, ${report.runs > 0 ? timed : "counted, not timed"}`);
      draw();
    } catch (error) {
      say(note, "");
      app.fail("compute", error);
    } finally {
      if (button) button.disabled = false;
    }
  };
  const forget = () => {
    report = null;
    place.replaceChildren();
    say(note, "");
    draw();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void run(RUNS);
  });
  width.addEventListener("change", () => void run(0));
  onWidth(byId("free-chart-frame", HTMLElement), (now) => {
    room = now;
    draw();
  });
  app.subscribe(draw);
  mountLive(app, form, { run: () => void run(0), forget });
}

function table({ rows }: HeadsAreFreeReport): Node[] {
  const names = ["heads", "parameters", "FLOP", "exponentials", "time"];
  const head = element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name))));
  const body = rows.map(({ heads, parameters, flops, exponentials, medianMs }) => {
    const cells = [heads, parameters, flops, exponentials].map((value) => words.count(value));
    return element(
      "tr",
      {},
      ...[...cells, words.milliseconds(medianMs ?? Number.NaN)].map((text) => element("td", {}, text)),
    );
  });
  return [head, element("tbody", {}, ...body)];
}

/** Costs as multiples of those of one head: what is counted stays at 1, the clock says what it says. */
function chartFigure(report: HeadsAreFreeReport, width: number, inks: Inks): Figure {
  const [first] = report.rows;
  const times = report.rows.map(({ heads, medianMs }) => ({
    heads,
    ratio: (medianMs ?? Number.NaN) / (first?.medianMs ?? Number.NaN),
  }));
  const [height, left, right, top, bottom] = [240, 44, width - 118, 16, 206];
  const x = scalePoint(
    times.map(({ heads }) => heads),
    [left + 10, right],
  );
  const most = Math.max(1.5, ...times.map(({ ratio }) => (Number.isFinite(ratio) ? ratio : 0)));
  const y = scaleLinear([0, most], [bottom, top]).nice(4);
  const text = (
    at: number,
    height: number,
    words: string,
    anchor: "start" | "middle" | "end",
    fill = inks.muted,
  ): Mark => ({ kind: "text", x: at, y: height, text: words, size: 11, fill, anchor });
  const marks: Mark[] = [{ kind: "rect", x: 0, y: 0, width, height, fill: inks.back }];
  for (const value of y.ticks(4)) {
    marks.push({ kind: "line", from: [left, y(value)], to: [right, y(value)], stroke: inks.line, line: 1 });
    marks.push(text(left - 6, y(value) + 4, `${value}×`, "end"));
  }
  for (const { heads } of times) marks.push(text(x(heads) ?? 0, bottom + 17, String(heads), "middle"));
  marks.push(text((left + right) / 2, bottom + 32, "heads", "middle"));
  marks.push({ kind: "line", from: [left + 10, y(1)], to: [right, y(1)], stroke: inks.ink, line: 2, dashed: true });
  marks.push(text(right + 6, y(1) + 4, "FLOP, parameters", "start", inks.ink));
  const measured = times.filter(({ ratio }) => Number.isFinite(ratio));
  measured.forEach(({ heads, ratio }, index) => {
    const next = measured[index + 1];
    const [at, height] = [x(heads) ?? 0, y(ratio)];
    if (next)
      marks.push({
        kind: "line",
        from: [at, height],
        to: [x(next.heads) ?? 0, y(next.ratio)],
        stroke: inks.mark,
        line: 2,
      });
    marks.push({ kind: "rect", x: at - 3, y: height - 3, width: 6, height: 6, fill: inks.mark });
  });
  const last = measured.at(-1);
  if (last)
    marks.push(
      text(right + 6, y(last.ratio) + (Math.abs(y(last.ratio) - y(1)) < 14 ? -10 : 4), "time", "start", inks.mark),
    );
  const told = measured.map(({ heads, ratio }) => `${heads}: ${ratio.toFixed(2)} times`).join(", ") || "not measured";
  const description = `Cost as multiples of one head. FLOP and parameters: 1 for all. Time: ${told}.`;
  return { width, height, title: "Heads are free", description, marks };
}
