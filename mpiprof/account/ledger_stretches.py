"""Time at each place in equal stretches of a run, from the ledgers: it shows how the time varies.

The segments of a thread at one place are divided into STRETCHES groups of about equal numbers:

    work between a and b   |  1.0  1.1  |  1.0  0.9  |  1.3  1.0  |   ms
    stretch                       0            1            2

Stretches of two runs correspond, so a course that both share is no difference between them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mpiprof.account.ledger import OUTSIDE, read_ledgers
from mpiprof.account.ledger_sums import CALLS, WORK, find_sites_around, list_sites
from mpiprof.metrics.message_callsite_sums import find_located_waits
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int

STRETCHES = 32
WAIT = "wait"
KEYS = {WORK: ["before", "after"], CALLS: ["site"], WAIT: ["site"]}
TIMES = [f"stretch_{number}_ns" for number in range(STRETCHES)]


def make_ledger_stretches(trace: Trace) -> dict[str, pd.DataFrame]:
    """Return the time of all ranks by place and stretch, in ns; empty without ledger sums.

    work: before and after (sites), segments (of the thread with most), TIMES. calls: the same by
    site. wait: the same of waits for messages and on windows.
    """
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in KEYS}
    sites = list_sites(trace)
    ranks = range(trace.ranks) if trace.derive("ledger_sums") is not None else ()
    for rank in ranks:
        for ledger in read_ledgers(trace, rank):
            is_work = ledger.segments["shape"] == OUTSIDE
            work, calls = ledger.segments[is_work], ledger.segments[~is_work]
            around = [key[is_work] for key in find_sites_around(ledger.segments, sites)]
            tables[WORK].append(_sum_stretches(_find_lengths(work), around, KEYS[WORK]))
            of_calls = [sites[calls["shape"]]]
            tables[CALLS].append(_sum_stretches(_find_lengths(calls), of_calls, KEYS[CALLS]))
    if ranks:
        waits = find_located_waits(trace).sort_values("until_ns", kind="stable")
        for _, of_rank in waits.groupby("rank"):
            waits_ns, keys = of_rank["wait_ns"].to_numpy(np.int64), [of_rank["site_id"].to_numpy()]
            tables[WAIT].append(_sum_stretches(waits_ns, keys, KEYS[WAIT]))
    return {name: _join_tables(parts, KEYS[name]) for name, parts in tables.items()}


def combine_stretches(times: Float, count: int) -> Float:
    """Return the sums of neighbouring stretches, so that `count` remain, a power of two."""
    return np.asarray(times.reshape(count, -1).sum(1), np.float64)


def _find_lengths(segments: Array) -> Int:
    return np.asarray(segments["end_ns"] - segments["begin_ns"], np.int64)


def _sum_stretches(length_ns: Int, keys: list[Int], names: list[str]) -> pd.DataFrame:
    """Return the number of segments by key, and the sums of their lengths in each stretch."""
    columns = {name: key.astype(np.int64) for name, key in zip(names, keys, strict=True)}
    frame = pd.DataFrame(columns)
    groups = frame.groupby(names, sort=False)
    group, position = groups.ngroup().to_numpy(), groups.cumcount().to_numpy()
    distinct = frame.drop_duplicates().reset_index(drop=True)
    count = np.bincount(group, minlength=len(distinct))
    stretch = position * STRETCHES // count[group]
    cells = np.bincount(group * STRETCHES + stretch, length_ns, len(distinct) * STRETCHES)
    times = pd.DataFrame(cells.reshape(-1, STRETCHES), columns=TIMES)
    return pd.concat([distinct.assign(segments=count), times], axis=1)


def _join_tables(parts: list[pd.DataFrame], keys: list[str]) -> pd.DataFrame:
    """Return the sums over threads, and the largest number of segments of a thread."""
    if not parts:
        return pd.DataFrame(columns=[*keys, "segments", *TIMES])
    how = {"segments": "max", **dict.fromkeys(TIMES, "sum")}
    return pd.concat(parts).groupby(keys, as_index=False).agg(how)
