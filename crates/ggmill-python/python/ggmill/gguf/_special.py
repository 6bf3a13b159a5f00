"""`SpecialVocab`: the special tokens, merges and chat templates of a checkpoint."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ._untyped import elements

if TYPE_CHECKING:
    from .gguf_writer import GGUFWriter

logger = logging.getLogger("gguf.vocab")

TYPES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def _load(path: Path) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _is_pair(merge: Any) -> bool:
    """Return whether a merge is a list of two strings."""
    if not isinstance(merge, list):
        return False
    pair = elements(merge)
    return len(pair) == 2 and isinstance(pair[0], str)


def _token_of(part: Mapping[str, Any]) -> Any:
    """Return the special token of a part of a template, or None."""
    return part.get("SpecialToken", {}).get("id")


class SpecialVocab:
    """The special tokens, merges and chat templates of a checkpoint directory.

    The keys of `special_token_ids` and `add_special_token` are types such as bos and eos. Token IDs
    that are not less than `n_vocab` are ignored, with a warning.
    """

    merges: list[str]
    add_special_token: dict[str, bool]
    special_token_ids: dict[str, int]
    chat_template: str | Sequence[Mapping[str, str]] | None
    normalizer_lowercase: bool | None
    normalizer_strip_accents: bool | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        load_merges: bool = False,
        special_token_types: Iterable[str] | None = None,
        n_vocab: int | None = None,
    ):
        self.special_token_ids = {}
        self.add_special_token = {}
        self.n_vocab = n_vocab
        self.load_merges = load_merges
        self.merges = []
        self.chat_template = None
        self.normalizer_lowercase = None
        self.normalizer_strip_accents = None
        self.special_token_types: Iterable[str] = (
            TYPES if special_token_types is None else special_token_types
        )
        self._load(Path(path))

    def __repr__(self) -> str:
        return (
            f"<SpecialVocab with {len(self.merges)} merges, special tokens "
            f"{self.special_token_ids or 'unset'}, add special tokens "
            f"{self.add_special_token or 'unset'}>"
        )

    def add_to_gguf(self, gw: GGUFWriter, quiet: bool = False) -> None:
        """Set the metadata keys of a writer, and log each of them unless `quiet`."""

        def say(text: str) -> None:
            if not quiet:
                logger.info(text)

        if self.merges:
            say(f"Adding {len(self.merges)} merge(s).")
            gw.add_token_merges(self.merges)
        elif self.load_merges:
            logger.warning(
                "Adding merges requested but no merges found, output may be non-functional."
            )
        for typ, token_id in self.special_token_ids.items():
            handler = getattr(gw, f"add_{typ}_token_id", None)
            if handler is None:
                logger.warning(
                    f"No handler for special token type {typ} with id {token_id} - skipping"
                )
                continue
            say(f"Setting special token type {typ} to {token_id}")
            handler(token_id)
        for typ, value in self.add_special_token.items():
            handler = getattr(gw, f"add_add_{typ}_token", None)
            if handler is None:
                logger.warning(f"No handler for add_{typ}_token with value {value} - skipping")
                continue
            say(f"Setting add_{typ}_token to {value}")
            handler(value)
        for name in ("chat_template", "normalizer_lowercase", "normalizer_strip_accents"):
            value = getattr(self, name)
            if value is not None:
                say(f"Setting {name} to {value}")
                getattr(gw, f"add_{name}")(value)

    def _load(self, path: Path) -> None:
        self._try_load_from_tokenizer_json(path)
        self._try_load_from_config_json(path)
        if self.load_merges and not self.merges:
            self._try_load_merges_txt(path)

    # ------------------------------------------------------------ merges

    def _try_load_merges_txt(self, path: Path) -> bool:
        merges_file = path / "merges.txt"
        if not merges_file.is_file():
            return False
        self.merges = []
        with open(merges_file, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if number == 1 and line.strip().startswith("#"):
                    continue
                parts = line.split(None, 3)
                if len(parts) == 2:
                    self.merges.append(" ".join(parts))
                elif parts:
                    logger.warning(f"{merges_file.name}: Line {number}: Entry malformed, ignoring")
        return True

    def _set_merges(self, merges: Any) -> None:
        if not isinstance(merges, list) or not merges:
            return
        listed = elements(merges)
        first: Any = listed[0]
        if isinstance(first, str):
            self.merges = listed
        elif _is_pair(first):
            space = chr(ord(" ") + 256)
            if any(" " in part for pair in listed for part in pair):
                logger.warning(f"Spaces in merges detected, encoding as {space!r}")
            self.merges = [" ".join(part.replace(" ", space) for part in pair) for pair in listed]
        else:
            raise ValueError("Unknown tokenizer merges format")

    # ------------------------------------------------------------ special tokens

    def _set_special_token(self, typ: str, tid: Any) -> None:
        if not isinstance(tid, int):
            return
        if tid < 0:
            raise ValueError(f"invalid value for special token type {typ}: {tid}")
        if self.n_vocab is None or tid < self.n_vocab:
            self.special_token_ids.setdefault(typ, tid)
        else:
            logger.warning(
                f"Special token type {typ}, id {tid} out of range, must be under "
                f"{self.n_vocab} - skipping"
            )

    def _parse_normalizer(self, normalizer: Mapping[str, Any]) -> None:
        kind = normalizer.get("type")
        if kind == "Lowercase":
            self.normalizer_lowercase = True
        elif kind == "StripAccents":
            self.normalizer_strip_accents = True
        elif kind == "BertNormalizer":
            if "lowercase" in normalizer:
                self.normalizer_lowercase = normalizer["lowercase"]
            if "strip_accents" in normalizer:
                self.normalizer_strip_accents = normalizer["strip_accents"]
        elif kind == "Sequence":
            for one in normalizer.get("normalizers", []):
                self._parse_normalizer(one)

    def _try_load_from_tokenizer_json(self, path: Path) -> bool:
        tokenizer: Any = None
        if (path / "tokenizer.json").is_file():
            tokenizer = _load(path / "tokenizer.json")
        config_file = path / "tokenizer_config.json"
        config: Any = _load(config_file) if config_file.is_file() else None
        added_tokens: Any = []
        if tokenizer is not None:
            if self.load_merges:
                self._set_merges(tokenizer.get("model", {}).get("merges"))
            if normalizer := tokenizer.get("normalizer"):
                self._parse_normalizer(normalizer)
            added_tokens = tokenizer.get("added_tokens", [])
        if tokenizer:
            _PostProcessor(self, config).read(tokenizer.get("post_processor"))
        if not config:
            return True
        template = config.get("chat_template", self._template_beside(path))
        if template is None or isinstance(template, (str, list)):
            self.chat_template = template
        else:
            logger.warning(f"Bad type for chat_template field in {config_file!r} - ignoring")
        # Of several tokens with the same content, the first is used.
        ids = {one.get("content"): one.get("id") for one in reversed(list(added_tokens))}
        for typ in self.special_token_types:
            self._set_add(typ, config.get(f"add_{typ}_token"))
            entry = config.get(f"{typ}_token")
            content: Any = entry
            if isinstance(entry, dict):
                content = cast(dict[str, Any], entry).get("content")
            if isinstance(content, str):
                self._set_special_token(typ, ids.get(content))
        return True

    def _set_add(self, typ: str, value: Any) -> None:
        if not isinstance(value, bool):
            return
        known = self.add_special_token.setdefault(typ, value)
        if known != value:
            logger.warning(
                f"Mismatch between tokenizer_config add_{typ}_token({value}) and tokenizer "
                f"post_processor<{typ}>({known}) - opting for the latter"
            )

    @staticmethod
    def _template_beside(path: Path) -> Any:
        """Return the chat template from separate files; a list if there are several."""
        jinja, in_json = path / "chat_template.jinja", path / "chat_template.json"
        if jinja.is_file():
            template = jinja.read_text(encoding="utf-8")
            others = list((path / "additional_chat_templates").glob("*.jinja"))
            if not others:
                return template
            return [{"name": "default", "template": template}] + [
                {"name": one.stem, "template": one.read_text(encoding="utf-8")} for one in others
            ]
        return _load(in_json).get("chat_template") if in_json.is_file() else None

    def _try_load_from_config_json(self, path: Path) -> bool:
        config_file = path / "config.json"
        if not config_file.is_file():
            return False
        config = _load(config_file)
        for typ in self.special_token_types:
            token_id = config.get(f"{typ}_token_id")
            if token_id is None and "text_config" in config:
                token_id = config["text_config"].get(f"{typ}_token_id")
            self._set_special_token(typ, token_id)
        return True


class _PostProcessor:
    """The special tokens according to the post-processor of tokenizer.json.

    Tokens that tokenizer_config.json lacks are added to `config`. Only templates with a single
    token at each end are supported.
    """

    def __init__(self, vocab: SpecialVocab, config: dict[str, Any] | None):
        self._vocab = vocab
        self._config = config
        known = config or {}
        self._bos, self._cls = known.get("bos_token"), known.get("cls_token")
        self._eos, self._sep = known.get("eos_token"), known.get("sep_token")
        if not self._bos and self._cls and config:
            config["bos_token"] = self._bos = self._cls
        if not self._eos and self._sep and config:
            config["eos_token"] = self._eos = self._sep

    def read(self, processor: Any) -> None:
        if not processor:
            return
        add = self._vocab.add_special_token
        for one in processor.get("processors", [processor]):
            kind = one.get("type")
            if kind == "ByteLevel":
                add.setdefault("bos", False)
                add.setdefault("eos", False)
            elif kind == "RobertaProcessing":
                add.update(bos=True, eos=True, sep=True)
                if not self._cls and self._config:
                    self._config["cls_token"] = self._cls = one.get("cls", [self._bos])[0]
                if not self._sep and self._config:
                    self._config["sep_token"] = self._sep = one.get("sep", [self._eos])[0]
            elif kind == "TemplateProcessing":
                first, last = self._single(one.get("single", []))
                self._pair(one.get("pair", []), first, last)

    def _single(self, template: list[Any]) -> tuple[Any, Any]:
        """Parse the template for one text; return its first and its last token."""
        if len(template) <= 1:
            return None, None
        add = self._vocab.add_special_token
        if first := _token_of(template[0]):
            if not self._config:
                self._bos = first
            elif first not in (self._bos, self._cls):
                if not self._bos:
                    self._config["bos_token"] = self._bos = first
                if not self._cls:
                    self._config["cls_token"] = self._cls = first
            add["bos"] = first in (self._bos, self._cls)
            if not add["bos"]:
                logger.warning(
                    f"Unknown leading special token {first!r} in TemplateProcessing<single>"
                )
        if last := _token_of(template[-1]):
            if not self._config:
                self._eos = last
            elif last != self._eos:
                self._replace_end(last)
            add["eos"] = last == self._eos
            if not add["eos"]:
                logger.warning(
                    f"Unknown trailing special token {last!r} in TemplateProcessing<single>"
                )
        return first, last

    def _replace_end(self, last: str) -> None:
        """Replace the EOS token; the old one becomes the EOT or EOM token."""
        assert self._config is not None
        types = tuple(self._vocab.special_token_types)
        free = next((typ for typ in ("eot", "eom") if typ not in types), None)
        if free is None:
            logger.warning(
                f"Overriding EOS token {self._eos!r} with {last!r} without EOT/EOM fallback!"
            )
        else:
            self._vocab.special_token_types = (*types, free)
            self._config[f"{free}_token"] = self._eos
        self._config["eos_token"] = self._eos = last

    def _pair(self, template: list[Any], first: Any, last: Any) -> None:
        """Parse the template for two texts: A, a separator, EOS, B."""
        if not template:
            return
        start = bool(first) and _token_of(template[0]) == first
        stop = bool(last) and _token_of(template[-1]) == last
        if (first and not start) or (last and not stop):
            logger.warning(
                "TemplateProcessing<single> leading/trailing special tokens do not match "
                "TemplateProcessing<pair>"
            )
        template = template[int(start) : -1 if stop else None]
        if not template:
            return
        ends = tuple(one.get("Sequence", {}).get("id") for one in (template[0], template[-1]))
        if ends != ("A", "B"):
            logger.warning(f"Unknown sequence {ends[0]}...{ends[1]} in TemplateProcessing<pair>")
            return
        between = template[1:-1]
        if not between:
            return
        add = False
        known = (self._sep, self._eos)
        for part, nth in zip(
            between if len(between) == 2 else between[:1], ("", "second "), strict=False
        ):
            token = _token_of(part)
            if not token:
                what = f"Unknown {nth}middle sequence {part!r}"
            elif token not in known:
                what = f"Unknown {nth}separator token {token!r}"
            else:
                add = add or bool(nth) or not last
                continue
            logger.warning(f"{what} in TemplateProcessing<pair>")
        self._vocab.add_special_token["sep"] = add
        if add and not self._sep and self._config:
            self._config["sep_token"] = self._eos
