"""Values of which nothing is known but that they are lists."""

from __future__ import annotations

from typing import Any


def elements(value: Any) -> list[Any]:
    """The elements of a list, tuple or other sequence, in a list of their own."""
    return list(value)
