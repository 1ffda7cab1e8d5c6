// One head averages: the experiment copy-both of `multihead experiment`, drawn.

import type { CopyBothReport } from "multihead";
import { bar, byId, element, say } from "../dom";
import * as words from "../draw/format";
import type { App } from "../state/app";
import { mountLive } from "./live";

/** Samples for the readout, and numbers in a value: m / 2N = 0.0005 is what a fit flatters its own samples by. */
const [NUM_SAMPLES, VALUE_DIM] = [16_384, 16];

export function mountCopyBoth(app: App): void {
  const button = byId("copy-both-run", HTMLButtonElement);
  const note = byId("copy-both-note", HTMLElement);
  const chart = byId("copy-both-chart", HTMLElement);
  const run = async () => {
    button.disabled = true;
    say(note, "computing…");
    try {
      const report = await app.engine.call("copyBoth", [NUM_SAMPLES, VALUE_DIM]);
      chart.replaceChildren(...lines(report));
      chart.ariaLabel = `Relative error by number of heads. ${report.rows.map(told).join("; ")}.`;
      say(note, `${words.count(report.numSamples)} samples, on ${report.device}; the mark is √½`);
    } catch (error) {
      say(note, "");
      app.fail("compute", error);
    } finally {
      button.disabled = false;
    }
  };
  const forget = () => {
    chart.replaceChildren();
    chart.ariaLabel = "Relative error by number of heads: not run yet";
    say(note, "");
  };
  button.addEventListener("click", () => void run());
  mountLive(app, chart, { run: () => void run(), forget });
}

type Row = CopyBothReport["rows"][number];

function lines({ rows, theory }: CopyBothReport): Node[] {
  return rows.map((row) => {
    const track = bar(row.relativeError);
    const mark = element("b");
    mark.style.left = `${theory * 100}%`;
    track.append(mark);
    const heads = row.heads === 1 ? "1 head" : `${row.heads} heads`;
    const name = element("span", {}, heads, element("small", {}, pairs(row)));
    return element("div", { class: "line" }, name, track, element("span", {}, `${lost(row)} lost`));
  });
}

function pairs({ weights }: Row): string {
  return weights.map(([first, second]) => `(${Number(first.toFixed(2))}, ${Number(second.toFixed(2))})`).join(" ");
}

function lost({ relativeError }: Row): string {
  return relativeError < 1e-4 ? "0 %" : `${(100 * relativeError).toFixed(1)} %`;
}

function told(row: Row): string {
  const [heads, lose] = row.heads === 1 ? ["1 head", "loses"] : [`${row.heads} heads`, "lose"];
  return `${heads} with weights ${pairs(row)} ${lose} ${lost(row)}`;
}
