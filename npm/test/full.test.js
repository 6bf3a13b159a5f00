import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, describe, it } from "node:test";

import { open } from "../src/index.js";
import { corpus, data, file, ggmill, read, withoutCommand, withoutCorpus } from "./helpers.js";

const directory = mkdtempSync(join(tmpdir(), "ggmill-npm-"));
after(() => rmSync(directory, { recursive: true }));

const written = (name, bytes) => {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
};

describe("checking", { skip: withoutCorpus || withoutCommand }, () => {
  it("finds what the command finds in every file of the corpus", async () => {
    let findings = 0;
    for (const path of [...corpus("valid"), ...corpus("broken")]) {
      const bytes = read(path);
      const model = await open(bytes, { damaged: true }).catch(() => undefined);
      if (model === undefined) continue;
      // Without the name of the file, and without what only its data say.
      const report = await model.check({ names: [basename(path)], ignore: ["GG15"] });
      const expected = JSON.parse(ggmill("check", "--format", "json", "--ignore", "GG15", path)).files[0];
      const codes = ({ findings: all }) => all.map(({ code, message }) => `${code} ${message}`);
      // Bytes between tensors, and the other shards, are the command's to see.
      const header = (lines) => lines.filter((line) => !/^GG1907|padding|between|after the last/.test(line));
      assert.deepEqual(header(codes(report.files[0])), header(codes(expected)), path);
      findings += report.files[0].findings.length;
      model.close();
    }
    assert.ok(findings > 50);
  });
});

describe("checking with options", () => {
  it("takes rules and profiles, and refuses others", async () => {
    const model = await open(file({ "general.architecture": "llama", "general.alignment": 32 }));
    const all = (await model.check()).files[0].findings;
    assert.ok(all.length > 0);
    const { code } = all[0];
    const only = (await model.check({ select: [code] })).files[0].findings;
    assert.ok(only.length > 0 && only.every((finding) => finding.code === code));
    assert.deepEqual((await model.check({ select: [code], ignore: [code] })).files[0].findings, []);
    await assert.rejects(model.check({ profile: "other" }), { kind: "misuse" });
    await assert.rejects(model.check({ select: "GG13" }), { kind: "misuse", message: /list of strings/ });
  });
});

describe("estimates", () => {
  it("are those of the command", { skip: withoutCommand }, async () => {
    let compared = 0;
    for (const path of [...data(), ...corpus("valid")]) {
      const model = await open(path, { shards: false });
      // The command takes no shard for a whole model.
      if (!model.metadata.has("split.count")) {
        const expected = JSON.parse(ggmill("estimate", "--json", "--ctx", "4096", "--cache-type", "q8_0", path));
        const found = await model.estimate({ context: 4096, keyType: "Q8_0", valueType: "Q8_0" });
        assert.deepEqual(found, expected, path);
        compared += 1;
      }
      model.close();
    }
    assert.ok(compared > 10);
  });

  it("refuse options that are none", async () => {
    const model = await open(file({ "general.architecture": "llama" }));
    await assert.rejects(model.estimate({ context: -1 }), { kind: "misuse", message: /context/ });
    await assert.rejects(model.estimate({ context: 4096, keyType: "Q9_9" }), { kind: "misuse", message: /keyType/ });
    await assert.rejects(model.estimate({ batch: 0, context: 4096 }), { kind: "misuse" });
  });
});

describe("values", () => {
  it("of a range are those of the whole", async () => {
    const values = Array.from({ length: 1000 }, (_, at) => at / 8);
    const tensor = (await open(file({}, { w: values }))).tensor("w");
    assert.deepEqual([...(await tensor.values())], values);
    assert.deepEqual([...(await tensor.values({ start: 17, end: 19 }))], values.slice(17, 19));
    assert.deepEqual([...(await tensor.values({ start: 5, end: 5 }))], []);
    await assert.rejects(tensor.values({ start: 5, end: 1001 }), { kind: "misuse" });
    await assert.rejects(tensor.values({ start: -1 }), { kind: "misuse" });
  });

  it("are those that the command extracts", { skip: withoutCommand }, async () => {
    let seen = 0;
    for (const path of data()) {
      const model = await open(path, { shards: false });
      const types = new Map(model.tensors.map((tensor) => [tensor.type, tensor]));
      for (const tensor of types.values()) {
        const npy = join(directory, "tensor.npy");
        ggmill("extract", path, tensor.name, "-o", npy, "--force");
        const bytes = read(npy);
        // Elements of other types are extracted as they are.
        if (!Buffer.from(bytes.subarray(0, 80)).includes("'<f4'")) continue;
        const start = 10 + new DataView(bytes.buffer).getUint16(8, true);
        const expected = new Float32Array(bytes.buffer.slice(start));
        const found = await tensor.values();
        assert.equal(Buffer.compare(Buffer.from(found.buffer), Buffer.from(expected.buffer)), 0, `${path} ${tensor.name}`);
        // A range that begins and ends within blocks.
        const [from, to] = [7, Math.min(tensor.elements, 1003)];
        if (from < to) assert.deepEqual(await tensor.values({ start: from, end: to }), found.slice(from, to));
        seen += 1;
      }
    }
    assert.ok(seen > 0 || data().length === 0);
  });
});

describe("edits", () => {
  const original = file({ "general.architecture": "llama", "general.name": "Tiny", "llama.block_count": 2 }, { w: [1, 2] });

  it("leave the tensors as they are", async () => {
    const model = await open(original);
    const patch = await model.edit({
      remove: ["llama.block_count"],
      rename: { "general.name": "general.basename" },
      set: { "general.description": "ä", list: { type: "array", subType: "i64", value: [1n, -2] } },
    });
    const edited = await open(patch.applyTo(original));
    assert.deepEqual(edited.metadata.toObject(), {
      "general.architecture": "llama",
      "general.basename": "Tiny",
      "general.description": "ä",
      list: BigInt64Array.of(1n, -2n),
    });
    assert.deepEqual(await edited.tensor("w").values(), Float32Array.of(1, 2));
    const blob = patch.applyTo(new Blob([original]));
    assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), patch.applyTo(original));
  });

  it("are made in place where the header has room", async () => {
    const model = await open(original);
    const patch = await model.edit({ remove: ["general.name"] }, { inPlace: true });
    assert.ok(patch.isInPlace && patch.header.length === model.dataOffset);
    const edited = await open(patch.applyTo(original));
    assert.equal(edited.metadata.has("general.name"), false);
    assert.deepEqual(await edited.tensor("w").values(), Float32Array.of(1, 2));
    const long = "x".repeat(1000);
    await assert.rejects(model.edit({ set: { "general.name": long } }, { inPlace: true }), { kind: "unsupported", message: /has space for/ });
  });

  it("refuse values that do not fit, and keys that are not there", async () => {
    const model = await open(original);
    await assert.rejects(model.edit({ set: { "llama.block_count": -1 } }), { kind: "wrong_type", key: "llama.block_count" });
    await assert.rejects(model.edit({ set: { "llama.block_count": "2" } }), { kind: "wrong_type" });
    await assert.rejects(model.edit({ set: { new: 5 } }), { kind: "misuse", message: /type, value/ });
    await assert.rejects(model.edit({ set: { new: { type: "u9", value: 5 } } }), { kind: "misuse" });
    await assert.rejects(model.edit({ remove: ["new"] }), { kind: "missing" });
    await assert.rejects(model.edit({ rename: { "general.name": "general.architecture" } }), { kind: "misuse" });
    const alignment = { "general.alignment": { type: "u32", value: 64 } };
    await assert.rejects(model.edit({ set: alignment }), { kind: "unsupported", message: /alignment/ });
  });

  it("are those of the command", { skip: withoutCommand || withoutCorpus }, async () => {
    let compared = 0;
    for (const path of corpus("valid")) {
      const model = await open(path, { shards: false });
      const edits = { set: { "general.name": { type: "string", value: "Edited" } } };
      const patch = await model.edit(edits).catch((error) => error);
      const target = join(directory, "edited.gguf");
      if (!(patch instanceof Error)) {
        const edited = written("patched.gguf", patch.applyTo(read(path)));
        try {
          ggmill("edit", path, "--set", "general.name=Edited", "-o", target, "--force");
        } catch {
          // What the command refuses for other reasons is not compared.
          continue;
        }
        assert.deepEqual(read(edited), read(target), path);
        compared += 1;
      } else {
        assert.match(patch.kind, /unsupported|misuse/, `${path}: ${patch.message}`);
      }
      model.close();
    }
    assert.ok(compared > 10);
  });
});

describe("names and summaries", () => {
  it("are those of the command", { skip: withoutCommand }, async () => {
    for (const path of data()) {
      const model = await open(path, { shards: false });
      const { summary } = JSON.parse(ggmill("inspect", "--json", "--alone", path));
      assert.deepEqual(await model.summary(), summary);
      const name = await model.suggestedName().catch((error) => error.kind);
      let expected = "naming";
      try {
        expected = ggmill("name", "build", path).trim();
      } catch {
        // There is none.
      }
      assert.equal(name, expected, path);
    }
  });
});

describe("misspelled keys", () => {
  it("are told with the key that was meant", async () => {
    const model = await open(file({ "general.architecture": "llama" }, { w: [1] }));
    for (const [key, meant] of [
      ["general.licence", "general.license"],
      ["llama.context_lenght", "llama.context_length"],
      ["eos_token_id", "tokenizer.ggml.eos_token_id"],
      ["general.license", undefined],
      ["my.own_key", undefined],
      ["", undefined],
    ]) {
      assert.equal(await model.meantKey(key), meant, key);
    }
  });
});
