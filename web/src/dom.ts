// Elements. Text goes in as text nodes only, so that nothing in a file becomes markup.

type Child = Node | string | undefined | false;
type Props = Record<string, string | number | boolean | undefined | ((event: never) => void)>;

/** An element with attributes, listeners (`onclick`) and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value as EventListener);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...present(children));
  return element;
}

/** An SVG element with attributes and children. */
export function svg(tag: string, props: Record<string, string | number> = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, String(value));
  element.append(...present(children));
  return element;
}

export function button(label: string, onclick: () => void, props: Props = {}): HTMLButtonElement {
  return el("button", { type: "button", onclick, ...props }, label);
}

/** A control with its label. */
export function field(label: string, control: HTMLElement, hint?: string): HTMLElement {
  return el("label", { class: "field" }, el("span", {}, label), control, hint !== undefined && el("small", {}, hint));
}

/** A `select` with values and what is shown for them. */
export function select(options: readonly (readonly [string, string])[], chosen: string, props: Props = {}): HTMLSelectElement {
  const element = el("select", props, ...options.map(([value, text]) => el("option", { value }, text)));
  element.value = chosen;
  return element;
}

/** Calls a function when calls have paused for so long. */
export function debounced(milliseconds: number, work: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}

function present(children: Child[]): (Node | string)[] {
  return children.filter((child) => child !== undefined && child !== false);
}
