// The WebAssembly modules: loading them, and calling them.

import { GgmillError } from "./error.js";
import { RecordReader } from "./value.js";

/** The operations, with the numbers in `crates/ggmill-wasm/src/operation.rs`. */
export const OPERATION = Object.freeze({
  begin: 0,
  feed: 1,
  finish: 2,
  join: 3,
  close: 4,
  facts: 5,
  entries: 6,
  value: 7,
  tensors: 8,
  faults: 9,
  types: 10,
  decode: 20,
  check: 21,
  estimate: 22,
  inspect: 23,
  name: 24,
  edit: 25,
  tokenize: 26,
  render: 27,
  detokenize: 28,
  meantKey: 29,
  concernsText: 30,
  vet: 31,
});

/** The default URLs of the modules. Bundlers recognize these expressions. */
const places = {
  reader: () => new URL("../wasm/reader.wasm", import.meta.url),
  core: () => new URL("../wasm/core.wasm", import.meta.url),
  text: () => new URL("../wasm/text.wasm", import.meta.url),
  estimate: () => new URL("../wasm/estimate.wasm", import.meta.url),
};
const loaded = new Map();

/** Sets the modules. */
export function setWasm(modules) {
  for (const name of Object.keys(places)) {
    if (modules[name] === undefined) continue;
    places[name] = () => modules[name];
    loaded.delete(name);
  }
}

/** Returns a module, by its name in `places`. The first call loads it. */
export function load(name) {
  let module = loaded.get(name);
  if (module === undefined) {
    module = instantiate(places[name]());
    loaded.set(name, module);
    // Failures are not cached: the next call tries again.
    module.catch(() => loaded.delete(name));
  }
  return module;
}

async function instantiate(place) {
  const given = await place;
  const module = given instanceof WebAssembly.Module ? given : await WebAssembly.compile(await bytesOf(given));
  return new Module(await WebAssembly.instantiate(module, {}));
}

async function bytesOf(given) {
  if (given instanceof ArrayBuffer || ArrayBuffer.isView(given)) return given;
  if (typeof Response !== "undefined" && given instanceof Response) return given.arrayBuffer();
  const url = new URL(given, import.meta.url);
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) {
    throw new GgmillError("io", `${url}: status ${response.status}, expected the WebAssembly module`, {
      status: response.status,
    });
  }
  return response.arrayBuffer();
}

/** An instance of a module. */
class Module {
  #exports;

  constructor(instance) {
    this.#exports = instance.exports;
  }

  /** Runs an operation, and copies its result. */
  call(operation, file = 0, argument = 0n, input = undefined) {
    const { memory, input: room, call, output, output_len: outputLength } = this.#exports;
    if (input !== undefined) {
      const place = room(input.length) >>> 0;
      if (place === 0) {
        throw new GgmillError("limit", `memory is short of ${input.length} bytes`);
      }
      new Uint8Array(memory.buffer, place, input.length).set(input);
    }
    const failed = call(operation, file, argument);
    const start = output() >>> 0;
    const record = new Uint8Array(memory.buffer).slice(start, start + (outputLength() >>> 0));
    if (failed !== 0) throw readError(new RecordReader(record));
    return record;
  }
}

/** Reads an error, or a fault of a file, from its record. */
export function readError(record) {
  const [kind, message] = [record.text(), record.text()];
  const offset = record.u64();
  const subject = record.u8();
  const name = record.text();
  return new GgmillError(kind, message, {
    offset: offset === 0xffffffffffffffffn ? undefined : Number(offset),
    key: subject === 1 ? name : undefined,
    tensor: subject === 2 ? name : undefined,
  });
}
