"""Error of the report on a known delay: `python -m benchmarks.arrival_error`.

Two ranks wait busily until their arrivals differ by a known time, and then meet in a barrier. The
benchmark compares the reported worst-case imbalance with the imposed delay. It takes the median of
the repetitions, because the system can preempt a rank at any time. It needs two processors.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import mpiprof
from benchmarks.checks import Row, store
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.installation import pip_command
from mpiprof.trace import Trace

HERE = Path(__file__).parent
DELAYS_US = (0, 20, 100, 1000, 5000)
GOAL_US = 200


def record(folder: Path, repetitions: int) -> Trace:
    """Compile the program, run it on 2 ranks under mpiprof, and open the trace."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    compiler = shutil.which("mpicc", path=path)
    if compiler is None:
        raise UsageError(f"no mpicc beside this Python or in PATH: `{pip_command('mpich')}`")
    program = folder / "arrival_error"
    subprocess.run([compiler, "-O2", "-o", program, HERE / "arrival_error.c"], check=True)
    trace = folder / "trace"
    run = [sys.executable, "-m", "mpiprof", "run", "-n", "2", "-q", "-o", str(trace), "--"]
    argv = [*run, str(program), str(repetitions), *map(str, DELAYS_US)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MpiprofError(f"{' '.join(argv)} failed: {done.stderr.strip()}")
    return mpiprof.open(trace)


def main() -> None:
    """Run the program, and print the reported delay beside each known delay."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arrival_error", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--repetitions", type=int, default=50, help="of each delay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpiprof-arrival-") as name:
        instances = record(Path(name), options.repetitions).instances
    barriers = instances[instances["operation"] == "barrier"].sort_values("sequence")
    reported = barriers["worst_imbalance_ns"].to_numpy(np.float64).reshape(len(DELAYS_US), -1)
    late = barriers["last_rank"].to_numpy(np.int64).reshape(len(DELAYS_US), -1)
    print("imposed us  reported us (median)  error us: median      worst   right rank")
    missed = False
    for delay_us, times, ranks in zip(DELAYS_US, reported / 1e3, late, strict=True):
        error = np.abs(times - delay_us)
        right = np.mean(ranks == np.arange(len(ranks)) % 2)
        shown = f"{right:11.0%}" if delay_us else f"{'-':>11}"
        missed |= bool(np.median(error) > GOAL_US)
        print(
            f"{delay_us:10d} {np.median(times):21.2f} {np.median(error):17.2f} {error.max():10.2f}"
            f" {shown}"
        )
        middle = float(np.median(error))
        what = f"ranks apart by {delay_us} µs: error of the reported imbalance, median"
        store(Row(what, f"<= {GOAL_US} µs", f"{middle:.2f} µs", middle <= GOAL_US))
    print(f"{'MISSES' if missed else 'within'} {GOAL_US} us")


if __name__ == "__main__":
    try:
        main()
    except MpiprofError as error:
        sys.stderr.write(f"mpiprof: {error}\n")
        sys.exit(error.exit_code)
