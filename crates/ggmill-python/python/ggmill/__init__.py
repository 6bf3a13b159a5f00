"""Read, check, edit, convert and quantize GGUF model files.

>>> import ggmill
>>> with ggmill.open("model.gguf") as model:              # doctest: +SKIP
...     model.metadata["general.architecture"]
...     model.tensors["output.weight"].dequantize(rows=0)

Models are memory-mapped, and arrays are views of the file where possible. Long operations release
the GIL, run on their own threads, accept a ``progress`` callback, and write their output completely
or not at all. Exceptions are subclasses of :class:`ggmill.Error`, except where Python code expects
built-in ones, such as ``KeyError``, ``IndexError`` and ``TypeError``.
"""

from __future__ import annotations

from . import quants
from ._errors import (
    ArgumentError,
    ClosedError,
    Error,
    FileError,
    ForbiddenError,
    FormatError,
    MissingError,
    NoSuchFileError,
    OutputExistsError,
    StoppedError,
    UnsupportedError,
)
from ._measure import Imatrix, Scores, imatrix, measure
from ._metadata import Array, Entry, Metadata
from ._model import (
    Model,
    PathLike,
    Refused,
    Rendered,
    RenderedTokens,
    Segment,
    Template,
    Tokenizer,
    open,
)
from ._native import VERSION as __version__
from ._operations import (
    check,
    convert,
    diff,
    edit,
    estimate,
    extract,
    hash,
    merge,
    quantize,
    split,
    verify,
    vet,
)
from ._progress import Progress
from ._reports import (
    CheckReport,
    Device,
    DiffReport,
    EditReport,
    Estimate,
    Finding,
    Hashes,
    Plan,
    Reason,
    Verdict,
    Verification,
)
from ._shared import SharedPlan
from ._tensor import Tensor, Tensors
from ._types import TENSOR_TYPES, VALUE_TYPES, TensorType, Typed
from ._write import Blocks, Deferred, write

__all__ = [
    "TENSOR_TYPES",
    "VALUE_TYPES",
    "ArgumentError",
    "Array",
    "Blocks",
    "CheckReport",
    "ClosedError",
    "Deferred",
    "Device",
    "DiffReport",
    "EditReport",
    "Entry",
    "Error",
    "Estimate",
    "FileError",
    "Finding",
    "ForbiddenError",
    "FormatError",
    "Hashes",
    "Imatrix",
    "Metadata",
    "MissingError",
    "Model",
    "NoSuchFileError",
    "OutputExistsError",
    "PathLike",
    "Plan",
    "Progress",
    "Reason",
    "Refused",
    "Rendered",
    "RenderedTokens",
    "Scores",
    "Segment",
    "SharedPlan",
    "StoppedError",
    "Template",
    "Tensor",
    "TensorType",
    "Tensors",
    "Tokenizer",
    "Typed",
    "UnsupportedError",
    "Verdict",
    "Verification",
    "__version__",
    "check",
    "convert",
    "diff",
    "edit",
    "estimate",
    "extract",
    "hash",
    "imatrix",
    "measure",
    "merge",
    "open",
    "quantize",
    "quants",
    "split",
    "verify",
    "vet",
    "write",
]
