"""What a writer holds before it writes: metadata entries and tensor infos, and how they are packed."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np

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
    """A tensor to be written: its shape in numpy's order, its type, its bytes, and its data."""

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
    """How far a file is written; the parts are written in this order."""

    NO_FILE = auto()
    EMPTY = auto()
    HEADER = auto()
    KV_DATA = auto()
    TI_DATA = auto()
    WEIGHTS = auto()


def element_type(values: Sequence[Any]) -> GGUFValueType:
    """The type of all elements of an array; ValueError if they are of several."""
    found = GGUFValueType.get_type(values[0])
    # The type of a value depends only on its class, and most arrays have values of one.
    if len(set(map(type, values))) > 1 and any(
        GGUFValueType.get_type(one) is not found for one in values
    ):
        raise ValueError("All items in a GGUF array should be of the same type")
    return found


class WriterBase:
    """Metadata entries by type, and their bytes in the byte order of the file."""

    arch: str
    endianess: GGUFEndian
    kv_data: list[dict[str, GGUFValue]]
    tensors: list[dict[str, TensorInfo]]
    _simple_value_packing = _SCALARS

    def add_key_value(
        self, key: str, val: Any, vtype: GGUFValueType, sub_type: GGUFValueType | None = None
    ) -> None:
        """Sets a metadata entry; one with this key is replaced, with a warning."""
        if any(key in entries for entries in self.kv_data):
            logger.warning(
                f"Duplicated key name {key!r}, overwriting it with new value {val!r} "
                f"of type {vtype.name}"
            )
        self.kv_data[0][key] = GGUFValue(value=val, type=vtype, sub_type=sub_type)

    def remove_key(self, key: str) -> None:
        """Removes a metadata entry if there is one with this key."""
        for entries in self.kv_data:
            entries.pop(key, None)

    def add_uint8(self, key: str, val: int) -> None:
        """Sets a uint8."""
        self.add_key_value(key, val, GGUFValueType.UINT8)

    def add_int8(self, key: str, val: int) -> None:
        """Sets an int8."""
        self.add_key_value(key, val, GGUFValueType.INT8)

    def add_uint16(self, key: str, val: int) -> None:
        """Sets a uint16."""
        self.add_key_value(key, val, GGUFValueType.UINT16)

    def add_int16(self, key: str, val: int) -> None:
        """Sets an int16."""
        self.add_key_value(key, val, GGUFValueType.INT16)

    def add_uint32(self, key: str, val: int) -> None:
        """Sets a uint32."""
        self.add_key_value(key, val, GGUFValueType.UINT32)

    def add_int32(self, key: str, val: int) -> None:
        """Sets an int32."""
        self.add_key_value(key, val, GGUFValueType.INT32)

    def add_float32(self, key: str, val: float) -> None:
        """Sets a float32."""
        self.add_key_value(key, val, GGUFValueType.FLOAT32)

    def add_uint64(self, key: str, val: int) -> None:
        """Sets a uint64."""
        self.add_key_value(key, val, GGUFValueType.UINT64)

    def add_int64(self, key: str, val: int) -> None:
        """Sets an int64."""
        self.add_key_value(key, val, GGUFValueType.INT64)

    def add_float64(self, key: str, val: float) -> None:
        """Sets a float64."""
        self.add_key_value(key, val, GGUFValueType.FLOAT64)

    def add_bool(self, key: str, val: bool) -> None:
        """Sets a bool."""
        self.add_key_value(key, val, GGUFValueType.BOOL)

    def add_string(self, key: str, val: str) -> None:
        """Sets a string; an empty one is left out."""
        if val:
            self.add_key_value(key, val, GGUFValueType.STRING)

    def add_array(self, key: str, val: Sequence[Any]) -> None:
        """Sets an array; an empty one is left out."""
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
        """The bytes of a value, behind its type if `add_vtype`."""
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
        if len(val) == 0:
            raise ValueError("Invalid GGUF metadata array. Empty array")
        if sub_type is not None:
            kind = sub_type
        elif isinstance(val, bytes):
            kind = GGUFValueType.UINT8
        else:
            kind = element_type(val)
        head = self._pack("I", kind) + self._pack("Q", len(val))
        scalar = _SCALARS.get(kind)
        if kind == GGUFValueType.UINT8 and isinstance(val, (bytes, bytearray)):
            return head + val
        if scalar is not None:
            return head + struct.pack(f"{self._prefix()}{len(val)}{scalar}", *val)
        return head + b"".join(self._pack_val(one, kind, add_vtype=False) for one in val)
