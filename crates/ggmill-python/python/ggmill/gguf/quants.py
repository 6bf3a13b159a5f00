"""Arrays of numbers to blocks and back, for every type, by the codecs of ggmill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2
from typing import Any

import numpy as np

from .._native import dequantize as _decode
from .._native import quantize as _encode
from .constants import GGML_QUANT_SIZES, GGMLQuantizationType
from .lazy import LazyNumpyTensor

Array = np.ndarray[Any, Any]

# Types that cannot be made without an importance matrix.
_NEEDS_IMATRIX = frozenset(
    {GGMLQuantizationType.IQ2_XXS, GGMLQuantizationType.IQ2_XS, GGMLQuantizationType.IQ1_S}
)


class QuantError(Exception):
    """An array that cannot be quantized to a type."""


def quant_shape_to_byte_shape(
    shape: Sequence[int], quant_type: GGMLQuantizationType
) -> tuple[int, ...]:
    """The shape in bytes of an array of this shape in elements, both in numpy's order."""
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
    """The shape in elements of an array of this shape in bytes, both in numpy's order."""
    block_size, type_size = GGML_QUANT_SIZES[quant_type]
    if shape[-1] % type_size != 0:
        raise ValueError(
            f"Quantized tensor bytes per row ({shape[-1]}) is not a multiple of "
            f"{quant_type.name} type size ({type_size})"
        )
    return (*shape[:-1], shape[-1] // type_size * block_size)


def np_roundf(n: Array) -> Array:
    """Rounds to the nearest integer, halves away from zero."""
    magnitude = abs(n)
    whole = np.floor(magnitude)
    return np.sign(n) * (whole + np.floor(2 * (magnitude - whole)))


class _Quant:
    """The conversions of one type. A class, never an instance."""

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
        """Makes `grid`, for the types that have one."""

    @classmethod
    def quantize_blocks(cls, blocks: Array) -> Array:
        """(n, `block_size`) float32 to (n, `type_size`) uint8."""
        return cls.quantize_rows(blocks)

    @classmethod
    def dequantize_blocks(cls, blocks: Array) -> Array:
        """(n, `type_size`) uint8 to (n, `block_size`) float32."""
        return cls.dequantize_rows(blocks)

    @classmethod
    def quantize_rows(cls, rows: Array, imatrix: Array | None = None) -> Array:
        """Any shape in elements to the same in bytes, uint8."""
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
        """Any shape in bytes to the same in elements, float32."""
        blocks = np.ascontiguousarray(rows).view(np.uint8)
        shape = cls._shape_from_bytes(blocks.shape)
        return _decode(int(cls.qtype), blocks.ravel()).reshape(shape)

    @classmethod
    def can_quantize(cls, tensor: Array | LazyNumpyTensor) -> bool:
        """Whether rows of this array are whole blocks."""
        return tensor.shape[-1] % cls.block_size == 0

    @classmethod
    def quantize(cls, tensor: Array | LazyNumpyTensor, imatrix: Array | None = None) -> Any:
        """An array in blocks of this type; QuantError if rows are not whole blocks."""
        if not cls.can_quantize(tensor):
            raise QuantError(f"Can't quantize tensor with shape {tensor.shape} to {cls.qtype.name}")
        if isinstance(tensor, LazyNumpyTensor):
            extra = {} if imatrix is None else {"imatrix": imatrix}
            return cls._quantize_lazy(tensor, **extra)
        return cls.quantize_rows(tensor, imatrix)

    @classmethod
    def dequantize(cls, tensor: Array | LazyNumpyTensor) -> Any:
        """The float32 values of blocks of this type."""
        if isinstance(tensor, LazyNumpyTensor):
            return cls._dequantize_lazy(tensor)
        return cls.dequantize_rows(tensor)


_type_traits: dict[GGMLQuantizationType, type[_Quant]] = {}
# Types that the reference has no class for.
_more_types: dict[GGMLQuantizationType, type[_Quant]] = {}


def _class_of(qtype: GGMLQuantizationType) -> type[_Quant] | None:
    return _type_traits.get(qtype) or _more_types.get(qtype)


def quantize(data: Array, qtype: GGMLQuantizationType, imatrix: Array | None = None) -> Any:
    """An array in blocks of a type: uint8 with rows of bytes, or float32 or float16.

    `imatrix` has one weight for each column. QuantError if rows are not whole blocks or a value is
    not finite, NotImplementedError for a type that cannot be made, or not without weights.
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
    """The float32 values of an array in blocks of a type, with rows of bytes."""
    if qtype == GGMLQuantizationType.F32:
        return data.view(np.float32)
    if qtype == GGMLQuantizationType.F16:
        return data.view(np.float16).astype(np.float32)
    found = _class_of(qtype)
    if found is None:
        raise NotImplementedError(f"Dequantization for {qtype.name} is not yet implemented")
    return found.dequantize(data)


class BF16(_Quant, qtype=GGMLQuantizationType.BF16):
    """Upper halves of float32."""


class Q4_0(_Quant, qtype=GGMLQuantizationType.Q4_0):
    """Four bits and a scale."""


class Q4_1(_Quant, qtype=GGMLQuantizationType.Q4_1):
    """Four bits, a scale and a minimum."""


class Q5_0(_Quant, qtype=GGMLQuantizationType.Q5_0):
    """Five bits and a scale."""


class Q5_1(_Quant, qtype=GGMLQuantizationType.Q5_1):
    """Five bits, a scale and a minimum."""


class Q8_0(_Quant, qtype=GGMLQuantizationType.Q8_0):
    """Eight bits and a scale."""


class Q2_K(_Quant, qtype=GGMLQuantizationType.Q2_K):
    """Two bits in groups of 16."""


class Q3_K(_Quant, qtype=GGMLQuantizationType.Q3_K):
    """Three bits in groups of 16."""


class Q4_K(_Quant, qtype=GGMLQuantizationType.Q4_K):
    """Four bits in groups of 32."""

    K_SCALE_SIZE = 12

    @staticmethod
    def get_scale_min(scales: Array) -> tuple[Array, Array]:
        """The eight scales and eight minima of six bits in 12 bytes, each (n, 8) uint8."""
        low_d, low_m, high = np.moveaxis(scales.view(np.uint8).reshape((-1, 3, 4)), 1, 0)
        scale = np.concatenate([low_d & 0x3F, (high & 0x0F) | ((low_d >> 2) & 0x30)], axis=-1)
        minimum = np.concatenate([low_m & 0x3F, (high >> 4) | ((low_m >> 2) & 0x30)], axis=-1)
        return scale, minimum


class Q5_K(_Quant, qtype=GGMLQuantizationType.Q5_K):
    """Five bits in groups of 32."""


class Q6_K(_Quant, qtype=GGMLQuantizationType.Q6_K):
    """Six bits in groups of 16."""


class TQ1_0(_Quant, qtype=GGMLQuantizationType.TQ1_0):
    """Three values, five in a byte."""


class TQ2_0(_Quant, qtype=GGMLQuantizationType.TQ2_0):
    """Three values, four in a byte."""


# Values of E2M1, doubled.
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


class MXFP4(_Quant, qtype=GGMLQuantizationType.MXFP4):
    """Values of E2M1 with a scale of E8M0."""

    kvalues = _E2M1

    @staticmethod
    def e8m0_to_fp32_half(x: Array) -> Array:
        """Half of the value of bytes in E8M0, as float32."""
        small = np.uint32(0x0020_0000) << np.uint32(x)
        return np.where(x < 2, small, np.uint32(x - 1) << np.uint32(23)).view(np.float32)


class NVFP4(_Quant, qtype=GGMLQuantizationType.NVFP4):
    """Values of E2M1 with scales of E4M3 without a sign."""

    kvalues = _E2M1

    @staticmethod
    def ue4m3_to_fp32(x: Array) -> Array:
        """Half of the value of bytes in E4M3 without a sign; 0x7f, which is NaN, is 0."""
        exponent = (x.astype(np.int32) >> 3) & 0xF
        mantissa = (x & 0x7).astype(np.float32)
        value = np.where(
            exponent == 0, np.ldexp(mantissa, -9), np.ldexp(1 + mantissa / 8, exponent - 7)
        )
        return np.where((x == 0) | (x == 0x7F), 0.0, value * 0.5)

    @staticmethod
    def fp32_to_ue4m3(x: Array) -> Array:
        """The nearest byte in E4M3 without a sign, as ggml rounds."""
        value = np.clip(x, 0.0, 448.0).astype(np.float32)
        bits = value.view(np.uint32).astype(np.int64)
        exponent = (bits >> 23) - 120
        # The first three bits of the mantissa, and one for rounding.
        rounded = (exponent << 3) + ((bits >> 20) & 7) + ((bits >> 19) & 1)
        small = np.clip((value * 512 + 0.5).astype(np.int64), 0, 7)
        found = np.where(exponent <= 0, small, np.minimum(rounded, 0x7E))
        found = np.where((exponent > 0) & (rounded >= 15 << 3), 0x7E, found)
        return np.where(value <= 0, 0, found).astype(np.uint8)


class Q1_0(_Quant, qtype=GGMLQuantizationType.Q1_0, listed=False):
    """One bit and a scale."""


class Q2_0(_Quant, qtype=GGMLQuantizationType.Q2_0, listed=False):
    """Two bits and a scale."""


class Q8_1(_Quant, qtype=GGMLQuantizationType.Q8_1, listed=False):
    """Eight bits, a scale and a sum: what activations are turned into."""


class Q8_K(_Quant, qtype=GGMLQuantizationType.Q8_K, listed=False):
    """Eight bits in blocks of 256: what activations are turned into."""


class _GridHex:
    """`grid_hex` of a type: its grid as numbers of values in `grid_map`, in hexadecimal digits."""

    def __get__(self, instance: object, owner: type[_Grid]) -> bytes:
        bits = ceil(log2(len(owner.grid_map)))
        numbers = np.searchsorted(owner.grid_map, owner._grid_values())
        parts = numbers.reshape((-1, 8 // bits)) << np.arange(0, 8, bits)[: 8 // bits]
        if bits == 3:
            parts = numbers.reshape((-1, 2)) << np.array([0, 4])
        return np.bitwise_or.reduce(parts, axis=-1).astype(np.uint8).tobytes().hex().encode()


class _Grid(_Quant):
    """A type whose groups of values are points of a grid."""

    grid: Array | None = None
    grid_shape: tuple[int, int]
    grid_map: tuple[int, ...]
    grid_hex = _GridHex()

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        """Sets the points `index` in blocks of zeros: values are (what is read - b) / a."""
        raise NotImplementedError

    @classmethod
    def _grid_values(cls) -> Array:
        """The points of the grid, read from blocks that have them all."""
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
    """Eight values as one of 256 points, with signs."""

    grid_shape = (256, 8)
    grid_map = (0x08, 0x19, 0x2B)
    # Seven signs, and an eighth that makes their number even.
    ksigns: bytes = bytes(signs | (signs.bit_count() & 1) << 7 for signs in range(128))

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 8.0)
        block[:, 2:].reshape((-1, 8, 8))[:, :, :4] = index.reshape((-1, 8, 4))
        return block, 1.0, 0.0


class IQ2_XS(_Grid, qtype=GGMLQuantizationType.IQ2_XS):
    """Eight values as one of 512 points, with signs."""

    grid_shape = (512, 8)
    grid_map = (0x08, 0x19, 0x2B)

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 8.0)
        block[:, 2:66] = index.astype("<u2").view(np.uint8)
        return block, 1.0, 0.0


class IQ2_S(_Grid, qtype=GGMLQuantizationType.IQ2_S):
    """Eight values as one of 1024 points, with signs."""

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
    """Four values as one of 256 points, with signs."""

    grid_shape = (256, 4)
    grid_map = (0x04, 0x0C, 0x14, 0x1C, 0x24, 0x2C, 0x34, 0x3E)

    @classmethod
    def _probe(cls, block: Array, index: Array) -> tuple[Array, float, float]:
        _scale(block, 4.0)
        block[:, 2:66] = index
        return block, 1.0, 0.0


class IQ3_S(_Grid, qtype=GGMLQuantizationType.IQ3_S):
    """Four values as one of 512 points, with signs."""

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
    """Eight values as one of 2048 points, moved by an eighth."""

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
    """Eight values as one of 2048 points, moved by an eighth, with more scales."""

    grid_shape = IQ1_S.grid_shape
    grid_map = IQ1_S.grid_map
    delta = IQ1_S.delta

    @classmethod
    def _grid_values(cls) -> Array:
        return IQ1_S._grid_values()


class IQ4_NL(_Quant, qtype=GGMLQuantizationType.IQ4_NL):
    """One of 16 uneven values, and a scale."""

    kvalues = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


class IQ4_XS(_Quant, qtype=GGMLQuantizationType.IQ4_XS):
    """One of 16 uneven values, in groups of 32."""
