// The buttons of what can be taken away.

import { byId } from "../dom";
import type { App } from "../state/app";
import { shown } from "../state/shown";
import { FILES, save } from "./files";

export function mountTake(app: App): void {
  const panel = byId("take", HTMLDetailsElement);
  const buttons = [...panel.querySelectorAll("button")];
  panel.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (button) void take(app, button.dataset["take"] ?? "");
  });
  app.subscribe((state) => {
    const ready = shown(state) !== null && !state.stale;
    for (const button of buttons) button.disabled = !ready && button.dataset["take"] !== "link";
  });
}

async function take(app: App, what: string): Promise<void> {
  try {
    if (what === "link") {
      await copyLink(app);
      return;
    }
    // What is locked, not what is under a pointer that moves on.
    const view = shown({ ...app.state, preview: null });
    const make = FILES[what];
    if (!view || !make) return;
    const taken = await make(app, view);
    // A layer's file takes a moment, in which another view may have come.
    save(taken);
    app.notify("link", { kind: "info", text: `Saved ${taken.name}.` });
  } catch (error) {
    app.fail("compute", error);
  }
}

/** Where the clipboard is out of reach, the link is shown. */
async function copyLink(app: App): Promise<void> {
  const file =
    app.state.view.source === "file" ? " It does not carry the file, which has to be opened again there." : "";
  try {
    await navigator.clipboard.writeText(location.href);
    app.notify("link", { kind: "info", text: `The link is on the clipboard; it restores this view.${file}` });
  } catch {
    app.notify("link", { kind: "info", text: `This link restores this view: ${location.href}${file}` });
  }
}
