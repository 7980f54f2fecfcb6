"""Library choice: the algorithm that an MPI library took, determined from its settings.

The recorder reads the settings in MPI_Init. A name is returned only if it is certain. This requires
a version with decisions that were read and tested. It also requires that these algorithms run (no
other component, no division by nodes). For a forced algorithm, its conditions must be known to be
met, or its replacement must be known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpiprof.facts.library_algorithms import LibraryAlgorithm, find_algorithms
from mpiprof.facts.library_table import MPICH, OPENMPI

UNKNOWN = ""
VERSION_PATTERNS = {MPICH: r"MPICH Version:\s+5\.0\.", OPENMPI: r"Open MPI v5\.0\."}

# Replacement for a forced algorithm with unmet conditions.
REPLACEMENTS = {
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
# Open MPI's components that precede `tuned` and leave calls with several processes on one node to
# it. `han` takes calls across nodes for the operations below. MPICH divides its operations below by
# nodes.
OTHER_COMPONENTS = ("tuned", "self", "inter", "sync", "ftagree", "han")
NODE_AWARE = {
    OPENMPI: ("allgather", "allreduce", "barrier", "bcast", "gather", "reduce", "scatter"),
    MPICH: ("allreduce", "barrier", "bcast", "reduce"),
}


@dataclass(frozen=True)
class LibrarySettings:
    """An MPI library and its settings in a job."""

    family: str
    ranks: int
    on_node: int  # number of the job's `ranks` that its launcher started on a node, 0 if unknown
    multiple: bool  # whether several threads may call MPI
    settings: Mapping[str, int | str]  # control variables that are not 0 or empty

    def read_number(self, name: str) -> int:
        """Return the value of a numeric control variable, else 0."""
        value = self.settings.get(name, 0)
        return value if isinstance(value, int) else 0


@dataclass(frozen=True)
class LibraryCall:
    """A blocking collective on an intra-communicator of two or more processes."""

    operation: str
    size: int
    bytes: int  # of a block or vector, in allgatherv and reduce_scatter all; -1 if unknown
    element: int = 0  # bytes per element, 0 if unknown
    builtin: bool = False  # a predefined reduction; all of them commute
    in_place: bool = False

    @property
    def count(self) -> int:
        """Number of elements, -1 if unknown."""
        return self.bytes // self.element if self.element and self.bytes >= 0 else -1


def identify_family(version: str) -> str | None:
    """Return the library of a version text, or None for untested releases."""
    return next((f for f, text in VERSION_PATTERNS.items() if re.match(text, version)), None)


def identify_library(version: str, ranks: int, settings_text: object) -> LibrarySettings | None:
    """Return the library of a job by its version text and settings, None if choices are unknown."""
    family = identify_family(version)
    if family is None or not isinstance(settings_text, dict):
        return None
    settings, on_node = settings_text.get("settings"), settings_text.get("on_node")
    if not isinstance(settings, dict) or not isinstance(on_node, int):
        return None
    readable = {str(k): v for k, v in settings.items() if isinstance(v, int | str)}
    if family == OPENMPI and not readable.get("coll_tuned_use_dynamic_rules"):
        return None  # fixed decisions are not modelled
    return LibrarySettings(family, ranks, on_node, settings_text.get("multiple") is True, readable)


def predict_choice(library: LibrarySettings, call: LibraryCall) -> str:
    """Return the name of the algorithm that a call took, or UNKNOWN if it is uncertain."""
    if call.bytes == 0 and call.operation != "barrier":
        return UNKNOWN  # no data is sent
    choose = _openmpi_choice if library.family == OPENMPI else _mpich_choice
    return choose(library, call)


def _meets(need: str, call: LibraryCall) -> bool | None:
    """Return whether an algorithm's condition is met; None if unknown."""
    power = 1 << (call.size.bit_length() - 1)
    minimum = {"elements": call.size, "half_elements": power}
    if need in minimum:
        if call.count < 0:
            return False if 0 <= call.bytes < minimum[need] else None
        return call.count >= minimum[need]
    conditions = {
        "pow2": call.size == power,
        "even": call.size % 2 == 0,
        "two": call.size == 2,
        "in_place": call.in_place,
        "not_in_place": not call.in_place,
        "commutes": call.builtin or None,
        "builtin": call.builtin or None,
    }
    return conditions.get(need)


def _meets_all(needs: tuple[str, ...], call: LibraryCall) -> bool | None:
    answers = [_meets(need, call) for need in needs]
    return False if False in answers else None if None in answers else True


def _forced_algorithm(
    library: LibrarySettings, call: LibraryCall, number: int
) -> LibraryAlgorithm | None:
    rows = find_algorithms(library.family, call.operation)
    return rows[number - 1] if 0 < number <= len(rows) else None


# ---- Open MPI


def _openmpi_choice(library: LibrarySettings, call: LibraryCall) -> str:
    head = f"coll_tuned_{call.operation}_algorithm"
    row = _forced_algorithm(library, call, library.read_number(head))
    if row is None or not _is_tuned(library, call.operation):
        return UNKNOWN
    if call.operation in ("alltoall", "alltoallv") and call.in_place:
        return UNKNOWN  # one unnumbered algorithm for all settings
    segment = library.read_number(f"{head}_segmentsize")
    if row.name == "segmented_ring":
        return _choose_segmented_ring(call, segment)
    if row.name == "split_binary_tree":
        return _choose_split_binary_tree(call, segment)
    return _row_if_met(row, call)


def _is_tuned(library: LibrarySettings, operation: str) -> bool:
    """Return whether the component `tuned` runs an operation."""
    own_priority = library.read_number("coll_tuned_priority")
    if "coll" in library.settings or any(n.startswith("coll_sync_b") for n in library.settings):
        return False
    for name in library.settings:
        component = name.removeprefix("coll_").removesuffix("_priority")
        if name.endswith("_priority") and library.read_number(name) >= own_priority:
            if component not in OTHER_COMPONENTS:
                return False
            several = library.on_node != library.ranks
            if component == "han" and several and operation in NODE_AWARE[OPENMPI]:
                return False
    return own_priority > 0


def _row_if_met(row: LibraryAlgorithm, call: LibraryCall) -> str:
    checked = tuple(need for need in row.requirements if need not in row.unchecked or need == "two")
    holds = _meets_all(checked, call)
    if holds:
        return row.name
    key = (row.library, row.operation, row.name)
    return UNKNOWN if holds is None else REPLACEMENTS.get(key, UNKNOWN)


def _choose_segmented_ring(call: LibraryCall, segment: int) -> str:
    if call.count < 0:
        return UNKNOWN
    in_segment = segment // call.element if call.element <= segment < call.bytes else call.count
    if call.count >= call.size * in_segment:
        return "segmented_ring"
    return "ring" if call.count >= call.size else "recursive_doubling"


def _choose_split_binary_tree(call: LibraryCall, segment: int) -> str:
    """Return the algorithm: a chain of all members if halves or segments are too few."""
    if call.count < 0:
        return UNKNOWN
    half = call.count // 2 * call.element
    return "split_binary_tree" if half and max(segment, call.element) <= half else "chain"


# ---- MPICH


def _mpich_choice(library: LibrarySettings, call: LibraryCall) -> str:
    if not _reaches_table(library, call):
        return UNKNOWN
    number = library.read_number(f"MPIR_CVAR_{call.operation.upper()}_INTRA_ALGORITHM")
    row = _forced_algorithm(library, call, number)
    if row is None:
        return _mpich_default(library, call) if number == 0 else UNKNOWN
    if row.name in ("smp", "ccl"):
        return UNKNOWN  # depends on the number of nodes, or on another library
    holds = _meets_all(row.requirements, call)
    if holds:
        return row.name
    return UNKNOWN if holds is None else _mpich_default(library, call)


def _reaches_table(library: LibrarySettings, call: LibraryCall) -> bool:
    """Return whether the table's algorithms run a call as a whole."""
    head = f"MPIR_CVAR_{call.operation.upper()}_"
    overriding = ("UCC", "HCOLL", "CH4_COLL_SELECTION", "POSIX_COLL_SELECTION", "ODD_EVEN_CLIQUES")
    overridden = any(part in name for name in library.settings for part in overriding)
    if overridden or f"{head}COMPOSITION" in library.settings:
        return False
    # The device layer above them divides some operations by nodes. On one node it has shared-memory
    # algorithms, but does not use them if several threads may call MPI.
    in_memory = library.read_number(f"{head}POSIX_INTRA_ALGORITHM")
    if call.operation not in NODE_AWARE[MPICH]:
        return in_memory == 0
    if library.read_number("MPIR_CVAR_NOLOCAL"):
        # Under libfabric the netmod has its own broadcasts.
        return call.operation != "bcast" or library.settings.get("MPIR_CVAR_CH4_NETMOD") == "ucx"
    if library.read_number("MPIR_CVAR_NUM_CLIQUES") > 1 or library.on_node != library.ranks:
        return False
    auto = 2
    without_memory = in_memory == 0 or (in_memory == auto and library.multiple)
    return call.operation == "allreduce" and without_memory


def _mpich_default(library: LibrarySettings, call: LibraryCall) -> str:
    """Return the choice of MPICH's decision tree (maint/tuning/coll/mpir/generic.json of 5.0)."""
    if "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE" in library.settings:
        return UNKNOWN
    choose = CHOOSERS.get(call.operation)
    # Some calls have unknown sizes; some operations are decided without the size.
    return choose(call) if choose and (call.bytes >= 0 or call.operation in SIZELESS) else UNKNOWN


def _choose_allgather(call: LibraryCall) -> str:
    total = call.bytes * (call.size if call.operation == "allgather" else 1)
    if _meets("pow2", call):
        return "recursive_doubling" if total < 512 << 10 else "ring"
    return "brucks" if total < 80 << 10 else "ring"


def _choose_allreduce(call: LibraryCall) -> str:
    if call.bytes <= 8 or not call.builtin:
        return "recursive_doubling"
    return _if_enough_elements(call, "reduce_scatter_allgather", "recursive_doubling")


def _if_enough_elements(call: LibraryCall, name: str, alternative: str) -> str:
    enough = _meets("half_elements", call)
    return UNKNOWN if enough is None else name if enough else alternative


def _choose_alltoall(call: LibraryCall) -> str:
    if call.in_place:
        return "pairwise_sendrecv_replace"
    if call.size > 8 and call.bytes <= 256:
        return "brucks"
    return "scattered" if call.bytes <= 32 << 10 else "pairwise"


def _choose_reduce(call: LibraryCall) -> str:
    if call.bytes <= 2048 or not call.builtin:
        return "binomial"
    return _if_enough_elements(call, "reduce_scatter_gather", "binomial")


def _choose_reduce_scatter(call: LibraryCall) -> str:
    if not call.builtin:
        return UNKNOWN
    total = call.bytes * (1 if call.operation == "reduce_scatter" else call.size)
    return "recursive_halving" if total < 512 << 10 else "pairwise"


SIZELESS = ("alltoallv", "gatherv", "scatterv")
CHOOSERS: dict[str, Callable[[LibraryCall], str]] = {
    "allgather": _choose_allgather,
    "allgatherv": _choose_allgather,
    "allreduce": _choose_allreduce,
    "alltoall": _choose_alltoall,
    "alltoallv": lambda call: "pairwise_sendrecv_replace" if call.in_place else "scattered",
    "gather": lambda _: "binomial",
    "gatherv": lambda _: "linear",
    "reduce": _choose_reduce,
    "reduce_scatter": _choose_reduce_scatter,
    "reduce_scatter_block": _choose_reduce_scatter,
    "scatter": lambda _: "binomial",
    "scatterv": lambda _: "linear",
}
