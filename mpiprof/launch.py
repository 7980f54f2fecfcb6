"""From the words of a command line to a running program with our library put before its MPI.

The launching process becomes the program by exec, so that exit code, signals and output are the
program's own. Nothing is started before everything that can be checked has been checked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mpiprof import __version__, elf, job, library
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.invocation import invocation
from mpiprof.library import Mpi

NAME_LENGTH = 180  # of a program's name within a folder's, which can have 255 bytes
COMPONENT_LENGTH = 255
PATH_LENGTH = 4000  # the recorder keeps 4096 bytes, with the name of a file in it
RANK_BYTES = 2 << 16  # of a rank's log, when it is begun


@dataclass(frozen=True)
class Program:
    """What shall run: its short name, the words for exec, and what to search for its MPI."""

    name: str
    argv: tuple[str, ...]
    shown: tuple[str, ...]
    file: Path | None
    python: Path | None
    folder: str | None = None


@dataclass(frozen=True)
class Options:
    """How a program shall be recorded; the recorder reads them from its environment."""

    folder: Path | None = None
    record: str = "events"
    sample: int = 1
    stack: int = 1
    limit: int = 1 << 30
    skip_packages: tuple[str, ...] = ()
    machine: Path | None = None
    partial: bool = False
    together: bool = False
    unrecorded: bool = False
    python_sites: str = "auto"
    quiet: bool = False
    mpi: str | None = None
    switch: str | None = None
    switch_model: str | None = None
    auto: bool = False
    explain: bool = False
    reproducible: bool = False
    scratch: int | None = None
    plan_out: Path | None = None


def python_flags() -> list[str]:
    """Return the interpreter flags that this process was started with, such as -u or -X dev."""
    head = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    if len(head) >= 2 and re.fullmatch("-[A-Za-z]*m", head[-2]):
        return head[:-2] + ([head[-2][:-1]] if len(head[-2]) > 2 else [])
    return head[:-1]


def find_program(words: Sequence[str], *, module: bool) -> Program:
    """Find what a command line names; raises UsageError when it isn't there or can't be run."""
    if module:
        return _module(words)
    first = Path(words[0])
    if _is_script(first):
        if not first.exists():
            raise UsageError(f"{first}: no such script (seen from {Path.cwd()})")
        argv = (sys.executable, *python_flags(), *words)
        folder = str(first if first.is_dir() else first.resolve().parent)
        return Program(first.name, argv, tuple(words), None, Path(sys.executable), folder)
    path = _executable(words[0])
    interpreter = _interpreter(path)
    python = interpreter if library.PYTHON_NAME.match(interpreter.name) else None
    scripts = [Path(word).name for word in words[1:] if word.endswith(".py")]
    named_python = python is not None and library.PYTHON_NAME.match(path.name)
    name = scripts[0] if named_python and scripts else path.name
    return Program(name, (str(path), *words[1:]), tuple(words), interpreter, python)


def _module(words: Sequence[str]) -> Program:
    import importlib.machinery
    import importlib.util

    top = words[0].partition(".")[0]
    if (
        importlib.machinery.PathFinder.find_spec(top, [str(Path.cwd())]) is None
        and importlib.util.find_spec(top) is None
    ):
        raise UsageError(f"no module named {top} (seen from {Path.cwd()})")
    argv = (sys.executable, *python_flags(), "-m", *words)
    folder = str(Path.cwd())
    return Program(words[0], argv, ("-m", *words), None, Path(sys.executable), folder)


def _is_script(path: Path) -> bool:
    if path.suffix in (".py", ".pyw", ".pyz"):
        return True
    if path.is_dir():
        return (path / "__main__.py").exists()
    if path.suffix:  # a source file of another language is no Python program
        return False
    return path.is_file() and not os.access(path, os.X_OK) and not elf.is_elf(path)


def _executable(word: str) -> Path:
    found = shutil.which(word) or shutil.which(f"./{word}")
    if found is not None:
        return Path(found).absolute()
    if Path(word).is_file():
        raise UsageError(f"{word} is not executable: name a program, or `chmod +x {word}`")
    if Path(word).is_dir():
        raise UsageError(f"{word} is a folder without a __main__.py: name a program")
    where = f"no such file (seen from {Path.cwd()})" if "/" in word else "not found here or in PATH"
    raise UsageError(f"{word}: {where}")


def _interpreter(path: Path) -> Path:
    """Follow "#!" lines to the ELF file that the kernel will start."""
    for _ in range(5):
        if elf.is_elf(path):
            return path
        try:
            with path.open("rb") as file:
                line = os.fsdecode(file.readline(4096)).strip()
        except OSError as error:
            raise UsageError(f"{path} can't be read: {error.strerror}") from error
        words = line[2:].split() if line.startswith("#!") else ["/bin/sh"]
        if Path(words[0]).name == "env":
            words = [word for word in words[1:] if word[0] != "-" and "=" not in word]
        found = shutil.which(words[0]) if words else None
        if found is None:
            raise UsageError(f"{path} begins with {line!r}, and that interpreter isn't here")
        path = Path(found).absolute()
    raise UsageError(f"{path}: interpreters of interpreters without end")


def find_mpi(program: Program, wanted: str | None, environment: Mapping[str, str]) -> Mpi:
    """Find which MPI a program uses.

    What the program itself shows counts first, then the launcher's environment or `wanted`;
    raises UsageError where these contradict each other, and where nothing tells.
    """
    found = None
    if program.python is not None:
        if program.folder is not None:
            python = library.this_interpreter(program.folder)
        else:
            python = library.interpreter_of(program.python)
        found = library.mpi_of_python(python, environment)
    elif program.file is not None:
        found = library.mpi_of_file(program.file, environment)
    if found is not None:
        if wanted is not None and found.abi != wanted:
            raise UsageError(
                f"--mpi {wanted} doesn't fit: {found.reason}, which is {found.family}; "
                "leave the option out"
            )
        return found
    launcher = library.mpi_of_launcher(environment)
    if wanted is not None:
        if launcher is not None and wanted not in (launcher, "mpiabi"):
            raise UsageError(
                f"--mpi {wanted} doesn't fit: the launcher is {library.FAMILIES[launcher]}'s; "
                f"use --mpi {launcher} or the other MPI's mpiexec"
            )
        return library.mpi_by_name(wanted, environment, f"--mpi {wanted}")
    if launcher is not None:
        return library.mpi_by_name(launcher, environment, "the launcher's environment")
    if program.python is not None:
        remedy = f"`{program.python} -m pip install mpi4py mpich`, or name the MPI with --mpi"
        raise UsageError(f"{program.name}: no MPI found, as this Python has no mpi4py: {remedy}")
    raise UsageError(
        f"{program.name}: no MPI found, as {program.file} is linked with none; if it starts an MPI "
        "program later, name its MPI: --mpi mpich, --mpi openmpi or --mpi mpiabi"
    )


def base_name(program: Program) -> str:
    """Return how the names of this program's trace folders begin."""
    return "mpiprof-" + re.sub(r"[^A-Za-z0-9._+-]", "_", program.name)[:NAME_LENGTH]


def dated_name(program: Program) -> str:
    """Return a name for a trace folder that starts now; not one that exists."""
    while True:
        name = f"{base_name(program)}-{time.strftime('%Y%m%d-%H%M%S')}"
        if not os.path.lexists(name):
            return name
        time.sleep(0.2)


def shared_name(program: Program, environment: Mapping[str, str]) -> str:
    """Return a folder's name that all processes of a job find without talking to each other.

    Under launchers that give a job no name, those of one node find one.
    """
    several = (job.parts_in(environment) or 1) > 1  # each with a program of its own
    base = "mpiprof" if several else base_name(program)
    return f"{base}-job-{job.identity(environment)}"


def check_place(folder: Path, ranks: int) -> None:
    """Raise MpiprofError unless a trace of so many ranks can be begun in a folder."""
    place = folder.absolute()
    if len(os.fsencode(place)) > PATH_LENGTH:
        raise MpiprofError(f"{folder}: a trace folder's path can't be that long")
    while not os.path.lexists(place):
        if len(os.fsencode(place.name)) > COMPONENT_LENGTH:
            raise MpiprofError(f"{folder}: a folder's name can't be that long")
        place = place.parent
    if not place.is_dir():
        raise MpiprofError(f"no trace can be made in {folder}: {place} is not a folder")
    try:
        probe = place / f".mpiprof-{os.uname().nodename}-{os.getpid()}"
        probe.touch(exist_ok=False)
        probe.unlink()
        disk = os.statvfs(place)
    except OSError as error:
        raise MpiprofError(
            f"no trace can be made in {folder}: {place}: {error.strerror}"
        ) from error
    # Network file systems may not say how large they are.
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < ranks * RANK_BYTES:
        raise MpiprofError(f"no trace can be made in {folder}: its disk is full")


def check_folder(folder: Path, environment: Mapping[str, str], *, partial: bool = False) -> None:
    """Raise UsageError when a folder holds an earlier trace already.

    Other processes of the same job may have begun to write into it: what was written after the
    launcher started is the job's own. Only rank 0 looks, but where it may run bare.
    """
    alone = partial or (job.parts_in(environment) or 1) > 1
    if (job.rank_in(environment) or 0) > 0 and not alone:
        return
    began = _parent_start() if job.rank_in(environment) is not None else None
    for pattern in ("meta.json", "rank-*.log", "node-*.log"):
        for path in folder.glob(pattern):
            if began is None or path.stat().st_mtime < began:
                raise UsageError(
                    f"{folder} already holds a trace: name another folder with -o, or remove it"
                )


def _parent_start() -> float:
    """Return when the parent process started, in seconds since the epoch."""
    try:
        fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    age = uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - age - 0.1


def recorder_environment(
    program: Program, mpi: Mpi, options: Options, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment in which a program is recorded; what is preloaded stays so."""
    ours = str(library.our_library(mpi))
    before = [word for word in re.split("[ :]", environment.get("LD_PRELOAD", "")) if word]
    left = {"TRACE", "MACHINE", "PARTIAL", "QUIET", "SWITCH", "SWITCH_MODEL"}
    left |= {"TOGETHER", "PARTS", "MARKS", "RANK", "ALONE", "JOB", "UNRECORDED"}
    left |= {"AUTO", "EXPLAIN", "REPRODUCIBLE", "PLAN_OUT", "SCRATCH"}
    result = {
        name: value
        for name, value in environment.items()
        if name.removeprefix("MPIPROF_") not in left or not name.startswith("MPIPROF_")
    }
    result |= {
        "LD_PRELOAD": ":".join([ours, *(word for word in before if word != ours)]),
        "MPIPROF_LIBRARY": ours,
        "MPIPROF_BASE": str(Path.cwd() / base_name(program)),
        "MPIPROF_PROGRAM": program.name,
        "MPIPROF_COMMAND": json.dumps(program.shown),
        "MPIPROF_RECORD": options.record,
        "MPIPROF_SAMPLE": str(options.sample),
        "MPIPROF_STACK": str(options.stack),
        "MPIPROF_LIMIT": str(options.limit),
        "MPIPROF_SKIP_PACKAGES": ":".join(options.skip_packages),
        "MPIPROF_PYTHON_SITES": options.python_sites,
        "MPIPROF_VERSION": __version__,
        "MPIPROF_INVOCATION": invocation(),
    }
    result |= place_in_job(program, options, environment)
    if options.machine is not None:
        result["MPIPROF_MACHINE"] = str(options.machine.absolute())
    for name in ("partial", "together", "unrecorded", "quiet", "auto", "explain", "reproducible"):
        if getattr(options, name):
            result[f"MPIPROF_{name.upper()}"] = "1"
    if options.plan_out is not None:
        result["MPIPROF_PLAN_OUT"] = str(options.plan_out.absolute())
    if options.scratch is not None:
        result["MPIPROF_SCRATCH"] = str(options.scratch)
    if options.switch is not None:
        result["MPIPROF_SWITCH"] = options.switch
    if options.switch_model is not None:
        result["MPIPROF_SWITCH_MODEL"] = options.switch_model
    return result


def place_in_job(
    program: Program, options: Options, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return what tells a process where to write, and what else of its job there is."""
    parts, rank = job.parts_in(environment), job.rank_in(environment)
    several = parts is not None and parts > 1
    shared = Path.cwd() / shared_name(program, environment)
    folder = options.folder.absolute() if options.folder is not None else None
    if folder is None and (options.partial or several):
        folder = shared
    found = {"MPIPROF_JOB": job.identity(environment)}
    if folder is not None:
        found["MPIPROF_TRACE"] = str(folder)
    if rank is None:
        return found
    found["MPIPROF_ALONE"] = str(shared)
    if several and not options.partial:
        found["MPIPROF_PARTS"] = str(parts)
        found["MPIPROF_RANK"] = str(rank)
        found["MPIPROF_MARKS"] = f"{folder}/.parts-{job.identity(environment)}"
    return found


def become(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program; raises UsageError when the system refuses."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these two from its start, and what is ignored stays so through exec.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execve(argv[0], list(argv), dict(environment))
    except OSError as error:
        if error.errno == 8:  # no "#!" line: shells run such a file themselves, and so do we
            os.execve("/bin/sh", ["/bin/sh", *argv], dict(environment))
        raise UsageError(f"{argv[0]} can't be started: {error.strerror}") from error
