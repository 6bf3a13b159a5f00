"""What the programs that change files have in common."""

from __future__ import annotations

import argparse
import logging
import sys


def confirm(logger: logging.Logger, *warning: str) -> None:
    """Says a warning, and exits with 0 unless YES is typed."""
    for line in warning:
        logger.warning(line)
    if input("YES, I am sure> ") != "YES":
        logger.warning("You didn't enter YES. Okay then, see ya!")
        sys.exit(0)


def arguments(parser: argparse.ArgumentParser, at_least: int = 1) -> argparse.Namespace:
    """Reads the command line, and sets up messages; shows the help if it is too short."""
    parser.add_argument("--verbose", action="store_true", help="increase output verbosity")
    found = parser.parse_args(None if len(sys.argv) > at_least else ["--help"])
    logging.basicConfig(level=logging.DEBUG if found.verbose else logging.INFO)
    return found
