"""Tables that a Trace computes on demand, by name. Importing this module imports pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mpiprof.account import message_tables, summary_tables, tables
from mpiprof.account.aggregate import aggregate, find_disagreements
from mpiprof.account.callsites import make_callsites, make_message_callsites
from mpiprof.account.collective_waits import find_collective_waits
from mpiprof.account.coverage import find_coverage
from mpiprof.account.delay_costs import find_delays
from mpiprof.account.dependences import find_dependences
from mpiprof.account.division import make_rank_times
from mpiprof.account.efficiencies import make_efficiencies
from mpiprof.account.instance_series import make_series
from mpiprof.account.ledger import make_ledger_stretches, make_ledger_sums, read_ledgers
from mpiprof.account.message_callsite_sums import make_located_waits
from mpiprof.account.message_waits import find_postings, make_message_waits, make_one_sided_waits
from mpiprof.account.rank_pairs import compute_wait_matrix, make_message_matrix
from mpiprof.account.rank_totals import make_rank_totals, point_to_point_time, unrecorded_time
from mpiprof.account.recorded_calls import make_recorded_calls
from mpiprof.account.replay import make_replay
from mpiprof.account.run_times import make_run_times
from mpiprof.account.run_windows import divide_run
from mpiprof.account.segments import make_calls_without_waits, make_work
from mpiprof.account.transfers import find_transfers
from mpiprof.causes.arrival_statistics import compute_arrival_statistics
from mpiprof.causes.blamed_work import make_blamed_work
from mpiprof.causes.explained_waits import make_rank_waits
from mpiprof.causes.findings import find_conclusions, find_findings
from mpiprof.causes.phases import find_phases
from mpiprof.causes.run_steps import find_steps
from mpiprof.causes.sampling import find_hot_callsites, take_samples
from mpiprof.causes.search import CauseSearch, find_causes
from mpiprof.causes.window_delays import (
    find_saving_without,
    find_window_delays,
    find_window_transfers,
    join_window_waits,
    make_run_delay_table,
    map_windows,
    open_windows,
)
from mpiprof.causes.work_groups import make_work_groups
from mpiprof.trace.message_counts import MessageCounts
from mpiprof.trace.trace import Trace


def _find_window_mapper(trace: Trace) -> Callable[[Callable[[Any], Any]], list[Any]]:
    """Return the function that applies a function to each window of a run."""
    return partial(map_windows, trace, DERIVED)


def _find_window_opener(trace: Trace) -> Callable[[], Iterator[Trace]]:
    """Return the function that yields a trace or, if it does not fit in memory, its windows."""
    return partial(open_windows, trace, DERIVED)


# A Trace refers to these tables by name only, because `trace` must not import this package.
DERIVED: dict[str, Callable[..., Any]] = {
    "aggregate": aggregate,
    "arrival_statistics": compute_arrival_statistics,
    "blamed_work": make_blamed_work,
    "callsites": make_callsites,
    "call_sums": message_tables.make_call_sums,
    "calls_without_waits": make_calls_without_waits,
    "collective_waits": find_collective_waits,
    "cause_search": CauseSearch,
    "conclusions": find_conclusions,
    "delays": make_run_delay_table,
    "delays_found": find_delays,
    "dependences": find_dependences,
    "efficiencies": make_efficiencies,
    "events": tables.make_events,
    "facts": find_causes,
    "findings": find_findings,
    "hot": find_hot_callsites,
    "in_windows": _find_window_mapper,
    "instances": tables.make_instances,
    "intervals": message_tables.make_intervals,
    "located_waits": make_located_waits,
    "ledgers": read_ledgers,
    "ledger_stretches": make_ledger_stretches,
    "ledger_sums": make_ledger_sums,
    "local_sums": message_tables.make_local_sums,
    "matrix": tables.make_matrix,
    "matrix_ranks": tables.matrix_ranks,
    "message_callsites": make_message_callsites,
    "message_matrix": make_message_matrix,
    "message_calls": message_tables.make_message_calls,
    "message_counts": MessageCounts,
    "one_sided_waits": make_one_sided_waits,
    "open_windows": _find_window_opener,
    "message_logs": message_tables.read_message_tables,
    "message_rows": message_tables.find_message_rows,
    "message_sums": message_tables.make_message_sums,
    "message_waits": make_message_waits,
    "messages": message_tables.make_messages,
    "phases": find_phases,
    "point_to_point": point_to_point_time,
    "shape_facts": message_tables.make_shape_facts,
    "spent": unrecorded_time,
    "postings": find_postings,
    "processes": tables.make_processes,
    "rank_times": make_rank_times,
    "rank_totals": make_rank_totals,
    "rank_waits": make_rank_waits,
    "recorded_calls": make_recorded_calls,
    "replay": make_replay,
    "run_times": make_run_times,
    "run_windows": divide_run,
    "samples": take_samples,
    "selection": summary_tables.make_selector_tables,
    "saving_without": find_saving_without,
    "series": make_series,
    "steps": find_steps,
    "statistics": summary_tables.make_statistics,
    "coverage": find_coverage,
    "summary": summary_tables.make_summary,
    "summed_up": summary_tables.summarise_totals,
    "transfers": find_transfers,
    "waiting_for": compute_wait_matrix,
    "window_delays": find_window_delays,
    "window_transfers": find_window_transfers,
    "window_waits": join_window_waits,
    "work": make_work,
    "work_groups": make_work_groups,
    "wrong": find_disagreements,
}
