"""OTF2 archives: a written trace is read back equal; other tools' archives are read correctly."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import otf2
import pandas as pd
import pytest
from otf2.enums import CollectiveOp
from support.export_trace import export, mixed
from support.otf2_archive import NO_ROOT, Archive
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.errors import MpiprofError, TraceError
from mpiprof.formats.otf2 import library
from mpiprof.interface.installation import install_command
from mpiprof.trace import Trace

TABLES = ("events", "instances", "callsites", "rank_totals", "point_to_point")


def same(found: Any, known: Any) -> None:
    if isinstance(known, pd.DataFrame):
        if "enter_ns" in known:  # a synthetic log is not always in the order of time
            order = ["rank", "enter_ns", "sequence", "start"]
            found, known = (t.sort_values(order, ignore_index=True) for t in (found, known))
        pd.testing.assert_frame_equal(found, known, check_categorical=False)
    else:
        np.testing.assert_array_equal(found, known)


def again(trace: Path, folder: Path) -> Trace:
    """Return a trace that has been an archive."""
    done = export(trace, "--to", "otf2", "-o", folder)
    assert (done.returncode, done.stderr) == (0, ""), done
    return mpiprof.open(folder / "traces.otf2")


# ---- there and back


@pytest.mark.heavy
def test_a_trace_comes_back_the_same(tmp_path: Path) -> None:
    known = mpiprof.open(mixed(tmp_path / "trace"))
    found = again(tmp_path / "trace", tmp_path / "archive")
    assert len(known.events) > 300
    for name in TABLES:
        same(getattr(found, name), getattr(known, name))
    assert found.clock_error_ns == known.clock_error_ns
    assert found.machine == known.machine
    assert (found.calls_start_ns, found.duration_ns) == (known.calls_start_ns, known.duration_ns)
    assert (found.is_complete, found.program, found.mpi) == (
        known.is_complete,
        known.program,
        known.mpi,
    )
    assert (found.ranks, found.node_count) == (4, 2)


def test_values_outside_the_format_are_read_back(tmp_path: Path) -> None:
    synthetic = Synthetic(3)
    synthetic.add_communicator("a", [0, 1], [2])
    synthetic.add_communicator(
        "graph", [0, 1, 2], topology={r: ([(r + 1) % 3], [r]) for r in range(3)}
    )
    at = 10_000 + 1000 * np.arange(9).reshape(3, 3)
    synthetic.add_collective("reduce", at, at + 500, root=2, sent=8, algorithm="ring(segment=8)")
    synthetic.add_collective("bcast", at + 10**5, at + 10**5 + 50, "a", root={0: 0, 1: 0, 2: -3})
    synthetic.add_collective("neighbor_alltoall", at + 2 * 10**5, at + 2 * 10**5 + 9, "graph")
    frame: dict[str, Any] = {"module": "/bin/app", "offset": 4096, "symbol": "main+16"}
    native = dict.fromkeys(range(3), frame)
    synthetic.add_collective(
        "barrier", at + 3 * 10**5, at + 3 * 10**5 + 9, site=native, flags=["error"]
    )
    for rank in range(3):
        shape = synthetic.add_shape(rank, "allreduce", "world")
        synthetic.add_extension(rank, 1, 7 << 32)  # outside
        synthetic.add(rank, shape, 90, 10**6 + rank, 10**6 + 900)
    trace = synthetic.write(tmp_path / "trace")
    known, found = mpiprof.open(trace), again(trace, tmp_path / "archive")
    for name in TABLES:
        same(getattr(found, name), getattr(known, name))
    assert len(found.tables.sites) == len(known.tables.sites)
    assert all(site in known.tables.sites for site in found.tables.sites)
    for named in ("sources", "destinations"):
        theirs = {rank: r.tolist() for (_, rank), r in getattr(found.tables, named).items()}
        ours = {rank: r.tolist() for (_, rank), r in getattr(known.tables, named).items()}
        assert theirs == ours


def test_other_tools_read_it(tmp_path: Path) -> None:
    if shutil.which("otf2-print") is None:
        pytest.skip("otf2-print is not installed (Debian: otf2-tools)")
    known = again(mixed(tmp_path / "trace"), tmp_path / "archive")
    done = subprocess.run(
        ["otf2-print", tmp_path / "archive" / "traces.otf2"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    ended = known.events[known.events["exit_ns"].notna()]
    blocking = ~ended["operation"].isin(["ibarrier"])
    assert sum("MPI_COLLECTIVE_END" in line for line in lines) == int(blocking.sum())
    assert sum("NON_BLOCKING_COLLECTIVE_COMPLETE" in line for line in lines) == 4 * 31
    first = next(line for line in lines if "BCAST" in line)
    assert "Root: 1" in first and "Sent: 800" in first


# ---- other tools' archives


ARRIVALS = 1000 + np.array([[0, 300, 200, 100], [5000, 5000, 5900, 5100], [9000, 9100, 9001, 9000]])


def solver(folder: Path, resolution: int = 1_000_000_000, record: bool = True) -> Path:
    """Write an archive of three allreduces of 100 bytes on 4 ranks, and other events."""
    with Archive(folder, 4, resolution) as archive:
        reported = (CollectiveOp.ALLREDUCE, NO_ROOT, 400, 400) if record else ()
        for rank in range(4):
            events = archive.events(rank)
            archive.collective(rank, "MPI_Init", 5, 10, CollectiveOp.CREATE_HANDLE, NO_ROOT, 0, 0)
            events.enter(20, archive.main)
            for instance in range(3):
                begin, end = int(ARRIVALS[instance, rank]), int(ARRIVALS[instance].max()) + 50
                archive.collective(rank, "MPI_Allreduce", begin, end, *reported)
                events.enter(end + 10, archive.region("MPI_Send"))
                events.mpi_send(end + 15, rank ^ 1, archive.world, 3, 10)
                events.leave(end + 30, archive.region("MPI_Send"))
            archive.collective(rank, "MPI_Type_free", 19_000, 19_010)  # ignored by mpiprof
            events.leave(20_000, archive.main)
    return archive.anchor


def test_an_archive_of_score_p(tmp_path: Path) -> None:
    trace = mpiprof.open(solver(tmp_path / "scorep"))
    events = trace.events
    assert len(events) == 12 and not trace.problems and trace.is_complete
    assert set(events["operation"]) == {"allreduce"}
    assert set(events["site"]) == {"solve.c:12 solve"}
    assert set(events["bytes"]) == set(events["received"]) == {100}  # Score-P counts 4 times that
    assert events["outside_ns"].tolist() == [0, 20, 20] * 4
    arrivals = events["enter_ns"].to_numpy().reshape(4, 3).T
    np.testing.assert_array_equal(arrivals, ARRIVALS)
    instances = trace.instances
    assert instances["complete"].all() and instances["sequence"].tolist() == [0, 1, 2]
    spread = ARRIVALS.max(1) - ARRIVALS.min(1)
    np.testing.assert_array_equal(instances["worst_imbalance_ns"], spread)
    mean = np.abs(ARRIVALS - ARRIVALS.mean(1, keepdims=True)).mean(1)
    np.testing.assert_allclose(instances["average_imbalance_ns"], mean)
    assert (trace.ranks, trace.node_count) == (4, 2)
    assert trace.clock_error_ns > 0  # the archive has no clock error


@pytest.mark.heavy
def test_every_verb_takes_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    anchor = str(solver(tmp_path / "scorep"))
    for path in (anchor, str(tmp_path / "scorep")):  # its anchor, or its folder
        assert main(["report", path]) == 0
        assert "solve.c:12" in capsys.readouterr().out
    assert main(["compare", anchor, anchor]) == 0
    assert main(["status", anchor]) == 0
    done = export(anchor, "--to", "csv", "-o", tmp_path / "t")
    assert done.returncode == 0 and len(pd.read_csv(tmp_path / "t-events.csv")) == 12


@pytest.mark.parametrize("resolution", [3, 10**6, 2_399_987_654, 10**12])
def test_ticks_are_times(tmp_path: Path, resolution: int) -> None:
    trace = mpiprof.open(solver(tmp_path / "scorep", resolution))
    arrivals = trace.events["enter_ns"].to_numpy().reshape(4, 3).T
    exact = [[round(int(t) * 10**9 / resolution) for t in row] for row in ARRIVALS]
    assert np.abs(arrivals - np.array(exact)).max() <= (0 if resolution < 10**12 else 1)


def test_clocks_are_corrected_by_the_offsets_of_the_archive(tmp_path: Path) -> None:
    import _otf2

    with Archive(tmp_path / "scorep", 2) as archive:
        for rank in range(2):
            for when in (1000, 2000, 3000):
                reported = (CollectiveOp.BARRIER, NO_ROOT, 0, 0)
                archive.collective(rank, "MPI_Barrier", when, when + 10, *reported)
        handle = archive.writer._event_writers[archive.locations[1]._ref]._def_handle
        for when, offset in ((1000, 500), (3000, 700)):
            _otf2.DefWriter_WriteClockOffset(handle, when, offset, 0.0)
    events = mpiprof.open(archive.anchor).events
    assert events["enter_ns"].tolist() == [1000, 2000, 3000, 1500, 2600, 3700]


def test_communicators_roots_and_requests(tmp_path: Path) -> None:
    with Archive(tmp_path / "scorep", 4) as archive:
        odd = archive.communicator("odd", [3, 1])
        for rank in (3, 1):
            reported = (CollectiveOp.BCAST, 0, 128 if rank == 3 else 0, 64, odd)
            archive.collective(rank, "MPI_Bcast", 100 + rank, 200, *reported)
        start, wait = archive.region("MPI_Iallgather"), archive.region("MPI_Wait")
        for rank in range(4):
            events = archive.events(rank)
            events.enter(300 + rank, start)
            events.non_blocking_collective_request(305, 77)
            events.leave(310, start)
            events.enter(400, wait)
            events.non_blocking_collective_complete(
                450, CollectiveOp.ALLGATHER, archive.world, NO_ROOT, 32, 32, 77
            )
            events.leave(460, wait)
    trace = mpiprof.open(archive.anchor)
    events = trace.events.set_index(["operation", "rank"])
    bcast = events.loc["bcast"]
    assert bcast["root"].to_dict() == {1: 3, 3: 3}
    assert bcast["bytes"].to_dict() == {1: 0, 3: 64}
    assert bcast["received"].to_dict() == {1: 64, 3: 0}
    gather = events.loc["iallgather"]
    assert set(gather["completion_enter_ns"]) == {400} and set(gather["bytes"]) == {8}
    assert set(gather["completion_exit_ns"]) == {460} and set(gather["exit_ns"]) == {310}
    assert trace.instances["complete"].all()


def test_without_records_calls_are_taken_for_the_worlds(tmp_path: Path) -> None:
    trace = mpiprof.open(solver(tmp_path / "scorep", record=False))
    assert len(trace.instances) == 3 and trace.instances["complete"].all()
    assert trace.events["bytes"].isna().all()
    assert any("12 calls have no communicator" in line for line in trace.problems)


# ---- begin and end of the run


def write_run(folder: Path, *, finalize: bool = True) -> Path:
    """Write an archive of 2 ranks with 200 ms in MPI_Init, and user code before and after MPI."""
    with Archive(folder, 2) as archive:
        for rank in range(2):
            events = archive.events(rank)
            events.enter(1_000_000, archive.main)
            archive.collective(rank, "MPI_Init_thread", 2_000_000, 200_000_000 + rank)
            for begin in (201_000_000, 203_000_000):
                reported = (CollectiveOp.ALLREDUCE, NO_ROOT, 8, 8)
                begins = begin + 500_000 * rank
                archive.collective(rank, "MPI_Allreduce", begins, begin + 600_000, *reported)
            if finalize:
                archive.collective(rank, "MPI_Finalize", 205_000_000, 300_000_000)
            events.leave(301_000_000, archive.main)
    return archive.anchor


def test_the_run_of_an_archive_is_between_init_and_finalize(tmp_path: Path) -> None:
    trace = mpiprof.open(write_run(tmp_path / "scorep"))
    assert trace.spans == {0: (200_000_000, 205_000_000), 1: (200_000_001, 205_000_000)}
    assert trace.run_ns == trace.duration_ns == 5_000_000
    assert set(trace.events["operation"]) == {"allreduce"}


def test_an_archive_without_finalize_ends_with_its_last_event(tmp_path: Path) -> None:
    trace = mpiprof.open(write_run(tmp_path / "scorep", finalize=False))
    assert trace.spans[0] == (200_000_000, 301_000_000)


def test_the_run_of_an_archive_survives_an_export(tmp_path: Path) -> None:
    anchor = str(write_run(tmp_path / "scorep"))
    assert export(anchor, "--to", "otf2", "-o", tmp_path / "again").returncode == 0
    again = mpiprof.open(tmp_path / "again")
    assert again.spans == mpiprof.open(anchor).spans and again.is_complete


# ---- unreadable archives


def test_an_archive_that_has_changed_is_read_anew(tmp_path: Path) -> None:
    anchor = solver(tmp_path / "scorep")
    assert len(mpiprof.open(anchor).events) == 12
    shutil.rmtree(tmp_path / "scorep")
    solver(tmp_path / "new", record=False)
    shutil.copytree(tmp_path / "new", tmp_path / "scorep")
    assert mpiprof.open(anchor).events["bytes"].isna().all()


def test_archives_without_mpi_or_without_their_parts(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such OTF2 archive"):
        mpiprof.open(tmp_path / "traces.otf2")
    (tmp_path / "traces.otf2").write_text("nothing")
    with pytest.raises(TraceError, match="not the anchor file"):
        mpiprof.open(tmp_path / "traces.otf2")
    with otf2.writer.open(str(tmp_path / "plain")) as writer:
        node = writer.definitions.system_tree_node("node")
        group = writer.definitions.location_group("p", system_tree_parent=node)
        events = writer.event_writer("main", group=group)
        region = writer.definitions.region("main")
        events.enter(1, region)
        events.leave(2, region)
    with pytest.raises(TraceError, match="no MPI collectives"):
        mpiprof.open(tmp_path / "plain" / "traces.otf2")
    anchor = solver(tmp_path / "scorep")
    anchor.with_suffix(".def").unlink()
    with pytest.raises(TraceError, match="definitions"):
        mpiprof.open(anchor)


@pytest.mark.parametrize("retained", [0, 40, 200])
def test_events_that_are_cut_off(tmp_path: Path, retained: int) -> None:
    anchor = solver(tmp_path / "scorep")
    (file,) = (tmp_path / "scorep" / "traces").glob("2.evt")
    file.write_bytes(file.read_bytes()[:retained])
    trace = mpiprof.open(anchor)
    assert not trace.is_complete
    assert any("truncated or damaged" in line for line in trace.problems)
    assert sorted(set(trace.events["rank"]) | {2}) == [0, 1, 2, 3]


def test_a_name_that_is_no_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One line, without the traceback that the wheel prints as well."""
    again(mixed(tmp_path / "trace"), tmp_path / "archive")
    shutil.rmtree(tmp_path / "archive" / "traces.mpiprof")
    definitions = tmp_path / "archive" / "traces.def"
    content = definitions.read_bytes()
    definitions.write_bytes(content.replace(b"MPI_Allreduce", b"MPI_\xcd\xcdlreduce"))
    capfd.readouterr()
    code = main(["report", str(tmp_path / "archive" / "traces.otf2")])
    err = capfd.readouterr().err
    assert code == 1 and len(err.splitlines()) == 1 and "its definitions are damaged" in err


def test_without_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchor = solver(tmp_path / "scorep")
    monkeypatch.setitem(__import__("sys").modules, "_otf2", None)
    library.import_otf2.cache_clear()
    with pytest.raises(MpiprofError, match=re.escape(install_command("otf2"))):
        mpiprof.open(anchor)
    monkeypatch.undo()
    library.import_otf2.cache_clear()


def test_an_archive_is_written_into_a_new_folder(tmp_path: Path) -> None:
    trace = mixed(tmp_path / "trace")
    assert export(trace, "--to", "otf2", "-o", trace).returncode == 2
    assert export(trace, "--to", "otf2", "-o", tmp_path / "no" / "where").returncode == 2
    (tmp_path / "empty").mkdir()
    assert export(trace, "--to", "otf2", "-o", tmp_path / "empty").returncode == 0
    assert not list(tmp_path.glob(".*"))


# ---- parts
