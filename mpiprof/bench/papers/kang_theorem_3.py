"""Kang et al. 2019, Theorem 3: random cases, counter-examples, and the cause.

The theorem adds up the exchange and the ring of each direction alone. But a process of group A
enters the ring of A, which carries B's data, only after the exchange of its own message. And it
sends both through one port: with K_B bytes in p shares that takes k_Ai + K_B - share in any order.

`simulate_apart` is Algorithm 2 as in the proof: sends and receives of the exchange do not wait for
each other, and a receiver serves its senders in the paper's order. In the catalogue's schedule a
send and a receive form a round, which lasts as long as the longer message.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import REFUTED, Content, Results, Verdict
from mpiprof.bench.papers.kang_theorems import PER_BYTE, check_bound, show_bound, transfer_time
from mpiprof.bench.papers.runs import Computation, Run
from mpiprof.bench.papers.schedule_pictures import show_schedules, trace_schedule
from mpiprof.model.schedule import Problem

CASES, QUICK_CASES = 1500, 300
MOST_PROCESSES, MOST_BYTES = 16, 1_000_000
Sizes = tuple[int, ...]
# The bound is 12. b_0 receives a_2's message from 6 to 9. Then the ring of A takes 2 steps of 2.
SMALLEST: tuple[Sizes, Sizes] = (3, 3, 3), (6,)
# The bound is 40. a_0 sends 20 to group B, and 3 shares of 8 in the ring of A: 44.
BUSY_PORT: tuple[Sizes, Sizes] = (20, 0, 0, 0), (8, 8, 8, 8)
ONE_WAY, BOTH, APART = "A to B", "both", "both, directions apart"


def make_problem(a: Sizes, b: Sizes) -> Problem:
    """Return the problem of two groups' messages."""
    return Problem(len(a), remote_size=len(b), counts=a, remote_counts=b)


def compute_bound(a: Sizes, b: Sizes) -> int:
    """Return the theorem's bound, without the exchange of the sizes."""
    return max(sum(a) + max(a), sum(b) + max(b))


# ---- ports


def compute_port_time(a: Sizes, b: Sizes) -> int:
    """Return the bytes that the busiest process sends in Algorithm 2 with rings."""
    return max(
        mine + sum(shares) - shares[(i + 1) % len(sizes)]
        for sizes, shares in ((a, split_evenly(b, len(a))), (b, split_evenly(a, len(b))))
        for i, mine in enumerate(sizes)
    )


def split_evenly(sizes: Sequence[int], parts: int) -> list[int]:
    """Return the shares of all bytes for each receiver, the larger ones first."""
    each, larger = divmod(sum(sizes), parts)
    return [each + (k < larger) for k in range(parts)]


# ---- both directions apart


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


# ---- random cases


def compute_cases(quick: bool) -> list[Row]:
    """Return times and bounds of random cases."""
    random = np.random.default_rng(3)
    rows: list[Row] = []
    for _ in range(QUICK_CASES if quick else CASES):
        p = int(random.integers(2, MOST_PROCESSES + 1))
        q = int(random.integers(1, p + 1))
        skew = random.choice([1, 6])  # uniform sizes, or few large ones
        a, b = (tuple((MOST_BYTES * random.random(n) ** skew).astype(int).tolist()) for n in (p, q))
        rows += _judge_case(a, b)
    return rows


def _judge_case(a: Sizes, b: Sizes) -> list[Row]:
    none = (0,) * len(b)
    one, both = (transfer_time("allgatherv", "kang", make_problem(a, m)) for m in (none, b))
    apart = simulate_apart(a, b)
    bound, weaker = compute_bound(a, b), max(sum(a), sum(b)) + max(*a, *b)
    cases = {
        ONE_WAY: (one, compute_bound(a, none)),
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


# ---- the verdict, and the counter-examples


def check_theorem_3(results: Results) -> Verdict:
    """Judge the bound one way and both ways at once, where a counter-example refutes it."""
    judged = {
        name: Results({"cases": results.select("theorem 3", direction=name)}, results.values)
        for name in (ONE_WAY, BOTH, APART)
    }
    found = {name: check_bound(cases, "cases") for name, cases in judged.items()}
    a, b = (", ".join(map(str, sizes)) for sizes in SMALLEST)
    reason = (
        f"{'; '.join(verdict.reason for verdict in found.values())}. Counter-example: messages of "
        f"{a} and {b} bytes take {simulate_apart(*SMALLEST)}, and the bound is "
        f"{compute_bound(*SMALLEST)}"
    )
    # One port has to send more than the bound, in any order of the messages.
    exceeded = compute_port_time(*BUSY_PORT) > compute_bound(*BUSY_PORT)
    return Verdict(REFUTED if exceeded else found[BOTH].state, reason)


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


THEOREM_3_RUNS: dict[str, Run] = {
    "theorem 3": Computation(compute_cases, "random cases, simulated", 30, 6),
    "counter-examples": Computation(trace_counter_examples, "simulated, 1 time unit per byte"),
}
