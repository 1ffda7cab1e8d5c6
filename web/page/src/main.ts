// The page: one state, sections that draw it, an engine in a worker.

import { mountAlignment } from "./book/alignment";
import { mountCopyBoth } from "./book/copyBoth";
import { mountFree } from "./book/free";
import { mountQuestion } from "./book/question";
import { mountChrome } from "./chrome";
import { mountTake } from "./export/take";
import { mountCloseup } from "./heads/closeup";
import { mountDetails } from "./heads/details";
import { mountGrid } from "./heads/grid";
import { mountLines } from "./heads/lines";
import { mountMasks } from "./heads/masks";
import { mountPatterns } from "./heads/patterns";
import { mountSources } from "./heads/sources";
import { mountStrip } from "./heads/strip";
import { mountMachine } from "./machine/machine";
import { mountProof } from "./proof/proof";
import { App } from "./state/app";

const app = new App();
const sections = [
  mountChrome,
  mountSources,
  mountStrip,
  mountPatterns,
  mountGrid,
  mountMasks,
  mountCloseup,
  mountDetails,
  mountLines,
  mountTake,
  mountMachine,
  mountProof,
  mountCopyBoth,
  mountAlignment,
  mountFree,
];
for (const mount of sections) mount(app);
mountQuestion();
window.addEventListener("hashchange", () => void app.restore());
// Draws what an address asks for, before there is anything to compute on.
app.set({});
// Words are measured before they are drawn, in the font that they are drawn in.
void document.fonts.ready.then(() => app.set({}));
void app.start();
