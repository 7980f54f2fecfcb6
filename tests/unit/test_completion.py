"""Shell completion: scripts that shtab makes from the parser of all verbs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mpiprof.__main__ import VERBS, parser

shtab = pytest.importorskip("shtab")

COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shtab_mpiprof; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "mpiprof"
    path.write_text(shtab.complete(parser(), "bash"))
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], {"report"}),
        (["report", "--mach"], {"--machine"}),
        (["bench", "adapt"], {"adaptive"}),
        (["export", "--to", "perf"], {"perfetto"}),
    ],
)
def test_bash_completes_verbs_options_and_choices(
    words: list[str], expected: set[str], script: Path
) -> None:
    command = ["bash", "-c", COMPLETE, "complete", str(script), "mpiprof", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("words", [["report"], ["report", "--machine"], ["run"]])
def test_bash_completes_files(words: list[str], script: Path, tmp_path: Path) -> None:
    (tmp_path / "a-trace").mkdir()
    begin = str(tmp_path / "a-")
    command = ["bash", "-c", COMPLETE, "complete", str(script), "mpiprof", *words, begin]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / "a-trace")]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_verb(shell: str) -> None:
    script = shtab.complete(parser(), shell)
    assert all(verb in script for verb in VERBS)
