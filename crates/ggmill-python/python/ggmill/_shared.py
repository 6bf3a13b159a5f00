"""Plans that several programs can share, each computing ranges of one output file."""

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
"""The default size of a range in bytes."""


class Operation(Generic[Run, Result, Planned]):
    """A function with a method ``plan`` that returns a :class:`SharedPlan` of the same work."""

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
    """The exact layout of an output file, divided into ranges that several programs can compute.

    Ranges can be computed in any order, and more than once. The result is identical to the file
    that a single program writes. Returned by ``ggmill.quantize.plan`` and ``ggmill.convert.plan``.

    A plan can be pickled, or converted to JSON with :meth:`to_json`. Both contain only the
    arguments, a few hundred bytes: where a plan is used, the same inputs must exist under the same
    paths. Inputs that would result in a different file raise :class:`Error` with the kind
    ``"changed"``.

    >>> plan = ggmill.quantize.plan("model.gguf", "small.gguf", "Q4_K_M")  # doctest: +SKIP
    >>> plan.begin()                                                       # doctest: +SKIP
    >>> plan.finish(plan.run_range(i) for i in range(len(plan)))           # doctest: +SKIP
    """

    def __init__(
        self, operation: str, arguments: dict[str, Any], range_size: int, digest: str | None = None
    ) -> None:
        if range_size < 1:
            raise ArgumentError(f"range size {range_size}, expected at least 1 byte")
        self._operation = operation
        self._arguments = arguments
        self._range_size = range_size
        plan = getattr(_native, f"plan_{operation}")
        self._native: _native.SharedPlan = plan(**arguments)
        self._plan = plan_of(self._native.document())
        found = hashlib.blake2b(self._native.header(), digest_size=16).hexdigest()
        if digest is not None and digest != found:
            raise Error(
                f"{self.path}: the inputs differ from those that the plan was made for",
                kind="changed",
                path=self.path,
            )
        self._digest = found

    @property
    def plan(self) -> Plan:
        """The plan of the file: its size, tensors and notes."""
        return self._plan

    @property
    def path(self) -> str:
        """The path of the output file."""
        return self._plan.path

    @property
    def partial_path(self) -> str:
        """The path of the file to which ranges are written until all are complete."""
        return f"{self.path}.partial"

    @property
    def nbytes(self) -> int:
        """Size of the output file in bytes."""
        return self._plan.nbytes

    def __len__(self) -> int:
        """Return the number of ranges."""
        return -(-self.nbytes // self._range_size)

    def span(self, number: int) -> tuple[int, int]:
        """Return the start and the end of a range in the file, in bytes; the end is exclusive.

        Raises:
            ArgumentError: If there is no such range.
        """
        if not 0 <= number < len(self):
            raise ArgumentError(f"range {number} does not exist: the plan has {len(self)} ranges")
        start = number * self._range_size
        return start, min(start + self._range_size, self.nbytes)

    def read_range(
        self, number: int, *, threads: int | None = None, progress: Progress = None
    ) -> bytes:
        """Compute a range and return its bytes, without writing them.

        Args:
            number: The index of the range.
            threads: The number of threads; one per core by default.
            progress: A callback or progress bar; counts the bytes computed.

        Raises:
            ArgumentError: If there is no such range.
        """
        start, stop = self.span(number)
        return self._native.range(start, stop, threads=threads, progress=callback_of(progress))

    def begin(self) -> str:
        """Create the partial file with its final size.

        An existing partial file of that size is kept, so that an interrupted run can continue.

        Returns:
            The path of the partial file.

        Raises:
            OutputExistsError: If the output exists, and the plan was made without ``overwrite``.
            FileError: If the partial file cannot be created.
        """
        path = self.partial_path
        if not self._arguments["overwrite"] and os.path.lexists(self.path):
            raise OutputExistsError(f"{self.path}: already exists", kind="exists", path=self.path)
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
        """Compute a range and write it to the partial file.

        May be repeated; each run writes the same bytes.

        Args:
            number: The index of the range.
            threads: The number of threads; one per core by default.
            progress: A callback or progress bar; counts the bytes computed.

        Returns:
            ``number``, to be passed to :meth:`finish`.

        Raises:
            ArgumentError: If there is no such range, or the partial file has the wrong size.
            FileError: If the partial file cannot be written, for example because :meth:`begin` was
                not called.
        """
        data = self.read_range(number, threads=threads, progress=progress)
        path = self.partial_path
        try:
            with open(path, "r+b", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != self.nbytes:
                    raise ArgumentError(
                        f"{path}: the size differs from that of the file that begin() creates",
                        path=path,
                    )
                file.seek(self.span(number)[0])
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
        except OSError as error:
            raise _failed(error, path) from error
        return number

    def finish(self, ranges: Iterable[int]) -> Plan:
        """Rename the partial file to the output file, after all ranges were written.

        Args:
            ranges: The return values of :meth:`run_range`.

        Returns:
            The plan of the file.

        Raises:
            ArgumentError: If a range is missing.
            OutputExistsError: If the output exists, and the plan was made without ``overwrite``.
        """
        done = set(ranges)
        missing = [number for number in range(len(self)) if number not in done]
        if missing:
            shown = ", ".join(str(number) for number in missing[:5])
            raise ArgumentError(f"{self.path}: {len(missing)} ranges are missing, such as {shown}")
        if self._arguments["overwrite"]:
            try:
                os.replace(self.partial_path, self.path)
            except OSError as error:
                raise _failed(error, self.path) from error
        else:
            _native.rename_no_replace(self.partial_path, self.path)
        return self._plan

    def to_json(self) -> str:
        """Convert the plan to JSON, for programs that do not use pickle."""
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
        """Create a plan from the result of :meth:`to_json`.

        Raises:
            ArgumentError: If the JSON document is not a plan.
            Error: If the inputs changed; its kind is ``"changed"``.
        """
        found: Any = json.loads(text)
        try:
            operation, arguments = found["operation"], found["arguments"]
            range_size, digest = found["range_size"], found["digest"]
        except (TypeError, KeyError):
            raise ArgumentError("the document is not a result of to_json") from None
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
