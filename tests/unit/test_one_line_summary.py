"""The summary of a job as one line of JSON, and as Prometheus metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.hang import summary_writer
from mpiprof.hang.summary_writer import SummaryWriter

FOUND = {
    "program": "a",
    "state": "running",
    "ranks": 2,
    "run_s": 1.5,
    "worst": {"operation": "bcast", "site": "a.c:4 main", "instances": 7, "total_s": 0.25},
    "trace": "/t",
}
# https://prometheus.io/docs/instrumenting/exposition_formats
SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*",?)+)\} (-?[0-9.e+-]+)'
)


def test_a_short_summary_is_one_line() -> None:
    text = summary_writer.format_line(FOUND)
    assert text.endswith("}\n") and text.count("\n") == 1
    assert json.loads(text) == FOUND


@pytest.mark.parametrize("letter", ["x", "é", "\n", "😀", '"', "\\"])
def test_names_of_any_length_fit_into_a_kilobyte(letter: str) -> None:
    long = {**FOUND, "program": 300 * letter, "trace": 4000 * letter}
    long["worst"] = {**FOUND["worst"], "site": 999 * letter}  # type: ignore[dict-item]
    text = summary_writer.format_line(long)
    assert len(text.encode()) <= summary_writer.MAX_BYTES
    assert json.loads(text)["ranks"] == 2
    cut = json.loads(summary_writer.format_line({**FOUND, "trace": "/" + 200 * "x" + "/end"}))
    assert cut["trace"].startswith("...") and cut["trace"].endswith("x/end")


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\udcffb"])
def test_labels_are_escaped(name: str) -> None:
    summary = {**dict.fromkeys(summary_writer.GAUGES), **FOUND, "program": name}
    text = summary_writer.format_metrics(summary, None, "7")
    written = [SAMPLE.fullmatch(line) for line in text.splitlines() if not line.startswith("#")]
    assert {match[1]: match[3] for match in written if match}["mpiprof_ranks"] == "2"
    assert all(written)


def samples(text: str) -> dict[str, dict[str, float]]:
    """Return the samples of a Prometheus text by metric and labels, each checked."""
    found: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, what, metric, rest = line.split(" ", 3)
            assert what in ("HELP", "TYPE") and metric not in found
            if what == "TYPE":
                kinds[metric] = rest
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        assert kinds[sample[1]] == ("counter" if sample[1].endswith("_total") else "gauge")
        assert sample[2] not in found.setdefault(sample[1], {})
        found[sample[1]][sample[2]] = float(sample[3])
    return found


def test_a_trace_without_totals_has_none(tmp_path: Path) -> None:
    """For example in a job that has just started."""
    from support.synthetic import Synthetic

    Synthetic(3).write(tmp_path / "t")
    trace = mpiprof.open(tmp_path / "t")
    found = summary_writer.summarise_job(trace, summary_writer.table_from_totals(trace), "running")
    assert (found["ranks"], found["calls"], found["worst"]) == (3, 0, None)
    reported = samples(
        summary_writer.format_metrics(found, summary_writer.table_from_totals(trace), "job 1")
    )
    labels = 'job_id="job 1",program="synthetic.py"'
    assert reported["mpiprof_ranks"] == {labels: 3.0}
    assert reported["mpiprof_state"] == {
        f'{labels},state="{state}"': float(state == "running") for state in summary_writer.STATES
    }


def test_the_time_goes_on_in_a_job_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last call is 5 ms after the start, and a minute has passed."""
    from support.synthetic import Synthetic

    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[1_000, 2_000]], [[5_000_000, 5_000_000]])
    synthetic.write(tmp_path / "t", finished=False)
    trace = mpiprof.open(tmp_path / "t")
    minute = int(trace.run_start_ns) + 60 * 10**9
    monkeypatch.setattr(summary_writer, "trace_now_ns", lambda _: minute)
    seconds = {
        state: summary_writer.summarise_job(trace, None, state)["run_s"]
        for state in summary_writer.STATES
    }
    assert seconds["running"] == seconds["hung"] == 60
    assert seconds["killed"] < 1


def test_the_time_of_a_job_never_runs_backwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job hangs for a minute and is killed; a minute without calls must still count."""
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[10_000, 10_000]], [[20_000, 20_000]])
    synthetic.write(tmp_path / "t", finished=False)
    to = SummaryWriter(tmp_path / "s.json", tmp_path / "t", "")
    seen = []
    for second, state in ((1, "running"), (60, "hung"), (61, "")):
        at_ns = 1_000 + second * 10**9
        monkeypatch.setattr(summary_writer, "trace_now_ns", lambda _, at=at_ns: at)
        to.write(state)
        seen.append(json.loads((tmp_path / "s.json").read_text()))
    assert [one["state"] for one in seen] == ["running", "hung", "killed"]
    assert [one["run_s"] for one in seen] == [1, 60, 61]
    synthetic.ended_ns = 61_500_001_000
    synthetic.write(tmp_path / "t")
    monkeypatch.setattr(summary_writer, "trace_now_ns", lambda _: 99 * 10**9)
    to.write()
    last = json.loads((tmp_path / "s.json").read_text())
    assert (last["state"], last["run_s"]) == ("ended", 61.5)
