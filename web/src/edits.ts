// Changes of metadata that are not saved yet, and how values are typed.

import type { Edits, EditValue, TypedValue, Value, ValueType } from "ggmill";

/** Changes, and who is told of them. */
export class Pending {
  readonly #set = new Map<string, TypedValue>();
  readonly #removed = new Set<string>();
  readonly #listeners: (() => void)[] = [];

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  get count(): number {
    return this.#set.size + this.#removed.size;
  }

  set(key: string, value: TypedValue): void {
    this.#removed.delete(key);
    this.#set.set(key, value);
    this.#changed();
  }

  remove(key: string, isNew: boolean): void {
    this.#set.delete(key);
    if (!isNew) this.#removed.add(key);
    this.#changed();
  }

  undo(key: string): void {
    this.#set.delete(key);
    this.#removed.delete(key);
    this.#changed();
  }

  clear(): void {
    this.#set.clear();
    this.#removed.clear();
    this.#changed();
  }

  value(key: string): TypedValue | undefined {
    return this.#set.get(key);
  }

  isRemoved(key: string): boolean {
    return this.#removed.has(key);
  }

  /** The keys that are set, in the order in which that was done. */
  keys(): string[] {
    return [...this.#set.keys()];
  }

  edits(): Edits {
    return { remove: [...this.#removed], set: Object.fromEntries(this.#set) };
  }

  /** The changes as a document that `ggmill edit --patch` reads: null removes a key. */
  patch(): string {
    const lines = [...this.#removed].map((key) => `  ${JSON.stringify(key)}: null`);
    for (const [key, { type, subType, value }] of this.#set) {
      lines.push(`  ${JSON.stringify(`${key}:${type === "array" ? `[${subType}]` : type}`)}: ${json(value, asText)}`);
    }
    return `{\n${lines.join(",\n")}\n}\n`;
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

/**
 * A value as JSON. Numbers that are not finite, which JSON does not have, are written as they are
 * displayed, or as `notFinite` says.
 */
function json(value: EditValue, notFinite: (number: number) => string = String): string {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value)) return notFinite(value);
  // JSON.stringify gives 0 for -0.
  if (typeof value === "number") return Object.is(value, -0) ? "-0.0" : String(value);
  if (typeof value === "object") return `[${Array.from(value as ArrayLike<EditValue>, (element) => json(element, notFinite)).join(", ")}]`;
  return JSON.stringify(value);
}

/** A number that is not finite as a patch has it. */
const asText = (number: number): string => JSON.stringify(String(number));

export const TYPES: readonly ValueType[] = ["string", "u32", "i32", "u64", "i64", "f32", "f64", "bool", "u8", "i8", "u16", "i16"];

/** A value as it is typed. `type` is that of the elements, if it is an array. */
export function written(value: Value, type?: ValueType): string {
  if (type === "f32") {
    if (typeof value === "number") return String(shortest(value));
    if (value instanceof Float32Array) return json(Float64Array.from(value, shortest));
  }
  return typeof value === "object" ? json(value as EditValue) : String(value);
}

/** The number of the fewest digits that is this one in single precision. */
function shortest(value: number): number {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** The value that a text is of a type. The package checks its range. */
export function parsed(text: string, type: ValueType, subType?: ValueType): TypedValue {
  if (type === "array") {
    if (subType === undefined || subType === "array") throw new Error("arrays of arrays cannot be edited here");
    const elements = elementsOf(text).map((element) => scalar(element, subType));
    return { type, subType, value: elements };
  }
  return { type, value: scalar(text, type) };
}

function elementsOf(text: string): string[] {
  // Numbers keep their digits, which JSON.parse would round.
  const elements: string[] = [];
  const inner = /^\s*\[([\s\S]*)\]\s*$/.exec(text)?.[1];
  if (inner === undefined) throw new Error("expected a list in brackets, such as [1, 2, 3]");
  const element = /\s*("(?:[^"\\]|\\.)*"|[^\s,"]+)\s*(,|$)/gy;
  while (element.lastIndex < inner.length && inner.slice(element.lastIndex).trim() !== "") {
    const at = element.lastIndex;
    const match = element.exec(inner);
    if (match?.[1] === undefined) throw new Error(`expected an element at ${JSON.stringify(inner.slice(at, at + 20))}`);
    elements.push(match[1].startsWith('"') ? (JSON.parse(match[1]) as string) : match[1]);
  }
  return elements;
}

function scalar(text: string, type: ValueType): string | number | bigint | boolean {
  if (type === "string") return text;
  const word = text.trim();
  if (type === "bool") {
    if (word === "true" || word === "false") return word === "true";
    throw new Error(`${JSON.stringify(word)}: expected true or false`);
  }
  if (type === "f32" || type === "f64") {
    const number = Number(word);
    if (word === "" || (Number.isNaN(number) && word !== "NaN")) throw new Error(`${JSON.stringify(word)}: expected a number`);
    return number;
  }
  if (!/^[+-]?\d+$/.test(word)) throw new Error(`${JSON.stringify(word)}: expected an integer`);
  const number = BigInt(word);
  const [bits, isSigned] = [BigInt(type.slice(1)), type.startsWith("i")];
  const [least, most] = isSigned ? [-(1n << (bits - 1n)), (1n << (bits - 1n)) - 1n] : [0n, (1n << bits) - 1n];
  if (number < least || number > most) throw new Error(`${word}: expected an integer from ${least} to ${most}`);
  return bits === 64n ? number : Number(number);
}
