"""Builds of the core with the compiler's sanitizers, and the environment of programs with them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.compilation import core_built
from support.mpis import Mpi

SIGNS = ("AddressSanitizer", "ThreadSanitizer", "runtime error", "ERROR: ")


@dataclass(frozen=True)
class Sanitizer:
    """A value of -fsanitize, its libraries, and the variables that its programs require.

    launcher: variables that the launcher requires too.
    """

    name: str
    flag: str
    libraries: tuple[str, ...]
    variables: dict[str, str]
    launcher: dict[str, str]

    def build(self, mpi: Mpi) -> Path:
        """Build the library for an MPI; returns its path."""
        return core_built(f"sanitized-{self.name}", mpi, f"-DMPIPROF_SANITIZE={self.flag}")

    def preloaded(self, library: Path) -> str:
        """Return the value of LD_PRELOAD: the sanitizer's libraries must be first."""
        names = []
        for name in self.libraries:
            words = ["gcc", f"-print-file-name={name}"]
            printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            names.append(str(Path(printed.strip()).resolve()))
        return ":".join([*names, str(library)])

    def environment(self, library: Path, trace: Path) -> list[str]:
        """Return the words that set the environment of a launcher, for one process."""
        values = self.variables | {
            "LD_PRELOAD": self.preloaded(library),
            "MPIPROF_LIBRARY": str(library),
            "MPIPROF_TRACE": str(trace),
            "MPIPROF_QUIET": "1",
        }
        return ["env", *(f"{name}={value}" for name, value in values.items())]


# Leaks of an MPI library do not count, and the core's memory lives as long as the process by
# design.
ADDRESS = Sanitizer(
    "address",
    "address,undefined",
    ("libasan.so", "libubsan.so"),
    {
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:abort_on_error=0:exitcode=99:"
        "verify_asan_link_order=0:handle_segv=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    },
    {},
)

# The runtime must not install handlers before it can trace the recorder's sigaction. It cannot
# intercept calls in threads that are starting, which UCX makes, and leaves no fixed address free
# for PMIx's shared memory.
THREAD = Sanitizer(
    "thread",
    "thread",
    ("libtsan.so",),
    {
        "TSAN_OPTIONS": "exitcode=66:ignore_noninstrumented_modules=1:report_signal_unsafe=0:"
        "die_after_fork=0:handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:"
        "handle_sigill=0",
        "UCX_MEM_MMAP_HOOK_MODE": "none",
    },
    {"PMIX_MCA_gds": "hash", "OMPI_MCA_osc": "^ucx"},
)


def assert_no_report(text: str) -> None:
    """Fail if a sanitizer has reported a fault."""
    for sign in SIGNS:
        assert sign not in text, text[-3000:]
