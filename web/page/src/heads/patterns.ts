// Buttons that let heads of one pattern stand out, each with how many there are.

import { byId, element, say } from "../dom";
import type { App } from "../state/app";
import { PATTERNS } from "../state/view";

export function mountPatterns(app: App): void {
  const place = byId("patterns", HTMLElement);
  const buttons = PATTERNS.map((pattern) => {
    const button = element("button", { type: "button", "data-pattern": pattern, "aria-pressed": "false" }, pattern);
    button.addEventListener("click", () =>
      app.setView({ pattern: app.state.view.pattern === pattern ? null : pattern }),
    );
    return button;
  });
  place.append(...buttons);
  app.subscribe(({ answers, view }) => {
    buttons.forEach((button, index) => {
      const pattern = PATTERNS[index];
      const count = answers
        .flatMap((answer) => answer?.statistics ?? [])
        .filter((head) => head.pattern === pattern).length;
      say(button, `${pattern} ${count}`);
      button.ariaPressed = String(view.pattern === pattern);
    });
  });
}
