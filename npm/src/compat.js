// The functions of `@huggingface/gguf`, with its names and results.

import { GgmillError } from "./error.js";
import { FIRST, readHeader } from "./header.js";
import { Model } from "./model.js";
import { load } from "./module.js";
import { sourceOf } from "./source.js";
import { RecordWriter } from "./value.js";

export * from "./compat-names.js";

export const RE_GGUF_FILE = /\.gguf$/;
export const RE_GGUF_SHARD_FILE = /^(?<prefix>.*?)-(?<shard>\d{5})-of-(?<total>\d{5})\.gguf$/;

const ARRAY = 9;
const UINT32 = 4;
const UINT64 = 10;
const DEFAULT_ALIGNMENT = 32;
const PARALLEL_DOWNLOADS = 20;
/** Removes the byte order mark at the beginning of a string. */
const text = new TextDecoder();

const isBrowser = typeof window !== "undefined" && typeof window.document !== "undefined";
const isWorker = typeof self === "object" && self.constructor?.name === "DedicatedWorkerGlobalScope";

/** Parses the file name of a shard. */
export function parseGgufShardFilename(name) {
  const groups = RE_GGUF_SHARD_FILE.exec(name)?.groups;
  return groups === undefined ? null : { prefix: groups.prefix, shard: groups.shard, total: groups.total };
}

/** Rounds up to a multiple of an alignment, which is a power of two. */
function padded(length, alignment) {
  const at = BigInt(alignment);
  return ((BigInt(length) + at - 1n) / at) * at;
}

/** Reads the header of a file. */
export async function gguf(uri, params = {}) {
  const model = await opened(uri, params);
  try {
    return parsed(model, params);
  } finally {
    model.close();
  }
}

async function opened(uri, params) {
  const isRemote = /^https?:\/\//.test(uri);
  if (isBrowser || isWorker) {
    if (params.allowLocalFile) throw new Error("allowLocalFile cannot be used on browser");
  } else if (!isRemote && !params.allowLocalFile) {
    throw new Error("Access to local file is not enabled, please set allowLocalFile to true");
  }
  const module = await load("reader");
  const source = sourceOf(uri, { fetch: params.fetch, headers: params.additionalFetchHeaders });
  // Tensor data is not read, so a file may consist of a header only.
  const { file, header } = await readHeader(module, source, FIRST, true);
  const model = new Model(module, file, [header], [source]);
  if (model.shards[0].isWhole) return model;
  const [fault] = model.faults;
  model.close();
  throw fault ?? new GgmillError("malformed", `${uri}: the header does not end`);
}

function parsed(model, params) {
  const { version, metadata: entries } = model;
  const [tensorCount, keyCount] = [BigInt(model.shards[0].tensors), BigInt(entries.size)];
  const countType = version === 1 ? UINT32 : UINT64;
  const metadata = { version, tensor_count: tensorCount, kv_count: keyCount };
  const typedMetadata = {
    version: { value: version, type: UINT32 },
    tensor_count: { value: tensorCount, type: countType },
    kv_count: { value: keyCount, type: countType },
  };
  for (let at = 0; at < entries.size; at++) {
    const { key, type, subType, value } = entries.raw(at, text);
    const plain = type === ARRAY ? Array.from(value) : value;
    metadata[key] = plain;
    typedMetadata[key] = type === ARRAY ? { value: plain, type, subType } : { value: plain, type };
  }
  const start = BigInt(model.dataOffset);
  const tensorInfos = model.rawTensors(text).map(({ name, typeId, offset, shape }) => ({
    name,
    n_dims: shape.length,
    shape,
    dtype: typeId,
    offset: offset - start,
  }));
  const result = {
    metadata,
    tensorInfos,
    tensorDataOffset: padded(model.headerLength, metadata["general.alignment"] ?? DEFAULT_ALIGNMENT),
    littleEndian: model.endian === "little",
    tensorInfoByteRange: [model.tensorInfosOffset, model.headerLength],
  };
  if (params.computeParametersCount) result.parameterCount = parameterCount(tensorInfos, model.size);
  if (params.typedMetadata) result.typedMetadata = typedMetadata;
  return result;
}

/** The number of elements in all tensors; at least one bit of the file is required per element. */
function parameterCount(tensorInfos, size) {
  const elements = ({ shape }) => shape.reduce((product, dimension) => product * Number(dimension), 1);
  const count = tensorInfos.reduce((sum, info) => sum + elements(info), 0);
  if (size !== undefined && count > size * 8) {
    throw new GgmillError(
      "malformed",
      `the tensors have ${count} elements, the file has room for ${size * 8} at 1 bit each`,
    );
  }
  return count;
}

/** Reads the headers of all shards of a shard set, or of a single file. */
export async function ggufAllShards(url, params = {}) {
  const parallel = params.parallelDownloads ?? PARALLEL_DOWNLOADS;
  if (parallel < 1) throw new TypeError("parallelDownloads must be greater than 0");
  const name = parseGgufShardFilename(url);
  if (name === null) {
    const { parameterCount, ...shard } = await gguf(url, { ...params, computeParametersCount: true });
    return { shards: [shard], parameterCount, urls: [url] };
  }
  const total = parseInt(name.total);
  const padded = (number) => String(number).padStart(5, "0");
  const urls = Array.from({ length: total }, (_, at) => `${name.prefix}-${padded(at + 1)}-of-${padded(total)}.gguf`);
  const shards = new Array(total);
  let next = 0;
  const work = async () => {
    while (next < total) {
      const at = next++;
      shards[at] = await gguf(urls[at], { ...params, computeParametersCount: true });
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, total) }, work));
  return { shards, parameterCount: shards.reduce((sum, shard) => sum + shard.parameterCount, 0), urls };
}

/** The keys of typed metadata that are not metadata entries. */
const COUNTS = new Set(["version", "tensor_count", "kv_count"]);

/** Serializes the beginning of a file, up to the tensor infos. */
function serialized(typedMetadata, littleEndian) {
  const version = typedMetadata.version.value;
  const entries = Object.entries(typedMetadata).filter(([key]) => !COUNTS.has(key));
  const out = new RecordWriter(littleEndian, version);
  out.raw(new TextEncoder().encode("GGUF")).u32(version);
  out.size(typedMetadata.tensor_count.value).size(entries.length);
  for (const [key, { value, type, subType }] of entries) {
    if (value === undefined) throw new Error(`Value for key "${key}" is undefined`);
    if (type === ARRAY && subType === undefined) {
      throw new Error(`key ${key}: an array, expected the type of its elements as subType`);
    }
    out.string(key).u32(type).value(value, type, subType);
  }
  return out.finish();
}

/** Serializes metadata, padded to the alignment. */
export function serializeGgufMetadata(typedMetadata, options = {}) {
  const { littleEndian = true, alignment = DEFAULT_ALIGNMENT } = options;
  const bytes = serialized(typedMetadata, littleEndian);
  const result = new Uint8Array(Number(padded(bytes.length, alignment)));
  result.set(bytes);
  return result;
}

/** Creates the header of a file with updated metadata and its existing tensor infos. */
export async function buildGgufHeader(originalFileBlob, updatedMetadata, options) {
  const { littleEndian, tensorInfoByteRange, alignment = DEFAULT_ALIGNMENT } = options;
  const metadata = serialized(updatedMetadata, littleEndian);
  const infos = await originalFileBlob.slice(...tensorInfoByteRange).arrayBuffer();
  // The range as requested, even if the blob ends before it.
  const length = metadata.length + (tensorInfoByteRange[1] - tensorInfoByteRange[0]);
  const padding = new Uint8Array(Number(padded(length, alignment)) - length);
  return new Blob([metadata, infos, padding], { type: "application/octet-stream" });
}
