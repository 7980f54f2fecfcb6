"""Sentences on messages whose reception is delayed because their receiver polls with pauses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mpiprof.interface.format_units import format_count, format_time
from mpiprof.metrics.polling_delays import find_polling_delays
from mpiprof.operations import function_name
from mpiprof.reports.site_labels import describe_site
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label

MIN_SHARE = 0.01  # of the run, for a sentence
MAX_SENTENCES = 3


def polling_sentences(trace: Trace) -> Iterator[str]:
    """Yield sentences on the loops that delay the reception of messages notably, worst first."""
    delays: Any = find_polling_delays(trace)
    delays["operation"] = delays["operation"].astype(str)
    by = ["rank", "operation", "site_id"]
    loops = delays.groupby(by)["delay_ns"].agg(["count", "sum"]).reset_index()
    loops = loops[loops["sum"] >= MIN_SHARE * float(trace.run_ns)]
    for row in loops.sort_values("sum", ascending=False).head(MAX_SENTENCES).to_dict("records"):
        yield _sentence(trace, row)


def _sentence(trace: Trace, row: Any) -> str:
    where = locate_label(describe_site(trace, row["site_id"]))
    count, total_ns = int(row["count"]), float(row["sum"])
    messages = "a message" if count == 1 else f"{format_count(count)} messages"
    mean = "" if count == 1 else f" on average, {format_time(total_ns)} in all"
    return (
        f"Reception delayed by polling: rank {row['rank']} polls with "
        f"{function_name(row['operation'])} {where} and pauses between the calls. It finds "
        f"{messages} {format_time(total_ns / count)} after the sending{mean}. Shorten the pause, "
        "or wait in a blocking call."
    )
