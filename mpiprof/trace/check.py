"""Sums that the recorder has left in a trace, so that a reader finds damage.

A line of JSON carries the CRC-32 of what stands before as its last key, a chunk of a log the hash
NH of its 64-bit words in its head; mpiprof/core/trace/check.c writes both. Older traces have none.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

import numpy as np

from mpiprof.trace.types import Array

SUM = b', "check": "%08x"}'
KEY = re.compile(rb', "check": "([0-9a-f]{8})"\}$')
GOLDEN = 0x9E3779B97F4A7C15


def line_is_sound(line: bytes) -> bool | None:
    """Return whether a line, without its line break, is as it was written; None: it has no sum."""
    found = KEY.search(line)
    return None if found is None else zlib.crc32(line[: found.start()]) == int(found[1], 16)


def unsealed(line: bytes) -> bytes:
    """Return a line that has a sum without it."""
    return line[: -len(SUM % 0)] + b"}"


def closed(line: bytes) -> bytes:
    """Return an object of JSON, in one line that ends with "}", with its sum."""
    body = line[:-1]
    return body + SUM % zlib.crc32(body)


def chunk_sum(chunk: bytes, at: int) -> int:
    """Return the sum of a chunk, whose own four bytes at an offset count as 0; it is never 0.

    To each half of a word half of its key is added without a carry; then these are multiplied.
    """
    content = bytearray(chunk)
    content[at : at + 4] = bytes(4)
    halves = np.frombuffer(content, "<u4") + _keys(len(content) // 8)
    total = int(np.multiply(halves[::2], halves[1::2], dtype=np.uint64).sum())
    return (total ^ total >> 32) & 0xFFFFFFFF or 1


@lru_cache(4)
def _keys(words: int) -> Array:
    """Return the keys of so many words, in halves."""
    with np.errstate(over="ignore"):
        keys = np.arange(1, words + 1, dtype="<u8") * np.uint64(GOLDEN)
    return keys.view("<u4")
