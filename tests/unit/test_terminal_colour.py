"""Colour and length of the output of report, status and compare."""

from __future__ import annotations

import pty
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

from mpiprof.__main__ import main
from mpiprof.interface import terminal_colour
from mpiprof.interface.terminal_colour import paint, remove_colour
from mpiprof.reports.table import MAX_LINES, Section, join_sections

MS = 1_000_000


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write two traces of 40 ranks with 30 call sites in files with long names."""
    folders = []
    for number in range(2):
        synthetic = Synthetic(40)
        random = np.random.default_rng(number)
        for site in range(30):
            late = random.normal(1, 0.1, (12, 40))
            late[:, 7] += 3 + number
            first = (np.arange(12)[:, None] + 1) * 1000 * MS + site * 20 * MS
            arrivals = np.rint(first + late * MS).astype(np.int64)
            exits = np.repeat(arrivals.max(1, keepdims=True) + 50_000, 40, 1)
            path = f"a_very_long_directory/with_another_one/solver_{site}.py"
            synthetic.add_collective("allreduce", arrivals, exits, site=f"{path}:{site + 1}:main")
        synthetic.ended_ns = 14_000 * MS
        folders.append(synthetic.write(tmp_path_factory.mktemp("long") / ("t" * 100)))
    return folders


@pytest.mark.heavy
@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("verb", ["report", "status", "compare", "history", "site"])
def test_output_fits_a_screen(
    verb: str,
    columns: str,
    traces: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    words = {
        "report": ["report", str(traces[0])],
        "site": ["report", str(traces[0]), "--site", "solver_3.py"],
        "status": ["status", str(traces[0])],
        "compare": ["compare", *map(str, traces)],
        "history": ["history", *map(str, traces)],
    }[verb]
    assert main(words) == 0
    plain = capsys.readouterr().out
    assert len(plain.splitlines()) <= MAX_LINES
    # Only commands and lines that are one path exceed the width.
    assert all(len(x) <= int(columns) or "/" in x for x in plain.splitlines())
    tables = [x for x in plain.splitlines() if "solver_" in x and x.startswith("  ")]
    assert all(len(x) <= int(columns) for x in tables)
    assert main([*words, "--color", "always"]) == 0
    painted = capsys.readouterr().out
    assert "\x1b[" in painted and remove_colour(painted) == plain
    assert main([*words, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= len(plain.splitlines()) - 1


def test_auto_colours_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    master, slave = pty.openpty()
    with open(slave, "w") as terminal, open(master), monkeypatch.context() as patch:
        patch.setattr("sys.stdout", terminal)
        expected = [("xterm", "", True), ("xterm", "1", False), ("dumb", "", False)]
        for term, no_color, coloured in expected:
            patch.setenv("TERM", term)
            patch.setenv("NO_COLOR", no_color)
            terminal_colour.set_mode("auto")
            assert (paint("a", "late") != "a") is coloured
        terminal_colour.set_mode("always")
        assert paint("a\n\nb", "late") == "\x1b[38;5;166ma\x1b[0m\n\n\x1b[38;5;166mb\x1b[0m"
    terminal_colour.set_mode("auto")
    assert paint("a", "late") == "a"
    terminal_colour.set_mode("never")


def test_sections_that_do_not_fit_are_named() -> None:
    table = "\n".join(map(str, range(15)))
    sections = [Section(name, table) for name in ("A", "B, 3 of 4", "C; of all")]
    text = join_sections(sections, "next: x", whole=False)
    assert text.count("\n") < MAX_LINES and "Not shown: C. --all shows them.\n\nnext: x" in text
    assert "Not shown" not in join_sections(sections, "next: x", whole=True)
    assert join_sections([Section("A", ""), Section("", "b")], "c", whole=False) == "b\n\nc"


@pytest.mark.parametrize(("lines", "computed"), [(36, []), (20, ["facts"])])
def test_sections_that_cannot_fit_are_not_computed(lines: int, computed: list[str]) -> None:
    texts: list[str] = []

    def make_text() -> str:
        texts.append("facts")
        return "a\nb\nc"

    first = Section("A", "\n".join(map(str, range(lines))), essential=True)
    page = join_sections(
        [first, Section("Facts", make_text=make_text, min_lines=2)], "c", whole=False
    )
    assert texts == computed
    assert ("Not shown: Facts." in page) is (not computed) and ("a\nb\nc" in page) is bool(computed)
    last = Section("Facts", make_text=make_text, min_lines=2)
    assert "a\nb\nc" in join_sections([first, last], "c", whole=True)
