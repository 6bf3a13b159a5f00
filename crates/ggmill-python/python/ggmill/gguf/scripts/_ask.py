"""Common parts of the programs that modify files."""

from __future__ import annotations

import argparse
import logging
import sys


def confirm(logger: logging.Logger, *warning: str) -> None:
    """Log a warning, and exit with 0 unless the user types YES."""
    for line in warning:
        logger.warning(line)
    if input("YES, I am sure> ") != "YES":
        logger.warning("You didn't enter YES. Okay then, see ya!")
        sys.exit(0)


def arguments(parser: argparse.ArgumentParser, at_least: int = 1) -> argparse.Namespace:
    """Parse the command line and set up logging; show the help without enough arguments."""
    parser.add_argument("--verbose", action="store_true", help="increase output verbosity")
    found = parser.parse_args(None if len(sys.argv) > at_least else ["--help"])
    logging.basicConfig(level=logging.DEBUG if found.verbose else logging.INFO)
    return found
