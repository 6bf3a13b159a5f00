"""`GGUFReader`: the metadata and tensors of a GGUF file as NumPy views of its memory map."""

from __future__ import annotations

import logging
import os
import sys
from collections import OrderedDict
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ._header import (
    ARRAY,
    GGUF_MAX_ARRAY_ELEMENTS,
    GGUF_MAX_STRING_LENGTH,
    READER_SUPPORTED_VERSIONS,
    SCALARS,
    STRING,
    EntryPlace,
    Header,
    Place,
    TensorPlace,
)
from ._lazy_list import LazyList
from .constants import (
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGMLQuantizationType,
    GGUFEndian,
    GGUFValueType,
)

__all__ = [
    "GGUF_MAX_ARRAY_ELEMENTS",
    "GGUF_MAX_STRING_LENGTH",
    "READER_SUPPORTED_VERSIONS",
    "GGUFReader",
    "ReaderField",
    "ReaderTensor",
]

logger = logging.getLogger("gguf.gguf_reader")

Array = npt.NDArray[Any]


class _ArrayParts(LazyList[Array]):
    """The parts of an array: those before its elements, and one or two per element."""

    def __init__(self, views: _Views, head: list[Array], place: Place):
        self.views = views
        self.place = place
        self._head = head
        per_element = 2 if place.element_kind == STRING else 1
        super().__init__(len(head) + place.count * per_element, self._part)
        first = len(head) + per_element - 1
        self.indices = LazyList(place.count, lambda number: first + number * per_element)

    def _part(self, index: int) -> Array:
        index -= len(self._head)
        if index < 0:
            return self._head[index]
        place = self.place
        if place.element_kind != STRING:
            size = self.views.dtype(place.element_kind).itemsize
            return self.views.of(place.start + 12 + index * size, place.element_kind)
        start = int(place.elements[index // 2])
        if index % 2 == 0:
            return self.views.of(start, _UINT64)
        end = int(place.elements[index // 2 + 1])
        return self.views.of(start + 8, _UINT8, end - start - 8)

    def contents(self, index: int | slice) -> Any:
        """Return elements as Python values, without creating a view of each."""
        place = self.place
        if isinstance(index, slice):
            chosen = range(*index.indices(place.count))
        else:
            place_of = range(place.count)[index]
            chosen = range(place_of, place_of + 1)
        if place.element_kind == STRING:
            offsets = place.elements.tolist()
            data = self.views.data
            if len(chosen) == place.count:
                # One copy of all elements is faster than one per element.
                base, whole = offsets[0], data[offsets[0] : offsets[-1]].tobytes()
                values = [
                    str(whole[offsets[one] + 8 - base : offsets[one + 1] - base], "utf-8")
                    for one in chosen
                ]
            else:
                values = [
                    str(data[offsets[one] + 8 : offsets[one + 1]].tobytes(), "utf-8")
                    for one in chosen
                ]
        else:
            elements = self.views.of(place.start + 12, place.element_kind, place.count)
            values = (
                elements[slice(chosen.start, chosen.stop, chosen.step)].tolist()
                if (chosen.step > 0)
                else [elements[one].tolist() for one in chosen]
            )
        return values if isinstance(index, slice) else values[0]


class ReaderField(NamedTuple):
    """A metadata entry or a tensor info: its bytes as arrays, in file order.

    `data` has the indices in `parts` of the value: of the number, of the bytes of the string, or of
    each element. `types` has the type of the value and, for an array, the type of its elements.
    """

    offset: int
    name: str
    parts: list[Array] = []
    data: list[int] = [-1]
    types: list[GGUFValueType] = []

    def contents(self, index_or_slice: int | slice = slice(None)) -> Any:
        """Return the value as a Python object; None for tensor infos.

        `index_or_slice` selects an element or a part of an array.
        """
        if not self.types:
            return None
        if self.types[0] == GGUFValueType.STRING:
            return str(self.parts[-1].tobytes(), encoding="utf-8")
        if self.types[0] != GGUFValueType.ARRAY:
            return self.parts[-1].tolist()[0]
        if isinstance(self.parts, _ArrayParts):
            return self.parts.contents(index_or_slice)
        chosen = self.data[index_or_slice]
        if self.types[-1] == GGUFValueType.STRING:
            if isinstance(chosen, int):
                return str(self.parts[chosen].tobytes(), encoding="utf-8")
            return [str(self.parts[one].tobytes(), encoding="utf-8") for one in chosen]
        if isinstance(chosen, int):
            return self.parts[chosen].tolist()[0]
        return [value for one in chosen for value in self.parts[one].tolist()]


class ReaderTensor(NamedTuple):
    """A tensor: `shape` in ggml order, and `data` in NumPy order.

    For block types, `data` has rows of bytes.
    """

    name: str
    tensor_type: GGMLQuantizationType
    shape: npt.NDArray[np.uint64]
    n_elements: int
    n_bytes: int
    data_offset: int
    data: Array
    field: ReaderField


_UINT8, _UINT32, _UINT64 = 0, 4, 10


def _in_order(dtype: np.dtype[Any], order: Literal["I", "S"]) -> np.dtype[Any]:
    """Return a dtype in native byte order, or byte-swapped."""
    return dtype if order == "I" else dtype.newbyteorder("S")


class _Views:
    """Views of the memory map as numbers in the byte order of the file."""

    def __init__(self, data: Array, order: Literal["I", "S"]):
        # A plain array: views of a memmap are ten times as expensive.
        self.data = data.view(np.ndarray)
        self._dtypes = {
            kind: _in_order(np.dtype(name), order) for kind, (_, name) in SCALARS.items()
        }

    def dtype(self, kind: int) -> np.dtype[Any]:
        return self._dtypes[kind]

    def of(self, offset: int, kind: int, count: int = 1) -> Array:
        return np.ndarray((count,), self._dtypes[kind], self.data, offset)


class GGUFReader:
    """A reader for a GGUF file.

    Opening a file parses its header; views of metadata arrays are created when they are read.

    Args:
        path: The path of the file.
        mode: 'r' to read the file, 'r+' to modify it through `parts` and the `data` of tensors, or
            'c' for modifications that are not written to the file.

    Raises:
        ValueError: If the file is not a GGUF file of version 2 or 3, or is truncated.
        KeyError: If a key or a tensor name occurs twice.
    """

    byte_order: Literal["I", "S"] = "I"
    alignment: int = GGUF_DEFAULT_ALIGNMENT
    data_offset: int
    data: np.memmap[Any, Any]
    fields: OrderedDict[str, ReaderField]

    gguf_scalar_to_np: ClassVar[dict[GGUFValueType, type[np.generic]]] = {
        GGUFValueType.UINT8: np.uint8,
        GGUFValueType.INT8: np.int8,
        GGUFValueType.UINT16: np.uint16,
        GGUFValueType.INT16: np.int16,
        GGUFValueType.UINT32: np.uint32,
        GGUFValueType.INT32: np.int32,
        GGUFValueType.FLOAT32: np.float32,
        GGUFValueType.UINT64: np.uint64,
        GGUFValueType.INT64: np.int64,
        GGUFValueType.FLOAT64: np.float64,
        GGUFValueType.BOOL: np.bool_,
    }

    # The enumerations of the values; `patch` replaces them by those of an installed package.
    _value_type: ClassVar[Any] = GGUFValueType
    _tensor_type: ClassVar[Any] = GGMLQuantizationType
    _endian: ClassVar[Any] = GGUFEndian
    _sizes: ClassVar[Any] = GGML_QUANT_SIZES

    def __init__(self, path: os.PathLike[str] | str, mode: Literal["r", "r+", "c"] = "r"):
        self.data = np.memmap(path, mode=mode)
        header = Header(self.data, self._value_type)
        if header.swapped:
            self.byte_order = "S"
        big = (sys.byteorder == "big") != header.swapped
        self.endianess = self._endian.BIG if big else self._endian.LITTLE
        self._views = _Views(self.data, self.byte_order)
        self.fields = OrderedDict()
        for name, offset, kind in (
            ("GGUF.version", 4, GGUFValueType.UINT32),
            ("GGUF.tensor_count", 8, GGUFValueType.UINT64),
            ("GGUF.kv_count", 16, GGUFValueType.UINT64),
        ):
            part = self._views.of(offset, kind)
            self.fields[name] = ReaderField(offset, name, [part], [0], [self._value_type(kind)])
        for entry in header.entries:
            self.fields[entry.name] = self._field(entry)
        self._set_alignment()
        self.data_offset = header.end + -header.end % self.alignment
        self._places = [self._checked(place) for place in header.tensors]
        if len({place.name for place in header.tensors}) < len(header.tensors):
            self._refuse_duplicate(header.tensors)
        self._tensors: list[ReaderTensor] | None = None
        # For `tensors`, which may be read after `data` is deleted.
        self._map: Any = self.data

    # ------------------------------------------------------------ metadata

    def get_field(self, key: str) -> ReaderField | None:
        """Return the metadata entry with a key, or None."""
        return self.fields.get(key, None)

    def _field(self, entry: EntryPlace) -> ReaderField:
        value, views = entry.value, self._views
        types = [self._value_type(value.kind)]
        at = entry.start + 8 + entry.key_length
        parts = [
            views.of(entry.start, _UINT64),
            views.of(entry.start + 8, _UINT8, entry.key_length),
            views.of(at, _UINT32),
        ]
        if value.kind == ARRAY and value.element_kind != ARRAY and value.count:
            types.append(self._value_type(value.element_kind))
            parts += self._array_head(value)
            lazy = _ArrayParts(views, parts, value)
            return ReaderField(entry.start, entry.name, lazy, lazy.indices, types)
        data: list[int] = []
        self._append(value, parts, data, types)
        return ReaderField(entry.start, entry.name, parts, data, types)

    def _array_head(self, place: Place) -> list[Array]:
        return [self._views.of(place.start, _UINT32), self._views.of(place.start + 4, _UINT64)]

    def _append(
        self, place: Place, parts: list[Array], data: list[int], types: list[GGUFValueType]
    ) -> None:
        """Append the parts of a value; nested arrays are flattened."""
        views = self._views
        if place.kind == STRING:
            parts.append(views.of(place.start, _UINT64))
            parts.append(views.of(place.start + 8, _UINT8, place.end - place.start - 8))
            data.append(len(parts) - 1)
        elif place.kind != ARRAY:
            parts.append(views.of(place.start, place.kind))
            data.append(len(parts) - 1)
        elif place.element_kind != ARRAY:
            parts += self._array_head(place)
            if place.count:
                types.append(self._value_type(place.element_kind))
                inner = _ArrayParts(views, [], place)
                base = len(parts)
                parts += inner
                data += [base + one for one in inner.indices]
        else:
            parts += self._array_head(place)
            for number, one in enumerate(place.elements or ()):
                first: list[GGUFValueType] = [self._value_type(ARRAY)]
                self._append(one, parts, data, first)
                if number == 0:
                    types += first

    def _set_alignment(self) -> None:
        field = self.fields.get("general.alignment")
        if field is None:
            return
        if field.types != [GGUFValueType.UINT32]:
            raise ValueError("Bad type for general.alignment field")
        self.alignment = int(field.parts[-1][0])
        if self.alignment == 0 or (self.alignment & (self.alignment - 1)) != 0:
            raise ValueError("Invalid alignment: must be a non-zero power of two")

    # ------------------------------------------------------------ tensors

    @property
    def tensors(self) -> list[ReaderTensor]:
        """The tensors in file order."""
        if self._tensors is None:
            self._tensors = [self._tensor(*place) for place in self._places]
            self._map = None
        return self._tensors

    @tensors.setter
    def tensors(self, tensors: list[ReaderTensor]) -> None:
        self._tensors = tensors

    def get_tensor(self, idx: int) -> ReaderTensor:
        """Return a tensor by its index."""
        return self.tensors[idx]

    def _checked(self, place: TensorPlace) -> tuple[TensorPlace, Any, int, int, tuple[int, ...]]:
        """Return a place with its type, number of elements, size in bytes and shape in NumPy order.

        Raises ValueError if the data extends beyond the end of the file.
        """
        kind = self._tensor_type(place.kind)
        elements = 1
        for length in place.dims:
            elements *= length
        block_size, type_size = self._sizes[kind]
        size = elements * type_size // block_size
        shape = tuple(reversed(place.dims))
        if place.kind not in _PLAIN:
            if not shape or shape[-1] % block_size != 0:
                raise ValueError(
                    f"Quantized tensor row size ({shape[-1] if shape else 1}) is not a multiple "
                    f"of {kind.name} block size ({block_size})"
                )
            shape = (*shape[:-1], shape[-1] // block_size * type_size)
        end = self.data_offset + place.offset + size
        if end > self.data.nbytes:
            raise ValueError(
                f"tensor {place.name!r}: its data ends at {end}, beyond the end of the file at "
                f"{self.data.nbytes}"
            )
        return place, kind, elements, size, shape

    @staticmethod
    def _refuse_duplicate(places: list[TensorPlace]) -> None:
        seen: set[str] = set()
        for place in places:
            if place.name in seen:
                raise ValueError(f"Found duplicated tensor with name {place.name}")
            seen.add(place.name)

    def _tensor(
        self, place: TensorPlace, kind: Any, elements: int, size: int, shape: tuple[int, ...]
    ) -> ReaderTensor:
        views = self._views
        count = len(place.dims)
        at = place.start + 8 + place.name_length
        parts = [
            views.of(place.start, _UINT64),
            views.of(place.start + 8, _UINT8, place.name_length),
            views.of(at, _UINT32),
            views.of(at + 4, _UINT64, count),
            views.of(at + 4 + 8 * count, _UINT32),
            views.of(at + 8 + 8 * count, _UINT64),
        ]
        start = self.data_offset + place.offset
        dtype = _in_order(np.dtype(_PLAIN.get(place.kind, np.uint8)), self.byte_order)
        return ReaderTensor(
            name=place.name,
            tensor_type=kind,
            shape=parts[3],
            n_elements=elements,
            n_bytes=size,
            data_offset=start,
            data=self._map[start : start + size].view(dtype).reshape(shape),
            field=ReaderField(place.start, place.name, parts, [1, 3, 4, 5]),
        )


# Types whose arrays contain elements; those of other types contain bytes.
_PLAIN: dict[int, type[np.generic]] = {
    GGMLQuantizationType.F16: np.float16,
    GGMLQuantizationType.F32: np.float32,
    GGMLQuantizationType.F64: np.float64,
    GGMLQuantizationType.I8: np.int8,
    GGMLQuantizationType.I16: np.int16,
    GGMLQuantizationType.I32: np.int32,
    GGMLQuantizationType.I64: np.int64,
}
