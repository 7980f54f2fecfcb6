"""Samples of `run --where` in synthetic traces."""

from __future__ import annotations

from mpiprof.trace.tables import SAMPLE_KEYS
from support.synthetic import Synthetic


def add_samples(
    trace: Synthetic, rank: int, left: str, entered: str, stack: str, count: int, ns: int
) -> None:
    """Add samples of a stack between two calls; all three as in `Synthetic.add_site`."""
    ids = [trace.add_site(rank, text) for text in (left, entered, stack)]
    values = dict(zip(SAMPLE_KEYS, (*ids, count, ns), strict=True))
    trace.lines[rank].append({"rank": rank, "where": values})
