"""The layout of a log, as described by its first line.

Nothing of the layout is a constant here, so that old logs remain readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace.checksum import is_line_intact
from mpiprof.trace.validation import check_object, check_text

# NumPy raises SyntaxError for some type names.
LAYOUT_ERRORS = (ValueError, LookupError, TypeError, RecursionError, ArithmeticError, SyntaxError)
MAGIC = 0x6863504D
MAX_HEAD_BYTES = 1 << 14  # maximum length of the first line, bytes
VERSION = 3  # since 2, each finished chunk has a checksum; since 3, chunks of messages are packed
UINT32_FIELDS = ("sequence", "shape", "outside_ns", "thread", "kind")  # unsigned, at most 32 bits
REQUIRED_FIELDS = ("enter_ns", "exit_ns", "choice", *UINT32_FIELDS)
HEADER_FIELDS = ("magic", "rank", "thread", "window", "serial", "dropped")
# In the first chunk: time of the first fatal signal, and the largest number of the launcher's
# children when ranks received it.
SIGNAL = np.dtype([("at_ns", "<i8"), ("siblings", "<i8")])
# Fields of newer headers: a thread's time in unrecorded calls, by class.
OUTSIDE_CLASSES = ("point_to_point", "completion", "one_sided", "files")
# In older headers, meaning of a window's `inside` mark, counted from 1: the thread is in a call of
# this class without a record. "collective" is one that is not sampled, or paused.
CALL_CLASSES = (*OUTSIDE_CLASSES, "collective")


@dataclass(frozen=True)
class Layout:
    """Layout of one log file: sizes in bytes, and the NumPy types of header and record."""

    chunk_bytes: int
    header_bytes: int
    record: np.dtype[Any]
    header: np.dtype[Any]
    has_checksums: bool = False
    ring_bytes: int = 0  # size of a rank's ring of newest events; 0 if the log has all events
    signal_offset: int = 0  # of the first fatal signal (SIGNAL) in the log; 0 if it has none
    operations: tuple[str, ...] = ()  # by the mark `function` in a window's header, from 1

    @property
    def checksum_offset(self) -> int:
        """Offset of the chunk's checksum in a header."""
        assert self.header.fields is not None
        return int(self.header.fields["check"][1])

    @cached_property
    def capacity(self) -> int:
        """Number of records in a chunk."""
        return (self.chunk_bytes - self.header_bytes) // self.record.itemsize


def _make_dtype(fields: Any, size: int, needed: tuple[str, ...]) -> np.dtype[Any]:
    names = [str(f[0]) for f in fields]
    formats = [np.dtype(str(f[1])) for f in fields]
    offsets = [int(f[2]) for f in fields]
    if missing := [n for n in needed if n not in names]:
        raise ValueError("no field " + ", ".join(missing))
    end = 0
    for offset, fmt, name in sorted(zip(offsets, formats, names, strict=True), key=itemgetter(0)):
        if fmt.kind not in "iu" or offset < 0 or offset + fmt.itemsize > size:
            raise ValueError("a field that is not an integer inside the record")
        if offset < end:
            raise ValueError("fields that overlap")
        if name in UINT32_FIELDS and (fmt.kind != "u" or fmt.itemsize > 4):
            raise ValueError(f"{name} that is not a small number")
        end = offset + fmt.itemsize
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def parse_layout(head: bytes, name: str) -> Layout:
    """Parse the first line of the log called `name`; TraceError if it is no valid description."""
    if not head.startswith(b"{"):
        reason = "its first line does not describe the record"
        raise TraceError(f"{name}: not an mpiprof log ({reason})")
    line, newline, _ = head.partition(b"\n")
    if not newline:
        raise TraceError(f"{name}: truncated inside its first line, so it cannot be read")
    try:
        return _parse_line(line)
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from None
    except LAYOUT_ERRORS as error:
        damage = f"damaged first line ({str(error)[:80]})"
        raise TraceError(f"{name}: {damage}; record the program again") from None


@lru_cache(maxsize=16)
def _parse_line(line: bytes) -> Layout:
    """Parse a first line. The line is the same in all logs of a trace, hence the cache."""
    intact = is_line_intact(line)
    if intact is False:
        raise ValueError("its checksum is wrong")
    described = check_object(parse_json(line))
    if described["format"] != "mpiprof log":
        raise TraceError(f"not an mpiprof log but {described['format']!r:.40}")
    if int(described["version"]) > VERSION:
        raise TraceError("written by a newer mpiprof; update mpiprof to read it")
    chunk = int(described["chunk_bytes"])
    header_bytes = int(described["header_bytes"])
    record_bytes = int(described["record_bytes"])
    if not (1 <= record_bytes <= 4096 and header_bytes >= 1 and chunk <= 1 << 26):
        raise ValueError("impossible sizes")
    if header_bytes + record_bytes > chunk:
        raise ValueError("chunks too small for one record")
    record = _make_dtype(described["record"], record_bytes, REQUIRED_FIELDS)
    checked = int(described["version"]) >= 2
    if checked and intact is None:
        raise ValueError("it has no checksum")
    needed = (*HEADER_FIELDS, "check") if checked else HEADER_FIELDS
    header = _make_dtype(described["header"], header_bytes, needed)
    ring = int(described.get("ring_bytes", 0))
    if not 0 <= ring < 1 << 48:
        raise ValueError("an impossible ring")
    signal_offset = int(described.get("signal_at", 0))
    if not 0 <= signal_offset <= chunk - SIGNAL.itemsize:
        raise ValueError("an impossible location of the signal")
    operations = tuple(map(check_text, described.get("operations", ())))
    return Layout(chunk, header_bytes, record, header, checked, ring, signal_offset, operations)
