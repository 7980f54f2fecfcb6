"""Imposes recorded arrival patterns on the ranks of a job, and measures each candidate under them.

Runs inside MPI with the recorder preloaded, as the studies do (bench/harness/timing.py). A lap
takes one pattern of each task and runs all remaining candidates in a random order, so that drift
affects all equally. After some laps the slower half of a task's candidates is dropped; the choice
without a plan always remains. Instances with arrival errors above MAX_ERROR_NS are excluded,
unless too few instances are left.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpiprof.account.wait_states import score_instances
from mpiprof.collectives.papers.harness import timing
from mpiprof.collectives.papers.harness.calls import import_mpi
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.processors import measure_processor_use
from mpiprof.collectives.papers.harness.timing import Int, Ranks
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.variant import NATIVE
from mpiprof.errors import MpiprofError
from mpiprof.interface.progress import Progress

MAX_ERROR_NS = 50_000
MIN_LAPS = 4  # laps that must fit into the budget
MAX_LAPS = 40
HALVE_AFTER = (4, 8, 16)  # laps
NEAR_BEST_FACTOR = 1.5  # candidates with scores above this multiple of the best score are dropped
PR_SET_TIMERSLACK = 29
SPIN_NS = 100_000


@dataclass(frozen=True)
class Task:
    """The problems of one operation to replay, each with its arrivals (ns by member)."""

    operation: str
    choices: tuple[str, ...]  # in the syntax of `run --switch`, `native` first
    problems: tuple[Problem, ...]
    arrivals: tuple[Int, ...]
    ranks: tuple[int, ...]  # world ranks of the members; for two groups the world's first ranks

    @property
    def member_key(self) -> str:
        """Key of the task's communicator in `Ranks.communicators`."""
        p = self.problems[0]
        if p.remote_size:
            return f"{p.size}+{p.remote_size}"
        return "ranks " + ",".join(map(str, self.ranks))

    @property
    def members(self) -> list[int]:
        """World ranks of the members, in the order of the arrivals."""
        p = self.problems[0]
        return list(range(p.size + p.remote_size)) if p.remote_size else list(self.ranks)

    def make_case(self, choice: str, pattern: int) -> Case:
        """Return the case of a choice under a pattern."""
        return Case({}, self.operation, choice, self.problems[pattern], self.member_key)

    def score_shot(self, shot: ReplayMeasurement) -> float:
        """Return the score of one instance in ns."""
        problem = self.problems[shot.pattern]
        return float(score_instances(self.operation, shot.arrivals, shot.exits, problem))


@dataclass(frozen=True)
class ReplayMeasurement:
    """One measured instance: its pattern, arrivals and exits (joint clock) by member."""

    lap: int
    pattern: int
    arrivals: Int
    exits: Int
    error_ns: int  # largest deviation of an arrival from its target


@dataclass
class ReplayedTask:
    """Measurements of a task; `remaining`: the remaining choices, which ran correctly."""

    task: Task
    shots: dict[str, list[ReplayMeasurement]] = field(default_factory=dict)
    remaining: list[str] = field(default_factory=list)
    cost_s: float = 0.0

    def mean_score(self, choice: str) -> float:
        """Return the mean score of a choice in ns."""
        scores = [self.task.score_shot(shot) for shot in self.shots.get(choice, [])]
        return float(np.mean(scores)) if scores else float("inf")


@dataclass(frozen=True)
class Outcome:
    """All measurements and their environment: for each task, its shots by choice."""

    replayed: list[ReplayedTask]
    mpi: str
    hosts: list[str]
    ranks: int
    clock_error_ns: int
    laps: int

    def arrival_errors(self) -> Int:
        """Return the arrival error of each instance in ns."""
        every = [s.error_ns for r in self.replayed for shots in r.shots.values() for s in shots]
        return np.array(every, np.int64)


# ---- on each rank


def prepare_ranks(ranks: Ranks, tasks: Sequence[Task]) -> None:
    """Create the communicators of all tasks, and set the timer slack of sleeping ranks to 1 ns."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    undefined = import_mpi().UNDEFINED
    for task in tasks:
        if task.problems[0].remote_size:
            ranks.communicator(task.member_key)
        elif task.member_key not in ranks.communicators:
            inside = ranks.rank in task.ranks
            key = task.ranks.index(ranks.rank) if inside else 0
            communicator = ranks.world.Split(0 if inside else undefined, key)
            ranks.communicators[task.member_key] = communicator if inside else None


def choose_spin_ns(world: Any) -> int:
    """Return how long before its target a rank starts spinning; 0 if ranks share processors."""
    return 0 if measure_processor_use(world).is_shared else SPIN_NS


def run_first_lap(ranks: Ranks, tasks: Sequence[Task]) -> list[ReplayedTask]:
    """Run every choice once, untimed, and drop on all ranks each choice that runs incorrectly."""
    replayed = []
    for task in tasks:
        began = time.monotonic()
        cases = [task.make_case(choice, 0) for choice in task.choices]
        alive = [case.choice for case in timing.run_first_lap(ranks, cases, lambda: None)]
        late = max(float(a.max()) for a in task.arrivals) / 1e9
        cost = (time.monotonic() - began) / len(task.choices) + late
        replayed.append(ReplayedTask(task, {c: [] for c in alive}, alive, cost))
    return replayed


def replay(ranks: Ranks, tasks: Sequence[Task], budget_s: float) -> Outcome | None:
    """Measure within a budget; rank 0 returns the outcome, others None; raises MpiprofError."""
    end = time.monotonic() + budget_s
    prepare_ranks(ranks, tasks)
    ranks.clock.synchronise()
    spin_ns = choose_spin_ns(ranks.world)
    replayed = run_first_lap(ranks, tasks)
    task_indices = ranks.world.bcast(_tasks_within(replayed, end - time.monotonic()))
    if not task_indices:
        raise MpiprofError(f"no call site can be replayed in {budget_s:.0f} s: increase --budget")
    progress = Progress(MAX_LAPS * len(_list_runs(replayed, task_indices)), ranks.rank == 0)
    lap = 0
    while True:
        todo = _list_runs(replayed, task_indices)
        _run_lap(ranks, replayed, todo, lap, spin_ns, progress)
        lap += 1
        ranks.clock.synchronise()
        if ranks.rank == 0 and lap in HALVE_AFTER:
            for i in task_indices:
                drop_slower_half(replayed[i])
        alive = ranks.world.bcast([r.remaining for r in replayed])
        for r, names in zip(replayed, alive, strict=True):
            r.remaining = names
        per_lap = sum(replayed[i].cost_s * len(replayed[i].remaining) for i in task_indices)
        progress.steps = progress.done + (MAX_LAPS - lap) * len(_list_runs(replayed, task_indices))
        continues = lap < MAX_LAPS and time.monotonic() + per_lap < end
        if not ranks.world.bcast(continues):
            break
    return _make_outcome(ranks, replayed, lap)


def _list_runs(
    replayed: Sequence[ReplayedTask], task_indices: Sequence[int]
) -> list[tuple[int, str]]:
    """Return the runs of a lap: indices of tasks, each with its remaining choices."""
    return [(i, choice) for i in task_indices for choice in replayed[i].remaining]


def _tasks_within(replayed: Sequence[ReplayedTask], remaining_s: float) -> list[int]:
    """Return the first tasks for which MIN_LAPS fit into the remaining time."""
    task_indices = []
    for i, r in enumerate(replayed):
        remaining_s -= MIN_LAPS * r.cost_s * len(r.remaining)
        if remaining_s < 0:
            break
        if len(r.remaining) > 1:
            task_indices.append(i)
    return task_indices


def _run_lap(
    ranks: Ranks,
    replayed: Sequence[ReplayedTask],
    todo: Sequence[tuple[int, str]],
    lap: int,
    spin_ns: int,
    progress: Progress,
) -> None:
    own_times = np.zeros((len(todo), 3), np.int64)
    for k in np.random.default_rng(lap).permutation(len(todo)).tolist():
        i, choice = todo[k]
        task = replayed[i].task
        pattern = lap % len(task.problems)
        case = task.make_case(choice, pattern)
        call = timing.make_call(ranks, case)
        late = 0 if call is None else int(task.arrivals[pattern][task.members.index(ranks.rank)])
        own_times[k] = timing.run_once(ranks, case, call, late, spin_ns)
        progress.advance()
    every = timing.gather_times(ranks, own_times)
    if every is None:
        return
    for k, (i, choice) in enumerate(todo):
        task = replayed[i].task
        targets, arrivals, exits = every[task.members, k, :].T
        off = int(np.abs(arrivals - targets).max())
        shot = ReplayMeasurement(lap, lap % len(task.problems), arrivals, exits, off)
        replayed[i].shots[choice].append(shot)


def drop_slower_half(r: ReplayedTask) -> None:
    """Drop the slower half of the candidates, except candidates nearly as good as the best."""
    candidates = sorted((c for c in r.remaining if c != NATIVE), key=r.mean_score)
    if len(candidates) < 2:
        return
    best = r.mean_score(candidates[0])
    remaining = candidates[: max(2, len(candidates) // 2)]
    remaining += [c for c in candidates if c not in remaining and r.mean_score(c) <= best * 1.1]
    remaining = [c for c in remaining if r.mean_score(c) <= NEAR_BEST_FACTOR * best]
    r.remaining = [c for c in r.remaining if c == NATIVE or c in remaining]


def _make_outcome(ranks: Ranks, replayed: list[ReplayedTask], laps: int) -> Outcome | None:
    world = ranks.world
    hosts = world.gather(os.uname().nodename)
    error = world.gather(ranks.clock.error_ns)
    if ranks.rank:
        return None
    version = import_mpi().Get_library_version().split("\n")[0]
    return Outcome(replayed, version, sorted(set(hosts)), world.size, max(error), laps)
