// What the tests share: the corpus, the command, a server that counts.

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

/** A directory of files with names like `valid-tiny.gguf`, `broken-…`, `limited-…`. */
const CORPUS = process.env.GGMILL_CORPUS;
/** Larger real files, where they are. */
const DATA = process.env.GGMILL_DATA;
/** The command that results are compared with. */
const COMMAND = process.env.GGMILL;

/** Valid only under limits of their own. */
const BEYOND_LIMITS = ["array-depth-9", "six-dimensions"];

function files(directory, accepts) {
  if (directory === undefined || !existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(".gguf") && accepts(name))
    .sort()
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile());
}

/** Files of the corpus. Of the valid ones some exceed the limits of a reader, and are no others. */
export const corpus = (kind) => {
  const found = files(CORPUS, (name) => name.startsWith(`${kind}-`));
  return kind === "valid" ? found.filter((path) => !BEYOND_LIMITS.some((name) => path.includes(name))) : found;
};
/** Vocabularies without tensors, in the repository. */
export const vocabularies = () =>
  files(join(import.meta.dirname, "../../crates/ggmill-testdata/real"), (name) => name.startsWith("ggml-vocab-"));
export const data = () => files(DATA, () => true);

/** Whether there is a command to compare with, or words about it for `skip`. */
export const withoutCommand = COMMAND === undefined ? "GGMILL names no command to compare with" : false;
export const withoutCorpus = CORPUS === undefined ? "GGMILL_CORPUS names no directory" : false;

/** What the command prints. It fails where it has findings, and prints them all the same. */
export function ggmill(...args) {
  try {
    return execFileSync(COMMAND, args, { encoding: "utf8", maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    if (error.status === 1) return error.stdout;
    throw error;
  }
}

/** A little-endian file of version 3 with these entries and tensors of type F32. */
export function file(entries = {}, tensors = {}) {
  const parts = [];
  const u32 = (value) => parts.push(Buffer.from(Uint32Array.of(value).buffer));
  const u64 = (value) => parts.push(Buffer.from(BigUint64Array.of(BigInt(value)).buffer));
  const string = (text) => {
    const bytes = Buffer.from(text);
    u64(bytes.length);
    parts.push(bytes);
  };
  parts.push(Buffer.from("GGUF"));
  u32(3);
  u64(Object.keys(tensors).length);
  u64(Object.keys(entries).length);
  for (const [key, value] of Object.entries(entries)) {
    string(key);
    if (typeof value === "number") {
      u32(4);
      u32(value);
    } else if (value instanceof Int32Array || value instanceof Float32Array) {
      u32(9);
      u32(value instanceof Int32Array ? 5 : 6);
      u64(value.length);
      parts.push(Buffer.from(value.buffer));
    } else if (Array.isArray(value)) {
      u32(9);
      u32(8);
      u64(value.length);
      value.forEach(string);
    } else {
      u32(8);
      string(value);
    }
  }
  let offset = 0;
  for (const [name, values] of Object.entries(tensors)) {
    string(name);
    u32(1);
    u64(values.length);
    u32(0);
    u64(offset);
    offset += Math.ceil((values.length * 4) / 32) * 32;
  }
  const pad = () => {
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    parts.push(Buffer.alloc((32 - (length % 32)) % 32));
  };
  pad();
  for (const values of Object.values(tensors)) {
    parts.push(Buffer.from(Float32Array.from(values).buffer));
    pad();
  }
  return new Uint8Array(Buffer.concat(parts));
}

/**
 * Serves what `answer` gives for a request (`{ path, headers, range, number }`): `{ status, headers,
 * body, cut }`. Remembers every request.
 */
export async function serve(answer) {
  const requests = [];
  const server = createServer((request, response) => {
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    const asked = {
      path: request.url,
      headers: request.headers,
      range: range === null ? undefined : [Number(range[1]), Number(range[2]) + 1],
      number: requests.length,
    };
    requests.push(asked);
    const { status = 200, headers = {}, body = Buffer.alloc(0), cut } = answer(asked);
    response.writeHead(status, { "content-length": body.length, ...headers });
    if (cut === undefined) {
      response.end(body);
    } else {
      response.write(body.subarray(0, cut), () => response.destroy());
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url, requests, close, bytes: () => requests.reduce((sum, { sent = 0 }) => sum + sent, 0) };
}

/** The answer of a good server to a request for a file. */
export function ranged(bytes, request, etag = '"one"') {
  if (request.range === undefined) return { status: 200, headers: { etag }, body: bytes };
  const [start, end] = [request.range[0], Math.min(request.range[1], bytes.length)];
  if (start >= bytes.length) return { status: 416, headers: { "content-range": `bytes */${bytes.length}` } };
  const headers = { etag, "content-range": `bytes ${start}-${end - 1}/${bytes.length}` };
  const body = bytes.subarray(start, end);
  request.sent = body.length;
  return { status: 206, headers, body };
}

export const read = (path) => new Uint8Array(readFileSync(path));
