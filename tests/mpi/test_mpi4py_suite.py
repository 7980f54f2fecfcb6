"""mpi4py's own tests have the same results recorded and bare.

They are in mpi4py's source distribution, which is downloaded once into the folder of the test
environments. None of it is compiled. `CI=true make test` runs the collectives at 2 ranks, and `make
test-all` every file at 1, 2, 3 and 5 ranks. Files that fail bare are skipped.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from support import ROOT
from support.jobs import run, run_mpi
from support.locks import alone_with
from support.mpis import Mpi
from support.wait_until import HANG_S

import mpiprof

CACHE = ROOT / ".venv" / "mpi4py"


def suite(mpi: Mpi) -> Path:
    """Return the folder of the tests for an environment's mpi4py."""
    show = "import mpi4py; print(mpi4py.__version__)"
    version = run([mpi.python, "-c", show], check=True).stdout.strip()
    folder = CACHE / f"mpi4py-{version}"
    with alone_with("mpi4py"):
        if not folder.exists():
            words = ["-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
            words += ["--no-binary", "mpi4py", "-d", str(CACHE), f"mpi4py=={version}"]
            run([mpi.python, *words], check=True)
            with tarfile.open(CACHE / f"mpi4py-{version}.tar.gz") as archive:
                archive.extractall(CACHE)
    return folder / "test"


def result_of(printed: list[str]) -> list[list[str]]:
    """Return each rank's numbers of run, skipped and failed tests, and the names, without times."""
    retained = [
        [re.sub(r" in [0-9.]+s$", "", line) for line in text.splitlines()] for text in printed
    ]
    return [[s for s in lines if re.match("Ran |OK|FAILED|ERROR:|FAIL:", s)] for lines in retained]


# Each rank prints into a file, because mpiexec mixes the lines of ranks.
APART = 'exec "$@" >"$PRINTED.${PMI_RANK}${OMPI_COMM_WORLD_RANK}" 2>&1'


def run_suite(
    mpi: Mpi, ranks: int, words: list[str], folder: Path, timeout: float
) -> tuple[int, list[str]]:
    """Run the suite; returns its exit code and each rank's output."""
    for old in folder.glob("printed.*"):
        old.unlink()
    env = {"PRINTED": str(folder / "printed")}
    words = ["sh", "-c", APART, "sh", *words]
    ended = run_mpi(mpi, ranks, words, cwd=folder, timeout=timeout, env=env)
    printed = [(folder / f"printed.{rank}").read_text() for rank in range(ranks)]
    return ended.returncode, [ended.stdout + ended.stderr, *printed]


def compare(mpi: Mpi, ranks: int, pattern: str, folder: Path, bare_s: float = HANG_S) -> bool:
    """Run some of the tests both ways; returns False if they fail or exceed bare_s bare."""
    tests = [str(suite(mpi) / "main.py"), "-q", "-i", pattern]
    try:
        code, printed = run_suite(mpi, ranks, [str(mpi.python), *tests], folder, bare_s)
    except pytest.fail.Exception:
        return False
    if code != 0:
        return False
    trace = folder / "trace"
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace), *tests]
    recorded_code, recorded = run_suite(mpi, ranks, words, folder, HANG_S)
    assert recorded_code == 0, "\n".join(recorded)[-3000:]
    assert result_of(recorded) == result_of(printed)
    assert all("Ran " in text and "Ran 0 tests" not in text for text in printed[1:]), printed
    if trace.exists():
        opened = mpiprof.open(trace)
        assert opened.dropped_records == 0
    return True


@pytest.mark.slow
def test_collectives_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    assert compare(mpi, 2, "cco", tmp_path)


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_everything(ranks: int, mpi: Mpi, tmp_path: Path) -> None:
    """File by file, so that a file that fails bare affects no other file."""
    compared = 0
    for path in sorted(suite(mpi).glob("test_*.py")):
        folder = tmp_path / path.stem
        folder.mkdir()
        if compare(mpi, ranks, rf"{path.stem}\.py", folder, 300):
            compared += 1
        else:
            print(f"{path.stem} fails bare at {ranks} ranks under {mpi.name}: left out")
    assert compared > 40
