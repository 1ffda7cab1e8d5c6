// Letters find their partners: the alignment of two words that the visitor types.

import type { AlignmentReport } from "multihead";
import { byId, onWidth, say } from "../dom";
import type { Figure } from "../draw/figure";
import { type Inks, pageInks, PAPER } from "../draw/inks";
import type { HeadMap } from "../draw/map";
import { mapFigure } from "../draw/mapFigure";
import { paintOnPage } from "../draw/paint";
import { picture, save } from "../export/files";
import type { App } from "../state/app";
import { mountLive } from "./live";

/** Points of the map at most. */
const WIDEST = 480;

/** Milliseconds without a key stroke, after which the words are aligned. */
const PAUSE = 300;

export function mountAlignment(app: App): void {
  const form = byId("alignment-form", HTMLFormElement);
  const [asks, asked] = [byId("alignment-query", HTMLInputElement), byId("alignment-key", HTMLInputElement)];
  const canvas = byId("alignment-map", HTMLCanvasElement);
  const said = byId("alignment-said", HTMLElement);
  const taking = byId("alignment-take", HTMLElement);
  let report: AlignmentReport | null = null;
  let width = 0;
  let timer = 0;
  const draw = () => {
    canvas.hidden = !report;
    for (const button of taking.querySelectorAll("button")) button.disabled = !report;
    if (!report || width === 0) return;
    const figure = figureOf(app, report, { width: Math.min(width, WIDEST), inks: pageInks() });
    paintOnPage(figure, canvas);
    canvas.ariaLabel = `Alignment. ${figure.description}`;
  };
  const show = (now: AlignmentReport | null) => {
    report = now;
    say(said, now ? sentence(now) : "");
    draw();
  };
  const align = async () => {
    const words: [string, string] = [asks.value.trim(), asked.value.trim()];
    app.setView({ words });
    if (words.includes("")) {
      show(null);
      say(said, "Both words need a letter.");
      return;
    }
    try {
      const answer = await app.engine.call("alignment", words);
      // Another word may have been typed meanwhile.
      if (app.state.view.words !== words) return;
      show(answer);
    } catch (error) {
      show(null);
      say(said, error instanceof Error ? error.message : String(error));
    }
  };
  taking.addEventListener("click", (event) => {
    const ending = event.target instanceof HTMLButtonElement ? event.target.dataset["ending"] : undefined;
    if (report && ending) take(app, report, ending).catch((error: unknown) => app.fail("compute", error));
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void align();
  });
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void align(), PAUSE);
  });
  onWidth(canvas.parentElement ?? canvas, (now) => {
    width = now;
    draw();
  });
  app.subscribe((state) => {
    if (document.activeElement !== asks) asks.value = state.view.words[0];
    if (document.activeElement !== asked) asked.value = state.view.words[1];
    draw();
  });
  mountLive(app, form, { run: () => void align(), forget: () => show(null) });
}

function figureOf(app: App, report: AlignmentReport, options: { width: number; inks: Inks; title?: string }): Figure {
  const [, , rows = 0, columns = 0] = report.weights.shape;
  const queries = report.letters.map(({ letter }) => letter);
  const map: HeadMap = { layer: 0, head: 0, weights: report.weights.data, rows, columns, queries, keys: report.keys };
  const axes = { rows: "asks", columns: "is asked" };
  return mapFigure(map, { ...options, palette: app.state.view.palette, axes }).figure;
}

/** The map as a file, in the colours of paper. */
async function take(app: App, report: AlignmentReport, ending: string): Promise<void> {
  const title = `${report.letters.map(({ letter }) => letter).join("")} asks ${report.keys.join("")}`;
  const taken = await picture(figureOf(app, report, { width: WIDEST, inks: PAPER, title }), `alignment.${ending}`);
  save(taken);
  app.notify("link", { kind: "info", text: `Saved ${taken.name}.` });
}

function sentence({ letters, device }: AlignmentReport): string {
  const of = (regime: string) => [
    ...new Set(letters.filter((letter) => letter.regime === regime).map(({ letter }) => letter)),
  ];
  const list = (letters: string[]) => letters.join(", ");
  const parts = [
    of("sharp").length > 0 ? `${list(of("sharp"))}: one partner, nearly all attention` : "",
    of("split").length > 0 ? `${list(of("split"))}: several copies share alike` : "",
    of("diffuse").length > 0 ? `${list(of("diffuse"))}: no partner, spread over everything` : "",
  ].filter(Boolean);
  const holds = letters.filter(({ holds }) => holds).length;
  return `${parts.join(". ")}. ${holds} of ${letters.length} letters behave so, on ${device}.`;
}
