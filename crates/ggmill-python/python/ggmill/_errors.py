"""The exceptions of the package: few, so that a program can tell apart what it can act on."""

from __future__ import annotations

import errno as _errno
import os
from typing import Optional


class Error(Exception):
    """Any error of ggmill.

    Attributes:
        kind: why, as a word that does not change: ``"truncated"``, ``"not_gguf"``, ``"misuse"``, …
        offset: the byte of the file it was found at, where there is one.
        subject: the key or tensor it is about, such as ``'tensor "output.weight"'``.
        path: the file it is about.
    """

    kind: str
    offset: Optional[int]
    subject: Optional[str]
    path: Optional[str]

    def __init__(
        self,
        message: str,
        *,
        kind: str = "misuse",
        offset: Optional[int] = None,
        subject: Optional[str] = None,
        path: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.offset = offset
        self.subject = subject
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        # With its attributes: exceptions cross processes as pickles.
        return (
            error_of,
            (str(self), self.kind, self.offset, self.subject, self.path, getattr(self, "errno", None)),
        )

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FormatError(Error, ValueError):
    """The content of a file is refused: it is not GGUF, is cut short, or contradicts itself."""


class UnsupportedError(Error, ValueError):
    """Well formed, and not something that ggmill does."""


class ArgumentError(Error, ValueError):
    """An argument cannot be what was meant."""


class MissingError(Error, LookupError):
    """A key, tensor or token that was asked for is not there."""


class ClosedError(Error, ValueError):
    """The model was closed."""


class StoppedError(Error):
    """A progress callback returned ``False``. Nothing was written."""


class FileError(Error, OSError):
    """A file cannot be opened, read or written. ``errno`` is that of the system."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "io",
        offset: Optional[int] = None,
        subject: Optional[str] = None,
        path: Optional[str] = None,
        errno: Optional[int] = None,
    ) -> None:
        super().__init__(message, kind=kind, offset=offset, subject=subject, path=path)
        self.errno = errno
        self.filename = path


class NoSuchFileError(FileError, FileNotFoundError):
    """There is no such file."""


class OutputExistsError(FileError, FileExistsError):
    """The output exists; ``overwrite=True`` replaces it."""


class ForbiddenError(FileError, PermissionError):
    """The system does not allow it."""


_CLASSES: dict[str, type[Error]] = {
    "architecture": UnsupportedError,
    "budget": ArgumentError,
    "cancelled": StoppedError,
    "closed": ClosedError,
    "conversation": ArgumentError,
    "edit": ArgumentError,
    "importance": ArgumentError,
    "misuse": ArgumentError,
    "missing": MissingError,
    "needs_weights": ArgumentError,
    "no_such_token": MissingError,
    "no_tokenizer": UnsupportedError,
    "non_finite": ArgumentError,
    "non_finite_weight": ArgumentError,
    "out_of_range": ArgumentError,
    "pre_tokenizer": UnsupportedError,
    "quantized": ArgumentError,
    "refused": ArgumentError,
    "types": ArgumentError,
    "unknown_model": UnsupportedError,
    "unknown_pre_tokenizer": UnsupportedError,
    "unsupported": UnsupportedError,
}

_FILES = frozenset({"io", "exists", "changed", "not_editable", "journal"})


def error_of(
    message: str,
    kind: str,
    offset: Optional[int] = None,
    subject: Optional[str] = None,
    path: Optional[str] = None,
    errno: Optional[int] = None,
) -> Error:
    """The exception for an error of the native module."""
    if kind in _FILES:
        cls: type[FileError] = FileError
        if kind == "exists":
            cls, errno = OutputExistsError, _errno.EEXIST
        elif errno in (_errno.ENOENT, _errno.ENOTDIR) or (
            errno is None and kind == "io" and path is not None and not os.path.lexists(path)
        ):
            cls, errno = NoSuchFileError, errno or _errno.ENOENT
        elif errno in (_errno.EACCES, _errno.EPERM):
            cls = ForbiddenError
        return cls(message, kind=kind, offset=offset, subject=subject, path=path, errno=errno)
    made = _CLASSES.get(kind, FormatError)
    return made(message, kind=kind, offset=offset, subject=subject, path=path)
