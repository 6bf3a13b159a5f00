"""HTML representations of models, tensors and reports for notebooks.

Text from files is data: every function escapes it, and shows control characters and lone surrogates
as escape sequences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from html import escape
from typing import TYPE_CHECKING, Any, cast

from ._text import counted, size, text_of

if TYPE_CHECKING:
    from ._model import Metadata, Model, Tensors
    from ._reports import CheckReport, DiffReport, Estimate, Plan

ROWS = 60
"""Maximum number of rows shown per table."""

CHARACTERS = 80
"""Maximum number of characters shown per value."""


def _text(value: Any) -> str:
    """Escape text for HTML."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))
    return escape(shown)


def _code(value: Any) -> str:
    return f"<code>{_text(value)}</code>"


def _table(
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


def _list(items: Iterable[str]) -> str:
    found = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f"<ul>{found}</ul>" if found else ""


def _shortened(text: str) -> str:
    return text if len(text) <= CHARACTERS else text[:CHARACTERS] + "…"


def metadata(entries: Metadata) -> str:
    """Format metadata entries as a table."""
    rows: list[list[str]] = []
    for entry in entries.entries()[:ROWS]:
        value = repr(entries[entry.key])
        rows.append([_code(entry.key), entry.type, _code(_shortened(value))])
    return _table(["key", "type", "value"], rows, len(entries) - ROWS)


def tensors(found: Tensors) -> str:
    """Format a list of tensors as a table."""
    rows: list[list[str]] = []
    for _, tensor in zip(range(ROWS), found.values()):
        shape = _shape(tensor.shape)
        rows.append([_code(tensor.name), escape(tensor.type), shape, f"{tensor.offset:,}"])
    return _table(["tensor", "type", "shape", "offset"], rows, len(found) - ROWS)


def _shape(shape: Iterable[int]) -> str:
    return " × ".join(str(length) for length in shape)


def model(found: Model) -> str:
    """Format the summary of a model and its tensors."""
    if found.closed:
        return f"<p>{_text(repr(found))}</p>"
    # Notebooks show `pre` in a proportional font, in which columns are not aligned.
    text = _text_block(found.text(width=100))
    summary = f'<pre style="font-family: monospace; line-height: 1.3">{text}</pre>'
    if not len(found.tensors):
        return summary
    listed = tensors(found.tensors)
    return f"{summary}<details><summary>{len(found.tensors)} tensors</summary>{listed}</details>"


def _text_block(text: str) -> str:
    return "\n".join(_text(line) for line in text.splitlines())


def report(found: CheckReport) -> str:
    """Format the findings of a check as a table."""
    if not found.findings:
        return f"<p>{_text(found.path)}: no findings</p>"
    rows = [
        [finding.severity, finding.code, _text(finding.subject or "file"), _text(finding.message)]
        for finding in found.findings
    ]
    errors, warnings = counted(found.errors, "error"), counted(found.warnings, "warning")
    heading = f"<p>{_text(found.path)}: {errors}, {warnings}</p>"
    return heading + _table(["severity", "rule", "subject", "finding"], rows)


def diff(found: DiffReport) -> str:
    """Format the differences of two models as tables."""
    a, b = (_text(found.document[side]["file"]) for side in ("a", "b"))
    page = f"<p>{a} → {b}: {found._summary()}</p>"
    for what, moved in (("keys", "moved_key"), ("tensors", "moved_tensor")):
        first = found.document.get(moved)
        if first is not None:
            page += f"<p>The order of the {what} differs, from {_code(text_of(first))} on.</p>"
    if found.keys:
        keys = [
            [_code(text_of(key["key"])), key["change"], _entry(key.get("a")), _entry(key.get("b"))]
            for key in found.keys[:ROWS]
        ]
        page += _table(["key", "change", "A", "B"], keys, len(found.keys) - ROWS)
    if found.tensors:
        columns = [
            column
            for column in _MEASURES
            if any(column[1] in tensor.get("data", ()) for tensor in found.tensors)
        ]
        head = ["tensor", "change", "A", "B", *(name for name, _, _ in columns)]
        rows = [_changed_tensor(tensor, columns) for tensor in found.tensors[:ROWS]]
        page += _table(head, rows, len(found.tensors) - ROWS, numeric=range(4, len(head)))
    return page


_MEASURES = (
    ("different bytes", "different_bytes", ","),
    ("max. error", "max_abs", ".3e"),
    ("RMSE", "rmse", ".3e"),
    ("relative RMSE", "relative", ".3e"),
    ("cosine", "cosine", ".6f"),
)
"""The columns for the data of a tensor: name, field of ``ggmill.diff/1``, format."""


def _changed_tensor(tensor: dict[str, Any], columns: Iterable[tuple[str, str, str]]) -> list[str]:
    row = [_code(text_of(tensor["name"])), tensor["change"]]
    for info in (tensor.get("a"), tensor.get("b")):
        row.append("" if info is None else f"{_text(info['type'])} {_shape(info['shape'][::-1])}")
    data = tensor.get("data", {})
    return row + [_number(data.get(field), form) for _, field, form in columns]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _entry(entry: dict[str, Any] | None) -> str:
    """Format a metadata value as in ``ggmill.diff/1``."""
    if entry is None:
        return ""
    kind = entry["type"]
    if kind == "array":
        kind = f"{entry['element']}[{entry['length']}]"
    value = _value(entry["value"])
    if entry.get("truncated"):
        value = f"{value[:-1]}, …]"
    return f"{_text(kind)} {_code(_shortened(value))}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('Iterable[Any]', value)))}]"
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "float" in fields:
            return str(fields["float"])
        return repr(text_of(fields)) if "bytes_hex" in fields else _value(fields["value"])
    return repr(value)


def estimate(found: Estimate) -> str:
    """Format an estimate as a table with a row for each device."""
    names = ("weights", "keys", "values", "states", "output", "compute", "total")
    rows = [
        [_text(device.name), *(_size_or_unknown(getattr(device, name)) for name in names)]
        for device in found.devices
    ]
    if len(rows) > 1:
        rows.append(["all", *[""] * (len(names) - 1), size(found.total)])
    page = f"<p>{found._summary()}</p>"
    page += _table(["device", *names], rows, numeric=range(1, len(names) + 1))
    if found.unknown:
        page += f"<p>Not included:</p>{_list(found.unknown)}"
    return page + (f"<p>Notes:</p>{_list(found.notes)}" if found.notes else "")


def _size_or_unknown(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else size(nbytes)


def plan(found: Plan) -> str:
    """Format a plan: its files, the tensors of each type, and the notes."""
    page = f"<p>{_text(found.path)}: {found._summary()}</p>"
    if len(found.paths) > 1:
        files = [[_code(path)] for path in found.paths[:ROWS]]
        page += _table(["file"], files, len(found.paths) - ROWS)
    types: dict[str, list[int]] = {}
    for tensor in found._tensors():
        types.setdefault(tensor["type"], []).append(tensor["size"])
    if types:
        rows = [
            [_text(name), str(len(sizes)), size(sum(sizes))]
            for name, sizes in sorted(types.items(), key=lambda item: -sum(item[1]))
        ]
        page += _table(["type", "tensors", "size"], rows, numeric=(1, 2))
    return page + _list(found.notes)
