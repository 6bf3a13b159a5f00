"""Exceptions. There is a class for each case that a program can handle differently."""

from __future__ import annotations

import errno as _errno
import os
from typing import Optional


class Error(Exception):
    """Base class of all ggmill exceptions.

    Attributes:
        kind: A stable identifier of the cause, such as ``"truncated"``, ``"not_gguf"`` or
            ``"misuse"``.
        offset: The position in the file in bytes, or ``None``.
        subject: The key or tensor concerned, such as ``'tensor "output.weight"'``, or ``None``.
        path: The file concerned, or ``None``.
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
        # Keeps the attributes when an exception is sent to another process.
        errno = getattr(self, "errno", None)
        return error_of, (str(self), self.kind, self.offset, self.subject, self.path, errno)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FormatError(Error, ValueError):
    """Raised if a file is invalid: not GGUF, truncated, or inconsistent."""


class UnsupportedError(Error, ValueError):
    """Raised if an input is valid, but not supported."""


class ArgumentError(Error, ValueError):
    """Raised if an argument is invalid."""


class MissingError(Error, LookupError):
    """Raised if a key, tensor, token or chat template does not exist."""


class ClosedError(Error, ValueError):
    """Raised if a closed model is used."""


class StoppedError(Error):
    """Raised if a progress callback returns ``False``. No output is left."""


class FileError(Error, OSError):
    """Raised if a file cannot be opened, read or written.

    Attributes:
        errno: The error code of the operating system, or ``None``.
        filename: The same as :attr:`path`.
    """

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
    """Raised if a file does not exist."""


class OutputExistsError(FileError, FileExistsError):
    """Raised if the output exists and ``overwrite`` is false."""


class ForbiddenError(FileError, PermissionError):
    """Raised if the operating system denies access to a file."""


_CLASSES: dict[str, type[Error]] = {
    "architecture": UnsupportedError,
    "budget": ArgumentError,
    "cancelled": StoppedError,
    "closed": ClosedError,
    "embeddings": ArgumentError,
    "graph": UnsupportedError,
    "conversation": ArgumentError,
    "edit": ArgumentError,
    "importance": ArgumentError,
    "misuse": ArgumentError,
    "missing": MissingError,
    "needs_weights": ArgumentError,
    "no_graph": UnsupportedError,
    "no_such_token": MissingError,
    "no_tokenizer": UnsupportedError,
    "non_finite": ArgumentError,
    "non_finite_weight": ArgumentError,
    "out_of_range": ArgumentError,
    "pre_tokenizer": UnsupportedError,
    "quantized": ArgumentError,
    "refused": ArgumentError,
    "tokens": ArgumentError,
    "too_short": ArgumentError,
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
    """Create the exception for an error of the native module."""
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
