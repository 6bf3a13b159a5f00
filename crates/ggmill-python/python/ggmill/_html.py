"""HTML for the representations of models and reports in notebooks.

Text from files is data: it is escaped, and control characters and lone surrogates are shown as
escape sequences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from html import escape
from typing import Any

MAX_ROWS = 60
"""The maximum number of rows per table."""

_MAX_CHARACTERS = 80
"""The maximum number of characters per value."""


def text(value: Any) -> str:
    """Escape text."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))
    return escape(shown)


def code(value: Any) -> str:
    """Format a name or a value."""
    return f"<code>{text(value)}</code>"


def shortened(value: str) -> str:
    """Cut a text off at the maximum length of a value."""
    return value if len(value) <= _MAX_CHARACTERS else value[:_MAX_CHARACTERS] + "…"


def shape(lengths: Iterable[int]) -> str:
    """Format a shape."""
    return " × ".join(str(length) for length in lengths)


def table(
    head: Iterable[str],
    rows: Iterable[Iterable[str]],
    rest: int = 0,
    numeric: Collection[int] = (),
) -> str:
    """Format a table.

    Args:
        head: The column names, as text.
        rows: The cells, as HTML.
        rest: The number of rows that are not shown.
        numeric: The indices of the columns that are aligned to the right.
    """

    def row_of(tag: str, cells: Iterable[str]) -> str:
        row = ""
        for column, cell in enumerate(cells):
            side = "right" if column in numeric else "left"
            row += f"<{tag} style='text-align:{side}'>{cell}</{tag}>"
        return f"<tr>{row}</tr>"

    header = row_of("th", map(escape, head))
    body = "".join(row_of("td", row) for row in rows)
    more = f"<p>and {rest} more</p>" if rest > 0 else ""
    return f"<table><thead>{header}</thead><tbody>{body}</tbody></table>{more}"


def bullets(items: Iterable[str]) -> str:
    """Format a list; nothing if it is empty."""
    found = "".join(f"<li>{text(item)}</li>" for item in items)
    return f"<ul>{found}</ul>" if found else ""
