// Letters find their partners: the alignment of two words that the visitor types.

import type { AlignmentReport } from "multihead";
import { byId, onWidth, say } from "../dom";
import { pageInks } from "../draw/inks";
import type { HeadMap } from "../draw/map";
import { mapFigure, summary } from "../draw/mapFigure";
import { paintOnPage } from "../draw/paint";
import type { App } from "../state/app";
import { mountLive } from "./live";

/** Milliseconds without a key stroke, after which the words are aligned. */
const PAUSE = 300;

export function mountAlignment(app: App): void {
  const form = byId("alignment-form", HTMLFormElement);
  const [asks, asked] = [byId("alignment-query", HTMLInputElement), byId("alignment-key", HTMLInputElement)];
  const canvas = byId("alignment-map", HTMLCanvasElement);
  const said = byId("alignment-said", HTMLElement);
  let report: AlignmentReport | null = null;
  let width = 0;
  let timer = 0;
  const draw = () => {
    canvas.hidden = !report;
    if (report && width > 0) drawMap(app, report, canvas, width);
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

function drawMap(app: App, report: AlignmentReport, canvas: HTMLCanvasElement, width: number): void {
  const [, , rows = 0, columns = 0] = report.weights.shape;
  const queries = report.letters.map(({ letter }) => letter);
  const map: HeadMap = { layer: 0, head: 0, weights: report.weights.data, rows, columns, queries, keys: report.keys };
  const { palette } = app.state.view;
  const axes = { rows: "asks", columns: "is asked" };
  const { figure } = mapFigure(map, { width: Math.min(width, 480), palette, inks: pageInks(), axes });
  paintOnPage(figure, canvas);
  canvas.ariaLabel = `Alignment. ${summary(map)}`;
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
