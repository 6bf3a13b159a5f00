"""The results of operations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from . import _html
from ._text import counted, size, text_of


@dataclass(frozen=True)
class Finding:
    """A violation of a rule in a file.

    Attributes:
        code: The code of the rule, such as ``"GG1302"``.
        severity: ``"error"``, ``"warning"`` or ``"note"``.
        message: A description of the problem.
        subject: The key or tensor concerned, or ``None`` for the file as a whole.
        offset: The position in the file in bytes, or ``None`` if the finding has none.
        summary: The title of the rule.
        help: How to fix the problem.
        path: The path of the file.
    """

    code: str
    severity: str
    message: str
    subject: str | None
    offset: int | None
    summary: str
    help: str
    path: str


@dataclass(frozen=True)
class CheckReport:
    """The result of :func:`ggmill.check`.

    ``str(report)`` is the report as text; notebooks show the findings as a table.

    Attributes:
        path: The path that was passed to ``check``.
        findings: The findings of all files. Findings of one rule beyond the limit ``most`` are
            counted, but not listed.
        document: The JSON document of ``ggmill check --format json`` (``ggmill.check/1``).
        text: The output of ``ggmill check``.
    """

    path: str
    findings: list[Finding]
    document: dict[str, Any] = field(repr=False)
    text: str = field(repr=False)

    def _count(self, name: str) -> int:
        return sum(file[name] for file in self.document["files"])

    @property
    def errors(self) -> int:
        """Number of errors, including those that are not listed."""
        return self._count("errors")

    @property
    def warnings(self) -> int:
        """Number of warnings, including those that are not listed."""
        return self._count("warnings")

    @property
    def ok(self) -> bool:
        """Whether there are no errors; warnings and notes are allowed."""
        return self.errors == 0

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        if not self.findings:
            return f"<p>{_html.text(self.path)}: no findings</p>"
        rows: list[list[str]] = []
        for found in self.findings:
            subject, message = _html.text(found.subject or "file"), _html.text(found.message)
            rows.append([found.severity, found.code, subject, message])
        errors, warnings = counted(self.errors, "error"), counted(self.warnings, "warning")
        heading = f"<p>{_html.text(self.path)}: {errors}, {warnings}</p>"
        return heading + _html.table(["severity", "rule", "subject", "finding"], rows)


def check_report(path: str, document: str, text: str) -> CheckReport:
    """Create the report of a check from its JSON document."""
    parsed: dict[str, Any] = json.loads(document)
    findings = [
        Finding(
            code=found["code"],
            severity=found["severity"],
            message=found["message"],
            subject=found["subject"]["name"],
            offset=found["offset"],
            summary=found["summary"],
            help=found["help"],
            path=file["path"],
        )
        for file in parsed["files"]
        for found in file["findings"]
    ]
    return CheckReport(path, findings, parsed, text)


@dataclass(frozen=True)
class Reason:
    """A reason not to hand a file to a loader.

    Attributes:
        rule: The code of the rule, such as ``"GG1302"``.
        message: What was found.
        subject: The key or tensor concerned, or ``None`` for the file as a whole.
        path: The path of the file.
        advisories: The numbers of the published flaws, such as ``"CVE-2026-7482"``.
    """

    rule: str
    message: str
    subject: str | None
    path: str
    advisories: list[str]


@dataclass(frozen=True)
class Verdict:
    """The result of :func:`ggmill.vet`; true if the model is safe.

    Attributes:
        safe: Whether there is no reason not to hand the model to a loader.
        reasons: The reasons.
        document: The JSON document of ``ggmill check --profile threat --quiet``
            (``ggmill.verdict/1``).
    """

    safe: bool
    reasons: list[Reason]
    document: dict[str, Any] = field(repr=False)

    def __bool__(self) -> bool:
        return self.safe


def verdict(document: str) -> Verdict:
    """Create a verdict from its JSON document."""
    parsed: dict[str, Any] = json.loads(document)
    reasons = [
        Reason(
            rule=reason["rule"],
            message=reason["message"],
            subject=reason["subject"]["name"],
            path=reason["path"],
            advisories=[advisory["id"] for advisory in reason["advisories"]],
        )
        for reason in parsed["reasons"]
    ]
    return Verdict(parsed["safe"], reasons, parsed)


@dataclass(frozen=True)
class Verification:
    """The result of :func:`ggmill.verify`; true if the file is identical to what its source gives.

    Attributes:
        verdict: ``"identical"``, ``"consistent"`` (each block is as near to the source as its type
            allows, but some have other bytes) or ``"different"``.
        tensors: The tensors that are not identical: dictionaries with ``name``, ``type``,
            ``verdict`` and their errors.
        metadata: The metadata keys that differ: dictionaries with ``key``, ``change`` and
            ``decides``.
        document: The JSON document of ``ggmill verify --json`` (``ggmill.verify/1``).
    """

    verdict: str
    tensors: list[dict[str, Any]] = field(repr=False)
    metadata: list[dict[str, Any]] = field(repr=False)
    document: dict[str, Any] = field(repr=False)

    def __bool__(self) -> bool:
        return self.verdict == "identical"


def verification(document: str) -> Verification:
    """Create a verification from its JSON document."""
    parsed: dict[str, Any] = json.loads(document)
    return Verification(
        parsed["verdict"],
        parsed["tensors"]["not_identical"],
        parsed["metadata"]["differences"],
        parsed,
    )


@dataclass(frozen=True, repr=False)
class DiffReport:
    """The result of :func:`ggmill.diff`.

    ``str(report)`` is the report as text; notebooks show the differences as tables.

    Attributes:
        same: Whether everything that was compared is equal.
        document: The JSON document of ``ggmill diff --json`` (``ggmill.diff/1``).
        text: The output of ``ggmill diff``.
    """

    same: bool
    document: dict[str, Any]
    text: str

    @property
    def keys(self) -> list[Any]:
        """The metadata keys that differ: dictionaries with ``key``, ``change`` (``"added"``,
        ``"removed"`` or ``"changed"``), ``a`` and ``b``."""
        found: list[Any] = self.document.get("metadata") or []
        return found

    @property
    def tensors(self) -> list[Any]:
        """The tensors that differ: dictionaries with ``name``, ``change``, ``a`` and ``b``.

        ``data`` describes the differences of the data, with numeric errors if ``diff`` was called
        with ``data=True``.
        """
        found: list[Any] = self.document.get("tensors") or []
        return found

    def _summary(self) -> str:
        if self.same:
            return "no differences"
        counts = ((len(self.keys), "key"), (len(self.tensors), "tensor"))
        differ = [counted(number, thing) for number, thing in counts if number]
        return f"differences in {' and '.join(differ)}" if differ else "a different order"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        a, b = (self.document[side]["file"] for side in ("a", "b"))
        return f"<DiffReport {a!r} → {b!r}: {self._summary()}>"

    def _repr_html_(self) -> str:
        a, b = (_html.text(self.document[side]["file"]) for side in ("a", "b"))
        page = f"<p>{a} → {b}: {self._summary()}</p>"
        for what, moved in (("keys", "moved_key"), ("tensors", "moved_tensor")):
            first = self.document.get(moved)
            if first is not None:
                name = _html.code(text_of(first))
                page += f"<p>The order of the {what} differs, from {name} on.</p>"
        if self.keys:
            keys = [_changed_key(key) for key in self.keys[: _html.MAX_ROWS]]
            page += _html.table(["key", "change", "A", "B"], keys, len(self.keys) - _html.MAX_ROWS)
        if self.tensors:
            columns = [
                column
                for column in _MEASURES
                if any(column[1] in tensor.get("data", ()) for tensor in self.tensors)
            ]
            head = ["tensor", "change", "A", "B", *(name for name, _, _ in columns)]
            rows = [_changed_tensor(tensor, columns) for tensor in self.tensors[: _html.MAX_ROWS]]
            rest = len(self.tensors) - _html.MAX_ROWS
            page += _html.table(head, rows, rest, numeric=range(4, len(head)))
        return page


_MEASURES = (
    ("different bytes", "different_bytes", ","),
    ("max. error", "max_abs", ".3e"),
    ("RMSE", "rmse", ".3e"),
    ("relative RMSE", "relative", ".3e"),
    ("cosine", "cosine", ".6f"),
)
"""The columns for the data of a tensor: name, field of ``ggmill.diff/1``, format."""


def _changed_key(key: dict[str, Any]) -> list[str]:
    before, after = _entry(key.get("a")), _entry(key.get("b"))
    return [_html.code(text_of(key["key"])), key["change"], before, after]


def _changed_tensor(tensor: dict[str, Any], columns: Iterable[tuple[str, str, str]]) -> list[str]:
    row = [_html.code(text_of(tensor["name"])), tensor["change"]]
    for info in (tensor.get("a"), tensor.get("b")):
        shape = "" if info is None else _html.shape(info["shape"][::-1])
        row.append("" if info is None else f"{_html.text(info['type'])} {shape}")
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
    return f"{_html.text(kind)} {_html.code(_html.shortened(value))}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('Iterable[Any]', value)))}]"
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "float" in fields:
            return str(fields["float"])
        return repr(text_of(fields)) if "bytes_hex" in fields else _value(fields["value"])
    return repr(value)


@dataclass(frozen=True)
class Hashes:
    """The result of :func:`ggmill.hash`: digests in hexadecimal.

    Attributes:
        model: The digest of all tensor data by kind: ``hashes.model["xxh64"]``.
        tensors: The digests of each tensor by name and kind: ``hashes.tensors["output.weight"]
            ["sha256"]``. Empty with ``tensors=False``.
    """

    model: dict[str, str]
    tensors: dict[str, dict[str, str]]


@dataclass(frozen=True, repr=False)
class Plan:
    """A model that was written, or that would be written with ``dry_run=True``.

    Notebooks show the tensor types with the number and size of their tensors.

    Attributes:
        path: The path of the file, or of the first shard.
        paths: The paths of all files.
        written: Whether the files were written.
        nbytes: The size of all files in bytes.
        notes: Remarks about the choices made, for the user.
        document: The JSON document of the command (``ggmill.plan/1`` or ``ggmill.plans/1``), with
            the type, offset and size of each tensor.
    """

    path: str
    paths: list[str]
    written: bool
    nbytes: int
    notes: list[str]
    document: dict[str, Any]

    def _tensors(self) -> list[dict[str, Any]]:
        """The tensors of all files. Plans of files cut at byte boundaries have none."""
        plans: list[dict[str, Any]] = self.document.get("plans", [self.document])
        return [tensor for plan in plans for tensor in plan.get("tensors", [])]

    def _summary(self) -> str:
        facts = [size(self.nbytes)]
        if len(self.paths) > 1:
            facts.append(counted(len(self.paths), "file"))
        if tensors := self._tensors():
            facts.append(counted(len(tensors), "tensor"))
        return f"{', '.join(facts)}, {'written' if self.written else 'not written'}"

    def __repr__(self) -> str:
        return f"<Plan {self.path!r}: {self._summary()}>"

    def _repr_html_(self) -> str:
        page = f"<p>{_html.text(self.path)}: {self._summary()}</p>"
        if len(self.paths) > 1:
            files = [[_html.code(path)] for path in self.paths[: _html.MAX_ROWS]]
            page += _html.table(["file"], files, len(self.paths) - _html.MAX_ROWS)
        types: dict[str, list[int]] = {}
        for tensor in self._tensors():
            types.setdefault(tensor["type"], []).append(tensor["size"])
        if types:
            rows = [
                [_html.text(name), str(len(sizes)), size(sum(sizes))]
                for name, sizes in sorted(types.items(), key=lambda item: -sum(item[1]))
            ]
            page += _html.table(["type", "tensors", "size"], rows, numeric=(1, 2))
        return page + _html.bullets(self.notes)


def plan_of(text: str) -> Plan:
    """Create a plan from its JSON document."""
    document: dict[str, Any] = json.loads(text)
    plans: list[dict[str, Any]] = document.get("plans", [document])
    paths = [text_of(plan["output"]) for plan in plans]
    return Plan(
        path=paths[0],
        paths=paths,
        written=all(plan["written"] for plan in plans),
        nbytes=sum(plan["file_size"] for plan in plans),
        notes=[note for plan in plans for note in plan.get("notes", [])],
        document=document,
    )


@dataclass(frozen=True)
class EditReport:
    """The result of :func:`ggmill.edit`.

    Attributes:
        written: Whether a file was written; ``False`` with ``dry_run=True``.
        method: How the edit was written: ``"unchanged"``, ``"in_place"`` (only the header),
            ``"insert"`` (bytes were inserted before the tensor data), ``"copy"`` or ``"rewrite"``.
        reason: Why the file had to be copied or rewritten, or ``None``.
        keys: The keys that changed.
        nbytes: The size of the edited file in bytes.
        notes: Remarks about the result, for the user.
        findings: Problems of the changed keys, and problems that the file did not have before:
            dictionaries with ``code``, ``subject`` (the key or tensor, or ``None``) and ``message``.
    """

    written: bool
    method: str
    reason: str | None
    keys: list[str]
    nbytes: int
    notes: list[str]
    findings: list[dict[str, str]]


def edit_report(text: str) -> EditReport:
    """Create the report of an edit from its JSON document."""
    document: dict[str, Any] = json.loads(text)
    return EditReport(
        written=document["written"],
        method=document["method"],
        reason=document["reason"],
        keys=document["keys"],
        nbytes=document["file_size"],
        notes=document["notes"],
        findings=document["findings"],
    )


@dataclass(frozen=True)
class Device:
    """The memory used on one device, in bytes.

    Attributes:
        name: ``"CPU"`` for the host, or ``"GPU0"``, ``"GPU1"`` and so on.
        weights: The weights as loaded.
        keys: The K part of the KV cache.
        values: The V part of the KV cache.
        states: The recurrent states.
        output: The logits of one token per sequence.
        compute: The compute buffers; ``None`` if unknown.
        total: The sum of the known parts.
    """

    name: str
    weights: int
    keys: int
    values: int
    states: int
    output: int
    compute: int | None
    total: int


@dataclass(frozen=True, repr=False)
class Estimate:
    """The result of :func:`ggmill.estimate`. Notebooks show a table of the devices.

    Attributes:
        context: The context length in tokens, for all sequences together; ``None`` if the size of
            the KV cache is unknown.
        trained_context: The context length in tokens that the model was trained with; ``None`` if
            the file does not state it.
        layers: The number of layers on devices other than the host.
        layer_count: The total number of layers, including one for the output.
        flash_attention: Whether flash attention is used; ``None`` if the architecture is unknown.
        devices: The memory of the host, followed by that of the other devices.
        total: The memory of all devices in bytes.
        unknown: Descriptions of what the numbers do not include.
        notes: Notes about the options, such as a pattern that matches no tensor.
        document: The JSON document of ``ggmill estimate --json`` (``ggmill.estimate/1``).
    """

    context: int | None
    trained_context: int | None
    layers: int
    layer_count: int
    flash_attention: bool | None
    devices: list[Device]
    total: int
    unknown: list[str]
    notes: list[str]
    document: dict[str, Any]

    def _summary(self) -> str:
        facts = [size(self.total)]
        if self.context is not None:
            facts.append(f"context of {counted(self.context, 'token')}")
        facts.append(f"{self.layers} of {counted(self.layer_count, 'layer')} on devices")
        if self.flash_attention:
            facts.append("flash attention")
        return ", ".join(facts)

    def __repr__(self) -> str:
        totals = ", ".join(f"{device.name} {size(device.total)}" for device in self.devices)
        return f"<Estimate: {self._summary()}; {totals}>"

    def _repr_html_(self) -> str:
        names = ("weights", "keys", "values", "states", "output", "compute", "total")
        rows = [
            [_html.text(device.name), *(_size_or_unknown(getattr(device, name)) for name in names)]
            for device in self.devices
        ]
        if len(rows) > 1:
            rows.append(["all", *[""] * (len(names) - 1), size(self.total)])
        page = f"<p>{self._summary()}</p>"
        page += _html.table(["device", *names], rows, numeric=range(1, len(names) + 1))
        if self.unknown:
            page += f"<p>Not included:</p>{_html.bullets(self.unknown)}"
        return page + (f"<p>Notes:</p>{_html.bullets(self.notes)}" if self.notes else "")


def _size_or_unknown(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else size(nbytes)


def estimate_of(text: str) -> Estimate:
    """Create an estimate from its JSON document, which has one case."""
    document: dict[str, Any] = json.loads(text)
    (case,) = document["estimates"]
    names = [name for name in Device.__dataclass_fields__]
    return Estimate(
        context=case["context"],
        trained_context=case["trained_context"],
        layers=case["layers"],
        layer_count=case["layer_count"],
        flash_attention=case["flash_attention"],
        devices=[Device(**{name: device[name] for name in names}) for device in case["devices"]],
        total=case["total"],
        unknown=[unknown["message"] for unknown in case["unknown"]],
        notes=case["notes"],
        document=document,
    )
