"""Quantization of NumPy arrays: every type that ggml has, K and IQ types too, byte for byte as
llama.cpp makes them.

>>> import numpy as np, ggmill
>>> blocks = ggmill.quants.quantize(np.ones((2, 256), np.float32), "Q4_K")
>>> blocks.shape, blocks.dtype
((2, 144), dtype('uint8'))
>>> round(float(ggmill.quants.dequantize(blocks, "Q4_K").mean()), 2)
1.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import ArgumentError
from ._types import TENSOR_TYPES, TensorType, tensor_type

__all__ = ["TENSOR_TYPES", "TensorType", "dequantize", "quantize", "tensor_type"]


def quantize(
    array: npt.ArrayLike,
    type: str | int | TensorType,
    *,
    imatrix: npt.ArrayLike | None = None,
    check: bool = False,
    threads: int | None = None,
) -> npt.NDArray[np.uint8]:
    """Values as blocks of a type.

    Args:
        array: values of any real type, of shape ``(..., row_len)``; worked on as ``float32``.
        type: the type, such as ``"Q4_K"``.
        imatrix: how much each column matters: shape ``(row_len,)`` for all rows, or
            ``(n, row_len)`` for an array of shape ``(n, ..., row_len)``, as experts have it. IQ1_S,
            IQ2_XXS and a few others cannot do without.
        check: raise where a value is one that the type cannot hold, instead of storing what it
            becomes.
        threads: how many threads work; as many as the machine runs at once without.

    Returns:
        ``uint8`` of shape ``(..., row_bytes)``.

    Raises:
        ArgumentError: the row length is not a multiple of the block size; a value is infinite or
            not a number; importance weights are missing or do not fit.
        UnsupportedError: values are not rounded to this type.
    """
    found = tensor_type(type)
    values = _floats(array, "array")
    if values.ndim == 0:
        raise ArgumentError("a single number has no rows, expected an array of one dimension or more")
    row_len = values.shape[-1]
    row_bytes = found.row_bytes(row_len)
    shape = (*values.shape[:-1], row_bytes)
    if imatrix is None:
        flat = _native.quantize(
            found.number, values.reshape(-1), row_len, check=check, threads=threads
        )
        return flat.reshape(shape)
    weights = _floats(imatrix, "imatrix")
    if weights.shape[-1:] != (row_len,) or weights.ndim > 2:
        raise ArgumentError(
            f"imatrix of shape {weights.shape}, expected {row_len} for rows of {row_len}"
        )
    if weights.ndim == 1:
        flat = _native.quantize(
            found.number, values.reshape(-1), row_len, weights, check=check, threads=threads
        )
        return flat.reshape(shape)
    if values.ndim < 2 or weights.shape[0] != values.shape[0]:
        raise ArgumentError(f"imatrix of shape {weights.shape} for an array of {values.shape}")
    out = np.empty(shape, dtype=np.uint8)
    for number, (part, row) in enumerate(zip(values, weights)):
        flat = _native.quantize(
            found.number, part.reshape(-1), row_len, row, check=check, threads=threads
        )
        out[number] = flat.reshape(shape[1:])
    return out


def dequantize(
    blocks: npt.ArrayLike,
    type: str | int | TensorType,
    *,
    dtype: npt.DTypeLike = np.float32,
    threads: int | None = None,
) -> npt.NDArray[Any]:
    """The values of blocks.

    Args:
        blocks: ``uint8`` of shape ``(..., row_bytes)``, little-endian blocks.
        type: their type.
        dtype: a float type of NumPy. The arithmetic is that of ``float32``.
        threads: how many threads work; as many as the machine runs at once without.

    Returns:
        Shape ``(..., row_len)``.

    Raises:
        ArgumentError: the bytes of a row are not whole blocks.
        UnsupportedError: nothing decodes the type.
    """
    found = tensor_type(type)
    array: npt.NDArray[Any] = np.asarray(blocks)
    if array.dtype != np.uint8:
        raise ArgumentError(f"blocks are {array.dtype}, expected uint8")
    if array.ndim == 0 or not found.type_size or array.shape[-1] % found.type_size:
        size = array.shape[-1] if array.ndim else 0
        raise ArgumentError(
            f"rows of {size} bytes, expected a multiple of {found.type_size} for the blocks of "
            f"{found.name}"
        )
    row_len = array.shape[-1] // found.type_size * found.block_size
    flat = np.ascontiguousarray(array).reshape(-1)
    values = _native.dequantize(found.number, flat, threads=threads)
    return values.reshape((*array.shape[:-1], row_len)).astype(dtype, copy=False)


def _floats(array: npt.ArrayLike, name: str) -> npt.NDArray[np.float32]:
    given: npt.NDArray[Any] = np.asarray(array)
    if given.dtype.kind not in "fiub":
        raise ArgumentError(f"{name} is {given.dtype}, expected numbers")
    return np.asarray(given, dtype=np.float32, order="C")
