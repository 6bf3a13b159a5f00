// A table of any length, of which only the rows in view exist.

import { el } from "./dom.js";

/** Browsers limit the height of an element; a longer table scrolls by its proportion. */
const TALLEST = 8_000_000;
/** Rows above and below those in view. */
const AROUND = 8;

export interface Column {
  readonly name: string;
  /** A class of its cells, such as `number`. */
  readonly class?: string;
  /** How to sort by it, if that is possible. */
  readonly sort?: () => void;
}

export interface ListOptions<Row> {
  /** What the table has, for those who cannot see it. */
  readonly label: string;
  readonly class: string;
  readonly columns: readonly Column[];
  /** The rows of a range. */
  readonly fetch: (from: number, to: number) => readonly Row[] | Promise<readonly Row[]>;
  /** The cells of a row. */
  readonly cells: (row: Row, index: number) => readonly (Node | string)[];
}

export class List<Row> {
  readonly element: HTMLElement;
  readonly #options: ListOptions<Row>;
  readonly #head: HTMLElement;
  readonly #header: HTMLElement;
  readonly #viewport: HTMLElement;
  readonly #space: HTMLElement;
  readonly #rows = new Map<number, HTMLElement>();
  #count = 0;
  #rowHeight = 32;
  /** Answers to an earlier content are dropped. */
  #content = 0;
  #scheduled = false;

  constructor(options: ListOptions<Row>) {
    this.#options = options;
    this.#header = el("div", { role: "row", class: "row header", "aria-rowindex": 1 });
    this.#head = el("div", { role: "rowgroup", class: "head" }, this.#header);
    this.#space = el("div", { class: "space" });
    this.#viewport = el(
      "div",
      { role: "rowgroup", class: "viewport", tabindex: 0, "aria-label": options.label },
      this.#space,
    );
    this.element = el(
      "div",
      { role: "table", class: `list ${options.class}`, "aria-label": options.label },
      this.#head,
      this.#viewport,
    );
    this.columns(undefined, false);
    this.#viewport.addEventListener("scroll", () => this.#schedule(), { passive: true });
    new ResizeObserver(() => this.#resized()).observe(this.#viewport);
  }

  /** Writes the names of the columns, with the one that is sorted by. */
  columns(sorted: string | undefined, descending: boolean): void {
    this.#header.replaceChildren(
      ...this.#options.columns.map(({ name, sort, class: kind }) => {
        const isSorted = name === sorted;
        const order = isSorted ? (descending ? "descending" : "ascending") : undefined;
        const label = isSorted ? `${name} ${descending ? "↓" : "↑"}` : name;
        return el(
          "div",
          { role: "columnheader", class: `cell ${kind ?? ""}`, "aria-sort": order },
          sort === undefined ? label : el("button", { type: "button", class: "plain", onclick: sort }, label),
        );
      }),
    );
  }

  /** Shows other rows. */
  show(count: number): void {
    this.#count = count;
    this.#content += 1;
    for (const row of this.#rows.values()) row.remove();
    this.#rows.clear();
    this.element.setAttribute("aria-rowcount", String(count + 1));
    this.#viewport.scrollTop = 0;
    this.#resized();
  }

  /** Writes the rows in view once more. */
  refresh(): void {
    this.#content += 1;
    for (const row of this.#rows.values()) row.remove();
    this.#rows.clear();
    this.#schedule();
  }

  scrollTo(index: number): void {
    const most = this.#height - this.#viewport.clientHeight;
    const height = this.#count * this.#rowHeight;
    this.#viewport.scrollTop =
      height <= TALLEST ? index * this.#rowHeight : (index / Math.max(1, this.#count - this.#inView)) * most;
    this.#schedule();
  }

  get #height(): number {
    return Math.min(this.#count * this.#rowHeight, TALLEST);
  }

  get #inView(): number {
    return this.#viewport.clientHeight / this.#rowHeight;
  }

  /** The row at the upper edge, with a fraction. */
  get #first(): number {
    const { scrollTop, clientHeight } = this.#viewport;
    if (this.#count * this.#rowHeight <= TALLEST) return scrollTop / this.#rowHeight;
    return (scrollTop / Math.max(1, this.#height - clientHeight)) * (this.#count - this.#inView);
  }

  #resized(): void {
    const height = Number.parseFloat(getComputedStyle(this.element).getPropertyValue("--row"));
    if (height > 0) this.#rowHeight = height;
    this.#space.style.height = `${this.#height}px`;
    // The names of the columns are above them, beside the scroll bar.
    this.#head.style.paddingRight = `${this.#viewport.offsetWidth - this.#viewport.clientWidth}px`;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      void this.#draw();
    });
  }

  async #draw(): Promise<void> {
    const first = this.#first;
    const from = Math.max(0, Math.floor(first) - AROUND);
    const to = Math.min(this.#count, Math.ceil(first + this.#inView) + AROUND);
    for (const [index, row] of this.#rows) {
      // A row that has the focus stays, so that the focus does.
      if ((index < from || index >= to) && !row.contains(document.activeElement)) {
        row.remove();
        this.#rows.delete(index);
      }
    }
    this.#place(first);
    const missing = Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at).filter(
      (index) => !this.#rows.has(index),
    );
    const [start, end] = [missing[0], missing.at(-1)];
    if (start === undefined || end === undefined) return;
    const content = this.#content;
    const given = this.#options.fetch(start, end + 1);
    const found = given instanceof Promise ? await given : given;
    if (content !== this.#content) return;
    found.forEach((row, at) => {
      const index = start + at;
      if (this.#rows.has(index)) return;
      const element = this.#row(row, index);
      this.#rows.set(index, element);
      this.#insert(element, index);
    });
    this.#place(this.#first);
  }

  /** Rows are in their order, which is the order of reading and of the focus. */
  #insert(element: HTMLElement, index: number): void {
    let after: Element | null = this.#space.lastElementChild;
    while (after !== null && Number(after.getAttribute("aria-rowindex")) > index + 2) after = after.previousElementSibling;
    if (after === null) this.#space.prepend(element);
    else after.after(element);
  }

  #row(row: Row, index: number): HTMLElement {
    const cells = this.#options.cells(row, index).map((content, at) =>
      el("div", { role: "cell", class: `cell ${this.#options.columns[at]?.class ?? ""}` }, content),
    );
    return el("div", { role: "row", class: "row", "aria-rowindex": index + 2 }, ...cells);
  }

  #place(first: number): void {
    const { scrollTop } = this.#viewport;
    for (const [index, row] of this.#rows) {
      row.style.transform = `translateY(${scrollTop + (index - first) * this.#rowHeight}px)`;
    }
  }
}
