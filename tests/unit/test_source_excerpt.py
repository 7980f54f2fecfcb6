"""Source lines around a call site, as the pages show them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mpiprof.dashboard import source_excerpt


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return an allowed folder with a source file, and a forbidden one with a secret."""
    allowed, secret = tmp_path / "allowed", tmp_path / "secret"
    (allowed / "src").mkdir(parents=True)
    secret.mkdir()
    (allowed / "src" / "app.py").write_text("".join(f"line {i}\n" for i in range(1, 30)))
    (secret / "key.py").write_text("SECRET\n")
    return allowed, secret


def test_source_lines_around_a_call_site_are_found(folders: tuple[Path, Path]) -> None:
    allowed, _ = folders
    for name in (str(allowed / "src/app.py"), "app.py", "/elsewhere/src/app.py", "src/app.py"):
        roots = [allowed] if "src" in name else [allowed / "src"]
        found = source_excerpt.read_excerpt(name, 10, roots)
        assert found is not None
        assert found.lines[10 - found.first] == "line 10"
        assert len(found.lines) == 2 * source_excerpt.LINES_AROUND + 1
    assert source_excerpt.read_excerpt("app.py", 1000, [allowed / "src"]) is None


def test_no_other_file_is_read(folders: tuple[Path, Path]) -> None:
    allowed, secret = folders
    (allowed / "link.py").symlink_to(secret / "key.py")
    (allowed / "folder").symlink_to(secret)
    (allowed / "plain.txt").write_text("SECRET\n")
    os.mkfifo(allowed / "pipe.py")
    (allowed / "large.py").write_bytes(b"x\n" * source_excerpt.MAX_FILE_BYTES)
    for name in (
        str(secret / "key.py"),
        "../secret/key.py",
        f"{allowed}/../secret/key.py",
        "link.py",
        "folder/key.py",
        "plain.txt",
        "pipe.py",
        "large.py",
        "/dev/zero.py",
        "/etc/passwd",
        "a\0.py",
        "x" * 5000 + ".py",
    ):
        assert source_excerpt.read_excerpt(name, 1, [allowed]) is None, name
