"""Runs of different programs or numbers of ranks are not compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.causes.time_changes import RunTimeChange
from mpiprof.reports.words import compare_sentences

MS = 1_000_000


def write_run(
    folder: Path, program: str = "app", site: str = "app.c:3:main", ranks: int = 4, late: int = 0
) -> Path:
    """Write a run with 20 steps, in which rank 1 is late by some ms."""
    synthetic = Synthetic(ranks)
    synthetic.meta["program"] = program
    arrivals = np.arange(1, 21)[:, None] * 20 * MS + late * MS * (np.arange(ranks) == 1)
    exits = np.repeat(arrivals.max(1, keepdims=True) + 1000, ranks, 1)
    synthetic.add_collective("allreduce", arrivals, exits, site=site)
    finalize = np.full((1, ranks), 500 * MS)
    synthetic.add_collective("finalize", finalize, finalize + MS, site="end.c:1:main")
    synthetic.started_ns, synthetic.ended_ns = 0, 510 * MS
    return synthetic.write(folder)


@pytest.mark.parametrize(
    ("other", "fact"),
    [
        ({"program": "heat", "site": "heat.c:3:main"}, "A is app, B is heat."),
        ({"program": "heat", "site": "heat.c:3:main", "ranks": 6},
         "A is app on 4 ranks, B is heat on 6 ranks."),
        ({"site": "heat.c:3:solve"}, "they have no call site in common."),
        ({"ranks": 6},
         "A has 4 ranks, B has 6. `compare --scaling` compares numbers of ranks."),
    ],
)  # fmt: skip
def test_one_line_states_why_runs_are_not_comparable(
    other: dict[str, object], fact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = str(write_run(tmp_path / "a"))
    second = str(write_run(tmp_path / "b", late=3, **other))  # type: ignore[arg-type]
    expected = f"A and B are not comparable: {fact}"
    for words in ([first, second], [first, "--to", second], [first, second, "--all"]):
        assert main(["compare", *words]) == 0
        line, blank, following = capsys.readouterr().out.splitlines()
        assert (line, blank) == (expected, "")
        assert following.startswith("next: ")
    assert main(["compare", first, second, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (verdict,) = found["verdicts"]
    assert (verdict["text"], verdict["outcome"]) == ([expected], "incomparable")
    assert (verdict["effect_ns"], verdict["sites"], found["callsites"]) == (0, [], [])
    assert main(["compare", first, second, "--fail-on", "wait_ns > 0 ns"]) == 2
    assert f"--fail-on: {expected.rstrip('.')}" in capsys.readouterr().err
    with pytest.raises(mpiprof.errors.UsageError, match="not comparable"):
        mpiprof.open(first).plot.compare(second)


@pytest.mark.parametrize(
    "other",
    [
        {"program": "app-fixed"},
        {"site": "app.c:9:main"},
        {"program": "app-fixed", "site": "app.c:9:main"},
    ],
)
def test_a_changed_program_is_comparable(
    other: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program is renamed, or lines are inserted above the call."""
    first = str(write_run(tmp_path / "a"))
    second = str(write_run(tmp_path / "b", late=3, **other))  # type: ignore[arg-type]
    assert main(["compare", first, second, "--fail-on", "wait_ns_change < -10%"]) == 0
    out = capsys.readouterr().out
    assert "comparable" not in out and "In collectives B is slower than A" in out


def test_one_of_several_traces_is_not_comparable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(write_run(tmp_path / str(n), late=n, ranks=4 + n // 2)) for n in range(3)]
    assert main(["compare", *names, "--all"]) == 0
    out = capsys.readouterr().out
    assert "A and C are not comparable: A has 4 ranks, C has 5." in out
    assert "In collectives B is slower than A" in out
    assert "A → B: call sites" in out and "A → C: call sites" not in out


@pytest.mark.parametrize(
    ("times_s", "expected"),
    [
        ((1.0, 2.0, 3.0), "No statement about the run times of A and B is possible: 1.00 s → "),
        ((1.0, 15.0, 7.05), "B is 14.0 s slower than A: 1.00 s → 15.0 s, × 15."),
        ((1.0, 1.1, 0.5), "The run times of A and B differ by no more than chance: "
                          "1.00 s → 1.10 s, +10 % ± 50 % (95 %"),
    ],
)  # fmt: skip
def test_an_interval_wider_than_the_run_time_is_not_printed(
    times_s: tuple[float, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after, interval = (time * 1e9 for time in times_s)
    change = RunTimeChange(before, after, interval, abs(after - before) > interval, is_assumed=True)
    monkeypatch.setattr(compare_sentences, "measure_run_times", lambda *_: change)
    sentence = compare_sentences.run_time_sentence([], [])
    assert sentence.startswith(expected)
