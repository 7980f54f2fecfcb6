"""Exports as read by Hatchet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hatchet
import pytest
from support.export_trace import export, mixed
from support.synthetic import Synthetic

import mpiprof
from mpiprof.trace import Trace

SUMS = ("total_wait_ns", "caused_ns", "lateness_ns")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed(tmp_path_factory.mktemp("export") / "trace")


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return mpiprof.open(folder)


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
    for to in ("perfetto", "caliper"):
        assert export(folder, "--to", to).returncode == 0
    assert {p.name for p in tmp_path.iterdir()} == {"trace.json", "trace-caliper.json"}


@pytest.mark.parametrize("to", ["perfetto", "caliper"])
def test_a_trace_without_calls(to: str, tmp_path: Path) -> None:
    nothing = Synthetic(2).write(tmp_path / "trace")
    done = export(nothing, "--to", to, "-o", tmp_path / "t")
    assert (done.returncode, done.stderr) == (0, "")
    if to == "caliper":
        assert len(hatchet.GraphFrame.from_caliper(str(tmp_path / "t.json")).dataframe) == 2
    else:
        events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
        assert {event["ph"] for event in events} == {"M"}
