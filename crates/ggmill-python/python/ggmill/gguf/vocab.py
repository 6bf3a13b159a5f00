"""Vocabularies of checkpoints, token by token."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from ._optional import optional
from ._special import SpecialVocab
from .constants import TokenType


def _of(module: str, name: str) -> Any:
    """Import a name of an optional package; return None if it is not installed."""
    try:
        return getattr(optional(module), name)
    except (ImportError, AttributeError):
        return None


_MISTRAL = "mistral_common.tokens.tokenizers"
SentencePieceProcessor = _of("sentencepiece", "SentencePieceProcessor")
MistralTokenizer = _of(f"{_MISTRAL}.mistral", "MistralTokenizer")
Tekkenizer = _of(f"{_MISTRAL}.tekken", "Tekkenizer")
SentencePieceTokenizer = _of(f"{_MISTRAL}.sentencepiece", "SentencePieceTokenizer")
_filter_valid_tokenizer_files = _of(f"{_MISTRAL}.utils", "_filter_valid_tokenizer_files")
# Older versions do not have this one.
get_one_valid_tokenizer_file = _of(f"{_MISTRAL}.utils", "get_one_valid_tokenizer_file")
_mistral_common_installed = None not in (MistralTokenizer, Tekkenizer, SentencePieceTokenizer)

__all__ = [
    "BaseVocab",
    "BpeVocab",
    "LlamaHfVocab",
    "MistralTokenizer",
    "MistralTokenizerType",
    "MistralVocab",
    "NoVocab",
    "SentencePieceProcessor",
    "SentencePieceTokenizer",
    "SentencePieceVocab",
    "SpecialVocab",
    "Tekkenizer",
    "Vocab",
    "bytes_to_unicode",
    "get_one_valid_tokenizer_file",
]

logger = logging.getLogger("gguf.vocab")

# Text, score and type.
Token = tuple[Any, float, TokenType]

# The score of tokens without a score in the files.
_NO_SCORE = -1000.0


@runtime_checkable
class BaseVocab(Protocol):
    """A vocabulary with a name and the value of tokenizer.ggml.model."""

    tokenizer_model: ClassVar[str]
    name: ClassVar[str]


@runtime_checkable
class Vocab(BaseVocab, Protocol):
    """A vocabulary with base tokens, followed by added tokens."""

    vocab_size: int
    added_tokens_dict: dict[str, int]
    added_tokens_list: list[str]
    fname_tokenizer: Path

    def __init__(self, base_path: Path): ...

    def all_tokens(self) -> Iterable[Token]:
        """Yield all tokens in the order of their IDs."""
        ...


class NoVocab(BaseVocab):
    """A model without a vocabulary."""

    tokenizer_model = "no_vocab"
    name = "no_vocab"

    def __repr__(self) -> str:
        return "<NoVocab for a model without integrated vocabulary>"


class _Counted:
    """Common parts of vocabularies with base tokens and added tokens."""

    vocab_size_base: int
    added_tokens_list: list[str]

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} with {self.vocab_size_base} base tokens and "
            f"{len(self.added_tokens_list)} added tokens>"
        )


def _added_tokens(base_path: Path) -> dict[str, int]:
    try:
        with open(base_path / "added_tokens.json", encoding="utf-8") as file:
            found: dict[str, int] = json.load(file)
            return found
    except FileNotFoundError:
        return {}


class BpeVocab(_Counted, Vocab):
    """A byte-level BPE vocabulary: vocab.json with added_tokens.json, or tokenizer.json."""

    tokenizer_model = "gpt2"
    name = "bpe"

    def __init__(self, base_path: Path):
        added: dict[str, int] = {}
        path = base_path / "vocab.json"
        if path.exists():
            with open(path, encoding="utf-8") as file:
                self.vocab: dict[str, int] = json.load(file)
            added = _added_tokens(base_path)
        else:
            path = base_path / "tokenizer.json"
            with open(path, encoding="utf-8") as file:
                tokenizer = json.load(file)
            model = tokenizer["model"]
            if (
                model["type"] != "BPE"
                or model.get("byte_fallback", False)
                or tokenizer["decoder"]["type"] != "ByteLevel"
            ):
                raise FileNotFoundError("Cannot find GPT-2 BPE tokenizer")
            self.vocab = model["vocab"]
            added = {
                one["content"]: one["id"]
                for one in tokenizer.get("added_tokens") or ()
                if one["content"] not in self.vocab
            }
        size = len(self.vocab)
        ids = sorted(added.values())
        if ids != list(range(size, size + len(added))):
            raise ValueError(
                f"Expected the {len(ids)} added token ID(s) to be sequential in the range "
                f"{size} - {size + len(ids) - 1}; got {ids}"
            )
        self.added_tokens_dict = added
        self.added_tokens_list = sorted(added, key=lambda text: added[text])
        self.vocab_size_base = size
        self.vocab_size = size + len(added)
        self.fname_tokenizer = path

    def bpe_tokens(self) -> Iterator[Token]:
        """Yield the base tokens."""
        texts = {number: text for text, number in self.vocab.items()}
        for number in range(len(self.vocab)):
            yield texts[number], 0.0, TokenType.NORMAL

    def added_tokens(self) -> Iterator[Token]:
        """Yield the added tokens."""
        for text in self.added_tokens_list:
            yield text.encode("utf-8"), _NO_SCORE, TokenType.CONTROL

    def all_tokens(self) -> Iterator[Token]:
        yield from self.bpe_tokens()
        yield from self.added_tokens()


def _piece_type(model: Any, number: int) -> TokenType:
    """Return the type of a piece; the first match in this order wins."""
    for says, found in (
        (model.IsByte, TokenType.BYTE),
        (model.IsUnused, TokenType.UNUSED),
        (model.IsControl, TokenType.CONTROL),
        (model.IsUnknown, TokenType.UNKNOWN),
    ):
        if says(number):
            return found
    return TokenType.NORMAL


def _pieces(model: Any) -> Iterator[Token]:
    """Yield the pieces of a SentencePiece model."""
    for number in range(model.vocab_size()):
        text = model.IdToPiece(number).encode("utf-8")
        yield text, model.GetScore(number), _piece_type(model, number)


class SentencePieceVocab(_Counted, Vocab):
    """The vocabulary of tokenizer.model with added_tokens.json; needs `sentencepiece`."""

    tokenizer_model = "llama"
    name = "spm"

    def __init__(self, base_path: Path):
        if SentencePieceProcessor is None:
            raise RuntimeError("sentencepiece is not installed")
        added: dict[str, int] = {}
        path = base_path / "tokenizer.model"
        if path.exists():
            added = _added_tokens(base_path)
        else:
            path = base_path.parent / "tokenizer.model"
            if not path.exists():
                raise FileNotFoundError("Cannot find tokenizer.model")
        self.sentencepiece_tokenizer = SentencePieceProcessor()
        self.sentencepiece_tokenizer.LoadFromFile(str(path))
        size = self.sentencepiece_tokenizer.vocab_size()
        new = {number: piece for piece, number in added.items() if number >= size}
        ids, expected = sorted(new), list(range(size, size + len(new)))
        if ids != expected:
            raise ValueError(f"Expected new token IDs {expected} to be sequential; got {ids}")
        self.added_tokens_dict = added
        self.added_tokens_list = [new[number] for number in ids]
        self.vocab_size_base = size
        self.vocab_size = size + len(new)
        self.fname_tokenizer = path

    def sentencepiece_tokens(self) -> Iterator[Token]:
        """Yield the pieces of the model."""
        yield from _pieces(self.sentencepiece_tokenizer)

    def added_tokens(self) -> Iterator[Token]:
        """Yield the added tokens."""
        for text in self.added_tokens_list:
            yield text.encode("utf-8"), _NO_SCORE, TokenType.USER_DEFINED

    def all_tokens(self) -> Iterator[Token]:
        yield from self.sentencepiece_tokens()
        yield from self.added_tokens()


class LlamaHfVocab(_Counted, Vocab):
    """The vocabulary of tokenizer.json: BPE with byte tokens; needs `transformers`."""

    tokenizer_model = "llama"
    name = "hfft"

    def __init__(self, base_path: Path):
        path = base_path / "tokenizer.json"
        with open(path, encoding="utf-8") as file:
            tokenizer = json.load(file)
        model = tokenizer["model"]
        if (
            model["type"] == "BPE"
            and model.get("ignore_merges", False)
            and not model.get("byte_fallback", True)
        ):
            raise TypeError("Llama 3 must be converted with BpeVocab")
        if (
            model["type"] != "BPE"
            or not model.get("byte_fallback", False)
            or tokenizer["decoder"]["type"] != "Sequence"
        ):
            raise FileNotFoundError("Cannot find Llama BPE tokenizer")
        try:
            transformers: Any = optional("transformers")
        except ImportError as error:
            raise ImportError(
                "To use LlamaHfVocab, please install the `transformers` package. "
                "You can install it with `pip install transformers`."
            ) from error
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
            base_path, cache_dir=base_path, local_files_only=True
        )
        assert self.tokenizer.is_fast
        self.vocab_size_base = self.tokenizer.vocab_size
        added = sorted(self.tokenizer.get_added_vocab().items(), key=lambda one: one[1])
        # Added tokens may also be base tokens.
        self.added_tokens_dict = {
            text: number for text, number in added if number >= self.vocab_size_base
        }
        self.added_tokens_list = list(self.added_tokens_dict)
        self.added_tokens_ids = set(self.added_tokens_dict.values())
        vocab = self.tokenizer.get_vocab()
        self.specials = {text: vocab[text] for text in self.tokenizer.all_special_tokens}
        self.special_ids = set(self.tokenizer.all_special_ids)
        self.vocab_size = self.vocab_size_base + len(self.added_tokens_list)
        self.fname_tokenizer = path

    def hf_tokens(self) -> Iterator[Token]:
        """Yield the base tokens."""
        texts = {number: text for text, number in self.tokenizer.get_vocab().items()}
        for number in range(self.vocab_size_base):
            if number not in self.added_tokens_ids:
                text = texts[number].encode("utf-8")
                kind = self.get_token_type(number, text, self.special_ids)
                yield text, self.get_token_score(number), kind

    def get_token_type(self, token_id: int, token_text: bytes, special_ids: set[int]) -> TokenType:
        """Return BYTE for <0x..>, CONTROL for special tokens, and NORMAL otherwise."""
        if re.fullmatch(rb"<0x[0-9A-Fa-f]{2}>", token_text):
            return TokenType.BYTE
        return TokenType.CONTROL if token_id in special_ids else TokenType.NORMAL

    def get_token_score(self, token_id: int) -> float:
        """Return the score of a token, which is the same for all."""
        return _NO_SCORE

    def added_tokens(self) -> Iterator[Token]:
        """Yield the added tokens."""
        for text in self.added_tokens_list:
            kind, score = TokenType.USER_DEFINED, _NO_SCORE
            if text in self.specials:
                number = self.specials[text]
                kind = self.get_token_type(number, b"", self.special_ids)
                score = self.get_token_score(number)
            yield text.encode("utf-8"), score, kind

    def has_newline_token(self) -> bool:
        """Return whether there is a token for a newline."""
        return "<0x0A>" in self.tokenizer.vocab or "\n" in self.tokenizer.vocab

    def all_tokens(self) -> Iterator[Token]:
        yield from self.hf_tokens()
        yield from self.added_tokens()


class MistralTokenizerType(str, Enum):
    """The kinds of tokenizers in mistral-common."""

    spm = "spm"
    tekken = "tekken"


def bytes_to_unicode() -> dict[int, str]:
    """Return the characters of byte-level vocabularies; printable bytes map to themselves."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {
        byte: chr(256 + number) for number, byte in enumerate(hidden)
    }


class MistralVocab(Vocab):
    """The vocabulary of a tokenizer of mistral-common."""

    tokenizer_model = "mistral"
    name = "mistral"

    added_tokens_dict: dict[str, int] = {}
    added_tokens_list: list[str] = []

    def __init__(self, base_path: Path):
        if not _mistral_common_installed:
            raise ImportError(
                "To use MistralVocab, please install the `mistral-common` package. "
                "You can install it with `pip install mistral-common`."
            )
        logger.info(f"Loading Mistral tokenizer from {base_path}")
        path = self._tokenizer_file(base_path)
        self.tokenizer: Any = MistralTokenizer.from_file(path).instruct_tokenizer.tokenizer
        self.tokenizer_type = (
            MistralTokenizerType.tekken
            if isinstance(self.tokenizer, Tekkenizer)
            else MistralTokenizerType.spm
        )
        self.vocab_size = self.tokenizer.n_words
        self.fname_tokenizer = path
        self._name = f"mistral-{self.tokenizer_type.value}-{self.tokenizer.version}"

    @staticmethod
    def _tokenizer_file(base_path: Path) -> Any:
        files = [one.as_posix() for one in base_path.glob("**/*") if one.is_file()]
        if get_one_valid_tokenizer_file is not None:
            return get_one_valid_tokenizer_file(files)
        found = _filter_valid_tokenizer_files(files)
        if not found:
            raise ValueError(f"No tokenizer file found in the directory: {base_path}")
        chosen = found[0]
        if len(found) > 1:
            chosen = "tekken.json" if "tekken.json" in found else sorted(found)[-1]
            logger.warning(f"Multiple tokenizer files found in {base_path}. Using {chosen}")
        return base_path / chosen

    @property
    def tokenizer_name(self) -> str:
        """The kind and version of the tokenizer."""
        return self._name

    @property
    def gguf_tokenizer_model(self) -> str:
        """The value of tokenizer.ggml.model."""
        return "llama" if self.tokenizer_type == MistralTokenizerType.spm else "gpt2"

    def _sentencepiece_tokens(self) -> Iterator[Token]:
        assert isinstance(self.tokenizer, SentencePieceTokenizer), (
            f"Expected SentencePieceTokenizer, got {type(self.tokenizer)}"
        )
        yield from _pieces(self.tokenizer._model)

    def _tekken_tokens(self) -> Iterator[Token]:
        assert isinstance(self.tokenizer, Tekkenizer), (
            f"Expected Tekkenizer, got {type(self.tokenizer)}"
        )
        for number in range(self.tokenizer.num_special_tokens):
            text = self.tokenizer.id_to_piece(number).encode("utf-8")
            yield text, 0, TokenType.CONTROL
        characters = bytes_to_unicode()
        for token in self.tokenizer._tekken_token2id_nospecial:
            text = self.token_bytes_to_string(token, characters).encode("utf-8")
            yield text, 0, TokenType.NORMAL

    def get_token_id(self, token: str) -> int:
        """Return the ID of a token."""
        number: int = self.tokenizer._vocab.index(token)
        if self.tokenizer_type == MistralTokenizerType.tekken:
            number += self.tokenizer.num_special_tokens
        return number

    @property
    def bos_id(self) -> int:
        """The ID of the BOS token."""
        return int(self.tokenizer.bos_id)

    @property
    def eos_id(self) -> int:
        """The ID of the EOS token."""
        return int(self.tokenizer.eos_id)

    @property
    def pad_id(self) -> int:
        """The ID of the padding token; that of the EOS token if there is none."""
        return self.eos_id if self.tokenizer.pad_id == -1 else int(self.tokenizer.pad_id)

    @property
    def unk_id(self) -> int:
        """The ID of the unknown token."""
        return int(self.tokenizer.unk_id)

    def _piece(self, number: int) -> str:
        return str(self.tokenizer.id_to_piece(number))

    @property
    def bos_token(self) -> str:
        """The BOS token."""
        return self._piece(self.tokenizer.bos_id)

    @property
    def eos_token(self) -> str:
        """The EOS token."""
        return self._piece(self.tokenizer.eos_id)

    @property
    def pad_token(self) -> str:
        """The padding token."""
        return self._piece(self.tokenizer.pad_id)

    @property
    def unk_token(self) -> str:
        """The unknown token."""
        return self._piece(self.tokenizer.unk_id)

    def all_tokens(self) -> Iterator[Token]:
        """Yield all tokens in the order of their IDs."""
        tokens: Callable[[], Iterator[Token]] = (
            self._sentencepiece_tokens
            if self.tokenizer_type == MistralTokenizerType.spm
            else self._tekken_tokens
        )
        yield from tokens()

    @staticmethod
    def token_bytes_to_string(b: bytes, byte_encoder: dict[int, str]) -> str:
        """Convert the bytes of a token to the characters of a byte-level vocabulary."""
        return "".join(byte_encoder[byte] for byte in b)

    def extract_vocab_merges_from_model(self) -> list[str]:
        """Return merges for the tokens of a tekken tokenizer, ordered by rank for each token."""
        assert isinstance(self.tokenizer, Tekkenizer), (
            f"Expected Tekkenizer, got {type(self.tokenizer)}"
        )
        ranks: dict[bytes, int] = self.tokenizer._model._mergeable_ranks
        tokens = {rank: token for token, rank in ranks.items()}
        characters = bytes_to_unicode()
        space = chr(ord(" ") + 256)

        def shown(part: bytes) -> str:
            return self.token_bytes_to_string(part, characters).replace(" ", space)

        merges: list[str] = []
        for rank in range(256, self.vocab_size - self.tokenizer.num_special_tokens):
            token = tokens[rank]
            splits = [(token[:at], token[at:]) for at in range(1, len(token))]
            pairs = [pair for pair in splits if pair[0] in ranks and pair[1] in ranks]
            if not pairs:
                raise ValueError(
                    f"Could not find valid merge for token at rank {rank}: "
                    f"{token.decode('latin-1')}"
                )
            pairs.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
            merges += [f"{shown(left)} {shown(right)}" for left, right in pairs]
        return merges
