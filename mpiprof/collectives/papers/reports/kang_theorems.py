"""Kang et al. 2019: formulas and theorems on simulated transfer times, at 1 unit per byte.

Theorem 3 adds up the exchange and the ring of each direction alone. But a process of group A enters
the ring of A, which carries B's data, only after the exchange of its own message. And it sends both
through one port: with K_B bytes in p shares that takes k_Ai + K_B - share in any order.
`simulate_apart` is Algorithm 2 as in the proof: sends and receives of the exchange do not wait for
each other, and a receiver serves its senders in the paper's order. In the catalogue's schedule a
send and a receive form a round, which lasts as long as the longer message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mpiprof.collectives import catalogue
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    REFUTED,
    ClaimVerdict,
    Content,
    Results,
    judge,
    make_table,
)
from mpiprof.collectives.papers.reports.machines import PER_BYTE
from mpiprof.collectives.papers.reports.schedule_pictures import show_schedules, trace_schedule
from mpiprof.collectives.proofs import prove
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.simulate import simulate

CASES, QUICK_CASES = 1500, 300
MOST_PROCESSES, MOST_BYTES = 16, 1_000_000
PROOF_SIZES, QUICK_PROOF_SIZES = tuple(range(1, 13)), tuple(range(1, 7))
FORMULA_GROUPS = ((32, 32), (128, 128), (50, 14), (200, 56))
FORMULA_BYTES = 1 << 20
LINK_GROUPS = ((6, 2), (8, 4), (32, 32), (48, 16), (64, 4))
Sizes = tuple[int, ...]
# The bound is 12. b_0 receives a_2's message from 6 to 9. Then the ring of A takes 2 steps of 2.
SMALLEST: tuple[Sizes, Sizes] = (3, 3, 3), (6,)
# The bound is 40. a_0 sends 20 to group B, and 3 shares of 8 in the ring of A: 44.
BUSY_PORT: tuple[Sizes, Sizes] = (20, 0, 0, 0), (8, 8, 8, 8)
ONE_WAY, BOTH, APART = "A to B", "both", "both, directions apart"


def transfer_time(operation: str, name: str, problem: Problem) -> float:
    """Return the simulated time in bytes of the slower group."""
    algorithm = catalogue.find(operation, name, intercommunicator=True)
    return simulate(algorithm, problem, PER_BYTE).after_last


# ---- formulas


def compute_formulas(_: bool) -> list[Row]:
    """Return the time of root gathering over M, beside formulas (1) and (2)."""
    rows: list[Row] = []
    for p, q in FORMULA_GROUPS:
        k = FORMULA_BYTES
        bound, gather = max(p, q) * k, max(p - 1, q - 1) * k
        formulas = {
            "(1)": ("root_gathering_best", gather + 2 * bound),
            "(2)": ("root_gathering_sequential", gather + 3 * (p + q) * k),
        }
        for formula, (name, cost) in formulas.items():
            time = transfer_time("allgather", name, Problem(p, k, remote_size=q, remote_bytes=k))
            rows.append(
                {"formula": formula, "groups": f"{p}+{q}", "algorithm": name}
                | {"time / M": time / bound, "formula / M": cost / bound}
                | {"time / formula": time / cost}
            )
    return rows


# ---- theorems


def compute_theorem_1(quick: bool) -> list[Row]:
    """Return the time and the bound of random cases."""
    random = np.random.default_rng(1)
    rows: list[Row] = []
    for p, q in _draw_groups(random, quick):
        # Multiples of p q, so that all pieces have whole bytes.
        a, b = (int(n) * p * q for n in random.integers(1, 1000, 2))
        time = transfer_time("allgather", "kang", Problem(p, a, remote_size=q, remote_bytes=b))
        bound = max(p * a, q * b) + b
        rows.append({"direction": "both", "p": p, "q": q, "time": time, "bound": bound})
    return rows


def _draw_groups(random: np.random.Generator, quick: bool) -> Iterator[tuple[int, int]]:
    """Yield random sizes of two groups, the larger one first."""
    for _ in range(QUICK_CASES if quick else CASES):
        p = int(random.integers(2, MOST_PROCESSES + 1))
        yield p, int(random.integers(1, p + 1))


def show_bound(results: Results, run: str) -> Content:
    """Return the number of cases above the bound, and the largest excess."""
    rows = [
        {"direction": direction, "cases": len(ratios), "above": _count_above(ratios)}
        | {"largest time / bound": max(ratios)}
        for direction, ratios in _find_ratios(results.rows[run]).items()
    ]
    return Content(tables=[make_table("Random cases", rows)])


def _find_ratios(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return the times over the bound, by direction, without cases that need no time."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        by_direction = ratios.setdefault(row["direction"], [])
        by_direction += [row["time"] / row["bound"]] if row["bound"] else []
    return ratios


def _count_above(ratios: list[float]) -> int:
    return sum(ratio > 1 + 1e-9 for ratio in ratios)


def check_bound(results: Results, run: str, *directions: str) -> ClaimVerdict:
    """Judge a theorem: in part if the bound holds in one direction but not in both at once."""
    texts, states = [], []
    cases = _find_ratios(results.rows[run])
    for direction, ratios in [(d, cases[d]) for d in directions or cases]:
        above = _count_above(ratios)
        states.append(above == 0)
        excess = f", by up to {100 * max(ratios) - 100:.1f} %" if above else ""
        texts.append(f"{direction}: {above} of {len(ratios)} random cases exceed it{excess}")
    state = HOLDS if all(states) else IN_PART if any(states) else FAILS
    return ClaimVerdict(state, "; ".join(texts))


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


def check_proofs(results: Results, operation: str) -> ClaimVerdict:
    """Judge the correctness of an operation's algorithms."""
    rows = results.select("proofs", operation=operation)
    failure = next((row["failure"] for row in rows if row["failure"]), "")
    several, largest = sum(row["problems"] for row in rows), max(row["processes"] for row in rows)
    return judge(not failure, failure or f"proved for {several} problems of groups up to {largest}")


# ---- links


def count_links(_: bool) -> list[Row]:
    """Return the pairs of processes that exchange messages in Algorithm 1."""
    rows: list[Row] = []
    for p, q in LINK_GROUPS:
        problem = Problem(p, 60 * p, remote_size=q, remote_bytes=60 * p)
        messages = trace_schedule("", "allgather", "kang", problem, PER_BYTE)
        sends = [row for row in messages if "target" in row]
        pairs = {tuple(sorted((row["process"], row["target"]))) for row in sends}
        between = sum(first < p <= second for first, second in pairs)
        ring = sum(second < p for _, second in pairs)
        rows.append(
            {"p": p, "q": q, "between groups": between, "ring of A": ring}
            | {"ring of B": len(pairs) - between - ring, "links": len(pairs)}
            | {"p + q + p/q": p + q + p / q, "of all pairs": (p + q) * (p + q - 1) // 2}
        )
    return rows


# ---- theorem 3


def make_problem(a: Sizes, b: Sizes) -> Problem:
    """Return the problem of two groups' messages."""
    return Problem(len(a), remote_size=len(b), counts=a, remote_counts=b)


def compute_bound(a: Sizes, b: Sizes) -> int:
    """Return the theorem's bound, without the exchange of the sizes."""
    return max(sum(a) + max(a), sum(b) + max(b))


def compute_port_time(a: Sizes, b: Sizes) -> int:
    """Return the bytes that the busiest process sends in Algorithm 2 with rings."""
    return max(
        length + sum(shares) - shares[(i + 1) % len(sizes)]
        for sizes, shares in ((a, split_evenly(b, len(a))), (b, split_evenly(a, len(b))))
        for i, length in enumerate(sizes)
    )


def split_evenly(sizes: Sequence[int], parts: int) -> list[int]:
    """Return the shares of all bytes for each receiver, the larger ones first."""
    each, larger = divmod(sum(sizes), parts)
    return [each + (k < larger) for k in range(parts)]


def simulate_apart(a: Sizes, b: Sizes) -> int:
    """Return the end of the slower group."""
    a_sent, b_received = _exchange(a, len(b))
    b_sent, a_received = _exchange(b, len(a))
    return max(
        _end_ring(list(map(max, a_sent, a_received)), split_evenly(b, len(a))),
        _end_ring(list(map(max, b_sent, b_received)), split_evenly(a, len(b))),
    )


def _exchange(sizes: Sizes, receivers: int) -> tuple[list[int], list[int]]:
    """Return the ends of the senders and of the receivers of one direction."""
    begins = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    edges = np.concatenate([[0], np.cumsum(split_evenly(sizes, receivers))]).tolist()
    waiting = [_order_senders(begins, edges[k], edges[k + 1]) for k in range(receivers)]
    targets = [[k for k, queue in enumerate(waiting) if i in queue] for i in range(len(sizes))]
    sent, received = [0] * len(sizes), [0] * receivers
    while any(waiting):
        for k, queue in enumerate(waiting):
            while queue and targets[queue[0]][0] == k:
                i = queue.pop(0)
                del targets[i][0]
                length = min(begins[i + 1], edges[k + 1]) - max(begins[i], edges[k])
                sent[i] = received[k] = max(sent[i], received[k]) + length
    return sent, received


def _order_senders(begins: Sequence[int], first: int, end: int) -> list[int]:
    """Return the senders of bytes first .. end - 1 in the order in which they are received.

    The one that continues to the next receiver comes first, the one that began before comes last.
    """
    senders = [i for i in range(len(begins) - 1) if max(begins[i], first) < min(begins[i + 1], end)]
    return sorted(senders, key=lambda i: (begins[i] < first, begins[i + 1] <= end, i))


def _end_ring(ready: Sequence[int], pieces: Sequence[int]) -> int:
    now = np.array(ready)
    for step in range(len(now) - 1):
        ends = np.maximum(now, np.roll(now, -1)) + np.roll(pieces, step)
        now = np.maximum(ends, np.roll(ends, 1))
    return int(now.max())


def compute_cases(quick: bool) -> list[Row]:
    """Return times and bounds of random cases."""
    random = np.random.default_rng(3)
    rows: list[Row] = []
    for p, q in _draw_groups(random, quick):
        skew = random.choice([1, 6])  # uniform sizes, or few large ones
        a, b = (tuple((MOST_BYTES * random.random(n) ** skew).astype(int).tolist()) for n in (p, q))
        rows += _judge_case(a, b)
    return rows


def _judge_case(a: Sizes, b: Sizes) -> list[Row]:
    none = (0,) * len(b)
    one_way, both = (transfer_time("allgatherv", "kang", make_problem(a, m)) for m in (none, b))
    apart = simulate_apart(a, b)
    bound, weaker = compute_bound(a, b), max(sum(a), sum(b)) + max(*a, *b)
    cases = {
        ONE_WAY: (one_way, compute_bound(a, none)),
        BOTH: (both, bound),
        APART: (apart, bound),
        "both, busiest port": (compute_port_time(a, b), bound),
        "both, M + largest message": (both, weaker),
        "both, directions apart, M + largest message": (apart, weaker),
    }
    # Pieces are whole bytes: a ring of p steps rounds by up to a byte per step.
    slack = len(a) + len(b)
    sizes = {"p": len(a), "q": len(b)}
    return [
        {"direction": name} | sizes | {"time": time, "bound": limit + slack}
        for name, (time, limit) in cases.items()
    ]


def check_theorem_3(results: Results) -> ClaimVerdict:
    """Judge the bound one way and both ways at once, which a counter-example refutes.

    In BUSY_PORT one port has to send more than the bound, in any order of the messages.
    """
    random_cases = check_bound(results, "theorem 3", ONE_WAY, BOTH, APART).reason
    a, b = (", ".join(map(str, sizes)) for sizes in SMALLEST)
    reason = (
        f"{random_cases}. Counter-example: messages of {a} and {b} bytes take "
        f"{simulate_apart(*SMALLEST)}, and the bound is {compute_bound(*SMALLEST)}"
    )
    return ClaimVerdict(REFUTED, reason)


def trace_counter_examples(_: bool) -> list[Row]:
    """Return the messages of the counter-examples."""
    rows: list[Row] = []
    for example in (SMALLEST, BUSY_PORT):
        a, b = (", ".join(map(str, sizes)) for sizes in example)
        problem = make_problem(*example)
        rows += trace_schedule(f"{a} and {b} bytes", "allgatherv", "kang", problem, PER_BYTE)
    return rows


def show_theorem_3(results: Results) -> Content:
    """Return the table of random cases, and the schedules of the counter-examples."""
    drawn = show_schedules("Counter-examples", results.rows["counter-examples"], 2)
    notes = [
        "Counter-examples, with times in bytes. 3, 3, 3 and 6: the bound is "
        f"{compute_bound(*SMALLEST)}. The last of the three messages ends at 9, and the ring of "
        f"group A takes two steps of 2 after that: {simulate_apart(*SMALLEST)}.",
        f"20, 0, 0, 0 and 8, 8, 8, 8: the bound is {compute_bound(*BUSY_PORT)}. Process 0 sends 20 "
        "in the exchange and three shares of 8 in the ring of group A: "
        f"{compute_port_time(*BUSY_PORT)} in any order.",
        "Directions apart: sends and receives of the exchange do not wait for each other.",
    ]
    return Content(drawn.figures, show_bound(results, "theorem 3").tables, notes)
