"""Irregular allgathers (Träff et al. 2009, Section 3): six distributions, rings and the library.

Sizes are the paper's c: the total data is c in `broadcast` and `spike`, and p c in the others. The
pipelined ring runs at given block sizes, at the paper's size, which is formula (2) with the
measured alpha and beta, and at the best size by the exact number of rounds. At the paper's size it
also runs with empty processes spread (Figure 3), and in the order of nodes if nodes have several
ranks (Figure 1). `communication` is the mean time that a process's port is busy with the bytes that
it must move. `idle` is the rest of its time in the call (Figure 7). A ring must be as fast on a
permuted communicator, and on all processes but the last with a non-contiguous type (Section 3.5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import numpy as np

from mpiprof.collectives.distributions import DISTRIBUTIONS
from mpiprof.collectives.papers.harness.calls import GAP_BYTES
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.figures import Lines, make_curves
from mpiprof.collectives.papers.harness.intervals import estimate_within, median_interval
from mpiprof.collectives.papers.harness.study import (
    CaseResult,
    Report,
    Setup,
    group_results,
    list_columns,
    make_row,
    port_busy_ms,
)
from mpiprof.collectives.pipeline_formulas import best_ring_block, ring_block_size
from mpiprof.collectives.schedule import Problem
from mpiprof.interface.format_units import format_round_size

TITLE = "Irregular allgather"
LAPS = 7
SIZES = (16 << 10, 64 << 10, 256 << 10)  # the paper's c
BLOCKS = (8 << 10, 32 << 10)
LABELS = ("distribution", "c", "bytes", "processes", "communicator", "algorithm")
PARTS = tuple(DISTRIBUTIONS)  # names for --only
OPERATIONS = ("allgatherv",)  # with algorithms for --only


def make_contributions(distribution: str, size: int, base: int, unit: int = 1) -> tuple[int, ...]:
    """Return m_i of a distribution of the paper's c bytes, in multiples of a unit."""
    return tuple(m // unit * unit for m in DISTRIBUTIONS[distribution](base, size))


def make_case(
    distribution: str, base: int, size: int, choice: str, members: str, gaps: bool = False
) -> Case:
    """Return one case; a label after "@" in the choice names the source of its block size."""
    sizes = make_contributions(distribution, size, base, GAP_BYTES if gaps else 1)
    choice, _, label = choice.partition("@")
    communicator = members + (", with gaps" if gaps else "")
    values = (distribution, base, sum(sizes), size, communicator, label or choice)
    labels = dict(zip(LABELS, values, strict=True))
    return Case(labels, "allgatherv", choice, Problem(size, counts=sizes), members, gaps)


def make_choices(setup: Setup, sizes: Sequence[int], blocks: Sequence[int]) -> list[str]:
    """Return native, the linear ring, and the pipelined ring at each block size and at (2)."""
    block = ring_block_size(sizes, setup.machine.alpha, setup.machine.beta)
    choices = ["native", "linear_ring"]
    choices += [f"pipelined_ring:block_size={b}" for b in blocks if b < max(sizes)]
    best, label = f"pipelined_ring:block_size={block}", f"pipelined_ring (2): {block}"
    choices.append(f"{best}@{label}")
    exact = best_ring_block(sizes, setup.machine.alpha, setup.machine.beta)
    if exact != block:
        choices.append(f"pipelined_ring:block_size={exact}@pipelined_ring best: {exact}")
    if setup.shared_nodes:
        choices.append(f"{best}:order=both@{label}, by node")
    elif 0 < sizes.count(0) < len(sizes) - 1:
        choices.append(f"{best}:order=spread@{label}, spread")
    return setup.find_choices("allgatherv", choices)


def make_cases(setup: Setup) -> list[Case]:
    """Return the cases of all distributions, sizes and numbers of processes."""
    options = setup.options
    bases = options.sizes or (SIZES[-1:] if options.quick else SIZES)
    parts = options.only or PARTS
    blocks = options.blocks or (BLOCKS[:1] if options.quick else BLOCKS)
    cases = []
    for size, name, base in product(options.processes or (setup.ranks,), parts, bases):
        members = "world" if size == setup.ranks else str(size)
        choices = make_choices(setup, make_contributions(name, size, base), blocks)
        cases += [make_case(name, base, size, choice, members) for choice in choices]
    if setup.simulated or options.processes or setup.ranks <= 2:
        return cases
    communicators = (("permuted", setup.ranks, False), ("partial", setup.ranks - 1, True))
    two_parts = [part for part in ("broadcast", "geometric") if part in parts]
    for (members, size, gaps), name in product(communicators, two_parts):
        sizes = make_contributions(name, size, bases[-1], GAP_BYTES)
        choices = make_choices(setup, sizes, ())
        cases += [make_case(name, bases[-1], size, choice, members, gaps) for choice in choices]
    return cases


def make_report(results: Sequence[CaseResult], setup: Setup) -> Report:
    """Return a row for each case, and a plot over the size for each distribution."""
    rows = []
    rivals = {"native": "native", "linear ring": "linear_ring"}
    for group in group_results(results, ("distribution", "c", "processes", "communicator")):
        for r in group:
            busy = np.nan if setup.fault else port_busy_ms(r.case, setup.machine)
            row = make_row(r, group, rivals) | {"communication ms": busy}
            elapsed = median_interval(r.elapsed / 1e6)
            row["idle ms"] = estimate_within(max(elapsed - busy, 0.0), elapsed.width / 2)
            rows.append(row)
    return Report(list_columns(rows), rows, [], _figures(results))


def _figures(results: Sequence[CaseResult]) -> list[Lines]:
    figures = []
    over = "processes" if len({r.case.labels["processes"] for r in results}) > 2 else "c"
    ticks = format_round_size if over == "c" else "{:.0f}".format
    points: dict[str, list[tuple[str, float, float]]] = {name: [] for name in DISTRIBUTIONS}
    for r in results:
        labels = r.case.labels
        if labels["communicator"] not in ("permuted", "partial") and not r.case.gaps:
            # The block size differs from point to point.
            name = re.sub(r": \d+", "", labels["algorithm"])
            points[labels["distribution"]].append((name, labels[over], r.min_ms))
    for distribution, several in points.items():
        if several:
            figures.append(Lines(distribution, make_curves(several), over, "ms", ticks=ticks))
    return figures
