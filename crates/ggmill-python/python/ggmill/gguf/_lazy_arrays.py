"""Lazy tensors: arrays of known type and shape that are computed when they are written."""

from __future__ import annotations

import logging
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ._untyped import elements

logger = logging.getLogger("gguf.lazy")

# Operators that the interpreter looks up on the class, without calling `__getattr__`.
_BINARY = (
    "lt le eq ne ge gt add and floordiv lshift mod mul matmul or pow rshift sub truediv xor "
    "iadd iand ifloordiv ilshift imod imul ior irshift isub ixor "
    "radd rand rfloordiv rmul ror rpow rsub rtruediv rxor"
).split()
_UNARY = ("not", "abs", "invert", "neg", "pos")
_OTHER = ("getitem", "setitem", "len")


def _operator(name: str, same_shape: bool) -> Callable[..., Any]:
    def apply(self: LazyBase, *args: Any, **kwargs: Any) -> Any:
        function = getattr(type(self)._tensor_type, name)
        return type(self)._wrap_fn(function, meta_noop=same_shape)(self, *args, **kwargs)

    return apply


def _attribute(self: LazyBase, name: str) -> Any:
    found = getattr(self._meta, name)
    if callable(found):

        def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(tensor, name)(*args, **kwargs)

        return type(self)._wrap_fn(call, use_self=self)
    if isinstance(found, self._tensor_type):

        def get(tensor: Any) -> Any:
            return getattr(tensor, name)

        return type(self)._wrap_fn(get)(self)
    return found


class LazyMeta(ABCMeta):
    """Metaclass that adds the operators and attributes of tensors to a class of lazy tensors."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> LazyMeta:
        namespace["__getattr__"] = _attribute
        for operator in (*_BINARY, *_OTHER):
            namespace[f"__{operator}__"] = _operator(f"__{operator}__", same_shape=False)
        for operator in _UNARY:
            namespace[f"__{operator}__"] = _operator(f"__{operator}__", same_shape=True)
        return super().__new__(cls, name, bases, namespace, **kwargs)


class LazyBase(ABC, metaclass=LazyMeta):
    """A tensor that is computed later as `_func(*_args, **_kwargs)`, or `_data` if it is known.

    `_meta` is a tensor of the same type and shape without values. Subclasses define the class of
    their tensors in `_tensor_type`, and create such tensors in `meta_with_dtype_and_shape`.
    """

    _tensor_type: type
    _meta: Any
    _data: Any | None
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _func: Callable[..., Any] | None

    def __init__(
        self,
        *,
        meta: Any,
        data: Any | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        func: Callable[..., Any] | None = None,
    ):
        super().__init__()
        self._meta = meta
        self._data = data
        self._args = args
        self._kwargs = {} if kwargs is None else kwargs
        self._func = func
        assert self._func is not None or self._data is not None

    def __init_subclass__(cls) -> None:
        if "_tensor_type" not in cls.__dict__:
            raise TypeError(f"property '_tensor_type' must be defined for {cls!r}")
        super().__init_subclass__()

    @staticmethod
    def _recurse_apply(o: Any, fn: Callable[[Any], Any]) -> Any:
        """Apply `fn` to every lazy tensor in nested lists and tuples."""
        if isinstance(o, LazyBase):
            return fn(o)
        if isinstance(o, (list, tuple)):
            applied = [LazyBase._recurse_apply(one, fn) for one in elements(o)]
            return tuple(applied) if isinstance(o, tuple) else applied
        return o

    @classmethod
    def _wrap_fn(
        cls,
        fn: Callable[..., Any],
        *,
        use_self: LazyBase | None = None,
        meta_noop: bool | DTypeLike | tuple[DTypeLike, Callable[[Any], Any]] = False,
    ) -> Callable[..., Any]:
        """Wrap a function of tensors as a function of lazy tensors.

        The type and shape of the result are determined by calling `fn` on tensors without values.
        With `meta_noop`, they are those of the first argument (True), a different dtype with the
        same shape, or a dtype and a function of the shape. Results that are not tensors are
        computed immediately.
        """

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if use_self is not None:
                args = (use_self, *args)
            if meta_noop is False:
                result = cls._result_of_meta(fn, args, kwargs)
            else:
                assert args
                assert isinstance(args[0], cls)
                result = args[0]._meta
                if isinstance(meta_noop, tuple):
                    dtype: Any = meta_noop[0]
                    shape: Any = meta_noop[1]
                    result = cls.meta_with_dtype_and_shape(dtype, shape(result.shape))
                elif meta_noop is not True:
                    result = cls.meta_with_dtype_and_shape(meta_noop, result.shape)

            if isinstance(result, cls._tensor_type):
                return cls(meta=cls.eager_to_meta(result), args=args, kwargs=kwargs, func=fn)
            if isinstance(result, tuple):
                several = tuple(elements(result))
                if all(isinstance(one, cls._tensor_type) for one in several):
                    return cls._elements(fn, args, kwargs, several)
            return fn(*cls.to_eager(args), **kwargs)

        return wrapped

    @classmethod
    def _result_of_meta(
        cls, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        try:
            return fn(*LazyBase._recurse_apply(args, lambda lazy: lazy._meta), **kwargs)
        except NotImplementedError:
            return None  # some operations need values

    @classmethod
    def _elements(
        cls,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        metas: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Return a tuple of lazy tensors that one call of `fn` computes."""
        results: list[Any] = []

        def element(index: int, /, **more: Any) -> Any:
            if not results:
                results.append(fn(*cls.to_eager(args), **more))
            return results[0][index]

        return tuple(
            cls(meta=cls.eager_to_meta(meta), args=(index,), kwargs=kwargs, func=element)
            for index, meta in enumerate(metas)
        )

    @classmethod
    def to_eager(cls, t: Any) -> Any:
        """Compute all lazy tensors in nested lists and tuples."""

        def compute(lazy: LazyBase) -> Any:
            if lazy._data is None:
                assert lazy._func is not None
                lazy._args = cls._recurse_apply(lazy._args, compute)
                lazy._data = lazy._func(*lazy._args, **lazy._kwargs)
                assert lazy._data is not None
                assert lazy._data.dtype == lazy._meta.dtype
                assert lazy._data.shape == lazy._meta.shape
            return lazy._data

        return cls._recurse_apply(t, compute)

    @classmethod
    def eager_to_meta(cls, t: Any) -> Any:
        """Return a tensor with the type and shape of `t`, without values."""
        return cls.meta_with_dtype_and_shape(t.dtype, t.shape)

    @classmethod
    @abstractmethod
    def meta_with_dtype_and_shape(cls, dtype: Any, shape: Any) -> Any:
        """Return a tensor of a type and shape that takes no memory."""

    @classmethod
    def from_eager(cls, t: Any) -> Any:
        """Convert a tensor to a lazy tensor; return a lazy tensor unchanged."""
        if type(t) is cls:
            return t
        if isinstance(t, cls._tensor_type):
            return cls(meta=cls.eager_to_meta(t), data=t)
        return TypeError(f"{type(t)!r} is not compatible with {cls._tensor_type!r}")


class LazyNumpyTensor(LazyBase):
    """A NumPy array that is computed when it is written."""

    _tensor_type = np.ndarray

    shape: tuple[int, ...]

    @classmethod
    def meta_with_dtype_and_shape(
        cls, dtype: DTypeLike, shape: tuple[int, ...]
    ) -> np.ndarray[Any, Any]:
        """Return an array whose elements share a single zero in memory."""
        return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, (0 for _ in shape))

    def astype(self, dtype: DTypeLike, *args: Any, **kwargs: Any) -> LazyNumpyTensor:
        """Convert the elements to a different type."""

        def convert(array: Any, *rest: Any, **more: Any) -> Any:
            return array.astype(*rest, **more)

        meta = type(self).meta_with_dtype_and_shape(dtype, self._meta.shape)
        return type(self)(meta=meta, args=(self, dtype, *args), kwargs=kwargs, func=convert)

    def tofile(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the array and write it."""
        return LazyNumpyTensor.to_eager(self).tofile(*args, **kwargs)
