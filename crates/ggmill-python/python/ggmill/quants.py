"""Quantize NumPy arrays to ggml types, and decode them.

All types are supported, including k-quants and IQ types. The output is identical to that of
llama.cpp.

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
    """Encode values as blocks of a tensor type.

    Args:
        array: The values: an array of real numbers of shape ``(..., row_len)``. They are converted
            to ``float32`` first.
        type: The tensor type, such as ``"Q4_K"``.
        imatrix: Importance weights for the columns, of shape ``(row_len,)``, or of shape
            ``(n, row_len)`` for an array of shape ``(n, ..., row_len)``, such as the experts of a
            layer. IQ1_S, IQ2_XXS and some other types require them
            (:attr:`TensorType.needs_weights`).
        check: Raise an exception if the type cannot represent a value, instead of storing the
            result.
        threads: The number of threads; one per core by default.

    Returns:
        Little-endian blocks as a ``uint8`` array of shape ``(..., row_bytes)``.

    Raises:
        ArgumentError: If the row length is not a multiple of the block size, a value is infinite or
            NaN, or importance weights are missing or have the wrong shape.
        UnsupportedError: If ggmill cannot encode the type.
    """
    found = tensor_type(type)
    values = _floats(array, "array")
    if values.ndim == 0:
        raise ArgumentError("array with 0 dimensions, expected at least 1")
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
            f"imatrix of shape {weights.shape}, expected ({row_len},) or (n, {row_len})"
        )
    if weights.ndim == 1:
        flat = _native.quantize(
            found.number, values.reshape(-1), row_len, weights, check=check, threads=threads
        )
        return flat.reshape(shape)
    if values.ndim < 2 or weights.shape[0] != values.shape[0]:
        raise ArgumentError(
            f"imatrix of shape {weights.shape} does not match an array of shape {values.shape}"
        )
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
    """Decode blocks of a tensor type.

    Args:
        blocks: Little-endian blocks as a ``uint8`` array of shape ``(..., row_bytes)``.
        type: The tensor type.
        dtype: The type of the result. Values are decoded as ``float32`` and then converted.
        threads: The number of threads; one per core by default.

    Returns:
        The values as an array of shape ``(..., row_len)``.

    Raises:
        ArgumentError: If ``blocks`` is not ``uint8``, or the number of bytes per row is not a
            multiple of the size of a block.
        UnsupportedError: If ggmill cannot decode the type.
    """
    found = tensor_type(type)
    array: npt.NDArray[Any] = np.asarray(blocks)
    if array.dtype != np.uint8:
        raise ArgumentError(f"blocks of dtype {array.dtype}, expected uint8")
    if array.ndim == 0 or not found.type_size or array.shape[-1] % found.type_size:
        size = array.shape[-1] if array.ndim else 0
        raise ArgumentError(
            f"rows of {size} bytes, expected a multiple of {found.type_size}, the size of a "
            f"{found.name} block"
        )
    row_len = array.shape[-1] // found.type_size * found.block_size
    flat = np.ascontiguousarray(array).reshape(-1)
    values = _native.dequantize(found.number, flat, threads=threads)
    return values.reshape((*array.shape[:-1], row_len)).astype(dtype, copy=False)


def _floats(array: npt.ArrayLike, name: str) -> npt.NDArray[np.float32]:
    values: npt.NDArray[Any] = np.asarray(array)
    if values.dtype.kind not in "fiub":
        raise ArgumentError(f"{name} has dtype {values.dtype}, expected real numbers")
    return np.asarray(values, dtype=np.float32, order="C")
