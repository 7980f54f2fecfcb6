"""Computations in threads, whose progress a page shows and which a user may cancel."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from mpiprof.errors import MpiprofError
from mpiprof.formats import cache

from .segments import Progress

log = logging.getLogger(__name__)


class CancelledError(MpiprofError):
    """Raised in a computation that a user has cancelled."""


class BackgroundComputation:
    """A computation in its own thread."""

    def __init__(self, description: str, make: Callable[[Progress], Any]) -> None:
        self.what, self.progress = description, 0.0
        self.result: Any = None
        self.error: Exception | None = None
        self.is_cancelled = False  # the computation ends at its next report of progress
        self.began = time.monotonic()
        self.took = 0.0
        self._make = make
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self._make(self._note_progress)
        except Exception as error:
            self.error = error
            if not isinstance(error, MpiprofError | OSError | cache.DamagedError):
                log.exception("%s failed", self.what)
        self.took = time.monotonic() - self.began

    def _note_progress(self, share: float) -> None:
        if self.is_cancelled:
            raise CancelledError("the preparation of the timeline was cancelled")
        self.progress = share

    def has_ended(self, timeout_s: float = 0.0) -> bool:
        """Wait up to `timeout_s` seconds and return whether the computation has ended."""
        self.thread.join(timeout_s)
        return not self.thread.is_alive()


class BusyError(Exception):
    """The requested data are still being computed."""

    def __init__(self, making: BackgroundComputation) -> None:
        super().__init__(making.what)
        self.making = making
