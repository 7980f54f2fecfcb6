"""Reads ELF files: machine, needed libraries and exported symbols.

mpiprof has its own reader, because `run` may start on machines without binutils, must not load an
MPI to inspect it, and has no time for a subprocess. 64-bit files of either byte order are read
completely; for other files only the identification is read.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mpiprof.errors import MpiprofError

MACHINES = {3: "x86", 8: "MIPS", 20: "PowerPC", 21: "ppc64", 22: "s390x", 40: "ARM"} | {
    62: "x86-64",
    183: "AArch64",
    243: "RISC-V",
}
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 4, 5, 6, 14, 15, 29
DT_GNU_HASH = 0x6FFFFEF5
DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
CACHE = "/etc/ld.so.cache"


class NotElfError(MpiprofError):
    """The file is not an ELF file, or is damaged."""


@dataclass(frozen=True)
class Elf:
    """The properties of an ELF file that decide how it is loaded."""

    path: Path
    bits: int
    order: str
    machine: int
    interpreter: str | None = None
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        """A readable name, such as "64-bit x86-64"."""
        return f"{self.bits}-bit {MACHINES.get(self.machine, f'machine {self.machine}')}"

    @property
    def static(self) -> bool:
        """True if no dynamic loader takes part, so that nothing can be preloaded."""
        return self.interpreter is None and not self.needed

    def fits(self, other: Elf) -> bool:
        """Return whether both files are for the same machine type."""
        return (self.bits, self.order, self.machine) == (other.bits, other.order, other.machine)


class _Image:
    """An open ELF64 file: its segments and its dynamic section."""

    def __init__(self, data: mmap.mmap, order: str) -> None:
        self.data = data
        self.order = order
        self.interpreter: str | None = None
        self.loads: list[tuple[int, int, int]] = []
        self.dynamic: list[tuple[int, int]] = []
        (start,) = struct.unpack_from(order + "Q", data, 32)
        size, count = struct.unpack_from(order + "HH", data, 54)
        for index in range(count):
            at = start + index * size
            kind, _, offset, address, _, length = struct.unpack_from(order + "IIQQQQ", data, at)
            if kind in (PT_INTERP, PT_DYNAMIC) and offset + length > len(data):
                raise struct.error("the file is truncated")
            if kind == PT_LOAD:
                self.loads.append((address, offset, length))
            elif kind == PT_INTERP:
                self.interpreter = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            elif kind == PT_DYNAMIC:
                entries = struct.iter_unpack(
                    order + "qQ", data[offset : offset + length // 16 * 16]
                )
                self.dynamic = [entry for entry in entries if entry[0]]

    def offset(self, address: int) -> int:
        """Return the file offset of a memory address."""
        for begin, offset, length in self.loads:
            if begin <= address < begin + length:
                return address - begin + offset
        raise struct.error("an address lies outside the file")

    def first(self, tag: int) -> int | None:
        """Return the value of the first dynamic entry with this tag."""
        return next((value for found, value in self.dynamic if found == tag), None)

    def string(self, index: int) -> str:
        """Return an entry of the dynamic string table."""
        table = self.first(DT_STRTAB)
        if table is None:
            raise struct.error("no string table")
        begin = self.offset(table) + index
        return os.fsdecode(self.data[begin : self.data.find(b"\0", begin)])

    def strings(self, tag: int) -> tuple[str, ...]:
        """Return the strings of all dynamic entries with this tag."""
        return tuple(self.string(value) for found, value in self.dynamic if found == tag)

    def has(self, name: str) -> bool:
        """Return whether the file defines and exports a symbol of this name."""
        symbols = self.first(DT_SYMTAB)
        if symbols is None:
            return False
        base = self.offset(symbols)
        for index in self._candidates(name):
            text, _, _, section = struct.unpack_from(
                self.order + "IBBH", self.data, base + 24 * index
            )
            if section and self.string(text) == name:
                return True
        return False

    def _candidates(self, name: str) -> Iterator[int]:
        """Yield the symbols in the hash bucket of a name."""
        data, order = self.data, self.order
        gnu = self.first(DT_GNU_HASH)
        if gnu is not None:
            at = self.offset(gnu)
            buckets, first, words, _ = struct.unpack_from(order + "4I", data, at)
            heads = at + 16 + 8 * words
            wanted = _gnu_hash(name)
            (index,) = struct.unpack_from(order + "I", data, heads + 4 * (wanted % buckets))
            while index >= first:
                (value,) = struct.unpack_from(
                    order + "I", data, heads + 4 * (buckets + index - first)
                )
                if value | 1 == wanted | 1:
                    yield index
                if value & 1:
                    return
                index += 1
            return
        sysv = self.first(DT_HASH)
        if sysv is not None:
            (count,) = struct.unpack_from(order + "I", data, self.offset(sysv) + 4)
            yield from range(count)


def _gnu_hash(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def is_elf(path: Path) -> bool:
    """Return whether a file begins like an ELF file; False if it is unreadable."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


@lru_cache(maxsize=256)
def read(path: Path) -> Elf:
    """Read an ELF file; raises NotElfError if it is none, or is damaged."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] != b"\x7fELF":
                raise NotElfError(f"{path} is not an ELF file")
            bits = {1: 32, 2: 64}.get(data[4], 0)
            order = "<" if data[5] == 1 else ">"
            (machine,) = struct.unpack_from(order + "H", data, 18)
            if bits != 64:
                return Elf(path, bits, order, machine)
            image = _Image(data, order)
            return Elf(
                path,
                bits,
                order,
                machine,
                image.interpreter,
                next(iter(image.strings(DT_SONAME)), None),
                image.strings(DT_NEEDED),
                _folders(image.strings(DT_RPATH), path),
                _folders(image.strings(DT_RUNPATH), path),
            )
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise NotElfError(f"{path} cannot be read as an ELF file: {error}") from error


def _folders(entries: tuple[str, ...], path: Path) -> tuple[str, ...]:
    origin = str(path.resolve().parent)
    folders = [folder for entry in entries for folder in entry.split(":") if folder]
    return tuple(
        folder.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for folder in folders
    )


def exports(path: Path, name: str) -> bool:
    """Return whether a library defines a dynamic symbol; raises NotElfError as `read` does."""
    if read(path).bits != 64:
        return False
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Image(data, "<" if data[5] == 1 else ">").has(name)
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise NotElfError(f"{path} cannot be read as an ELF file: {error}") from error


def contains(path: Path, text: bytes) -> bool:
    """Return whether these bytes occur anywhere in a file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(text) >= 0
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=1)
def _cache() -> dict[str, list[str]]:
    """Read the loader's cache: library names and their paths."""
    try:
        data = Path(CACHE).read_bytes()
    except OSError:
        return {}
    start = data.find(b"glibc-ld.so.cache1.1")
    if start < 0:
        return {}
    found: dict[str, list[str]] = {}
    try:
        (count,) = struct.unpack_from("=I", data, start + 20)
        for index in range(count):
            # String offsets count from the start of this header.
            _, key, value = struct.unpack_from("=iII", data, start + 48 + 24 * index)
            name, place = (
                os.fsdecode(data[start + at : data.find(b"\0", start + at)]) for at in (key, value)
            )
            found.setdefault(name, []).append(place)
    except struct.error:
        return found
    return found


def find_library(
    name: str,
    environment: Mapping[str, str],
    *,
    before: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
    like: Elf | None = None,
) -> Path | None:
    """Return the file that the dynamic loader uses for a library name, or None.

    `before`: folders searched first (RPATH). `after`: folders searched after LD_LIBRARY_PATH
    (RUNPATH). Files for another machine than `like` are skipped, as the loader does.
    """
    if "/" in name:
        places = [name]
    else:
        listed = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
        folders = [*before, *(folder for folder in listed if folder), *after]
        places = [f"{folder}/{name}" for folder in folders]
        places += _cache().get(name, [])
        places += [f"{folder}/{name}" for folder in DEFAULT_FOLDERS]
    for place in places:
        path = Path(place)
        if not path.is_file():
            continue
        if like is None:
            return path
        try:
            if read(path).fits(like):
                return path
        except NotElfError:
            continue
    return None


def needs(path: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """Yield name and file of every library that a file needs, directly or not, nearest first."""
    first = read(path)
    seen: set[str] = set()
    queue = deque([(first, first.rpath)])
    while queue:
        elf, inherited = queue.popleft()
        for name in elf.needed:
            if name in seen:
                continue
            seen.add(name)
            # Needed libraries inherit RPATH; RUNPATH disables RPATH.
            before = () if elf.runpath else inherited
            found = find_library(name, environment, before=before, after=elf.runpath, like=first)
            yield name, found
            if found is not None:
                needed = read(found)
                queue.append((needed, needed.rpath + inherited))
