"""Reception delayed by polling: a rank pauses between calls that look for messages in vain.

    master   iprobe | pause | iprobe | pause ────────── | iprobe finds it | recv
    worker   ───── work ─────────────── | send | recv ── wait ─────────────────
                                        ^ sent           ^ found

A rank polls if it calls MPI_Test, MPI_Iprobe or a similar function in vain, again and again. A
message that is sent in a pause is found after it. The delay is the time from the sending to the
call that finds the message. It is at most the mean pause of the loop, because a longer one has
another cause, such as a slow transfer. The rank's wait for the sender ends when the message is
sent, so it does not contain the delay.

The run is replayed without these delays. The polling is a cause if the run then ends earlier by
MIN_SAVED_SHARE of its time.

The functions are silent about loops without pauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import pandas as pd

from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.cause import (
    Cause,
    FoundCause,
    Removal,
    Saving,
    join_removals,
    join_savings,
    replay_without,
)
from mpiprof.causes.place import find_place
from mpiprof.facts.operations import function_name
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.trace.sites import format_site, locate_label
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace

MIN_SAVED_SHARE = 0.01  # of the run time
MAX_LOOPS = 3  # with most delay, that are replayed
LOOP = ["rank", "operation", "site_id"]  # columns that identify a loop

Loop: TypeAlias = tuple[int, str, int]
MIN_PAUSE_NS = 20_000  # no sleep is shorter (core/record/poll.c)
DELAY_COLUMNS = ("call", "rank", "operation", "site_id", "pause_ns", "delay_ns")


@dataclass(frozen=True)
class Polling(Cause):
    """A loop of calls in vain with pauses.

    function: of MPI. messages: number of the messages that it finds late. delay_ns: of all.
    """

    name: ClassVar[str] = "polling"
    reason: ClassVar[str] = "pauses of a poll"
    advice: ClassVar[str] = "Shorten the pause, or wait in a blocking call."
    icon: ClassVar[str] = "paused"
    function: str
    messages: int
    delay_ns: int

    @property
    def title(self) -> str:
        """Return the heading, one short line."""
        return f"Rank {self.ranks[0]} received late because it polls"

    @property
    def clause(self) -> str:
        """Return who polls where, and how late it finds messages."""
        where = locate_label(format_site(self.places[0].before))
        polls = f"rank {self.ranks[0]} polls with {self.function} {where} and pauses between"
        late = format_time(self.delay_ns / self.messages)
        if self.messages == 1:
            return f"{polls} the calls, so it finds a message {late} after the sending"
        late_messages = f"{format_count(self.messages)} messages {late} after the sending"
        total = format_time(self.delay_ns)
        return f"{polls} the calls, so it finds {late_messages} on average, {total} in all"


def sum_delays(trace: Trace) -> pd.DataFrame:
    """Return the delays of each loop in a run or a window of it: rank, operation, site, time."""
    return _read_delays(trace).groupby(LOOP, as_index=False)[["delay_ns"]].sum()


def choose_loops(windows: Sequence[pd.DataFrame]) -> list[Loop]:
    """Return the loops with most delay in a run; windows: as sum_delays."""
    sums = pd.concat(windows).groupby(LOOP, as_index=False)[["delay_ns"]].sum()
    largest = sums.nlargest(MAX_LOOPS, "delay_ns")
    columns = zip(*(largest[name] for name in LOOP), strict=True)
    return [(int(rank), str(operation), int(site)) for rank, operation, site in columns]


def remove_delays(trace: Trace, loops: Sequence[Loop]) -> list[tuple[Removal, Saving]]:
    """Return the delays of each loop in a run or a window of it, and the effect of removing them.

    The removal has one entry for each message that is found late.
    """
    delays = _read_delays(trace)
    removed = []
    for rank, operation, site in loops:
        is_here = (delays["rank"] == rank) & (delays["site_id"] == site)
        rows = delays[is_here & (delays["operation"] == operation)]
        ranks, exit_ns = (rows[name].to_numpy(np.int64) for name in ("rank", "exit_ns"))
        removal = Removal(ranks, exit_ns, rows["delay_ns"].to_numpy(np.float64))
        removed.append((removal, replay_without(trace, removal)))
    return removed


def make_causes(
    trace: Trace,
    loops: Sequence[Loop],
    windows: Sequence[Sequence[tuple[Removal, Saving]]],
    run_ns: float,
) -> list[FoundCause]:
    """Return the loops that cost run time; windows: of the run, as remove_delays."""
    causes = []
    for (rank, operation, site), *parts in zip(loops, *windows, strict=True):
        removal = join_removals([removal for removal, _ in parts])
        place = find_place(trace, (site, INSIDE))
        messages, delay_ns = len(removal.rank), round(removal.total_ns)
        cause = Polling((rank,), (place,), function_name(operation), messages, delay_ns)
        causes.append(FoundCause(cause, removal, join_savings([saving for _, saving in parts])))
    return [cause for cause in causes if cause.saving.run_ns >= MIN_SAVED_SHARE * run_ns]


def _read_delays(trace: Trace) -> pd.DataFrame:
    """Return the delays by polling (causes/polling.py) with the end of their calls."""
    delays = find_polling_delays(trace)
    exit_ns = trace.message_calls["exit_ns"].to_numpy()[delays["call"]]
    return delays.assign(operation=delays["operation"].astype(str), exit_ns=exit_ns)


def find_polling_delays(trace: Trace) -> pd.DataFrame:
    """Return one row per call of a run or a window that found a message after a pause of its loop.

    call (row of `message_calls`), rank, operation, site_id, pause_ns (mean of the loop), delay_ns
    (of the message that was sent first).
    """
    empty = pd.DataFrame({name: np.zeros(0, np.int64) for name in DELAY_COLUMNS})
    calls = trace.message_calls
    if "polls" not in calls:
        return empty
    calls = calls[(calls["polls"] > 0) & (calls["polled_ns"] < calls["exit_ns"])]
    if isinstance(trace, TraceWindow):
        calls = calls[trace.covers(calls["enter_ns"].to_numpy())]
    pause_ns = (calls["polled_ns"] - calls["enter_ns"]) // calls["polls"].clip(lower=1)
    calls = calls.assign(pause_ns=pause_ns)[pause_ns >= MIN_PAUSE_NS]
    if not len(calls):
        return empty
    messages = trace.messages
    posted_ns = messages["posted_ns"].to_numpy()
    is_found = messages["call"].isin(calls.index) & messages["received"] & messages["complete"]
    received = messages[is_found & (messages["partner"] >= 0)]
    sent = pd.Series(posted_ns[received["partner"]], received["call"].to_numpy())
    sent_ns = sent.groupby(level=0).min()
    calls = calls.loc[sent_ns.index]
    late_ns = calls["polled_ns"] - np.maximum(sent_ns, calls["enter_ns"])
    delay_ns = late_ns.clip(0, calls["pause_ns"])
    rows = calls.assign(delay_ns=delay_ns).rename_axis("call").reset_index()
    return rows.loc[rows["delay_ns"] > 0, list(DELAY_COLUMNS)].reset_index(drop=True)
