import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";

import * as compat from "../src/compat.js";
import { corpus, file, ranged, read, serve, withoutCorpus } from "./helpers.js";

const { GGMLFileQuantizationType: FileType, GGUFValueType: ValueType, gguf, ggufAllShards } = compat;
const directory = mkdtempSync(join(tmpdir(), "ggmill-npm-"));
after(() => rmSync(directory, { recursive: true }));

const local = (bytes) => {
  const path = join(directory, "file.gguf");
  writeFileSync(path, bytes);
  return path;
};

const bytes = file({ "general.architecture": "llama", "llama.block_count": 7, tokens: ["a", "b"] }, { w: [1, 2], v: [3] });

describe("gguf()", () => {
  it("gives metadata, tensor infos and places", async () => {
    const found = await gguf(local(bytes), { allowLocalFile: true });
    assert.deepEqual(found.metadata, {
      version: 3,
      tensor_count: 2n,
      kv_count: 3n,
      "general.architecture": "llama",
      "llama.block_count": 7,
      tokens: ["a", "b"],
    });
    assert.deepEqual(found.tensorInfos, [
      { name: "w", n_dims: 1, shape: [2n], dtype: 0, offset: 0n },
      { name: "v", n_dims: 1, shape: [1n], dtype: 0, offset: 32n },
    ]);
    assert.equal(found.littleEndian, true);
    const [start, end] = found.tensorInfoByteRange;
    assert.equal(end - start, 2 * (8 + 1 + 4 + 8 + 4 + 8));
    assert.equal(found.tensorDataOffset, BigInt(Math.ceil(end / 32) * 32));
    assert.deepEqual(Object.keys(found), ["metadata", "tensorInfos", "tensorDataOffset", "littleEndian", "tensorInfoByteRange"]);
  });

  it("gives types and the number of parameters when asked", async () => {
    const params = { allowLocalFile: true, typedMetadata: true, computeParametersCount: true };
    const { typedMetadata, parameterCount } = await gguf(local(bytes), params);
    assert.equal(parameterCount, 3);
    assert.deepEqual(typedMetadata.version, { value: 3, type: ValueType.UINT32 });
    assert.deepEqual(typedMetadata.tensor_count, { value: 2n, type: ValueType.UINT64 });
    assert.deepEqual(typedMetadata.tokens, { value: ["a", "b"], type: ValueType.ARRAY, subType: ValueType.STRING });
    assert.deepEqual(typedMetadata["llama.block_count"], { value: 7, type: ValueType.UINT32 });
  });

  it("reads paths only when that is allowed", async () => {
    await assert.rejects(gguf(local(bytes)), /allowLocalFile/);
  });

  it("reads a header without its tensors", async () => {
    const { tensorInfos } = await gguf(local(bytes.subarray(0, bytes.length - 64)), { allowLocalFile: true });
    assert.equal(tensorInfos.length, 2);
    await assert.rejects(gguf(local(bytes.subarray(0, 80)), { allowLocalFile: true }), { kind: "truncated" });
  });

  it("reads URLs with a given fetch and header fields", async () => {
    const server = await serve((request) => ranged(bytes, request));
    const asked = [];
    const own = (url, init) => {
      asked.push(String(url));
      return fetch(url, init);
    };
    const { metadata } = await gguf(`${server.url}/m.gguf`, { fetch: own, additionalFetchHeaders: { "x-own": "1" } });
    assert.equal(metadata["llama.block_count"], 7);
    assert.equal(asked.length, 1);
    assert.equal(server.requests[0].headers["x-own"], "1");
    server.close();
  });

  it("reads every file of the corpus that is valid", { skip: withoutCorpus }, async () => {
    for (const path of corpus("valid")) {
      const { metadata, typedMetadata } = await gguf(path, { allowLocalFile: true, typedMetadata: true });
      assert.deepEqual(Object.keys(metadata), Object.keys(typedMetadata), path);
    }
  });
});

describe("ggufAllShards()", () => {
  it("reads all shards of a set", async () => {
    const server = await serve((request) => ranged(bytes, request));
    const found = await ggufAllShards(`${server.url}/m-00002-of-00003.gguf`, { parallelDownloads: 2 });
    assert.deepEqual(found.urls.map((url) => url.slice(server.url.length)), [1, 2, 3].map((n) => `/m-0000${n}-of-00003.gguf`));
    assert.equal(found.parameterCount, 9);
    assert.equal(found.shards.length, 3);
    const { shards, urls } = await ggufAllShards(`${server.url}/m.gguf`);
    assert.deepEqual([shards.length, urls.length], [1, 1]);
    assert.equal("parameterCount" in shards[0], false);
    await assert.rejects(ggufAllShards(`${server.url}/m.gguf`, { parallelDownloads: 0 }), TypeError);
    server.close();
  });

  it("takes the name of a shard apart", () => {
    assert.deepEqual(compat.parseGgufShardFilename("dir/m-q4_0-00003-of-00009.gguf"), {
      prefix: "dir/m-q4_0",
      shard: "00003",
      total: "00009",
    });
    assert.equal(compat.parseGgufShardFilename("m.gguf"), null);
  });
});

describe("names of types", () => {
  it("are found in file names", () => {
    const labels = {
      "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf": "Q4_K_M",
      "dir/Codestral-22B-v0.1-IQ3_XS.gguf": "IQ3_XS",
      "Codestral-22B-v0.1.gguf": undefined,
      "Codestral-22B-v0.1-F32-Q2_K.gguf": "Q2_K",
      "m-Q4_0_4_4.gguf": "Q4_0",
      "Qwen3-4B-UD-Q2_K_XL.gguf": "UD-Q2_K_XL",
      "gpt-oss-20b-MXFP4.gguf": "MXFP4",
      "m-MXFP4_MOE.gguf": "MXFP4_MOE",
    };
    for (const [name, label] of Object.entries(labels)) assert.equal(compat.parseGGUFQuantLabel(name), label, name);
    const groups = (name) => ({ ...compat.parseGGUFQuantLabel(name).match(compat.GGUF_QUANT_RE).groups });
    assert.deepEqual(groups("m-Q6_K_L.gguf"), { prefix: undefined, quant: "Q6_K", sizeVariation: "L" });
    assert.deepEqual(groups("m-UD-Q2_K_XL.gguf"), { prefix: "UD-", quant: "Q2_K", sizeVariation: "XL" });
  });

  it("have an order that has all of them", () => {
    const numbers = Object.values(FileType).filter((value) => typeof value === "number");
    assert.deepEqual([...compat.GGUF_QUANT_ORDER].sort(), numbers.sort());
    const nearest = (wanted, available) => compat.findNearestQuantType(wanted, available);
    assert.equal(nearest(FileType.IQ2_M, [FileType.Q2_K, FileType.Q4_K_M, FileType.Q8_0]), FileType.Q2_K);
    assert.equal(nearest(FileType.Q4_K_M, [FileType.Q8_0, FileType.F16, FileType.BF16]), FileType.Q8_0);
    assert.equal(nearest(FileType.F16, [FileType.Q8_0, FileType.F16]), FileType.F16);
    assert.equal(nearest(FileType.F16, []), undefined);
    assert.equal(compat.GGMLQuantizationType[compat.GGMLQuantizationType.Q4_K], "Q4_K");
    assert.match(compat.GGUF_QUANT_DESCRIPTIONS[12].txt, /4.5 bits/);
  });
});

describe("headers", () => {
  const params = { allowLocalFile: true, typedMetadata: true };

  it("are written as they were read", { skip: withoutCorpus }, async () => {
    let same = 0;
    for (const path of corpus("valid")) {
      const whole = read(path);
      const { typedMetadata, littleEndian, tensorInfoByteRange } = await gguf(path, params);
      const hasNested = Object.values(typedMetadata).some(({ subType }) => subType === ValueType.ARRAY);
      if (hasNested) continue;
      const written = compat.serializeGgufMetadata(typedMetadata, { littleEndian, alignment: 8 });
      const expected = Buffer.from(whole.subarray(4, tensorInfoByteRange[0]));
      // Duplicate keys, `true` that is not 1, and text that is not UTF-8 are not kept.
      if (Buffer.from(written.subarray(4, tensorInfoByteRange[0])).equals(expected)) same += 1;
    }
    assert.ok(same > 10, `${same}`);
  });

  it("are built with other metadata and the same tensors", async () => {
    const { typedMetadata, ...parsed } = await gguf(local(bytes), params);
    const updated = {
      ...typedMetadata,
      "general.name": { value: "New", type: ValueType.STRING },
      flags: { value: [true, false], type: ValueType.ARRAY, subType: ValueType.BOOL },
    };
    for (const alignment of [16, 32, 64]) {
      const blob = await compat.buildGgufHeader(new Blob([bytes]), updated, {
        littleEndian: true,
        tensorInfoByteRange: parsed.tensorInfoByteRange,
        alignment,
      });
      assert.equal(blob.size % alignment, 0);
      const again = await gguf(local(new Uint8Array(await blob.arrayBuffer())), params);
      assert.deepEqual(again.tensorInfos, parsed.tensorInfos);
      assert.deepEqual(again.typedMetadata.flags, updated.flags);
      assert.equal(again.metadata.kv_count, 5n);
    }
  });

  it("of big-endian files and of version 1 have their lengths", () => {
    const typed = (version) => ({
      version: { value: version, type: ValueType.UINT32 },
      tensor_count: { value: 0n, type: ValueType.UINT64 },
      kv_count: { value: 0n, type: ValueType.UINT64 },
      a: { value: 258, type: ValueType.UINT16 },
    });
    const hex = (written) => Buffer.from(written).toString("hex");
    assert.match(hex(compat.serializeGgufMetadata(typed(1))), /^47475546010000000000000001000000010000006102000000/);
    const big = hex(compat.serializeGgufMetadata(typed(3), { littleEndian: false }));
    assert.ok(big.startsWith("474755460000000300000000000000000000000000000001000000000000000161000000020102"));
    assert.throws(() => compat.serializeGgufMetadata({ ...typed(3), b: { value: [1], type: ValueType.ARRAY } }), /subType/);
  });
});
