"""Rabenseifner's choice of a protocol, from core/selection/rules/rabenseifner_protocol.c."""

from __future__ import annotations

import ctypes

import pytest
from support import ROOT
from support.jobs import run
from support.rabenseifner import static_choice

BYTES = (0, 8, 32, 33, 1024, 1025, 16383, 16384, 32767, 32768, 65536, 65537, 1 << 20, 1 << 30)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the choice into a separate library."""
    core, shared_object = ROOT / "mpiprof" / "core", tmp_path_factory.mktemp("paper") / "paper.so"
    options = ["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{core}"]
    source = core / "selection" / "rules" / "rabenseifner_protocol.c"
    run(["cc", *options, "-o", shared_object, source], check=True)
    library = ctypes.CDLL(str(shared_object))
    library.rabenseifner_protocol.restype = ctypes.c_char_p
    library.rabenseifner_protocol.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int64]
    return library


@pytest.mark.parametrize("operation", ["reduce", "allreduce"])
def test_it_is_that_of_section_4(operation: str, paper: ctypes.CDLL) -> None:
    """On 1 to 600 processes, around every limit of Section 4."""
    for size in range(1, 601):
        for n in BYTES:
            found = paper.rabenseifner_protocol(operation.encode(), size, n).decode()
            assert found == static_choice(operation, size, n), (size, n)


def test_other_operations_have_no_choice(paper: ctypes.CDLL) -> None:
    assert paper.rabenseifner_protocol(b"bcast", 4, 1024) is None
