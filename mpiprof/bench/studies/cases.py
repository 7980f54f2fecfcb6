"""Requirements on an emulated cluster, and measurements: `bench cases --cluster 16x100mbit`.

Ratios are of medians over interleaved laps, each with its 95 % interval. A time is the last exit
minus the last arrival. `line` is one message of 1 MB (2^20 bytes) from the first rank to the last,
which measures the network itself. `rate` is a quarter of the additional time of 4 MB more. An idle
port sends its first packets at once, and `rate` excludes that; it is the bound M as a time. The
requirement on the geometric distribution is for shares that halve from rank to rank (1/2, 1/4,
...). The paper's distribution, with shares of at most 1/lg p, is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.bench.harness.case import LINE, Case
from mpiprof.bench.harness.study import Report, Result, Row, Setup, ratio_interval
from mpiprof.bench.studies.allgatherv import make_contributions
from mpiprof.bench.studies.reduction import make_case as reduction_case
from mpiprof.model.catalogue import load_catalogue
from mpiprof.model.pipeline_formulas import pipeline_block_size, ring_block_size
from mpiprof.model.schedule import Problem

TITLE = "What must hold"
LAPS = 15
MB = 1 << 20
HALVING = "geometric (halving)"
BLOCKS = (8 << 10, 16 << 10)
REDUCTION_SIZES = (16, 15, 12, 9)
COLUMNS = ("case", "compared", "ms", "measured", "95 %", "asked", "holds")
ASKED_RANKS, ASKED_OF_32 = 16, "at least 18"
RATE = Case({}, LINE, "rate", Problem(2, MB))


def make_cases(setup: Setup) -> list[Case]:
    """Return all cases that the table's rows compare."""
    made = [Case({"part": f"line {n}"}, LINE, "native", Problem(2, n * MB), "ends") for n in (1, 5)]
    for distribution in ("broadcast", HALVING, "geometric", "regular"):
        made += _allgatherv(setup, distribution)
    half = setup.ranks // 2
    for choice in setup.find_choices("allgather", ("native", "kang"), inter=True):
        problem = Problem(half, MB // half, remote_size=half, remote_bytes=MB // half)
        made.append(Case({"part": "inter"}, "allgather", choice, problem, f"{half}+{half}"))
    protocols = [a.name for a in load_catalogue() if a.operation == "allreduce"]
    for size in {min(setup.ranks, n): None for n in REDUCTION_SIZES}:
        for choice in setup.find_choices("allreduce", ["native", *protocols]):
            case = reduction_case("allreduce", "sum", size, MB, choice, setup.ranks)
            made.append(replace(case, labels={"part": f"allreduce {size}"}))
    made += _bcast(setup)
    return made


def _allgatherv(setup: Setup, distribution: str) -> list[Case]:
    if distribution == HALVING:
        halves = [MB >> i + 1 for i in range(setup.ranks - 1)]
        sizes = (*halves, MB - sum(halves))
    else:
        sizes = make_contributions(distribution, setup.ranks, MB)
    own = ring_block_size(sizes, setup.machine.alpha, setup.machine.beta)
    blocks = [own] if distribution == "regular" else sorted({own, *BLOCKS})
    wanted = ["native", "linear_ring", *(f"pipelined_ring:block_size={b}" for b in blocks)]
    problem = Problem(setup.ranks, counts=sizes)
    return [
        Case({"part": distribution}, "allgatherv", choice, problem)
        for choice in setup.find_choices("allgatherv", wanted)
    ]


def _bcast(setup: Setup) -> list[Case]:
    own = pipeline_block_size(MB, setup.ranks - 2, setup.machine.alpha, setup.machine.beta, MB)
    wanted = ["native", "scatter_allgather_ring", "scatter_allgather_doubling"]
    for name in ("chain", "circulant"):
        wanted += [f"{name}:block_size={b}" for b in sorted({own, 4 << 10, *BLOCKS})]
    return [
        Case({"part": "bcast"}, "bcast", choice, Problem(setup.ranks, MB))
        for choice in setup.find_choices("bcast", wanted)
    ]


# ---- the table


@dataclass(frozen=True)
class Found:
    """The results by part."""

    parts: dict[str, list[Result]]

    def named(self, part: str, name: str) -> Result | None:
        """Return the fastest of an algorithm's results in a part, over all parameters."""
        found = [r for r in self.parts.get(part, []) if r.case.name == name]
        return min(found, key=lambda r: r.median_ms) if found else None

    def rate(self) -> Result | None:
        """Return the time of 1 MB at the network's rate, without the time that any size takes."""
        short, long = (self.named(f"line {n}", "native") for n in (1, 5))
        if short is None or long is None:
            return None
        return replace(short, case=RATE, total=(long.total - short.total) / 4)

    def best(self, part: str, *names: str) -> Result | None:
        """Return the fastest of mpiprof's algorithms in a part, or of the named ones."""
        found = [
            r
            for r in self.parts.get(part, [])
            if r.case.choice != "native" and (not names or r.case.name in names)
        ]
        return min(found, key=lambda r: r.median_ms) if found else None


def line(
    title: str,
    above: Result | None,
    below: Result | None,
    asked: str,
    holds: Callable[[float], bool] | None,
) -> Row:
    """Return a row of the table; it states which result is missing, if any."""
    row: Row = {"case": title, "asked": asked}
    if above is None or below is None:
        return row | {"compared": "not in the catalogue, or not here", "measured": np.nan}
    value, low, high = ratio_interval(above.total, below.total, paired=True)
    row["compared"] = f"{_name(above)} / {_name(below)}"
    row["ms"] = f"{above.median_ms:.1f} / {below.median_ms:.1f}"
    row |= {"measured": value, "95 %": f"{low:.3g} to {high:.3g}"}
    row["holds"] = "" if holds is None else "yes" if holds(value) else "NO"
    return row


def _name(result: Result) -> str:
    if result.case is RATE:
        return "rate"
    return (
        "line" if result.case.operation == LINE else result.case.choice.replace("block_size=", "")
    )


def at_least(bound: float) -> Callable[[float], bool]:
    """Return the test for a ratio that must reach a bound."""
    return lambda value: value >= bound


def at_most(bound: float) -> Callable[[float], bool]:
    """Return the test for a ratio that must not exceed a bound."""
    return lambda value: value <= bound


def _rings(found: Found, setup: Setup) -> list[Row]:
    openmpi = setup.library == "openmpi"
    ring, native = (found.named("broadcast", n) for n in ("linear_ring", "native"))
    ours = found.named("broadcast", "pipelined_ring")
    title = "allgatherv, 1 MB at rank 0"
    wanted = (18.0 if setup.ranks >= 32 else 3.5) if openmpi else 0.0
    asked = f"at least {wanted:g}" if openmpi else "(Open MPI only)"
    rows = [
        line(title, ring, ours, "at least 13", at_least(13)),
        line(title, native, ours, asked, at_least(wanted) if openmpi else None),
    ]
    for distribution in (HALVING, "geometric"):
        native, ours = (found.named(distribution, n) for n in ("native", "pipelined_ring"))
        asks = openmpi and distribution == HALVING
        asked = "at least 3" if asks else "(Open MPI, halving only)"
        title = f"allgatherv, {distribution}, 1 MB"
        rows.append(line(title, native, ours, asked, at_least(3) if asks else None))
    ours = found.named("regular", "pipelined_ring")
    rows += [
        line(
            "allgatherv, regular, 1 MB",
            ours,
            found.named("regular", name),
            "at most 1.03",
            at_most(1.03),
        )
        for name in ("linear_ring", "native")
    ]
    return rows


def _groups(found: Found, setup: Setup) -> list[Row]:
    wanted = 8 if setup.library == "openmpi" else 6
    native, kang = (found.named("inter", n) for n in ("native", "kang"))
    title = "allgather between groups, 1 MB each"
    return [
        line(title, native, kang, f"at least {wanted}", at_least(wanted)),
        line(title + ", bound M", kang, found.rate(), "at most 1.05", at_most(1.05)),
    ]


def _reductions(found: Found) -> list[Row]:
    rows = []
    for part in [name for name in found.parts if name.startswith("allreduce")]:
        size = int(part.split()[1])
        title = f"allreduce, 1 MB, p = {size}"
        doubling, native = (found.named(part, n) for n in ("recursive_doubling", "native"))
        if size & (size - 1) == 0:
            large = found.best(part, "ring", "halving_doubling")
            rows.append(line(title, doubling, large, "at least 2", at_least(2)))
        rows.append(line(title, found.best(part), native, "at most 1.05", at_most(1.05)))
        if size in (12, 9):
            halving, blocks = (found.named(part, n) for n in ("halving_doubling", "binary_blocks"))
            asked, holds = ("above 1", at_least(1)) if size == 12 else ("below 1", at_most(1))
            rows.append(line(title, halving, blocks, asked, holds))
    return rows


def make_report(results: Sequence[Result], setup: Setup) -> Report:
    """Return the table of requirements and measurements."""
    parts: dict[str, list[Result]] = {}
    for r in results:
        parts.setdefault(r.case.labels["part"], []).append(r)
    found = Found(parts)
    best, native = found.best("bcast"), found.named("bcast", "native")
    bound = found.named("line 1", "native")
    rows = [*_rings(found, setup), *_groups(found, setup), *_reductions(found)]
    rows.append(line("bcast, 1 MB", best, bound, "at most 1.10", at_most(1.10)))
    rows.append(line("bcast, 1 MB", native, best, "(for comparison)", None))
    if setup.ranks != ASKED_RANKS:
        for row in rows:
            if row["asked"] != ASKED_OF_32:
                row |= {"asked": f"({row['asked'].strip('()')}, at 16)", "holds": ""}
    note = "All medians (ms): " + "; ".join(
        f"{part}: " + ", ".join(f"{_name(r)} {r.median_ms:.1f}" for r in several)
        for part, several in parts.items()
    )
    return Report(COLUMNS, rows, [note])
