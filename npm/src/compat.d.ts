// The exports of `@huggingface/gguf`.

export enum GGUFValueType {
  UINT8 = 0,
  INT8 = 1,
  UINT16 = 2,
  INT16 = 3,
  UINT32 = 4,
  INT32 = 5,
  FLOAT32 = 6,
  BOOL = 7,
  STRING = 8,
  ARRAY = 9,
  UINT64 = 10,
  INT64 = 11,
  FLOAT64 = 12,
}

/** Tensor types. */
export enum GGMLQuantizationType {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q8_1 = 9,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  Q8_K = 15,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  IQ1_M = 29,
  BF16 = 30,
  TQ1_0 = 34,
  TQ2_0 = 35,
  MXFP4 = 39,
  NVFP4 = 40,
  Q1_0 = 41,
  Q2_0 = 42,
}

/** File types. */
export enum GGMLFileQuantizationType {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q4_1_SOME_F16 = 4,
  Q4_2 = 5,
  Q4_3 = 6,
  Q8_0 = 7,
  Q5_0 = 8,
  Q5_1 = 9,
  Q2_K = 10,
  Q3_K_S = 11,
  Q3_K_M = 12,
  Q3_K_L = 13,
  Q4_K_S = 14,
  Q4_K_M = 15,
  Q5_K_S = 16,
  Q5_K_M = 17,
  Q6_K = 18,
  IQ2_XXS = 19,
  IQ2_XS = 20,
  Q2_K_S = 21,
  IQ3_XS = 22,
  IQ3_XXS = 23,
  IQ1_S = 24,
  IQ4_NL = 25,
  IQ3_S = 26,
  IQ3_M = 27,
  IQ2_S = 28,
  IQ2_M = 29,
  IQ4_XS = 30,
  IQ1_M = 31,
  BF16 = 32,
  Q4_0_4_4 = 33,
  Q4_0_4_8 = 34,
  Q4_0_8_8 = 35,
  TQ1_0 = 36,
  TQ2_0 = 37,
  MXFP4_MOE = 38,
  NVFP4 = 39,
  Q1_0 = 40,
  Q2_0 = 41,
  Q2_K_XL = 1000,
  Q3_K_XL = 1001,
  Q4_K_XL = 1002,
  Q5_K_XL = 1003,
  Q6_K_XL = 1004,
  Q8_K_XL = 1005,
}

/** Descriptions of the tensor types. */
export const GGUF_QUANT_DESCRIPTIONS: Readonly<Record<GGMLQuantizationType, { txt: string; src_url?: string }>>;
/** File types, ordered from the largest to the smallest. */
export const GGUF_QUANT_ORDER: GGMLFileQuantizationType[];
export const GGUF_QUANT_RE: RegExp;
export const GGUF_QUANT_RE_GLOBAL: RegExp;
/** Returns the type in a file name; the last one if there are several. */
export function parseGGUFQuantLabel(name: string): string | undefined;
/** Returns the largest available type that is not larger than `wanted`, or else the smallest available one. */
export function findNearestQuantType(
  wanted: GGMLFileQuantizationType,
  available: GGMLFileQuantizationType[],
): GGMLFileQuantizationType | undefined;

export type Version = 1 | 2 | 3;
/** The name of an architecture. */
export type Architecture = string;
export type MetadataBaseValue = string | number | bigint | boolean;
export type MetadataValue = MetadataBaseValue | MetadataBaseValue[] | MetadataValue[];

/** With `strict`, the type of the metadata has only the known keys and keys with a dot. */
export interface GGUFMetadataOptions {
  strict: boolean;
}

/** The types of known keys. */
export interface GGUFKnownMetadata {
  "general.architecture"?: Architecture;
  "general.name"?: string;
  "general.file_type"?: GGMLFileQuantizationType;
  "general.quantization_version"?: number;
  "tokenizer.ggml.model"?: string;
  "tokenizer.ggml.tokens"?: string[];
  "tokenizer.ggml.scores"?: number[];
  "tokenizer.ggml.token_type"?: number[];
  "tokenizer.ggml.bos_token_id"?: number;
  "tokenizer.ggml.eos_token_id"?: number;
  "tokenizer.ggml.add_bos_token"?: boolean;
  "tokenizer.chat_template"?: string;
}

export type GGUFMetadata<Options extends GGUFMetadataOptions = { strict: true }> = {
  version: Version;
  tensor_count: bigint;
  kv_count: bigint;
} & GGUFKnownMetadata &
  (Options extends { strict: true } ? { [key: `${string}.${string}`]: any } : Record<string, any>);

export interface GGUFTypedEntry<T = MetadataValue> {
  value: T;
  type: GGUFValueType;
  subType?: GGUFValueType;
}

export type GGUFTypedMetadata = {
  version: { value: Version; type: GGUFValueType.UINT32 };
  tensor_count: { value: bigint; type: GGUFValueType.UINT32 | GGUFValueType.UINT64 };
  kv_count: { value: bigint; type: GGUFValueType.UINT32 | GGUFValueType.UINT64 };
} & Record<string, GGUFTypedEntry<any>>;

export interface GGUFTensorInfo {
  name: string;
  n_dims: number;
  shape: bigint[];
  dtype: GGMLQuantizationType;
  /** The offset of the data, relative to `tensorDataOffset`. */
  offset: bigint;
}

export interface GGUFParseOutput<Options extends GGUFMetadataOptions = { strict: true }> {
  metadata: GGUFMetadata<Options>;
  tensorInfos: GGUFTensorInfo[];
  tensorDataOffset: bigint;
  littleEndian: boolean;
  tensorInfoByteRange: [number, number];
}

export interface GgufParams {
  /** A function to use instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
  additionalFetchHeaders?: Record<string, string>;
  /** Allow paths of local files (not in browsers). */
  allowLocalFile?: boolean;
}

/** Reads the header of a file. Tensor data is not read. */
export function gguf(
  uri: string,
  params: GgufParams & { typedMetadata: true; computeParametersCount: true },
): Promise<GGUFParseOutput & { parameterCount: number; typedMetadata: GGUFTypedMetadata }>;
export function gguf(
  uri: string,
  params: GgufParams & { typedMetadata: true },
): Promise<GGUFParseOutput & { typedMetadata: GGUFTypedMetadata }>;
export function gguf(
  uri: string,
  params: GgufParams & { computeParametersCount: true },
): Promise<GGUFParseOutput & { parameterCount: number }>;
export function gguf(uri: string, params?: GgufParams): Promise<GGUFParseOutput>;

/** Reads the headers of all shards of a shard set, or of a single file. */
export function ggufAllShards(
  url: string,
  params?: GgufParams & { parallelDownloads?: number },
): Promise<{ shards: GGUFParseOutput[]; parameterCount: number; urls: string[] }>;

export interface GgufShardFileInfo {
  prefix: string;
  shard: string;
  total: string;
}

export const RE_GGUF_FILE: RegExp;
export const RE_GGUF_SHARD_FILE: RegExp;
/** Parses the file name of a shard; returns `null` if it is not one. */
export function parseGgufShardFilename(filename: string): GgufShardFileInfo | null;

/** Serializes metadata, padded to the alignment. */
export function serializeGgufMetadata(
  typedMetadata: GGUFTypedMetadata,
  options?: { littleEndian?: boolean; alignment?: number },
): Uint8Array;

/** Creates the header of a file with updated metadata and its existing tensor infos. */
export function buildGgufHeader(
  originalFileBlob: Blob,
  updatedMetadata: GGUFTypedMetadata,
  options: { littleEndian: boolean; tensorInfoByteRange: [number, number]; alignment?: number },
): Promise<Blob>;
