// The proof: what was computed, against the CPU reference.

import { bar, byId, element } from "../dom";
import * as words from "../draw/format";
import type { App, State } from "../state/app";
import { deviceName, nameOf } from "../state/shown";
import { judge } from "./judge";

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
  const where =
    device?.backend === "cpu" ? "the CPU path in 32-bit floats" : device ? deviceName(device) : "this device";
  const nans = all.nans === all.expectedNans ? "" : `, where the reference has ${words.count(all.expectedNans)}`;
  const lines = [
    element(
      "p",
      { class: "big", "data-ok": String(all.ok) },
      all.ok ? words.error(all.maxError) : `${words.error(all.maxError)}: too much`,
    ),
    element(
      "p",
      {},
      `is the largest error in ${words.count(all.numbers)} numbers of ${layers}: outputs and weights from ${where}, `,
      `against the reference in 64-bit floats. Allowed are ${words.error(all.allowed)}.`,
    ),
    element("p", {}, `NaN: ${words.count(all.nans)}${nans}. The reference took ${words.milliseconds(all.took)}.`),
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

/** Each head's largest error, for the layer in view, as a share of what is allowed. */
function headErrors({ answers, sheet, view }: State): Node[] {
  const answer = answers[view.locked.layer];
  const weights = answer?.verification.weights;
  if (!answer || !weights) return [element("p", { class: "note" }, "This layer has not been computed yet.")];
  return (answer.verification.heads ?? []).map((error, head) => {
    const name = element("span", { title: nameOf(sheet, { layer: answer.layer, head }) }, `head ${head}`);
    return element("div", {}, name, bar(error / weights.allowed), element("output", {}, words.error(error)));
  });
}
