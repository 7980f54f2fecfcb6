"""Determines a program's MPI and the recorder library that fits, without loading either."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import site
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface import elf
from mpiprof.interface.installation import library_folder, pip_command

ABIS = ("mpich", "openmpi", "mpiabi")
FAMILIES = {"mpich": "MPICH", "openmpi": "Open MPI", "mpiabi": "the standard MPI ABI"}

# Intel MPI, MVAPICH and Cray have MPICH's ABI, the last two under different names.
SONAMES = {
    "mpich": re.compile(r"libmpi(ch|_[a-z0-9]+(_[0-9]+)?)?\.so\.12$"),
    "openmpi": re.compile(r"libmpi\.so\.40$"),
    "mpiabi": re.compile(r"libmpi_abi\.so\.[01]$"),
}
OTHER_MPI = re.compile(r"libmpi(ch|_abi)?\.so\.\d+$")
LIBRARY_NAMES = {
    "mpich": ("libmpi.so.12", "libmpich.so.12"),
    "openmpi": ("libmpi.so.40",),
    "mpiabi": ("libmpi_abi.so.1", "libmpi_abi.so.0"),
}
# Functions that show the level of an MPI library, highest level first.
LEVEL_FUNCTIONS = {
    "4.1": ("MPI_Allreduce_c", "MPI_Session_iflush_buffer", "MPI_Request_get_status_some"),
    "4c": ("MPI_Allreduce_c",),
    "4": ("MPI_Allreduce_init",),
}
PYTHON_NAME = re.compile(r"(python|pypy)[0-9.]*t?$")

# Run by another Python, to find its mpi4py.
MPI4PY_QUERY = """import json, site, sys, importlib.machinery as m
prefixes = [p for p, there in (
    (sys.exec_prefix, sys.exec_prefix != sys.base_exec_prefix),
    (site.getuserbase(), site.ENABLE_USER_SITE),
    (sys.base_exec_prefix, sys.base_exec_prefix in site.PREFIXES)) if there]
print(json.dumps([sys.path[1:], prefixes, m.EXTENSION_SUFFIXES]))
"""


@dataclass(frozen=True)
class Mpi:
    """An MPI as a program will load it: its ABI, its file if known, and how it was determined."""

    abi: str
    library: Path | None
    reason: str
    loaded_by_program: bool = False  # by the program itself, not by one that it starts

    @property
    def family(self) -> str:
        """The name for users."""
        return FAMILIES[self.abi]

    @property
    def api_level(self) -> str:
        """Generation of the real library's entry points: "3", "4", "4c" or "4.1"."""
        # mpi4py probes for functions, so a wrapper must not export functions that the library
        # lacks.
        if self.abi == "mpiabi":  # MPI 5.0 defines it
            return "4.1"
        if self.library is None:
            return "3"
        for level, functions in LEVEL_FUNCTIONS.items():
            if all(elf.exports_symbol(self.library, name) for name in functions):
                return level
        return "3"


@dataclass(frozen=True)
class Interpreter:
    """A Python: its file, its module search path, and the prefixes under which mpi4py looks."""

    executable: Path
    path: tuple[str, ...]
    prefixes: tuple[str, ...]
    suffixes: tuple[str, ...]


def recorder_library(mpi: Mpi) -> Path:
    """Return the recorder library that fits an MPI."""
    path = library_folder() / f"libmpiprof-{mpi.abi}-{mpi.api_level}.so"
    if not path.is_file():
        raise MpiprofError(f"{path} is missing: install mpiprof again")
    if any(character in str(path) for character in " :"):
        fact = f"{path} contains a space or a colon, which LD_PRELOAD cannot express"
        raise UsageError(f"{fact}: install mpiprof in another folder")
    return path


def abi_of_soname(name: str) -> str | None:
    """Return the ABI of a library's soname, or None."""
    return next((abi for abi, pattern in SONAMES.items() if pattern.match(name)), None)


def mpi_of_library(path: Path, reason: str) -> Mpi:
    """Return the MPI of a library file; raises UsageError if no recorder library fits it."""
    name = elf.read(path).soname or path.name
    abi = abi_of_soname(name) or abi_of_soname(path.resolve().name)
    if abi is None:
        raise UsageError(
            f"{path} ({name}) is an unsupported MPI: mpiprof supports MPICH and its "
            "derivatives (libmpi.so.12), Open MPI 4 and 5 (libmpi.so.40) and the "
            "standard ABI (libmpi_abi.so)"
        )
    return Mpi(abi, path, reason)


def mpi_of_file(path: Path, environment: Mapping[str, str]) -> Mpi | None:
    """Return the MPI that a file is linked with, or None; UsageError if it cannot be wrapped."""
    this_python = elf.read(Path(sys.executable).resolve())
    program = elf.read(path)
    if program.machine_type != this_python.machine_type:
        raise UsageError(
            f"{path} is built for {program.architecture}, this mpiprof for "
            f"{this_python.architecture}: use a Python and an mpiprof for {program.architecture}"
        )
    if program.static:
        fact = f"{path} is statically linked, so its MPI calls cannot be intercepted"
        raise UsageError(f"{fact}: link it with the shared libmpi")
    for name, library in elf.needed_libraries(path, environment):
        abi = abi_of_soname(name)
        if abi is not None:
            return Mpi(abi, library, f"{path} needs {name}")
        if OTHER_MPI.match(name):
            known = "libmpi.so.12 (MPICH), libmpi.so.40 (Open MPI 4 and 5) and libmpi_abi.so"
            fact = f"{path} requires {name}, an unsupported MPI"
            raise UsageError(f"{fact}: mpiprof supports {known}")
    if elf.exports_symbol(path, "MPI_Init") or elf.contains_bytes(path, b"\0PMPI_Init\0"):
        fact = f"{path} contains a static MPI, whose calls cannot be intercepted"
        raise UsageError(f"{fact}: link it with the shared libmpi")
    return None


def this_interpreter(script_folder: str | None = None) -> Interpreter:
    """Return the running Python as it will be when it runs a script in this folder."""
    prefixes = []
    if sys.exec_prefix != sys.base_exec_prefix:
        prefixes.append(sys.exec_prefix)
    if site.ENABLE_USER_SITE:
        prefixes.append(str(Path(site.getuserbase()).absolute()))
    if sys.base_exec_prefix in site.PREFIXES:
        prefixes.append(sys.base_exec_prefix)
    path = (*([script_folder] if script_folder else []), *sys.path)
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    return Interpreter(Path(sys.executable), path, tuple(prefixes), suffixes)


def interpreter_of(python: Path) -> Interpreter:
    """Return a Python's facts for finding mpi4py; starts the Python, unless it is this one."""
    this_python = Path(sys.executable)
    is_beside = python.parent.resolve() == this_python.parent.resolve()
    if is_beside and python.resolve() == this_python.resolve():
        return this_interpreter()
    import subprocess

    query = [str(python), "-c", MPI4PY_QUERY]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    try:
        path, prefixes, suffixes = json.loads(answer.stdout)
    except ValueError:
        raise UsageError(f"{python} does not start: {answer.stderr.strip()[-200:]}") from None
    return Interpreter(python, tuple(path), tuple(prefixes), tuple(suffixes))


def mpi_of_python(python: Interpreter, environment: Mapping[str, str]) -> Mpi | None:
    """Return the MPI that mpi4py would load, None without mpi4py; UsageError if it finds none."""
    package = _mpi4py_folder(python)
    if package is None:
        return None
    # Follows mpi4py/_mpiabi.py.
    chosen = environment.get("MPI4PY_MPIABI")
    abi = re.sub("[ _-]", "", chosen or "").lower().replace("impi", "mpich")
    for stem in ("MPI", f"MPI.{abi}") if chosen else ("MPI",):
        for suffix in python.suffixes:
            module = package / f"{stem}{suffix}"
            if module.is_file():
                return mpi_of_file(module, environment)
    if chosen:
        raise UsageError(f"MPI4PY_MPIABI={chosen}, but {package} has no such module: unset it")
    for path in _libmpi_candidates(python, environment):
        if elf.exports_symbol(path, "MPI_Get_version"):
            return mpi_of_library(path, f"mpi4py in {package.parent} loads {path}")
    remedy = f"`{pip_command('mpich', python=python.executable)}` (or openmpi)"
    fact = f"mpi4py in {package.parent} finds no MPI"
    raise UsageError(f"{fact}: {remedy}, or set MPI4PY_LIBMPI to the library")


def _mpi4py_folder(python: Interpreter) -> Path | None:
    for entry in python.path:
        folder = Path(entry or ".") / "mpi4py"
        if (folder / "__init__.py").is_file():
            return folder
    if python.executable == Path(sys.executable):
        spec = importlib.util.find_spec("mpi4py")
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent
    return None


def _libmpi_candidates(python: Interpreter, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that mpi4py's wheel tries to load, in its order."""
    python_elf = elf.read(python.executable.resolve())
    names = ("libmpi.so", "libmpi.so.12", "libmpi.so.40")

    def search(name: str) -> Iterator[Path]:
        path = elf.find_library(name, environment, before=python_elf.rpath, machine_of=python_elf)
        if path is not None:
            yield path

    for name in re.split("[ :]", environment.get("LD_PRELOAD", "")):
        if abi_of_soname(Path(name).name):
            yield from search(name)
    listed = environment.get("MPI4PY_LIBMPI")
    if listed is not None:
        entries = listed.split(os.pathsep)
    else:
        entries = [f"{prefix}/lib" for prefix in python.prefixes if prefix != "/usr"] + [""]
    for entry in entries:
        expanded = str(Path(os.path.expandvars(entry)).expanduser()) if entry else ""
        if expanded and not Path(expanded).is_dir():
            yield from search(expanded)
            continue
        for name in names:
            yield from search(f"{expanded}/{name}" if expanded else name)


def mpi_of_launcher(environment: Mapping[str, str]) -> str | None:
    """Return the ABI of the launcher that started this process, or None."""
    if "OMPI_COMM_WORLD_SIZE" in environment:
        return "openmpi"
    if {"PMI_FD", "PMI_PORT", "HYDI_CONTROL_FD", "MV2_COMM_WORLD_SIZE"} & environment.keys():
        return "mpich"
    return "openmpi" if "PMIX_NAMESPACE" in environment else None


def mpi_by_name(abi: str, environment: Mapping[str, str], reason: str) -> Mpi:
    """Return the nearest MPI of an ABI: this environment's, the launcher's, or the system's."""
    # The file only decides the level of the recorder library.
    listed = [Path(folder) for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    folders = [f"{sys.prefix}/lib"]
    folders += [str(bin_.parent / "lib") for bin_ in listed if (bin_ / "mpiexec").is_file()]
    for name in LIBRARY_NAMES[abi]:
        path = elf.find_library(name, environment, after=tuple(folders))
        if path is not None:
            return Mpi(abi, path, reason)
    return Mpi(abi, None, reason)
