/** The types of metadata values. */
export type ValueType =
  | "u8"
  | "i8"
  | "u16"
  | "i16"
  | "u32"
  | "i32"
  | "f32"
  | "bool"
  | "string"
  | "array"
  | "u64"
  | "i64"
  | "f64";

/** The elements of an array of numbers. */
export type NumberArray =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | BigUint64Array
  | BigInt64Array
  | Float64Array;

/** A metadata value: integers of 64 bits are bigints, and arrays of numbers typed arrays. */
export type Value = string | number | bigint | boolean | NumberArray | string[] | boolean[] | Value[];

/** The type of an entry: of an array also that of its elements, and how many there are. */
export interface EntryType {
  readonly type: ValueType;
  readonly subType?: ValueType;
  readonly length?: number;
}

/** The sort of an error. Others can come with a new version. */
export type ErrorKind =
  | "not_gguf"
  | "version"
  | "truncated"
  | "malformed"
  | "limit"
  | "unsupported"
  | "missing"
  | "wrong_type"
  | "misuse"
  | "io"
  | "changed"
  | "shards"
  | "naming"
  | "denied"
  | "not_found"
  | "unavailable";

/** An error of this package: of a file, of its source, or of a call. */
export class GgmillError extends Error {
  constructor(
    kind: ErrorKind,
    message: string,
    details?: { cause?: unknown; offset?: number; key?: string; tensor?: string; status?: number },
  );
  readonly name: "GgmillError";
  /** The sort of error. */
  readonly kind: ErrorKind;
  /** The place in the file, in bytes from its start. */
  readonly offset?: number;
  /** The metadata key that it is about. */
  readonly key?: string;
  /** The tensor that it is about. */
  readonly tensor?: string;
  /** The status of a server's answer. */
  readonly status?: number;
}

/** Bytes that are read by position. */
export interface Reader {
  /** How many bytes there are; without it they end where `read` gives fewer than it is asked for. */
  readonly size?: number;
  /** A name for messages, and for the rules about file names. */
  readonly name?: string;
  /** The bytes from `offset` on: `length` of them, or fewer where the file ends. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/**
 * What a model is read from: a URL (`https:`, `hf://OWNER/NAME[@REVISION]/PATH`, `file:`), a path (in
 * Node.js, Deno and Bun), a `File` or `Blob`, bytes, or anything that reads by position.
 */
export type Source = string | URL | Blob | ArrayBuffer | ArrayBufferView | Reader;

/** How a model is opened. */
export interface OpenOptions {
  /** Whether a damaged file is opened as far as it can be read, with its `faults`. */
  salvage?: boolean;
  /** Whether the other shards of a set are opened with the one that is named. Default: true. */
  shards?: boolean;
  /** Instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
  /** Header fields of every request, such as `Authorization`. */
  headers?: HeadersInit;
  /** Ends requests that are under way. */
  signal?: AbortSignal;
  /** The address that `hf://` is at. Default: `https://huggingface.co`. */
  hub?: string;
}

/**
 * Opens a model: reads its header, and no tensor data. An address of a shard, and a list of files,
 * is the model that the shards are.
 */
export function open(source: Source | readonly Source[], options?: OpenOptions): Promise<Model>;

/** Where the WebAssembly modules come from, for bundlers that do not find them by themselves. */
export interface WasmModules {
  /** The reader. */
  reader?: WasmSource | Promise<WasmSource>;
  /** The module with everything, which is loaded when it is first needed. */
  full?: WasmSource | Promise<WasmSource>;
}

/** A WebAssembly module, its bytes, or where they are. */
export type WasmSource = WebAssembly.Module | BufferSource | Response | URL | string;

/** Says where the WebAssembly modules come from, before anything is opened. */
export function setWasm(modules: WasmModules): void;

/** The metadata of a file, in its order. Values are decoded when they are asked for. */
export class Metadata implements Iterable<[string, Value]> {
  private constructor();
  /** Number of entries. */
  readonly size: number;
  /** Whether there is an entry with this key. */
  has(key: string): boolean;
  /** The value of a key; of a duplicate key the first. */
  get(key: string): Value | undefined;
  /** The type of a key's value. */
  type(key: string): EntryType | undefined;
  /** The keys, duplicates included. */
  keys(): string[];
  /** Keys and values, duplicates included. */
  entries(): IterableIterator<[string, Value]>;
  [Symbol.iterator](): IterableIterator<[string, Value]>;
  /** All values by their keys. */
  toObject(): Record<string, Value>;
}

/** A part of a tensor, of elements or of bytes: from `start` up to before `end`. */
export interface Range {
  /** Default: 0. */
  start?: number;
  /** Default: the end of the tensor. */
  end?: number;
}

/** A tensor of a model. */
export class Tensor {
  private constructor();
  /** The name. */
  readonly name: string;
  /** The type of its elements, such as `Q4_K`. */
  readonly type: string;
  /** The number of the type. */
  readonly typeId: number;
  /** The dimensions in stored order, the row length first. */
  readonly shape: number[];
  /** Where its data begin, in bytes from the start of its file. */
  readonly offset: number;
  /** Bytes of its data; `undefined` for an unknown type. */
  readonly size: number | undefined;
  /** Which of the model's files it is in, counted from 0. */
  readonly shard: number;
  /** Number of elements. */
  readonly elements: number;
  /** Its data as they are in the file, or a range of bytes of them. */
  bytes(range?: Range): Promise<Uint8Array>;
  /** The values of its elements, or of a range of them; only the blocks around it are read. */
  values(range?: Range): Promise<Float32Array>;
}

/** One file of a model. */
export interface Shard {
  /** Its name, where the source has one. */
  readonly name: string | undefined;
  /** Its bytes, where that is known. */
  readonly size: number | undefined;
  /** Bytes of its header, without padding. */
  readonly headerLength: number;
  /** Where its tensor data begin. */
  readonly dataOffset: number;
  /** Whether its header was read to its end: always, unless it was opened with `salvage`. */
  readonly isWhole: boolean;
  /** Number of its tensors. */
  readonly tensors: number;
}

/** A model: one file, or the shards of a set. */
export class Model {
  private constructor();
  /** The version of the format: 1, 2 or 3. */
  readonly version: 1 | 2 | 3;
  /** The byte order of the files. */
  readonly endian: "little" | "big";
  /** The alignment of tensor data. */
  readonly alignment: number;
  /** Bytes of the first file's header, without padding. */
  readonly headerLength: number;
  /** Where the tensor infos of the first file begin. */
  readonly tensorInfosOffset: number;
  /** Where the tensor data of the first file begin. */
  readonly dataOffset: number;
  /** The files. */
  readonly shards: readonly Shard[];
  /** Bytes of all files, where they are known. */
  readonly size: number | undefined;
  /** The metadata of the first file, which is where a model's are. */
  readonly metadata: Metadata;
  /** The tensors of all files, in their order. */
  readonly tensors: readonly Tensor[];
  /** The tensor with this name. */
  tensor(name: string): Tensor | undefined;
  /** Elements of all tensors. */
  readonly parameters: number;
  /** What is wrong with files that were opened with `salvage`. */
  readonly faults: GgmillError[];
  /** Checks the headers by the rules of `ggmill check`. */
  check(options?: CheckOptions): Promise<CheckReport>;
  /** Estimates the memory that the model takes to run, as `ggmill estimate` does. */
  estimate(options?: EstimateOptions): Promise<EstimateReport>;
  /** The summary of `ggmill inspect --json`. */
  summary(): Promise<Summary>;
  /** The file name that the metadata give a file of the model, by the naming convention. */
  suggestedName(shard?: number): Promise<string>;
  /**
   * Lays out other metadata: the header of the edited file, and how much of the file it replaces.
   * Tensors keep their places. With `inPlace` the header has exactly the length of the old one, or
   * the edit fails.
   */
  edit(edits: Edits, options?: { inPlace?: boolean }): Promise<HeaderPatch>;
  /** Frees the memory of the model. It is freed also when nothing refers to the model any more. */
  close(): void;
}

/** Changes of metadata: keys are removed first, then renamed, then set. */
export interface Edits {
  /** Keys that are removed; they must be there. */
  remove?: readonly string[];
  /** New keys by old ones. */
  rename?: Readonly<Record<string, string>>;
  /**
   * Values by their keys. A key that is there keeps its type; a new one has a type, unless the value
   * is a string or a boolean.
   */
  set?: Readonly<Record<string, EditValue | TypedValue>>;
}

/** A value to set. */
export type EditValue = string | number | bigint | boolean | readonly (string | number | bigint | boolean)[] | NumberArray;

/** A value to set, with its type. */
export interface TypedValue {
  readonly type: ValueType;
  /** The type of the elements of an array. */
  readonly subType?: ValueType;
  readonly value: EditValue;
}

/** A new header, and how much of the file it replaces. */
export class HeaderPatch {
  private constructor();
  /** The header of the edited file, padding included. */
  readonly header: Uint8Array;
  /** Bytes from the start of the file that it takes the place of. */
  readonly replaces: number;
  /** Whether the header can be written over the old one. */
  readonly isInPlace: boolean;
  /** The edited file: of a `Blob` one that refers to the data of the old one. */
  applyTo(file: Blob): Blob;
  applyTo(file: Uint8Array): Uint8Array;
}

/** How a model is checked. */
export interface CheckOptions {
  /** The requirements. Default: `all`. */
  profile?: "spec" | "ggml" | "all";
  /** These rules only: codes, beginnings of codes, groups. */
  select?: readonly string[];
  /** Not these rules. */
  ignore?: readonly string[];
  /** Findings of one rule that are told; the rest are counted. Default: 20. */
  findingsPerRule?: number;
  /** The names of the files, instead of those of the sources. */
  names?: readonly string[];
}

/** The schema `ggmill.check/1`. */
export interface CheckReport {
  schema: "ggmill.check/1";
  files: CheckedFile[];
}

/** The findings in one file. */
export interface CheckedFile {
  path: string;
  errors: number;
  warnings: number;
  notes: number;
  findings: Finding[];
  untold: { code: string; count: number }[];
}

/** One finding. */
export interface Finding {
  /** The rule, such as `GG1301`. */
  code: string;
  group: string;
  severity: "error" | "warning" | "note";
  offset: number | null;
  subject: { kind: "file" | "key" | "tensor"; name: string | null };
  summary: string;
  message: string;
  why: string;
  demanded_by: string;
  requirement: string;
  help: string;
  fix: string | null;
}

/** How a model is to be run. */
export interface EstimateOptions {
  /** Tokens of context. Default: what the model was trained with. */
  context?: number;
  /** Tokens that are submitted together. Default: 2048. */
  batch?: number;
  /** Tokens that are computed together. Default: 512. */
  microBatch?: number;
  /** Sequences side by side. Default: 1. */
  sequences?: number;
  /** Whether the sequences share one cache. */
  unified?: boolean;
  /** Whether blocks with a window have caches for the whole context too. */
  fullWindows?: boolean;
  /** The type of cached keys. Default: `F16`. */
  keyType?: string;
  /** The type of cached values. Default: `F16`. */
  valueType?: string;
  /** Whether attention is computed in tiles. Default: wherever the architecture can. */
  flashAttention?: boolean;
  /** Blocks on devices; the output counts as one more. */
  gpuLayers?: number;
  /** The shares that the devices have of them. Default: one device. */
  tensorSplit?: readonly number[];
  /** Whether caches stay on the host. */
  contextOnHost?: boolean;
  /** Finds the longest context, or the most layers, for devices of so many bytes. */
  fit?: readonly number[];
  /** Bytes that are left free on each of them. Default: 1 GiB. */
  reserve?: number;
}

/** The schema `ggmill.estimate/1`. */
export interface EstimateReport {
  schema: "ggmill.estimate/1";
  architecture: string | null;
  estimates: Estimate[];
}

/** An estimate. Sizes are bytes. */
export interface Estimate {
  context: number | null;
  sequences: number;
  key_type: string;
  value_type: string;
  flash_attention: boolean | null;
  layers: number;
  layer_count: number;
  devices: EstimateDevice[];
  total: number;
  /** What is not in the numbers. */
  unknown: { part: "weights" | "context" | "compute"; message: string }[];
}

/** What one device has, in bytes. */
export interface EstimateDevice {
  name: string;
  weights: number;
  context: number;
  keys: number;
  values: number;
  states: number;
  output: number;
  compute: number | null;
  total: number;
}

/** What a model is: the `summary` of the schema `ggmill.inspect/1`. */
export interface Summary {
  architecture: string | null;
  name: string | null;
  type: string | null;
  license: string | null;
  parameters: number;
  tensors: number;
  tensor_bytes: number;
  bits_per_weight: number | null;
  context_length: number | null;
  embedding_length: number | null;
  block_count: number | null;
  vocabulary_size: number | null;
  shards: number;
  /** Facts that a later version adds. */
  [fact: string]: unknown;
}
