"""Memory that this process may use: that of the machine, or the limit of its control groups."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Version of control groups -> folders at which they are usually mounted, and name of the limit.
MOUNTS_2: tuple[Path, ...] = (Path("sys/fs/cgroup"), Path("sys/fs/cgroup/unified"))
MOUNTS_1: tuple[Path, ...] = (Path("sys/fs/cgroup/memory"),)
LIMIT_2, LIMIT_1 = "memory.max", "memory.limit_in_bytes"


def memory_limit_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use; root: folder of `proc` and `sys`."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[int]:
    """Yield the limits of the control groups of this process, which all apply."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                mounts, name = MOUNTS_2, LIMIT_2
            elif "memory" in controllers.split(","):
                mounts, name = MOUNTS_1, LIMIT_1
            else:
                continue
            for mount in mounts:
                yield from _read_limits(root / mount, path, name)


def _read_limits(mount: Path, path: str, name: str) -> Iterator[int]:
    """Yield the limits of a group and of the groups that contain it.

    In a container the path may be that of the host. Then only the group at the mount is there.
    """
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..")]
    for length in range(len(parts) + 1):
        # Without a limit, the file contains "max" (version 2) or a number above any memory.
        with contextlib.suppress(OSError, ValueError):
            yield int(mount.joinpath(*parts[:length], name).read_text())
