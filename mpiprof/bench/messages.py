"""The command `python -m mpiprof.bench.messages`: see cost/messages.py."""

import sys

from mpiprof.bench.cost.messages import command

if __name__ == "__main__":
    sys.exit(command())
