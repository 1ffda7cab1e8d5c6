// The question at the end: four answers, each explained once it is picked.

import { byId, element, say } from "../dom";

interface Option {
  answer: string;
  right: boolean;
  because: string;
}

const OPTIONS: readonly Option[] = [
  {
    answer: "Several heads hold more parameters than one large one.",
    right: false,
    because:
      "The width is cut into h parts of d/h, so that the projections stay what they were: 4d² parameters for " +
      "every h. The table of the card “Heads are free. Are they?” counts them.",
  },
  {
    answer:
      "Each head has a softmax of its own, so that one query can look at several places at once and keep them apart.",
    right: true,
    because:
      "A head hands on one weighted mean; what it has averaged cannot be taken apart again. Several heads hand " +
      "on several means, over other tokens and in other subspaces, and W_o may use each of them. One head averages, " +
      "two heads tell: that is the first card.",
  },
  {
    answer: "Several narrow heads need fewer multiplications than one wide one.",
    right: false,
    because:
      "h heads of width d/h cost exactly the products of one head of width d: 8nd² + 4n²d. Exponentials even " +
      "grow, by h·n², because each head has its softmax.",
  },
  {
    answer: "A GPU can work on several heads in parallel, on one large head it cannot.",
    right: false,
    because:
      "One large head is one large matrix product, which keeps a GPU as busy as several small products do. Several " +
      "heads run at once because they are moved into the batch; that makes them cheap, but it is not why there are " +
      "several.",
  },
];

export function mountQuestion(): void {
  const place = byId("options", HTMLElement);
  const explanation = byId("explanation", HTMLElement);
  const buttons = OPTIONS.map(({ answer, right, because }) => {
    const button = element("button", { type: "button", "aria-pressed": "false" }, answer);
    button.addEventListener("click", () => {
      for (const other of buttons) other.ariaPressed = String(other === button);
      button.dataset["right"] = String(right);
      // Colour alone would tell only those who see it.
      say(explanation, `${right ? "Right" : "Not so"}: ${because}`);
    });
    return button;
  });
  place.append(...buttons);
}
