"""Live programs with a planted cause of waiting, and the truth about each: see live_causes.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mpiprof.causes.delay_reasons import BLOCKED, GARBAGE_COLLECTION, MORE_WORK

FOLDER = Path(__file__).parent
COLLECTIVES = FOLDER / "live_collectives.c"
MESSAGES = FOLDER / "live_messages.c"
OBJECTS = FOLDER / "live_objects.py"
START = "the start of the run"
INSIDE = "inside"  # in place of the call after the work: the time is inside the call before
MIXED_SHARE = 0.2  # of the processor time about a half: the reason is either


@dataclass(frozen=True)
class LiveProgram:
    """A program and the truth about its cause.

    late: late ranks. before, after: operation and function of the calls around the late work, with
    alternatives after "|". first, last: first and last late step (None if the run's), within
    `tolerance` steps. period: in steps. at_once: number of ranks that are late at the same time,
    0 if the cost is unknown. reason: None if it follows from the processor time of the delay.
    named: ranks that the sentence must name, all late ones by default. factor: of all work.
    is_alone: whether no other rank makes the calls around the work. So it cannot be limited to
    that of the other ranks.
    """

    source: Path
    name: str
    ranks: int
    late: tuple[int, ...]
    before: str
    after: str
    first: int = 0
    last: int | None = None
    period: int | None = None
    at_once: int = 1
    reason: str | None = None
    named: tuple[int, ...] = ()
    steps: int = 60
    factor: int = 1
    tolerance: int = 2
    is_alone: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {self.ranks} ranks"

    @property
    def has_messages(self) -> bool:
        """Return whether the ranks send messages to each other."""
        return self.source == MESSAGES or self.name == "send_objects"

    @property
    def must_name(self) -> set[int]:
        """Return the ranks that the sentence must name."""
        return set(self.named or self.late)

    @property
    def has_repair(self) -> bool:
        """Return whether the sentence is about a run without the planted delays of this program.

        Otherwise other loads remain, and the sentence may be about these as well.
        """
        return self.must_name == set(self.late)

    @property
    def changes(self) -> list[str]:
        """Return the changes of --what-if that remove the delays, empty if none do.

        The median of the ranks is usual work if fewer than half of them are late.
        """
        is_median_usual = (
            self.has_repair and not self.is_alone and 2 * max(self.at_once, 1) < self.ranks
        )
        return [f"rank {rank} = median" for rank in sorted(self.must_name)] * is_median_usual

    def reasons(self, processor_share: float) -> set[str | None]:
        """Return the right reasons; processor_share: of the delay's time."""
        if self.reason is not None:
            return {self.reason}
        if self.after == INSIDE:  # counters describe the time outside of calls
            return {None}
        right: set[str | None] = {BLOCKED} if processor_share < 0.5 + MIXED_SHARE / 2 else set()
        return right | ({MORE_WORK} if processor_share > 0.5 - MIXED_SHARE / 2 else set())

    def cost_ns(self, planted_ns: float) -> float:
        """Return the waiting that the delays of all late ranks cause; NaN if unknown."""
        at_once = self.at_once or float("nan")
        return planted_ns / at_once * (self.ranks - at_once)


MEET, EXCHANGE = "allreduce meet", "irecv start_exchange"
COMPLETE = "waitall exchange"
RECEIVE, SEND = "recv receive_from", "send send_to"

PROGRAMS = (
    # Without messages
    LiveProgram(COLLECTIVES, "plain", 4, (2,), MEET, MEET),
    LiveProgram(COLLECTIVES, "plain", 32, (2,), MEET, MEET, factor=3, steps=40),
    LiveProgram(COLLECTIVES, "compute", 2, (1,), MEET, MEET, reason=MORE_WORK),
    LiveProgram(COLLECTIVES, "memory", 2, (1,), MEET, MEET, reason=MORE_WORK, tolerance=8),
    LiveProgram(
        *(COLLECTIVES, "checkpoint", 4, (0,), MEET, "barrier step_checkpoint"), first=9, period=10
    ),
    LiveProgram(
        *(COLLECTIVES, "file_reader", 4, (3,)),
        before="alltoall step_file_reader",
        after="alltoall step_file_reader",
    ),
    LiveProgram(COLLECTIVES, "late_start", 8, (5,), START, MEET, last=0),
    LiveProgram(COLLECTIVES, "from_middle", 4, (1,), MEET, MEET, first=30),
    LiveProgram(COLLECTIVES, "until_middle", 8, (3,), MEET, MEET, last=23),
    LiveProgram(
        *(COLLECTIVES, "bcast_root", 8, (0,), "barrier step_bcast_root", "bcast step_bcast_root")
    ),
    LiveProgram(
        *(COLLECTIVES, "serial_root", 8, (0,), "reduce step_serial_root", "bcast step_serial_root")
    ),
    LiveProgram(
        *(COLLECTIVES, "uneven_gather", 4, (3,)),
        before="barrier step_uneven_gather",
        after="gatherv step_uneven_gather",
    ),
    LiveProgram(COLLECTIVES, "front", 8, tuple(range(8)), MEET, MEET, steps=64),
    LiveProgram(
        *(COLLECTIVES, "two_causes", 8, (2, 6), "barrier step_two_causes", MEET), named=(2,)
    ),
    LiveProgram(
        *(COLLECTIVES, "slow_row", 8, (4, 5, 6, 7)),
        before="allreduce step_slow_row",
        after="allreduce step_slow_row",
        at_once=4,
    ),
    LiveProgram(
        *(COLLECTIVES, "late_wait", 4, (1,), "iallreduce step_late_wait", "wait step_late_wait"),
        at_once=0,  # time in Wait for the progress of another rank is no wait state
    ),
    LiveProgram(COLLECTIVES, "lock", 4, (2,), "put step_lock", INSIDE, is_alone=True),
    LiveProgram(*(COLLECTIVES, "fence", 4, (2,), "win_fence step_fence", "win_fence step_fence")),
    LiveProgram(COLLECTIVES, "threads", 4, (2,), MEET, MEET),
    LiveProgram(*(COLLECTIVES, "gradient", 8, tuple(range(8)), MEET, MEET), at_once=0, named=(7,)),
    LiveProgram(COLLECTIVES, "hiccup", 4, (2,), MEET, MEET, first=17, last=17, tolerance=0),
    LiveProgram(COLLECTIVES, "half", 8, (1, 3, 5, 7), MEET, MEET, at_once=4),
    LiveProgram(
        *(OBJECTS, "bcast_objects", 4, (0,), "barrier bcast_objects", "bcast bcast_objects")
    ),
    LiveProgram(
        *(OBJECTS, "reduce_objects", 4, (0,), "recv reduce_objects", "scatter reduce_objects"),
        is_alone=True,
    ),
    LiveProgram(
        *(OBJECTS, "collect_garbage", 2, (1,)),
        before="recv collect_garbage|bcast collect_garbage",
        after="send collect_garbage|recv collect_garbage",
        reason=GARBAGE_COLLECTION,
    ),
    # With messages
    LiveProgram(MESSAGES, "halo", 2, (1,), MEET, EXCHANGE),
    LiveProgram(MESSAGES, "halo", 8, (3,), MEET, EXCHANGE),
    LiveProgram(MESSAGES, "halo", 32, (3,), MEET, EXCHANGE, factor=3, steps=30),
    LiveProgram(MESSAGES, "halo", 64, (3,), MEET, EXCHANGE, factor=8, steps=20),
    LiveProgram(MESSAGES, "halo_alone", 8, (3,), COMPLETE, EXCHANGE),
    LiveProgram(MESSAGES, "halo_compute", 2, (1,), MEET, EXCHANGE, reason=MORE_WORK),
    LiveProgram(MESSAGES, "halo_growing", 8, (6,), MEET, EXCHANGE, first=30, tolerance=8),
    LiveProgram(MESSAGES, "halo_periodic", 8, (6,), MEET, EXCHANGE, first=2, period=7),
    LiveProgram(MESSAGES, "halo_front", 4, tuple(range(4)), MEET, EXCHANGE, steps=80),
    LiveProgram(
        *(MESSAGES, "halo_hiccup", 8, (4,), MEET, EXCHANGE), first=21, last=21, tolerance=0
    ),
    LiveProgram(MESSAGES, "halo_node", 16, (4, 5, 6, 7), MEET, EXCHANGE, at_once=4, factor=2),
    LiveProgram(MESSAGES, "halo_two", 8, (1, 5), MEET, EXCHANGE, named=(1,), at_once=0),
    LiveProgram(MESSAGES, "overlap", 8, (5,), "isend start_exchange", "waitall step_overlap"),
    LiveProgram(
        *(MESSAGES, "grid", 16, (5,), "waitall step_grid|allreduce meet", "irecv step_grid"),
        factor=2,
    ),
    LiveProgram(MESSAGES, "pipeline", 6, (3,), RECEIVE, SEND),
    LiveProgram(MESSAGES, "workers", 8, (3,), RECEIVE, SEND),
    LiveProgram(MESSAGES, "any_source", 8, (2,), RECEIVE, SEND),
    LiveProgram(
        *(MESSAGES, "slow_master", 8, (0,), "recv step_slow_master", "send step_slow_master"),
        is_alone=True,
    ),
    LiveProgram(MESSAGES, "sweep", 9, (4,), RECEIVE, SEND, at_once=0),
    LiveProgram(MESSAGES, "rendezvous", 8, (5,), MEET, "recv step_rendezvous"),
    LiveProgram(MESSAGES, "waitany", 4, (2,), MEET, EXCHANGE),
    LiveProgram(MESSAGES, "testsome", 8, (2,), MEET, EXCHANGE),
    LiveProgram(
        *(MESSAGES, "neighbours", 8, (4,)),
        before="neighbor_alltoall step_neighbours",
        after="neighbor_alltoall step_neighbours",
    ),
    LiveProgram(MESSAGES, "persistent", 8, (1,), MEET, "startall step_persistent"),
    LiveProgram(
        *(MESSAGES, "partitioned", 4, (2,), "startall step_partitioned", "pready step_partitioned")
    ),
    LiveProgram(MESSAGES, "sendrecv", 8, (5,), MEET, "sendrecv step_sendrecv", first=32),
    LiveProgram(
        *(MESSAGES, "own_loads", 16, tuple(range(16)), MEET, EXCHANGE),
        named=(10,),
        at_once=0,
        factor=2,
    ),
    LiveProgram(
        *(OBJECTS, "send_objects", 4, (2,)),
        before="recv send_objects|bcast send_objects",
        after="isend <listcomp>|isend send_objects",
    ),
)
