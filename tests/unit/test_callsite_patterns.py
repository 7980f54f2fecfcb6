"""Patterns of --site: the `next:` line selects one call site, and an ambiguous pattern is noted."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.reports.site_labels import exact_pattern
from mpiprof.reports.words.compare_sentences import verdict_paragraphs
from mpiprof.trace.sites import matches_pattern

MS = 1_000_000
LATE_MS = {"app.py:1:main": 1, "app.py:12:main": 5, "app.py:12:step": 2}


def write_trace(folder: Path, late_ms: dict[str, int], *, native: bool = False) -> Path:
    """Write 2 ranks with an allreduce at each site, where rank 1 is late by `late_ms`.

    native: replace each site by an address in a missing program.
    """
    synthetic = Synthetic(2)
    synthetic.ended_ns = 200 * MS
    for number, (site, late) in enumerate(late_ms.items()):
        arrivals = np.arange(1, 4)[:, None] * 50 * MS + number * 10 * MS + np.array([0, late * MS])
        frame = {"module": "/nowhere/heat", "offset": 0x1356 + number, "symbol": ""}
        exits = np.repeat(arrivals.max(1, keepdims=True) + 1000, 2, 1)
        synthetic.add_collective(
            "allreduce", arrivals, exits, site=dict.fromkeys((0, 1), frame) if native else site
        )
    return Path(synthetic.write(folder))


def test_a_number_at_the_end_of_a_pattern_is_whole() -> None:
    line = [{"file": "/x/app.py", "line": 12, "function": "main"}]
    address = [{"file": "/x/heat", "line": None, "function": "0x1356"}]
    assert matches_pattern("send", line, "app.py:12")
    assert not matches_pattern("send", line, "app.py:1")
    assert matches_pattern("send", address, "send heat 0x1356")
    assert not matches_pattern("send", address, "heat 0x135")


def test_exact_patterns_select_one_call_site() -> None:
    heat = {"file": "/x/heat", "line": None}
    app = {"file": "/x/app.py", "line": 3, "function": "main"}
    rows: list[dict[str, Any]] = [
        {"operation": "sendrecv", "sites": [{**heat, "function": "0x1356"}]},
        {"operation": "sendrecv", "sites": [{**heat, "function": "0x135"}]},
        {"operation": "allreduce", "sites": [{**heat, "function": "0x1405"}]},
        {"operation": "send", "sites": [app]},
        {"operation": "recv", "sites": [app]},
        {"operation": "bcast", "sites": [{**app, "line": 33}]},
        {"operation": "bcast", "sites": [{**app, "line": 33, "function": "step"}]},
    ]
    for row in rows:
        pattern = exact_pattern(row, rows)
        chosen = [r for r in rows if matches_pattern(r["operation"], r["sites"], pattern)]
        assert chosen == [row]


def test_an_ambiguous_pattern_takes_the_costliest_call_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write_trace(tmp_path / "t", LATE_MS)
    assert main(["report", str(trace), "--site", "app.py"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("allreduce at app.py:12 main: 3 instances")
    assert "3 call sites match; this one waits most." in printed
    assert "The others: --site 'allreduce app.py:12 step', --site app.py:1)" in printed


def test_the_next_line_selects_the_costliest_call_site_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write_trace(tmp_path / "t", LATE_MS)
    assert main(["report", str(trace)]) == 0
    command = capsys.readouterr().out.rstrip().splitlines()[-1].partition("   (")[0]
    words = shlex.split(command)
    assert words[-2:] == ["--site", "allreduce app.py:12 main"]
    assert main(words[words.index("report") :]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("allreduce at app.py:12 main: 3 instances")
    assert "match" not in printed


def test_addresses_have_a_remedy_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write_trace(tmp_path / "t", {"heat.c:3:main": 1}, native=True)
    with_lines = write_trace(tmp_path / "lines", {"heat.c:3:main": 1})
    assert main(["report", str(trace)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("is missing, so its call sites are addresses: copy the recorded file") == 1
    assert main(["report", str(with_lines)]) == 0
    assert "call sites are addresses" not in capsys.readouterr().out


def test_few_instances_do_not_contradict_the_run_time(tmp_path: Path) -> None:
    from mpiprof.causes.compare import compare
    from mpiprof.causes.compare_verdict import judge_difference

    traces = [mpiprof.open(write_trace(tmp_path / name, {"app.py:1:main": 1})) for name in "ab"]
    difference = judge_difference(compare(traces))
    lines = verdict_paragraphs(difference, traces[1:], before=traces[:1])
    about_runs = [line for line in lines if "B" in line and "A" in line]
    assert not any(line.startswith("There is too little") for line in about_runs)
    assert any(line.startswith("In collectives") for line in about_runs)


def test_the_next_line_of_view_names_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    from mpiprof.commands.view import announce

    announce("http://localhost:1/", "127.0.0.1", 1, Path("the folder"))
    assert "report 'the folder'   (" in capsys.readouterr().out
