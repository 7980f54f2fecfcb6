"""Call sites of messages in all tables: numbers, reports, options, grid, and pairs of ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpiprof.dashboard import callsite_table, message_tables
from mpiprof.dashboard.filtered_tables import divide_filtered_time
from mpiprof.dashboard.pages import callsites as callsites_page
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState
from support.message_traces import call, part, sums
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account import columns
from mpiprof.account.rank_pairs import make_pair_matrix
from mpiprof.errors import UsageError
from mpiprof.trace.types import RECEIVED_PART, SENT_PART

US = 1000
KB = 1024
RUN_US = 1000  # of each of the 3 ranks


def write_trace(folder: Path, **options: Any) -> mpiprof.Trace:
    """Write 3 ranks: 0 and 1 receive from 2, which sends late; all shift messages to the right.

    Rank 0 waits for 300 us for rank 2, and for 100 us for rank 1. Rank 1 waits for 200 us for 2.
    """
    made = Synthetic(3)
    made.meta["options"] = options
    made.started_ns, made.ended_ns = 0, RUN_US * US

    def shape(rank: int, operation: str, peer: int, line: int) -> int:
        return made.add_shape(rank, operation, "world", site=f"app.py:{line}:main", peer=peer)

    waits = [(1, 2, 50, 250), (0, 2, 10, 310), (0, 1, 400, 500)]  # rank, for, begin, until in us
    for rank, peer, begin, until in waits:
        to, of = shape(peer, "send", rank, 20), shape(rank, "recv", peer, 10)
        sent, received = (
            part(kind, id_, posted=at * US)
            for kind, id_, at in ((SENT_PART, to, until), (RECEIVED_PART, of, begin))
        )
        if options.get("messages") != "sums":
            made.add_messages(peer, call(to, until * US, (until + 30) * US, sent))
            made.add_messages(rank, call(of, begin * US, (until + 5) * US, received))
        longest = (until + 5 - begin) * US
        made.add_message_sums(rank, sums(of, 4, longest + 3 * US, 0, 4 * KB, longest))
        made.add_message_sums(peer, sums(to, 4, 40 * US, 4 * KB, 0, 30 * US))
    for rank in range(3):  # its calls count at the rank from which it receives
        right, left = (shape(rank, "sendrecv", (rank + step) % 3, 30) for step in (1, 2))
        made.add_message_sums(rank, sums(left, 2, 7 * US, 0, 16, 4 * US))
        made.add_message_sums(rank, sums(right, 0, 0, 16, 0, 0))
    return mpiprof.open(made.write(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(write_trace(tmp_path / "t").path)


def run(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    """Run a verb in this process, check its exit code, and return its output."""
    assert main([str(word) for word in words]) == code
    return capsys.readouterr().out


def test_columns_are_sums_over_ranks_and_peers(folder: Path) -> None:
    table = mpiprof.open(folder).message_callsites
    assert list(table.columns) == ["site_id", *(c.name for c in columns.of_messages())]
    recv, send, exchange = table.to_dict("records")
    assert [row["operation"] for row in (recv, send, exchange)] == ["recv", "send", "sendrecv"]
    assert recv["sites"] == [{"file": "app.py", "line": 10, "function": "main"}]
    assert (recv["calls"], recv["sent"], recv["received"], recv["bytes"]) == (12, 0, 12 * KB, KB)
    assert recv["total_elapsed_ns"] == 624 * US and recv["mean_elapsed_ns"] == 52 * US
    assert recv["longest_ns"] == 305 * US
    assert recv["total_wait_ns"] == recv["total_wait_late_sender_ns"] == 600 * US
    assert recv["wait_share"] == 600 / (3 * RUN_US)
    assert (recv["awaited_rank"], recv["awaited_share"]) == (2, 500 / 600)
    assert send["total_wait_ns"] == 0 and np.isnan(send["awaited_share"])
    assert (exchange["calls"], exchange["bytes"], exchange["longest_ns"]) == (6, 8, 4 * US)


def test_pairs_have_messages_bytes_and_waiting(folder: Path) -> None:
    trace = mpiprof.open(folder)
    rows = trace.message_matrix.to_dict("split")["data"]
    assert rows == [  # source, destination, messages, bytes, wait_ns, send_wait_ns
        [0, 1, 2, 16, 0, 0],
        [1, 0, 4, 4 * KB, 100 * US, 0],
        [1, 2, 2, 16, 0, 0],
        [2, 0, 6, 4 * KB + 16, 300 * US, 0],
        [2, 1, 4, 4 * KB, 200 * US, 0],
    ]
    matrix = make_pair_matrix(trace, trace.message_matrix)
    assert matrix.ranks == ((0, 0), (1, 1), (2, 2))
    assert matrix.messages.tolist() == [[0, 2, 0], [4, 0, 2], [6, 4, 0]]
    assert matrix.wait_ns.tolist() == [[0, 100 * US, 300 * US], [0, 0, 200 * US], [0, 0, 0]]
    joined = make_pair_matrix(trace, trace.message_matrix, 2)
    assert joined.ranks == ((0, 1), (2, 2))
    assert joined.bytes.tolist() == [[16 + 4 * KB, 16], [8 * KB + 16, 0]]


def test_waits_are_unknown_if_only_sums_were_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write_trace(tmp_path / "t", messages="sums")
    recv = trace.message_callsites.iloc[0]
    assert recv["calls"] == 12 and np.isnan(recv["total_wait_ns"])
    row = json.loads(run(capsys, "report", tmp_path / "t", "--json"))["message_callsites"][0]
    assert (row["total_wait_ns"], row["awaited_rank"]) == (None, None)
    text = run(capsys, "report", tmp_path / "t")
    assert "Σ wait" not in text
    assert "26 % (765 µs) of all ranks' time; the waiting in it is not known" in text


def test_json_has_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capsys, "report", folder, "--json"))
    assert data["callsites"] == []
    rows = data["message_callsites"]
    assert [list(row) for row in rows] == [[c.name for c in columns.of_messages()]] * 3
    assert (rows[0]["total_wait_ns"], rows[0]["awaited_rank"]) == (600_000, 2)
    assert (rows[1]["awaited_rank"], rows[1]["awaited_share"]) == (None, None)


@pytest.mark.parametrize("ending", [".md", ".html"])
def test_files_have_the_table(folder: Path, ending: str) -> None:
    path = folder.with_suffix(ending)
    assert main(["report", str(folder), "-o", str(path)]) == 0
    written = path.read_text("utf-8")
    for cell in ("mostly for", "600 µs", "2 in 83 %", "1024 B", "app.py:10 main"):
        assert cell in written
    assert "Call sites of messages by time" in written
    if ending == ".html":
        assert "Who waits for whom" in written and "Rank 0 waits 300 µs" in written


def test_a_call_site_of_messages_is_reported_by_pairs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(capsys, "report", folder)
    assert "--site app.py:10   (that call site by pairs of ranks)" in text
    text = run(capsys, "report", folder, "--site", "app.py:10")
    assert "recv at app.py:10 main costs 600 µs of waiting, 20 % of all ranks' time" in text
    assert "83 % of it is directly for rank 2" in " ".join(text.split())
    lines = text[text.index("Pairs of ranks") :].splitlines()
    assert lines[2].split() == ["0", "2", "4", "4096", "B", "308", "µs", "300", "µs"]


@pytest.mark.parametrize(
    ("condition", "code"),
    [("total_wait > 500us", 3), ("total_wait > 700us", 0), ("longest > 304us", 3),
     ("awaited_rank == 2 and operation == send", 0)],
)  # fmt: skip
def test_fail_on_judges_call_sites_of_messages(
    folder: Path, condition: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "report", folder, "--fail-on", condition, code=code)


def test_caliper_has_the_sums_of_each_rank(folder: Path) -> None:
    path = folder.with_suffix(".json")
    assert main(["export", str(folder), "--to", "caliper", "-o", str(path)]) == 0
    data = json.loads(path.read_text("utf-8"))
    labels = [node["label"] for node in data["nodes"]]
    names = data["columns"]
    rows = [dict(zip(names, row, strict=True)) for row in data["data"]]
    recv = [row for row in rows if labels[row["path"]] == "MPI_Recv"]
    assert labels[data["nodes"][labels.index("MPI_Recv")]["parent"]] == "app.py:10 main"
    assert [row["instances"] for row in recv] == [8, 4, 0]
    assert [row["wait"] for row in recv] == [400e-6, 200e-6, 0]
    assert [row["caused wait"] for row in recv] == [0, 100e-6, 500e-6]
    first = [row for row in rows if row["mpi.rank"] == 0]
    assert sum(row["time"] for row in first) == pytest.approx(RUN_US * 1e-6)


# ---- the dashboard


def test_the_grid_has_both_kinds_of_call_sites(folder: Path) -> None:
    data = TraceData("t", folder)
    rows = callsites_page.make_grid_rows(data, PageState())
    assert [row["operation"] for row in rows] == ["recv", "send", "sendrecv"]
    assert rows[0]["calls"] == 12 and rows[0]["awaited_rank"] == "2 in 83 %"
    fields = [c["field"] for c in callsites_page.make_grid(rows, PageState()).columnDefs]
    assert "calls" in fields and not {"worst_imbalance_ns", "latest_rank"} & {*fields}
    facts = dict(callsite_table.callsite_facts(data.trace.message_callsites.iloc[0].to_dict()))
    assert facts["total wait, over ranks and instances"] == "600 µs"


def test_filters_select_messages(folder: Path) -> None:
    data = TraceData("t", folder)

    def read(state: PageState) -> Any:
        return message_tables.filtered_message_callsites(data, state).to_dict("records")

    (send,) = read(PageState(operations=("send",)))
    assert send["calls"] == 12
    recv = read(PageState(ranks="1"))[0]
    assert (recv["calls"], recv["total_wait_ns"], recv["wait_share"]) == (4, 200 * US, 0.2)
    assert read(PageState(communicators=("unknown",))) == []


def test_a_notebook_draws_the_matrix(folder: Path) -> None:
    plot = mpiprof.open(folder).plot
    assert plot.messages().data[0].text[2][0] == "4112 B"
    assert plot.messages("wait").data[0].text[0][2] == "300 µs"
    with pytest.raises(UsageError, match="known: wait, bytes, messages"):
        plot.messages("calls")


def test_waits_for_messages_are_part_of_the_time(folder: Path) -> None:
    data = TraceData("t", folder)
    parts = divide_filtered_time(data, PageState()).parts
    assert parts["message_wait"] <= 600 * US
