"""Recorded arrival patterns imposed on the ranks of a job, and each candidate measured under them.

Runs inside MPI with our library preloaded, as the studies do (timing.py). A lap takes one pattern
of each task and runs all that is still in question for it, in an order of its own, so that drift
hits all alike. After some laps the slower half of a task's candidates is left out; what runs
without a plan always stays. Instances whose ranks did not come as they should, to within NEAR_NS,
do not count, unless too few are left.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.analysis.score import score
from mpiprof.analysis.waits import Group
from mpiprof.bench.harness.calls import CALLS, Call, check, mpi4py
from mpiprof.bench.harness.case import Case
from mpiprof.bench.harness.timing import Ranks, agreed_start
from mpiprof.errors import MpiprofError
from mpiprof.model.schedule import Problem
from mpiprof.progress import Progress

Int = NDArray[np.int64]
NATIVE = "native"
NEAR_NS = 50_000
LEAST_LAPS = 4  # that must fit for a task to be taken
MOST_LAPS = 40
HALVE_AFTER = (4, 8, 16)  # laps
FACTOR = 1.5  # as good as that of the best's score stays in any case
PR_SET_TIMERSLACK = 29
SPIN_NS = 100_000


@dataclass(frozen=True)
class Task:
    """What to replay: one operation's problems with their arrivals (ns by member), in patterns.

    ranks: world ranks of the members; of two groups the first and the others of the world.
    choices: as `run --switch` reads them, `native` first.
    """

    operation: str
    choices: tuple[str, ...]
    problems: tuple[Problem, ...]
    arrivals: tuple[Int, ...]
    ranks: tuple[int, ...]

    @property
    def members(self) -> str:
        """The name of its communicator among the ranks' own."""
        p = self.problems[0]
        if p.remote_size:
            return f"{p.size}+{p.remote_size}"
        return "ranks " + ",".join(map(str, self.ranks))

    def score(self, shot: Shot) -> float:
        """Return the score of one instance, in ns."""
        p = self.problems[shot.pattern]
        group = Group.of(p.size, p.remote_size, p.root)
        return float(score(self.operation, shot.arrivals, shot.exits, group))


@dataclass(frozen=True)
class Shot:
    """One instance that was run: which pattern, arrivals and exits (joint clock), by member.

    error_ns: how far the arrivals were off at most, after the instance's mean shift.
    """

    lap: int
    pattern: int
    arrivals: Int
    exits: Int
    error_ns: int


@dataclass
class Replayed:
    """What was measured of a task; `applies`: the choices that ran as they should."""

    task: Task
    shots: dict[str, list[Shot]] = field(default_factory=dict)
    alive: list[str] = field(default_factory=list)
    cost_s: float = 0.0

    def score(self, choice: str) -> float:
        """Return a choice's mean score, in ns."""
        found = [self.task.score(shot) for shot in self.shots.get(choice, [])]
        return float(np.mean(found)) if found else float("inf")


@dataclass(frozen=True)
class Outcome:
    """Everything that was measured, and where: for each task its shots by choice."""

    replayed: list[Replayed]
    mpi: str
    hosts: list[str]
    ranks: int
    clock_error_ns: int
    laps: int

    def errors(self) -> Int:
        """Return how far each instance's arrivals were off, ns."""
        every = [s.error_ns for r in self.replayed for shots in r.shots.values() for s in shots]
        return np.array(every, np.int64)


# ---- on each rank


def prepare(ranks: Ranks, tasks: Sequence[Task]) -> None:
    """Make the communicators of all tasks, and let sleeping ranks wake up in time."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    undefined = mpi4py().UNDEFINED
    for task in tasks:
        if task.problems[0].remote_size:
            ranks.communicator(task.members)
        elif task.members not in ranks.made:
            inside = ranks.rank in task.ranks
            key = task.ranks.index(ranks.rank) if inside else 0
            made = ranks.world.Split(0 if inside else undefined, key)
            ranks.made[task.members] = made if inside else None


def spins(world: Any) -> int:
    """Return how long before its time a rank stops sleeping: only where each has a processor."""
    beside = world.Split_type(mpi4py().COMM_TYPE_SHARED)
    crowded = int(world.allreduce(int(beside.size > len(os.sched_getaffinity(0))), mpi4py().MAX))
    beside.Free()
    return 0 if crowded else SPIN_NS


def once(
    ranks: Ranks, case: Case, call: Call | None, late_ns: int, spin_ns: int
) -> tuple[int, int, int]:
    """Run one case once: when this rank should arrive, when it did, and its exit; 0 without."""
    start = agreed_start(ranks)
    ranks.choose(case.rule())  # on all ranks alike
    if call is None:
        ranks.choose("")
        return 0, 0, 0
    wanted = start + late_ns
    ranks.clock.wait_until(wanted - spin_ns)
    while (arrival := ranks.clock.now()) < wanted:
        pass
    call.run()
    exit_ = ranks.clock.now()
    call.switched += ranks.choose("")
    return wanted, arrival, exit_


def run_one(ranks: Ranks, task: Task, choice: str, pattern: int, spin_ns: int) -> Int:
    """Run a choice under a pattern; returns this rank's wanted arrival, arrival and exit."""
    case = Case({}, task.operation, choice, task.problems[pattern], task.members)
    comm = ranks.communicator(task.members)
    call = None if comm is None else CALLS[task.operation](case, comm)
    late = int(task.arrivals[pattern][place(ranks, task)]) if call is not None else 0
    return np.array(once(ranks, case, call, late, spin_ns), np.int64)


def place(ranks: Ranks, task: Task) -> int:
    """Return this rank's place among the members."""
    return ranks.rank if task.problems[0].remote_size else task.ranks.index(ranks.rank)


def first_lap(ranks: Ranks, tasks: Sequence[Task]) -> list[Replayed]:
    """Run everything once, untimed; what does not run as it should is left out, on all ranks."""
    found = []
    for task in tasks:
        began = time.monotonic()
        right = np.zeros(len(task.choices), np.int64)
        for i, choice in enumerate(task.choices):
            case = Case({}, task.operation, choice, task.problems[0], task.members)
            comm = ranks.communicator(task.members)
            call = None if comm is None else CALLS[task.operation](case, comm)
            once(ranks, case, call, 0, 0)
            if call is not None:
                check(case, call)
                right[i] = call.switched > 0 or choice == NATIVE
        everybody = np.zeros_like(right)
        ranks.world.Allreduce(right, everybody, mpi4py().MAX)
        alive = [c for c, ok in zip(task.choices, everybody.tolist(), strict=True) if ok]
        late = max(float(a.max()) for a in task.arrivals) / 1e9
        cost = (time.monotonic() - began) / len(task.choices) + late
        found.append(Replayed(task, {c: [] for c in alive}, alive, cost))
    return found


def replay(ranks: Ranks, tasks: Sequence[Task], budget_s: float) -> Outcome | None:
    """Measure within a budget, all ranks together; rank 0 returns what was found.

    Raises MpiprofError for a budget in which nothing can be measured.
    """
    end = time.monotonic() + budget_s
    prepare(ranks, tasks)
    ranks.clock.synchronise()
    spin_ns = spins(ranks.world)
    replayed = first_lap(ranks, tasks)
    left = ranks.world.bcast(_fitting(replayed, end - time.monotonic()))
    if not left:
        raise MpiprofError(f"nothing can be replayed in {budget_s:.0f} s: give more --budget")
    progress = Progress(MOST_LAPS * sum(len(replayed[i].alive) for i in left), ranks.rank == 0)
    lap = 0
    while True:
        todo = [(i, choice) for i in left for choice in replayed[i].alive]
        _lap(ranks, replayed, todo, lap, spin_ns, progress)
        lap += 1
        ranks.clock.synchronise()
        if ranks.rank == 0 and lap in HALVE_AFTER:
            for i in left:
                halve(replayed[i])
        alive = ranks.world.bcast([r.alive for r in replayed])
        for r, names in zip(replayed, alive, strict=True):
            r.alive = names
        per_lap = sum(replayed[i].cost_s * len(replayed[i].alive) for i in left)
        progress.steps = progress.done + (MOST_LAPS - lap) * sum(
            len(replayed[i].alive) for i in left
        )
        more = lap < MOST_LAPS and time.monotonic() + per_lap < end
        if not ranks.world.bcast(more):
            break
    return _outcome(ranks, replayed, lap)


def _fitting(replayed: Sequence[Replayed], left_s: float) -> list[int]:
    """Return the first tasks of which LEAST_LAPS fit into a time."""
    found = []
    for i, r in enumerate(replayed):
        left_s -= LEAST_LAPS * r.cost_s * len(r.alive)
        if left_s < 0:
            break
        if len(r.alive) > 1:
            found.append(i)
    return found


def _lap(
    ranks: Ranks,
    replayed: Sequence[Replayed],
    todo: Sequence[tuple[int, str]],
    lap: int,
    spin_ns: int,
    progress: Progress,
) -> None:
    own = np.zeros((len(todo), 3), np.int64)
    for k in np.random.default_rng(lap).permutation(len(todo)).tolist():
        i, choice = todo[k]
        task = replayed[i].task
        own[k] = run_one(ranks, task, choice, lap % len(task.problems), spin_ns)
        progress.step()
    every = np.zeros((ranks.world.size, *own.shape), np.int64) if ranks.rank == 0 else None
    ranks.world.Gather(own, every, 0)
    if every is None:
        return
    for k, (i, choice) in enumerate(todo):
        task = replayed[i].task
        groups = task.problems[0].size + task.problems[0].remote_size
        members = list(task.ranks) if not task.problems[0].remote_size else list(range(groups))
        wanted, arrivals, exits = every[members, k, :].T
        off = int(np.abs(arrivals - wanted).max())
        shot = Shot(lap, lap % len(task.problems), arrivals, exits, off)
        replayed[i].shots[choice].append(shot)


def halve(r: Replayed) -> None:
    """Leave out the slower half of the candidates, but none that is nearly as good as the best."""
    others = sorted((c for c in r.alive if c != NATIVE), key=r.score)
    if len(others) < 2:
        return
    best = r.score(others[0])
    kept = others[: max(2, len(others) // 2)]
    kept += [c for c in others if c not in kept and r.score(c) <= best * 1.1]
    kept = [c for c in kept if r.score(c) <= FACTOR * best]
    r.alive = [c for c in r.alive if c == NATIVE or c in kept]


def _outcome(ranks: Ranks, replayed: list[Replayed], laps: int) -> Outcome | None:
    world = ranks.world
    hosts = world.gather(os.uname().nodename)
    error = world.gather(ranks.clock.error_ns)
    if ranks.rank:
        return None
    version = mpi4py().Get_library_version().split("\n")[0]
    return Outcome(replayed, version, sorted(set(hosts)), world.size, max(error), laps)
