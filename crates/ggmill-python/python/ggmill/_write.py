"""Writing GGUF files from metadata and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import ArgumentError
from ._metadata import Array, Metadata
from ._model import PathLike, path_text
from ._progress import Progress, callback_of
from ._tensor import Tensor
from ._types import Typed, TensorType, parsed_type, tensor_type, tensor_type_of, types_of


@dataclass(frozen=True)
class Blocks:
    """Encoded tensor data, such as the result of :func:`ggmill.quants.quantize`.

    Attributes:
        data: Little-endian blocks as a ``uint8`` array of shape ``(..., row_bytes)``.
        type: The tensor type.
    """

    data: npt.NDArray[np.uint8]
    type: str | int | TensorType


@dataclass(frozen=True)
class Deferred:
    """A tensor whose data is created when it is written, and released afterwards.

    With deferred tensors, :func:`write` keeps only one tensor in memory.

    >>> ggmill.Deferred("F16", (4096, 4096), lambda: load("w"))            # doctest: +SKIP

    Attributes:
        type: The tensor type.
        shape: The number of elements in each dimension, in NumPy order.
        make: A function without arguments that returns an array or :class:`Blocks` of this type and
            shape. It is called once.
    """

    type: str | int | TensorType
    shape: Sequence[int]
    make: Callable[[], npt.NDArray[Any] | Blocks]


TensorData = Union["npt.NDArray[Any]", Blocks, Deferred, Tensor]
"""Tensor data to write: an array, encoded blocks, deferred data, or a tensor of a model."""

_Data = Union["npt.NDArray[np.uint8]", Callable[[], "npt.NDArray[np.uint8]"]]
"""Blocks as they are written, or a function that creates them."""


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
    """Write a GGUF file, completely or not at all.

    Args:
        path: The file to write.
        metadata: The values by key, in file order. An ``int`` is written as the first of u32, i32,
            u64 and i64 that can represent it, a ``float`` as f32; NumPy scalars and arrays, and the
            metadata of an open model, keep their types. Use :class:`Typed` for a different type.
        tensors: The tensors by name, in file order: NumPy arrays, :class:`Blocks`,
            :class:`Deferred`, or tensors of a model. Contiguous little-endian arrays are not
            copied; other threads must not write to them until the call returns.
        big_endian: Write a big-endian file.
        version: The GGUF version, 2 or 3.
        overwrite: Replace the file if it exists.
        progress: A callback or progress bar; counts the bytes written.

    Raises:
        ArgumentError: If a value, array or name cannot be stored in a file.
        OutputExistsError: If the file exists and ``overwrite`` is false.
        FileError: If the file cannot be written.
    """
    if version not in (2, 3):
        raise ArgumentError(f"version {version}, expected 2 or 3")
    infos: list[tuple[str | bytes, int, list[int]]] = []
    data: list[_Data] = []
    for name, value in (tensors or {}).items():
        try:
            found, shape, flat = _tensor_data(value, name)
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
    """Return the type of a value, as in :func:`types_of`, and the value itself."""
    if isinstance(value, Typed):
        return parsed_type(value.type), value.value
    if isinstance(value, Array):
        elements = value.tolist()
        if value.element_type == "array":
            return types_of(elements), elements
        return parsed_type(f"[{value.element_type}]"), elements
    return types_of(value), value


def _tensor_data(value: TensorData, name: str) -> tuple[TensorType, tuple[int, ...], _Data]:
    if isinstance(value, Tensor):
        # The data of a model that is not mapped is read when the tensor is written.
        return value.type_info, value.shape, value._native.canonical
    if isinstance(value, Deferred):
        return tensor_type(value.type), tuple(value.shape), _checked(value, name)
    return _array_data(value)


def _checked(value: Deferred, name: str) -> Callable[[], npt.NDArray[np.uint8]]:
    """Return a function that creates the data, and checks its type and shape."""
    expected = tensor_type(value.type), tuple(value.shape)

    def make() -> npt.NDArray[np.uint8]:
        try:
            found, shape, flat = _array_data(value.make())
            if (found, shape) != expected:
                raise ArgumentError(
                    f"{found.name} of shape {shape}, expected {expected[0].name} of shape "
                    f"{expected[1]}"
                )
        except ArgumentError as error:
            raise ArgumentError(f"tensor {name!r}: {error}", subject=f"tensor {name!r}") from None
        return flat

    return make


def _array_data(
    value: npt.NDArray[Any] | Blocks,
) -> tuple[TensorType, tuple[int, ...], npt.NDArray[np.uint8]]:
    if isinstance(value, Blocks):
        found = tensor_type(value.type)
        blocks = np.asarray(value.data)
        if blocks.dtype != np.uint8 or blocks.ndim == 0 or not found.type_size:
            raise ArgumentError(
                f"data of dtype {blocks.dtype} and shape {blocks.shape}, expected {found.name} "
                "blocks as a uint8 array of shape (..., row_bytes)"
            )
        count, rest = divmod(blocks.shape[-1], found.type_size)
        if rest:
            raise ArgumentError(
                f"rows of {blocks.shape[-1]} bytes, expected a multiple of {found.type_size}, the "
                f"size of a {found.name} block"
            )
        shape = (*blocks.shape[:-1], count * found.block_size)
        return found, shape, np.ascontiguousarray(blocks).reshape(-1)
    array: npt.NDArray[Any] = np.asarray(value)
    name = tensor_type_of(array.dtype)
    if name is None:
        raise ArgumentError(
            f"dtype {array.dtype} has no tensor type; use Blocks for data of other types"
        )
    if array.ndim == 0:
        raise ArgumentError("array with 0 dimensions, expected at least 1")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return tensor_type(name), array.shape, little.reshape(-1).view(np.uint8)
