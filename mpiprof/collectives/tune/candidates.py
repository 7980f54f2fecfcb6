"""Candidates to replace the library's algorithm: applicable algorithms with some parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.collectives.catalogue import Algorithm, find_all, parse_parameters
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.pipeline_formulas import best_ring_block, ceil_log2, pipeline_block_size
from mpiprof.collectives.round_simulator import applies_to
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.tune.tasks import TuningTask
from mpiprof.collectives.variant import Variant

BLOCK_SIZE_FACTORS = (0.5, 1.0, 2.0)  # block sizes, as multiples of the best one
MIN_LAST_SHARE = 0.75  # share of the instances
KILO = 1024


@dataclass(frozen=True)
class Candidate:
    """An algorithm with its parameters."""

    algorithm: Algorithm
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The candidate in the syntax of `run --switch`."""
        return str(Variant(self.algorithm.name, self.parameters))

    def set_parameters(self, problem: Problem, machine: Machine, nodes: tuple[int, ...]) -> Problem:
        """Return a problem with the parameters set."""
        nodes = nodes[: problem.size] if len(set(nodes)) < len(nodes) else ()
        adapted = replace(problem, alpha=machine.alpha, beta=machine.beta, nodes=nodes)
        return Variant(self.algorithm.name, self.parameters).set_parameters(adapted)


def list_candidates(work: TuningTask, machine: Machine) -> list[Candidate]:
    """Return the candidates that can run a work, in the order of the catalogue."""
    problem = work.patterns[-1].problem
    candidates = []
    for algorithm in find_all(work.operation, intercommunicator=bool(work.remote_size)):
        if applies_to(algorithm, problem):
            parameters = _candidate_parameters(algorithm, work, machine)
            candidates += [Candidate(algorithm, words) for words in parameters]
    return candidates


def _candidate_parameters(
    algorithm: Algorithm, work: TuningTask, machine: Machine
) -> Iterator[tuple[tuple[str, str], ...]]:
    parameters = parse_parameters(algorithm)
    problem = max((p.problem for p in work.patterns), key=lambda p: sum(p.counts) + p.bytes)
    blocks: list[tuple[tuple[str, str], ...]] = [()]
    if "block_size" in parameters:
        sizes = _candidate_block_sizes(algorithm, problem, machine)
        blocks = [(("block_size", str(n)),) for n in sizes]
    if "late" in parameters:
        late = _predictable_last(work)
        blocks = [] if late is None else [(*words, ("late", str(late))) for words in blocks]
    yield from blocks
    middle = blocks[len(blocks) // 2] if blocks else ()
    for order in parameters.get("order", ()):
        spread = order == "spread" and 0 in problem.counts
        nodes = order in ("nodes", "both") and 1 < len(set(work.nodes)) < len(work.nodes)
        if spread or (nodes and (order == "nodes" or 0 in problem.counts)):
            yield (*middle, ("order", order))


def _predictable_last(work: TuningTask) -> int | None:
    """Return the process that comes last in three quarters of the instances, or None."""
    share = np.zeros(work.members)
    for pattern in work.patterns:
        last = np.flatnonzero(pattern.arrivals == pattern.arrivals.max())
        share[last] += pattern.weight * (len(last) == 1)
    late = int(share.argmax())
    every = sum(pattern.weight for pattern in work.patterns)
    return late if share[late] >= MIN_LAST_SHARE * every else None


def _candidate_block_sizes(algorithm: Algorithm, problem: Problem, machine: Machine) -> list[int]:
    """Return block sizes around the best one of a ring, or of a broadcast's pipeline."""
    alpha, beta = machine.alpha, machine.beta
    if problem.counts:
        largest = max(problem.counts)
        best = best_ring_block(problem.counts, alpha, beta)
    else:
        largest, extra_rounds = problem.bytes, ceil_log2(problem.size) - 1
        if algorithm.name == "chain":
            extra_rounds = problem.size - 2
        best = pipeline_block_size(problem.bytes, extra_rounds, alpha, beta, max(problem.bytes, 1))
    if best >= largest:
        return [max(largest, 1)]
    sizes = []
    for part in BLOCK_SIZE_FACTORS:
        size = int(best * part)
        exact = part == 1.0 and problem.counts  # a byte less may cost one more block
        size = size // KILO * KILO if size > 4 * KILO and not exact else size
        sizes.append(max(1, min(size, largest)))
    return sorted(set(sizes))
