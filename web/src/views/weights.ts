// The values of one tensor: a histogram, and a map of magnitudes.

import { call } from "../client.js";
import { el, field, svg } from "../dom.js";
import type { Page, View } from "../page.js";
import type { Weights } from "../protocol.js";
import { count, real, visible } from "../text.js";

export interface WeightsView extends View {
  /** Shows a tensor by its number. */
  tensor(at: number): void;
}

export function weightsView({ listing }: Page): WeightsView {
  const { tensors } = listing;
  const names = el("datalist", { id: "tensor-names" }, ...tensors.slice(0, 5000).map(({ name }) => el("option", { value: name })));
  const name = el("input", { type: "text", list: "tensor-names", autocomplete: "off", spellcheck: "false" });
  const result = el("div", { class: "weights", "aria-live": "polite" });
  let wanted = 0;
  let isShown = false;
  const show = async (at: number): Promise<void> => {
    const tensor = tensors[at];
    if (tensor === undefined) {
      result.replaceChildren(el("p", { class: "error" }, `There is no tensor of this name: ${visible(name.value)}`));
      return;
    }
    const number = ++wanted;
    isShown = true;
    name.value = tensor.name;
    result.setAttribute("aria-busy", "true");
    result.replaceChildren(el("p", { class: "muted" }, "Decoding…"));
    try {
      const weights = await call("weights", "model", at);
      if (number === wanted) result.replaceChildren(...shown(weights, tensor.elements, `${tensor.type} [${tensor.shape.join(", ")}]`));
    } catch (error) {
      if (number === wanted) result.replaceChildren(el("p", { class: "error" }, visible(String((error as Error).message))));
    } finally {
      if (number === wanted) result.removeAttribute("aria-busy");
    }
  };
  name.addEventListener("change", () => void show(tensors.findIndex((tensor) => tensor.name === name.value)));
  return {
    element: el("section", {}, el("div", { class: "tools" }, field("Tensor", name), names), result),
    shown: () => {
      if (!isShown && tensors.length > 0) void show(0);
    },
    tensor: (at) => void show(at),
  };
}

function shown(weights: Weights, elements: number, about: string): HTMLElement[] {
  const { sampled, minimum, maximum, mean, deviation, zeros, nonFinite } = weights;
  const facts: [string, string][] = [
    ["Type and shape", about],
    ["Values", sampled === elements ? count(elements) : `${count(sampled)} of ${count(elements)}, in evenly spaced parts`],
    ["Minimum", real(minimum)],
    ["Maximum", real(maximum)],
    ["Mean", real(mean)],
    ["Standard deviation", real(deviation)],
    ["Zeros", `${count(zeros)} (${((100 * zeros) / Math.max(1, sampled)).toFixed(1)}%)`],
    ["Infinite or NaN", count(nonFinite)],
  ];
  return [
    el("dl", { class: "facts" }, ...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, visible(value))))),
    el("figure", {}, el("figcaption", {}, "Histogram"), histogram(weights)),
    el("figure", {}, el("figcaption", {}, "Root mean square of parts: columns from left to right, rows from top to bottom"), heatMap(weights)),
  ];
}

function histogram({ bins, limit }: Weights): HTMLElement {
  const most = Math.max(1, ...bins);
  const height = 160;
  const bars = [...bins].map((values, at) => {
    const tall = (values / most) * height;
    const middle = (((at + 0.5) / bins.length) * 2 - 1) * limit;
    const title = svg("title", {}, `around ${real(middle)}: ${count(values)}`);
    return svg("rect", { class: "color-0", x: at + 0.05, y: height - tall, width: 0.9, height: tall }, title);
  });
  const label = `Histogram from ${real(-limit)} to ${real(limit)}; the largest of ${bins.length} intervals has ${count(most)} values`;
  return el(
    "div",
    {},
    svg("svg", { class: "histogram", viewBox: `0 0 ${bins.length} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...bars) as unknown as Node,
    el("div", { class: "axis", "aria-hidden": "true" }, el("span", {}, real(-limit)), el("span", {}, "0"), el("span", {}, real(limit))),
  );
}

/** Colors from dark to light, as steps of red, green and blue. */
const SCALE = [[13, 8, 60], [84, 15, 109], [187, 55, 84], [249, 142, 9], [252, 255, 164]] as const;

function heatMap({ heat, heatWidth, heatHeight }: Weights): HTMLElement {
  const [least, most] = [heat.reduce((a, b) => Math.min(a, b), Infinity), heat.reduce((a, b) => Math.max(a, b), 0)];
  const canvas = el("canvas", {
    class: "heat",
    width: heatWidth,
    height: heatHeight,
    role: "img",
    "aria-label": `Map of magnitudes, ${heatHeight} by ${heatWidth} cells, from ${real(least)} to ${real(most)}`,
  });
  const context = canvas.getContext("2d");
  if (context !== null) {
    const image = context.createImageData(heatWidth, heatHeight);
    heat.forEach((value, cell) => {
      const place = most > least ? ((value - least) / (most - least)) * (SCALE.length - 1) : 0;
      const step = Math.min(Math.floor(place), SCALE.length - 2);
      const [from, to] = [SCALE[step] ?? SCALE[0], SCALE[step + 1] ?? SCALE[0]];
      const mixed = from.map((color, at) => color + ((to[at] ?? 0) - color) * (place - step));
      image.data.set([...mixed, 255], cell * 4);
    });
    context.putImageData(image, 0, 0);
  }
  return el(
    "div",
    {},
    canvas,
    el("div", { class: "axis", "aria-hidden": "true" }, el("span", {}, real(least)), el("span", { class: "scale" }), el("span", {}, real(most))),
  );
}
