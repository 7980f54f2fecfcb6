"""The table of options: words that `run -n` passes to its ranks, and the recorder's variables."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from mpiprof.launch.options import Recording, add_options, rank_arguments, recording_from_arguments


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


def test_the_defaults_are_those_of_the_table() -> None:
    assert recording_from_arguments(parsed()) == Recording()
    assert Recording().to_environment() == {
        "MPIPROF_RECORD": "events",
        "MPIPROF_SAMPLE": "1",
        "MPIPROF_LIMIT": str(1 << 30),
        "MPIPROF_MESSAGES": "auto",
        "MPIPROF_INTERVALS": "on",
        "MPIPROF_STACK": "1",
        "MPIPROF_SKIP_PACKAGES": "",
        "MPIPROF_PYTHON_SITES": "auto",
    }


def test_a_ring_has_a_size_in_bytes() -> None:
    assert parsed("--record", "ring").record == f"ring:{1 << 20}"
    assert parsed("--record", "ring:128K").record == f"ring:{1 << 17}"
    again = parsed(*rank_arguments(parsed("--record", "ring:1.5M")))
    assert recording_from_arguments(again).to_environment()["MPIPROF_RECORD"] == f"ring:{3 << 19}"


@pytest.mark.parametrize(
    "way", ["rings", "ring:", "ring:0", "ring:127K", "ring:65G", "ring:x", "ring:-1M", "", "Events"]
)
def test_another_way_to_record_is_refused(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed("--record", way)
    assert ended.value.code == 2
    assert "--record" in capsys.readouterr().err.splitlines()[-1]


def test_ranks_get_the_options_of_their_starter() -> None:
    words = ["--record", "summary", "--sample", "3", "--limit", "1M", "--stack", "2", "-q", "-m"]
    words += ["--skip-package", "a", "--skip-package", "b", "--machine", "m.json", "--partial"]
    words += ["--python-sites", "never", "--scratch", "64K", "--messages", "sums"]
    words += [
        "--learn",
        "learned.jsonl",
        "--reproducible",
        "--strict-plan",
        "--mpi",
        "mpich",
        "--or-bare",
    ]
    first = parsed(*words, "-n", "4", "--yes", "-o", "t", "--switch", "auto")
    again = parsed(*rank_arguments(first))
    assert (again.ranks, again.yes, again.folder, again.switch) == (None, False, None, None)
    here = Path.cwd()
    wanted = recording_from_arguments(parsed(*words))
    assert recording_from_arguments(again).to_environment() == wanted.to_environment()
    assert again.machine == here / "m.json" and again.learn == here / "learned.jsonl"
    assert again.module and again.strict_plan and again.or_bare and again.mpi == "mpich"
    assert wanted.to_environment() == {
        "MPIPROF_RECORD": "summary",
        "MPIPROF_SAMPLE": "3",
        "MPIPROF_LIMIT": str(1 << 20),
        "MPIPROF_MESSAGES": "sums",
        "MPIPROF_INTERVALS": "on",
        "MPIPROF_STACK": "2",
        "MPIPROF_SKIP_PACKAGES": "a:b",
        "MPIPROF_MACHINE": str(here / "m.json"),
        "MPIPROF_PARTIAL": "1",
        "MPIPROF_PYTHON_SITES": "never",
        "MPIPROF_REPRODUCIBLE": "1",
        "MPIPROF_SCRATCH": str(64 << 10),
        "MPIPROF_LEARN": str(here / "learned.jsonl"),
        "MPIPROF_QUIET": "1",
    }
