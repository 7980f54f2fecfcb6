"""Series of a call site's instances: one row per instance, in order of first arrival."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from mpiprof.account.batch_map import BatchPass
from mpiprof.account.columns import of_instances
from mpiprof.account.coverage import first_recorded
from mpiprof.account.instance_metrics import InstanceMetrics
from mpiprof.account.instance_rows import Rows, make_empty_rows
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

MAX_INSTANCES = 1 << 17  # maximum number of instances in a series
RUN_LENGTH = 256  # consecutive instances, thinned as a whole so that periods remain visible

# Columns of account/columns.py, after the columns of instances alone.
IMBALANCES = ("average_imbalance_ns", "worst_imbalance_ns", "worst_factor")
METRICS = (*IMBALANCES, "wait_ns", "mean_elapsed_ns")
COLUMNS = ("first_arrival_ns", *METRICS, "last_rank", "algorithm")
NONE = np.zeros(0, np.int64)


class SeriesMaker:
    """Builds the series of a call site with `expected` instances, numbered from `first`."""

    def __init__(self, expected: int, first: int = 0) -> None:
        self.first, self.expected = first, expected
        self.every = max(-(-expected // MAX_INSTANCES), 1)
        self.seen = 0
        self.parts: list[dict[str, Array]] = []

    @property
    def max_instances(self) -> int:
        """Number of instances that the series will contain."""
        runs = -(-self.expected // RUN_LENGTH)
        run_count = -(-runs // self.every) * RUN_LENGTH
        return run_count - (runs * RUN_LENGTH - self.expected) * ((runs - 1) % self.every == 0)

    def includes_any(self, count: int) -> bool:
        """Return whether the series includes any of the next `count` instances."""
        return meets_run(self.seen, count, RUN_LENGTH, self.every)

    def next_numbers(self, count: int) -> tuple[Int, Bool]:
        """Return the numbers of the next `count` instances, and a mask of the ones to include."""
        number = self.seen + np.arange(count)
        self.seen += count
        return number, number // RUN_LENGTH % self.every == 0

    def add_numbered(self, number: Int, part: dict[str, Array]) -> None:
        """Add instances by number; `part` has their COLUMNS."""
        self.parts.append({"number": number, **part})

    def add(self, part: dict[str, Array]) -> None:
        """Add the next instances, thinned if necessary; `part` has their COLUMNS."""
        number, included = self.next_numbers(len(part["algorithm"]))
        if self.every > 1:
            number = number[included]
            part = {name: values[included] for name, values in part.items()}
        self.add_numbered(number, part)

    def make_table(self, algorithms: Iterable[str]) -> pd.DataFrame:
        """Return the series. Unknown values are NaN (last rank: -1)."""
        names = ("number", *COLUMNS)
        parts = self.parts or [take_columns(make_empty_rows(0), NONE) | {"number": NONE}]
        table = {name: np.concatenate([part[name] for part in parts]) for name in names}
        order = np.argsort(table["first_arrival_ns"], kind="stable")
        number = np.sort(table["number"]) + self.first
        frame = pd.DataFrame({name: values[order] for name, values in table.items()})
        algorithm = np.array(list(algorithms), object)[frame["algorithm"].to_numpy(np.int64)]
        return frame.assign(number=number, algorithm=pd.Categorical(algorithm))


def meets_run(first: int, count: int, length: int, every: int) -> bool:
    """Return whether `count` numbers from `first` meet one of every `every` runs of `length`."""
    last = (first + count - 1) // length
    return count > 0 and last // every * every >= first // length


def take_columns(rows: Rows, index: Int) -> dict[str, Array]:
    """Return COLUMNS of some instances of a batch."""
    instance = of_instances()
    columns: dict[str, Array] = {name: instance[name](rows)[index] for name in METRICS}
    columns |= {"last_rank": rows.last_rank[index], "algorithm": rows.algorithm[index]}
    return {"first_arrival_ns": rows.first_arrival[index], **columns}


def make_series(trace: Trace, callsites: Sequence[int]) -> dict[int, pd.DataFrame]:
    """Return the series of some call sites, from one pass over the trace.

    number (of the instance), first_arrival_ns, average_imbalance_ns, worst_imbalance_ns,
    worst_factor, wait_ns (summed over ranks), mean_elapsed_ns, last_rank, algorithm. A call site
    with more than MAX_INSTANCES is thinned to evenly spread runs of consecutive instances.
    """
    counts = trace.callsites["instances"]
    makers = {c: SeriesMaker(int(counts[c]), first_recorded(trace, c)) for c in callsites}
    over = BatchPass(trace, _columns_of_sites, frozenset(callsites), known=trace.aggregate[1])
    for part in over:
        for callsite, columns in part.value.items():
            columns["algorithm"] = part.algorithms[columns["algorithm"]]
            makers[callsite].add(columns)
    return {callsite: maker.make_table(over.algorithms) for callsite, maker in makers.items()}


def _columns_of_sites(
    measure: InstanceMetrics, batch: Batch, callsites: frozenset[int]
) -> dict[int, dict[str, Array]]:
    """Return COLUMNS of a batch's instances of some call sites, by call site number."""
    rows = measure.compute_rows(batch)  # also numbers its call sites
    if batch.communicator.has_one_member:
        return {}
    order = np.argsort(rows.callsite, kind="stable")
    ids, begins = np.unique(rows.callsite[order], return_index=True)
    split = zip(ids.tolist(), np.split(order, begins[1:]), strict=True)
    return {number: take_columns(rows, index) for number, index in split if number in callsites}


def find_worst_instance(instances: pd.DataFrame) -> int:
    """Return the position of the instance with most waiting of all ranks together.

    Instances with equal or unknown waiting are ordered by their worst-case imbalance.
    instances: a series, or rows of `Trace.instances` of one call site; at least one.
    """
    table = instances[["wait_ns", "worst_imbalance_ns"]].fillna(-1).reset_index(drop=True)
    order = table.sort_values(["wait_ns", "worst_imbalance_ns"], ascending=False, kind="stable")
    return int(order.index[0])
