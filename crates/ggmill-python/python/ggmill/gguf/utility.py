"""File names, size labels, and tensors of local and remote safetensors files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlparse

import numpy as np

from ._optional import optional


def fill_templated_filename(filename: str, output_type: str | None) -> str:
    """Replace {ftype} and {outtype} by the type; {FTYPE} and {OUTTYPE} by the type in upper case."""
    lower, upper = (output_type or "").lower(), (output_type or "").upper()
    return filename.format(lower, outtype=lower, ftype=lower, OUTTYPE=upper, FTYPE=upper)


def model_weight_count_rounded_notation(model_params_count: int, min_digits: int = 2) -> str:
    """Format a number of parameters, such as 7B, 1.2B or 360M."""
    for limit, factor, suffix in ((1e12, 1e-12, "T"), (1e9, 1e-9, "B"), (1e6, 1e-6, "M")):
        if model_params_count > limit:
            scaled = model_params_count * factor
            break
    else:
        scaled, suffix = model_params_count * 1e-3, "K"
    digits = len(str(round(scaled)).lstrip("0"))
    return f"{scaled:.{max(min_digits - digits, 0)}f}{suffix}"


def size_label(total_params: int, shared_params: int, expert_params: int, expert_count: int) -> str:
    """Return the value of general.size_label: 7B, or 8x7B for a mixture of experts."""
    if expert_count <= 0:
        return model_weight_count_rounded_notation(abs(total_params), min_digits=2)
    one = model_weight_count_rounded_notation(abs(shared_params) + abs(expert_params), min_digits=2)
    return f"{expert_count}x{one}"


def naming_convention(
    model_name: str | None,
    base_name: str | None,
    finetune_string: str | None,
    version_string: str | None,
    size_label: str | None,
    output_type: str | None,
    model_type: Literal["vocab", "LoRA"] | None = None,
) -> str:
    """Return the name of a file without .gguf, composed of the known parts."""

    def part(value: str | None) -> str | None:
        return None if value is None else value.strip().replace(" ", "-")

    name = part(base_name if base_name is not None else model_name)
    encoding = part(output_type)
    parts = (
        "ggml-model" if name is None else name.replace("/", "-"),
        size_label,
        part(finetune_string),
        part(version_string),
        None if encoding is None else encoding.upper(),
        part(model_type),
    )
    return "-".join(one for one in parts if one is not None)


def _header_length(head: bytes) -> int:
    """Return the offset of the data of a safetensors file, from its first eight bytes."""
    return 8 + int.from_bytes(head[:8], byteorder="little")


@dataclass
class RemoteTensor:
    """A tensor in a remote file, with its byte range."""

    dtype: str
    shape: tuple[int, ...]
    offset_start: int
    size: int
    url: str

    def data(self) -> bytearray:
        """Download the bytes of the tensor."""
        return bytearray(
            SafetensorRemote.get_data_by_range(
                url=self.url, start=self.offset_start, size=self.size
            )
        )


class SafetensorRemote:
    """Tensors of models on the Hugging Face Hub, read by byte ranges; needs `requests`.

    Requests include the token in the environment variable HF_TOKEN.
    """

    BASE_DOMAIN = "https://huggingface.co"

    @classmethod
    def get_list_tensors_hf_model(cls, model_id: str) -> dict[str, RemoteTensor]:
        """Return the tensors of a repository with one file, or with an index of files."""
        base = f"{cls.BASE_DOMAIN}/{model_id}/resolve/main"
        single = f"{base}/model.safetensors"
        if cls.check_file_exist(single):
            return cls.get_list_tensors(single)
        index = f"{base}/model.safetensors.index.json"
        if not cls.check_file_exist(index):
            raise ValueError(
                f"No safetensor file has been found for model {model_id}."
                "If the repo has safetensor files, make sure the model is public or you have a "
                "valid Hugging Face token set in the environment variable HF_TOKEN."
            )
        weight_map = json.loads(cls.get_data_by_range(index, 0).decode("utf-8")).get("weight_map")
        assert weight_map is not None, "weight_map not found in index file"
        tensors: dict[str, RemoteTensor] = {}
        for name in sorted(set(weight_map.values())):
            tensors.update(cls.get_list_tensors(f"{base}/{name}"))
        return tensors

    @classmethod
    def get_list_tensors(cls, url: str) -> dict[str, RemoteTensor]:
        """Return the tensors of one file by name."""
        metadata, data_start = cls.get_metadata(url)
        found: dict[str, RemoteTensor] = {}
        for name, meta in sorted(metadata.items()):
            if name == "__metadata__":
                continue
            if not isinstance(meta, dict):
                raise ValueError(f"Invalid metadata for tensor '{name}': {meta}")
            try:
                entry = cast(dict[str, Any], meta)
                start, end = entry["data_offsets"]
                found[name] = RemoteTensor(
                    dtype=entry["dtype"],
                    shape=tuple(entry["shape"]),
                    offset_start=data_start + start,
                    size=end - start,
                    url=url,
                )
            except KeyError as error:
                raise ValueError(
                    f"Missing key in metadata for tensor '{name}': {error}, meta = {meta}"
                ) from error
        return found

    @classmethod
    def get_metadata(cls, url: str) -> tuple[dict[str, Any], int]:
        """Return the header of a file and the offset of its data; reads the first 5 MiB."""
        head = cls.get_data_by_range(url, 0, 5 * 1024 * 1024)
        if len(head) < 8:
            raise ValueError("Not enough data to read metadata size")
        end = _header_length(head)
        if len(head) < end:
            raise ValueError(f"Could not read complete metadata. Need {end} bytes, got {len(head)}")
        try:
            return json.loads(head[8:end].decode("utf-8")), end
        except json.JSONDecodeError as error:
            raise ValueError(f"Failed to parse safetensor metadata as JSON: {error}") from error

    @classmethod
    def get_data_by_range(cls, url: str, start: int, size: int = -1) -> bytes:
        """Download `size` bytes of a file, or everything from `start`."""
        requests = optional("requests")
        cls._check_url(url)
        headers = cls._get_request_headers()
        if size > -1:
            headers["Range"] = f"bytes={start}-{start + size}"
        response = requests.get(url, allow_redirects=True, headers=headers)
        response.raise_for_status()
        content: bytes = response.content
        return content[:size] if size > -1 else content

    @classmethod
    def check_file_exist(cls, url: str) -> bool:
        """Return whether a file exists on the server."""
        requests = optional("requests")
        cls._check_url(url)
        headers = cls._get_request_headers()
        headers["Range"] = "bytes=0-0"
        try:
            status = requests.head(url, allow_redirects=True, headers=headers).status_code
        except requests.RequestException:
            return False
        return bool(200 <= status < 400)

    @staticmethod
    def _check_url(url: str) -> None:
        parsed = urlparse(url)
        if not parsed.scheme or not parsed.netloc:
            raise ValueError(f"Invalid URL: {url}")

    @classmethod
    def _get_request_headers(cls) -> dict[str, str]:
        headers = {"User-Agent": "convert_hf_to_gguf"}
        if token := os.environ.get("HF_TOKEN"):
            headers["Authorization"] = f"Bearer {token}"
        return headers


@dataclass
class LocalTensorRange:
    """A byte range of a file."""

    filename: Path
    offset: int
    size: int


@dataclass
class LocalTensor:
    """A tensor in a local file."""

    dtype: str
    shape: tuple[int, ...]
    data_range: LocalTensorRange

    def mmap_bytes(self) -> np.ndarray[Any, Any]:
        """Map the bytes of the tensor; modifications stay in memory."""
        place = self.data_range
        return np.memmap(place.filename, mode="c", offset=place.offset, shape=place.size)


class SafetensorsLocal:
    """The tensors of a local safetensors file; a context manager that returns them."""

    tensors: dict[str, LocalTensor]

    def __init__(self, filename: Path):
        with open(filename, "rb") as file:
            end = _header_length(file.read(8))
            size = os.stat(filename).st_size
            if size < end:
                raise ValueError(f"Could not read complete metadata. Need {end} bytes, got {size}")
            try:
                metadata: Mapping[str, Any] = json.loads(file.read(end - 8).decode("utf-8"))
            except json.JSONDecodeError as error:
                raise ValueError(
                    f"Failed to parse safetensors metadata as JSON: {error}"
                ) from error
        self.tensors = {
            name: LocalTensor(
                dtype=meta["dtype"],
                shape=tuple(meta["shape"]),
                data_range=LocalTensorRange(
                    filename,
                    end + meta["data_offsets"][0],
                    meta["data_offsets"][1] - meta["data_offsets"][0],
                ),
            )
            for name, meta in sorted(metadata.items())
            if name != "__metadata__"
        }

    def __enter__(self, *_args: Any, **_kwargs: Any) -> dict[str, LocalTensor]:
        return self.tensors

    def __exit__(self, *_args: Any, **_kwargs: Any) -> None:
        pass
