"""A small cluster on one machine: network namespaces as nodes, and a bridge as the network switch.

A token-bucket shaper on every port, in both directions, gives each node one full-duplex port of a
given rate, as in the single-port model of the papers. Root and iproute2 are required. All names
contain the cluster's identity, and all objects are in namespaces. The next run removes the remains
of a killed run. Nodes share the machine's monotonic clock.

Measurements showed that the processor cost is per packet, so packets are as large as the rate
allows (`_packet_bytes`). mpi.py lists the settings that each MPI needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from mpiprof.collectives.papers.cluster.mpi import (
    PRIORITISED_SHELL,
    launcher_words,
    rank_environment,
)
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.launch import mpiexec
from mpiprof.launch.library import Mpi

STATE_FOLDER = Path("/run/mpiprof")  # one folder per cluster, locked by its creator
PREFIX = "mpiprof-"  # of the names of namespaces; an identity follows
NETNS = Path("/run/netns")
MTU = 1500
WAIT_S = 1.0  # subprocess divides this wait into system calls of at most 50 ms
QUEUE_BYTES = 64 << 20
PACKETS_PER_SECOND = 8000  # of all nodes together, as many as two processors can handle
SWITCH_PERCENT = 104  # so that the bridge's shaper only delays if several senders meet
UNITS = {"k": 10**3, "m": 10**6, "g": 10**9}
NO_IPV6 = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"
MAX_NODES = 200
# A race between PRRTE and the agent's exec, without consequences.
HARMLESS_OUTPUT = re.compile(rb"^.*plm:ssh: Warning: setpgid.*\n?", re.MULTILINE)

# Hydra and PRRTE call the agent as ssh: [-x ...] HOST WORDS..., which a shell joins.
AGENT_SCRIPT = """#!/bin/sh
while :; do case $1 in -l|-p|-o) shift 2;; -*) shift;; *) break;; esac; done
host=$1; shift
exec {ip} netns exec {prefix}$host {unshare} --uts /bin/sh -c \\
  "hostname $host; mount --bind {folder}/hosts /etc/hosts; mount -t tmpfs tmpfs /dev/shm; $*"
"""


@dataclass(frozen=True)
class ClusterShape:
    """Description of a cluster, `16x100mbit[xPPN]`: nodes, bit/s of a port, ranks per node."""

    nodes: int
    rate: int
    ppn: int = 1

    @property
    def ranks(self) -> int:
        """Total number of ranks."""
        return self.nodes * self.ppn

    def __str__(self) -> str:
        per = f", {self.ppn} ranks on each" if self.ppn > 1 else ""
        return f"{self.nodes} nodes at {self.rate / 1e6:g} Mbit/s{per}"


def parse(text: str) -> ClusterShape:
    """Parse a cluster's description; raises UsageError if it is invalid."""
    match = re.fullmatch(r"(\d+)x(\d+(?:\.\d+)?)([kmg])bit(?:x(\d+))?", text.lower())
    if match is None:
        form = "nodes x rate [x ranks per node], such as 16x100mbit"
        raise UsageError(f"--cluster {text}: not {form}")
    shape = ClusterShape(int(match[1]), int(float(match[2]) * UNITS[match[3]]), int(match[4] or 1))
    if not 2 <= shape.nodes <= MAX_NODES or shape.ppn < 1 or shape.rate < 10**5:
        limits = f"2 to {MAX_NODES} nodes, 100kbit or more, 1 rank or more"
        raise UsageError(f"--cluster {text}: {limits}")
    return shape


def find_tool(name: str, package: str) -> str:
    """Return a system tool's path; raises MpiprofError with the name of its package."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    path_of_tool = shutil.which(name, path=path)
    if path_of_tool is None:
        raise MpiprofError(f"--cluster requires `{name}`: apt-get install {package}")
    return path_of_tool


def _run_tool(words: Sequence[str], text: str | None = None) -> None:
    """Run a tool with an input; raises MpiprofError with the tool's message."""
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise MpiprofError(f"--cluster: `{' '.join(words)}` failed: {output[0]}")


def _packet_bytes(shape: ClusterShape) -> int:
    """Return the largest packet, limited by the processors' packet rate and to about 1 ms."""
    fewest_bytes = max(
        shape.rate // 8 * shape.nodes // PACKETS_PER_SECOND, shape.rate // 8000, 2 * MTU
    )
    return min(fewest_bytes, 65536)


class Cluster:
    """An emulated cluster; a resource: `with Cluster(parse("16x100mbit")) as cluster`."""

    def __init__(self, shape: ClusterShape) -> None:
        self.shape = shape
        self.names = [f"node{i:02d}" for i in range(shape.nodes)]
        self.folder = Path()
        self.prefix = ""
        self._lock: IO[str] | None = None
        self._ip = self._tc = self._unshare = ""

    def __enter__(self) -> Cluster:
        self._ip = find_tool("ip", "iproute2")
        self._tc = find_tool("tc", "iproute2")
        self._unshare = find_tool("unshare", "util-linux")
        if os.geteuid() != 0:
            fact = "--cluster creates network namespaces, which requires root"
            raise MpiprofError(f"{fact}: use sudo")
        self._claim_identity()
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- setting up

    def _claim_identity(self) -> None:
        """Take a new identity, and remove what killed runs have left."""
        STATE_FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (STATE_FOLDER / "lock").open("w") as everybody:
            fcntl.flock(everybody, fcntl.LOCK_EX)
            alive = remove_abandoned(self._ip)
            if alive:
                fact = f"{alive} other emulated cluster(s) run on this machine"
                print(f"mpiprof: {fact}: both will be slow", file=sys.stderr)
            identity = secrets.token_hex(3)
            self.prefix, self.folder = f"{PREFIX}{identity}-", STATE_FOLDER / identity
            self.folder.mkdir(mode=0o700)
            self._lock = (self.folder / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _build(self) -> None:
        addresses = {name: f"10.77.0.{i + 1}" for i, name in enumerate(self.names)}
        addresses["head"] = "10.77.0.250"
        hosts = "".join(f"{a} {name}\n" for name, a in addresses.items())
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        (self.folder / "tmp").mkdir()
        agent = self.folder / "agent"
        names = {"prefix": self.prefix, "folder": self.folder}
        agent.write_text(AGENT_SCRIPT.format(ip=self._ip, unshare=self._unshare, **names))
        agent.chmod(0o700)
        try:
            self._ip_batch(None, [f"netns add {self.prefix}{n}" for n in ["switch", *addresses]])
        except MpiprofError as error:
            fact = f"network namespaces are not permitted here ({str(error).rpartition(': ')[2]})"
            raise MpiprofError(f"{fact}: start the container with --privileged") from None
        self._try_in_node("switch", NO_IPV6)
        self._try_in_node("switch", "for f in /proc/sys/net/bridge/*; do echo 0 >$f; done")
        bridge = "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        self._ip_batch("switch", [bridge, f"link set br0 mtu {MTU} up"])
        for number, name in enumerate(addresses):
            self._build_node(number, name, addresses)

    def _build_node(self, number: int, name: str, addresses: Mapping[str, str]) -> None:
        packet = _packet_bytes(self.shape)
        socket = max(8 * packet, 131072)
        port = f"port{number}"
        ends = (f"eth0 netns {self.prefix}{name}", f"{port} netns {self.prefix}switch")
        address = f"address {_hardware_address(number)}"
        link = f"link add {ends[0]} mtu {MTU} {address} type veth peer name {ends[1]} mtu {MTU}"
        self._ip_batch(None, [link])
        settings = "gso_max_size 65536 txqueuelen 10000"
        self._ip_batch("switch", [f"link set {port} {settings} master br0 up"])
        variables = {
            "tcp_slow_start_after_idle": "0",
            "tcp_no_metrics_save": "1",
            "tcp_rmem": f"4096 {socket} {socket}",
            "tcp_wmem": f"4096 {socket} {socket}",
        }
        script = "".join(f"echo {v} >/proc/sys/net/ipv4/{k}; " for k, v in variables.items())
        _run_tool([*self._node_words(name), f"set -e; {script}"])
        self._try_in_node(name, NO_IPV6)
        self._try_in_node(name, "echo reno >/proc/sys/net/ipv4/tcp_congestion_control")
        ip = addresses[name]
        lines = [
            "link set lo up",
            f"link set eth0 gso_max_size {packet} txqueuelen 10000",
            f"addr add {ip}/24 dev eth0",
            "link set eth0 up",
            f"route replace 10.77.0.0/24 dev eth0 src {ip} initcwnd 100 initrwnd 100 rto_min 10ms",
        ]
        lines += [
            f"neigh replace {address} lladdr {_hardware_address(i)} dev eth0 nud permanent"
            for i, address in enumerate(addresses.values())
            if address != ip
        ]
        self._ip_batch(name, lines)
        if name != "head":
            self._limit_rate(name, "eth0", 100, packet)
            self._limit_rate("switch", port, SWITCH_PERCENT, packet)

    def _limit_rate(self, name: str, device: str, percent: int, packet: int) -> None:
        rate = self.shape.rate * percent // 100
        burst = (packet + packet // 16 + 2 * MTU) * percent // 100
        words = f"qdisc add dev {device} root tbf rate {rate}bit burst {burst} limit {QUEUE_BYTES}"
        _run_tool([self._tc, "-n", self.prefix + name, *words.split()])

    def _ip_batch(self, name: str | None, lines: Sequence[str]) -> None:
        inside = ["-n", self.prefix + name] if name else []
        _run_tool([self._ip, *inside, "-batch", "-"], "\n".join(lines) + "\n")

    def _node_words(self, name: str) -> list[str]:
        return [self._ip, "netns", "exec", self.prefix + name, "/bin/sh", "-c"]

    def _try_in_node(self, name: str, script: str) -> None:
        subprocess.run([*self._node_words(name), script], capture_output=True, check=False)

    # ---- running

    def count_sent_bytes(self) -> list[int]:
        """Return the bytes sent by each node so far, as proof that messages use the network."""
        counts = []
        for name in self.names:
            words = [self._ip, "netns", "exec", self.prefix + name, "cat"]
            words.append("/sys/class/net/eth0/statistics/tx_bytes")
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            counts.append(int(done.stdout))
        return counts

    def launcher_command(self, mpi: Mpi, ranks: int, environment: Mapping[str, str]) -> list[str]:
        """Return the words before a program's command line; `environment` is for the ranks."""
        launcher = mpiexec.find(mpi, os.environ)
        hosts = self.names[: -(-ranks // self.shape.ppn)]
        listed = ",".join(f"{name}:{self.shape.ppn}" for name in hosts)
        enter = f'hostname head; mount --bind {self.folder}/hosts /etc/hosts; exec "$@"'
        head = [self._ip, "netns", "exec", f"{self.prefix}head", self._unshare, "--uts"]
        head += ["/bin/sh", "-c", enter, "sh", str(launcher.path)]
        agent = str(self.folder / "agent")
        head += launcher_words(launcher.abi, agent, listed)
        inside = rank_environment(launcher.abi, environment, self.shape.ppn)
        pairs = [f"{name}={value}" for name, value in inside.items()]
        return [*head, "-n", str(ranks), "env", *pairs, *PRIORITISED_SHELL]

    def run(
        self, mpi: Mpi, ranks: int, command: Sequence[str], environment: Mapping[str, str]
    ) -> int:
        """Run a program on the cluster and return its exit code."""
        if ranks > self.shape.ranks:
            raise UsageError(f"{ranks} ranks on {self.shape}: the cluster has {self.shape.ranks}")
        process = subprocess.Popen(
            [*self.launcher_command(mpi, ranks, environment), *command],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(os.environ) | {"TMPDIR": str(self.folder / "tmp")},
            start_new_session=True,
        )
        relay = threading.Thread(target=_relay_output, args=(process.stderr,), daemon=True)
        relay.start()
        try:
            return wait_for_end(process)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)
            process.kill()
            relay.join(1)

    # ---- taking down

    def close(self) -> None:
        """Take the cluster down, and kill the processes that still run on it."""
        if self.prefix:
            take_down(self._ip, self.folder.name)
        if self._lock is not None:
            self._lock.close()
        self.prefix, self._lock = "", None


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait until a process has ended, and return its exit code.

    Python handles a signal that comes just before a system call only when the call has returned. So
    every system call of this function is short.
    """
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(WAIT_S)


def _hardware_address(number: int) -> str:
    return f"02:77:00:00:00:{number:02x}"


def _relay_output(source: IO[bytes] | None) -> None:
    while source is not None and (part := os.read(source.fileno(), 65536)):
        sys.stderr.write(HARMLESS_OUTPUT.sub(b"", part).decode(errors="replace"))
        sys.stderr.flush()


def take_down(ip: str, identity: str) -> None:
    """Remove one cluster's namespaces, after killing the processes in them."""
    names = list(NETNS.glob(f"{PREFIX}{identity}-*")) if NETNS.is_dir() else []
    inside = {(s.st_dev, s.st_ino) for s in (path.stat() for path in names)}
    for _ in range(50):
        processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        living = [pid for pid in processes if _network_namespace(pid) in inside]
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not living:
            break
        time.sleep(0.05)
    for path in names:
        subprocess.run([ip, "netns", "del", path.name], capture_output=True, check=False)
    shutil.rmtree(STATE_FOLDER / identity, ignore_errors=True)


def remove_abandoned(ip: str) -> int:
    """Take down clusters without a living creator, and return the number of clusters in use."""
    alive = 0
    for folder in [path for path in STATE_FOLDER.iterdir() if path.is_dir()]:
        with contextlib.suppress(FileNotFoundError), (folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alive += 1
                continue
            take_down(ip, folder.name)
    return alive


def _network_namespace(pid: int) -> tuple[int, int] | None:
    try:
        status = Path(f"/proc/{pid}/ns/net").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def raise_on_termination() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this process as Ctrl-C does, so that the cluster is taken down."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, end) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
