"""What is taken along: the same numbers as in the trace, in formats that others read."""

from __future__ import annotations

import contextlib
import io
import json
import re
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.analysis import frames, pictures
from mpiprof.reports import columns, html, perfetto, png
from mpiprof.trace import Trace

HOSTILE = "<script>alert('&');<b>\"];.py"
Event = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def export(*words: object) -> Done:
    """Run the verb, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["export", *map(str, words)])
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4 ranks on 2 nodes: blocking, nonblocking and persistent calls, gaps, and one not ended."""
    trace = Synthetic(4, nodes=[0, 0, 1, 1], offsets=[0, 700], drifts=[0.0, 0.0])
    for when in (5_000, 45_000_000):  # exact
        trace.clock(2, 0, when, 0)
    trace.communicator("odd", [1, 3])
    base = 10_000 + 1_000_000 * np.arange(30)[:, None]
    late = np.array([[0, 3_001, 20_007, 500]])
    trace.collective("allreduce", base + late, base + 50_000 + 0 * late, site=f"{HOSTILE}:3:step")
    base = base + 100_000
    trace.collective(
        "bcast",
        base + late,
        base + 30_000 + 0 * late,
        sent=800,
        received=800,
        root=1,
        site="a.py:9:main",
    )
    base = base + 100_000
    begin = base + late
    done = (base + 60_000 + 0 * late, base + 90_000 + late)
    trace.collective("ibarrier", begin, begin + 100, site="a.py:20:main", completions=done)
    odd = base[:, [0, 0]] + 200_000
    trace.collective("allgather", odd, odd + 7, "odd", site="a.py:30:main")
    persistent = [trace.shape(r, "allreduce_init", "world", site="a.py:40:main") for r in range(4)]
    at, number = 40_000_000, trace.sequence["world"]
    for rank, shape in enumerate(persistent):
        trace.add(rank, shape, number, at, at + 10)
        trace.start(rank, shape, number, 1, at + 100, (at + 5_000, at + 6_000 + rank))
    for rank in range(4):  # the last rank never comes
        shape = trace.shape(rank, "barrier", "world", site="a.py:50:main")
        if rank < 3:
            trace.add(rank, shape, number + 1, at + 10_000 + rank, 0)
    trace.ended_ns = at + 1_000_000
    return trace.write(tmp_path_factory.mktemp("export") / "trace")


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return mpiprof.open(folder)


# ---- tables


def test_parquet_gives_back_the_tables(folder: Path, trace: Trace, tmp_path: Path) -> None:
    done = export(folder, "--to", "parquet", "-o", tmp_path / "t.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    for name, known in (("events", trace.events), ("instances", trace.instances)):
        found = pd.read_parquet(tmp_path / f"t-{name}.parquet")
        if name == "instances":  # as they were matched; the whole table is in order
            found = found.sort_values("first_arrival_ns", kind="stable", ignore_index=True)
        assert f"{len(known)} {name}" in done.stdout
        pd.testing.assert_frame_equal(found, known, check_categorical=False)


def test_parquet_says_what_its_columns_mean(folder: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    assert export(folder, "--to", "parquet", "-o", tmp_path / "t").returncode == 0
    for name, meanings in (("events", columns.EVENTS), ("instances", columns.INSTANCES)):
        schema = parquet.read_schema(tmp_path / f"t-{name}.parquet")
        said = {f.name: f.metadata[b"description"].decode() for f in schema}
        assert said == {n: meanings[n] for n in said}
        facts = json.loads(schema.metadata[b"mpiprof"])
        assert (facts["ranks"], facts["program"], facts["complete"]) == (4, "synthetic.py", True)


def test_every_column_is_documented_in_its_order(trace: Trace) -> None:
    for frame, meanings in ((trace.events, columns.EVENTS), (trace.instances, columns.INSTANCES)):
        assert set(frame.columns) <= set(meanings)
        assert list(frame.columns) == [name for name in meanings if name in frame.columns]


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
    monkeypatch.setattr(frames, "PIECE", 50)
    pieces = list(frames.event_pieces(trace))
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
    """As "Trace Event Format" asks for them, by phase."""
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
        return round(time * 1000) + trace.started_ns

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
        assert perfetto.micros(ns) == text
    assert perfetto.micros(2**60 + 1) == "1152921504606846.977"


def test_threads_have_tracks_of_their_own(tmp_path: Path) -> None:
    from mpiprof.bench.synthetic import chunks

    made = Synthetic(2)
    made.collective("barrier", [[5_000, 6_000]], [[9_000, 9_000]])
    made.communicator("side", [0, 1])
    made.collective("barrier", [[5_500, 5_500]], [[9_500, 9_500]], "side")
    folder = made.write(tmp_path / "trace")
    for rank in range(2):  # the second call was another thread's
        path = folder / f"rank-{rank:06d}.log"
        first, second = made.records[rank]
        head = path.read_bytes()[:65536]
        parts = (chunks(r, rank, i, i, window=True) for i, r in enumerate((first, second)))
        path.write_bytes(head + b"".join(parts))
    assert export(folder, "--to", "perfetto", "-o", tmp_path / "t").returncode == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {1: "rank 0", 2: "rank 1", 3: "rank 0, thread 1", 4: "rank 1, thread 1"}
    steps = [e for e in events if e.get("cat") == "instance"]
    assert sorted(e["tid"] for e in steps) == [1, 2, 3, 4]


# ---- pictures and the page


def test_shares_of_time_are_known(tmp_path: Path) -> None:
    """Two ranks in ten columns: a barrier in the second half of one, one not ended in the other."""
    made = Synthetic(2)
    made.started_ns, made.ended_ns = 0, 1_000
    for rank, times in ((0, (550, 875)), (1, (725, 0))):
        made.add(rank, made.shape(rank, "barrier", "world"), 0, *times)
    made.add(0, made.shape(0, "bcast", "world", root=0), 1, 900, 925)
    trace = mpiprof.open(made.write(tmp_path / "trace"))
    shares = pictures.time_shares(trace, 10, 8, lambda _: None)
    assert shares.operations == ("barrier", "bcast")
    barrier = [[0, 0, 0, 0, 0, 0.5, 1, 1, 0.75, 0], [0, 0, 0, 0, 0, 0, 0, 0.75, 1, 1]]
    np.testing.assert_allclose(shares.cells[:, :, 0], barrier)
    assert shares.cells[:, :, 1].sum() == pytest.approx(0.25)
    np.testing.assert_allclose(
        pictures.time_shares(trace, 10, 1, lambda _: None).cells[0], shares.cells.mean(0)
    )


def test_lateness_is_known(trace: Trace) -> None:
    chosen = int(trace.callsites.loc[trace.callsites["operation"] == "bcast", "callsite"].iloc[0])
    site = pictures.sites(trace, [chosen], 7, 100, lambda _: None)[chosen]
    late = [0, 3_001, 20_007, 500]
    np.testing.assert_allclose(site.lateness, np.tile(np.array(late)[:, None], 7))
    np.testing.assert_allclose(site.late, late)
    assert (site.instances, site.last.tolist()) == (30, [0, 0, 30, 0])
    arrivals, _ = trace.matrix(chosen)
    np.testing.assert_allclose(site.worst_imbalance, np.ptp(arrivals, axis=1)[:7])
    assert int(site.ranges.sum()) == 30


def test_a_png_is_read_back() -> None:
    pixels = np.array([[0, 1, 2], [2, 1, 0]], np.uint8)
    made = png.encode(pixels, [(0, 0, 0, 0), (1, 2, 3, 255), (4, 5, 6, 9)])
    parts, at = {}, 8
    while at < len(made):
        length = int.from_bytes(made[at : at + 4])
        kind, data = made[at + 4 : at + 8], made[at + 8 : at + 8 + length]
        assert int.from_bytes(made[at + 8 + length : at + 12 + length]) == zlib.crc32(kind + data)
        parts[kind] = data
        at += 12 + length
    assert parts[b"IHDR"][:8] == (3).to_bytes(4) + (2).to_bytes(4)
    assert zlib.decompress(parts[b"IDAT"]) == b"\0\0\1\2\0\2\1\0"
    assert (parts[b"PLTE"], parts[b"tRNS"]) == (b"\0\0\0\1\2\3\4\5\6", b"\0\xff\x09")


class Elements(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        self.text += data


def test_the_page_stands_alone_and_runs_nothing(folder: Path, tmp_path: Path) -> None:
    done = export(folder, "--to", "html", "-o", tmp_path / "t.html")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "t.html").read_text()
    elements = Elements(page)
    assert HOSTILE in elements.text
    tags = {tag for tag, _ in elements.found}
    assert {"svg", "image", "table"} <= tags
    assert not tags & {"script", "link", "iframe", "img", "object", "embed", "form", "meta-refresh"}
    for _, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        address = attributes.get("href") or "#"
        assert address.startswith(("#", "data:image/png;base64,"))
    assert not re.search(r"url\(|@import", page)
    ids = {a["id"] for _, a in elements.found if "id" in a}
    links = {a["href"][1:] for _, a in elements.found if (a.get("href") or "").startswith("#")}  # type: ignore[index]
    assert links <= ids
    assert len([i for i in links if i and i.startswith("site-")]) >= 4
    assert "Findings" in elements.text


def test_the_page_stays_small(tmp_path: Path) -> None:
    """Many ranks, more call sites than are listed, names of 300 characters and of 100 000."""
    random, ranks, calls = np.random.default_rng(0), 100, html.LISTED + 10
    made = Synthetic(ranks)
    for i in range(calls):
        arrivals = 1_000_000 * i + random.integers(10_000, 500_000, (1, ranks))
        name = "x" * (100_000 if i % 20 == 0 else 300)
        exits = np.full_like(arrivals, 900_000 + 1_000_000 * i)
        made.collective("barrier", arrivals, exits, site=f"a:{i}:{name}")
    made.ended_ns = 1_000_000 * (calls + 1)
    page = html.page(mpiprof.open(made.write(tmp_path / "trace")), lambda _: None)
    assert len(page) < 1_000_000


def test_pictures_of_noise_stay_small() -> None:
    """Nothing is larger than what can't be compressed."""

    def noise(rows: int, columns: int) -> int:
        pixels = np.random.default_rng(0).integers(0, 255, (rows, columns), np.uint8)
        return len(png.address(png.encode(pixels, [(0, 0, 0, 0)] * 255)))

    sites = html.DRAWN * noise(html.SITE_ROWS, html.SITE_COLUMNS)
    assert sites + noise(html.ROWS, html.COLUMNS) < 2_000_000


def test_a_summary_has_a_page(tmp_path: Path) -> None:
    made = Synthetic(2)
    made.meta["record"] = "summary"
    folder = made.write(tmp_path / "trace")
    assert export(folder, "--to", "html", "-o", tmp_path / "t").returncode == 0
    done = export(folder, "--to", "csv", "-o", tmp_path / "t")
    assert done.returncode == 1
    assert "recorded as summary" in done.stderr


# ---- the command


def test_names_and_what_comes_next(
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
        (["TRACE", "--to", "csv", "-o", "/no/such/file"], 2, "there is no folder /no/such"),
        (["EMPTY", "--to", "html"], 1, "no mpiprof trace in it"),
        (["TRACE", "--to", "html", "-o", "/proc/none.html"], 1, "none.html can't be written"),
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
    from mpiprof.commands.export import finished

    path = tmp_path / "t.json"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), finished(path) as unfinished:
        unfinished.write_text("half")
        _ = 1 / 0
    assert [p.read_text() for p in tmp_path.iterdir()] == ["before"]


@pytest.mark.everything
def test_parquet_at_a_million_events_a_second(tmp_path: Path) -> None:
    from mpiprof.bench.reading import write

    folder = tmp_path / "trace"
    folder.mkdir()
    events = write(folder, 5_000_000, 16)
    began = time.monotonic()
    assert export(folder, "--to", "parquet", "-o", tmp_path / "t").returncode == 0
    assert events / (time.monotonic() - began) > 1e6
