"""Reasons of delays with known answers: shares add up, and only sure reasons are named."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes import delay_reasons
from mpiprof.causes.delay_reasons import (
    MINOR_FAULT_NS,
    MOVE_NS,
    REASONS,
    UNKNOWN,
    DelayReasons,
    explain_delay,
    find_largest_reason,
)

MS = 1_000_000
LENGTH, DELAY = 5 * MS, 8 * MS  # of the usual intervals
COUNT = 12
USUAL: dict[str, Any] = {
    **{"rank": 0, "begin_ns": 0, "end_ns": LENGTH, "gap_ns": 0, "processor_ns": LENGTH},
    **{"queue_ns": 0, "voluntary": 0, "instructions": -1, "minor_faults": 0, "major_faults": 0},
    **{"untracked_ns": 0, "gc_ns": 0, "first_processor": 1, "last_processor": 1},
    **{"pressure_since_ns": -1, "throttled_ns": -1, "other_threads_ns": 0},
}


def intervals(count: int = COUNT, noise_ns: int = 0, seed: int = 0, **values: Any) -> pd.DataFrame:
    """Return equal intervals with some values, and with random lengths on the processor."""
    table = pd.DataFrame({name: [value] * count for name, value in (USUAL | values).items()})
    table["begin_ns"] = np.arange(count) * 100 * MS
    noise = np.random.default_rng(seed).integers(0, noise_ns + 1, count)
    table["end_ns"] = table["begin_ns"] + values.get("end_ns", LENGTH) + noise
    table["processor_ns"] += noise
    if values.get("pressure_since_ns") == 0:
        table["pressure_since_ns"] = table["begin_ns"]
    return table


def late(**values: Any) -> pd.DataFrame:
    """Return intervals that are longer by DELAY."""
    return intervals(**({"rank": 1, "end_ns": LENGTH + DELAY} | values))


def share(reasons: DelayReasons, name: str) -> float:
    return reasons.shares_ns[name] / reasons.excess_ns


PLANTED: dict[str, tuple[str, dict[str, Any]]] = {
    "work": (delay_reasons.MORE_WORK, {"processor_ns": LENGTH + DELAY}),
    "sleep": (delay_reasons.BLOCKED, {"voluntary": 1}),
    "neighbour": (delay_reasons.PREEMPTED, {"queue_ns": DELAY}),
    "another thread": (delay_reasons.OTHER_THREADS, {"other_threads_ns": 3 * DELAY}),
    "collection": (
        delay_reasons.GARBAGE_COLLECTION,
        {"processor_ns": LENGTH + DELAY, "gc_ns": DELAY},
    ),
    "cold file": (delay_reasons.PAGE_FAULTS, {"voluntary": 80, "major_faults": 80}),
    "fresh memory": (
        delay_reasons.PAGE_FAULTS,
        {"processor_ns": LENGTH + DELAY, "minor_faults": int(DELAY / MINOR_FAULT_NS)},
    ),
    "blocked one-sided call": (delay_reasons.UNTRACKED_CALLS, {"untracked_ns": DELAY}),
    "polling one-sided call": (
        delay_reasons.UNTRACKED_CALLS,
        {"untracked_ns": DELAY, "processor_ns": LENGTH + DELAY},
    ),
    "quota": (delay_reasons.THROTTLED, {"throttled_ns": DELAY, "pressure_since_ns": 0}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_single_reason_has_the_whole_delay(name: str) -> None:
    reason, values = PLANTED[name]
    reasons = explain_delay(late(**values), intervals())
    assert reasons.excess_ns == COUNT * DELAY
    assert share(reasons, reason) == pytest.approx(1)
    assert find_largest_reason(reasons) == reason


def test_more_instructions_are_more_work() -> None:
    usual = intervals(instructions=10**7)
    slow = late(instructions=26 * 10**6, processor_ns=LENGTH + DELAY)
    reasons = explain_delay(slow, usual)
    assert reasons.counts_instructions
    assert share(reasons, delay_reasons.MORE_WORK) == pytest.approx(1)


def test_equal_instructions_show_a_slower_processor() -> None:
    slow = late(instructions=10**7, processor_ns=LENGTH + DELAY)
    reasons = explain_delay(slow, intervals(instructions=10**7))
    assert share(reasons, delay_reasons.SLOWER_PROCESSOR) == pytest.approx(1)
    assert find_largest_reason(reasons) == delay_reasons.SLOWER_PROCESSOR


def test_a_move_explains_at_most_the_refill_of_the_caches() -> None:
    slow = late(instructions=10**7, processor_ns=LENGTH + DELAY, last_processor=2)
    reasons = explain_delay(slow, intervals(instructions=10**7))
    assert reasons.shares_ns[delay_reasons.MOVED] == pytest.approx(COUNT * MOVE_NS)
    short = explain_delay(
        late(end_ns=LENGTH + MOVE_NS, processor_ns=LENGTH + MOVE_NS, last_processor=2), intervals()
    )
    assert find_largest_reason(short) == delay_reasons.MOVED


def test_shares_of_mixed_reasons_add_up() -> None:
    """A pause of 2 ms is taken from 8 ms on the processor and 4 ms in the run queue."""
    mixed = late(processor_ns=LENGTH + 3 * MS, queue_ns=4 * MS, voluntary=1, gc_ns=2 * MS)
    reasons = explain_delay(mixed, intervals())
    remaining = 10 / 12
    work, queue = COUNT * MS * (8 * remaining - 5), COUNT * MS * 4 * remaining
    assert reasons.shares_ns[delay_reasons.MORE_WORK] == pytest.approx(work)
    assert reasons.shares_ns[delay_reasons.PREEMPTED] == pytest.approx(queue)
    assert reasons.shares_ns[delay_reasons.BLOCKED] == pytest.approx(COUNT * MS)
    assert reasons.shares_ns[delay_reasons.GARBAGE_COLLECTION] == pytest.approx(COUNT * 2 * MS)
    assert sum(reasons.shares_ns.values()) == pytest.approx(reasons.excess_ns)
    assert find_largest_reason(reasons) is None
    even = late(processor_ns=LENGTH + 3 * MS, queue_ns=3 * MS, voluntary=1)
    assert find_largest_reason(explain_delay(even, intervals())) is None


def test_the_usual_wait_for_a_processor_belongs_to_more_work() -> None:
    """On a busy machine, all wait as long as they compute; one rank computes 4 ms longer."""
    usual = intervals(end_ns=2 * LENGTH, queue_ns=LENGTH)
    values = {"processor_ns": LENGTH + DELAY // 2, "queue_ns": LENGTH + DELAY // 2}
    reasons = explain_delay(late(end_ns=2 * LENGTH + DELAY, **values), usual)
    assert reasons.contention == pytest.approx(1)
    assert share(reasons, delay_reasons.MORE_WORK) == pytest.approx(1)
    longer = late(end_ns=2 * LENGTH + DELAY, queue_ns=LENGTH + DELAY)
    assert find_largest_reason(explain_delay(longer, usual)) == delay_reasons.PREEMPTED


@pytest.mark.parametrize("seed", range(5))
def test_random_intervals_have_nonnegative_shares_with_the_right_sum(seed: int) -> None:
    random = np.random.default_rng(seed)

    def table(rank: int) -> pd.DataFrame:
        made = intervals(rank=rank)
        for name in USUAL.keys() - {"rank", "begin_ns", "end_ns"}:
            made[name] = random.integers(-1, 20 * MS, COUNT)
        made["end_ns"] = made["begin_ns"] + random.integers(1, 40 * MS, COUNT)
        return made

    reasons = explain_delay(table(1), table(0))
    assert set(reasons.shares_ns) == set(REASONS)
    assert min(reasons.shares_ns.values()) >= 0
    assert sum(reasons.shares_ns.values()) == pytest.approx(reasons.excess_ns)


def test_counters_before_the_interval_are_removed() -> None:
    """The counters include 0.5 ms in MPI, on the processor."""
    gap = MS // 2
    slow = late(processor_ns=LENGTH + DELAY + gap, gap_ns=gap)
    reasons = explain_delay(slow, intervals(processor_ns=LENGTH + gap, gap_ns=gap))
    assert share(reasons, delay_reasons.MORE_WORK) == pytest.approx(1)


UNDECIDED: dict[str, tuple[pd.DataFrame, pd.DataFrame]] = {
    "no counters": (late(processor_ns=-1), intervals()),
    "no counters of the others": (late(), intervals(processor_ns=-1)),
    "no time in the run queue": (late(queue_ns=-1), intervals(queue_ns=-1)),
    "counters of a longer time": (late(gap_ns=LENGTH + DELAY), intervals()),
    "too few others": (late(), intervals(count=2)),
    "no others, and a short interval": (late(end_ns=MS // 2), intervals(count=0)),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_delay_without_counters_is_unknown(name: str) -> None:
    reasons = explain_delay(*UNDECIDED[name])
    assert share(reasons, UNKNOWN) == pytest.approx(1)
    assert find_largest_reason(reasons) is None


@pytest.mark.parametrize("count", [1, COUNT])
def test_an_interval_that_others_do_not_have_is_explained_by_itself(count: int) -> None:
    """The intervals of the other ranks are too short to be recorded."""
    for name, values in (("sleep", {"processor_ns": MS}), ("work", {"processor_ns": DELAY})):
        reasons = explain_delay(late(count=count, end_ns=DELAY, **values), intervals(count=0))
        assert reasons.excess_ns == count * DELAY
        assert find_largest_reason(reasons) == PLANTED[name][0]


def test_no_delay_has_no_reason() -> None:
    reasons = explain_delay(intervals(), late())
    assert reasons.excess_ns == 0
    assert find_largest_reason(reasons) is None


@pytest.mark.parametrize("seed", range(20))
def test_chance_has_no_reason(seed: int) -> None:
    """Both ranks vary by 8 ms; one is later by chance."""
    reasons = explain_delay(
        intervals(rank=1, noise_ns=8 * MS, seed=seed), intervals(noise_ns=8 * MS, seed=seed + 100)
    )
    assert find_largest_reason(reasons) is None


def test_one_late_interval_is_compared_with_the_variation_of_the_others() -> None:
    others = intervals(noise_ns=MS // 2)
    assert find_largest_reason(explain_delay(late(count=1, voluntary=1), others)) is not None
    noisy = intervals(noise_ns=16 * MS)
    longer = late(count=1, end_ns=21 * MS, processor_ns=21 * MS)
    assert find_largest_reason(explain_delay(longer, noisy)) is None


def test_intervals_without_counters_are_a_part_of_the_unknown() -> None:
    some = pd.concat([late(voluntary=1), late(processor_ns=-1)])
    reasons = explain_delay(some, intervals())
    assert share(reasons, delay_reasons.BLOCKED) == pytest.approx(0.5)
    assert share(reasons, UNKNOWN) == pytest.approx(0.5)


@pytest.mark.parametrize(("fault_ns", "part"), [(None, 0.25), (1000.0, 0.25), (4000.0, 1.0)])
def test_page_faults_take_the_time_measured_on_the_machine(
    fault_ns: float | None, part: float
) -> None:
    slow = late(processor_ns=LENGTH + DELAY, minor_faults=DELAY // 4000)
    reasons = explain_delay(slow, intervals(), fault_ns)
    assert share(reasons, delay_reasons.PAGE_FAULTS) == pytest.approx(part)
    assert share(reasons, delay_reasons.MORE_WORK) == pytest.approx(1 - part)


def test_faults_with_input_take_processor_time() -> None:
    """350 faults of a cold file: 10 ms of processor time, and 10 ms blocked."""
    busy = late(processor_ns=LENGTH + DELAY // 2, major_faults=350, voluntary=350)
    reasons = explain_delay(busy, intervals(), DELAY / 2 / 350 / delay_reasons.INPUT_FAULT_FACTOR)
    assert share(reasons, delay_reasons.PAGE_FAULTS) == pytest.approx(1)


@pytest.mark.parametrize(
    ("machine", "known"),
    [
        ({"page_fault_ns": 3500.0}, 3500.0),
        ({"page_fault_ns": 3500}, 3500.0),
        ({"page_fault_ns": 0}, None),
        ({"page_fault_ns": True}, None),
        ({"page_fault_ns": "3500"}, None),
        ({"page_fault_ns": math.inf}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_the_time_of_a_page_fault_is_known_or_none(
    tmp_path: Path, machine: Any, known: float | None
) -> None:
    synthetic = Synthetic(2)
    synthetic.meta["machine"] = machine
    assert mpiprof.open(synthetic.write(tmp_path / "t")).page_fault_ns == known


def test_another_thread_may_wait_for_a_processor() -> None:
    """On a busy machine, it runs for a quarter of the time in which the calling thread waits."""
    slept = late(voluntary=1, other_threads_ns=DELAY // 4)
    assert find_largest_reason(explain_delay(slept, intervals())) == delay_reasons.BLOCKED
    stretched = explain_delay(slept, intervals(), stretches={1: 4.0})
    assert find_largest_reason(stretched) == delay_reasons.OTHER_THREADS
