// The page in a browser.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openSync, closeSync, ftruncateSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { open } from "ggmill";
import { PAGE, gemma, gguf, launch, missing, openFile, pageOf, serve, show } from "./helpers.js";

/** Times are limits on a machine that does nothing else, and reported on any other. */
const ISOLATED = process.env.GGMILL_QUIET_MACHINE !== undefined;
const atMost = (context, what, milliseconds, limit) => {
  context.diagnostic(`${what}: ${milliseconds} ms`);
  if (ISOLATED) assert.ok(milliseconds <= limit, `${what}: ${milliseconds} ms, at most ${limit}`);
};

/** What lists show follows what is clicked and typed in a later frame. */
const eventually = async (actual, expected) => {
  const end = performance.now() + 10_000;
  for (;;) {
    const found = await actual();
    try {
      return assert.deepEqual(found, expected);
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    await new Promise((done) => setTimeout(done, 20));
  }
};

const MARKUP = ["<img src=x onerror=pwned=1>", "<script>pwned=1</script>", "<b>bold</b>", "\"'><svg onload=pwned=1>", "javascript:pwned=1"];

describe("the page", { skip: missing }, () => {
  const directory = mkdtempSync(join(tmpdir(), "ggmill-web-files-"));
  let browser;
  let server;
  const at = (name, bytes) => {
    const path = join(directory, name);
    if (bytes !== undefined) writeFileSync(path, bytes);
    return path;
  };
  const values = Float32Array.from({ length: 256 }, (_, index) => (index - 128) / 64);
  const base = [
    ["general.architecture", "string", "llama"],
    ["general.name", "string", "Little one"],
    ["general.license", "string", "mit"],
    ["llama.context_length", "u32", 2048],
    ["llama.block_count", "u32", 2],
    ["llama.embedding_length", "u32", 16],
    ["little.numbers", ["i32"], [1, 2, 3]],
    ["little.large", "u64", 2n ** 63n + 1n],
    ["little.epsilon", "f32", 1e-5],
    ["tokenizer.chat_template", "string", "{# Talk #}{% for message in messages %}{{ message['content'] | trim }}{% endfor %}"],
  ];
  const tensors = [
    ["blk.0.ffn_up.weight", 0, [16, 16], Buffer.from(values.buffer)],
    ["blk.1.ffn_up.weight", 0, [16, 16], Buffer.from(values.buffer)],
    ["output_norm.weight", 0, [16], Buffer.alloc(64)],
  ];
  const little = () => at("little.gguf", gguf(base, tensors).bytes);
  /** A vocabulary of the size of the largest, where the real one is not. */
  const vocabulary = () => {
    if (gemma !== undefined) return gemma;
    const tokens = Array.from({ length: 262_144 }, (_, index) => `▁token${index}`);
    const entries = [
      ["general.architecture", "string", "gemma4"],
      ["tokenizer.ggml.model", "string", "gemma4"],
      ["tokenizer.ggml.tokens", ["string"], tokens],
      ["tokenizer.ggml.scores", ["f32"], tokens.map((_, index) => -index)],
      ["tokenizer.ggml.token_type", ["i32"], tokens.map(() => 1)],
      ["tokenizer.ggml.merges", ["string"], tokens.map((token) => `${token} a`)],
    ];
    return at("vocabulary.gguf", gguf(entries).bytes);
  };

  before(async () => {
    server = await serve({ "little.gguf": little(), "page.gguf": at("page.gguf", "<!doctype html><p>Sign in</p>") });
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    server?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  /** A page that is open for one test, and had no errors at its end. */
  const within = (work) => async (context) => {
    const { page, errors } = await pageOf(browser.context, server.address);
    try {
      await work(page, context, errors);
      assert.deepEqual(errors, []);
    } finally {
      await page.close();
    }
  };

  it("opens a vocabulary of 262,144 tokens", within(async (page, context) => {
    const milliseconds = await openFile(page, vocabulary());
    atMost(context, "opening the vocabulary", milliseconds, 300);
    await page.getByText("262,144 tokens").first().waitFor();
    assert.match(await page.locator("#read").textContent(), /in [1-6] requests/);
  }));

  it("scrolls to token 260,000, and finds tokens", within(async (page, context) => {
    await openFile(page, vocabulary());
    await show(page, "vocabulary");
    const rows = page.locator(".tokens .viewport .row");
    await rows.first().waitFor();
    // The longest pause between two frames while the list is at other rows in each.
    const longest = await page.evaluate(async () => {
      const list = document.querySelector(".tokens .viewport");
      let [most, last] = [0, performance.now()];
      for (let step = 1; step <= 60; step++) {
        list.scrollTop = (list.scrollHeight * step) / 60;
        const now = await new Promise(requestAnimationFrame);
        if (step > 1) most = Math.max(most, now - last);
        last = now;
      }
      return Math.round(most);
    });
    atMost(context, "the longest frame of scrolling", longest, 50);
    await page.getByLabel("Go to the ID").fill("260000");
    await page.getByLabel("Go to the ID").press("Enter");
    const model = await open(vocabulary());
    const token = model.metadata.get("tokenizer.ggml.tokens")[260_000];
    const row = rows.filter({ hasText: "260,000" });
    await row.waitFor();
    assert.equal(await row.locator("code").textContent(), token);
    assert.ok((await rows.count()) < 100, "rows that are out of view do not exist");
    await page.getByLabel("Search tokens, or an ID").fill("259999");
    await page.getByText(/^\d+ of 262,144 tokens$/).waitFor();
    await eventually(() => rows.first().locator(".cell").first().textContent(), "259,999");
  }));

  it("opens a file of 40 GB by its header", within(async (page, context) => {
    const path = at("large.gguf");
    const blocks = Array.from({ length: 80 }, (_, block) => [`blk.${block}.ffn_up.weight`, 0, [16384, 8192], 16384 * 8192 * 4]);
    const { bytes, size } = gguf([["general.architecture", "string", "llama"], ["llama.block_count", "u32", 80]], blocks);
    const file = openSync(path, "w");
    writeSync(file, bytes);
    ftruncateSync(file, size);
    closeSync(file);
    assert.ok(size > 40e9);
    const milliseconds = await openFile(page, path);
    atMost(context, "opening 40 GB", milliseconds, 300);
    const read = Number(await page.locator("#read").getAttribute("data-bytes"));
    context.diagnostic(`${read} bytes read of ${size}`);
    assert.ok(read <= 4e6, `${read} bytes read`);
    await show(page, "tensors");
    await page.locator(".tensors").getByRole("button", { name: "blk.0.ffn_up.weight" }).waitFor();
    rmSync(path);
  }));

  it("saves edits as the package and the command do", within(async (page) => {
    const path = little();
    const edits = { set: { "general.name": "Größer <b>", "little.numbers": [4, -5], "little.new": { type: "u64", value: 2n ** 64n - 1n } }, remove: ["general.license"] };
    // A download, as in browsers without a picker of files to write.
    await page.evaluate(() => delete Window.prototype.showSaveFilePicker);
    await page.evaluate(() => delete globalThis.showSaveFilePicker);
    await openFile(page, path);
    await show(page, "metadata");
    const entry = (key) => page.locator(".metadata").getByRole("button", { name: key, exact: true });
    await page.locator(".metadata .row", { hasText: "little.large" }).getByText("9223372036854775809").waitFor();
    await page.locator(".metadata .row", { hasText: "little.epsilon" }).getByText("0.00001", { exact: true }).waitFor();
    const dialog = page.getByRole("dialog");
    for (const [key, text] of [["general.name", "Größer <b>"], ["little.numbers", "[4, -5]"]]) {
      await entry(key).click();
      await dialog.getByLabel("Value").fill(text);
      await dialog.getByRole("button", { name: "Apply" }).click();
    }
    await entry("general.license").click();
    await dialog.getByRole("button", { name: "Remove the key" }).click();
    await page.getByRole("button", { name: "Add a key" }).click();
    await dialog.getByLabel("Key").fill("little.new");
    await dialog.getByLabel("Type").selectOption("u64");
    await dialog.getByLabel("Value").fill("18446744073709551616");
    await dialog.getByRole("button", { name: "Apply" }).click();
    await dialog.getByText("expected an integer from 0 to 18446744073709551615").waitFor();
    await dialog.getByLabel("Value").fill("18446744073709551615");
    await dialog.getByRole("button", { name: "Apply" }).click();
    await page.getByText("4 changes", { exact: true }).waitFor();
    // With the one that is added, and with what a patch is for beside its button.
    const total = base.length + 1;
    await page.getByText(`${total} of ${total} entries`).waitFor();
    await page.locator(".changes").getByText("ggmill edit little.gguf --patch edits.json").waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save a copy…" }).click();
    const saved = readFileSync(await (await download).path());
    const bytes = readFileSync(path);
    const model = await open(bytes);
    assert.deepEqual(saved, Buffer.from((await model.edit(edits)).applyTo(bytes)));
    assert.deepEqual(readFileSync(path), bytes, "the file that is open is unchanged");
    const command = process.env.GGMILL;
    if (command !== undefined) {
      const changes = page.waitForEvent("download");
      await page.getByRole("button", { name: "Save a patch…" }).click();
      const [output, json] = [at("edited.gguf"), at("edits.json", readFileSync(await (await changes).path()))];
      assert.match(await page.locator(".status").textContent(), /ggmill edit little\.gguf --patch edits\.json/);
      execFileSync(command, ["edit", path, "--patch", json, "-o", output]);
      const other = await open(readFileSync(output));
      const ours = await open(saved);
      assert.deepEqual(ours.metadata.toObject(), other.metadata.toObject());
      assert.deepEqual(await ours.tensors[1].bytes(), await other.tensors[1].bytes());
    }
  }));

  it("warns of a new key that looks misspelled", within(async (page) => {
    await openFile(page, little());
    await show(page, "metadata");
    const dialog = page.getByRole("dialog");
    const add = async (key) => {
      await page.getByRole("button", { name: "Add a key" }).click();
      await dialog.getByLabel("Key").fill(key);
      await dialog.getByLabel("Value").fill("x");
      await dialog.getByRole("button", { name: "Apply" }).click();
    };
    await add("general.licence");
    await dialog.getByText("general.licence looks misspelled: did you mean general.license?").waitFor();
    await dialog.getByRole("button", { name: "Apply" }).click();
    await page.getByText("1 change", { exact: true }).waitFor();
    await add("my.own_key");
    await page.getByText("2 changes", { exact: true }).waitFor();
  }));

  it("tells a server that refuses other origins from one that does not answer", within(async (page, context, errors) => {
    const other = await serve({ "little.gguf": little() });
    const open = async (address) => {
      await page.getByLabel("Address").fill(address);
      await page.getByRole("button", { name: "Open", exact: true }).click();
    };
    await open(`${other.address}files/little.gguf`);
    await page.getByText("does not allow pages from other origins to read it (CORS)").waitFor();
    other.close();
    await open(`${other.address}files/little.gguf`);
    await page.getByText("the server did not answer").waitFor();
    // The browser reports each of these requests.
    assert.deepEqual(errors.splice(0).filter((error) => !/CORS|Failed to load resource/.test(error)), []);
  }));

  it("saves a patch that removes these keys and no others, and has numbers that are not finite", within(async (page) => {
    const keys = ["little.a*b", "little.a1b", "little.[x]?", "little.xy"];
    const path = at("patterns.gguf", gguf([...base, ...keys.map((key) => [key, "u32", 1])], tensors).bytes);
    await page.evaluate(() => delete Window.prototype.showSaveFilePicker);
    await page.evaluate(() => delete globalThis.showSaveFilePicker);
    await openFile(page, path);
    await show(page, "metadata");
    const dialog = page.getByRole("dialog");
    const edit = (key) => page.locator(".metadata").getByRole("button", { name: key, exact: true }).click();
    for (const key of ["little.a*b", "little.[x]?"]) {
      await edit(key);
      await dialog.getByRole("button", { name: "Remove the key" }).click();
    }
    for (const number of ["NaN", "-Infinity"]) {
      await edit("little.epsilon");
      await dialog.getByLabel("Value").fill(number);
      await dialog.getByRole("button", { name: "Apply" }).click();
      const download = page.waitForEvent("download");
      await page.getByRole("button", { name: "Save a patch…" }).click();
      const text = readFileSync(await (await download).path());
      assert.deepEqual(JSON.parse(text), { "little.a*b": null, "little.[x]?": null, "little.epsilon:f32": number });
      if (process.env.GGMILL !== undefined) {
        const [output, patch] = [at(`without${number}.gguf`), at("patch.json", text)];
        execFileSync(process.env.GGMILL, ["edit", path, "--patch", patch, "-o", output]);
        const left = (await open(readFileSync(output))).metadata;
        assert.deepEqual(Object.keys(left.toObject()).filter((key) => keys.includes(key)), ["little.a1b", "little.xy"]);
        assert.ok(Object.is(left.get("little.epsilon"), Number(number)));
      }
    }
  }));

  it("streams a copy to a file that is picked", within(async (page) => {
    const path = little();
    await page.evaluate(() => {
      globalThis.written = [];
      globalThis.showSaveFilePicker = async () => ({
        createWritable: async () => new WritableStream({ write: (chunk) => void globalThis.written.push(...chunk) }),
      });
    });
    await openFile(page, path);
    await show(page, "metadata");
    await page.locator(".metadata").getByRole("button", { name: "llama.context_length" }).click();
    await page.getByRole("dialog").getByLabel("Value").fill("4096");
    await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
    await page.getByRole("button", { name: "Save a copy…" }).click();
    await page.getByText(/^Saved little-edited\.gguf/).waitFor();
    const bytes = readFileSync(path);
    const expected = (await (await open(bytes)).edit({ set: { "llama.context_length": 4096 } })).applyTo(bytes);
    assert.deepEqual(await page.evaluate(() => globalThis.written), [...expected]);
  }));

  it("finds the faults of a broken file", within(async (page) => {
    const broken = [
      ["general.architecture", "string", "llama"],
      ["general.name", "string", "Broken"],
      ["general.name", "string", "Broken twice"],
      ["tokenizer.ggml.model", "string", "llama"],
      ["tokenizer.ggml.tokens", ["string"], ["<s>", "</s>", "a"]],
      ["tokenizer.ggml.scores", ["f32"], [0, 0, 0]],
      ["tokenizer.ggml.token_type", ["i32"], [3, 3, 1]],
      ["tokenizer.ggml.eos_token_id", "u32", 77],
    ];
    const { bytes } = gguf(broken, tensors, { offsets: { "output_norm.weight": 4096 } });
    await openFile(page, at("broken.gguf", bytes));
    await page.getByText("The file is damaged.").waitFor();
    await show(page, "check");
    await page.locator(".findings li").first().waitFor();
    const links = page.locator(".findings li a");
    const codes = (await links.allTextContents()).map((text) => text.slice(0, 6));
    for (const code of FAULTS) assert.ok(codes.includes(code), `${code} among ${codes.join(", ")}`);
    assert.match(await links.first().getAttribute("href"), /\/docs\/rules\/GG\d{4}\.md$/);
  }));

  it("shows markup in a file as text", within(async (page) => {
    const entries = [
      ["general.architecture", "string", MARKUP[0]],
      ["general.name", "string", MARKUP[1]],
      ["general.license", "string", MARKUP[3]],
      [MARKUP[0], "string", MARKUP[1]],
      ["some.strings", ["string"], MARKUP],
      ["tokenizer.ggml.model", "string", MARKUP[3]],
      ["tokenizer.ggml.tokens", ["string"], MARKUP],
      ["tokenizer.chat_template", "string", `${MARKUP.join("\n")}{{ "${MARKUP[0]}" }}{# ${MARKUP[1]} #}`],
    ];
    const hostile = MARKUP.map((name) => [name, 0, [16], Buffer.alloc(64)]);
    const path = at("hostile<img src=x onerror=pwned=1>.gguf", gguf(entries, hostile).bytes);
    await openFile(page, path);
    for (const tab of TABS) {
      await show(page, tab);
      await page.waitForTimeout(200);
    }
    await page.locator("#other-file").setInputFiles(little());
    await page.locator(".comparison .list").first().waitFor();
    await show(page, "metadata");
    await page.locator(".metadata").getByRole("button", { name: "some.strings" }).click();
    const found = await page.evaluate(() => ({
      elements: document.body.querySelectorAll("img, script, iframe, b, [onerror], [onload], a[href^='javascript']").length,
      pwned: "pwned" in globalThis,
    }));
    assert.deepEqual(found, { elements: 0, pwned: false });
    assert.ok((await page.locator("h1").textContent()).includes("<img src=x"));
  }));

  it("opens an address by ranges, and one that the page is called with", within(async (page) => {
    await page.getByLabel("Address").fill("files/little.gguf");
    await page.getByRole("button", { name: "Open", exact: true }).click();
    await page.getByText("Little one").waitFor();
    const asked = server.requests.filter(({ path }) => path === "/files/little.gguf");
    assert.ok(asked.length > 0 && asked.every(({ range }) => range !== undefined));
    await page.goto(`${server.address}#open=files/little.gguf`);
    await page.reload();
    await page.getByText("Little one").waitFor();
  }));

  it("says that it was called with what is not an address, and opens the next", within(async (page) => {
    await page.goto(`${server.address}#open=%zz`);
    await page.reload();
    await page.getByText("#open=%zz is not an address").waitFor();
    await page.evaluate(() => (location.hash = "open=files/little.gguf"));
    await page.getByText("Little one").waitFor();
  }));

  it("is served by the command, with a file", { skip: process.env.GGMILL === undefined && "GGMILL names no command" }, async () => {
    const path = at("a model #1%.gguf", gguf(base, tensors).bytes);
    const command = spawn(process.env.GGMILL, ["web", path, "--page", PAGE], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      const address = String(await new Promise((found, failed) => {
        command.stdout.once("data", found);
        command.once("exit", (code) => failed(new Error(`ggmill web ended: ${code}`)));
      })).trim();
      const { page, errors } = await pageOf(browser.context, address);
      await page.getByText("Little one").waitFor();
      assert.equal(await page.locator("h1").textContent(), "a model #1%.gguf");
      await show(page, "weights");
      await page.locator(".weights .histogram").waitFor();
      assert.deepEqual(errors, []);
      await page.close();
    } finally {
      command.removeAllListeners("exit");
      command.kill();
    }
  });

  it("says what is wrong with what cannot be opened", within(async (page, _, errors) => {
    const tried = async (address) => {
      await page.getByLabel("Address").fill(address);
      await page.getByRole("button", { name: "Open", exact: true }).click();
      await page.getByRole("alert").waitFor();
      return page.getByRole("alert").textContent();
    };
    await page.locator("#model-file").setInputFiles(at("text.gguf", "<!doctype html><p>Sign in</p>"));
    await page.getByRole("alert").waitFor();
    assert.match(await page.getByRole("alert").textContent(), /GGUF/);
    await page.reload();
    assert.match(await tried("files/none.gguf"), /status 404/);
    await page.reload();
    assert.match(await tried("ftp://127.0.0.1/a.gguf"), /expected http, https, hf or file/);
    // The browser says itself that an answer was 404.
    assert.ok(errors.every((message) => message.includes("404")), errors.join("\n"));
    errors.length = 0;
  }));

  it("may send requests and compile only in the worker", within(async (page, _, errors) => {
    const blocked = await page.evaluate(async () => {
      const violations = [];
      document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => violations.push(effectiveDirective));
      await fetch("index.html").catch(() => undefined);
      await WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])).catch(() => undefined);
      await new Promise((done) => setTimeout(done));
      return [...new Set(violations)];
    });
    assert.deepEqual(blocked.sort(), ["connect-src", "script-src"]);
    errors.length = 0;
  }));

  it("compares two files", within(async (page) => {
    await openFile(page, little());
    await show(page, "compare");
    const changed = base.map((entry) => (entry[0] === "general.name" ? ["general.name", "string", "Another"] : entry)).filter(([key]) => key !== "general.license");
    await page.locator("#other-file").setInputFiles(at("other.gguf", gguf(changed, tensors.slice(1)).bytes));
    await page.getByText("2 different, 8 equal entries").waitFor();
    await page.getByText("1 different, 2 equal tensors").waitFor();
    const rows = page.locator(".differences").first().locator(".viewport .row");
    await eventually(() => rows.first().locator(".cell").allTextContents(), ["general.name", "string Little one", "string Another"]);
  }));

  it("shows the values of a tensor", within(async (page) => {
    await openFile(page, little());
    await show(page, "tensors");
    await page.getByRole("button", { name: "blk.1.ffn_up.weight" }).click();
    await page.locator(".weights .histogram").waitFor();
    const facts = await page.locator(".weights .facts").textContent();
    assert.match(facts, /Values256/);
    assert.match(facts, /Minimum-2Maximum1\.98438/);
    assert.match(facts, /Zeros1 /);
    assert.ok(await page.locator(".weights canvas").isVisible());
  }));

  it("sorts and searches tensors", within(async (page) => {
    await openFile(page, little());
    await show(page, "tensors");
    const names = () => page.locator(".tensors .viewport .row .key").allTextContents();
    await page.getByRole("button", { name: "Size" }).click();
    await eventually(async () => (await names())[0], "output_norm.weight");
    await page.getByRole("button", { name: "Size" }).click();
    await eventually(async () => (await names()).at(-1), "output_norm.weight");
    await page.getByLabel("Search names and types").fill("blk.1");
    await page.getByText("1 of 3 tensors").waitFor();
    await eventually(names, ["blk.1.ffn_up.weight"]);
  }));

  it("estimates memory", within(async (page) => {
    const full = [...base, ["llama.attention.head_count", "u32", 2], ["llama.feed_forward_length", "u32", 16], ["llama.attention.layer_norm_rms_epsilon", "f32", 1e-5]];
    const path = at("memory.gguf", gguf(full, tensors).bytes);
    await openFile(page, path);
    await show(page, "memory");
    await page.getByText(/^Total: /).waitFor();
    const total = () => page.locator(".estimate .total").textContent();
    const first = await total();
    await page.getByLabel("Context", { exact: false }).first().press("Home");
    await page.waitForFunction((text) => document.querySelector(".estimate .total")?.textContent !== text, first);
    const [estimate] = (await (await open(readFileSync(path))).estimate({ context: 512, gpuLayers: 0, sequences: 1 })).estimates;
    const shown = (bytes) => (bytes >= 1024 ? `${(bytes / 1024).toFixed(bytes < 10240 ? 2 : 1)} KiB` : `${bytes} bytes`);
    if (estimate.total < 1024 * 1024) assert.equal(await total(), `Total: ${shown(estimate.total)}`);
  }));

  const chat = () => {
    const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    const tokens = ["<unk>", "<|end|>", "▁", "H", "i", "Hi", MARKUP[0], ...bytes];
    const types = tokens.map((token) => (token === "<unk>" ? 2 : token === "<|end|>" ? 3 : token.startsWith("<0x") ? 6 : 1));
    const template = "{% for message in messages %}{{ message.role }}: {{ message.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";
    const entries = [
      ...base.filter(([key]) => key !== "tokenizer.chat_template"),
      ["tokenizer.ggml.model", "string", "llama"],
      ["tokenizer.ggml.tokens", ["string"], tokens],
      ["tokenizer.ggml.scores", ["f32"], tokens.map((_, index) => -index)],
      ["tokenizer.ggml.token_type", ["i32"], types],
      ["tokenizer.chat_template", "string", template],
      ["tokenizer.chat_template.strict", "string", `{{ raise_exception("No ${MARKUP[2]}") }}`],
    ];
    return at("chat.gguf", gguf(entries, tensors).bytes);
  };

  it("renders a conversation with the template, and shows its tokens", within(async (page) => {
    const path = chat();
    await openFile(page, path);
    await show(page, "template");
    const trial = page.locator("#panel-template .trial");
    await trial.locator("summary").press("Enter");
    await trial.locator(".rendered").waitFor();
    await page.getByLabel("Message 1: text").fill("Hi <|end|>");
    await page.getByRole("button", { name: "Remove message 2" }).click();
    await page.getByRole("button", { name: "Add a message" }).click();
    await page.keyboard.type(`Hi ${MARKUP[0]}`);
    await page.getByText("messages[0].content: <|end|> is treated as plain text.").waitFor();
    const messages = [{ role: "system", content: "Hi <|end|>" }, { role: "user", content: `Hi ${MARKUP[0]}` }];
    const model = await open(readFileSync(path));
    const expected = await model.renderTemplate({ messages, addGenerationPrompt: true });
    await page.waitForFunction((text) => document.querySelector(".rendered").textContent === text, expected.text);
    const marked = await trial.locator(".rendered mark").allTextContents();
    assert.deepEqual(marked, ["system", "Hi <|end|>", "user", `Hi ${MARKUP[0]}`]);
    assert.equal(await trial.getByRole("status").textContent(), `${expected.ids.length} tokens`);
    assert.deepEqual((await trial.locator(".token .id").allTextContents()).map(Number), expected.ids);
    await page.getByLabel("Add the generation prompt").uncheck();
    await page.waitForFunction(() => !document.querySelector(".rendered").textContent.endsWith("assistant:"));
    await page.getByLabel("Write JSON").check();
    const json = page.getByLabel("Messages, or an object");
    assert.deepEqual(JSON.parse(await json.inputValue()), messages);
    await json.fill('{"messages": [{"role": "user", "content": "x"}], "add_generation_prompt": true}');
    await page.waitForFunction(() => document.querySelector(".rendered").textContent === "user: x<|end|>\nassistant:");
    await json.fill("[{}]");
    await page.getByText("messages[0] has no role").waitFor();
    assert.equal(await trial.locator(".rendered").count(), 0);
    await json.fill("[");
    await trial.locator(".error").filter({ hasText: "JSON" }).waitFor();
    await json.fill('[{"role": "user", "content": "x"}]');
    await trial.locator(".rendered").waitFor();
    await page.locator("#panel-template select").selectOption("tokenizer.chat_template.strict");
    await page.getByText(`No ${MARKUP[2]}`).last().waitFor();
    assert.match(await trial.getByRole("status").textContent(), /the template rejects the conversation: No <b>/);
    assert.equal(await page.locator("b, img").count(), 0);
  }));

  it("tokenizes text, and says why it cannot", within(async (page) => {
    const path = chat();
    await openFile(page, path);
    await show(page, "vocabulary");
    const trial = page.locator("#panel-vocabulary .trial");
    await trial.locator("summary").click();
    const text = page.getByLabel("Text", { exact: true });
    await text.fill("Hi ä<|end|>");
    await trial.locator(".token").first().waitFor();
    const model = await open(readFileSync(path));
    const ids = async () => (await trial.locator(".token .id").allTextContents()).map(Number);
    const expected = async (options) => (await model.tokenize("Hi ä<|end|>", options)).tokens.map(({ id }) => id);
    assert.deepEqual(await ids(), await expected());
    assert.ok((await trial.locator(".token code").allTextContents()).includes("<0xC3>"));
    await page.getByLabel("Parse special tokens").uncheck();
    await page.waitForFunction((count) => document.querySelectorAll(".token").length === count, (await expected({ parseSpecial: false })).length);
    assert.deepEqual(await ids(), await expected({ parseSpecial: false }));
    await text.fill("H".repeat(3000));
    await page.getByText(/^[\d,]+ more tokens are not shown\.$/).waitFor();
    assert.equal(await trial.locator(".token").count(), 500);
    await text.fill("");
    await page.waitForFunction(() => document.querySelectorAll(".token").length === 0);
    await page.reload();
    await openFile(page, at("no-model.gguf", gguf([...base, ["tokenizer.ggml.tokens", ["string"], ["a"]]], tensors).bytes));
    await show(page, "vocabulary");
    await trial.locator("summary").click();
    await text.fill("a");
    await trial.locator(".error").filter({ hasText: "tokenizer.ggml.model" }).waitFor();
  }));

  it("is used with the keyboard", within(async (page) => {
    await openFile(page, little());
    await page.locator("#tab-summary").focus();
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.locator("#tab-metadata").getAttribute("aria-selected"), "true");
    await page.keyboard.press("End");
    assert.equal(await page.evaluate(() => document.activeElement.id), "tab-compare");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    const key = page.locator(".metadata").getByRole("button", { name: "general.name" });
    await key.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.getByRole("dialog").count(), 0);
  }));

  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1200, 400]) {
      it(`is accessible, ${colorScheme}, ${width} pixels wide`, within(async (page) => {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        // By the debugger, as the policy of the page permits no other script.
        await page.evaluate(readFileSync(join(import.meta.dirname, "../node_modules/axe-core/axe.min.js"), "utf8"));
        const serious = async (where) => {
          const { violations } = await page.evaluate(() => globalThis.axe.run());
          const found = violations
            .filter(({ impact }) => impact === "serious" || impact === "critical")
            .map(({ id, nodes }) => `${where}: ${id}: ${nodes.map(({ html }) => html).slice(0, 3).join(" ")}`);
          assert.deepEqual(found, []);
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(overflow <= 0, `${where} is ${overflow} pixels too wide`);
        };
        await serious("start");
        const tokens = [...base, ["tokenizer.ggml.tokens", ["string"], ["<s>", "a"]]];
        await openFile(page, at("accessible.gguf", gguf(tokens, tensors).bytes));
        for (const tab of TABS) {
          await show(page, tab);
          await page.waitForTimeout(150);
          await serious(tab);
        }
        await page.reload();
        await page.evaluate(readFileSync(join(import.meta.dirname, "../node_modules/axe-core/axe.min.js"), "utf8"));
        await openFile(page, chat());
        for (const [tab, ready] of [["template", ".rendered"], ["vocabulary", ".token"]]) {
          await show(page, tab);
          await page.locator(`#panel-${tab} .trial summary`).click();
          if (tab === "vocabulary") await page.getByLabel("Text", { exact: true }).fill("Hi <|end|>");
          await page.locator(`#panel-${tab} .trial ${ready}`).first().waitFor();
          await serious(`trial of ${tab}`);
        }
        await show(page, "metadata");
        await page.locator(".metadata").getByRole("button", { name: "general.name" }).click();
        await serious("editor");
      }));
    }
  }
});

const TABS = ["summary", "metadata", "tensors", "vocabulary", "template", "check", "memory", "weights", "compare"];
/** A duplicate key, a special token ID out of range, and a tensor beyond the end of the file. */
const FAULTS = ["GG1201", "GG1605", "GG1302"];
