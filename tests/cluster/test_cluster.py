"""The emulated cluster: created, used by both MPIs, and removed however a run ends.

The clusters of a test have a separate state folder and prefix, so that they and other clusters on
this machine neither see nor remove each other.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.jobs import clean_environment, run
from support.mpis import Mpi
from support.wait_until import HANG_S, wait_until

from mpiprof.collectives.papers.cluster import network as cluster
from mpiprof.errors import MpiprofError, UsageError

pytestmark = pytest.mark.slow

OWN_PLACE = """
import os, select, sys
from pathlib import Path
from mpiprof.collectives.papers.cluster import network as c
c.STATE_FOLDER, c.PREFIX = Path(os.environ["STATE"]), os.environ["PREFIX"]
"""
MAIN = OWN_PLACE + "from mpiprof.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
MAKE = (
    OWN_PLACE
    + """
with c.raise_on_termination(), c.Cluster(c.parse("3x100mbit")) as made:
"""
)
# A shell starts background commands (`&`) and their children with SIGINT ignored.
HEED = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
# Python handles a signal only after a system call that begins just after the signal has come, so
# each call is short.
WAIT = """    print('up', made.folder.name, flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass
"""
HOLD = HEED + MAKE + WAIT
USE = (
    MAKE
    + """    from mpiprof.launch import library
    mpi = library.mpi_of_python(library.this_interpreter(), os.environ)
    before = made.count_sent_bytes()
    code = made.run(mpi, 3, [sys.executable, "-c", sys.argv[1]], {"FOUND": "here"})
    print("code", code, "sent", [b - a for a, b in zip(before, made.count_sent_bytes())])
"""
)
CALIBRATE = (
    MAKE.replace("3x100mbit", "2x10mbit")
    + """    from mpiprof.launch import library
    from mpiprof.collectives.papers.harness.message_times import calibrate_ranks
    mpi = library.mpi_of_python(library.this_interpreter(), os.environ)
    start = lambda words, variables: made.run(mpi, 2, words, variables)
    print(calibrate_ranks(start, Path(os.environ["STATE"]), lambda _: "").read_text())
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
    if world.rank == 0:  # has the whole message time, however late rank 1 receives
        world.Send(message, 1)
        world.recv(source=1)
        took = time.monotonic() - began
    elif world.rank == 1:
        world.Recv(message, 0)
        world.send(None, 0)
if world.rank == 0:
    os.write(1, f"took {round(1e3 * took)}\\n".encode())  # at once: lines of ranks cut each other
preloaded = any("mpiprof/wait-" in line for line in open("/proc/self/maps"))
line = f"rank {world.rank} {socket.gethostname()} {os.environ['FOUND']} {preloaded}\\n"
os.write(1, line.encode())
"""


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    """Skip if namespaces cannot be created; continuous integration runs as root."""
    if os.geteuid() != 0:
        pytest.skip("not root: network namespaces can't be made")
    if shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip("no ip: apt-get install iproute2")


@pytest.fixture(autouse=True)
def nothing_left(
    one_cluster: None,  # noqa: ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Give a test's clusters a separate state folder, and check afterwards that all are removed."""
    state, prefix = tmp_path / "state", f"mpiprof-test-{secrets.token_hex(3)}-"
    monkeypatch.setattr(cluster, "STATE_FOLDER", state)
    monkeypatch.setattr(cluster, "PREFIX", prefix)
    monkeypatch.setenv("STATE", str(state))
    monkeypatch.setenv("PREFIX", prefix)
    yield
    assert not remains()


def remains() -> set[str]:
    """Return the names of namespaces and folders of this test's clusters."""
    names = {p.name for p in cluster.NETNS.glob(f"{cluster.PREFIX}*")}
    return names | {p.name for p in cluster.STATE_FOLDER.glob("*") if p.is_dir()}


def test_what_a_cluster_is_called() -> None:
    assert cluster.parse("16x100mbit") == cluster.ClusterShape(16, 10**8, 1)
    assert cluster.parse("2x1.5Gbitx4") == cluster.ClusterShape(2, 15 * 10**8, 4)
    assert cluster.parse("2x1.5Gbitx4").ranks == 8
    for wrong in ("16", "16x100", "x100mbit", "1x100mbit", "16x100mbitx0", "4x9kbit", "300x1mbit"):
        with pytest.raises(UsageError, match="--cluster"):
            cluster.parse(wrong)


def test_both_mpis_use_the_network(mpi: Mpi) -> None:
    done = run([mpi.python, "-c", USE, PROGRAM], check=True)
    ranks = sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))
    assert ranks == [f"rank {r} node0{r} here True" for r in range(3)], done.stdout + done.stderr
    took = re.search(r"took (\d+)", done.stdout)
    # A port of 100 Mbit/s takes 87.7 ms at least; a busy machine takes longer.
    assert took is not None and int(took[1]) >= 75
    sent = re.search(r"code 0 sent \[(\d+), (\d+), (\d+)\]", done.stdout)
    assert sent is not None and int(sent[1]) > 2 << 20 > int(sent[2])


def test_message_times_are_those_of_idle_ports(mpi: Mpi, tmp_path: Path) -> None:
    """A port of 10 Mbit/s sends its first 6 KB at once after an idle time.

    Later messages of a ping-pong would wait until the port has sent as many bytes at its rate.
    """
    script = tmp_path / "calibrate.py"
    script.write_text(CALIBRATE)
    done = run([mpi.python, script], check=True)
    link = json.loads(done.stdout)["between"]
    times = dict(zip(link["sizes"], link["one_way_ns"], strict=True))
    byte_ns = 800
    assert times[4096] < 4096 * byte_ns / 2
    largest = max(times)
    assert times[largest] > (largest - 8192) * byte_ns
    # Larger messages would leave few repetitions to each size.
    assert 16384 <= largest <= 262144


def test_a_failing_program_s_code_comes_back(mpich: Mpi) -> None:
    done = run([mpich.python, "-c", USE, "raise SystemExit(5)"], check=True)
    assert "code 5" in done.stdout


def hold() -> tuple[subprocess.Popen[str], str]:
    """Start a process that uses a cluster; returns it with the cluster's identity."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_ended_run_takes_its_cluster_down(number: signal.Signals) -> None:
    process, identity = hold()
    assert any(identity in name for name in remains())
    process.send_signal(number)
    assert process.wait(HANG_S) != 0
    assert not any(identity in name for name in remains())


def test_the_next_run_removes_the_cluster_of_a_killed_run() -> None:
    process, identity = hold()
    node = f"{cluster.PREFIX}{identity}-node00"
    inside = subprocess.Popen(["ip", "netns", "exec", node, "sleep", "infinity"])
    try:
        name = Path(f"/proc/{inside.pid}/comm")
        wait_until(lambda: name.read_text() == "sleep\n", "`ip` has become `sleep`", inside)
        process.kill()
        process.wait()
        assert any(identity in name for name in remains())
        with cluster.Cluster(cluster.parse("2x100mbit")):
            assert not any(identity in name for name in remains())
        assert inside.wait(HANG_S) == -signal.SIGKILL
    finally:
        inside.kill()


def test_two_clusters_don_t_collide(capfd: pytest.CaptureFixture[str]) -> None:
    shape = cluster.parse("2x100mbit")
    with cluster.Cluster(shape) as first:
        with cluster.Cluster(shape) as second:
            assert first.prefix != second.prefix
            assert len(first.count_sent_bytes()) == len(second.count_sent_bytes()) == 2
        assert "run on this machine" in capfd.readouterr().err
        assert len(first.count_sent_bytes()) == 2


def test_every_port_has_the_rate_of_the_cluster() -> None:
    """A node's port is shaped on both sides; the switch side has SWITCH_PERCENT of the rate."""
    with cluster.Cluster(cluster.parse("2x100mbit")) as made:
        for name, rates in (("node00", ["100Mbit"]), ("switch", ["104Mbit"] * 2)):
            words = ["tc", "-n", made.prefix + name, "qdisc", "show"]
            shown = run(words, check=True).stdout
            assert re.findall(r"qdisc tbf .* rate (\S+)", shown) == rates


def test_clusters_of_others_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shape = cluster.parse("2x100mbit")
    with cluster.Cluster(shape) as first, monkeypatch.context() as patched:
        patched.setattr(cluster, "STATE_FOLDER", tmp_path / "others")
        patched.setattr(cluster, "PREFIX", f"{cluster.PREFIX}others-")
        with cluster.Cluster(shape) as second:
            assert len(first.count_sent_bytes()) == len(second.count_sent_bytes()) == 2
        assert "run on this machine" not in capfd.readouterr().err
        assert len(first.count_sent_bytes()) == 2


def test_an_exception_takes_the_cluster_down() -> None:
    with pytest.raises(ZeroDivisionError), cluster.Cluster(cluster.parse("2x100mbit")):
        raise ZeroDivisionError


def test_more_ranks_than_slots_are_refused(mpich: Mpi) -> None:
    program = USE.replace("made.run(mpi, 3", "made.run(mpi, 4")
    done = run([mpich.python, "-c", program, "pass"])
    assert done.returncode and "the cluster has 3" in done.stderr


# ---- missing requirements, in one line


def bench(mpi: Mpi, *before: str) -> str:
    """Run a study on a cluster that must fail; returns the message."""
    words = ["-c", MAIN, "bench", "cases", "--cluster", "2x100mbit"]
    done = run([*before, str(mpi.python), *words])
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_namespaces_are_not_allowed(mpich: Mpi) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv: apt-get install util-linux")
    printed = bench(mpich, "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    assert "not permitted here" in printed and "--privileged" in printed


def test_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MpiprofError, match="root"), cluster.Cluster(cluster.parse("2x100mbit")):
        pass


def test_no_iproute2() -> None:
    with pytest.raises(MpiprofError, match="apt-get install iproute2"):
        cluster.find_tool("no-such-tool", "iproute2")
