"""Names of types, and values with a type of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import ArgumentError

VALUE_TYPES: tuple[str, ...] = (
    "u8",
    "i8",
    "u16",
    "i16",
    "u32",
    "i32",
    "f32",
    "bool",
    "string",
    "array",
    "u64",
    "i64",
    "f64",
)
"""The types of metadata values, by their numbers in a file."""

_NUMBERS = {name: number for number, name in enumerate(VALUE_TYPES)}
ARRAY = _NUMBERS["array"]

#: The types of values as NumPy has them, without a byte order.
DTYPES: dict[str, str] = {
    "u8": "u1",
    "i8": "i1",
    "u16": "u2",
    "i16": "i2",
    "u32": "u4",
    "i32": "i4",
    "f32": "f4",
    "bool": "?",
    "u64": "u8",
    "i64": "i8",
    "f64": "f8",
}

_BY_DTYPE = {np.dtype(code).str.lstrip("<>|="): name for name, code in DTYPES.items()}
_BY_DTYPE["b1"] = "bool"

#: Tensor types that NumPy has a type for, without a byte order.
TENSOR_DTYPES: dict[str, str] = {
    "F32": "f4",
    "F16": "f2",
    "F64": "f8",
    "I8": "i1",
    "I16": "i2",
    "I32": "i4",
    "I64": "i8",
}

_TENSOR_BY_DTYPE = {code: name for name, code in TENSOR_DTYPES.items()}


class Typed(NamedTuple):
    """A metadata value with the type it is to have in the file.

    ``Typed(3, "u16")``; ``Typed([1, 2], "[i64]")`` for an array, ``"[[f32]]"`` for arrays in one.
    """

    value: Any
    type: str


@dataclass(frozen=True)
class TensorType:
    """A tensor type.

    Attributes:
        name: as in the specification, ``"Q4_K"``.
        number: as in a file.
        block_size: elements of a block; 0 for retired types.
        type_size: bytes of a block.
        is_quantized: whether blocks hold more than one element.
        decodes: whether values can be read from its blocks.
        encodes: whether values can be rounded to it.
        needs_weights: whether that takes importance weights.
    """

    name: str
    number: int
    block_size: int
    type_size: int
    is_quantized: bool
    decodes: bool
    encodes: bool
    needs_weights: bool

    @property
    def bits_per_weight(self) -> float:
        """Bits that an element takes."""
        return 8 * self.type_size / self.block_size if self.block_size else 0.0

    def row_bytes(self, row_len: int) -> int:
        """Bytes of a row of ``row_len`` elements.

        Raises:
            ArgumentError: ``row_len`` is not a multiple of the block size.
        """
        if not self.block_size or row_len % self.block_size:
            raise ArgumentError(
                f"row length {row_len} is not a multiple of the block size of {self.name}, "
                f"{self.block_size}"
            )
        return row_len // self.block_size * self.type_size


TENSOR_TYPES: dict[str, TensorType] = {
    facts["name"]: TensorType(**facts) for facts in _native.types()
}
"""Every tensor type by its name."""

_TYPES_BY_NUMBER = {found.number: found for found in TENSOR_TYPES.values()}


def tensor_type(name: str | int | TensorType) -> TensorType:
    """The tensor type of a name, in any case, or of a number."""
    if isinstance(name, TensorType):
        return name
    found = _TYPES_BY_NUMBER.get(name) if isinstance(name, int) else TENSOR_TYPES.get(name.upper())
    if found is None:
        shown = f"type {name}" if isinstance(name, int) else repr(name)
        raise ArgumentError(f"{shown} is not a tensor type; ggmill.TENSOR_TYPES has them all")
    return found


def tensor_type_name(number: int) -> str:
    """The name of a tensor type by its number; ``"type 57"`` for one that is not known."""
    found = _TYPES_BY_NUMBER.get(number)
    return found.name if found else f"type {number}"


def tensor_type_of(dtype: np.dtype[Any]) -> str | None:
    """The tensor type of the elements of an array."""
    return _TENSOR_BY_DTYPE.get(dtype.str.lstrip("<>|="))


def value_type_name(types: tuple[int, ...]) -> str:
    """``"u32"``, or ``"[string]"`` for an array."""
    first, *inner = types
    name = VALUE_TYPES[first] if first < len(VALUE_TYPES) else f"type {first}"
    return f"[{value_type_name(tuple(inner))}]" if first == ARRAY and inner else name


def parsed_type(text: str) -> list[int]:
    """The numbers of a type from the outside in."""
    if text.startswith("[") and text.endswith("]"):
        return [ARRAY, *parsed_type(text[1:-1])]
    number = _NUMBERS.get(text)
    if number is None or number == ARRAY:
        names = ", ".join(name for name in VALUE_TYPES if name != "array")
        raise ArgumentError(f"{text!r} is not a type of metadata values: {names}, or [TYPE]")
    return [number]


def _integer_type(least: int, most: int) -> str:
    for name, low, high in (
        ("u32", 0, 2**32),
        ("i32", -(2**31), 2**31),
        ("u64", 0, 2**64),
        ("i64", -(2**63), 2**63),
    ):
        if low <= least and most < high:
            return name
    raise ArgumentError(f"{most if most > 0 else least} does not fit any integer type")


def types_of(value: Any) -> list[int]:
    """The type that a value suggests: the first of u32, i32, u64 and i64 that holds an integer,
    f32 for other numbers; for NumPy's numbers and arrays their own."""
    if isinstance(value, (bool, np.bool_)):
        return parsed_type("bool")
    if isinstance(value, (np.ndarray, np.generic)):
        array: npt.NDArray[Any] = np.asarray(cast("Any", value))
        name = _BY_DTYPE.get(array.dtype.str.lstrip("<>|="))
        if name is not None:
            return [ARRAY] * array.ndim + parsed_type(name)
        return types_of(array.tolist())
    if isinstance(value, int):
        return parsed_type(_integer_type(value, value))
    if isinstance(value, float):
        return parsed_type("f32")
    if isinstance(value, (str, bytes)):
        return parsed_type("string")
    try:
        elements = list(value)
    except TypeError:
        raise ArgumentError(f"{type(value).__name__} cannot be a metadata value") from None
    if not elements:
        raise ArgumentError('an empty array has no type of its own: Typed([], "[string]")')
    if all(isinstance(element, int) and not isinstance(element, bool) for element in elements):
        return [ARRAY, *parsed_type(_integer_type(min(elements), max(elements)))]
    kinds = {tuple(types_of(element)) for element in elements}
    if kinds <= {tuple(parsed_type(name)) for name in ("f32", "u32", "i32", "u64", "i64")}:
        return [ARRAY, *parsed_type("f32")]
    if len(kinds) > 1:
        shown = ", ".join(sorted(value_type_name(kind) for kind in kinds))
        raise ArgumentError(f"an array of {shown}: its elements have one type")
    return [ARRAY, *kinds.pop()]
