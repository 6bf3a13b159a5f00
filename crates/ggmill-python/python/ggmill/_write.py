"""Files of metadata and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

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


TensorData = Union["npt.NDArray[Any]", Blocks, Tensor]
"""A tensor to write: an array, blocks of a type, or a tensor of a model."""


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
        tensors: by name: arrays of NumPy of a type that GGUF has, :class:`Blocks`, or tensors of a
            model.
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
    data: list[npt.NDArray[np.uint8]] = []
    for name, given in (tensors or {}).items():
        try:
            found, shape, flat = _tensor(given)
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


def _tensor(given: TensorData) -> tuple[TensorType, tuple[int, ...], npt.NDArray[np.uint8]]:
    if isinstance(given, Tensor):
        native = given._native
        return given.type_info, given.shape, native.canonical()
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
