// Fetches a file and says how far it has come.

import type { Progress } from "multihead";

/** The file's bytes. `report` counts bytes; its total is a guess where the server keeps the length to itself. */
export async function download(url: string, report: (progress: Progress) => void): Promise<Uint8Array> {
  const response = await fetch(url);
  if (!response.ok || !response.body) throw new Error(`${url} could not be loaded: the server answered ${response.status}`);
  const total = Number(response.headers.get("content-length"));
  const parts: Uint8Array[] = [];
  let done = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    done += part.value.length;
    report({ done, total: Math.max(done, total) });
  }
  const bytes = new Uint8Array(done);
  let place = 0;
  for (const part of parts) {
    bytes.set(part, place);
    place += part.length;
  }
  return bytes;
}
