"""Cache files of a trace's derived tables: in the trace's folder, else below ~/.cache.

An entry is one file of named arrays and a description. Its name contains a key that changes with
the trace or with mpiprof's code. So a stale entry is not found. A rename makes a complete entry
visible. Entries may be forged by the trace's author, so nothing in them is executed and types are
compared with expected types. An inconsistent entry (DamagedError) is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import secrets
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import mpiprof
from mpiprof.interface.untrusted_files import MAX_LOG_BYTES, open_file
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace import Trace
from mpiprof.trace.sites import list_modules
from mpiprof.trace.types import Array

FORMAT = 1
MAGIC = b"mpiprof1"
ALIGNMENT = 64
CACHE_FOLDER = "cache"
LEFT_OVER_S = 3600  # seconds without a write after which an unfinished file counts as abandoned
FOOTER_LIMIT = 1 << 28


class DamagedError(Exception):
    """Raised for an entry that differs from what mpiprof writes."""


# Keys and folders


def compute_key(trace: Trace) -> str:
    """Return 16 hex digits that change with the trace's files and with mpiprof's code.

    They also change with the programs and libraries that contain the names of call sites.
    """
    code = f"{FORMAT} {mpiprof.__version__} {_hash_code()}"
    facts = hashlib.sha256(f"{code} {count_growth(trace)}".encode())
    if trace.given_machine is not None:
        facts.update(json.dumps(trace.given_machine, sort_keys=True).encode())
    for path in sorted(trace.path.iterdir()):
        if path.suffix in (".log", ".tables", ".pack", ".json", ".jsonl"):
            with contextlib.suppress(OSError):
                status = path.stat()
                facts.update(os.fsencode(path.name))
                facts.update(f" {status.st_size} {status.st_mtime_ns};".encode())
    for module in list_modules(trace.tables.sites):
        with contextlib.suppress(OSError):
            status = Path(module).stat()
            facts.update(f"{module} {status.st_size} {status.st_mtime_ns};".encode())
    return facts.hexdigest()[:16]


def count_growth(trace: Trace) -> int:
    """Return the number of records in the open windows of unfinished ranks."""
    # A write into a mapped window changes the file's time only half a minute later.
    count = 0
    threads = itertools.chain(trace.logs.threads.items(), trace.logs.messages.items())
    for (rank, _), chunks in threads:
        last = chunks[-1]
        if rank not in trace.tables.ends and last.live:
            records = last.read()
            count += int((records["kind"] != 0).sum()) + int((records["exit_ns"] != 0).sum())
    return count


@cache
def _hash_code() -> str:
    digest = hashlib.sha256()
    root = Path(mpiprof.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)} {path.stat().st_mtime_ns};".encode())
    return digest.hexdigest()[:16]


def find_folders(path: Path) -> Iterator[Path]:
    """Yield the possible folders of a trace's entries, best first, except links to elsewhere."""
    beside = path / CACHE_FOLDER
    if not beside.is_symlink():
        yield beside
    parent = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:24]
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with contextlib.suppress(RuntimeError):  # no home directory
        yield Path(base).expanduser() / "mpiprof" / parent
    user_folder = Path(tempfile.gettempdir()) / f"mpiprof-{os.getuid()}"
    with contextlib.suppress(OSError):
        user_folder.mkdir(mode=0o700, exist_ok=True)
        if not user_folder.is_symlink() and user_folder.stat().st_uid == os.getuid():
            yield user_folder / parent


# Entries


class CacheEntry:
    """One open entry; `meta` is its description. A resource: close it, or let it be collected."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = open_file(path, MAX_LOG_BYTES)
        except OSError as error:
            raise DamagedError(str(error)) from None
        try:
            self.meta: dict[str, Any] = {}
            self._arrays: dict[str, dict[str, Any]] = {}
            self._read_footer(path.name)
        except (ValueError, KeyError, TypeError, OSError) as error:
            self.close()
            raise DamagedError(str(error)) from None

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)
            self._file = -1

    def _read_footer(self, name: str) -> None:
        status = os.fstat(self._file)
        tail = 4 + 8 + len(MAGIC)
        end = status.st_size - tail
        if end < 0:
            raise ValueError("no entry")
        last = os.pread(self._file, tail, end)
        length = int.from_bytes(last[4:12], "little")
        if last[12:] != MAGIC or not 0 < length <= min(end, FOOTER_LIMIT):
            raise ValueError("no end")
        footer = os.pread(self._file, length, end - length)
        if zlib.crc32(footer) != int.from_bytes(last[:4], "little"):
            raise ValueError("a damaged end")
        described = parse_json(footer)
        if described["entry"] != name:
            raise ValueError("another entry")
        self.meta, self._arrays = dict(described["meta"]), dict(described["arrays"])
        for array in self._arrays.values():
            size = _restore_dtype(array["dtype"]).itemsize * int(array["count"])
            if int(array["at"]) < 0 or not 0 <= size <= end - length - int(array["at"]):
                raise ValueError("an array beyond the end")

    def count_elements(self, name: str) -> int:
        """Return the number of elements of an array."""
        return int(self._description_of(name)["count"])

    def _description_of(self, name: str) -> dict[str, Any]:
        try:
            return self._arrays[name]
        except KeyError:
            raise DamagedError(f"no array {name}") from None

    def read(self, name: str, start: int, stop: int, expected: Any) -> Array:
        """Read elements start .. stop - 1 of an array. Its type must be the expected one."""
        return self.read_spans(name, [(start, stop)], expected)

    def read_spans(self, name: str, spans: list[tuple[int, int]], expected: Any) -> Array:
        """Read several spans of an array, concatenated."""
        described = self._description_of(name)
        dtype = np.dtype(expected)
        if self.dtype(name) != dtype:
            raise DamagedError(f"{name} is of another type")
        if not all(0 <= start <= stop <= described["count"] for start, stop in spans):
            raise DamagedError(f"{name} is shorter")
        elements = np.empty(sum(stop - start for start, stop in spans), dtype)
        view, filled = _as_bytes(elements), 0
        for start, stop in spans:
            at = described["at"] + start * dtype.itemsize
            end = filled + (stop - start) * dtype.itemsize
            while filled < end:
                got = os.preadv(self._file, [view[filled:end]], at)
                if got <= 0:
                    raise DamagedError(f"{name} has become shorter")
                filled, at = filled + got, at + got
        return elements

    def read_array(self, name: str, expected: Any) -> Array:
        """Read a whole array written by `put`, and check its checksum."""
        described = self._description_of(name)
        array = self.read(name, 0, int(described["count"]), expected)
        if zlib.crc32(_as_bytes(array)) != described.get("sum"):
            raise DamagedError(f"{name} is damaged")
        shape = [int(n) for n in described["shape"]]
        if math.prod(shape) != len(array):
            raise DamagedError(f"{name} has no such shape")
        return array.reshape(shape)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return an array's type."""
        return _restore_dtype(self._description_of(name)["dtype"])


def _as_bytes(array: Array) -> memoryview:
    return array.view(np.uint8).data if len(array) else memoryview(bytearray())


def _restore_dtype(description: Any) -> np.dtype[Any]:
    """Return the type that an entry's footer describes."""
    is_name = isinstance(description, str)
    return np.dtype(description if is_name else [tuple(field) for field in description])


class Writer:
    """Writes one entry: arrays as a whole (`write_array`), or in any order into reserved space."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self._temporary, flags, 0o600)
        self._arrays: dict[str, dict[str, Any]] = {}
        self._end = 0

    def reserve(self, name: str, dtype: np.dtype[Any], most: int) -> None:
        """Reserve space for at most `most` elements; see `shrink`."""
        self._end = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._arrays[name] = {"at": self._end, "dtype": _description(dtype), "count": most}
        self._end += most * dtype.itemsize

    def shrink(self, name: str, count: int) -> None:
        """Release the space of the last reserved array beyond its first `count` elements."""
        described = self._arrays[name]
        self._end = described["at"] + count * _restore_dtype(described["dtype"]).itemsize
        described["count"] = count

    def write(self, name: str, start: int, part: Array) -> None:
        """Write elements of a reserved array."""
        at = self._arrays[name]["at"] + start * part.dtype.itemsize
        self._write(_as_bytes(np.ascontiguousarray(part)), at)

    def write_array(self, name: str, array: Array) -> None:
        """Write a whole array with its checksum."""
        flat = np.ascontiguousarray(array).reshape(-1)
        self.reserve(name, flat.dtype, len(flat))
        self.write(name, 0, flat)
        total = zlib.crc32(_as_bytes(flat))
        self._arrays[name] |= {"sum": total, "shape": list(array.shape)}

    def close(self, meta: dict[str, Any]) -> None:
        """Write the footer, and make the entry visible."""
        described = {"entry": self.path.name, "arrays": self._arrays, "meta": meta}
        footer = json.dumps(described).encode()
        tail = zlib.crc32(footer).to_bytes(4, "little") + len(footer).to_bytes(8, "little") + MAGIC
        self._write(footer + tail, self._end)
        self._temporary.replace(self.path)
        os.close(self._file)
        self._file = -1

    def abandon(self) -> None:
        """Close and remove the unfinished file, if the entry was not closed."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._temporary.unlink(missing_ok=True)

    def _write(self, data: bytes | memoryview, at: int) -> None:
        view, done = memoryview(data), 0
        while done < len(view):
            done += os.pwrite(self._file, view[done : done + (1 << 26)], at + done)


def _description(dtype: np.dtype[Any]) -> Any:
    return dtype.str if dtype.names is None else [list(field) for field in dtype.descr]


# Finding and making entries


def find(path: Path, name: str, key: str) -> CacheEntry | None:
    """Return a valid entry of a trace folder, or None."""
    for folder in find_folders(path):
        with contextlib.suppress(DamagedError):
            return CacheEntry(folder / f"{name}-{key}.cache")
    return None


def make(
    path: Path, name: str, key: str, fill: Callable[[Writer], dict[str, Any]], most: int = 32
) -> CacheEntry:
    """Make an entry; raises OSError if no folder is writable.

    `fill` writes the arrays and returns the description. Entries of other versions of the trace,
    and files that a killed process left unfinished, are removed. From a family of names
    ("tiles.5eed", "tiles.1f0c") the newest `most` entries remain.
    """
    failure: OSError | None = None
    for folder in find_folders(path):
        try:
            writer = Writer(folder / f"{name}-{key}.cache")
        except OSError as error:
            failure = error
            continue
        try:
            writer.close(fill(writer))
        except OSError as error:  # the disk is full, most likely
            failure = error
            continue
        finally:
            writer.abandon()
        _remove_old_entries(folder, name, key, most)
        with contextlib.suppress(DamagedError):
            return CacheEntry(folder / f"{name}-{key}.cache")
    raise failure or OSError("no folder for what is derived from the trace")


def remove(path: Path, key: str) -> None:
    """Remove all entries of a key, because one of them is damaged."""
    for folder in find_folders(path):
        for entry in folder.glob(f"*-{key}.cache"):
            with contextlib.suppress(OSError):
                entry.unlink()


def _remove_old_entries(folder: Path, name: str, key: str, most: int) -> None:
    with contextlib.suppress(OSError):
        family = []
        for path in folder.iterdir():
            age = time.time() - path.stat().st_mtime
            if path.suffix == ".cache" and path.stem.endswith(f"-{key}"):
                if path.name.split(".")[0] == name.split(".")[0] and "." in name:
                    family.append((age, path))
            elif path.suffix == ".cache" or (path.suffix == ".part" and age > LEFT_OVER_S):
                path.unlink()
        for _, path in sorted(family)[most:]:
            path.unlink()
