// Findings of the rules.

import type { CheckedFile, Finding } from "ggmill";
import { call } from "../client.js";
import { el } from "../dom.js";
import type { Page, View } from "../page.js";
import { count, visible, visibleLines } from "../text.js";

/** Where the pages of the rules are. */
const PAGES = "https://github.com/ggmill/ggmill/blob/main/docs/rules/";
const SIGNS = { error: "✕", warning: "!", note: "i" };

export function checkView({ pending }: Page): View {
  const result = el("div", { "aria-busy": "true" }, el("p", {}, "Checking…"));
  const unsaved = el("p", { class: "muted" }, "These are the findings of the file as it was opened: changes are checked when `ggmill edit` makes them.");
  const update = (): void => void (unsaved.hidden = pending.count === 0);
  pending.onChange(update);
  update();
  const element = el("section", {}, unsaved, result);
  let started = false;
  return {
    element,
    shown: () => {
      if (started) return;
      started = true;
      call("check", "model").then(
        ({ files }) => result.replaceChildren(...files.map((file) => report(file, files.length > 1))),
        (error: Error) => result.replaceChildren(el("p", { class: "error" }, visible(error.message))),
      ).finally(() => result.removeAttribute("aria-busy"));
    },
  };
}

function report({ path, errors, warnings, notes, findings, unlisted }: CheckedFile, isNamed: boolean): HTMLElement {
  const total = `${plural(errors, "error")}, ${plural(warnings, "warning")}, ${plural(notes, "note")}`;
  return el(
    "div",
    {},
    isNamed && el("h2", {}, visible(path)),
    el("p", { role: "status", class: "total" }, errors + warnings + notes === 0 ? "No findings in the header." : total),
    el("ul", { class: "findings" }, ...findings.map(item)),
    unlisted.length > 0 &&
      el("p", { class: "muted" }, `More of: ${unlisted.map(({ code, count: more }) => `${code} (${count(more)})`).join(", ")}`),
    el("p", { class: "muted" }, "Weights are not checked, and chat templates are not rendered: ggmill check --data --profile run does both."),
  );
}

const plural = (number: number, name: string): string => `${count(number)} ${name}${number === 1 ? "" : "s"}`;

function item(finding: Finding): HTMLElement {
  const { code, severity, subject, offset, message, summary, why, help, demanded_by: by } = finding;
  const place = [
    subject.kind === "file" ? undefined : `${subject.kind} ${visible(subject.name ?? "")}`,
    offset === null ? undefined : `byte ${count(offset)}`,
  ].filter((part) => part !== undefined);
  const link = el("a", { href: `${PAGES}${code}.md`, target: "_blank", rel: "noreferrer" }, `${code}: ${summary}`);
  return el(
    "li",
    { class: severity },
    el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[severity]),
    el(
      "div",
      {},
      el("p", {}, el("strong", {}, severity), " ", link),
      el("p", {}, visible(message)),
      place.length > 0 && el("p", { class: "muted" }, place.join(", ")),
      el(
        "details",
        {},
        el("summary", {}, "Why, and what to do"),
        el("p", {}, visibleLines(why)),
        el("p", {}, visibleLines(help)),
        el("p", { class: "muted" }, `Required by: ${by}`),
      ),
    ),
  );
}
