"""The metadata of a model: a mapping whose arrays are read on access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union, cast, overload

import numpy as np
import numpy.typing as npt

from . import _html, _native
from ._types import ARRAY, DTYPES, value_type_name

Value = Union[int, float, bool, str, "Array"]
"""A metadata value."""


class Array(Sequence[Any]):
    """An array in the metadata of a model.

    A sequence whose elements are decoded on access; :meth:`numpy` and :meth:`tolist` convert all of
    them. An array stays valid after its model is closed, and keeps the file mapped.
    """

    __slots__ = ("_big_endian", "_native")

    def __init__(self, native: _native.Array, big_endian: bool) -> None:
        self._native = native
        self._big_endian = big_endian

    @property
    def element_type(self) -> str:
        """The type of the elements, such as ``"string"`` or ``"f32"``."""
        return value_type_name((self._native.element_type,))

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        length = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            return self._native.range(start, stop, step)
        place = index + length if index < 0 else index
        if not 0 <= place < length:
            raise IndexError(f"index {index} is out of bounds for an array of length {length}")
        return self._native.get(place)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Array):
            return self.element_type == other.element_type and self.tolist() == other.tolist()
        if isinstance(other, (list, tuple)):
            return self.tolist() == list(cast("Sequence[Any]", other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(element) for element in self[:4])
        more = ", …" if len(self) > 4 else ""
        return f"<Array of {len(self)} {self.element_type}: {shown}{more}>"

    def tolist(self) -> list[Any]:
        """Return all elements as a list of Python objects."""
        return self._native.tolist()

    def numpy(self) -> npt.NDArray[Any]:
        """Return the elements as a NumPy array of shape ``(len(self),)``.

        Returns:
            For numbers, a read-only view of the file in its byte order; for booleans, a copy; for
            strings and nested arrays, a new array of objects.
        """
        code = DTYPES.get(self.element_type)
        if code is None:
            objects: npt.NDArray[Any] = np.empty(len(self), dtype=object)
            objects[:] = self.tolist()
            return objects
        raw = self._native.raw()
        if code == "?":
            return np.not_equal(raw, 0)
        dtype = np.dtype(code).newbyteorder(">" if self._big_endian else "<")
        return raw.view(dtype)


class Entry(NamedTuple):
    """A metadata entry and its location in the file.

    Attributes:
        key: The key.
        type: The type of the value, such as ``"u32"`` or ``"[string]"``.
        offset: The offset of the entry, in bytes from the start of the file.
        value_offset: The offset of the value, in bytes from the start of the file.
        size: The size of the value in bytes.
        file: The index of the file in :attr:`Model.paths`.
    """

    key: str
    type: str
    offset: int
    value_offset: int
    size: int
    file: int


class Metadata(Mapping[str, Value]):
    """The metadata of a model: a mapping in file order.

    Values are ``int``, ``float``, ``bool``, ``str`` or :class:`Array`. Bytes that are not valid
    UTF-8 become lone surrogates, as in file names. For a duplicate key, the mapping has the value
    of the first entry; :meth:`all` returns the values of all of them.
    """

    __slots__ = ("_big_endian", "_file", "_keys", "_native")

    def __init__(self, native: _native.Model, file: int) -> None:
        self._native = native
        self._file = file
        self._big_endian = native.big_endian()
        self._keys: dict[str, int] | None = None

    def _counts(self) -> dict[str, int]:
        """Return the keys, with the number of entries of each."""
        if self._keys is None:
            keys: dict[str, int] = {}
            for key, *_ in self._native.entries(self._file):
                keys[key] = keys.get(key, 0) + 1
            self._keys = keys
        return self._keys

    def _read(self, key: str, occurrence: int) -> Any:
        value = self._native.value(self._file, key, occurrence)
        return Array(value, self._big_endian) if isinstance(value, _native.Array) else value

    # The type of a value depends on the file, so type checkers cannot know it.
    def __getitem__(self, key: str) -> Any:
        value = self._read(key, 0)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts())

    def __len__(self) -> int:
        return len(self._counts())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._native.value(self._file, key, 0) is not None

    def all(self, key: str) -> list[Any]:
        """Return the values of all entries with a key; an empty list if there are none."""
        return [self._read(key, number) for number in range(self._counts().get(key, 0))]

    def entries(self) -> list[Entry]:
        """Return all entries in file order, including duplicates, with their offsets and sizes."""
        found: list[Entry] = []
        seen: dict[str, int] = {}
        for key, number, offset, value_offset, size in self._native.entries(self._file):
            occurrence = seen[key] = seen.get(key, -1) + 1
            name = self._type(key, number, occurrence)
            found.append(Entry(key, name, offset, value_offset, size, self._file))
        return found

    def type(self, key: str) -> str:
        """Return the type of a value, such as ``"u32"``, ``"string"`` or ``"[string]"``.

        Raises:
            KeyError: If the key does not exist.
        """
        for found, number, *_ in self._native.entries(self._file):
            if found == key:
                return self._type(key, number, 0)
        raise KeyError(key)

    def _type(self, key: str, number: int, occurrence: int) -> str:
        if number != ARRAY:
            return value_type_name((number,))
        value = self._native.value(self._file, key, occurrence)
        return f"[{value_type_name((value.element_type,))}]"

    def __repr__(self) -> str:
        return f"<Metadata of {len(self)} keys>"

    def _repr_html_(self) -> str:
        rows: list[list[str]] = []
        for entry in self.entries()[: _html.MAX_ROWS]:
            value = _html.shortened(repr(self[entry.key]))
            rows.append([_html.code(entry.key), entry.type, _html.code(value)])
        return _html.table(["key", "type", "value"], rows, len(self) - _html.MAX_ROWS)
