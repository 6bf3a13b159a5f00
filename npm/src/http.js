// A remote file, read by range requests with retries for temporary failures.

import { GgmillError } from "./error.js";

/** The maximum number of attempts per request. */
const TRIES = 4;
/** The delay before the second attempt in milliseconds; it doubles for each further one. */
const PAUSE = 250;
/** The maximum delay that a server can request, in milliseconds. */
const LONGEST_PAUSE = 30_000;
/** Status codes of failures that may be temporary. */
const TRANSIENT = new Set([408, 425, 429, 500, 502, 503, 504]);

/** A remote file. */
export class HttpSource {
  #url;
  #options;
  /** The validator of the content, from the first response. */
  #etag;
  /** The whole body, if the server ignores ranges. */
  #stream;

  constructor(url, options) {
    this.#url = url;
    this.#options = options;
    this.name = url.pathname.split("/").pop() || url.host;
  }

  /** The URL for messages, without parts that may be secret. */
  get #shown() {
    return `${this.#url.origin}${this.#url.pathname}`;
  }

  async read(offset, length) {
    if (length === 0) return new Uint8Array(0);
    if (this.#stream !== undefined) return this.#fromStream(offset, length);
    let last;
    for (let attempt = 0; attempt < TRIES; attempt++) {
      if (attempt > 0) await this.#pause(attempt, last);
      try {
        return await this.#request(offset, length);
      } catch (error) {
        if (!(error instanceof Passing)) throw error;
        last = error;
      }
    }
    throw this.#fail("unavailable", `${last.message}, after ${TRIES} tries`, { cause: last.cause });
  }

  async #pause(attempt, last) {
    const wanted = last.after ?? PAUSE * 2 ** (attempt - 1);
    const time = Math.min(wanted, LONGEST_PAUSE);
    const { signal } = this.#options;
    await new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", stop);
        resolve();
      }, time);
      signal?.addEventListener("abort", stop, { once: true });
    });
  }

  #fail(kind, message, details) {
    return new GgmillError(kind, `${this.#shown}: ${message}`, details);
  }

  async #request(offset, length) {
    const { fetch = globalThis.fetch, headers, signal } = this.#options;
    const asked = new Headers(headers);
    asked.set("Range", `bytes=${offset}-${offset + length - 1}`);
    let response;
    try {
      response = await fetch(this.#url, { headers: asked, signal });
    } catch (cause) {
      if (signal?.aborted) throw cause;
      if (await this.#isRefusedToPages(fetch)) {
        const message = "the server does not allow pages from other origins to read it (CORS): download the file and open the copy";
        throw this.#fail("denied", message, { cause });
      }
      throw new Passing(`the server did not answer (${cause.message})`, cause);
    }
    const { status } = response;
    if (status === 206) return this.#range(response, offset, length);
    if (status === 200) return this.#whole(response, offset, length);
    await response.body?.cancel();
    if (status === 416) return this.#beyond(response, offset);
    const message = `status ${status}${advice(status)}`;
    if (TRANSIENT.has(status)) throw new Passing(message, undefined, retryAfter(response));
    throw this.#fail(kindOf(status), message, { status });
  }

  /**
   * Returns whether the server is reachable but rejects cross-origin requests. A browser reports both
   * cases as the same network error; an opaque (`no-cors`) request distinguishes them.
   */
  async #isRefusedToPages(fetch) {
    const { signal } = this.#options;
    try {
      const origin = globalThis.location?.origin;
      if (origin === undefined || origin === this.#url.origin) return false;
      const { type } = await fetch(this.#url, { method: "HEAD", mode: "no-cors", signal });
      return type === "opaque";
    } catch {
      return false;
    }
  }

  /** Handles the response to a request for bytes beyond the end of the file. */
  #beyond(response, offset) {
    const total = /^bytes \*\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1];
    if (total !== undefined && this.size === undefined) this.size = Number(total);
    if (this.size !== undefined && offset >= this.size) return new Uint8Array(0);
    throw this.#fail("io", `status 416, expected bytes from ${offset} on`, { status: 416 });
  }

  async #range(response, offset, length) {
    const field = response.headers.get("content-range");
    const found = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(field ?? "");
    // For cross-origin requests, the header is visible only if the server exposes it.
    if (found !== null) {
      const [first, last] = [Number(found[1]), Number(found[2])];
      if (first !== offset || last >= offset + length || last < first) {
        await response.body?.cancel();
        throw this.#fail("io", `bytes ${first} to ${last} came, ${offset} to ${offset + length - 1} were asked for`);
      }
      length = last - first + 1;
      if (found[3] !== "*") await this.#hold("size", Number(found[3]), response);
    }
    const etag = response.headers.get("etag");
    if (etag !== null) await this.#hold("etag", etag, response);
    let bytes;
    try {
      bytes = new Uint8Array(await response.arrayBuffer());
    } catch (cause) {
      if (this.#options.signal?.aborted) throw cause;
      throw new Passing(`the connection broke off within bytes from ${offset} on`, cause);
    }
    if (found !== null && bytes.length !== length) {
      throw new Passing(`${bytes.length} bytes came from ${offset} on, ${length} were announced`);
    }
    return bytes;
  }

  /** Compares a response with the first one; a file that changed is an error. */
  async #hold(what, found, response) {
    const known = what === "size" ? this.size : this.#etag;
    if (known === undefined) {
      if (what === "size") this.size = found;
      else this.#etag = found;
      return;
    }
    if (known === found) return;
    await response.body?.cancel();
    const name = what === "size" ? "length" : "entity tag";
    throw this.#fail("changed", `the file changed while it was read: ${name} ${found}, before ${known}`);
  }

  /** Handles the response of a server that ignores ranges: the body is read in order, as far as needed. */
  async #whole(response, offset, length) {
    if (offset !== 0 || response.body === null) {
      await response.body?.cancel();
      throw this.#fail("unsupported", "the server sends only whole files, not ranges");
    }
    const total = response.headers.get("content-length");
    if (total !== null && response.headers.get("content-encoding") === null) this.size = Number(total);
    this.#stream = { reader: response.body.getReader(), position: 0, left: new Uint8Array(0) };
    return this.#fromStream(offset, length);
  }

  async #fromStream(offset, length) {
    const stream = this.#stream;
    if (offset !== stream.position || stream.reader === undefined) {
      throw this.#fail("unsupported", "the server sends only whole files, not ranges");
    }
    const pieces = [];
    let missing = length;
    while (missing > 0) {
      if (stream.left.length === 0) {
        let next;
        try {
          next = await stream.reader.read();
        } catch (cause) {
          if (this.#options.signal?.aborted) throw cause;
          throw this.#fail("io", `the connection broke off, and the server has no ranges: ${cause.message}`, { cause });
        }
        if (next.done) break;
        stream.left = next.value;
      }
      const piece = stream.left.subarray(0, missing);
      stream.left = stream.left.subarray(piece.length);
      missing -= piece.length;
      pieces.push(piece);
    }
    const bytes = new Uint8Array(length - missing);
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    stream.position += bytes.length;
    return bytes;
  }

  /** Aborts pending requests. */
  async close() {
    const reader = this.#stream?.reader;
    if (reader !== undefined) this.#stream.reader = undefined;
    await reader?.cancel().catch(() => undefined);
  }
}

/** A failure that may be temporary. */
class Passing extends Error {
  constructor(message, cause, after) {
    super(message, { cause });
    this.after = after;
  }
}

/** The delay in milliseconds that the server requests in seconds. */
function retryAfter(response) {
  const seconds = Number(response.headers.get("retry-after") ?? NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}

function kindOf(status) {
  if (status === 404 || status === 410) return "not_found";
  return status === 401 || status === 403 ? "denied" : "io";
}

function advice(status) {
  if (status === 401 || status === 403) {
    return ": the file is private, gated, or its link has expired; the option headers takes an Authorization";
  }
  if (status === 404 || status === 410) return ": there is no such file";
  return status === 429 ? ": too many requests" : "";
}
