import assert from "node:assert/strict";
import { basename } from "node:path";
import { describe, it } from "node:test";

import { GgmillError, open } from "../src/index.js";
import { corpus, data, file, ggmill, read, withoutCommand, withoutCorpus } from "./helpers.js";

/** A value as `ggmill inspect --json` writes it, for the values that JSON has. */
function comparable(value) {
  if (typeof value === "bigint") return Number(value);
  if (ArrayBuffer.isView(value)) return Array.from(value, comparable);
  return Array.isArray(value) ? value.map(comparable) : value;
}

/** Whether JSON has the value as it is: other values are objects there that spell it. */
const isPlain = (value) => value === null || typeof value !== "object" || Array.isArray(value);

/** Floats are written with the digits that single precision needs. */
function assertSame(found, expected, name) {
  if (typeof expected === "number" && typeof found === "number") {
    assert.ok(found === expected || Math.fround(expected) === found, `${name}: ${found}, expected ${expected}`);
  } else if (Array.isArray(expected)) {
    assert.equal(found.length, expected.length, name);
    expected.forEach((element, at) => isPlain(element) && assertSame(found[at], element, `${name}[${at}]`));
  } else {
    assert.deepEqual(found, expected, name);
  }
}

function compareWithCommand(model, path) {
  const report = JSON.parse(ggmill("inspect", "--json", "--full", "--alone", path));
  assert.equal(model.version, report.version);
  assert.equal(model.endian, report.endian === "little-endian" ? "little" : report.endian);
  assert.equal(model.alignment, report.alignment);
  assert.equal(model.dataOffset, report.data_offset);
  assert.equal(model.metadata.size, report.metadata.length);
  report.metadata.forEach((entry, at) => {
    if (!isPlain(entry.key)) return;
    assert.equal(model.metadata.keys()[at], entry.key);
    const { key, value } = model.metadata.raw(at);
    if (isPlain(entry.value)) assertSame(comparable(value), entry.value, key);
  });
  const tensors = model.tensors.map(({ type, shape, offset, size }) => ({ type, shape, offset, size: size ?? null }));
  const expected = report.tensors.map(({ type, shape, offset, size }) => ({ type, shape, offset, size }));
  assert.deepEqual(tensors, expected);
}

describe("reading", () => {
  it("gives metadata and tensors of a file in memory", async () => {
    const bytes = file({ "general.architecture": "llama", "llama.block_count": 7, list: ["ä", "", "b"] }, { w: [1, 2, 3] });
    const model = await open(bytes);
    assert.equal(model.metadata.get("general.architecture"), "llama");
    assert.equal(model.metadata.get("llama.block_count"), 7);
    assert.deepEqual(model.metadata.get("list"), ["ä", "", "b"]);
    assert.deepEqual(model.metadata.type("list"), { type: "array", subType: "string", length: 3 });
    assert.deepEqual(model.metadata.toObject(), Object.fromEntries(model.metadata));
    assert.equal(model.tensor("w").elements, 3);
    assert.deepEqual(await model.tensor("w").bytes({ start: 4, end: 8 }), new Uint8Array(Float32Array.of(2).buffer));
    model.close();
    assert.throws(() => model.metadata.get("list"), { kind: "misuse" });
  });

  it("reads a Blob, an ArrayBuffer and anything with read alike", async () => {
    const bytes = file({ "general.architecture": "llama" }, { w: [1] });
    const sources = [
      new Blob([bytes]),
      bytes.buffer,
      { size: bytes.length, read: async (offset, length) => bytes.subarray(offset, offset + length) },
      { read: async (offset, length) => bytes.subarray(offset, offset + length) },
    ];
    for (const source of sources) {
      const model = await open(source);
      assert.deepEqual([...(await model.tensor("w").bytes())], [0, 0, 128, 63]);
    }
  });

  it("asks for no more than the header, in growing reads, and for the bytes of a tensor", async () => {
    const tokens = Array.from({ length: 200_000 }, (_, at) => `token ${at}`);
    const bytes = file({ tokens }, { w: Array(100).fill(1) });
    const reads = [];
    const source = {
      size: 1e13,
      read: async (offset, length) => {
        reads.push([offset, length]);
        const piece = new Uint8Array(length);
        piece.set(bytes.subarray(offset, offset + length));
        return piece;
      },
    };
    const model = await open(source);
    assert.deepEqual(reads, [[0, 1 << 19], [1 << 19, 1 << 21], [5 << 19, 1 << 23]]);
    await model.tensor("w").bytes({ start: 8, end: 12 });
    assert.deepEqual(reads[3], [model.dataOffset + 8, 4]);
  });

  it("refuses more than JavaScript counts, and sources that give less than they have", async () => {
    const bytes = file();
    const read = async (offset, length) => bytes.subarray(offset, offset + length);
    await assert.rejects(open({ size: 2 ** 53, read }), { kind: "limit", message: /2\^53/ });
    await assert.rejects(open({ size: 5000, read }), { kind: "io", message: /came from 0 on/ });
    await assert.rejects(open({ size: 5, read: async () => "text" }), { kind: "misuse" });
    await assert.rejects(open(7), { kind: "misuse" });
  });

  it("says what a file is that is not GGUF", async () => {
    const text = (text) => new TextEncoder().encode(text.padEnd(64));
    await assert.rejects(open(text("<!DOCTYPE html>")), { kind: "not_gguf", message: /a page/ });
    await assert.rejects(open(text("version https://git-lfs.github.com/spec/v1")), { message: /Git LFS pointer/ });
    await assert.rejects(open(new Blob(["GGU"])), (error) => error instanceof GgmillError);
  });

  it("opens what can be read of a file that is cut short", async () => {
    const bytes = file({ "general.architecture": "llama", other: "value" }, { w: [1, 2] });
    const model = await open(bytes.subarray(0, 60), { damaged: true });
    assert.equal(model.shards[0].isWhole, false);
    assert.equal(model.faults[0].kind, "truncated");
    await assert.rejects(open(bytes.subarray(0, 60)), { kind: "truncated" });
  });

  it("agrees with the command on every valid file", { skip: withoutCorpus || withoutCommand }, async () => {
    const paths = [...corpus("valid"), ...data()];
    assert.ok(paths.length > 20);
    for (const path of paths) {
      const model = await open(path, { shards: false });
      compareWithCommand(model, path);
      model.close();
    }
  });

  it("refuses every broken file, with a kind", { skip: withoutCorpus }, async () => {
    const paths = corpus("broken");
    assert.ok(paths.length > 20);
    for (const path of paths) {
      await assert.rejects(open(path, { shards: false }), (error) => error instanceof GgmillError, basename(path));
      // Whatever is wrong, what can be read is there, or it is no GGUF file.
      const damaged = await open(path, { shards: false, damaged: true }).catch((error) => error);
      if (damaged instanceof GgmillError) assert.match(damaged.kind, /not_gguf|version|truncated/, basename(path));
      else assert.ok(damaged.faults.length > 0 && Array.isArray(damaged.tensors), basename(path));
    }
  });

  it("gives the same whatever the size of reads", { skip: withoutCorpus }, async () => {
    for (const path of corpus("valid")) {
      const bytes = read(path);
      // Never more than 7 bytes at once, and no length.
      const source = { read: async (offset, length) => bytes.subarray(offset, offset + Math.min(length, 7)) };
      if (bytes.length > 20_000) continue;
      const [whole, slow] = [await open(bytes), await open(source)];
      assert.deepEqual(slow.metadata.keys(), whole.metadata.keys(), path);
      assert.deepEqual(slow.rawTensors().map(({ offset }) => offset), whole.rawTensors().map(({ offset }) => offset), path);
    }
  });
});
