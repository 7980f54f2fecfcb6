"""Computations of the dashboard: progress, errors, and a cancel that ends them."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.wait_until import HANG_S, wait_until

from dashboard import timeline_data
from dashboard.computation import BusyError, CancelledError, Computation
from dashboard.trace_data import TraceData
from mpiprof.errors import MpiprofError
from mpiprof.testing.synthetic import Synthetic
from mpiprof.timeline.segments import Progress
from mpiprof.trace.trace import _DerivedTable


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
    making = Computation("Working", work.run)
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
    data: Any = SimpleNamespace(name="one", version="1", path=tmp_path, prefer_timeline=nullcontext)
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


def test_tables_wait_for_a_timeline_unless_another_thread_waits_for_them(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    for step in range(3):
        times = np.array([1000 * step, 1000 * step + 10])
        synthetic.add_collective("barrier", times, times + 50)
    data = TraceData("run", synthetic.write(tmp_path))
    table = data.trace._known.setdefault(("callsites",), _DerivedTable())
    with data.prefer_timeline():
        data.start_preparation()
        while not table.is_known and table.lock.acquire(blocking=False):
            table.lock.release()
            time.sleep(0.01)
        # The preparation of the timeline reads the trace meanwhile.
        assert sum(map(len, data.trace.batches(batch=64))) == 3
        assert not table.is_known
        assert data.callsites["instances"].tolist() == [3]
    assert data.trace.blocked_threads == 0


def test_a_timeline_does_not_wait_for_itself(tmp_path: Path) -> None:
    """Its thread has the identifier of the thread of the tables, which has ended."""
    synthetic = Synthetic(2)
    times = np.array([1000, 1010])
    synthetic.add_collective("barrier", times, times + 50)
    data = TraceData("run", synthetic.write(tmp_path))
    tables = threading.Thread(target=data._prepare_tables)
    tables.start()
    tables.join()
    with data.prefer_timeline():
        for _ in range(20):
            batches = data.trace.batches(batch=64)
            reader = threading.Thread(target=lambda of: [*of], args=(batches,), daemon=True)
            time.sleep(0.01)  # until the identifier of the thread before is free
            reader.start()
            reader.join(HANG_S)
            assert not reader.is_alive()
            if reader.ident == tables.ident:
                break
