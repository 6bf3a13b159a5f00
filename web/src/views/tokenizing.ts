// A text and its tokens.

import type { TextToken } from "ggmill";
import { call } from "../client.js";
import { debounced, el, field } from "../dom.js";
import { visible } from "../text.js";
import { tokenCount, tokenList } from "./tokens.js";

export function tokenizing(): HTMLElement {
  const text = el("textarea", { rows: 3, spellcheck: "false", placeholder: "Text to tokenize" });
  const addSpecial = el("input", { type: "checkbox", checked: true });
  const parseSpecial = el("input", { type: "checkbox", checked: true });
  const status = el("p", { role: "status" });
  const result = el("div", {});
  let last = 0;
  const update = async (): Promise<void> => {
    const number = ++last;
    const options = { addSpecial: addSpecial.checked, parseSpecial: parseSpecial.checked };
    status.className = "";
    if (text.value === "") {
      status.textContent = "";
      result.replaceChildren();
      return;
    }
    status.textContent ||= "The vocabulary is being loaded…";
    try {
      const { count, tokens } = await call("tokenize", "model", text.value, options);
      if (number !== last) return;
      status.textContent = tokenCount(count);
      result.replaceChildren(
        tokenList(count, (index) => {
          const token = tokens[index];
          return { id: token?.id ?? 0, text: token === undefined ? "" : shownPiece(token) };
        }),
      );
    } catch (error) {
      if (number !== last) return;
      status.className = "error";
      status.textContent = visible(error instanceof Error ? error.message : String(error));
      result.replaceChildren();
    }
  };
  return el(
    "details",
    { class: "trial" },
    el("summary", {}, "Tokenize"),
    el(
      "form",
      { onsubmit: (event: Event) => event.preventDefault(), oninput: debounced(150, () => void update()) },
      field("Text", text),
      el(
        "div",
        { class: "tools" },
        el("label", { class: "check" }, addSpecial, "Add BOS and EOS"),
        el("label", { class: "check" }, parseSpecial, "Parse special tokens"),
      ),
    ),
    status,
    result,
  );
}

/** The text of a token, or its bytes. */
function shownPiece({ piece }: TextToken): string {
  if (typeof piece === "string") return piece;
  return piece.bytes_hex.replace(/../g, (byte) => `<0x${byte.toUpperCase()}>`);
}
