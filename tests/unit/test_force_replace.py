"""`run --force` replaces the ended trace that -o names, and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.synthetic import Synthetic

from mpiprof.__main__ import main
from mpiprof.errors import UsageError
from mpiprof.hang.processes import BOOT_ID
from mpiprof.hang.trace_removal import check_removable, remove


def trace(folder: Path) -> Path:
    """Write an ended trace, with all files that the recorder and the verbs leave in it."""
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[5_000, 5_000]], [[9_000, 9_000]])
    synthetic.write(folder)
    (folder / ".job").write_text("host-1")
    (folder / "selection.jsonl").write_text("")
    assert main(["report", str(folder)]) == 0  # which caches its results
    assert (folder / "cache").is_dir()
    return folder


def state(folder: Path) -> dict[str, bytes | str]:
    """Return everything below a folder."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else ""
    return found


def test_a_trace_is_removed_and_other_files_remain(tmp_path: Path) -> None:
    folder = trace(tmp_path / "old")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("kept")
    check_removable(folder)
    remove(folder)
    assert state(tmp_path) == {"other": "", "other/file": b"kept"}
    check_removable(folder)  # an absent folder is accepted
    remove(folder)
    (tmp_path / "empty").mkdir()
    check_removable(tmp_path / "empty")


def foreign(folder: Path, name: str) -> None:
    """Put an entry into a trace's folder that is no part of a trace."""
    if name == "sources":
        (folder / "app.py").write_text("")
    elif name == "folder":
        (folder / "data").mkdir()
    elif name == "in the cache":
        (folder / "cache" / "thesis.txt").write_text("")
    elif name == "link to a file":
        (folder / "rank-000009.log").symlink_to(folder / "rank-000000.log")
    elif name == "link to a folder":
        shutil.rmtree(folder / "cache")
        (folder / "cache").symlink_to(folder.parent)
    else:
        (folder / "rank-000009.log").mkdir()


@pytest.mark.parametrize(
    "name",
    ["sources", "folder", "in the cache", "link to a file", "link to a folder", "folder as a log"],
)
def test_a_folder_with_other_files_is_refused(name: str, tmp_path: Path) -> None:
    folder = trace(tmp_path / "old")
    foreign(folder, name)
    before = state(tmp_path)
    with pytest.raises(UsageError, match="is not a file of a trace: move that file elsewhere"):
        check_removable(folder)
    assert state(tmp_path) == before


def test_links_and_files_are_refused(tmp_path: Path) -> None:
    folder = trace(tmp_path / "old")
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for name in ("link", "dangling", "file"):
        with pytest.raises(UsageError, match="it is a link or a file"):
            check_removable(tmp_path / name)


def test_what_only_looks_like_a_trace_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "looks"
    folder.mkdir()
    (folder / "meta.json").write_text("{}")
    with pytest.raises(UsageError, match="contains no readable trace"):
        check_removable(folder)
    (folder / "rank-1.log").write_text("backup of a server")
    with pytest.raises(UsageError, match="contains no readable trace"):
        check_removable(folder)


@pytest.mark.parametrize(("node", "why"), [("here", "is process"), ("elsewhere", "may be running")])
def test_a_running_job_is_refused(node: str, why: str, tmp_path: Path) -> None:
    folder = trace(tmp_path / "old")
    boot = BOOT_ID.read_text().strip() if node == "here" else "another-boot"
    for path in folder.glob("*.tables"):
        lines = [line for line in path.read_text().splitlines() if '"end"' not in line]
        text = "\n".join(lines).replace('"node-0"', f'"{boot}"')
        for pid in (100, 101):
            text = text.replace(f'"pid": {pid}', f'"pid": {os.getpid()}')
        path.write_text(text + "\n")
    before = state(tmp_path)
    with pytest.raises(UsageError, match=why):
        check_removable(folder)
    assert state(tmp_path) == before


@pytest.mark.heavy
def test_force_requires_a_folder_and_an_ended_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks of a launcher start at different times, so no rank may remove anything."""
    folder = trace(tmp_path / "old")
    before = state(tmp_path)
    assert main(["run", "--force", __file__]) == 2
    assert "--force replaces the trace that -o names" in capsys.readouterr().err
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setattr("mpiprof.launch.job.abort_job", lambda *_: None)
    assert main(["run", "--force", "-o", str(folder), __file__]) == 2
    assert state(tmp_path) == before
