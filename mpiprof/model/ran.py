"""Which of its own algorithms an MPI library took, told by how it is set.

The settings are those that the recorder read in MPI_Init. A name is given only where it is
certain: on versions whose decisions were read and tried out; where it is these algorithms that run
(no component of another kind, no division by nodes); and where a forced algorithm's own conditions
are known to hold, or what takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpiprof.libraries import Own, own
from mpiprof.library_rows import MPICH, OPENMPI

UNKNOWN = ""
VERSIONS = {MPICH: r"MPICH Version:\s+5\.0\.", OPENMPI: r"Open MPI v5\.0\."}

# What runs where a forced algorithm's conditions do not hold.
INSTEAD = {
    (OPENMPI, "allgather", "recursive_doubling"): "bruck",
    (OPENMPI, "allgather", "neighbor"): "ring",
    (OPENMPI, "allgatherv", "neighbor"): "ring",
    (OPENMPI, "allreduce", "ring"): "recursive_doubling",
    (OPENMPI, "allreduce", "rabenseifner"): "basic_linear",
    (OPENMPI, "bcast", "scatter_allgather"): "basic_linear",
    (OPENMPI, "bcast", "scatter_allgather_ring"): "basic_linear",
    (OPENMPI, "reduce", "rabenseifner"): "linear",
    (OPENMPI, "reduce_scatter_block", "recursive_halving"): "basic_linear",
}
# Open MPI's components that stand before `tuned`, and leave to it what has several processes on one
# node; `han` takes what is on several nodes, for these operations. MPICH divides these by nodes.
ASIDE = ("tuned", "self", "inter", "sync", "ftagree", "han")
BY_NODES = {
    OPENMPI: ("allgather", "allreduce", "barrier", "bcast", "gather", "reduce", "scatter"),
    MPICH: ("allreduce", "barrier", "bcast", "reduce"),
}


@dataclass(frozen=True)
class Library:
    """An MPI library as it was set in a job.

    on_node: how many of the job's `ranks` its launcher started on a node, 0: not known; multiple:
    whether several threads may call it; settings: its control variables that are not 0 or empty.
    """

    family: str
    ranks: int
    on_node: int
    multiple: bool
    settings: Mapping[str, int | str]

    def number(self, name: str) -> int:
        """Return the value of a control variable that is a number."""
        value = self.settings.get(name, 0)
        return value if isinstance(value, int) else 0


@dataclass(frozen=True)
class Call:
    """A blocking collective on an intra-communicator of two or more processes.

    bytes: of a block, vector or message, for allgatherv and reduce_scatter in all, -1: not known;
    element: bytes of an element, 0: not known; builtin: of a reduction, whether it is MPI's own,
    which all commute.
    """

    operation: str
    size: int
    bytes: int
    element: int = 0
    builtin: bool = False
    in_place: bool = False

    @property
    def count(self) -> int:
        """How many elements, -1: not known."""
        return self.bytes // self.element if self.element and self.bytes >= 0 else -1


def family_of(version: str) -> str | None:
    """Return which library it is, by what it says itself, None for releases that were not tried."""
    return next((f for f, text in VERSIONS.items() if re.match(text, version)), None)


def library_of(version: str, ranks: int, told: object) -> Library | None:
    """Return the library of a job, None where its choices are not known.

    version: as it says it itself; told: the trace's line of its settings.
    """
    family = family_of(version)
    if family is None or not isinstance(told, dict):
        return None
    settings, on_node = told.get("settings"), told.get("on_node")
    if not isinstance(settings, dict) or not isinstance(on_node, int):
        return None
    known = {str(k): v for k, v in settings.items() if isinstance(v, int | str)}
    if family == OPENMPI and not known.get("coll_tuned_use_dynamic_rules"):
        return None  # its own decisions are not known
    return Library(family, ranks, on_node, told.get("multiple") is True, known)


def ran(library: Library, call: Call) -> str:
    """Return the name of the algorithm that a call took, UNKNOWN where that is not certain."""
    if call.bytes == 0 and call.operation != "barrier":
        return UNKNOWN  # nothing is sent
    return _of_openmpi(library, call) if library.family == OPENMPI else _of_mpich(library, call)


def _holds(need: str, call: Call) -> bool | None:
    """Whether an algorithm's condition holds; None: not known."""
    power = 1 << (call.size.bit_length() - 1)
    least = {"elements": call.size, "half_elements": power}
    if need in least:
        if call.count < 0:
            return False if 0 <= call.bytes < least[need] else None
        return call.count >= least[need]
    known = {
        "pow2": call.size == power,
        "even": call.size % 2 == 0,
        "two": call.size == 2,
        "in_place": call.in_place,
        "not_in_place": not call.in_place,
        "commutes": call.builtin or None,
        "builtin": call.builtin or None,
    }
    return known.get(need)


def _every(needs: tuple[str, ...], call: Call) -> bool | None:
    found = [_holds(need, call) for need in needs]
    return False if False in found else None if None in found else True


def _forced(library: Library, call: Call, number: int) -> Own | None:
    rows = own(library.family, call.operation)
    return rows[number - 1] if 0 < number <= len(rows) else None


# ---- Open MPI


def _of_openmpi(library: Library, call: Call) -> str:
    head = f"coll_tuned_{call.operation}_algorithm"
    row = _forced(library, call, library.number(head))
    if row is None or not _is_tuned(library, call.operation):
        return UNKNOWN
    if call.operation in ("alltoall", "alltoallv") and call.in_place:
        return UNKNOWN  # one algorithm for all, of no number
    segment = library.number(f"{head}_segmentsize")
    if row.name == "segmented_ring":
        return _segmented_ring(call, segment)
    if row.name == "split_binary_tree":
        return _split_binary_tree(call, segment)
    return _guarded(row, call)


def _is_tuned(library: Library, operation: str) -> bool:
    """Whether it is the component `tuned` that runs an operation."""
    own_priority = library.number("coll_tuned_priority")
    if "coll" in library.settings or any(n.startswith("coll_sync_b") for n in library.settings):
        return False
    for name in library.settings:
        component = name.removeprefix("coll_").removesuffix("_priority")
        if name.endswith("_priority") and library.number(name) >= own_priority:
            if component not in ASIDE:
                return False
            several = library.on_node != library.ranks
            if component == "han" and several and operation in BY_NODES[OPENMPI]:
                return False
    return own_priority > 0


def _guarded(row: Own, call: Call) -> str:
    checked = tuple(need for need in row.needs if need not in row.unchecked or need == "two")
    holds = _every(checked, call)
    if holds:
        return row.name
    name = INSTEAD.get((row.library, row.operation, row.name))
    if holds is None or name is None:
        return UNKNOWN
    return name


def _segmented_ring(call: Call, segment: int) -> str:
    if call.count < 0:
        return UNKNOWN
    in_segment = segment // call.element if call.element <= segment < call.bytes else call.count
    if call.count >= call.size * in_segment:
        return "segmented_ring"
    return "ring" if call.count >= call.size else "recursive_doubling"


def _split_binary_tree(call: Call, segment: int) -> str:
    """Where halves or segments are too few, one chain of all members takes its place."""
    if call.count < 0:
        return UNKNOWN
    half = call.count // 2 * call.element
    return "split_binary_tree" if half and max(segment, call.element) <= half else "chain"


# ---- MPICH


def _of_mpich(library: Library, call: Call) -> str:
    if not _reaches(library, call):
        return UNKNOWN
    number = library.number(f"MPIR_CVAR_{call.operation.upper()}_INTRA_ALGORITHM")
    row = _forced(library, call, number)
    if row is None:
        return _chosen(library, call) if number == 0 else UNKNOWN
    if row.name in ("smp", "ccl"):
        return UNKNOWN  # where there are several nodes, or such a library
    holds = _every(row.needs, call)
    if holds:
        return row.name
    return UNKNOWN if holds is None else _chosen(library, call)


def _reaches(library: Library, call: Call) -> bool:
    """Whether it is the algorithms of the table that run a call as a whole.

    The device above them divides some operations by nodes; on one node it has algorithms in shared
    memory, which it does not take where several threads may call it.
    """
    head = f"MPIR_CVAR_{call.operation.upper()}_"
    others = ("UCC", "HCOLL", "CH4_COLL_SELECTION", "POSIX_COLL_SELECTION", "ODD_EVEN_CLIQUES")
    if f"{head}COMPOSITION" in library.settings or any(
        other in name for name in library.settings for other in others
    ):
        return False
    in_memory = library.number(f"{head}POSIX_INTRA_ALGORITHM")
    if call.operation not in BY_NODES[MPICH]:
        return in_memory == 0
    if library.number("MPIR_CVAR_NOLOCAL"):
        # Under libfabric there are broadcasts of its own.
        return call.operation != "bcast" or library.settings.get("MPIR_CVAR_CH4_NETMOD") == "ucx"
    if library.number("MPIR_CVAR_NUM_CLIQUES") > 1 or library.on_node != library.ranks:
        return False
    auto = 2
    return call.operation == "allreduce" and (
        in_memory == 0 or (in_memory == auto and library.multiple)
    )


def _chosen(library: Library, call: Call) -> str:
    """Return what MPICH's own tree of choices says (maint/tuning/coll/mpir/generic.json of 5.0)."""
    if "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE" in library.settings:
        return UNKNOWN
    choose = CHOOSE.get(call.operation)
    # What a size would tell is not known for some calls, and of no matter for some operations.
    return choose(call) if choose and (call.bytes >= 0 or call.operation in SIZELESS) else UNKNOWN


def _allgather(call: Call) -> str:
    total = call.bytes * (call.size if call.operation == "allgather" else 1)
    if _holds("pow2", call):
        return "recursive_doubling" if total < 512 << 10 else "ring"
    return "brucks" if total < 80 << 10 else "ring"


def _allreduce(call: Call) -> str:
    if call.bytes <= 8 or not call.builtin:
        return "recursive_doubling"
    enough = _holds("half_elements", call)
    if enough is None:
        return UNKNOWN
    return "reduce_scatter_allgather" if enough else "recursive_doubling"


def _alltoall(call: Call) -> str:
    if call.in_place:
        return "pairwise_sendrecv_replace"
    if call.size > 8 and call.bytes <= 256:
        return "brucks"
    return "scattered" if call.bytes <= 32 << 10 else "pairwise"


def _alltoallv(call: Call) -> str:
    return "pairwise_sendrecv_replace" if call.in_place else "scattered"


def _reduce(call: Call) -> str:
    if call.bytes <= 2048:
        return "binomial"
    enough = _holds("half_elements", call) if call.builtin else False
    if enough is None:
        return UNKNOWN
    return "reduce_scatter_gather" if enough else "binomial"


def _reduce_scatter(call: Call) -> str:
    if not call.builtin:
        return UNKNOWN
    total = call.bytes * (1 if call.operation == "reduce_scatter" else call.size)
    return "recursive_halving" if total < 512 << 10 else "pairwise"


SIZELESS = ("alltoallv", "gatherv", "scatterv")
CHOOSE: dict[str, Callable[[Call], str]] = {
    "allgather": _allgather,
    "allgatherv": _allgather,
    "allreduce": _allreduce,
    "alltoall": _alltoall,
    "alltoallv": _alltoallv,
    "gather": lambda _: "binomial",
    "gatherv": lambda _: "linear",
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_block": _reduce_scatter,
    "scatter": lambda _: "binomial",
    "scatterv": lambda _: "linear",
}
