"""Open models, with their tokenizers and chat templates.

A model creates its tokenizer and its templates, and both can be created from a model, so they
share a module.
"""

from __future__ import annotations

import builtins
import calendar
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

from . import _html, _native
from ._errors import ArgumentError, Error, FormatError, MissingError
from ._metadata import Metadata
from ._tensor import Tensors

if TYPE_CHECKING:
    from typing_extensions import Self

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
"""A path in the file system."""

_MAX_TEMPLATE_BYTES = 64 << 20
"""The maximum size of a template file in bytes."""


def path_text(path: PathLike) -> str:
    """Convert a path to the form that the native module expects."""
    return os.fsdecode(path)


class Model:
    """An open model: one file, or all shards of a shard set. Returned by :func:`open`.

    Models are context managers. Arrays obtained from a model stay valid after it is closed. A model
    can be used by several threads at once.
    """

    __slots__ = ("_native", "metadata", "tensors")

    metadata: Metadata
    """The metadata; for a shard set, that of the first shard."""

    tensors: Tensors
    """The tensors of all files by name."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self.metadata = Metadata(native, 0)
        self.tensors = Tensors(native)

    @property
    def path(self) -> str:
        """The path that was passed to :func:`open`."""
        return self._native.path

    @property
    def paths(self) -> list[str]:
        """The paths of all files, in order."""
        return self._native.paths()

    @property
    def version(self) -> int:
        """The GGUF version of the file: 1, 2 or 3."""
        return self._native.version()

    @property
    def byteorder(self) -> str:
        """The byte order of the files: ``"little"`` or ``"big"``, as in ``sys.byteorder``."""
        return "big" if self._native.big_endian() else "little"

    @property
    def alignment(self) -> int:
        """The alignment of tensor data in bytes."""
        return self._native.layout(0)[3]

    @property
    def data_offset(self) -> int:
        """Offset of the tensor data in the first file, in bytes."""
        return self._native.layout(0)[2]

    @property
    def nbytes(self) -> int:
        """Size of all files in bytes."""
        count = self._native.part_count()
        return sum(self._native.layout(part)[0] or 0 for part in range(count))

    @property
    def architecture(self) -> str | None:
        """The value of ``general.architecture``, or ``None``."""
        found = self.metadata.get("general.architecture")
        return found if isinstance(found, str) else None

    @property
    def closed(self) -> bool:
        """Whether the model is closed."""
        return self._native.closed

    @property
    def faults(self) -> list[str]:
        """Descriptions of the damage in files opened with ``damaged=True``."""
        return self._native.faults()

    def metadata_of(self, file: int) -> Metadata:
        """Return the metadata of one file of a shard set.

        Args:
            file: The index of the file in :attr:`paths`.

        Raises:
            ArgumentError: If the index is out of range.
        """
        if not 0 <= file < self._native.part_count():
            count = self._native.part_count()
            raise ArgumentError(f"file index {file} is out of range for a model of {count} files")
        return Metadata(self._native, file)

    def tokenizer(self, *, pre: str | None = None) -> Tokenizer:
        """Create the tokenizer of the model, a :class:`ggmill.Tokenizer`.

        Args:
            pre: The name of a pre-tokenizer to use instead of the one in the file.
        """
        return Tokenizer(self, pre=pre)

    @property
    def templates(self) -> dict[str | None, str]:
        """The source texts of the chat templates by name; the default template is ``None``."""
        return dict(_native.templates(self._native))

    def template(self, name: str | None = None) -> Template:
        """Parse a chat template of the model, a :class:`ggmill.Template`.

        Args:
            name: The name of a template; the default template if ``None``.

        Raises:
            MissingError: If the model has no such template.
            FormatError: If the template does not parse.
        """
        return Template(self, name=name)

    def render(self, messages: Any, **options: Any) -> Rendered:
        """Render a conversation with the default chat template of the model.

        Every call reads the vocabulary and parses the template. To render many conversations, call
        :meth:`template` once.

        Args:
            messages: The messages, as for :meth:`ggmill.Template.render`.
            options: The other arguments of :meth:`ggmill.Template.render`.

        Returns:
            A :class:`ggmill.Rendered`.

        >>> model.render([{"role": "user", "content": "Hello"}]).ids           # doctest: +SKIP
        """
        return self.template().render(messages, **options)

    def verify(self) -> None:
        """Check that the files were not modified or replaced since they were opened.

        Raises:
            FileError: If a file was.
        """
        self._native.verify()

    def text(self, *, full: bool = False, width: int | None = None) -> str:
        """Return the output of ``ggmill inspect``.

        Args:
            full: Include all metadata and tensors, not only the summary.
            width: The width of the text in columns.
        """
        return self._native.text(full=full, width=width)

    def close(self) -> None:
        """Close the model. Closing it again has no effect."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Model {self.path!r}{' (closed)' if self.closed else ''}>"

    def _repr_html_(self) -> str:
        if self.closed:
            return f"<p>{_html.text(repr(self))}</p>"
        # Notebooks show `pre` in a proportional font, in which columns are not aligned.
        lines = "\n".join(_html.text(line) for line in self.text(width=100).splitlines())
        summary = f'<pre style="font-family: monospace; line-height: 1.3">{lines}</pre>'
        if not len(self.tensors):
            return summary
        listed = f"<summary>{len(self.tensors)} tensors</summary>{self.tensors._repr_html_()}"
        return f"{summary}<details>{listed}</details>"


def open(
    path: PathLike | Model, *, mmap: bool = True, alone: bool = False, damaged: bool = False
) -> Model:
    """Open a GGUF file, or a shard set.

    Args:
        path: The path of a file, or of any shard of a set; the other shards are found by its name.
        mmap: Map the files into memory, so that arrays are views instead of copies. A mapped file
            must not be modified or truncated, but may be replaced by renaming another file over it.
            With ``False``, data is read on access, which is safe for files that may change.
        alone: Open a shard without the others of its set.
        damaged: Open the readable part of a damaged file; :attr:`Model.faults` describes the
            damage.

    Returns:
        The open model, which is also a context manager.

    Raises:
        NoSuchFileError: If the file does not exist.
        FileError: If the file cannot be read.
        FormatError: If the file is not GGUF, is truncated or damaged, or if a shard is missing.
    """
    if isinstance(path, Model):
        path = path.path
    return Model(_native.Model(path_text(path), mmap=mmap, alone=alone, damaged=damaged))


def model_path(model: PathLike | Model) -> str:
    """Return the path of a model, which is a path or an open model.

    Raises:
        ClosedError: If the model is closed.
    """
    if isinstance(model, Model):
        model._native.version()
        return model.path
    return path_text(model)


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
        with builtins.open(path, "rb") as file:
            data = file.read(_MAX_TEMPLATE_BYTES + 1)
        if len(data) > _MAX_TEMPLATE_BYTES:
            message = f"{path}: larger than {_MAX_TEMPLATE_BYTES} bytes"
            raise FormatError(message, kind="limit", path=path)
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
        template = cls.__new__(cls)
        template.tokenizer = tokenizer
        template._set(None, text, tokens)
        return template

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
        with builtins.open(path, "rb") as file:
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
