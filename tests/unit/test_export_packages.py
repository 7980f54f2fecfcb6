"""Exports as read by other tools' packages: Perfetto's protobuf, and Hatchet."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import hatchet
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
from support.export_trace import HOSTILE, export, mixed
from support.synthetic import Synthetic

import mpiprof
from mpiprof.formats import perfetto_protobuf
from mpiprof.interface.installation import install_command
from mpiprof.trace import Trace

SUMS = ("total_wait_ns", "caused_ns", "lateness_ns")
TEXTS = {"event_names": "name", "event_categories": "name", "debug_annotation_names": "name"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed(tmp_path_factory.mktemp("export") / "trace")


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return mpiprof.open(folder)


# ---- Perfetto's protobuf


class Parsed:
    """Content of the messages: track names, and each track's slices as Perfetto nests them."""

    def __init__(self, content: bytes) -> None:
        self.texts: dict[str, dict[int, str]] = defaultdict(dict)
        self.tracks: dict[int, tuple[str, int]] = {}
        self.slices: list[dict[str, Any]] = []
        self.facts: dict[str, str] = {}
        open_: dict[int, list[dict[str, Any]]] = defaultdict(list)
        last: dict[int, int] = {}
        cleared = False
        for packet in perfetto_trace_pb2.Trace.FromString(content).packet:
            cleared |= bool(packet.sequence_flags & packet.SEQ_INCREMENTAL_STATE_CLEARED)
            self._read_texts(packet.interned_data)
            for entry in packet.chrome_events.metadata:
                self.facts[entry.name] = entry.string_value
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                name = track.thread.thread_name or track.process.process_name
                self.tracks[track.uuid] = (name, track.parent_uuid)
            if packet.HasField("track_event"):
                assert cleared, "texts by number need this flag once, before"
                event = packet.track_event
                assert event.track_uuid in self.tracks
                assert packet.timestamp >= last.get(event.track_uuid, 0), "in order on a track"
                last[event.track_uuid] = packet.timestamp
                if event.type == event.TYPE_SLICE_END:
                    open_[event.track_uuid].pop()["end"] = packet.timestamp
                else:
                    self.slices.append(self._begun(packet))
                    if event.type == event.TYPE_SLICE_BEGIN:
                        open_[event.track_uuid].append(self.slices[-1])

    def _read_texts(self, data: Any) -> None:
        for kind, field in TEXTS.items():
            for entry in getattr(data, kind):
                self.texts[kind][entry.iid] = getattr(entry, field)
        for entry in data.debug_annotation_string_values:
            self.texts["values"][entry.iid] = entry.str.decode()

    def _begun(self, packet: Any) -> dict[str, Any]:
        event, texts = packet.track_event, self.texts
        reported = {
            texts["debug_annotation_names"][a.name_iid]: (
                texts["values"][a.string_value_iid] if a.string_value_iid else a.int_value
            )
            for a in event.debug_annotations
        }
        return {
            "track": event.track_uuid,
            "name": texts["event_names"][event.name_iid],
            "category": texts["event_categories"][event.category_iids[0]],
            "instant": event.type == event.TYPE_INSTANT,
            "begin": packet.timestamp,
            "end": None,
            "told": reported,
            "flows": list(event.flow_ids),
        }


@pytest.fixture(scope="module")
def parsed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    path = tmp_path_factory.mktemp("perfetto") / "t.pftrace"
    done = export(folder, "--to", "pftrace", "-o", path)
    assert (done.returncode, done.stderr) == (0, "")
    return Parsed(path.read_bytes())


def test_tracks_are_threads_of_their_nodes(parsed: Parsed) -> None:
    nodes = {perfetto_protobuf.NODE_UUID_BASE + i: (f"node n{i - 1}", 0) for i in (1, 2)}
    ranks = {1 + r: (f"rank {r}", perfetto_protobuf.NODE_UUID_BASE + 1 + r // 2) for r in range(4)}
    assert parsed.tracks == nodes | ranks


def test_each_call_is_a_slice_with_its_exact_times(parsed: Parsed, trace: Trace) -> None:
    def of(row: dict[str, Any]) -> tuple[Any, ...]:
        end = row["end"]
        return (
            row["track"] - 1,
            row["name"],
            row["begin"] + trace.calls_start_ns,
            -1 if end is None else end + trace.calls_start_ns,
            *(row["told"].get(name, -1) for name in ("sequence", "bytes", "root")),
            row["told"]["site"],
            row["told"]["algorithm"],
        )

    found = [of(row) for row in parsed.slices if row["category"] == "collective"]
    events = trace.events
    for name in ("exit_ns", "bytes", "root"):
        events[name] = events[name].fillna(-1)
    names = ["rank", "operation", "enter_ns", "exit_ns", "sequence", "bytes", "root"]
    known = list(events[[*names, "site", "algorithm"]].itertuples(index=False, name=None))
    assert sorted(found) == sorted(known)
    assert any(HOSTILE in row[-2] for row in found)
    instants = [row for row in parsed.slices if row["instant"]]
    assert len(instants) == int((trace.events["start"] > 0).sum())


def test_what_completed_calls_is_a_slice_once(parsed: Parsed, trace: Trace) -> None:
    begun = trace.calls_start_ns
    found = [
        (row["track"] - 1, row["begin"] + begun, row["end"] + begun)
        for row in parsed.slices
        if row["category"] == "completion"
    ]
    columns = ["rank", "completion_enter_ns", "completion_exit_ns"]
    waits = trace.events.dropna(subset=columns)[columns]
    assert sorted(found) == sorted(set(waits.itertuples(index=False, name=None)))


def test_calls_of_an_instance_share_a_flow(parsed: Parsed, trace: Trace) -> None:
    flows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in parsed.slices:
        for flow in row["flows"]:
            flows[flow].append(row)
    several = trace.instances[trace.instances["start"] == 0]
    assert len(flows) == len(several)
    for rows in flows.values():
        assert len({(r["told"]["communicator"], r["told"]["sequence"]) for r in rows}) == 1
        assert len({r["track"] for r in rows}) == len(rows)


def test_the_export_describes_the_run(parsed: Parsed, trace: Trace) -> None:
    assert parsed.facts["program"] == "synthetic.py"
    assert json.loads(parsed.facts["duration_ns"]) == trace.duration_ns
    assert json.loads(parsed.facts["complete"]) is True


def test_a_slice_of_no_length_does_not_end_another(tmp_path: Path) -> None:
    """A Wait that ends when the next call begins, and one without duration."""
    synthetic = Synthetic(2)
    for base in (5_000, 6_000):
        begin, end = [[base, base]], [[base + 1_000] * 2]
        synthetic.add_collective("ibarrier", begin, [[base + 10] * 2], completions=(end, end))
    folder = synthetic.write(tmp_path / "trace")
    assert export(folder, "--to", "pftrace", "-o", tmp_path / "t").returncode == 0
    slices = Parsed((tmp_path / "t.pftrace").read_bytes()).slices
    lengths = [row["end"] - row["begin"] for row in slices]
    assert sorted(lengths) == [0] * 4 + [10] * 4


def test_without_the_package_the_error_names_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "perfetto.protos.perfetto.trace", None)
    perfetto_protobuf._import_messages.cache_clear()
    done = export(folder, "--to", "pftrace", "-o", tmp_path / "t")
    assert (done.returncode, done.stdout) == (1, "")
    assert install_command("perfetto") in done.stderr
    assert not list(tmp_path.iterdir())


# ---- Hatchet


def graph_of(folder: Path, path: Path) -> Any:
    done = export(folder, "--to", "caliper", "-o", path)
    assert (done.returncode, done.stderr) == (0, "")
    return hatchet.GraphFrame.from_caliper(str(path))


def paths_of(graph: Any) -> dict[Any, tuple[str, ...]]:
    """Return the names from the root to each node; nodes do not have links to their parents."""
    found: dict[Any, tuple[str, ...]] = {root: (root.frame["name"],) for root in graph.graph.roots}
    for node in graph.graph.traverse():
        for child in node.children:
            found[child] = (*found[node], child.frame["name"])
    return found


def test_hatchet_reads_the_sums_of_every_rank(folder: Path, trace: Trace, tmp_path: Path) -> None:
    graph = graph_of(folder, tmp_path / "t.json")
    frame = graph.dataframe.reset_index()
    paths = paths_of(graph)
    columns = ["time", "instances", "wait", "caused wait", "lateness"]
    rows = frame[columns].to_numpy().tolist()
    keys = zip(frame["node"], frame["rank"], rows, strict=True)
    found = {(*paths[node], rank): row for node, rank, row in keys}
    places = {}
    for callsite in trace.callsites.to_dict("records"):
        site = callsite["sites"][0]
        place = f"{Path(site['file']).name}:{site['line']} {site['function']}"
        name = f"MPI_{callsite['operation'].capitalize()}"
        places[callsite["callsite"]] = ("synthetic.py", place, name)
    ours: dict[tuple[Any, ...], list[int]] = {}  # an operation and its starts have one call site
    for row in trace.rank_totals.to_dict("records"):
        key = (*places[row["callsite"]], row["rank"])
        values = [row[n] for n in ("elapsed_ns", "instances", *SUMS)]
        ours[key] = [a + b for a, b in zip(values, ours.get(key, [0] * 5), strict=True)]
    assert {len(key) for key in ours} == {4}
    for key, (time, instances, *waits) in ours.items():
        assert found[key] == pytest.approx([time / 1e9, instances, *(w / 1e9 for w in waits)])
    assert all(found[key][1:] == [0] * 4 for key in found.keys() - ours.keys())
    assert graph.default_metric == "time"
    assert graph.metadata["ranks"] == 4


def test_what_is_below_a_root_is_the_time_of_its_rank(
    folder: Path, trace: Trace, tmp_path: Path
) -> None:
    graph = graph_of(folder, tmp_path / "t.json")
    sums = graph.dataframe.reset_index().groupby("rank")["time"].sum()
    spans = [last - first for first, last in trace.spans.values()]
    assert sums.tolist() == pytest.approx([span / 1e9 for span in spans])


def test_frames_of_a_stack_are_a_path(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[5_000, 6_000]], [[9_000, 9_000]], site="a.py:3:inner")
    folder = synthetic.write(tmp_path / "trace")
    for path in folder.glob("*.tables"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "site" in line and "frames" in line:
                line["frames"].append({"file": "b.py", "line": 7, "function": "outer"})
            line.pop("check", None)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    graph = graph_of(folder, tmp_path / "t.json")
    longest = max(paths_of(graph).values(), key=len)
    assert longest == ("synthetic.py", "b.py:7 outer", "a.py:3 inner", "MPI_Barrier")


def test_names_do_not_collide(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for to in ("perfetto", "pftrace", "caliper"):
        assert export(folder, "--to", to).returncode == 0
    names = {"trace.json", "trace.pftrace", "trace-caliper.json"}
    assert {p.name for p in tmp_path.iterdir()} == names


@pytest.mark.parametrize("to", ["pftrace", "caliper"])
def test_a_trace_without_calls(to: str, tmp_path: Path) -> None:
    nothing = Synthetic(2).write(tmp_path / "trace")
    done = export(nothing, "--to", to, "-o", tmp_path / "t")
    assert (done.returncode, done.stderr) == (0, "")
    if to == "caliper":
        assert len(hatchet.GraphFrame.from_caliper(str(tmp_path / "t.json")).dataframe) == 2
    else:
        assert Parsed((tmp_path / "t.pftrace").read_bytes()).slices == []
