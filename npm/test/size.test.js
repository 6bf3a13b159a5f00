import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { gzipSync } from "node:zlib";

const LIMITS = { "reader.wasm": 40_000, "ggmill.wasm": 950_000 };

for (const [name, limit] of Object.entries(LIMITS)) {
  it(`${name} has at most ${limit} bytes, compressed`, (context) => {
    const bytes = readFileSync(new URL(`../wasm/${name}`, import.meta.url));
    const size = gzipSync(bytes, { level: 9 }).length;
    context.diagnostic(`${name}: ${bytes.length} bytes, gzip -9: ${size}`);
    assert.ok(size <= limit, `${size} bytes`);
  });
}
