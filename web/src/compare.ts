// Differences between the headers of two models.

import type { Model, Tensor, Value } from "ggmill";
import type { Difference, Differences } from "./protocol.js";
import { beginning, count } from "./text.js";

export function compare(before: Model, after: Model): Differences {
  const metadata: Difference[] = [];
  let sameEntries = 0;
  for (const key of union(before.metadata.keys(), after.metadata.keys())) {
    const values = [before, after].map((model) => shownValue(model, key));
    const isSame =
      values[0] !== undefined && values[0] === values[1] && equal(before.metadata.get(key), after.metadata.get(key));
    if (isSame) sameEntries += 1;
    else metadata.push(difference(key, differing(values[0], values[1])));
  }
  const tensors: Difference[] = [];
  let sameTensors = 0;
  const [ours, theirs] = [byName(before.tensors), byName(after.tensors)];
  for (const name of union(ours.keys(), theirs.keys())) {
    const values = [shownTensor(ours.get(name)), shownTensor(theirs.get(name))] as const;
    if (values[0] === values[1]) sameTensors += 1;
    else tensors.push(difference(name, values));
  }
  return { metadata, tensors, sameEntries, sameTensors };
}

function difference(name: string, [before, after]: readonly [string | undefined, string | undefined]): Difference {
  return { name, ...(before !== undefined && { before }), ...(after !== undefined && { after }) };
}

/** Long values may look the same where they differ. */
function differing(before: string | undefined, after: string | undefined): [string | undefined, string | undefined] {
  return before === after ? [before, `${after ?? ""}, with different content`] : [before, after];
}

const union = (ours: Iterable<string>, theirs: Iterable<string>): Set<string> => new Set([...ours, ...theirs]);

const byName = (tensors: readonly Tensor[]): Map<string, Tensor> =>
  new Map([...tensors].reverse().map((tensor) => [tensor.name, tensor]));

const shownTensor = (tensor: Tensor | undefined): string | undefined =>
  tensor && `${tensor.type} [${tensor.shape.join(", ")}]`;

function shownValue({ metadata }: Model, key: string): string | undefined {
  const type = metadata.type(key);
  if (type === undefined) return undefined;
  if (type.type === "array") return `${count(type.length ?? 0)} elements of type ${type.subType ?? "unknown"}`;
  const value = String(metadata.get(key));
  // Long texts that differ late must not look the same.
  return `${type.type} ${value.length > 300 ? `${beginning(value, 300)} (${count(value.length)} characters)` : value}`;
}

function equal(a: Value | undefined, b: Value | undefined): boolean {
  if (typeof a !== "object" || typeof b !== "object") return Object.is(a, b);
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (!equal(a[at], b[at])) return false;
  return true;
}
