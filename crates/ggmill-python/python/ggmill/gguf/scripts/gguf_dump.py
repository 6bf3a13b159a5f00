"""gguf-dump: print the metadata and tensor infos of a file as text, JSON or Markdown."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import Any

from ..constants import GGUFValueType
from ..gguf_reader import GGUFReader, ReaderField
from ._ask import arguments
from ._markdown import (
    dump_markdown_metadata,
    element_count_rounded_notation,
    markdown_table_with_alignment_support,
    pretty_type,
    translate_tensor_name,
)

__all__ = [
    "dump_markdown_metadata",
    "dump_metadata",
    "dump_metadata_json",
    "element_count_rounded_notation",
    "get_file_host_endian",
    "main",
    "markdown_table_with_alignment_support",
    "translate_tensor_name",
]

logger = logging.getLogger("gguf-dump")


def get_file_host_endian(reader: GGUFReader) -> tuple[str, str]:
    """Return the byte orders of the machine and of the file: BIG or LITTLE."""
    file_order: str = reader.endianess.name
    if reader.byte_order == "S":
        return ("BIG" if file_order == "LITTLE" else "LITTLE"), file_order
    return file_order, file_order


def _value(reader: GGUFReader, field: ReaderField) -> str:
    """Format a value on one line; long texts and arrays are shortened."""
    kind = field.types[0]
    if kind == GGUFValueType.STRING:
        text = field.contents()
        return repr(text[:57] + "..." if len(text) > 60 else text)
    if kind in reader.gguf_scalar_to_np:
        return str(field.contents())
    shown = repr(field.contents(slice(6)))
    return shown[:-1] + ", ...]" if len(field.data) > 6 else shown


def dump_metadata(reader: GGUFReader, args: argparse.Namespace) -> None:
    """Print one line per metadata entry, and per tensor unless `args.no_tensors`."""
    host_order, file_order = get_file_host_endian(reader)
    print(f"* File is {file_order} endian, script is running on a {host_order} endian host.")
    print(f"* Dumping {len(reader.fields)} key/value pair(s)")
    for number, field in enumerate(reader.fields.values(), 1):
        line = f"  {number:5}: {pretty_type(field):10} | {len(field.data):8} | {field.name}"
        print(f"{line} = {_value(reader, field)}" if field.types else line)
    if args.no_tensors:
        return
    print(f"* Dumping {len(reader.tensors)} tensor(s)")
    for number, tensor in enumerate(reader.tensors, 1):
        dims = tensor.shape.tolist()
        shape = ", ".join(f"{length:5}" for length in dims + [1] * (4 - len(dims)))
        kind = tensor.tensor_type.name
        print(f"  {number:5}: {tensor.n_elements:10} | {shape} | {kind:7} | {tensor.name}")


def dump_metadata_json(reader: GGUFReader, args: argparse.Namespace) -> None:
    """Print a JSON object; arrays include their values with `args.json_array`."""
    metadata: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for number, field in enumerate(reader.fields.values()):
        entry: dict[str, Any] = {
            "index": number,
            "type": field.types[0].name if field.types else "UNKNOWN",
            "offset": field.offset,
        }
        is_array = field.types[:1] == [GGUFValueType.ARRAY]
        if is_array:
            entry["array_types"] = [kind.name for kind in field.types[1:]]
        if not is_array or args.json_array:
            entry["value"] = field.contents()
        metadata[field.name] = entry
    if not args.no_tensors:
        for number, tensor in enumerate(reader.tensors):
            tensors[tensor.name] = {
                "index": number,
                "shape": tensor.shape.tolist(),
                "type": tensor.tensor_type.name,
                "offset": tensor.field.offset,
            }
    result = {
        "filename": args.model,
        "endian": get_file_host_endian(reader)[1],
        "metadata": metadata,
        "tensors": tensors,
    }
    json.dump(result, sys.stdout)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Dump GGUF file metadata")
    add = parser.add_argument
    add("model", type=str, help="GGUF format model filename")
    add("--no-tensors", action="store_true", help="Don't dump tensor metadata")
    add("--json", action="store_true", help="Produce JSON output")
    add("--json-array", action="store_true", help="Include array values in JSON output (long)")
    add("--data-offset", action="store_true", help="Start of data offset")
    add("--data-alignment", action="store_true", help="Alignment of the tensor data")
    add("--markdown", action="store_true", help="Produce markdown output")
    args = arguments(parser)
    if not (args.json or args.markdown or args.data_offset or args.data_alignment):
        logger.info(f"* Loading: {args.model}")
    reader = GGUFReader(args.model, "r")
    if args.json:
        dump_metadata_json(reader, args)
    elif args.markdown:
        dump_markdown_metadata(reader, args)
    elif args.data_offset:
        print(reader.data_offset)
    elif args.data_alignment:
        print(reader.alignment)
    else:
        dump_metadata(reader, args)


if __name__ == "__main__":
    main()
