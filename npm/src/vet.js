// Vetting: whether a model is safe to hand to a loader.

import { compareReasons } from "./check.js";
import { GgmillError } from "./error.js";
import { readParts } from "./header.js";
import { OPERATION, load } from "./module.js";
import { firstRead, inParallel, sourcesOf } from "./sources.js";

/** Says whether a model is safe to hand to a loader, and why not. */
export async function vet(given, options = {}) {
  const reader = await load("reader");
  const { sources, paths } = sourcesOf(given, options);
  const close = ({ feeder }) => reader.call(OPERATION.close, feeder.file);
  const read = await inParallel(sources, (source, at) => readParts(reader, source, firstRead(at), true), close);
  read.forEach(close);
  const headers = read.map(({ header }) => header);
  const reasons = await vetModel(headers, paths);
  return { schema: "ggmill.verdict/1", safe: reasons.length === 0, reasons };
}

/** Vets files as one model, or one by one if they are not all shards of a set. */
async function vetModel(headers, names) {
  try {
    return await reasonsIn(headers, names);
  } catch (error) {
    if (!(error instanceof GgmillError) || headers.length === 1) throw error;
  }
  const each = await Promise.all(headers.map((header, at) => reasonsIn([header], [names[at]])));
  return each.flat();
}

/** Returns the reasons for every file, in the order of `ggmill check`. */
async function reasonsIn(headers, names) {
  const { verdicts, text } = vetIn(await load("core"), headers, names);
  const others = text ? vetIn(await load("text"), headers, names).verdicts : [];
  return verdicts.flatMap(({ reasons }, at) => [...reasons, ...(others[at]?.reasons ?? [])].sort(compareReasons));
}

/** Returns the verdicts by the rules of a module. */
function vetIn(module, headers, names) {
  const files = headers.map((header) => header.feed(module).file);
  const input = new TextEncoder().encode(JSON.stringify({ files, names }));
  return JSON.parse(new TextDecoder().decode(module.call(OPERATION.vet, 0, 0n, input)));
}
