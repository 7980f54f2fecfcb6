"""Device buffers, which host routines must not touch, under recording and switching.

The runtime is a stand-in with the real names and entry points. Its memory is protected except while
the library's routines run, so that any access faults. All tests run on 3 ranks. Rank 0 has no
device.
"""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import PROGRAMS
from support.jobs import run, run_mpi
from support.mpis import Mpi

from mpi.test_execute import used

RUNTIMES = {"CUDA": "libcuda.so.1", "HIP": "libamdhip64.so.6", "Level Zero": "libze_loader.so.1"}
FORCED = {
    "alltoall": "bruck",
    "allreduce": "ring",
    "allgather": "bruck",
    "bcast": "binomial",
    "gather": "binomial",
    "scatter": "binomial",
    "reduce": "binary_tree",
    "reduce_scatter_block": "pairwise",
}
RULES = ",".join(f"{operation}={name}" for operation, name in FORCED.items())


def launch(mpi: Mpi, folder: Path, runtime: str, mode: str, *options: str) -> CompletedProcess[str]:
    """Compile the parts, and run the program with a runtime of the given name."""
    compiler = [mpi.mpicc, "-Wall", "-Wextra", "-Werror"]
    program, library, stand_in = (
        folder / "device",
        folder / "libaware.so",
        folder / RUNTIMES[runtime],
    )
    run([*compiler, "-o", program, PROGRAMS / "device_buffers.c"], check=True)
    for made, source in ((library, "device_library.c"), (stand_in, "device_runtime.c")):
        run([*compiler, "-shared", "-fPIC", "-o", made, PROGRAMS / source], check=True)
    recorder: list[str | Path] = []
    if options:
        recorder = [mpi.python, "-m", "mpiprof", "run", "-o", folder / "trace", *options, "--"]
    words = [*recorder, program, stand_in, mode]
    return run_mpi(mpi, 3, ["env", f"LD_PRELOAD={library}", *words], check=True, cwd=folder)


def algorithms(folder: Path) -> dict[str, str]:
    """Return the algorithm of each operation."""
    return {op: name for op, _, name in used(folder / "trace") if name and name != "native"}


@pytest.mark.parametrize("record", ["events", "summary"])
def test_recording_touches_no_buffer(record: str, mpi: Mpi, tmp_path: Path) -> None:
    launch(mpi, tmp_path, "CUDA", "early", "--record", record)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_in_use_before_the_first_switched_call(runtime: str, mpich: Mpi, tmp_path: Path) -> None:
    """The library runs all calls, reported once, because only one member knows of its device."""
    ended = launch(mpich, tmp_path, runtime, "early", "--switch", RULES)
    assert algorithms(tmp_path) == {}
    assert ended.stderr.count("left to the library") == 1


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_in_use_only_later(runtime: str, mpi: Mpi, tmp_path: Path) -> None:
    """The schedules continue, and the library moves the data on the device.

    Before that, the runtime is loaded but not initialised, and must not be queried.
    """
    launch(mpi, tmp_path, runtime, "late", "--switch", RULES)
    assert algorithms(tmp_path) == FORCED
