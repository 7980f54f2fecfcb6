"""Checksums in a trace, by which a reader detects damage.

The last key of a JSON line is the CRC-32 of the preceding bytes. A chunk's header has the NH hash
of the chunk's 64-bit words. mpiprof/core/tracefile/checksum.c writes both. Traces of version 1 have
no checksums.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

import numpy as np

from mpiprof.trace.types import Array

CHECKSUM_SUFFIX = b', "check": "%08x"}'
CHECKSUM_PATTERN = re.compile(rb', "check": "([0-9a-f]{8})"\}$')
GOLDEN_RATIO = 0x9E3779B97F4A7C15


def is_line_intact(line: bytes) -> bool | None:
    """Return whether a line without its line break is intact; None if the line has no checksum."""
    match = CHECKSUM_PATTERN.search(line)
    return None if match is None else zlib.crc32(line[: match.start()]) == int(match[1], 16)


def remove_checksum(line: bytes) -> bytes:
    """Return a line without the checksum at its end."""
    return line[: -len(CHECKSUM_SUFFIX % 0)] + b"}"


def add_checksum(line: bytes) -> bytes:
    """Return a JSON object on one line, which ends with "}", with its checksum added."""
    body = line[:-1]
    return body + CHECKSUM_SUFFIX % zlib.crc32(body)


def compute_checksum(chunk: bytes, offset: int) -> int:
    """Return the checksum of a chunk, which is never 0 and is stored at `offset`."""
    content = bytearray(chunk)
    content[offset : offset + 4] = bytes(4)
    # Each half of a word is added to half of its key without carry; then the sums are multiplied.
    halves = np.frombuffer(content, "<u4") + _word_keys(len(content) // 8)
    total = int(np.multiply(halves[::2], halves[1::2], dtype=np.uint64).sum())
    return (total ^ total >> 32) & 0xFFFFFFFF or 1


@lru_cache(4)
def _word_keys(words: int) -> Array:
    """Return the keys of so many words, as 32-bit halves."""
    with np.errstate(over="ignore"):
        keys = np.arange(1, words + 1, dtype="<u8") * np.uint64(GOLDEN_RATIO)
    return keys.view("<u4")
