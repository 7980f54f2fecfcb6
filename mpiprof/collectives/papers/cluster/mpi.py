"""Launcher options and rank environment of MPICH and Open MPI on an emulated cluster.

MPICH must be forced onto tcp, or it bypasses the network. Open MPI's default protocol over tcp
makes two-way traffic half duplex, because a rendezvous answer queues behind a whole message. The
eager protocol does not. Polling ranks starve each other, so an empty poll is made to block
(wait.c).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mpiprof.errors import MpiprofError

# Each rank has a session, and so a separate scheduling group, which this command favours.
PRIORITISED_SHELL = ("/bin/sh", "-c", 'echo -10 >/proc/self/autogroup; exec "$@"', "sh")
TCP_VARIABLES = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}
OPENMPI_SETTINGS = {
    "pml": "ob1",
    "btl": "tcp,self,sm",
    "btl_tcp_if_include": "eth0",
    "mpi_yield_when_idle": "1",
    "btl_tcp_eager_limit": "4194304",
    "btl_tcp_rndv_eager_limit": "4194304",
    "btl_tcp_max_send_size": "4194304",
}


def launcher_words(abi: str, agent: str, hosts: str) -> list[str]:
    """Return an mpiexec's options; `agent` replaces ssh."""
    if abi != "openmpi":
        words = ["-launcher", "ssh", "-launcher-exec", agent, "-localhost", "head"]
        return [*words, "-iface", "eth0", "-hosts", hosts]
    words = ["--allow-run-as-root", "--host", hosts, "--map-by", "slot", "--bind-to", "none"]
    launcher = {"plm": "ssh", "plm_ssh_agent": agent, "plm_ssh_no_tree_spawn": "1"}
    launcher["prte_if_include"] = "eth0"
    for name, value in launcher.items():
        words += ["--prtemca", name, value]
    for name, value in OPENMPI_SETTINGS.items():
        words += ["--mca", name, value]
    return words


def rank_environment(abi: str, environment: Mapping[str, str], ppn: int) -> dict[str, str]:
    """Return the environment of the ranks; libraries that are already preloaded remain."""
    preload = [environment.get("LD_PRELOAD", ""), str(build_wait_library())]
    variables = {"LD_PRELOAD": ":".join(filter(None, preload))}
    # Messages through shared memory do not wake a blocked rank.
    variables["MPIPROF_WAIT_US"] = "200" if ppn > 1 else "500"
    return dict(environment) | variables | (TCP_VARIABLES if abi != "openmpi" else {})


def build_wait_library() -> Path:
    """Return the library built from wait.c, which is compiled once into the user's cache folder."""
    source = Path(__file__).with_name("wait.c")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    library = Path(home, "mpiprof", f"wait-{name}-{os.uname().machine}.so")
    if library.is_file():
        return library
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise MpiprofError("--cluster requires a C compiler: apt-get install gcc libc6-dev")
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        part = Path(folder, library.name)
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(part), str(source), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MpiprofError(f"--cluster: {compiler} failed: {done.stderr.strip()[:200]}")
        part.replace(library)
    return library
