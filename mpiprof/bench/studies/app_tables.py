"""Further tables of the study of programs, written beside its main table.

    messages      time and bandwidth of one way, by message size (Faraj et al. 2008, Table 1)
    programs      lines of each program (Table 2)
    collectives   calls, message sizes and factors of each routine (Tables 3 and 5)
    distribution  shares of instances by worst-case factor, programs of equal weight (Figure 2)
    instances     both factors of each instance of the followed routines (Figure 3)

A table without rows is left out, for example because message times are not usable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from mpiprof.bench.harness.study import Row
from mpiprof.metrics.aggregate import RANGE_NAMES
from mpiprof.metrics.callsites import join_by_routine


def tabulate_programs(files: Mapping[str, Path]) -> list[Row]:
    """Return the number of lines of each program."""
    return [
        {"program": name, "lines": len(file.read_text().splitlines())}
        for name, file in files.items()
    ]


def tabulate_collectives(callsites: pd.DataFrame) -> list[Row]:
    """Return a row per routine: calls, bytes of messages with their range over call sites, factors.

    The share of time is that in all collectives.
    """
    rows = []
    for row in join_by_routine(callsites).to_dict("records"):
        sizes = callsites.loc[callsites["operation"] == row["operation"], "message_bytes"]
        rows.append(
            {
                "routine": str(row["operation"]),
                "calls": int(row["count"]),
                "message bytes": float(row["message_bytes"]),
                "least bytes": float(sizes.min()),
                "most bytes": float(sizes.max()),
                "share of time": float(row["elapsed_share"]),
                "δ/T": float(row["average_factor"]),
                "ω/T": float(row["worst_factor"]),
            }
        )
    return rows


def tabulate_instances(instances: pd.DataFrame, operation: str) -> list[Row]:
    """Return both factors of each complete instance of a routine; [] without message times."""
    mine = instances[(instances["operation"] == operation) & instances["complete"]]
    pairs = mine[["average_factor", "worst_factor"]].to_numpy(np.float64)
    if np.isnan(pairs).any():
        return []
    return [
        {"routine": operation, "instance": number, "δ/T": average, "ω/T": worst}
        for number, (average, worst) in enumerate(pairs.tolist(), 1)
    ]


def tabulate_distribution(shares: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the share of instances of each size and range of worst-case factors."""
    return [
        {"messages": size, "ω/T": name, "share": share}
        for size, several in shares.items()
        for name, share in zip(RANGE_NAMES, several, strict=True)
    ]


def join_programs(several: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Return the rows of all programs, with the program as the first column."""
    return [{"program": name, **row} for name, rows in several.items() for row in rows]
