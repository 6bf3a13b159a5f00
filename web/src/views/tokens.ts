// Tokens as boxes with their IDs.

import { el } from "../dom.js";
import { count, visible } from "../text.js";

/** Tokens that are shown; the others are counted. */
const SHOWN = 500;

/** A token as it is shown. */
export interface ShownToken {
  readonly id: number;
  readonly text: string;
}

/** The first tokens as a list, and how many more there are. */
export function tokenList(total: number, tokenAt: (index: number) => ShownToken): HTMLElement {
  const boxes = Array.from({ length: Math.min(total, SHOWN) }, (_, index) => {
    const { id, text } = tokenAt(index);
    return el("li", { class: "token" }, el("code", {}, visible(text)), el("span", { class: "id" }, String(id)));
  });
  const more = total - boxes.length;
  return el(
    "div",
    {},
    boxes.length > 0 && el("ol", { class: "token-list", tabindex: 0, "aria-label": "Tokens with their IDs" }, ...boxes),
    more > 0 && el("p", { class: "muted" }, `${count(more)} more tokens are not shown.`),
  );
}

export const tokenCount = (total: number): string => `${count(total)} ${total === 1 ? "token" : "tokens"}`;
