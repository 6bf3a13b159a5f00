"""Writes crates/ggmill-tokenizer/data/unicode-15.1.bin: the properties of Unicode 15.1 that tokenizers need.

    python -m pip install unicodedata2==15.1.0
    python conformance/unicode.py [--reference path/to/llama.cpp/src/unicode-data.cpp]

The version is that of the tables in llama.cpp: a newer one would cut texts with newer characters elsewhere. With
--reference, every code point is compared with these. Lower case is that of Python's str.lower where it is one code point;
Unicode 15.0 and 15.1 added no pairs, so that Python 3.11 or newer gives the same.
"""
import argparse
import re
import sys
from pathlib import Path

import unicodedata2 as ucd

FLAGS = {"N": 2, "L": 4, "Z": 8, "M": 16, "P": 32, "S": 64, "C": 128}
UNDEFINED = 1
LAST = 0x110000
TARGET = Path(__file__).parents[1] / "crates/ggmill-tokenizer/data/unicode-15.1.bin"


def ranges(of):
    found = []
    for point in range(LAST):
        value = of(point)
        if not found or found[-1][1] != value:
            found.append((point, value))
    return found


def flag(point):
    category = ucd.category(chr(point))
    return UNDEFINED if category == "Cn" else FLAGS[category[0]]


def lower(point):
    text = chr(point).lower()
    # U+0130 has two code points in lower case: its simple mapping is the first.
    return ord(text[0]) if len(text) == 1 or point == 0x130 else point


def decomposed(point):
    if 0xD800 <= point < 0xE000:
        return point
    return ord(ucd.normalize("NFD", chr(point))[0])


def compare(path, flags, lowers, firsts, spaces):
    text = Path(path).read_text()
    def block(name):
        body = text.split(name, 1)[1]
        return body[body.index("{"):body.index("};")]
    pairs = [(int(a, 16), int(b, 16)) for a, b in re.findall(r"\{0x(\w+), 0x(\w+)\}", block("unicode_ranges_flags"))]
    theirs = {}
    for (start, value), (end, _) in zip(pairs, pairs[1:]):
        theirs.update(dict.fromkeys(range(start, end), value))
    differing = [point for point in range(LAST) if theirs[point] != flags[point]]
    assert not differing, f"categories differ: {differing[:10]}"
    pairs = {int(a, 16): int(b, 16) for a, b in re.findall(r"\{0x(\w+), 0x(\w+)\}", block("unicode_map_lowercase"))}
    assert pairs == lowers, "lower case differs: " + str(sorted(set(pairs.items()) ^ set(lowers.items()))[:10])
    triples = re.findall(r"\{0x(\w+), 0x(\w+), 0x(\w+)\}", block("unicode_ranges_nfd"))
    theirs = {point: int(c, 16) for a, b, c in triples for point in range(int(a, 16), int(b, 16) + 1)}
    theirs = {point: first for point, first in theirs.items() if point != first}
    assert theirs == firsts, "NFD differs: " + str(sorted(set(theirs.items()) ^ set(firsts.items()))[:10])
    theirs = {int(a, 16) for a in re.findall(r"0x(\w+)", block("unicode_set_whitespace"))}
    assert theirs == set(spaces), f"whitespace differs: {sorted(theirs ^ set(spaces))}"
    print("equal to the reference's tables", file=sys.stderr)


def number(value):
    """LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def signed(value):
    """LEB128 of a zigzag-encoded number."""
    return number(value * 2 if value >= 0 else -value * 2 - 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reference")
    arguments = parser.parse_args()
    assert ucd.unidata_version == "15.1.0", ucd.unidata_version
    flags = [flag(point) for point in range(LAST)]
    lowers = {point: lower(point) for point in range(LAST) if lower(point) != point}
    firsts = {point: decomposed(point) for point in range(LAST) if decomposed(point) != point}
    # Python's \s has four separators of information more than the property White_Space.
    spaces = [point for point in range(LAST) if chr(point).isspace() and not 0x1C <= point <= 0x1F]
    if arguments.reference:
        compare(arguments.reference, flags, lowers, firsts, spaces)
    nfd = []
    for point, first in sorted(firsts.items()):
        if nfd and nfd[-1][1] + 1 == point and nfd[-1][2] == first:
            nfd[-1][1] = point
        else:
            nfd.append([point, point, first])
    # The format is described in crates/ggmill-tokenizer/src/unicode.rs.
    categories, lowered = ranges(flags.__getitem__), sorted(lowers.items())
    out, last = bytearray(number(len(categories))), 0
    for start, value in categories:
        out += number(start - last << 3 | value.bit_length() - 1)
        last = start
    out, last = out + number(len(spaces)), 0
    for point in spaces:
        out += number(point - last)
        last = point
    out, last = out + number(len(lowered)), 0
    for point, to in lowered:
        out += number(point - last) + signed(to - point)
        last = point
    out, last = out + number(len(nfd)), 0
    for first, end, to in nfd:
        out += number(first - last) + number(end - first) + signed(to - first)
        last = end
    TARGET.write_bytes(out)


main()
