import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";

import { open } from "../src/index.js";
import { corpus, data, file, ggmill, vocabularies, withoutCommand } from "./helpers.js";

const directory = mkdtempSync(join(tmpdir(), "ggmill-npm-"));
after(() => rmSync(directory, { recursive: true }));

const written = (name, bytes) => {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
};

const TEXTS = ["Hello, world! two  spaces\n\näöü 你好 🦙 e\u0301 <s>[INST] <|end|> [CLS] ", ""];
const CHATML =
  "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/** The tokens of every byte as SentencePiece has them, and two control tokens. */
const TOKENS = [
  "<unk>", "<|im_start|>", "<|im_end|>", "▁", "a", "b", "ab",
  ...Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
];

/** A model of these tokens with chat templates. */
function chat(templates) {
  const types = Int32Array.from(TOKENS, (token) => (token === "<unk>" ? 2 : token.startsWith("<|") ? 3 : token.startsWith("<0x") ? 6 : 1));
  return file({
    "general.architecture": "llama",
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.scores": Float32Array.from(TOKENS, (_, at) => -at),
    "tokenizer.ggml.token_type": types,
    ...templates,
  });
}

const texts = ({ text, segments }) => {
  const bytes = Buffer.from(text);
  return segments.map(({ start, end, from }) => [from, bytes.subarray(start, end).toString()]);
};

describe("tokens", () => {
  it("are those of the command", { skip: withoutCommand }, async () => {
    let compared = 0;
    for (const path of [...vocabularies(), ...data(), ...corpus("valid")]) {
      const model = await open(path, { shards: false });
      const isUsable = await model.tokenize("").then(() => true, () => false);
      for (const text of isUsable ? TEXTS : []) {
        for (const [options, flags] of [[{}, []], [{ addSpecial: false }, ["--no-bos"]], [{ parseSpecial: false }, ["--no-parse-special"]]]) {
          const input = written("text.txt", text);
          const expected = JSON.parse(ggmill("tokenize", "--json", ...flags, "--file", input, path));
          assert.deepEqual(await model.tokenize(text, options), expected, `${path} ${JSON.stringify([text, options])}`);
          compared += 1;
        }
      }
      model.close();
    }
    assert.ok(compared >= 3 * TEXTS.length);
  });

  it("become text again", async () => {
    const model = await open(chat({}));
    const text = "ab ä🦙<|im_end|>";
    const { tokens } = await model.tokenize(text, { addSpecial: false });
    const ids = tokens.map(({ id }) => id);
    assert.ok(ids.includes(2));
    assert.equal((await model.detokenize(ids, { showSpecial: true })).trim(), text);
    assert.equal((await model.detokenize(Uint32Array.from(ids))).trim(), "ab ä🦙");
    assert.deepEqual(await model.tokenize(new TextEncoder().encode(text), { addSpecial: false }), { count: tokens.length, tokens });
    const plain = await model.tokenize(text, { parseSpecial: false });
    assert.ok(plain.tokens.every(({ id }) => id !== 2));
    await assert.rejects(model.detokenize([TOKENS.length]), { kind: "no_such_token" });
    await assert.rejects(model.detokenize([-1]), { name: "GgmillError", kind: "wrong_type" });
  });

  it("have bytes where they are not text", async () => {
    const { tokens } = await (await open(chat({}))).tokenize("ä", { addSpecial: false });
    assert.deepEqual(tokens.slice(-2).map(({ piece }) => piece), [{ bytes_hex: "c3" }, { bytes_hex: "a4" }]);
  });

  it("need a vocabulary", async () => {
    const model = await open(file({ "general.architecture": "llama" }));
    await assert.rejects(model.tokenize("a"), { name: "GgmillError", kind: "missing", message: /tokenizer.ggml.model/ });
    await assert.rejects(model.detokenize([0]), { kind: "missing" });
    const none = await open(file({ "tokenizer.ggml.model": "no such model", "tokenizer.ggml.tokens": ["a"] }));
    await assert.rejects(none.tokenize("a"), { kind: "unknown_model" });
    await assert.rejects(model.tokenize(5), { kind: "misuse" });
    model.close();
    await assert.rejects(model.tokenize("a"), { kind: "misuse", message: /closed/ });
  });
});

describe("chat templates", () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "ä <|im_end|> {{ 1 }}" },
  ];

  it("are rendered as the command does", { skip: withoutCommand }, async () => {
    const files = [written("chat.gguf", chat({ "tokenizer.chat_template": CHATML, "tokenizer.chat_template.tool": "{{ tools | tojson }}{{ x }}" }))];
    const conversation = { messages, tools: [{ type: "function", function: { name: "f" } }], x: 1.5 };
    const json = written("messages.json", JSON.stringify(conversation));
    let compared = 0;
    for (const path of [...files, ...vocabularies(), ...data()]) {
      const model = await open(path, { shards: false });
      const keys = model.metadata.keys().filter((key) => key.startsWith("tokenizer.chat_template"));
      for (const key of keys) {
        const template = key.slice("tokenizer.chat_template.".length) || undefined;
        const { tools } = conversation;
        const found = await model
          .renderTemplate({ messages, tools, variables: { x: 1.5 }, addGenerationPrompt: true, template })
          .catch((error) => error.message);
        let expected;
        try {
          expected = JSON.parse(ggmill("template", "render", path, "--json", "-g", "--messages", json, ...(template ? ["--name", template] : [])));
        } catch (error) {
          assert.ok(typeof found === "string" && String(error.stderr).includes(found), `${path}: ${JSON.stringify(found)}, ${error.stderr}`);
          continue;
        }
        assert.deepEqual(found, expected, `${path} ${key}`);
        compared += 1;
      }
      model.close();
    }
    assert.ok(compared >= 2);
  });

  it("say where each part comes from, and keep special tokens in messages as text", async () => {
    const model = await open(chat({ "tokenizer.chat_template": CHATML }));
    const rendered = await model.renderTemplate({ messages, addGenerationPrompt: true });
    assert.deepEqual(texts(rendered).slice(0, 5), [
      ["template", "<|im_start|>"],
      ["messages[0].role", "system"],
      ["template", "\n"],
      ["messages[0].content", "Be brief."],
      ["template", "<|im_end|>\n<|im_start|>"],
    ]);
    assert.ok(rendered.text.endsWith("<|im_start|>assistant\n"));
    assert.equal(rendered.ids.filter((id) => id === 2).length, 2);
    assert.deepEqual(rendered.refused.map(({ id, from }) => [id, from]), [[2, "messages[1].content"]]);
    assert.ok(rendered.offsets.length === rendered.ids.length && rendered.generated.length === rendered.ids.length);
    const { ids } = await model.renderTemplate({ messages: [{ role: "user", content: "a" }] });
    assert.deepEqual(ids.slice(0, 1), [1]);
  });

  it("are checked by rendering them, as the command does", { skip: withoutCommand }, async () => {
    const path = written("checked.gguf", chat({ "tokenizer.chat_template": "{{ messages[0].text }}{{ eos_token }}" }));
    const model = await open(path);
    const codes = ({ files: [{ findings }] }) => findings.map(({ code, message }) => `${code} ${message}`);
    const found = codes(await model.check({ profile: "run", select: ["GG22"] }));
    assert.deepEqual(found, codes(JSON.parse(ggmill("check", "--format", "json", "--profile", "run", "--select", "GG22", path))));
    assert.ok(found.length > 0);
  });

  it("are checked beside everything else, in one report", { skip: withoutCommand }, async () => {
    const template = "{{ messages[0].__class__ }}{{ 1\u200b }}{% for m in messages %}{{ m.content }}";
    const path = written("joined.gguf", chat({ "tokenizer.chat_template": template, "general.license": "mine" }));
    const model = await open(path);
    for (const profile of ["all", "run", "spec", "ggml"]) {
      for (const findingsPerRule of [20, 1]) {
        const { files: [found] } = await model.check({ profile, findingsPerRule });
        const asked = ["--profile", profile, "--max-per-rule", String(findingsPerRule)];
        const [expected] = JSON.parse(ggmill("check", "--format", "json", ...asked, path)).files;
        assert.deepEqual({ ...found, path }, expected, `${profile} ${findingsPerRule}`);
      }
    }
    const groups = new Set((await model.check()).files[0].findings.map(({ group }) => group));
    assert.ok(groups.has("template") && groups.has("provenance"), [...groups].join(" "));
  });

  it("are chosen by name, and have variables and a date", async () => {
    const template = "{{ greeting }} {{ strftime_now('%Y-%m-%d') }} {{ messages | length }}";
    const model = await open(file({ "tokenizer.chat_template": "default", "tokenizer.chat_template.other": template }));
    const asked = { messages: [{ role: "user", content: "a" }], template: "other", variables: { greeting: "Hi" }, date: new Date(0) };
    const { text, ids } = await model.renderTemplate(asked);
    assert.deepEqual([text, ids], ["Hi 1970-01-01 1", undefined]);
    assert.equal((await model.renderTemplate({ ...asked, template: undefined })).text, "default");
    await assert.rejects(model.renderTemplate({ ...asked, template: "third" }), { kind: "missing", message: /"third"/ });
  });

  it("that fail, and conversations that are none, are errors", async () => {
    const one = { messages: [{ role: "user", content: "a" }] };
    const rendered = async (template, conversation = one) =>
      (await open(file(template === undefined ? { a: 1 } : { "tokenizer.chat_template": template }))).renderTemplate(conversation);
    await assert.rejects(rendered(undefined), { name: "GgmillError", kind: "missing", message: /no chat template/ });
    await assert.rejects(rendered("{{ raise_exception('No <b>system</b>') }}"), { kind: "refused", message: /No <b>system<\/b>/ });
    await assert.rejects(rendered("{% if %}"), { kind: "syntax" });
    await assert.rejects(rendered("{{ a.b.c }}"), { kind: "undefined" });
    await assert.rejects(rendered("{% for x in range(100000000) %}{{ x }}{% endfor %}"), { name: "GgmillError" });
    await assert.rejects(rendered("a", { messages: [] }), { kind: "conversation", message: /empty array/ });
    await assert.rejects(rendered("a", { messages: [{ content: "a" }] }), { kind: "conversation", message: /messages\[0\] has no role/ });
    await assert.rejects(rendered("a", { messages: "a" }), { kind: "conversation" });
    await assert.rejects(rendered("a", { ...one, tools: "a" }), { kind: "conversation", message: /tools/ });
    await assert.rejects(rendered("a", { ...one, addGenerationPrompt: 1 }), { kind: "conversation" });
    await assert.rejects(rendered("a", { ...one, date: new Date(NaN) }), { kind: "misuse", message: /date/ });
  });
});
