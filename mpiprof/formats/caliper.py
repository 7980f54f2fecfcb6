"""Sums of each rank at each call site in Caliper's format, which Hatchet and Thicket read.

In Caliper's split JSON, `nodes` are a tree (label, parent) and `data` has one row per node and
rank. `columns` names the values, and `column_metadata` marks the numeric ones. The program is the
root. Below it are the frames of a call site, outermost first, then the operation. Values exclude
those of child nodes. The root's values are the rank's time outside the recorded calls.

Hatchet takes the order of a node from the row with the node's number. So rows are sorted by rank,
then node, and each rank has all nodes.

Format: Caliper, "JSON split" of cali-query; hatchet.readers.caliper_reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.message_callsite_sums import KEYS, find_located_waits
from mpiprof.trace import Trace
from mpiprof.trace.sites import describe_sites, label_site
from mpiprof.trace.types import Int

NS_PER_SECOND = 1e9
ORDER = "Node order"  # Hatchet requires this name and the next three
PATH, RANK, TIME = "path", "mpi.rank", "time"
SUMS = {  # keys are columns of rank_totals
    "instances": "instances",
    "total_wait_ns": "wait",
    "caused_ns": "caused wait",
    "lateness_ns": "lateness",
}
COLUMNS = (ORDER, PATH, RANK, TIME, *SUMS.values())


def write(path: Path, trace: Trace, facts: Mapping[str, Any]) -> int:
    """Write the sums with times in seconds, and return the number of call sites."""
    tree = _Tree(trace.program)
    leaves = {
        int(row["callsite"]): tree.find_callsite(row) for row in trace.callsites.to_dict("records")
    }
    sums_of_messages = [*_sum_messages(trace)]
    keys = {key for _, _, table in sums_of_messages for key in _list_keys(table)}
    of_messages = {key: tree.find_callsite(_make_row(trace, *key)) for key in sorted(keys)}
    values = np.zeros((trace.ranks, len(tree.labels), 1 + len(SUMS)), np.int64)
    for row in trace.rank_totals.to_dict("records"):
        cell = values[int(row["rank"]), leaves[int(row["callsite"])]]
        cell += [row["elapsed_ns"], *(row[name] for name in SUMS)]
    for name, by, table in sums_of_messages:
        column = 0 if name == "time" else 1 + [*SUMS.values()].index(name)
        for row in table.to_dict("records"):
            values[int(row[by]), of_messages[tuple(row[key] for key in KEYS)], column] += row["sum"]
    for rank, (first, last) in trace.spans.items():
        values[rank, 0, 0] = max(last - first - values[rank, :, 0].sum(), 0)
    path.write_text(json.dumps(_describe_tree(tree, values, facts)), encoding="utf-8")
    return len(leaves) + len(of_messages)


def _list_keys(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table[KEYS].itertuples(index=False)]


def _make_row(trace: Trace, operation: str, site_id: int) -> dict[str, Any]:
    """Return the operation and the sites of calls on messages, windows or files."""
    return {"operation": operation, "sites": describe_sites(trace.tables.sites, [[site_id]])[0]}


def _sum_messages(trace: Trace) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield sums of calls on messages and local calls: name, column of the rank, and `sum`."""
    waits, calls = find_located_waits(trace), pd.concat([trace.message_sums, trace.local_sums])
    for name, table, by, value in (
        ("time", calls, "rank", "total_ns"),
        ("instances", calls, "rank", "calls"),
        ("wait", waits, "rank", "wait_ns"),
        ("caused wait", waits, "awaited", "wait_ns"),
    ):
        sums = table.groupby([*KEYS, by], sort=False)[value].sum()
        yield name, by, sums.rename("sum").reset_index()


def _describe_tree(tree: _Tree, values: Int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object to write; values: int64, ranks x nodes x columns, in ns and counts."""
    times = [True, *(name.endswith("_ns") for name in SUMS)]
    data = [
        [
            node,
            node,
            rank,
            *(v / NS_PER_SECOND if t else v for v, t in zip(parent_node, times, strict=True)),
        ]
        for rank, nodes in enumerate(values.tolist())
        for node, parent_node in enumerate(nodes)
    ]
    nodes = [
        {"label": label, "column": PATH} | ({} if parent is None else {"parent": parent})
        for label, parent in zip(tree.labels, tree.parents, strict=True)
    ]
    numbers = [{"is_value": name != PATH} for name in COLUMNS]
    tree_data = {"data": data, "columns": COLUMNS, "column_metadata": numbers, "nodes": nodes}
    return tree_data | {n: value for n, value in facts.items() if n not in tree_data}


class _Tree:
    """Nodes by their path from the root; each node follows its parent."""

    def __init__(self, root: str) -> None:
        self.labels: list[str] = [root]
        self.parents: list[int | None] = [None]
        self.numbers: dict[tuple[str, ...], int] = {(): 0}

    def find_node(self, path: tuple[str, ...]) -> int:
        """Return the number of a node, and create the node if it is new."""
        if path not in self.numbers:
            parent = self.find_node(path[:-1])
            self.numbers[path] = len(self.labels)
            self.labels.append(path[-1])
            self.parents.append(parent)
        return self.numbers[path]

    def find_callsite(self, row: Mapping[Any, Any]) -> int:
        """Return the number of the node of a call site's operation."""
        return self.find_node(
            (*_callsite_frames(row["sites"]), f"MPI_{row['operation'].capitalize()}")
        )


def _callsite_frames(sites: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return a call site's frames, outermost first; the sites of one instance form one frame."""
    outer = sites[0].get("stack", []) if len(sites) == 1 else []
    site_frames = " | ".join(label_site(site) for site in sites) or "?"
    return (*(label_site(frame) for frame in reversed(outer)), site_frames)
