"""Exceptions. There is a class for each case that a program can handle differently."""

from __future__ import annotations

import errno as _errno
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
        arguments = (str(self), self.kind, self.offset, self.subject, self.path, errno)
        return error_of, (type(self), *arguments)

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


def error_of(
    cls: type[Error],
    message: str,
    kind: str,
    offset: Optional[int],
    subject: Optional[str],
    path: Optional[str],
    errno: Optional[int],
) -> Error:
    """Create an exception. The native module calls this function, and so does unpickling."""
    if not issubclass(cls, FileError):
        return cls(message, kind=kind, offset=offset, subject=subject, path=path)
    if errno is None and issubclass(cls, OutputExistsError):
        errno = _errno.EEXIST
    elif errno is None and issubclass(cls, NoSuchFileError):
        errno = _errno.ENOENT
    return cls(message, kind=kind, offset=offset, subject=subject, path=path, errno=errno)
