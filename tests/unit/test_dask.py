"""Verbs with Dask workers: the same tables, bit for bit, for any number of workers."""

from __future__ import annotations

import functools
import json
import logging
import os
import platform
import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import dask_tasks
from support.dataset_traces import MADE, bits, exported
from support.jobs import run_verb

import mpiprof
from mpiprof.account import aggregate, batch_map
from mpiprof.account.collective_waits import CollectiveWaits
from mpiprof.account.shape_names import name_shapes
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.errors import TraceError
from mpiprof.formats import dask_workers
from mpiprof.formats.dataset import write as write_dataset
from mpiprof.interface import progress
from mpiprof.trace import Trace, dataset
from unit.test_run_windows import halo, open_in_windows

pytestmark = [pytest.mark.heavy, pytest.mark.slow]

distributed = pytest.importorskip("distributed")
KINDS = ("mixed", "several", "inter", "talking", "drifting", "silent", "messaging")
DELAYS = ("collective_waits", "message_waits", "delays")
LOG_TABLES = ("message_sums", "message_calls", "messages", "intervals")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a data set of each kind."""
    base = tmp_path_factory.mktemp("dask")
    return {kind: exported(MADE[kind], base / kind)[1] for kind in KINDS}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_map, "CALLS_PER_PIECE", (1, 1))  # a block each


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Yield a cluster of two processes."""
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    local_cluster = distributed.LocalCluster(2, silence_logs=logging.CRITICAL, **options)
    yield local_cluster
    local_cluster.close()


def client(cluster: Any) -> Any:
    return distributed.Client(cluster, set_as_default=False)


def with_workers(folder: Path, client: Any) -> Trace:
    return Trace(folder, {**DERIVED, "shapes": name_shapes}, dask_workers.Workers(client))


def check(folder: Path, client: Any, scratch: Path) -> None:
    """Compare all results of workers with the results of one process."""
    alone, shared = mpiprof.open(folder), with_workers(folder, client)
    names = ("callsites", "run_times", "rank_totals", "waiting_for", "hot", *LOG_TABLES, *DELAYS)
    for name in names:
        a, b = (trace.derive(name) for trace in (alone, shared))
        if isinstance(a, CollectiveWaits):
            a, b = vars(a), vars(b)
        assert bits(a, scratch) == bits(b, scratch), name
    sites = list(range(len(alone.callsites)))
    a, b = (trace.series(sites) for trace in (alone, shared))
    assert bits(a, scratch) == bits(b, scratch)
    assert alone.problems == shared.problems
    assert list(alone.aggregate[1]) == list(shared.aggregate[1])
    assert alone.aggregate[0].algorithm_names == shared.aggregate[0].algorithm_names


@pytest.mark.parametrize("count", [1, 4])
def test_tables_are_the_same_on_1_and_4_workers(
    count: int, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Workers are threads here, and finish in any order."""
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(count, silence_logs=logging.CRITICAL, **options) as made,
        client(made) as connected,
    ):
        for folder in folders.values():
            check(folder, connected, tmp_path)


def test_tables_are_the_same_on_2_processes(
    cluster: Any, folders: dict[str, Path], tmp_path: Path
) -> None:
    with client(cluster) as connected:
        for folder in folders.values():
            check(folder, connected, tmp_path)


def test_processes_analyse_windows_of_a_run(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mpiprof.open(halo(steps=40).write(tmp_path / "t"))
    write_dataset(whole.path, whole, lambda _: None)
    alone = open_in_windows(whole, monkeypatch, 2)
    with client(cluster) as connected:
        shared = with_workers(whole.path, connected)
        for name in ("delays", "message_callsites", "blamed_work"):
            pd.testing.assert_frame_equal(shared.derive(name), alone.derive(name), obj=name)
        assert shared.findings() == alone.findings()
    assert alone.findings()[0].ranks == (3,)


def test_a_worker_that_is_killed_under_way_is_replaced(
    cluster: Any, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "killed"
    do = functools.partial(dask_tasks.sum_batch, str(marker))
    with client(cluster) as connected:
        found = with_workers(folders["several"], connected)
        with monkeypatch.context() as patched:
            patched.setattr(aggregate, "sum_batch", do)
            table = found.callsites
    assert marker.exists()
    known = mpiprof.open(folders["several"]).callsites
    assert bits(table, tmp_path) == bits(known, tmp_path)


def test_verbs_take_a_scheduler(
    cluster: Any, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its address and by its file, with the same output."""
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"type": "Scheduler", "address": cluster.scheduler_address}))
    shown: list[int] = []
    real = dask_workers.Workers.map

    def counted(self: Any, function: Any, items: Any) -> Any:
        shown.append(len(items))
        return real(self, function, items)

    monkeypatch.setattr(dask_workers.Workers, "map", counted)
    folder = folders["drifting"]
    plan = tmp_path / "plan.json"
    for words, where in (
        (("report", folder), cluster.scheduler_address),
        (("compare", folder, folder, "--json"), file),
        (("tune", folder, "-o", plan, "--json"), file),
    ):
        done = []
        for option in ((), ("--dask", where)):
            shutil.rmtree(folder / "cache", ignore_errors=True)
            done.append(run_verb(*words, *option))
            assert bool(shown) == bool(option)
        assert done[0][0] == 0, done[0][2]
        assert done[0] == done[1]
        shown.clear()


def test_processes_of_this_machine(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Started for one verb; on a terminal the user sees a bar, which is erased at the end."""
    monkeypatch.setattr(progress, "DELAY_S", 0)
    monkeypatch.setattr(progress, "UPDATE_INTERVAL_S", 0)
    shutil.rmtree(folders["several"] / "cache", ignore_errors=True)
    known = run_verb("report", folders["several"], "--by", "routine")
    shutil.rmtree(folders["several"] / "cache", ignore_errors=True)
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, "1")
    found = run_verb("report", folders["several"], "--by", "routine", "--dask", "local:1")
    assert (found[0], found[1]) == (0, known[1])
    assert "reading on 1 worker [" in found[2]
    assert found[2].endswith("\r\033[K")
    assert capsys.readouterr().err == ""


def test_workers_use_freed_memory_again(cluster: Any) -> None:
    """Although Dask configures the workers' C library to return freed memory."""
    with client(cluster) as connected:
        if "glibc" not in platform.libc_ver():
            pytest.skip("another C library")
        assert "MALLOC_TRIM_THRESHOLD_" in connected.submit(os.environ.copy).result()
        found = list(dask_workers.Workers(connected).map(dask_tasks.count_page_faults, [2_000] * 8))
    assert max(found) < 200


def test_few_items_are_under_way_and_all_come_in_order(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished results that are not fetched yet occupy the workers' memory."""
    monkeypatch.setattr(dask_workers, "ITEMS_AHEAD", 2)
    taken: list[int] = []

    class Items(list[int]):
        def __iter__(self) -> Iterator[int]:
            for item in range(len(self)):
                taken.append(item)
                yield item

    with client(cluster) as connected:
        found = []
        for result in dask_workers.Workers(connected).map(abs, Items([0] * 20)):
            found.append(result)
            assert len(taken) <= len(found) + 2 * 2
    assert found == list(range(20))
    assert taken == found


def test_workers_need_the_same_mpiprof(
    cluster: Any, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("report", folders["inter"], "--dask", cluster.scheduler_address)
    monkeypatch.setattr(dask_workers, "__version__", "9.9")
    code, out, err = run_verb(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"have mpiprof {mpiprof.__version__}, but this is 9.9" in err
    absent = types.ModuleType("absent")  # importable here, but not in the workers
    exec("def version(): return '9.9'", vars(absent))
    monkeypatch.setitem(sys.modules, "absent", absent)
    monkeypatch.setattr(dask_workers, "mpiprof_version", vars(absent)["version"])
    code, out, err = run_verb(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot import mpiprof" in err


def test_pages_are_made_with_workers(cluster: Any, folders: dict[str, Path]) -> None:
    """As in `view`."""
    data = pytest.importorskip("mpiprof.dashboard.trace_data")
    shutil.rmtree(folders["several"] / "cache", ignore_errors=True)
    with client(cluster) as connected:
        context = data.TraceContext([folders["several"]], [], dask_workers.Workers(connected))
        found = context.latest_data("job")
        assert found.trace.workers is not None
        pd.testing.assert_frame_equal(found.callsites, mpiprof.open(folders["several"]).callsites)


def test_traces_and_absent_folders_are_refused(
    cluster: Any, folders: dict[str, Path], tmp_path: Path
) -> None:
    trace, _ = exported(MADE["inter"], tmp_path)
    code, out, err = run_verb(
        "tune", folders["inter"], "--replay", "--dask", cluster.scheduler_address
    )
    assert (code, out) == (2, "")
    assert "leave out --replay" in err
    address = cluster.scheduler_address
    for words in (("report", trace), ("tune", trace), ("view", trace, "--no-browser")):
        code, out, err = run_verb(*words, "--dask", address)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert "--dask is for data sets" in err
        assert "--to dataset" in err
    gone = shutil.copytree(folders["inter"], tmp_path / "gone")
    with client(cluster) as connected:
        found = with_workers(gone, connected)
        assert found.dataset is not None  # read, before the file disappears
        (gone / dataset.FILE_NAME).unlink()
        with pytest.raises(TraceError, match="a folder that all workers can read"):
            _ = found.callsites
