"""The exit code of --fail-on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpiprof.reports.condition import Term

THRESHOLD_MET = 3


def exit_code(expression: str, terms: list[Term], rows: Sequence[Mapping[str, Any]]) -> int:
    """Return 3, and say so, when a call site, as a row of data, meets all terms; else 0."""
    from mpiprof.reports.condition import holds
    from mpiprof.reports.places import places

    met = [row for row in rows if terms and holds(terms, row)]
    if not met:
        return 0
    many = f"{len(met)} call site" + "s" * (len(met) > 1)
    first = f"{met[0]['operation']} at {places(met[0]['sites'])}"
    print(f"mpiprof: --fail-on {expression!r} is met by {many}, first {first}", file=sys.stderr)
    return THRESHOLD_MET
