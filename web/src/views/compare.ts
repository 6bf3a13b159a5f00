// Two files side by side.

import { call } from "../client.js";
import { el } from "../dom.js";
import { List } from "../list.js";
import { opener } from "../opener.js";
import type { Page, View } from "../page.js";
import type { Difference, Given } from "../protocol.js";
import { beginning, count, visible } from "../text.js";

export function compareView(page: Page): View {
  const result = el("div", { class: "comparison" });
  const open = async (given: Given): Promise<void> => {
    result.replaceChildren(el("p", { class: "muted" }, "Comparing…"));
    try {
      const other = await page.compareWith(given);
      const found = await call("compare");
      const [before, after] = [visible(page.listing.name), visible(other.name)];
      result.replaceChildren(
        el("p", { class: "total", role: "status" }, `${before} beside ${after}`),
        ...part("Metadata", found.metadata, found.sameEntries, "entries"),
        ...part("Tensors", found.tensors, found.sameTensors, "tensors"),
      );
    } catch (error) {
      result.replaceChildren(el("p", { class: "error", role: "alert" }, visible(String((error as Error).message))));
    }
  };
  return {
    element: el("section", {}, el("p", {}, "Open another file to compare metadata, and types and shapes of tensors."), opener("other", open), result),
  };
}

function part(title: string, differences: readonly Difference[], same: number, what: string): HTMLElement[] {
  const summary = `${count(differences.length)} different, ${count(same)} equal ${what}`;
  if (differences.length === 0) return [el("h2", {}, title), el("p", {}, summary)];
  const list = new List<Difference>({
    label: `Differences: ${title}`,
    class: "differences",
    columns: [{ name: "Name" }, { name: "This file" }, { name: "Other file" }],
    fetch: (from, to) => differences.slice(from, to),
    cells: ({ name, before, after }) => [
      visible(name),
      before === undefined ? el("span", { class: "removed" }, "absent") : visible(beginning(before, 300)),
      after === undefined ? el("span", { class: "removed" }, "absent") : visible(beginning(after, 300)),
    ],
  });
  list.element.style.setProperty("--rows", String(Math.min(differences.length, 12)));
  list.show(differences.length);
  return [el("h2", {}, title), el("p", { class: "muted" }, summary), list.element];
}
