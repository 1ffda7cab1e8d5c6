// What frames the page: notices, theme, the device's name and the badge.

import { byId, element, say } from "./dom";
import * as words from "./draw/format";
import type { App, NoticeName, State } from "./state/app";
import { THEMES } from "./state/view";
import { judge, type Verdict } from "./proof/judge";

export function mountChrome(app: App): void {
  mountNotices(app);
  mountTheme(app);
  mountLinks();
  mountPopovers();
  const chip = byId("device-chip", HTMLElement);
  const badge = byId("badge", HTMLElement);
  app.subscribe((state) => {
    say(chip, chipText(state));
    chip.title = state.device?.warning ?? "";
    const verdict = judge(state.answers);
    const sound = verdict?.ok && verdict.expected && verdict.nans === 0;
    badge.dataset["state"] = state.stale || !verdict ? "waiting" : sound ? "good" : "bad";
    say(badge, state.stale ? "computing…" : verdict ? told(verdict) : "no numbers yet");
  });
}

function told({ ok, expected, nans, maxError }: Verdict): string {
  if (!ok) return "not as computed on the CPU";
  if (!expected) return "not what the file expects";
  // Nothing is proved of a NaN but that the CPU comes to no number either.
  return nans > 0 ? `${words.count(nans)} NaN` : `proved to ${words.error(maxError)}`;
}

function chipText({ device, notices }: State): string {
  if (!device) return notices.device ? "no device" : "looking for a GPU…";
  if (device.backend === "cpu") return "CPU, no GPU";
  return `${device.name}${device.software ? " (software)" : ""}`;
}

function mountNotices(app: App): void {
  const place = byId("notices", HTMLElement);
  app.subscribe((state, before) => {
    if (state.notices === before.notices) return;
    place.replaceChildren(
      ...Object.entries(state.notices).map(([name, { kind, text }]) => {
        const close = element("button", { type: "button", "aria-label": "Close" }, "✕");
        close.addEventListener("click", () => app.notify(name as NoticeName, null));
        return element(
          "div",
          { class: "notice", "data-kind": kind, "data-name": name },
          element("span", {}, text),
          close,
        );
      }),
    );
  });
}

function mountTheme(app: App): void {
  const select = byId("theme", HTMLSelectElement);
  select.addEventListener("change", () =>
    app.setView({ theme: THEMES.find((theme) => theme === select.value) ?? "auto" }),
  );
  // Canvases are painted with the theme's colours, so that they have to be painted again.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.set({}));
  app.subscribe((state, before) => {
    select.value = state.view.theme;
    if (document.documentElement.dataset["theme"] === state.view.theme) return;
    document.documentElement.dataset["theme"] = state.view.theme;
    if (state.view.theme !== before.view.theme) app.set({});
  });
}

/** Links within the page must not take the place of the view in the address. */
function mountLinks(): void {
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>('a[href^="#"]') : null;
    const target = link && document.getElementById(link.hash.slice(1));
    if (!target) return;
    event.preventDefault();
    target.scrollIntoView();
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
  });
}

/** A panel closes with Escape, and with a click beside it. */
function mountPopovers(): void {
  const open = () => document.querySelectorAll<HTMLDetailsElement>("details.popover[open]");
  document.addEventListener("pointerdown", (event) => {
    for (const panel of open()) panel.open = event.target instanceof Node && panel.contains(event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const panel of open()) {
      panel.open = false;
      panel.querySelector("summary")?.focus();
    }
  });
}
