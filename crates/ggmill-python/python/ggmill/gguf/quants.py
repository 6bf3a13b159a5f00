"""Conversion of arrays to blocks of any type and back, by the codecs of ggmill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2
from typing import Any

import numpy as np

from .._native import dequantize as _decode
from .._native import quantize as _encode
from ._lazy_arrays import LazyNumpyTensor
from .constants import GGML_QUANT_SIZES, GGMLQuantizationType

Array = np.ndarray[Any, Any]

# Types that require an importance matrix.
_NEEDS_IMATRIX = frozenset(
    {GGMLQuantizationType.IQ2_XXS, GGMLQuantizationType.IQ2_XS, GGMLQuantizationType.IQ1_S}
)


class QuantError(Exception):
    """Raised if an array cannot be quantized to a type."""


def quant_shape_to_byte_shape(
    shape: Sequence[int], quant_type: GGMLQuantizationType
) -> tuple[int, ...]:
    """Convert a shape in elements to a shape in bytes, both in NumPy order."""
    block_size, type_size = GGML_QUANT_SIZES[quant_type]
    if shape[-1] % block_size != 0:
        raise ValueError(
            f"Quantized tensor row size ({shape[-1]}) is not a multiple of "
            f"{quant_type.name} block size ({block_size})"
        )
    return (*shape[:-1], shape[-1] // block_size * type_size)


def quant_shape_from_byte_shape(
    shape: Sequence[int], quant_type: GGMLQuantizationType
) -> tuple[int, ...]:
    """Convert a shape in bytes to a shape in elements, both in NumPy order."""
    block_size, type_size = GGML_QUANT_SIZES[quant_type]
    if shape[-1] % type_size != 0:
        raise ValueError(
            f"Quantized tensor bytes per row ({shape[-1]}) is not a multiple of "
            f"{quant_type.name} type size ({type_size})"
        )
    return (*shape[:-1], shape[-1] // type_size * block_size)


def np_roundf(n: Array) -> Array:
    """Round to the nearest integer, and halves away from zero."""
    magnitude = abs(n)
    whole = np.floor(magnitude)
    rounded: Array = np.sign(n) * (whole + np.floor(2 * (magnitude - whole)))
    return rounded


class _Quant:
    """The conversions of one type; all methods are class methods."""

    qtype: GGMLQuantizationType
    block_size: int
    type_size: int
    _quantize_lazy: Callable[..., Any]
    _dequantize_lazy: Callable[..., Any]

    def __init_subclass__(
        cls, qtype: GGMLQuantizationType | None = None, listed: bool = True
    ) -> None:
        if qtype is None:  # what several types have in common
            return
        cls.qtype = qtype
        cls.block_size, cls.type_size = GGML_QUANT_SIZES[qtype]
        cls._quantize_lazy = LazyNumpyTensor._wrap_fn(
            cls.quantize_rows, meta_noop=(np.uint8, cls._shape_to_bytes)
        )
        cls._dequantize_lazy = LazyNumpyTensor._wrap_fn(
            cls.dequantize_rows, meta_noop=(np.float32, cls._shape_from_bytes)
        )
        (_type_traits if listed else _more_types)[qtype] = cls

    @classmethod
    def _shape_to_bytes(cls, shape: Sequence[int]) -> tuple[int, ...]:
        return quant_shape_to_byte_shape(shape, cls.qtype)

    @classmethod
    def _shape_from_bytes(cls, shape: Sequence[int]) -> tuple[int, ...]:
        return quant_shape_from_byte_shape(shape, cls.qtype)

    @classmethod
    def init_grid(cls) -> None:
        """Create `grid`, for types that have one."""

    @classmethod
    def quantize_blocks(cls, blocks: Array) -> Array:
        """Encode float32 of shape (n, `block_size`) as uint8 of shape (n, `type_size`)."""
        return cls.quantize_rows(blocks)

    @classmethod
    def dequantize_blocks(cls, blocks: Array) -> Array:
        """Decode uint8 of shape (n, `type_size`) to float32 of shape (n, `block_size`)."""
        return cls.dequantize_rows(blocks)

    @classmethod
    def quantize_rows(cls, rows: Array, imatrix: Array | None = None) -> Array:
        """Encode an array of any shape; rows become rows of bytes (uint8)."""
        if imatrix is None and cls.qtype in _NEEDS_IMATRIX:
            raise NotImplementedError(
                f"Quantization to {cls.qtype.name} needs an importance matrix"
            )
        shape = cls._shape_to_bytes(rows.shape)
        values = np.ascontiguousarray(rows, dtype=np.float32)
        if imatrix is not None:
            imatrix = np.ascontiguousarray(imatrix, dtype=np.float32)
        try:
            blocks = _encode(int(cls.qtype), values.ravel(), rows.shape[-1], imatrix)
        except ValueError as error:
            raise QuantError(
                f"Can't quantize tensor with shape {rows.shape} to {cls.qtype.name}: {error}"
            ) from error
        return blocks.reshape(shape)

    @classmethod
    def dequantize_rows(cls, rows: Array) -> Array:
        """Decode an array of any shape; rows of bytes become rows of float32."""
        blocks = np.ascontiguousarray(rows).view(np.uint8)
        shape = cls._shape_from_bytes(blocks.shape)
        return _decode(int(cls.qtype), blocks.ravel()).reshape(shape)

    @classmethod
    def can_quantize(cls, tensor: Array | LazyNumpyTensor) -> bool:
        """Return whether the row length is a multiple of the block size."""
        return tensor.shape[-1] % cls.block_size == 0

    @classmethod
    def quantize(cls, tensor: Array | LazyNumpyTensor, imatrix: Array | None = None) -> Any:
        """Encode an array as blocks of this type.

        Raises QuantError if the row length is not a multiple of the block size.
        """
        if not cls.can_quantize(tensor):
            raise QuantError(f"Can't quantize tensor with shape {tensor.shape} to {cls.qtype.name}")
        if isinstance(tensor, LazyNumpyTensor):
            extra = {} if imatrix is None else {"imatrix": imatrix}
            return cls._quantize_lazy(tensor, **extra)
        return cls.quantize_rows(tensor, imatrix)

    @classmethod
    def dequantize(cls, tensor: Array | LazyNumpyTensor) -> Any:
        """Decode blocks of this type to float32."""
        if isinstance(tensor, LazyNumpyTensor):
            return cls._dequantize_lazy(tensor)
        return cls.dequantize_rows(tensor)


_type_traits: dict[GGMLQuantizationType, type[_Quant]] = {}
# Types for which the reference has no class.
_more_types: dict[GGMLQuantizationType, type[_Quant]] = {}


def _class_of(qtype: GGMLQuantizationType) -> type[_Quant] | None:
    return _type_traits.get(qtype) or _more_types.get(qtype)


def quantize(data: Array, qtype: GGMLQuantizationType, imatrix: Array | None = None) -> Any:
    """Encode an array as blocks of a type.

    Args:
        data: The values, of shape (..., row length).
        qtype: The type.
        imatrix: One importance weight per column.

    Returns:
        A uint8 array with rows of bytes, or float32 or float16 for F32 and F16.

    Raises:
        QuantError: If the row length is not a multiple of the block size, or a value is not finite.
        NotImplementedError: If the type cannot be encoded, or requires `imatrix`.
    """
    if qtype == GGMLQuantizationType.F32:
        return data.astype(np.float32, copy=False)
    if qtype == GGMLQuantizationType.F16:
        return data.astype(np.float16, copy=False)
    found = _class_of(qtype)
    if found is None:
        raise NotImplementedError(f"Quantization for {qtype.name} is not yet implemented")
    return found.quantize(data, imatrix)


def dequantize(data: Array, qtype: GGMLQuantizationType) -> Any:
    """Decode an array with rows of bytes, which are blocks of a type, to float32."""
    if qtype == GGMLQuantizationType.F32:
        return data.view(np.float32)
    if qtype == GGMLQuantizationType.F16:
        return data.view(np.float16).astype(np.float32)
    found = _class_of(qtype)
    if found is None:
        raise NotImplementedError(f"Dequantization for {qtype.name} is not yet implemented")
    return found.dequantize(data)


class BF16(_Quant, qtype=GGMLQuantizationType.BF16):
    """16 bits: the upper halves of float32."""


class Q4_0(_Quant, qtype=GGMLQuantizationType.Q4_0):
    """4-bit integers with a scale per block."""


class Q4_1(_Quant, qtype=GGMLQuantizationType.Q4_1):
    """4-bit integers with a scale and a minimum per block."""


class Q5_0(_Quant, qtype=GGMLQuantizationType.Q5_0):
    """5-bit integers with a scale per block."""


class Q5_1(_Quant, qtype=GGMLQuantizationType.Q5_1):
    """5-bit integers with a scale and a minimum per block."""


class Q8_0(_Quant, qtype=GGMLQuantizationType.Q8_0):
    """8-bit integers with a scale per block."""


class Q2_K(_Quant, qtype=GGMLQuantizationType.Q2_K):
    """2-bit integers in super-blocks with groups of 16."""


class Q3_K(_Quant, qtype=GGMLQuantizationType.Q3_K):
    """3-bit integers in super-blocks with groups of 16."""


class Q4_K(_Quant, qtype=GGMLQuantizationType.Q4_K):
    """4-bit integers in super-blocks with groups of 32."""

    K_SCALE_SIZE = 12

    @staticmethod
    def get_scale_min(scales: Array) -> tuple[Array, Array]:
        """Unpack 8 scales and 8 minima of 6 bits from 12 bytes; each is uint8 of shape (n, 8)."""
        low_d, low_m, high = np.moveaxis(scales.view(np.uint8).reshape((-1, 3, 4)), 1, 0)
        scale = np.concatenate([low_d & 0x3F, (high & 0x0F) | ((low_d >> 2) & 0x30)], axis=-1)
        minimum = np.concatenate([low_m & 0x3F, (high >> 4) | ((low_m >> 2) & 0x30)], axis=-1)
        return scale, minimum


class Q5_K(_Quant, qtype=GGMLQuantizationType.Q5_K):
    """5-bit integers in super-blocks with groups of 32."""


class Q6_K(_Quant, qtype=GGMLQuantizationType.Q6_K):
    """6-bit integers in super-blocks with groups of 16."""


class TQ1_0(_Quant, qtype=GGMLQuantizationType.TQ1_0):
    """Ternary values, five per byte."""


class TQ2_0(_Quant, qtype=GGMLQuantizationType.TQ2_0):
    """Ternary values, four per byte."""


# The values of E2M1, doubled.
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


class MXFP4(_Quant, qtype=GGMLQuantizationType.MXFP4):
    """E2M1 values with an E8M0 scale per block."""

    kvalues = _E2M1

    @staticmethod
    def e8m0_to_fp32_half(x: Array) -> Array:
        """Decode E8M0 bytes to float32, divided by 2."""
        small = np.uint32(0x0020_0000) << np.uint32(x)
        return np.where(x < 2, small, np.uint32(x - 1) << np.uint32(23)).view(np.float32)


class NVFP4(_Quant, qtype=GGMLQuantizationType.NVFP4):
    """E2M1 values with unsigned E4M3 scales."""

    kvalues = _E2M1

    @staticmethod
    def ue4m3_to_fp32(x: Array) -> Array:
        """Decode unsigned E4M3 bytes to float32, divided by 2; 0x7f, which is NaN, becomes 0."""
        exponent = (x.astype(np.int32) >> 3) & 0xF
        mantissa = (x & 0x7).astype(np.float32)
        value = np.where(
            exponent == 0, np.ldexp(mantissa, -9), np.ldexp(1 + mantissa / 8, exponent - 7)
        )
        return np.where((x == 0) | (x == 0x7F), 0.0, value * 0.5)

    @staticmethod
    def fp32_to_ue4m3(x: Array) -> Array:
        """Encode as unsigned E4M3, with the rounding of ggml."""
        value = np.clip(x, 0.0, 448.0).astype(np.float32)
        bits = value.view(np.uint32).astype(np.int64)
        exponent = (bits >> 23) - 120
        # The first three bits of the mantissa, and one bit for rounding.
        rounded = (exponent << 3) + ((bits >> 20) & 7) + ((bits >> 19) & 1)
        small = np.clip((value * 512 + 0.5).astype(np.int64), 0, 7)
        found = np.where(exponent <= 0, small, np.minimum(rounded, 0x7E))
        found = np.where((exponent > 0) & (rounded >= 15 << 3), 0x7E, found)
        return np.where(value <= 0, 0, found).astype(np.uint8)


class Q1_0(_Quant, qtype=GGMLQuantizationType.Q1_0, listed=False):
    """1-bit values with a scale per block."""


class Q2_0(_Quant, qtype=GGMLQuantizationType.Q2_0, listed=False):
    """2-bit values with a scale per block."""


class Q8_1(_Quant, qtype=GGMLQuantizationType.Q8_1, listed=False):
    """8-bit integers with a scale and a sum per block, for activations."""


class Q8_K(_Quant, qtype=GGMLQuantizationType.Q8_K, listed=False):
    """8-bit integers in blocks of 256, for activations."""


class _GridHex:
    """The grid of a type as indices into `grid_map`, in hexadecimal digits."""

    def __get__(self, instance: object, owner: type[_Grid]) -> bytes:
        bits = ceil(log2(len(owner.grid_map)))
        numbers = np.searchsorted(owner.grid_map, owner._grid_values())
        parts = numbers.reshape((-1, 8 // bits)) << np.arange(0, 8, bits)[: 8 // bits]
        if bits == 3:
            parts = numbers.reshape((-1, 2)) << np.array([0, 4])
        packed: Array = np.bitwise_or.reduce(parts, axis=-1).astype(np.uint8)
        return packed.tobytes().hex().encode()


class _Grid(_Quant):
    """A type that encodes groups of values as points of a grid."""

    grid: Array | None = None
    grid_shape: tuple[int, int]
    grid_map: tuple[int, ...]
    grid_hex = _GridHex()

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        """Write the points `index` to zeroed blocks; grid values are (decoded value - b) / a."""
        raise NotImplementedError

    @classmethod
    def _grid_values(cls) -> Array:
        """Decode the points of the grid from blocks that contain all of them."""
        count, length = cls.grid_shape
        per_block = 256 // length
        index = np.arange(count).reshape((-1, per_block))
        blocks, a, b = cls._probe(np.zeros((len(index), cls.type_size), np.uint8), index)
        values = (cls.dequantize_rows(blocks).reshape(cls.grid_shape) - b) / a
        return values.astype(np.float32)

    @classmethod
    def init_grid(cls) -> None:
        if cls.grid is None:
            cls.grid = cls._grid_values().reshape((1, 1, *cls.grid_shape))


def _scale(block: Array, value: float) -> None:
    block[:, :2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)


class IQ2_XXS(_Grid, qtype=GGMLQuantizationType.IQ2_XXS):
    """Groups of 8 values as one of 256 points, with signs."""

    grid_shape = (256, 8)
    grid_map = (0x08, 0x19, 0x2B)
    # Seven signs, and an eighth that makes the number of minus signs even.
    ksigns: bytes = bytes(signs | (signs.bit_count() & 1) << 7 for signs in range(128))

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 8.0)
        block[:, 2:].reshape((-1, 8, 8))[:, :, :4] = index.reshape((-1, 8, 4))
        return block, 1.0, 0.0


class IQ2_XS(_Grid, qtype=GGMLQuantizationType.IQ2_XS):
    """Groups of 8 values as one of 512 points, with signs."""

    grid_shape = (512, 8)
    grid_map = (0x08, 0x19, 0x2B)

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 8.0)
        block[:, 2:66] = index.astype("<u2").view(np.uint8)
        return block, 1.0, 0.0


class IQ2_S(_Grid, qtype=GGMLQuantizationType.IQ2_S):
    """Groups of 8 values as one of 1024 points, with signs."""

    grid_shape = (1024, 8)
    grid_map = (0x08, 0x19, 0x2B)

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 8.0)
        block[:, 2:34] = index & 0xFF
        high = (index >> 8).reshape((-1, 8, 4)) << np.array([0, 2, 4, 6])
        block[:, 66:74] = np.bitwise_or.reduce(high, axis=-1)
        return block, 1.0, 0.0


class IQ3_XXS(_Grid, qtype=GGMLQuantizationType.IQ3_XXS):
    """Groups of 4 values as one of 256 points, with signs."""

    grid_shape = (256, 4)
    grid_map = (0x04, 0x0C, 0x14, 0x1C, 0x24, 0x2C, 0x34, 0x3E)

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 4.0)
        block[:, 2:66] = index
        return block, 1.0, 0.0


class IQ3_S(_Grid, qtype=GGMLQuantizationType.IQ3_S):
    """Groups of 4 values as one of 512 points, with signs."""

    grid_shape = (512, 4)
    grid_map = (0x01, 0x03, 0x05, 0x07, 0x09, 0x0B, 0x0D, 0x0F)

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 1.0)
        block[:, 2:66] = index & 0xFF
        high = (index >> 8).reshape((-1, 8, 8)) << np.arange(8)
        block[:, 66:74] = np.bitwise_or.reduce(high, axis=-1)
        return block, 1.0, 0.0


class IQ1_S(_Grid, qtype=GGMLQuantizationType.IQ1_S):
    """Groups of 8 values as one of 2048 points, shifted by 1/8."""

    grid_shape = (2048, 8)
    grid_map = (-1, 0, 1)
    delta = np.float32(0.125)

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 1.0)
        block[:, 2:34] = index & 0xFF
        high = (index >> 8).reshape((-1, 8, 4)) << np.array([0, 3, 6, 9])
        block[:, 34:50] = np.bitwise_or.reduce(high, axis=-1).astype("<u2").view(np.uint8)
        return block, 1.0, float(cls.delta)


class IQ1_M(_Grid, qtype=GGMLQuantizationType.IQ1_M):
    """Groups of 8 values as one of 2048 points, shifted by 1/8, with more scales."""

    grid_shape = IQ1_S.grid_shape
    grid_map = IQ1_S.grid_map
    delta = IQ1_S.delta

    @classmethod
    def _grid_values(cls) -> Array:
        return IQ1_S._grid_values()


class IQ4_NL(_Quant, qtype=GGMLQuantizationType.IQ4_NL):
    """Indices of 16 non-linear values with a scale per block."""

    kvalues = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


class IQ4_XS(_Quant, qtype=GGMLQuantizationType.IQ4_XS):
    """Indices of 16 non-linear values in super-blocks with groups of 32."""
