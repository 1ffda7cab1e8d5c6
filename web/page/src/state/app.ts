// The page's state and what changes it. Sections subscribe and draw; nothing else keeps state of its own.

import type { DeviceInfo, Progress } from "multihead";
import { capital } from "../draw/format";
import { Engine, EngineError } from "../engine/engine";
import type { Fault, LayerAnswer, MachineReport, Sheet, Without } from "../engine/protocol";
import { DEFAULT_VIEW, fromHash, type HeadPlace, samePlace, toHash, type View } from "./view";

/** Something that the visitor is told until it is over. */
export interface Notice {
  kind: "error" | "warning" | "info";
  text: string;
}

export interface State {
  view: View;
  device: DeviceInfo | null;
  sentences: readonly string[];
  sheet: Sheet | null;
  /** By layer. An answer that is not to the present settings is `stale`. */
  answers: readonly (LayerAnswer | null)[];
  stale: boolean;
  without: Without | null;
  machine: MachineReport | null;
  /** The head under the pointer or the focus. */
  preview: HeadPlace | null;
  /** The cell under the pointer or the keyboard's mark. */
  cell: { row: number; column: number | null } | null;
  progress: { about: string; done: number; total: number } | null;
  notices: Readonly<Partial<Record<NoticeName, Notice>>>;
}

export type NoticeName = "device" | "source" | "compute" | "lost" | "link";

/** Milliseconds after which good news goes away. */
const INFO_LASTS = 10_000;

const MODEL_URL = new URL("data/minilm_heads.safetensors", document.baseURI).href;

export class App {
  readonly engine = new Engine();
  #state: State;
  readonly #listeners: ((state: State, before: State) => void)[] = [];
  /** The latest round of computing; an older one stops when it notices. */
  #round = 0;
  /** Settles when the latest question is answered. At most one is under way: a slider must not fill the queue. */
  #last: Promise<unknown> = Promise.resolve();
  /** The latest choice of a source. What an older one opens later is not shown. */
  #choice = 0;
  /** The latest recovery from a loss. */
  #recovery = 0;
  /** What listeners have been told of. */
  #told: State;
  #file: { bytes: Uint8Array; name: string } | null = null;

  constructor() {
    this.#state = {
      view: fromHash(location.hash),
      device: null,
      sentences: [],
      sheet: null,
      answers: [],
      stale: false,
      without: null,
      machine: null,
      preview: null,
      cell: null,
      progress: null,
      notices: {},
    };
    this.#told = this.#state;
    this.engine.onLost = ({ reason, message }) => void this.#recover(message || reason);
  }

  get state(): State {
    return this.#state;
  }

  /** Calls the listener after changes; those that come together are told of together. */
  subscribe(listener: (state: State, before: State) => void): void {
    this.#listeners.push(listener);
  }

  set(change: Partial<State>): void {
    if (this.#told === this.#state) queueMicrotask(() => this.#tell());
    this.#state = { ...this.#state, ...change };
  }

  #tell(): void {
    const [state, before] = [this.#state, this.#told];
    this.#told = state;
    for (const listener of this.#listeners) listener(state, before);
  }

  /** Changes what a link restores, and the address with it. */
  setView(change: Partial<View>): void {
    this.set({ view: { ...this.#state.view, ...change } });
    const hash = toHash(this.#state.view);
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }

  notify(name: NoticeName, notice: Notice | null): void {
    const { [name]: _, ...others } = this.#state.notices;
    this.set({ notices: notice ? { ...others, [name]: notice } : others });
    if (notice?.kind !== "info") return;
    setTimeout(() => {
      if (this.#state.notices[name] === notice) this.notify(name, null);
    }, INFO_LASTS);
  }

  /** Opens a device, loads what the address asks for, computes it. */
  async start(): Promise<void> {
    if (await this.#openDevice()) await this.#openSource();
  }

  /** Shows what another address asks for. */
  async restore(): Promise<void> {
    const { backend } = this.#state.view;
    this.set({ view: fromHash(location.hash) });
    if (this.#state.view.backend === backend) await this.#openSource();
    else await this.changeBackend(this.#state.view.backend);
  }

  /** Moves to another device. */
  async changeBackend(backend: View["backend"]): Promise<void> {
    this.setView({ backend });
    this.#forget();
    if (await this.#openDevice()) await this.#openSource();
  }

  async chooseSentence(sentence: number): Promise<void> {
    // Between sentences masks stay, so that they can be compared.
    const another = this.#state.view.source !== "model";
    const { locked } = another ? DEFAULT_VIEW : this.#state.view;
    this.setView({ source: "model", sentence, entry: 0, query: null, locked });
    await this.#openSource(another);
  }

  async chooseRandom(random: View["random"]): Promise<void> {
    this.setView({ source: "random", random, entry: 0, query: null, locked: { layer: 0, head: 0 }, off: [] });
    await this.#openSource(true);
  }

  async chooseFile(bytes: Uint8Array, name: string): Promise<void> {
    const before = this.#choice;
    const sheet = await this.#put("source", () => this.engine.call("useFile", [bytes, name]));
    // A file that cannot be used changes nothing but says so; neither does one after which something else was chosen.
    if (!sheet || before !== this.#choice) return;
    this.#choice += 1;
    this.#file = { bytes, name };
    this.set({ progress: null });
    this.setView({ source: "file", entry: 0, query: null, locked: { layer: 0, head: 0 }, off: [] });
    await this.#lay(sheet, true);
  }

  /** Changes masks and temperature, and computes again. */
  async changeSettings(change: Partial<View["settings"]>): Promise<void> {
    this.setView({ settings: { ...this.#state.view.settings, ...change } });
    await this.compute();
  }

  async chooseEntry(entry: number): Promise<void> {
    this.setView({ entry });
    await this.compute();
  }

  /** Keeps a head in view. */
  async lock(locked: HeadPlace): Promise<void> {
    const moved = locked.layer !== this.#state.view.locked.layer;
    this.setView({ locked });
    if (moved) {
      this.set({ without: null, machine: null });
      await this.#look(this.#round);
    }
  }

  async toggle(place: HeadPlace): Promise<void> {
    const { off } = this.#state.view;
    const others = off.filter((other) => !samePlace(other, place));
    this.setView({ off: others.length === off.length ? [...off, place] : others });
    await this.#look(this.#round);
  }

  async allOn(): Promise<void> {
    this.setView({ off: [] });
    await this.#look(this.#round);
  }

  /** Computes every layer under the present settings, the one in view first. */
  async compute(): Promise<void> {
    const { sheet, view } = this.#state;
    if (!sheet) return;
    const round = ++this.#round;
    this.set({ stale: true, without: null, machine: null });
    const others = Array.from({ length: sheet.numLayers }, (_, layer) => layer);
    const order = [view.locked.layer, ...others.filter((layer) => layer !== view.locked.layer)];
    const answers: (LayerAnswer | null)[] = Array.from({ length: sheet.numLayers }, () => null);
    for (const layer of order) {
      const question = () => this.engine.call("compute", [sheet.id, layer, view.settings, view.entry]);
      const answer = await this.#ask(round, question);
      if (!answer) {
        if (round === this.#round) this.set({ answers: [], stale: false });
        return;
      }
      answers[layer] = answer;
      this.set({ answers: [...answers], stale: false });
    }
    this.notify("compute", null);
    await this.#look(round);
  }

  /** Times the dispatches of the layer in view. */
  async measure(): Promise<void> {
    const { sheet } = this.#state;
    if (!sheet) return;
    const { locked, settings } = this.#state.view;
    const question = () => this.engine.call("machine", [sheet.id, locked.layer, settings]);
    const machine = await this.#ask(this.#round, question);
    if (machine && machine.layer === this.#state.view.locked.layer) this.set({ machine });
  }

  /** Tells of a fault that nobody else tells of. A loss is told of, and mended, when the device says so. */
  fail(name: NoticeName, error: unknown): void {
    if (name === "compute" && faultOf(error).code === "device-lost") return;
    this.notify(name, { kind: "error", text: sentence(faultOf(error).message) });
  }

  /** What is worth a closer look: the layer in view without some heads, and its dispatches. */
  async #look(round: number): Promise<void> {
    const { sheet } = this.#state;
    if (!sheet) return;
    const { locked, settings, off } = this.#state.view;
    const heads = off.filter(({ layer }) => layer === locked.layer).map(({ head }) => head);
    const current = () => round === this.#round && this.#state.view.locked.layer === locked.layer;
    const question = () => this.engine.call("without", [sheet.id, locked.layer, settings, heads]);
    const without = await this.#ask(round, question);
    if (without && current() && this.#state.view.off === off) this.set({ without });
    if (current() && !this.#state.machine) await this.measure();
  }

  async #openDevice(): Promise<boolean> {
    const device = await this.#put("device", () => this.engine.call("open", [this.#state.view.backend]));
    this.set({ device });
    return device !== null;
  }

  /** Opens what the view asks for, and shows it. */
  async #openSource(fresh = false): Promise<void> {
    this.#forget();
    const { view } = this.#state;
    const choice = ++this.#choice;
    const sheet = await this.#put("source", async () => {
      if (view.source !== "model") this.set({ progress: null });
      if (view.source === "random") return this.engine.call("useRandom", [view.random]);
      if (view.source === "file" && this.#file) return this.engine.call("useFile", [this.#file.bytes, this.#file.name]);
      if (view.source === "file") this.#missFile();
      return this.#openModel(choice);
    });
    // Something else may have been chosen meanwhile.
    if (sheet && choice === this.#choice) await this.#lay(sheet, fresh);
  }

  #missFile(): void {
    const text = "This link shows a case file, and files do not travel in links. Open the file here to see it again.";
    this.notify("link", { kind: "warning", text });
    this.setView({ source: "model", locked: DEFAULT_VIEW.locked, off: [], entry: 0 });
  }

  /** The model's sentence; `null` where something else was chosen while the model came. */
  async #openModel(choice: number): Promise<Sheet | null> {
    const report = ({ done, total }: Progress) => {
      if (choice === this.#choice) this.set({ progress: { about: "Loading 72 heads", done, total } });
    };
    const sentences = await this.engine.call("loadModel", [MODEL_URL, MODEL_BYTES], report);
    this.set({ sentences });
    if (choice !== this.#choice) return null;
    this.set({ progress: null });
    const sentence = Math.min(this.#state.view.sentence, sentences.length - 1);
    this.setView({ sentence });
    return this.engine.call("useSentence", [sentence]);
  }

  /** Shows a sheet, as far as possible in the view that there is. */
  async #lay(sheet: Sheet, fresh: boolean): Promise<void> {
    const { view } = this.#state;
    const settings = fresh ? sheet.initial : view.settings;
    const fits = ({ layer, head }: HeadPlace) => layer < sheet.numLayers && head < sheet.numHeads;
    this.setView({
      locked: fits(view.locked) ? view.locked : { layer: 0, head: 0 },
      off: view.off.filter(fits),
      entry: Math.min(view.entry, Math.max(0, sheet.numEntries - 1)),
      query: view.query !== null && view.query < sheet.numQueries ? view.query : null,
      settings: { ...settings, validLen: within(settings.validLen, sheet.numKeys) },
    });
    this.set({ sheet, answers: [], without: null, machine: null, preview: null, cell: null });
    await this.compute();
  }

  /** Nothing of what was shown is true any more. */
  #forget(): void {
    this.#round += 1;
    this.set({ sheet: null, answers: [], stale: false, without: null, machine: null, preview: null, cell: null });
  }

  /** The device is gone: forgets, opens another, computes again. */
  async #recover(reason: string): Promise<void> {
    const start = performance.now();
    const recovery = ++this.#recovery;
    this.#forget();
    this.set({ device: null });
    this.notify("lost", { kind: "warning", text: `The device was lost (${reason}). Opening it again…` });
    if (!(await this.#openDevice())) return;
    await this.#openSource();
    // It may have been lost again meanwhile, which another recovery mends.
    if (recovery !== this.#recovery) return;
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    this.notify("lost", {
      kind: "info",
      text: `The device was lost and is back; everything was computed anew in ${seconds} s.`,
    });
  }

  /** Does something that begins anew, and tells what was wrong with it. */
  async #put<Value>(name: NoticeName, work: () => Promise<Value>): Promise<Value | null> {
    try {
      const value = await work();
      this.notify(name, null);
      return value;
    } catch (error) {
      this.set({ progress: null });
      this.fail(name, error);
      return null;
    }
  }

  /** One question of a round. `null` when the round is over, or the question failed. */
  async #ask<Value>(round: number, question: () => Promise<Value>): Promise<Value | null> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    try {
      await before;
      if (round !== this.#round) return null;
      const value = await question();
      return round === this.#round ? value : null;
    } catch (error) {
      if (round !== this.#round) return null;
      this.fail("compute", error);
      return null;
    } finally {
      resolve();
    }
  }
}

function faultOf(error: unknown): Fault {
  if (error instanceof EngineError) return { code: error.code, message: error.message };
  return { code: "internal", message: error instanceof Error ? error.message : String(error) };
}

/** A limit of keys that there are so many of; none where it hides nothing that is there. */
function within(limit: number | null, keys: number): number | null {
  return limit !== null && limit <= keys ? limit : null;
}

/** With a capital letter, unless the first word is a name of something, and a full stop. */
function sentence(text: string): string {
  const whole = /^\p{Ll}+(?=[\s,;]|:(?!\/\/))/u.test(text) ? capital(text) : text;
  return /[.!?…]$/.test(whole) ? whole : `${whole}.`;
}
