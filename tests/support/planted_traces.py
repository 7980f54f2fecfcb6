"""Traces with one planted cause each: the late rank, the origin, and the first instance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.testing.synthetic import Synthetic
from mpiprof.trace.types import Float

MS = 1_000_000
STEP = 40 * MS
# Findings that differ in work: a rank that hides the delay of another one is named with it, and the
# root of a reduction waits by its role.
IN_WORK: dict[str, tuple[str, tuple[int, ...]]] = {
    "two-ranks": ("rank", (3, 6)),
    "reduce-root": ("noise", ()),
}


@dataclass(frozen=True)
class Planted:
    """One trace to write, and the first finding that it must lead to.

    late: lateness in ms, instances x ranks. ranks: None if the named ranks do not matter. first:
    the first instance with the cause.
    """

    name: str
    late: Float
    cause: str
    ranks: tuple[int, ...] | None = ()
    first: int | None = None
    period: int | None = None
    operation: str = "allreduce"
    nodes: tuple[int, ...] = ()
    algorithm: str = "native"

    def write(self, folder: Path) -> Path:
        """Write the trace."""
        count, ranks = self.late.shape
        synthetic = Synthetic(ranks, nodes=self.nodes or None, offsets=(0,) * 8, drifts=(0.0,) * 8)
        start = (np.arange(count)[:, None] + 1) * STEP
        arrivals = np.rint(start + self.late * MS).astype(np.int64)
        exits = np.repeat(arrivals.max(1, keepdims=True) + 50_000, ranks, 1)
        synthetic.ended_ns = (count + 2) * STEP
        for leader in range(1, len(set(self.nodes))):
            for at in (2_000, synthetic.ended_ns):
                synthetic.add_clock(self.nodes.index(leader), 0, at, error=500)
        more: dict[str, Any] = {"root": 0} if self.operation in ("bcast", "reduce") else {}
        more["algorithm"] = self.algorithm
        synthetic.add_collective(self.operation, arrivals, exits, site="md.py:93:exchange", **more)
        return synthetic.write(folder)


def is_possible(of: Planted) -> bool:
    """Return whether no rank enters an instance before it has left the one before."""
    return float(of.late.max()) * MS < STEP


def planted() -> Iterator[Planted]:
    """Yield the traces: each kind with several sizes, and mixtures."""
    for seed, (ranks, count) in enumerate(((4, 60), (8, 300), (32, 200), (100, 80))):
        yield from _kinds(np.random.default_rng(seed), ranks, count)
    yield from _others(np.random.default_rng(99))
    yield from _trees(np.random.default_rng(100))


def noise(random: np.random.Generator, count: int, ranks: int, scale: float = 0.1) -> Float:
    return random.normal(1.0, scale, (count, ranks))


def _kinds(random: np.random.Generator, ranks: int, count: int) -> Iterator[Planted]:
    """Yield each kind of cause once, at some rank, instance and period."""

    def quiet() -> Float:
        return noise(random, count, ranks)

    rank, onset = int(random.integers(ranks)), int(random.integers(count // 4, count // 2))
    late = quiet()
    late[:, rank] += 3
    yield Planted(f"rank-{ranks}", late, "rank", (rank,), 0)
    late = quiet()
    late[onset:, rank] += 3
    yield Planted(f"onset-{ranks}", late, "rank", (rank,), onset)
    late = quiet()
    late[:onset, rank] += 3
    yield Planted(f"until-{ranks}", late, "rank", (rank,), 0)
    few = tuple(sorted(random.choice(ranks, max(ranks // 3, 1), replace=False).tolist()))
    late = quiet() + 2
    late[:, few] -= 2
    yield Planted(f"early-{ranks}", late, "early", few, 0)
    every = int(random.integers(3, 8))
    late = quiet()
    late[every - 1 :: every, rank] += 4
    yield Planted(f"periodic-{ranks}", late, "periodic", (rank,), every - 1, every)
    two = tuple(sorted(random.choice(ranks, 2, replace=False).tolist()))
    late = quiet()
    late[::2, two[0]] += 3
    late[1::2, two[1]] += 3
    yield Planted(f"alternating-{ranks}", late, "moving", two, 0, 2)
    late = quiet()
    late[np.arange(count), np.arange(count) % ranks] += 3
    yield Planted(f"rotating-{ranks}", late, "moving", None, 0)
    late = quiet() + np.linspace(0, 4, ranks)
    yield Planted(f"gradient-{ranks}", late, "gradient", (ranks - 1,), 0)
    late = quiet()
    late[onset, rank] += 25 + 0.02 * count * ranks
    yield Planted(f"outlier-{ranks}", late, "long_work", (rank,), onset)
    late = noise(random, count, ranks, 0.5)
    yield Planted(f"noise-{ranks}", late, "noise")
    nodes = tuple(rank * 2 // ranks for rank in range(ranks))
    late = quiet() + 2.0 * np.array(nodes)
    slow = tuple(range(ranks // 2, ranks))
    yield Planted(f"node-{ranks}", late, "node", slow, 0, nodes=nodes)


def _others(random: np.random.Generator) -> Iterator[Planted]:
    """Yield mixtures, of which the costliest counts, and operations in which not all ranks wait."""
    late = noise(random, 300, 8)
    late[:, 3] += 3
    late[4::10, 6] += 8
    yield Planted("always-and-each-tenth", late, "rank", (3,), 0)
    late = noise(random, 300, 8)
    late[:, 3] += 3
    late[:, 6] += 1
    yield Planted("two-ranks", late, "rank", (3,), 0)
    late = noise(random, 200, 8, 0.05)
    late[:120, 5] += 3
    late[120:, 2] += 3
    yield Planted("two-phases", late, "rank", (5,), 0)
    late = noise(random, 300, 8)
    late[137:, 3] += 4
    late[:, 6] += 0.5
    yield Planted("onset-and-other", late, "rank", (3,), 137)
    late = noise(random, 300, 8)
    late[random.random(300) < 0.1, 2] += 5
    yield Planted("now-and-then", late, "rank", (2,))
    late = noise(random, 400, 2)
    late[random.random(400) < 0.2, 1] += 5
    yield Planted("now-and-then-of-two", late, "rank", (1,))
    late = noise(random, 300, 2)
    late[:, 1] += 0.5
    yield Planted("one-of-two", late, "rank", (1,), 0)
    late = noise(random, 20_000, 2)
    late[:, 1] += 0.007  # last in 52 % of the instances
    yield Planted("chance-of-two", late, "noise")
    late = noise(random, 400, 8, 0.05)
    for turn in range(8):
        late[turn * 50 : (turn + 1) * 50, turn] += 3
    yield Planted("slow-turns", late, "moving", None, 0)
    late = noise(random, 300, 64)
    late[np.arange(300), 5 * np.arange(300) % 64] += 3
    yield Planted("five-further", late, "moving", None, 0)
    nodes = (0, 0, 0, 0, 1, 1, 1, 1)
    late = noise(random, 300, 8, 0.5) + 2.0 * np.array(nodes)
    late[:, 1] += 4
    yield Planted("node-and-rank", late, "rank", (1,), 0, nodes=nodes)
    late = noise(random, 300, 8)
    late[:, 0] += 3
    yield Planted("bcast-root", late, "rank", (0,), 0, operation="bcast")
    late = noise(random, 300, 8)
    late[:, 3] += 3
    late[:, 0] += 0.5
    yield Planted("bcast-others", late, "rank", (0,), 0, operation="bcast")
    late = noise(random, 300, 8)
    late[:, 3] += 3
    yield Planted("reduce-sender", late, "rank", (3,), 0, operation="reduce")
    late = noise(random, 300, 8) + 3
    late[:, 0] -= 3
    yield Planted("reduce-root", late, "early", (0,), 0, operation="reduce")
    late = noise(random, 300, 8) + np.array([0, 5, 2, 7, 1, 8, 3, 4.0])
    yield Planted("own-loads", late, "rank", None, 0)


def _trees(random: np.random.Generator) -> Iterator[Planted]:
    """Yield mpiprof's algorithms, in which ranks wait for the ranks between them and the root."""
    late = noise(random, 300, 8)
    late[:, 1] += 3  # the parent of 3 and 5
    late[:, 7] += 6  # a leaf: no rank waits for it
    yield Planted("inner", late, "rank", (1,), 0, operation="bcast", algorithm="binomial")
    late = noise(random, 300, 16)
    late[100:, 5] += 3
    chain = "chain:block_size=1024"
    yield Planted("link", late, "rank", (5,), 100, operation="bcast", algorithm=chain)
    late = noise(random, 300, 8)
    late[:, 6] += 3  # 4 waits for it, and the root for both
    yield Planted("child", late, "rank", (6,), 0, operation="reduce", algorithm="binary_tree")
    late = noise(random, 300, 8)
    late[:, 0] += 3
    late[:, 4] += 5  # a leaf
    yield Planted("root", late, "rank", (0,), 0, operation="bcast", algorithm="binomial")
