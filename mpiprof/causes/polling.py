"""Reception delayed by polling: a rank pauses between calls that look for messages in vain.

    master   iprobe | pause | iprobe | pause ────────── | iprobe finds it | recv
    worker   ───── work ─────────────── | send | recv ── wait ─────────────────
                                        ^ sent           ^ found

Messages that are sent in a pause are found after it (metrics/polling_delays.py). The run is
replayed without these delays. The polling is a cause if the run then ends earlier by
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
from mpiprof.causes.cause import Cause, FoundCause
from mpiprof.causes.place import find_place
from mpiprof.causes.removal import Removal, Saving, join_removals, join_savings, replay_without
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.metrics.polling_delays import find_polling_delays
from mpiprof.operations import function_name
from mpiprof.trace.sites import format_site, locate_label
from mpiprof.trace.trace import Trace

MIN_SAVED_SHARE = 0.01  # of the run time
MAX_LOOPS = 3  # with most delay, that are replayed
LOOP = ["rank", "operation", "site_id"]  # columns that identify a loop

Loop: TypeAlias = tuple[int, str, int]


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
    """Return the delays by polling (metrics/polling_delays.py) with the end of their calls."""
    delays = find_polling_delays(trace)
    exit_ns = trace.message_calls["exit_ns"].to_numpy()[delays["call"]]
    return delays.assign(operation=delays["operation"].astype(str), exit_ns=exit_ns)
