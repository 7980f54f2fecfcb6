"""Point-to-point messages have known answers in the tables, and the program runs unchanged."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.trace.message_counts import TAG_CLASSES

LATE_NS = 200_000_000  # as in messages_cases.c
STARTS = 3
Row = tuple[int, int, int, int]  # peer, calls, sent, received


def program(mpi: Mpi) -> Path:
    return compiled(mpi, "messages_cases.c", "-pthread")


def recorded(mpi: Mpi, ranks: int, argv: list[str | Path], trace: Path, level: str) -> str:
    """Record a program that must succeed, and return its output."""
    words = prepare_run(["-q", "--messages", level, "-o", trace], argv)
    return run_mpi(mpi, ranks, words, check=True).stdout


def case(mpi: Mpi, name: str, folder: Path, level: str, ranks: int = 2) -> mpiprof.Trace:
    """Record one case of messages_cases.c and return its trace."""
    recorded(mpi, ranks, [program(mpi), name], folder / "trace", level)
    trace = mpiprof.open(folder / "trace")
    assert trace.is_complete
    assert trace.problems == []
    return trace


def with_operation(trace: mpiprof.Trace) -> pd.DataFrame:
    """Return the table of messages with the operation of each message's call."""
    operations = trace.message_calls["operation"].to_numpy()
    messages: pd.DataFrame = trace.messages.copy()
    messages["operation"] = operations[messages["call"]]
    return messages


def received(trace: mpiprof.Trace, rank: int = 0, **values: Any) -> Any:
    """Return the only complete received message of a rank with these values."""
    found = with_operation(trace)
    found = found[found["received"] & found["complete"] & (found["rank"] == rank)]
    for column, value in values.items():
        found = found[found[column] == value]
    assert len(found) == 1, found
    return found.iloc[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_messages_on_3_ranks(seed: int, mpi: Mpi, tmp_path: Path) -> None:
    random = compiled(mpi, "messages_random.c", "-O1")
    output = recorded(mpi, 3, [random, str(seed), "200"], tmp_path / "trace", "all")
    expected = Counter(tuple(map(int, line.split())) for line in output.splitlines())
    assert expected.total() > 400

    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete
    assert trace.problems == []
    messages = with_operation(trace)
    probes = messages["operation"].isin(["probe", "iprobe"])
    rows = messages[messages["received"] & messages["complete"] & ~probes]
    # Matched probes have the row of their message, and so has the receive of that message.
    rows = rows.drop_duplicates(
        ["communicator", "source", "destination", "tag", "number"], keep="last"
    )
    found = Counter(map(tuple, rows[["source", "destination", "tag", "bytes"]].to_numpy().tolist()))
    assert found == expected
    assert rows["sure"].all()
    # Tags that share a counter may be received in another order than they were sent.
    assert ((rows["partner"] >= 0) | (rows["tag"] % TAG_CLASSES == 0)).all()
    rows = rows[rows["partner"] >= 0]
    assert len(rows) > expected.total() / 2
    partners = messages.loc[rows["partner"]]
    assert not partners["received"].any()
    for column in ("communicator", "source", "destination", "tag", "number", "bytes"):
        assert partners[column].tolist() == rows[column].tolist()


def expected_sums(rank: int, followed: bool) -> dict[str, list[Row]]:
    """Return the rows of the sums case by operation.

    followed: requests are followed, so bytes of nonblocking receives and starts are counted.
    """
    peer = 1 - rank
    starts = STARTS if followed else 0
    rows: dict[str, list[Row]] = {
        "irecv": [(peer, 1, 0, 40 + peer if followed else 0)],
        "isend": [(peer, 1, 40 + rank, 0)],
        "recv_init": [(peer, starts, 0, 11 * starts)],
        "send_init": [(peer, starts, 11 * starts, 0)],
        "startall": [(-1, STARTS, 0, 0)],
        "waitall": [(-1, 1, 0, 0), (-1, STARTS, 0, 0)],
        "request_free": [(-1, 1, 0, 0), (-1, 1, 0, 0)],
        "ssend": [(-1, 1, 0, 0)],
        "probe": [(-1, 1, 0, 0)],
        "rsend": [(-1, 1, 0, 0)],
    }
    # A call with two peers is counted at its source.
    if rank == 0:
        rows["send"] = [(1, 3, 30, 0), (1, 2, 40, 0)]
        rows["sendrecv"] = [(1, 1, 7, 7), (-1, 1, 0, 0), (1, 0, 9, 0)]
    else:
        rows["recv"] = [(0, 5, 0, 70)]
        rows["sendrecv"] = [(0, 1, 7, 7), (-1, 0, 0, 0), (0, 1, 0, 9)]
    return rows


@pytest.mark.parametrize("level", ["sums", "all"])
def test_sums_by_call_site_and_peer_on_2_ranks(level: str, mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "sums", tmp_path, level)
    table = trace.message_sums
    for rank in (0, 1):
        found: dict[str, list[Row]] = {}
        for operation, rows in table[table["rank"] == rank].groupby("operation"):
            values = rows[["peer", "calls", "sent", "received"]].to_numpy().tolist()
            found[str(operation)] = sorted(tuple(row) for row in values)
        expected = expected_sums(rank, followed=level == "all")
        assert found == {name: sorted(rows) for name, rows in expected.items()}
    sends = table[(table["operation"] == "send")].set_index("calls")["site"]
    for calls, mark in ((3, "first send"), (2, "second send")):
        assert sends[calls] == f"messages_cases.c:{marked_line(mark)} blocking"
    assert (table["longest_ns"] <= table["total_ns"]).all()
    assert (len(trace.message_calls) == 0) == (level == "sums")
    assert (len(trace.messages) == 0) == (level == "sums")
    assert trace.meta["options"]["messages"] == level
    assert trace.message_callsites["total_wait_ns"].isna().all() == (level == "sums")


def marked_line(mark: str) -> int:
    """Return the line of messages_cases.c with this comment."""
    lines = (PROGRAMS / "messages_cases.c").read_text().splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if f"/* {mark} */" in line)
    return found


def test_off_leaves_the_tables_empty_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "sums", tmp_path, "off")
    assert len(trace.message_sums) == len(trace.message_calls) == len(trace.messages) == 0
    assert math.isnan(trace.run_times.message_wait_ns) and trace.derive("ledger_sums") is None


def test_auto_logs_every_call_on_3_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "late", tmp_path, "auto", ranks=3)
    calls = trace.message_calls
    waits = calls[(calls["rank"] == 0) & (calls["operation"] == "waitall")]
    (call,) = waits.index
    wait = waits.loc[call]
    assert wait["messages"] == 2
    assert wait["peer"] == -1
    # The late sender may leave the barrier before rank 0 does.
    assert wait["exit_ns"] - wait["enter_ns"] > 0.5 * LATE_NS

    messages = trace.messages
    messages = messages[messages["call"] == call]
    columns = ["source", "destination", "tag", "bytes", "received", "complete", "sure"]
    assert sorted(messages[columns].to_numpy().tolist()) == [
        [1, 0, 8, 100, True, True, True],
        [2, 0, 9, 200, True, True, True],
    ]
    assert (messages["posted_ns"] < wait["enter_ns"]).all()
    closed = calls[calls["exit_ns"] != 0]
    assert len(closed) == len(calls) == trace.message_sums["calls"].sum()
    assert trace.complete_share == 1


def test_any_source_with_an_ignored_status_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "any_source", tmp_path, "all")
    row = received(trace)
    assert (row["source"], row["tag"], row["bytes"], row["sure"]) == (1, 5, 12, True)
    partner = trace.messages.loc[row["partner"]]
    assert (partner["rank"], partner["destination"], partner["bytes"]) == (1, 0, 12)
    assert row["any_source"] and not partner["any_source"]
    assert trace.message_calls.loc[row["call"], "peer"] == 1


def test_a_receive_of_any_tag_names_its_source_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    messages = case(mpi, "sums", tmp_path, "all").messages
    assert messages["received"].sum() > 5
    assert not messages["any_source"].any()


def test_wildcard_in_a_wait_with_ignored_statuses_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "ignored", tmp_path, "all")
    before, after = received(trace, tag=1), received(trace, tag=3)
    unknown, elsewhere = received(trace, operation="waitall"), received(trace, tag=4)
    assert (before["source"], before["bytes"], before["sure"]) == (1, 1, True)
    assert (unknown["source"], unknown["bytes"], unknown["sure"]) == (-1, -1, False)
    assert (after["source"], after["bytes"], after["sure"]) == (1, 3, False)
    assert (elsewhere["source"], elsewhere["bytes"], elsewhere["sure"]) == (1, 4, True)
    assert elsewhere["communicator"] != after["communicator"]
    assert before["partner"] >= 0
    assert elsewhere["partner"] >= 0
    assert unknown["partner"] == after["partner"] == -1


@pytest.mark.parametrize("level", ["all", "auto", "sums"])
def test_errors_with_ignored_statuses_are_unchanged_on_2_ranks(
    level: str, mpi: Mpi, tmp_path: Path
) -> None:
    """With a status in place of an ignored one, libraries end other requests, or fail at all."""
    words: list[str | Path] = [compiled(mpi, "messages_ignored_statuses.c"), "errors"]
    bare = run_mpi(mpi, 2, words)
    assert bare.returncode == 0 and bare.stdout.count("handler") == 4
    output = recorded(mpi, 2, words, tmp_path / "trace", level)
    assert output.splitlines() == bare.stdout.splitlines()


CASES = ["one_tag", "with_statuses", "two_tags", "after_any_source", "after_cancel"]


@pytest.mark.parametrize("name", CASES)
def test_receives_of_any_tag_with_ignored_statuses_on_2_ranks(
    name: str, mpi: Mpi, tmp_path: Path
) -> None:
    """They get the messages of their source in order, which one tag is enough to identify.

    Their order is unknown after a receive that may have got one of these messages.
    """
    words: list[str | Path] = [compiled(mpi, "messages_ignored_statuses.c"), name]
    output = recorded(mpi, 2, words, tmp_path / "trace", "all")
    messages = with_operation(mpiprof.open(tmp_path / "trace"))
    in_waits = messages["received"] & messages["complete"] & (messages["rank"] == 0)
    rows = messages[in_waits].sort_values("posted_ns", kind="stable").tail(12 + 3 * 3)
    if name in ("one_tag", "with_statuses"):
        assert rows["bytes"].tolist() == [int(line) for line in output.splitlines()]
        assert ((rows["source"] == 1) & (rows["tag"] == 5) & rows["sure"]).all()
        partners = messages.loc[rows["partner"]]
        assert (partners["partner"].to_numpy() == rows.index).all()
    elif name == "two_tags":
        assert ((rows["source"] == 1) & (rows["tag"] == -1) & (rows["partner"] < 0)).all()
    else:
        assert ((rows["partner"] < 0) & ~rows["sure"]).all()


@pytest.mark.parametrize("name", ["cancelled", "freed", "other_thread", "unfinished", "errors"])
@pytest.mark.parametrize("level", ["all", "auto", "sums"])
def test_the_program_runs_unchanged_on_2_ranks(
    level: str, name: str, mpi: Mpi, tmp_path: Path
) -> None:
    """Requests with unusual ends, and the error codes and statuses of truncated messages."""
    bare = run_mpi(mpi, 2, [program(mpi), name])
    assert bare.returncode == 0
    assert bare.stdout
    output = recorded(mpi, 2, [program(mpi), name], tmp_path / "trace", level)
    assert sorted(output.splitlines()) == sorted(bare.stdout.splitlines())
    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete
    assert trace.problems == []


def test_cancelled_receive_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "cancelled", tmp_path, "all")
    row = received(trace, operation="wait")
    assert (row["tag"], row["bytes"], row["partner"]) == (10, -1, -1)
    # It has returned its number, so later numbers are those of the sender.
    assert received(trace, operation="recv")["sure"]
    sums = trace.message_sums
    assert sums.loc[sums["operation"] == "irecv", "received"].tolist() == [0]
    assert sums.loc[sums["operation"] == "recv", "received"].tolist() == [13]


def test_freed_send_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "freed", tmp_path, "all")
    row = received(trace, rank=1)
    assert (row["source"], row["tag"], row["bytes"], row["sure"]) == (0, 12, 100_000, True)
    partner = with_operation(trace).loc[row["partner"]]
    assert (partner["operation"], partner["bytes"]) == ("isend", 100_000)


def test_request_completed_by_another_thread_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "other_thread", tmp_path, "all")
    row = received(trace, operation="wait")
    assert (row["source"], row["tag"], row["bytes"], row["sure"]) == (1, 13, 14, True)
    assert row["partner"] >= 0
    calls = trace.message_calls
    posted = calls[(calls["rank"] == 0) & (calls["operation"] == "irecv")]
    assert posted["thread"].tolist() != [calls.loc[row["call"], "thread"]]


def test_long_calls_have_only_their_messages_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """A short call before the end of a chunk leaves no message to the first call of the next."""
    trace = case(mpi, "chunks", tmp_path, "auto")
    calls = trace.message_calls
    waits = calls.index[calls["operation"] == "waitall"]
    assert len(waits) > 300
    rows = trace.messages["call"].value_counts().reindex(calls.index, fill_value=0)
    assert rows.tolist() == calls["messages"].tolist()


def test_unfinished_request_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "unfinished", tmp_path, "all")
    messages = with_operation(trace)
    pending = messages[messages["operation"] == "irecv"]
    assert pending["tag"].tolist() == [14, 14]
    assert pending["complete"].tolist() == [False, False]
    assert pending["partner"].tolist() == [-1, -1]
    for rank in (0, 1):
        row = received(trace, rank=rank)
        assert (row["source"], row["tag"], row["bytes"]) == (1 - rank, 15, 15)
        assert row["partner"] >= 0


@pytest.mark.parametrize("level", ["auto", "all"])
def test_killed_process_leaves_an_open_call_on_2_ranks(
    level: str, mpi: Mpi, tmp_path: Path
) -> None:
    options = ["-q", "--messages", level, "-o", tmp_path / "trace"]
    assert run_mpi(mpi, 2, prepare_run(options, [program(mpi), "killed"])).returncode != 0
    trace = mpiprof.open(tmp_path / "trace")
    assert not trace.is_complete
    calls = trace.message_calls
    (call,) = calls.index[calls["rank"] == 0]
    row = calls.loc[call]
    assert (row["operation"], row["peer"], row["exit_ns"], row["messages"]) == ("recv", 1, 0, 1)
    assert row["site"].endswith(" killed")
    messages = trace.messages
    (message,) = messages[messages["call"] == call].itertuples()
    assert (message.source, message.destination, message.tag) == (1, 0, 77)
    assert (message.received, message.complete, message.partner) == (True, False, -1)
    assert message.posted_ns == row["enter_ns"]
