"""Offsets in Python's structures: from the tables, or published by Python itself."""

from __future__ import annotations

import ctypes
import struct

import pytest
from support.compilation import of_the_core

FIELDS = (
    *("minor", "thread_frame", "nested", "code", "back", "instruction", "owner", "first_line"),
    *("file", "name", "lines", "traceable", "start", "text_ascii", "text_other"),
)
# Members of _Py_DebugOffsets after the cookie, by section, up to the code object.
RUNTIME = "size finalizing interpreters_head"
INTERPRETER = (
    "size id next threads_head {} gc imports_modules sysdict builtins ceval_gil gil_runtime_state "
    "gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder {}"
)
THREAD = "size prev next interp current_frame thread_id native_thread_id datastack_chunk status"
FRAME = "size previous executable instr_ptr localsplus owner"
CODE = (
    "size filename name qualname linetable firstlineno argcount localsplusnames localspluskinds "
    "co_code_adaptive"
)
STRUCTURES = {
    13: (RUNTIME, INTERPRETER.format("", ""), THREAD, FRAME, CODE),
    14: (
        RUNTIME,
        INTERPRETER.format("threads_main", "code_object_generation tlbc_generation"),
        THREAD,
        f"{FRAME} stackpointer tlbc_index",
        f"{CODE} co_tlbc",
    ),
}
# Offsets of the releases, found by other means than this structure.
PUBLISHED = {
    "current_frame": 72,
    "previous": 8,
    "executable": 0,
    "instr_ptr": 56,
    "filename": 112,
    "linetable": 136,
    "firstlineno": 68,
}
OWNER, INSTRUCTIONS = {13: 70, 14: 74}, {13: 200, 14: 208}


class Layout(ctypes.Structure):
    """struct layout of callsite/cpython_api.h."""

    _fields_ = [(name, ctypes.c_int) for name in FIELDS]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the table of layouts into a separate library."""
    shared_object = tmp_path_factory.mktemp("layout") / "layout.so"
    of_the_core(shared_object, ["callsite/cpython_api"], "-shared", "-fPIC")
    found = ctypes.CDLL(str(shared_object))
    found.cpython_api_layout.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    found.cpython_api_layout.restype = ctypes.c_bool
    return found


def layout_of(library: ctypes.CDLL, version: str, runtime: bytes | None) -> dict[str, int] | None:
    """Return the layout by field, or None if the version is untested."""
    found = Layout()
    if not library.cpython_api_layout(version.encode(), runtime, ctypes.byref(found)):
        return None
    return {name: getattr(found, name) for name in FIELDS}


def runtime_of(minor: int, cookie: bytes = b"xdebugpy", free_threaded: int = 0) -> bytes:
    """Return the first bytes of the _PyRuntime of a release."""
    words = [0x300_00F0 | minor << 16, free_threaded]
    for section in STRUCTURES[minor]:
        known = PUBLISHED if section != RUNTIME else {}
        own = {"owner": OWNER[minor], "co_code_adaptive": INSTRUCTIONS[minor]}
        own["name"] = 120
        words += [(known | own).get(member, 9999) for member in section.split()]
    return cookie + struct.pack(f"<{len(words)}Q", *words) + bytes(1024)


@pytest.mark.parametrize("minor", [13, 14])
def test_offsets_that_python_publishes(library: ctypes.CDLL, minor: int) -> None:
    found = layout_of(library, f"3.{minor}.1 (main)", runtime_of(minor))
    assert found == {
        "minor": minor,
        "thread_frame": 72,
        "nested": -1,
        "code": 0,
        "back": 8,
        "instruction": 56,
        "owner": OWNER[minor],
        "first_line": 68,
        "file": 112,
        "name": 120,
        "lines": 136,
        "traceable": INSTRUCTIONS[minor] - 16,
        "start": INSTRUCTIONS[minor],
        "text_ascii": 40,
        "text_other": 56,
    }


@pytest.mark.parametrize(
    ("version", "runtime"),
    [
        ("3.9.18", None),
        ("3.13.1", None),
        ("3.13.1", runtime_of(13, cookie=b"xdebugpx")),
        ("3.13.1", runtime_of(14)),
        ("3.13.1", runtime_of(13, free_threaded=1)),
        ("3.13.1 experimental free-threading build", runtime_of(13)),
        ("3.15.0", runtime_of(14)),
    ],
)
def test_untested_versions_have_no_layout(
    library: ctypes.CDLL, version: str, runtime: bytes | None
) -> None:
    assert layout_of(library, version, runtime) is None


@pytest.mark.parametrize(("minor", "thread_frame"), [(10, 24), (11, 56), (12, 56)])
def test_older_versions_are_in_the_table(
    library: ctypes.CDLL, minor: int, thread_frame: int
) -> None:
    found = layout_of(library, f"3.{minor}.4", None)
    assert found is not None and found["thread_frame"] == thread_frame
