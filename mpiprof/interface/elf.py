"""Reads ELF files: machine, addresses, needed libraries and exported symbols.

mpiprof has its own reader, because `run` may start on machines without binutils, must not load an
MPI to inspect it, and has no time for a subprocess. 64-bit files of either byte order are read
completely; for other files only the identification is read.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from mpiprof.errors import MpiprofError

MACHINES = {3: "x86", 8: "MIPS", 20: "PowerPC", 21: "ppc64", 22: "s390x", 40: "ARM"}
MACHINES |= {62: "x86-64", 183: "AArch64", 243: "RISC-V"}
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 4, 5, 6, 14, 15, 29
DT_GNU_HASH = 0x6FFFFEF5
DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
LOADER_CACHE = "/etc/ld.so.cache"


class NotElfError(MpiprofError):
    """The file is not an ELF file, or is damaged."""


@dataclass(frozen=True)
class Elf:
    """The properties of an ELF file that decide how it is loaded.

    link_address: lowest address of its segments, 0 for position-independent files.
    """

    path: Path
    bits: int
    byte_order: str
    machine: int
    interpreter: str | None = None
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    link_address: int = 0

    @property
    def architecture(self) -> str:
        """A readable name, such as "64-bit x86-64"."""
        return f"{self.bits}-bit {MACHINES.get(self.machine, f'machine {self.machine}')}"

    @property
    def static(self) -> bool:
        """True if no dynamic loader takes part, so that nothing can be preloaded."""
        return self.interpreter is None and not self.needed

    @property
    def machine_type(self) -> tuple[int, str, int]:
        """A key that is equal for files of one machine type."""
        return (self.bits, self.byte_order, self.machine)


class _Image:
    """An open ELF64 file: its segments and its dynamic section."""

    def __init__(self, data: mmap.mmap, byte_order: str) -> None:
        self.data = data
        self.byte_order = byte_order
        self.interpreter: str | None = None
        self.load_segments: list[tuple[int, int, int]] = []
        self.dynamic: list[tuple[int, int]] = []
        (start,) = self.unpack("Q", 32)
        size, count = self.unpack("HH", 54)
        for index in range(count):
            kind, _, offset, address, _, length = self.unpack("IIQQQQ", start + index * size)
            if kind in (PT_INTERP, PT_DYNAMIC) and offset + length > len(data):
                raise struct.error("the file is truncated")
            if kind == PT_LOAD:
                self.load_segments.append((address, offset, length))
            elif kind == PT_INTERP:
                self.interpreter = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            elif kind == PT_DYNAMIC:
                entries = [self.unpack("qQ", offset + at) for at in range(0, length - 15, 16)]
                self.dynamic = [(tag, value) for tag, value in entries if tag]

    def unpack(self, layout: str, offset: int) -> tuple[Any, ...]:
        """Return the numbers at an offset of the file."""
        return struct.unpack_from(self.byte_order + layout, self.data, offset)

    def file_offset(self, address: int) -> int:
        """Return the file offset of a memory address."""
        for begin, offset, length in self.load_segments:
            if begin <= address < begin + length:
                return address - begin + offset
        raise struct.error("an address lies outside the file")

    def find_value(self, tag: int) -> int | None:
        """Return the value of the first dynamic entry with this tag."""
        return next((value for name, value in self.dynamic if name == tag), None)

    def read_string(self, index: int) -> str:
        """Return an entry of the dynamic string table."""
        table = self.find_value(DT_STRTAB)
        if table is None:
            raise struct.error("no string table")
        begin = self.file_offset(table) + index
        return os.fsdecode(self.data[begin : self.data.find(b"\0", begin)])

    def read_strings(self, tag: int) -> tuple[str, ...]:
        """Return the strings of all dynamic entries with this tag."""
        return tuple(self.read_string(value) for name, value in self.dynamic if name == tag)

    def exports_symbol(self, name: str) -> bool:
        """Return whether the file defines and exports a symbol of this name."""
        symbols = self.find_value(DT_SYMTAB)
        if symbols is None:
            return False
        base = self.file_offset(symbols)
        for index in self._hashed_symbols(name):
            text, _, _, section = self.unpack("IBBH", base + 24 * index)
            if section and self.read_string(text) == name:
                return True
        return False

    def _hashed_symbols(self, name: str) -> Iterator[int]:
        """Yield the symbols in the hash bucket of a name."""
        gnu = self.find_value(DT_GNU_HASH)
        if gnu is not None:
            table = self.file_offset(gnu)
            buckets, first, words, _ = self.unpack("4I", table)
            heads = table + 16 + 8 * words
            wanted = _gnu_hash(name)
            (index,) = self.unpack("I", heads + 4 * (wanted % buckets))
            while index >= first:
                (value,) = self.unpack("I", heads + 4 * (buckets + index - first))
                if value | 1 == wanted | 1:
                    yield index
                if value & 1:
                    return
                index += 1
            return
        sysv = self.find_value(DT_HASH)
        if sysv is not None:
            (count,) = self.unpack("I", self.file_offset(sysv) + 4)
            yield from range(count)


def _gnu_hash(name: str) -> int:
    hashed = 5381
    for byte in name.encode():
        hashed = (hashed * 33 + byte) & 0xFFFFFFFF
    return hashed


def _open_file(path: Path) -> BinaryIO:
    if path.exists() and not path.is_file():  # a trace can name a pipe or a device as a library
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.open("rb")


def is_elf(path: Path) -> bool:
    """Return whether a file begins like an ELF file; False if it is unreadable."""
    with contextlib.suppress(OSError), _open_file(path) as file:
        return file.read(4) == b"\x7fELF"
    return False


@contextlib.contextmanager
def _map_file(path: Path) -> Iterator[mmap.mmap]:
    """Map a file into memory; errors of opening and reading it become NotElfError."""
    try:
        with _open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise NotElfError(f"{path} cannot be read as an ELF file: {error}") from error


@lru_cache(maxsize=256)
def read(path: Path) -> Elf:
    """Read an ELF file; raises NotElfError if it is none, or is damaged."""
    with _map_file(path) as data:
        if data[:4] != b"\x7fELF":
            raise NotElfError(f"{path} is not an ELF file")
        bits = {1: 32, 2: 64}.get(data[4], 0)
        byte_order = "<" if data[5] == 1 else ">"
        (machine,) = struct.unpack_from(byte_order + "H", data, 18)
        if bits != 64:
            return Elf(path, bits, byte_order, machine)
        image = _Image(data, byte_order)
        soname = next(iter(image.read_strings(DT_SONAME)), None)
        needed = image.read_strings(DT_NEEDED)
        rpath = _expand_origin(image.read_strings(DT_RPATH), path)
        runpath = _expand_origin(image.read_strings(DT_RUNPATH), path)
        address = min((begin for begin, _, _ in image.load_segments), default=0)
        loading = (image.interpreter, soname, needed, rpath, runpath, address)
        return Elf(path, bits, byte_order, machine, *loading)


def _expand_origin(entries: tuple[str, ...], path: Path) -> tuple[str, ...]:
    origin = str(path.resolve().parent)
    folders = [folder for entry in entries for folder in entry.split(":") if folder]
    return tuple(f.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for f in folders)


def exports_symbol(path: Path, name: str) -> bool:
    """Return whether a library defines a dynamic symbol; raises NotElfError as `read` does."""
    elf = read(path)
    if elf.bits != 64:
        return False
    with _map_file(path) as data:
        return _Image(data, elf.byte_order).exports_symbol(name)


def contains_bytes(path: Path, pattern: bytes) -> bool:
    """Return whether these bytes occur anywhere in a file; False if it is unreadable."""
    with contextlib.suppress(NotElfError), _map_file(path) as data:
        return data.find(pattern) >= 0
    return False


@lru_cache(maxsize=1)
def _read_loader_cache() -> dict[str, list[str]]:
    """Read the loader's cache: library names and their paths."""
    try:
        data = Path(LOADER_CACHE).read_bytes()
    except OSError:
        return {}
    start = data.find(b"glibc-ld.so.cache1.1")
    if start < 0:
        return {}
    paths: dict[str, list[str]] = {}
    with contextlib.suppress(struct.error):
        (count,) = struct.unpack_from("=I", data, start + 20)
        for index in range(count):
            # String offsets count from the start of this header.
            _, key, value = struct.unpack_from("=iII", data, start + 48 + 24 * index)
            name = data[start + key : data.find(b"\0", start + key)]
            path = data[start + value : data.find(b"\0", start + value)]
            paths.setdefault(os.fsdecode(name), []).append(os.fsdecode(path))
    return paths


def find_library(
    name: str,
    environment: Mapping[str, str],
    *,
    before: tuple[str, ...] = (),  # folders searched first (RPATH)
    after: tuple[str, ...] = (),  # folders searched after LD_LIBRARY_PATH (RUNPATH)
    machine_of: Elf | None = None,  # files for other machines are skipped, as the loader does
) -> Path | None:
    """Return the file that the dynamic loader uses for a library name, or None."""
    if "/" in name:
        candidates = [name]
    else:
        listed = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
        folders = [*before, *(folder for folder in listed if folder), *after]
        candidates = [f"{folder}/{name}" for folder in folders]
        candidates += _read_loader_cache().get(name, [])
        candidates += [f"{folder}/{name}" for folder in DEFAULT_FOLDERS]
    for candidate in candidates:
        path = Path(candidate)
        if not path.is_file():
            continue
        if machine_of is None:
            return path
        with contextlib.suppress(NotElfError):
            if read(path).machine_type == machine_of.machine_type:
                return path
    return None


def needed_libraries(
    path: Path, environment: Mapping[str, str]
) -> Iterator[tuple[str, Path | None]]:
    """Yield name and file of every library that a file needs, directly or not, nearest first."""
    first = read(path)
    visited: set[str] = set()
    queue = deque([(first, first.rpath)])
    while queue:
        elf, inherited = queue.popleft()
        for name in elf.needed:
            if name in visited:
                continue
            visited.add(name)
            # Needed libraries inherit RPATH; RUNPATH disables RPATH.
            rpath = () if elf.runpath else inherited
            file = find_library(
                name, environment, before=rpath, after=elf.runpath, machine_of=first
            )
            yield name, file
            if file is not None:
                needed = read(file)
                queue.append((needed, needed.rpath + inherited))
