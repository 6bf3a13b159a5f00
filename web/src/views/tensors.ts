// The tensors: search, order, sizes.

import { debounced, el } from "../dom.js";
import { List } from "../list.js";
import type { Page, View } from "../page.js";
import type { TensorRow } from "../protocol.js";
import { count, size, visible } from "../text.js";

type Order = (a: TensorRow, b: TensorRow) => number;

const ORDERS: Record<string, Order> = {
  Name: (a, b) => compareText(a.name, b.name),
  Type: (a, b) => compareText(a.type, b.type),
  Shape: (a, b) => a.elements - b.elements,
  Size: (a, b) => (a.size ?? 0) - (b.size ?? 0),
  Offset: (a, b) => a.shard - b.shard || a.offset - b.offset,
};

const collator = new Intl.Collator("en", { numeric: true });
const compareText = (a: string, b: string): number => collator.compare(a, b);

export function tensorsView(page: Page): View {
  const { tensors } = page.listing;
  const places = new Map(tensors.map((tensor, at) => [tensor, at]));
  const largest = tensors.reduce((most, tensor) => Math.max(most, tensor.size ?? 0), 1);
  let rows: readonly TensorRow[] = tensors;
  let sorted: string | undefined;
  let descending = false;
  const search = el("input", { type: "search", placeholder: "Search names and types", "aria-label": "Search names and types" });
  const found = el("span", { class: "muted", role: "status" });
  const sortBy = (name: string) => () => {
    descending = sorted === name && !descending;
    sorted = name;
    update();
  };
  const list = new List<TensorRow>({
    label: "Tensors",
    class: "tensors",
    columns: [
      { name: "Name", sort: sortBy("Name") },
      { name: "Type", class: "kind", sort: sortBy("Type") },
      { name: "Shape", class: "shape", sort: sortBy("Shape") },
      { name: "Size", class: "number", sort: sortBy("Size") },
      { name: "Offset", class: "number offset", sort: sortBy("Offset") },
    ],
    fetch: (from, to) => rows.slice(from, to),
    cells: (tensor) => {
      const bar = el("span", { class: "bar color-0" });
      bar.style.width = `${((100 * (tensor.size ?? 0)) / largest).toFixed(2)}%`;
      return [
        el("button", { type: "button", class: "plain key", onclick: () => page.weights(places.get(tensor) ?? 0) }, visible(tensor.name)),
        visible(tensor.type),
        tensor.shape.join(" × "),
        el(
          "span",
          { class: "sized" },
          tensor.size === undefined ? "unknown" : size(tensor.size),
          el("span", { class: "track", "aria-hidden": "true" }, bar),
        ),
        page.listing.shards > 1 ? `${tensor.shard + 1}: ${count(tensor.offset)}` : count(tensor.offset),
      ];
    },
  });
  const update = (): void => {
    const wanted = search.value.trim().toLowerCase();
    rows = wanted === "" ? tensors : tensors.filter(({ name, type }) => `${name} ${type}`.toLowerCase().includes(wanted));
    const order = sorted === undefined ? undefined : ORDERS[sorted];
    if (order !== undefined) rows = [...rows].sort(descending ? (a, b) => order(b, a) : order);
    const bytes = rows.reduce((sum, tensor) => sum + (tensor.size ?? 0), 0);
    found.textContent = `${count(rows.length)} of ${count(tensors.length)} tensors, ${size(bytes)}`;
    list.columns(sorted, descending);
    list.show(rows.length);
  };
  search.addEventListener("input", debounced(80, update));
  update();
  return {
    element: el("section", { class: "filling" }, el("div", { class: "tools" }, search, found), list.element),
    shown: () => list.refresh(),
  };
}
