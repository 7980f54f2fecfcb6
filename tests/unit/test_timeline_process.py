"""Preparation of a timeline in a process: progress, errors, cancel, end of the dashboard."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT
from support.synthetic import Synthetic
from support.wait_until import HANG_S, wait_until

from dashboard.timeline import build, window
from dashboard.timeline import process as timeline_process
from dashboard.timeline.build import resolve_with_tiles
from dashboard.timeline.computation import BackgroundComputation, CancelledError
from dashboard.timeline.process import build_tiles, open_events
from dashboard.timeline.row_layout import SORTS
from dashboard.timeline.segments import Events
from mpiprof.errors import MpiprofError
from mpiprof.formats import cache, cached_trace
from mpiprof.trace import Trace

pytestmark = pytest.mark.heavy  # each test starts processes

KILLED_DASHBOARD = """
import os, signal, sys
from pathlib import Path
from dashboard.timeline import process as timeline_process
from mpiprof.formats import cached_trace

def kill(share):
    if not share:
        return
    task = f"/proc/self/task/{os.getpid()}/children"
    print(Path(task).read_text().strip(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

timeline_process.MIN_CALLS = 0
trace = cached_trace.open_trace(Path(sys.argv[1]))
timeline_process.open_events(trace, cached_trace.cache_key(trace), kill)
"""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """Return a trace whose timeline is prepared in a process."""
    monkeypatch.setattr(timeline_process, "MIN_CALLS", 0)
    synthetic = Synthetic(3)
    for step in range(50):
        times = np.array([1000 * step, 1000 * step + 10, 1000 * step + 30])
        synthetic.add_collective("barrier", times, times + 50)
    return cached_trace.open_trace(synthetic.write(tmp_path))


def refuse(*_: Any, **__: Any) -> Any:
    """Fail, because this process must not prepare the timeline."""
    raise AssertionError("prepared in the dashboard's process")


def read_all(events: Events) -> tuple[bytes, list[int], bytes]:
    """Return the segments, their ranks and the instances of a timeline."""
    segments, ranks = events.read_window(events.begin_ns, events.end_ns + 1)
    instances = events.read_instances(0, events.instances)
    return segments.tobytes(), ranks.tolist(), instances.tobytes()


def list_unfinished(trace: Trace) -> list[str]:
    """Return the unfinished files in the cache of a trace."""
    return [path.name for path in trace.path.glob(f"{cache.CACHE_FOLDER}/.*")]


def test_a_process_prepares_the_same_timeline(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_all(build.open_or_build(trace, "0" * 16))
    key, shares = cached_trace.cache_key(trace), list[float]()
    monkeypatch.setattr(build, "build", refuse)
    assert read_all(open_events(trace, key, shares.append)) == expected
    assert shares == sorted(shares)
    assert shares[0] == 0 and shares[-1] == 1
    assert any(0 < share <= 0.7 for share in shares)
    # The second opening reads the cache.
    monkeypatch.setattr(timeline_process, "_run_process", refuse)
    assert read_all(open_events(trace, key, refuse)) == expected


def test_a_process_builds_the_first_tiles(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeline of a long trace opens without a second process."""
    jobs = list[dict[str, Any]]()
    monkeypatch.setattr(window, "DIRECT_LIMIT", 0)  # every picture needs tiles
    monkeypatch.setattr(timeline_process, "_run_process", lambda job, _: jobs.append(job))
    key = cached_trace.cache_key(trace)
    open_events(trace, key, lambda _: None)  # in this process, as no process has made the entry
    shares = list[float]()
    timeline_process._run_job(jobs[0], shares.append)
    assert shares == sorted(shares) and shares[-1] == 1
    timeline = window.Timeline(trace, open_events(trace, key, refuse), key)
    ranks = np.arange(trace.ranks)
    wanted = window.Request(0, 10**6, 100, "waiting", SORTS[0], frozenset(), ranks)
    resolve_with_tiles(timeline, wanted, refuse)


def test_a_process_builds_tiles(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    key = cached_trace.cache_key(trace)
    timeline = window.Timeline(trace, open_events(trace, key, lambda _: None), key)
    need = window.MissingTiles("tiles.0", np.arange(3), timeline.classes.of_shape)
    monkeypatch.setattr(window.Timeline, "build_tiles", refuse)
    build_tiles(timeline, need, lambda _: None)
    entry = cache.find(trace.path, "tiles.0", key)
    assert entry is not None and entry.count_elements("tiles") == 0
    entry.close()


def test_a_damaged_entry_is_prepared_again(trace: Trace) -> None:
    key = cached_trace.cache_key(trace)
    expected = read_all(open_events(trace, key, lambda _: None))
    path = trace.path / cache.CACHE_FOLDER / f"{build.ENTRY_NAME}-{key}.cache"
    path.write_bytes(path.read_bytes()[:-1])
    assert read_all(open_events(trace, key, lambda _: None)) == expected


def test_a_trace_that_has_grown_is_prepared_in_this_process(trace: Trace) -> None:
    """The process would read more calls than the dashboard's snapshot has."""
    events = open_events(trace, "0" * 16, lambda _: None)
    assert events.instances == 50
    folder = trace.path / cache.CACHE_FOLDER
    assert not list(folder.glob(f"timeline-{cached_trace.cache_key(trace)}.cache"))


def test_errors_of_the_process_are_raised(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = cached_trace.cache_key(trace)
    folders = tmp_path / "folders"
    folders.mkdir()
    # No folder of cache entries can be made, because a file has its name.
    files = (
        trace.path / cache.CACHE_FOLDER,
        folders / "mpiprof",
        folders / f"mpiprof-{os.getuid()}",
    )
    for file in files:
        file.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folders))
    monkeypatch.setenv("TMPDIR", str(folders))
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    with pytest.raises(OSError) as here:
        cache.make(trace.path, "timeline", key, lambda _: {})
    with pytest.raises(OSError) as there:
        open_events(trace, key, lambda _: None)
    assert type(there.value) is type(here.value)
    assert str(there.value) == str(here.value)
    shutil.rmtree(trace.path)
    with pytest.raises(MpiprofError, match="no such"):
        open_events(trace, key, lambda _: None)


@pytest.mark.parametrize(
    ("sent", "raised"),
    [
        ({"error": "mpiprof", "arguments": ["why"]}, MpiprofError),
        ({"error": "damaged", "arguments": ["why"]}, cache.DamagedError),
        ({"error": "system", "arguments": ["why"]}, OSError),
    ],
)
def test_errors_keep_their_class_and_text(sent: dict[str, Any], raised: type[Exception]) -> None:
    error = timeline_process._make_error(sent)
    assert type(error) is raised and str(error) == "why"


@pytest.mark.parametrize(
    ("program", "message"),
    [("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"), ("1 / 0", "code 1")],
)
def test_a_failed_process_is_reported(
    trace: Trace, program: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(MpiprofError, match=message):
        open_events(trace, cached_trace.cache_key(trace), lambda _: None)


def test_cancel_ends_the_process(trace: Trace) -> None:
    key = cached_trace.cache_key(trace)
    children = list[str]()

    def make(progress: Any) -> Events:
        def note(share: float) -> None:
            if share:
                task = Path(f"/proc/self/task/{threading.get_native_id()}/children")
                children.append(task.read_text().strip())
                making.is_cancelled = True
            progress(share)

        return open_events(trace, key, note)

    making = BackgroundComputation("Reading", make)
    assert making.has_ended(HANG_S)
    assert isinstance(making.error, CancelledError)
    assert not Path(f"/proc/{children[0]}").exists()
    assert not list_unfinished(trace)


def test_the_process_ends_with_the_dashboard(trace: Trace) -> None:
    words = [sys.executable, "-c", KILLED_DASHBOARD, str(trace.path)]
    killed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    assert killed.returncode == -signal.SIGKILL
    process = int(killed.stdout)
    wait_until(lambda: not Path(f"/proc/{process}").exists(), "the process ends")
    assert not list_unfinished(trace)


def test_the_process_leaves_nothing_when_its_input_ends(trace: Trace) -> None:
    """Its input ends before it starts, so it ends at its first report of progress."""
    job = json.dumps(timeline_process._describe_job(trace, cached_trace.cache_key(trace)))
    code = "from dashboard.timeline.process import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        input=job + "\n",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    folder = trace.path / cache.CACHE_FOLDER
    assert not folder.exists() or not list(folder.iterdir())
