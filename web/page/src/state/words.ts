// What queries and keys are called beside maps.

import { unturned } from "../draw/format";
import type { Sheet } from "../engine/protocol";

interface Words {
  queries: readonly string[];
  keys: readonly string[];
}

const known = new WeakMap<Sheet, Map<number, Words>>();

/** The words beside the rows and below the columns of a batch entry's maps; the same lists each time. */
export function wordsOf(sheet: Sheet, entry: number): Words {
  const entries = known.get(sheet) ?? new Map<number, Words>();
  known.set(sheet, entries);
  const words = entries.get(entry) ?? named(sheet, entry);
  entries.set(entry, words);
  return words;
}

function named({ tokens, numQueries, numKeys, selfAttention }: Sheet, entry: number): Words {
  const given = (tokens[entry] ?? []).map(unturned);
  const numbered = (letter: string, count: number): readonly string[] =>
    Array.from({ length: count }, (_, index) => `${letter}${index}`);
  return {
    queries: given.length > 0 ? given : numbered("q", numQueries),
    keys: given.length > 0 && selfAttention ? given : numbered("k", numKeys),
  };
}
