"""The syntax of --fail-on, and the expressions that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account import columns
from mpiprof.errors import UsageError
from mpiprof.reports import fail_on
from mpiprof.reports.json import RUN_NAMES

MS = 1_000_000
ROW: dict[str, Any] = {
    "operation": "allreduce",
    "algorithm": "native",
    "total_wait_ns": 2e9,
    "wait_ns": 5 * MS,
    "latest_share": 0.4,
    "bytes": 2048,
    "size": 8,
    "worst_factor": None,
    "run.wait_share": 0.25,
}


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        ("total_wait > 1s", True),
        ("total_wait_ns>1e9", True),
        ("total_wait > 2.1 s", False),
        ("total_wait > 0", True),
        ("wait == 5ms", True),
        ("wait >= 5000us and latest_share > 30%", True),
        ("latest_share > 40.1%", False),
        ("latest_share > 0.3", True),
        ("bytes == 2K", True),
        ("size > 8 or bytes > 1000", True),
        ("size > 8 or bytes > 1000 and latest_share > 50%", False),
        ("(size > 8 or bytes > 1000) and latest_share < 50%", True),
        ("size>7 and (total_wait>3s or (wait>1ms and operation==allreduce))", True),
        ("worst_factor > 0 or worst_factor <= 0", False),
        ("run.wait_share > 20%", True),
        ("run.wait_share > 20% and size > 8", False),
        ("operation == 'allreduce' and algorithm != ring", True),
    ],
)
def test_known_answers(expression: str, met: bool) -> None:
    """`and` binds before `or`; an unknown value satisfies no condition."""
    assert fail_on.parse(expression).is_met_by(ROW) is met


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        ("", "say when to fail"),
        ("  ", "say when to fail"),
        ("()", "no comparison"),
        ("size > 8 and", "no comparison"),
        ("(size > 8", "a bracket is not closed"),
        ("size > 8)", r"'\)' is one too many"),
        ("size > 8 size > 9", "one too many"),
        ("size = 8", "no comparison at 'size = 8'"),
        ("total_wayt > 1s", "the nearest: total_wait,"),
        ("worst_facter > 1", "the nearest: worst_factor,"),
        ("speed > 1", "the nearest: .*known: .*worst_factor"),
        ("wait > 3", "wait_ns is a time with its unit, such as 200us, 5ms or 1s"),
        ("run.total_wait > 5e9", "run.total_wait_ns is a time with its unit"),
        ("latest_share > 20", "latest_share is a share, such as 30% or 0.3"),
        ("run.wait_share > 20", "run.wait_share is a share, such as 30% or 0.3"),
        ("wait_ns < -", "wait_ns is a time with its unit"),
        ("total_wait > 30%", "total_wait_ns is a time with its unit, such as"),
        ("latest_share > 3s", "latest_share is a share, such as"),
        ("worst_factor > 3s", "worst_factor is a number"),
        ("size > nan", "size is a number"),
        ("size > inf", "size is a number"),
        ("operation > 1", "operation is text"),
    ],
)
def test_what_is_refused(expression: str, printed: str) -> None:
    with pytest.raises(UsageError, match=printed) as error:
        fail_on.parse(expression)
    assert "\n" not in str(error.value)


def test_every_column_of_call_sites_is_accepted(tmp_path: Path) -> None:
    """Except columns that are neither numbers nor texts."""
    trace = mpiprof.open(waiting(tmp_path / "t"))
    beside = {"callsite", "sites", "started", "algorithms"}
    assert set(trace.callsites.columns) - beside == {*columns.numbers(), *columns.texts()}
    for name in (*columns.numbers(), *RUN_NAMES):
        assert list(fail_on.parse(f"{name} > 0").columns) == [name]


def waiting(folder: Path) -> Path:
    """Write 4.25 s of wait on 2 ranks in 8.5 s: 850 calls, in each of which one rank waits 5 ms."""
    synthetic = Synthetic(2)
    synthetic.ended_ns = 8_500 * MS + synthetic.started_ns
    late = np.array([0, 5 * MS])
    arrivals = synthetic.started_ns + np.arange(850)[:, None] * 10 * MS + late
    synthetic.add_collective("allreduce", arrivals, np.repeat(arrivals.max(1, keepdims=True), 2, 1))
    return synthetic.write(folder)


GATES = [
    line.split("--fail-on ")[1].split('"')[1]
    for path in ("README.md", "docs/howto/ci.md")
    for line in (Path(__file__).parents[2] / path).read_text("utf-8").splitlines()
    if "mpiprof report" in line and "--fail-on" in line
]


@pytest.mark.parametrize("expression", GATES)
def test_the_gates_that_we_show_catch_waiting(expression: str, tmp_path: Path) -> None:
    assert main(["report", str(waiting(tmp_path / "t")), "--fail-on", expression]) == 3


def test_we_show_gates() -> None:
    assert len(GATES) >= 2


def test_an_incomplete_trace_is_judged_only_with_incomplete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log of one rank is lost, and the rest has no waits."""
    trace = waiting(tmp_path / "t")
    words = ["report", str(trace), "--fail-on", "total_wait > 1s"]
    assert main(words) == 3
    capsys.readouterr()
    next(trace.glob("*1*.log")).unlink()
    assert main(words) == 1
    assert "incomplete" in (printed := capsys.readouterr().err) and "--incomplete" in printed
    assert main([*words, "--incomplete"]) == 0
    both = ["compare", str(trace), str(trace), "--fail-on", "run.total_wait_ns_change > 10%"]
    assert main(both) == 1 and main([*both, "--incomplete"]) == 0


def test_the_total_of_a_run_is_compared(tmp_path: Path) -> None:
    """Half of the calls have half of the wait."""
    waiting(tmp_path / "a")
    synthetic = Synthetic(2)
    arrivals = synthetic.started_ns + np.arange(425)[:, None] * 10 * MS + np.array([0, 5 * MS])
    synthetic.ended_ns = int(arrivals.max()) + MS
    synthetic.add_collective("allreduce", arrivals, np.repeat(arrivals.max(1, keepdims=True), 2, 1))
    synthetic.write(tmp_path / "b")
    words = ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--fail-on"]
    for expression, code in (
        ("run.total_wait_ns_change < -49%", 3),
        ("run.total_wait_ns_change < -51%", 0),
        ("run.other_total_wait > 2s and run.total_wait > 4s", 3),
        ("other_total_wait > 2s and total_wait > 4.3s", 0),
    ):
        assert main([*words, expression]) == code, expression


def test_a_column_without_values_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A summary has no quantiles, so the condition could never be met, without any message."""
    synthetic = Synthetic(2)
    synthetic.meta["record"] = "summary"
    for rank in range(2):
        synthetic.add(
            rank, synthetic.add_shape(rank, "allreduce", "world", sent=8), 0, 5_000_000, 10, kind=5
        )
    folder = str(synthetic.write(tmp_path / "t"))
    assert main(["report", folder, "--fail-on", "wait_p99 > 1us", "--incomplete"]) == 0
    assert "wait_p99_ns is not known here, so nothing meets it" in capsys.readouterr().err
    assert main(["report", folder, "--fail-on", "total_elapsed > 9s", "--incomplete"]) == 0
    assert "not known" not in capsys.readouterr().err
