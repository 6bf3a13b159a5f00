// What the tests share: a browser, a server for the page and for files, and files.

import { createServer } from "node:http";
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join, resolve } from "node:path";
import { chromium } from "playwright-core";

const PAGE = resolve(import.meta.dirname, "../dist");
/** The browser, as Debian has it unless the environment says otherwise. */
const CHROMIUM = process.env.GGMILL_CHROMIUM ?? "/usr/bin/chromium";
const ARGUMENTS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const MEDIA = {
  ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".svg": "image/svg+xml",
};

/** Why there is no page or no browser to test with, or `false`. */
export const missing = !existsSync(join(PAGE, "index.html"))
  ? "the page is not built (npm run build)"
  : !existsSync(CHROMIUM) && `no browser at ${CHROMIUM}`;

/** A browser with nothing from before. */
export async function launch() {
  const profile = mkdtempSync(join(tmpdir(), "ggmill-web-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM, args: ARGUMENTS, viewport: { width: 1200, height: 800 }, acceptDownloads: true,
  });
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/** Serves the page as any static host does, and files by ranges under `/files/`. */
export async function serve(files = {}) {
  const requests = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    requests.push({ path, range: request.headers.range });
    const file = path.startsWith("/files/") ? files[path.slice(7)] : join(PAGE, path === "/" ? "index.html" : path);
    if (file === undefined || path.includes("..") || !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    const type = MEDIA[extname(file)] ?? "application/octet-stream";
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    const { size } = statSync(file);
    if (range === null) {
      response.writeHead(200, { "content-type": type, "content-length": size });
      createReadStream(file).pipe(response);
      return;
    }
    const [start, end] = [Number(range[1]), Math.min(Number(range[2]), size - 1)];
    response.writeHead(206, { "content-type": type, "content-length": end - start + 1, "content-range": `bytes ${start}-${end}/${size}`, etag: '"1"' });
    createReadStream(file, { start, end }).pipe(response);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const address = `http://127.0.0.1:${server.address().port}/`;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { address, requests, close };
}

/** A page that fails the test on any error in it, on the console too. */
export async function pageOf(context, address) {
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.goto(address);
  return { page, errors };
}

/** Opens a local file and waits until it is shown. Returns milliseconds, from choosing it on. */
export async function openFile(page, ...paths) {
  await page.locator("#model-file").setInputFiles(paths);
  await page.locator('[role="tab"]').first().waitFor();
  return page.locator("#read").getAttribute("data-milliseconds").then(Number);
}

export const show = async (page, name) => {
  await page.locator(`#tab-${name}`).click();
};

const TYPES = { u8: 0, i8: 1, u16: 2, i16: 3, u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9, u64: 10, i64: 11, f64: 12 };

/**
 * A file: entries `[key, type, value]`, where the type of an array is `[type]`, and tensors
 * `[name, type number, shape, bytes]`. `offsets` replaces those of tensors by their names.
 */
export function gguf(entries, tensors = [], { offsets = {}, alignment = 32 } = {}) {
  const parts = [];
  let length = 0;
  const put = (bytes) => {
    parts.push(bytes);
    length += bytes.length;
  };
  const number = (size, method, value) => {
    const bytes = Buffer.alloc(size);
    bytes[method](value);
    put(bytes);
  };
  const u32 = (value) => number(4, "writeUInt32LE", value);
  const u64 = (value) => number(8, "writeBigUInt64LE", BigInt(value));
  const string = (text) => {
    const bytes = Buffer.from(text);
    u64(bytes.length);
    put(bytes);
  };
  const scalar = (type, value) => {
    if (type === "string") string(value);
    else if (type === "u32") u32(value);
    else if (type === "i32") number(4, "writeInt32LE", value);
    else if (type === "f32") number(4, "writeFloatLE", value);
    else if (type === "u64") u64(value);
    else if (type === "bool") put(Buffer.of(value ? 1 : 0));
    else throw new Error(type);
  };
  const pad = () => put(Buffer.alloc((alignment - (length % alignment)) % alignment));
  put(Buffer.from("GGUF"));
  u32(3);
  u64(tensors.length);
  u64(entries.length);
  for (const [key, type, value] of entries) {
    string(key);
    if (!Array.isArray(type)) {
      u32(TYPES[type]);
      scalar(type, value);
      continue;
    }
    u32(TYPES.array);
    u32(TYPES[type[0]]);
    u64(value.length);
    for (const element of value) scalar(type[0], element);
  }
  let offset = 0;
  for (const [name, type, shape, bytes] of tensors) {
    string(name);
    u32(shape.length);
    shape.forEach(u64);
    u32(type);
    u64(offsets[name] ?? offset);
    const size = typeof bytes === "number" ? bytes : bytes.length;
    offset += Math.ceil(size / alignment) * alignment;
  }
  pad();
  const header = length;
  for (const [, , , bytes] of tensors) {
    if (typeof bytes === "number") continue;
    put(bytes);
    pad();
  }
  return { bytes: Buffer.concat(parts), header, size: header + offset };
}

/** The gemma-4 vocabulary where it is, or `undefined`. */
export const gemma = [process.env.GGMILL_GEMMA].find((path) => path !== undefined && existsSync(path));

export const read = (path) => readFileSync(path);
