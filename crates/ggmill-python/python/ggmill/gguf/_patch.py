"""Acceleration of an installed `gguf`, and access to names that are not provided here."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from . import gguf_reader, quants
from .constants import GGMLQuantizationType

# Types that `gguf` converts without a class.
_FLOATS = frozenset({GGMLQuantizationType.F32, GGMLQuantizationType.F16})


class FallbackWarning(UserWarning):
    """Issued if a name is taken from an installed `gguf`, because ggmill.gguf does not provide it."""


def from_installed(name: str) -> Any:
    """Return an attribute of an installed `gguf`, with a `FallbackWarning`.

    Raises AttributeError if `gguf` is not installed or has no such attribute.
    """
    missing = f"module 'ggmill.gguf' has no attribute {name!r}"
    if name.startswith("__"):
        raise AttributeError(missing)
    try:
        installed = importlib.import_module("gguf")
    except ImportError:
        raise AttributeError(missing) from None
    # A program may have replaced `gguf` by this module.
    if installed.__name__ == __package__ or name not in vars(installed):
        raise AttributeError(missing)
    warnings.warn(
        f"ggmill.gguf does not provide {name!r}: taken from the installed gguf",
        FallbackWarning,
        stacklevel=3,
    )
    return getattr(installed, name)


def patch(module: ModuleType | None = None) -> ModuleType:
    """Accelerate an installed `gguf` in place.

    `gguf.GGUFReader` then opens files in milliseconds, and `gguf.quants` uses the codecs of ggmill,
    also for types that `gguf` cannot quantize to. Enumerations, constants and other classes do not
    change. Call this function before other libraries import names from `gguf`. Calling it again has
    no effect.

    Args:
        module: The package to patch; `gguf` by default.

    Returns:
        The patched package.

    Raises:
        ImportError: If `gguf` is not installed.
    """
    if module is None:
        module = importlib.import_module("gguf")
    if getattr(module, "_patched_by_ggmill", False) or module.__name__ == __package__:
        return module
    constants = importlib.import_module(f"{module.__name__}.constants")
    _patch_quants(importlib.import_module(f"{module.__name__}.quants"), module)
    _patch_reader(importlib.import_module(f"{module.__name__}.gguf_reader"), module, constants)
    module._patched_by_ggmill = True  # type: ignore[attr-defined]
    return module


def _patch_reader(reader: ModuleType, package: ModuleType, constants: ModuleType) -> None:
    class GGUFReader(gguf_reader.GGUFReader):
        __doc__ = gguf_reader.GGUFReader.__doc__

        gguf_scalar_to_np = reader.GGUFReader.gguf_scalar_to_np
        _value_type = constants.GGUFValueType
        _tensor_type = constants.GGMLQuantizationType
        _endian = constants.GGUFEndian
        _sizes = constants.GGML_QUANT_SIZES

    for name, replacement in (
        ("GGUFReader", GGUFReader),
        ("ReaderField", gguf_reader.ReaderField),
        ("ReaderTensor", gguf_reader.ReaderTensor),
    ):
        setattr(reader, name, replacement)
        setattr(package, name, replacement)


def _ours(qtype: Any) -> Any:
    """Return the class of ggmill for a type of the other package, or None."""
    try:
        return quants._class_of(GGMLQuantizationType(int(qtype)))
    except ValueError:
        return None


def _patch_quants(theirs: ModuleType, package: ModuleType) -> None:
    for qtype, traits in theirs._type_traits.items():
        ours = _ours(qtype)
        if ours is not None:
            _patch_class(traits, ours, theirs)
    for name in ("quantize", "dequantize"):
        replacement = _with_more_types(theirs, name)
        setattr(theirs, name, replacement)
        setattr(package, name, replacement)


def _with_more_types(theirs: ModuleType, name: str) -> Callable[..., Any]:
    """Wrap a function of the other package; types without a class there use that of ggmill."""
    original = getattr(theirs, name)

    def call(data: Any, qtype: Any) -> Any:
        plain = qtype in theirs._type_traits or int(qtype) in _FLOATS
        ours = None if plain else _ours(qtype)
        return original(data, qtype) if ours is None else getattr(ours, name)(data)

    call.__name__ = name
    call.__doc__ = getattr(quants, name).__doc__
    return call


def _patch_class(traits: Any, ours: Any, theirs: ModuleType) -> None:
    """Replace the conversions of a class of the other package; lazy arrays keep their class."""

    def quantize_rows(_cls: Any, rows: Any) -> Any:
        try:
            return ours.quantize_rows(rows)
        except quants.QuantError as error:
            raise theirs.QuantError(str(error)) from error

    def dequantize_rows(_cls: Any, rows: Any) -> Any:
        return ours.dequantize_rows(rows)

    lazy = theirs.LazyNumpyTensor
    wrapped = {
        "quantize": lazy._wrap_fn(
            lambda rows: traits.quantize_rows(rows),  # pyright: ignore[reportUnknownLambdaType]
            meta_noop=(np.uint8, ours._shape_to_bytes),
        ),
        "dequantize": lazy._wrap_fn(
            lambda rows: traits.dequantize_rows(rows),  # pyright: ignore[reportUnknownLambdaType]
            meta_noop=(np.float32, ours._shape_from_bytes),
        ),
    }

    def quantize(cls: Any, tensor: Any) -> Any:
        if not cls.can_quantize(tensor):
            raise theirs.QuantError(
                f"Can't quantize tensor with shape {tensor.shape} to {cls.qtype.name}"
            )
        lazily = isinstance(tensor, lazy)
        return wrapped["quantize"](tensor) if lazily else cls.quantize_rows(tensor)

    def dequantize(cls: Any, tensor: Any) -> Any:
        lazily = isinstance(tensor, lazy)
        return wrapped["dequantize"](tensor) if lazily else cls.dequantize_rows(tensor)

    for function in (quantize_rows, dequantize_rows, quantize, dequantize):
        of_class: Any = classmethod
        setattr(traits, function.__name__, of_class(function))
