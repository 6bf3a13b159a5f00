/** A type of metadata values. */
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

/** An array of numbers. */
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

/** A metadata value. 64-bit integers are bigints, and arrays of numbers are typed arrays. */
export type Value = string | number | bigint | boolean | NumberArray | string[] | boolean[] | Value[];

/** The type of a metadata entry; for an array, also the type and the number of its elements. */
export interface EntryType {
  readonly type: ValueType;
  readonly subType?: ValueType;
  readonly length?: number;
}

/** The kind of an error. New versions may add kinds. */
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
  | "unavailable"
  // Vocabularies.
  | "unknown_model"
  | "unknown_pre_tokenizer"
  | "wrong_length"
  | "duplicate_token"
  | "no_tokenizer"
  | "no_such_token"
  // Chat templates.
  | "syntax"
  | "refused"
  | "undefined"
  | "value"
  | "security"
  | "conversation";

/** An error in a file, in its source, or in a call. */
export class GgmillError extends Error {
  constructor(
    kind: ErrorKind,
    message: string,
    details?: { cause?: unknown; offset?: number; key?: string; tensor?: string; status?: number },
  );
  readonly name: "GgmillError";
  /** The kind of the error. */
  readonly kind: ErrorKind;
  /** The offset in the file, in bytes. */
  readonly offset?: number;
  /** The metadata key concerned. */
  readonly key?: string;
  /** The tensor concerned. */
  readonly tensor?: string;
  /** The HTTP status code of the response. */
  readonly status?: number;
}

/** A source of bytes with random access. */
export interface Reader {
  /** The number of bytes. If it is missing, the source ends where `read` returns fewer bytes than requested. */
  readonly size?: number;
  /** A name for messages, and for rules about file names. */
  readonly name?: string;
  /** Reads `length` bytes at `offset`, or fewer at the end of the source. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/**
 * The source of a model: a URL (`https:`, `hf://OWNER/NAME[@REVISION]/PATH`, `file:`), a path (in
 * Node.js, Deno and Bun), a `File` or `Blob`, bytes, or any object with random access.
 */
export type Source = string | URL | Blob | ArrayBuffer | ArrayBufferView | Reader;

/** Options for `open`. */
export interface OpenOptions {
  /** Open the readable part of a damaged file; `Model.faults` describes the damage. Default: false. */
  damaged?: boolean;
  /** Open all shards of the set if the source is one of them. Default: true. */
  shards?: boolean;
  /** A function to use instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
  /** HTTP headers for every request, such as `Authorization`. */
  headers?: HeadersInit;
  /** Aborts pending requests. */
  signal?: AbortSignal;
  /** The base URL for `hf://`. Default: `https://huggingface.co`. */
  hub?: string;
}

/**
 * Opens a model. Only its header is read. The URL of one shard opens the whole shard set; a list of
 * sources is opened as the shards of one model.
 *
 * @throws {GgmillError} if the source cannot be read, or is not a valid GGUF file.
 */
export function open(source: Source | readonly Source[], options?: OpenOptions): Promise<Model>;

/**
 * Says whether a model is safe to hand to a loader, and why not, like `ggmill check --profile threat
 * --quiet`: whether it has a property that a published flaw of a program needs. Only its header is read. A
 * file that is damaged or not GGUF is not safe.
 *
 * @throws {GgmillError} if the source cannot be read.
 */
export function vet(source: Source | readonly Source[], options?: VetOptions): Promise<Verdict>;

/** Options for `vet`. */
export type VetOptions = Omit<OpenOptions, "damaged">;

/** The verdict on a model: `ggmill.verdict/1`. */
export interface Verdict {
  schema: "ggmill.verdict/1";
  /** Whether there are no reasons. */
  safe: boolean;
  reasons: VerdictReason[];
}

/** A reason not to hand a file to a loader. */
export interface VerdictReason {
  /** The path or address of the file as given, or the name of its source; empty if there is none. */
  path: string;
  /** The code of the rule, such as `GG1302`. */
  rule: string;
  severity: Finding["severity"];
  offset: number | null;
  subject: Finding["subject"];
  summary: string;
  message: string;
  /** The published flaws that such a file can trigger. */
  advisories: Advisory[];
}

/** A published flaw of a program. */
export interface Advisory {
  /** The number of the CVE, the advisory or the issue, or the name of a limit of a program. */
  id: string;
  product: string;
  /** The affected versions as published. */
  affected: string;
  /** What happens. */
  effect: string;
  address: string;
}

/** The WebAssembly modules, for bundlers that do not find them automatically. */
export interface WasmModules {
  /** The module for reading headers. */
  reader?: WasmSource | Promise<WasmSource>;
  /** The module with all functions except estimates and those about text. It is loaded when it is first needed. */
  core?: WasmSource | Promise<WasmSource>;
  /** The module for tokens and chat templates. It is loaded when it is first needed. */
  text?: WasmSource | Promise<WasmSource>;
  /** The module for estimates of memory. It is loaded when it is first needed. */
  estimate?: WasmSource | Promise<WasmSource>;
}

/** A WebAssembly module, its bytes, or its URL. */
export type WasmSource = WebAssembly.Module | BufferSource | Response | URL | string;

/** Sets the WebAssembly modules. Call it before opening a model. */
export function setWasm(modules: WasmModules): void;

/** The metadata of a file, in file order. Values are decoded on access. */
export class Metadata implements Iterable<[string, Value]> {
  private constructor();
  /** The number of entries. */
  readonly size: number;
  /** Returns whether a key exists. */
  has(key: string): boolean;
  /** Returns the value of a key; for a duplicate key, the first one. */
  get(key: string): Value | undefined;
  /** Returns the type of a value. */
  type(key: string): EntryType | undefined;
  /** Returns all keys, including duplicates. */
  keys(): string[];
  /** Returns all keys with their values, including duplicates. */
  entries(): IterableIterator<[string, Value]>;
  [Symbol.iterator](): IterableIterator<[string, Value]>;
  /** Returns all values by key. */
  toObject(): Record<string, Value>;
}

/** A range of elements or bytes of a tensor. */
export interface Range {
  /** The start of the range. Default: 0. */
  start?: number;
  /** The end of the range (exclusive). Default: the end of the tensor. */
  end?: number;
}

/** A tensor of a model. */
export class Tensor {
  private constructor();
  /** The name of the tensor. */
  readonly name: string;
  /** The tensor type, such as `Q4_K`. */
  readonly type: string;
  /** The number of the tensor type. */
  readonly typeId: number;
  /** The dimensions in stored order: the row length is the first. */
  readonly shape: number[];
  /** The offset of the data, in bytes from the start of the file. */
  readonly offset: number;
  /** The size of the data in bytes; `undefined` if the type is unknown. */
  readonly size: number | undefined;
  /** The index of the file with the tensor in `Model.shards`. */
  readonly shard: number;
  /** The number of elements. */
  readonly elements: number;
  /** Reads the stored data, or a range of its bytes. */
  bytes(range?: Range): Promise<Uint8Array>;
  /** Reads and decodes the elements, or a range of them. Only the blocks that contain it are read. */
  values(range?: Range): Promise<Float32Array>;
}

/** One file of a model. */
export interface Shard {
  /** The name of the file; `undefined` if the source has none. */
  readonly name: string | undefined;
  /** The size of the file in bytes; `undefined` if it is unknown. */
  readonly size: number | undefined;
  /** The size of the header in bytes, without padding. */
  readonly headerLength: number;
  /** The offset of the tensor data in bytes. */
  readonly dataOffset: number;
  /** Whether the header was read completely; can be false only with `damaged`. */
  readonly isWhole: boolean;
  /** The number of tensors in the file. */
  readonly tensors: number;
}

/** A model: one file, or all shards of a shard set. */
export class Model {
  private constructor();
  /** The GGUF version: 1, 2 or 3. */
  readonly version: 1 | 2 | 3;
  /** The byte order of the files. */
  readonly endian: "little" | "big";
  /** The alignment of tensor data in bytes. */
  readonly alignment: number;
  /** The size of the header of the first file in bytes, without padding. */
  readonly headerLength: number;
  /** The offset of the tensor infos in the first file, in bytes. */
  readonly tensorInfosOffset: number;
  /** The offset of the tensor data in the first file, in bytes. */
  readonly dataOffset: number;
  /** The files of the model. */
  readonly shards: readonly Shard[];
  /** The size of all files in bytes; `undefined` if it is unknown. */
  readonly size: number | undefined;
  /** The metadata of the first file, which applies to the model. */
  readonly metadata: Metadata;
  /** The tensors of all files, in file order. */
  readonly tensors: readonly Tensor[];
  /** Returns the tensor with a name. */
  tensor(name: string): Tensor | undefined;
  /** The number of elements in all tensors. */
  readonly parameters: number;
  /** The damage in files that were opened with `damaged`. */
  readonly faults: GgmillError[];
  /** Checks the headers against the rules of `ggmill check`. */
  check(options?: CheckOptions): Promise<CheckReport>;
  /** Estimates the memory that the model needs to run, like `ggmill estimate`. */
  estimate(options?: EstimateOptions): Promise<EstimateReport>;
  /**
   * Tokenizes a text with the vocabulary of the file, like `ggmill tokenize --json`. The first call
   * loads the vocabulary, which is kept until `close`.
   *
   * @throws {GgmillError} if the file has no vocabulary (`missing`), one without a tokenizer
   * (`no_tokenizer`), or one that is unknown or damaged.
   */
  tokenize(text: string | Uint8Array, options?: TokenizeOptions): Promise<TokenizedText>;
  /**
   * Returns the text of tokens. Bytes that are not UTF-8 are replaced by U+FFFD.
   *
   * @throws {GgmillError} as `tokenize`, and if an ID is not in the vocabulary (`no_such_token`).
   */
  detokenize(ids: Iterable<number>, options?: DetokenizeOptions): Promise<string>;
  /**
   * Renders a conversation with a chat template of the file, like `ggmill template render --json`.
   * Special tokens are recognized in text from the template only: in message text they are plain
   * text, and listed as `refused`.
   *
   * @throws {GgmillError} if the file has no such template (`missing`), the template cannot be parsed
   * (`syntax`), it rejects the conversation (`refused`), it fails (`undefined`, `value`,
   * `unsupported`, `security`, `limit`), or the conversation is not valid (`conversation`).
   */
  renderTemplate(conversation: ChatConversation): Promise<RenderedTemplate>;
  /** Returns the summary of `ggmill inspect --json`. */
  summary(): Promise<Summary>;
  /** Returns the file name according to the naming convention, from the metadata. */
  suggestedName(shard?: number): Promise<string>;
  /**
   * Returns the known key that a key is probably a misspelling of, as `ggmill edit` looks for it before
   * it adds a key.
   */
  meantKey(key: string): Promise<string | undefined>;
  /**
   * Creates the header of the edited file; tensor data is not copied. With `inPlace`, the
   * header has exactly the length of the old one, and the edit fails if that is impossible. To edit a
   * file of a shard set, open it with `shards: false`.
   */
  edit(edits: Edits, options?: { inPlace?: boolean }): Promise<HeaderPatch>;
  /** Frees the memory of the model. This also happens when the model is garbage-collected. */
  close(): void;
}

/** Options for `Model.tokenize`. */
export interface TokenizeOptions {
  /** Add the BOS, EOS and SEP tokens that the vocabulary asks for. Default: true. */
  addSpecial?: boolean;
  /** Parse the text of control tokens as these tokens. Default: true. */
  parseSpecial?: boolean;
}

/** The tokens of a text. */
export interface TokenizedText {
  /** The number of tokens. */
  count: number;
  tokens: TextToken[];
}

/** A token of a text. */
export interface TextToken {
  id: number;
  /** The text of the token; its bytes in hexadecimal if they are not UTF-8. */
  piece: string | { bytes_hex: string };
  /** The start of the token in the UTF-8 text, in bytes. Added tokens have an empty range. */
  start: number;
  /** The end of the token in the UTF-8 text, in bytes (exclusive). */
  end: number;
}

/** Options for `Model.detokenize`. */
export interface DetokenizeOptions {
  /** Leave out a BOS token at the start and an EOS token at the end. Default: false. */
  removeSpecial?: boolean;
  /** Show control tokens as their text. Default: false. */
  showSpecial?: boolean;
}

/** A JSON value. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [name: string]: JsonValue };

/** A message of a conversation. Templates can use further fields, such as `tool_calls`. */
export interface ChatMessage {
  role: string;
  content?: JsonValue;
  [name: string]: JsonValue | undefined;
}

/** The conversation for `Model.renderTemplate`. */
export interface ChatConversation {
  /** The messages; at least one. */
  messages: readonly ChatMessage[];
  /** The descriptions of functions, as JSON Schema. */
  tools?: readonly JsonValue[];
  /** Documents with `title` and `text`. */
  documents?: readonly JsonValue[];
  /** Add the generation prompt, so that the text ends where the model's answer begins. Default: false. */
  addGenerationPrompt?: boolean;
  /** Other variables of the template by name, such as `{ enable_thinking: false }`. */
  variables?: Readonly<Record<string, JsonValue>>;
  /** The name of the template, `tokenizer.chat_template.NAME`. Default: the template without a name. */
  template?: string;
  /** The time that the template shows, in UTC. Default: now. */
  date?: Date;
}

/** A rendered conversation. Offsets are in bytes of the UTF-8 text; ends are exclusive. */
export interface RenderedTemplate {
  text: string;
  /** The parts of the text by origin, in order and without gaps. */
  segments: RenderedSegment[];
  /** The token IDs of the text. Without a usable vocabulary, this and the following fields are missing. */
  ids?: number[];
  /** The start and the end of each token. */
  offsets?: [start: number, end: number][];
  /** Whether each token is assistant output (`generation` blocks). */
  generated?: boolean[];
  /** Special tokens in message text, which are treated as plain text. */
  refused?: { id: number; start: number; end: number; from: string }[];
}

/** A part of a rendered text. */
export interface RenderedSegment {
  start: number;
  end: number;
  /** `template`, or the path of the text in the conversation, such as `messages[0].content`. */
  from: string;
  /** Whether the text is assistant output (`generation` blocks). */
  generated: boolean;
}

/** Metadata edits. Keys are first removed, then renamed, then set. */
export interface Edits {
  /** Keys to remove. They must exist. */
  remove?: readonly string[];
  /** New names of keys by their old names. */
  rename?: Readonly<Record<string, string>>;
  /**
   * New values by key. An existing key keeps its type. A new key needs a `TypedValue`, unless the
   * value is a string or a boolean.
   */
  set?: Readonly<Record<string, EditValue | TypedValue>>;
}

/** A value to set. */
export type EditValue = string | number | bigint | boolean | readonly (string | number | bigint | boolean)[] | NumberArray;

/** A value to set, with an explicit type. */
export interface TypedValue {
  readonly type: ValueType;
  /** The type of the elements of an array. */
  readonly subType?: ValueType;
  readonly value: EditValue;
}

/** A new header, and the size of the part of the file that it replaces. */
export class HeaderPatch {
  private constructor();
  /** The header of the edited file, including padding. */
  readonly header: Uint8Array;
  /** The number of bytes at the start of the file that the header replaces. */
  readonly replaces: number;
  /** Whether the header has the length of the old one, so that it can be overwritten in place. */
  readonly isInPlace: boolean;
  /** Returns the edited file. For a `Blob`, the result refers to the data of the original. */
  applyTo(file: Blob): Blob;
  applyTo(file: Uint8Array): Uint8Array;
}

/** Options for `Model.check`. */
export interface CheckOptions {
  /**
   * The rules to apply: those of the specification, of llama.cpp, or both; with `run`, chat templates
   * are also rendered, and the vocabulary is examined with its tokenizer; `threat` is that of `vet`.
   * Default: `all`.
   */
  profile?: "spec" | "ggml" | "all" | "run" | "threat";
  /** Apply only these rules: codes, prefixes of codes, or groups. */
  select?: readonly string[];
  /** Skip these rules: codes, prefixes of codes, or groups. */
  ignore?: readonly string[];
  /** The maximum number of findings listed per rule; the others are counted. Default: 20. */
  findingsPerRule?: number;
  /** The names of the files, if different from those of the sources. */
  names?: readonly string[];
}

/** The result of a check: `ggmill.check/1`. */
export interface CheckReport {
  schema: "ggmill.check/1";
  files: CheckedFile[];
}

/** The findings in a file. */
export interface CheckedFile {
  path: string;
  errors: number;
  warnings: number;
  notes: number;
  findings: Finding[];
  unlisted: { code: string; count: number }[];
}

/** A violation of a rule. */
export interface Finding {
  /** The code of the rule, such as `GG1301`. */
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

/** Options for `Model.estimate`. */
export interface EstimateOptions {
  /** The context length in tokens. Default: the length that the model was trained with. */
  context?: number;
  /** The logical batch size in tokens. Default: 2048. */
  batch?: number;
  /** The physical batch size in tokens. Default: 512. */
  microBatch?: number;
  /** The number of parallel sequences. Default: 1. */
  sequences?: number;
  /** Use one KV cache for all sequences. Default: false. */
  unified?: boolean;
  /** Use full-size KV caches for sliding-window attention layers. Default: false. */
  fullWindows?: boolean;
  /** The type of the K part of the KV cache. Default: `F16`. */
  keyType?: string;
  /** The type of the V part of the KV cache. Default: `F16`. */
  valueType?: string;
  /** Use flash attention. Default: if the architecture supports it. */
  flashAttention?: boolean;
  /** The number of layers on devices, counted from the last; the output layer counts as one more. Default: 0. */
  gpuLayers?: number;
  /** The proportions in which the layers are divided among devices. Default: one device. */
  tensorSplit?: readonly number[];
  /** Keep KV caches and recurrent states on the host. Default: false. */
  contextOnHost?: boolean;
  /** Find the longest context, or the largest number of layers, that fits on devices of these sizes in bytes. */
  fit?: readonly number[];
  /** The memory to keep free on each device in bytes. Default: 1 GiB. */
  reserve?: number;
}

/** The result of an estimate: `ggmill.estimate/1`. */
export interface EstimateReport {
  schema: "ggmill.estimate/1";
  architecture: string | null;
  estimates: Estimate[];
}

/** An estimate; sizes are in bytes. */
export interface Estimate {
  context: number | null;
  /** The context length in tokens that the model was trained with. */
  trained_context: number | null;
  sequences: number;
  key_type: string;
  value_type: string;
  flash_attention: boolean | null;
  layers: number;
  layer_count: number;
  devices: EstimateDevice[];
  total: number;
  /** What the numbers do not include. */
  unknown: { part: "weights" | "context" | "compute" | "backend"; message: string }[];
  /** Notes about the options. */
  notes: string[];
}

/** The memory used on a device, in bytes. */
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

/** A summary of a model: the `summary` of `ggmill.inspect/1`. */
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
  /** Fields that new versions may add. */
  [fact: string]: unknown;
}
