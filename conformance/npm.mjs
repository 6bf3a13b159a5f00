// Compares `ggmill/compat` with @huggingface/gguf: results on real files, and the requests and bytes
// that a header takes from a server that counts. `python3 conformance/run.py npm` runs it with the root of the
// repository, the directory that has the other package, and files or directories.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";

const [root, modules, ...paths] = process.argv.slice(2);
const theirs = await import(pathToFileURL(join(modules, "@huggingface/gguf/dist/index.mjs")).href);
const ours = await import(pathToFileURL(join(root, "npm/src/compat.js")).href);

function files(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { recursive: true })
    .map((name) => join(path, String(name)))
    .filter((name) => name.endsWith(".gguf") && statSync(name).isFile())
    .sort();
}

const all = paths.flatMap((path) => files(resolve(path)));
if (all.length === 0) throw new Error("no files to compare");

let failed = 0;
const differs = (what) => {
  failed += 1;
  console.log(`DIFFERS ${what}`);
};

// Names that both export.
for (const [name, value] of Object.entries(theirs)) {
  if (!(name in ours)) differs(`export ${name} is missing`);
  // Descriptions are sentences of each package's own, for the same types.
  else if (name === "GGUF_QUANT_DESCRIPTIONS") {
    if (!isDeepStrictEqual(Object.keys(ours[name]), Object.keys(value))) differs(`keys of ${name}`);
  } else if (typeof value === "object" && !(value instanceof RegExp)) {
    if (!isDeepStrictEqual({ ...ours[name] }, { ...value })) differs(`export ${name}`);
  } else if (value instanceof RegExp && String(ours[name]) !== String(value)) differs(`export ${name}`);
}

const options = { allowLocalFile: true, typedMetadata: true, computeParametersCount: true };
for (const path of all) {
  const [found, expected] = [await ours.gguf(path, options), await theirs.gguf(path, options)];
  if (!isDeepStrictEqual(found, expected)) differs(path);
  const headers = [ours, theirs].map((peer) => peer.serializeGgufMetadata(expected.typedMetadata, { littleEndian: expected.littleEndian }));
  if (!isDeepStrictEqual(...headers)) differs(`${path}: serializeGgufMetadata`);
  const blob = new Blob([readFileSync(path)]);
  const built = await Promise.all(
    [ours, theirs].map(async (peer) => new Uint8Array(await (await peer.buildGgufHeader(blob, expected.typedMetadata, expected)).arrayBuffer())),
  );
  if (!isDeepStrictEqual(...built)) differs(`${path}: buildGgufHeader`);
}
console.log(`${all.length} files compared, ${failed} differences`);

// Requests and bytes for a header.
const bytes = new Map(all.map((path, number) => [`/${number}.gguf`, readFileSync(path)]));
let counted = { requests: 0, bytes: 0 };
const server = createServer((request, response) => {
  const content = bytes.get(request.url);
  const [, first, last] = /bytes=(\d+)-(\d+)/.exec(request.headers.range);
  const piece = content.subarray(Number(first), Number(last) + 1);
  counted.requests += 1;
  counted.bytes += piece.length;
  const end = Number(first) + piece.length - 1;
  response.writeHead(206, { "content-range": `bytes ${first}-${end}/${content.length}`, "content-length": piece.length });
  response.end(piece);
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
console.log("| file | header, bytes | requests, bytes: ggmill | requests, bytes: @huggingface/gguf | ms: ggmill | ms: @huggingface/gguf |\n|---|---|---|---|---|---|");
for (const [number, path] of all.entries()) {
  const url = `http://127.0.0.1:${server.address().port}/${number}.gguf`;
  const row = [];
  let header;
  for (const peer of [ours, theirs]) {
    counted = { requests: 0, bytes: 0 };
    const begin = performance.now();
    ({ tensorInfoByteRange: [, header] } = await peer.gguf(url));
    row.push([`${counted.requests}, ${counted.bytes}`, (performance.now() - begin).toFixed(0)]);
  }
  const [own, other] = row;
  console.log(`| ${path.split("/").at(-1)} | ${header} | ${own[0]} | ${other[0]} | ${own[1]} | ${other[1]} |`);
}
server.closeAllConnections();
server.close();
process.exit(failed === 0 ? 0 : 1);
