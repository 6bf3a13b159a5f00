"""Files of metadata and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import ArgumentError
from ._model import Array, Metadata, PathLike, Tensor, path_text
from ._progress import Progress, callback_of
from ._types import Typed, TensorType, parsed_type, tensor_type, tensor_type_of, types_of


@dataclass(frozen=True)
class Blocks:
    """An array that is blocks of a type, as :func:`ggmill.quants.quantize` makes them.

    Attributes:
        data: ``uint8`` of shape ``(..., row_bytes)``, little-endian blocks.
        type: their type.
    """

    data: npt.NDArray[np.uint8]
    type: str | int | TensorType


@dataclass(frozen=True)
class Deferred:
    """A tensor whose data are made when it is its turn to be written, and let go after: a file is
    written with the memory of one tensor.

    >>> ggmill.Deferred("F16", (4096, 4096), lambda: load("w"))            # doctest: +SKIP

    Attributes:
        type: the type of the tensor.
        shape: its shape in the order of NumPy, in elements.
        make: called once, without arguments; returns an array or :class:`Blocks` of that type and
            shape.
    """

    type: str | int | TensorType
    shape: Sequence[int]
    make: Callable[[], npt.NDArray[Any] | Blocks]


TensorData = Union["npt.NDArray[Any]", Blocks, Deferred, Tensor]
"""A tensor to write: an array, blocks of a type, either of them later, or a tensor of a model."""

_Data = Union["npt.NDArray[np.uint8]", Callable[[], "npt.NDArray[np.uint8]"]]
"""Blocks as they are written, or what makes them."""


def write(
    path: PathLike,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, TensorData] | None = None,
    *,
    big_endian: bool = False,
    version: int = 3,
    overwrite: bool = False,
    progress: Progress = None,
) -> None:
    """Writes a GGUF file, whole or not at all.

    Args:
        path: the file.
        metadata: values by key, in order. An ``int`` becomes the first of u32, i32, u64 and i64
            that holds it, a ``float`` f32; numbers and arrays of NumPy keep their types; another
            type is said with :class:`Typed`. The values of an open model keep theirs.
        tensors: by name: arrays of NumPy of a type that GGUF has, :class:`Blocks`,
            :class:`Deferred`, or tensors of a model. Arrays are not copied, and other threads must
            not write to them meanwhile.
        big_endian: write a big-endian file.
        version: of the format, 2 or 3.
        overwrite: replace the file if it exists.
        progress: told of bytes written.

    Raises:
        ArgumentError: a value or an array is not one that a file can have.
        OutputExistsError: the file exists.
        FileError: it cannot be written.
    """
    if version not in (2, 3):
        raise ArgumentError(f"version {version}, expected 2 or 3")
    infos: list[tuple[str | bytes, int, list[int]]] = []
    data: list[_Data] = []
    for name, given in (tensors or {}).items():
        try:
            found, shape, flat = _tensor(given, name)
        except ArgumentError as error:
            raise ArgumentError(f"tensor {name!r}: {error}", subject=f"tensor {name!r}") from None
        infos.append((name, found.number, list(reversed(shape))))
        data.append(flat)
    _native.write_file(
        path_text(path),
        _entries(metadata),
        infos,
        data,
        big_endian=big_endian,
        version_2=version == 2,
        overwrite=overwrite,
        progress=callback_of(progress),
    )


def _entries(metadata: Mapping[str, Any]) -> list[tuple[str | bytes, list[int], Any]]:
    if isinstance(metadata, Metadata):
        return [(key, *_of_model(metadata, key)) for key in metadata]
    found: list[tuple[str | bytes, list[int], Any]] = []
    for key, value in metadata.items():
        try:
            types, value = typed(value)
        except ArgumentError as error:
            raise ArgumentError(f"key {key!r}: {error}", subject=f"key {key!r}") from None
        found.append((key, types, value))
    return found


def _of_model(metadata: Metadata, key: str) -> tuple[list[int], Any]:
    value = metadata[key]
    if isinstance(value, Array):
        return typed(value)
    return parsed_type(metadata.type(key)), value


def typed(value: Any) -> tuple[list[int], Any]:
    """A value with the numbers of its type from the outside in."""
    if isinstance(value, Typed):
        return parsed_type(value.type), value.value
    if isinstance(value, Array):
        elements = value.tolist()
        if value.element_type == "array":
            return types_of(elements), elements
        return parsed_type(f"[{value.element_type}]"), elements
    return types_of(value), value


def _tensor(given: TensorData, name: str) -> tuple[TensorType, tuple[int, ...], _Data]:
    if isinstance(given, Tensor):
        # One that is not mapped is read when it is its turn.
        return given.type_info, given.shape, given._native.canonical
    if isinstance(given, Deferred):
        return tensor_type(given.type), tuple(given.shape), _made(given, name)
    return _held(given)


def _made(given: Deferred, name: str) -> Callable[[], npt.NDArray[np.uint8]]:
    expected = tensor_type(given.type), tuple(given.shape)

    def make() -> npt.NDArray[np.uint8]:
        try:
            found, shape, flat = _held(given.make())
            if (found, shape) != expected:
                raise ArgumentError(
                    f"{found.name} of shape {shape}, expected {expected[0].name} of {expected[1]}"
                )
        except ArgumentError as error:
            raise ArgumentError(f"tensor {name!r}: {error}", subject=f"tensor {name!r}") from None
        return flat

    return make


def _held(
    given: npt.NDArray[Any] | Blocks,
) -> tuple[TensorType, tuple[int, ...], npt.NDArray[np.uint8]]:
    if isinstance(given, Blocks):
        found = tensor_type(given.type)
        blocks = np.asarray(given.data)
        if blocks.dtype != np.uint8 or blocks.ndim == 0 or not found.type_size:
            raise ArgumentError(f"blocks of {found.name} are an array of uint8 of whole rows")
        count, rest = divmod(blocks.shape[-1], found.type_size)
        if rest:
            raise ArgumentError(
                f"rows of {blocks.shape[-1]} bytes, expected a multiple of {found.type_size} for "
                f"the blocks of {found.name}"
            )
        shape = (*blocks.shape[:-1], count * found.block_size)
        return found, shape, np.ascontiguousarray(blocks).reshape(-1)
    array: npt.NDArray[Any] = np.asarray(given)
    name = tensor_type_of(array.dtype)
    if name is None:
        raise ArgumentError(f"{array.dtype} is not a type of tensors; Blocks has blocks of others")
    if array.ndim == 0:
        raise ArgumentError("a single number, expected an array of one dimension or more")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return tensor_type(name), array.shape, little.reshape(-1).view(np.uint8)
