"""Computations of the dashboard: progress, errors, and a cancel that ends them."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.wait_until import HANG_S, wait_until

from dashboard.timeline import data as timeline_data
from dashboard.timeline.computation import BackgroundComputation, BusyError, CancelledError
from dashboard.timeline.segments import Progress
from mpiprof.errors import MpiprofError


class Steps:
    """Work that reports its progress at each step and waits for the next one."""

    def __init__(self) -> None:
        self.step = threading.Semaphore(0)
        self.done = 0

    def run(self, progress: Progress) -> int:
        """Do ten steps."""
        for number in range(10):
            self.step.acquire(timeout=HANG_S)
            progress(number / 10)
            self.done += 1
        return self.done


def test_a_cancelled_computation_ends_at_its_next_step() -> None:
    work = Steps()
    making = BackgroundComputation("Working", work.run)
    work.step.release(3)
    while work.done < 3:
        assert not making.has_ended(0.01)
    assert making.progress == pytest.approx(0.2)
    making.is_cancelled = True
    work.step.release()
    assert making.has_ended(HANG_S)
    assert isinstance(making.error, CancelledError)
    assert work.done == 3 and making.result is None


def test_the_timeline_is_prepared_again_after_a_cancel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    works: list[Steps] = []

    def prepare(_: Any, progress: Progress) -> int:
        works.append(Steps())
        works[-1].step.release(1 if len(works) == 1 else 10)
        return works[-1].run(progress)

    monkeypatch.setattr(timeline_data, "open_timeline", prepare)
    monkeypatch.setattr(timeline_data, "REQUEST_WAIT_S", 0.05)
    monkeypatch.setattr(timeline_data, "CANCEL_WAIT_S", 0.0)
    data: Any = SimpleNamespace(name="one", version="1", path=tmp_path)
    other: Any = SimpleNamespace(name="other", version="1", path=tmp_path)
    store = timeline_data.TimelineStore(SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(BusyError) as busy:
        store.get_timeline(data)
    making = busy.value.making
    store.cancel(other)
    assert not making.is_cancelled
    wait_until(lambda: works and works[0].done == 1, "the first step is done")
    store.cancel(data)
    works[0].step.release()
    assert making.has_ended(HANG_S)
    assert isinstance(making.error, MpiprofError) and works[0].done < 10
    while True:
        try:
            assert store.get_timeline(data) == 10  # type: ignore[comparison-overlap]
            break
        except BusyError:
            continue
    assert len(works) == 2
