"""Comparison of C sources with those of the libraries."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from mpiprof.interface import installation
from mpiprof.interface.installation import HASHES, find_differing_source

NAMES = ("a.c", "folder/b.h", "../table.py")


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the sources of a checkout whose libraries are in `tmp_path`; 10 s have passed."""
    core = tmp_path / "mpiprof" / "core"
    lines = []
    for name in NAMES:
        path = core / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}")
    (tmp_path / HASHES).write_text("\n".join(lines) + "\n")
    later_ns = time.time_ns() + 10**10
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    return core


def compare(core: Path) -> Path | None:
    """Compare as another process does."""
    find_differing_source.cache_clear()
    return find_differing_source(core.parents[1], core)


def test_a_second_process_reads_no_source(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(core) is None
    (record,) = (core.parent / "__pycache__").iterdir()
    assert len(record.read_text().splitlines()) == 1 + len(NAMES)
    monkeypatch.setattr(installation, "_hash_file", pytest.fail)
    assert compare(core) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_change_of_equal_size_and_time_is_detected(core: Path, name: str) -> None:
    assert compare(core) is None
    path = core / name
    before = path.stat()
    path.write_text(name.upper())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert compare(core) == path.resolve()
    path.write_text(name)
    assert compare(core) is None
    replacement = path.with_suffix(".new")
    replacement.write_text(name.upper())
    os.utime(replacement, ns=(before.st_atime_ns, before.st_mtime_ns))
    replacement.replace(path)
    assert compare(core) == path.resolve()
    path.unlink()
    assert compare(core) == path.resolve()


def test_a_record_of_other_libraries_or_a_damaged_record_is_not_used(core: Path) -> None:
    assert compare(core) is None
    (record,) = (core.parent / "__pycache__").iterdir()
    record.write_bytes(b"\xff" * 100)
    assert compare(core) is None
    hashes = core.parents[1] / HASHES
    hashes.write_text(hashes.read_text().replace("  a.c", "0  a.c"))
    assert compare(core) == (core / "a.c").resolve()


def test_sources_that_have_just_changed_are_not_recorded(
    core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest_ns = max((core / name).stat().st_ctime_ns for name in NAMES)
    monkeypatch.setattr(time, "time_ns", lambda: newest_ns + 10**9)
    assert compare(core) is None
    assert not (core.parent / "__pycache__").exists()


def test_a_checkout_that_cannot_be_written_is_compared_each_time(
    core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, text: str) -> int:
        raise PermissionError(path, text)

    monkeypatch.setattr(Path, "write_text", refuse)
    assert compare(core) is None
    assert not list((core.parent / "__pycache__").iterdir())
    assert compare(core) is None
