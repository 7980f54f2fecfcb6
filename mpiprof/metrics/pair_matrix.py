"""Matrices of messages, bytes and waiting, rank by rank, from the table of pairs of ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.metrics.wait_matrix import assign_rows, list_rank_runs
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int

MAX_ROWS = 256


@dataclass(frozen=True)
class PairMatrix:
    """Sums over the messages between ranks; many ranks are joined to runs.

    ranks: first and last world rank of each row and column. messages, bytes: senders x receivers.
    wait_ns: ranks that wait x ranks that they wait for.
    """

    ranks: tuple[tuple[int, int], ...]
    messages: Int
    bytes: Int
    wait_ns: Int

    def get_cells(self, quantity: str) -> Int:
        """Return the matrix of a quantity: "messages", "bytes" or "wait"."""
        cells: Int = getattr(self, "wait_ns" if quantity == "wait" else quantity)
        return cells


def make_pair_matrix(trace: Trace, pairs: pd.DataFrame, most: int = MAX_ROWS) -> PairMatrix:
    """Return the matrices of rows of `Trace.message_matrix`, with at most `most` rows."""
    row = assign_rows(trace, most)
    count = int(row[-1]) + 1
    source, destination = (row[pairs[name].to_numpy()] for name in ("source", "destination"))

    def add(*parts: tuple[Int, Int, str]) -> Int:
        cells = np.zeros((count, count), np.int64)
        for down, across, name in parts:
            np.add.at(cells, (down, across), pairs[name].to_numpy(np.int64))
        return cells

    return PairMatrix(
        list_rank_runs(row),
        add((source, destination, "messages")),
        add((source, destination, "bytes")),
        add((destination, source, "wait_ns"), (source, destination, "send_wait_ns")),
    )
