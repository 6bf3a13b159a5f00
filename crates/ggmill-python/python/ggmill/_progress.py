"""Progress of long operations, reported to a callable or to a progress bar such as tqdm's."""

from __future__ import annotations

from typing import Any, Callable, Optional, Protocol, Union, runtime_checkable


@runtime_checkable
class Bar(Protocol):
    """A progress bar, such as ``tqdm.tqdm()``."""

    total: Any
    """The amount of work in total; set before each update."""

    def update(self, n: Any = 1) -> Any:
        """Add ``n`` to the amount of work done."""
        ...


Callback = Callable[[int, int, str], Optional[bool]]
"""A progress callback, called as ``callback(done, total, tensor)``.

The operation stops if it raises an exception, which is passed on to the caller, or if it returns
``False``, which raises :class:`StoppedError`.
"""

Progress = Union[Callback, Bar, None]
"""A progress callback, a progress bar, or ``None``."""


def callback_of(progress: Progress) -> Callback | None:
    """Return the callback that reports to a callable or a progress bar."""
    if progress is None:
        return None
    if isinstance(progress, Bar):
        bar = progress
        seen = 0

        def report(done: int, total: int, tensor: str) -> None:
            nonlocal seen
            bar.total = total
            bar.update(done - seen)
            seen = done

        return report
    if not callable(progress):
        found = type(progress).__name__
        raise TypeError(f"progress is {found}, expected a callable or a progress bar")
    return progress
