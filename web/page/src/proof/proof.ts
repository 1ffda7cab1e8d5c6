// The proof: what was computed, against the CPU reference.

import { bar, byId, element } from "../dom";
import * as words from "../draw/format";
import type { App, State } from "../state/app";
import { layerName, nameOf } from "../state/shown";
import { judge, type Verdict } from "./judge";

export function mountProof(app: App): void {
  const place = byId("verdict", HTMLElement);
  const heads = byId("by-head", HTMLDetailsElement);
  const list = byId("head-errors", HTMLElement);
  const drawHeads = (state: State) => list.replaceChildren(...(heads.open ? headErrors(state) : []));
  heads.addEventListener("toggle", () => drawHeads(app.state));
  app.subscribe((state, before) => {
    place.dataset["stale"] = String(state.stale);
    if (state.answers !== before.answers) place.replaceChildren(...verdict(state));
    if (state.answers !== before.answers || state.view.locked.layer !== before.view.locked.layer) drawHeads(state);
  });
}

function verdict({ answers, sheet, device }: State): Node[] {
  const all = judge(answers);
  if (!all || !sheet) return [element("p", { class: "note" }, "Nothing has been computed yet.")];
  const layers = all.layers === 1 ? "1 layer" : `${all.layers} layers`;
  const where = device?.backend === "cpu" ? "the CPU path in 32-bit floats" : (device?.name ?? "this device");
  const compared = `in ${words.count(all.numbers)} numbers of ${layers}: outputs and weights from ${where}`;
  const nans = all.nans === all.expectedNans ? "as in" : `${words.count(all.expectedNans)} in`;
  const lines = [
    element("p", { class: "big", "data-ok": String(all.ok && all.nans === 0) }, headline(all)),
    element(
      "p",
      {},
      `is the largest error ${compared}, against the reference in 64-bit floats. Allowed are ${words.error(all.allowed)}.`,
    ),
    element(
      "p",
      {},
      `NaN: ${words.count(all.nans)}${all.nans + all.expectedNans > 0 ? `, ${nans} the reference` : ""}. `,
      `The reference took ${words.milliseconds(all.took)}.`,
    ),
  ];
  const answer = answers[0]?.expected;
  if (answer) {
    const agrees = answer.ok ? "as the file expects" : "NOT what the file expects";
    lines.push(
      element(
        "p",
        { class: "expected", "data-ok": String(answer.ok) },
        `The answer is ${agrees}: largest difference ${words.error(answer.maxError)}, `,
        `tolerance ${words.error(answer.tolerance)}.`,
      ),
    );
  }
  return lines;
}

/** The error, and what else there is to say of it. */
function headline({ ok, nans, maxError }: Verdict): string {
  if (!ok) return `${words.error(maxError)}: too much`;
  return nans > 0 ? `${words.error(maxError)}, but for ${words.count(nans)} NaN` : words.error(maxError);
}

/** Each head's largest error, for the layer in view, as a share of what is allowed. */
function headErrors({ answers, sheet, view }: State): Node[] {
  const answer = answers[view.locked.layer];
  const weights = answer?.verification.weights;
  if (!answer || !weights) return [element("p", { class: "note" }, "This layer has not been computed yet.")];
  const errors = (answer.verification.heads ?? []).map((error, head) => {
    const name = element("span", { title: nameOf(sheet, { layer: answer.layer, head }) }, `head ${head}`);
    return element("div", {}, name, bar(error / weights.allowed), element("output", {}, words.error(error)));
  });
  const layer = layerName(sheet, answer.layer);
  const about = `Largest error of each head’s weights${layer && ` in ${layer}`}; a full bar is what is allowed.`;
  return [element("p", { class: "note" }, about), ...errors];
}
