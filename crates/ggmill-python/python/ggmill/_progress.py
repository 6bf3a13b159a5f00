"""Progress of long work: any callable, or a bar such as tqdm's."""

from __future__ import annotations

from typing import Any, Callable, Optional, Protocol, Union, runtime_checkable


@runtime_checkable
class Bar(Protocol):
    """What a progress bar has: tqdm's, rich's through an adapter, any other with these."""

    total: Any

    def update(self, n: Any = 1) -> Any:
        """Adds to what is done."""
        ...


Callback = Callable[[int, int, str], Optional[bool]]
"""Told of work as ``(done, total, tensor)``. To stop it, raise or return ``False``."""

Progress = Union[Callback, Bar, None]


def callback_of(progress: Progress) -> Callback | None:
    """The callable that the native module is to tell."""
    if progress is None:
        return None
    if isinstance(progress, Bar):
        bar = progress
        seen = 0

        def tell(done: int, total: int, tensor: str) -> None:
            nonlocal seen
            bar.total = total
            bar.update(done - seen)
            seen = done

        return tell
    if not callable(progress):
        raise TypeError(f"progress is {type(progress).__name__}, expected a callable or a bar")
    return progress
