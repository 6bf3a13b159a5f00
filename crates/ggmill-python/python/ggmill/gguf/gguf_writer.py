"""`GGUFWriter`: writes a GGUF file from metadata entries and NumPy arrays."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from io import BufferedWriter
from math import prod
from pathlib import Path
from string import ascii_letters, digits
from typing import IO, Any

import numpy as np

from ._optional import bar
from ._writer_base import GGUFValue, TensorInfo, WriterBase, WriterState
from ._writer_keys import KeyMethods
from .constants import (
    GGUF_DEFAULT_ALIGNMENT,
    GGUF_MAGIC,
    GGUF_VERSION,
    GGMLQuantizationType,
    GGUFEndian,
    GGUFValueType,
    Keys,
)
from .quants import quant_shape_from_byte_shape

__all__ = [
    "SHARD_NAME_FORMAT",
    "GGUFValue",
    "GGUFWriter",
    "TensorInfo",
    "WriterBase",
    "WriterState",
]

logger = logging.getLogger("gguf.gguf_writer")

SHARD_NAME_FORMAT = "{:s}-{:05d}-of-{:05d}.gguf"

# Maximum size of a temporary file in memory, in bytes.
_SPOOLED = 256 * 1024 * 1024

_PLAIN_TYPES = {
    np.dtype(np.float16): GGMLQuantizationType.F16,
    np.dtype(np.float32): GGMLQuantizationType.F32,
    np.dtype(np.float64): GGMLQuantizationType.F64,
    np.dtype(np.int8): GGMLQuantizationType.I8,
    np.dtype(np.int16): GGMLQuantizationType.I16,
    np.dtype(np.int32): GGMLQuantizationType.I32,
    np.dtype(np.int64): GGMLQuantizationType.I64,
}


def _host_order() -> GGUFEndian:
    return GGUFEndian.BIG if sys.byteorder == "big" else GGUFEndian.LITTLE


class GGUFWriter(KeyMethods):
    """A writer for a GGUF file or a shard set.

    There are two ways to write a file. Either call `add_tensor` for each tensor, then
    `write_header_to_file`, `write_kv_data_to_file` and `write_tensors_to_file`. Or call
    `add_tensor_info` for each tensor, then `write_header_to_file`, `write_kv_data_to_file`,
    `write_ti_data_to_file`, and `write_tensor_data` for each tensor in the same order, so that only
    one tensor must be in memory.

    `split_max_tensors` and `split_max_size` (bytes) limit the size of a shard; `small_first_shard`
    writes no tensors to the first shard. `dry_run` prints the names of the files and exits the
    program.
    """

    fout: list[BufferedWriter] | None
    path: Path | None
    temp_file: tempfile.SpooledTemporaryFile[bytes] | None
    state: WriterState

    def __init__(
        self,
        path: os.PathLike[str] | str | None,
        arch: str,
        use_temp_file: bool = False,
        endianess: GGUFEndian = GGUFEndian.LITTLE,
        split_max_tensors: int = 0,
        split_max_size: int = 0,
        dry_run: bool = False,
        small_first_shard: bool = False,
    ):
        self.fout = None
        self.path = Path(path) if path else None
        self.arch = arch
        self.endianess = endianess
        self.data_alignment = GGUF_DEFAULT_ALIGNMENT
        self.use_temp_file = use_temp_file
        self.temp_file = None
        self.tensors = [{}, {}] if small_first_shard else [{}]
        self.kv_data = [{}]
        self.split_max_tensors = split_max_tensors
        self.split_max_size = split_max_size
        self.dry_run = dry_run
        self.small_first_shard = small_first_shard
        self.state = WriterState.NO_FILE
        order = "Big" if endianess == GGUFEndian.BIG else "Little"
        logger.info(f"gguf: This GGUF file is for {order} Endian only")
        self.add_architecture()

    # ------------------------------------------------------------ tensors

    def get_total_parameter_count(self) -> tuple[int, int, int, int]:
        """Count the parameters.

        Returns:
            The number of all parameters, of shared parameters, of parameters per expert, and of
            experts: the arguments of `size_label`. The first is negative for an adapter; a pair of
            LoRA factors counts as their product.
        """
        total = shared = expert = 0
        counts: list[int] = []
        factor_a: tuple[str, TensorInfo] | None = None
        for name, info in ((n, i) for tensors in self.tensors for n, i in tensors.items()):
            shape = info.shape
            if name.endswith(".lora_a"):
                factor_a = (name, info)
                continue
            if name.endswith(".lora_b"):
                if factor_a is None or factor_a[0] != name[:-1] + "a":
                    logger.warning("can't measure LoRA size correctly, tensor order is unusual")
                    return 0, 0, 0, 0
                shape = (*shape[:-1], factor_a[1].shape[-1])
            size = prod(shape)
            if "_exps." in name and len(shape) >= 3:
                counts.append(shape[-2 if ".bias" in name else -3])
                expert += size // counts[-1]
            else:
                shared += size
            total += size
        experts = sum(counts) // len(counts) if counts else 0
        return (total if factor_a is None else -total), shared, expert, experts

    def add_tensor_info(
        self,
        name: str,
        tensor_shape: Sequence[int],
        tensor_dtype: np.dtype[Any],
        tensor_nbytes: int,
        raw_dtype: GGMLQuantizationType | None = None,
    ) -> None:
        """Add a tensor whose data will be written by `write_tensor_data`.

        `tensor_shape` is in NumPy order; it counts bytes if `tensor_dtype` is uint8 and `raw_dtype`
        is the type of the blocks. Raises ValueError for a duplicate name or an unsupported dtype.
        """
        if self.state is not WriterState.NO_FILE:
            raise ValueError(f"Expected output file to be not yet opened, got {self.state}")
        if any(name in tensors for tensors in self.tensors):
            raise ValueError(f"Duplicated tensor name {name!r}")
        if raw_dtype is None:
            found = _PLAIN_TYPES.get(np.dtype(tensor_dtype))
            if found is None:
                raise ValueError(
                    "Only F16, F32, F64, I8, I16, I32, I64 tensors are supported for now"
                )
            kind = found
        else:
            kind = raw_dtype
            if tensor_dtype == np.uint8:
                tensor_shape = quant_shape_from_byte_shape(tensor_shape, raw_dtype)
        last = self.tensors[-1]
        if last and (
            0 != self.split_max_tensors <= len(last)
            or (
                self.split_max_size != 0
                and sum(one.nbytes for one in last.values()) + tensor_nbytes > self.split_max_size
            )
        ):
            self.tensors.append({})
        self.tensors[-1][name] = TensorInfo(shape=tensor_shape, dtype=kind, nbytes=tensor_nbytes)

    def add_tensor(
        self,
        name: str,
        tensor: np.ndarray[Any, Any],
        raw_shape: Sequence[int] | None = None,
        raw_dtype: GGMLQuantizationType | None = None,
        tensor_endianess: GGUFEndian | None = None,
    ) -> None:
        """Add a tensor with its data, which stays in memory or in the temporary file until it is
        written.

        `tensor_endianess` is the byte order of the elements, by default that of the machine. They
        are byte-swapped if the byte order of the file is different.
        """
        tensor = self._in_file_order(tensor, tensor_endianess)
        if self.use_temp_file and self.temp_file is None:
            self.temp_file = tempfile.SpooledTemporaryFile(mode="w+b", max_size=_SPOOLED)
        shape = raw_shape if raw_shape is not None else tensor.shape
        self.add_tensor_info(name, shape, tensor.dtype, tensor.nbytes, raw_dtype=raw_dtype)
        if self.temp_file is None:
            self.tensors[-1][name].tensor = tensor
        else:
            tensor.tofile(self.temp_file)
            self.write_padding(self.temp_file, tensor.nbytes)

    def _in_file_order(
        self, tensor: np.ndarray[Any, Any], order: GGUFEndian | None
    ) -> np.ndarray[Any, Any]:
        if (_host_order() if order is None else order) == self.endianess:
            return tensor
        return tensor.byteswap(inplace=False)

    # ------------------------------------------------------------ files

    def format_shard_names(self, path: Path) -> list[Path]:
        """Return the paths of the files to be written: `path`, or the names of the shards."""
        count = len(self.tensors)
        if count == 1:
            return [path]
        return [
            path.with_name(SHARD_NAME_FORMAT.format(path.stem, number, count))
            for number in range(1, count + 1)
        ]

    def open_output_file(self, path: Path | None = None) -> None:
        """Open the files for writing. Calling it again is allowed with the same path."""
        if (
            self.state is WriterState.EMPTY
            and self.fout is not None
            and (path is None or path == self.path)
        ):
            return
        if self.state is not WriterState.NO_FILE:
            raise ValueError(f"Expected output file to be not yet opened, got {self.state}")
        if path is not None:
            self.path = path
        if self.path is not None:
            self.fout = [open(name, "wb") for name in self.print_plan()]
            self.state = WriterState.EMPTY

    def print_plan(self) -> list[Path]:
        """Log the files and their sizes. In a dry run, print their names and exit."""
        logger.info("Writing the following files:")
        assert self.path is not None
        names = self.format_shard_names(self.path)
        for name, tensors in zip(names, self.tensors, strict=True):
            size = self.format_n_bytes_to_str(sum(one.nbytes for one in tensors.values()))
            logger.info(f"{name}: n_tensors = {len(tensors)}, total_size = {size}")
        if self.dry_run:
            logger.info("Dry run, not writing files")
            for name in names:
                print(name)
            sys.exit()
        return names

    def add_shard_kv_data(self) -> None:
        """Add the `split.*` keys to the metadata of each file, if there are several."""
        if len(self.tensors) == 1:
            return
        assert self.fout is not None
        count = len(self.fout)
        tensors = sum(len(one) for one in self.tensors)
        self.kv_data.extend({} for _ in range(len(self.kv_data), count))
        for number, entries in enumerate(self.kv_data):
            entries[Keys.Split.LLM_KV_SPLIT_NO] = GGUFValue(number, GGUFValueType.UINT16)
            entries[Keys.Split.LLM_KV_SPLIT_COUNT] = GGUFValue(count, GGUFValueType.UINT16)
            entries[Keys.Split.LLM_KV_SPLIT_TENSORS_COUNT] = GGUFValue(tensors, GGUFValueType.INT32)

    def write_header_to_file(self, path: Path | None = None) -> None:
        """Open the files if necessary, and write the fixed part of the header."""
        if len(self.tensors) == 1 and (self.split_max_tensors != 0 or self.split_max_size != 0):
            logger.warning("Model fails split requirements, not splitting")
        self.open_output_file(path)
        if self.state is not WriterState.EMPTY:
            raise ValueError(f"Expected output file to be empty, got {self.state}")
        assert self.fout is not None
        assert len(self.fout) == len(self.tensors)
        assert len(self.kv_data) == 1
        self.add_shard_kv_data()
        for fout, tensors, entries in zip(self.fout, self.tensors, self.kv_data, strict=True):
            fout.write(self._pack("<I", GGUF_MAGIC, skip_pack_prefix=True))
            fout.write(self._pack("I", GGUF_VERSION))
            fout.write(self._pack("Q", len(tensors)))
            fout.write(self._pack("Q", len(entries)))
            fout.flush()
        self.state = WriterState.HEADER

    def write_kv_data_to_file(self) -> None:
        """Write the metadata entries."""
        if self.state is not WriterState.HEADER:
            raise ValueError(f"Expected output file to contain the header, got {self.state}")
        assert self.fout is not None
        for fout, entries in zip(self.fout, self.kv_data, strict=True):
            fout.write(
                b"".join(
                    self._pack_string(key)
                    + self._pack_val(one.value, one.type, add_vtype=True, sub_type=one.sub_type)
                    for key, one in entries.items()
                )
            )
        self.flush()
        self.state = WriterState.KV_DATA

    def write_ti_data_to_file(self) -> None:
        """Write the tensor infos."""
        if self.state is not WriterState.KV_DATA:
            raise ValueError(f"Expected output file to contain KV data, got {self.state}")
        assert self.fout is not None
        for fout, tensors in zip(self.fout, self.tensors, strict=True):
            infos = bytearray()
            offset = 0
            for name, info in tensors.items():
                infos += self._pack_string(name)
                infos += self._pack("I", len(info.shape))
                for length in reversed(info.shape):
                    infos += self._pack("Q", length)
                infos += self._pack("I", info.dtype)
                infos += self._pack("Q", offset)
                offset += self.ggml_pad(info.nbytes, self.data_alignment)
            fout.write(infos)
            fout.flush()
        self.state = WriterState.TI_DATA

    def write_tensor_data(
        self, tensor: np.ndarray[Any, Any], tensor_endianess: GGUFEndian | None = None
    ) -> None:
        """Write the data of the next tensor, in the order of `add_tensor_info`."""
        if self.state is not WriterState.TI_DATA and self.state is not WriterState.WEIGHTS:
            raise ValueError(
                f"Expected output file to contain tensor info or weights, got {self.state}"
            )
        assert self.fout is not None
        tensor = self._in_file_order(tensor, tensor_endianess)
        shard = next((n for n, tensors in enumerate(self.tensors) if tensors), -1)
        fout = self.fout[shard]
        info = self.tensors[shard].pop(next(iter(self.tensors[shard])))
        assert info.nbytes == tensor.nbytes
        self.write_padding(fout, fout.tell())
        tensor.tofile(fout)
        self.write_padding(fout, tensor.nbytes)
        self.state = WriterState.WEIGHTS

    def write_tensors_to_file(self, *, progress: bool = False) -> None:
        """Write the tensor infos and the data of all tensors, with tqdm bars if `progress`."""
        self.write_ti_data_to_file()
        assert self.fout is not None
        for fout in self.fout:
            self.write_padding(fout, fout.tell())
        if self.temp_file is not None:
            self.temp_file.seek(0)
            shutil.copyfileobj(self.temp_file, self.fout[1 if self.small_first_shard else 0])
            self.flush()
            self.temp_file.close()
        else:
            bars = _Bars(self.tensors) if progress else None
            for number, (fout, tensors) in enumerate(zip(self.fout, self.tensors, strict=True)):
                if bars is not None:
                    bars.begin_shard(number)
                for name, info in tensors.items():
                    self._write_held(fout, name, info)
                    if bars is not None:
                        bars.update(info.nbytes)
        self.state = WriterState.WEIGHTS

    def _write_held(self, fout: BufferedWriter, name: str, info: TensorInfo) -> None:
        assert info.tensor is not None  # each is written once
        assert info.tensor.nbytes == info.nbytes
        start = fout.tell()
        info.tensor.tofile(fout)
        written = fout.tell() - start
        if written != info.nbytes:
            raise ValueError(f"tensor {name!r} wrote {written} bytes, expected {info.nbytes}")
        self.write_padding(fout, info.nbytes)
        info.tensor = None

    def write_padding(self, fp: IO[bytes], n: int, align: int | None = None) -> None:
        """Write the padding after `n` bytes, up to a multiple of the alignment."""
        padding = self.ggml_pad(n, align if align is not None else self.data_alignment) - n
        if padding != 0:
            fp.write(bytes(padding))

    def flush(self) -> None:
        """Flush the buffers of the files."""
        assert self.fout is not None
        for fout in self.fout:
            fout.flush()

    def close(self) -> None:
        """Close the files."""
        for fout in self.fout or ():
            fout.close()
        self.fout = None

    # ------------------------------------------------------------ keys that are more than a value

    def add_architecture(self) -> None:
        """Set general.architecture (string) to `arch`."""
        self.add_string(Keys.General.ARCHITECTURE, self.arch)

    def add_custom_alignment(self, alignment: int) -> None:
        """Set general.alignment (uint32), a power of two, and align the tensor data to it."""
        if alignment <= 0 or (alignment & (alignment - 1)) != 0:
            raise ValueError("Invalid alignment: must be a non-zero power of two")
        self.data_alignment = alignment
        self.add_uint32(Keys.General.ALIGNMENT, alignment)

    def add_tensor_extra_prec_a4(self, tensor_names: Sequence[str], values: Sequence[bool]) -> None:
        """Set general.tensor_extra.name and .prec_a4, arrays of equal length."""
        if len(tensor_names) != len(values):
            raise ValueError("tensor_extra prec_a4 names and values must have the same length")
        self.add_array(Keys.General.TENSOR_EXTRA_NAME, list(tensor_names))
        self.add_array(Keys.General.TENSOR_EXTRA_PREC_A4, list(values))

    def add_dense_features_dims(self, dense: str, in_f: int, out_f: int) -> None:
        """Set {arch}.{dense}_feat_in and {arch}.{dense}_feat_out (uint32)."""
        self.add_uint32(Keys.LLM.DENSE_FEAT_IN_SIZE.format(arch=self.arch, dense=dense), in_f)
        self.add_uint32(Keys.LLM.DENSE_FEAT_OUT_SIZE.format(arch=self.arch, dense=dense), out_f)

    def add_chat_template(self, value: str | Sequence[Mapping[str, str]] | None) -> None:
        """Set the chat template or several named ones; None removes tokenizer.chat_template.

        A list contains mappings with `name` and `template`. The template named "default" is written
        to tokenizer.chat_template, the others to separate keys; tokenizer.chat_templates lists
        their names.
        """
        if value is None:
            self.remove_key(Keys.Tokenizer.CHAT_TEMPLATE)
            return
        if isinstance(value, str):
            self.add_string(Keys.Tokenizer.CHAT_TEMPLATE, value)
            return
        default = None
        # The reference uses a set, whose order differs from run to run.
        names: dict[str, None] = {}
        for choice in value:
            template = choice.get("template")
            name = "".join(
                c if c in ascii_letters + digits else "_" for c in choice.get("name", "")
            )
            if not name or template is None:
                continue
            if name == "default":
                default = template
            else:
                names[name] = None
                self.add_string(Keys.Tokenizer.CHAT_TEMPLATE_N.format(name=name), template)
        if names:
            self.add_array(Keys.Tokenizer.CHAT_TEMPLATES, list(names))
        if default is not None:
            self.add_string(Keys.Tokenizer.CHAT_TEMPLATE, default)

    # ------------------------------------------------------------ numbers

    @staticmethod
    def ggml_pad(x: int, n: int) -> int:
        """Round `x` up to a multiple of `n`."""
        return ((x + n - 1) // n) * n

    @staticmethod
    def format_n_bytes_to_str(num: int) -> str:
        """Format a number of bytes in decimal units."""
        if num == 0:
            return "negligible - metadata only"
        size = float(num)
        for unit in ("", "K", "M", "G"):
            if abs(size) < 1000.0:
                return f"{size:3.1f}{unit}"
            size /= 1000.0
        return f"{size:.1f}T - over 1TB, split recommended"


class _Bars:
    """A progress bar for all bytes, and one for the current shard if there are several."""

    def __init__(self, shards: list[dict[str, TensorInfo]]):
        self._sizes = [sum(info.nbytes for info in tensors.values()) for tensors in shards]
        self._shard: Any = None
        if len(shards) > 1:
            self._shard = bar(f"Shard (0/{len(shards)})", None, "byte")
        self._all: Any = bar("Writing", sum(self._sizes), "byte")

    def begin_shard(self, number: int) -> None:
        if self._shard is not None:
            self._shard.set_description(f"Shard ({number + 1}/{len(self._sizes)})")
            self._shard.reset(total=self._sizes[number] or None)

    def update(self, size: int) -> None:
        if self._shard is not None:
            self._shard.update(size)
        self._all.update(size)
