"""Errors with --dask are reported on one line, and every wait has a time limit."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.dataset_traces import MADE, exported
from support.jobs import run_verb
from support.wait_until import HANG_S

from mpiprof.account import batch_map
from mpiprof.account.shape_names import name_shapes
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.errors import MpiprofError
from mpiprof.formats import dask_workers
from mpiprof.interface.installation import install_command
from mpiprof.trace import Trace

pytestmark = [pytest.mark.heavy, pytest.mark.slow]

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set of several blocks."""
    return exported(MADE["several"], tmp_path_factory.mktemp("dask"))[1]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_map, "CALLS_PER_PIECE", (1, 1))  # a block each


def started(protocol: str = "inproc") -> Any:
    """Return a cluster of one worker, a thread."""
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    return distributed.LocalCluster(1, silence_logs=logging.CRITICAL, protocol=protocol, **options)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Yield a cluster of one worker with a TCP address."""
    with started("tcp://") as local_cluster:
        yield local_cluster


def passing(folder: Path, client: Any) -> Iterator[Any]:
    """Start a slow pass."""
    trace = Trace(folder, {**DERIVED, "shapes": name_shapes}, dask_workers.Workers(client))
    return iter(batch_map.BatchPass(trace, _slow))


def _slow(*_: object) -> int:
    time.sleep(0.2)
    return 1


def test_wrong_use_is_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "CONNECT_TIMEOUT_S", 0.5)
    dead = tmp_path / "dead.json"
    dead.write_text('{"address": "tcp://127.0.0.1:9"}')
    others = {"empty": b"", "binary": b"\x93NUMPY\x01", "list": b"[]", "number": b'{"address": 5}'}
    for name, content in others.items():
        (tmp_path / f"{name}.json").write_bytes(content)
    silent = socket.create_server(("127.0.0.1", 0))
    address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
    for where, reported in (
        ("tcp://127.0.0.1:9", "no scheduler answers"),
        (str(dead), "no scheduler answers"),
        *((str(tmp_path / f"{name}.json"), "not a scheduler file") for name in others),
        (address, "no scheduler answers"),
        (str(tmp_path / "none.json"), "no such scheduler file"),
        ("nothing://here:1", "no scheduler answers"),
        ("local:0", "not a number of processes"),
        ("local:", "not a number of processes"),
        ("local:-1", "not a number of processes"),
        ("local:٣", "not a number of processes"),
    ):
        code, out, err = run_verb("report", folder, "--dask", where)
        assert (code, out, err.count("\n")) == (2, "", 1), (where, err)
        assert f"--dask {where}" in err
        assert reported in err
    silent.close()
    for words in (("compare", folder, folder), ("tune", folder), ("view", folder)):
        assert run_verb(*words, "--dask", "local:x")[0] == 2
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "distributed", None)
        code, out, err = run_verb("report", folder, "--dask", "local:1")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert install_command("dask") in err


def test_a_worker_is_no_scheduler(cluster: Any, folder: Path) -> None:
    worker = next(iter(cluster.scheduler_info["workers"]))
    code, out, err = run_verb("report", folder, "--dask", worker)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "a worker answers" in err


def test_no_error_is_printed_at_the_end_of_the_process(folder: Path) -> None:
    """If a client could not connect, it would print an error when the process ends."""
    words = [sys.executable, "-m", "mpiprof", "report", str(folder), "--dask", "http://127.0.0.1:1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr


def test_a_lost_scheduler_is_reported(folder: Path) -> None:
    local_cluster = started()
    with distributed.Client(local_cluster, set_as_default=False) as client:
        results = passing(folder, client)
        assert next(results).value == 1
        local_cluster.close()
        with pytest.raises(MpiprofError, match="the scheduler has ended"):
            list(results)


def test_what_dask_logs_is_not_shown(cluster: Any) -> None:
    """For example, a client writes a traceback if its scheduler disappears."""
    logger = logging.getLogger("distributed.client")
    logger.setLevel(logging.WARNING)
    with dask_workers.connect_workers(cluster.scheduler_address):
        assert not logger.isEnabledFor(logging.ERROR)


def test_the_loss_of_all_workers_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "CONNECT_TIMEOUT_S", 0.3)
    with (
        started() as local_cluster,
        distributed.Client(local_cluster, set_as_default=False) as client,
    ):
        results = passing(folder, client)
        assert next(results).value == 1
        local_cluster.scale(0)
        with pytest.raises(MpiprofError, match="all workers have ended"):
            list(results)
