// What queries and keys are called beside maps.

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
  const given = sheet.tokens[entry];
  const numbered = (letter: string, count: number): readonly string[] =>
    Array.from({ length: count }, (_, index) => `${letter}${index}`);
  const words = entries.get(entry) ?? {
    queries: given?.length ? given : numbered("q", sheet.numQueries),
    keys: given?.length && sheet.selfAttention ? given : numbered("k", sheet.numKeys),
  };
  entries.set(entry, words);
  return words;
}
