"""Commit of the program that is recorded, for `history`.

It is that of the repository that contains the current folder, or that of the CI job. The files of
the repository are read directly, because every rank starts here and git may be missing on compute
nodes. An unreadable repository has no commit.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path

# GitHub, GitLab, Jenkins, Azure, Buildkite, CircleCI, Travis
CI_VARIABLES = (
    *("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILD_SOURCEVERSION", "BUILDKITE_COMMIT"),
    *("CIRCLE_SHA1", "TRAVIS_COMMIT"),
)
HASH = re.compile("[0-9a-f]{7,64}")
MAX_BYTES = 1 << 20  # of a file that is read; packed-refs of a large repository may be longer
MAX_PARENTS = 64


def find_commit(environment: Mapping[str, str], folder: Path) -> str:
    """Return the hash of the commit of the program, or "" if it is unknown."""
    commit = ""
    with contextlib.suppress(OSError, ValueError):
        commit = _head_commit(folder)
    values = (environment.get(name, "").strip().lower() for name in CI_VARIABLES)
    return commit or next((value for value in values if HASH.fullmatch(value)), "")


def _head_commit(folder: Path) -> str:
    """Return the commit that is checked out in a folder, or ""; raises OSError, ValueError."""
    for parent in (folder, *folder.parents)[:MAX_PARENTS]:
        git = parent / ".git"
        if git.is_file():  # a worktree or a submodule
            git = parent / _read(git).removeprefix("gitdir:").strip()
        if (git / "HEAD").is_file():
            return _resolve_head(git)
    return ""


def _resolve_head(git: Path) -> str:
    head = _read(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if HASH.fullmatch(head) else ""
    name = head.removeprefix("ref:").strip()
    if ".." in name or name.startswith("/"):
        return ""
    common = git
    if (git / "commondir").is_file():
        common = git / _read(git / "commondir").strip()
    for folder in (git, common):
        if (folder / name).is_file():
            commit = _read(folder / name).strip()
            return commit if HASH.fullmatch(commit) else ""
    if (common / "packed-refs").is_file():
        for line in _read(common / "packed-refs").splitlines():
            commit, _, reference = line.partition(" ")
            if reference.strip() == name and HASH.fullmatch(commit):
                return commit
    return ""


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_BYTES).decode("utf-8", "replace")
