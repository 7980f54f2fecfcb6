"""The distribution of this mpiprof, its libraries, optional parts, and fitting pip commands."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mpiprof.errors import MpiprofError
from mpiprof.interface.shell_hints import python_name, quote_word

if TYPE_CHECKING:
    import ctypes

DISTRIBUTION = "mpiprof-arrivals"
NAMESAKE = "mpiprof"  # another project's distribution on PyPI, with a module of the same name
HASHES = "sources.sha256"
CLOCK_STEP_NS = 2_000_000_000  # of a file system's times, at most


@functools.cache
def find_differing_source(folder: Path, core: Path) -> Path | None:
    """Return a source in `core` that differs from that of the libraries in `folder`, or None."""
    hashes = folder / HASHES
    if not hashes.is_file():  # the libraries are older than this check
        return core / "CMakeLists.txt"
    lines = [line.split("  ", 1) for line in hashes.read_text().splitlines()]
    sources = {core / name: expected for expected, name in lines}
    states = _list_states([hashes, *sources])
    # A checkout may have libraries in several environments.
    name = f"sources-{zlib.crc32(os.fsencode(folder)):08x}.states"
    record = core.parent / "__pycache__" / name
    if states and _read_record(record) == states:
        return None
    for path, expected in sources.items():
        if _hash_file(path) != expected:
            return path.resolve()
    if states:
        _write_record(record, states)
    return None


def _list_states(paths: Sequence[Path]) -> str:
    """Return one line for each file.

    Returns "" if a file is absent, or has changed in the last clock step: a further change would
    have the same time.
    """
    lines = []
    newest_ns = 0
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            return ""
        lines.append(f"{state.st_ino} {state.st_size} {state.st_ctime_ns} {path}")
        newest_ns = max(newest_ns, state.st_ctime_ns)
    return "\n".join(lines) if newest_ns < time.time_ns() - CLOCK_STEP_NS else ""


def _hash_file(path: Path) -> str:
    """Return the hash of a file, or "" if it is absent."""
    import hashlib  # takes longer than the comparison of states

    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _read_record(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _write_record(path: Path, states: str) -> None:
    """Replace a record that other processes may read; skip a folder that cannot be written."""
    written = path.with_name(f"{path.name}.{os.getpid()}.{time.time_ns()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        written.write_text(states)
        written.replace(path)


def install_command(*extras: str) -> str:
    """Return the command that installs this mpiprof again, with some of its extras."""
    return pip_command(*_requirement(f"[{','.join(extras)}]" if extras else ""))


def reinstall_command() -> str:
    """Return the command that rewrites this mpiprof's files, and leaves all other packages."""
    return pip_command("--force-reinstall", "--no-deps", *_requirement(""))


def pip_command(*words: str, python: Path | None = None) -> str:
    """Return a pip command for the environment of an interpreter, by default this one."""
    is_this = python is None or python == Path(sys.executable)
    interpreter = python_name() if is_this else quote_word(python)
    return " ".join([f"{interpreter} -m pip install", *map(quote_word, words)])


def find_namesake() -> str:
    """Return the version of the other project in this environment, or "" if it is absent."""
    import importlib.metadata

    return next((d.version for d in importlib.metadata.distributions(name=NAMESAKE)), "")


def library_folder() -> Path:
    """Return the folder of the C libraries.

    Raises MpiprofError if they are not built, or from sources that differ from this checkout.
    """
    # An editable install leaves the sources in place and installs the libraries into site-packages.
    source_package = Path(__file__).parent.parent
    for package in [source_package, *(Path(entry, "mpiprof") for entry in sys.path if entry)]:
        folder = package / "lib"
        if next(folder.glob("libmpiprof-*.so"), None) is not None:
            _check_sources(folder, source_package / "core")
            return folder
    fact = f"no recorder libraries beside {source_package}, so mpiprof was not built"
    raise MpiprofError(f"{fact}: install it with `{install_command()}`")


def _check_sources(folder: Path, core: Path) -> None:
    """Check that libraries were built from the C sources in this checkout, if it is a checkout.

    Raises MpiprofError if a source differs. Python and libraries of different versions would
    exchange structs of different layouts.
    """
    if not (core / "CMakeLists.txt").is_file():  # a wheel has no sources, and all files are from it
        return
    differing = find_differing_source(folder, core)
    if differing:
        fact = f"{differing} differs from the source of the libraries in {folder}"
        effect = "so they do not fit this Python code"
        raise MpiprofError(f"{fact}, {effect}: build them again with `{reinstall_command()}`")


def load_library(name: str) -> ctypes.CDLL:
    """Load a mpiprof library that needs no MPI; raises MpiprofError if that fails."""
    import ctypes  # not needed by a launcher without selection

    path = library_folder() / name
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise MpiprofError(f"{path} cannot be loaded ({error}): install mpiprof again") from error


def import_dashboard(name: str) -> ModuleType:
    """Return a module of the dashboard; raises MpiprofError if a dependency of it is missing."""
    import importlib

    try:
        return importlib.import_module(f"mpiprof.dashboard.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mpiprof"):
            raise
        raise missing_module_error(str(error.name)) from None


def missing_module_error(name: str) -> MpiprofError:
    """Return the error for a module that is not installed."""
    return MpiprofError(f"view needs {name}: {install_command('dashboard')}")


def _requirement(extras: str) -> tuple[str, ...]:
    """Return the words by which pip finds the source of this installation.

    A folder or file that no longer exists cannot be installed again, so the name of the
    distribution replaces it.
    """
    from urllib.parse import unquote, urlsplit  # every rank of a job imports this module

    origin = _read_origin()
    url = str(origin.get("url") or "")
    name, parts = f"{DISTRIBUTION}{extras}", urlsplit(url)
    vcs, folder = origin.get("vcs_info"), origin.get("dir_info")
    if isinstance(vcs, Mapping):
        below = origin.get("subdirectory")
        fragment = f"#subdirectory={below}" if below else ""
        return (f"{name} @ {vcs.get('vcs')}+{url}@{vcs.get('commit_id')}{fragment}",)
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        if not path.exists():
            return (name,)
        editable = isinstance(folder, Mapping) and folder.get("editable") is True
        return (*(["--editable"] if editable else []), f"{path}{extras}")
    return (f"{name} @ {url}" if url else name,)


def _read_origin() -> Mapping[str, Any]:
    """Return the content of pip's direct_url.json; for an uninstalled checkout, its folder."""
    import importlib.metadata  # which a launcher does without

    try:
        text = importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        checkout = Path(__file__).resolve().parents[2]
        is_source = (checkout / "pyproject.toml").is_file()
        return {"url": checkout.as_uri(), "dir_info": {}} if is_source else {}
    with contextlib.suppress(ValueError):
        origin = json.loads(text or "{}")
        if isinstance(origin, dict):
            return origin
    return {}
