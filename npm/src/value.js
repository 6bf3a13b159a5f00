// Metadata values, and the records that are exchanged with the WebAssembly module.

import { GgmillError } from "./error.js";

/** The types of metadata values, indexed by their numbers. */
export const VALUE_TYPES = Object.freeze([
  "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64",
]);

const STRING = 8;
const ARRAY = 9;
const BOOL = 7;
/** How values of each fixed-size type are read and written, and the class of their arrays. */
const FIXED = {
  0: ["Uint8", 1, Uint8Array],
  1: ["Int8", 1, Int8Array],
  2: ["Uint16", 2, Uint16Array],
  3: ["Int16", 2, Int16Array],
  4: ["Uint32", 4, Uint32Array],
  5: ["Int32", 4, Int32Array],
  6: ["Float32", 4, Float32Array],
  10: ["BigUint64", 8, BigUint64Array],
  11: ["BigInt64", 8, BigInt64Array],
  12: ["Float64", 8, Float64Array],
};
/** The minimum and maximum of each integer type. */
const RANGES = {
  0: [0, 0xff],
  1: [-0x80, 0x7f],
  2: [0, 0xffff],
  3: [-0x8000, 0x7fff],
  4: [0, 0xffffffff],
  5: [-0x80000000, 0x7fffffff],
  10: [0n, 0xffffffffffffffffn],
  11: [-0x8000000000000000n, 0x7fffffffffffffffn],
};
/** Represents a missing number. */
export const NONE = 0xffffffffffffffffn;

const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/** Reads a record of the module. */
export class RecordReader {
  constructor(bytes, text = decoder) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.position = 0;
    this.decoder = text;
  }

  u8() {
    return this.bytes[this.position++];
  }

  u32() {
    const value = this.view.getUint32(this.position, true);
    this.position += 4;
    return value;
  }

  u64() {
    const value = this.view.getBigUint64(this.position, true);
    this.position += 8;
    return value;
  }

  text() {
    return this.#text(this.u32());
  }

  rest() {
    return this.bytes.subarray(this.position);
  }

  #text(length) {
    const start = this.position;
    const end = (this.position += length);
    // Most texts are tokens: short and ASCII.
    if (length < 12) {
      let text = "";
      for (let at = start; at < end; at++) {
        const byte = this.bytes[at];
        if (byte >= 0x80) return this.decoder.decode(this.bytes.subarray(start, end));
        text += String.fromCharCode(byte);
      }
      return text;
    }
    return this.decoder.decode(this.bytes.subarray(start, end));
  }

  /** Reads a metadata value in the encoding of little-endian GGUF version 3. */
  value(type) {
    if (type === STRING) return this.#text(Number(this.u64()));
    if (type === BOOL) return this.u8() !== 0;
    if (type === ARRAY) return this.#array(this.u32(), Number(this.u64()));
    const [name, size] = FIXED[type];
    const value = this.view[`get${name}`](this.position, true);
    this.position += size;
    return value;
  }

  #array(type, length) {
    const fixed = FIXED[type];
    if (fixed !== undefined) {
      const [name, size, Elements] = fixed;
      const start = this.position;
      this.position += length * size;
      if (isLittleEndian) return new Elements(this.bytes.slice(start, this.position).buffer);
      return Elements.from({ length }, (_, at) => this.view[`get${name}`](start + at * size, true));
    }
    const elements = new Array(length);
    for (let at = 0; at < length; at++) elements[at] = this.value(type);
    return elements;
  }
}

/** A growing buffer for a record of the module, or for the metadata of a file. */
export class RecordWriter {
  constructor(littleEndian = true, version = 3) {
    this.littleEndian = littleEndian;
    this.wide = version !== 1;
    this.length = 0;
    this.bytes = new Uint8Array(256);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Reserves bytes, and returns their offset. */
  #room(size) {
    const start = this.length;
    this.length += size;
    if (this.length > this.bytes.length) {
      const larger = new Uint8Array(Math.max(this.length, 2 * this.bytes.length));
      larger.set(this.bytes.subarray(0, start));
      this.bytes = larger;
      this.view = new DataView(larger.buffer);
    }
    return start;
  }

  raw(bytes) {
    const start = this.#room(bytes.length);
    this.bytes.set(bytes, start);
    return this;
  }

  u32(value) {
    const start = this.#room(4);
    this.view.setUint32(start, value, this.littleEndian);
    return this;
  }

  u64(value) {
    const start = this.#room(8);
    this.view.setBigUint64(start, BigInt(value), this.littleEndian);
    return this;
  }

  /** Writes a length in the encoding of the version of the file. */
  size(value) {
    return this.wide ? this.u64(value) : this.u32(Number(value));
  }

  /** Writes a text of a record. */
  text(text) {
    const bytes = encoder.encode(text);
    return this.u32(bytes.length).raw(bytes);
  }

  /** Writes a string of a file. */
  string(text) {
    const bytes = encoder.encode(text);
    return this.size(bytes.length).raw(bytes);
  }

  /** Writes a metadata value. `subType` is the type of the elements of an array. */
  value(value, type, subType) {
    if (type === STRING) return this.string(value);
    if (type === ARRAY) {
      this.u32(subType).size(value.length);
      for (const element of value) this.value(element, subType);
      return this;
    }
    if (type === BOOL) {
      const at = this.#room(1);
      this.bytes[at] = value ? 1 : 0;
      return this;
    }
    const [name, size] = FIXED[type];
    const start = this.#room(size);
    this.view[`set${name}`](start, value, this.littleEndian);
    return this;
  }

  finish() {
    return this.bytes.subarray(0, this.length);
  }
}

/** Returns the number of a type by its name. */
export function typeNumber(name, key) {
  const number = VALUE_TYPES.indexOf(name);
  if (number >= 0) return number;
  const expected = VALUE_TYPES.join(", ");
  throw new GgmillError("misuse", `key ${key}: type ${name}, expected one of ${expected}`, { key });
}

/** Checks a value for a type; converts it to a bigint for 64-bit types. */
export function fitted(value, type, subType, key) {
  const refuse = (expected) => {
    const shown = typeof value === "bigint" ? `${value}n` : String(JSON.stringify(value)).slice(0, 80);
    throw new GgmillError("wrong_type", `key ${key}: found ${shown}, expected ${expected}`, { key });
  };
  if (type === STRING) return typeof value === "string" ? value : refuse("a string");
  if (type === BOOL) return typeof value === "boolean" ? value : refuse("a boolean");
  if (type === ARRAY) {
    const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
    if (!isList) return refuse("an array");
    if (subType === undefined) return refuse("an array with the type of its elements");
    if (subType === ARRAY) return refuse("an array of numbers, booleans or strings");
    return Array.from(value, (element) => fitted(element, subType, undefined, key));
  }
  const range = RANGES[type];
  if (range === undefined) return typeof value === "number" ? value : refuse("a number");
  const isWhole = typeof value === "bigint" || Number.isSafeInteger(value);
  if (!isWhole || value < range[0] || value > range[1]) {
    return refuse(`an integer from ${range[0]} to ${range[1]}`);
  }
  return typeof range[0] === "bigint" ? BigInt(value) : Number(value);
}
