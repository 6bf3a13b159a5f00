// The chat templates, with their parts marked.

import { button, el, field, select } from "../dom.js";
import { highlighted } from "../jinja.js";
import type { Page, View } from "../page.js";
import { count, visible } from "../text.js";
import { rendering } from "./rendering.js";

const KEY = "tokenizer.chat_template";

export function templateView({ listing, say }: Page): View {
  const templates = listing.entries.filter(
    ({ key, value }) => (key === KEY || key.startsWith(`${KEY}.`)) && typeof value === "string",
  );
  const [first] = templates;
  if (first === undefined) {
    return { element: el("section", {}, el("p", {}, "The file has no chat template (tokenizer.chat_template).")) };
  }
  const code = el("code");
  const size = el("span", { class: "muted" });
  let text = "";
  const show = (name: string): void => {
    text = String(templates.find(({ key }) => key === name)?.value ?? "");
    code.replaceChildren(highlighted(text));
    size.textContent = `${count(text.length)} characters, ${count(text.split("\n").length)} lines`;
  };
  show(first.key);
  const chosen = select(templates.map(({ key }) => [key, visible(key)]), first.key, {
    onchange: () => {
      show(chosen.value);
      trial.update();
    },
  });
  const trial = rendering(() => chosen.value.slice(KEY.length + 1) || undefined);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    say("The template was copied.");
  };
  return {
    element: el(
      "section",
      {},
      el(
        "div",
        { class: "tools" },
        templates.length > 1 && field("Template", chosen),
        size,
        button("Copy", () => void copy()),
      ),
      el("pre", { class: "template", tabindex: 0, role: "region", "aria-label": "Chat template" }, code),
      trial.element,
    ),
  };
}
