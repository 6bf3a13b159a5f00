// What is shown for numbers, and for text from files.

const whole = new Intl.NumberFormat("en-US");

export const count = (value: number | bigint): string => whole.format(value);

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** A number of bytes. */
export function size(bytes: number): string {
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${count(bytes)} bytes` : `${value.toFixed(value < 10 ? 2 : 1)} ${UNITS[unit]}`;
}

/** A number in thousands, millions and so on. */
export function short(value: number): string {
  const steps: [number, string][] = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
  for (const [step, name] of steps) if (value >= step) return `${(value / step).toFixed(value < 10 * step ? 2 : 1)}${name}`;
  return String(value);
}

/** A number with a fraction. */
export const real = (value: number): string => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6))));

// Control characters, and those that hide or reorder text.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const NAMED: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A text on one line, with names for characters that cannot be seen. */
export function visible(text: string): string {
  return text.replace(UNSEEN, escaped);
}

/** A text with its lines, with names for other characters that cannot be seen. */
export function visibleLines(text: string): string {
  return text.replace(UNSEEN, (found) => (found === "\n" || found === "\t" ? found : escaped(found)));
}

function escaped(found: string): string {
  return NAMED[found] ?? `\\u{${found.codePointAt(0)?.toString(16) ?? ""}}`;
}

/** The beginning of a text. */
export function beginning(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}
