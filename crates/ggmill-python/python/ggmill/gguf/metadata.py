"""`Metadata`: the origin of a model, as described in its directory."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ._optional import optional
from ._untyped import elements
from .constants import Keys

if TYPE_CHECKING:
    from .gguf_writer import GGUFWriter

logger = logging.getLogger("metadata")

Components = tuple[str | None, str | None, str | None, str | None, str | None, str | None]

# Fields of Metadata by their keys in files, in the order in which they are written.
_SAMPLING = (
    "sequence top_k top_p min_p xtc_probability xtc_threshold temp penalty_last_n penalty_repeat "
    "mirostat mirostat_tau mirostat_eta"
).split()
_AUTHORSHIP = (
    "author version organization finetune basename description quantized_by size_label".split()
)
_LINKS = (
    "license_name license_link url doi uuid repo_url source_url source_doi source_uuid "
    "source_repo_url"
).split()
# Fields that have other names in generation_config.json.
_GENERATION = {"temp": ("temperature",), "penalty_repeat": ("penalty_repeat", "repetition_penalty")}
_PARENT = "name author version organization description url doi uuid repo_url".split()
# Fields that a model card can have, with or without the prefix "model_".
_CARD = "name author version organization description finetune basename size_label".split()
_CARD_LINKS = "url doi uuid repo_url".split()


@dataclass
class Metadata:
    """The values of the general.* keys; unknown values are None."""

    sampling_sequence: str | None = None
    sampling_top_k: int | None = None
    sampling_top_p: float | None = None
    sampling_min_p: float | None = None
    sampling_xtc_probability: float | None = None
    sampling_xtc_threshold: float | None = None
    sampling_temp: float | None = None
    sampling_penalty_last_n: int | None = None
    sampling_penalty_repeat: float | None = None
    sampling_mirostat: int | None = None
    sampling_mirostat_tau: float | None = None
    sampling_mirostat_eta: float | None = None

    name: str | None = None
    author: str | None = None
    version: str | None = None
    organization: str | None = None
    finetune: str | None = None
    basename: str | None = None
    description: str | None = None
    quantized_by: str | None = None
    size_label: str | None = None
    url: str | None = None
    doi: str | None = None
    uuid: str | None = None
    repo_url: str | None = None
    source_url: str | None = None
    source_doi: str | None = None
    source_uuid: str | None = None
    source_repo_url: str | None = None
    license: str | list[str] | None = None
    license_name: str | None = None
    license_link: str | None = None
    base_models: list[dict[str, Any]] | None = None
    tags: list[str] | None = None
    languages: list[str] | None = None
    datasets: list[dict[str, Any]] | None = None

    # ------------------------------------------------------------ reading a directory

    @staticmethod
    def load(
        metadata_override_path: Path | None = None,
        model_path: Path | None = None,
        model_name: str | None = None,
        total_params: int = 0,
    ) -> Metadata:
        """Collect the metadata from the model card, the configuration and the name of a directory.

        A JSON file of metadata keys and values takes precedence over these, and `model_name` takes
        precedence over the file.
        """
        metadata = Metadata.apply_metadata_heuristic(
            Metadata(),
            Metadata.load_model_card(model_path),
            Metadata.load_hf_parameters(model_path),
            model_path,
            total_params,
        )
        generation = Metadata.load_generation_config(model_path)
        for name in _SAMPLING:
            for key in reversed(_GENERATION.get(name, (name,))):
                if key in generation:
                    setattr(metadata, f"sampling_{name}", generation[key])
        override = Metadata.load_metadata_override(metadata_override_path)
        fields = [f"sampling_{name}" for name in _SAMPLING]
        fields += ["name", *_AUTHORSHIP, *_LINKS, "tags", "languages"]
        keys = {field: getattr(Keys.General, field.upper()) for field in fields}
        keys |= {"base_models": "general.base_models", "datasets": "general.datasets"}
        for field, key in keys.items():
            if key in override:
                setattr(metadata, field, override[key])
        if model_name is not None:
            metadata.name = model_name
        return metadata

    @staticmethod
    def load_metadata_override(metadata_override_path: Path | None = None) -> dict[str, Any]:
        """Load a JSON file of metadata keys and values, or an empty dictionary."""
        if metadata_override_path is None or not metadata_override_path.is_file():
            return {}
        return _json(metadata_override_path)

    @staticmethod
    def load_model_card(model_path: Path | None = None) -> dict[str, Any]:
        """Load the YAML header of README.md, or an empty dictionary; needs `yaml`."""
        card = _file_in(model_path, "README.md")
        if card is None:
            return {}
        lines = card.read_text(encoding="utf-8").splitlines()
        if not lines or lines[0] != "---":
            return {}
        end = lines.index("---", 1) if "---" in lines[1:] else len(lines)
        head = "\n".join(lines[1:end]) + "\n"
        # The language code of Norwegian is not a truth value, and tabs are not YAML.
        head = head.replace("- no\n", '- "no"\n').replace("\t", "  ")
        found = optional("yaml").safe_load(head)
        if isinstance(found, dict):
            return cast(dict[str, Any], found)
        logger.error(
            f"while reading YAML model card frontmatter, data is {type(found)} instead of dict"
        )
        return {}

    @staticmethod
    def load_hf_parameters(model_path: Path | None = None) -> dict[str, Any]:
        """Load config.json; return an empty dictionary if it does not exist."""
        path = _file_in(model_path, "config.json")
        return {} if path is None else _json(path)

    @staticmethod
    def load_generation_config(model_path: Path | None = None) -> dict[str, Any]:
        """Load generation_config.json; return an empty dictionary if it cannot be read."""
        path = _file_in(model_path, "generation_config.json")
        try:
            return {} if path is None else _json(path) or {}
        except (json.JSONDecodeError, OSError):
            return {}

    # ------------------------------------------------------------ names

    @staticmethod
    def id_to_title(string: str) -> str:
        """Convert a name with hyphens to a title; versions are not capitalized."""
        words = string.strip().replace("-", " ").split()
        return " ".join(
            one.title() if one.islower() and not re.match(r"^(v\d+(?:\.\d+)*|\d.*)$", one) else one
            for one in words
        )

    @staticmethod
    def get_model_id_components(model_id: str | None = None, total_params: int = 0) -> Components:
        """Parse name, organization, basename, finetune, version and size label from a model ID.

        `total_params` distinguishes sizes from context lengths; it is negative for an adapter.
        """
        if model_id is None:
            return None, None, None, None, None, None
        if " " in model_id:
            return model_id, None, None, None, None, None
        organization, separator, name = model_id.partition("/")
        if not separator:
            organization, name = "", model_id
        parts = [_NamePart(one) for one in name.split("-") if one]
        for place, part in enumerate(parts):
            part.annotate(first=place == 0, total_params=total_params)
        _settle_sizes(parts)
        _settle_basename(parts)
        basename = _joined(p.text for p in parts if "basename" in p.roles)
        size = _joined(dict.fromkeys(p.text for p in parts if "size_label" in p.roles))
        finetune = _joined(p.text for p in parts if "finetune" in p.roles)
        version = _joined(
            p.text for p in parts if "version" in p.roles and "basename" not in p.roles
        )
        if size is None and finetune is None and version is None:
            basename = None  # the whole name says nothing about its parts
        org: str | None = organization if separator else None
        if org is not None and org.startswith("."):
            org = None  # a relative path
        return name, org, basename, finetune, version, size

    @staticmethod
    def apply_metadata_heuristic(
        metadata: Metadata,
        model_card: dict[str, Any] | None = None,
        hf_params: dict[str, Any] | None = None,
        model_path: Path | None = None,
        total_params: int = 0,
    ) -> Metadata:
        """Complete the metadata from a model card, a configuration and the name of a directory."""
        if model_card is not None:
            metadata._apply_card(model_card, total_params)
        if hf_params is not None:
            model_id = hf_params.get("_name_or_path")
            # Longer paths are not IDs.
            if model_id is not None and model_id.count("/") <= 1:
                metadata._apply_id(model_id, total_params)
        if model_path is not None:
            metadata._apply_id(model_path.name, total_params)
        return metadata

    def _apply_id(self, model_id: str, total_params: int) -> None:
        parts = Metadata.get_model_id_components(model_id, total_params)
        name, organization, *others = parts
        found: dict[str, str | None] = dict(
            zip(("basename", "finetune", "version", "size_label"), others, strict=True)
        )
        for field, value in (("name", name), ("organization", organization)):
            found[field] = None if value is None else Metadata.id_to_title(value)
        for field, value in found.items():
            if getattr(self, field) is None and value is not None:
                setattr(self, field, value)

    def _apply_card(self, card: dict[str, Any], total_params: int) -> None:
        def use(field: str, key: str) -> None:
            if key in card and getattr(self, field) is None:
                setattr(self, field, card[key])

        def extend(field: str, key: str) -> None:
            value = card.get(key)
            if value is None:
                return
            values: list[Any] = getattr(self, field) or []
            if isinstance(value, str):
                values.append(value)
            elif isinstance(value, list):
                values.extend(elements(value))
            setattr(self, field, values)

        for prefix in ("", "model_"):
            for field in _CARD:
                use(field, prefix + field)
            for field in _CARD_LINKS:
                use(f"source_{field}", prefix + field)
        use("name", "model_name")
        use("author", "model_creator")
        use("basename", "model_type")
        parents = ("base_model", "base_models", "base_model_sources")
        if any(key in card for key in parents):
            self.base_models = (self.base_models or []) + _sources(
                _first(card, parents), "base model", total_params
            )
        datasets = ("datasets", "dataset", "dataset_sources")
        if any(key in card for key in datasets):
            self.datasets = (self.datasets or []) + _sources(
                _first(card, datasets), "dataset", total_params
            )
        use("license", "license")
        use("license_name", "license_name")
        use("license_link", "license_link")
        extend("tags", "tags")
        extend("tags", "pipeline_tag")
        extend("languages", "languages")
        extend("languages", "language")

    # ------------------------------------------------------------ writing

    def set_gguf_meta_model(self, gguf_writer: GGUFWriter) -> None:
        """Set the general.* keys of a writer. The name must be known."""
        assert self.name is not None

        def put(field: str) -> None:
            value = getattr(self, field)
            if value is not None:
                getattr(gguf_writer, f"add_{field}")(value)

        for name in _SAMPLING:
            put(f"sampling_{name}")
        gguf_writer.add_name(self.name)
        for field in _AUTHORSHIP:
            put(field)
        if self.license is not None:
            gguf_writer.add_license(
                ",".join(self.license) if isinstance(self.license, list) else self.license
            )
        for field in _LINKS:
            put(field)
        for kind, entries in (("base_model", self.base_models), ("dataset", self.datasets)):
            if entries is None:
                continue
            getattr(gguf_writer, f"add_{kind}_count")(len(entries))
            for number, entry in enumerate(entries):
                for field in _PARENT:
                    if field in entry:
                        getattr(gguf_writer, f"add_{kind}_{field}")(number, entry[field])
        put("tags")
        put("languages")


def _file_in(directory: Path | None, name: str) -> Path | None:
    if directory is None or not directory.is_dir() or not (directory / name).is_file():
        return None
    return directory / name


def _json(path: Path) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
        return found


def _joined(parts: Iterable[str]) -> str | None:
    return "-".join(parts) or None


def _first(card: dict[str, Any], keys: Iterable[str]) -> Any:
    return next((card[key] for key in keys if key in card), None)


def _sources(value: Any, what: str, total_params: int) -> list[dict[str, Any]]:
    """Return the models or datasets that a model card names by ID, by URL or by keys."""
    found: list[dict[str, Any]] = []
    ones: list[Any] = []
    if isinstance(value, str):
        ones = [value]
    elif isinstance(value, list):
        ones = elements(value)
    for one in ones:
        source: dict[str, Any] = {}
        if isinstance(one, dict):
            source = cast(dict[str, Any], one)
        elif not isinstance(one, str):
            logger.error(f"{what} entry '{one}' not in a known format")
        elif one.startswith(("http://", "https://", "ssh://")):
            source["repo_url"] = one
            match = re.match(r"https?://huggingface.co/([^/]+/[^/]+)$", one)
            if match:
                source |= _source_of(match.group(1), total_params)[0]
        else:
            source, address = _source_of(one, total_params)
            if address is not None:
                source["repo_url"] = address
        found.append(source)
    return found


def _source_of(model_id: str, total_params: int) -> tuple[dict[str, Any], str | None]:
    name, organization, _, _, version, _ = Metadata.get_model_id_components(model_id, total_params)
    source: dict[str, Any] = {}
    if name is not None:
        source["name"] = Metadata.id_to_title(name)
    if organization is not None:
        source["organization"] = Metadata.id_to_title(organization)
    if version is not None:
        source["version"] = version
    if organization is None or name is None:
        return source, None
    return source, f"https://huggingface.co/{organization}/{name}"


class _NamePart:
    """A part of a model name between hyphens, and what it may denote."""

    def __init__(self, text: str):
        self.text = text
        self.roles: set[str] = set()

    def _is(self, pattern: str) -> bool:
        return re.fullmatch(pattern, self.text, re.IGNORECASE) is not None

    def annotate(self, first: bool, total_params: int) -> None:
        if self._is(r"(v|iter)?\d+([.]\d+)*"):
            self.roles.add("version")
        elif self._is(r"i?q\d(_\w)*|b?fp?(16|32)"):
            self.roles.add("type")
            self.text = self.text.upper()
        elif first:
            pass
        elif self._is(r"(([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl)"):
            self._annotate_size(total_params)
        elif self._is(r"chat|instruct|vision|lora"):
            redundant = total_params < 0 and self.text.lower() == "lora"
            self.roles.add("type" if redundant else "finetune")

    def _annotate_size(self, total_params: int) -> None:
        size = self.text.replace("_", ".")
        if size[-1].isdecimal():  # 7b1 is 7.1b
            size = f"{size[:-2]}.{size[-1]}{size[-2]}"
        if len(size) > 1 and size[-2].isdecimal() and size[-1] in "kmbt":
            size = size[:-1] + size[-1].upper()
        if total_params != 0 and _is_length(size, total_params):
            self.roles.add("finetune")
            size = size[:-1] + size[-1].lower()
        else:
            self.roles.add("size_label")
        self.text = size


def _is_length(size: str, total_params: int) -> bool:
    """Return whether a size differs so much from that of the model that it is a context length."""
    try:
        count = float(size[:-1]) * 1000 ** " KMBT".find(size[-1])
    except ValueError:
        return False
    if total_params < 0:
        # An adapter is smaller than its model.
        return bool(count < abs(total_params) // 8)
    return bool(abs(count - total_params) > 7 * total_params // 8)


def _settle_sizes(parts: list[_NamePart]) -> None:
    """Ignore words for sizes if the name has a number of parameters."""
    sizes = [part for part in parts if "size_label" in part.roles]
    if any(c.isdecimal() for part in sizes for c in part.text):
        for part in sizes:
            if part.text.isalpha():
                part.roles.remove("size_label")


def _settle_basename(parts: list[_NamePart]) -> None:
    """Classify leading parts and versions as the basename, and the others as the finetune."""
    at_start = True
    for part in parts:
        if at_start and ((not part.roles and part.text[0].isalpha()) or "version" in part.roles):
            part.roles.add("basename")
        else:
            at_start = False
            if not part.roles:
                part.roles.add("finetune")
    for part in reversed(parts):
        if "basename" not in part.roles or len(part.roles) == 1:
            break
        part.roles.remove("basename")
