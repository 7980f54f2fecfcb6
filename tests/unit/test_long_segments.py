"""Segments that are far longer than usual, and stops that are stated once, with their length."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pytest

from mpiprof.account.segments import Work
from mpiprof.causes import findings, single_event
from mpiprof.causes.cause import FoundCause, Removal, Saving
from mpiprof.causes.finding import CallsiteEvidence
from mpiprof.causes.long_segments import SEGMENT, find_long_sleep, find_long_work
from mpiprof.causes.place import Place
from mpiprof.causes.single_event import SingleEvent
from mpiprof.trace.trace import Trace

SECOND = 1_000_000_000


class Key(NamedTuple):
    """As far as the key of a call site is used."""

    sites: tuple[int, ...]


@pytest.mark.parametrize("slept_s", [0, 3])
def test_sleep_is_found_beside_longer_times_in_queues(slept_s: int) -> None:
    """Ranks share processors, so their work takes 10 to 30 s, of which they run 4 s."""
    random, count, stopped = np.random.default_rng(1), 40, 17
    queue = random.uniform(6, 26, count) * SECOND
    asleep = np.where(np.arange(count) == stopped, slept_s * SECOND, 1_000)
    length = (4 * SECOND + queue + asleep).astype(np.int64)
    end = np.cumsum(length)
    table = {
        **{"before_site_id": 1, "after_site_id": 2, "other_threads_ns": 0, "rank": 0},
        **{"begin_ns": end - length, "end_ns": end, "processor_ns": 4 * SECOND},
        "queue_ns": queue.astype(np.int64),
    }
    trace = cast(Trace, SimpleNamespace(intervals=pd.DataFrame(table)))
    zeros = np.zeros(count, np.int64)
    work = Work(zeros, end - length, end, zeros, [(1, 2)])
    assert not len(find_long_work(work, SECOND))
    found = find_long_sleep(trace, work, SECOND)
    assert found["end_ns"].tolist() == ([end[stopped]] if slept_s else [])
    assert found["excess_ns"] == pytest.approx(3 * SECOND, rel=1e-3)


def test_a_stop_in_a_call_is_no_longer_than_the_call_after_the_last_arrival() -> None:
    """The rank also waited in the call, off the processor, before the last rank came."""
    call = SimpleNamespace(rank=2, enter_ns=0, exit_ns=5 * SECOND, off_ns=4 * SECOND)
    call.queue_ns, call.asleep_ns = 0, 4 * SECOND
    clock = SimpleNamespace(offset_at=lambda _: 0)
    trace: Any = SimpleNamespace(
        tables=SimpleNamespace(stalled_calls=[call]), clock_of=lambda _: clock
    )
    group = np.zeros(1, SEGMENT)
    group["rank"], group["begin_ns"], group["end_ns"] = 2, 3 * SECOND, 5 * SECOND
    assert single_event._find_stalled_rank(trace, group) == ((2,), 2 * SECOND, True)


@pytest.mark.parametrize("site", [4, 5])
def test_a_barrier_is_not_blamed_for_a_stop_inside_it(
    site: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the barrier at site 4, the rank would have been stopped in another call."""
    monkeypatch.setattr(findings, "describe_call", lambda _, number: {"line": number})
    place = Place({"line": site}, {"line": site}, inside=True)
    event = SingleEvent((1,), (place,), (0,), 2 * SECOND, 0)
    fact = FoundCause(event, Removal.nothing(), Saving(2.0 * SECOND, 6.0 * SECOND))
    derived = {"saving_without": Saving(2.05 * SECOND, 6.2 * SECOND), "facts": [fact]}
    key = Key((4,))
    trace: Any = SimpleNamespace(
        derive=lambda name, *_: derived[name],
        aggregate=(None, {key: 7}),
        run_ns=10 * SECOND,
        process_time_ns=40 * SECOND,
    )
    found = list(findings._barrier_findings(trace, 7, CallsiteEvidence(size=4)))
    assert [round(finding.saved_ns / SECOND) for finding in found] == [2] * (site == 5)
