// What works in every runtime. It throws at the first difference.

import assert from "node:assert/strict";
import { open, vet } from "../../src/index.js";
import { file } from "../helpers.js";

export const bytes = file({ "general.architecture": "llama", "general.name": "Größe" }, { "a.weight": [1, 2, 3, 4] });

/** Holds a model against these bytes. */
export async function same(model) {
  assert.equal(model.metadata.get("general.name"), "Größe");
  assert.deepEqual([...(await model.tensors[0].values())], [1, 2, 3, 4]);
}

/** Opens the bytes in every way that needs no network, checks and edits them. */
export async function checks() {
  await same(await open(bytes));
  await same(await open(new Blob([bytes])));
  await same(await open({ size: bytes.length, read: async (offset, length) => bytes.subarray(offset, offset + length) }));
  const model = await open(bytes);
  assert.equal((await model.check()).schema, "ggmill.check/1");
  assert.equal((await vet(new Blob([bytes]))).schema, "ggmill.verdict/1");
  const edited = (await model.edit({ set: { "general.name": "Other" } })).applyTo(bytes);
  assert.equal((await open(edited)).metadata.get("general.name"), "Other");
}
