"""The network switch of a node, from Slurm's environment of each process, or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from dashboard.timeline import build
from dashboard.timeline.window import MissingTiles, Request, Timeline
from mpiprof.errors import TraceError
from mpiprof.formats import cache
from mpiprof.trace import network_topology

# Output of `scontrol show topology`, and a topology.conf with comments.
SHOWN = """\
SwitchName=core Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=leaf[0-1]
SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n1,n[2-3]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n0
"""
CONF = "# ours\nSwitchName=a Nodes=r[1-2]n[08-10],login # rack 1\nSwitchName=top Switches=a\n\n"


@pytest.mark.parametrize(
    ("names", "pattern", "host", "expected"),
    [
        ("core.leaf3.node12", "switch.switch.node", "node12", "leaf3"),
        ("core.leaf3.node12", "switch.switch.node", "node12.cluster.org", "leaf3"),
        ("s[0-1].leaf3.node12", "switch.switch.node", "node12", "leaf3"),
        # The launcher's address, not that of the process.
        ("core.leaf3.node12", "switch.switch.node", "node13", ""),
        ("node12", "node", "node12", ""),
        ("core", "switch.node", "core", ""),
        ("", "", "node12", ""),
    ],
)
def test_the_leaf_of_an_address(names: str, pattern: str, host: str, expected: str) -> None:
    assert network_topology.leaf_switch((names, pattern), host) == expected


def test_a_file_of_switches(tmp_path: Path) -> None:
    file = tmp_path / network_topology.FILE
    file.write_text(SHOWN)
    assert network_topology.read(file) == {
        "n1": "leaf0",
        "n2": "leaf0",
        "n3": "leaf0",
        "n0": "leaf1",
    }
    file.write_text(CONF)
    hosts = [f"r{rack}n{number}" for rack in "12" for number in ("08", "09", "10")]
    assert network_topology.read(file) == dict.fromkeys([*hosts, "login"], "a")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "line",
    [
        "leaf0: n0 n1",
        "SwitchName=a",
        "SwitchName=a Nodes=n[0-",
        "SwitchName=a Nodes=n[x]",
        "SwitchName=a Nodes=n[0-99999999]",
    ],
)
def test_a_file_that_is_none_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / network_topology.FILE
    file.write_text("SwitchName=b Nodes=m\n" + line + "\n")
    with pytest.raises(TraceError, match=r"switches\.txt: line 2 "):
        network_topology.read(file)


def rows(folder: Path, text: str) -> tuple[list[list[int]], dict[str, Any]]:
    """Return the rows of a trace with network switches from a file, and their labels."""
    trace = Synthetic(6, nodes=[r % 2 for r in range(6)], offsets=(0, 0), drifts=(0.0, 0.0))
    trace.add_collective("allreduce", np.arange(6) + 5000, np.full(6, 6000))
    trace.write(folder)
    (folder / network_topology.FILE).write_text(text)
    opened = mpiprof.open(folder)
    key = cache.compute_key(opened)
    timeline = Timeline(opened, build.open_or_build(opened, key), key)
    whole = (0, timeline.length_ns, 100, "operation", "switches", frozenset(""), np.arange(6))
    shown = timeline.resolve(Request(*whole))
    assert not isinstance(shown, MissingTiles)
    head, _ = timeline.render_overview(Request(*whole), shown)
    return [r.tolist() for r in shown.rows.ranks], head


def test_a_row_is_a_switch(tmp_path: Path) -> None:
    found, head = rows(tmp_path, SHOWN)
    assert found == [[0, 2, 4], [1, 3, 5]]
    assert head["switches"] == ["leaf1", "leaf0"] and head["hosts"] == ["n0", "n1"]


def test_ranks_without_a_switch_have_a_separate_row(tmp_path: Path) -> None:
    found, head = rows(tmp_path, "SwitchName=leaf0 Nodes=n1\n")
    assert found == [[1, 3, 5], [0, 2, 4]] and head["switches"] == ["leaf0", ""]


def test_a_row_of_several_nodes_names_the_first_and_counts(tmp_path: Path) -> None:
    found, head = rows(tmp_path, "SwitchName=leaf Nodes=n[0-1]\n")
    assert found == [list(range(6))]
    assert head["hosts"] == ["n0 +1"] and head["switches"] == ["leaf"]
