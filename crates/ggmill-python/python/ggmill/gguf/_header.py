"""Parsing of the header of a GGUF file: the locations of metadata entries and tensor infos."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._native import string_offsets
from .constants import GGML_MAX_DIMS, GGUF_MAGIC, GGUF_VERSION

GGUF_MAX_STRING_LENGTH = 1024 * 1024 * 1024
GGUF_MAX_ARRAY_ELEMENTS = 1024 * 1024 * 1024
READER_SUPPORTED_VERSIONS = [2, GGUF_VERSION]

STRING, ARRAY = 8, 9
# The format characters of struct and the dtypes of NumPy for the scalar types.
SCALARS = {
    0: ("B", "u1"),
    1: ("b", "i1"),
    2: ("H", "u2"),
    3: ("h", "i2"),
    4: ("I", "u4"),
    5: ("i", "i4"),
    6: ("f", "f4"),
    7: ("?", "?"),
    10: ("Q", "u8"),
    11: ("q", "i8"),
    12: ("d", "f8"),
}


@dataclass(slots=True)
class Place:
    """The type and the location of a value and, for an array, of its elements.

    `elements` has the offsets of strings and the end of the last one, the places of nested arrays,
    or is None.
    """

    kind: int
    start: int
    end: int
    element_kind: int = 0
    count: int = 0
    elements: Any = None


@dataclass(slots=True)
class EntryPlace:
    """The location of a metadata entry; `start` is the offset of the length of its key."""

    name: str
    start: int
    key_length: int
    value: Place


@dataclass(slots=True)
class TensorPlace:
    """The location and the content of a tensor info; `offset` is relative to the tensor data."""

    name: str
    start: int
    name_length: int
    dims: tuple[int, ...]
    kind: int
    offset: int


class Header:
    """The header of a file. Raises ValueError and KeyError with the messages of `gguf`."""

    def __init__(self, data: np.ndarray[Any, Any], check_kind: Callable[[int], Any]):
        self._data = data.view(np.ndarray)
        self._bytes = memoryview(data)  # type: ignore[arg-type]
        self._size = data.nbytes
        self._check_kind = check_kind
        if self._size < 4 or struct.unpack_from("<I", self._bytes)[0] != GGUF_MAGIC:
            raise ValueError("GGUF magic invalid")
        self._order = "="
        [version] = self.read(4, "I")
        # In a byte-swapped file, the version is in the upper half.
        self.swapped = version & 0xFFFF == 0
        if self.swapped:
            self._order = "<" if sys.byteorder == "big" else ">"
            [version] = self.read(4, "I")
        if version not in READER_SUPPORTED_VERSIONS:
            raise ValueError(f"Sorry, file appears to be version {version} which we cannot handle")
        self.tensor_count, self.entry_count = self.read(8, "QQ")
        for what, count in (("Tensor", self.tensor_count), ("KV", self.entry_count)):
            if count > GGUF_MAX_ARRAY_ELEMENTS:
                raise ValueError(f"{what} count {count} exceeds maximum {GGUF_MAX_ARRAY_ELEMENTS}")
        self.entries: list[EntryPlace] = []
        self.tensors: list[TensorPlace] = []
        offset = 24
        names: set[str] = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count"}
        for _ in range(self.entry_count):
            offset = self._entry(offset, names)
        for _ in range(self.tensor_count):
            offset = self._tensor(offset)
        self.end = offset
        self._bytes.release()

    def read(self, offset: int, form: str) -> tuple[Any, ...]:
        """Read numbers in the byte order of the file; raise ValueError beyond its end."""
        try:
            return struct.unpack_from(self._order + form, self._bytes, offset)
        except struct.error:
            raise ValueError(
                f"offset {offset}: the header extends beyond the end of the file at {self._size}"
            ) from None

    def _string(self, offset: int) -> tuple[int, str]:
        length = self._string_length(offset)
        return length, str(self._bytes[offset + 8 : offset + 8 + length], encoding="utf-8")

    def _string_length(self, offset: int) -> int:
        [length] = self.read(offset, "Q")
        if length > GGUF_MAX_STRING_LENGTH:
            raise ValueError(f"String length {length} exceeds maximum {GGUF_MAX_STRING_LENGTH}")
        if offset + 8 + length > self._size:
            left = self._size - offset - 8
            raise ValueError(f"String length {length} exceeds remaining file size {left}")
        return int(length)

    def _entry(self, start: int, names: set[str]) -> int:
        length, name = self._string(start)
        at = start + 8 + length
        [kind] = self.read(at, "I")
        value = self._value(at + 4, kind)
        if name in names:
            raise KeyError(f"Duplicate {name} already in list at offset {start}")
        names.add(name)
        self.entries.append(EntryPlace(name, start, length, value))
        return value.end

    def _value(self, start: int, kind: int) -> Place:
        self._check_kind(kind)
        if kind in SCALARS:
            form = SCALARS[kind][0]
            self.read(start, form)
            return Place(kind, start, start + struct.calcsize(form))
        if kind == STRING:
            return Place(kind, start, start + 8 + self._string_length(start))
        element_kind, count = self.read(start, "I")[0], self.read(start + 4, "Q")[0]
        if count > GGUF_MAX_ARRAY_ELEMENTS:
            raise ValueError(f"Array length {count} exceeds maximum {GGUF_MAX_ARRAY_ELEMENTS}")
        place = Place(kind, start, start + 12, element_kind, count)
        if count == 0:
            return place
        self._check_kind(element_kind)
        if element_kind == STRING:
            place.elements = self._strings(place.end, count)
            place.end = int(place.elements[-1])
        elif element_kind == ARRAY:
            place.elements = []
            for _ in range(count):
                inner = self._value(place.end, ARRAY)
                place.elements.append(inner)
                place.end = inner.end
        else:
            place.end += count * struct.calcsize("=" + SCALARS[element_kind][0])
            if place.end > self._size:
                raise ValueError(
                    f"offset {start}: an array of {count} elements extends beyond the end of the "
                    f"file at {self._size}"
                )
        return place

    def _strings(self, start: int, count: int) -> Any:
        big = (sys.byteorder == "big") != self.swapped
        try:
            return string_offsets(self._data, start, count, big_endian=big)
        except ValueError:
            # One string is too long: find it, to raise the exception of `gguf`.
            for _ in range(count):
                start += 8 + self._string_length(start)
            raise

    def _tensor(self, start: int) -> int:
        length, name = self._string(start)
        at = start + 8 + length
        [count] = self.read(at, "I")
        if count > GGML_MAX_DIMS:
            raise ValueError(
                f"Tensor dimensions count {count} exceeds GGML_MAX_DIMS ({GGML_MAX_DIMS})"
            )
        dims = self.read(at + 4, f"{count}Q")
        at += 4 + 8 * count
        [kind] = self.read(at, "I")
        [offset] = self.read(at + 4, "Q")
        self.tensors.append(TensorPlace(name, start, length, dims, kind, offset))
        return int(at + 12)
