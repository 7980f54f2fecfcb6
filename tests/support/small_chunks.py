"""Traces of many small chunks, so that a short run is read in parts as a long one is."""

from __future__ import annotations

import pytest

from mpiprof.trace import trace, writer
from support import synthetic

CHUNK_BYTES = 4096


def write_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write small chunks, and cache no batches."""
    records = (CHUNK_BYTES - writer.HEADER_BYTES) // writer.RECORD_BYTES
    monkeypatch.setattr(writer, "RECORDS_PER_CHUNK", records)
    for module in (writer, synthetic):
        monkeypatch.setattr(module, "CHUNK_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(trace, "max_cached_calls", lambda: 0)
