"""A signal ends the wait for a program on the emulated cluster, even before a system call."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from support.jobs import clean_environment
from support.wait_until import HANG_S

pytestmark = pytest.mark.heavy

# The second thread gets the signal, so that no system call of the main thread is interrupted. For
# the main thread, the signal then comes as one that came just before the call. `cat` ends when the
# main process has ended.
PROGRAM = """
import signal, subprocess, sys, threading
from mpiprof.collectives.papers.cluster import network
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
with network.raise_on_termination():
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    print("up", flush=True)
    network.wait_for_end(process)
"""


def test_a_signal_that_interrupts_no_system_call_ends_the_wait() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=clean_environment()
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANG_S) == 128 + signal.SIGTERM
        finally:
            process.kill()
