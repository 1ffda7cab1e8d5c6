// Numbers as words.

import { format } from "d3-format";

const percent = format(".0%");
const percentFine = format(".1%");
const small = format(".1e");
const three = format(".3");
const grouped = format(",");

/** "61 %", which no line breaks apart; one decimal below 10 %. */
export function share(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  return (value < 0.0995 && value > 0 ? percentFine : percent)(value).replace("%", "\u00a0%");
}

/** "6.6e-7", and "0" for nothing at all. */
export function error(value: number): string {
  return Number.isNaN(value) ? "NaN" : value === 0 ? "0" : small(value).replace("−", "-");
}

/** Two decimals. */
export function decimal(value: number): string {
  return Number.isFinite(value) ? value.toFixed(2) : "–";
}

/** "12.3 ms", "1.25 s". */
export function milliseconds(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return value >= 1000 ? `${three(value / 1000)} s` : `${value < 10 ? value.toFixed(2) : value.toFixed(1)} ms`;
}

/** "38,535,168". */
export function count(value: number): string {
  return Number.isFinite(value) ? grouped(value) : "–";
}

/** "1 key", "2 keys", "1 query", "2 queries". */
export function several(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** "18.9 M", "2.0 G", "544 ": what is counted follows at once. */
export function large(value: number): string {
  const steps: [number, string][] = [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  const step = steps.find(([size]) => value >= size);
  return step ? `${three(value / step[0])} ${step[1]}` : `${value} `;
}

/** "(2, 16, 384)". */
export function shape(axes: readonly number[]): string {
  return `(${axes.join(", ")})`;
}

/** A word from outside, without the characters that turn the order of whatever stands beside it. */
export function unturned(word: string): string {
  return word.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** With a capital letter. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
