// What the page asks its worker for.

import type {
  ChatConversation,
  CheckReport,
  Edits,
  EntryType,
  EstimateOptions,
  EstimateReport,
  RenderedTemplate,
  Summary,
  TokenizedText,
  TokenizeOptions,
  Value,
} from "ggmill";

/** What is opened: files, or an address. */
export type Given = readonly File[] | string;

/** The model that is inspected, or the one that it is compared with. */
export type Slot = "model" | "other";

/** A metadata entry. */
export interface Entry extends EntryType {
  readonly key: string;
  /** The value, unless it is a long array. */
  readonly value?: Value;
}

export interface TensorRow {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly number[];
  readonly elements: number;
  readonly size: number | undefined;
  readonly offset: number;
  readonly shard: number;
}

/** What opening a model gives. */
export interface Listing {
  readonly name: string;
  readonly size: number | undefined;
  readonly version: number;
  readonly endian: string;
  readonly alignment: number;
  readonly headerLength: number;
  readonly dataOffset: number;
  readonly shards: number;
  readonly parameters: number;
  readonly entries: readonly Entry[];
  readonly tensors: readonly TensorRow[];
  readonly faults: readonly string[];
  readonly reads: number;
  readonly bytesRead: number;
  readonly milliseconds: number;
}

/** Elements of an array that match a query. */
export interface Rows {
  readonly total: number;
  readonly rows: readonly ArrayRow[];
}

/** An element of an array. A token has its type and score too. */
export interface ArrayRow {
  readonly index: number;
  readonly value: string;
  readonly type?: number;
  readonly score?: number;
}

/** The values of a tensor, or of evenly spaced parts of it. */
export interface Weights {
  /** How many values were decoded. */
  readonly sampled: number;
  readonly minimum: number;
  readonly maximum: number;
  readonly mean: number;
  readonly deviation: number;
  readonly zeros: number;
  readonly nonFinite: number;
  /** Counts of equal intervals from -`limit` to `limit`; values beyond are in the first and last. */
  readonly bins: Uint32Array;
  readonly limit: number;
  /** The root mean square of parts of the matrix, row by row. */
  readonly heat: Float32Array;
  readonly heatWidth: number;
  readonly heatHeight: number;
}

/** A difference between two models. Absent where a model does not have it. */
export interface Difference {
  readonly name: string;
  readonly before?: string;
  readonly after?: string;
}

export interface Differences {
  readonly metadata: readonly Difference[];
  readonly tensors: readonly Difference[];
  readonly sameEntries: number;
  readonly sameTensors: number;
}

export interface Patch {
  readonly header: Uint8Array<ArrayBuffer>;
  readonly replaces: number;
}

/** The calls of the worker. */
export interface Api {
  open(slot: Slot, given: Given): Listing;
  summary(slot: Slot): Summary;
  check(slot: Slot): CheckReport;
  estimate(slot: Slot, options: EstimateOptions): EstimateReport;
  value(slot: Slot, key: string): Value | undefined;
  rows(slot: Slot, key: string, query: string, from: number, to: number): Rows;
  weights(slot: Slot, tensor: number): Weights;
  edit(slot: Slot, edits: Edits): Patch;
  meantKey(slot: Slot, key: string): string | undefined;
  tokenize(slot: Slot, text: string, options: TokenizeOptions): TokenizedText;
  render(slot: Slot, conversation: ChatConversation): RenderedTemplate;
  compare(): Differences;
}

export type Call = { [Name in keyof Api]: { id: number; name: Name; args: Parameters<Api[Name]> } }[keyof Api];

export type Answer =
  | { id: number; result: unknown }
  | { id: number; error: { message: string; kind?: string } };
