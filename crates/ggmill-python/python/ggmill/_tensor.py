"""The tensors of a model. Their data is read on access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _html, _native
from ._errors import UnsupportedError
from ._types import TENSOR_DTYPES, TensorType, tensor_type, tensor_type_name


class Tensor:
    """A tensor of a model. Its data is read on access."""

    __slots__ = ("_model", "_native")

    def __init__(self, native: _native.Tensor, model: _native.Model) -> None:
        self._native = native
        self._model = model

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self._native.name

    @property
    def type(self) -> str:
        """The tensor type, such as ``"Q4_K"`` or ``"F16"``; ``"type 57"`` if it is unknown."""
        return tensor_type_name(self._native.type_number)

    @property
    def type_info(self) -> TensorType:
        """The properties of the tensor type, such as its block size.

        Raises:
            ArgumentError: If the type is unknown.
        """
        return tensor_type(self._native.type_number)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in NumPy and PyTorch order: the row length is the last element."""
        return tuple(reversed(self._native.dimensions))

    @property
    def ne(self) -> tuple[int, ...]:
        """The shape in the order of the file and of ggml: the row length is the first element."""
        return tuple(self._native.dimensions)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for length in self._native.dimensions:
            count *= length
        return count

    @property
    def rows(self) -> int:
        """Number of rows of ``shape[-1]`` elements each."""
        return self.size // self._row_len if self.size else 0

    @property
    def _row_len(self) -> int:
        """Number of elements in a row; 1 for a tensor without dimensions."""
        return next(iter(self._native.dimensions), 1)

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes, without padding.

        Raises:
            UnsupportedError: If the type is unknown.
        """
        size = self._native.size
        if size is None:
            raise UnsupportedError(
                f"tensor {self.name!r}: the size of {self.type} is unknown",
                kind="unsupported",
                subject=f"tensor {self.name!r}",
            )
        return size

    @property
    def offset(self) -> int:
        """Offset of the data, in bytes from the start of the file."""
        return self._native.offset

    @property
    def file(self) -> int:
        """Index of the file with the tensor in :attr:`Model.paths`."""
        return self._native.part

    def _shaped(self, array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        try:
            return array.reshape(shape)
        except ValueError:
            # A shape with a 0 can have other dimensions that are too large for NumPy.
            raise UnsupportedError(
                f"tensor {self.name!r}: NumPy does not support the shape {shape}",
                kind="unsupported",
                subject=f"tensor {self.name!r}",
            ) from None

    def raw(self) -> npt.NDArray[np.uint8]:
        """Return the stored bytes.

        Returns:
            An array of shape ``(nbytes,)``: a read-only view if the file is mapped, otherwise a
            copy.

        Raises:
            UnsupportedError: If the type is unknown, so that the size is unknown too.
        """
        return self._native.raw()

    def numpy(self) -> npt.NDArray[Any]:
        """Return the stored data, without decoding it; see :meth:`dequantize` for the values.

        Returns:
            For F32, F16, F64 and the integer types, the elements as an array of shape :attr:`shape`
            in the byte order of the file. For all other types, including BF16, little-endian blocks
            as a ``uint8`` array of shape ``(*shape[:-1], row_bytes)``. The array is a read-only
            view if the file is mapped, unless blocks of a big-endian file have to be byte-swapped.

        Raises:
            UnsupportedError: If NumPy does not support the shape.
            ArgumentError: If the type is unknown.
        """
        code = TENSOR_DTYPES.get(self.type)
        if code is None:
            row_bytes = self.type_info.row_bytes(self._row_len)
            return self._shaped(self._native.canonical(), (*self.shape[:-1], row_bytes))
        dtype = np.dtype(code).newbyteorder(">" if self._native.big_endian else "<")
        return self._shaped(self._native.raw().view(dtype), self.shape)

    def dequantize(
        self,
        dtype: npt.DTypeLike = np.float32,
        rows: int | slice | range | None = None,
        *,
        threads: int | None = None,
    ) -> npt.NDArray[Any]:
        """Decode the values.

        Args:
            dtype: The type of the result. Values are decoded as ``float32`` and then converted.
            rows: The rows to decode, where the tensor is viewed as a matrix of shape
                ``(self.rows, shape[-1])``. Only their bytes are read. All rows by default.
            threads: The number of threads; one per core by default.

        Returns:
            An array of shape :attr:`shape` for all rows, ``(n, shape[-1])`` for a slice or range,
            and ``(shape[-1],)`` for a single row.

        Raises:
            UnsupportedError: If the type cannot be decoded, or NumPy does not support the shape.
            IndexError: If a row does not exist.
        """
        count = self.rows
        row_len = self._row_len
        if isinstance(rows, int):
            place = rows + count if rows < 0 else rows
            if not 0 <= place < count:
                raise IndexError(f"row {rows} is out of bounds for a tensor with {count} rows")
            found = self._native.dequantize(place, place + 1, threads=threads)
            return found.astype(dtype, copy=False)
        if rows is None:
            found = self._native.dequantize(0, count, threads=threads)
            return self._shaped(found, self.shape).astype(dtype, copy=False)
        wanted = range(count)[rows] if isinstance(rows, slice) else rows
        if wanted.step not in (1, -1) and len(wanted) > 1:
            read = [self._native.dequantize(row, row + 1, threads=threads) for row in wanted]
            return np.stack(read).astype(dtype, copy=False)
        first, last = (min(wanted), max(wanted)) if len(wanted) else (0, -1)
        if first < 0 or last >= count:
            raise IndexError(
                f"rows {first} to {last} are out of bounds for a tensor with {count} rows"
            )
        found = self._native.dequantize(first, last + 1, threads=threads)
        found = self._shaped(found, (len(wanted), row_len))
        return (found[::-1] if wanted.step < 0 else found).astype(dtype, copy=False)

    def __array__(
        self, dtype: Optional[npt.DTypeLike] = None, copy: Optional[bool] = None
    ) -> npt.NDArray[Any]:
        """Implement ``numpy.asarray(tensor)``: the values, decoded if NumPy lacks the type."""
        if self.type in TENSOR_DTYPES:
            found = self.numpy()
            if dtype is not None and np.dtype(dtype) != found.dtype:
                found = found.astype(dtype)
            return found.copy() if copy else found
        if copy is False:
            raise ValueError(f"tensor {self.name!r}: {self.type} cannot be decoded without a copy")
        return self.dequantize(np.float32 if dtype is None else dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """Implement the DLPack protocol for types that NumPy supports.

        Raises:
            UnsupportedError: If NumPy does not support the type; use :meth:`dequantize`.
        """
        if self.type not in TENSOR_DTYPES:
            raise UnsupportedError(
                f"tensor {self.name!r}: NumPy has no dtype for {self.type}; "
                "use from_dlpack(tensor.dequantize())",
                kind="unsupported",
                subject=f"tensor {self.name!r}",
            )
        array = self.numpy()
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        try:
            return array.__dlpack__(**options)
        except BufferError:
            # Older versions of the protocol cannot express that memory is read-only.
            return array.copy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r} {self.type} {self.shape}>"


class Tensors(Mapping[str, Tensor]):
    """The tensors of a model: a mapping by name, in file order.

    For a duplicate name, the mapping has the first tensor.
    """

    __slots__ = ("_index", "_native")

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self._index: dict[str, int] | None = None

    def _numbers(self) -> dict[str, int]:
        if self._index is None:
            index: dict[str, int] = {}
            for number, name in enumerate(self._native.tensor_names()):
                index.setdefault(name, number)
            self._index = index
        return self._index

    def __getitem__(self, name: str) -> Tensor:
        return Tensor(self._native.tensor(self._numbers()[name]), self._native)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers())

    def __len__(self) -> int:
        return len(self._numbers())

    def __contains__(self, name: object) -> bool:
        return name in self._numbers()

    def __repr__(self) -> str:
        return f"<Tensors: {len(self)}>"

    def _repr_html_(self) -> str:
        rows: list[list[str]] = []
        for _, tensor in zip(range(_html.MAX_ROWS), self.values()):
            name, type = _html.code(tensor.name), _html.text(tensor.type)
            rows.append([name, type, _html.shape(tensor.shape), f"{tensor.offset:,}"])
        head = ["tensor", "type", "shape", "offset"]
        return _html.table(head, rows, len(self) - _html.MAX_ROWS)
