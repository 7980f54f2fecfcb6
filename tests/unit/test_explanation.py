"""`report --explain`: the function that made each finding, and the time that its replay lacks."""

from __future__ import annotations

import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.cause_programs import serial_section
from support.program import Program
from support.random_work import MS, Noise

from mpiprof.__main__ import main
from mpiprof.causes.cause import Cause
from mpiprof.reports.words.explanation import MAX_SEGMENTS

RANKS, RANK, STEPS, SERIAL_NS = 8, 3, 24, 4 * MS
FILE = "mpiprof/causes/exclusive_work.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace in which a rank works alone in each step."""
    program = serial_section(RANKS, STEPS, 5.0, rank=RANK, serial_ms=SERIAL_NS / MS)
    return program.write(tmp_path_factory.mktemp("explained") / "t")


def run_report(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    assert main(["report", str(folder), *options]) == 0
    return capsys.readouterr().out


def read_findings(
    capsys: pytest.CaptureFixture[str], folder: Path, *options: str
) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = json.loads(run_report(capsys, folder, *options))["findings"]
    return findings


def test_the_origin_of_a_finding_follows_its_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run_report(capsys, folder, "--explain")
    words = " ".join(report.split())
    place = "between gather at solver.py:20 solve and bcast at solver.py:22 solve"
    assert words.count("Found by") == 1
    assert (
        f"saving 84.0 ms of waiting and 12.0 ms of work. Found by make_causes in {FILE}." in words
    )
    fields = "work: 96.0 ms; count: 24; other ranks: 7; removed share: 1; off share: 0"
    assert f"{FILE}. ranks: 3; places: {place}; {fields}." in words
    assert "The replay lacks 96.0 ms of 24 segments; the 10 with most time: rank begin" in words
    rows = [line for line in report.splitlines() if line.endswith(place)]
    assert len(rows) == MAX_SEGMENTS
    assert all(row.split()[0] == "3" and "4.00 ms  4.00 ms  between" in row for row in rows)


def test_json_has_the_fields_and_the_segments(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (finding,) = read_findings(capsys, folder, "--explain", "--json")
    explanation = finding["explanation"]
    assert (explanation["file"], explanation["function"]) == (FILE, "make_causes")
    totals = explanation["removed_count"], explanation["removed_ns"]
    assert totals == (STEPS, STEPS * SERIAL_NS)
    fields, segments = explanation["fields"], explanation["segments"]
    assert (fields["ranks"], fields["count"], fields["other_ranks"]) == ([RANK], STEPS, RANKS - 1)
    assert len(segments) == MAX_SEGMENTS
    begins = [segment["begin_ns"] for segment in segments]
    assert begins == sorted(begins) and begins[0] >= 0
    for segment in segments:
        assert (segment["rank"], segment["place"]) == (RANK, fields["places"][0])
        assert segment["length_ns"] == segment["removed_ns"] == SERIAL_NS
    (plain,) = read_findings(capsys, folder, "--json")
    assert plain == {name: value for name, value in finding.items() if name != "explanation"}


def test_all_findings_are_explained_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, noise = Program(RANKS, intervals=True), Noise(RANKS)
    for step in range(60):
        late_ns = noise.work(5 * MS)
        late_ns[2] += 3 * MS
        late_ns[6] += 8 * MS * (step % 10 == 4)
        program.collective("allreduce", "app.py:11:main", late_ns)
        program.work(noise.work(MS))
        program.collective("barrier", "app.py:12:main")
    path = program.write(tmp_path / "t")
    findings = read_findings(capsys, path, "--json", "--explain")
    assert len(findings) > 1
    for options in ((), ("--all",)):
        report = run_report(capsys, path, "--explain", *options)
        assert report.count("Found by ") == len(findings)
    for explanation in (finding["explanation"] for finding in findings):
        module = import_module(explanation["file"].removesuffix(".py").replace("/", "."))
        assert inspect.isfunction(getattr(module, explanation["function"]))


def test_each_cause_names_a_function_of_its_file() -> None:
    causes = Cause.__subclasses__()
    assert causes
    for cause in causes:
        function = getattr(sys.modules[cause.__module__], cause.finder)
        assert inspect.isfunction(function) and function.__module__ == cause.__module__


@pytest.mark.parametrize(
    "options", [("--site", "solver"), ("--by", "rank"), ("--rank", "1"), ("-o", "report.md")]
)
def test_other_reports_are_not_explained(
    options: tuple[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "--explain", *options]) == 2
    assert f"leave out {options[0]}" in capsys.readouterr().err
