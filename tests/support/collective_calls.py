"""One call of every collective in each form: its arguments, its result, and the bytes it moves.

There are two ranks. The expected receive buffer of each call is computed here from the standard's
definitions. `S` of rank r is 100 r, 100 r + 1, ...; `R` is -1 everywhere or, with MPI_IN_PLACE,
equal to `S`. call_programs.py writes the programs that make these calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mpiprof.core.generator.collectives import (
    COLLECTIVES,
    Function,
    Parameter,
    collective_functions,
    functions,
)

ROOM = 8
ROOT_RANK = 1
ANY = -999999  # undefined by the standard
S = [[100 * rank + i for i in range(ROOM)] for rank in (0, 1)]
SUM = [a + b for a, b in zip(*S, strict=True)]

# Arguments, as expressions of `rank` that are valid in C, Fortran and Python.
Value = str | list[str]
_W: dict[str, Value] = {
    "sendcounts": ["rank + 1", "rank + 2"],
    "recvcounts": ["rank + 1", "rank + 2"],
}
_V: dict[str, Value] = _W | {"sdispls": ["0", "3"], "rdispls": ["0", "4"]}
VALUES: dict[str, dict[str, Value]] = {
    "allgather": {"sendcount": "3", "recvcount": "3"},
    "allgatherv": {"sendcount": "rank + 1", "recvcounts": ["1", "2"], "displs": ["0", "2"]},
    "allreduce": {"count": "3"},
    "alltoall": {"sendcount": "2", "recvcount": "2"},
    "alltoallv": _V,
    "alltoallw": _W | {"sdispls": ["0", "12"], "rdispls": ["0", "16"]},
    "barrier": {},
    "bcast": {"count": "3"},
    "exscan": {"count": "3"},
    "gather": {"sendcount": "3", "recvcount": "3"},
    "gatherv": {"sendcount": "rank + 1", "recvcounts": ["1", "2"], "displs": ["0", "2"]},
    "reduce": {"count": "3"},
    "reduce_scatter": {"recvcounts": ["1", "2"]},
    "reduce_scatter_block": {"recvcount": "2"},
    "scan": {"count": "3"},
    "scatter": {"sendcount": "2", "recvcount": "2"},
    "scatterv": {"sendcounts": ["1", "2"], "displs": ["0", "2"], "recvcount": "rank + 1"},
}
# On a graph with both ranks as neighbours, these are equal to the plain operations.
VALUES |= {f"neighbor_{name}": VALUES[name] for name in ("allgather", "allgatherv", "alltoall")}
VALUES |= {f"neighbor_{name}": VALUES[name] for name in ("alltoallv", "alltoallw")}

ROOTED = ("bcast", "gather", "gatherv", "reduce", "scatter", "scatterv")
IN_PLACE = tuple(o for o in COLLECTIVES if o not in ("barrier", "bcast") and o[:3] != "nei")
AT_ROOT_ONLY = ("gather", "gatherv", "reduce", "scatter", "scatterv")


def written(operation: str, rank: int, in_place: bool) -> dict[int, list[int]]:
    """Return the data that an operation writes at a rank: index in R -> values."""
    plain = operation.removeprefix("neighbor_")
    root = rank == ROOT_RANK
    # In place, the contribution of rank r is at its position in the result.
    at = (lambda place: place) if in_place else (lambda _: 0)
    if plain in ("allgather", "gather"):
        contributions = {0: S[0][:3], 3: S[1][at(3) : at(3) + 3]}
        return contributions if root or plain == "allgather" else {}
    if plain in ("allgatherv", "gatherv"):
        contributions = {0: S[0][:1], 2: S[1][at(2) : at(2) + 2]}
        return contributions if root or plain == "allgatherv" else {}
    if plain == "alltoall":
        return {2 * j: S[j][2 * rank : 2 * rank + 2] for j in (0, 1)}
    if plain in ("alltoallv", "alltoallw"):
        start = (4 if in_place else 3) * rank
        return {4 * j: S[j][start : start + rank + j + 1] for j in (0, 1)}
    return {
        "allreduce": {0: SUM[:3]},
        "barrier": {},
        "bcast": {0: S[ROOT_RANK][:3]},
        "exscan": {0: S[0][:3] if rank == 1 else [ANY] * 3},
        "reduce": {0: SUM[:3]} if root else {},
        "reduce_scatter": {0: SUM[:1] + [ANY] * 2 if rank == 0 else [*SUM[1:3], ANY]},
        "reduce_scatter_block": {0: SUM[2 * rank : 2 * rank + 2] + [ANY] * 2},
        "scan": {0: S[0][:3] if rank == 0 else SUM[:3]},
        "scatter": {} if in_place and root else {0: S[1][2 * rank : 2 * rank + 2]},
        "scatterv": {} if in_place and root else {0: S[1][2 * rank : 3 * rank + 1]},
    }[plain]


def bytes_of(operation: str, rank: int) -> tuple[int, int]:
    """Return the bytes that a rank sends and receives; the same in place."""
    root = rank == ROOT_RANK
    share = 4 * (rank + 1)
    both = 4 * (rank + 1 + rank + 2)
    return {
        "allgather": (12, 24),
        "allgatherv": (share, 12),
        "allreduce": (12, 12),
        "alltoall": (16, 16),
        "alltoallv": (both, both),
        "alltoallw": (both, both),
        "barrier": (0, 0),
        "bcast": (12, 0) if root else (0, 12),
        "exscan": (12, 12 * rank),
        "gather": (12, 24 * root),
        "gatherv": (share, 12 * root),
        "reduce": (12, 12 * root),
        "reduce_scatter": (12, share),
        "reduce_scatter_block": (16, 8),
        "scan": (12, 12),
        "scatter": (16 * root, 8),
        "scatterv": (12 * root, share),
    }[operation.removeprefix("neighbor_")]


@dataclass(frozen=True)
class Case:
    """One call: its number, the function, and whether it is in place."""

    number: int
    function: Function
    in_place: bool

    @property
    def operation(self) -> str:
        """The operation name in a record."""
        base, form = self.function.operation, self.function.form
        return {"nonblocking": f"i{base}", "persistent": f"{base}_init"}.get(form, base)

    @property
    def communicator(self) -> str:
        """The variable of the program's communicator for the call."""
        return "graph" if self.function.operation.startswith("neighbor") else "work"

    def in_place_at(self, rank: int) -> bool:
        """Return True if this rank passes MPI_IN_PLACE."""
        rooted = self.function.operation in AT_ROOT_ONLY
        return self.in_place and (rank == ROOT_RANK or not rooted)

    def result(self, rank: int) -> list[int]:
        """Return the expected content of R."""
        base = self.function.operation
        started = self.in_place or (base == "bcast" and rank == ROOT_RANK)
        values = list(S[rank]) if started else [-1] * ROOM
        for place, new in written(base, rank, self.in_place).items():
            values[place : place + len(new)] = new
        return values

    def flags(self, rank: int) -> frozenset[str]:
        """Return the expected flags of the record."""
        form = {self.function.form} - {"blocking"}
        return frozenset(form | ({"in_place"} if self.in_place_at(rank) else set()))

    def root(self) -> int | None:
        """Return the expected root of the record."""
        return ROOT_RANK if self.function.operation in ROOTED else None

    def value(self, parameter: Parameter) -> Value:
        """Return the expression of a count, counts or displacements."""
        return VALUES[self.function.operation][parameter.name]

    @property
    def starts_in(self) -> int:
        """Return the initial content of R: 1 as S, 2 as S at the root, 0 as no data."""
        return 1 if self.in_place else 2 if self.function.operation == "bcast" else 0


def cases(level: str, *, without: Callable[[Function], bool] = lambda _: False) -> list[Case]:
    """Return every call of a level, also in place if MPI allows it."""
    known = {f.name for f in functions(level)}
    chosen = [f for f in collective_functions() if f.name in known and not without(f)]
    pairs = [(f, p) for f in chosen for p in (False, True) if not p or f.operation in IN_PLACE]
    return [Case(i, f, p) for i, (f, p) in enumerate(pairs)]


def marked_lines(source: str) -> dict[int, set[int]]:
    """Return the source lines of each call, by the call's number."""
    lines_by_mark: dict[int, set[int]] = {}
    for number, line in enumerate(source.splitlines(), 1):
        if "@" in line and (words := line.split("@"))[-2].isdigit():
            lines_by_mark.setdefault(int(words[-2]), set()).add(number)
    return lines_by_mark
