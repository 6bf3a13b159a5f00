"""Tensors that are computed when they are written: lazy tensors, and chunked tensors.

Lazy tensors are defined in `_lazy_arrays`, because `quants` uses them and chunked tensors use `quants`.
"""

from __future__ import annotations

# Exports everything that `gguf.lazy` does. It comes first, because it would hide the types of names
# that are imported below, such as `np`.
from ._lazy_arrays import *

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .constants import GGMLQuantizationType
from .quants import QuantError, quant_shape_to_byte_shape, quantize


class LazyChunkedTensor:
    """An array that is loaded, quantized and written a few rows at a time.

    Chunks consist of whole rows, and blocks do not cross rows, so that quantizing chunk by chunk
    has the same result as quantizing the whole array.
    """

    def __init__(
        self,
        chunks: list[Callable[[], np.ndarray[Any, Any]]],
        shape: tuple[int, ...],
        dtype: DTypeLike,
        qtype: Any = None,
        byteswap: bool = False,
    ):
        self._chunks = chunks
        self._qtype = qtype
        self._byteswap = byteswap
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)

    @property
    def nbytes(self) -> int:
        """Number of bytes that will be written."""
        return self.dtype.itemsize * prod(self.shape)

    def numpy(self) -> LazyChunkedTensor:
        """Return the array itself."""
        return self

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        # NumPy would wrap this object in an array with one element.
        raise TypeError("LazyChunkedTensor cannot become an ndarray, it is written in chunks")

    def quantize(self, qtype: Any) -> LazyChunkedTensor:
        """Quantize the array.

        Raises QuantError if the row length is not a multiple of the block size.
        """
        plain = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}
        if qtype in plain:
            return LazyChunkedTensor(self._chunks, self.shape, plain[qtype], qtype, self._byteswap)
        try:
            shape = quant_shape_to_byte_shape(self.shape, qtype)
        except ValueError as error:
            raise QuantError(str(error)) from error
        return LazyChunkedTensor(self._chunks, shape, np.uint8, qtype, self._byteswap)

    def byteswap(self, inplace: bool = False) -> LazyChunkedTensor:
        """Return the array in the other byte order."""
        if inplace:
            raise NotImplementedError("a chunked tensor cannot be byteswapped in place")
        return LazyChunkedTensor(
            self._chunks, self.shape, self.dtype, self._qtype, not self._byteswap
        )

    def tofile(self, *args: Any, **kwargs: Any) -> None:
        """Write the array chunk by chunk."""
        written = 0
        for load in self._chunks:
            chunk = load()
            if self._qtype is not None:
                chunk = quantize(chunk, self._qtype)
            if self._byteswap:
                chunk = chunk.byteswap(inplace=False)
            chunk.tofile(*args, **kwargs)
            written += chunk.nbytes
            del chunk
        assert written == self.nbytes, (
            f"chunked tensor wrote {written} bytes, expected {self.nbytes}"
        )
