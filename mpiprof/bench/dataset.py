"""The command `python -m mpiprof.bench.dataset`: see cost/dataset.py."""

import sys

from mpiprof.bench.cost.dataset import command

if __name__ == "__main__":
    sys.exit(command())
