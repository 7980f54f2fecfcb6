"""`--machine FILE` replaces the recorded message times of a trace, for all verbs with a trace."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpiprof.dashboard.trace_data import TraceContext
from support.synthetic import LINK, MACHINE, Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.collectives.machine import machine_of_table
from mpiprof.errors import UsageError

MS = 1_000_000


def machine(alpha_ns: float) -> dict[str, Any]:
    """Return a calibrated table with this time of an empty message."""
    table = copy.deepcopy(MACHINE)
    times = [alpha_ns + size * 1.0 for size in (0, 1_000, 1_000_000)]
    link = {**LINK, "alpha_ns": alpha_ns, "one_way_ns": times, "both_ways_ns": times}
    return table | {"within": link, "source": "calibrate"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of barriers with rank 1 late by 3 ms, and with times of a busy machine."""
    synthetic = Synthetic(2, machine=machine(3.85e6))
    synthetic.ended_ns = 200 * MS
    arrivals = np.arange(1, 4)[:, None] * 10 * MS + np.array([0, 3 * MS])
    synthetic.add_collective(
        "barrier", arrivals, np.repeat(arrivals.max(1, keepdims=True) + 1000, 2, 1)
    )
    return synthetic.write(tmp_path / "trace")


def factor(trace: Path, capsys: pytest.CaptureFixture[str], *words: str) -> float | None:
    """Return the worst-case factor in `report --json`."""
    assert main(["report", str(trace), "--json", *words]) == 0
    (row,) = json.loads(capsys.readouterr().out)["callsites"]
    found = row["worst_factor"]
    return None if found is None else float(found)


@pytest.mark.heavy
def test_factors_come_from_the_file(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A barrier sends empty messages: ω/T is 3 ms over alpha.

    Cached results have a separate table.
    """
    for alpha_ns in (10_000.0, 30_000.0):
        file = tmp_path / "machine.json"
        file.write_text(json.dumps(machine(alpha_ns)))
        for _ in range(2):  # computed, then cached
            assert factor(trace, capsys, "--machine", str(file)) == pytest.approx(3e6 / alpha_ns)
            assert factor(trace, capsys) is None
    assert main(["report", str(trace), "--machine", str(file)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "measured by calibrate (--machine); 30.0 µs for an empty message" in text
    assert mpiprof.open(trace).machine is None


def test_a_report_without_times_names_the_option(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(trace)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "`calibrate -o FILE` measures them, for `report --machine FILE`" in text


def test_the_pages_have_the_same_factors(trace: Path) -> None:
    data = TraceContext([trace], [], None, machine(10_000.0)).latest_data("trace")
    assert data.callsites["worst_factor"].tolist() == [pytest.approx(300.0)]


@pytest.mark.parametrize("words", [["report"], ["compare", "TRACE"], ["export", "--to", "html"]])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such file"),
        ("{}", "no alpha and beta"),
        ("[", "cannot be read as a machine table"),
        (json.dumps(machine(3.85e6)), "not usable, 3.85 ms for an empty message"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    words: list[str],
    content: str | None,
    why: str,
    trace: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "machine.json"
    if content is not None:
        file.write_text(content)
    verb, *rest = [word.replace("TRACE", str(trace)) for word in words]
    assert main([verb, str(trace), *rest, "--machine", str(file)]) == 2
    err = capsys.readouterr().err
    assert why in err and str(file) in err and err.count("\n") == 1


def test_a_table_may_have_costs_one_way() -> None:
    """Factors f_alpha and f_beta of Rabenseifner and Adamidis; without them 1."""
    table = {"within": {"alpha_ns": 1000.0, "beta_ns_per_byte": 2.0}}
    assert not machine_of_table(table, "t").distinguishes_ways
    half = machine_of_table(table | {"one_way_alpha": 0.75, "one_way_beta": 0.5}, "t")
    assert half.message_time(100, between=True, one_way=True) == 750 + 100
    assert half.message_time(100, between=True, one_way=False) == 1000 + 200
    with pytest.raises(UsageError, match="one_way_beta is 0: write a number above 0, at most 1"):
        machine_of_table(table | {"one_way_beta": 0}, "t")
