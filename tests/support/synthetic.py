"""Synthetic traces for the tests; the writer itself is in mpiprof.testing."""

from __future__ import annotations

from mpiprof.testing.synthetic import LINK, MACHINE, Synthetic
from mpiprof.trace.writer import RECORD_TYPE, make_chunks, make_head_chunk

__all__ = ["LINK", "MACHINE", "RECORD_TYPE", "Synthetic", "make_chunks", "make_head_chunk"]
