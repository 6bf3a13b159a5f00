"""Types of tensors and of metadata values."""

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
"""The names of the types of metadata values, in the order of their numbers in a file."""

_NUMBERS = {name: number for number, name in enumerate(VALUE_TYPES)}
ARRAY = _NUMBERS["array"]

#: The NumPy type codes of metadata value types, without byte order.
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

#: The NumPy type codes of the tensor types that NumPy supports, without byte order.
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
    """A metadata value with an explicit type.

    Examples are ``Typed(3, "u16")``, ``Typed([1, 2], "[i64]")`` and, for nested arrays,
    ``Typed([[1.0], [2.0]], "[[f32]]")``.

    Attributes:
        value: The value.
        type: The type in the file: a name of :data:`VALUE_TYPES`, or an element type in brackets.
    """

    value: Any
    type: str


@dataclass(frozen=True)
class TensorType:
    """A tensor type.

    Attributes:
        name: The name in the specification, such as ``"Q4_K"``.
        number: The number in a file.
        block_size: The number of elements in a block; 0 for types that were removed.
        type_size: The size of a block in bytes.
        is_quantized: Whether a block contains more than one element.
        decodes: Whether blocks can be decoded.
        encodes: Whether values can be encoded as this type.
        needs_weights: Whether encoding requires importance weights.
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
        """The number of bits per element."""
        return 8 * self.type_size / self.block_size if self.block_size else 0.0

    def row_bytes(self, row_len: int) -> int:
        """Return the size of a row of ``row_len`` elements in bytes.

        Raises:
            ArgumentError: If ``row_len`` is not a multiple of the block size.
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
"""All tensor types by name."""

_TYPES_BY_NUMBER = {found.number: found for found in TENSOR_TYPES.values()}


def tensor_type(name: str | int | TensorType) -> TensorType:
    """Return a tensor type.

    Args:
        name: The name of the type in any case, its number in a file, or the type itself.

    Raises:
        ArgumentError: If there is no such type.
    """
    if isinstance(name, TensorType):
        return name
    found = _TYPES_BY_NUMBER.get(name) if isinstance(name, int) else TENSOR_TYPES.get(name.upper())
    if found is None:
        shown = f"type {name}" if isinstance(name, int) else repr(name)
        raise ArgumentError(f"{shown} is not a tensor type; ggmill.TENSOR_TYPES lists all types")
    return found


def tensor_type_name(number: int) -> str:
    """Return the name of a tensor type by its number; ``"type 57"`` if it is unknown."""
    found = _TYPES_BY_NUMBER.get(number)
    return found.name if found else f"type {number}"


def tensor_type_of(dtype: np.dtype[Any]) -> str | None:
    """Return the name of the tensor type of a NumPy type, or ``None``."""
    return _TENSOR_BY_DTYPE.get(dtype.str.lstrip("<>|="))


def value_type_name(types: tuple[int, ...]) -> str:
    """Return the name of a type of metadata values, such as ``"u32"`` or ``"[string]"``.

    Args:
        types: The numbers of the type and, for an array, of its element types.
    """
    first, *inner = types
    name = VALUE_TYPES[first] if first < len(VALUE_TYPES) else f"type {first}"
    return f"[{value_type_name(tuple(inner))}]" if first == ARRAY and inner else name


def parsed_type(text: str) -> list[int]:
    """Parse the name of a type of metadata values; the inverse of :func:`value_type_name`."""
    if text.startswith("[") and text.endswith("]"):
        return [ARRAY, *parsed_type(text[1:-1])]
    number = _NUMBERS.get(text)
    if number is None or number == ARRAY:
        names = ", ".join(name for name in VALUE_TYPES if name != "array")
        raise ArgumentError(
            f"{text!r} is not a metadata value type, expected {names} or [TYPE]"
        )
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
    raise ArgumentError(f"{most if most > 0 else least} is out of range for all integer types")


def types_of(value: Any) -> list[int]:
    """Infer the type of a metadata value.

    An ``int`` is the first of u32, i32, u64 and i64 that can represent it, a ``float`` is f32, and
    NumPy scalars and arrays keep their type.

    Raises:
        ArgumentError: If no type fits.
    """
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
        raise ArgumentError('an empty array has no element type; use Typed([], "[string]")')
    if all(isinstance(element, int) and not isinstance(element, bool) for element in elements):
        return [ARRAY, *parsed_type(_integer_type(min(elements), max(elements)))]
    kinds = {tuple(types_of(element)) for element in elements}
    if kinds <= {tuple(parsed_type(name)) for name in ("f32", "u32", "i32", "u64", "i64")}:
        return [ARRAY, *parsed_type("f32")]
    if len(kinds) > 1:
        shown = ", ".join(sorted(value_type_name(kind) for kind in kinds))
        raise ArgumentError(f"array elements of different types: {shown}")
    return [ARRAY, *kinds.pop()]
