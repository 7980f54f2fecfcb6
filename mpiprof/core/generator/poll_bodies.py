"""Lines of the wrappers of functions that a program polls, such as Test (record/poll.h)."""

from __future__ import annotations

import re

from mpiprof.core.generator.collectives import Function
from mpiprof.core.generator.symbol_tables import has
from mpiprof.facts.operations import TEST_OPERATIONS


def poll_lines(function: Function, fortran: bool, call: str, lines: list[str]) -> list[str]:
    """Return the lines of a wrapper with those of a repeated call in vain before them.

    lines: of the recorded call, among them `call`, which is made only once.
    """
    if function.operation not in TEST_OPERATIONS:
        return lines
    error = "*ierror" if fortran else "error"
    result = "*outcount" if has(function, "outcount") else "*flag"
    native = call
    if has(function, "status") and function.name != "MPI_Testall":
        status = f"poll_status(status, {str(fortran).lower()})"
        native = re.sub(r"\bstatus\b", status, call, count=1)
    at = next(i for i, line in enumerate(lines) if line.startswith(("error = native", "native(")))
    return [
        f"const bool is_counted = {_enter(function, fortran)};",
        "if (is_counted) {",
        f"    {native}",
        f"    if (poll_leave({error} == MPI_SUCCESS && {result} == 0))",
        "        return;" if fortran else "        return error;",
        "}",
        *lines[:at],
        "if (!is_counted)",
        f"    {lines[at]}",
        *lines[at + 1 :],
    ]


def _enter(function: Function, fortran: bool) -> str:
    """Return the call that decides whether this one may only be counted."""
    star = "*" if fortran else ""
    address = "address" if fortran else "CALLER()"
    first = f"OP_{function.operation}, {address}"
    names = [p.name for p in function.parameters]
    if function.family == "completion":
        count = next((f"{star}{name}" for name in ("count", "incount") if name in names), "1")
        array = "requests" if has(function, "requests") else "request"
        if function.name == "MPI_Request_get_status" and not fortran:
            array = "&request"
        return f"poll_enter_requests({first}, {count}, {array}, {str(fortran).lower()})"
    if "comm" in names:
        comm = "comm_f2c(*comm)" if fortran else "comm"
        return f"poll_enter({first}, map_key({comm}), {star}source)"
    if "win" in names:
        win = "win_f2c(*win)" if fortran else "win"
        return f"poll_enter({first}, map_key({win}), NO_MESSAGE)"
    return f"poll_enter({first}, 0, NO_MESSAGE)"
