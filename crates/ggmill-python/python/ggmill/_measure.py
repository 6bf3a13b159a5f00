"""Models that are run over a text: perplexity, KL divergence and importance matrices.

A text is divided into chunks. Both kinds of results can be computed for ranges of chunks, on
several machines, and then merged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from . import _native
from ._model import Model, PathLike, model_path, path_text
from ._operations import Source
from ._progress import Progress, callback_of
from ._text import counted

MEMORY = 2 << 30
"""The default limit for intermediate results, in bytes."""


@dataclass(frozen=True, repr=False)
class Scores:
    """The scores of models at each position of a text, or of some of its chunks.

    Returned by :func:`ggmill.measure`. Scores of parts of a text can be computed by different
    programs: they can be pickled, or converted to JSON and back, and :meth:`merge` joins them.

    Attributes:
        json: The JSON document (``ggmill.scores/1``).
    """

    json: str

    @classmethod
    def merge(cls, parts: Iterable[Scores]) -> Scores:
        """Merge the scores of parts of one text, in any order.

        Raises:
            FormatError: If the parts are of different models, have a different base or chunk
                length, or do not have every chunk from the first to the last exactly once.
        """
        return cls(_native.merge_scores([part.json for part in parts]))

    @cached_property
    def document(self) -> dict[str, Any]:
        """The JSON document of ``ggmill measure --json`` (``ggmill.measure/1``)."""
        document: dict[str, Any] = json.loads(_native.measurement(self.json))
        return document

    @property
    def perplexity(self) -> float | None:
        """The perplexity of the first model; ``None`` for embedding models."""
        found = self.document["models"][0]["perplexity"]
        return None if found is None else float(found["value"])

    @property
    def divergence(self) -> float | None:
        """The mean KL divergence of the first model from the base, in nats, if there is one."""
        found = self.document["models"][0]["comparison"]
        return None if found is None else float(found["kl_divergence"]["mean"]["value"])

    def __repr__(self) -> str:
        models = ", ".join(model["file"] for model in self.document["models"])
        return f"<Scores of {models} on {counted(self.document['chunks'], 'chunk')}>"


@dataclass(frozen=True, repr=False)
class Imatrix:
    """An importance matrix: how much each column of each matrix of a model matters.

    Returned by :func:`ggmill.imatrix`. Matrices of parts of a text can be computed by different
    programs: they can be pickled, and :meth:`merge` joins them.

    Attributes:
        data: The bytes of its GGUF file.
    """

    data: bytes

    @classmethod
    def open(cls, path: PathLike) -> Imatrix:
        """Read the file of a matrix, in GGUF or in the legacy format."""
        return cls(_native.imatrix_bytes(path_text(path)))

    @classmethod
    def merge(cls, parts: Iterable[Imatrix]) -> Imatrix:
        """Merge the matrices of parts of a text, as ``ggmill imatrix merge`` does."""
        return cls(_native.merge_imatrices([part.data for part in parts]))

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the matrix to a file, in the legacy format if its name ends in ``.dat``."""
        _native.save_imatrix(self.data, path_text(path), overwrite=overwrite)

    def __repr__(self) -> str:
        return f"<Imatrix of {counted(len(self.data), 'byte')}>"


def measure(
    models: Source | Sequence[Source],
    *,
    against: Source | None = None,
    text: str | None = None,
    tokens: Sequence[int] | None = None,
    context: int = 512,
    first_chunk: int = 0,
    chunks: int | None = None,
    memory: int = MEMORY,
    threads: int | None = None,
    progress: Progress = None,
) -> Scores:
    """Measure the perplexity of models on a text, and their KL divergence from another model.

    The same as ``ggmill measure``: everything is computed in F32 on the CPU, with the same result
    on every machine and for any number of threads.

    Args:
        models: The model, or several, which are measured in one pass.
        against: The model to compare with, usually the one that the others were quantized from.
        text: The text, which is tokenized with the vocabulary of the first model.
        tokens: Token IDs instead of a text.
        context: The number of tokens per chunk.
        first_chunk: The number of the first chunk to measure.
        chunks: The number of chunks to measure; by default all that follow.
        memory: The limit for intermediate results in bytes.
        threads: The number of threads; by default one per core.
        progress: A callback or progress bar; counts the chunks of all models.

    Returns:
        The scores.

    Raises:
        ArgumentError: If the text has too few tokens, or the models cannot be compared.
        UnsupportedError: If there is no computation graph for a model.
        FileError: If a file cannot be read.
    """
    several = [models] if isinstance(models, (str, bytes, os.PathLike, Model)) else list(models)
    return Scores(
        _native.measure(
            [model_path(model) for model in several],
            _text(text, tokens, context, first_chunk, chunks, memory, threads),
            against=None if against is None else model_path(against),
            progress=callback_of(progress),
        )
    )


def imatrix(
    model: Source,
    *,
    text: str | None = None,
    tokens: Sequence[int] | None = None,
    matrices: Literal["blocks", "output", "all"] = "blocks",
    dataset: str | None = None,
    context: int = 512,
    first_chunk: int = 0,
    chunks: int | None = None,
    memory: int = MEMORY,
    threads: int | None = None,
    progress: Progress = None,
) -> Imatrix:
    """Measure the importance matrix of a model over a text, by the rules of ``llama-imatrix``.

    Args:
        model: The model.
        text: The text, which is tokenized with the vocabulary of the model.
        tokens: Token IDs instead of a text.
        matrices: The matrices to measure: those of the ``"blocks"``, also ``output.weight``
            (``"output"``), or ``"all"``, including token embeddings that serve as the output
            matrix.
        dataset: The name of the text to be stored in the matrix.
        context: The number of tokens per chunk.
        first_chunk: The number of the first chunk to measure.
        chunks: The number of chunks to measure; by default all that follow.
        memory: The limit for intermediate results in bytes.
        threads: The number of threads; by default one per core.
        progress: A callback or progress bar; counts the chunks.

    Returns:
        The importance matrix.

    Raises:
        ArgumentError: If the text has too few tokens.
        UnsupportedError: If there is no computation graph for the model.
        FileError: If the file cannot be read.
    """
    return Imatrix(
        _native.imatrix(
            model_path(model),
            _text(text, tokens, context, first_chunk, chunks, memory, threads),
            matrices=matrices,
            dataset=dataset,
            progress=callback_of(progress),
        )
    )


def _text(
    text: str | None,
    tokens: Sequence[int] | None,
    context: int,
    first_chunk: int,
    chunks: int | None,
    memory: int,
    threads: int | None,
) -> _native._Text:
    return {
        "text": text,
        "tokens": None if tokens is None else list(tokens),
        "context": context,
        "first_chunk": first_chunk,
        "chunks": chunks,
        "memory": memory,
        "threads": threads,
    }
