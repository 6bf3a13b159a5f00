// What the file is, in short.

import { call } from "../client.js";
import { button, el, svg } from "../dom.js";
import { sizesByType, type Page, type View } from "../page.js";
import type { TensorRow } from "../protocol.js";
import { beginning, count, short, size, visible } from "../text.js";

/** Blocks that the chart has columns for. */
const MOST_BLOCKS = 512;
const COLORS = 10;

export function summaryView(page: Page): View {
  const { listing } = page;
  const facts = el("dl", { class: "facts" });
  const fact = (name: string, value: string | undefined): void => {
    if (value !== undefined && value !== "") facts.append(el("div", {}, el("dt", {}, name), el("dd", {}, visible(value))));
  };
  fact("Parameters", short(listing.parameters));
  fact("Tensors", count(listing.tensors.length));
  fact("File size", listing.size === undefined ? "unknown" : size(listing.size));
  const more = el("div");
  const element = el(
    "section",
    {},
    faults(page),
    facts,
    more,
    listing.tensors.length > 0 && chart("Size by type", typeBars(listing.tensors)),
    blockChart(listing.tensors),
    el(
      "p",
      { class: "muted", id: "read", "data-milliseconds": Math.round(listing.milliseconds), "data-bytes": listing.bytesRead },
      `GGUF version ${listing.version}, ${listing.endian}-endian, alignment ${listing.alignment}, header of ${size(listing.headerLength)}. ` +
        `Read ${size(listing.bytesRead)} in ${count(listing.reads)} ${listing.reads === 1 ? "request" : "requests"}, ${Math.round(listing.milliseconds)} ms.`,
    ),
  );
  call("summary", "model").then(
    (summary) => {
      facts.replaceChildren();
      fact("Name", summary.name ?? undefined);
      fact("Architecture", summary.architecture ?? undefined);
      fact("Type", summary.type ?? undefined);
      fact("Parameters", `${short(summary.parameters)} (${count(summary.parameters)})`);
      fact("Bits per weight", summary.bits_per_weight?.toFixed(2));
      fact("File size", listing.size === undefined ? "unknown" : `${size(listing.size)} (${count(listing.size)} bytes)`);
      fact("Tensors", count(summary.tensors));
      fact("Blocks", summary.block_count === null ? undefined : count(summary.block_count));
      fact("Context length", summary.context_length === null ? undefined : count(summary.context_length));
      fact("Embedding length", summary.embedding_length === null ? undefined : count(summary.embedding_length));
      fact("Vocabulary", summary.vocabulary_size === null ? undefined : `${count(summary.vocabulary_size)} tokens`);
      fact("License", summary.license === null ? undefined : beginning(summary.license, 120));
      fact("Shards", listing.shards > 1 ? count(listing.shards) : undefined);
    },
    (error: Error) => more.append(el("p", { class: "error" }, visible(error.message))),
  );
  return { element };
}

function faults({ listing, show }: Page): HTMLElement | undefined {
  if (listing.faults.length === 0) return undefined;
  const items = listing.faults.slice(0, 8).map((message) => el("li", {}, visible(message)));
  return el(
    "div",
    { class: "banner", role: "status" },
    el("strong", {}, "The file is damaged. What could be read is shown."),
    el("ul", {}, ...items),
    button("Show findings", () => show("check")),
  );
}

const chart = (title: string, content: Element): HTMLElement => el("figure", {}, el("figcaption", {}, title), content);

function typeBars(tensors: readonly TensorRow[]): HTMLElement {
  const sizes = sizesByType(tensors);
  const total = sizes.reduce((sum, [, bytes]) => sum + bytes, 0);
  const rows = sizes.map(([type, bytes], at) => {
    const share = total === 0 ? 0 : bytes / total;
    const bar = el("span", { class: `bar color-${at % COLORS}` });
    bar.style.width = `${(100 * share).toFixed(2)}%`;
    return el(
      "li",
      {},
      el("span", { class: "bar-name" }, type),
      el("span", { class: "track", "aria-hidden": "true" }, bar),
      el("span", { class: "bar-value" }, `${size(bytes)} · ${(100 * share).toFixed(1)}%`),
    );
  });
  return el("ul", { class: "bars" }, ...rows);
}

function blockChart(tensors: readonly TensorRow[]): HTMLElement | undefined {
  const types = sizesByType(tensors).map(([type]) => type);
  const blocks = new Map<number, Map<string, number>>();
  let outside = 0;
  for (const { name, type, size: bytes = 0 } of tensors) {
    const block = Number(/(?:^|\.)blk\.(\d{1,6})\./.exec(name)?.[1] ?? NaN);
    if (Number.isNaN(block)) {
      outside += bytes;
      continue;
    }
    const sizes = blocks.get(block) ?? new Map<string, number>();
    sizes.set(type, (sizes.get(type) ?? 0) + bytes);
    blocks.set(block, sizes);
  }
  const shown = [...blocks].sort(([a], [b]) => a - b).slice(0, MOST_BLOCKS);
  if (shown.length < 2) return undefined;
  const total = (sizes: Map<string, number>): number => [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
  const largest = Math.max(1, ...shown.map(([, sizes]) => total(sizes)));
  const height = 120;
  const image = svg("svg", {
    class: "blocks",
    viewBox: `0 0 ${shown.length * 10} ${height}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `Bytes of ${shown.length} blocks; the largest has ${size(largest)}`,
  });
  shown.forEach(([block, sizes], at) => {
    let top = height;
    for (const type of types) {
      const bytes = sizes.get(type);
      if (bytes === undefined) continue;
      const tall = (bytes / largest) * height;
      top -= tall;
      const title = svg("title", {}, `block ${block}: ${type} ${size(bytes)}, of ${size(total(sizes))}`);
      const color = `color-${types.indexOf(type) % COLORS}`;
      image.append(svg("rect", { class: color, x: at * 10 + 0.5, y: top, width: 9, height: tall }, title));
    }
  });
  const rest = outside > 0 ? `, ${size(outside)} outside of blocks` : "";
  return chart(`Size by block: ${count(blocks.size)} blocks of up to ${size(largest)}${rest}`, image);
}
