"""The API of the Python package `gguf`, served by ggmill: `import ggmill.gguf as gguf`.

Names, arguments, results, files and errors are those of `gguf`, of the version that
`__version__` says and the keys, architectures and types that llama.cpp has added since. What is
not served is taken from an installed `gguf`, with a `FallbackWarning`. `patch` speeds up an
installed `gguf` in place, for libraries that import it by that name.
"""

from __future__ import annotations

from typing import Any

from . import (
    constants,
    gguf_reader,
    gguf_writer,
    lazy,
    metadata,
    quants,
    tensor_mapping,
    utility,
    vocab,
)
from ._patch import FallbackWarning, from_installed, patch
from .constants import *
from .gguf_reader import *
from .gguf_writer import *
from .lazy import *
from .metadata import Metadata
from .quants import *
from .tensor_mapping import *
from .utility import *
from .vocab import *

# The version of `gguf` whose API this is.
__version__ = "0.19.0"


def __getattr__(name: str) -> Any:
    return from_installed(name)
