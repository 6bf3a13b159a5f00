"""Open models: metadata as a mapping, tensors as arrays that are read when they are asked for."""

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
"""A path: ``str``, ``bytes`` or ``os.PathLike``."""

Value = Union[int, float, bool, str, "Array"]
"""A metadata value."""


def path_text(path: PathLike) -> str:
    """A path as the native module takes it."""
    return os.fsdecode(path)


class Array(Sequence[Any]):
    """An array in the metadata of a model, read as it is asked for.

    It is a sequence: ``len``, indices, slices and iteration work; ``numpy`` and ``tolist`` have all
    of it. It keeps the model's memory.
    """

    __slots__ = ("_big_endian", "_native")

    def __init__(self, native: _native.Array, big_endian: bool) -> None:
        self._native = native
        self._big_endian = big_endian

    @property
    def element_type(self) -> str:
        """The type of the elements: ``"string"``, ``"f32"``, …"""
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
            raise IndexError(f"element {index} of an array of {length}")
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
        """All elements as Python objects."""
        return self._native.tolist()

    def numpy(self) -> npt.NDArray[Any]:
        """The elements as an array of shape ``(len,)``.

        Numbers are a read-only view of the file, in its byte order. Bools are a copy; strings are
        an array of objects.
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
    """One metadata entry as it is in a file.

    Attributes:
        key: the key.
        type: the type of the value, ``"u32"``, ``"[string]"``.
        offset: where the entry begins, in bytes from the start of its file.
        value_offset: where the value begins.
        size: bytes of the value.
        file: which file of the model, counted from 0.
    """

    key: str
    type: str
    offset: int
    value_offset: int
    size: int
    file: int


class Metadata(Mapping[str, Value]):
    """The metadata of a model as a mapping, in the order of the file.

    Values have Python's types; arrays are :class:`Array`. Bytes that are not UTF-8 are lone
    surrogates in a ``str``, as in file names. Of a duplicate key the first entry answers;
    :meth:`all` has every one.
    """

    __slots__ = ("_big_endian", "_file", "_keys", "_native")

    def __init__(self, native: _native.Model, file: int) -> None:
        self._native = native
        self._file = file
        self._big_endian = native.big_endian()
        self._keys: dict[str, int] | None = None

    def _counts(self) -> dict[str, int]:
        """The keys, with the number of entries that each has."""
        if self._keys is None:
            keys: dict[str, int] = {}
            for key, *_ in self._native.entries(self._file):
                keys[key] = keys.get(key, 0) + 1
            self._keys = keys
        return self._keys

    def _read(self, key: str, occurrence: int) -> Any:
        value = self._native.value(self._file, key, occurrence)
        return Array(value, self._big_endian) if isinstance(value, _native.Array) else value

    # The value of a key is of the type that the file says, which no type checker can know.
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
        """The values of every entry with this key; none where there is none."""
        return [self._read(key, number) for number in range(self._counts().get(key, 0))]

    def entries(self) -> list[Entry]:
        """Every entry in the order of the file, duplicates too, with its place in bytes."""
        found: list[Entry] = []
        seen: dict[str, int] = {}
        for key, number, offset, value_offset, size in self._native.entries(self._file):
            occurrence = seen[key] = seen.get(key, -1) + 1
            name = self._type(key, number, occurrence)
            found.append(Entry(key, name, offset, value_offset, size, self._file))
        return found

    def type(self, key: str) -> str:
        """The type of a value: ``"u32"``, ``"string"``, ``"[string]"``.

        Raises:
            KeyError: there is no such key.
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
    """One tensor of a model. Nothing of its data is read before it is asked for."""

    __slots__ = ("_model", "_native")

    def __init__(self, native: _native.Tensor, model: _native.Model) -> None:
        self._native = native
        self._model = model

    @property
    def name(self) -> str:
        """The name."""
        return self._native.name

    @property
    def type(self) -> str:
        """The type of the elements: ``"Q4_K"``, ``"F16"``, …; ``"type 57"`` for an unknown one."""
        return tensor_type_name(self._native.type_number)

    @property
    def type_info(self) -> TensorType:
        """The facts of the type: block size, bytes of a block, bits per weight.

        Raises:
            ArgumentError: the type is not known.
        """
        return tensor_type(self._native.type_number)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as NumPy and PyTorch have it: the row length last."""
        return tuple(reversed(self._native.dimensions))

    @property
    def ne(self) -> tuple[int, ...]:
        """The shape as the file and ggml have it: the row length first."""
        return tuple(self._native.dimensions)

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for length in self._native.dimensions:
            count *= length
        return count

    @property
    def rows(self) -> int:
        """The number of rows, of ``shape[-1]`` elements each."""
        return self.size // self._row_len if self.size else 0

    @property
    def _row_len(self) -> int:
        """Elements of a row; a tensor without dimensions is one number."""
        return next(iter(self._native.dimensions), 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the data.

        Raises:
            UnsupportedError: the type is not known.
        """
        size = self._native.size
        if size is None:
            raise UnsupportedError(
                f"tensor {self.name!r}: {self.type} has no known size",
                kind="unsupported",
                subject=f"tensor {self.name!r}",
            )
        return size

    @property
    def offset(self) -> int:
        """Where the data begin, in bytes from the start of their file."""
        return self._native.offset

    @property
    def file(self) -> int:
        """Which file of the model it is in, counted from 0."""
        return self._native.part

    def _shaped(self, array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        try:
            return array.reshape(shape)
        except ValueError:
            # Shapes with a 0 in them can have any other number too.
            raise UnsupportedError(
                f"tensor {self.name!r}: NumPy has no arrays of shape {shape}",
                kind="unsupported",
                subject=f"tensor {self.name!r}",
            ) from None

    def raw(self) -> npt.NDArray[np.uint8]:
        """The bytes of the data as they lie in the file, shape ``(nbytes,)``: a read-only view of a
        mapped file, a copy otherwise."""
        return self._native.raw()

    def numpy(self) -> npt.NDArray[Any]:
        """The data as they are stored.

        For F32, F16, F64 and the integers: the elements in :attr:`shape`, a read-only view of a
        mapped file, in its byte order. For every other type, BF16 among them: ``uint8`` of the
        blocks, little-endian, in :attr:`shape` with the bytes of a row instead of its length; a
        view where the file is little-endian. :meth:`dequantize` has the values.

        Raises:
            UnsupportedError: the type is not known.
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
        """The values.

        Args:
            dtype: a float type of NumPy. The arithmetic is that of ``float32``.
            rows: of the tensor as a matrix of rows of ``shape[-1]`` elements, which to read; all
                without. Only their bytes are read.
            threads: how many threads work; as many as the machine runs at once without.

        Returns:
            For all rows, an array of :attr:`shape`; for a slice, of shape ``(n, shape[-1])``; for
            one row, ``(shape[-1],)``.

        Raises:
            UnsupportedError: nothing decodes the type.
            IndexError: there is no such row.
        """
        count = self.rows
        row_len = self._row_len
        if isinstance(rows, int):
            place = rows + count if rows < 0 else rows
            if not 0 <= place < count:
                raise IndexError(f"row {rows} of {count}")
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
            raise IndexError(f"rows {first} to {last} of {count}")
        found = self._native.dequantize(first, last + 1, threads=threads)
        found = self._shaped(found, (len(wanted), row_len))
        return (found[::-1] if wanted.step < 0 else found).astype(dtype, copy=False)

    def __array__(
        self, dtype: Optional[npt.DTypeLike] = None, copy: Optional[bool] = None
    ) -> npt.NDArray[Any]:
        """``numpy.asarray(tensor)``: the values, those of quantized types decoded."""
        if self.type in TENSOR_DTYPES:
            found = self.numpy()
            if dtype is not None and np.dtype(dtype) != found.dtype:
                found = found.astype(dtype)
            return found.copy() if copy else found
        if copy is False:
            raise ValueError(f"tensor {self.name!r}: {self.type} cannot be an array without a copy")
        return self.dequantize(np.float32 if dtype is None else dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """For ``torch.from_dlpack`` and others: the elements of a type that NumPy has."""
        if self.type not in TENSOR_DTYPES:
            raise UnsupportedError(
                f"tensor {self.name!r}: {self.type} is not a type of arrays; "
                "from_dlpack(tensor.dequantize()) has the values",
                kind="unsupported",
                subject=f"tensor {self.name!r}",
            )
        array = self.numpy()
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        try:
            return array.__dlpack__(**options)
        except BufferError:
            # Read-only memory is more than older consumers can be told.
            return array.copy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r} {self.type} {self.shape}>"


class Tensors(Mapping[str, Tensor]):
    """The tensors of a model as a mapping from their names, in the order of the files."""

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
    """A model: one file, or the shards of a set as one. Made by :func:`open`.

    A context manager: it is closed at the end of ``with``. Arrays that were made of it stay valid.
    Several threads may read one model at once.
    """

    __slots__ = ("_native", "metadata", "tensors")

    metadata: Metadata
    """The metadata: of a set of shards, those of the first."""

    tensors: Tensors
    """The tensors of all files, by name."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self.metadata = Metadata(native, 0)
        self.tensors = Tensors(native)

    @property
    def path(self) -> str:
        """The path that was opened."""
        return self._native.path

    @property
    def paths(self) -> list[str]:
        """The paths of all files, in order."""
        return self._native.paths()

    @property
    def version(self) -> int:
        """The version of the format: 1, 2 or 3."""
        return self._native.version()

    @property
    def byteorder(self) -> str:
        """``"little"`` or ``"big"``, as ``sys.byteorder``."""
        return "big" if self._native.big_endian() else "little"

    @property
    def alignment(self) -> int:
        """The alignment of tensor data, in bytes."""
        return self._native.layout(0)[3]

    @property
    def data_offset(self) -> int:
        """Where tensor data begin in the first file, in bytes."""
        return self._native.layout(0)[2]

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        count = self._native.part_count()
        return sum(self._native.layout(part)[0] or 0 for part in range(count))

    @property
    def architecture(self) -> str | None:
        """The architecture: ``general.architecture``."""
        found = self.metadata.get("general.architecture")
        return found if isinstance(found, str) else None

    @property
    def closed(self) -> bool:
        """Whether the model was closed."""
        return self._native.closed

    @property
    def faults(self) -> list[str]:
        """What is wrong with a file that was opened with ``salvage=True``."""
        return self._native.faults()

    def metadata_of(self, file: int) -> Metadata:
        """The metadata of one file of a set, counted from 0."""
        if not 0 <= file < self._native.part_count():
            raise ArgumentError(f"file {file} of {self._native.part_count()}")
        return Metadata(self._native, file)

    def tokenizer(self, *, pre: str | None = None) -> Any:
        """The tokenizer of the model: :class:`ggmill.Tokenizer`."""
        from ._tokenizer import Tokenizer

        return Tokenizer(self, pre=pre)

    @property
    def templates(self) -> dict[str | None, str]:
        """The texts of the chat templates by their names, ``None`` for the default one."""
        return dict(_native.templates(self._native))

    def template(self, name: str | None = None) -> Any:
        """A chat template of the model: :class:`ggmill.Template`."""
        from ._template import Template

        return Template(self, name=name)

    def render(self, messages: Any, **options: Any) -> Any:
        """A conversation as the default chat template of the model renders it:
        :meth:`ggmill.Template.render`, whose arguments it takes. It reads the vocabulary; for many
        conversations make one :meth:`template`.

        >>> model.render([{"role": "user", "content": "Hello"}]).ids           # doctest: +SKIP
        """
        return self.template().render(messages, **options)

    def verify(self) -> None:
        """Raises :class:`FileError` when a file is no longer the one that was opened."""
        self._native.verify()

    def text(self, *, full: bool = False, width: int | None = None) -> str:
        """What ``ggmill inspect`` prints: the summary, with ``full`` metadata and tensors too."""
        return self._native.text(full=full, width=width)

    def close(self) -> None:
        """Lets go of the files. A second time does nothing."""
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
    """Opens a model: a GGUF file, or any shard of a set.

    Args:
        path: a file, of a set any one; the others are found by its name.
        mmap: map the files, so that arrays are views without a copy. While they are mapped, nothing
            may write to them or shorten them; replacing one by renaming another over it is
            harmless. ``False`` reads instead, which is for files that may change.
        alone: open a shard by itself.
        salvage: open what can be read of a broken file; :attr:`Model.faults` says what is wrong.

    Raises:
        NoSuchFileError: there is no such file.
        FileError: it cannot be read.
        FormatError: it is not GGUF, is cut short, or is damaged; a shard is missing.
    """
    if isinstance(path, Model):
        path = path.path
    return Model(_native.Model(path_text(path), mmap=mmap, alone=alone, salvage=salvage))


def model_path(model: PathLike | Model) -> str:
    """The path of a model that is given as one or is open.

    Raises:
        ClosedError: the model was closed.
    """
    if isinstance(model, Model):
        model._native.version()
        return model.path
    return path_text(model)
