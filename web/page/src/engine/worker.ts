// The worker: the package, a device, and the sources that are open.

import {
  alignment,
  Attention,
  type Backend,
  type ByHead,
  copyBoth,
  Device,
  headsAreFree,
  headStatistics,
  MultiheadError,
  type Progress,
  type Tensor,
  toNpy,
} from "multihead";
import { download } from "./download";
import type { Calls, CallName, Fault, LayerAnswer, Message, Request, Settings, Sheet } from "./protocol";
import { callUnder, fileSource, type Layer, Model, randomSource, type Source } from "./sources";

type Report = (progress: Progress) => void;

/** Everything that the page may ask for. The last argument of each is where progress goes. */
type Desk = {
  [Name in CallName]: (
    ...args: [...Parameters<Calls[Name]>, Report]
  ) => ReturnType<Calls[Name]> | Promise<ReturnType<Calls[Name]>>;
};

let device: Device | null = null;
let model: Model | null = null;
/** The one download of it, and who waits for it. */
let loading: Promise<Model> | null = null;
const waiting = new Set<Report>();
/** What was opened, by the ids of the sheets; those before the one that was last computed are gone. */
const sources = new Map<number, Source>();
let lastId = 0;
/** The sheet whose layers there are. */
let current = 0;
/** Made when they are first asked for, freed with their source or their device. */
const layers = new Map<number, Promise<Layer>>();
/** The latest answer by head, for the settings in its key. */
let byHead: { key: string; answer: Promise<ByHead> } | null = null;

const desk: Desk = {
  async open(backend: Backend) {
    forget();
    // One that is replaced ends too, and nobody misses it.
    const replaced = device;
    device = null;
    replaced?.free();
    const opened = await Device.open({ backend });
    device = opened;
    void opened.lost.then((lost) => {
      if (device === opened) post({ kind: "lost", lost });
    });
    return opened.info;
  },

  async loadModel(url, bytes, report) {
    waiting.add(report);
    const all: Report = (progress) => waiting.forEach((report) => report(progress));
    loading ??= download(url, bytes, all).then((file) => read(url, file));
    try {
      model = await loading;
      return model.sentences;
    } catch (error) {
      // What did not come may come another time.
      loading = null;
      throw error;
    } finally {
      waiting.delete(report);
    }
  },

  useSentence(index) {
    if (!model) throw new Error("the model should be loaded before its sentences are used");
    return use(model.source(index));
  },

  useRandom: (sizes) => use(randomSource(sizes)),

  useFile: async (bytes, name) => use(await fileSource(bytes, name, openDevice())),

  async compute(id, index, settings, entry): Promise<LayerAnswer> {
    const { sheet, tokens } = turnTo(id);
    const { attention, inputs, expected, tolerance } = await layerAt(index);
    const asked = { ...callUnder(inputs, settings), returnWeights: true, verify: true };
    const { output, weights, timing, dispatches, verification } = await attention.run(asked);
    if (!weights || !verification) throw new Error("the weights and their verification should come, as asked for");
    const maps = entryOf(weights, entry);
    // A file's words are those of the queries; they name the keys where a sequence looks at itself.
    const words =
      (sheet.selfAttention && tokens[entry]) || Array.from({ length: sheet.numKeys }, (_, key) => `k${key}`);
    const statistics = await headStatistics(maps, { tokens: words, queryOffset: sheet.queryOffset });
    const compared =
      expected && unchanged(settings, sheet.initial)
        ? await Attention.compare(
            { output, weights },
            { output: expected.output, weights: expected.weights },
            tolerance,
          )
        : null;
    return {
      layer: index,
      entry,
      weights: maps,
      outputShape: output.shape,
      statistics,
      timing,
      dispatches,
      verification,
      expected: compared && { ok: compared.ok, maxError: compared.maxError, tolerance },
    };
  },

  async without(id, layer, settings, heads) {
    turnTo(id);
    const answer = await answerByHead(layer, settings);
    const [each, order] = [[...answer.withoutEach()], [...answer.pruningOrder()]];
    return { layer, together: answer.without(heads), each, order };
  },

  async machine(id, layer, settings) {
    turnTo(id);
    const { attention, inputs } = await layerAt(layer);
    const asked = { ...callUnder(inputs, settings), returnWeights: true };
    const { profile } = await attention.run({ ...asked, profile: true });
    if (!profile) throw new Error("the profile should come, as asked for");
    return { layer, explanation: await attention.explain(asked), profile };
  },

  async caseFile(id, layer, settings) {
    const { sheet, tokens } = turnTo(id);
    const { attention, inputs } = await layerAt(layer);
    const asked = callUnder(inputs, settings);
    const { output, weights } = await attention.run({ ...asked, returnWeights: true });
    const about = sheet.kind === "model" ? `layer ${layer} of all-MiniLM-L6-v2: ${sheet.title}` : sheet.title;
    const named = tokens.length > 0 ? { tokens } : {};
    return attention.toCase({ ...asked, about, ...named, expected: { output, weights: weights ?? null } });
  },

  npy: (tensor) => toNpy(tensor),

  copyBoth: (numSamples, valueDim) => copyBoth({ device: openDevice(), numSamples, valueDim }),

  alignment: (query, key) => alignment({ device: openDevice(), query, key }),

  headsAreFree: (numHiddens, heads, runs, onProgress) =>
    headsAreFree({ device: openDevice(), numHiddens: [numHiddens], heads, runs, numTokens: 32, onProgress }),

  destroyDevice() {
    openDevice().gpu?.destroy();
  },
};

async function read(url: string, bytes: Uint8Array): Promise<Model> {
  try {
    return await Model.read(bytes);
  } catch (error) {
    throw new Error(`what came from ${url} is not the model's data (${faultOf(error).message})`);
  }
}

function openDevice(): Device {
  if (!device) throw new Error("the device should be opened before it is used");
  return device;
}

/** The source of a sheet, whose layers are those that are computed from now on. */
function turnTo(id: number): Source {
  const source = sources.get(id);
  if (!source) throw new Error("a source should be opened before it is computed");
  if (id !== current) {
    forget();
    current = id;
    for (const older of sources.keys()) if (older < id) sources.delete(older);
  }
  return source;
}

function use(source: Source): Sheet {
  const id = ++lastId;
  sources.set(id, source);
  return { ...source.sheet, id };
}

/** Frees what was made on a device, or for a source, that is no longer there. */
function forget(): void {
  for (const layer of layers.values())
    void layer.then(
      ({ attention }) => attention.free(),
      () => {},
    );
  layers.clear();
  forgetByHead();
}

function forgetByHead(): void {
  void byHead?.answer.then(
    (answer) => answer.free(),
    () => {},
  );
  byHead = null;
}

function layerAt(index: number): Promise<Layer> {
  let layer = layers.get(index);
  if (!layer) {
    layer = turnTo(current).layer(index, openDevice());
    layers.set(index, layer);
    // What could not be made may be made another time.
    layer.catch(() => layers.delete(index));
  }
  return layer;
}

function answerByHead(layer: number, settings: Settings): Promise<ByHead> {
  const key = `${layer} ${keyOf(settings)}`;
  if (byHead?.key !== key) {
    forgetByHead();
    const answer = layerAt(layer).then(({ attention, inputs }) => attention.runByHead(callUnder(inputs, settings)));
    byHead = { key, answer };
    answer.catch(forgetByHead);
  }
  return byHead!.answer;
}

/** The maps (1, H, Lq, columns) of one batch entry. */
function entryOf({ data, shape }: Tensor, entry: number): Tensor {
  const [, ...axes] = shape;
  const size = axes.reduce((product, axis) => product * axis, 1);
  return { data: data.slice(entry * size, (entry + 1) * size), shape: [1, ...axes] };
}

function unchanged(settings: Settings, initial: Settings): boolean {
  return keyOf(settings) === keyOf(initial);
}

/** Settings as text, alike for the same ones. */
function keyOf({ causal, window, validLen, temperature }: Settings): string {
  return [causal, window, validLen, temperature].join(" ");
}

function post(message: Message): void {
  self.postMessage(message);
}

function faultOf(error: unknown): Fault {
  if (error instanceof MultiheadError) return { code: error.code, message: error.message };
  return { code: "internal", message: error instanceof Error ? error.message : String(error) };
}

async function answer({ id, name, args }: Request): Promise<void> {
  const report: Report = (progress) => post({ kind: "progress", id, progress: { ...progress } });
  try {
    const call = desk[name] as (...args: unknown[]) => unknown;
    post({ kind: "result", id, value: await call(...args, report) });
  } catch (error) {
    post({ kind: "fault", id, fault: faultOf(error) });
  }
}

// One after another, for there is one device. Nobody waits for a download but who asked for it.
let last: Promise<void> = Promise.resolve();
self.onmessage = (event: MessageEvent<Request>) => {
  if (event.data.name === "loadModel") void answer(event.data);
  else last = last.then(() => answer(event.data));
};
