"""Expected results of virtual_clock_delays.c: a plan, and the clocks that it moves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

BASE_NS = 10**13
COST_NS, STAGGER_NS, CALL_NS = 700, 13, 50  # as in virtual_clock.c
COUNT, INT_BYTES, STEP_NS = 3, 4, 10_000  # as in virtual_clock_delays.c
LEAST_NS = 1000  # of a wait for the progress of another rank
# Dependence of each operation, by the name of its wait state.
ALL, FROM_ROOT, TO_ROOT = "nxn", "late_root", "early_root"
PREFIX, SOURCES = "early_scan", "neighbor"
OPERATIONS = {
    "allgather": ALL,
    "allgatherv": ALL,
    "allreduce": ALL,
    "alltoall": ALL,
    "alltoallv": ALL,
    "alltoallw": ALL,
    "barrier": ALL,
    "bcast": FROM_ROOT,
    "exscan": PREFIX,
    "gather": TO_ROOT,
    "gatherv": TO_ROOT,
    "reduce": TO_ROOT,
    "reduce_scatter": ALL,
    "reduce_scatter_block": ALL,
    "scan": PREFIX,
    "scatter": FROM_ROOT,
    "scatterv": FROM_ROOT,
    "neighbor_allgather": SOURCES,
    "neighbor_allgatherv": SOURCES,
    "neighbor_alltoall": SOURCES,
    "neighbor_alltoallv": SOURCES,
    "neighbor_alltoallw": SOURCES,
}
STATES = ("barrier", "nxn", "late_root", "early_root", "early_scan", "neighbor")


@dataclass(frozen=True)
class Line:
    """A line of the plan (see virtual_clock_delays.c)."""

    operation: str
    form: str
    communicator: str
    root: int
    before: list[int]
    between: list[int]

    def text(self) -> str:
        """Return the line in the format of virtual_clock_delays.c."""
        words = [self.operation, self.form, self.communicator, self.root]
        return " ".join(map(str, [*words, *self.before, *self.between]))


@dataclass(frozen=True)
class Instance:
    """Expected values of an instance; vectors are by world rank."""

    operation: str
    started: bool
    communicator: str
    kind: str
    arrival: list[int]
    begin: list[int]
    finish: list[int]
    elapsed: list[int]
    causes: list[list[int]]  # for each rank, the ranks that it waits for
    message: float

    @property
    def worst(self) -> int:
        """Worst-case imbalance: last arrival minus first arrival."""
        return max(self.arrival) - min(self.arrival)

    @property
    def average(self) -> float:
        """Average-case imbalance: mean distance from the mean arrival."""
        mean = sum(self.arrival) / len(self.arrival)
        return sum(abs(a - mean) for a in self.arrival) / len(self.arrival)

    @property
    def last_rank(self) -> int:
        """The rank that arrived last."""
        return self.arrival.index(max(self.arrival))

    @property
    def wait(self) -> int:
        """Time in the call before the last awaited rank arrived, over all ranks.

        In a nonblocking operation, a rank that leaves its Wait soon after another one has entered
        it, within a tenth of the time before, has waited for that, too.
        """
        total = 0
        for rank, causes in enumerate(self.causes):
            begin, finish = self.begin[rank], self.finish[rank]
            cause = max((self.arrival[c] for c in causes), default=0)
            total += max(0, min(cause, finish) - begin)
            longer = max(entered for entered in self.begin if entered <= finish) - max(begin, cause)
            last = longer + max(begin, cause)
            if self.kind and self.begin != self.arrival and longer > LEAST_NS:
                total += longer if finish - last <= longer / 10 else 0
        return total

    @property
    def skew(self) -> int:
        """Time in the call after the first rank had left, over all ranks."""
        first = min(self.finish)
        both = zip(self.begin, self.finish, strict=True)
        return sum(max(0, finish - max(first, begin)) for begin, finish in both)


# ---- the plan


def patterns(ranks: int, seed: int) -> Iterator[list[int]]:
    """Yield delays: one late rank, each rank later than the previous one, and random delays."""
    late = [0] * ranks
    late[seed % ranks] = 100_000
    yield late
    yield [(7 + 10_000 * rank) for rank in range(ranks)]
    generator = random.Random(seed)
    yield [generator.randrange(200_000) for _ in range(ranks)]


def communicators(operation: str, ranks: int) -> str:
    """Return the communicators on which an operation is run."""
    if OPERATIONS[operation] == SOURCES:
        return "g"
    # Both groups of an inter-communicator must scatter equal vectors.
    uneven = operation.startswith("reduce_scatter") and ranks % 2 == 1
    return "wr" if OPERATIONS[operation] == PREFIX or uneven else "wri"


def make_plan(ranks: int) -> list[Line]:
    """Return the lines of a run."""
    lines: list[Line] = []
    for operation in OPERATIONS:
        for communicator in communicators(operation, ranks):
            for form in "bntp":
                for before in patterns(ranks, len(lines)):
                    generator = random.Random(-len(lines))
                    between = [generator.randrange(60_000) for _ in range(ranks)]
                    members = ranks // 2 if communicator == "i" else ranks
                    root = len(lines) % members
                    if form == "b":
                        between = [0] * ranks
                    lines.append(Line(operation, form, communicator, root, before, between))
    steps = [5 * rank for rank in range(ranks)]
    return lines + [
        Line("pair", form, "w", 1, before, steps) for form in "np" for before in patterns(ranks, 1)
    ]


# ---- expected results


def row(communicator: str, ranks: int) -> list[int]:
    """Return world ranks in the order of the communicator (of both groups of `i`)."""
    if communicator == "r":
        return list(reversed(range(ranks)))
    if communicator == "i":
        return [*range(0, ranks, 2), *range(1, ranks, 2)]
    return list(range(ranks))


def causes_of(rank: int, kind: str, communicator: str, root: int, ranks: int) -> list[int]:
    """Return the world ranks for which a rank waits."""
    order = row(communicator, ranks)
    root_rank = order[root]
    others = [r for r in order if r != rank]
    if communicator == "i":
        others = [r for r in order if r % 2 != rank % 2]
    if kind == FROM_ROOT:
        return [r for r in others if r == root_rank]
    if kind == TO_ROOT:
        return others if rank == root_rank else []
    if kind == PREFIX:
        return order[: order.index(rank)]
    if kind == SOURCES:
        return sorted({(rank + 1) % ranks} | ({(rank + 2) % ranks} if rank % 2 == 0 else set()))
    return others


def pairs_of(communicator: str, ranks: int) -> list[tuple[int, int]]:
    """Return (sender, receiver) pairs of an all-to-all, as ranks of their groups."""
    if communicator == "i":
        return [(i, j) for i in range((ranks + 1) // 2) for j in range(ranks // 2)]
    if communicator == "g":
        return [(i, j) for i in range(ranks) for j in causes_of(i, SOURCES, "g", 0, ranks)]
    return [(i, j) for i in range(ranks) for j in range(ranks)]


def message_of(operation: str, communicator: str, ranks: int) -> float:
    """Return the bytes of the message for T; in a v-form the average over the messages."""
    sizes = [(ranks + 1) // 2, ranks // 2] if communicator == "i" else [ranks]
    if operation.endswith(("alltoallv", "alltoallw")):
        elements = [1 + (i + j) % 2 for i, j in pairs_of(communicator, ranks)]
    elif operation.endswith("allgatherv"):
        elements = [r + 1 for size in sizes for r in range(size)]
    elif operation in ("gatherv", "scatterv"):  # between the root, an even rank, and the others
        elements = [r + 1 for r in range(sizes[-1])]
    elif operation == "reduce_scatter":
        elements = [sum(r + 1 for r in range(sizes[0]))]
    elif operation == "reduce_scatter_block":
        elements = [COUNT * sizes[0]]
    else:
        elements = [0 if operation == "barrier" else COUNT]
    return INT_BYTES * sum(elements) / len(elements)


class Simulation:
    """The virtual clocks of a run, moved by the same rules as in the shim."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.clock = [BASE_NS] * ranks
        self.found: list[Instance] = []

    def align(self) -> None:
        """Set all clocks to the latest."""
        self.clock = [max(self.clock)] * self.ranks

    def advance(self, delays: list[int]) -> list[int]:
        """Move each clock; returns the times before."""
        before = self.clock
        self.clock = [t + delay for t, delay in zip(before, delays, strict=True)]
        return before

    def call(self) -> list[int]:
        """Pass through a call that only starts an operation; returns the entry times."""
        return self.advance([CALL_NS] * self.ranks)

    def instance(self, line: Line, operation: str, arrival: list[int]) -> Instance:
        """Compute an instance from its arrivals; the clocks are at the entry of the Wait."""
        kind = OPERATIONS[operation]
        causes = [
            causes_of(r, kind, line.communicator, line.root, self.ranks) for r in range(self.ranks)
        ]
        done = [
            max(arrival[r], *(arrival[c] for c in causes[r]), 0) + COST_NS + STAGGER_NS * r
            for r in range(self.ranks)
        ]
        begin = self.clock
        if line.form == "t":  # the first Test after completion takes no time
            polls = [max(0, -(-(d - b) // STEP_NS)) for b, d in zip(begin, done, strict=True)]
            begin = [b + n * STEP_NS for b, n in zip(begin, polls, strict=True)]
        finish = [max(b, d) for b, d in zip(begin, done, strict=True)]
        call_ns = 0 if line.form == "b" else CALL_NS
        return Instance(
            {"b": operation, "p": f"{operation}_init"}.get(line.form, f"i{operation}"),
            line.form == "p",
            line.communicator,
            kind,
            arrival,
            begin,
            finish,
            [f - b + call_ns for b, f in zip(begin, finish, strict=True)],
            causes,
            message_of(operation, line.communicator, self.ranks),
        )

    def initialise(self, line: Line, operation: str) -> None:
        """Initialise a persistent operation, in a call that waits for no rank."""
        model = self.instance(line, operation, self.clock)
        entered = self.call()
        calls = [CALL_NS] * self.ranks
        nobody: list[list[int]] = [[] for _ in calls]
        self.found.append(
            replace(model, started=False, kind="", finish=self.clock, elapsed=calls, causes=nobody)
        )
        assert model.arrival == entered

    def run(self, line: Line) -> None:
        """Move the clocks through a line of the plan."""
        self.align()
        if line.operation == "pair":
            self.run_pair(line)
            return
        if line.form == "p":
            self.initialise(line, line.operation)
        for start in range(2 if line.form == "p" else 1):
            self.align()
            self.advance(line.before[start:] + line.before[:start])
            arrival = self.clock if line.form == "b" else self.call()
            self.advance(line.between[start:] + line.between[:start])
            self.found.append(self.instance(line, line.operation, arrival))
            self.clock = self.found[-1].finish

    def run_pair(self, line: Line) -> None:
        """Run an allreduce and a bcast that one Waitall completes; each has half of its time."""
        if line.form == "p":
            self.initialise(line, "allreduce")
            self.initialise(line, "bcast")
            self.advance(line.before)
            first = second = self.call()
            self.advance(line.between)
        else:
            self.advance(line.before)
            first = self.call()
            self.advance(line.between)
            second = self.call()
        both = [self.instance(line, "allreduce", first), self.instance(line, "bcast", second)]
        end = [max(times) for times in zip(*(i.finish for i in both), strict=True)]
        half = [(f - b) // 2 for b, f in zip(self.clock, end, strict=True)]
        begin = [f - h for f, h in zip(end, half, strict=True)]
        elapsed = [h + CALL_NS for h in half]
        self.found += [replace(i, begin=begin, finish=end, elapsed=elapsed) for i in both]
        self.clock = end
        if line.form == "p":  # by sequence number, which a start inherits from its init
            made, others = self.found[-4:-2], self.found[-2:]
            self.found[-4:] = [made[0], others[0], made[1], others[1]]
