"""Files are written completely, or the existing file remains."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mpiprof.errors import MpiprofError
from mpiprof.interface import output_files


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    output_files.write_text(path, "old")

    def full(self: Path, *_: object, **__: object) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(MpiprofError, match=r"plan\.json cannot be written: No space left"):
        output_files.write_text(path, "new")
    monkeypatch.undo()
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    """A pipe, as /dev/stdout may be, is not replaced by a file."""
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    output_files.write_text(path, "text")
    reader.join()
    assert read == ["text"] and path.is_fifo()


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    output_files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
