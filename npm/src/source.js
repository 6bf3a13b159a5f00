// Sources of bytes: memory, blobs, local files, URLs, and objects with random access.

import { GgmillError } from "./error.js";
import { HttpSource } from "./http.js";

/** Creates a source from an argument of `open`. */
export function sourceOf(given, options = {}) {
  if (typeof given === "string") return ofText(given, options);
  if (given instanceof URL) return ofUrl(given, options);
  if (typeof Blob !== "undefined" && given instanceof Blob) return ofBlob(given);
  if (given instanceof ArrayBuffer) return ofBytes(new Uint8Array(given));
  if (ArrayBuffer.isView(given)) {
    return ofBytes(new Uint8Array(given.buffer, given.byteOffset, given.byteLength));
  }
  if (typeof given?.read === "function") return ofReader(given);
  throw new GgmillError(
    "misuse",
    "expected a URL, a path, a Blob, bytes, or an object with read(offset, length)",
  );
}

/** Returns the URL of a file on the Hugging Face Hub: `hf://OWNER/NAME[@REVISION]/PATH`. */
function hubUrl(text, hub) {
  const match = /^hf:\/\/(?:(models|datasets)\/)?([^/@]+)\/([^/@]+)(?:@([^/]+))?\/(.+)$/.exec(text);
  if (match === null) {
    throw new GgmillError("misuse", `${text}: expected hf://OWNER/NAME[@REVISION]/PATH`);
  }
  const [, kind, owner, name, revision = "main", path] = match;
  const prefix = kind === "datasets" ? "datasets/" : "";
  const parts = [owner, name, "resolve", revision, ...path.split("/")].map(encodeURIComponent);
  return new URL(`${prefix}${parts.join("/")}`, `${hub.replace(/\/+$/, "")}/`);
}

function ofText(text, options) {
  if (text.startsWith("hf://")) return ofUrl(hubUrl(text, options.hub ?? "https://huggingface.co"), options);
  // A single letter before a colon is a drive.
  if (/^[a-z][a-z0-9+.-]+:/i.test(text)) return ofUrl(new URL(text), options);
  if (globalThis.process?.versions?.node !== undefined) return new FileSource(text);
  const base = globalThis.location?.href;
  if (base === undefined) throw new GgmillError("misuse", `${text}: expected a URL`);
  return ofUrl(new URL(text, base), options);
}

function ofUrl(url, options) {
  if (url.protocol === "file:") return new FileSource(url);
  if (url.protocol === "hf:") return ofText(url.href, options);
  if (url.protocol !== "http:" && url.protocol !== "https:" && url.protocol !== "blob:") {
    throw new GgmillError("misuse", `${url.protocol}//…: expected http, https, hf or file`);
  }
  return new HttpSource(url, options);
}

function ofBytes(bytes) {
  return {
    size: bytes.length,
    read: async (offset, length) => bytes.subarray(offset, offset + length),
  };
}

/** An object with random access, which its owner closes. */
function ofReader(given) {
  return {
    get size() {
      return given.size;
    },
    name: given.name,
    read: (offset, length) => given.read(offset, length),
  };
}

function ofBlob(blob) {
  return {
    size: blob.size,
    name: blob.name,
    read: async (offset, length) => {
      try {
        return new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
      } catch (cause) {
        const name = blob.name ?? "the blob";
        throw new GgmillError("io", `${name}: bytes from ${offset} cannot be read: ${cause.message}`, { cause });
      }
    },
  };
}

/** A local file, read by Node.js, Deno or Bun. */
class FileSource {
  #path;
  #file;

  constructor(path) {
    this.#path = path;
    this.name = String(path);
  }

  async read(offset, length) {
    this.#file ??= this.#open();
    const file = await this.#file;
    const bytes = new Uint8Array(Math.max(0, Math.min(length, this.size - offset)));
    let done = 0;
    while (done < bytes.length) {
      const { bytesRead } = await file.read(bytes, done, bytes.length - done, offset + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return bytes.subarray(0, done);
  }

  async #open() {
    const { open } = await import("node:fs/promises");
    const file = await open(this.#path, "r");
    this.size = (await file.stat()).size;
    return file;
  }

  async close() {
    const file = this.#file;
    this.#file = undefined;
    await (await file?.catch(() => undefined))?.close();
  }
}

/**
 * Reads `length` bytes, or fewer only at the end of the source.
 */
export async function readRange(source, offset, length) {
  const bytes = await source.read(offset, length);
  if (!(bytes instanceof Uint8Array)) {
    throw new GgmillError("misuse", "read(offset, length): expected a Uint8Array");
  }
  if (bytes.length > length) return bytes.subarray(0, length);
  const end = offset + bytes.length;
  if (bytes.length < length && source.size !== undefined && end < source.size) {
    const name = source.name ?? "the source";
    throw new GgmillError(
      "io",
      `${name}: ${bytes.length} bytes came from ${offset} on, expected ${length} of ${source.size}`,
    );
  }
  return bytes;
}
