"""Synthetic traces for the tests; the writer itself is in mpiprof.testing."""

from __future__ import annotations

from mpiprof.testing.synthetic import LINK, MACHINE, Synthetic
from mpiprof.trace.writer import RECORD_TYPE, chunks, head_chunk

__all__ = ["LINK", "MACHINE", "RECORD_TYPE", "Synthetic", "chunks", "head_chunk"]
