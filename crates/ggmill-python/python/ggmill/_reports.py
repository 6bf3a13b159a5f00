"""What operations return."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from . import _html


@dataclass(frozen=True)
class Finding:
    """One finding of a check.

    Attributes:
        code: the rule, ``"GG1302"``.
        severity: ``"error"``, ``"warning"`` or ``"note"``.
        message: what was found.
        subject: the key or tensor, or ``None`` for the file.
        offset: where, in bytes from the start of the file.
        summary: the title of the rule.
        help: how to fix it.
        path: the file.
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
    """The findings about a model.

    Attributes:
        path: the path that was checked.
        findings: of all files, errors first.
        document: the report as ``ggmill check --format json`` has it (``ggmill.check/1``).
        text: the report for people.
    """

    path: str
    findings: list[Finding]
    document: dict[str, Any] = field(repr=False)
    text: str = field(repr=False)

    def _count(self, name: str) -> int:
        return sum(file[name] for file in self.document["files"])

    @property
    def errors(self) -> int:
        """The number of errors, those that are not listed too."""
        return self._count("errors")

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return self._count("warnings")

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return self.errors == 0

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return _html.report(self)


def check_report(path: str, document: str, text: str) -> CheckReport:
    """The report of a check."""
    made: dict[str, Any] = json.loads(document)
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
        for file in made["files"]
        for found in file["findings"]
    ]
    return CheckReport(path, findings, made, text)


@dataclass(frozen=True)
class DiffReport:
    """What two models do not have in common.

    Attributes:
        same: whether everything that was compared is equal.
        document: the differences as ``ggmill diff --json`` has them (``ggmill.diff/1``).
        text: the same for people.
    """

    same: bool
    document: dict[str, Any] = field(repr=False)
    text: str = field(repr=False)

    @property
    def keys(self) -> list[Any]:
        """The metadata that differ: objects with ``key``, ``change``, ``a``, ``b``."""
        found: list[Any] = self.document.get("metadata") or []
        return found

    @property
    def tensors(self) -> list[Any]:
        """The tensors that differ: objects with ``name``, ``change``, ``a``, ``b``, ``data``."""
        found: list[Any] = self.document.get("tensors") or []
        return found

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Hashes:
    """Hashes of a model's weights, in hexadecimal.

    Attributes:
        model: of all tensor data, by kind: ``hashes.model["xxh64"]``.
        tensors: of each tensor, by its name and by kind: ``hashes.tensors["a"]["sha256"]``.
    """

    model: dict[str, str]
    tensors: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Plan:
    """A file that was written, or with ``dry_run`` would be.

    Attributes:
        path: the file; of shards the first.
        paths: the files.
        written: whether they were written.
        nbytes: bytes of all files.
        notes: what a person should know of the choices made.
        document: the plan as ``--json`` prints it (``ggmill.plan/1`` or ``ggmill.plans/1``).
    """

    path: str
    paths: list[str]
    written: bool
    nbytes: int
    notes: list[str]
    document: dict[str, Any] = field(repr=False)


def plan_of(text: str) -> Plan:
    """The plan of a document."""
    document: dict[str, Any] = json.loads(text)
    plans: list[dict[str, Any]] = document.get("plans", [document])
    paths = [_path(plan["output"]) for plan in plans]
    return Plan(
        path=paths[0],
        paths=paths,
        written=all(plan["written"] for plan in plans),
        nbytes=sum(plan["file_size"] for plan in plans),
        notes=[note for plan in plans for note in plan.get("notes", [])],
        document=document,
    )


def _path(shown: str | dict[str, str]) -> str:
    """A path as JSON has it; one that is not UTF-8 in hexadecimal."""
    if isinstance(shown, str):
        return shown
    return bytes.fromhex(shown["bytes_hex"]).decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class EditReport:
    """What an edit did.

    Attributes:
        written: whether anything was written; not with ``dry_run``.
        method: ``"unchanged"``, ``"in_place"`` (the header alone was written), ``"insert"``,
            ``"copy"`` or ``"rewrite"``.
        reason: why the file was copied or rewritten, where it was.
        keys: the keys that changed.
        nbytes: bytes of the file.
        notes: what a person should know.
        findings: what is wrong with what was set: objects with ``code``, ``subject``, ``message``.
    """

    written: bool
    method: str
    reason: str | None
    keys: list[str]
    nbytes: int
    notes: list[str]
    findings: list[dict[str, str]]


def edit_report(text: str) -> EditReport:
    """The report of an edit."""
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
    """What one device has, in bytes.

    Attributes:
        name: ``"CPU"``, the host, or ``"GPU0"`` and so on.
        weights: weights as they are loaded.
        keys: cached keys.
        values: cached values.
        states: recurrent states.
        output: scores of all tokens, for one token of each sequence.
        compute: compute buffers; ``None`` where they are not known.
        total: the sum of what is known.
    """

    name: str
    weights: int
    keys: int
    values: int
    states: int
    output: int
    compute: int | None
    total: int


@dataclass(frozen=True)
class Estimate:
    """The memory that a model takes to run.

    Attributes:
        context: tokens of context, of all sequences together; ``None`` where nothing is known of
            the caches.
        layers: how many layers are on devices beside the host.
        layer_count: how many there are: blocks, and one for the output.
        flash_attention: whether attention is computed in tiles; ``None`` where the architecture is
            not known.
        devices: the host, and the devices in their order.
        total: bytes on all of them.
        unknown: what is not in the numbers, in words.
        document: the estimate as ``ggmill estimate --json`` has it (``ggmill.estimate/1``).
    """

    context: int | None
    layers: int
    layer_count: int
    flash_attention: bool | None
    devices: list[Device]
    total: int
    unknown: list[str]
    document: dict[str, Any] = field(repr=False)


def estimate_of(text: str) -> Estimate:
    """The estimate of a document with one case."""
    document: dict[str, Any] = json.loads(text)
    (case,) = document["estimates"]
    names = [name for name in Device.__dataclass_fields__]
    return Estimate(
        context=case["context"],
        layers=case["layers"],
        layer_count=case["layer_count"],
        flash_attention=case["flash_attention"],
        devices=[Device(**{name: device[name] for name in names}) for device in case["devices"]],
        total=case["total"],
        unknown=[unknown["message"] for unknown in case["unknown"]],
        document=document,
    )
