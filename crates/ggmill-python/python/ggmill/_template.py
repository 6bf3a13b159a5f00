"""Chat templates: rendering of conversations as text and as tokens.

Text in messages cannot produce control tokens.
"""

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
"""The maximum size of a template file in bytes."""


@dataclass(frozen=True)
class Segment:
    """A part of a rendered text with a single origin.

    Attributes:
        start: The start in the text, in bytes of UTF-8.
        end: The end in the text, in bytes of UTF-8 (exclusive).
        field: The origin in the conversation, such as ``"messages[0].content"``; ``None`` for text
            of the template.
        generated: Whether the part is inside a ``generation`` block, that is, text of the model.
    """

    start: int
    end: int
    field: str | None
    generated: bool


@dataclass(frozen=True)
class Refused:
    """A special token in the text of the conversation, which was encoded as plain text.

    Attributes:
        id: The ID of the special token.
        start: The start in the rendered text, in bytes of UTF-8.
        end: The end in the rendered text, in bytes of UTF-8 (exclusive).
        field: The origin in the conversation.
    """

    id: int
    start: int
    end: int
    field: str


@dataclass(frozen=True)
class RenderedTokens:
    """The tokens of a rendered text.

    Attributes:
        ids: The token IDs.
        offsets: The start and the end of each token in the text, in bytes of UTF-8.
        generated: For each token, whether it is text of the model.
        refused: Special tokens in the text of the conversation, which were encoded as plain text.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    generated: list[bool]
    refused: list[Refused]


class Rendered:
    """A rendered conversation. ``str(rendered)`` is its text."""

    __slots__ = ("_native", "_tokenizer", "text")

    text: str
    """The rendered text."""

    def __init__(self, native: _native.Rendered, tokenizer: Tokenizer | None) -> None:
        self._native = native
        self._tokenizer = tokenizer
        self.text = native.text()

    @property
    def segments(self) -> list[Segment]:
        """The origins of all parts of the text, in order and without gaps.

        Origins are tracked through all operations of a template on text.
        """
        return [Segment(*segment) for segment in self._native.segments()]

    @property
    def missing_variables(self) -> list[str]:
        """The names of undefined variables that the template used."""
        return self._native.missing_variables()

    @property
    def ids(self) -> list[int]:
        """The token IDs of the text; see :meth:`encode`."""
        return self.encode().ids

    def encode(self, tokenizer: Tokenizer | None = None) -> RenderedTokens:
        """Convert the text to tokens.

        Control tokens are recognized only in text of the template, and in roles that are a single
        word. In the text of messages they are encoded as plain text and listed as ``refused``.
        User-defined tokens are recognized everywhere. As in llama.cpp, no BOS or EOS token is
        added.

        Args:
            tokenizer: A tokenizer to use instead of that of the model.

        Raises:
            ArgumentError: If there is no tokenizer.
        """
        used = tokenizer or self._tokenizer
        if used is None:
            raise ArgumentError("no tokenizer: the template has none, and none was passed")
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
    """A chat template.

    Conversations are rendered as by transformers, within limits for steps and memory, and with the
    origin of each part of the text. A template can be used by several threads at once, and after
    its model is closed.

    >>> template = ggmill.Template("model.gguf")                                  # doctest: +SKIP
    >>> template.render([{"role": "user", "content": "Hello"}]).text              # doctest: +SKIP
    """

    __slots__ = ("_native", "name", "text", "tokenizer", "tokens")

    name: str | None
    """The name of the template; ``None`` for the default template."""

    text: str
    """The source text of the template."""

    tokenizer: Tokenizer | None
    """The tokenizer of the model, or ``None`` if it has no supported tokenizer."""

    tokens: dict[str, str]
    """The variables with special tokens, such as ``{"bos_token": "<s>"}``."""

    def __init__(self, model: PathLike | Model, *, name: str | None = None) -> None:
        """Load and parse a chat template.

        Args:
            model: An open model, or the path of a model, of a Jinja file, or of a
                ``tokenizer_config.json`` or ``chat_template.json`` file. Templates that are not
                from a model have no tokenizer.
            name: The name of a template; the default template if ``None``.

        Raises:
            MissingError: If there is no such template.
            FormatError: If the template does not parse.
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
            # Rendering does not need a tokenizer.
            self.tokenizer = None
        self._set(name, text, None)

    def _of_file(self, path: str, name: str | None) -> None:
        with io.open(path, "rb") as file:
            data = file.read(_LONGEST + 1)
        if len(data) > _LONGEST:
            raise FormatError(f"{path}: larger than {_LONGEST} bytes", kind="limit", path=path)
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
        """Parse a chat template.

        Args:
            text: The source text of the template.
            tokens: The variables with special tokens, such as ``{"bos_token": "<s>"}``; those of
                ``tokenizer`` by default.
            tokenizer: The tokenizer for rendered texts.

        Raises:
            FormatError: If the template does not parse.
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
        """Render a conversation.

        Args:
            messages: Dictionaries with ``role`` and ``content``; all values must be
                JSON-compatible.
            tools: Descriptions of functions as JSON Schema.
            documents: Dictionaries with ``title`` and ``text``.
            add_generation_prompt: Append the prompt for a response of the model.
            now: The time for ``strftime_now``; the current time by default.
            variables: Other variables of the template, such as ``enable_thinking=False``.

        Raises:
            ArgumentError: If the conversation is invalid, or the template rejects it.
            FormatError: If the template uses an operation that the sandbox of transformers forbids,
                or exceeds the limits.
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
        # Opening it as a model raises the exception.
        return True


def _chosen(templates: list[tuple[str | None, str]], name: str | None, path: str) -> str:
    for own, text in templates:
        if own == name:
            return text
    names = ", ".join("the default template" if own is None else own for own, _ in templates)
    message = f"{path}: no chat template{'' if name is None else f' {name!r}'}"
    raise MissingError(
        f"{message}; available: {names}" if names else message, kind="missing", path=path
    )
