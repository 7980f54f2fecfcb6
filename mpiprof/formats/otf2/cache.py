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
from mpiprof.interface.progress import show_progress
from mpiprof.interface.untrusted_files import read_json

FORMAT = 3  # increase if the written format changes
ANCHOR_SUFFIX, FOLDER_SUFFIX = ".otf2", ".mpiprof"
SOURCE_FILE = "otf2.json"


def find_anchor(path: Path) -> Path | None:
    """Return the anchor file of a path: the path itself or a folder's only anchor, else None."""
    if path.suffix == ANCHOR_SUFFIX:
        return path
    converted = ("*.log", "*.tables", "*.pack")
    if path.is_dir() and not any(any(path.glob(pattern)) for pattern in converted):
        anchors = list(path.glob(f"*{ANCHOR_SUFFIX}"))
        return anchors[0] if len(anchors) == 1 else None
    return None


def open_converted(path: str | os.PathLike[str]) -> Path:
    """Return the trace folder of a path, converting an OTF2 archive first.

    Raises TraceError if an archive is unreadable, and MpiprofError without the package otf2.
    """
    anchor = find_anchor(Path(path))
    if anchor is None:
        return Path(path)
    if not anchor.is_file():
        raise TraceError(f"{anchor}: no such OTF2 archive")
    key = _archive_key(anchor)
    for folder in _candidate_folders(anchor):
        if _read_source_key(folder) == key:
            return folder
    for folder in _candidate_folders(anchor):
        with contextlib.suppress(OSError):  # a read-only or full folder
            return _make(anchor, folder, key)
    candidates = ", ".join(str(folder.parent) for folder in _candidate_folders(anchor))
    failure = f"its trace folder cannot be written to {candidates}"
    raise TraceError(f"{anchor}: {failure}: free disk space, or permit writing")


def _candidate_folders(anchor: Path) -> Iterator[Path]:
    """Yield the possible paths of the folder, best first."""
    name = anchor.stem + FOLDER_SUFFIX
    yield anchor.with_name(name)
    parent = hashlib.sha256(os.fsencode(anchor.resolve())).hexdigest()[:24]
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with contextlib.suppress(RuntimeError):  # no home directory
        yield Path(base).expanduser() / "mpiprof" / parent / name
    user_folder = Path(tempfile.gettempdir()) / f"mpiprof-{os.getuid()}"
    with contextlib.suppress(OSError):
        user_folder.mkdir(mode=0o700, exist_ok=True)
        if not user_folder.is_symlink() and user_folder.stat().st_uid == os.getuid():
            yield user_folder / parent / name


def _archive_key(anchor: Path) -> str:
    """Return a key that changes with the archive."""
    facts = hashlib.sha256(str(FORMAT).encode())
    files = [anchor, anchor.with_suffix(".def"), *sorted((anchor.with_suffix("")).glob("*"))]
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            facts.update(os.fsencode(file.name))
            facts.update(f" {status.st_size} {status.st_mtime_ns};".encode())
    return facts.hexdigest()[:16]


def _read_source_key(folder: Path) -> str | None:
    """Return the key of the archive that a folder was made from; None for other folders."""
    try:
        source = read_json(folder / SOURCE_FILE)
    except (OSError, ValueError):
        return None
    return str(source.get("key")) if isinstance(source, dict) else None


def _make(anchor: Path, folder: Path, key: str) -> Path:
    """Make the folder of an archive; raises OSError if it cannot be written."""
    from mpiprof.formats.otf2.convert import convert, count_events  # slow import

    if folder.exists() and _read_source_key(folder) is None:
        raise OSError(17, f"{folder} exists, but mpiprof did not make it")
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with show_progress(f"reading {anchor.name}", count_events(anchor)) as step:
            convert(anchor, unfinished, step)
        source = {"archive": str(anchor.resolve()), "key": key}
        (unfinished / SOURCE_FILE).write_text(json.dumps(source) + "\n")
        unfinished.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder
