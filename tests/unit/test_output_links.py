"""Files that Python writes where other users may have put links: links are replaced or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.synthetic import Synthetic

from mpiprof.formats import pack_writer
from mpiprof.hang import hang_threshold
from mpiprof.interface import output_files
from mpiprof.trace.pack import FILE_NAME


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a file that a link points to."""
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_the_name_of_an_unfinished_file_cannot_be_planted(victim: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / f".page.html.{os.getpid()}").symlink_to(victim)
    output_files.write_text(folder / "page.html", "text")
    assert victim.read_text() == "precious"
    assert (folder / "page.html").read_text() == "text"
    assert not [path for path in folder.iterdir() if path.is_dir()]


def test_what_watch_notes_follows_no_link(victim: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir(mode=0o700)
    (folder / hang_threshold.LIMIT_FILE).symlink_to(victim)
    hang_threshold.store_limit(folder, 7.0)
    assert victim.read_text() == "precious"
    assert hang_threshold.read_threshold(folder) == hang_threshold.make_threshold(7.0)
    assert (folder / hang_threshold.LIMIT_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("hard", [False, True])
def test_the_output_of_on_hang_follows_no_link(hard: bool, victim: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    link = folder / "on-hang.txt"
    link.hardlink_to(victim) if hard else link.symlink_to(victim)
    with pytest.raises(OSError, match=r"link|symbolic"):
        output_files.open_for_append(folder, link.name)
    link.unlink()
    for word in (b"one", b"two"):
        with output_files.open_for_append(folder, link.name) as file:
            file.write(word)
    assert link.read_text() == "onetwo" and victim.read_text() == "precious"


def test_a_summary_follows_no_link(victim: Path, tmp_path: Path) -> None:
    (tmp_path / f".summary.json.{os.getpid()}").symlink_to(victim)
    output_files.replace_file(tmp_path / "summary.json", "text")
    assert victim.read_text() == "precious"
    assert (tmp_path / "summary.json").read_text() == "text"


def test_a_pack_has_the_permissions_of_the_trace(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    Synthetic(2).write(folder)
    for path in folder.glob("rank-*"):
        path.chmod(0o600)
    packed = pack_writer.write(folder, pack_writer.find_files(folder), 1, lambda _: None)
    assert packed.name == FILE_NAME and packed.stat().st_mode & 0o777 == 0o600
