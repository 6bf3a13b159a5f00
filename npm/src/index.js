// GGUF model files from JavaScript.

import { GgmillError } from "./error.js";
import { FIRST, FIRST_OF_SHARD, readHeader } from "./header.js";
import { Model, join } from "./model.js";
import { OPERATION, load } from "./module.js";
import { sourceOf } from "./source.js";

export { GgmillError } from "./error.js";
export { HeaderPatch, Metadata, Model, Tensor } from "./model.js";
export { setWasm } from "./module.js";

/** The number of shards that are read in parallel. */
const SIDE_BY_SIDE = 8;
const SHARD = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;

/** Opens a model. */
export async function open(given, options = {}) {
  const module = await load("reader");
  if (Array.isArray(given)) return openShards(module, given, options);
  const siblings = options.shards === false ? undefined : siblingsOf(given);
  if (siblings !== undefined) return openShards(module, siblings, options);
  const source = sourceOf(given, options);
  const { file, header } = await readHeader(module, source, FIRST, options.damaged === true);
  return new Model(module, file, [header], [source]);
}

/** Returns the URLs of all shards of a set, by the name of one of them. */
function siblingsOf(given) {
  const isUrl = given instanceof URL;
  if (!isUrl && typeof given !== "string") return undefined;
  const text = isUrl ? given.href : given;
  const [, path, rest] = /^([^?#]*)(.*)$/s.exec(text);
  const match = SHARD.exec(path);
  const count = Number(match?.[3]);
  if (match === null || count < 2 || Number(match[2]) < 1 || Number(match[2]) > count) return undefined;
  const name = (at) => `${match[1]}-${String(at + 1).padStart(5, "0")}-of-${match[3]}.gguf${rest}`;
  return Array.from({ length: count }, (_, at) => (isUrl ? new URL(name(at)) : name(at)));
}

async function openShards(module, all, options) {
  if (all.length === 0) throw new GgmillError("misuse", "expected at least one file");
  const sources = all.map((given) => sourceOf(given, options));
  const opened = new Array(sources.length);
  let next = 0;
  const work = async () => {
    while (next < sources.length) {
      const at = next++;
      const first = at === 0 ? FIRST : FIRST_OF_SHARD;
      opened[at] = await readHeader(module, sources[at], first, options.damaged === true);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(SIDE_BY_SIDE, sources.length) }, work));
  } catch (error) {
    next = sources.length;
    for (const one of opened) if (one !== undefined) module.call(OPERATION.close, one.file);
    throw error;
  }
  const headers = opened.map(({ header }) => header);
  return new Model(module, join(module, opened.map(({ file }) => file)), headers, sources);
}
