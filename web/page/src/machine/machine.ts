// The machine: the dispatch graph with times, where the time goes, what computes.

import { bar, byId, element, fact, onWidth, say } from "../dom";
import * as words from "../draw/format";
import type { App, State } from "../state/app";
import { layerName, type Shown, shown } from "../state/shown";
import { GRAPHS } from "../state/view";
import { drawGraph } from "./graph";

export function mountMachine(app: App): void {
  const frame = byId("graph-frame", HTMLElement);
  const kind = byId("graph-kind", HTMLSelectElement);
  const measure = byId("measure", HTMLButtonElement);
  const note = byId("measure-note", HTMLElement);
  let width = 0;
  const graph = (state: State) => {
    const { machine, view } = state;
    frame.replaceChildren(...(machine && width > 0 ? [drawGraph(machine, view.graph, width)] : []));
  };
  kind.addEventListener("change", () =>
    app.setView({ graph: GRAPHS.find((name) => name === kind.value) ?? "rewritten" }),
  );
  measure.addEventListener("click", () => void app.measure());
  onWidth(frame, (now) => {
    width = now;
    graph(app.state);
  });
  app.subscribe((state, before) => {
    kind.value = state.view.graph;
    if (state.machine !== before.machine || state.view.graph !== before.view.graph) graph(state);
    measure.disabled = !shown(state);
    say(note, machineNote(state));
    if (state.answers !== before.answers || state.view.locked !== before.view.locked)
      drawTiming(shown({ ...state, preview: null }));
  });
  mountDevice(app);
}

function machineNote({ machine, sheet, view }: State): string {
  if (!machine) return "";
  const { profile, explanation } = machine;
  const total = profile.steps.reduce((sum, step) => sum + step.took, 0);
  const own = profile.clock === "device";
  const clock = own ? "the device’s own clock" : "this computer’s clock, one dispatch at a time";
  const nodes = explanation.rewritten.nodes.filter((node) => !node.once).length;
  const before = explanation.graph.nodes.length;
  const rewriting = nodes === before ? "" : ` Of the book’s ${before} operations, rewriting made ${nodes}.`;
  const name = layerName(sheet, view.locked.layer);
  const work = `${profile.steps.length} dispatches, ${words.large(explanation.graph.flops)}FLOP`;
  return `${name && `${name}: `}${work}, ${words.milliseconds(total)} by ${clock}.${rewriting}`;
}

/** The parts of the last run of the layer in view. */
function drawTiming(view: Shown | null): void {
  const place = byId("timing", HTMLElement);
  if (!view) {
    place.replaceChildren();
    return;
  }
  const { compile, upload, gpu, readback } = view.answer.timing;
  const parts = { compile, upload, GPU: gpu, readback };
  const longest = Math.max(...Object.values(parts), 1e-6);
  const lines = Object.entries(parts).map(([name, took]) =>
    element("div", {}, element("span", {}, name), bar(took / longest), element("output", {}, words.milliseconds(took))),
  );
  const run = [layerName(view.sheet, view.place.layer), `${view.answer.dispatches} dispatches`].filter(Boolean);
  const note = `${run.join(", ")}. Compiling happens once for each kind of call.`;
  place.replaceChildren(...lines, element("p", { class: "note" }, note));
}

function mountDevice(app: App): void {
  const backend = byId("backend", HTMLSelectElement);
  const lose = byId("lose", HTMLButtonElement);
  const warning = byId("device-warning", HTMLElement);
  backend.addEventListener("change", () => void app.changeBackend(backend.value === "cpu" ? "cpu" : "auto"));
  lose.addEventListener("click", () => {
    app.engine.call("destroyDevice", []).catch((error: unknown) => app.fail("device", error));
  });
  app.subscribe((state, before) => {
    backend.value = state.view.backend === "cpu" ? "cpu" : "auto";
    if (state.device === before.device) return;
    const { device } = state;
    lose.disabled = device?.backend !== "webgpu";
    warning.hidden = !device?.warning;
    say(warning, device?.warning ?? "");
    byId("device", HTMLElement).replaceChildren(...(device ? facts(state) : []));
    const limits = Object.entries(device?.limits ?? {});
    byId("limits", HTMLElement).replaceChildren(...limits.flatMap(([name, value]) => fact(name, words.count(value))));
  });
}

function facts({ device }: State): Node[] {
  if (!device) return [];
  const hardware = [device.vendor, device.architecture].filter(Boolean).join(", ");
  const [least, most] = device.subgroup;
  return [
    ...fact("adapter", device.name),
    ...fact("reached by", device.backend === "cpu" ? "WebAssembly, on the CPU" : "WebGPU"),
    ...(hardware ? fact("hardware", hardware) : []),
    ...fact("kind", device.software ? "software: shaders run on the CPU" : "a GPU"),
    ...(device.backend === "webgpu" ? fact("clock", device.timestamps ? "its own" : "this computer’s") : []),
    ...(most > 0 ? fact("subgroups", least === most ? String(most) : `${least} to ${most}`) : []),
    ...(device.features.length > 0 ? fact("features", device.features.join(", ")) : []),
  ];
}
