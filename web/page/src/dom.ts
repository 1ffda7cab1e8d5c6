// A few words for making and finding elements.

/** The element of the page with this id. */
export function byId<Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page should have a ${kind.name} named ${id}`);
  return found;
}

type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** A new element. Attributes that are null or false are left out; children that are text never become markup. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  assign(made, attributes);
  made.append(...children);
  return made;
}

/** A new element of a drawing. */
export function drawing<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): SVGElementTagNameMap[Tag] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  assign(made, attributes);
  made.append(...children);
  return made;
}

function assign(target: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    target.setAttribute(name, value === true ? "" : String(value));
  }
}

/** A bar of a share of its box, from 0 to 1. */
export function bar(share: number): HTMLElement {
  const inner = element("i");
  inner.style.width = `${Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0)) * 100}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, inner);
}

/** A term and what is said of it. */
export function fact(term: string, ...description: (Node | string)[]): Node[] {
  return [element("dt", {}, term), element("dd", {}, ...description)];
}

/** A word from outside, whose direction of writing turns nothing around it. */
export function isolated(word: string): HTMLElement {
  return element("bdi", {}, word);
}

/** Changes the text only where it is another one, so that a screen reader is told once. */
export function say(place: HTMLElement, ...parts: (HTMLElement | string)[]): void {
  const text = parts.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
  if (place.textContent !== text) place.replaceChildren(...parts);
}

/** Calls back with the element's width, now and whenever it changes. */
export function onWidth(watched: HTMLElement, callback: (width: number) => void): void {
  let last = 0;
  const tell = () => {
    const width = Math.floor(watched.clientWidth);
    if (width > 0 && width !== last) callback((last = width));
  };
  new ResizeObserver(tell).observe(watched);
}

/** Calls back once, when the element first comes into view. */
export function onceSeen(watched: Element, callback: () => void): void {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      callback();
    },
    { rootMargin: "200px" },
  );
  observer.observe(watched);
}
