// The controls that open a file or an address.

import { button, el, field } from "./dom.js";
import type { Given } from "./protocol.js";

/** Controls that give what is chosen, dropped on them or typed. */
export function opener(id: string, open: (given: Given) => void): HTMLElement {
  const file = el("input", {
    type: "file",
    id: `${id}-file`,
    class: "hidden",
    tabindex: -1,
    "aria-label": "Choose GGUF files",
    multiple: true,
    onchange: () => {
      if (file.files !== null && file.files.length > 0) open([...file.files]);
      file.value = "";
    },
  });
  const address = el("input", {
    type: "text",
    id: `${id}-address`,
    inputmode: "url",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "https://… or hf://OWNER/NAME/FILE.gguf",
  });
  return el(
    "div",
    { class: "opener" },
    file,
    button("Choose a file…", () => file.click(), { class: "primary" }),
    el(
      "form",
      {
        class: "address",
        onsubmit: (event: Event) => {
          event.preventDefault();
          if (address.value.trim() !== "") open(absolute(address.value.trim()));
        },
      },
      field("Address", address),
      el("button", { type: "submit" }, "Open"),
    ),
  );
}

/** An address as the worker, which is at another, takes it. */
export function absolute(address: string): string {
  return /^[a-z][a-z0-9+.-]*:/i.test(address) ? hub(address) : new URL(address, location.href.replace(/#.*/, "")).href;
}

/** The address of a file that a page of the Hub shows. */
function hub(address: string): string {
  return address.replace(/^(https:\/\/huggingface\.co\/.+)\/blob\//, "$1/resolve/");
}
