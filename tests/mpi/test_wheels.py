"""Wheels that are built here, then installed and run as users would."""

from __future__ import annotations

import json
import re
import site
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
from support import ROOT
from support.dashboard_traces import plain
from support.jobs import clean_environment, run
from support.mpis import LIBRARIES
from support.wait_until import HANG_S

BUILDING = 1200  # seconds for eight libraries, with a downloaded compiler


@pytest.mark.everything
def test_a_wheel_records_and_switches_in_a_fresh_environment(tmp_path: Path) -> None:
    """On 2 ranks of MPICH, in an environment with wheels only, far from the sources."""
    words = ["PLATFORMS=manylinux-x86_64", f"DIST={tmp_path}"]
    run(["make", "wheels", *words], cwd=ROOT, timeout=BUILDING, check=True)
    wheel = next(tmp_path.glob("*-py3-none-manylinux_2_17_x86_64.whl"))
    run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    python = tmp_path / "fresh" / "bin" / "python"
    words = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", f"{wheel}[mpich,python]"]
    run([python, *words], cwd=tmp_path, check=True)

    words = ["-n", "2", "-o", "trace", "--switch", "allgather=ring"]
    words = ["-m", "mpiprof", "run", *words, str(ROOT / "samples" / "nbody.py")]
    done = run([python, *words], cwd=tmp_path, check=True)
    assert "check ok" in done.stdout
    report = run([python, "-m", "mpiprof", "report", "trace", "--json"], cwd=tmp_path, check=True)
    rows = {row["operation"]: row for row in json.loads(report.stdout)["callsites"]}
    assert rows["allgather"]["algorithm"] == "ring"
    assert rows["allgather"]["complete_instances"] == rows["allgather"]["instances"] > 1
    where = run([python, "-c", "import mpiprof; print(mpiprof.__file__)"], cwd=tmp_path, check=True)
    assert Path(where.stdout.strip()).is_relative_to(tmp_path / "fresh")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return this checkout's wheel, built without optimisation, which would take most of the time.

    The tests inspect its files and its Python parts.
    """
    folder = tmp_path_factory.mktemp("wheel")
    words = ["-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(folder)]
    words += ["-C", "cmake.build-type=Debug", "-C", f"build-dir={folder}/build", str(ROOT)]
    run([sys.executable, *words], cwd=folder, timeout=BUILDING, check=True)
    (wheel_path,) = folder.glob("*.whl")
    return wheel_path


@pytest.mark.slow
def test_one_wheel_for_every_mpi(wheel: Path) -> None:
    assert re.fullmatch(r"mpiprof_arrivals-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    for name in LIBRARIES:
        assert f"mpiprof/lib/libmpiprof-{name}.so" in names


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with this checkout's wheel installed, not editable.

    Its dependencies come from the environment of the tests, without that environment's mpiprof.
    """
    folder = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    packages = next((folder / "venv" / "lib").glob("python3*/site-packages"))
    words = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), str(wheel)]
    run([sys.executable, *words], cwd=folder, timeout=BUILDING, check=True)
    # Python searches a folder named in a .pth file, but ignores the .pth files in that folder.
    (packages / "dependencies.pth").write_text(site.getsitepackages()[0] + "\n")
    return folder / "venv" / "bin" / "python"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_an_installed_package_works_inside_and_outside_of_the_checkout(
    where: str, installed: Path, tmp_path: Path
) -> None:
    """Python searches the start folder first: the checkout's package shadows the installed one."""
    cwd = ROOT if where == "inside" else tmp_path
    at = run([installed, "-c", "import mpiprof; print(mpiprof.__file__)"], cwd=cwd, check=True)
    assert Path(at.stdout.strip()).is_relative_to(
        ROOT if where == "inside" else installed.parents[1]
    )
    printed = run([installed, "-m", "mpiprof", "algorithms", "allgather"], cwd=cwd, check=True)
    assert "ring" in printed.stdout
    words = ["-m", "mpiprof", "view", str(plain(tmp_path / "t", 3)), "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        [installed, *words], cwd=cwd, stdout=subprocess.PIPE, text=True, env=clean_environment()
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        page = opener.open(address).read().decode()
        assert re.search(r"<title>mpiprof</title>", page)
    finally:
        process.terminate()
        process.wait(HANG_S)
