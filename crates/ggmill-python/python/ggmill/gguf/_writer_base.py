"""Metadata entries and tensor infos to be written, and their serialization."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np

from ._untyped import elements
from .constants import GGMLQuantizationType, GGUFEndian, GGUFValueType

# By the name that programs configure.
logger = logging.getLogger("gguf.gguf_writer")

_SCALARS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
    GGUFValueType.BOOL: "?",
}


@dataclass
class TensorInfo:
    """A tensor to be written: shape in NumPy order, type, size in bytes, and data."""

    shape: Sequence[int]
    dtype: GGMLQuantizationType
    nbytes: int
    tensor: np.ndarray[Any, Any] | None = None


@dataclass
class GGUFValue:
    """A metadata value to be written; `sub_type` is the element type of an array."""

    value: Any
    type: GGUFValueType
    sub_type: GGUFValueType | None = None


class WriterState(Enum):
    """The state of a file being written, in the order of its parts."""

    NO_FILE = auto()
    EMPTY = auto()
    HEADER = auto()
    KV_DATA = auto()
    TI_DATA = auto()
    WEIGHTS = auto()


def element_type(values: Sequence[Any]) -> GGUFValueType:
    """Return the common type of all elements; raise ValueError if types differ."""
    found = GGUFValueType.get_type(values[0])
    # The type of a value depends only on its class, and most arrays have values of one class.
    if len(set(map(type, values))) > 1 and any(
        GGUFValueType.get_type(one) is not found for one in values
    ):
        raise ValueError("All items in a GGUF array should be of the same type")
    return found


class WriterBase:
    """Methods that set metadata entries by type, and their serialization."""

    arch: str
    endianess: GGUFEndian
    kv_data: list[dict[str, GGUFValue]]
    tensors: list[dict[str, TensorInfo]]
    _simple_value_packing = _SCALARS

    def add_key_value(
        self, key: str, val: Any, vtype: GGUFValueType, sub_type: GGUFValueType | None = None
    ) -> None:
        """Set a metadata entry. An existing entry is replaced, with a warning."""
        if any(key in entries for entries in self.kv_data):
            logger.warning(
                f"Duplicated key name {key!r}, overwriting it with new value {val!r} "
                f"of type {vtype.name}"
            )
        self.kv_data[0][key] = GGUFValue(value=val, type=vtype, sub_type=sub_type)

    def remove_key(self, key: str) -> None:
        """Remove a metadata entry if it exists."""
        for entries in self.kv_data:
            entries.pop(key, None)

    def add_uint8(self, key: str, val: int) -> None:
        """Set a uint8 value."""
        self.add_key_value(key, val, GGUFValueType.UINT8)

    def add_int8(self, key: str, val: int) -> None:
        """Set an int8 value."""
        self.add_key_value(key, val, GGUFValueType.INT8)

    def add_uint16(self, key: str, val: int) -> None:
        """Set a uint16 value."""
        self.add_key_value(key, val, GGUFValueType.UINT16)

    def add_int16(self, key: str, val: int) -> None:
        """Set an int16 value."""
        self.add_key_value(key, val, GGUFValueType.INT16)

    def add_uint32(self, key: str, val: int) -> None:
        """Set a uint32 value."""
        self.add_key_value(key, val, GGUFValueType.UINT32)

    def add_int32(self, key: str, val: int) -> None:
        """Set an int32 value."""
        self.add_key_value(key, val, GGUFValueType.INT32)

    def add_float32(self, key: str, val: float) -> None:
        """Set a float32 value."""
        self.add_key_value(key, val, GGUFValueType.FLOAT32)

    def add_uint64(self, key: str, val: int) -> None:
        """Set a uint64 value."""
        self.add_key_value(key, val, GGUFValueType.UINT64)

    def add_int64(self, key: str, val: int) -> None:
        """Set an int64 value."""
        self.add_key_value(key, val, GGUFValueType.INT64)

    def add_float64(self, key: str, val: float) -> None:
        """Set a float64 value."""
        self.add_key_value(key, val, GGUFValueType.FLOAT64)

    def add_bool(self, key: str, val: bool) -> None:
        """Set a bool value."""
        self.add_key_value(key, val, GGUFValueType.BOOL)

    def add_string(self, key: str, val: str) -> None:
        """Set a string. An empty string is ignored."""
        if val:
            self.add_key_value(key, val, GGUFValueType.STRING)

    def add_array(self, key: str, val: Sequence[Any]) -> None:
        """Set an array. An empty array is ignored."""
        if len(val) > 0:
            self.add_key_value(key, val, GGUFValueType.ARRAY)

    def _add_uint64s(self, key: str, val: Sequence[int]) -> None:
        self.add_key_value(key, list(val), GGUFValueType.ARRAY, GGUFValueType.UINT64)

    # ------------------------------------------------------------ bytes

    def _prefix(self) -> str:
        return "<" if self.endianess == GGUFEndian.LITTLE else ">"

    def _pack(self, fmt: str, value: Any, skip_pack_prefix: bool = False) -> bytes:
        return struct.pack(fmt if skip_pack_prefix else self._prefix() + fmt, value)

    def _pack_string(self, value: str | bytes | bytearray) -> bytes:
        encoded = value.encode("utf-8") if isinstance(value, str) else value
        return struct.pack(self._prefix() + "Q", len(encoded)) + encoded

    def _pack_val(
        self,
        val: Any,
        vtype: GGUFValueType,
        add_vtype: bool,
        sub_type: GGUFValueType | None = None,
    ) -> bytes:
        """Serialize a value, preceded by its type if `add_vtype`."""
        head = self._pack("I", vtype) if add_vtype else b""
        scalar = _SCALARS.get(vtype)
        if scalar is not None:
            return head + self._pack(scalar, val)
        if vtype == GGUFValueType.STRING:
            return head + self._pack_string(val)
        if vtype == GGUFValueType.ARRAY:
            return head + self._pack_array(val, sub_type)
        raise ValueError("Invalid GGUF metadata value type or value")

    def _pack_array(self, val: Any, sub_type: GGUFValueType | None) -> bytes:
        if not isinstance(val, Sequence):
            raise ValueError("Invalid GGUF metadata array, expecting sequence")
        values = elements(val)
        if len(values) == 0:
            raise ValueError("Invalid GGUF metadata array. Empty array")
        if sub_type is not None:
            kind = sub_type
        elif isinstance(val, bytes):
            kind = GGUFValueType.UINT8
        else:
            kind = element_type(values)
        head = self._pack("I", kind) + self._pack("Q", len(values))
        scalar = _SCALARS.get(kind)
        if kind == GGUFValueType.UINT8 and isinstance(val, (bytes, bytearray)):
            return head + val
        if scalar is not None:
            return head + struct.pack(f"{self._prefix()}{len(values)}{scalar}", *values)
        return head + b"".join(self._pack_val(one, kind, add_vtype=False) for one in values)
