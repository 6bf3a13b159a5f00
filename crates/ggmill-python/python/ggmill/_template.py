"""Chat templates: conversations to text, and to tokens that no text of a message can forge."""

from __future__ import annotations

import calendar
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import _native
from ._errors import ArgumentError, Error, FormatError, MissingError
from ._model import Model, PathLike, open, path_text
from ._tokenizer import Tokenizer

_LONGEST = 64 << 20
"""Bytes of a file that is no model."""


@dataclass(frozen=True)
class Segment:
    """A part of a rendered text that comes from one place.

    Attributes:
        start: its first byte in the text, in UTF-8.
        end: the byte after its last.
        field: where in the conversation it is from, ``"messages[0].content"``; ``None`` for text of
            the template.
        generated: whether a ``generation`` block wrote it: the model's own text.
    """

    start: int
    end: int
    field: str | None
    generated: bool


@dataclass(frozen=True)
class Refused:
    """A special token that text of the conversation has, and that is text among the tokens.

    Attributes:
        id: the token.
        start: its first byte in the rendered text.
        end: the byte after its last.
        field: where in the conversation it is from.
    """

    id: int
    start: int
    end: int
    field: str


@dataclass(frozen=True)
class RenderedTokens:
    """The tokens of a rendered text.

    Attributes:
        ids: the tokens.
        offsets: for each the bytes of the text, in UTF-8, that it stands for.
        generated: for each whether it is the model's own text.
        refused: special tokens that an ordinary tokenizer would have found in text of the
            conversation.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    generated: list[bool]
    refused: list[Refused]


class Rendered:
    """The text that a template made of a conversation; ``str`` gives it."""

    __slots__ = ("_native", "_tokenizer", "text")

    text: str
    """The text."""

    def __init__(self, native: _native.Rendered, tokenizer: Tokenizer | None) -> None:
        self._native = native
        self._tokenizer = tokenizer
        self.text = native.text()

    @property
    def segments(self) -> list[Segment]:
        """Where the parts of the text come from, in order and without gaps. It is followed through
        all that a template does to text."""
        return [Segment(*segment) for segment in self._native.segments()]

    @property
    def missing_variables(self) -> list[str]:
        """Names of variables that the template read and that do not exist."""
        return self._native.missing_variables()

    @property
    def ids(self) -> list[int]:
        """The tokens of the text: those of :meth:`encode`."""
        return self.encode().ids

    def encode(self, tokenizer: Tokenizer | None = None) -> RenderedTokens:
        """The tokens of the text.

        Control tokens are recognised in the template's own text, and in roles of one word, alone:
        in the text of a message they are text, and listed as ``refused``. User-defined tokens are
        recognised everywhere, and no token is added before or after, as llama.cpp has it.

        Args:
            tokenizer: instead of that of the model.

        Raises:
            ArgumentError: there is no tokenizer.
        """
        used = tokenizer or self._tokenizer
        if used is None:
            raise ArgumentError("no tokenizer: the template is not that of a model with one")
        pieces, generated, refused = self._native.encode(used._native)
        return RenderedTokens(
            ids=[id for id, _, _ in pieces],
            offsets=[(start, end) for _, start, end in pieces],
            generated=generated,
            refused=[Refused(*found) for found in refused],
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Rendered {self.text!r}>"


class Template:
    """The chat template of a model.

    It is rendered as transformers renders it, within limits of steps and memory, and knows where
    each part of its text comes from. Several threads may use one at once, and the model may be
    closed.

    >>> template = ggmill.Template("model.gguf")                                  # doctest: +SKIP
    >>> template.render([{"role": "user", "content": "Hello"}]).text              # doctest: +SKIP
    """

    __slots__ = ("_native", "name", "text", "tokenizer", "tokens")

    name: str | None
    """The name; ``None`` for the default template."""

    text: str
    """The text of the template."""

    tokenizer: Tokenizer | None
    """The tokenizer of the model, where it has one that can be used."""

    tokens: dict[str, str]
    """Special tokens by the names of their variables, ``{"bos_token": "<s>"}``."""

    def __init__(self, model: PathLike | Model, *, name: str | None = None) -> None:
        """Reads the template of a model, or of a file of its own.

        Args:
            model: a path, or an open model. The file may also be one of Jinja, or a
                ``tokenizer_config.json`` or ``chat_template.json``; then there is no tokenizer.
            name: the template of this name, instead of the default one.

        Raises:
            MissingError: there is no such template.
            FormatError: the template does not parse.
        """
        if isinstance(model, Model):
            self._of_model(model, name)
            return
        path = path_text(model)
        if not _is_model(path):
            self._of_file(path, name)
            return
        with open(path) as opened:
            self._of_model(opened, name)

    def _of_model(self, model: Model, name: str | None) -> None:
        text = _chosen(_native.templates(model._native), name, model.path)
        try:
            self.tokenizer = Tokenizer(model)
        except Error:
            # Text can be rendered without one.
            self.tokenizer = None
        self._set(name, text, None)

    def _of_file(self, path: str, name: str | None) -> None:
        with io.open(path, "rb") as file:
            data = file.read(_LONGEST + 1)
        if len(data) > _LONGEST:
            raise FormatError(f"{path}: more than {_LONGEST} bytes", kind="limit", path=path)
        try:
            templates, tokens = _native.templates_of_text(data.decode())
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: {error}", kind="malformed", path=path) from None
        self.tokenizer = None
        self._set(name, _chosen(templates, name, path), dict(tokens))

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        tokens: Mapping[str, str] | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> Template:
        """A template of a text.

        Args:
            text: the template.
            tokens: special tokens by the names of their variables; those of the tokenizer otherwise.
            tokenizer: what makes tokens of the text.

        Raises:
            FormatError: the template does not parse.
        """
        made = cls.__new__(cls)
        made.tokenizer = tokenizer
        made._set(None, text, tokens)
        return made

    def _set(self, name: str | None, text: str, tokens: Mapping[str, str] | None) -> None:
        self.name = name
        self.text = text
        if tokens is None and self.tokenizer is not None:
            tokens = dict(_native.template_tokens(self.tokenizer._native))
        self.tokens = dict(tokens or {})
        self._native = _native.Template(text)

    def render(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        tools: Iterable[Mapping[str, Any]] | None = None,
        documents: Iterable[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        now: datetime | None = None,
        **variables: Any,
    ) -> Rendered:
        """Renders a conversation.

        Args:
            messages: objects with ``role`` and ``content``, as JSON has them.
            tools: descriptions of functions, as JSON Schema.
            documents: objects with ``title`` and ``text``.
            add_generation_prompt: end where the model's answer begins.
            now: the time that ``strftime_now`` shows; the present without it.
            variables: other variables of the template: ``enable_thinking=False``.

        Raises:
            ArgumentError: the conversation is not one, or the template refuses it.
            FormatError: the template does what the sandbox of transformers refuses, or takes too
                much.
        """
        return Rendered(
            self._native.render(
                _json("messages", list(messages)),
                tools=None if tools is None else _json("tools", list(tools)),
                documents=None if documents is None else _json("documents", list(documents)),
                add_generation_prompt=add_generation_prompt,
                variables=[(name, _json(name, value)) for name, value in variables.items()],
                tokens=list(self.tokens.items()),
                now=calendar.timegm((now or datetime.now()).timetuple()),
            ),
            self.tokenizer,
        )

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        return f"<Template{name} of {len(self.text)} characters>"


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name}: {error}") from error


def _is_model(path: str) -> bool:
    try:
        with io.open(path, "rb") as file:
            return file.read(4) in (b"GGUF", b"FUGG")
    except OSError:
        # Opening it says what is wrong.
        return True


def _chosen(templates: list[tuple[str | None, str]], name: str | None, path: str) -> str:
    for own, text in templates:
        if own == name:
            return text
    names = ", ".join("the default one" if own is None else own for own, _ in templates)
    message = f"{path}: no chat template{'' if name is None else f' {name!r}'}"
    raise MissingError(
        f"{message}; there are: {names}" if names else message, kind="missing", path=path
    )
