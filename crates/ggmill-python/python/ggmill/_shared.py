"""Plans that are shared out: any programs compute ranges of one file, in whatever order."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any, Callable, Generic, ParamSpec, TypeVar

from . import _native
from ._errors import ArgumentError, Error, FileError, OutputExistsError
from ._progress import Progress, callback_of
from ._reports import Plan, plan_of

Run = ParamSpec("Run")
Planned = ParamSpec("Planned")
Result = TypeVar("Result")

RANGE = 64 << 20
"""Bytes of a range, where nothing is said."""


class Operation(Generic[Run, Result, Planned]):
    """A function, and beside it ``plan``: the same work as a :class:`SharedPlan`."""

    __name__: str

    def __init__(
        self, run: Callable[Run, Result], plan: Callable[Planned, SharedPlan]
    ) -> None:
        functools.update_wrapper(self, run)
        self.__name__ = run.__name__.lstrip("_")
        self._run = run
        self.plan = plan

    def __call__(self, *args: Run.args, **options: Run.kwargs) -> Result:
        return self._run(*args, **options)


class SharedPlan:
    """A file laid out to the byte, of which any programs compute ranges, in whatever order and as
    often as they like: what comes out is the file that one program writes, byte for byte.

    It pickles, and is JSON (:meth:`to_json`). What travels is what was asked for, in a few hundred
    bytes; where it arrives, it opens the same inputs under the same paths and refuses them when
    they give another file.

    >>> plan = ggmill.quantize.plan("model.gguf", "small.gguf", "Q4_K_M")  # doctest: +SKIP
    >>> plan.begin()                                                       # doctest: +SKIP
    >>> plan.finish(plan.run_range(i) for i in range(len(plan)))           # doctest: +SKIP
    """

    def __init__(
        self, operation: str, arguments: dict[str, Any], range_size: int, digest: str | None = None
    ) -> None:
        if range_size < 1:
            raise ArgumentError(f"ranges of {range_size} bytes, expected at least 1")
        self._operation = operation
        self._arguments = arguments
        self._range_size = range_size
        plan = getattr(_native, f"plan_{operation}")
        self._native: _native.SharedPlan = plan(**arguments)
        self._plan = plan_of(self._native.document())
        found = hashlib.blake2b(self._native.header(), digest_size=16).hexdigest()
        if digest is not None and digest != found:
            raise Error(
                f"{self.path}: the inputs give another file here than where the plan was made",
                kind="changed",
                path=self.path,
            )
        self._digest = found

    @property
    def plan(self) -> Plan:
        """What the file will be: size, types, notes."""
        return self._plan

    @property
    def path(self) -> str:
        """The file to be."""
        return self._plan.path

    @property
    def partial_path(self) -> str:
        """Where the ranges go until the file is whole."""
        return f"{self.path}.partial"

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._plan.nbytes

    def __len__(self) -> int:
        """The number of ranges."""
        return -(-self.nbytes // self._range_size)

    def span(self, number: int) -> tuple[int, int]:
        """The first byte of a range, and the one behind its last."""
        if not 0 <= number < len(self):
            raise ArgumentError(f"range {number} of {len(self)}")
        start = number * self._range_size
        return start, min(start + self._range_size, self.nbytes)

    def read_range(
        self, number: int, *, threads: int | None = None, progress: Progress = None
    ) -> bytes:
        """The bytes of a range."""
        start, stop = self.span(number)
        return self._native.range(start, stop, threads=threads, progress=callback_of(progress))

    def begin(self) -> str:
        """Makes the partial file, in its full length; returns its path. One that is there is kept,
        if it has that length: an interrupted run goes on."""
        path = self.partial_path
        if not self._arguments["overwrite"] and os.path.lexists(self.path):
            raise OutputExistsError(f"{self.path}: exists", kind="exists", path=self.path)
        try:
            with open(path, "ab") as file:
                if file.tell() != self.nbytes:
                    file.truncate(0)
                    file.truncate(self.nbytes)
        except OSError as error:
            raise _failed(error, path) from error
        return path

    def run_range(
        self, number: int, *, threads: int | None = None, progress: Progress = None
    ) -> int:
        """Computes a range and writes it into the partial file; returns the number of the range.

        A range that was written before is written again, with the same bytes.
        """
        data = self.read_range(number, threads=threads, progress=progress)
        path = self.partial_path
        try:
            with open(path, "r+b", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != self.nbytes:
                    raise ArgumentError(f"{path}: is not the file that begin() made", path=path)
                file.seek(self.span(number)[0])
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
        except OSError as error:
            raise _failed(error, path) from error
        return number

    def finish(self, ranges: Iterable[int]) -> Plan:
        """Gives the file its name, once every range is there.

        Args:
            ranges: the numbers of the ranges that were run: what :meth:`run_range` returned.

        Raises:
            ArgumentError: a range is missing.
            OutputExistsError: the file exists.
        """
        done = set(ranges)
        missing = [number for number in range(len(self)) if number not in done]
        if missing:
            shown = ", ".join(str(number) for number in missing[:5])
            raise ArgumentError(f"{self.path}: {len(missing)} ranges are missing: {shown}")
        if self._arguments["overwrite"]:
            try:
                os.replace(self.partial_path, self.path)
            except OSError as error:
                raise _failed(error, self.path) from error
        else:
            _native.rename_no_replace(self.partial_path, self.path)
        return self._plan

    def to_json(self) -> str:
        """The plan as text, for programs that do not pickle."""
        return json.dumps(
            {
                "schema": "ggmill.shared-plan/1",
                "operation": self._operation,
                "arguments": self._arguments,
                "range_size": self._range_size,
                "digest": self._digest,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> SharedPlan:
        """The plan of a text that :meth:`to_json` made."""
        found: Any = json.loads(text)
        try:
            operation, arguments = found["operation"], found["arguments"]
            range_size, digest = found["range_size"], found["digest"]
        except (TypeError, KeyError):
            raise ArgumentError("not a plan that to_json made") from None
        if operation not in ("quantize", "convert"):
            raise ArgumentError(f"operation {operation!r}, expected quantize or convert")
        return cls(operation, arguments, range_size, digest)

    def __reduce__(self) -> tuple[object, ...]:
        return SharedPlan, (self._operation, self._arguments, self._range_size, self._digest)

    def __repr__(self) -> str:
        return f"<SharedPlan {self.path!r}: {self.nbytes} bytes in {len(self)} ranges>"


def _failed(error: OSError, path: str) -> FileError:
    message = f"{path}: {error.strerror or error}"
    return FileError(message, kind="io", path=path, errno=error.errno)
