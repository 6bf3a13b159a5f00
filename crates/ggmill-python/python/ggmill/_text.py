"""Text for people: names in JSON documents, counts, and sizes."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def text_of(shown: str | dict[str, str]) -> str:
    """Decode a name or path of a JSON document of ggmill.

    Text that is not UTF-8 is ``{"bytes_hex": …}`` there. Its invalid bytes become lone surrogates,
    as in file names.
    """
    if isinstance(shown, str):
        return shown
    return bytes.fromhex(shown["bytes_hex"]).decode("utf-8", "surrogateescape")


def counted(number: int, thing: str) -> str:
    """Format a count, such as ``"1 key"`` or ``"2,000 keys"``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def size(nbytes: int) -> str:
    """Format a number of bytes as ``ggmill inspect`` does: three digits, such as ``"18.3 MiB"``."""
    if nbytes < 1024:
        return f"{nbytes} B"
    scaled, unit = nbytes / 1024, 0
    while scaled >= 1024 and unit + 1 < len(_UNITS):
        scaled, unit = scaled / 1024, unit + 1
    digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    return f"{scaled:.{digits}f} {_UNITS[unit]}"
