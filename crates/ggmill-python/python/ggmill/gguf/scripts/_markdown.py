"""Markdown output of gguf-dump."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from typing import Any

from ..constants import GGUFValueType
from ..gguf_reader import GGUFReader, ReaderField, ReaderTensor

# The meaning of the parts of tensor names.
_WORDS = {
    "token_embd": "Token embedding",
    "pos_embd": "Position embedding",
    "output_norm": "Output normalization",
    "output": "Output",
    "attn_norm": "Attention normalization",
    "attn_norm_2": "Attention normalization",
    "attn_qkv": "Attention query-key-value",
    "attn_q": "Attention query",
    "attn_k": "Attention key",
    "attn_v": "Attention value",
    "attn_output": "Attention output",
    "ffn_norm": "Feed-forward network normalization",
    "ffn_up": 'Feed-forward network "up"',
    "ffn_gate": 'Feed-forward network "gate"',
    "ffn_down": 'Feed-forward network "down"',
    "ffn_gate_inp": "Expert-routing layer for the Feed-forward network in Mixture of Expert models",
    "ssm_in": "State space model input projections",
    "ssm_conv1d": "State space model rolling/shift",
    "ssm_x": "State space model selective parametrization",
    "ssm_a": "State space model state compression",
    "ssm_d": "State space model skip connection",
    "ssm_dt": "State space model time step",
    "ssm_out": "State space model output projection",
    "blk": "Block",
    "enc": "Encoder",
    "dec": "Decoder",
}
_WORDS.update(
    {
        f"ffn_{name}_exp": f'Feed-forward network "{name}" layer per expert'
        " in Mixture of Expert models"
        for name in ("gate", "down", "up")
    }
)


def pretty_type(field: ReaderField) -> str:
    """Return the type of an entry, such as [STRING] for an array of strings."""
    if not field.types:
        return "N/A"
    depth = len(field.types) - 1 if field.types[0] == GGUFValueType.ARRAY else 0
    return "[" * depth + str(field.types[-1].name) + "]" * depth


def markdown_table_with_alignment_support(
    header_map: list[dict[str, str]], data: list[dict[str, Any]]
) -> str:
    """Format rows as a table with the columns `header_map` (key_name, header_name, align)."""

    def cell(text: str, width: int, align: str | None) -> str:
        if align == "center":
            return text.center(width)
        return text.rjust(width - 1) + " " if align == "right" else " " + text.ljust(width - 1)

    def rule(width: int, align: str | None) -> str:
        left = ":" if align in ("center", "left") else "-"
        right = ":" if align in ("center", "right") else "-"
        return left + "-" * (width - 2) + right

    columns = [(one["key_name"], one["header_name"], one.get("align")) for one in header_map]
    widths = [
        2 + max(len(name), max((len(str(row[key])) for row in data), default=0))
        for key, name, _ in columns
    ]
    lines = [[cell(name, w, align) for (_, name, align), w in zip(columns, widths, strict=True)]]
    lines.append([rule(w, align) for (_, _, align), w in zip(columns, widths, strict=True)])
    for row in data:
        lines.append(
            [
                cell(str(row[key]), w, align)
                for (key, _, align), w in zip(columns, widths, strict=True)
            ]
        )
    return "".join(f"|{'|'.join(line)}|\n" for line in lines)


def element_count_rounded_notation(count: int) -> str:
    """Format a rounded number of elements, such as ~7B."""
    for limit, suffix in ((1e15, "Q"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count > limit:
            return f"~{round(count * (1 / limit))}{suffix}"
    return f"{round(count)}"


def translate_tensor_name(name: str) -> str:
    """Describe a tensor by its name, in words."""
    words = name.split(".")
    return " ".join(_WORDS.get(word.strip().lower(), word).title() for word in words)


def _code(text: str) -> str:
    """Format text as code, with enough backticks for those in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    if text.startswith("`") or text.endswith("`"):
        text = f" {text} "
    return "`" * (longest + 1) + text + "`" * (longest + 1)


def _shortened(text: str, length: int) -> str:
    if len(text) <= length:
        return _code(text)
    return f"{_code(text[: length // 2])}...{_code(text[-length // 2 :])}"


def _value(reader: GGUFReader, field: ReaderField) -> str:
    kinds = field.types
    if len(kinds) == 1:
        if kinds[0] == GGUFValueType.STRING:
            return _shortened(field.contents(), 60)
        if kinds[0] in reader.gguf_scalar_to_np:
            return str(field.parts[-1][0])
        return ""
    count = len(field.data)
    shown: list[str] = []
    if kinds[1] == GGUFValueType.STRING:
        shown = [_shortened(text, 30) for text in field.contents(slice(5))]
    elif kinds[1] in reader.gguf_scalar_to_np:
        shown = [str(field.parts[index][0]) for index in field.data[:7]]
    more = ", ..." if count > len(shown) else ""
    return f"[ {', '.join(shown).strip()}{more} ]"


def _columns(*columns: tuple[str, str, str]) -> list[dict[str, str]]:
    return [{"key_name": key, "header_name": name, "align": side} for key, name, side in columns]


_ENTRIES = _columns(
    ("n", "POS", "right"),
    ("pretty_type", "TYPE", "left"),
    ("total_elements", "Count", "right"),
    ("field_name", "Key", "left"),
    ("value", "Value", "left"),
)
_OFFSETS = _columns(
    ("t_id", "T_ID", "right"),
    ("layer_name", "Tensor Layer Name", "left"),
    ("data_offset", "Data Offset (B)", "right"),
    ("data_size", "Data Size (B)", "right"),
)
_TENSORS = _columns(
    ("t_id", "T_ID", "right"),
    ("layer_name", "Tensor Layer Name", "left"),
    ("human_layer_name", "Human Friendly Tensor Layer Name", "left"),
    ("element_count", "Elements", "left"),
    ("pretty_dimension", "Shape", "left"),
    ("tensor_type", "Type", "left"),
    ("bpw", "BPW", "right"),
)


def _group_of(name: str) -> str:
    """Return the group of a tensor: its block, or all others."""
    parts = name.split(".")
    if parts[0] == "blk":
        return ".".join(parts[:2])
    if parts[0] in ("enc", "dec"):
        return ".".join(parts[:3]) if parts[1] == "blk" else parts[0]
    return "base"


def _bits(size: int, elements: int) -> float:
    return size * 8 / elements if elements > 0 else float("nan")


def _dims(tensor: ReaderTensor) -> list[int]:
    dims: list[int] = tensor.shape.tolist()
    return dims + [1] * (4 - len(dims))


def _tensor_rows(tensors: Sequence[tuple[int, ReaderTensor]]) -> list[dict[str, Any]]:
    estimate = max(len(element_count_rounded_notation(t.n_elements)) for _, t in tensors)
    width = max(len(str(t.n_elements)) for _, t in tensors)
    widths = [
        max(len(str(n)) for n in sizes)
        for sizes in zip(*(_dims(t) for _, t in tensors), strict=True)
    ]
    rows: list[dict[str, Any]] = []
    for number, tensor in tensors:
        human = tensor.name.replace(".weight", ".(W)").replace(".bias", ".(B)")
        rounded = element_count_rounded_notation(tensor.n_elements)
        rows.append(
            {
                "t_id": number,
                "layer_name": tensor.name,
                "human_layer_name": translate_tensor_name(human),
                "element_count": f"({rounded:>{estimate}}) {tensor.n_elements:>{width}}",
                "pretty_dimension": " x ".join(
                    f"{n:>{w}}" for n, w in zip(_dims(tensor), widths, strict=True)
                ),
                "tensor_type": tensor.tensor_type.name,
                "bpw": f"{_bits(tensor.n_bytes, tensor.n_elements):.4f}",
            }
        )
    return rows


def _group(name: str, tensors: Sequence[tuple[int, ReaderTensor]], total: int) -> str:
    elements = sum(tensor.n_elements for _, tensor in tensors)
    size = sum(tensor.n_bytes for _, tensor in tensors)
    rounded = element_count_rounded_notation(elements)
    title = f"{translate_tensor_name(name)} Tensor Group : {rounded} Elements"
    out = f'### <a name="{name.replace(".", "_")}">{title}</a>\n\n'
    out += markdown_table_with_alignment_support(_TENSORS, _tensor_rows(tensors))
    out += f"\n- Total elements in {name}: ({rounded:>4}) {elements}\n"
    out += f"- Percentage of total elements: {elements / total * 100:.2f}%\n"
    bits = f"{_bits(size, elements):.4f} bits" if elements > 0 else "undefined (no elements)"
    return out + f"- Bits per Weight (BPW) for {name}: {bits}\n\n\n"


def _tensors(reader: GGUFReader) -> str:
    groups: dict[str, list[tuple[int, ReaderTensor]]] = {}
    for number, tensor in enumerate(reader.tensors):
        groups.setdefault(_group_of(tensor.name), []).append((number, tensor))
    total = sum(tensor.n_elements for tensor in reader.tensors)
    out = f"## Tensors Overview {element_count_rounded_notation(total)} Elements\n\n"
    out += f"Total number of elements in all tensors: {total} Elements\n\n"
    for name, tensors in groups.items():
        count = element_count_rounded_notation(sum(t.n_elements for _, t in tensors))
        title = f"{translate_tensor_name(name)} Tensor Group - {count} Elements"
        out += f"- [{title}](#{name.replace('.', '_')})\n"
    out += "\n### Tensor Data Offset\n\n"
    out += "This table contains the offset and data segment relative to start of file\n\n"
    rows = [
        {
            "t_id": number,
            "layer_name": tensor.name,
            "data_offset": f"{tensor.data_offset:#16x}",
            "data_size": f"{tensor.n_bytes:#16x}",
        }
        for number, tensor in enumerate(reader.tensors)
    ]
    out += markdown_table_with_alignment_support(_OFFSETS, rows) + "\n"
    return out + "".join(_group(name, tensors, total) for name, tensors in groups.items())


def dump_markdown_metadata(reader: GGUFReader, args: argparse.Namespace) -> None:
    """Print the metadata, and the tensors unless `args.no_tensors`."""
    out = f"# {args.model} - GGUF Internal File Dump\n\n"
    out += f"- Endian: {reader.endianess.name} endian\n\n## Key Value Metadata Store\n\n"
    out += f"There are {len(reader.fields)} key-value pairs in this file\n\n"
    rows = [
        {
            "n": number,
            "pretty_type": pretty_type(field),
            "total_elements": len(field.data),
            "field_name": field.name,
            "value": _value(reader, field) if field.types else "",
        }
        for number, field in enumerate(reader.fields.values(), 1)
    ]
    out += markdown_table_with_alignment_support(_ENTRIES, rows) + "\n"
    elements = size = 0
    if not args.no_tensors:
        out += _tensors(reader)
        elements = sum(tensor.n_elements for tensor in reader.tensors)
        size = sum(tensor.n_bytes for tensor in reader.tensors)
    bits = f"{_bits(size, elements):.4f} bits" if elements > 0 else "undefined (no elements)"
    print(f"{out}Total BPW for {os.path.basename(args.model)}: {bits}")
