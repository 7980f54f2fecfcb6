"""Instances of a call site as a series: one row each, in order of their first arrival."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mpiprof.analysis.held import first_number
from mpiprof.analysis.measure import Measure
from mpiprof.analysis.measured import Rows
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Int

MOST = 1 << 17  # instances of a call site that are kept
RUN = 256  # consecutive ones that stay together where more are thinned, so that a period shows

COLUMNS = {
    "first_arrival_ns": "first_arrival",
    "average_imbalance_ns": "average_imbalance",
    "worst_imbalance_ns": "worst_imbalance",
    "worst_factor": "worst_factor",
    "wait_ns": "wait",
    "mean_elapsed_ns": "mean_elapsed",
    "last_rank": "last_rank",
    "algorithm": "algorithm",
}


class SeriesMaker:
    """Collects the series of one call site that has `expected` instances, numbered from `first`."""

    def __init__(self, expected: int, first: int = 0) -> None:
        self.first = first
        self.every = max(-(-expected // MOST), 1)
        self.seen = 0
        self.parts: list[dict[str, Array]] = []

    def add(self, rows: Rows, index: Int) -> None:
        """Add instances of a batch, by their indices in it."""
        number = self.seen + np.arange(len(index))
        self.seen += len(index)
        if self.every > 1:
            kept = number // RUN % self.every == 0
            number, index = number[kept], index[kept]
        part = {name: getattr(rows, field)[index] for name, field in COLUMNS.items()}
        self.parts.append({"number": number, **part})

    def done(self, measure: Measure) -> pd.DataFrame:
        """Return the series; what is not known of an instance is NaN, its last rank -1."""
        table = {
            name: np.concatenate([part[name] for part in self.parts]) if self.parts else np.zeros(0)
            for name in ("number", *COLUMNS)
        }
        order = np.argsort(table["first_arrival_ns"], kind="stable")
        number = np.sort(table["number"])
        table = {name: values[order] for name, values in table.items()}
        names = np.array([*measure.algorithms, ""], object)
        table["number"] = number.astype(np.int64) + self.first
        frame: pd.DataFrame = pd.DataFrame(
            {
                **table,
                "algorithm": pd.Categorical(names[table["algorithm"].astype(np.int64)]),
            }
        )
        return frame


def measure_again(trace: Trace) -> Measure:
    """Return a Measure for one more pass, which numbers call sites as the first one did."""
    measure = Measure(trace)
    measure.callsites.update(trace.aggregate[1])
    return measure


def series(trace: Trace, callsites: Sequence[int]) -> dict[int, pd.DataFrame]:
    """Return the series of some call sites, by one pass over the trace.

    number (of the instance), first_arrival_ns, average_imbalance_ns, worst_imbalance_ns,
    worst_factor, wait_ns (summed over ranks), mean_elapsed_ns, last_rank, algorithm. Of a call site
    with more than MOST instances runs of consecutive ones are kept, evenly spread.
    """
    counts = trace.callsites["instances"]
    makers = {
        callsite: SeriesMaker(int(counts[callsite]), first_number(trace, callsite))
        for callsite in callsites
    }
    measure = measure_again(trace)
    for _, rows in measure.batches():
        order = np.argsort(rows.callsite, kind="stable")
        ids, begins = np.unique(rows.callsite[order], return_index=True)
        for callsite, index in zip(ids.tolist(), np.split(order, begins[1:]), strict=True):
            if callsite in makers:
                makers[callsite].add(rows, index)
    return {callsite: maker.done(measure) for callsite, maker in makers.items()}
