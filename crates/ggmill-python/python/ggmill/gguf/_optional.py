"""Packages that only some functions need, imported when these are called."""

from __future__ import annotations

import importlib
from typing import Any


def optional(name: str) -> Any:
    """A module of an optional package; ImportError if it is not installed."""
    return importlib.import_module(name)
