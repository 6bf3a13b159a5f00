"""Tokenizers: text to tokens and back."""

from __future__ import annotations

from collections.abc import Iterable

from . import _native
from ._model import Model, PathLike, open, path_text


class Tokenizer:
    """The tokenizer of a model or of tokenizer files, with the token IDs of llama.cpp.

    A tokenizer can be used by several threads at once, and after its model is closed.
    """

    __slots__ = ("_native", "remarks")

    remarks: list[str]
    """Remarks about how tokenizer files were interpreted, for the user; empty for a model."""

    def __init__(self, model: PathLike | Model, *, pre: str | None = None) -> None:
        """Load a vocabulary.

        Args:
            model: An open model, or the path of a model, of a directory with a tokenizer, or of a
                tokenizer file (``tokenizer.json``, ``tokenizer.model``, ``tekken.json``,
                ``vocab.txt`` and others).
            pre: The name of a pre-tokenizer to use instead of the one in the file.

        Raises:
            MissingError: If the model has no tokenizer.
            UnsupportedError: If the tokenizer or the pre-tokenizer is not supported.
            FormatError: If the vocabulary is damaged.
        """
        self.remarks = []
        if isinstance(model, Model):
            self._native = _native.Tokenizer(model._native, pre=pre)
            return
        found = _native.Tokenizer.of_files(path_text(model), pre=pre)
        if found is not None:
            self._native, self.remarks = found
            return
        with open(model) as opened:
            self._native = _native.Tokenizer(opened._native, pre=pre)

    @property
    def kind(self) -> str:
        """The kind of tokenizer, such as ``"bpe"``, ``"spm"``, ``"wpm"`` or ``"ugm"``."""
        return self._native.kind

    @property
    def pre_tokenizer(self) -> str | None:
        """The name of the pre-tokenizer, or ``None``."""
        return self._native.pre_tokenizer

    def __len__(self) -> int:
        """Return the size of the vocabulary."""
        return len(self._native)

    @property
    def special_ids(self) -> dict[str, int]:
        """The IDs of special tokens by role: ``"bos"``, ``"eos"``, ``"pad"`` and others."""
        return {role: id for role, id in self._native.special_ids() if id is not None}

    @property
    def end_of_generation(self) -> list[int]:
        """The IDs of the tokens that end the generation of a text."""
        return self._native.end_of_generation()

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Convert a text to token IDs.

        Args:
            text: The text; ``bytes`` need not be valid UTF-8.
            add_special: Add the BOS and EOS tokens that the vocabulary requires.
            parse_special: Recognize control tokens in the text.

        Returns:
            The token IDs.
        """
        return self._native.encode(text, add_special=add_special, parse_special=parse_special)

    def encode_with_offsets(
        self,
        text: str | bytes,
        *,
        add_special: bool = True,
        parse_special: bool = False,
        characters: bool = False,
    ) -> list[tuple[int, int, int]]:
        """Convert a text to token IDs, with the location of each token in the text.

        Args:
            text: The text; ``bytes`` need not be valid UTF-8.
            add_special: Add the BOS and EOS tokens that the vocabulary requires.
            parse_special: Recognize control tokens in the text.
            characters: Return offsets in characters instead of bytes of UTF-8, so that
                ``text[start:end]`` is the text of a token. If a token is only a part of a
                character, its range is the whole character.

        Returns:
            A tuple ``(id, start, end)`` for each token.
        """
        return self._native.encode_with_offsets(
            text, add_special=add_special, parse_special=parse_special, characters=characters
        )

    def encode_batch(
        self,
        texts: Iterable[str | bytes],
        *,
        add_special: bool = True,
        parse_special: bool = False,
        threads: int | None = None,
    ) -> list[list[int]]:
        """Convert several texts to token IDs, in parallel; long texts are divided too.

        Args:
            texts: The texts.
            add_special: Add the BOS and EOS tokens that the vocabulary requires.
            parse_special: Recognize control tokens in the texts.
            threads: The number of threads; one per core by default.

        Returns:
            The token IDs of each text.
        """
        return self._native.encode_batch(
            list(texts), add_special=add_special, parse_special=parse_special, threads=threads
        )

    def count_batch(
        self,
        texts: Iterable[str | bytes],
        *,
        add_special: bool = True,
        parse_special: bool = False,
        threads: int | None = None,
    ) -> list[int]:
        """Count the tokens of several texts, in parallel.

        Args:
            texts: The texts.
            add_special: Count the BOS and EOS tokens that the vocabulary requires.
            parse_special: Recognize control tokens in the texts.
            threads: The number of threads; one per core by default.

        Returns:
            The number of tokens of each text.
        """
        return self._native.count_batch(
            list(texts), add_special=add_special, parse_special=parse_special, threads=threads
        )

    def count(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> int:
        """Return the number of tokens of a text. The arguments are those of :meth:`encode`."""
        return self._native.count(text, add_special=add_special, parse_special=parse_special)

    def decode(
        self, ids: Iterable[int], *, remove_special: bool = False, unparse_special: bool = False
    ) -> str:
        """Convert token IDs to text. Bytes that are not valid UTF-8 become U+FFFD.

        Args:
            ids: The token IDs.
            remove_special: Omit the BOS and EOS tokens that :meth:`encode` adds.
            unparse_special: Include the text of control tokens.

        Raises:
            MissingError: If an ID is not in the vocabulary.
        """
        found = self.decode_bytes(
            ids, remove_special=remove_special, unparse_special=unparse_special
        )
        return found.decode("utf-8", "replace")

    def decode_bytes(
        self, ids: Iterable[int], *, remove_special: bool = False, unparse_special: bool = False
    ) -> bytes:
        """Convert token IDs to bytes, which may not be valid UTF-8.

        Args:
            ids: The token IDs.
            remove_special: Omit the BOS and EOS tokens that :meth:`encode` adds.
            unparse_special: Include the text of control tokens.

        Raises:
            MissingError: If an ID is not in the vocabulary.
        """
        return self._native.decode_bytes(
            list(ids), remove_special=remove_special, unparse_special=unparse_special
        )

    def piece(self, id: int) -> bytes | None:
        """Return the bytes of a token, or ``None`` if the ID is not in the vocabulary."""
        return self._native.piece(id)

    def id(self, text: str | bytes) -> int | None:
        """Return the ID of the token with this text in the file, or ``None``."""
        return self._native.id(text)

    def __repr__(self) -> str:
        return f"<Tokenizer {self.kind} of {len(self)} tokens>"
