// Values of a tensor, for a histogram and a map of magnitudes.

import type { Tensor } from "ggmill";
import type { Weights } from "./protocol.js";

/** Values that are decoded at most; of a larger tensor, evenly spaced parts are. */
const MOST = 4 * 1024 * 1024;
/** How many parts these are. */
const PARTS = 64;
const BINS = 101;
/** Cells of the map of magnitudes. */
const WIDTH = 192;
const HEIGHT = 96;

/** A part of a tensor: elements from `start` on. */
interface Part {
  readonly start: number;
  readonly values: Float32Array;
}

export async function weights(tensor: Tensor): Promise<Weights> {
  const parts: Part[] = [];
  for (const [start, end] of ranges(tensor)) parts.push({ start, values: await tensor.values({ start, end }) });
  return { ...statistics(parts), ...heat(parts, tensor) };
}

/** The elements that are decoded, in whole rows where rows are not too long. */
function ranges({ elements, shape }: Tensor): [number, number][] {
  if (elements <= MOST) return [[0, elements]];
  const row = shape[0] ?? 1;
  const rows = elements / row;
  const length = Math.max(1, Math.floor(MOST / PARTS / row)) * row;
  const parts = Math.max(1, Math.min(PARTS, rows, Math.floor(MOST / length)));
  return Array.from({ length: parts }, (_, at) => {
    const start = Math.floor((rows * at) / parts) * row;
    return [start, Math.min(start + Math.min(length, MOST), elements)];
  });
}

type Statistics = Pick<
  Weights,
  "sampled" | "minimum" | "maximum" | "mean" | "deviation" | "zeros" | "nonFinite" | "bins" | "limit"
>;

function statistics(parts: readonly Part[]): Statistics {
  let [sampled, zeros, nonFinite, sum, squares] = [0, 0, 0, 0, 0];
  let [minimum, maximum] = [Infinity, -Infinity];
  for (const { values } of parts) {
    sampled += values.length;
    for (const value of values) {
      if (!Number.isFinite(value)) {
        nonFinite += 1;
        continue;
      }
      if (value === 0) zeros += 1;
      if (value < minimum) minimum = value;
      if (value > maximum) maximum = value;
      sum += value;
      squares += value * value;
    }
  }
  const finite = sampled - nonFinite;
  const mean = finite === 0 ? NaN : sum / finite;
  const deviation = Math.sqrt(Math.max(0, squares / finite - mean * mean));
  // A few outliers would leave all others in one interval.
  const widest = Math.max(Math.abs(minimum), Math.abs(maximum));
  const limit = Math.min(widest, Math.abs(mean) + 6 * deviation) || 1;
  const bins = new Uint32Array(BINS);
  for (const { values } of parts) {
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      const at = Math.floor(((value / limit + 1) / 2) * BINS);
      const bin = Math.max(0, Math.min(BINS - 1, at));
      bins[bin] = (bins[bin] ?? 0) + 1;
    }
  }
  return { sampled, minimum, maximum, mean, deviation, zeros, nonFinite, bins, limit };
}

function heat(parts: readonly Part[], { elements, shape }: Tensor): Pick<Weights, "heat" | "heatWidth" | "heatHeight"> {
  const row = shape[0] ?? 1;
  const width = Math.max(1, Math.min(WIDTH, row));
  const height = Math.max(1, Math.min(HEIGHT, parts.length > 1 ? parts.length : elements / row));
  const squares = new Float64Array(width * height);
  const counts = new Float64Array(width * height);
  parts.forEach(({ start, values }, number) => {
    for (let at = 0; at < values.length; at++) {
      const place = start + at;
      const y = parts.length > 1 ? number : Math.floor((Math.floor(place / row) * height) / (elements / row));
      const cell = Math.min(y, height - 1) * width + Math.floor(((place % row) * width) / row);
      const value = values[at] ?? 0;
      if (!Number.isFinite(value)) continue;
      squares[cell] = (squares[cell] ?? 0) + value * value;
      counts[cell] = (counts[cell] ?? 0) + 1;
    }
  });
  const cells = Float32Array.from(squares, (square, cell) => Math.sqrt(square / Math.max(1, counts[cell] ?? 0)));
  return { heat: cells, heatWidth: width, heatHeight: height };
}
