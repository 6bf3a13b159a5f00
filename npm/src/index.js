// GGUF model files from JavaScript.

import { readHeader } from "./header.js";
import { Model, join } from "./model.js";
import { OPERATION, load } from "./module.js";
import { firstRead, inParallel, sourcesOf } from "./sources.js";

export { GgmillError } from "./error.js";
export { HeaderPatch, Metadata, Model, Tensor } from "./model.js";
export { setWasm } from "./module.js";
export { vet } from "./vet.js";

/** Opens a model. */
export async function open(given, options = {}) {
  const module = await load("reader");
  const { sources, isSet } = sourcesOf(given, options);
  const read = (source, at) => readHeader(module, source, firstRead(at), options.damaged === true);
  const opened = await inParallel(sources, read, ({ file }) => module.call(OPERATION.close, file));
  const headers = opened.map(({ header }) => header);
  const files = opened.map(({ file }) => file);
  if (!isSet) return new Model(module, files[0], headers, sources);
  const { file, order } = join(module, files);
  return new Model(module, file, order.map((at) => headers[at]), order.map((at) => sources[at]));
}
