// What the views share: the file that is open.

import type { Pending } from "./edits.js";
import type { Given, Listing, TensorRow } from "./protocol.js";

export interface Page {
  readonly given: Given;
  readonly listing: Listing;
  readonly pending: Pending;
  /** Shows a view by its name. */
  show(view: string): void;
  /** Shows the values of a tensor. */
  weights(tensor: number): void;
  /** Opens the model that this one is compared with. */
  compareWith(given: Given): Promise<Listing>;
  /** Says something to all, those who cannot see it too. */
  say(message: string): void;
}

/** A view of the file: what it shows, and what is done when it is shown. */
export interface View {
  readonly element: HTMLElement;
  shown?(): void;
}

/** Bytes of tensors by their type, the most first. */
export function sizesByType(tensors: readonly TensorRow[]): [string, number][] {
  const sizes = new Map<string, number>();
  for (const { type, size } of tensors) sizes.set(type, (sizes.get(type) ?? 0) + (size ?? 0));
  return [...sizes].sort((a, b) => b[1] - a[1]);
}
