"""Type stubs of the private extension module. Use the package `ggmill` instead."""

from collections.abc import Sequence
from typing import Any, Callable, Optional, TypedDict

import numpy as np
import numpy.typing as npt

VERSION: str

_Callback = Optional[Callable[[int, int, str], Optional[bool]]]
_Bytes = npt.NDArray[np.uint8]
_Floats = npt.NDArray[np.float32]
_Entry = tuple[str | bytes, list[int], Any]
_TensorInfo = tuple[str | bytes, int, list[int]]

class TypeFacts(TypedDict):
    number: int
    name: str
    block_size: int
    type_size: int
    is_quantized: bool
    decodes: bool
    encodes: bool
    needs_weights: bool

class Types(TypedDict):
    imatrix: str | None
    pure: bool
    allow_requantize: bool
    allow_zeros: bool
    leave_output_tensor: bool
    output_tensor_type: str | None
    token_embedding_type: str | None
    tensor_types: list[tuple[str, str]]
    prune_layers: list[int]
    calibrate_text: str | None
    calibrate_tokens: list[int] | None
    calibrate_context: int
    calibrate_memory: int
    target_size: int | None
    target_bpw: float | None
    type_plan: str | None

class Conversion(TypedDict):
    base: str | None
    name: str | None
    metadata: str | None
    arch_files: list[str]
    no_vocab: bool
    assume_defaults: bool
    vocab_only: bool
    mmproj: bool
    pre: str | None
    check: bool

class Memory: ...

class SharedPlan:
    def document(self) -> str: ...
    def header(self) -> bytes: ...
    def range(
        self, start: int, stop: int, *, threads: int | None = None, progress: _Callback = None
    ) -> bytes: ...

class Array:
    def __len__(self) -> int: ...
    @property
    def element_type(self) -> int: ...
    def get(self, number: int) -> Any: ...
    def range(self, start: int, stop: int, stride: int) -> list[Any]: ...
    def tolist(self) -> list[Any]: ...
    def raw(self) -> _Bytes: ...
    def places_of_strings(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]: ...

class Tensor:
    @property
    def name(self) -> str: ...
    @property
    def type_number(self) -> int: ...
    @property
    def dimensions(self) -> list[int]: ...
    @property
    def offset(self) -> int: ...
    @property
    def info_offset(self) -> int: ...
    @property
    def size(self) -> int | None: ...
    @property
    def part(self) -> int: ...
    @property
    def path(self) -> str | None: ...
    @property
    def big_endian(self) -> bool: ...
    def raw(self) -> _Bytes: ...
    def canonical(self) -> _Bytes: ...
    def dequantize(self, start: int, stop: int, *, threads: int | None = None) -> _Floats: ...

class Model:
    def __init__(
        self, path: str, *, mmap: bool = True, alone: bool = False, damaged: bool = False
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def path(self) -> str: ...
    @property
    def mapped(self) -> bool: ...
    def paths(self) -> list[str]: ...
    def part_count(self) -> int: ...
    def version(self) -> int: ...
    def big_endian(self) -> bool: ...
    def layout(self, part: int) -> tuple[int | None, int, int, int]: ...
    def entries(self, part: int) -> list[tuple[str, int, int, int, int]]: ...
    def value(self, part: int, key: str | bytes, occurrence: int = 0) -> Any: ...
    def tensor_count(self) -> int: ...
    def tensor_names(self) -> list[str]: ...
    def tensor(self, number: int) -> Tensor: ...
    def bytes(self, part: int) -> _Bytes: ...
    def faults(self) -> list[str]: ...
    def verify(self) -> None: ...
    def text(self, *, full: bool = False, width: int | None = None) -> str: ...
    def json(self, *, full: bool = False) -> str: ...

class Tokenizer:
    def __init__(self, model: Model, *, pre: str | None = None) -> None: ...
    @staticmethod
    def of_files(
        path: str, *, pre: str | None = None
    ) -> tuple[Tokenizer, list[str]] | None: ...
    def __len__(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def pre_tokenizer(self) -> str | None: ...
    def special_ids(self) -> list[tuple[str, int | None]]: ...
    def end_of_generation(self) -> list[int]: ...
    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]: ...
    def encode_with_offsets(
        self,
        text: str | bytes,
        *,
        add_special: bool = True,
        parse_special: bool = False,
        characters: bool = False,
    ) -> list[tuple[int, int, int]]: ...
    def encode_batch(
        self,
        texts: list[str | bytes],
        *,
        add_special: bool = True,
        parse_special: bool = False,
        threads: int | None = None,
    ) -> list[list[int]]: ...
    def count_batch(
        self,
        texts: list[str | bytes],
        *,
        add_special: bool = True,
        parse_special: bool = False,
        threads: int | None = None,
    ) -> list[int]: ...
    def count(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> int: ...
    def decode_bytes(
        self, ids: list[int], *, remove_special: bool = False, unparse_special: bool = False
    ) -> bytes: ...
    def piece(self, id: int) -> bytes | None: ...
    def id(self, text: str | bytes) -> int | None: ...

class Template:
    def __init__(self, text: str) -> None: ...
    def render(
        self,
        messages: str,
        *,
        tools: str | None = None,
        documents: str | None = None,
        add_generation_prompt: bool = False,
        variables: list[tuple[str, str]] = ...,
        tokens: list[tuple[str, str]] = ...,
        now: int | None = None,
    ) -> Rendered: ...

class Rendered:
    def text(self) -> str: ...
    def segments(self) -> list[tuple[int, int, str | None, bool]]: ...
    def missing_variables(self) -> list[str]: ...
    def encode(
        self, tokenizer: Tokenizer
    ) -> tuple[list[tuple[int, int, int]], list[bool], list[tuple[int, int, int, str]]]: ...

def templates(model: Model) -> list[tuple[str | None, str]]: ...
def templates_of_text(
    text: str,
) -> tuple[list[tuple[str | None, str]], list[tuple[str, str]]]: ...
def template_tokens(tokenizer: Tokenizer) -> list[tuple[str, str]]: ...
def rename_no_replace(source: str, target: str) -> None: ...
def types() -> list[TypeFacts]: ...
def quantize(
    type_number: int,
    values: _Floats,
    row_len: int,
    weights: _Floats | None = None,
    *,
    check: bool = False,
    threads: int | None = None,
) -> _Bytes: ...
def dequantize(type_number: int, blocks: _Bytes, *, threads: int | None = None) -> _Floats: ...
def swap_bytes(type_number: int, blocks: _Bytes) -> _Bytes: ...
def string_offsets(
    buffer: _Bytes, offset: int, count: int, *, big_endian: bool = False
) -> npt.NDArray[np.int64]: ...
def header(
    metadata: list[_Entry],
    tensors: list[_TensorInfo],
    *,
    big_endian: bool = False,
    version_2: bool = False,
    pad: bool = False,
) -> tuple[bytes, list[tuple[int, int]], int]: ...
def write_file(
    path: str,
    metadata: list[_Entry],
    tensors: list[_TensorInfo],
    data: Sequence[_Bytes | Callable[[], _Bytes]],
    *,
    big_endian: bool = False,
    version_2: bool = False,
    overwrite: bool = False,
    progress: _Callback = None,
) -> None: ...
def check(
    path: str,
    *,
    data: bool = False,
    profile: str = "all",
    select: list[str] = ...,
    ignore: list[str] = ...,
    most: int = 20,
    threads: int | None = None,
    progress: _Callback = None,
) -> tuple[str, str]: ...
def vet(path: str, *, progress: _Callback = None) -> str: ...
def verify(
    path: str,
    source: str,
    *,
    imatrix: str | None = None,
    threads: int | None = None,
    progress: _Callback = None,
) -> str: ...
def diff(
    a: str,
    b: str,
    *,
    metadata: bool = True,
    tensors: bool = True,
    keys: list[str] = ...,
    names: list[str] = ...,
    data: bool = False,
    full: bool = False,
    threads: int | None = None,
    progress: _Callback = None,
) -> tuple[bool, str, str]: ...
def hash(
    path: str,
    kinds: list[str],
    *,
    tensors: bool = True,
    threads: int | None = None,
    progress: _Callback = None,
) -> list[tuple[str, str, str | None]]: ...
class _Text(TypedDict):
    text: str | None
    tokens: list[int] | None
    context: int
    first_chunk: int
    chunks: int | None
    memory: int
    threads: int | None

def measure(
    paths: list[str],
    text: _Text,
    *,
    against: str | None = None,
    progress: _Callback = None,
) -> str: ...
def merge_scores(parts: list[str]) -> str: ...
def measurement(scores: str) -> str: ...
def imatrix(
    path: str,
    text: _Text,
    *,
    matrices: str,
    dataset: str | None = None,
    progress: _Callback = None,
) -> bytes: ...
def merge_imatrices(parts: list[bytes]) -> bytes: ...
def imatrix_bytes(path: str) -> bytes: ...
def save_imatrix(imatrix: bytes, path: str, *, overwrite: bool = False) -> None: ...

class _Run(TypedDict):
    context: int | None
    sequences: int
    batch: int
    micro_batch: int
    unified: bool
    key_type: str
    value_type: str
    flash_attention: str
    full_windows: bool
    layers: int
    shares: list[float]
    overrides: list[str]
    context_on_host: bool

def estimate(
    path: str,
    run: _Run,
    *,
    fit: list[int] | None = None,
    projector: str | None = None,
    adapters: list[str] = ...,
    draft: str | None = None,
) -> str: ...
def edit(
    path: str,
    *,
    set: list[tuple[str, list[int] | None, Any]] = ...,
    unset: list[str] = ...,
    rename: list[tuple[str, str]] = ...,
    special_tokens: list[tuple[str, str]] = ...,
    output: str | None = None,
    overwrite: bool = False,
    check: bool = True,
    dry_run: bool = False,
    progress: _Callback = None,
) -> str: ...
def extract(
    path: str,
    output: str,
    format: str,
    *,
    names: list[str] = ...,
    keys: list[str] = ...,
    raw: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    progress: _Callback = None,
) -> int: ...
def quantize_file(
    path: str,
    output: str,
    type_name: str | None,
    types: Types,
    *,
    max_size: int | None = None,
    max_tensors: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: _Callback = None,
) -> str: ...
def plan_quantize(
    path: str,
    output: str,
    type_name: str | None,
    types: Types,
    *,
    overwrite: bool = False,
    threads: int | None = None,
) -> SharedPlan: ...
def convert(
    path: str,
    output: str,
    type_name: str,
    types: Types,
    conversion: Conversion,
    *,
    max_size: int | None = None,
    max_tensors: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: _Callback = None,
) -> str: ...
def plan_convert(
    path: str,
    output: str,
    type_name: str,
    types: Types,
    conversion: Conversion,
    *,
    overwrite: bool = False,
    threads: int | None = None,
) -> SharedPlan: ...
def split(
    path: str,
    prefix: str,
    *,
    max_size: int | None = None,
    max_tensors: int | None = None,
    no_tensor_first: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: _Callback = None,
) -> str: ...
def merge(
    paths: list[str],
    output: str,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: _Callback = None,
) -> str: ...
