// The sources of a model: one file, or the shards of a set.

import { GgmillError } from "./error.js";
import { FIRST, FIRST_OF_SHARD } from "./header.js";
import { sourceOf } from "./source.js";

/** The number of shards that are read in parallel. */
const SIDE_BY_SIDE = 8;
const SHARD = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;
/** An address; a single letter before a colon is a drive. */
const ADDRESS = /^[a-z][a-z0-9+.-]+:/i;

/**
 * Returns the sources of a model with their paths, and whether they are the shards of a set: a list of
 * sources, or the URL of one shard.
 */
export function sourcesOf(given, options) {
  const siblings = options.shards === false ? undefined : siblingsOf(given);
  const isSet = Array.isArray(given) || siblings !== undefined;
  const all = isSet ? (siblings ?? given) : [given];
  if (all.length === 0) throw new GgmillError("misuse", "expected at least one file");
  const sources = all.map((one) => sourceOf(one, options));
  return { sources, isSet, paths: all.map((one, at) => pathOf(one) ?? sources[at].name ?? "") };
}

/** Returns a path or an address for reports, without the parts of an address that may be secret. */
function pathOf(given) {
  const text = given instanceof URL ? given.href : given;
  if (typeof text !== "string") return undefined;
  return ADDRESS.test(text) ? text.replace(/[?#].*$/s, "") : text;
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

/** Returns the size of the first read of a file of a set. */
export const firstRead = (at) => (at === 0 ? FIRST : FIRST_OF_SHARD);

/** Runs `work` for each item, several in parallel. If one fails, `undo` runs for the results of the others. */
export async function inParallel(items, work, undo) {
  const results = new Array(items.length);
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const at = next++;
      results[at] = await work(items[at], at);
    }
  };
  const workers = Array.from({ length: Math.min(SIDE_BY_SIDE, items.length) }, worker);
  try {
    await Promise.all(workers);
  } catch (error) {
    next = items.length;
    await Promise.allSettled(workers);
    for (const result of results) if (result !== undefined) undo(result);
    throw error;
  }
  return results;
}
