"""The rank of a `run -n` job that ended first, told by processes of the test's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from support.hang_traces import call, conclude, job
from support.wait_until import HANG_S, wait_until

from mpiprof.hang import first_end
from mpiprof.hang.first_end import ClosedFiles, FirstEnd
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.words.end_text import describe_exit

# A rank: its log is open from the first line on, until a line comes. It ends with the next line.
RANK = """
import sys
log = open(sys.argv[1], "a")
print("open", flush=True)
input()
log.close()
print("closed", flush=True)
input()
"""


class Rank:
    """A process that opens a log, and closes it and ends when it is told to."""

    def __init__(self, folder: Path, rank: int, log: str) -> None:
        command = [sys.executable, "-S", "-c", RANK, str(folder / f"{log}.log")]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.read_line()
        line = {"rank": rank, "process": {"pid": self.process.pid, "log": log}}
        self.rank, self.tables = rank, folder / f"rank-{rank:06d}.tables"
        self.tables.write_text(json.dumps(line) + "\n")

    def finalize(self) -> None:
        """Write the end that a rank writes in MPI_Finalize."""
        with self.tables.open("a") as file:
            file.write(json.dumps({"rank": self.rank, "end": {"reason": "finalize"}}) + "\n")

    def read_line(self) -> None:
        """Wait for the next line of the process."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline()

    def write_line(self) -> None:
        """Let the process go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close_log(self) -> None:
        """Let the process close its log, and wait until it has done so."""
        self.write_line()
        self.read_line()

    def end(self) -> None:
        """Let the process end, and wait until it has ended."""
        self.write_line()
        self.process.wait(HANG_S)


@contextmanager
def observed(
    folder: Path, logs: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Rank]]:
    """Yield the ranks of a job whose first end is observed; the result is stored afterwards."""
    watched: list[Path] = []
    watch = ClosedFiles.watch

    def watch_and_tell(files: ClosedFiles, folder: Path) -> None:
        watch(files, folder)
        watched.append(folder)

    monkeypatch.setattr(ClosedFiles, "watch", watch_and_tell)
    with subprocess.Popen(["sleep", "1000"]) as launcher:
        ranks = [Rank(folder, rank, log) for rank, log in enumerate(logs)]
        arguments = (folder, len(ranks), launcher.pid)
        observer = Thread(target=first_end.store_first_end, args=arguments)
        observer.start()
        try:
            wait_until(lambda: watched, "the logs are watched")
            yield ranks
            observer.join(HANG_S)
        finally:
            launcher.kill()
            for rank in ranks:
                rank.process.kill()


def _read_order(folder: Path) -> FirstEnd | None:
    """Return the stored first end without its time, and its status of new kernels only."""
    first = first_end.read_first_end(folder)
    assert first is None or first.at_ns is not None
    return None if first is None else replace(first, status=None, at_ns=None)


def test_the_order_of_the_logs_tells_the_first_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed rank closes its files, the launcher kills another, and that one ends before it."""
    with observed(tmp_path, ["rank-000000", "rank-000001"], monkeypatch) as (killed, other):
        killed.close_log()
        other.close_log()
        other.end()
    assert _read_order(tmp_path) == FirstEnd(0)


def test_a_rank_that_closed_its_log_in_mpi_finalize_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with observed(tmp_path, ["rank-000000", "rank-000001"], monkeypatch) as (finalized, killed):
        finalized.finalize()
        finalized.close_log()
        killed.close_log()
        killed.end()
    assert _read_order(tmp_path) == FirstEnd(1)


def test_a_shared_log_makes_the_first_end_unsure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with observed(tmp_path, ["node-vm", "node-vm"], monkeypatch) as (_, killed):
        killed.close_log()
        killed.end()
    assert _read_order(tmp_path) == FirstEnd(1, sure=False)


@pytest.mark.parametrize("is_finalized", [False, True])
def test_a_trace_that_is_removed_gets_no_first_end(
    is_finalized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user removes the trace while its ranks end, or another run replaces it."""
    with observed(tmp_path, ["rank-000000", "rank-000001"], monkeypatch) as (ended, _):
        if is_finalized:
            ended.finalize()
        for path in tmp_path.glob("*.tables"):
            path.unlink()
        ended.close_log()
        ended.end()
    assert not (tmp_path / first_end.FILE).exists()


def test_a_folder_that_cannot_be_watched(tmp_path: Path) -> None:
    closed = ClosedFiles()
    closed.watch(tmp_path / "missing")
    assert closed.read_names() == []
    closed.close()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"rank": "x"}'])
def test_a_damaged_file_names_no_rank(text: str, tmp_path: Path) -> None:
    (tmp_path / first_end.FILE).write_text(text)
    assert first_end.read_first_end(tmp_path) is None


@pytest.mark.parametrize("name", ["exit", "kill"])
def test_the_status_of_the_first_end_is_stored(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with observed(tmp_path, ["rank-000000", "rank-000001"], monkeypatch) as (_, first):
        if name == "exit":
            first.close_log()
            first.end()
        else:
            first.process.kill()
            first.process.wait(HANG_S)
    stored = first_end.read_first_end(tmp_path)
    assert stored is not None and stored.rank == 1
    if stored.status is None:
        pytest.skip("the kernel does not provide the status of a process that is no child")
    expected = {"exit": "exited with code 0", "kill": "was ended by SIGKILL"}
    assert describe_exit(stored.status) == expected[name]


@pytest.mark.parametrize(("status", "text"), [(3 << 8, "exited with code 3"), (9, "SIGKILL")])
def test_the_verdict_reports_the_status_of_the_first_end(
    status: int, text: str, tmp_path: Path
) -> None:
    """Without a status, the verdict does not claim one."""
    synthetic = job(3)
    call(synthetic, 0, "barrier")
    call(synthetic, 2, "barrier")
    gone = JobProcesses(10_000, dict.fromkeys(range(3), False))
    for known in (True, False):
        folder = tmp_path / str(known)
        (folder / "t").mkdir(parents=True)
        end = {"rank": 1, "sure": True, "status": status if known else None}
        (folder / "t" / first_end.FILE).write_text(json.dumps(end))
        verdict, sentences = conclude(synthetic, folder, gone)
        assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,)), sentences
        assert not known or text in sentences
        assert ("perhaps the launcher's" in sentences) is not known
