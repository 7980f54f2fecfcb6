"""Intel MPI's environment: `I_MPI_ADJUST_<OPERATION>="<id>:<from>-<to>@<p>-<q>;..."`.

The source is the reference manual of 2019 and 2020. Later versions number presets, not algorithms.
Intel MPI 2021 accepts the lines, but does not report which algorithm runs. Their sizes equal a
plan's: a block, a vector or message, or all counts together.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.operations import OPERATIONS
from mpiprof.tune.export_rules.cells import Cell, RefusedError

MAX_BYTES = (1 << 31) - 1


def check_cell(cell: Cell) -> None:
    """Raise RefusedError if Intel MPI cannot express a cell."""
    if cell.first > MAX_BYTES:
        raise RefusedError(f"begins above {MAX_BYTES} bytes")


def make_environment(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the variables for possible cells."""
    variables: dict[str, list[str]] = {}
    for cell in cells:
        last = min(cell.last, MAX_BYTES)
        span = f"{cell.first}-{last}" if OPERATIONS[cell.operation].sized else f"0-{MAX_BYTES}"
        condition = f"{cell.algorithm.number}:{span}@{cell.size}-{cell.size}"
        variables.setdefault(f"I_MPI_ADJUST_{cell.operation.upper()}", []).append(condition)
    return {name: ";".join(conditions) for name, conditions in variables.items()}
