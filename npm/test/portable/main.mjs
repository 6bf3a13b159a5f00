// Run with a runtime: `node`, `deno run -A`, `bun run`. The checks in the main thread, over HTTP, and in
// a web worker where the runtime has them.

import process from "node:process";
import assert from "node:assert/strict";
import { open } from "../../src/index.js";
import { gguf } from "../../src/compat.js";
import { ranged, serve } from "../helpers.js";
import { bytes, checks, same } from "./checks.mjs";

await checks();
const server = await serve((request) => ranged(bytes, request));
const address = `${server.url}/model.gguf`;
await same(await open(address));
assert.equal((await gguf(address)).metadata["general.name"], "Größe");
server.close();
if (typeof Worker !== "undefined") {
  await new Promise((done, failed) => {
    const worker = new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" });
    worker.onmessage = done;
    worker.onerror = ({ message }) => failed(new Error(`worker: ${message}`));
  });
}
process.exit(0);
