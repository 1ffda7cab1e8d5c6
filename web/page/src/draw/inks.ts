// The colours of everything that is no weight.

export interface Inks {
  back: string;
  ink: string;
  muted: string;
  line: string;
  /** Of what is chosen: vermillion or orange, which stand out from viridis and cividis for every eye. */
  mark: string;
}

/** For files: black on white, whatever the page looks like. */
export const PAPER: Inks = { back: "#ffffff", ink: "#16191d", muted: "#555c66", line: "#c9ced4", mark: "#d55e00" };

/** As the page looks now. */
export function pageInks(): Inks {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    back: read("--back"),
    ink: read("--ink"),
    muted: read("--muted"),
    line: read("--line"),
    mark: read("--mark"),
  };
}
