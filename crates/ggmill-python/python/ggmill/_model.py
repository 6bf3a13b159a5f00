"""Open models: metadata as a mapping, and tensors whose data is read on access."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union, cast, overload

import numpy as np
import numpy.typing as npt

from . import _html, _native
from ._errors import ArgumentError, UnsupportedError
from ._types import (
    ARRAY,
    DTYPES,
    TENSOR_DTYPES,
    TensorType,
    tensor_type,
    tensor_type_name,
    value_type_name,
)

if TYPE_CHECKING:
    from typing_extensions import Self

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
"""A path in the file system."""

Value = Union[int, float, bool, str, "Array"]
"""A metadata value."""


def path_text(path: PathLike) -> str:
    """Convert a path to the form that the native module expects."""
    return os.fsdecode(path)


class Array(Sequence[Any]):
    """An array in the metadata of a model.

    A sequence whose elements are decoded on access; :meth:`numpy` and :meth:`tolist` convert all of
    them. An array stays valid after its model is closed, and keeps the file mapped.
    """

    __slots__ = ("_big_endian", "_native")

    def __init__(self, native: _native.Array, big_endian: bool) -> None:
        self._native = native
        self._big_endian = big_endian

    @property
    def element_type(self) -> str:
        """The type of the elements, such as ``"string"`` or ``"f32"``."""
        return value_type_name((self._native.element_type,))

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        length = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            return self._native.range(start, stop, step)
        place = index + length if index < 0 else index
        if not 0 <= place < length:
            raise IndexError(f"index {index} is out of bounds for an array of length {length}")
        return self._native.get(place)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Array):
            return self.element_type == other.element_type and self.tolist() == other.tolist()
        if isinstance(other, (list, tuple)):
            return self.tolist() == list(cast("Sequence[Any]", other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(element) for element in self[:4])
        more = ", …" if len(self) > 4 else ""
        return f"<Array of {len(self)} {self.element_type}: {shown}{more}>"

    def tolist(self) -> list[Any]:
        """Return all elements as a list of Python objects."""
        return self._native.tolist()

    def numpy(self) -> npt.NDArray[Any]:
        """Return the elements as a NumPy array of shape ``(len(self),)``.

        Returns:
            For numbers, a read-only view of the file in its byte order; for booleans, a copy; for
            strings and nested arrays, a new array of objects.
        """
        code = DTYPES.get(self.element_type)
        if code is None:
            made: npt.NDArray[Any] = np.empty(len(self), dtype=object)
            made[:] = self.tolist()
            return made
        raw = self._native.raw()
        if code == "?":
            return np.not_equal(raw, 0)
        dtype = np.dtype(code).newbyteorder(">" if self._big_endian else "<")
        return raw.view(dtype)


class Entry(NamedTuple):
    """A metadata entry and its location in the file.

    Attributes:
        key: The key.
        type: The type of the value, such as ``"u32"`` or ``"[string]"``.
        offset: The offset of the entry, in bytes from the start of the file.
        value_offset: The offset of the value, in bytes from the start of the file.
        size: The size of the value in bytes.
        file: The index of the file in :attr:`Model.paths`.
    """

    key: str
    type: str
    offset: int
    value_offset: int
    size: int
    file: int


class Metadata(Mapping[str, Value]):
    """The metadata of a model: a mapping in file order.

    Values are ``int``, ``float``, ``bool``, ``str`` or :class:`Array`. Bytes that are not valid
    UTF-8 become lone surrogates, as in file names. For a duplicate key, the mapping has the value
    of the first entry; :meth:`all` returns the values of all of them.
    """

    __slots__ = ("_big_endian", "_file", "_keys", "_native")

    def __init__(self, native: _native.Model, file: int) -> None:
        self._native = native
        self._file = file
        self._big_endian = native.big_endian()
        self._keys: dict[str, int] | None = None

    def _counts(self) -> dict[str, int]:
        """Return the keys, with the number of entries of each."""
        if self._keys is None:
            keys: dict[str, int] = {}
            for key, *_ in self._native.entries(self._file):
                keys[key] = keys.get(key, 0) + 1
            self._keys = keys
        return self._keys

    def _read(self, key: str, occurrence: int) -> Any:
        value = self._native.value(self._file, key, occurrence)
        return Array(value, self._big_endian) if isinstance(value, _native.Array) else value

    # The type of a value depends on the file, so type checkers cannot know it.
    def __getitem__(self, key: str) -> Any:
        value = self._read(key, 0)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts())

    def __len__(self) -> int:
        return len(self._counts())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._native.value(self._file, key, 0) is not None

    def all(self, key: str) -> list[Any]:
        """Return the values of all entries with a key; an empty list if there are none."""
        return [self._read(key, number) for number in range(self._counts().get(key, 0))]

    def entries(self) -> list[Entry]:
        """Return all entries in file order, including duplicates, with their offsets and sizes."""
        found: list[Entry] = []
        seen: dict[str, int] = {}
        for key, number, offset, value_offset, size in self._native.entries(self._file):
            occurrence = seen[key] = seen.get(key, -1) + 1
            name = self._type(key, number, occurrence)
            found.append(Entry(key, name, offset, value_offset, size, self._file))
        return found

    def type(self, key: str) -> str:
        """Return the type of a value, such as ``"u32"``, ``"string"`` or ``"[string]"``.

        Raises:
            KeyError: If the key does not exist.
        """
        for found, number, *_ in self._native.entries(self._file):
            if found == key:
                return self._type(key, number, 0)
        raise KeyError(key)

    def _type(self, key: str, number: int, occurrence: int) -> str:
        if number != ARRAY:
            return value_type_name((number,))
        value = self._native.value(self._file, key, occurrence)
        return f"[{value_type_name((value.element_type,))}]"

    def __repr__(self) -> str:
        return f"<Metadata of {len(self)} keys>"

    def _repr_html_(self) -> str:
        return _html.metadata(self)


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
        return _html.tensors(self)


class Model:
    """An open model: one file, or all shards of a shard set. Returned by :func:`open`.

    Models are context managers. Arrays obtained from a model stay valid after it is closed. A model
    can be used by several threads at once.
    """

    __slots__ = ("_native", "metadata", "tensors")

    metadata: Metadata
    """The metadata; for a shard set, that of the first shard."""

    tensors: Tensors
    """The tensors of all files by name."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self.metadata = Metadata(native, 0)
        self.tensors = Tensors(native)

    @property
    def path(self) -> str:
        """The path that was passed to :func:`open`."""
        return self._native.path

    @property
    def paths(self) -> list[str]:
        """The paths of all files, in order."""
        return self._native.paths()

    @property
    def version(self) -> int:
        """The GGUF version of the file: 1, 2 or 3."""
        return self._native.version()

    @property
    def byteorder(self) -> str:
        """The byte order of the files: ``"little"`` or ``"big"``, as in ``sys.byteorder``."""
        return "big" if self._native.big_endian() else "little"

    @property
    def alignment(self) -> int:
        """The alignment of tensor data in bytes."""
        return self._native.layout(0)[3]

    @property
    def data_offset(self) -> int:
        """Offset of the tensor data in the first file, in bytes."""
        return self._native.layout(0)[2]

    @property
    def nbytes(self) -> int:
        """Size of all files in bytes."""
        count = self._native.part_count()
        return sum(self._native.layout(part)[0] or 0 for part in range(count))

    @property
    def architecture(self) -> str | None:
        """The value of ``general.architecture``, or ``None``."""
        found = self.metadata.get("general.architecture")
        return found if isinstance(found, str) else None

    @property
    def closed(self) -> bool:
        """Whether the model is closed."""
        return self._native.closed

    @property
    def faults(self) -> list[str]:
        """Descriptions of the damage in files opened with ``salvage=True``."""
        return self._native.faults()

    def metadata_of(self, file: int) -> Metadata:
        """Return the metadata of one file of a shard set.

        Args:
            file: The index of the file in :attr:`paths`.

        Raises:
            ArgumentError: If the index is out of range.
        """
        if not 0 <= file < self._native.part_count():
            count = self._native.part_count()
            raise ArgumentError(f"file index {file} is out of range for a model of {count} files")
        return Metadata(self._native, file)

    def tokenizer(self, *, pre: str | None = None) -> Any:
        """Create the tokenizer of the model, a :class:`ggmill.Tokenizer`.

        Args:
            pre: The name of a pre-tokenizer to use instead of the one in the file.
        """
        from ._tokenizer import Tokenizer

        return Tokenizer(self, pre=pre)

    @property
    def templates(self) -> dict[str | None, str]:
        """The source texts of the chat templates by name; the default template is ``None``."""
        return dict(_native.templates(self._native))

    def template(self, name: str | None = None) -> Any:
        """Parse a chat template of the model, a :class:`ggmill.Template`.

        Args:
            name: The name of a template; the default template if ``None``.

        Raises:
            MissingError: If the model has no such template.
            FormatError: If the template does not parse.
        """
        from ._template import Template

        return Template(self, name=name)

    def render(self, messages: Any, **options: Any) -> Any:
        """Render a conversation with the default chat template of the model.

        Every call reads the vocabulary and parses the template. To render many conversations, call
        :meth:`template` once.

        Args:
            messages: The messages, as for :meth:`ggmill.Template.render`.
            options: The other arguments of :meth:`ggmill.Template.render`.

        Returns:
            A :class:`ggmill.Rendered`.

        >>> model.render([{"role": "user", "content": "Hello"}]).ids           # doctest: +SKIP
        """
        return self.template().render(messages, **options)

    def verify(self) -> None:
        """Check that the files were not modified or replaced since they were opened.

        Raises:
            FileError: If a file was.
        """
        self._native.verify()

    def text(self, *, full: bool = False, width: int | None = None) -> str:
        """Return the output of ``ggmill inspect``.

        Args:
            full: Include all metadata and tensors, not only the summary.
            width: The width of the text in columns.
        """
        return self._native.text(full=full, width=width)

    def close(self) -> None:
        """Close the model. Closing it again has no effect."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Model {self.path!r}{' (closed)' if self.closed else ''}>"

    def _repr_html_(self) -> str:
        return _html.model(self)


def open(
    path: PathLike | Model, *, mmap: bool = True, alone: bool = False, salvage: bool = False
) -> Model:
    """Open a GGUF file, or a shard set.

    Args:
        path: The path of a file, or of any shard of a set; the other shards are found by its name.
        mmap: Map the files into memory, so that arrays are views instead of copies. A mapped file
            must not be modified or truncated, but may be replaced by renaming another file over it.
            With ``False``, data is read on access, which is safe for files that may change.
        alone: Open a shard without the others of its set.
        salvage: Open the readable part of a damaged file; :attr:`Model.faults` describes the
            damage.

    Returns:
        The open model, which is also a context manager.

    Raises:
        NoSuchFileError: If the file does not exist.
        FileError: If the file cannot be read.
        FormatError: If the file is not GGUF, is truncated or damaged, or if a shard is missing.
    """
    if isinstance(path, Model):
        path = path.path
    return Model(_native.Model(path_text(path), mmap=mmap, alone=alone, salvage=salvage))


def model_path(model: PathLike | Model) -> str:
    """Return the path of a model that is given by its path or open.

    Raises:
        ClosedError: If the model is closed.
    """
    if isinstance(model, Model):
        model._native.version()
        return model.path
    return path_text(model)
