"""gguf-convert-endian: convert the byte order of a file in place."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Any

import numpy as np

from ..._native import swap_bytes
from ..gguf_reader import GGUFReader, ReaderTensor
from ._ask import arguments, confirm

logger = logging.getLogger("gguf-convert-endian")


def _swap(tensor: ReaderTensor) -> None:
    """Byte-swap the data of a tensor in place."""
    data: Any = tensor.data
    if data.dtype != np.uint8:
        data.byteswap(inplace=True)
    elif data.size:
        flat = data.reshape(-1)
        flat[:] = swap_bytes(int(tensor.tensor_type), np.ascontiguousarray(flat))


def convert_byteorder(reader: GGUFReader, args: argparse.Namespace) -> None:
    """Convert the file to the byte order `args.order`: big, little or native."""
    file_order = reader.endianess.name
    other = {"BIG": "LITTLE", "LITTLE": "BIG"}[file_order]
    host_order = other if reader.byte_order == "S" else file_order
    order = host_order if args.order == "native" else args.order.upper()
    logger.info(f"* Host is {host_order} endian, GGUF file seems to be {file_order} endian")
    if file_order == order:
        logger.info(f"* File is already {order} endian. Nothing to do.")
        sys.exit(0)
    logger.info("* Checking tensors for conversion compatibility")
    tensors = reader.tensors
    logger.info(f"* Preparing to convert from {file_order} to {order}")
    if args.dry_run:
        return
    warning = [
        "*** Warning *** Warning *** Warning **",
        "* This conversion process may damage the file. Ensure you have a backup.",
        "* The file will be modified immediately, so if conversion fails or is interrupted",
        "* the file will be corrupted. Enter exactly YES if you are positive you want to proceed:",
    ]
    if order != host_order:
        warning.insert(
            2,
            "* Requested endian differs from host, you will not be able to load the model on this "
            "machine.",
        )
    confirm(logger, *warning)
    logger.info(f"* Converting fields ({len(reader.fields)})")
    for number, field in enumerate(reader.fields.values()):
        logger.info(
            f"- {number:4}: Converting field {field.name!r}, part count: {len(field.parts)}"
        )
        for part in field.parts:
            part.byteswap(inplace=True)
    logger.info(f"* Converting tensors ({len(tensors)})")
    for tensor in tensors:
        _swap(tensor)
        for part in tensor.field.parts:
            part.byteswap(inplace=True)
    logger.info("* Completion")


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Convert GGUF file byte order")
    parser.add_argument("model", type=str, help="GGUF format model filename")
    parser.add_argument(
        "order", type=str, choices=["big", "little", "native"], help="Requested byte order"
    )
    parser.add_argument("--dry-run", action="store_true", help="Don't actually change anything")
    args = arguments(parser)
    logger.info(f"* Loading: {args.model}")
    convert_byteorder(GGUFReader(args.model, "r" if args.dry_run else "r+"), args)


if __name__ == "__main__":
    main()
