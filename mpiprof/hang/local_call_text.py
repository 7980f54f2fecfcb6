"""Sentences on ranks that stay in calls which are recorded by call site only."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.hang.blocking_calls import UNKNOWN_SITE
from mpiprof.hang.rank_state import Positions
from mpiprof.hang.verdict import Verdict
from mpiprof.interface.format_units import capitalise, format_ranks, format_time
from mpiprof.operations import function_name
from mpiprof.reports.site_labels import describe_site
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label

MAX_CALLS = 4  # that sentences name


def list_outside(positions: Positions, blocked: Sequence[int]) -> list[int]:
    """Return the ranks outside MPI, which the blocked ranks may wait for."""
    return [
        position.rank for position in positions
        if position.state == "outside" and not position.between and position.rank not in blocked
    ]  # fmt: skip


def local_call_sentences(
    trace: Trace, positions: Positions, verdict: Verdict, now: int | None, last: str
) -> str:
    """Return sentences on the calls of the odd ranks, and on the ranks outside MPI.

    now: on the trace's clock. last: where the ranks outside MPI were last seen.
    """
    ranks_by_call: dict[tuple[str, int], list[int]] = {}
    for rank in verdict.odd_ranks:
        call = positions[rank].local_calls[0]
        ranks_by_call.setdefault((call.operation, call.site), []).append(rank)
    sentences = []
    for (operation, site), ranks in list(ranks_by_call.items())[:MAX_CALLS]:
        begin_ns = min(positions[rank].local_calls[0].enter_ns for rank in ranks)
        where = function_name(operation)
        if site != UNKNOWN_SITE:
            where += f" {locate_label(describe_site(trace, site))}"
        be = _be(verdict, ranks)
        if now is not None and not verdict.ended:
            be = "have been" if len(ranks) > 1 else "has been"
            where += f" for {format_time(float(now - begin_ns))}"
        sentences.append(f"{capitalise(format_ranks(ranks))} {be} in {where}.")
    if outside := list_outside(positions, verdict.odd_ranks):
        seen = f", last seen{last}" if last else ""
        who = capitalise(format_ranks(outside))
        sentences.append(f"{who} {_be(verdict, outside)} outside MPI{seen}.")
    return " ".join(sentences)


def _be(verdict: Verdict, ranks: Sequence[int]) -> str:
    if verdict.ended:
        return "were" if len(ranks) > 1 else "was"
    return "are" if len(ranks) > 1 else "is"
