"""Lists whose element types are unknown to type checkers."""

from __future__ import annotations

from typing import Any


def elements(value: Any) -> list[Any]:
    """Return the elements of a sequence as a new list."""
    return list(value)
