"""Exports: the same numbers as in the trace, in formats that other tools read."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.export_trace import HOSTILE, export, mixed
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account import tables
from mpiprof.formats import export_columns, perfetto_json
from mpiprof.trace import Trace

Event = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed(tmp_path_factory.mktemp("export") / "trace")


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return mpiprof.open(folder)


# ---- tables


def test_parquet_gives_back_the_tables(folder: Path, trace: Trace, tmp_path: Path) -> None:
    done = export(folder, "--to", "parquet", "-o", tmp_path / "t.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    for name, known in (("events", trace.events), ("instances", trace.instances)):
        found = pd.read_parquet(tmp_path / f"t-{name}.parquet")
        if name == "instances":  # in matching order; the whole table is sorted
            found = found.sort_values("first_arrival_ns", kind="stable", ignore_index=True)
        assert f"{len(known)} {name}" in done.stdout
        pd.testing.assert_frame_equal(found, known, check_categorical=False)


def test_parquet_describes_its_columns(folder: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    assert export(folder, "--to", "parquet", "-o", tmp_path / "t").returncode == 0
    for name, meanings in (
        ("events", export_columns.EVENT_COLUMNS),
        ("instances", export_columns.of_instances()),
    ):
        schema = parquet.read_schema(tmp_path / f"t-{name}.parquet")
        printed = {f.name: f.metadata[b"description"].decode() for f in schema}
        assert printed == {n: meanings[n] for n in printed}
        facts = json.loads(schema.metadata[b"mpiprof"])
        assert (facts["ranks"], facts["program"], facts["complete"]) == (4, "synthetic.py", True)


def test_every_column_is_documented_in_its_order(trace: Trace) -> None:
    for frame, meanings in (
        (trace.events, export_columns.EVENT_COLUMNS),
        (trace.instances, export_columns.of_instances()),
    ):
        assert list(frame.columns) == list(meanings)


def test_csv_gives_back_the_tables(folder: Path, trace: Trace, tmp_path: Path) -> None:
    assert export(folder, "--to", "csv", "-o", tmp_path / "t.csv").returncode == 0
    for name, known in (("events", trace.events), ("instances", trace.instances)):
        found = pd.read_csv(tmp_path / f"t-{name}.csv", keep_default_na=False, na_values=[""])
        if name == "instances":
            found = found.sort_values("first_arrival_ns", kind="stable", ignore_index=True)
        assert list(found.columns) == list(known.columns)
        for column in known:
            if isinstance(known[column].dtype, pd.CategoricalDtype):
                texts = found[column].astype(object).fillna("")
                assert texts.tolist() == known[column].astype(str).tolist()
            else:
                there = known[column].to_numpy(np.float64, na_value=np.nan)
                np.testing.assert_array_equal(found[column].to_numpy(np.float64), there)


def test_pieces_are_the_whole(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_ROWS", 50)
    pieces = list(tables.make_event_pieces(trace))
    assert len(pieces) > 3
    pd.testing.assert_frame_equal(pd.concat(pieces, ignore_index=True), trace.events)


def test_a_trace_without_calls(tmp_path: Path) -> None:
    nothing = Synthetic(2).write(tmp_path / "trace")
    for to in ("csv", "parquet", "perfetto", "html"):
        done = export(nothing, "--to", to, "-o", tmp_path / to)
        assert (done.returncode, done.stderr) == (0, ""), to
    assert len(pd.read_parquet(tmp_path / "parquet-instances.parquet")) == 0
    assert len(pd.read_csv(tmp_path / "csv-events.csv")) == 0
    assert "No collective operation was recorded" in (tmp_path / "html.html").read_text()


# ---- Perfetto


@pytest.fixture(scope="module")
def exported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    path = tmp_path_factory.mktemp("perfetto") / "t.json"
    done = export(folder, "--to", "perfetto", "-o", path)
    assert (done.returncode, done.stderr) == (0, "")
    whole = json.loads(path.read_text())
    assert whole["displayTimeUnit"] in ("ms", "ns")
    events: list[Event] = whole["traceEvents"]
    return events


def test_events_have_the_fields_of_the_format(exported: list[Event]) -> None:
    """As required by the "Trace Event Format", by phase."""
    needed = {
        "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"},
        "B": {"name", "cat", "ts", "pid", "tid", "args"},
        "i": {"name", "cat", "ts", "pid", "tid", "s", "args"},
        **{ph: {"name", "cat", "id", "ts", "pid", "tid"} for ph in "st"},
        "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
    }
    for event in exported:
        for field, kind in (("ts", float), ("dur", float), ("pid", int), ("tid", int)):
            assert isinstance(event.get(field, kind()), kind)
        if event["ph"] == "M":
            assert event["name"] in {
                f"{what}_{which}"
                for what in ("process", "thread")
                for which in ("name", "sort_index")
            }
            assert set(event["args"]) == {event["name"].split("_", 1)[1]}
        else:
            assert set(event) - {"ph"} == needed[event["ph"]]
            assert event["ts"] >= 0
            assert event.get("dur", 0.0) >= 0
            assert event.get("s", "t") == "t"
            assert event.get("bp", "e") == "e"


def test_ranks_are_tracks_of_their_nodes(exported: list[Event]) -> None:
    names = {
        (e["name"], e["pid"], e.get("tid")): e["args"]["name"]
        for e in exported
        if e["name"] in ("process_name", "thread_name")
    }
    ranks = {("thread_name", 1 + r // 2, 1 + r): f"rank {r}" for r in range(4)}
    nodes = {("process_name", 1, None): "node n0", ("process_name", 2, None): "node n1"}
    assert names == nodes | ranks


def test_each_call_is_an_event_with_its_exact_times(exported: list[Event], trace: Trace) -> None:
    def ns(time: float) -> int:
        return round(time * 1000) + trace.calls_start_ns

    found = sorted(
        (
            e["tid"] - 1,
            e["name"],
            ns(e["ts"]),
            ns(e["ts"]) + round(e["dur"] * 1000) if e["ph"] == "X" else -1,
            e["args"]["sequence"],
        )
        for e in exported
        if e.get("cat") == "collective"
    )
    known = trace.events.assign(exit_ns=trace.events["exit_ns"].fillna(-1))
    names = ["rank", "operation", "enter_ns", "exit_ns", "sequence"]
    assert found == sorted(known[names].itertuples(index=False, name=None))
    sites = {e["args"]["site"] for e in exported if e.get("cat") == "collective"}
    assert f"{HOSTILE}:3 step" in sites
    waits = [e for e in exported if e.get("cat") == "completion"]
    assert len(waits) == int(trace.events["completion_exit_ns"].notna().sum())


def test_instances_are_flows_through_their_calls(exported: list[Event], trace: Trace) -> None:
    flows: dict[int, list[Event]] = defaultdict(list)
    calls: dict[tuple[int, float], Event] = {}
    for event in exported:
        if event["ph"] in ("s", "t", "f"):
            flows[event["id"]].append(event)
        elif event["ph"] in ("X", "B") and event["cat"] == "collective":
            calls[event["tid"], event["ts"]] = event
    several = trace.instances[trace.instances["start"] == 0]
    assert len(flows) == len(several)
    for steps in flows.values():
        assert "".join(s["ph"] for s in steps) == "s" + "t" * (len(steps) - 2) + "f"
        assert [s["ts"] for s in steps] == sorted(s["ts"] for s in steps)
        joined = [calls[s["tid"], s["ts"]] for s in steps]
        assert (
            len({(c["name"], c["args"]["sequence"], c["args"]["communicator"]) for c in joined})
            == 1
        )
        assert len({s["tid"] for s in steps}) == len(steps)


def test_microseconds_are_exact() -> None:
    for ns, text in ((0, "0.000"), (7, "0.007"), (12_345, "12.345"), (-1_001, "-1.001")):
        assert perfetto_json.format_us(ns) == text
    assert perfetto_json.format_us(2**60 + 1) == "1152921504606846.977"


def test_threads_have_separate_tracks(tmp_path: Path) -> None:
    from mpiprof.trace.writer import make_chunks

    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[5_000, 6_000]], [[9_000, 9_000]])
    synthetic.add_communicator("side", [0, 1])
    synthetic.add_collective("barrier", [[5_500, 5_500]], [[9_500, 9_500]], "side")
    folder = synthetic.write(tmp_path / "trace")
    for rank in range(2):  # the second call was in another thread
        path = folder / f"rank-{rank:06d}.log"
        first, second = synthetic.records[rank]
        head = path.read_bytes()[:65536]
        parts = (make_chunks(r, rank, i, i, window=True) for i, r in enumerate((first, second)))
        path.write_bytes(head + b"".join(parts))
    assert export(folder, "--to", "perfetto", "-o", tmp_path / "t").returncode == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {1: "rank 0", 2: "rank 1", 3: "rank 0, thread 1", 4: "rank 1, thread 1"}
    steps = [e for e in events if e.get("cat") == "instance"]
    assert sorted(e["tid"] for e in steps) == [1, 2, 3, 4]


# ---- the command


def test_names_and_next_commands(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = export(folder, "--to", "perfetto")
    assert (tmp_path / "trace.json").exists()
    assert "next: open it at https://ui.perfetto.dev" in done.stdout
    export(folder, "--to", "csv", "-o", "run.v2")
    assert {p.name for p in tmp_path.iterdir()} == {
        "trace.json",
        "run.v2-events.csv",
        "run.v2-instances.csv",
    }


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["TRACE"], 2, "--to"),
        (["TRACE", "--to", "pdf"], 2, "pdf"),
        (["nowhere", "--to", "csv"], 2, "no such trace folder"),
        (["TRACE", "--to", "csv", "-o", "/"], 2, "is a folder"),
        (["TRACE", "--to", "csv", "-o", "/no/such/file"], 2, "no such folder /no/such"),
        (["EMPTY", "--to", "html"], 2, "no mpiprof trace in it"),
        (["TRACE", "--to", "html", "-o", "/proc/none.html"], 1, "none.html cannot be written"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], code: int, says: str, folder: Path, tmp_path: Path
) -> None:
    places = {"TRACE": str(folder), "EMPTY": str(tmp_path)}
    done = export(*(places.get(word, word) for word in words))
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_export_that_fails_leaves_no_half_file(tmp_path: Path) -> None:
    from mpiprof.interface.output_files import write_atomically

    path = tmp_path / "t.json"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), write_atomically(path) as unfinished:
        unfinished.write_text("half")
        _ = 1 / 0
    assert [p.read_text() for p in tmp_path.iterdir()] == ["before"]
