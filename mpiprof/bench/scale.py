"""The command `python -m mpiprof.bench.scale`: see cost/scale.py."""

import sys

from mpiprof.bench.cost.scale import command

if __name__ == "__main__":
    sys.exit(command())
