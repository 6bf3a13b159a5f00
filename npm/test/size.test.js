import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { gzipSync } from "node:zlib";

const LIMITS = {
  "reader.wasm": 40_000,
  "core.wasm": 500_000,
  "text.wasm": 500_000,
  "estimate.wasm": 500_000,
};

// Those that are built with an installed standard library are larger than those that are published.
const skip = process.env.GGMILL_WASM_LARGE === undefined ? false : "built with an installed standard library";

for (const [name, limit] of Object.entries(LIMITS)) {
  it(`${name} has at most ${limit} bytes, compressed`, { skip }, (context) => {
    const bytes = readFileSync(new URL(`../wasm/${name}`, import.meta.url));
    const size = gzipSync(bytes, { level: 9 }).length;
    context.diagnostic(`${name}: ${bytes.length} bytes, gzip -9: ${size}`);
    assert.ok(size <= limit, `${size} bytes`);
  });
}
