"""Sums of each rank at each call site, as Caliper writes them and Hatchet and Thicket read them.

Caliper's split JSON: `nodes` are a tree (label, parent), `data` has a row for each node and rank,
`columns` names its values, and `column_metadata` tells which of them are numbers. The program is
the root, below it stand the frames of a call site, outermost first, then the operation. Values are
exclusive of what is below: those of a root are the rank's time outside MPI collectives.

Hatchet takes the order of a node from the row with the node's number: rows stand by rank, then
node, and each rank has them all.

Format: Caliper, "JSON split" of cali-query; hatchet.readers.caliper_reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.trace import Trace
from mpiprof.trace.sites import site_label
from mpiprof.trace.types import Int

SECOND = 1e9
ORDER = "Node order"  # a name that Hatchet knows, as are the next three
PATH, RANK, TIME = "path", "mpi.rank", "time"
SUMS = {  # by column of rank_totals
    "instances": "instances",
    "total_wait_ns": "wait",
    "caused_ns": "caused wait",
    "lateness_ns": "lateness",
}
COLUMNS = (ORDER, PATH, RANK, TIME, *SUMS.values())


def write(path: Path, trace: Trace, facts: Mapping[str, Any]) -> int:
    """Write the sums, times in seconds, and return the number of call sites."""
    tree = _Tree(trace.program)
    leaves = {
        int(row["callsite"]): tree.node((*_frames(row["sites"]), _operation(row["operation"])))
        for row in trace.callsites.to_dict("records")
    }
    values = np.zeros((trace.ranks, len(tree.labels), 1 + len(SUMS)), np.int64)
    for row in trace.rank_totals.to_dict("records"):
        of = values[int(row["rank"]), leaves[int(row["callsite"])]]
        of += [row["elapsed_ns"], *(row[name] for name in SUMS)]
    for rank, (first, last) in trace.spans.items():
        values[rank, 0, 0] = max(last - first - values[rank, :, 0].sum(), 0)
    path.write_text(json.dumps(_described(tree, values, facts)), encoding="utf-8")
    return len(leaves)


def _described(tree: _Tree, values: Int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object that is written; values: int64, ns and counts, ranks x nodes x columns."""
    times = [True, *(name.endswith("_ns") for name in SUMS)]
    data = [
        [node, node, rank, *(v / SECOND if t else v for v, t in zip(of, times, strict=True))]
        for rank, nodes in enumerate(values.tolist())
        for node, of in enumerate(nodes)
    ]
    nodes = [
        {"label": label, "column": PATH} | ({} if parent is None else {"parent": parent})
        for label, parent in zip(tree.labels, tree.parents, strict=True)
    ]
    numbers = [{"is_value": name != PATH} for name in COLUMNS]
    told = {"data": data, "columns": COLUMNS, "column_metadata": numbers, "nodes": nodes}
    return {**told, **{name: value for name, value in facts.items() if name not in told}}


class _Tree:
    """Nodes by their path from the root, each behind its parent."""

    def __init__(self, root: str) -> None:
        self.labels: list[str] = [root]
        self.parents: list[int | None] = [None]
        self.numbers: dict[tuple[str, ...], int] = {(): 0}

    def node(self, path: tuple[str, ...]) -> int:
        """Return the number of a node, which is made where it is new."""
        if path not in self.numbers:
            parent = self.node(path[:-1])
            self.numbers[path] = len(self.labels)
            self.labels.append(path[-1])
            self.parents.append(parent)
        return self.numbers[path]


def _frames(sites: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return a call site's frames, outermost first; several sites of one instance are one frame."""
    outer = sites[0].get("stack", []) if len(sites) == 1 else []
    own = " | ".join(site_label(site) for site in sites) or "?"
    return (*(site_label(frame) for frame in reversed(outer)), own)


def _operation(name: str) -> str:
    return f"MPI_{name.capitalize()}"
