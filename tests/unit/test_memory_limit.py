"""Memory that this process may use, with control groups of both versions, and its pages."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mpiprof.trace import malloc_tuning
from mpiprof.trace.memory_limit import memory_limit_bytes

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MB = 1 << 20


def make_root(folder: Path, groups: str, limits: dict[str, str]) -> Path:
    """Write the files of control groups: groups of this process, and limits by path."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(groups)
    for path, text in limits.items():
        file = folder / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/job/step\n", {"job/step/memory.max": f"{64 * MB}"}, 64 * MB),
        # The limit of a group applies to the groups in it.
        ("0::/job/step\n", {"job/memory.max": f"{32 * MB}", "job/step/memory.max": "max"}, 32 * MB),
        ("0::/job\n", {"job/memory.max": "max"}, MACHINE),
        # Both versions are mounted; the path contains a colon.
        (
            "4:cpu,memory:/slurm:7\n0::/\n",
            {"memory/slurm:7/memory.limit_in_bytes": f"{16 * MB}"},
            16 * MB,
        ),
        ("4:memory:/job\n", {"memory/job/memory.limit_in_bytes": f"{2**63 - 4096}"}, MACHINE),
        # A container sees its own group at the mount, and the host's path.
        ("4:memory:/docker/1a2b\n", {"memory/memory.limit_in_bytes": f"{8 * MB}"}, 8 * MB),
        ("0::/../other\n", {"memory.max": f"{8 * MB}"}, 8 * MB),
        ("1:name=systemd:/\n", {"memory.max": f"{8 * MB}"}, MACHINE),
    ],
)
def test_the_least_limit_applies(
    groups: str, limits: dict[str, str], expected: int, tmp_path: Path
) -> None:
    assert memory_limit_bytes(make_root(tmp_path, groups, limits)) == expected


def test_without_control_groups_the_machine_is_the_limit(tmp_path: Path) -> None:
    assert memory_limit_bytes(tmp_path) == MACHINE
    assert 0 < memory_limit_bytes() <= MACHINE


@pytest.mark.parametrize("is_slow", [False, True])
def test_slow_huge_pages_are_not_used(is_slow: bool) -> None:
    """Programs that this process starts later keep them, so the kernel's switch stays off."""
    code = (
        "from pathlib import Path; import numpy as np; from mpiprof.trace import malloc_tuning\n"
        f"malloc_tuning._is_huge_page_slow = lambda: {is_slow}\n"
        "malloc_tuning.retain_freed_memory()\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(np._core.multiarray._get_madvise_hugepage(), 'THP_enabled:\\t0' in status)"
    )
    run = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert run.stdout == f"{not is_slow} False\n"


def test_a_kernel_without_huge_pages_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a request for them fail."""
    monkeypatch.setattr("mmap.MADV_HUGEPAGE", 999)  # EINVAL, as from such a kernel
    assert not malloc_tuning._is_huge_page_slow.__wrapped__()
    malloc_tuning.request_huge_pages(mmap.mmap(-1, MB))


def test_huge_pages_are_not_requested_where_they_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request with this advice would raise."""
    monkeypatch.setattr(malloc_tuning, "_is_huge_page_slow", lambda: True)
    monkeypatch.setattr("mmap.MADV_HUGEPAGE", None)
    malloc_tuning.request_huge_pages(mmap.mmap(-1, MB))
