"""The recorded commit of a program, compared with git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mpiprof.launch.commit import CI_VARIABLES, find_commit

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("git") is None, reason="requires git"),
]
SHA = 40 * "a"


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *author, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "solver"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def test_commit_is_the_one_of_git(repository: Path, tmp_path: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    assert find_commit({}, repository) == find_commit({}, repository / "src") == first
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert find_commit({}, repository) == first
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    second = git(repository, "rev-parse", "HEAD")
    assert find_commit({}, repository) == second != first
    git(repository, "worktree", "add", "-q", "-b", "feature/x", str(tmp_path / "tree"), first)
    assert find_commit({}, tmp_path / "tree") == first
    git(repository, "checkout", "-q", "--detach", first)
    assert find_commit({}, repository) == first


@pytest.mark.parametrize("name", CI_VARIABLES)
def test_ci_knows_the_commit_without_a_repository(
    name: str, repository: Path, tmp_path: Path
) -> None:
    # A CI job may record another commit in a worktree.
    assert find_commit({name: SHA}, repository) == git(repository, "rev-parse", "HEAD")
    assert find_commit({name: SHA}, tmp_path) == SHA
    assert find_commit({name: "no hash"}, tmp_path) == ""


@pytest.mark.parametrize("head", [b"", b"ref: refs/heads/none", b"ref: ../../secret", b"\xff\0"])
def test_damaged_repositories_have_no_commit(head: bytes, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_bytes(head)
    assert find_commit({}, tmp_path) == ""
    shutil.rmtree(tmp_path / ".git")
    (tmp_path / ".git").write_text("gitdir: /nowhere")
    assert find_commit({}, tmp_path) == ""
