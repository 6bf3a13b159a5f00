import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { open } from "../src/index.js";
import { file, ranged, serve } from "./helpers.js";

const small = file({ "general.architecture": "llama" }, { w: Array.from({ length: 64 }, (_, at) => at) });
/** A header of about 15 MB, as a vocabulary of 262k tokens has. */
const tokens = Array.from({ length: 262_144 }, (_, at) => `${at}`.padEnd(48, "x"));
const large = file({ "general.architecture": "llama", "tokenizer.ggml.tokens": tokens }, { w: [1, 2, 3] });

describe("URLs", () => {
  let answer = (request) => ranged(small, request);
  let server;
  before(async () => (server = await serve((request) => answer(request))));
  after(() => server.close());

  const fresh = (next) => {
    answer = next;
    server.requests.length = 0;
    return `${server.url}/model.gguf`;
  };

  it("takes one request for a small header, and one for a tensor", async () => {
    const model = await open(fresh((request) => ranged(small, request)));
    assert.equal(server.requests.length, 1);
    assert.deepEqual(await model.tensor("w").values({ start: 60, end: 64 }), Float32Array.of(60, 61, 62, 63));
    assert.deepEqual(server.requests[1].range, [model.dataOffset + 240, model.dataOffset + 256]);
    assert.equal(server.requests.length, 2);
  });

  it("takes four requests for a header of 15 MB", async () => {
    const model = await open(fresh((request) => ranged(large, request)));
    assert.equal(model.metadata.get("tokenizer.ggml.tokens").length, 262_144);
    assert.equal(server.requests.length, 4);
    assert.ok(server.bytes() <= large.length);
  });

  it("opens the shards of a set with one request each", async () => {
    const shards = [1, 2, 3].map((number) =>
      file({ "general.architecture": "llama", "split.no": number - 1, "split.count": 3, "split.tensors.count": 3 }, { [`w${number}`]: [number] }),
    );
    // The keys have the types that the command writes: u16, u16, i32.
    const url = fresh((request) => ranged(shards[Number(/-0000(\d)-/.exec(request.path)[1]) - 1], request));
    const model = await open(url.replace("model", "model-00002-of-00003"));
    assert.deepEqual(model.tensors.map(({ name }) => name), ["w1", "w2", "w3"]);
    assert.equal(server.requests.length, 3);
    assert.deepEqual(await model.tensor("w3").values(), Float32Array.of(3));
  });

  it("reads the beginning from a server that ignores ranges, and says so of the rest", async () => {
    const model = await open(fresh(() => ({ status: 200, body: small })));
    assert.equal(model.metadata.get("general.architecture"), "llama");
    await assert.rejects(model.tensor("w").bytes(), { kind: "unsupported", message: /only whole files/ });
  });

  it("tells a server that refuses pages of other origins from one that does not answer", async () => {
    const known = Object.getOwnPropertyDescriptor(globalThis, "location");
    Object.defineProperty(globalThis, "location", { value: { origin: "https://page.example" }, configurable: true });
    const requests = [];
    const browser = (answers) => async (url, { mode }) => {
      requests.push(mode);
      if (mode === "no-cors" && answers) return { type: "opaque" };
      throw new TypeError("Failed to fetch");
    };
    try {
      const at = "https://models.example/model.gguf";
      const refused = { kind: "denied", message: /does not allow pages from other origins to read it \(CORS\)/ };
      await assert.rejects(open(at, { fetch: browser(true) }), refused);
      assert.deepEqual(requests, [undefined, "no-cors"], "it is not tried again");
      await assert.rejects(open(at, { fetch: browser(false) }), { kind: "unavailable", message: /did not answer/ });
      requests.length = 0;
      await assert.rejects(open("https://page.example/model.gguf", { fetch: browser(true) }), { kind: "unavailable" });
      assert.ok(!requests.includes("no-cors"), "its own server");
    } finally {
      if (known === undefined) delete globalThis.location;
      else Object.defineProperty(globalThis, "location", known);
    }
  });

  it("tries again what may pass", async () => {
    const failures = [{ status: 503 }, { status: 429, headers: { "retry-after": "0" } }];
    const model = await open(fresh((request) => failures[request.number] ?? ranged(small, request)));
    assert.equal(server.requests.length, 3);
    assert.equal(model.tensors.length, 1);
  });

  it("tries again when the connection breaks off", async () => {
    const cut = (request) => (request.number === 0 ? { ...ranged(small, request), cut: 100 } : ranged(small, request));
    await open(fresh(cut));
    assert.equal(server.requests.length, 2);
  });

  it("gives up after four tries", async () => {
    await assert.rejects(open(fresh(() => ({ status: 500, headers: { "retry-after": "0" } }))), { kind: "unavailable" });
    assert.equal(server.requests.length, 4);
  });

  it("does not try again what will not pass", async () => {
    for (const [status, kind] of [[401, "denied"], [403, "denied"], [404, "not_found"], [400, "io"]]) {
      await assert.rejects(open(fresh(() => ({ status }))), { kind, status });
      assert.equal(server.requests.length, 1);
    }
  });

  it("refuses a mixture of two contents", async () => {
    const replaced = (request) => ranged(large, request, request.number === 0 ? '"one"' : '"two"');
    await assert.rejects(open(fresh(replaced)), { kind: "changed", message: /entity tag/ });
    const grown = (request) => {
      const reply = ranged(large, request);
      if (request.number > 0) reply.headers["content-range"] = reply.headers["content-range"].replace(/\d+$/, "99999999");
      return reply;
    };
    await assert.rejects(open(fresh(grown)), { kind: "changed", message: /length/ });
  });

  it("refuses another range than it asked for", async () => {
    const other = (request) => {
      const reply = ranged(small, request);
      reply.headers["content-range"] = `bytes 32-${small.length - 1}/${small.length}`;
      return reply;
    };
    await assert.rejects(open(fresh(other)), { kind: "io", message: /were asked for/ });
  });

  it("says of a file that is shorter than its tensors what is missing", async () => {
    await assert.rejects(open(fresh((request) => ranged(small.subarray(0, small.length - 64), request))), { kind: "truncated" });
  });

  it("sends the header fields it is given, and ends on request", async () => {
    const url = fresh((request) => ranged(small, request));
    await open(url, { headers: { authorization: "Bearer secret" } });
    assert.equal(server.requests[0].headers.authorization, "Bearer secret");
    const error = await open(`${url}?token=secret`, { signal: AbortSignal.abort() }).catch((error) => error);
    assert.equal(error.name, "AbortError");
  });

  it("keeps what is behind the path of an address out of messages", async () => {
    const url = fresh(() => ({ status: 404 }));
    const error = await open(`${url}?X-Amz-Signature=secret`).catch((error) => error);
    assert.doesNotMatch(error.message, /secret/);
  });

  it("finds files on the Hub", async () => {
    fresh((request) => ranged(small, request));
    await open("hf://owner/name@abc/dir/model.gguf", { hub: server.url });
    assert.equal(server.requests[0].path, "/owner/name/resolve/abc/dir/model.gguf");
    await assert.rejects(open("hf://owner", { hub: server.url }), { kind: "misuse" });
  });
});
