"""Predicted times: each algorithm's cost in alpha, beta and gamma, as stated in the catalogue.

A cost is that of the slowest chain of messages, on full-duplex ports that serve one message at a
time: start-ups (tokens included), bytes sent one after the other, and bytes reduced. Barriers that
are steps of an algorithm count as ceil(lg p) start-ups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from mpiprof.collectives import pipeline_formulas
from mpiprof.collectives.buffer_contract import mirror_problem
from mpiprof.collectives.pipeline_formulas import ceil_log2
from mpiprof.collectives.schedule import Problem
from mpiprof.errors import MpiprofError
from support.intergroup_cost import FORMULAS
from support.round_counts import broadcast_rounds, chain_rounds, is_power_of_two

Number = int | Fraction


@dataclass(frozen=True)
class Cost:
    """Coefficients of alpha, beta and gamma."""

    startups: Number = 0
    volume: Number = 0
    reduced: Number = 0

    def time(self, alpha: float, beta: float, gamma: float = 0.0) -> float:
        """Return the time, in the units of alpha, beta and gamma."""
        return float(self.startups * alpha + self.volume * beta + self.reduced * gamma)


def cost(operation: str, name: str, problem: Problem) -> Cost:
    """Return an algorithm's cost; raises MpiprofError if it has no formula."""
    formula, between = COSTS.get((operation, name)), FORMULAS.get((operation, name))
    if problem.remote_size and between is not None:
        return Cost(*between(_counts(problem), _counts(mirror_problem(problem))))
    if formula is None or problem.remote_size:
        raise MpiprofError(f"there is no cost formula for {operation} {name}: simulate it instead")
    return formula(problem) if problem.size > 1 else Cost()


def _counts(p: Problem) -> list[int]:
    return list(p.counts) if p.counts else [p.bytes] * p.size


# ---- alltoall and alltoallv


def _all_to_all(tokens: Callable[[int], int]) -> Callable[[Problem], Cost]:
    return lambda p: Cost(p.size - 1 + tokens(p.size), (p.size - 1) * p.bytes)


def _bruck_all_to_all(p: Problem) -> Cost:
    moves = sum(i.bit_count() for i in range(p.size))
    return Cost(ceil_log2(p.size), moves * p.bytes)


def _irregular_ring(tokens: Callable[[int], int]) -> Callable[[Problem], Cost]:
    def formula(p: Problem) -> Cost:
        sizes, rank = np.array(p.rows, np.int64), np.arange(p.size)
        longest = [int(sizes[rank, (rank + i) % p.size].max()) for i in range(1, p.size)]
        return Cost(sum(n > 0 for n in longest) + tokens(p.size), sum(longest))

    return formula


def _irregular_simple(p: Problem) -> Cost:
    sizes = np.array(p.rows, np.int64)
    np.fill_diagonal(sizes, 0)
    most = [max(a.sum(axis=i).max() for i in range(2)) for a in (sizes > 0, sizes)]
    return Cost(int(most[0]), int(most[1]))


def _no_tokens(size: int) -> int:  # noqa: ARG001
    return 0


def _light_tokens(size: int) -> int:
    return max(size - 2, 0)


# ---- broadcast


def _pipeline(count: Callable[[int, int], int]) -> Callable[[Problem], Cost]:
    """Return the cost of a pipeline of n blocks with count(p, n) rounds; the schedule chooses n."""

    def formula(p: Problem) -> Cost:
        block = p.block_size or pipeline_formulas.pipeline_block_size(
            p.bytes, count(p.size, 1) - 1, p.alpha, p.beta, p.bytes
        )
        blocks = -(-p.bytes // block)
        steps = count(p.size, blocks)
        return Cost(steps, steps * -(-p.bytes // blocks) if blocks else 0)

    return formula


def _scatter_allgather(extra: Callable[[int], int]) -> Callable[[Problem], Cost]:
    return lambda p: Cost(
        ceil_log2(p.size) + extra(p.size), Fraction(2 * (p.size - 1) * p.bytes, p.size)
    )


# ---- allgather and allgatherv


def _allgather(startups: Callable[[int], int]) -> Callable[[Problem], Cost]:
    return lambda p: Cost(startups(p.size), (p.size - 1) * p.bytes)


def _linear_ring(p: Problem) -> Cost:
    largest = max(_counts(p))
    return Cost(p.size - 1 if largest else 0, (p.size - 1) * largest)


def _pipelined_ring(p: Problem) -> Cost:
    counts = _counts(p)
    ring = [counts[r] for r in pipeline_formulas.ring_order(counts, p.order, p.nodes)]
    block = min(p.block_size, max(counts)) or pipeline_formulas.best_ring_block(
        ring, p.alpha, p.beta
    )
    steps = pipeline_formulas.count_skipping_ring_rounds(ring, block)
    longest = max(-(-m // -(-m // block)) for m in counts if m) if p.equal_blocks else block
    return Cost(steps, steps * longest)


# ---- rooted, and barriers


def _linear(p: Problem) -> Cost:
    others = [m for r, m in enumerate(_counts(p)) if r != p.root and m]
    return Cost(len(others), sum(others))


def _binomial(p: Problem) -> Cost:
    return Cost(ceil_log2(p.size), (p.size - 1) * p.bytes)


# ---- reductions; n bytes, lower = 2^floor(lg p)


def _halving(startups: int, volume: int) -> Callable[[Problem], Cost]:
    """Return the cost of halving and doubling, plus `startups` and `volume` if p is not 2^k."""

    def formula(p: Problem) -> Cost:
        n, k = p.bytes, p.size.bit_length() - 1
        lower = 1 << k
        both = Fraction(lower - 1, lower) * n
        if lower == p.size:
            return Cost(2 * k, 2 * both, both)
        return Cost(2 * k + startups, 2 * both + volume * n, both + Fraction(n, 2))

    return formula


def _binary_blocks(back: bool) -> Callable[[Problem], Cost]:
    """Blocks of 2^e, the largest first; a block of 2^f joins the next larger one with n/2^f bytes.

    It joins in 2^(e-f) messages, after its own reduction. In an allreduce the result comes back
    while the larger blocks gather it. That costs one message per block and the missing bytes: half
    of n/2^f with two blocks. With more blocks, this is an upper bound.
    """

    def formula(p: Problem) -> Cost:
        n, exponents = p.bytes, [e for e in range(p.size.bit_length()) if p.size >> e & 1]
        ready = Cost()
        for f, e in zip([None, *exponents], exponents, strict=False):
            share = Fraction(n, 1 << e)
            ready = Cost(max(ready.startups, e), max(ready.volume, n - share), n - share)
            if f is not None:
                joined = Fraction(n, 1 << f)
                ready = Cost(
                    ready.startups + (1 << e - f), ready.volume + joined, ready.reduced + share
                )
        top = exponents[-1]
        gathered = n - Fraction(n, 1 << top)
        if back and len(exponents) > 1:
            smallest = Fraction(n, 1 << exponents[0])
            gathered += smallest / 2 if len(exponents) == 2 else smallest - Fraction(n, 1 << top)
            top += len(exponents) - 1
        return Cost(ready.startups + top, ready.volume + gathered, ready.reduced)

    return formula


def _ring_reduction(p: Problem) -> Cost:
    part = Fraction(p.size - 1, p.size) * p.bytes
    return Cost(2 * (p.size - 1), 2 * part, part)


def _circulant(p: Problem) -> Cost:
    part = Fraction(p.size - 1, p.size) * p.bytes
    return Cost(2 * ceil_log2(p.size), 2 * part, part)


def _late_last(
    others: Callable[[Problem], Cost], after: Callable[[int, int], Cost]
) -> Callable[[Problem], Cost]:
    """Return the cost of p-1 processes, then of the steps after the last process has arrived."""

    def formula(p: Problem) -> Cost:
        early = others(replace(p, size=p.size - 1)) if p.size > 2 else Cost()
        late = after(p.size, p.bytes)
        return Cost(
            early.startups + late.startups, early.volume + late.volume, early.reduced + late.reduced
        )

    return formula


def _broadcast_late_last(p: Problem) -> Cost:
    spread = _pipeline(broadcast_rounds)
    if p.late == p.root:
        return spread(p)
    return _late_last(spread, lambda _, n: Cost(1, n))(p)


def _joined_in_blocks(size: int, n: int) -> Cost:
    blocks = 4 * ceil_log2(size)
    steps = broadcast_rounds(size, blocks)
    return Cost(steps, Fraction(steps * n, blocks), Fraction(steps * n, blocks))


def _tree(ways: int) -> Callable[[Problem], Cost]:
    return lambda p: Cost(
        ways * ceil_log2(p.size), ways * ceil_log2(p.size) * p.bytes, ceil_log2(p.size) * p.bytes
    )


def _recursive_doubling(p: Problem) -> Cost:
    k = p.size.bit_length() - 1
    if is_power_of_two(p.size):
        return Cost(k, k * p.bytes, k * p.bytes)
    return Cost(k + 2, (k + 2) * p.bytes, (k + 1) * p.bytes)


def _pairwise(p: Problem) -> Cost:
    largest = max(_counts(p))
    return Cost(p.size - 1, (p.size - 1) * largest, (p.size - 1) * largest)


def _recursive_halving(p: Problem) -> Cost:
    """Return the cost with unequal shares: pairs of ranks have two shares, or the counts differ."""
    shares, k = np.array(_counts(p), np.int64), p.size.bit_length() - 1
    lower, pairs = 1 << k, p.size - (1 << k)
    held = np.concatenate([shares[: 2 * pairs].reshape(-1, 2).sum(axis=1), shares[2 * pairs :]])
    rank, n = np.arange(lower), int(shares.sum())
    sent = np.where(rank < pairs, n, 0)
    reduced = sent.copy()
    for step in range(k):
        # A rank keeps the data of ranks with its own lower bits, and sends the partner's.
        retained = held.reshape(-1, 2 << step).sum(axis=0)[rank % (2 << step)]
        partner = rank ^ (1 << step)
        sent = np.maximum(sent, sent[partner]) + np.maximum(retained, retained[partner])
        reduced = np.maximum(reduced, reduced[partner]) + retained
    sent[:pairs] += shares[1 : 2 * pairs : 2]
    return Cost(k + (2 if pairs else 0), int(sent.max()), int(reduced.max()))


COSTS: dict[tuple[str, str], Callable[[Problem], Cost]] = {
    ("alltoall", "simple"): _all_to_all(_no_tokens),
    ("alltoall", "bruck"): _bruck_all_to_all,
    **{
        ("alltoall", kind + suffix): _all_to_all(tokens)
        for kind in ("ring", "pair")
        for suffix, tokens in (
            ("", _no_tokens),
            ("_one_barrier", ceil_log2),
            ("_light_barrier", _light_tokens),
        )
    },
    ("alltoallv", "simple"): _irregular_simple,
    ("alltoallv", "ring"): _irregular_ring(_no_tokens),
    ("alltoallv", "ring_one_barrier"): _irregular_ring(ceil_log2),
    ("alltoallv", "ring_light_barrier"): _irregular_ring(_light_tokens),
    ("bcast", "flat_tree"): _linear,
    ("bcast", "binomial"): lambda p: Cost(ceil_log2(p.size), ceil_log2(p.size) * p.bytes),
    ("bcast", "scatter_allgather_doubling"): _scatter_allgather(ceil_log2),
    ("bcast", "scatter_allgather_ring"): _scatter_allgather(lambda size: size - 1),
    ("bcast", "chain"): _pipeline(chain_rounds),
    ("bcast", "circulant"): _pipeline(broadcast_rounds),
    ("bcast", "late_last"): _broadcast_late_last,
    ("allgather", "ring"): _allgather(lambda size: size - 1),
    ("allgather", "recursive_doubling"): _allgather(ceil_log2),
    ("allgather", "bruck"): _allgather(ceil_log2),
    ("allgather", "neighbour_exchange"): _allgather(lambda size: size // 2),
    ("allgatherv", "linear_ring"): _linear_ring,
    ("allgatherv", "pipelined_ring"): _pipelined_ring,
    **{
        (operation, "linear"): _linear for operation in ("gather", "gatherv", "scatter", "scatterv")
    },
    ("gather", "binomial"): _binomial,
    ("scatter", "binomial"): _binomial,
    ("barrier", "linear"): lambda p: Cost(2 * (p.size - 1)),
    ("barrier", "dissemination"): lambda p: Cost(ceil_log2(p.size)),
    ("barrier", "tournament"): lambda p: Cost(2 * ceil_log2(p.size)),
    ("reduce", "binary_tree"): _tree(1),
    ("reduce", "halving_doubling"): _halving(2, 1),
    ("reduce", "binary_blocks"): _binary_blocks(False),
    ("reduce", "ring"): _ring_reduction,
    ("reduce", "late_last"): _late_last(_halving(2, 1), lambda _, n: Cost(1, n, n)),
    ("allreduce", "binary_tree"): _tree(2),
    ("allreduce", "recursive_doubling"): _recursive_doubling,
    ("allreduce", "halving_doubling"): _halving(3, 2),
    ("allreduce", "binary_blocks"): _binary_blocks(True),
    ("allreduce", "ring"): _ring_reduction,
    ("allreduce", "circulant"): _circulant,
    ("allreduce", "late_last"): _late_last(_halving(3, 2), _joined_in_blocks),
    **{
        (operation, name): formula
        for operation in ("reduce_scatter", "reduce_scatter_block")
        for name, formula in (("pairwise", _pairwise), ("recursive_halving", _recursive_halving))
    },
}
