// Fetches a file and says how far it has come.

import type { Progress } from "multihead";

/** The file's bytes, which are `total`; `report` counts them. */
export async function download(url: string, total: number, report: (progress: Progress) => void): Promise<Uint8Array> {
  const response = await fetch(url);
  if (!response.ok || !response.body)
    throw new Error(`${url} could not be loaded: the server answered ${response.status}`);
  const parts: Uint8Array[] = [];
  let done = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    done += part.value.length;
    report({ done, total });
  }
  const bytes = new Uint8Array(done);
  let place = 0;
  for (const part of parts) {
    bytes.set(part, place);
    place += part.length;
  }
  return bytes;
}
