"""The emulated cluster: set up, used by both MPIs, and taken down however a run ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.jobs import clean_environment, run
from support.mpis import Mpi

from mpiprof.bench.cluster import network as cluster
from mpiprof.errors import MpiprofError, UsageError

MAKE = """
from mpiprof.bench.cluster import network as c
with c.endings_as_exceptions(), c.Cluster(c.parse("3x100mbit")) as made:
"""
# A shell starts what ends in `&` with SIGINT ignored, and all that comes from it.
HEED = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
WAIT = "    print('up', made.folder.name, flush=True)\n    import time; time.sleep(60)\n"
HOLD = HEED + MAKE + WAIT
USE = (
    MAKE
    + """    import os, sys
    from mpiprof.launch import library
    mpi = library.mpi_of_python(library.this_interpreter(), os.environ)
    before = made.sent_bytes()
    code = made.run(mpi, 3, [sys.executable, "-c", sys.argv[1]], {"FOUND": "here"})
    print("code", code, "sent", [b - a for a, b in zip(before, made.sent_bytes())])
"""
)
PROGRAM = """
import os, socket, time
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
message = np.zeros(1 << 20, "b")
for _ in range(2):
    world.Barrier()
    began = time.monotonic()
    if world.rank == 0:
        world.Send(message, 1)
    elif world.rank == 1:
        world.Recv(message, 0)
        took = time.monotonic() - began
if world.rank == 1:
    os.write(1, f"took {round(1e3 * took)}\\n".encode())  # at once: lines of ranks cut each other
preloaded = any("mpiprof/wait-" in line for line in open("/proc/self/maps"))
line = f"rank {world.rank} {socket.gethostname()} {os.environ['FOUND']} {preloaded}\\n"
os.write(1, line.encode())
"""


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    """Skip where namespaces can't be made; continuous integration runs as root."""
    if os.geteuid() != 0:
        pytest.skip("not root: network namespaces can't be made")
    if shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip("no ip: apt-get install iproute2")


@pytest.fixture(autouse=True)
def nothing_left(one_cluster: None) -> Iterator[None]:  # noqa: ARG001
    """Check after each test that all clusters of this module are gone."""
    before = remains()
    yield
    assert remains() <= before


def remains() -> set[str]:
    """Return the names of namespaces and folders of clusters."""
    names = {p.name for p in cluster.NETNS.iterdir()} if cluster.NETNS.is_dir() else set()
    folders = (
        {p.name for p in cluster.STATE.iterdir() if p.is_dir()} if cluster.STATE.is_dir() else set()
    )
    return {name for name in names if name.startswith("mpiprof-")} | folders


def test_what_a_cluster_is_called() -> None:
    assert cluster.parse("16x100mbit") == cluster.Shape(16, 10**8, 1)
    assert cluster.parse("2x1.5Gbitx4") == cluster.Shape(2, 15 * 10**8, 4)
    assert cluster.parse("2x1.5Gbitx4").ranks == 8
    for wrong in ("16", "16x100", "x100mbit", "1x100mbit", "16x100mbitx0", "4x9kbit", "300x1mbit"):
        with pytest.raises(UsageError, match="--cluster"):
            cluster.parse(wrong)


def test_both_mpis_use_the_network(mpi: Mpi) -> None:
    done = run([mpi.python, "-c", USE, PROGRAM], check=True)
    ranks = sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))
    assert ranks == [f"rank {r} node0{r} here True" for r in range(3)], done.stdout + done.stderr
    took = re.search(r"took (\d+)", done.stdout)
    # A port of 100 Mbit/s takes 87.7 ms; a busy machine makes it more.
    assert took is not None and 75 <= int(took[1]) < 300
    sent = re.search(r"code 0 sent \[(\d+), (\d+), (\d+)\]", done.stdout)
    assert sent is not None and int(sent[1]) > 2 << 20 > int(sent[2])


def test_a_failing_program_s_code_comes_back(mpich: Mpi) -> None:
    done = run([mpich.python, "-c", USE, "raise SystemExit(5)"], check=True)
    assert "code 5" in done.stdout


def hold() -> tuple[subprocess.Popen[str], str]:
    """Start a process that holds a cluster; return it with the cluster's identity."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, env=clean_environment()
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_ended_run_takes_its_cluster_down(number: signal.Signals) -> None:
    process, identity = hold()
    assert any(identity in name for name in remains())
    process.send_signal(number)
    assert process.wait(20) != 0
    assert not any(identity in name for name in remains())


def test_the_next_run_takes_down_what_a_killed_one_left() -> None:
    process, identity = hold()
    inside = subprocess.Popen(["ip", "netns", "exec", f"mpiprof-{identity}-node00", "sleep", "60"])
    try:
        for _ in range(100):  # until `ip` has become `sleep` there
            if Path(f"/proc/{inside.pid}/comm").read_text().strip() == "sleep":
                break
            time.sleep(0.02)
        process.kill()
        process.wait()
        assert any(identity in name for name in remains())
        with cluster.Cluster(cluster.parse("2x100mbit")):
            assert not any(identity in name for name in remains())
        assert inside.wait(5) == -signal.SIGKILL
    finally:
        inside.kill()


def test_two_clusters_don_t_collide(capfd: pytest.CaptureFixture[str]) -> None:
    shape = cluster.parse("2x100mbit")
    with cluster.Cluster(shape) as first:
        with cluster.Cluster(shape) as second:
            assert first.prefix != second.prefix
            assert len(first.sent_bytes()) == len(second.sent_bytes()) == 2
        assert "up on this machine" in capfd.readouterr().err
        assert len(first.sent_bytes()) == 2


def test_an_exception_takes_the_cluster_down() -> None:
    with pytest.raises(ZeroDivisionError), cluster.Cluster(cluster.parse("2x100mbit")):
        raise ZeroDivisionError


def test_more_ranks_than_places_are_refused(mpich: Mpi) -> None:
    program = USE.replace("made.run(mpi, 3", "made.run(mpi, 4")
    done = run([mpich.python, "-c", program, "pass"])
    assert done.returncode and "there is room for 3" in done.stderr


# ---- what is missing, in one line


def bench(mpi: Mpi, *before: str) -> str:
    """Run a study on a cluster where that fails; return what it says."""
    words = ["-m", "mpiprof", "bench", "cases", "--cluster", "2x100mbit"]
    done = run([*before, str(mpi.python), *words])
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_namespaces_are_not_allowed(mpich: Mpi) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv: apt-get install util-linux")
    said = bench(mpich, "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    assert "not allowed here" in said and "--privileged" in said


def test_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MpiprofError, match="root"), cluster.Cluster(cluster.parse("2x100mbit")):
        pass


def test_no_iproute2() -> None:
    with pytest.raises(MpiprofError, match="apt-get install iproute2"):
        cluster.find_tool("no-such-tool", "iproute2")
