// The memory that the model takes to run.

import type { Estimate, EstimateDevice } from "ggmill";
import { call } from "../client.js";
import { debounced, el, field, select } from "../dom.js";
import type { Page, View } from "../page.js";
import { count, size, visible } from "../text.js";

const CACHE_TYPES = ["F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL"].map((type) => [type, type] as const);
const LEAST_CONTEXT = 512;

export function memoryView({ listing }: Page): View {
  const trained = trainedContext(listing.entries);
  const steps = contexts(trained);
  const context = range(steps.length - 1, steps.indexOf(Math.min(trained, 8192)));
  const layers = range(0, 0);
  const keys = select(CACHE_TYPES, "F16");
  const values = select(CACHE_TYPES, "F16");
  const sequences = el("input", { type: "number", min: 1, max: 4096, value: 1 });
  const flash = select([["auto", "auto"], ["on", "on"], ["off", "off"]], "auto");
  const contextText = el("output");
  const layersText = el("output");
  const result = el("div", { class: "estimate", "aria-live": "polite" });
  let number = 0;
  const update = async (): Promise<void> => {
    const wanted = ++number;
    const length = steps[context.valueAsNumber] ?? LEAST_CONTEXT;
    contextText.textContent = `${count(length)} tokens${length > trained ? ", more than trained" : ""}`;
    layersText.textContent = layers.value;
    try {
      const { estimates } = await call("estimate", "model", {
        context: length,
        keyType: keys.value,
        valueType: values.value,
        gpuLayers: layers.valueAsNumber,
        sequences: Math.max(1, sequences.valueAsNumber || 1),
        ...(flash.value !== "auto" && { flashAttention: flash.value === "on" }),
      });
      const [estimate] = estimates;
      if (wanted !== number || estimate === undefined) return;
      layers.max = String(estimate.layer_count);
      layersText.textContent = `${estimate.layers} of ${estimate.layer_count}`;
      result.replaceChildren(...shown(estimate));
    } catch (error) {
      if (wanted === number) result.replaceChildren(el("p", { class: "error" }, visible(String((error as Error).message))));
    }
  };
  const soon = debounced(60, () => void update());
  const form = el(
    "form",
    { class: "controls", onsubmit: (event: Event) => event.preventDefault(), oninput: soon },
    field("Context", el("span", { class: "ranged" }, context, contextText)),
    field("Layers on the GPU", el("span", { class: "ranged" }, layers, layersText)),
    field("Cache type of keys", keys),
    field("Cache type of values", values),
    field("Parallel sequences", sequences),
    field("Flash attention", flash),
  );
  let started = false;
  return {
    element: el("section", {}, form, result),
    shown: () => {
      if (started) return;
      started = true;
      void update();
    },
  };
}

const range = (max: number, value: number): HTMLInputElement => el("input", { type: "range", min: 0, max, value, step: 1 });

function trainedContext(entries: readonly { key: string; value?: unknown }[]): number {
  const found = entries.find(({ key }) => /^[^.]+\.context_length$/.test(key))?.value;
  const length = typeof found === "number" || typeof found === "bigint" ? Number(found) : 0;
  return length >= LEAST_CONTEXT ? length : 131_072;
}

/**
 * The lengths of the slider: powers of two and what is halfway between them, up to four times as many
 * tokens as the model was trained with and at least 32,768; and the number that it was trained with.
 */
function contexts(trained: number): number[] {
  const lengths = new Set([trained, 8192]);
  const most = Math.max(4 * trained, 32_768);
  for (let power = LEAST_CONTEXT; power <= most; power *= 2) {
    lengths.add(power);
    if (power * 1.5 <= most) lengths.add(power * 1.5);
  }
  return [...lengths].sort((a, b) => a - b);
}

/** What a device has, with the names and colors of the bars. */
const PARTS: [string, (device: EstimateDevice) => number][] = [
  ["Weights", ({ weights }) => weights],
  ["KV cache", ({ keys, values }) => keys + values],
  ["Recurrent states", ({ states }) => states],
  ["Output", ({ output }) => output],
  ["Compute buffers", ({ compute }) => compute ?? 0],
];

function shown({ devices, total, unknown, notes }: Estimate): HTMLElement[] {
  const most = Math.max(1, ...devices.map((device) => device.total));
  const parts = PARTS.map(([name, bytes], at) => ({ name, bytes, at })).filter(({ bytes }) => devices.some((device) => bytes(device) > 0));
  const bars = devices.map((device) => {
    const pieces = parts.map(({ bytes, at }) => {
      const piece = el("span", { class: `bar color-${at}` });
      piece.style.width = `${((100 * bytes(device)) / most).toFixed(3)}%`;
      return piece;
    });
    return el(
      "li",
      {},
      el("span", { class: "bar-name" }, device.name),
      el("span", { class: "track", "aria-hidden": "true" }, ...pieces),
      el("span", { class: "bar-value" }, size(device.total)),
    );
  });
  const head = el("tr", {}, el("td"), ...devices.map(({ name }) => el("th", { scope: "col" }, name)));
  const lines = parts.map(({ name, bytes, at }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("span", { class: `swatch color-${at}`, "aria-hidden": "true" }), name),
      ...devices.map((device) => el("td", {}, name === "Compute buffers" && device.compute === null ? "unknown" : size(bytes(device)))),
    ),
  );
  return [
    el("p", { class: "total" }, `Total: ${size(total)}`),
    el("ul", { class: "bars" }, ...bars),
    el("table", {}, el("thead", {}, head), el("tbody", {}, ...lines)),
    ...(notes.length > 0 ? [el("p", { class: "muted" }, `Note: ${notes.map(visible).join("; ")}`)] : []),
    ...(unknown.length > 0 ? [el("p", { class: "muted" }, `Not in the total: ${unknown.map(({ message }) => visible(message)).join("; ")}`)] : []),
  ];
}
