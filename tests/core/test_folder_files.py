"""Files that the recorder creates in a folder writable by others: programs/tracefile_folder.c."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.compilation import of_the_core
from support.jobs import run

ANOTHER = 12345  # uid of another user
LINK, OWNER = (
    "the folder or a file in it is a link",
    "the folder or a file in it belongs to another user",
)
PARTS = (
    *("tracefile/folder", "tracefile/fd_guard"),
    *("base/signal_guard", "base/recorder", "base/text", "base/memory"),
)
WAYS = ("shared", "append")  # ways that open an existing file


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the recorder's folder code into a separate program."""
    executable = tmp_path_factory.mktemp("folder") / "folder_files"
    return of_the_core(executable, PARTS, source="tracefile_folder.c")


def output_of(program: Path, *words: str | Path) -> str:
    """Return the output of the program."""
    return run([program, *words], check=True).stdout.strip()


def of_another(path: Path) -> Path:
    """Return a path of another user: this path, or a path of root."""
    if os.geteuid() != 0:
        return Path("/tmp") if path.is_dir() else Path("/etc/passwd")
    os.chown(path, ANOTHER, -1)
    return path


@pytest.mark.heavy
@pytest.mark.parametrize("way", ["new", *WAYS, "mark"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(way: str, there: bool, program: Path, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "trace"
    folder.mkdir()
    if there:
        victim.write_text("precious")
    (folder / "name").symlink_to(victim)
    assert output_of(program, way, folder, "name") != "done"
    assert victim.exists() == there
    assert not there or victim.read_text() == "precious"
    assert [path.name for path in folder.iterdir()] == ["name"]


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_has_another_name(way: str, program: Path, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "trace"
    folder.mkdir()
    victim.write_text("precious")
    (folder / "name").hardlink_to(victim)
    assert output_of(program, way, folder, "name") == LINK
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("way", WAYS)
def test_a_pipe_is_no_file_and_blocks_no_rank(way: str, program: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "name")
    assert output_of(program, way, tmp_path, "name") != "done"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_owner(way: str, program: Path, tmp_path: Path) -> None:
    (tmp_path / "name").write_text("theirs")
    of_another(tmp_path / "name")
    assert output_of(program, way, tmp_path, "name") == OWNER
    assert (tmp_path / "name").read_text() == "theirs"


@pytest.mark.parametrize("way", ["make", "new", *WAYS, "mark"])
def test_a_folder_of_another_owner(way: str, program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    theirs = of_another(folder)
    before = sorted(folder.iterdir())
    assert output_of(program, way, theirs, *(["name"] if way != "make" else [])) == OWNER
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("way", ["make", "new", *WAYS, "mark"])
def test_a_link_instead_of_the_folder(way: str, program: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "trace").symlink_to(tmp_path / "victim")
    name = ["name"] if way != "make" else []
    assert output_of(program, way, tmp_path / "trace", *name) == LINK
    assert not list((tmp_path / "victim").iterdir())


def test_a_folder_of_the_same_user_is_accepted(program: Path, tmp_path: Path) -> None:
    """A file that another rank has begun grows, and a marked file stays."""
    (tmp_path / "trace").mkdir()
    assert output_of(program, "make", tmp_path / "trace") == "done"
    assert output_of(program, "append", tmp_path / "trace", "name") == "done"
    assert output_of(program, "append", tmp_path / "trace", "name") == "done"
    assert output_of(program, "new", tmp_path / "trace", "name") == "File exists"
    assert (tmp_path / "trace" / "name").read_text() == "oursours"
    assert output_of(program, "mark", tmp_path / "trace", "mark") == "done"
    assert output_of(program, "mark", tmp_path / "trace", "mark") == "File exists"
    assert sorted(p.name for p in (tmp_path / "trace").iterdir()) == ["mark", "name"]


def test_only_this_user_can_read_it(program: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        output_of(program, "make", tmp_path / "above" / "trace")
        output_of(program, "new", tmp_path / "above" / "trace", "name")
    finally:
        os.umask(before)
    modes = [(tmp_path / p).stat().st_mode & 0o777 for p in ("above", "above/trace")]
    assert modes == [0o700] * 2
    assert (tmp_path / "above" / "trace" / "name").stat().st_mode & 0o777 == 0o600
