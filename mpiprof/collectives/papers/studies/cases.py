"""Requirements on an emulated cluster, and measurements: `bench cases --cluster 16x100mbit`.

Ratios are of medians over interleaved laps, each with its 95 % interval. A time is the last exit
minus the last arrival. `line` is one message of 1 MB (2^20 bytes) from the first rank to the last,
which measures the network itself. `rate` is a quarter of the additional time of 4 MB more. An idle
port sends its first packets at once, and `rate` excludes that; it is the bound M as a time. The
requirement on the geometric distribution is for shares that halve from rank to rank (1/2, 1/4,
...). The paper's distribution, with shares of at most 1/lg p, is shown beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.collectives.catalogue import find_all
from mpiprof.collectives.papers.harness.case import LINE, Case
from mpiprof.collectives.papers.harness.intervals import median_interval
from mpiprof.collectives.papers.harness.study import (
    REQUIRED_RANKS,
    CaseResult,
    Report,
    Requirement,
    Row,
    Setup,
    at_least,
    at_most,
    estimate_ratio,
    format_cell,
    remove_verdict,
)
from mpiprof.collectives.papers.studies.allgatherv import make_contributions
from mpiprof.collectives.papers.studies.reduction import make_case as reduction_case
from mpiprof.collectives.pipeline_formulas import pipeline_block_size, ring_block_size
from mpiprof.collectives.schedule import Problem

TITLE = "What must hold"
LAPS = 15
MB = 1 << 20
HALVING = "geometric (halving)"
BLOCKS = (8 << 10, 16 << 10)
REDUCTION_SIZES = (16, 15, 12, 9)
COLUMNS = ("case", "compared", "ms", "measured", "95 %", "asked", "holds")
REQUIRED_OF_32 = "at least 18"  # a requirement on more ranks
RATE = Case({}, LINE, "rate", Problem(2, MB))


def make_cases(setup: Setup) -> list[Case]:
    """Return all cases that the table's rows compare."""
    cases = [
        Case({"part": f"line {n}"}, LINE, "native", Problem(2, n * MB), "ends") for n in (1, 5)
    ]
    for distribution in ("broadcast", HALVING, "geometric", "regular"):
        cases += _allgatherv(setup, distribution)
    half = setup.ranks // 2
    for choice in setup.find_choices("allgather", ("native", "kang"), inter=True):
        problem = Problem(half, MB // half, remote_size=half, remote_bytes=MB // half)
        cases.append(Case({"part": "inter"}, "allgather", choice, problem, f"{half}+{half}"))
    protocols = [a.name for a in find_all("allreduce")]
    for size in {min(setup.ranks, n): None for n in REDUCTION_SIZES}:
        for choice in setup.find_choices("allreduce", ["native", *protocols]):
            case = reduction_case("allreduce", "sum", size, MB, choice, setup.ranks)
            cases.append(replace(case, labels={"part": f"allreduce {size}"}))
    cases += _bcast(setup)
    return cases


def _allgatherv(setup: Setup, distribution: str) -> list[Case]:
    if distribution == HALVING:
        halves = [MB >> i + 1 for i in range(setup.ranks - 1)]
        sizes = (*halves, MB - sum(halves))
    else:
        sizes = make_contributions(distribution, setup.ranks, MB)
    block = ring_block_size(sizes, setup.machine.alpha, setup.machine.beta)
    blocks = [block] if distribution == "regular" else sorted({block, *BLOCKS})
    choices = ["native", "linear_ring", *(f"pipelined_ring:block_size={b}" for b in blocks)]
    problem = Problem(setup.ranks, counts=sizes)
    return [
        Case({"part": distribution}, "allgatherv", choice, problem)
        for choice in setup.find_choices("allgatherv", choices)
    ]


def _bcast(setup: Setup) -> list[Case]:
    block = pipeline_block_size(MB, setup.ranks - 2, setup.machine.alpha, setup.machine.beta, MB)
    choices = ["native", "scatter_allgather_ring", "scatter_allgather_doubling"]
    for name in ("chain", "circulant"):
        choices += [f"{name}:block_size={b}" for b in sorted({block, 4 << 10, *BLOCKS})]
    return [
        Case({"part": "bcast"}, "bcast", choice, Problem(setup.ranks, MB))
        for choice in setup.find_choices("bcast", choices)
    ]


# ---- the table


@dataclass(frozen=True)
class Measured:
    """The results by part."""

    parts: dict[str, list[CaseResult]]

    def named(self, part: str, *names: str) -> CaseResult | None:
        """Return the fastest of some algorithms' results in a part, over all parameters."""
        selected = [r for r in self.parts.get(part, []) if r.case.name in names]
        return min(selected, key=lambda r: r.median_ms, default=None)

    def rate(self) -> CaseResult | None:
        """Return the time of 1 MB at the network's rate, without the time that any size takes."""
        short, long = (self.named(f"line {n}", "native") for n in (1, 5))
        if short is None or long is None:
            return None
        return replace(short, case=RATE, total=(long.total - short.total) / 4)

    def best(self, part: str) -> CaseResult | None:
        """Return the fastest of mpiprof's algorithms in a part."""
        candidates = [r for r in self.parts.get(part, []) if r.case.choice != "native"]
        return min(candidates, key=lambda r: r.median_ms, default=None)


def make_row(
    title: str, above: CaseResult | None, below: CaseResult | None, required: Requirement
) -> Row:
    """Return a row of the table; it states that a result is missing, if one is."""
    row: Row = {"case": title, "asked": required.text}
    if above is None or below is None:
        return row | {"compared": "not in the catalogue, or not here", "measured": np.nan}
    ratio = estimate_ratio(above, below)
    row["compared"] = f"{_name(above)} / {_name(below)}"
    row["ms"] = f"{_median_text(above)} / {_median_text(below)}"
    return row | {"measured": ratio, "95 %": ratio.interval_text} | required.judge(ratio)


def _median_text(result: CaseResult) -> str:
    return format_cell(median_interval(result.total / 1e6))


def _name(result: CaseResult) -> str:
    if result.case is RATE:
        return "rate"
    choice = result.case.choice.replace("block_size=", "")
    return "line" if result.case.operation == LINE else choice


def _list_rows(measured: Measured, setup: Setup) -> list[Row]:
    """Return the rows of allgathers: title, part, compared algorithms, and requirement."""
    openmpi = setup.library == "openmpi"
    only_openmpi, only_halving = (
        Requirement(f"({text} only)") for text in ("Open MPI", "Open MPI, halving")
    )
    pipelined = at_least(18 if setup.ranks >= 32 else 3.5) if openmpi else only_openmpi
    halving = at_least(3) if openmpi else only_halving
    broadcast, regular = "allgatherv, 1 MB at rank 0", "allgatherv, regular, 1 MB"
    between = "allgather between groups, 1 MB each"
    ring = "pipelined_ring"
    comparisons = (
        (broadcast, "broadcast", "linear_ring", ring, at_least(13)),
        (broadcast, "broadcast", "native", ring, pipelined),
        (f"allgatherv, {HALVING}, 1 MB", HALVING, "native", ring, halving),
        ("allgatherv, geometric, 1 MB", "geometric", "native", ring, only_halving),
        (regular, "regular", ring, "linear_ring", at_most(1.03)),
        (regular, "regular", ring, "native", at_most(1.03)),
        (between, "inter", "native", "kang", at_least(8 if openmpi else 6)),
    )
    rows = []
    for title, part, above, below, required in comparisons:
        compared = measured.named(part, above), measured.named(part, below)
        rows.append(make_row(title, *compared, required))
    kang = measured.named("inter", "kang")
    return [*rows, make_row(f"{between}, bound M", kang, measured.rate(), at_most(1.05))]


def _reductions(measured: Measured) -> list[Row]:
    rows = []
    for part in [name for name in measured.parts if name.startswith("allreduce")]:
        size = int(part.split()[1])
        title = f"allreduce, 1 MB, p = {size}"
        doubling, native = (measured.named(part, n) for n in ("recursive_doubling", "native"))
        if size & (size - 1) == 0:
            large = measured.named(part, "ring", "halving_doubling")
            rows.append(make_row(title, doubling, large, at_least(2)))
        rows.append(make_row(title, measured.best(part), native, at_most(1.05)))
        if size in (12, 9):
            halving = measured.named(part, "halving_doubling")
            blocks = measured.named(part, "binary_blocks")
            required = at_least(1, "above 1") if size == 12 else at_most(1, "below 1")
            rows.append(make_row(title, halving, blocks, required))
    return rows


def make_report(results: Sequence[CaseResult], setup: Setup) -> Report:
    """Return the table of requirements and measurements."""
    parts: dict[str, list[CaseResult]] = {}
    for r in results:
        parts.setdefault(r.case.labels["part"], []).append(r)
    measured = Measured(parts)
    best, native = measured.best("bcast"), measured.named("bcast", "native")
    bound = measured.named("line 1", "native")
    rows = [*_list_rows(measured, setup), *_reductions(measured)]
    rows.append(make_row("bcast, 1 MB", best, bound, at_most(1.10, "at most 1.10")))
    rows.append(make_row("bcast, 1 MB", native, best, Requirement("(for comparison)")))
    if setup.ranks != REQUIRED_RANKS:
        for row in rows:
            if row["asked"] != REQUIRED_OF_32:
                remove_verdict(row)
    medians = {
        part: ", ".join(f"{_name(r)} {_median_text(r)}" for r in several)
        for part, several in parts.items()
    }
    note = "; ".join(f"{part}: {text}" for part, text in medians.items())
    return Report(COLUMNS, rows, [f"All medians (ms): {note}"])
