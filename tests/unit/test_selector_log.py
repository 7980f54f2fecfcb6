"""Reading and reporting of the selector's log, and the choice in records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.jobs import run
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.trace import selector_log
from mpiprof.trace.checksum import add_checksum
from mpiprof.trace.writer import RECORD_TYPE

KEY = {"kind": "key", "key": "0f", "communicator": "8c", "operation": "allgatherv"}
LINES = [
    KEY | {"bytes": 1048576, "root": None, "size": 16, "sites": ["md.py:93 exchange"]},
    {"kind": "phase", "key": "0f", "phase": 1, "instance": 9, "why": "start", "score_ns": 4e6},
    {"kind": "trial", "key": "0f", "phase": 1, "algorithm": "native", "instances": 9}
    | {"score_ns": 4_000_000, "error_ns": 100_000, "predicted_ns": 0},
    {"kind": "trial", "key": "0f", "phase": 1, "algorithm": "ring", "instances": 6}
    | {"score_ns": 1_500_000, "predicted_ns": 1_200_000},
    {"kind": "choice", "key": "0f", "phase": 1, "instance": 40, "algorithm": "ring"}
    | {"why": "faster by more than the noise"},
    {"kind": "phase", "key": "0f", "phase": 2, "instance": 160, "why": "imbalance"}
    | {"imbalance_ns": 3_000_000, "score_ns": 2e6},
    {"kind": "omitted", "key": "0f", "phase": 2, "algorithm": "bruck", "excess": 1.31}
    | {"why": "the model excludes it"},
    {"kind": "choice", "key": "0f", "phase": 2, "instance": 190, "algorithm": "native"}
    | {"why": "nothing was faster"},
    KEY | {"key": "aa", "operation": "bcast", "bytes": 8, "root": 0, "size": 4, "sites": []},
    {"kind": "end", "key": "0f", "instances": 300, "probes": 38, "algorithm": "native"}
    | {"saved_ns": 250_000_000},
]


def folder(path: Path, text: str | None) -> Path:
    """Write a trace with this selector log."""
    synthetic = Synthetic(2)
    synthetic.add_collective("allgatherv", [[10, 20]], [[30, 30]], site="md.py:93:exchange")
    synthetic.write(path)
    if text is not None:
        (path / selector_log.FILE).write_text(text)
    return path


def noted(path: Path) -> Path:
    return folder(path, "".join(json.dumps(line) + "\n" for line in LINES))


def test_every_line_is_read(tmp_path: Path) -> None:
    tables = mpiprof.open(noted(tmp_path / "t")).selection
    assert {kind: len(table) for kind, table in tables.items()} == {
        "key": 2, "phase": 2, "trial": 2, "omitted": 1, "choice": 2, "end": 1
    }  # fmt: skip
    assert tables["trial"]["score_ns"].tolist() == [4e6, 1.5e6]
    assert tables["key"]["sites"].tolist() == [["md.py:93 exchange"], []]
    assert np.isnan(tables["key"]["root"][0]) and tables["key"]["root"][1] == 0


def test_without_notes_the_tables_are_empty(tmp_path: Path) -> None:
    tables = mpiprof.open(folder(tmp_path / "t", None)).selection
    assert list(tables) == list(selector_log.REQUIRED_FIELDS)
    assert all(len(table) == 0 and "key" in table for table in tables.values())


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "end", "key": "0f", "instances": 3',  # cut by a killed job
        '{"kind": "end", "key": "0f", "instances": 3, "algorithm": 5}\n',
        '{"kind": "end", "key": "0f", "instances": 1e300, "algorithm": "ring"}\n',
        '{"kind": "end", "key": "0f", "instances": NaN, "algorithm": "ring"}\n',
        '{"kind": "later", "key": "0f"}\n',
        '{"kind": ["end"], "key": "0f"}\n',
        "[" * 10_000 + "\n",
        '"text"\n',
        "\0\0\n",
    ],
)
def test_what_is_no_note_is_left_out(tmp_path: Path, line: str) -> None:
    path = folder(tmp_path / "t", json.dumps(LINES[0]) + "\n" + line)
    assert [row["kind"] for row in selector_log.read(path)] == ["key"]


def test_a_log_line_with_a_damaged_checksum_is_skipped(tmp_path: Path) -> None:
    """Damage to the word "check" must not make a line look like one from before checksums."""
    end = {"kind": "end", "key": "0f", "instances": 3, "algorithm": "ring"}
    lines = [add_checksum(json.dumps(line).encode()) for line in (LINES[0], end)]
    (tmp_path / selector_log.FILE).write_bytes(b"\n".join([*lines, b""]))
    assert [row["kind"] for row in selector_log.read(tmp_path)] == ["key", "end"]
    damaged = lines[1].replace(b"check", b"chegk")
    (tmp_path / selector_log.FILE).write_bytes(b"\n".join([lines[0], damaged, b""]))
    assert [row["kind"] for row in selector_log.read(tmp_path)] == ["key"]


def test_the_report_states_each_selection_and_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = noted(tmp_path / "t")
    assert main(["report", str(path), "--all"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Algorithms chosen" in text
    assert (
        "1. allgatherv of 1.00 MB at md.py:93 exchange on 16 ranks: native. 300 instances" in text
    )
    assert "38 of them probes; saved 250 ms a rank" in text
    assert "phase 1 from instance 9; ring from instance 40: faster by more than the noise" in text
    assert "phase 2 from instance 160, as the imbalance changed" in text
    assert "1 ring 6 1.50 ms – 1.20 ms" in text
    excluded = "(the model excludes it: half of its prediction is 1.31 times the best time)"
    assert f"not tried: bruck {excluded}" in text
    assert main(["report", str(path), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["selection"]
    assert (first["algorithm"], first["probes"], first["saved_ns"]) == ("native", 38, 250_000_000)
    assert [phase["why"] for phase in first["phases"]] == ["start", "imbalance"]
    assert [t["algorithm"] for t in first["phases"][0]["trials"]] == ["native", "ring"]
    assert first["mode"] == "auto"
    assert first["phases"][1]["choices"] == [
        {"instance": 190, "algorithm": "native", "why": "nothing was faster"}
    ]
    assert (second["operation"], second["instances"], second["phases"]) == ("bcast", None, [])


def test_the_report_and_the_status_name_the_mode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The routine of Faraj et al. leaves out algorithms for which it has a reason."""
    key = KEY | {"mode": "robust", "sites": ["md.py:93 exchange"]}
    omitted = {"kind": "omitted", "key": "0f", "phase": 1, "algorithm": "pair"}
    omitted |= {"why": "a power of two of processes"}
    path = folder(tmp_path / "t", "".join(json.dumps(x) + "\n" for x in (key, omitted)))
    assert main(["status", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Chosen by --switch robust: allgatherv at md.py:93 exchange: not yet chosen." in printed
    with (path / selector_log.FILE).open("a") as file:
        file.write(json.dumps(LINES[4]) + "\n")
    assert main(["status", str(path)]) == 0
    assert "allgatherv at md.py:93 exchange: ring." in " ".join(capsys.readouterr().out.split())
    assert main(["report", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "not tried: pair (a power of two of processes)" in printed
    assert "--switch robust (Faraj et al. 2008): score: mean time" in printed


def test_events_and_instances_have_the_choice(tmp_path: Path) -> None:
    """It is unknown for an open call; for an instance it is that of the other ranks."""
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[10, 11]] * 5, [[20, 20]] * 4 + [[20, 0]])
    for rank, choices in ((0, [0, 1, 2, 3, 2]), (1, [0, 1, 2, 77, 0])):
        (records,) = synthetic.records[rank]
        assert records.dtype == RECORD_TYPE
        records["choice"] = choices
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    expected = ["", "observe", "probe", "chosen", "probe"]
    assert trace.instances["choice"].tolist() == expected
    assert trace.events["choice"].tolist() == [*expected, "", "observe", "probe", "", ""]
    assert trace.instances.columns[-1] == trace.events.columns[-1] == "choice"


def test_call_sites_that_come_later_and_those_without_a_name(tmp_path: Path) -> None:
    """In an older trace, a site that cannot be resolved has the recorder's name."""
    native = {"module": "/nowhere/app", "offset": 4711, "symbol": None}
    later = {"sites": ["app.py:7", "app+0x1267"], "frames": [None, native]}
    lines = [KEY | {"sites": ["app.py:7"], "frames": [None]}, KEY | later]
    lines += [KEY | {"key": "bb", "sites": ["x"], "frames": [{"module": 3, "offset": "y"}, 5]}]
    (tmp_path / selector_log.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [row["sites"] for row in selector_log.read(tmp_path)]
    assert found == [["app.py:7", "app+0x1267"], ["x"]]


def test_frames_become_call_sites(tmp_path: Path) -> None:
    """A key appears once to readers, and a plan names only lines of the program."""
    step = {"file": "/a/app.py", "line": 7, "function": "step"}
    native = {"module": "/nowhere/app", "offset": 4711, "symbol": "solve+0x7"}
    lines = [KEY | {"sites": [step]}, KEY | {"sites": [step, native, {"module": 3}, None]}]
    (tmp_path / selector_log.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (row,) = selector_log.read(tmp_path)
    assert row["sites"] == ["app.py:7 step", "app solve+0x7", "?"]
    assert row["places"] == ["app.py:7", None, None]


def test_lines_of_a_program_and_of_a_library(tmp_path: Path) -> None:
    """The lines of both are found; a plan cannot name a line of a library."""
    source = tmp_path / "solver.c"
    source.write_text("int main(void)\n{\n    return 0;\n}\n")
    sites = []
    for name, options in (("program", []), ("library.so", ["-shared", "-fPIC"])):
        made = tmp_path / name
        run(["gcc", "-g", *options, "-o", made, source], check=True)
        table = run(["nm", made], check=True).stdout
        offset = next(int(line.split()[0], 16) for line in table.splitlines() if " main" in line)
        sites.append({"module": str(made), "offset": offset + 4, "symbol": None})
    line = (
        json.dumps(KEY | {"sites": sites[:1]})
        + "\n"
        + json.dumps(KEY | {"key": "bb", "sites": sites[1:]})
    )
    (tmp_path / selector_log.FILE).write_text(line + "\n")
    program, library = selector_log.read(tmp_path)
    assert program["places"][0] in ("solver.c:2", "solver.c:3") and library["places"] == [None]
    assert program["sites"] == library["sites"]


def test_the_report_of_a_program_that_probed_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder(tmp_path / "t", ""))]) == 0
    assert "Nothing was worth probing" in capsys.readouterr().out
    assert main(["report", str(folder(tmp_path / "u", None))]) == 0
    assert "Algorithms chosen" not in capsys.readouterr().out
