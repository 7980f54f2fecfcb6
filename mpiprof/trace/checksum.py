"""Checksums in a trace, by which a reader detects damage.

The last key of a JSON line is the CRC-32 of the preceding bytes. A chunk's header has the NH hash
of the chunk's 64-bit words. mpiprof/core/tracefile/checksum.c writes both. Traces of version 1 have
no checksums.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from mpiprof.interface.installation import load_library

Buffer: TypeAlias = Any  # bytes, or an array of bytes

CHECKSUM_SUFFIX = b', "check": "%08x"}'
CHECKSUM_PATTERN = re.compile(rb', "check": "([0-9a-f]{8})"\}$')


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


def compute_checksum(chunk: Buffer, offset: int) -> int:
    """Return the checksum of a chunk of whole 64-bit words, which is stored at `offset`.

    It is never 0.
    """
    content = np.frombuffer(chunk, np.uint8)
    checksum: int = _load_checksum()(content.ctypes.data, len(content), offset)
    return checksum


@cache
def _load_checksum() -> Callable[[int, int, int], int]:
    import ctypes  # not needed by a launcher

    function = load_library("libmpiprof-delays.so").message_decode_checksum
    function.restype, function.argtypes = ctypes.c_uint32, [ctypes.c_void_p, *[ctypes.c_size_t] * 2]
    return function
