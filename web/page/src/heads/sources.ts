// What is read: a sentence, random numbers, a file.

import { byId, element, say } from "../dom";
import * as words from "../draw/format";
import type { App, State } from "../state/app";
import { clamp, RANGES } from "../state/view";

/** Files above are not read: a page's memory ends. */
const LARGEST_FILE = 512 * 2 ** 20;

export function mountSources(app: App): void {
  const sentence = byId("sentence", HTMLSelectElement);
  const entry = byId("entry", HTMLInputElement);
  const file = byId("file", HTMLInputElement);
  sentence.addEventListener("change", () => void app.chooseSentence(Number(sentence.value)));
  entry.addEventListener("change", () => {
    const last = (app.state.sheet?.numEntries ?? 1) - 1;
    void app.chooseEntry(clamp(Math.trunc(entry.valueAsNumber) || 0, 0, last));
  });
  byId("open-file", HTMLButtonElement).addEventListener("click", () => file.click());
  file.addEventListener("change", () => {
    const chosen = file.files?.[0];
    if (chosen) void openFile(app, chosen);
    file.value = "";
  });
  mountRandom(app);
  mountDrop(app);
  app.subscribe((state, before) => draw(state, before, sentence, entry));
}

function draw(state: State, before: State, sentence: HTMLSelectElement, entry: HTMLInputElement): void {
  const { sheet, view, sentences, progress } = state;
  if (sentences !== before.sentences || sentence.options.length === 0) {
    // Before the model has been loaded, which random data and files do without, the first sentence stands for all.
    const texts = sentences.length > 0 ? sentences : [`Load the sentences (${megabytes(MODEL_BYTES)} MB)`];
    sentence.replaceChildren(
      element("option", { value: "", disabled: true, hidden: true }, "none: choose one"),
      ...texts.map((text, index) => element("option", { value: index }, text)),
    );
  }
  // What could not be loaded can be chosen again.
  const failed = !sheet && state.notices.source?.kind === "error";
  sentence.disabled = sentences.length === 0 && !failed && (view.source === "model" || !sheet);
  const value = view.source === "model" && !failed ? String(view.sentence) : "";
  if (sentence.value !== value) sentence.value = value;
  const about = byId("source-about", HTMLElement);
  if (sheet) say(about, [sheet.kind === "model" ? "" : sheet.title, sheet.about ?? ""].filter(Boolean).join(" · "));
  about.title = about.textContent;
  byId("entry-label", HTMLElement).hidden = !sheet || sheet.numEntries < 2;
  entry.max = String((sheet?.numEntries ?? 1) - 1);
  if (document.activeElement !== entry) entry.value = String(view.entry);
  const bar = byId("progress", HTMLElement);
  bar.hidden = !progress;
  if (progress) {
    byId("progress-bar", HTMLProgressElement).value = progress.total > 0 ? progress.done / progress.total : 0;
    say(
      byId("progress-text", HTMLElement),
      `${progress.about}: ${megabytes(progress.done)} of ${megabytes(progress.total)} MB`,
    );
  }
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

async function openFile(app: App, file: File): Promise<void> {
  if (file.size > LARGEST_FILE) {
    const size = `${(file.size / 2 ** 20).toFixed(0)} MiB`;
    app.fail(
      "source",
      new Error(`${file.name} has ${size}; this page reads files of up to ${LARGEST_FILE / 2 ** 20} MiB`),
    );
    return;
  }
  try {
    await app.chooseFile(new Uint8Array(await file.arrayBuffer()), file.name);
  } catch (error) {
    app.fail("source", error);
  }
}

function mountRandom(app: App): void {
  const panel = byId("random-panel", HTMLDetailsElement);
  const cost = byId("random-cost", HTMLElement);
  const fields = {
    numTokens: byId("random-tokens", HTMLInputElement),
    numHeads: byId("random-heads", HTMLInputElement),
    headDim: byId("random-dim", HTMLInputElement),
    seed: byId("random-seed", HTMLInputElement),
  };
  const read = () => {
    const number = (key: keyof typeof fields) => {
      const [least, most] = RANGES[key];
      return clamp(Math.trunc(fields[key].valueAsNumber) || least, least, most);
    };
    return {
      numTokens: number("numTokens"),
      numHeads: number("numHeads"),
      headDim: number("headDim"),
      seed: number("seed"),
    };
  };
  const price = () => {
    const { numTokens: n, numHeads, headDim } = read();
    const width = numHeads * headDim;
    // D2L §10.3: four projections, and two products of every query with every key.
    say(cost, `E = ${width}; ${words.large(8 * n * width * width + 4 * n * n * width)}FLOP in matrix products`);
  };
  panel.addEventListener("toggle", () => {
    if (!panel.open) return;
    for (const [key, field] of Object.entries(fields))
      field.value = String(app.state.view.random[key as keyof typeof fields]);
    price();
  });
  const form = byId("random-form", HTMLFormElement);
  form.addEventListener("input", price);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    panel.open = false;
    void app.chooseRandom(read());
  });
}

function mountDrop(app: App): void {
  const veil = byId("drop", HTMLElement);
  const carriesFile = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  // Words may be dropped on a field; elsewhere a browser would leave the page for what is dropped.
  const isForField = (event: DragEvent) => event.target instanceof HTMLInputElement && !carriesFile(event);
  window.addEventListener("dragover", (event) => {
    if (isForField(event)) return;
    event.preventDefault();
    veil.hidden = !carriesFile(event);
    if (event.dataTransfer) event.dataTransfer.dropEffect = carriesFile(event) ? "copy" : "none";
  });
  window.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) veil.hidden = true;
  });
  window.addEventListener("drop", (event) => {
    if (isForField(event)) return;
    event.preventDefault();
    veil.hidden = true;
    void openDropped(app, [...(event.dataTransfer?.files ?? [])]);
  });
}

async function openDropped(app: App, files: readonly File[]): Promise<void> {
  const [file] = files;
  if (!file) return;
  if (files.length === 1) await openFile(app, file);
  else app.fail("source", new Error(`${files.length} files were dropped; this page shows one at a time, so drop one`));
}
