"""A drop-in replacement for the Python package `gguf`: `import ggmill.gguf as gguf`.

Names, arguments, results, files and errors are those of the version of `gguf` in `__version__`,
with the keys, architectures and types that llama.cpp has added since. Names that are not provided
are taken from an installed `gguf`, with a `FallbackWarning`. `patch` accelerates an installed
`gguf` in place, for libraries that import it by name.
"""

from __future__ import annotations

from typing import Any

from . import constants as constants
from . import gguf_reader as gguf_reader
from . import gguf_writer as gguf_writer
from . import lazy as lazy
from . import metadata as metadata
from . import quants as quants
from . import tensor_mapping as tensor_mapping
from . import utility as utility
from . import vocab as vocab
from ._patch import FallbackWarning as FallbackWarning
from ._patch import from_installed
from ._patch import patch as patch
from .constants import *
from .gguf_reader import *
from .gguf_writer import *
from .lazy import *
from .metadata import Metadata as Metadata
from .quants import *
from .tensor_mapping import *
from .utility import *
from .vocab import *

# The version of `gguf` whose API this is.
__version__ = "0.19.0"


def __getattr__(name: str) -> Any:
    return from_installed(name)
