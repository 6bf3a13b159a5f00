// The worker: opens models with the package and computes what the page shows.

import { open, type Model, type Reader, type Source, type Value } from "ggmill";
import { compare } from "./compare.js";
import type { Answer, Api, ArrayRow, Call, Entry, Given, Listing, Rows, Slot } from "./protocol.js";
import { weights } from "./weights.js";

/** Arrays up to this length are sent with the listing. */
const SHORT_ARRAY = 64;
const TOKENS = "tokenizer.ggml.tokens";

/** A model that is open. */
interface Opened {
  model: Model;
  /** Long arrays that were asked for, and the last search in one. */
  arrays: Map<string, Value>;
  search?: { key: string; query: string; found: Uint32Array };
  stop: AbortController;
}

const slots = new Map<Slot, Opened>();
const starting = new Map<Slot, AbortController>();

function opened(slot: Slot): Opened {
  const found = slots.get(slot);
  if (found === undefined) throw new Error("no file is open");
  return found;
}

/** Counts what is read. */
class Counter {
  reads = 0;
  bytes = 0;

  of(file: File): Reader {
    return {
      size: file.size,
      name: file.name,
      read: async (offset, length) => {
        const bytes = new Uint8Array(await this.#slice(file, offset, length));
        this.reads += 1;
        this.bytes += bytes.length;
        return bytes;
      },
    };
  }

  async #slice(file: File, offset: number, length: number): Promise<ArrayBuffer> {
    try {
      return await file.slice(offset, offset + length).arrayBuffer();
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`${file.name}: bytes from ${offset} cannot be read: ${why}`);
    }
  }

  fetch: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    this.reads += 1;
    this.bytes += Number(response.headers.get("content-length") ?? 0);
    return response;
  };
}

const api: { [Name in keyof Api]: (...args: Parameters<Api[Name]>) => Promise<ReturnType<Api[Name]>> | ReturnType<Api[Name]> } = {
  async open(slot, given) {
    starting.get(slot)?.abort(new Error("another file was opened"));
    const stop = new AbortController();
    starting.set(slot, stop);
    const begin = performance.now();
    const counter = new Counter();
    const model = await openModel(given, counter, stop.signal);
    stop.signal.throwIfAborted();
    const listing = list(model, given, counter, begin);
    slots.get(slot)?.stop.abort();
    slots.get(slot)?.model.close();
    slots.set(slot, { model, arrays: new Map(), stop });
    return listing;
  },
  summary: (slot) => opened(slot).model.summary(),
  check: (slot) => opened(slot).model.check(),
  estimate: (slot, options) => opened(slot).model.estimate(options),
  value: (slot, key) => array(opened(slot), key),
  rows: (slot, key, query, from, to) => rows(opened(slot), key, query, from, to),
  async weights(slot, at) {
    const tensor = opened(slot).model.tensors[at];
    if (tensor === undefined) throw new Error(`there is no tensor ${at}`);
    return weights(tensor);
  },
  async edit(slot, edits) {
    const { header, replaces } = await opened(slot).model.edit(edits);
    return { header: new Uint8Array(header), replaces };
  },
  meantKey: (slot, key) => opened(slot).model.meantKey(key),
  tokenize: (slot, text, options) => opened(slot).model.tokenize(text, options),
  render: (slot, conversation) => opened(slot).model.renderTemplate(conversation),
  compare: () => compare(opened("model").model, opened("other").model),
};

function openModel(given: Given, counter: Counter, signal: AbortSignal): Promise<Model> {
  const options = { damaged: true, signal, fetch: counter.fetch };
  if (typeof given === "string") return open(given, options);
  const sources: Source[] = [...given]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((file) => counter.of(file));
  const [first] = sources;
  if (first === undefined) throw new Error("no file was chosen");
  return open(sources.length === 1 ? first : sources, options);
}

function list(model: Model, given: Given, counter: Counter, begin: number): Listing {
  const tensors = model.tensors.map(({ name, type, shape, elements, size, offset, shard }) => ({
    name, type, shape, elements, size, offset, shard,
  }));
  const { version, endian, alignment, headerLength, dataOffset, size, shards } = model;
  return {
    name: name(shards[0]?.name, given),
    size, version, endian, alignment, headerLength, dataOffset,
    shards: shards.length,
    parameters: model.parameters,
    entries: entries(model),
    tensors,
    faults: model.faults.map(({ message }) => message),
    reads: counter.reads,
    bytesRead: counter.bytes,
    milliseconds: performance.now() - begin,
  };
}

/** The name of a file. That of an address is a part of it, with characters by their codes. */
function name(found: string | undefined, given: Given): string {
  if (found === undefined) return typeof given === "string" ? given : "model";
  if (typeof given !== "string") return found;
  try {
    return decodeURIComponent(found);
  } catch {
    return found;
  }
}

function entries({ metadata }: Model): Entry[] {
  const keys = metadata.keys();
  if (new Set(keys).size === keys.length) {
    return keys.map((key) => {
      const type = metadata.type(key) ?? { type: "string" as const };
      if ((type.length ?? 0) > SHORT_ARRAY) return { key, ...type };
      return { key, ...type, value: metadata.get(key) ?? "" };
    });
  }
  // Of duplicate keys each has its value.
  return [...metadata.entries()].map(([key, value]) => {
    const type = metadata.type(key) ?? { type: "string" as const };
    const isLong = typeof value === "object" && value.length > SHORT_ARRAY;
    return isLong ? { key, ...type } : { key, ...type, value };
  });
}

/** The value of a key, which is kept. */
function array(of: Opened, key: string): Value | undefined {
  let value = of.arrays.get(key);
  if (value === undefined) {
    value = of.model.metadata.get(key);
    if (value !== undefined) of.arrays.set(key, value);
  }
  return value;
}

function rows(of: Opened, key: string, query: string, from: number, to: number): Rows {
  const values = array(of, key);
  if (typeof values !== "object") throw new Error(`key ${key}: expected an array`);
  const shown = ofToken(of, key);
  if (query === "") {
    const end = Math.min(to, values.length);
    const found = Array.from({ length: Math.max(0, end - from) }, (_, at) => row(values, from + at, shown));
    return { total: values.length, rows: found };
  }
  if (of.search?.key !== key || of.search.query !== query) of.search = { key, query, found: search(values, query) };
  const { found } = of.search;
  return { total: found.length, rows: [...found.subarray(from, to)].map((index) => row(values, index, shown)) };
}

type Elements = Exclude<Value, string | number | bigint | boolean>;

function row(values: Elements, index: number, more: (index: number) => Partial<ArrayRow>): ArrayRow {
  return { index, value: shownElement(values[index]), ...more(index) };
}

function shownElement(value: unknown): string {
  if (typeof value === "object" && value !== null && "length" in value) return `array of ${String(value.length)}`;
  return String(value);
}

/** What belongs to a token beside its text. */
function ofToken(of: Opened, key: string): (index: number) => Partial<ArrayRow> {
  if (key !== TOKENS) return () => ({});
  const types = array(of, "tokenizer.ggml.token_type");
  const scores = array(of, "tokenizer.ggml.scores");
  return (index) => {
    const type = typeof types === "object" ? Number(types[index]) : undefined;
    const score = typeof scores === "object" ? Number(scores[index]) : undefined;
    return { ...(type !== undefined && { type }), ...(score !== undefined && { score }) };
  };
}

/** The elements that contain a text. A number is also the place of an element, which comes first. */
function search(values: Elements, query: string): Uint32Array {
  const found: number[] = [];
  const place = /^#?(\d+)$/.exec(query.trim())?.[1];
  const direct = place === undefined ? -1 : Number(place);
  if (direct >= 0 && direct < values.length) found.push(direct);
  const wanted = plain(query);
  for (let at = 0; at < values.length; at++) {
    if (at !== direct && plain(shownElement(values[at])).includes(wanted)) found.push(at);
  }
  return Uint32Array.from(found);
}

/** A text without differences of case; tokens have letters of their own for a space. */
function plain(text: string): string {
  return text.replace(/[\u0120\u2581]/g, " ").toLowerCase();
}

self.addEventListener("message", async ({ data }: MessageEvent<Call>) => {
  const { id, name, args } = data;
  let answer: Answer;
  try {
    const work = api[name] as (...args: unknown[]) => unknown;
    answer = { id, result: await work(...args) };
  } catch (error) {
    answer = { id, error: { message: error instanceof Error ? error.message : String(error) } };
  }
  self.postMessage(answer);
});
