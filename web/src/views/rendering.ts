// A chat template with a conversation: the rendered text, and its tokens.

import type { RenderedTemplate } from "ggmill";
import { call } from "../client.js";
import { debounced, el } from "../dom.js";
import { visible, visibleLines } from "../text.js";
import { conversationForm } from "./conversation.js";
import { tokenCount, tokenList } from "./tokens.js";

/** The longest text that is shown, in bytes. */
const LONGEST = 100_000;

export interface Rendering {
  readonly element: HTMLElement;
  /** Renders once more, such as with another template. */
  update(): void;
}

/** `template` gives the name of the template that is chosen. */
export function rendering(template: () => string | undefined): Rendering {
  const status = el("p", { role: "status" });
  const result = el("div", {});
  let last = 0;
  const update = async (): Promise<void> => {
    const number = ++last;
    try {
      const name = template();
      const conversation = { ...form.read(), ...(name !== undefined && { template: name }) };
      const rendered = await call("render", "model", conversation);
      if (number !== last) return;
      status.className = "";
      status.textContent =
        rendered.ids === undefined ? "The file has no usable vocabulary: there are no tokens." : tokenCount(rendered.ids.length);
      result.replaceChildren(...shown(rendered));
    } catch (error) {
      if (number !== last) return;
      status.className = "error";
      status.textContent = visible(error instanceof Error ? error.message : String(error));
      result.replaceChildren();
    }
  };
  const form = conversationForm(debounced(150, () => void update()));
  const element = el(
    "details",
    { class: "trial" },
    el("summary", {}, "Try it"),
    el("form", { onsubmit: (event: Event) => event.preventDefault() }, form.element),
    status,
    result,
  );
  // Nothing is loaded before it is asked for.
  element.addEventListener("toggle", () => element.open && last === 0 && void update());
  return { element, update: () => element.open && void update() };
}

function shown({ text, segments, ids, offsets, refused = [] }: RenderedTemplate): HTMLElement[] {
  const bytes = new TextEncoder().encode(text);
  const decoder = new TextDecoder();
  const slice = (start: number, end: number): string => decoder.decode(bytes.subarray(start, end));
  const parts = segments
    .filter(({ start }) => start < LONGEST)
    .map(({ start, end, from }) => {
      const part = visibleLines(slice(start, Math.min(end, LONGEST)));
      return from === "template" ? el("span", {}, part) : el("mark", { title: visible(from) }, part);
    });
  const elements: HTMLElement[] = [
    el("pre", { class: "template rendered", tabindex: 0, role: "region", "aria-label": "Rendered text" }, ...parts),
    el("p", { class: "muted" }, "Text of the conversation is ", el("mark", {}, "marked"), "; the rest is from the template."),
  ];
  if (bytes.length > LONGEST) elements.push(el("p", { class: "muted" }, "Only the beginning of the text is shown."));
  for (const { start, end, from } of refused.slice(0, 8)) {
    elements.push(el("p", {}, `${visible(from)}: ${visible(slice(start, end))} is treated as plain text.`));
  }
  if (ids !== undefined && offsets !== undefined) {
    elements.push(
      tokenList(ids.length, (index) => {
        const [start, end] = offsets[index] ?? [0, 0];
        return { id: ids[index] ?? 0, text: slice(start, end) };
      }),
    );
  }
  return elements;
}
