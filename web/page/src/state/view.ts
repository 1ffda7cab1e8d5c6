// What a link restores: everything that a visitor can choose, as a value; to and from the part of an address after #.

import type { Backend, Pattern } from "multihead";
import type { RandomSizes, Settings } from "../engine/protocol";
import { type Palette, PALETTES } from "../draw/palette";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export const PATTERNS: readonly Pattern[] = ["previous", "next", "self", "first", "separator", "broad"];

export const GRAPHS = ["rewritten", "graph"] as const;

/** Letters of a word at most. */
const LONGEST_WORD = 64;

/** A head of a layer. */
export interface HeadPlace {
  layer: number;
  head: number;
}

export interface View {
  source: "model" | "random" | "file";
  sentence: number;
  random: RandomSizes;
  /** Which batch entry of a case file. */
  entry: number;
  /** The head that is locked. */
  locked: HeadPlace;
  /** The token whose row is marked. */
  query: number | null;
  settings: Settings;
  off: HeadPlace[];
  /** Heads of this pattern stand out in the grid. */
  pattern: Pattern | null;
  /** Token view: lines below this weight are left out. */
  threshold: number;
  /** Token view: only the lines of the chosen token. */
  onlyQuery: boolean;
  /** The dispatch graph as it runs, or as it was built. */
  graph: (typeof GRAPHS)[number];
  /** Whose letters are aligned. */
  words: readonly [string, string];
  palette: Palette;
  theme: Theme;
  backend: Backend;
}

/** The head that links "it" to "trophy": a sight that needs no explanation. */
export const DEFAULT_VIEW: View = {
  source: "model",
  sentence: 0,
  random: { numTokens: 16, numHeads: 8, headDim: 16, seed: 1 },
  entry: 0,
  locked: { layer: 3, head: 1 },
  query: 10,
  settings: { causal: false, window: null, validLen: null, temperature: 1 },
  off: [],
  pattern: null,
  threshold: 0.05,
  onlyQuery: false,
  graph: "rewritten",
  words: ["attention", "translation"],
  palette: "viridis",
  theme: "auto",
  backend: "auto",
};

/** Smallest and largest of what a visitor may type. */
export const RANGES = {
  numTokens: [1, 128],
  numHeads: [1, 32],
  headDim: [1, 64],
  seed: [0, 999_999],
  temperature: [0.1, 10],
  threshold: [0, 0.5],
} as const;

/** The address's part after #; what is as by default is left out. */
export function toHash(view: View): string {
  const words = new URLSearchParams();
  const put = (key: string, value: string | number, byDefault: string | number) => {
    if (value !== byDefault) words.set(key, String(value));
  };
  const { random, settings, locked } = view;
  const standard = DEFAULT_VIEW;
  put("source", view.source, standard.source);
  if (view.source === "model") put("sentence", view.sentence, standard.sentence);
  if (view.source === "random")
    words.set("sizes", [random.numTokens, random.numHeads, random.headDim, random.seed].join("."));
  put("entry", view.entry, standard.entry);
  put("head", place(locked), place(standard.locked));
  put("query", view.query ?? "none", standard.query ?? "none");
  if (settings.causal) words.set("causal", "1");
  if (settings.window !== null) words.set("window", String(settings.window));
  if (settings.validLen !== null) words.set("valid_len", String(settings.validLen));
  put("temperature", settings.temperature, 1);
  put("off", view.off.map(place).join(","), "");
  put("pattern", view.pattern ?? "", "");
  put("threshold", view.threshold, standard.threshold);
  if (view.onlyQuery) words.set("only_query", "1");
  put("graph", view.graph, standard.graph);
  put("asks", view.words[0], standard.words[0]);
  put("asked", view.words[1], standard.words[1]);
  put("palette", view.palette, standard.palette);
  put("theme", view.theme, standard.theme);
  put("device", view.backend, standard.backend);
  return words.toString();
}

/** The view that an address asks for. What makes no sense, or is too small or too large, is as by default. */
export function fromHash(hash: string): View {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const whole = (key: string, least: number, most: number, byDefault: number): number =>
    wholeNumber(words.get(key), least, most) ?? byDefault;
  const standard = DEFAULT_VIEW;
  const sizes = (words.get("sizes") ?? "").split(".");
  const size = (index: number, key: keyof RandomSizes): number =>
    wholeNumber(sizes[index] ?? null, RANGES[key][0], RANGES[key][1]) ?? standard.random[key];
  const word = (key: string, byDefault: string): string => (words.get(key) ?? byDefault).slice(0, LONGEST_WORD);
  const off = (words.get("off") ?? "").split(",").flatMap((text) => placeOf(text) ?? []);
  const isFirst = (head: HeadPlace, index: number) => off.findIndex((other) => samePlace(head, other)) === index;
  return {
    source: oneOf(words.get("source"), ["model", "random", "file"], standard.source),
    sentence: whole("sentence", 0, 1000, standard.sentence),
    random: {
      numTokens: size(0, "numTokens"),
      numHeads: size(1, "numHeads"),
      headDim: size(2, "headDim"),
      seed: size(3, "seed"),
    },
    entry: whole("entry", 0, 1e6, standard.entry),
    locked: placeOf(words.get("head") ?? "") ?? standard.locked,
    query: words.has("query") ? wholeNumber(words.get("query"), 0, 1e6) : standard.query,
    settings: {
      causal: words.get("causal") === "1",
      window: wholeNumber(words.get("window"), 1, 1e6),
      validLen: wholeNumber(words.get("valid_len"), 0, 1e6),
      temperature: decimal(words.get("temperature"), ...RANGES.temperature) ?? 1,
    },
    off: off.filter(isFirst),
    pattern: PATTERNS.find((pattern) => pattern === words.get("pattern")) ?? null,
    onlyQuery: words.get("only_query") === "1",
    graph: oneOf(words.get("graph"), GRAPHS, standard.graph),
    words: [word("asks", standard.words[0]), word("asked", standard.words[1])],
    threshold: decimal(words.get("threshold"), ...RANGES.threshold) ?? standard.threshold,
    palette: oneOf(words.get("palette"), PALETTES, standard.palette),
    theme: oneOf(words.get("theme"), THEMES, standard.theme),
    backend: oneOf(words.get("device"), ["auto", "webgpu", "cpu"], standard.backend),
  };
}

export function samePlace(one: HeadPlace, other: HeadPlace): boolean {
  return one.layer === other.layer && one.head === other.head;
}

function place({ layer, head }: HeadPlace): string {
  return `${layer}.${head}`;
}

function placeOf(text: string): HeadPlace | null {
  const [layer, head, ...more] = text.split(".").map((part) => wholeNumber(part, 0, 1e6));
  return layer == null || head == null || more.length > 0 ? null : { layer, head };
}

function wholeNumber(text: string | null, least: number, most: number): number | null {
  return text !== null && /^\d{1,7}$/.test(text) ? within(Number(text), least, most) : null;
}

function decimal(text: string | null, least: number, most: number): number | null {
  return text !== null && /^\d{1,3}(\.\d{1,6})?$/.test(text) ? within(Number(text), least, most) : null;
}

function within(value: number, least: number, most: number): number | null {
  return value >= least && value <= most ? value : null;
}

export function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, value));
}

function oneOf<Word extends string>(text: string | null, words: readonly Word[], byDefault: Word): Word {
  return words.find((word) => word === text) ?? byDefault;
}
