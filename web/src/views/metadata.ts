// The metadata: search, values, and typed edits.

import type { TypedValue, Value, ValueType } from "ggmill";
import { call } from "../client.js";
import { button, debounced, el, field, select } from "../dom.js";
import { TYPES, parsed, written } from "../edits.js";
import { List } from "../list.js";
import type { Page, View } from "../page.js";
import type { Entry } from "../protocol.js";
import { beginning, count, visible } from "../text.js";

/** Elements up to which an array is edited as text. */
const EDITABLE = 4096;

/** An entry as it is shown: with what is changed and not saved. */
interface Shown {
  readonly entry: Entry;
  readonly change: "new" | "changed" | "removed" | undefined;
}

export function metadataView(page: Page): View {
  const { pending } = page;
  let rows: Shown[] = [];
  const search = el("input", { type: "search", placeholder: "Search keys and values", "aria-label": "Search keys and values" });
  const found = el("span", { class: "muted", role: "status" });
  const list = new List<Shown>({
    label: "Metadata entries",
    class: "metadata",
    columns: [{ name: "Key" }, { name: "Type", class: "kind" }, { name: "Value" }],
    fetch: (from, to) => rows.slice(from, to),
    cells: ({ entry, change }) => [
      el("button", { type: "button", class: "plain key", onclick: () => edit(page, entry) }, visible(entry.key)),
      shownType(entry),
      el("span", { class: change ?? "" }, change === undefined ? preview(entry) : `${preview(entry)} (${change})`),
    ],
  });
  const update = (keep: boolean): void => {
    const wanted = search.value.trim().toLowerCase();
    const all = shown(page);
    rows = all.filter(
      ({ entry }) => entry.key.toLowerCase().includes(wanted) || preview(entry).toLowerCase().includes(wanted),
    );
    found.textContent = `${count(rows.length)} of ${count(all.length)} entries`;
    if (keep) list.refresh();
    else list.show(rows.length);
  };
  search.addEventListener("input", debounced(80, () => update(false)));
  pending.onChange(() => update(rows.length === shown(page).length));
  update(false);
  return {
    element: el(
      "section",
      { class: "filling" },
      el("div", { class: "tools" }, search, found, button("Add a key", () => edit(page, undefined))),
      list.element,
    ),
    shown: () => list.refresh(),
  };
}

function shown({ listing, pending }: Page): Shown[] {
  const known = new Set(listing.entries.map(({ key }) => key));
  const rows: Shown[] = listing.entries.map((entry) => {
    if (pending.isRemoved(entry.key)) return { entry, change: "removed" };
    const value = pending.value(entry.key);
    return value === undefined ? { entry, change: undefined } : { entry: changed(entry.key, value), change: "changed" };
  });
  for (const key of pending.keys()) {
    const value = pending.value(key);
    if (!known.has(key) && value !== undefined) rows.push({ entry: changed(key, value), change: "new" });
  }
  return rows;
}

function changed(key: string, { type, subType, value }: TypedValue): Entry {
  const length = typeof value === "object" ? { length: value.length } : {};
  return { key, type, ...(subType !== undefined && { subType }), ...length, value: value as Value };
}

const shownType = ({ type, subType }: Entry): string => (type === "array" ? `[${subType ?? "?"}]` : type);

function preview(entry: Entry): string {
  if (entry.type === "array" && (entry.value === undefined || (entry.length ?? 0) > 16)) {
    return `${count(entry.length ?? 0)} elements`;
  }
  return visible(beginning(written(entry.value ?? "", entry.subType ?? entry.type), 300));
}

/** A dialog for one entry, or for a new one. */
function edit(page: Page, entry: Entry | undefined): void {
  const { pending, listing } = page;
  const isNew = entry === undefined || !listing.entries.some(({ key }) => key === entry.key);
  const key = el("input", { type: "text", value: entry?.key ?? "", spellcheck: "false", autocomplete: "off" });
  key.readOnly = entry !== undefined;
  const type = select(TYPES.map((name) => [name, name]), entry?.type ?? "string");
  const text = el("textarea", { rows: 6, spellcheck: "false" });
  const error = el("p", { class: "error", role: "alert" });
  const isLong = entry?.type === "array" && ((entry.length ?? 0) > EDITABLE || entry.subType === "array");
  if (entry?.value !== undefined) text.value = written(entry.value, entry.subType ?? entry.type);
  else if (entry !== undefined && !isLong) {
    void call("value", "model", entry.key).then((value) => (text.value = value === undefined ? "" : written(value, entry.subType ?? entry.type)));
  }
  const dialog = el(
    "dialog",
    { class: "editor", "aria-labelledby": "editor-title" },
    el(
      "form",
      { method: "dialog" },
      el("h2", { id: "editor-title" }, entry === undefined ? "New key" : "Metadata entry"),
      field("Key", key),
      entry === undefined ? field("Type", type) : el("p", {}, `Type ${shownType(entry)}`),
      isLong ? elements(entry) : field("Value", text),
      error,
      el(
        "div",
        { class: "actions" },
        button("Cancel", () => dialog.close()),
        entry !== undefined && button("Remove the key", () => done(() => pending.remove(entry.key, isNew)), { class: "danger" }),
        entry !== undefined && (pending.value(entry.key) !== undefined || pending.isRemoved(entry.key)) &&
          button("Undo", () => done(() => pending.undo(entry.key))),
        !isLong && button("Apply", () => void apply(), { class: "primary" }),
      ),
    ),
  );
  const done = (work: () => void): void => {
    try {
      work();
      dialog.close();
    } catch (problem) {
      error.textContent = visible(problem instanceof Error ? problem.message : String(problem));
    }
  };
  /** The new key of which it was said that it looks misspelled. */
  let warnedOf: string | undefined;
  const apply = async (): Promise<void> => {
    const name = key.value;
    // Without an answer there is nothing to warn of.
    const isChecked = entry !== undefined || name === warnedOf;
    const meant = isChecked ? undefined : await call("meantKey", "model", name).catch(() => undefined);
    done(() => {
      if (name === "") throw new Error("expected a key");
      if (entry === undefined && (listing.entries.some((known) => known.key === name) || pending.value(name) !== undefined)) {
        throw new Error(`${name} exists already`);
      }
      const value = parsed(text.value, entry?.type ?? (type.value as ValueType), entry?.subType);
      if (meant !== undefined) {
        warnedOf = name;
        throw new Error(`${name} looks misspelled: did you mean ${meant}? Apply once more adds it as it is.`);
      }
      pending.set(name, value);
    });
  };
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  (entry === undefined ? key : text).focus();
}

/** The elements of an array that is too long to be edited as text. */
function elements(entry: Entry): HTMLElement {
  const total = entry.length ?? 0;
  const list = new List<{ index: number; value: string }>({
    label: `Elements of ${entry.key}`,
    class: "elements",
    columns: [{ name: "Index", class: "number" }, { name: "Element" }],
    fetch: async (from, to) => (await call("rows", "model", entry.key, "", from, to)).rows,
    cells: ({ index, value }) => [count(index), visible(beginning(value, 300))],
  });
  list.show(total);
  return list.element;
}
