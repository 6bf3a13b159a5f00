"""Models, tensors and reports as a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._model import Metadata, Model, Tensors
    from ._reports import CheckReport

#: Rows of a table that are shown.
ROWS = 60
#: Characters of a value that are shown.
CHARACTERS = 80


def _text(value: Any) -> str:
    """Text of a file as HTML: control characters and lone surrogates are shown, not sent."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))
    return escape(shown)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], rest: int = 0) -> str:
    cells = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{cell}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    more = f"<p>and {rest} more</p>" if rest > 0 else ""
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{more}"


def metadata(entries: Metadata) -> str:
    """The entries of a model."""
    rows: list[list[str]] = []
    for entry in entries.entries()[:ROWS]:
        value = entries[entry.key]
        shown = repr(value)
        if len(shown) > CHARACTERS:
            shown = shown[:CHARACTERS] + "…"
        rows.append([f"<code>{_text(entry.key)}</code>", entry.type, f"<code>{_text(shown)}</code>"])
    return _table(["key", "type", "value"], rows, len(entries) - ROWS)


def tensors(found: Tensors) -> str:
    """The tensors of a model."""
    rows: list[list[str]] = []
    for _, tensor in zip(range(ROWS), found.values()):
        shape = " × ".join(str(length) for length in tensor.shape)
        name = f"<code>{_text(tensor.name)}</code>"
        rows.append([name, escape(tensor.type), shape, f"{tensor.offset:,}"])
    return _table(["tensor", "type", "shape", "offset"], rows, len(found) - ROWS)


def model(found: Model) -> str:
    """The summary of a model, with its tensors."""
    if found.closed:
        return f"<p>{_text(repr(found))}</p>"
    # Notebooks give `pre` the font of their text, in which columns do not line up.
    text = _text_block(found.text(width=100))
    summary = f'<pre style="font-family: monospace; line-height: 1.3">{text}</pre>'
    if not len(found.tensors):
        return summary
    listed = tensors(found.tensors)
    return f"{summary}<details><summary>{len(found.tensors)} tensors</summary>{listed}</details>"


def _text_block(text: str) -> str:
    return "\n".join(_text(line) for line in text.splitlines())


def report(found: CheckReport) -> str:
    """The findings about a model."""
    if not found.findings:
        return f"<p>{_text(found.path)}: no findings</p>"
    rows = [
        [finding.severity, finding.code, _text(finding.subject or "file"), _text(finding.message)]
        for finding in found.findings
    ]
    errors, warnings = _counted(found.errors, "error"), _counted(found.warnings, "warning")
    heading = f"<p>{_text(found.path)}: {errors}, {warnings}</p>"
    return heading + _table(["severity", "rule", "subject", "finding"], rows)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
