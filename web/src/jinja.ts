// Highlighting of chat templates.

import { el } from "./dom.js";
import { visibleLines } from "./text.js";

const TAG = /\{#[\s\S]*?#\}|\{%[\s\S]*?%\}|\{\{[\s\S]*?\}\}/g;
const WORDS =
  /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(\b\d+(?:\.\d+)?\b)|\b(if|elif|else|endif|for|in|endfor|set|endset|macro|endmacro|call|endcall|filter|endfilter|generation|endgeneration|break|continue|is|not|and|or|defined|none|true|false|None|True|False|namespace|loop|raise_exception)\b|(\|\s*\w+)/g;

/** A template with its parts marked. */
export function highlighted(template: string): DocumentFragment {
  const out = document.createDocumentFragment();
  let end = 0;
  for (const match of template.matchAll(TAG)) {
    out.append(text(template.slice(end, match.index)));
    out.append(match[0].startsWith("{#") ? part("comment", match[0]) : tag(match[0]));
    end = match.index + match[0].length;
  }
  out.append(text(template.slice(end)));
  return out;
}

function tag(source: string): HTMLElement {
  const element = el("span", { class: "j-tag" });
  let end = 0;
  for (const match of source.matchAll(WORDS)) {
    const [all, quoted, number, word] = match;
    element.append(visibleLines(source.slice(end, match.index)));
    element.append(part(quoted ? "string" : number ? "number" : word ? "word" : "filter", all));
    end = match.index + all.length;
  }
  element.append(visibleLines(source.slice(end)));
  return element;
}

const part = (kind: string, source: string): HTMLElement => el("span", { class: `j-${kind}` }, visibleLines(source));
const text = (source: string): string => visibleLines(source);
