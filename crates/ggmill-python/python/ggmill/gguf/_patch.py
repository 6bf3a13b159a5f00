"""An installed `gguf`: made faster, and asked for what is not served here."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from . import gguf_reader, quants
from .constants import GGMLQuantizationType

# Types that are converted without a class.
_FLOATS = frozenset({GGMLQuantizationType.F32, GGMLQuantizationType.F16})


class FallbackWarning(UserWarning):
    """A name that ggmill.gguf does not serve was taken from an installed `gguf`."""


def from_installed(name: str) -> Any:
    """A name of an installed `gguf`, with a `FallbackWarning`; AttributeError without one."""
    missing = f"module 'ggmill.gguf' has no attribute {name!r}"
    if name.startswith("__"):
        raise AttributeError(missing)
    try:
        installed = importlib.import_module("gguf")
    except ImportError:
        raise AttributeError(missing) from None
    # A program may have put this module in the place of `gguf`.
    if installed.__name__ == __package__ or name not in vars(installed):
        raise AttributeError(missing)
    warnings.warn(
        f"ggmill.gguf does not serve {name!r}: taken from the installed gguf",
        FallbackWarning,
        stacklevel=3,
    )
    return getattr(installed, name)


def patch(module: ModuleType | None = None) -> ModuleType:
    """Speeds up an installed `gguf` in place, and returns it.

    Its `GGUFReader` opens files in milliseconds, and its quantization uses the codecs of ggmill,
    also for the types that it cannot quantize to. Its enumerations, constants and other classes
    stay what they are. Call it before other libraries take names out of `gguf`; calling it again
    changes nothing. `module` is the package if it is not to be imported by its name. ImportError if
    there is none.
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
    """The class for a type of another package, or None."""
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
    """Their function, and ours for types that they have no class for."""
    original = getattr(theirs, name)

    def call(data: Any, qtype: Any) -> Any:
        plain = qtype in theirs._type_traits or int(qtype) in _FLOATS
        ours = None if plain else _ours(qtype)
        return original(data, qtype) if ours is None else getattr(ours, name)(data)

    call.__name__ = name
    call.__doc__ = getattr(quants, name).__doc__
    return call


def _patch_class(traits: Any, ours: Any, theirs: ModuleType) -> None:
    """Lets a class of theirs convert with our codecs; arrays that are lazy stay theirs."""

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
            lambda rows: traits.quantize_rows(rows), meta_noop=(np.uint8, ours._shape_to_bytes)
        ),
        "dequantize": lazy._wrap_fn(
            lambda rows: traits.dequantize_rows(rows),
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
        setattr(traits, function.__name__, classmethod(function))
