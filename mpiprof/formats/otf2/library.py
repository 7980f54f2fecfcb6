"""The C libraries: that of the `otf2` wheel, driven by its low-level interface, and mpiprof's.

The wheel's library calls one function per event. The callbacks in core/otf2 are fast C functions
that collect the events in arrays.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from mpiprof.errors import MpiprofError
from mpiprof.interface.installation import install_command, load_library
from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.types import Array

UNDEFINED = 0xFFFFFFFF  # no region, string, communicator, ...
NEVER = 0xFFFFFFFFFFFFFFFF  # exit of an open call; no request; unknown size
ROOT_SELF, ROOT_NOBODY = UNDEFINED - 1, UNDEFINED - 2  # root values of an inter-communicator
CREATOR = "mpiprof"
# mpiprof's attributes of an Enter, in the order of core/otf2/call.h.
ATTRIBUTES = (
    *("sequence", "start", "outside", "choice"),
    *("communicator", "root", "sent", "received", "region", "site"),
)
ATTRIBUTE_BITS = {name: 1 << bit for bit, name in enumerate(ATTRIBUTES)}
# Facts about a location; the last four are trace.layout.OUTSIDE_CLASSES.
FACT_NAMES = (
    *("first", "last", "events", "unknown", "began", "ended", "program"),
    *("initialised", "finalising", *OUTSIDE_CLASSES),
)
# Callbacks in core/otf2 for the events of the wheel's reader.
CALLBACKS = {
    "Enter": "enter",
    "Leave": "leave",
    "CallingContextEnter": "context_enter",
    "CallingContextLeave": "context_leave",
    "MpiCollectiveEnd": "collective",
    "NonBlockingCollectiveRequest": "request",
    "NonBlockingCollectiveComplete": "complete",
    "MpiSend": "messages_send",
    "MpiIsend": "messages_isend",
    "MpiIsendComplete": "messages_isend_complete",
    "MpiIrecvRequest": "messages_irecv_request",
    "MpiRecv": "messages_recv",
    "MpiIrecv": "messages_irecv",
    "MpiRequestTest": "messages_test",
    "ParameterUnsignedInt": "messages_parameter",
    "ProgramBegin": "begin",
    "ProgramEnd": "end",
    "Unknown": "unknown",
}
WRITERS = (
    *("Enter", "Leave", "MpiCollectiveBegin", "MpiCollectiveEnd"),
    *("NonBlockingCollectiveRequest", "NonBlockingCollectiveComplete"),
    *("MpiSend", "MpiIsend", "MpiIsendComplete", "MpiIrecvRequest", "MpiRecv", "MpiIrecv"),
    *("MpiRequestTest", "ParameterUnsignedInt"),
)
# Events of messages by their number, as in core/otf2/call.h.
SEND, ISEND, ISEND_COMPLETE, IRECV_REQUEST, RECV, IRECV, TEST, PLAIN = range(8)


@cache
def import_otf2() -> Any:
    """Return the wheel's low-level interface; raises MpiprofError if it is not installed."""
    try:
        import _otf2
    except ImportError:
        raise MpiprofError(f"OTF2 requires the package otf2: {install_command('otf2')}") from None
    register = _otf2.conf.lib.OTF2_Error_RegisterCallback
    register.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    register.restype = ctypes.c_void_p
    register(function_address(load_core().reading_error), None)
    return _otf2


@cache
def load_core() -> ctypes.CDLL:
    """Return mpiprof's library, loaded once."""
    loaded = load_library("libmpiprof-otf2.so")
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    loaded.reading_layout.restype = ctypes.c_char_p
    loaded.reading_open.restype = pointer
    loaded.reading_open.argtypes = [pointer, number, pointer, number, number, pointer, pointer]
    loaded.reading_close.argtypes = [pointer]
    loaded.reading_finish.restype = ctypes.c_int64
    loaded.reading_finish.argtypes = [pointer]
    loaded.reading_layout.argtypes = [ctypes.c_int]
    loaded.reading_calls.restype = pointer
    loaded.reading_calls.argtypes = [pointer]
    for name in ("message_calls", "messages"):
        function = getattr(loaded, f"reading_{name}")
        function.restype, function.argtypes = pointer, [pointer, pointer]
    loaded.reading_facts.argtypes = [pointer, pointer]
    loaded.writing_calls.restype = ctypes.c_int64
    types: dict[str, Any] = {"p": pointer, "n": number, "i": ctypes.c_int64}
    loaded.writing_calls.argtypes = [types[letter] for letter in "pppnnppip"]
    return loaded


def function_address(function: Any) -> int:
    """Return the address of a C function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


@cache
def call_dtype() -> np.dtype[Any]:
    """Return the type of a call, as in core/otf2/call.h."""
    return _read_layout(0)


@cache
def message_dtype() -> np.dtype[Any]:
    """Return the type of a message of a call, as in core/otf2/call.h."""
    return _read_layout(1)


def _read_layout(message: int) -> np.dtype[Any]:
    fields = load_core().reading_layout(message).decode().split()
    return np.dtype([tuple(field.split(":")) for field in fields])


def view_array(address: int | None, count: int, dtype: np.dtype[Any]) -> Array:
    """Return a view of the calls or messages at an address, which must stay valid."""
    if not count or address is None:
        return np.zeros(0, dtype)
    buffer = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    values: Array = np.ctypeslib.as_array(buffer).view(dtype)
    return values
