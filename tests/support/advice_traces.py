"""Traces with times unrelated to the model, or all related to it, to test the advice of `tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mpiprof
from mpiprof.account.problem_size import make_problem
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.simulate import simulate
from mpiprof.collectives.tune import tasks
from mpiprof.collectives.tune.candidates import Candidate, list_candidates
from mpiprof.collectives.tune.predict import predict
from mpiprof.collectives.tune.result import YES, judge
from support.synthetic import Synthetic

GAP_NS = 10**10
INSTANCES = 12
OPERATIONS = ("bcast", "allreduce", "alltoall", "allgather")
PROCESSES = (4, 8, 13)
Random = np.random.Generator


def _bytes(operation: str, size: int, contribution: int) -> tuple[int, int]:
    """Return the bytes that each rank sends and receives."""
    several = size if operation in ("alltoall", "allgather") else 1
    sent = contribution if operation == "allgather" else several * contribution
    return sent, several * contribution


def _arrivals(random: Random, i: int, size: int, late_ns: float) -> Any:
    start = (np.arange(1, INSTANCES + 1) + i * (INSTANCES + 1))[:, None] * GAP_NS
    return start + random.exponential(late_ns, (INSTANCES, size)).astype(np.int64)


def unrelated(folder: Path, random: Random, sites: int) -> Path:
    """Write call sites with random times, independent of their sizes."""
    operation, size = str(random.choice(OPERATIONS)), int(random.choice(PROCESSES))
    synthetic = Synthetic(size)
    for i in range(sites):
        contribution = 8 * int(2 ** random.uniform(3, 17))
        came = _arrivals(random, i, size, 10 ** random.uniform(3, 6))
        took = 10 ** random.uniform(4.5, 8.5)
        noise = random.lognormal(0, random.uniform(0, 0.5), (INSTANCES, 1))
        ranks = random.lognormal(0, random.uniform(0, 0.2), (INSTANCES, size))
        exits = came.max(1)[:, None] + (took * noise * ranks).astype(np.int64)
        sent, received = _bytes(operation, size, contribution)
        synthetic.add_collective(
            operation, came, exits, sent=sent, received=received, root=0, site=f"app.py:{10 + i}:f"
        )
    return synthetic.write(folder)


def related(folder: Path, random: Random, sites: int, machine: Machine) -> Path:
    """Write call sites that all ran one mpiprof algorithm, with times within 5 % of the model."""
    operation, size = str(random.choice(OPERATIONS)), int(random.choice(PROCESSES))
    made = Synthetic(size)
    ran: Candidate | None = None
    off = random.lognormal(0, 0.05)
    for i in range(sites):
        contribution = 8 * int(2 ** random.uniform(10, 17))
        moved = np.array(_bytes(operation, size, contribution))[:, None].repeat(size, 1)
        given = make_problem(operation, (size, 0), 0, moved[0], moved[1])
        came = _arrivals(random, i, size, 10 ** random.uniform(3, 5))
        pattern = tasks.Pattern(given, came[0].astype(float), came[0].astype(float), 1.0)
        of = tasks.TuningTask(
            0, operation, (), "", size, 0, tuple(range(size)), (0,) * size, None, "native", 1, 1.0,
            (pattern,),
        )  # fmt: skip
        found = [c for c in list_candidates(of, machine) if not c.parameters]
        ran = ran or found[int(random.integers(len(found)))]
        left = np.empty_like(came)
        for n, arrivals in enumerate(came):
            begin = int(arrivals.min())
            problem = ran.set_parameters(given, machine, (0,) * size)
            timing = simulate(ran.algorithm, problem, machine, arrivals - float(begin), (0,) * size)
            took = (timing.finish - timing.arrivals) * off * random.lognormal(0, 0.02)
            left[n] = arrivals + took.astype(np.int64)
        sent, received = _bytes(operation, size, contribution)
        made.add_collective(
            operation, came, left, sent=sent, received=received, root=0, site=f"app.py:{10 + i}:f"
        )
    return made.write(folder)


def advised(folder: Path, machine: Machine) -> tuple[int, int, int]:
    """Return counts of call sites: another algorithm is advised, would save a third, both."""
    trace = mpiprof.open(folder)
    total = float(trace.callsites["total_elapsed_ns"].sum())
    verdicts = [
        judge(r, total) for r in predict(tasks.list_works(trace, 8), machine, 60, lambda: None)
    ]
    printed = [v.worth == YES for v in verdicts]
    better = [v.gain_ns > v.base_ns / 3 for v in verdicts]
    both = [a and b for a, b in zip(printed, better, strict=True)]
    return sum(printed), sum(better), sum(both)
