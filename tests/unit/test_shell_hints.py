"""Suggested commands: a shell reads each word back, and no name can inject a command."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

from mpiprof.__main__ import main
from mpiprof.collectives.tune import plan
from mpiprof.errors import UsageError
from mpiprof.interface.shell_hints import (
    format_command,
    python_invocation,
    quote_word,
    switch_value,
)

MS = 1_000_000
NAMES = [
    "plain.py",
    "my app.py",
    "`touch planted`.py",
    "$(touch planted).py",
    "a;touch planted;b.py",
    'it\'s & "so".py',
    "a\\b!c#d*e?.py",
    "two\nlines\ttouch planted.py",
    "esc\x1b[2Jape'.py",
    "nötig.py",
    "\udcff.py",
    "-n.py",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_shell_parses_the_intended_words(name: str, tmp_path: Path) -> None:
    """By bash; without control characters by every shell."""
    shells = ["bash", "sh"] if name.isprintable() else ["bash"]
    for shell in shells:
        printed = subprocess.run(
            [shell, "-c", f"printf '%s\\0' {quote_word(name)}"], cwd=tmp_path, capture_output=True
        )
        assert printed.stdout == name.encode("utf-8", "surrogateescape") + b"\0"
    assert "\n" not in quote_word(name) and "\x1b" not in quote_word(name)
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_no_option() -> None:
    assert quote_word(Path("-rf x")) == "'./-rf x'"
    assert (
        format_command("report", Path("-t"), ranks=4)
        == f"mpiexec -n 4 {python_invocation()} report ./-t"
    )


def recorded(folder: Path, file: str) -> Path:
    """Write a trace of a program and a source file of one name: rank 2 late in each allreduce."""
    synthetic = Synthetic(4)
    synthetic.ended_ns = 200 * MS
    arrivals = np.arange(1, 11)[:, None] * 10 * MS + np.array([0, 0, 3 * MS, 0])
    exits = np.repeat(arrivals.max(1, keepdims=True) + 1000, 4, 1)
    synthetic.add_collective("allreduce", arrivals, exits, site=f"{file}:12:step")
    synthetic.meta["program"] = file
    return synthetic.write(folder)


def suggestions(text: str) -> Iterator[list[str]]:
    """Yield the words of each command that a text suggests."""
    for line in text.splitlines():
        if line.startswith("next: "):
            yield shlex.split(line.removeprefix("next: ").partition("   (")[0])


PRINTABLE = [name for name in NAMES if name.isprintable() and "\\" not in name]


@pytest.mark.heavy
@pytest.mark.parametrize("name", PRINTABLE)
def test_every_suggestion_names_its_trace_and_its_site(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = recorded(tmp_path / f"t {name}", name)
    named = trace.name
    for words in (
        ["report", named],
        ["report", named, "--by", "rank"],
        ["report", named, "--by", "routine"],
        ["report", named, f"--site={name}:12"],
        ["compare", named, named],
        ["status", named],
        ["tune", named],
    ):
        assert main(words) == 0
        commands = list(suggestions(capsys.readouterr().out))
        assert len(commands) == 1 and named in commands[0], commands
        if words == ["report", named]:
            pattern = f"{name}:12"
            wanted = [f"--site={pattern}"] if name.startswith("-") else ["--site", pattern]
            assert commands[0][-len(wanted) :] == wanted


@pytest.mark.parametrize(
    "site",
    [
        "a,b.py:12",
        "x=y.py:12",
        "a,b=c,d.py:1",
        "100%25.py:3",
        "50%.py:3",
        "auto,b.py:2",
        "a=1,b.c:7",
    ],
)
def test_call_sites_with_commas_and_equals_signs_survive(site: str) -> None:
    """Written by mpiprof, alone and beside other items, and as passed to ranks."""
    written = switch_value(site, "ring")
    assert "," not in written and written.count("=") == 1
    for text in (written, f"{written},alltoall=ring", f"bcast=chain,{written},auto"):
        for form in (text, plan.make_absolute(text)):
            rules = [rule for rule in plan.read(form).rules if rule.site]
            assert [(rule.site, rule.algorithm) for rule in rules] == [(site, "ring")]


@pytest.mark.parametrize("site", ["a,b.py:12", "x=y.py:12", "a,b=c,d.py:1", "lib,v=2,x.c:40"])
def test_they_survive_as_a_person_writes_them(site: str) -> None:
    for text in (f"{site}=ring", f"alltoall=ring,{site}=ring,auto", f"{site}=ring,{site}=native"):
        rules = [rule for rule in plan.read(text).rules if rule.site]
        assert {rule.site for rule in rules} == {site}


def test_a_missing_plan_beside_a_call_site_is_reported() -> None:
    with pytest.raises(UsageError, match=r"missing\.json: no such file"):
        plan.read("missing.json,b.py:12=ring")
