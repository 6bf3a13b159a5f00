"""Optional packages, imported by the functions that need them."""

from __future__ import annotations

import importlib
from typing import Any


def optional(name: str) -> Any:
    """Import a module of an optional package; raise ImportError if it is not installed."""
    return importlib.import_module(name)


class _NoBar:
    """A progress bar without output."""

    def update(self, n: float = 1) -> None:
        """Do nothing."""

    def reset(self, total: float | None = None) -> None:
        """Do nothing."""

    def set_description(self, desc: str | None = None) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def bar(desc: str, total: float | None, unit: str) -> Any:
    """Create a progress bar, without output if `tqdm` is not installed."""
    try:
        tqdm = optional("tqdm").tqdm
    except ImportError:
        return _NoBar()
    return tqdm(desc=desc, total=total, unit=unit, unit_scale=True)
