// The vocabulary: tokens by their ID, and a search.

import { call } from "../client.js";
import { button, debounced, el } from "../dom.js";
import { List } from "../list.js";
import type { Page, View } from "../page.js";
import type { ArrayRow, Entry } from "../protocol.js";
import { count, real, visible } from "../text.js";
import { tokenizing } from "./tokenizing.js";

const TOKENS = "tokenizer.ggml.tokens";
const TYPES = ["", "normal", "unknown", "control", "user-defined", "unused", "byte"];

export function vocabularyView({ listing }: Page): View {
  const entry = listing.entries.find(({ key }) => key === TOKENS);
  if (entry?.type !== "array") {
    return { element: el("section", {}, el("p", {}, "The file has no vocabulary (tokenizer.ggml.tokens).")) };
  }
  const total = entry.length ?? 0;
  let query = "";
  const search = el("input", { type: "search", placeholder: "Search tokens, or an ID", "aria-label": "Search tokens, or an ID" });
  const place = el("input", { type: "number", min: 0, max: Math.max(0, total - 1), placeholder: "ID", "aria-label": "Go to the ID" });
  const found = el("span", { class: "muted", role: "status" }, `${count(total)} tokens`);
  const list = new List<ArrayRow>({
    label: "Tokens",
    class: "tokens",
    columns: [
      { name: "ID", class: "number" },
      { name: "Token" },
      { name: "Type", class: "kind" },
      { name: "Score", class: "number score" },
    ],
    fetch: async (from, to) => (await call("rows", "model", TOKENS, query, from, to)).rows,
    cells: ({ index, value, type, score }) => [
      count(index),
      el("code", {}, visible(value)),
      type === undefined ? "" : (TYPES[type] ?? `type ${type}`),
      score === undefined ? "" : real(score),
    ],
  });
  list.show(total);
  const update = async (): Promise<void> => {
    const wanted = search.value;
    const { total: matching } = await call("rows", "model", TOKENS, wanted, 0, 0);
    if (wanted !== search.value) return;
    query = wanted;
    found.textContent = query === "" ? `${count(total)} tokens` : `${count(matching)} of ${count(total)} tokens`;
    list.show(matching);
  };
  search.addEventListener("input", debounced(120, () => void update()));
  const go = (): void => {
    if (query !== "") {
      search.value = query = "";
      found.textContent = `${count(total)} tokens`;
      list.show(total);
    }
    list.scrollTo(Math.min(Math.max(0, place.valueAsNumber || 0), total - 1));
  };
  place.addEventListener("keydown", ({ key }) => key === "Enter" && go());
  return {
    element: el(
      "section",
      { class: "filling" },
      el("div", { class: "tools" }, search, place, button("Go", go), found),
      facts(listing.entries),
      tokenizing(),
      list.element,
    ),
    shown: () => list.refresh(),
  };
}

/** What else the file says about its tokens. */
function facts(entries: readonly Entry[]): HTMLElement {
  const items = entries
    .filter(({ key, type }) => key.startsWith("tokenizer.ggml.") && type !== "array" && !key.endsWith("chat_template"))
    .slice(0, 24)
    .map(({ key, value }) => el("span", { class: "chip" }, `${visible(key.slice("tokenizer.ggml.".length))}: ${visible(String(value))}`));
  return el("div", { class: "chips" }, ...items);
}
