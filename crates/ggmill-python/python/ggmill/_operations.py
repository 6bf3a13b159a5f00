"""The operations of ggmill over whole models. Each takes paths or open models, writes its output
whole or not at all, and works without holding Python."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union, cast

from . import _native
from ._errors import ArgumentError
from ._model import Model, PathLike, model_path, path_text
from ._progress import Progress, callback_of
from ._reports import (
    CheckReport,
    DiffReport,
    EditReport,
    Estimate,
    Hashes,
    Plan,
    check_report,
    edit_report,
    estimate_of,
    plan_of,
)
from ._shared import RANGE, Operation, SharedPlan
from ._types import Typed, parsed_type
from ._write import typed

Source = Union[PathLike, Model]
"""A model: its path (of a set of shards any one), or an open model."""


def check(
    model: Source,
    *,
    data: bool = False,
    profile: Literal["all", "spec", "ggml", "run"] = "all",
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    most: int = 20,
    threads: int | None = None,
    progress: Progress = None,
) -> CheckReport:
    """Holds a model to the rules, broken files too; a set of shards as one model.

    Args:
        model: what to check.
        data: read all tensor data too, for NaN, infinities and bad scales.
        profile: ``"spec"`` what the specification requires, ``"ggml"`` what llama.cpp requires,
            ``"run"`` all, and chat templates are rendered over conversations.
        select: only these rules: codes, beginnings of codes, groups.
        ignore: not these.
        most: findings of one rule that are listed.
        threads: how many threads read data.
        progress: told of bytes read.

    Raises:
        FileError: the file cannot be read. One that is not GGUF has a finding instead.
    """
    path = model_path(model)
    document, text = _native.check(
        path,
        data=data,
        profile=profile,
        select=list(select),
        ignore=list(ignore),
        most=most,
        threads=threads,
        progress=callback_of(progress),
    )
    return check_report(path, document, text)


def diff(
    a: Source,
    b: Source,
    *,
    metadata: bool = True,
    tensors: bool = True,
    keys: Iterable[str] = (),
    names: Iterable[str] = (),
    data: bool = False,
    full: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> DiffReport:
    """What two models do not have in common.

    Args:
        a: the one model.
        b: the other.
        metadata: compare metadata.
        tensors: compare tensors and their bytes.
        keys: only the keys that match one of these patterns.
        names: only the tensors whose names match one of these.
        data: compare the numbers of tensors too, of different types also.
        full: show long arrays whole.
        threads: how many threads compare.
        progress: told of elements compared.
    """
    same, document, text = _native.diff(
        model_path(a),
        model_path(b),
        metadata=metadata,
        tensors=tensors,
        keys=list(keys),
        names=list(names),
        data=data,
        full=full,
        threads=threads,
        progress=callback_of(progress),
    )
    return DiffReport(same, json.loads(document), text)


def hash(
    model: Source,
    kinds: str | Iterable[str] = "xxh64",
    *,
    tensors: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> Hashes:
    """Hashes of a model's weights, whatever its metadata, its shards and its byte order.

    Args:
        model: what to hash.
        kinds: ``"xxh64"``, ``"sha1"``, ``"sha256"``, ``"blake3"``, ``"uuid"`` (of the model only).
        tensors: hash each tensor too.
        threads: how many threads work.
        progress: told of bytes read.
    """
    wanted = [kinds] if isinstance(kinds, str) else list(kinds)
    lines = _native.hash(
        model_path(model),
        wanted,
        tensors=tensors,
        threads=threads,
        progress=callback_of(progress),
    )
    of_model: dict[str, str] = {}
    of_tensors: dict[str, dict[str, str]] = {}
    for kind, digest, tensor in lines:
        if tensor is None:
            of_model[kind] = digest
        else:
            of_tensors.setdefault(tensor, {})[kind] = digest
    return Hashes(of_model, of_tensors)


def estimate(
    model: Source,
    *,
    context: int | None = None,
    sequences: int = 1,
    batch: int = 2048,
    micro_batch: int = 512,
    unified: bool = False,
    cache_type: str | tuple[str, str] = "F16",
    flash_attention: Literal["auto", "on", "off"] = "auto",
    full_windows: bool = False,
    layers: int = 0,
    shares: Sequence[float] = (),
    overrides: Mapping[str, str] | None = None,
    context_on_host: bool = False,
    fit: int | Sequence[int] | None = None,
    projector: Source | None = None,
    adapters: Iterable[Source] = (),
    draft: Source | None = None,
) -> Estimate:
    """The memory that a model takes to run, from its header alone: weights, caches and states to
    the byte what llama.cpp allocates, compute buffers nearly. What is not known is listed.

    Args:
        model: the model; a set of shards as one.
        context: tokens of context, of all sequences together; what the model was trained with if
            ``None``.
        sequences: how many sequences run side by side.
        batch: tokens that are submitted together.
        micro_batch: tokens that are computed together.
        unified: the sequences share one cache.
        cache_type: the type of cached keys and values, or of each.
        flash_attention: whether attention is computed in tiles; ``"auto"`` is wherever the
            architecture can.
        full_windows: blocks with a window have caches for the whole context too.
        layers: how many layers, the last ones, are on devices; the output counts as one more.
        shares: the shares that the devices have of them; one device if empty.
        overrides: a regular expression of tensor names to ``"CPU"``, ``"GPU0"`` and so on.
        context_on_host: caches and states stay on the host.
        fit: sizes of devices in bytes: the longest context, or else the most layers, that they
            have room for.
        projector: a projector for images or sound, loaded beside the model.
        adapters: adapters, loaded beside the model.
        draft: a model that drafts for this one, with the same options.

    Raises:
        ArgumentError: no program runs the model with these options.
        FileError: a file cannot be read.
    """
    keys, values = (cache_type, cache_type) if isinstance(cache_type, str) else cache_type
    sizes = [fit] if isinstance(fit, int) else fit
    text = _native.estimate(
        model_path(model),
        {
            "context": context,
            "sequences": sequences,
            "batch": batch,
            "micro_batch": micro_batch,
            "unified": unified,
            "key_type": keys,
            "value_type": values,
            "flash_attention": flash_attention,
            "full_windows": full_windows,
            "layers": layers,
            "shares": list(shares),
            "overrides": [f"{name}={device}" for name, device in (overrides or {}).items()],
            "context_on_host": context_on_host,
        },
        fit=None if sizes is None else list(sizes),
        projector=None if projector is None else model_path(projector),
        adapters=[model_path(adapter) for adapter in adapters],
        draft=None if draft is None else model_path(draft),
    )
    return estimate_of(text)


def edit(
    model: Source,
    set: Mapping[str, Any] | None = None,
    *,
    unset: str | Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
    special_tokens: Mapping[str, str] | None = None,
    output: PathLike | None = None,
    overwrite: bool = False,
    check: bool = True,
    dry_run: bool = False,
    progress: Progress = None,
) -> EditReport:
    """Changes the metadata of a file: in place where it fits, in milliseconds whatever its size.

    Close models of the file before it is edited in place; arrays that views of its header are made
    of would see it change.

    Args:
        model: the file; of a set of shards the first.
        set: values by key. A value has the type that the key has, or has by the specification;
            :class:`Typed` says another.
        unset: keys to remove, as patterns; each has to match one.
        rename: new keys by old ones.
        special_tokens: the text of a token by its role: ``{"eos": "</s>"}``.
        output: write an edited copy instead.
        overwrite: replace the copy if it exists.
        check: refuse a chat template that does not parse, a new key that looks like a misspelled
            known key, and an edit that leads to an error by the rules of ``check`` that the file
            does not have before; report other findings.
        dry_run: say what would be done, and write nothing.
        progress: told of bytes copied.

    Raises:
        ArgumentError: a value cannot have its type; there is no such key or token; a check
            refuses the edit.
        FileError: the file cannot be edited or written.
    """
    settings: list[tuple[str, list[int] | None, Any]] = []
    for key, value in (set or {}).items():
        if isinstance(value, Typed):
            settings.append((key, parsed_type(value.type), value.value))
        elif isinstance(value, (bool, int, float, str)):
            settings.append((key, None, json.dumps(value)))
        elif isinstance(value, (list, tuple)) and _is_json(cast("Sequence[Any]", value)):
            settings.append((key, None, json.dumps(value)))
        else:
            types, value = typed(value)
            settings.append((key, types, value))
    text = _native.edit(
        model_path(model),
        set=settings,
        unset=[unset] if isinstance(unset, str) else list(unset),
        rename=list((rename or {}).items()),
        special_tokens=list((special_tokens or {}).items()),
        output=None if output is None else path_text(output),
        overwrite=overwrite,
        check=check,
        dry_run=dry_run,
        progress=callback_of(progress),
    )
    return edit_report(text)


def _is_json(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (bool, int, float, str)) for value in values)


def _quantize(
    model: Source,
    output: PathLike,
    type: str | None = None,
    *,
    target_size: int | None = None,
    target_bpw: float | None = None,
    imatrix: PathLike | None = None,
    pure: bool = False,
    allow_requantize: bool = False,
    leave_output_tensor: bool = False,
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    tensor_types: Mapping[str, str] | None = None,
    prune_layers: Iterable[int] = (),
    max_size: int | None = None,
    max_tensors: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Plan:
    """Makes a model of smaller types, byte for byte as ``llama-quantize`` does.

    Args:
        model: what to quantize.
        output: the file; with ``max_size`` or ``max_tensors`` what the names of shards begin with.
        type: a mixture or a type: ``"Q4_K_M"``. Instead of it, a size:
        target_size: types are chosen so that the file has so many bytes at most.
        target_bpw: the same for bits per weight.
        imatrix: a file of importance weights.
        pure: one type for every tensor, no mixture.
        allow_requantize: quantize what is quantized already again, at a loss.
        leave_output_tensor: keep ``output.weight`` as it is.
        output_tensor_type: the type of ``output.weight``.
        token_embedding_type: the type of the token embeddings.
        tensor_types: types by patterns, regular expressions found in the names of tensors.
        prune_layers: layers to leave out.
        max_size: bytes of data in a shard.
        max_tensors: tensors in a shard.
        overwrite: replace the output if it exists.
        dry_run: make the plan, and write nothing.
        threads: how many threads work.
        progress: told of bytes written.

    Raises:
        ArgumentError: no such type; importance weights are missing or do not fit; the model is
            quantized already.
    """
    text = _native.quantize_file(
        model_path(model),
        path_text(output),
        type,
        _types(
            target_size=target_size,
            target_bpw=target_bpw,
            imatrix=imatrix,
            pure=pure,
            allow_requantize=allow_requantize,
            leave_output_tensor=leave_output_tensor,
            output_tensor_type=output_tensor_type,
            token_embedding_type=token_embedding_type,
            tensor_types=tensor_types,
            prune_layers=prune_layers,
        ),
        max_size=max_size,
        max_tensors=max_tensors,
        overwrite=overwrite,
        dry_run=dry_run,
        threads=threads,
        progress=callback_of(progress),
    )
    return plan_of(text)


def _types(
    *,
    target_size: int | None,
    target_bpw: float | None,
    imatrix: PathLike | None,
    pure: bool,
    allow_requantize: bool = False,
    leave_output_tensor: bool,
    output_tensor_type: str | None,
    token_embedding_type: str | None,
    tensor_types: Mapping[str, str] | None,
    prune_layers: Iterable[int] = (),
) -> _native.Types:
    return {
        "imatrix": None if imatrix is None else path_text(imatrix),
        "pure": pure,
        "allow_requantize": allow_requantize,
        "leave_output_tensor": leave_output_tensor,
        "output_tensor_type": output_tensor_type,
        "token_embedding_type": token_embedding_type,
        "tensor_types": list((tensor_types or {}).items()),
        "prune_layers": list(prune_layers),
        "target_size": target_size,
        "target_bpw": target_bpw,
        "type_plan": None,
    }


def _convert(
    checkpoint: PathLike,
    output: PathLike,
    type: str = "auto",
    *,
    base: PathLike | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    arch_files: Iterable[PathLike] = (),
    no_vocab: bool = False,
    vocab_only: bool = False,
    mmproj: bool = False,
    pre: str | None = None,
    check: bool = True,
    target_size: int | None = None,
    target_bpw: float | None = None,
    imatrix: PathLike | None = None,
    pure: bool = False,
    leave_output_tensor: bool = False,
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    tensor_types: Mapping[str, str] | None = None,
    max_size: int | None = None,
    max_tensors: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Plan:
    """Converts a checkpoint to GGUF, straight to any type: a directory with ``config.json`` and
    safetensors or PyTorch files, an adapter, or a file from before GGUF.

    Args:
        checkpoint: the directory or file.
        output: the file; with ``max_size`` or ``max_tensors`` what the names of shards begin with.
        type: ``"auto"`` (the 16-bit type closest to the checkpoint), ``"F32"``, ``"F16"``,
            ``"BF16"``, ``"Q8_0"``, or what :func:`quantize` takes.
        base: the directory of the base, for an adapter that does not name one that is here.
        name: the model's name.
        metadata: what replaces what the checkpoint says of itself, ``{"general.author": …}``.
        arch_files: descriptions of architectures, TOML files.
        no_vocab: leave the vocabulary out.
        vocab_only: leave the tensors out.
        mmproj: convert the towers for images and sound instead.
        pre: the name of the pre-tokenizer.
        check: refuse a model in which the rules find an error.
        target_size: as :func:`quantize` has it; so are the next seven.
        target_bpw: see :func:`quantize`.
        imatrix: see :func:`quantize`.
        pure: see :func:`quantize`.
        leave_output_tensor: see :func:`quantize`.
        output_tensor_type: see :func:`quantize`.
        token_embedding_type: see :func:`quantize`.
        tensor_types: see :func:`quantize`.
        max_size: bytes of data in a shard.
        max_tensors: tensors in a shard.
        overwrite: replace the output if it exists.
        dry_run: make the plan, and write nothing.
        threads: how many threads work.
        progress: told of bytes written.

    Raises:
        UnsupportedError: no description fits the checkpoint; its pre-tokenizer is not known.
        FormatError: the checkpoint is incomplete or contradicts itself.
    """
    text = _native.convert(
        path_text(checkpoint),
        path_text(output),
        type,
        _types(
            target_size=target_size,
            target_bpw=target_bpw,
            imatrix=imatrix,
            pure=pure,
            leave_output_tensor=leave_output_tensor,
            output_tensor_type=output_tensor_type,
            token_embedding_type=token_embedding_type,
            tensor_types=tensor_types,
        ),
        _conversion(
            base=base,
            name=name,
            metadata=metadata,
            arch_files=arch_files,
            no_vocab=no_vocab,
            vocab_only=vocab_only,
            mmproj=mmproj,
            pre=pre,
            check=check,
        ),
        max_size=max_size,
        max_tensors=max_tensors,
        overwrite=overwrite,
        dry_run=dry_run,
        threads=threads,
        progress=callback_of(progress),
    )
    return plan_of(text)


def _conversion(
    *,
    base: PathLike | None,
    name: str | None,
    metadata: Mapping[str, Any] | None,
    arch_files: Iterable[PathLike],
    no_vocab: bool,
    vocab_only: bool,
    mmproj: bool,
    pre: str | None,
    check: bool,
) -> _native.Conversion:
    return {
        "base": None if base is None else path_text(base),
        "name": name,
        "metadata": None if metadata is None else json.dumps(dict(metadata)),
        "arch_files": [path_text(path) for path in arch_files],
        "no_vocab": no_vocab,
        "vocab_only": vocab_only,
        "mmproj": mmproj,
        "pre": pre,
        "check": check,
    }


def _plan_quantize(
    model: Source,
    output: PathLike,
    type: str | None = None,
    *,
    range_size: int = RANGE,
    target_size: int | None = None,
    target_bpw: float | None = None,
    imatrix: PathLike | None = None,
    pure: bool = False,
    allow_requantize: bool = False,
    leave_output_tensor: bool = False,
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    tensor_types: Mapping[str, str] | None = None,
    prune_layers: Iterable[int] = (),
    overwrite: bool = False,
    threads: int | None = None,
) -> SharedPlan:
    """What ``quantize`` would do, as a plan to share out; ``range_size`` is in bytes."""
    types = _types(
        target_size=target_size,
        target_bpw=target_bpw,
        imatrix=imatrix,
        pure=pure,
        allow_requantize=allow_requantize,
        leave_output_tensor=leave_output_tensor,
        output_tensor_type=output_tensor_type,
        token_embedding_type=token_embedding_type,
        tensor_types=tensor_types,
        prune_layers=prune_layers,
    )
    return _shared(
        "quantize", model_path(model), output, type, types, range_size, overwrite, threads, {}
    )


def _plan_convert(
    checkpoint: PathLike,
    output: PathLike,
    type: str = "auto",
    *,
    range_size: int = RANGE,
    base: PathLike | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    arch_files: Iterable[PathLike] = (),
    no_vocab: bool = False,
    vocab_only: bool = False,
    mmproj: bool = False,
    pre: str | None = None,
    check: bool = True,
    target_size: int | None = None,
    target_bpw: float | None = None,
    imatrix: PathLike | None = None,
    pure: bool = False,
    leave_output_tensor: bool = False,
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    tensor_types: Mapping[str, str] | None = None,
    overwrite: bool = False,
    threads: int | None = None,
) -> SharedPlan:
    """What ``convert`` would do, as a plan to share out; ``range_size`` is in bytes."""
    types = _types(
        target_size=target_size,
        target_bpw=target_bpw,
        imatrix=imatrix,
        pure=pure,
        leave_output_tensor=leave_output_tensor,
        output_tensor_type=output_tensor_type,
        token_embedding_type=token_embedding_type,
        tensor_types=tensor_types,
    )
    conversion = _conversion(
        base=base,
        name=name,
        metadata=metadata,
        arch_files=arch_files,
        no_vocab=no_vocab,
        vocab_only=vocab_only,
        mmproj=mmproj,
        pre=pre,
        check=check,
    )
    more = {"conversion": conversion}
    path = path_text(checkpoint)
    return _shared("convert", path, output, type, types, range_size, overwrite, threads, more)


def _shared(
    operation: str,
    path: str,
    output: PathLike,
    type: str | None,
    types: _native.Types,
    range_size: int,
    overwrite: bool,
    threads: int | None,
    more: dict[str, Any],
) -> SharedPlan:
    arguments: dict[str, Any] = {
        "path": os.path.abspath(path),
        "output": os.path.abspath(path_text(output)),
        "type_name": type,
        "types": types,
        "overwrite": overwrite,
        "threads": threads,
        **more,
    }
    made = SharedPlan(operation, arguments, range_size)
    if types["target_size"] is None and types["target_bpw"] is None:
        return made
    # What was chosen for a size travels with the plan: choosing reads the whole model.
    chosen = {"target_size": None, "target_bpw": None, "type_plan": json.dumps(made.plan.document)}
    return SharedPlan(operation, {**arguments, "types": {**types, **chosen}}, range_size)


def split(
    model: Source,
    prefix: PathLike,
    *,
    max_size: int | None = None,
    max_tensors: int | None = None,
    no_tensor_first: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Plan:
    """Splits a model into shards, ``PREFIX-00001-of-00009.gguf`` and so on.

    Args:
        model: what to split.
        prefix: what the names of the shards begin with, directory included.
        max_size: bytes of data in a shard.
        max_tensors: tensors in a shard; 128 where nothing is said.
        no_tensor_first: keep tensors out of the first shard, so that it is small.
        overwrite: replace shards that exist.
        dry_run: make the plan, and write nothing.
        threads: how many threads work.
        progress: told of bytes written.
    """
    text = _native.split(
        model_path(model),
        path_text(prefix),
        max_size=max_size,
        max_tensors=max_tensors,
        no_tensor_first=no_tensor_first,
        overwrite=overwrite,
        dry_run=dry_run,
        threads=threads,
        progress=callback_of(progress),
    )
    return plan_of(text)


def merge(
    shards: Source | Sequence[PathLike],
    output: PathLike,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Plan:
    """Merges the shards of a model, or a file cut by its bytes, into one file.

    Args:
        shards: any one shard, the others are found by its name; or all of them, in any order.
        output: the file.
        overwrite: replace the output if it exists.
        dry_run: make the plan, and write nothing.
        threads: how many threads work.
        progress: told of bytes written.
    """
    if isinstance(shards, (list, tuple)):
        paths = [path_text(shard) for shard in shards]
        if not paths:
            raise ArgumentError("no shards")
    else:
        paths = [model_path(shards)]  # type: ignore[arg-type]
    text = _native.merge(
        paths,
        path_text(output),
        overwrite=overwrite,
        dry_run=dry_run,
        threads=threads,
        progress=callback_of(progress),
    )
    return plan_of(text)


def extract(
    model: Source,
    output: PathLike,
    names: str | Iterable[str] = (),
    *,
    keys: str | Iterable[str] = (),
    format: Literal["gguf", "safetensors", "npy", "json"] | None = None,
    raw: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> int:
    """Takes tensors and metadata out of a model, into a file of another format or a smaller model.

    Args:
        model: what to take from.
        output: the file.
        names: patterns of tensor names, ``*`` any run of characters; all tensors without one.
        keys: patterns of metadata keys; by themselves they take no tensors.
        format: by the ending of ``output`` where it is not said.
        raw: keep quantized tensors as the bytes of their blocks.
        overwrite: replace the output if it exists.
        threads: how many threads work.
        progress: told of bytes written.

    Returns:
        The number of tensors in the file.

    Raises:
        MissingError: nothing matches a pattern.
    """
    path = path_text(output)
    found = format or path.rpartition(".")[2].lower()
    return _native.extract(
        model_path(model),
        path,
        found,
        names=[names] if isinstance(names, str) else list(names),
        keys=[keys] if isinstance(keys, str) else list(keys),
        raw=raw,
        overwrite=overwrite,
        threads=threads,
        progress=callback_of(progress),
    )


quantize = Operation(_quantize, _plan_quantize)
convert = Operation(_convert, _plan_convert)
