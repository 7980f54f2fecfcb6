"""Cache of the trace folder of an archive: beside its anchor, else in the cache folders.

The folder is made once, and again if the archive has changed. A rename makes a complete folder
visible.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mpiprof.errors import TraceError
from mpiprof.interface.progress import bar

FORMAT = 1  # increase if the written format changes
ANCHOR, FOLDER = ".otf2", ".mpiprof"
SOURCE = "otf2.json"


def anchor_of(path: Path) -> Path | None:
    """Return the anchor file of a path: the path itself or a folder's only anchor, else None."""
    if path.suffix == ANCHOR:
        return path
    ours = ("*.log", "*.tables", "*.pack")
    if path.is_dir() and not any(any(path.glob(pattern)) for pattern in ours):
        found = list(path.glob(f"*{ANCHOR}"))
        return found[0] if len(found) == 1 else None
    return None


def opened(path: str | os.PathLike[str]) -> Path:
    """Return the trace folder of a path, converting an OTF2 archive first.

    Raises TraceError if an archive is unreadable, and MpiprofError without the package otf2.
    """
    anchor = anchor_of(Path(path))
    if anchor is None:
        return Path(path)
    if not anchor.is_file():
        raise TraceError(f"{anchor}: no such OTF2 archive")
    key = _key(anchor)
    for folder in _folders(anchor):
        if _made_of(folder) == key:
            return folder
    for folder in _folders(anchor):
        with contextlib.suppress(OSError):  # a read-only or full folder
            return _make(anchor, folder, key)
    places = ", ".join(str(folder.parent) for folder in _folders(anchor))
    raise TraceError(
        f"{anchor}: its trace folder cannot be written to {places}: free disk space, or "
        "permit writing"
    )


def _folders(anchor: Path) -> Iterator[Path]:
    """Yield the possible paths of the folder, best first."""
    name = anchor.stem + FOLDER
    yield anchor.with_name(name)
    place = hashlib.sha256(str(anchor.resolve()).encode()).hexdigest()[:24]
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with contextlib.suppress(RuntimeError):  # no home directory
        yield Path(base).expanduser() / "mpiprof" / place / name
    own = Path(tempfile.gettempdir()) / f"mpiprof-{os.getuid()}"
    with contextlib.suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
        if not own.is_symlink() and own.stat().st_uid == os.getuid():
            yield own / place / name


def _key(anchor: Path) -> str:
    """Return a key that changes with the archive."""
    told = hashlib.sha256(str(FORMAT).encode())
    files = [anchor, anchor.with_suffix(".def"), *sorted((anchor.with_suffix("")).glob("*"))]
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            told.update(f"{file.name} {status.st_size} {status.st_mtime_ns};".encode())
    return told.hexdigest()[:16]


def _made_of(folder: Path) -> str | None:
    """Return the key of the archive that a folder was made from; None for other folders."""
    try:
        found = json.loads((folder / SOURCE).read_text())
    except (OSError, ValueError):
        return None
    return str(found.get("key")) if isinstance(found, dict) else None


def _make(anchor: Path, folder: Path, key: str) -> Path:
    """Make the folder of an archive; raises OSError if it cannot be written."""
    from mpiprof.formats.otf2.convert import convert, events_of  # slow import

    if folder.exists() and _made_of(folder) is None:
        raise OSError(17, f"{folder} exists, but mpiprof did not make it")
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with bar(f"reading {anchor.name}", events_of(anchor)) as step:
            convert(anchor, unfinished, step)
        source = {"archive": str(anchor.resolve()), "key": key}
        (unfinished / SOURCE).write_text(json.dumps(source) + "\n")
        unfinished.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder
