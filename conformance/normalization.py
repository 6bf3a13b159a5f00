"""Writes crates/ggmill-tokenizer/data/normalization-15.1.bin: decompositions and combining classes of Unicode 15.1.

    python -m pip install unicodedata2==15.1.0
    python conformance/normalization.py

All numbers are LEB128. The first list has the code points with a decomposition: the difference from the point before, then `length * 4 + composes * 2 + is_compatible`,
then the points of one step of the decomposition. The second list has the ranges of points with a combining class: the difference from the end of the range before,
the length, the class. Each list begins with its length. Hangul syllables are computed.
"""

from pathlib import Path

import unicodedata2 as ucd

TARGET = Path(__file__).parents[1] / "crates/ggmill-tokenizer/data/normalization-15.1.bin"


def number(value):
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found + bytes([value]))


decompositions, classes = [], []
previous = 0
for point in range(0x110000):
    parts = ucd.decomposition(chr(point)).split()
    if parts:
        compatible = parts[0].startswith("<")
        points = [int(part, 16) for part in parts[compatible:]]
        composes = not compatible and len(points) == 2 and ucd.normalize("NFC", chr(point)) == chr(point)
        decompositions.append(number(point - previous) + number(len(points) * 4 + composes * 2 + compatible) + b"".join(map(number, points)))
        previous = point
    kind = ucd.combining(chr(point))
    if kind and classes and classes[-1][1] == point and classes[-1][2] == kind:
        classes[-1][1] = point + 1
    elif kind:
        classes.append([point, point + 1, kind])
end = 0
ranges = []
for first, last, kind in classes:
    ranges.append(number(first - end) + number(last - first) + number(kind))
    end = last
TARGET.write_bytes(number(len(decompositions)) + b"".join(decompositions) + number(len(ranges)) + b"".join(ranges))
