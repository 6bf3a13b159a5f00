// An open model: metadata, tensors, and operations on them.

import { joinReports } from "./check.js";
import { GgmillError } from "./error.js";
import { OPERATION, load, readError } from "./module.js";
import { readRange } from "./source.js";
import { NONE, RecordReader, RecordWriter, VALUE_TYPES, fitted, typeNumber } from "./value.js";

const ARRAY = 9;
/** The maximum size of blocks that are decoded at once, in bytes. */
const PIECE = 4 * 1024 * 1024;

/** Frees the memory of a model in a module when the model is garbage-collected. */
const abandoned = new FinalizationRegistry((held) => held.free());

/** The files of a model in a module. */
class Held {
  constructor(module, file) {
    this.module = module;
    this.file = file;
  }

  call(operation, argument = 0n, input = undefined) {
    if (this.file === undefined) throw new GgmillError("misuse", "the model is closed");
    return this.module.call(operation, this.file, argument, input);
  }

  free() {
    if (this.file === undefined) return;
    this.module.call(OPERATION.close, this.file);
    this.file = undefined;
  }
}

/** The metadata of a file. Values are decoded on access. */
export class Metadata {
  #held;
  #part;
  #entries;
  #byKey = new Map();

  constructor(held, part) {
    this.#held = held;
    this.#part = BigInt(part);
    const record = new RecordReader(held.call(OPERATION.entries, this.#part));
    this.#entries = Array.from({ length: record.u32() }, () => ({
      key: record.text(),
      type: record.u32(),
      subType: record.u32(),
      length: Number(record.u64()),
    }));
    this.#entries.forEach(({ key }, at) => {
      // For a duplicate key, the first entry is used.
      if (!this.#byKey.has(key)) this.#byKey.set(key, at);
    });
  }

  get size() {
    return this.#entries.length;
  }

  has(key) {
    return this.#byKey.has(key);
  }

  get(key) {
    const at = this.#byKey.get(key);
    return at === undefined ? undefined : this.#value(at);
  }

  type(key) {
    const at = this.#byKey.get(key);
    return at === undefined ? undefined : this.#typed(at);
  }

  keys() {
    return this.#entries.map(({ key }) => key);
  }

  *entries() {
    for (let at = 0; at < this.#entries.length; at++) yield [this.#entries[at].key, this.#value(at)];
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toObject() {
    return Object.fromEntries([...this.#byKey].map(([key, at]) => [key, this.#value(at)]));
  }

  #typed(at) {
    const { type, subType, length } = this.#entries[at];
    if (type !== ARRAY) return { type: VALUE_TYPES[type] };
    return { type: "array", subType: VALUE_TYPES[subType], length };
  }

  #value(at) {
    return this.raw(at).value;
  }

  /** Returns the entry at an index, with the numbers of its types. */
  raw(at, text = undefined) {
    const { key, type, subType } = this.#entries[at];
    const bytes = this.#held.call(OPERATION.value, (this.#part << 32n) | BigInt(at));
    return { key, type, subType, value: new RecordReader(bytes, text).value(type) };
  }
}

/** A tensor of a model. */
export class Tensor {
  #model;

  constructor(model, fields) {
    this.#model = model;
    Object.assign(this, fields);
  }

  /** The number of elements. */
  get elements() {
    return this.shape.reduce((product, dimension) => product * dimension, 1);
  }

  /** Reads the stored data, or a range of its bytes. */
  async bytes(range = {}) {
    if (this.size === undefined) {
      throw new GgmillError("unsupported", `tensor ${this.name}: type ${this.type} is unknown`, {
        tensor: this.name,
      });
    }
    const { start = 0, end = this.size } = range;
    this.#hold(start, end, this.size, "bytes");
    return this.#model.readTensor(this, start, end - start);
  }

  /** Decodes a range of elements. */
  async values(range = {}) {
    const { start = 0, end = this.elements } = range;
    this.#hold(start, end, this.elements, "elements");
    const { elements: perBlock, bytes: blockSize } = this.#model.block(this);
    const module = await load("core");
    const values = new Float32Array(end - start);
    const step = Math.max(1, Math.floor(PIECE / blockSize)) * perBlock;
    const argument = BigInt(this.typeId) | (this.#model.endian === "big" ? 1n << 32n : 0n);
    for (let from = Math.floor(start / perBlock) * perBlock; from < end; from += step) {
      const to = Math.min(from + step, Math.ceil(end / perBlock) * perBlock);
      const [first, last] = [(from / perBlock) * blockSize, (to / perBlock) * blockSize];
      const blocks = await this.#model.readTensor(this, first, last - first);
      const record = module.call(OPERATION.decode, 0, argument, blocks);
      const piece = new Float32Array(record.buffer, record.byteOffset, record.byteLength / 4);
      const skipped = Math.max(0, start - from);
      values.set(piece.subarray(skipped, Math.min(piece.length, end - from)), from + skipped - start);
    }
    return values;
  }

  #hold(start, end, limit, what) {
    if (Number.isSafeInteger(start) && Number.isSafeInteger(end) && start >= 0 && start <= end && end <= limit) return;
    const message = `tensor ${this.name}: ${what} from ${start} to ${end}, it has ${limit}`;
    throw new GgmillError("misuse", message, { tensor: this.name });
  }
}

/** A model: one file, or all shards of a shard set. */
export class Model {
  #reader;
  /** The model in the other modules, by their names. */
  #others = new Map();
  #headers;
  #sources;
  #metadata;
  #tensors;
  #byName;
  #types;

  constructor(module, file, headers, sources) {
    this.#reader = new Held(module, file);
    this.#headers = headers;
    this.#sources = sources;
    abandoned.register(this, this.#reader, this);
    const facts = sources.map((_, part) => this.#facts(part));
    this.shards = facts.map(({ size, dataOffset, headerLength, isWhole, tensors }, part) => ({
      name: sources[part].name,
      size,
      headerLength,
      dataOffset,
      isWhole,
      tensors,
    }));
    const { version, endian, alignment, headerLength, dataOffset, tensorInfosOffset } = facts[0];
    Object.assign(this, { version, endian, alignment, headerLength, dataOffset, tensorInfosOffset });
  }

  #facts(part) {
    const record = new RecordReader(this.#reader.call(OPERATION.facts, BigInt(part)));
    const version = record.u32();
    const endian = record.u8() === 0 ? "little" : "big";
    const alignment = record.u32();
    const [headerLength, dataOffset] = [Number(record.u64()), Number(record.u64())];
    const size = record.u64();
    return {
      version,
      endian,
      alignment,
      headerLength,
      dataOffset,
      size: size === NONE ? undefined : Number(size),
      tensorInfosOffset: Number(record.u64()),
      isWhole: record.u8() !== 0,
      tensors: record.u32(),
    };
  }

  /** The size of all files in bytes, if it is known. */
  get size() {
    return this.shards.reduce((sum, { size }) => (size === undefined ? undefined : sum + size), 0);
  }

  get metadata() {
    return (this.#metadata ??= new Metadata(this.#reader, 0));
  }

  get tensors() {
    return (this.#tensors ??= this.#readTensors());
  }

  tensor(name) {
    this.#byName ??= new Map([...this.tensors].reverse().map((tensor) => [tensor.name, tensor]));
    return this.#byName.get(name);
  }

  /** The number of elements in all tensors. */
  get parameters() {
    return this.tensors.reduce((sum, tensor) => sum + tensor.elements, 0);
  }

  /** The damage in files that were opened with `damaged`. */
  get faults() {
    return this.shards.flatMap((_, part) => {
      const record = new RecordReader(this.#reader.call(OPERATION.faults, BigInt(part)));
      return Array.from({ length: record.u32() }, () => readError(record));
    });
  }

  #readTypes() {
    const record = new RecordReader(this.#reader.call(OPERATION.types));
    const types = new Map();
    for (let left = record.u32(); left > 0; left--) {
      types.set(record.u32(), { name: record.text(), elements: record.u32(), bytes: record.u32() });
    }
    return types;
  }

  /** The tensors with 64-bit numbers. */
  rawTensors(text = undefined) {
    const record = new RecordReader(this.#reader.call(OPERATION.tensors), text);
    return Array.from({ length: record.u32() }, () => ({
      name: record.text(),
      typeId: record.u32(),
      shard: record.u32(),
      offset: record.u64(),
      size: record.u64(),
      shape: Array.from({ length: record.u32() }, () => record.u64()),
    }));
  }

  #readTensors() {
    this.#types ??= this.#readTypes();
    return this.rawTensors().map(({ name, typeId, shard, offset, size, shape }) => {
      const type = this.#types.get(typeId)?.name || `type ${typeId}`;
      const fields = {
        name,
        type,
        typeId,
        shape: shape.map(Number),
        offset: Number(offset),
        size: size === NONE ? undefined : Number(size),
        shard,
      };
      return new Tensor(this, fields);
    });
  }

  /** The block size and bytes per block of a tensor type. */
  block(tensor) {
    const block = this.#types.get(tensor.typeId);
    if (block !== undefined && block.elements > 0) return block;
    throw new GgmillError("unsupported", `tensor ${tensor.name}: type ${tensor.type} is unknown`, {
      tensor: tensor.name,
    });
  }

  /** Reads bytes of a tensor at an offset. */
  async readTensor(tensor, offset, length) {
    const bytes = await readRange(this.#sources[tensor.shard], tensor.offset + offset, length);
    if (bytes.length === length) return bytes;
    const message = `tensor ${tensor.name}: the file ends within its data`;
    throw new GgmillError("truncated", message, { tensor: tensor.name });
  }

  /** The model in a module other than the reader. */
  async #in(name) {
    this.#reader.call(OPERATION.facts);
    let held = this.#others.get(name);
    if (held === undefined) {
      held = load(name).then((module) => {
        const files = this.#headers.map((header) => header.open(module));
        const held = new Held(module, files.length === 1 ? files[0] : join(module, files).file);
        abandoned.register(this, held, this);
        return held;
      });
      this.#others.set(name, held);
      held.catch(() => this.#others.delete(name));
    }
    return held;
  }

  async #json(name, operation, options) {
    const input = new TextEncoder().encode(JSON.stringify(options ?? {}));
    return JSON.parse(new TextDecoder().decode((await this.#in(name)).call(operation, 0n, input)));
  }

  async check(options = {}) {
    const asked = { names: this.#sources.map(({ name }) => name ?? ""), ...options };
    const input = new TextEncoder().encode(JSON.stringify(asked));
    const [concernsText] = (await this.#in("core")).call(OPERATION.concernsText, 0n, input);
    const report = this.#json("core", OPERATION.check, asked);
    if (concernsText === 0) return report;
    return joinReports(...(await Promise.all([report, this.#json("text", OPERATION.check, asked)])));
  }

  estimate(options = {}) {
    return this.#json("estimate", OPERATION.estimate, options);
  }

  async tokenize(text, options = {}) {
    if (typeof text !== "string" && !(text instanceof Uint8Array)) {
      throw new GgmillError("misuse", "expected the text as a string or a Uint8Array");
    }
    const { addSpecial = true, parseSpecial = true } = options;
    const input = typeof text === "string" ? new TextEncoder().encode(text) : text;
    const document = (await this.#in("text")).call(OPERATION.tokenize, bits(addSpecial, parseSpecial), input);
    return JSON.parse(new TextDecoder().decode(document));
  }

  async detokenize(ids, options = {}) {
    const { removeSpecial = false, showSpecial = false } = options;
    const input = new RecordWriter();
    for (const id of ids) input.u32(fitted(id, typeNumber("u32"), undefined, "ids"));
    const held = await this.#in("text");
    return new TextDecoder().decode(held.call(OPERATION.detokenize, bits(removeSpecial, showSpecial), input.finish()));
  }

  async renderTemplate(conversation) {
    const { messages, tools, documents, addGenerationPrompt = false, variables = {}, template, date = new Date() } = conversation;
    const now = Math.floor(Number(date) / 1000);
    if (!Number.isSafeInteger(now)) throw new GgmillError("misuse", "date: expected a valid date");
    return this.#json("text", OPERATION.render, {
      template,
      now,
      conversation: { ...variables, messages, tools, documents, add_generation_prompt: addGenerationPrompt },
    });
  }

  async summary() {
    return (await this.#json("core", OPERATION.inspect)).summary;
  }

  async suggestedName(shard = 0) {
    const held = await this.#in("core");
    return new TextDecoder().decode(held.call(OPERATION.name, BigInt(shard)));
  }

  async meantKey(key) {
    const held = await this.#in("core");
    const meant = new TextDecoder().decode(held.call(OPERATION.meantKey, 0n, new TextEncoder().encode(key)));
    return meant === "" ? undefined : meant;
  }

  async edit(edits, options = {}) {
    if (this.shards.length > 1) {
      throw new GgmillError("misuse", "a set of shards is edited file by file: open one with { shards: false }");
    }
    const { remove = [], rename = {}, set = {} } = edits;
    const input = new RecordWriter().u32(remove.length);
    for (const key of remove) input.text(key);
    const renamed = Object.entries(rename);
    input.u32(renamed.length);
    for (const [from, to] of renamed) input.text(from).text(to);
    input.raw(this.#entriesToSet(set));
    const held = await this.#in("core");
    const record = new RecordReader(held.call(OPERATION.edit, options.inPlace ? 1n : 0n, input.finish()));
    return new HeaderPatch(Number(record.u64()), record.rest().slice());
  }

  /** Serializes the entries as the header of a file without tensors. */
  #entriesToSet(set) {
    const entries = Object.entries(set);
    const header = new RecordWriter().raw(new TextEncoder().encode("GGUF")).u32(3).u64(0).u64(entries.length);
    for (const [key, given] of entries) {
      const { value, type, subType } = this.#typedValue(key, given);
      header.string(key).u32(type).value(fitted(value, type, subType, key), type, subType);
    }
    return header.finish();
  }

  #typedValue(key, given) {
    const isTyped = typeof given === "object" && given !== null && "type" in given && "value" in given;
    const value = isTyped ? given.value : given;
    const named = isTyped ? given : this.metadata.type(key);
    if (named !== undefined) {
      const type = typeNumber(named.type, key);
      const subType = type === ARRAY && named.subType !== undefined ? typeNumber(named.subType, key) : undefined;
      return { value, type, subType };
    }
    if (typeof value === "string") return { value, type: typeNumber("string", key) };
    if (typeof value === "boolean") return { value, type: typeNumber("bool", key) };
    throw new GgmillError("misuse", `key ${key} is new: expected { type, value }`, { key });
  }

  close() {
    abandoned.unregister(this);
    this.#reader.free();
    for (const other of this.#others.values()) other.then((held) => held.free()).catch(() => undefined);
    this.#others.clear();
    for (const source of this.#sources) void source.close?.();
  }
}

/** A new header, and the size of the part of the file that it replaces. */
export class HeaderPatch {
  constructor(replaces, header) {
    this.replaces = replaces;
    this.header = header;
  }

  get isInPlace() {
    return this.header.length === this.replaces;
  }

  applyTo(file) {
    if (typeof Blob !== "undefined" && file instanceof Blob) {
      return new Blob([this.header, file.slice(this.replaces)], { type: "application/octet-stream" });
    }
    const rest = file.subarray(this.replaces);
    const edited = new Uint8Array(this.header.length + rest.length);
    edited.set(this.header);
    edited.set(rest, this.header.length);
    return edited;
  }
}

/** Two options as the bits of an argument. */
const bits = (first, second) => (first ? 1n : 0n) | (second ? 2n : 0n);

/** Combines the shards in a module into one model. Returns it, and the index of each shard in `files`. */
export function join(module, files) {
  const input = new RecordWriter();
  for (const file of files) input.u32(file);
  const record = new RecordReader(module.call(OPERATION.join, 0, 0n, input.finish()));
  return { file: record.u32(), order: files.map(() => record.u32()) };
}
