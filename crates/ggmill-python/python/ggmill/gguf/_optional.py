"""Packages that only some functions need, imported when these are called."""

from __future__ import annotations

import importlib
from typing import Any


def optional(name: str) -> Any:
    """A module of an optional package; ImportError if it is not installed."""
    return importlib.import_module(name)


class _NoBar:
    """A bar that shows nothing."""

    def update(self, n: float = 1) -> None:
        """Goes on."""

    def reset(self, total: float | None = None) -> None:
        """Begins again."""

    def set_description(self, desc: str | None = None) -> None:
        """Says something else."""

    def close(self) -> None:
        """Ends."""


def bar(desc: str, total: float | None, unit: str) -> Any:
    """A bar of `tqdm` if that is installed."""
    try:
        tqdm = optional("tqdm").tqdm
    except ImportError:
        return _NoBar()
    return tqdm(desc=desc, total=total, unit=unit, unit_scale=True)
