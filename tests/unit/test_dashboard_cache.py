"""Cached values are equal when read, and are not used after the trace or the file has changed."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.synthetic import Synthetic

from dashboard.timeline import build
from mpiprof.__main__ import main
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.formats import cache, cached_trace, values
from mpiprof.trace import Trace
from mpiprof.trace.writer import RECORD_TYPE, make_chunks, make_head_chunk

# Arguments: one call site, or two.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("arrival_statistics", "conclusions", "matrix_ranks", "phases"), (0,)),
    "series": ((0, 1),),
}


def made(folder: Path, instances: int = 30, finished: bool = True) -> Path:
    """Write a trace of four ranks on two nodes, with barriers and a late rank."""
    trace = Synthetic(4, nodes=[0, 0, 1, 1], offsets=(0, 700), drifts=(0.0, 0.0))
    for rank in (0, 2):
        trace.add_clock(rank, 0, 2_000, 50)
    at = 5_000 + 1_000 * np.arange(instances)[:, None] + np.array([0, 10, 20, 300])
    trace.add_collective("allreduce", at, at.max(1)[:, None] + np.array([40, 41, 42, 43]))
    trace.add_collective("barrier", at + 500, at + 900, sent=0, received=0)
    trace.ended_ns = 10**6
    return trace.write(folder, finished)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a trace, and set a separate home."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return made(tmp_path / "trace")


def same(one: Any, other: Any) -> bool:
    """Return True if two derived values are equal, including NaN and column types."""
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
        return True
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        return bool(one.dtype == other.dtype)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if type(one).__name__ in values.KINDS:
        return same(vars(one), vars(other))
    equal: bool = one == other
    return equal or bool(one != one and other != other)


def derive_all(trace: Trace) -> dict[str, Any]:
    """Return all cached values, for the first call site if one is required."""
    found: dict[str, Any] = {"clocks": trace.clocks}
    for name in sorted(cached_trace.CACHED_TABLES & DERIVED.keys()):
        found[name] = trace.derive(name, *ARGUMENTS.get(name, ()))
    return found


def test_cached_values_are_equal_and_not_derived_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = derive_all(Trace(folder, DERIVED))
    first = derive_all(cached_trace.open_trace(folder))
    retained = {p.name.partition("-")[0] for p in (folder / "cache").iterdir()}
    assert {"callsites", "instances", "clocks", "arrival_statistics.0", "phases.0"} <= retained

    def fails(*_: Any) -> None:
        raise AssertionError("derived again")

    monkeypatch.setattr(cached_trace, "DERIVED", dict.fromkeys(DERIVED, fails))
    monkeypatch.setattr(Trace, "batches", fails)
    again = derive_all(cached_trace.open_trace(folder))
    for name, value in plain.items():
        assert same(value, first[name]), name
        assert same(value, again[name]), name


def test_problems_of_a_derivation_are_cached(folder: Path) -> None:
    trace = cached_trace.open_trace(folder)
    trace.problems.add("ranks called different operations")
    trace.derive("callsites")
    again = cached_trace.open_trace(folder)
    assert "ranks called different operations" not in again.problems
    again.derive("callsites")
    assert "ranks called different operations" in again.problems


def test_a_changed_trace_is_read_anew(folder: Path) -> None:
    assert len(cached_trace.open_trace(folder).instances) == 60
    made(folder, instances=31)
    assert len(cached_trace.open_trace(folder).instances) == 62
    names = [p.name for p in (folder / "cache").iterdir() if p.name.startswith("instances-")]
    assert len(names) == 1  # the old entry is gone


def test_records_in_an_open_window_change_the_key(tmp_path: Path) -> None:
    folder = made(tmp_path / "trace", finished=False)
    log = folder / "rank-000000.log"
    times = log.stat()
    before = cache.compute_key(Trace(folder))
    records = np.zeros(61, RECORD_TYPE)
    records["kind"] = records["enter_ns"] = records["exit_ns"] = 1
    log.write_bytes(make_head_chunk() + make_chunks(records, 0, 0, 0, window=True))
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert log.stat().st_size == times.st_size
    assert cache.compute_key(Trace(folder)) != before


def entries(folder: Path) -> list[Path]:
    """Return the cache files beside a trace."""
    return sorted((folder / "cache").glob("*.cache"))


def segments(folder: Path) -> Any:
    """Return all segments and their ranks, from the cache if it is valid."""
    trace = Trace(folder, DERIVED)
    events = build.open_or_build(trace, cache.compute_key(trace))
    found, ranks = events.read_window(events.begin_ns, events.end_ns + 1)
    return found.tolist(), ranks.tolist()


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "flipped", "foreign"])
def test_damaged_entries_are_made_anew(folder: Path, damage: str) -> None:
    plain = derive_all(cached_trace.open_trace(folder))
    events = segments(folder)
    choose = random.Random(damage)
    for path in entries(folder):
        content = bytearray(path.read_bytes())
        if damage == "cut":
            content = content[: choose.randrange(len(content))]
        elif damage == "empty":
            content = bytearray()
        elif damage == "noise":
            content = bytearray(choose.randbytes(len(content)))
        elif damage == "flipped":  # in the description of the arrays, or in their end
            for _ in range(3):
                last = min(200, len(content))
                content[-choose.randrange(1, last)] ^= 1 << choose.randrange(8)
        else:
            content = bytearray(entries(folder)[0].read_bytes())
        path.write_bytes(content)
    found = derive_all(cached_trace.open_trace(folder))
    assert all(same(value, found[name]) for name, value in plain.items())
    assert segments(folder) == events


def test_flips_in_arrays_are_noticed(folder: Path) -> None:
    plain = cached_trace.open_trace(folder).instances
    (path,) = (folder / "cache").glob("instances-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)
    pd.testing.assert_frame_equal(cached_trace.open_trace(folder).instances, plain)


def test_segments_that_cannot_be_are_refused(folder: Path) -> None:
    segments(folder)
    trace = Trace(folder, DERIVED)
    events = build.open_or_build(trace, cache.compute_key(trace))
    (path,) = (folder / "cache").glob("timeline-*")
    content = bytearray(path.read_bytes())
    found, _ = events.read_window(events.begin_ns, events.end_ns + 1)
    at = content.index(found[0].tobytes())
    content[at + 24 : at + 32] = b"\xff\xff\xff\x7f\x7f\xff\xff\x7f"  # shape and instance
    path.write_bytes(content)
    with pytest.raises(cache.DamagedError):
        events.read_window(events.begin_ns, events.end_ns + 1)


def test_a_pipe_or_a_link_in_place_of_an_entry_is_harmless(folder: Path, tmp_path: Path) -> None:
    cached_trace.open_trace(folder).derive("callsites")
    (path,) = (folder / "cache").glob("callsites-*")
    path.unlink()
    os.mkfifo(path)
    assert len(cached_trace.open_trace(folder).callsites) == 2  # does not wait for a writer
    other = tmp_path / "other"
    other.write_text("kept")
    path.unlink()
    path.symlink_to(other)
    assert len(cached_trace.open_trace(folder).callsites) == 2
    assert other.read_text() == "kept"


def test_a_linked_cache_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "cache").symlink_to(elsewhere)
    cached_trace.open_trace(folder).derive("callsites")
    assert not any(elsewhere.iterdir())
    assert any((tmp_path / "home").rglob("callsites-*"))


def test_where_the_trace_cannot_be_written_to_the_home_is_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "cache").write_text("a file where the folder should be")
    first = cached_trace.open_trace(folder).instances
    assert any((tmp_path / "home").rglob("instances-*"))
    monkeypatch.setattr(Trace, "batches", None)
    pd.testing.assert_frame_equal(cached_trace.open_trace(folder).instances, first)


def test_without_a_cache_folder_values_are_derived_each_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "find_folders", lambda _: iter(()))
    assert len(cached_trace.open_trace(folder).instances) == 60


def test_unfinished_files_go_when_they_are_old(folder: Path) -> None:
    (folder / "cache").mkdir()
    old, new = folder / "cache" / ".a.1.part", folder / "cache" / ".b.2.part"
    for path in (old, new):
        path.write_text("")
    os.utime(old, (0, 0))
    cached_trace.open_trace(folder).derive("callsites")
    assert not old.exists()
    assert new.exists()


def test_a_report_uses_values_that_a_page_derived(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", str(folder), "--json"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert list((folder / "cache").glob("callsites-*"))
    monkeypatch.setitem(DERIVED, "callsites", None)
    assert main(words) == 0
    assert capsys.readouterr().out == first


def test_concurrent_callers_compute_a_table_once(folder: Path) -> None:
    """A thread that derives a table which another one is computing waits for its value."""
    together, threads = threading.Barrier(4), ThreadPoolExecutor(4)
    computed: list[int] = []

    def make(_: Trace) -> int:
        computed.append(threading.get_ident())
        time.sleep(0.01)  # so that other threads ask meanwhile
        return len(computed)

    trace = Trace(folder, {"callsites": make})

    def derive() -> int:
        together.wait()
        return int(trace.derive("callsites"))

    asked = [threads.submit(derive) for _ in range(4)]
    assert [one.result() for one in asked] == [1] * 4
