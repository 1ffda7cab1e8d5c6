// The worker: the package, a device, and the source that lies on the table.

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
let source: Source | null = null;
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
    model ??= await Model.read(await download(url, bytes, report));
    return model.sentences;
  },

  useSentence(index) {
    if (!model) throw new Error("the model should be loaded before its sentences are used");
    return use(model.source(index));
  },

  useRandom: (sizes) => use(randomSource(sizes)),

  useFile: async (bytes, name) => use(await fileSource(bytes, name, openDevice())),

  async compute(index, settings, entry): Promise<LayerAnswer> {
    const { attention, inputs, expected, tolerance } = await layerAt(index);
    const asked = { ...callUnder(inputs, settings), returnWeights: true, verify: true };
    const { output, weights, timing, dispatches, verification } = await attention.run(asked);
    if (!weights || !verification) throw new Error("the weights and their verification should come, as asked for");
    const { sheet } = onTable();
    const words = sheet.entries[entry];
    const tokens = sheet.selfAttention ? words?.queries : words?.keys;
    const maps = entryOf(weights, entry);
    const statistics = await headStatistics(maps, { tokens: tokens ?? [], queryOffset: sheet.queryOffset });
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

  async without(layer, settings, heads) {
    const answer = await answerByHead(layer, settings);
    const [each, order] = [[...answer.withoutEach()], [...answer.pruningOrder()]];
    return { layer, together: answer.without(heads), each, order };
  },

  async machine(layer, settings) {
    const { attention, inputs } = await layerAt(layer);
    const asked = { ...callUnder(inputs, settings), returnWeights: true };
    const { profile } = await attention.run({ ...asked, profile: true });
    if (!profile) throw new Error("the profile should come, as asked for");
    return { layer, explanation: await attention.explain(asked), profile };
  },

  async caseFile(layer, settings) {
    const { attention, inputs } = await layerAt(layer);
    const asked = callUnder(inputs, settings);
    const { output, weights } = await attention.run({ ...asked, returnWeights: true });
    const { title, entries, kind } = onTable().sheet;
    const tokens = entries.map(({ queries }) => queries);
    const about = kind === "model" ? `layer ${layer} of all-MiniLM-L6-v2: ${title}` : title;
    return attention.toCase({ ...asked, about, tokens, expected: { output, weights: weights ?? null } });
  },

  npy: (tensor) => toNpy(tensor),

  copyBoth: (numSamples) => copyBoth({ device: openDevice(), numSamples }),

  alignment: (query, key) => alignment({ device: openDevice(), query, key }),

  headsAreFree: (numHiddens, heads, runs, onProgress) =>
    headsAreFree({ device: openDevice(), numHiddens: [numHiddens], heads, runs, numTokens: 32, onProgress }),

  destroyDevice() {
    openDevice().gpu?.destroy();
  },
};

function openDevice(): Device {
  if (!device) throw new Error("the device should be opened before it is used");
  return device;
}

function onTable(): Source {
  if (!source) throw new Error("a source should be chosen before it is computed");
  return source;
}

function use(next: Source): Sheet {
  forget();
  source = next;
  return next.sheet;
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
    layer = onTable().layer(index, openDevice());
    layers.set(index, layer);
    // What could not be made may be made another time.
    layer.catch(() => layers.delete(index));
  }
  return layer;
}

function answerByHead(layer: number, settings: Settings): Promise<ByHead> {
  const key = JSON.stringify([layer, settings]);
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
  return JSON.stringify(settings) === JSON.stringify(initial);
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

// One after another: a call may rely on what the one before it put on the table.
let last: Promise<void> = Promise.resolve();
self.onmessage = (event: MessageEvent<Request>) => {
  last = last.then(() => answer(event.data));
};
