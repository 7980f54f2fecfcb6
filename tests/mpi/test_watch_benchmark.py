"""The table of `--watch` reports, for some faults and one sound program."""

from __future__ import annotations

import subprocess

import pytest
from support.jobs import BENCHMARKS, clean_environment
from support.mpis import Mpi
from support.wait_until import HANG_S


@pytest.mark.slow
def test_the_table_of_three_faults_and_a_sound_program(openmpi: Mpi) -> None:
    """On 2 to 8 ranks: all faults are reported correctly; delays are for an idle machine."""
    words = ["--faults", "3", "--minutes", "0.15", "--programs", "1", "--limit", "1"]
    done = subprocess.run(
        [str(openmpi.python), "-m", "benchmarks.watch", *words],
        env=clean_environment() | BENCHMARKS,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    head, reported, slowest, right, _, alarms = done.stdout.splitlines()
    assert head.split() == ["what", "asked", "measured", "holds"]
    assert reported.startswith("reported after the limit") and " 3 of 3 " in reported
    assert slowest.startswith("slowest after the limit")
    assert "3 right, 0 undecided, 0 wrong" in right and right.endswith("yes")
    assert " 0 in " in alarms and alarms.endswith("yes")


@pytest.mark.parametrize("words", [["--limit", "60"], ["--jobs", "0"], ["--faults", "-1"]])
def test_wrong_words_are_refused(words: list[str], openmpi: Mpi) -> None:
    command = [str(openmpi.python), "-m", "benchmarks.watch", *words]
    done = subprocess.run(
        command, env=clean_environment() | BENCHMARKS, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
