// The page: opening files, and the views of the one that is open.

import { call } from "./client.js";
import { button, el } from "./dom.js";
import { Pending } from "./edits.js";
import { absolute, opener } from "./opener.js";
import type { Page, View } from "./page.js";
import type { Given, Listing } from "./protocol.js";
import { save } from "./save.js";
import { Tabs } from "./tabs.js";
import { size, visible } from "./text.js";
import { checkView } from "./views/check.js";
import { compareView } from "./views/compare.js";
import { memoryView } from "./views/memory.js";
import { metadataView } from "./views/metadata.js";
import { summaryView } from "./views/summary.js";
import { templateView } from "./views/template.js";
import { tensorsView } from "./views/tensors.js";
import { vocabularyView } from "./views/vocabulary.js";
import { weightsView } from "./views/weights.js";

const status = el("p", { class: "status", role: "status" });
const main = el("main");
const another = button("Open another file", () => start(), { class: "another" });
another.hidden = true;
const title = el("h1", {}, "ggmill inspector");

document.body.append(
  el("header", {}, title, another),
  main,
  el("footer", {}, status),
);

/** Says something for a while. */
function say(message: string): void {
  status.textContent = visible(message);
}

/** The page before a file is open. */
function start(error?: string): void {
  document.title = "ggmill inspector";
  title.textContent = "ggmill inspector";
  another.hidden = true;
  main.replaceChildren(
    el(
      "div",
      { class: "start" },
      el("p", { class: "lead" }, "Drop a GGUF file here. It stays on this computer, and only its header is read."),
      error !== undefined && el("p", { class: "error", role: "alert" }, visible(error)),
      opener("model", (given) => void openModel(given)),
      el("p", { class: "muted" }, "A file may have any size. Choose all files of a sharded model together. An address has to permit requests for ranges from other pages (CORS), as the Hugging Face Hub does."),
    ),
  );
}

let opening = 0;

async function openModel(given: Given): Promise<void> {
  const number = ++opening;
  say("Opening…");
  main.setAttribute("aria-busy", "true");
  try {
    const listing = await call("open", "model", given);
    if (number !== opening) return;
    show(given, listing);
    say("");
  } catch (error) {
    if (number !== opening) return;
    say("");
    start(error instanceof Error ? error.message : String(error));
  } finally {
    if (number === opening) main.removeAttribute("aria-busy");
  }
}

/** Shows a model that is open. */
function show(given: Given, listing: Listing): void {
  const pending = new Pending();
  const weights: { view?: ReturnType<typeof weightsView> } = {};
  const page: Page = {
    given,
    listing,
    pending,
    say,
    show: (name) => tabs.show(name),
    weights: (tensor) => {
      weights.view?.tensor(tensor);
      tabs.show("weights");
    },
    compareWith: (other) => call("open", "other", other),
  };
  const view = (make: (page: Page) => View) => () => make(page);
  const tabs = new Tabs([
    ["summary", "Summary", view(summaryView)],
    ["metadata", "Metadata", view(metadataView)],
    ["tensors", "Tensors", view(tensorsView)],
    ["vocabulary", "Vocabulary", view(vocabularyView)],
    ["template", "Chat template", view(templateView)],
    ["check", "Check", view(checkView)],
    ["memory", "Memory", view(memoryView)],
    ["weights", "Weights", () => (weights.view = weightsView(page))],
    ["compare", "Compare", view(compareView)],
  ]);
  document.title = `${visible(listing.name)} – ggmill inspector`;
  title.textContent = visible(listing.name);
  another.hidden = false;
  main.replaceChildren(changes(page), tabs.element);
  tabs.show("summary");
}

/** A word for a shell. */
const quoted = (word: string): string => (/^[\w./:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** The bar with changes that are not saved. */
function changes(page: Page): HTMLElement {
  const { pending, given, listing } = page;
  const text = el("span", { role: "status" });
  const saved = async (): Promise<void> => {
    if (typeof given === "string" || given.length !== 1 || given[0] === undefined) return;
    const { header, replaces } = await call("edit", "model", pending.edits());
    // The data of the file are referred to, not copied.
    const copy = new Blob([header, given[0].slice(replaces)], { type: "application/octet-stream" });
    const name = listing.name.replace(/(\.gguf)?$/i, "-edited.gguf");
    if (await save(copy, name)) say(`Saved ${name}, ${size(copy.size)}. The file that is open is unchanged.`);
  };
  const exported = async (): Promise<void> => {
    const patch = new Blob([pending.patch()], { type: "application/json" });
    if (await save(patch, "edits.json")) say(`Saved edits.json. To make these changes elsewhere: ${command}`);
  };
  const attempt = (work: () => Promise<void>) => () =>
    void work().catch((error: Error) => say(`Not saved: ${error.message}`));
  const isFile = typeof given !== "string" && given.length === 1;
  const command = `ggmill edit ${quoted(listing.name)} --patch edits.json`;
  const bar = el(
    "div",
    { class: "changes" },
    text,
    isFile && button("Save a copy…", attempt(saved), { class: "primary" }),
    button("Save a patch…", attempt(exported)),
    button("Discard", () => pending.clear()),
    el("p", { class: "muted" }, "A patch makes these changes elsewhere: ", el("code", {}, visible(command))),
  );
  const update = (): void => {
    bar.hidden = pending.count === 0;
    text.textContent = pending.count === 1 ? "1 change" : `${pending.count} changes`;
  };
  pending.onChange(update);
  update();
  return bar;
}

addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dropping");
});
addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dropping");
});
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  const files = [...(event.dataTransfer?.files ?? [])];
  if (files.length > 0) void openModel(files);
});

/** Opens the address behind `#open=`, as `ggmill web` and links have it. */
function fromAddress(): void {
  const address = /^#open=(.+)$/.exec(location.hash)?.[1];
  if (address === undefined) return;
  let given: string;
  try {
    given = absolute(decodeURIComponent(address));
  } catch {
    // What is being opened is not shown later in place of the message.
    opening++;
    main.removeAttribute("aria-busy");
    say("");
    start(`#open=${address} is not an address`);
    return;
  }
  void openModel(given);
}

start();
fromAddress();
addEventListener("hashchange", fromAddress);
