"""gguf-set-metadata: change a number in the metadata of a file in place."""

from __future__ import annotations

import argparse
import logging
import sys

from ..gguf_reader import GGUFReader
from ._ask import arguments, confirm

logger = logging.getLogger("gguf-set-metadata")


def minimal_example(filename: str) -> None:
    """Set tokenizer.ggml.bos_token_id to 2."""
    field = GGUFReader(filename, "r+").fields["tokenizer.ggml.bos_token_id"]
    field.parts[field.data[0]][0] = 2


def set_metadata(reader: GGUFReader, args: argparse.Namespace) -> None:
    """Set the key `args.key` to `args.value`, subject to `args.force` and `args.dry_run`."""
    field = reader.get_field(args.key)
    if field is None:
        logger.error(f"! Field {args.key!r} not found")
        sys.exit(1)
    handler = reader.gguf_scalar_to_np.get(field.types[0]) if field.types else None
    if handler is None:
        logger.error(
            f"! This tool only supports changing simple values, {args.key!r} has unsupported type "
            f"{field.types}"
        )
        sys.exit(1)
    value = field.parts[field.data[0]]
    new_value = handler(args.value)
    logger.info(f"* Preparing to change field {args.key!r} from {value[0]} to {new_value}")
    if value[0] == new_value:
        logger.info(f"- Key {args.key!r} already set to requested value {value[0]}")
        sys.exit(0)
    if args.dry_run:
        sys.exit(0)
    if not args.force:
        confirm(
            logger,
            "*** Warning *** Warning *** Warning **",
            "* Changing fields in a GGUF file can make it unusable. Proceed at your own risk.",
            "* Enter exactly YES if you are positive you want to proceed:",
        )
    value[0] = new_value
    logger.info("* Field changed. Successful completion.")


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Set a simple value in GGUF file metadata")
    parser.add_argument("model", type=str, help="GGUF format model filename")
    parser.add_argument("key", type=str, help="Metadata key to set")
    parser.add_argument("value", type=str, help="Metadata value to set")
    parser.add_argument("--dry-run", action="store_true", help="Don't actually change anything")
    parser.add_argument("--force", action="store_true", help="Change it without confirmation")
    args = arguments(parser)
    logger.info(f"* Loading: {args.model}")
    set_metadata(GGUFReader(args.model, "r" if args.dry_run else "r+"), args)


if __name__ == "__main__":
    main()
