"""Trace folders with planted links, or of other users: no foreign file is changed.

The files of a finished trace are tested too.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi

import mpiprof

ANOTHER = 12345  # uid of another user


def recorded(mpi: Mpi, *options: str | Path) -> list[str | Path]:
    """Return the command line that records a program."""
    return [mpi.python, "-m", "mpiprof", "run", *options, "--"]


@pytest.mark.parametrize("name", ["rank-000000.tables", "selection.jsonl"])
def test_a_planted_link_is_not_followed(name: str, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the link's target is unchanged, and the program runs."""
    victim, folder = tmp_path / "victim", tmp_path / "trace"
    victim.write_text("precious")
    folder.mkdir()
    (folder / name).symlink_to(victim)
    program = compiled(mpi, "communicators_reused_handles.c")
    words = recorded(mpi, "--or-bare", "--switch", "auto", "-o", folder)
    ended = run_mpi(mpi, 2, [*words, program, "300"], check=True)
    bare = run_mpi(mpi, 2, [program, "300"], check=True)
    assert ended.stdout == bare.stdout
    assert victim.read_text() == "precious"


def test_a_link_instead_of_the_folder(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: no program is started, and nothing is written."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "trace").symlink_to("victim")
    ended = run(
        [*recorded(mpi, "-o", "trace"), compiled(mpi, "communicators_reused_handles.c"), "1"],
        cwd=tmp_path,
    )
    assert ended.returncode == 1
    assert "it is a link" in ended.stderr and ended.stdout == ""
    assert not list((tmp_path / "victim").iterdir())


def test_a_folder_of_another_owner(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a folder of another user is refused, and stays unchanged."""
    folder = tmp_path / "trace"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, ANOTHER, -1)
    else:
        folder = Path("/tmp")
    before = sorted(folder.iterdir())
    ended = run(
        [*recorded(mpi, "-o", folder), compiled(mpi, "communicators_reused_handles.c"), "1"]
    )
    assert ended.returncode == 1 and "it belongs to another user" in ended.stderr
    assert folder == Path("/tmp") or sorted(folder.iterdir()) == before


def modes(folder: Path) -> set[int]:
    """Return the modes of the files in a folder."""
    return {path.stat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.mark.parametrize("nodes_above", ["32", "1"])
def test_who_can_read_a_trace(nodes_above: str, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: only this user can read a trace; with --share, the umask decides."""
    words: list[str | Path] = [compiled(mpi, "communicators_reused_handles.c"), "1"]
    environment = {"MPIPROF_NODE_FILES_ABOVE": nodes_above}
    before = os.umask(0o022)
    try:
        for name, options in (("own", ()), ("shared", ("--share",))):
            command = recorded(mpi, *options, "-o", tmp_path / name)
            run_mpi(mpi, 2, [*command, *words], env=environment, check=True)
    finally:
        os.umask(before)
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755
    assert modes(tmp_path / "own") == {0o600}
    assert modes(tmp_path / "shared") == {0o644}


def test_an_empty_folder_of_the_user(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: an empty folder is used unchanged."""
    (tmp_path / "trace").mkdir(mode=0o755)
    words = [
        *recorded(mpi, "-o", tmp_path / "trace"),
        compiled(mpi, "communicators_reused_handles.c"),
        "1",
    ]
    run_mpi(mpi, 2, words, check=True)
    assert mpiprof.open(tmp_path / "trace").is_complete
    assert (tmp_path / "trace").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("bare", [False, True])
def test_a_finished_trace_has_regular_files_only(bare: bool, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, one possibly bare: Python's copytree copies the trace, and the copy works."""
    program = compiled(mpi, "mpmd_server.c")
    words = [*recorded(mpi, "-q", "-o", tmp_path / "trace"), program, "0"]
    first: list[str | Path] = [program, "0"] if bare else words
    run([*mpi.mpiexec(1), *first, ":", "-n", "1", *words], check=True)
    kinds = {p.is_symlink() or not (p.is_file() or p.is_dir()) for p in tmp_path.rglob("*")}
    assert kinds == {False}
    shutil.copytree(tmp_path / "trace", tmp_path / "copy")
    there, copied = mpiprof.open(tmp_path / "trace"), mpiprof.open(tmp_path / "copy")
    assert len(copied.events) == len(there.events) > 0
