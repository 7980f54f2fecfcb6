"""Exit status of a process that is not a child of this one, from Linux 6.15 on."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from signal import Signals

# PIDFD_GET_INFO and PIDFD_INFO_EXIT of linux/pidfd.h, with the first version of its struct.
GET_INFO, INFO_BYTES, INFO_EXIT = 0xC040FF0B, 64, 1 << 3
STATUS_OFFSET = 60
INTERVAL_S = 0.02


def read_exit_status(descriptor: int, timeout_s: float) -> int | None:
    """Return the wait status of an ended process, None if the kernel does not provide it.

    descriptor: from os.pidfd_open, opened while the process existed. The kernel provides the status
    when the parent has waited for the process, for which this function waits until timeout_s.
    """
    end = time.monotonic() + timeout_s
    while True:
        info = bytearray(INFO_BYTES)
        struct.pack_into("Q", info, 0, INFO_EXIT)
        try:
            fcntl.ioctl(descriptor, GET_INFO, info)
        except OSError:
            return None
        if struct.unpack_from("Q", info)[0] & INFO_EXIT:
            return int(struct.unpack_from("i", info, STATUS_OFFSET)[0])
        if time.monotonic() > end:
            return None
        time.sleep(INTERVAL_S)


def describe_exit(status: int) -> str:
    """Return how a process ended, as a verb with its complement: "exited with code 3"."""
    if os.WIFEXITED(status):
        return f"exited with code {os.WEXITSTATUS(status)}"
    try:
        return f"was ended by {Signals(os.WTERMSIG(status)).name}"
    except ValueError:  # a real-time signal
        return f"was ended by signal {os.WTERMSIG(status)}"
