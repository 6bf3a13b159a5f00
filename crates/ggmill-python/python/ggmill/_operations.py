"""Operations on whole models.

Each takes paths or open models and releases the GIL while it runs. Output files are written
completely or not at all.
"""

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
    Verdict,
    Verification,
    check_report,
    edit_report,
    estimate_of,
    plan_of,
    verdict,
    verification,
)
from ._shared import RANGE, Operation, SharedPlan
from ._types import Typed, parsed_type
from ._write import typed

Source = Union[PathLike, Model]
"""A model: the path of a file or of any shard of a shard set, or an open model."""


def check(
    model: Source,
    *,
    data: bool = False,
    profile: Literal["all", "spec", "ggml", "run", "threat"] = "all",
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    most: int = 20,
    threads: int | None = None,
    progress: Progress = None,
) -> CheckReport:
    """Check a model against the rules of ``ggmill check``.

    All shards of a shard set are checked. Damaged files can be checked too.

    Args:
        model: The model to check.
        data: Read the tensor data too, to find NaN, infinite values, bad scales and all-zero
            tensors.
        profile: The rules to apply: ``"spec"`` (requirements of the specification), ``"ggml"``
            (requirements of llama.cpp), ``"all"`` (both), ``"run"`` (both, with chat templates
            rendered and the tokenizer tested), or ``"threat"`` (properties that published flaws of
            loaders need).
        select: Apply only these rules: codes, prefixes of codes, or groups.
        ignore: Skip these rules: codes, prefixes of codes, or groups.
        most: The maximum number of findings listed per rule; the others are counted.
        threads: The number of threads that read data; one per core by default.
        progress: A callback or progress bar; counts the bytes read with ``data=True``.

    Returns:
        The findings. A file that is not GGUF results in a finding, not in an exception.

    Raises:
        ArgumentError: If ``profile``, ``select`` or ``ignore`` is invalid.
        FileError: If the file cannot be read.
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


def vet(model: Source) -> Verdict:
    """Say whether a model is safe to hand to a loader.

    A file is unsafe if it has a property that a published flaw of a loader needs, whether or not
    the loader in use has this flaw, or if its chat template does what users do not expect. Only
    the header is read. A file that is not GGUF is never safe.

    Args:
        model: The model to vet. All shards of a shard set are vetted.

    Returns:
        The verdict, which is true if the model is safe.

    Raises:
        FileError: If a file cannot be read.
    """
    return verdict(_native.vet(model_path(model)))


def verify(
    model: Source,
    source: Source,
    *,
    imatrix: Source | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Verification:
    """Verify that a file is what its source gives: compute each tensor again, and compare it.

    Args:
        model: The model to verify.
        source: The directory of the checkpoint that it was converted from, or the GGUF file that it
            was quantized from.
        imatrix: The importance matrix that it was quantized with.
        threads: The number of threads; one per core by default.
        progress: A callback or progress bar; counts the bytes compared.

    Returns:
        The result, which is true if everything is identical.

    Raises:
        ArgumentError: If the source has another architecture.
        FileError: If a file cannot be read.
    """
    document = _native.verify(
        model_path(model),
        model_path(source),
        imatrix=None if imatrix is None else model_path(imatrix),
        threads=threads,
        progress=callback_of(progress),
    )
    return verification(document)


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
    """Compare the metadata and the tensors of two models.

    Args:
        a: The first model.
        b: The second model.
        metadata: Compare the metadata.
        tensors: Compare the tensors and their data.
        keys: Compare only metadata keys that match one of these glob patterns.
        names: Compare only tensors whose names match one of these glob patterns.
        data: Compute the numeric errors of tensors that differ, also between different types.
        full: Include long strings and arrays in full.
        threads: The number of threads; one per core by default.
        progress: A callback or progress bar; counts the elements compared.

    Returns:
        The differences.

    Raises:
        ArgumentError: If neither metadata nor tensors are to be compared.
        MissingError: If a pattern matches nothing in either model.
        FormatError: If a model is damaged.
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
    """Hash the tensor data of a model.

    The result does not depend on the metadata, on how the model is split, or on the byte order.

    Args:
        model: The model to hash.
        kinds: The hashes to compute: ``"xxh64"``, ``"sha1"``, ``"sha256"``, ``"blake3"``, and
            ``"uuid"``, which exists only for the whole model.
        tensors: Hash each tensor too, not only the model.
        threads: The number of threads; one per core by default.
        progress: A callback or progress bar; counts the bytes read.

    Returns:
        The digests of the model and of its tensors.

    Raises:
        ArgumentError: If a kind is unknown.
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
    """Estimate the memory that a model needs to run, by device and purpose.

    Only the header of the file is read. Weights, KV caches and recurrent states match llama.cpp's
    allocation to the byte. Compute buffers are estimated for most architectures and
    placements. What some GPUs need beyond them is listed in :attr:`Estimate.unknown` with the part
    ``backend``. Anything that cannot be estimated is listed in
    :attr:`Estimate.unknown`, and is not in the totals.

    Args:
        model: The model.
        context: The context length in tokens, for all sequences together. By default, the length
            that the model was trained with.
        sequences: The number of parallel sequences.
        batch: The logical batch size: tokens that are submitted together.
        micro_batch: The physical batch size: tokens that are computed together.
        unified: Use one KV cache for all sequences.
        cache_type: The type of the KV cache, or a tuple of the types of K and V.
        flash_attention: Whether flash attention is used; ``"auto"`` uses it if the architecture
            supports it.
        full_windows: Use full-size KV caches for sliding-window attention layers.
        layers: The number of layers on devices, counted from the last; the output layer counts as
            one more.
        shares: The proportions in which the layers are divided among devices; one device if empty.
        overrides: Devices (``"CPU"``, ``"GPU0"``, …) by regular expressions for tensor names.
        context_on_host: Keep KV caches and recurrent states on the host.
        fit: The memory of each device in bytes. Finds the longest context with all layers on these
            devices or, if ``context`` is given or that would be shorter than 4,096 tokens, the
            largest number of layers. ``layers`` is ignored.
        projector: A multimodal projector (mmproj file), loaded with the model.
        adapters: LoRA adapters, loaded with the model.
        draft: A draft model for speculative decoding, run with the same options.

    Returns:
        The estimate.

    Raises:
        ArgumentError: If an option is invalid, or the model cannot be run with these options.
        FileError: If a file cannot be read.
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
    """Change the metadata of a file.

    The file is edited in place if its header has room, or if the file system can insert some, which
    takes milliseconds regardless of the size of the file. Otherwise it is copied and replaced.

    Close open models of the file before editing it in place: their arrays are views of the file,
    and would change.

    Args:
        model: The file to edit; for a shard set, the first shard.
        set: The new values by key. A value gets the current type of the key, else the type that the
            specification or the architecture defines, else a type inferred from the value; use
            :class:`Typed` for a different type.
        unset: Glob patterns of keys to remove. Each pattern must match a key.
        rename: The new names of keys by their old names.
        special_tokens: The text of the token for each role, such as ``{"eos": "</s>"}``.
        output: Write an edited copy here, and leave the file unchanged.
        overwrite: Replace ``output`` if it exists.
        check: Reject chat templates that do not parse, new keys that look like misspelled known
            keys, and edits that cause an error of :func:`check` that the file did not have. Other
            findings are reported.
        dry_run: Report what would be changed, and write nothing.
        progress: A callback or progress bar; counts the bytes copied.

    Returns:
        A report of the edit.

    Raises:
        ArgumentError: If there are no edits, a value does not fit its type, a key or token does not
            exist, or a check rejects the edit.
        FileError: If the file cannot be edited or written.
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
    calibrate: str | Sequence[int] | None = None,
    calibrate_context: int = 512,
    calibrate_memory: int = 4 << 30,
    pure: bool = False,
    allow_requantize: bool = False,
    allow_zeros: bool = False,
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
    """Quantize the tensors of a model to make it smaller.

    The output is identical to that of ``llama-quantize``. Exactly one of ``type``, ``target_size``
    and ``target_bpw`` must be given.

    Args:
        model: The model to quantize.
        output: The file to write; with ``max_size`` or ``max_tensors``, the prefix of the names of
            the shards.
        type: A mixture or a tensor type, such as ``"Q4_K_M"`` or ``"Q8_0"``.
        target_size: Choose the tensor types with the lowest quantization error for a file of at
            most this many bytes.
        target_bpw: Choose the tensor types with the lowest quantization error for at most this many
            bits per weight.
        imatrix: The path of an importance matrix written by ``llama-imatrix``.
        calibrate: A text, or its token IDs; ``"auto"`` is a built-in text. Matrices are rounded by
            what they compute on it, instead of weight by weight, which loses less at the same types
            and size.
        calibrate_context: The number of tokens per chunk of the text.
        calibrate_memory: The memory for the calibration, in bytes.
        pure: Give every tensor the same type instead of a mixture.
        allow_requantize: Allow requantizing tensors that are already quantized, which loses
            quality.
        allow_zeros: Write tensors whose values all become zero in their types, instead of failing.
        leave_output_tensor: Keep the type of ``output.weight``.
        output_tensor_type: The type of ``output.weight``.
        token_embedding_type: The type of the token embeddings.
        tensor_types: Tensor types by regular expressions for tensor names; the first match wins.
        prune_layers: The numbers of layers to remove; the others are renumbered.
        max_size: Write shards with at most this many bytes of tensor data each.
        max_tensors: Write shards with at most this many tensors each.
        overwrite: Replace the output if it exists.
        dry_run: Return the plan, and write nothing.
        threads: The number of threads; one per core by default.
        progress: A callback or progress bar; counts the bytes written.

    Returns:
        The plan of the file or of the shards, with the type, offset and size of each tensor.

    Raises:
        ArgumentError: If a type is unknown, importance weights are missing or do not match, or a
            tensor is already quantized.
        OutputExistsError: If the output exists and ``overwrite`` is false.
    """
    text = _native.quantize_file(
        model_path(model),
        path_text(output),
        type,
        _types(
            target_size=target_size,
            target_bpw=target_bpw,
            imatrix=imatrix,
            calibrate=calibrate,
            calibrate_context=calibrate_context,
            calibrate_memory=calibrate_memory,
            pure=pure,
            allow_requantize=allow_requantize,
            allow_zeros=allow_zeros,
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
    calibrate: str | Sequence[int] | None = None,
    calibrate_context: int = 512,
    calibrate_memory: int = 4 << 30,
    pure: bool,
    allow_requantize: bool = False,
    allow_zeros: bool = False,
    leave_output_tensor: bool,
    output_tensor_type: str | None,
    token_embedding_type: str | None,
    tensor_types: Mapping[str, str] | None,
    prune_layers: Iterable[int] = (),
) -> _native.Types:
    text, tokens = (calibrate, None) if isinstance(calibrate, str) else (None, calibrate)
    return {
        "imatrix": None if imatrix is None else path_text(imatrix),
        "calibrate_text": text,
        "calibrate_tokens": None if tokens is None else list(tokens),
        "calibrate_context": calibrate_context,
        "calibrate_memory": calibrate_memory,
        "pure": pure,
        "allow_requantize": allow_requantize,
        "allow_zeros": allow_zeros,
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
    assume_defaults: bool = False,
    vocab_only: bool = False,
    mmproj: bool = False,
    pre: str | None = None,
    check: bool = True,
    target_size: int | None = None,
    target_bpw: float | None = None,
    imatrix: PathLike | None = None,
    calibrate: str | Sequence[int] | None = None,
    calibrate_context: int = 512,
    calibrate_memory: int = 4 << 30,
    pure: bool = False,
    allow_zeros: bool = False,
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
    """Convert a checkpoint to GGUF, quantizing it in the same pass if requested.

    F32, F16, BF16 and Q8_0 files are identical to those of ``convert_hf_to_gguf.py``.

    Args:
        checkpoint: A directory with ``config.json`` and safetensors or PyTorch files, the directory
            of a PEFT adapter, or a file in a legacy format.
        output: The file to write; with ``max_size`` or ``max_tensors``, the prefix of the names of
            the shards.
        type: ``"auto"`` (BF16 or F16, whichever the checkpoint uses, and F16 for F32 checkpoints),
            ``"F32"``, ``"F16"``, ``"BF16"``, ``"Q8_0"``, or any type of :func:`quantize`.
        base: For an adapter, the directory of the base model. By default, the directory that the
            adapter names.
        name: The name of the model in the metadata.
        metadata: Metadata to use instead of what the checkpoint contains, such as
            ``{"general.author": "…"}``.
        arch_files: Paths of architecture descriptions (TOML) to use as well.
        no_vocab: Write no vocabulary.
        assume_defaults: Convert a checkpoint with settings that the file cannot express, with the
            values that programs assume. The key ``ggmill.assumed_settings`` lists them.
        vocab_only: Write only the metadata and the vocabulary, without tensors.
        mmproj: Convert the image and audio encoders to an mmproj file instead of the language
            model.
        pre: The name of the pre-tokenizer. By default, it is recognized.
        check: Reject a model in which the rules of :func:`check` find an error.
        target_size: See :func:`quantize`.
        target_bpw: See :func:`quantize`.
        imatrix: See :func:`quantize`.
        calibrate: See :func:`quantize`.
        calibrate_context: See :func:`quantize`.
        calibrate_memory: See :func:`quantize`.
        pure: See :func:`quantize`.
        allow_zeros: See :func:`quantize`.
        leave_output_tensor: See :func:`quantize`.
        output_tensor_type: See :func:`quantize`.
        token_embedding_type: See :func:`quantize`.
        tensor_types: See :func:`quantize`.
        max_size: Write shards with at most this many bytes of tensor data each.
        max_tensors: Write shards with at most this many tensors each.
        overwrite: Replace the output if it exists.
        dry_run: Return the plan, and write nothing.
        threads: The number of threads; one per core by default.
        progress: A callback or progress bar; counts the bytes written.

    Returns:
        The plan of the file or of the shards, with the type, offset and size of each tensor.

    Raises:
        UnsupportedError: If the architecture or the pre-tokenizer is not supported.
        FormatError: If the checkpoint is incomplete or inconsistent.
        OutputExistsError: If the output exists and ``overwrite`` is false.
    """
    text = _native.convert(
        path_text(checkpoint),
        path_text(output),
        type,
        _types(
            target_size=target_size,
            target_bpw=target_bpw,
            imatrix=imatrix,
            calibrate=calibrate,
            calibrate_context=calibrate_context,
            calibrate_memory=calibrate_memory,
            pure=pure,
            allow_zeros=allow_zeros,
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
            assume_defaults=assume_defaults,
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
    assume_defaults: bool,
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
        "assume_defaults": assume_defaults,
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
    allow_zeros: bool = False,
    leave_output_tensor: bool = False,
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    tensor_types: Mapping[str, str] | None = None,
    prune_layers: Iterable[int] = (),
    overwrite: bool = False,
    threads: int | None = None,
) -> SharedPlan:
    """Plan a call of :func:`quantize` that several programs can share.

    Args:
        model: The model to quantize.
        output: The file to write.
        type: A mixture or a tensor type; see :func:`quantize` for this and the other arguments.
        range_size: The size of the ranges in bytes.

    Returns:
        The plan; nothing is written yet.
    """
    types = _types(
        target_size=target_size,
        target_bpw=target_bpw,
        imatrix=imatrix,
        pure=pure,
        allow_requantize=allow_requantize,
        allow_zeros=allow_zeros,
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
    assume_defaults: bool = False,
    vocab_only: bool = False,
    mmproj: bool = False,
    pre: str | None = None,
    check: bool = True,
    target_size: int | None = None,
    target_bpw: float | None = None,
    imatrix: PathLike | None = None,
    pure: bool = False,
    allow_zeros: bool = False,
    leave_output_tensor: bool = False,
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    tensor_types: Mapping[str, str] | None = None,
    overwrite: bool = False,
    threads: int | None = None,
) -> SharedPlan:
    """Plan a call of :func:`convert` that several programs can share.

    Args:
        checkpoint: The checkpoint to convert.
        output: The file to write.
        type: The type of most tensors; see :func:`convert` for this and the other arguments.
        range_size: The size of the ranges in bytes.

    Returns:
        The plan; nothing is written yet.
    """
    types = _types(
        target_size=target_size,
        target_bpw=target_bpw,
        imatrix=imatrix,
        pure=pure,
        allow_zeros=allow_zeros,
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
        assume_defaults=assume_defaults,
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
    plan = SharedPlan(operation, arguments, range_size)
    if types["target_size"] is None and types["target_bpw"] is None:
        return plan
    # The plan contains the types chosen for a size, because choosing them reads the whole model.
    chosen = {"target_size": None, "target_bpw": None, "type_plan": json.dumps(plan.plan.document)}
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
    """Split a model into shards.

    The shards are named ``PREFIX-00001-of-00009.gguf`` and so on, as by ``llama-gguf-split``.

    Args:
        model: The model to split.
        prefix: The prefix of the names of the shards, including the directory.
        max_size: The maximum size of the tensor data per shard in bytes.
        max_tensors: The maximum number of tensors per shard; 128 if ``max_size`` is not given.
        no_tensor_first: Write no tensors to the first shard, so that it is small.
        overwrite: Replace shards that exist.
        dry_run: Return the plan, and write nothing.
        threads: The number of threads; one per core by default.
        progress: A callback or progress bar; counts the bytes written.

    Returns:
        The plan of the shards.

    Raises:
        ArgumentError: If a limit is invalid, or both are given.
        OutputExistsError: If a shard exists and ``overwrite`` is false.
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
    """Merge the shards of a model into one file.

    Files split at byte boundaries (``.part1of3``, ``.split-a``) are concatenated.

    Args:
        shards: Any one shard, from whose name the others are found, or all shards in any order.
        output: The file to write.
        overwrite: Replace the output if it exists.
        dry_run: Return the plan, and write nothing.
        threads: The number of threads; one per core by default.
        progress: A callback or progress bar; counts the bytes written.

    Returns:
        The plan of the file.

    Raises:
        ArgumentError: If ``shards`` is empty.
        FormatError: If a shard is missing, or the shards are not of the same model.
        OutputExistsError: If the output exists and ``overwrite`` is false.
    """
    if isinstance(shards, (list, tuple)):
        paths = [path_text(shard) for shard in shards]
        if not paths:
            raise ArgumentError("no shards to merge")
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
    """Extract tensors or metadata from a model to a GGUF, safetensors, npy or JSON file.

    Args:
        model: The model.
        output: The file to write.
        names: Glob patterns of tensor names; all tensors by default.
        keys: Glob patterns of metadata keys. Without ``names``, no tensors are extracted then.
        format: The format of the file. By default, it is determined by the extension of ``output``.
        raw: Keep quantized tensors as the bytes of their blocks, instead of decoding them to F32.
        overwrite: Replace the output if it exists.
        threads: The number of threads; one per core by default.
        progress: A callback or progress bar; counts the bytes written.

    Returns:
        The number of tensors in the file.

    Raises:
        ArgumentError: If the format is unknown, or cannot contain the selected tensors.
        MissingError: If a pattern matches nothing.
        OutputExistsError: If the output exists and ``overwrite`` is false.
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
