"""Output fits every terminal: its encoding, its locale and its width."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

from mpiprof.__main__ import main
from mpiprof.interface import ascii_fallback

pytestmark = pytest.mark.heavy

MS = 1_000_000
PLAIN = [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "ascii"}]
VERBS = [
    ["report"],
    ["report", "--by", "rank"],
    ["report", "--by", "routine"],
    ["report", "--site", "allreduce"],
    ["status"],
    ["compare"],
    ["tune"],
    ["tune", "--help"],
    ["algorithms"],
    ["algorithms", "alltoall", "ring", "-p", "4", "--draw"],
    ["doctor"],
    ["bench", "--help"],
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    synthetic = Synthetic(4)
    for operation, site in (("allreduce", "solver.py:12:läuft"), ("alltoall", "md.py:93:force")):
        arrivals = np.arange(1, 61)[:, None] * 10 * MS + np.array([0, 0, 0, 3 * MS])
        exits = arrivals.max(1, keepdims=True) + 40_000 + 0 * arrivals
        synthetic.add_collective(operation, arrivals, exits, site=site, sent=1000, received=1000)
    return synthetic.write(tmp_path_factory.mktemp("terminal") / "trace")


# Runs one verb after another with a form feed between them, because one interpreter each is slow.
EACH = """
import json, sys
from mpiprof.__main__ import main
for words in json.loads(sys.argv[1]):
    try:
        code = main(words)
    except SystemExit as after_help:
        code = after_help.code or 0
    assert code in (0, 3), words
    print(chr(12), end="")
"""


def printed(verbs: list[list[str]], environment: dict[str, str] | None = None) -> list[bytes]:
    """Return the output of verbs, in an environment with only these locale variables."""
    without = ("LC_", "LANG", "PYTHONIOENCODING", "PYTHONUTF8", "COLUMNS")
    clean = {n: v for n, v in os.environ.items() if not n.startswith(without)}
    done = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps(verbs)],
        env={**clean, "COLUMNS": "80", **(environment or {})},
        capture_output=True,
        check=False,
    )
    assert b"UnicodeEncodeError" not in done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout.split(b"\f")[:-1]


def of(verb: list[str], trace: Path) -> list[str]:
    """Return a verb with the traces that it needs."""
    count = {"report": 1, "status": 1, "compare": 2, "tune": 1}.get(verb[0], 0)
    if verb[0] == "algorithms" or "--help" in verb:
        count = 0
    return [verb[0], *[str(trace)] * count, *verb[1:]]


@pytest.mark.parametrize("environment", PLAIN, ids=lambda e: "-".join([*e, *e.values()]))
def test_plain_locales_get_words(environment: dict[str, str], trace: Path) -> None:
    texts = printed([of(verb, trace) for verb in VERBS], environment)
    assert len(texts) == len(VERBS)
    for verb, text in zip(VERBS, texts, strict=True):
        assert text and text.isascii(), verb
    assert all(word in texts[0] for word in (b"omega/T", b"sum wait", b"3 in 100 %"))


def test_others_get_symbols(trace: Path) -> None:
    for environment in ({}, {"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}):
        text = printed([["report", str(trace)]], environment)[0].decode()
        assert "ω/T" in text and "Σ wait" in text


def test_every_symbol_has_a_word() -> None:
    """Covers all symbols in mpiprof's texts."""
    root = Path(ascii_fallback.__file__).parent
    used = {c for path in root.rglob("*.py") for c in path.read_text() if not c.isascii()}
    assert {c for c in used if not c.isalpha()} <= ascii_fallback.REPLACEMENTS.keys()
    assert {c for c in used if "GREEK" in unicodedata.name(c)} <= ascii_fallback.REPLACEMENTS.keys()


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_narrow_terminals_lose_columns_but_no_file_names(
    columns: int, trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["report", str(trace)]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("Call sites by total waiting time")
    table = lines[begin + 1 : begin + 4]
    assert max(map(len, table)) <= columns
    assert any("solver.py:12" in line for line in table) and any("md.py:93" in x for x in table)
    assert "Σ wait" in table[0] and "bal." not in table[0]
    long = [line for line in lines if len(line) > columns and line.startswith(" ")]
    assert [line.split()[-1] for line in long] in ([], [str(trace)])


def test_report_as_markdown(trace: Path, tmp_path: Path) -> None:
    mail = tmp_path / "mail.md"
    assert main(["report", str(trace), "-o", str(mail)]) == 0
    text = mail.read_text()
    assert text.startswith("# synthetic.py") and "Rank 3" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count(" | ") for line in table}) == 1 and len(table) == 4
    assert "md.py:93" in text and "## What costs most" in text


def test_report_by_the_ending_of_a_name(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(trace), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert main(["report", str(trace), "-o", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text()) == shown
    assert main(["report", str(trace), "-o", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    for wrong in (["r.txt"], ["r.md", "--site", "md.py"], ["r.html", "--json"], ["no/r.md"]):
        assert main(["report", str(trace), "-o", str(tmp_path / wrong[0]), *wrong[1:]]) == 2


def test_a_site_is_found_by_its_operation(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(trace), "--site", "alltoall"]) == 0
    assert capsys.readouterr().out.startswith("alltoall at md.py:93 force")
