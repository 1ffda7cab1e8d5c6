// An experiment runs when it first comes into view, and anew on every other device.

import { onceSeen } from "../dom";
import type { App } from "../state/app";

export interface Experiment {
  /** Runs it on the device that there is. */
  run(): void;
  /** Takes away what it showed: another device computed that. */
  forget(): void;
}

export function mountLive(app: App, watched: Element, { run, forget }: Experiment): void {
  let seen = false;
  onceSeen(watched, () => {
    seen = true;
    if (app.state.device) run();
  });
  app.subscribe((state, before) => {
    if (state.device === before.device) return;
    forget();
    if (state.device && seen) run();
  });
}
