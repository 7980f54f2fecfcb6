"""The command `python -m mpiprof.bench.overhead`: see cost/overhead.py."""

import sys

from mpiprof.bench.cost.overhead import command

if __name__ == "__main__":
    sys.exit(command())
