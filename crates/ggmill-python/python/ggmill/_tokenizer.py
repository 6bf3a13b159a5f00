"""Text to tokens and tokens to text, with the vocabulary of a file."""

from __future__ import annotations

from collections.abc import Iterable

from . import _native
from ._model import Model, PathLike, open, path_text


class Tokenizer:
    """The tokenizer of a model, or of a tokenizer's own files. Its tokens are those of llama.cpp.

    Several threads may use one at once, and the model may be closed.
    """

    __slots__ = ("_native", "remarks")

    remarks: list[str]
    """What a person should know of how the files were read; nothing of a model."""

    def __init__(self, model: PathLike | Model, *, pre: str | None = None) -> None:
        """Reads the vocabulary of a model, or of a tokenizer.

        Args:
            model: a path, or an open model. The path leads to a model, to a directory with a
                tokenizer, or to one of its files: ``tokenizer.json``, ``tokenizer.model``,
                ``tekken.json``, ``vocab.txt`` and others.
            pre: the name of a pre-tokenizer instead of that in the file.

        Raises:
            UnsupportedError: the file has no tokenizer, or one that is not known.
            FormatError: the vocabulary is damaged.
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
        """``"bpe"``, ``"spm"``, ``"wpm"``, ``"ugm"``, …"""
        return self._native.kind

    @property
    def pre_tokenizer(self) -> str | None:
        """The name of the pre-tokenizer, where there is one."""
        return self._native.pre_tokenizer

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self._native)

    @property
    def special_ids(self) -> dict[str, int]:
        """The IDs of tokens that have a role: ``bos``, ``eos``, ``pad``, …"""
        return {role: id for role, id in self._native.special_ids() if id is not None}

    @property
    def end_of_generation(self) -> list[int]:
        """The IDs of the tokens that end a text."""
        return self._native.end_of_generation()

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """The tokens of a text.

        Args:
            text: the text.
            add_special: add begin and end tokens where the vocabulary asks for them.
            parse_special: take the text of control tokens for these tokens.
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
        """The tokens of a text with the parts that they stand for, as ``(id, start, end)``.

        Args:
            text: the text.
            add_special: add begin and end tokens where the vocabulary asks for them.
            parse_special: take the text of control tokens for these tokens.
            characters: ``start`` and ``end`` count characters, so that ``text[start:end]`` of a
                ``str`` is the part; of a token that has a part of a character, that character.
                Otherwise they count bytes of the text in UTF-8.
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
        """The tokens of several texts, on several threads; long texts are divided as well.

        Args:
            texts: the texts.
            add_special: add begin and end tokens where the vocabulary asks for them.
            parse_special: take the text of control tokens for these tokens.
            threads: how many threads; as many as the machine has without it.
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
        """The numbers of tokens of several texts; as :meth:`encode_batch`."""
        return self._native.count_batch(
            list(texts), add_special=add_special, parse_special=parse_special, threads=threads
        )

    def count(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> int:
        """The number of tokens of a text."""
        return self._native.count(text, add_special=add_special, parse_special=parse_special)

    def decode(
        self, ids: Iterable[int], *, remove_special: bool = False, unparse_special: bool = False
    ) -> str:
        """The text of tokens. Bytes that are not UTF-8 become U+FFFD; :meth:`decode_bytes` has
        them."""
        found = self.decode_bytes(
            ids, remove_special=remove_special, unparse_special=unparse_special
        )
        return found.decode("utf-8", "replace")

    def decode_bytes(
        self, ids: Iterable[int], *, remove_special: bool = False, unparse_special: bool = False
    ) -> bytes:
        """The bytes of tokens.

        Args:
            ids: the tokens.
            remove_special: leave out the begin and end tokens that ``encode`` adds.
            unparse_special: write control tokens as their text.

        Raises:
            MissingError: there is no such token.
        """
        return self._native.decode_bytes(
            list(ids), remove_special=remove_special, unparse_special=unparse_special
        )

    def piece(self, id: int) -> bytes | None:
        """The bytes that a token stands for."""
        return self._native.piece(id)

    def id(self, text: str | bytes) -> int | None:
        """The ID of a token by its text in the file."""
        return self._native.id(text)

    def __repr__(self) -> str:
        return f"<Tokenizer {self.kind} of {len(self)} tokens>"
