"""Data sent to and from a worker: for each block no more than its own content."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dataset_traces import exported
from support.synthetic import Synthetic

from mpiprof.account.shape_names import name_shapes
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.formats import dask_workers
from mpiprof.trace import Trace

pytestmark = [pytest.mark.heavy, pytest.mark.slow]

distributed = pytest.importorskip("distributed")
EACH = 40  # call sites per communicator
STEP_NS = 1_000_000
PASSES: dict[str, Callable[[Trace], object]] = {
    "callsites": lambda trace: trace.callsites,
    "rank_totals": lambda trace: trace.rank_totals,
    "series": lambda trace: trace.series(range(len(trace.callsites))),
    "waiting_for": lambda trace: trace.waiting_for(),
}


def made(folder: Path, communicators: int) -> Path:
    """Write 2 ranks on communicators with separate call sites, each called three times."""
    trace, at = Synthetic(2), 0
    for c in range(communicators):
        trace.add_communicator(f"c{c}", [0, 1])
        for line in range(EACH):
            arrivals = STEP_NS * (at + np.arange(1, 4))[:, None] + np.array([[0, 7_001]])
            exits = arrivals + 90_001
            site = f"c{c:02}.py:{line + 10}:step"
            trace.add_collective("allreduce", arrivals, exits, f"c{c}", site=site)
            at += 3
    trace.ended_ns = STEP_NS * (at + 9)
    return trace.write(folder)


class Weighing:
    """A worker in this process; `back`: size of its result for each item in bytes."""

    def __init__(self) -> None:
        self.back: list[int] = []

    def threads(self) -> int:
        """Return 1."""
        return 1

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Yield each result after pickling."""
        for item in items:
            sent = pickle.dumps(function(item))
            self.back.append(len(sent))
            yield pickle.loads(sent)


def heaviest(folder: Path) -> dict[str, int]:
    """Return the bytes of the largest result of each pass."""
    found = {}
    worker = Weighing()
    trace = Trace(folder, {**DERIVED, "shapes": name_shapes}, worker)
    for name, make in PASSES.items():
        worker.back.clear()
        make(trace)
        found[name] = max(worker.back)
    return found


def test_a_block_transfers_only_its_content(tmp_path: Path) -> None:
    """Eight times as many call sites in all, with equally many in each block."""
    few = heaviest(exported(lambda folder: made(folder, 3), tmp_path / "few")[1])
    many = heaviest(exported(lambda folder: made(folder, 24), tmp_path / "many")[1])
    for name in PASSES:  # longer numbers take some more bytes
        assert many[name] <= 1.1 * few[name] + 64, name


def test_what_all_items_share_is_sent_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = exported(lambda folder: made(folder, 24), tmp_path)[1]
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(2, silence_logs=logging.CRITICAL, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        trace = Trace(folder, {**DERIVED, "shapes": name_shapes}, dask_workers.Workers(client))
        table = trace.callsites
        sent: list[int] = []
        submit = client.submit

        def weighed(*given: Any, **options: Any) -> Any:
            plain = [one for one in given if not isinstance(one, distributed.Future)]
            sent.append(len(pickle.dumps(plain)))
            return submit(*given, **options)

        monkeypatch.setattr(client, "submit", weighed)
        trace.waiting_for()
    heavy = sorted(sent)[-1]
    assert heavy > 20 * len(table)  # all call sites
    assert sum(sent) - heavy < 1_000 * (len(sent) - 1)
    assert len(sent) - 1 >= 24
