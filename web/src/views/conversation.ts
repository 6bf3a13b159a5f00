// The form for a conversation: messages in rows, or as JSON.

import type { ChatConversation, ChatMessage } from "ggmill";
import { button, el, field } from "../dom.js";

const ROLES = ["system", "user", "assistant", "tool"];

/** A conversation that is being written. */
export interface ConversationForm {
  readonly element: HTMLElement;
  /** The conversation; an error if its JSON is not valid. */
  read(): ChatConversation;
}

/** `changed` is called after every change. */
export function conversationForm(changed: () => void): ConversationForm {
  const rows = el("ol", { class: "messages" });
  const json = el("textarea", { rows: 8, spellcheck: "false" });
  const asJson = el("input", { type: "checkbox" });
  const prompt = el("input", { type: "checkbox", checked: true });
  const roles = el("datalist", { id: "roles" }, ...ROLES.map((value) => el("option", { value })));
  const number = (): void => {
    [...rows.children].forEach((row, at) => {
      const name = `Message ${at + 1}`;
      const [role, text, remove] = row.querySelectorAll("input, textarea, button");
      role?.setAttribute("aria-label", `${name}: role`);
      text?.setAttribute("aria-label", `${name}: text`);
      remove?.setAttribute("aria-label", `Remove message ${at + 1}`);
    });
  };
  const add = (role: string, content: string): HTMLElement => {
    const text = el("textarea", { rows: 2, placeholder: "Text" });
    text.value = content;
    const row = el(
      "li",
      {},
      el("input", { list: "roles", value: role, placeholder: "Role" }),
      text,
      button("Remove", () => {
        const next = row.nextElementSibling ?? row.previousElementSibling;
        row.remove();
        (next?.querySelector("button") ?? more).focus();
        number();
        changed();
      }),
    );
    rows.append(row);
    number();
    return row;
  };
  const messages = (): ChatMessage[] =>
    [...rows.children].map((row) => ({
      role: row.querySelector("input")?.value ?? "",
      content: row.querySelector("textarea")?.value ?? "",
    }));
  const more = button("Add a message", () => {
    const isAnswer = messages().at(-1)?.role === "user";
    add(isAnswer ? "assistant" : "user", "").querySelector("textarea")?.focus();
    changed();
  });
  const byRows = el("div", {}, rows, roles, more);
  const byJson = field("Messages, or an object with messages, tools and other variables", json);
  byJson.hidden = true;
  asJson.addEventListener("change", () => {
    byRows.hidden = asJson.checked;
    byJson.hidden = !asJson.checked;
    if (asJson.checked && json.value === "") json.value = JSON.stringify(messages(), undefined, 2);
  });
  add("system", "You are a helpful assistant.");
  add("user", "Hello!");
  return {
    element: el(
      "div",
      { class: "conversation", oninput: changed, onchange: changed },
      byRows,
      byJson,
      el(
        "div",
        { class: "tools" },
        el("label", { class: "check" }, prompt, "Add the generation prompt"),
        el("label", { class: "check" }, asJson, "Write JSON"),
      ),
    ),
    read: () => {
      const given = asJson.checked ? parsed(json.value) : { messages: messages() };
      return { addGenerationPrompt: prompt.checked, ...given };
    },
  };
}

/** A conversation in JSON. What is wrong with its messages, the template's renderer says. */
function parsed(text: string): ChatConversation {
  const document = JSON.parse(text) as unknown;
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    return { messages: document as ChatMessage[] };
  }
  const { messages, tools, documents, add_generation_prompt: addGenerationPrompt, ...variables } = document as Record<string, unknown>;
  const prompt = addGenerationPrompt === undefined ? {} : { addGenerationPrompt };
  return { messages, tools, documents, variables, ...prompt } as ChatConversation;
}
