"""Lists whose elements are created on access."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

T = TypeVar("T")


class LazyList(list[T]):
    """A list of `count` elements; `make(index)` creates an element whenever it is read.

    Modifying or comparing the list creates all elements first and makes it an ordinary list.
    """

    def __init__(self, count: int, make: Callable[[int], T]):
        super().__init__()
        self._count = count
        self._make: Callable[[int], T] | None = make

    def _fill(self) -> None:
        make, self._make = self._make, None
        if make is not None:
            super().extend(map(make, range(self._count)))

    def __len__(self) -> int:
        return super().__len__() if self._make is None else self._count

    def __iter__(self) -> Iterator[T]:
        if self._make is None:
            return super().__iter__()
        return map(self._make, range(self._count))

    def __getitem__(self, index: Any) -> Any:
        make = self._make
        if make is None:
            found = cast(Any, super().__getitem__(index))
            return found
        if isinstance(index, slice):
            return [make(one) for one in range(*index.indices(self._count))]
        place = index.__index__()
        if place < 0:
            place += self._count
        if not 0 <= place < self._count:
            raise IndexError("list index out of range")
        return make(place)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)


def _after_filling(name: str) -> Any:
    method = getattr(list, name)

    def call(self: LazyList[Any], *args: Any, **kwargs: Any) -> Any:
        self._fill()
        for one in args:
            if isinstance(one, LazyList):
                cast(Any, one)._fill()
        return method(self, *args, **kwargs)

    call.__name__ = name
    return call


def _reversed_add(self: LazyList[Any], other: Any) -> Any:
    self._fill()  # and then the other list can do it
    return NotImplemented


for _name in (
    "append extend insert pop remove clear sort reverse index count copy "
    "__setitem__ __delitem__ __contains__ __reversed__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ "
    "__add__ __iadd__ __mul__ __rmul__ __imul__ __repr__"
).split():
    setattr(LazyList, _name, _after_filling(_name))
LazyList.__radd__ = _reversed_add  # type: ignore[attr-defined]
