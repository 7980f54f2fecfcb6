"""Turns the words of a command line into a running program with the recorder preloaded.

The launching process becomes the program by exec, so that exit code, signals and output are the
program's. All checks precede the exec.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from mpiprof.errors import UsageError
from mpiprof.interface import elf
from mpiprof.interface.installation import pip_command
from mpiprof.launch import library
from mpiprof.launch.library import Mpi


@dataclass(frozen=True)
class Program:
    """A program to run: its short name, the words for exec, and the file or Python with its MPI."""

    name: str
    argv: tuple[str, ...]
    command: tuple[str, ...]
    file: Path | None
    python: Path | None
    folder: str | None = None


def python_flags() -> list[str]:
    """Return the interpreter flags of this process, such as -u or -X dev."""
    head = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    if len(head) >= 2 and re.fullmatch("-[A-Za-z]*m", head[-2]):
        return head[:-2] + ([head[-2][:-1]] if len(head[-2]) > 2 else [])
    return head[:-1]


def verb_command(*words: str) -> list[str]:
    """Return the command line of a mpiprof verb in this Python."""
    return [sys.executable, *python_flags(), "-m", "mpiprof", *words]


def program_words(args: Namespace) -> list[str]:
    """Return the program and its arguments without the separator."""
    command: list[str] = args.program
    return command[1:] if command[:1] == ["--"] else command


def find_program(words: Sequence[str], *, module: bool) -> Program:
    """Find the program of a command line; raises UsageError if it is missing or not executable."""
    if module:
        return _module_program(words)
    first = Path(words[0])
    if _is_script(first):
        if not first.exists():
            fact = f"{first}: no such script (seen from {Path.cwd()})"
            raise UsageError(f"{fact}: correct the name, or change to its folder with `cd`")
        argv = (sys.executable, *python_flags(), *words)
        folder = str(first if first.is_dir() else first.resolve().parent)
        return Program(first.name, argv, tuple(words), None, Path(sys.executable), folder)
    path = _find_executable(words[0])
    interpreter = _find_interpreter(path)
    python = interpreter if library.PYTHON_NAME.match(interpreter.name) else None
    scripts = [Path(word).name for word in words[1:] if word.endswith(".py")]
    named_python = python is not None and library.PYTHON_NAME.match(path.name)
    name = scripts[0] if named_python and scripts else path.name
    return Program(name, (str(path), *words[1:]), tuple(words), interpreter, python)


def _module_program(words: Sequence[str]) -> Program:
    import importlib.machinery
    import importlib.util

    top = words[0].partition(".")[0]
    here = importlib.machinery.PathFinder.find_spec(top, [str(Path.cwd())])
    if here is None and importlib.util.find_spec(top) is None:
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


def _find_executable(word: str) -> Path:
    path = shutil.which(word) or shutil.which(f"./{word}")
    if path is not None:
        return Path(path).absolute()
    if Path(word).is_file():
        raise UsageError(f"{word} is not executable: name a program, or run `chmod +x {word}`")
    if Path(word).is_dir():
        raise UsageError(f"{word} is a folder without a __main__.py: name a program")
    where = f"no such file (seen from {Path.cwd()})" if "/" in word else "not found here or in PATH"
    raise UsageError(f"{word}: {where}")


def _find_interpreter(path: Path) -> Path:
    """Follow "#!" lines to the ELF file that the kernel will start."""
    for _ in range(5):
        if elf.is_elf(path):
            return path
        try:
            with path.open("rb") as file:
                line = os.fsdecode(file.readline(4096)).strip()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        words = line[2:].split() if line.startswith("#!") else ["/bin/sh"]
        if Path(words[0]).name == "env":
            words = [word for word in words[1:] if word[0] != "-" and "=" not in word]
        interpreter = shutil.which(words[0]) if words else None
        if interpreter is None:
            fact = "that interpreter is not installed here"
            raise UsageError(f"{path} begins with {line!r}, but {fact}")
        path = Path(interpreter).absolute()
    raise UsageError(f"{path}: its interpreter is a script again, too many times")


def find_mpi(program: Program, abi: str | None, environment: Mapping[str, str]) -> Mpi:
    """Return the MPI of a program, `abi` or launcher; UsageError if they disagree or show none."""
    mpi = None
    if program.python is not None:
        if program.folder is not None:
            python = library.this_interpreter(program.folder)
        else:
            python = library.interpreter_of(program.python)
        mpi = library.mpi_of_python(python, environment)
    elif program.file is not None:
        mpi = library.mpi_of_file(program.file, environment)
    if mpi is not None:
        if abi is not None and mpi.abi != abi:
            fact = f"{mpi.reason}, which is {mpi.family}"
            raise UsageError(f"--mpi {abi} contradicts the program: {fact}: leave out --mpi")
        return replace(mpi, loaded_by_program=True)
    launcher = library.mpi_of_launcher(environment)
    if abi is not None:
        if launcher is not None and abi not in (launcher, "mpiabi"):
            fact = f"the launcher, which belongs to {library.FAMILIES[launcher]}"
            remedy = f"use --mpi {launcher}, or the mpiexec of {abi}"
            raise UsageError(f"--mpi {abi} contradicts {fact}: {remedy}")
        return library.mpi_by_name(abi, environment, f"--mpi {abi}")
    if launcher is not None:
        return library.mpi_by_name(launcher, environment, "the launcher's environment")
    if program.python is not None:
        raise UsageError(
            f"{program.name}: no MPI found, because this Python has no mpi4py: "
            f"`{pip_command('mpi4py', 'mpich', python=program.python)}`, or name the MPI with --mpi"
        )
    raise UsageError(
        f"{program.name}: no MPI found, because {program.file} is not linked with MPI: if "
        "it starts an MPI program later, pass --mpi mpich, --mpi openmpi or --mpi mpiabi"
    )


def replace_process(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program; raises UsageError if the system refuses."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these two signals, and exec would pass that on.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execve(argv[0], list(argv), dict(environment))
    except OSError as error:
        if error.errno == 8:  # no "#!" line: run the file by a shell, as shells do
            os.execve("/bin/sh", ["/bin/sh", *argv], dict(environment))
        raise UsageError(f"{argv[0]} cannot be started: {error.strerror}") from error
