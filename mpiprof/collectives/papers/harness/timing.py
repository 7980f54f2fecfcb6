"""Times single collectives: cases in random order, lap after lap, from an agreed time on.

Runs inside MPI with the recorder preloaded, which changes the algorithm from call to call
(`mpiprof_study_choose`). A lap runs every case once, in a random order, so that drift affects all
cases equally. Before each call the ranks agree on a start. The time of an instance is its last exit
minus its last arrival. The first lap is untimed. It connects the ranks, and checks every result.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives.papers.harness.calls import CALL_MAKERS, PreparedCall, check, import_mpi
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.clock import RankClock
from mpiprof.errors import MpiprofError

Int = NDArray[np.int64]
LEAD_NS = 10_000_000
LEAD_RANK_NS = 300_000
PATTERNS = 32  # of lateness; laps cycle through them


@dataclass
class Ranks:
    """Communicators, clock and the recorder's function to choose an algorithm, on this rank."""

    world: Any
    choose: Callable[[str], int]
    clock: RankClock
    communicators: dict[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """Rank of this process in the world."""
        return int(self.world.rank)

    def communicator(self, members: str) -> Any:
        """Return the communicator of a case, or None if this rank is no member."""
        if members not in self.communicators:
            self.communicators[members] = self._make(members)
        return self.communicators[members]

    def _make(self, members: str) -> Any:
        world, null = self.world, import_mpi().COMM_NULL
        if members == "world":
            return world.Dup()
        if members == "permuted":
            order = np.random.default_rng(1).permutation(world.size)
            return world.Split(0, int(order[world.rank]))
        if "+" in members:
            first, second = map(int, members.split("+"))
            if first + second > world.size:
                raise MpiprofError(f"{members} ranks required, but the job has {world.size}")
            side = int(world.rank >= first)
            outside = world.rank >= first + second
            local = world.Split(import_mpi().UNDEFINED if outside else side, world.rank)
            return None if outside else local.Create_intercomm(0, world, (first, 0)[side], 7)
        if members == "ends":
            inside = world.rank in (0, world.size - 1)
        else:
            inside = world.rank < (world.size - 1 if members == "partial" else int(members))
        part = world.Split(0 if inside else import_mpi().UNDEFINED, world.rank)
        return None if part == null else part


def begin_study() -> Ranks:
    """Initialise MPI; raises MpiprofError if the recorder is not preloaded."""
    world = import_mpi().COMM_WORLD
    function = getattr(ctypes.CDLL(None), "mpiprof_study_choose", None)
    if function is None:
        raise MpiprofError("the recorder is not preloaded, so no algorithm can be selected")
    function.argtypes = [ctypes.c_char_p]

    def choose(rule: str) -> int:
        """Set the rule; returns the number of calls on mpiprof's algorithms under the last rule."""
        switched = int(function(rule.encode()))
        if switched < 0:
            raise MpiprofError(f"this MPI library cannot run {rule or 'its own'}")
        return switched

    return Ranks(world, choose, RankClock(world))


# ---- laps


def lead_ns(size: int) -> int:
    """Return how far in the future a start is agreed on, in ns."""
    return LEAD_NS + LEAD_RANK_NS * size


def lateness_ns(case: Case, lap: int, rank: int) -> int:
    """Return how late a rank is in a lap, in ns; equal for all cases with the same MAX_IF."""
    max_factor, unit = case.arrivals
    if max_factor <= 1 or not unit:
        return 0
    drawn = np.random.default_rng((17, lap % PATTERNS, max_factor)).integers(
        0, max_factor, rank + 1
    )
    return int(drawn[rank]) * unit


def agree_start(ranks: Ranks) -> int:
    """Return a future time on the joint clock in ns; collective over all ranks."""
    ranks.world.Barrier()
    proposed = np.array([ranks.clock.now_ns() + lead_ns(ranks.world.size)], np.int64)
    agreed = np.zeros(1, np.int64)
    ranks.world.Allreduce(proposed, agreed, import_mpi().MAX)
    return int(agreed[0])


def run_once(
    ranks: Ranks, case: Case, call: PreparedCall | None, late_ns: int, spin_ns: int = 0
) -> tuple[int, int, int]:
    """Run a case once; returns target arrival, arrival and exit. Spins for the last `spin_ns`."""
    start = agree_start(ranks)
    ranks.choose(case.recorder_rule())  # the same on all ranks
    if call is None:
        ranks.choose("")
        return 0, 0, 0
    target = start + late_ns
    ranks.clock.wait_until(target - spin_ns)
    while (arrival := ranks.clock.now_ns()) < target:
        pass
    call.run()
    exit_ = ranks.clock.now_ns()
    call.switched += ranks.choose("")
    return target, arrival, exit_


def make_call(ranks: Ranks, case: Case) -> PreparedCall | None:
    """Prepare a case on this rank, None if it does not take part; collective over all ranks."""
    comm = ranks.communicator(case.members)
    return None if comm is None else CALL_MAKERS[case.operation](case, comm)


def run_first_lap(ranks: Ranks, cases: Sequence[Case], step: Callable[[], None]) -> list[Case]:
    """Run every case once, untimed, and return the cases that run as chosen."""
    run = np.zeros(len(cases), np.int64)
    for i, case in enumerate(cases):
        call = make_call(ranks, case)
        run_once(ranks, case, call, 0)
        if call is not None:
            check(case, call)
            # The library's routine replaces an algorithm that does not apply.
            run[i] = call.switched > 0 or not case.recorder_rule()
        step()
    everybody = np.zeros_like(run)
    ranks.world.Allreduce(run, everybody, import_mpi().MAX)
    return [case for case, right in zip(cases, everybody, strict=True) if right]


def run_lap(ranks: Ranks, cases: Sequence[Case], lap: int, step: Callable[[], None]) -> Int:
    """Run every case once; returns this rank's arrivals and exits, cases x 2."""
    ranks.clock.synchronise()
    times = np.zeros((len(cases), 2), np.int64)
    # The order differs each time, because a case's remaining traffic affects the next case.
    for i in np.random.default_rng(lap).permutation(len(cases)):
        call = make_call(ranks, cases[i])
        times[i] = run_once(ranks, cases[i], call, lateness_ns(cases[i], lap, ranks.rank))[1:]
        step()
    return times


def measure(
    ranks: Ranks, cases: Sequence[Case], laps: int, step: Callable[[], None]
) -> list[tuple[Case, Int, Int]]:
    """Run all laps; rank 0 returns each case's arrivals and exits, laps x members, others []."""
    own_times = np.stack([run_lap(ranks, cases, lap, step) for lap in range(laps)])
    everybody = gather_times(ranks, own_times)
    if everybody is None:
        return []
    samples = []
    for i, case in enumerate(cases):
        members = everybody[:, 0, i, 0] > 0
        arrivals, exits = np.moveaxis(everybody[members, :, i, :], (2, 1), (0, 1))
        samples.append((case, arrivals, exits))
    return samples


def gather_times(ranks: Ranks, own_times: Int) -> Int | None:
    """Return the times of all ranks, by rank; None on all ranks but 0."""
    shape = (ranks.world.size, *own_times.shape)
    every = np.zeros(shape, np.int64) if ranks.rank == 0 else None
    ranks.world.Gather(own_times, every, 0)
    return every


def first_rank_of_nodes(world: Any) -> list[int]:
    """Return for each rank the first rank of its node; collective over all ranks."""
    node = world.Split_type(import_mpi().COMM_TYPE_SHARED)
    first = int(node.allreduce(world.rank, import_mpi().MIN))
    node.Free()
    return [int(rank) for rank in world.allgather(first)]


def abort_on_error(error: BaseException) -> None:
    """Print the error and end all ranks, because the other ranks would wait for ever."""
    print(f"mpiprof: {error}", file=sys.stderr, flush=True)
    import_mpi().COMM_WORLD.Abort(getattr(error, "exit_code", 1))
