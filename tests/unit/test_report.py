"""The report on synthetic traces with known figures, as text, JSON and exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import Synthetic

from mpiprof.__main__ import main
from mpiprof.account import columns
from mpiprof.errors import UsageError
from mpiprof.interface.format_units import format_factor
from mpiprof.reports import fail_on
from mpiprof.reports.table import TableColumn, render

MS = 1_000_000
SCHEMA = (
    "version trace program mpi ranks nodes duration_ns collective_ns collective_share "
    "total_wait_ns wait_share collective_wait_ns message_wait_ns collective_low_ns "
    "collective_high_ns total_wait_low_ns total_wait_high_ns division efficiencies clock_error_ns "
    "dropped complete messages_complete callsites message_callsites summed_up coverage verdict "
    "findings exceptions processors stalled_calls notes spawned selection times hang what_if"
)
CALLSITE = (
    "operation sites algorithm algorithms instances total_instances complete_instances size "
    "bytes bytes_min bytes_max message_bytes "
    "mean_elapsed_ns elapsed_p50_ns elapsed_p90_ns elapsed_p99_ns "
    "average_imbalance_ns worst_imbalance_ns message_time_ns average_factor worst_factor "
    "worst_factor_max exit_imbalance_ns exit_factor "
    "wait_ns wait_p50_ns wait_p90_ns wait_p99_ns completion_skew_ns "
    "total_wait_ns total_wait_low_ns total_wait_high_ns total_wait_barrier_ns total_wait_nxn_ns "
    "total_wait_late_root_ns total_wait_early_root_ns total_wait_early_scan_ns "
    "total_wait_neighbor_ns total_wait_gathering_ns latest_rank latest_share balanced_share "
    "total_elapsed_ns total_elapsed_low_ns total_elapsed_high_ns"
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of 4 ranks: rank 2 is 3 ms late in 10 allreduces; a balanced bcast."""
    synthetic = Synthetic(4)
    synthetic.ended_ns = 200 * MS
    arrivals = np.arange(1, 11)[:, None] * 10 * MS + np.array([0, 0, 3 * MS, 0])
    last = arrivals.max(1, keepdims=True)
    synthetic.add_collective(
        "allreduce", arrivals, np.repeat(last + 1000, 4, 1), site="app.py:12:step"
    )
    at = np.full((5, 4), 150 * MS) + np.arange(5)[:, None] * MS
    synthetic.add_collective("bcast", at, at + 500, "world", 20000, 20000, 0, "app.py:20:main")
    return synthetic.write(tmp_path / "trace")


def out(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    """Run a command line in this process, check its exit code, and return its output."""
    assert main([str(word) for word in words]) == code
    return capsys.readouterr().out


def test_json_schema_and_values(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(out(capsys, "report", trace, "--json"))
    assert list(data) == SCHEMA.split()
    assert data["version"] == 3 and data["ranks"] == 4 and data["nodes"] == 1
    assert data["complete"] is True and data["dropped"] == 0 and data["clock_error_ns"] == 0
    first, second = data["callsites"]
    assert list(first) == list(second) == CALLSITE.split()
    assert first["operation"] == "allreduce"
    assert first["sites"] == [{"file": "app.py", "line": 12, "function": "step"}]
    assert first["instances"] == 10 and first["size"] == 4 and first["bytes"] == 8
    assert first["worst_imbalance_ns"] == 3 * MS
    assert first["average_imbalance_ns"] == 1.125 * MS  # mean of .75 three times and 2.25
    assert first["message_time_ns"] == pytest.approx(10_008)
    assert first["worst_factor"] == pytest.approx(3 * MS / 10_008)
    assert first["wait_ns"] == 9 * MS
    assert (first["latest_rank"], first["latest_share"]) == (2, 1.0)
    assert first["balanced_share"] == 0 and second["balanced_share"] == 1
    assert data["total_wait_ns"] == first["total_wait_ns"] == 90 * MS
    assert data["collective_ns"] == 90 * MS + 40 * 1000 + 20 * 500


def test_text_has_every_part(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "report", "--all", trace)
    for part in (
        "synthetic.py · 4 ranks on 1 node",
        "one node, one clock",
        "app.py:12 step",
        "2 in 100 %",
        "Imbalance factors",
        "Worst-case factors",
        "1. Rank 2 works 3.00 ms longer than the other ranks, 90 % of it between ",
        "This holds in 10 of 10 steps.",
    ):
        assert part in " ".join(text.split())
    assert " -m mpiprof report" in text.rstrip().splitlines()[-1]
    assert "\x1b" not in text and "INCOMPLETE" not in text
    assert max(map(len, text.splitlines()[2:-1])) <= 120


@pytest.mark.parametrize("width", ["80", "100", "120"])
def test_tables_fit_the_terminal(
    trace: Path, width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    lines = out(capsys, "report", trace).splitlines()
    table = lines[lines.index("Call sites by total waiting time") :]
    table = table[: table.index("")]
    assert max(map(len, table)) <= int(width)


def test_by_routine(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "report", trace, "--by", "routine")
    row = next(line for line in text.splitlines() if line.strip().startswith("allreduce"))
    assert row.split()[1:4] == ["8", "B", "10"]


def test_message_sizes_are_those_of_table_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message of an all-to-all is that to one destination; T is the time of that message."""
    synthetic = Synthetic(4)
    arrivals = [[0, 0, 0, 10**6]]
    for i, (operation, sent) in enumerate(
        (
            ("alltoall", 4 * 65536),
            ("alltoallv", {0: 1000, 1: 2000, 2: 3000, 3: 10_000}),
            ("allgatherv", {0: 0, 1: 100, 2: 200, 3: 500}),
            ("allreduce", 800),
        )
    ):
        synthetic.add_collective(
            operation,
            np.array(arrivals) + i * 10**7 + 1000,
            [[i * 10**7 + 2 * 10**6] * 4],
            sent=sent,
            received=sent,
            site=f"app.py:{i + 1}:main",
        )
    path = synthetic.write(tmp_path / "sizes")
    text = out(capsys, "report", path, "--by", "routine")
    rows = {line.split()[0]: line.split()[1:3] for line in text.splitlines() if "all" in line[:6]}
    assert rows["alltoall"] == ["64.0", "KB"]
    assert rows["alltoallv"] == ["1000", "B*"]  # 16000 B in 16 messages
    assert rows["allgatherv"] == ["200", "B*"]
    assert rows["allreduce"] == ["800", "B"]
    printed = out(capsys, "report", path, "--site", "app.py:1")
    assert f"the time of {format_factor(10**6 / (10_000 + 65536))} messages of 64.0 KB" in " ".join(
        printed.split()
    )


def test_site_over_its_instances(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "report", trace, "--site", "app.py:12", "--top", "5")
    assert "Over its instances" in text and "8-9" in text
    ranks = text[text.index("Its ranks") :].splitlines()
    assert ranks[2].split()[:3] == ["2", "3.00", "ms"]
    with_json = json.loads(out(capsys, "report", trace, "--site", "app.py:12", "--json"))
    assert [row["operation"] for row in with_json["callsites"]] == ["allreduce"]
    assert main(["report", str(trace), "--site", "nothing"]) == 2
    assert "known: app.py:12 step" in capsys.readouterr().err


def test_findings_causes_and_phases_as_data(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(out(capsys, "report", trace, "--json"))
    (found,) = data["findings"]
    assert (found["cause"], found["ranks"], found["cost_ns"]) == ("rank", [2], 90 * MS)
    assert (found["operation"], found["period"]) == ("allreduce", None)
    assert (found["first_instance"], found["last_instance"]) == (0, 9)
    assert 0.99 < found["certainty"] < 1
    assert found["share"] == pytest.approx(90 / 800, rel=1e-4)
    (site,) = found["sites"]
    assert (Path(site["file"]).name, site["line"], site["function"]) == ("app.py", 12, "step")
    assert found["text"].startswith(
        "Rank 2 works 3.00 ms longer than the other ranks, 90 % of it between "
    )
    assert found["action"].startswith("Look at what rank 2 does")
    verdict = data["verdict"]
    assert (verdict["cause"], verdict["ranks"], verdict["sites"]) == ("rank", [2], [site])
    assert verdict["text"][0] == "11 % of all ranks' time is waiting in collectives."
    assert verdict["text"][1].startswith("Nearly all of it: rank 2 works 3.00 ms longer")
    assert (
        found["evidence"]["late_ns"] == 3 * MS
        and found["title"] == "Rank 2 delayed the other ranks"
    )
    assert "arrival_statistics" not in data["callsites"][0]
    (row,) = json.loads(out(capsys, "report", trace, "--site", "app.py:12", "--json"))["callsites"]
    assert row["arrival_statistics"]["by_rank"] == {"value": 1, "low": 1, "high": 1}
    assert row["arrival_statistics"]["ranks"][0]["rank"] == 2
    assert [phase["instances"] for phase in row["phases"]] == [10]


def test_why_at_a_site(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "report", trace, "--site", "app.py:12")
    assert "100 % is systematic by rank, 0 % changes from instance to instance" in text
    assert "rank 2 works 3.00 ms longer than the other ranks" in " ".join(text.split())
    table = text[text.index("Imbalance before and at it") :].splitlines()
    assert table[-1 + next(i for i, line in enumerate(table) if not line)].split()[1:3] == [
        "3.00", "ms",
    ]  # fmt: skip


def test_sort_and_top(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(out(capsys, "report", trace, "--sort", "bytes", "--json"))
    assert [row["operation"] for row in data["callsites"]] == ["bcast", "allreduce"]
    text = out(capsys, "report", trace, "--top", "1")
    assert "the first 1 of 2" in text and "app.py:20" not in text
    assert main(["report", str(trace), "--sort", "nothing"]) == 2
    assert "known: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("worst_factor>50", 3),
        ("worst_factor>1e6", 0),
        ("worst_factor>50 and bytes>1000", 0),
        ("worst_factor > 50 and instances==10", 3),
        ("operation==bcast and balanced_share<1", 0),
        ("operation!=bcast", 3),
        ("latest_rank<=2", 3),
        ("nothing>1", 2),
        ("worst_factor", 2),
        ("worst_factor>many", 2),
        ("operation>1", 2),
        ("", 2),
    ],
)
def test_fail_on(
    trace: Path, expression: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(trace), "--fail-on", expression]) == code
    err = capsys.readouterr().err
    assert err.count("\n") == (code != 0)


def test_bad_expression_names_the_columns() -> None:
    with pytest.raises(UsageError, match="worst_factor"):
        fail_on.parse("speed>1")


def test_unknown_values_meet_nothing() -> None:
    row: dict[str, Any] = dict.fromkeys(columns.numbers())
    for sign in fail_on.OPERATORS:
        assert not fail_on.parse(f"worst_factor{sign}0").is_met_by(row)


def test_newest_trace_is_taken(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trace.parent)
    assert main(["report"]) == 1
    assert "no trace in" in capsys.readouterr().err
    for name, age in (("mpiprof-a-20260101-000000", 50), ("mpiprof-b-20250101-000000", 10)):
        folder = Path(name)
        folder.mkdir()
        for file in trace.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
            os.utime(folder / file.name, (1e9 - age, 1e9 - age))
    assert json.loads(out(capsys, "report", "--json"))["trace"] == "mpiprof-b-20250101-000000"


def test_incomplete_and_unmeasured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(3, machine=None)
    synthetic.add_collective("barrier", [[100, 200, 300]], [[400, 400, 400]], sent=0, received=0)
    synthetic.add_collective("barrier", [[500, 600, -1]], [[0, 0, 0]], sent=0, received=0)
    text = out(capsys, "report", synthetic.write(tmp_path / "t", finished=[2]))
    assert "INCOMPLETE" in text and "calibrate" in text and "nan" not in text.lower()
    data = json.loads(out(capsys, "report", tmp_path / "t", "--json"))
    assert data["complete"] is False
    assert data["callsites"][0]["worst_factor"] is None
    assert data["callsites"][0]["worst_imbalance_ns"] == 200


def test_nothing_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(2)
    for rank in range(2):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    folder = synthetic.write(tmp_path / "t")
    assert "No collective operation" in out(capsys, "report", folder)
    assert json.loads(out(capsys, "report", folder, "--json"))["callsites"] == []
    assert "next:" in out(capsys, "report", folder, "--by", "routine")


def test_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(2)
    synthetic.meta["record"] = "summary"
    for rank in range(2):
        synthetic.add(
            rank, synthetic.add_shape(rank, "allreduce", "world", sent=8), 0, 5 * MS, 10, kind=5
        )
    folder = synthetic.write(tmp_path / "t")
    text = out(capsys, "report", folder)
    assert "as summary" in text and "500 µs" in text and "ω" not in text
    for words in (["--by", "routine"], ["--site", "app.py:1"]):
        assert "ω" not in out(capsys, "report", folder, *words)
    status = out(capsys, "status", folder)
    assert "Recorded as summary" in status and "not logged" in status
    assert "no collective yet" not in status
    row = json.loads(out(capsys, "report", folder, "--json"))["callsites"][0]
    assert row["instances"] == 10 and row["worst_factor"] is None


def test_several_nodes_show_the_clock_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic = Synthetic(2, nodes=[0, 1], offsets=(0, 5 * MS), drifts=(0.0, 0.0))
    for at in (2_000, 10**9):
        synthetic.add_clock(1, 0, at, error=3_000)
    synthetic.add_collective(
        "barrier", [[10 * MS, 11 * MS]], [[12 * MS, 12 * MS]], sent=0, received=0
    )
    text = out(capsys, "report", synthetic.write(tmp_path / "t"))
    assert "2 nodes, error at most ±" in text


# Numbers for users


@pytest.mark.parametrize(
    ("place", "retained"),
    [("app.py:12 " + "x" * 90, "app.py:12 xx"), ("/a" * 50 + "/md.py:7", "/a/md.py:7")],
)
def test_table_cuts_long_call_sites_but_not_the_file_name(place: str, retained: str) -> None:
    columns = [
        TableColumn("routine", ["bcast"], left=True),
        TableColumn("site", [place], left=True, shrink=True),
        TableColumn("a", ["123456"]),
        TableColumn("b", ["2"], drop=1),
    ]
    text = render(*columns, width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert retained in text and text.count("…") == 1
    narrow = render(*columns, width=24)
    assert "123456" not in narrow and retained.split()[0][-7:] in narrow


def test_notes_of_several_ranks_are_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic = Synthetic(8)
    for rank in (0, 1, 2, 5):
        synthetic.lines[rank].append({"rank": rank, "note": "no source lines"})
    synthetic.lines[3].append({"rank": 3, "note": "late"})
    synthetic.add_collective("barrier", [[MS] * 8], [[2 * MS] * 8])
    path = synthetic.write(tmp_path / "t", finished=[6, 7])
    text = out(capsys, "report", path)
    reported = [line.split(maxsplit=1) for line in text.splitlines()]
    assert [line[1] for line in reported if line[:1] == ["note"]] == [
        "ranks 0-2, 5: no source lines",
        "rank 3: late",
    ]
    assert [line[1] for line in reported if line[:1] == ["attention"]] == [
        "INCOMPLETE: not every process ended in MPI_Finalize, or files are cut",
        "ranks 0-5 did not reach the end of the run: the job is running or was killed",
    ]


def test_unknown_waiting_is_not_reported_as_zero(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The logs of all ranks but one are lost, so that nobody is known to wait for another."""
    for log in sorted(trace.glob("rank-*.log"))[1:]:
        log.unlink()
    text = out(capsys, "report", trace)
    assert "How much of it is waiting is not known: no call was recorded of all" in " ".join(
        text.split()
    )
    assert " 0 %" not in text.split("efficiency")[0]
    data = json.loads(out(capsys, "report", trace, "--json"))
    assert data["total_wait_ns"] is data["wait_share"] is data["total_wait_low_ns"] is None
    assert data["collective_ns"] > 0
    assert "0 ns" not in out(capsys, "compare", trace, trace).split("A → B")[0]
    assert main(["report", str(trace), "--incomplete", "--fail-on", "run.wait_share < 1%"]) == 0


def test_a_rank_without_tables_does_not_run(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trace / "rank-000001.tables").write_text("x")
    assert "1 rank has not reached MPI_Finalize" in out(capsys, "status", trace)
