"""Route /timeline-data: responses to the timeline's script, in JSON or as binary arrays.

An array response is the length of the header (4 bytes, little endian), the JSON header, and the
arrays, aligned to 8 bytes. The header lists the offset, length and fields of each array. Status 202
means that the data are still being computed; the response then contains the progress.
"""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dash
import numpy as np
from flask import Response, request

from mpiprof.errors import MpiprofError
from mpiprof.store import cache, cached_trace
from mpiprof.timeline import find as timeline_find
from mpiprof.timeline import selection
from mpiprof.timeline.build import open_or_build
from mpiprof.timeline.row_layout import COLOURS, SORTS
from mpiprof.timeline.segments import Progress
from mpiprof.timeline.window import MOST_PIXELS, Need, Request, Shown, Timeline
from mpiprof.trace.types import Array

from . import instance_messages, theme
from . import url_state as states
from .trace_data import Context, Data

ROUTE = "/timeline-data"
PATIENCE_S = 0.4  # within this time a computation ends without a progress response
PAUSE = 4  # a growing trace is read again after this multiple of the last reading time
COMPRESSED = 1 << 14
log = logging.getLogger(__name__)


class Making:
    """A computation in its own thread."""

    def __init__(self, what: str, make: Callable[[Progress], Any]) -> None:
        self.what, self.progress = what, 0.0
        self.result: Any = None
        self.error: Exception | None = None
        self.began = time.monotonic()
        self.took = 0.0
        self._make = make
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self._make(self._note)
        except Exception as error:
            self.error = error
            if not isinstance(error, MpiprofError | OSError | cache.DamagedError):
                log.exception("%s failed", self.what)
        self.took = time.monotonic() - self.began

    def _note(self, share: float) -> None:
        self.progress = share

    def done(self, patience: float = 0.0) -> bool:
        """Wait up to `patience` seconds and return whether the computation has ended."""
        self.thread.join(patience)
        return not self.thread.is_alive()


class BusyError(Exception):
    """The requested data are still being computed."""

    def __init__(self, making: Making) -> None:
        super().__init__(making.what)
        self.making = making


class Store:
    """The timelines of the server's traces, built on the first request and when a trace grows."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._lock = threading.Lock()
        self._ready: dict[str, tuple[str, Timeline, float]] = {}  # version, timeline, renewal time
        self._making: dict[tuple[str, str], Making] = {}

    def timeline(self, data: Data) -> Timeline:
        """Return the timeline of a trace: the last good one while a newer one is being built."""
        with self._lock:
            known = self._ready.get(data.name)
            if known and (known[0] == data.version or time.monotonic() < known[2]):
                return known[1]
            making = self._start((data.name, ""), "reading the trace", lambda p: _made(data, p))
        if known is None:
            making.done(PATIENCE_S)
        if not making.done():
            if known is not None:
                return known[1]
            raise BusyError(making)
        with self._lock:
            self._making.pop((data.name, ""), None)
            if making.error is not None:
                if known is not None:
                    return known[1]
                raise making.error
            made: Timeline = making.result
            again = time.monotonic() + PAUSE * making.took
            self._ready[data.name] = (data.version, made, again)
        return made

    def shown(self, data: Data, timeline: Timeline, wanted: Request) -> Shown:
        """Return the content of a requested window; raises BusyError while its tiles are built."""
        found = timeline.shown(wanted)
        if isinstance(found, Need):
            need, place = found, (data.name, found.name)
            with self._lock:
                making = self._start(place, "summing it up", lambda p: timeline.make(need, p))
            if not making.done(PATIENCE_S):
                raise BusyError(making)
            with self._lock:
                self._making.pop(place, None)
            if making.error is not None:
                raise making.error
            found = timeline.shown(wanted)
        if isinstance(found, Need):
            raise MpiprofError(
                "the cache of the trace cannot be written: check the free disk space"
            )
        return found

    def _start(self, place: tuple[str, str], what: str, make: Callable[[Progress], Any]) -> Making:
        if place not in self._making:
            self._making[place] = Making(what, make)
        return self._making[place]

    def forget(self, data: Data) -> None:
        """Remove a trace's timeline and its damaged cache, so that both are built again."""
        with self._lock:
            known = self._ready.pop(data.name, None)
        if known is not None:
            cache.remove(data.path, known[1].key)


def _made(data: Data, progress: Progress) -> Timeline:
    key = cached_trace.key_of(data.trace)
    return Timeline(data.trace, open_or_build(data.trace, key, progress), key)


def register(app: dash.Dash, context: Context) -> None:
    """Add the route, which requires the token as all routes do."""
    store = Store(context)

    app.server.add_url_rule(ROUTE, view_func=lambda: answer(store), endpoint="timeline-data")


def answer(store: Store) -> Response:
    """Return the response to one request."""
    what = request.args.get("what", "window")
    state = states.parse(request.query_string.decode("ascii", "replace"))
    try:
        data = store.context.data(state)
        try:
            return _answer(store, data, state, what)
        except cache.DamagedError as error:
            log.warning("%s: damaged cache (%s); it is made again", data.path, error)
            store.forget(data)
            return _answer(store, data, state, what)
    except BusyError as busy:
        making = busy.making
        return _json({"progress": making.progress, "what": making.what}, 202)
    except cache.DamagedError:
        return _json({"error": "the cache of this trace cannot be read"}, 500)
    except (MpiprofError, OSError) as error:
        return _json({"error": str(error)}, 404)


def _answer(store: Store, data: Data, state: states.State, what: str) -> Response:
    timeline = store.timeline(data)
    if not timeline.events.meta["segments"]:
        return _json({"empty": _why_empty(data)})
    wanted = request_of(data, state, timeline)
    if not len(wanted.ranks):
        return _json({"empty": "No rank passes the filters above."})
    if what == "selection":
        wanted = replace(wanted, colour="operation")
        return _json(selection.selected(timeline, wanted, store.shown(data, timeline, wanted)))
    if what in ("window", "overview"):
        shown = store.shown(data, timeline, wanted)
        head, arrays = getattr(timeline, what)(wanted, shown)
        head |= {"length": timeline.length_ns, "growing": not data.ended}
        colours = theme.state_colours(wanted.colour, head["states"])
        head["states"] = [
            {"name": name, "colour": colour}
            for name, colour in zip(head["states"], colours, strict=True)
        ]
        if what == "overview":
            head["searched"] = timeline_find.label_of(timeline, wanted.find)
        return _packed(head, arrays)
    if what == "search":
        return _json({"found": timeline_find.search(timeline, state.get("text"))})
    if what == "under":
        number = timeline_find.under(
            timeline,
            wanted,
            store.shown(data, timeline, wanted),
            state.number("member", -1),
            state.number("at"),
            state.number("reach"),
        )
    else:
        number = _instance(timeline, state, wanted, what)
    if not 0 <= number < timeline.events.instances:
        return _json({"none": True})
    if what == "messages":
        try:
            return _json(instance_messages.messages(timeline, number))
        except instance_messages.NotModelledError as reason:
            return _json({"number": number, "reason": str(reason)})
    return _json(timeline_find.described(timeline, number))


def _instance(timeline: Timeline, state: states.State, wanted: Request, what: str) -> int:
    if what == "next":
        communicators = timeline.of_identities(wanted.communicators)
        test = timeline_find.test_of(timeline, wanted.find, communicators, wanted.operations)
        step = -1 if state.number("step", 1) < 0 else 1
        return timeline_find.next_one(
            timeline, state.number("number", -1), state.number("at"), step, test
        )
    if name := state.get("instance"):
        return timeline_find.numbered(timeline, name)
    return state.number("number", -1)


def _why_empty(data: Data) -> str:
    if data.trace.record == "summary":
        return "This trace has only totals: record without --record summary to see a timeline."
    return "No collective was recorded." if data.ended else "No collective has been recorded yet."


def request_of(data: Data, state: states.State, timeline: Timeline) -> Request:
    """Return the window that the query of a request describes, within bounds."""
    begin = state.number("from")
    colour, sort = state.get("colour", COLOURS[0]), state.get("sort", SORTS[0])
    callsite = state.get("callsite")
    return Request(
        begin,
        state.number("to", timeline.length_ns),
        min(max(state.number("px", 1000), 16), MOST_PIXELS),
        colour if colour in COLOURS else COLOURS[0],
        sort if sort in SORTS else SORTS[0],
        frozenset(state.get("off").split("|")),
        data.ranks(state),
        state.communicators,
        state.operations,
        state.get("find") or (f"callsite:{callsite}" if callsite else ""),
    )


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, mimetype="application/json")


def _fields(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the layout of a record: its size, and each field's name, type and offset."""
    if dtype.fields is None:
        return {}
    fields = [[name, one.str[1:], at] for name, (one, at, *_) in dtype.fields.items()]
    return {"each": dtype.itemsize, "fields": fields}


def _packed(head: dict[str, Any], arrays: dict[str, Array]) -> Response:
    places, parts, at = {}, [], 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        places[name] = {"at": at, "length": len(data), **_fields(array.dtype)}
        parts += [data, bytes(-len(data) % 8)]
        at += len(data) + -len(data) % 8
    text = json.dumps(head | {"arrays": places}).encode()
    text += b" " * (-(len(text) + 4) % 8)
    body = b"".join([len(text).to_bytes(4, "little"), text, *parts])
    response = Response(body, mimetype="application/octet-stream")
    if len(body) > COMPRESSED and "gzip" in request.headers.get("Accept-Encoding", ""):
        response.set_data(gzip.compress(body, 1))
        response.headers["Content-Encoding"] = "gzip"
    return response
