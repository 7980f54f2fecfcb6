"""The command `python -m mpiprof.bench.watch`: see cost/watch.py."""

import sys

from mpiprof.bench.cost.watch import command

if __name__ == "__main__":
    sys.exit(command())
