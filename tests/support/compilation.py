"""Compiles the test programs, each once."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from support import PROGRAMS, ROOT
from support.jobs import run
from support.locks import alone_with
from support.mpis import Mpi

BUILT = ROOT / "build" / "tests"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def compiled(mpi: Mpi, source: str | Path, *flags: str | Path, compiler: str | None = None) -> Path:
    """Compile one of tests/programs, or another file of the project, with an MPI's compiler.

    A program with unchanged compiler, flags and sources is not compiled again, even in a later run.
    """
    path = PROGRAMS / source
    words = [compiler or mpi.mpicc, *WARNINGS, "-g", *map(str, flags), str(path)]
    program = BUILT / digest(words) / path.stem
    with alone_with("compiler"):
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            partial = program.with_name(f"{path.stem}.part")
            run([*words, "-o", partial], check=True)
            partial.rename(program)
    return program


def digest(words: list[str]) -> str:
    """Return a hash of a command line, its compiler, its files, and the headers in PROGRAMS."""
    digest_state = hashlib.sha256("\0".join(words).encode())
    compiler = Path(shutil.which(words[0]) or words[0]).stat()
    digest_state.update(f"{compiler.st_mtime_ns} {compiler.st_size}".encode())
    for path in [*map(Path, words[1:]), *sorted(PROGRAMS.glob("*.h"))]:
        if path.is_absolute() and path.is_file():
            digest_state.update(path.read_bytes())
    return digest_state.hexdigest()[:16]


def of_the_core(
    program: Path,
    parts: Iterable[str],
    *options: str | Path,
    source: str | None = None,
    header: str | None = None,
) -> Path:
    """Compile some parts of the core, such as "base/text", into a program or library.

    source: the test program that calls them. header: generated natives.h, by default that of the
    tables in the checkout. The generated tables are MPICH's. base/lock is always included, because
    nearly all parts need it.
    """
    parts = dict.fromkeys([*parts, "base/lock"])
    folder, core = program.parent, ROOT / "mpiprof" / "core"
    run(
        [sys.executable, "-m", "mpiprof.core.generator.wrappers", "mpich", "4c", folder], check=True
    )
    if header is not None:
        (folder / "natives.h").write_text(header)
    includes = [f"-I{path}" for path in (core, core / "base" / "abi" / "mpich", folder)]
    words = ["cc", "-std=c11", "-D_GNU_SOURCE", "-DMPIPROF_ABI_mpich", "-O1", *includes, *options]
    sources = [PROGRAMS / source] if source else []
    run([*words, "-o", program, *sources, *(core / f"{part}.c" for part in parts)], check=True)
    return program


def core_built(
    name: str, mpi: Mpi, *settings: str, source: Path = ROOT / "mpiprof" / "core"
) -> Path:
    """Build the library for an MPI with some settings of CMake; returns its path.

    The folder remains from run to run, and only changed parts are built again.
    """
    beside = str(Path(sys.executable).parent)
    cmake = shutil.which("cmake", path=beside) or shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake: pip install cmake")
    folder = ROOT / "build" / "tests" / name
    target = f"mpiprof-{mpi.name}-{'4c' if mpi.name == 'mpich' else '4'}"
    with alone_with(name):
        run([cmake, "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", *settings], check=True)
        run([cmake, "--build", folder, "-j2", "--target", target], check=True)
    return folder / f"lib{target}.so"
