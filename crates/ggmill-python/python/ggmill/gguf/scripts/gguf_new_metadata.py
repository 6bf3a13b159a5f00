"""gguf-new-metadata: copy a file with different metadata."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._optional import bar
from ..constants import GGUFValueType, Keys
from ..gguf_reader import GGUFReader
from ..gguf_writer import GGUFWriter
from ._ask import arguments, confirm

logger = logging.getLogger("gguf-new-metadata")

_TEMPLATE = Keys.Tokenizer.CHAT_TEMPLATE


class MetadataDetails(NamedTuple):
    """A value to be written, with its description for the log."""

    type: GGUFValueType
    value: Any
    description: str = ""
    sub_type: GGUFValueType | None = None


def get_field_data(reader: GGUFReader, key: str) -> Any:
    """Return the value of a key, or None."""
    field = reader.get_field(key)
    return field.contents() if field else None


def find_token(token_list: Sequence[Any], token: str) -> Sequence[int]:
    """Return the IDs of a token; raise LookupError if it does not exist."""
    found = [number for number, value in enumerate(token_list) if value == token]
    if not found:
        raise LookupError(f'Unable to find "{token}" in token list!')
    return found


def copy_with_new_metadata(
    reader: GGUFReader,
    writer: GGUFWriter,
    new_metadata: dict[str, MetadataDetails],
    remove_metadata: Sequence[str],
) -> None:
    """Write a file with the tensors and the metadata of `reader`.

    `new_metadata` replaces existing values and is appended otherwise; it is emptied. The keys in
    `remove_metadata` are omitted. A new chat template replaces all templates.
    """
    for field in reader.fields.values():
        name = field.name
        if name == Keys.General.ARCHITECTURE or name.startswith("GGUF."):
            logger.debug(f"Suppressing {name}")
            continue
        if name.startswith(_TEMPLATE) and _TEMPLATE in new_metadata:
            logger.debug(f"Skipping {name}")
            continue
        if name in remove_metadata:
            logger.debug(f"Removing {name}")
            continue
        kind = field.types[0]
        sub_type = field.types[-1] if kind == GGUFValueType.ARRAY else None
        new = new_metadata.pop(name, None)
        if new is None:
            new = MetadataDetails(kind, field.contents(), sub_type=sub_type)
            logger.debug(f"Copying {name}")
        else:
            logger.debug(
                f'Modifying {name}: "{field.contents()}" -> "{new.value}" {new.description}'
            )
        if new.value is not None:
            if new.sub_type is not None:
                sub_type = new.sub_type
            writer.add_key_value(name, new.value, new.type, sub_type=sub_type)
    template = new_metadata.pop(_TEMPLATE, None)
    if template is not None:
        logger.debug("Adding chat template(s)")
        writer.add_chat_template(template.value)
    for key, new in new_metadata.items():
        logger.debug(f'Adding {key}: "{new.value}" {new.description}')
        writer.add_key_value(key, new.value, new.type)
    for tensor in reader.tensors:
        data = tensor.data
        writer.add_tensor_info(tensor.name, data.shape, data.dtype, data.nbytes, tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    shown = bar("Writing", sum(tensor.n_bytes for tensor in reader.tensors), "byte")
    for tensor in reader.tensors:
        writer.write_tensor_data(tensor.data, tensor_endianess=reader.endianess)
        shown.update(tensor.n_bytes)
    shown.close()
    writer.close()


def _token_keys() -> dict[str, str]:
    """Return the keys of special tokens by name: bos, eos and others."""
    suffix = "_token_id"
    found: dict[str, str] = {}
    for name, key in vars(Keys.Tokenizer).items():
        if not name.startswith("_") and isinstance(key, str) and key.endswith(suffix):
            found[key.rsplit(".", 1)[-1].removesuffix(suffix)] = key
    return found


def _parser(token_names: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Make a copy of a GGUF file with new metadata")
    add = parser.add_argument
    add("input", type=Path, help="GGUF format model input filename")
    add("output", type=Path, help="GGUF format model output filename")
    add("--general-name", type=str, help="The models general.name", metavar='"name"')
    add("--general-description", type=str, help="The models general.description",
        metavar='"Description ..."')  # fmt: skip
    add("--chat-template", type=str, metavar='"{%% ... %%} ..."',
        help="Chat template string (or JSON string containing templates)")  # fmt: skip
    add("--chat-template-config", type=Path, metavar="tokenizer_config.json",
        help="Config file containing chat template(s)")  # fmt: skip
    add("--chat-template-file", type=Path, metavar="chat_template.jinja",
        help="Jinja file containing chat template")  # fmt: skip
    add("--pre-tokenizer", type=str, help="The models tokenizer.ggml.pre",
        metavar='"pre tokenizer"')  # fmt: skip
    add("--remove-metadata", action="append", type=str, metavar="general.url",
        help="Remove metadata (by key name) from output model")  # fmt: skip
    add("--special-token", action="append", type=str, nargs=2, metavar=(token_names, '"<token>"'),
        help="Special token by value")  # fmt: skip
    add("--special-token-by-id", action="append", type=str, nargs=2, metavar=(token_names, "0"),
        help="Special token by id")  # fmt: skip
    add("--force", action="store_true", help="Bypass warnings without confirmation")
    return parser


def _new_texts(args: argparse.Namespace) -> dict[str, MetadataDetails]:
    """Return the metadata from options with text."""
    found: dict[str, Any] = {
        Keys.General.NAME: args.general_name,
        Keys.General.DESCRIPTION: args.general_description,
    }
    if args.chat_template:
        listed = args.chat_template.startswith("[")
        found[_TEMPLATE] = json.loads(args.chat_template) if listed else args.chat_template
    if args.chat_template_config:
        config = json.loads(args.chat_template_config.read_text(encoding="utf-8"))
        found[_TEMPLATE] = config.get("chat_template") or found.get(_TEMPLATE)
    if args.chat_template_file:
        found[_TEMPLATE] = args.chat_template_file.read_text(encoding="utf-8")
    found[Keys.Tokenizer.PRE] = args.pre_tokenizer
    kept = {key: value for key, value in found.items() if value}
    if args.chat_template_file:
        kept[_TEMPLATE] = found[_TEMPLATE]
    return {key: MetadataDetails(GGUFValueType.STRING, value) for key, value in kept.items()}


def _new_tokens(args: argparse.Namespace, tokens: Sequence[str]) -> dict[str, MetadataDetails]:
    """Return the metadata from options for special tokens."""
    keys = _token_keys()
    found: dict[str, MetadataDetails] = {}
    for name, token in args.special_token or ():
        if name not in keys:
            logger.warning(f'Unknown special token "{name}", ignoring...')
            continue
        ids = find_token(tokens, token)
        found[keys[name]] = MetadataDetails(GGUFValueType.UINT32, ids[0], f"= {token}")
        if len(ids) > 1:
            logger.warning(
                f'Multiple "{token}" tokens found, choosing ID {ids[0]}, use --special-token-by-id '
                "if you want another:"
            )
            logger.warning(", ".join(map(str, ids)))
    for name, digits in args.special_token_by_id or ():
        if name not in keys:
            logger.warning(f'Unknown special token "{name}", ignoring...')
            continue
        if not digits.isdecimal():
            raise LookupError(f'Token ID "{digits}" is not a valid ID!')
        number = int(digits)
        if number >= len(tokens):
            raise LookupError(f"Token ID {number} is not within token list!")
        found[keys[name]] = MetadataDetails(GGUFValueType.UINT32, number, f"= {tokens[number]}")
    return found


def main() -> None:
    """Run the program."""
    args = arguments(_parser(" | ".join(_token_keys())), at_least=2)
    new_metadata = _new_texts(args)
    remove_metadata: list[str] = args.remove_metadata or []
    warning = "*** Warning *** Warning *** Warning **"
    ask = "* Enter exactly YES if you are positive you want to proceed:"
    if remove_metadata and not args.force:
        confirm(
            logger,
            warning,
            "* Most metadata is required for a fully functional GGUF file,",
            "* removing crucial metadata may result in a corrupt output file!",
            ask,
        )
    logger.info(f"* Loading: {args.input}")
    reader = GGUFReader(args.input, "r")
    new_metadata |= _new_tokens(args, get_field_data(reader, Keys.Tokenizer.LIST) or [])
    if os.path.isfile(args.output) and not args.force:
        exists = f'* The "{args.output}" GGUF file already exists, it will be overwritten!'
        confirm(logger, warning, exists, ask)
    logger.info(f"* Writing: {args.output}")
    arch = get_field_data(reader, Keys.General.ARCHITECTURE)
    writer = GGUFWriter(args.output, arch=arch, endianess=reader.endianess)
    alignment = get_field_data(reader, Keys.General.ALIGNMENT)
    if alignment is not None:
        logger.debug(f"Setting custom alignment: {alignment}")
        writer.data_alignment = alignment
    copy_with_new_metadata(reader, writer, new_metadata, remove_metadata)


if __name__ == "__main__":
    main()
