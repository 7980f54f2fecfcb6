"""Kang et al. 2019: formulas and theorems on simulated transfer times, at 1 unit per byte."""

from __future__ import annotations

import numpy as np

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    REFUTED,
    Content,
    Results,
    Table,
    Verdict,
    judge_share,
)
from mpiprof.bench.papers.runs import Computation, Run
from mpiprof.bench.papers.schedule_pictures import trace_schedule
from mpiprof.model import catalogue
from mpiprof.model.machine import Machine
from mpiprof.model.proofs import prove
from mpiprof.model.schedule import Problem
from mpiprof.model.simulate import simulate

PER_BYTE = Machine(0.0, 1.0, 0.0, 0.0, 1.0)  # no start-ups, so that times are bytes
CASES, QUICK_CASES = 1500, 300
MOST_PROCESSES = 16
PROOF_SIZES, QUICK_PROOF_SIZES = tuple(range(1, 13)), tuple(range(1, 7))
FORMULA_GROUPS = ((32, 32), (128, 128), (50, 14), (200, 56))
FORMULA_BYTES = 1 << 20
LINK_GROUPS = ((6, 2), (8, 4), (32, 32), (48, 16), (64, 4))


def transfer_time(operation: str, name: str, problem: Problem) -> float:
    """Return the simulated time in bytes of the slower group."""
    algorithm = catalogue.find(operation, name, intercommunicator=True)
    return simulate(algorithm, problem, PER_BYTE).after_last


def trace_examples(_: bool) -> list[Row]:
    """Return the messages of the examples of Figures 1 to 3."""
    six, eight = Problem(6, 60, remote_size=2, remote_bytes=60), Problem(8, 60, 0, 3, 60)
    rising = Problem(6, remote_size=2, counts=(10, 20, 30, 40, 50, 60), remote_counts=(70, 140))
    return [
        *trace_schedule("6 and 2 processes", "allgather", "kang", six, PER_BYTE),
        *trace_schedule("8 and 3 processes", "allgather", "kang_teams", eight, PER_BYTE),
        *trace_schedule("6 and 2, rising sizes", "allgatherv", "kang", rising, PER_BYTE),
    ]


# ---- formulas


def compute_formulas(_: bool) -> list[Row]:
    """Return the time of root gathering over M, beside formulas (1) and (2)."""
    rows: list[Row] = []
    for p, q in FORMULA_GROUPS:
        k = FORMULA_BYTES
        problem = Problem(p, k, remote_size=q, remote_bytes=k)
        bound = max(p, q) * k
        gather = max(p - 1, q - 1) * k
        formulas = {"(1)": gather + 2 * bound, "(2)": gather + 3 * (p + q) * k}
        names = {"(1)": "root_gathering_best", "(2)": "root_gathering_sequential"}
        for formula, name in names.items():
            time = transfer_time("allgather", name, problem)
            rows.append(
                {"formula": formula, "groups": f"{p}+{q}", "algorithm": name}
                | {"time / M": time / bound, "formula / M": formulas[formula] / bound}
                | {"time / formula": time / formulas[formula]}
            )
    return rows


def show_formulas(results: Results, formula: str) -> Content:
    """Return the table of a formula."""
    rows = results.select("formulas", formula=formula)
    return Content(tables=[Table("Simulated time and formula", tuple(rows[0]), rows)])


def check_formula_1(results: Results) -> Verdict:
    """Judge the best root gathering by formula (1)."""
    rows = results.select("formulas", formula="(1)")
    ratios, over = ([row[name] for row in rows] for name in ("time / formula", "time / M"))
    right = sum(abs(ratio - 1) <= 0.05 for ratio in ratios)
    span = f"{min(ratios):.3f} to {max(ratios):.3f}; {min(over):.3g} to {max(over):.3g} M"
    return judge_share(right, len(ratios), f"cases are within 5 % of (1), by factors of {span}")


def check_formula_2(results: Results) -> Verdict:
    """Judge root gathering as in MPICH by formula (2)."""
    ratios = [row["time / formula"] for row in results.select("formulas", formula="(2)")]
    right = sum(abs(ratio - 1) <= 0.05 for ratio in ratios)
    span = f"{min(ratios):.3f} to {max(ratios):.3f}"
    return judge_share(right, len(ratios), f"cases are within 5 % of (2), by factors of {span}")


# ---- theorems


def compute_theorem_1(quick: bool) -> list[Row]:
    """Return the time and the bound of random cases."""
    random = np.random.default_rng(1)
    rows: list[Row] = []
    for _ in range(QUICK_CASES if quick else CASES):
        p = int(random.integers(2, MOST_PROCESSES + 1))
        q = int(random.integers(1, p + 1))
        # Multiples of p q, so that all pieces have whole bytes.
        a, b = (int(n) * p * q for n in random.integers(1, 1000, 2))
        time = transfer_time("allgather", "kang", Problem(p, a, remote_size=q, remote_bytes=b))
        bound = max(p * a, q * b) + b
        rows.append({"direction": "both", "p": p, "q": q, "time": time, "bound": bound})
    return rows


def show_bound(results: Results, run: str) -> Content:
    """Return the number of cases above the bound, and the largest excess."""
    rows = []
    for direction in dict.fromkeys(row["direction"] for row in results.rows[run]):
        ratios = _ratios(results, run, direction)
        rows.append(
            {"direction": direction, "cases": len(ratios), "above": _count_above(ratios)}
            | {"largest time / bound": max(ratios)}
        )
    return Content(tables=[Table("Random cases", tuple(rows[0]), rows)])


def _ratios(results: Results, run: str, direction: str) -> list[float]:
    rows = results.select(run, direction=direction)
    return [row["time"] / row["bound"] for row in rows if row["bound"]]


def _count_above(ratios: list[float]) -> int:
    return sum(ratio > 1 + 1e-9 for ratio in ratios)


def check_bound(results: Results, run: str) -> Verdict:
    """Judge a theorem: in part if the bound holds in one direction but not in both at once."""
    texts, states = [], []
    for direction in dict.fromkeys(row["direction"] for row in results.rows[run]):
        ratios = _ratios(results, run, direction)
        above = _count_above(ratios)
        states.append(above == 0)
        excess = f", by up to {100 * max(ratios) - 100:.1f} %" if above else ""
        texts.append(f"{direction}: {above} of {len(ratios)} random cases exceed it{excess}")
    state = HOLDS if all(states) else IN_PART if any(states) else FAILS
    return Verdict(state, "; ".join(texts))


def compute_proofs(quick: bool) -> list[Row]:
    """Return the proofs of the algorithms on all small groups."""
    rows: list[Row] = []
    for operation, names in (("allgather", ("kang", "kang_teams")), ("allgatherv", ("kang",))):
        for name in names:
            algorithm = catalogue.find(operation, name, intercommunicator=True)
            proofs = prove(algorithm, QUICK_PROOF_SIZES if quick else PROOF_SIZES)
            rows.append(
                {"operation": operation, "algorithm": name, "problems": proofs.problems}
                | {"processes": max(proofs.processes, default=0), "failure": proofs.failure}
            )
    return rows


def check_proofs(results: Results, operation: str) -> Verdict:
    """Judge the correctness of an operation's algorithms."""
    rows = results.select("proofs", operation=operation)
    failures = [row["failure"] for row in rows if row["failure"]]
    if failures:
        return Verdict(FAILS, failures[0])
    several, most = sum(row["problems"] for row in rows), max(row["processes"] for row in rows)
    return Verdict(HOLDS, f"proved for {several} problems of groups up to {most}")


# ---- links


def count_links(_: bool) -> list[Row]:
    """Return the pairs of processes that exchange messages in Algorithm 1."""
    rows: list[Row] = []
    for p, q in LINK_GROUPS:
        problem = Problem(p, 60 * p, remote_size=q, remote_bytes=60 * p)
        messages = trace_schedule("", "allgather", "kang", problem, PER_BYTE)
        pairs = {
            tuple(sorted((row["process"], row["target"]))) for row in messages if "target" in row
        }
        between = sum(first < p <= second for first, second in pairs)
        ring = sum(second < p for _, second in pairs)
        rows.append(
            {"p": p, "q": q, "between groups": between, "ring of A": ring}
            | {"ring of B": len(pairs) - between - ring, "links": len(pairs)}
            | {"p + q + p/q": p + q + p / q, "of all pairs": (p + q) * (p + q - 1) // 2}
        )
    return rows


def check_link_parts(results: Results) -> Verdict:
    """Judge the links of the exchange and of each ring; a ring of two processes has one link."""
    rows = results.rows["links"]
    right = sum(
        (row["between groups"], row["ring of A"], row["ring of B"])
        == (row["p"], _ring_links(row["p"]), _ring_links(row["q"]))
        for row in rows
    )
    return judge_share(right, len(rows), "groups; a ring of 2 processes has 1 link")


def _ring_links(size: int) -> int:
    return size if size > 2 else size - 1


def check_links(results: Results) -> Verdict:
    """Judge the sum of the links."""
    rows = results.rows["links"]
    right = sum(row["links"] < row["p + q + p/q"] for row in rows)
    counts = ", ".join(
        f"{row['p']}+{row['q']}: {row['links']} ({row['p + q + p/q']:g})" for row in rows
    )
    reason = f"groups; links, and (p + q + p/q): {counts}; the paper's own counts p, p and q of "
    state = HOLDS if right == len(rows) else REFUTED
    return Verdict(state, f"{right} of {len(rows)} {reason}the three steps add up to 2 p + q")


def check_linear_links(results: Results) -> Verdict:
    """Judge that there are at most two links per process, while all pairs grow quadratically."""
    rows = results.rows["links"]
    right = sum(row["links"] <= 2 * (row["p"] + row["q"]) for row in rows)
    share = max(rows, key=lambda row: row["p"] + row["q"])
    reason = f"groups have at most 2 links per process; {share['p']}+{share['q']}: "
    return judge_share(
        right, len(rows), f"{reason}{share['links']} of {share['of all pairs']} pairs"
    )


THEOREM_RUNS: dict[str, Run] = {
    "formulas": Computation(compute_formulas, "simulated, 1 time unit per byte", 5, 5),
    "theorem 1": Computation(compute_theorem_1, "random cases, simulated", 10, 2),
    "proofs": Computation(compute_proofs, "proofs of schedules", 20, 2),
    "links": Computation(count_links, "messages of the schedule, simulated", 1),
}
