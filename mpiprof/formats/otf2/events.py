"""The collective calls and messages of one location of an archive, as arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.formats.otf2 import library
from mpiprof.interface.output_files import format_utf8_path
from mpiprof.interface.untrusted_files import require_regular
from mpiprof.trace.types import Array


@dataclass(frozen=True)
class ReadFilter:
    """Class of each region (as in core/otf2/reading.c), and region of each calling context."""

    classes: Array
    context_regions: Array
    first_attribute: int = library.UNDEFINED


@dataclass(frozen=True)
class Location:
    """The calls and facts of one location; times are ticks.

    message_calls: calls on messages; `messages` are their messages. facts: see library.FACT_NAMES.
    whole: True if all events were readable. A resource: the arrays are invalid after `close`.
    """

    calls: Array
    message_calls: Array
    messages: Array
    facts: dict[str, int]
    whole: bool
    handle: int

    def close(self) -> None:
        """Free the memory."""
        library.load_core().reading_close(self.handle)


@contextmanager
def open_archive(anchor: Path) -> Iterator[Any]:
    """Open an archive; raises TraceError if it is damaged or no archive."""
    otf2 = library.import_otf2()
    _require_regular_files(anchor)
    try:
        reader = otf2.Reader_Open(format_utf8_path(anchor, "OTF2"))
    except otf2.Error:
        raise TraceError(f"{anchor}: not the anchor file of an OTF2 archive, or damaged") from None
    try:
        otf2.Reader_SetSerialCollectiveCallbacks(reader)
        yield reader
    except otf2.Error as error:
        why = f"{error}; its definitions are damaged"
        raise TraceError(f"{anchor}: cannot be read: {why}") from None
    finally:
        with suppress(otf2.Error):
            otf2.Reader_Close(reader)


def _require_regular_files(anchor: Path) -> None:
    """Raise TraceError if a file of an archive is a link or a device, which the wheel would open.

    The user has named the anchor, so it can be a link.
    """
    definitions = anchor.with_suffix(".def")
    try:
        for file in (definitions, *anchor.with_suffix("").glob("*")):
            if os.path.lexists(file):  # the wheel reports missing files
                require_regular(file)
    except OSError as error:
        raise TraceError(f"{error.filename}: cannot be read: {error.strerror}") from None


def open_locations(reader: Any, locations: list[int]) -> bool:
    """Open the locations; return whether they have local definitions, such as clock offsets."""
    otf2 = library.import_otf2()
    for location in locations:
        otf2.Reader_SelectLocation(reader, location)
    with suppress(otf2.Error):
        otf2.Reader_OpenEvtFiles(reader)
    try:
        otf2.Reader_OpenDefFiles(reader)
    except otf2.Error:
        return False
    return True


def read_location(
    reader: Any, location: int, expected: int, read_filter: ReadFilter, local: bool
) -> Location:
    """Read all events of a location, with its clock corrections.

    expected: declared number of events. local: True if the location has local definitions.
    """
    otf2, core = library.import_otf2(), library.load_core()
    is_whole = not local or _read_local_definitions(reader, location)
    classes, contexts = read_filter.classes, read_filter.context_regions
    filter_arrays = (classes.ctypes.data, len(classes), contexts.ctypes.data, len(contexts))
    functions = [
        library.function_address(otf2.conf.lib[f"OTF2_AttributeList_{name}"])
        for name in ("GetNumberOfElements", "GetAttributeByIndex")
    ]
    handle = core.reading_open(*filter_arrays, read_filter.first_attribute, *functions)
    if handle is None:
        raise MemoryError
    try:
        events = otf2.Reader_GetEvtReader(reader, location)
        if events:
            is_whole &= _read_events(reader, events, handle) == expected
        count = core.reading_finish(handle)
        if count < 0:
            raise MemoryError
        calls = library.view_array(core.reading_calls(handle), count, library.call_dtype())
        message_calls = _view_counted("message_calls", handle, library.call_dtype())
        messages = _view_counted("messages", handle, library.message_dtype())
        values = np.zeros(len(library.FACT_NAMES), np.uint64)
        core.reading_facts(handle, values.ctypes.data)
    except BaseException:
        core.reading_close(handle)
        raise
    facts = dict(zip(library.FACT_NAMES, values.tolist(), strict=True))
    return Location(calls, message_calls, messages, facts, is_whole and bool(events), handle)


def _view_counted(name: str, handle: int, dtype: np.dtype[Any]) -> Array:
    """Return a view of an array whose function stores its length."""
    count = np.zeros(1, np.uint64)
    address = getattr(library.load_core(), f"reading_{name}")(handle, count.ctypes.data)
    return library.view_array(address, int(count[0]), dtype)


def _read_local_definitions(reader: Any, location: int) -> bool:
    """Read a location's local definitions: number mappings and clock offsets."""
    otf2 = library.import_otf2()
    definitions = otf2.Reader_GetDefReader(reader, location)
    if not definitions:
        return False
    try:
        otf2.Reader_ReadAllLocalDefinitions(reader, definitions)
    except otf2.Error:
        return False
    finally:
        with suppress(otf2.Error):
            otf2.Reader_CloseDefReader(reader, definitions)
    return True


def _read_events(reader: Any, events: Any, handle: int) -> int:
    """Pass a location's events to `handle`; return their number, or -1 if they are damaged."""
    otf2, core = library.import_otf2(), library.load_core()
    listed = otf2.conf.lib
    with suppress(otf2.Error):  # without local definitions there is nothing to apply
        otf2.EvtReader_ApplyMappingTables(events, True)
        otf2.EvtReader_ApplyClockOffsets(events, True)
    callbacks = otf2.EvtReaderCallbacks_New()
    try:
        for name, function in library.CALLBACKS.items():
            setter = listed[f"OTF2_EvtReaderCallbacks_Set{name}Callback"]
            setter.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
            place = ctypes.cast(callbacks, ctypes.c_void_p)
            setter(place, library.function_address(core[f"reading_{function}"]))
        register = listed["OTF2_Reader_RegisterEvtCallbacks"]
        register.argtypes = [ctypes.c_void_p] * 4
        places = (ctypes.cast(p, ctypes.c_void_p) for p in (reader, events, callbacks))
        register(*places, handle)
    finally:
        otf2.EvtReaderCallbacks_Delete(callbacks)
    try:
        return int(otf2.Reader_ReadAllLocalEvents(reader, events))
    except otf2.Error:
        return -1
    finally:
        with suppress(otf2.Error):
            otf2.Reader_CloseEvtReader(reader, events)
