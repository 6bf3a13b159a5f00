// Tabs, of which each makes its view when it is first shown.

import { el } from "./dom.js";
import type { View } from "./page.js";

interface Tab {
  readonly name: string;
  readonly button: HTMLButtonElement;
  readonly panel: HTMLElement;
  readonly make: () => View;
  view?: View;
}

export class Tabs {
  readonly element: HTMLElement;
  readonly #tabs: Tab[];

  constructor(tabs: readonly (readonly [name: string, label: string, make: () => View])[]) {
    this.#tabs = tabs.map(([name, label, make]) => ({
      name,
      make,
      button: el(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": `panel-${name}`,
          onclick: () => this.show(name),
          onkeydown: (event: KeyboardEvent) => this.#move(event, name),
        },
        label,
      ),
      panel: el("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, class: "panel", hidden: true }),
    }));
    this.element = el(
      "div",
      { class: "tabs" },
      el("div", { role: "tablist", "aria-label": "Views" }, ...this.#tabs.map((tab) => tab.button)),
      ...this.#tabs.map(({ panel }) => panel),
    );
  }

  show(name: string): void {
    for (const tab of this.#tabs) {
      const isShown = tab.name === name;
      tab.button.setAttribute("aria-selected", String(isShown));
      tab.button.tabIndex = isShown ? 0 : -1;
      tab.panel.hidden = !isShown;
      if (!isShown) continue;
      tab.button.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (tab.view === undefined) {
        tab.view = tab.make();
        tab.panel.append(tab.view.element);
      }
      tab.view.shown?.();
    }
  }

  #move(event: KeyboardEvent, name: string): void {
    const at = this.#tabs.findIndex((tab) => tab.name === name);
    const places: Record<string, number> = {
      ArrowRight: (at + 1) % this.#tabs.length,
      ArrowLeft: (at + this.#tabs.length - 1) % this.#tabs.length,
      Home: 0,
      End: this.#tabs.length - 1,
    };
    const next = this.#tabs[places[event.key] ?? -1];
    if (next === undefined) return;
    event.preventDefault();
    this.show(next.name);
    next.button.focus();
  }
}
