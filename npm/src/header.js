// Reading the header of a file, in a few reads of increasing size.

import { GgmillError } from "./error.js";
import { OPERATION } from "./module.js";
import { readRange } from "./source.js";
import { NONE, RecordReader } from "./value.js";

/** The size of the first read in bytes. */
export const FIRST = 512 * 1024;
/** The size of the first read of the second and later shards, whose headers contain little but tensor infos. */
export const FIRST_OF_SHARD = 64 * 1024;
/** The factor by which each read is larger than the previous one. */
const GROWTH = 4;
/** The maximum size of a read in bytes. */
const LARGEST = 8 * 1024 * 1024;

/** The parts of a file that were read, to be passed to another module. */
export class Header {
  constructor(size, pieces, damaged) {
    this.size = size;
    this.pieces = pieces;
    this.damaged = damaged;
  }

  /** Passes the parts to a module, which is then reading the file. */
  feed(module) {
    const feeder = new Feeder(module, this.size);
    for (const piece of this.pieces) {
      if (feeder.feed(piece, this.damaged) === 0) break;
    }
    return feeder;
  }

  /** Passes the parts to a module, and returns its number for the open file. */
  open(module) {
    return this.feed(module).finish(this.damaged);
  }
}

/** A file in a module, up to the end of its header. */
class Feeder {
  constructor(module, size) {
    this.module = module;
    const length = size === undefined ? NONE : BigInt(size);
    this.file = number(module.call(OPERATION.begin, 0, length));
  }

  /** Passes bytes to the module. Returns how many bytes of the file are needed, or 0 at the end of the header. */
  feed(bytes, damaged) {
    try {
      return Number(new RecordReader(this.module.call(OPERATION.feed, this.file, 0n, bytes)).u64());
    } catch (error) {
      // The reason is one of the faults.
      if (damaged && error instanceof GgmillError) return 0;
      this.module.call(OPERATION.close, this.file);
      throw error;
    }
  }

  finish(damaged) {
    return number(this.module.call(OPERATION.finish, this.file, damaged ? 1n : 0n));
  }
}

/** Reads the number of a file from its record. */
export function number(record) {
  return new RecordReader(record).u32();
}

function holdSize({ size, name }) {
  if (size === undefined || Number.isSafeInteger(size)) return;
  throw new GgmillError("limit", `${name ?? "the file"}: it has ${size} bytes, but the limit is 2^53 - 1`);
}

/** Reads the header of a source into a module, which is then reading the file. */
export async function readParts(module, source, first, damaged) {
  holdSize(source);
  const beginning = await readRange(source, 0, Math.min(first, source.size ?? first));
  // The size of a remote file is known only now.
  holdSize(source);
  const { size } = source;
  const pieces = [beginning];
  const feeder = new Feeder(module, size);
  let position = beginning.length;
  let step = first;
  try {
    let needed = feeder.feed(beginning, damaged);
    while (needed > 0 && needed <= (size ?? Infinity)) {
      step = Math.min(step * GROWTH, LARGEST);
      const wanted = size === undefined ? step : Math.min(step, size - position);
      const piece = await readRange(source, position, wanted);
      if (piece.length === 0) break;
      pieces.push(piece);
      position += piece.length;
      needed = feeder.feed(piece, damaged);
    }
    return { feeder, header: new Header(size, pieces, damaged) };
  } catch (error) {
    throw explained(error, source, beginning);
  } finally {
    // A local file is opened again when tensors are read.
    await source.close?.();
  }
}

/** Opens the header of a source in a module. */
export async function readHeader(module, source, first, damaged) {
  const { feeder, header } = await readParts(module, source, first, damaged);
  try {
    return { file: feeder.finish(damaged), header };
  } catch (error) {
    throw explained(error, source, header.pieces[0]);
  }
}

/** Detects the format of a file that is not GGUF by its beginning. */
const OTHERS = [
  [/^version https:\/\/git-lfs/, "a Git LFS pointer, not the file: download it by its resolve address"],
  [/^\s*<(!doctype|html|head|\?xml)/i, "a page, not a model: the address may need /resolve/ instead of /blob/"],
  [/^\s*[{[]/, "JSON, not a model"],
  [/^PK\x03\x04/, "a ZIP archive, as PyTorch writes"],
];

function explained(error, source, beginning) {
  if (!(error instanceof GgmillError)) return error;
  const name = source.name ?? "the file";
  let { message } = error;
  if (error.kind === "not_gguf") {
    const text = String.fromCharCode(...beginning.subarray(0, 64));
    const other = OTHERS.find(([pattern]) => pattern.test(text))?.[1];
    if (other !== undefined) message = `${message}; it is ${other}`;
  }
  if (!message.includes(name)) message = `${name}: ${message}`;
  return new GgmillError(error.kind, message, error);
}
