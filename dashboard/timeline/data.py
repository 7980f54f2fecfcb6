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
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from flask import Response, request

from mpiprof.errors import MpiprofError
from mpiprof.formats import cache
from mpiprof.interface.progress import listen_to_progress
from mpiprof.reports.words import finding_sentences
from mpiprof.reports.words.ranks_and_steps import accented_ranks
from mpiprof.trace.types import Array

from .. import instance_messages, theme
from .. import url_state as states
from ..trace_data import TraceContext, TraceData
from ..trace_figures import open_timeline
from . import find, selection, wait_chain
from .build import resolve_with_tiles
from .computation import BackgroundComputation, BusyError
from .late_ranks import find_late_ranks, list_causes, order_blamed_ranks
from .longest_waits import list_longest_waits
from .message_marks import (
    MessageMarks,
    list_message_marks,
    read_message_marks,
    share_messages,
    sum_messages,
)
from .process import build_tiles
from .row_layout import COLOURS, SORTS
from .segments import Progress
from .window import MAX_PIXELS, MissingTiles, Request, ResolvedRequest, Timeline

ROUTE = "/timeline-data"
REQUEST_WAIT_S = 0.4  # within this time a computation ends without a progress response
CANCEL_WAIT_S = 5.0  # maximum time until a cancelled computation ends
PAUSE_FACTOR = 4  # a growing trace is read again after this multiple of the last reading time
MIN_COMPRESSED_BYTES = 1 << 14
WAIT_REQUESTS = ("waited", "chain", "longest", "strip")
log = logging.getLogger(__name__)


class TimelineStore:
    """The timelines of the server's traces, built on the first request and when a trace grows."""

    def __init__(self, context: TraceContext) -> None:
        self.context = context
        self._lock = threading.Lock()
        self._ready: dict[str, tuple[str, Timeline, float]] = {}  # version, timeline, renewal time
        self._making: dict[tuple[str, str], BackgroundComputation] = {}

    def get_timeline(self, data: TraceData) -> Timeline:
        """Return the timeline of a trace: the last good one while a newer one is being built."""
        with self._lock:
            ready = self._ready.get(data.name)
            if ready and (ready[0] == data.version or time.monotonic() < ready[2]):
                return ready[1]
            making = self._start((data.name, ""), "Reading the trace", partial(open_timeline, data))
        if ready is None:
            making.has_ended(REQUEST_WAIT_S)
        if not making.has_ended():
            if ready is not None:
                return ready[1]
            raise BusyError(making)
        with self._lock:
            self._forget((data.name, ""), making)
            if making.error is not None:
                if ready is not None:
                    return ready[1]
                raise making.error
            timeline: Timeline = making.result
            again = time.monotonic() + PAUSE_FACTOR * making.took
            self._ready[data.name] = (data.version, timeline, again)
        return timeline

    def resolve_window(
        self, data: TraceData, timeline: Timeline, request: Request
    ) -> ResolvedRequest:
        """Return the content of a requested window; raises BusyError while its tiles are built."""

        def build(need: MissingTiles) -> None:
            entry_path = data.name, need.name
            with self._lock:
                making = self._start(
                    entry_path, "Adding up its calls", partial(build_tiles, timeline, need)
                )
            if not making.has_ended(REQUEST_WAIT_S):
                raise BusyError(making)
            with self._lock:
                self._forget(entry_path, making)
            if making.error is not None:
                raise making.error

        return resolve_with_tiles(timeline, request, build)

    def _start(
        self, entry_path: tuple[str, str], description: str, make: Callable[[Progress], Any]
    ) -> BackgroundComputation:
        if entry_path not in self._making:
            self._making[entry_path] = BackgroundComputation(description, make)
        return self._making[entry_path]

    def cancel(self, data: TraceData) -> None:
        """Cancel the computations of a trace that report progress, and wait for their end."""
        with self._lock:
            paths = [path for path in self._making if path[0] == data.name]
            ended = [self._making.pop(path) for path in paths if _is_preparation(path[1])]
            for making in ended:
                making.is_cancelled = True
        for making in ended:
            making.has_ended(CANCEL_WAIT_S)

    def _forget(self, entry_path: tuple[str, str], making: BackgroundComputation) -> None:
        """Remove an ended computation, unless a new one has taken its place."""
        if self._making.get(entry_path) is making:
            del self._making[entry_path]

    def message_marks(self, data: TraceData) -> MessageMarks | None:
        """Return the calls on messages, None if the trace has none; raises BusyError."""
        if not data.trace.ranks_with_messages:
            return None
        marks: MessageMarks = self._compute_table(
            data, "messages", "reading the messages", lambda: read_message_marks(data.trace)
        )
        return marks

    def blamed_work(self, data: TraceData) -> pd.DataFrame:
        """Return the work by which blamed ranks delay others; raises BusyError."""
        work: pd.DataFrame = self._compute_table(
            data, "causes", "looking for the causes", lambda: data.derive("blamed_work")
        )
        return work

    def _compute_table(
        self, data: TraceData, name: str, description: str, make: Callable[[], Any]
    ) -> Any:
        """Return a table of a version of the trace, computed once; raises BusyError."""
        entry_path = (data.name, f"{name} {data.version}")
        with self._lock:
            for of_trace, what in list(self._making):
                if of_trace == data.name and what.startswith(f"{name} ") and what != entry_path[1]:
                    del self._making[of_trace, what]  # of an earlier version of the trace
            making = self._start(entry_path, description, partial(_make_listening, make))
        if not making.has_ended(REQUEST_WAIT_S):
            raise BusyError(making)
        if making.error is not None:
            raise making.error
        return making.result

    def drop_timeline(self, data: TraceData) -> None:
        """Remove a trace's timeline and its damaged cache, so that both are built again."""
        with self._lock:
            ready = self._ready.pop(data.name, None)
        if ready is not None:
            cache.remove(data.path, ready[1].key)


def _is_preparation(what: str) -> bool:
    """Return whether a computation prepares a timeline: its calls (no name), or their tiles."""
    return not what or what.startswith("tiles.")


def _make_listening(make: Callable[[], Any], note: Progress) -> Any:
    """Return a table, and note the progress of its computation."""
    with listen_to_progress(note):
        return make()


def answer_request(store: TimelineStore) -> Response:
    """Return the response to one request."""
    what = request.args.get("what", "window")
    state = states.parse(request.query_string.decode("ascii", "replace"))
    try:
        data = store.context.latest_data(state)
        if what == "cancel":
            store.cancel(data)
            return _json_response({"cancelled": True})
        try:
            return _answer_window(store, data, state, what)
        except cache.DamagedError as error:
            log.warning("%s: damaged cache (%s); it is made again", data.path, error)
            store.drop_timeline(data)
            return _answer_window(store, data, state, what)
    except BusyError as busy:
        making = busy.making
        return _json_response({"progress": making.progress, "what": making.what}, 202)
    except cache.DamagedError:
        return _json_response({"error": "the cache of this trace cannot be read"}, 500)
    except (MpiprofError, OSError) as error:
        return _json_response({"error": str(error)}, 404)


def _answer_window(
    store: TimelineStore, data: TraceData, state: states.PageState, what: str
) -> Response:
    timeline = store.get_timeline(data)
    if not timeline.events.meta["segments"]:
        return _json_response({"empty": _why_empty(data)})
    request = parse_request(data, state, timeline)
    if not len(request.ranks):
        return _json_response({"empty": "No rank passes the filters above."})
    if what == "selection":
        request = replace(request, colour="operation")
        return _json_response(
            selection.sum_span(timeline, request, store.resolve_window(data, timeline, request))
        )
    if what in ("window", "overview"):
        resolved = store.resolve_window(data, timeline, request)
        render = timeline.render_window if what == "window" else timeline.render_overview
        head, arrays = render(request, resolved)
        head |= {"length": timeline.length_ns, "growing": not data.ended}
        if what == "window":
            head["late"] = find_late_ranks(timeline, request, resolved)
        colours = theme.state_tokens(request.colour, head["states"])
        head["states"] = [
            {"name": name, "colour": colour}
            for name, colour in zip(head["states"], colours, strict=True)
        ]
        if what == "overview":
            head["messages"] = bool(data.trace.ranks_with_messages)
            head["searched"] = find.search_label(timeline, request.find)
        return _pack_response(head, arrays)
    if what == "legend":
        resolved = store.resolve_window(data, timeline, request)
        return _json_response({"legend": timeline.sum_legend(request, resolved)})
    if what == "causes":
        resolved = store.resolve_window(data, timeline, request)
        return _json_response(_list_causes(store, data, timeline, request, resolved))
    if what in WAIT_REQUESTS:
        return _answer_waits(store, data, state, timeline, request)
    if what == "search":
        return _json_response({"found": find.search(timeline, state.get("text"))})
    if what == "under":
        window = store.resolve_window(data, timeline, request)
        rank, at = state.get_number("member", -1), state.get_number("at")
        reach = state.get_number("reach")
        number = find.find_under_pointer(timeline, request, window, rank, at, reach)
    else:
        number = _answer_instance(timeline, state, request, what)
    if not 0 <= number < timeline.events.instances:
        return _json_response({"none": True})
    if what == "messages":
        try:
            return _json_response(instance_messages.model_messages(timeline, number))
        except instance_messages.NotModelledError as reason:
            return _json_response({"number": number, "reason": str(reason)})
    return _json_response(find.describe_instance(timeline, number))


def _answer_waits(
    store: TimelineStore,
    data: TraceData,
    state: states.PageState,
    timeline: Timeline,
    request: Request,
) -> Response:
    """Return waits: those for messages in a window, the longest of a rank, or a chain of waits.

    Otherwise the shares of calls on messages along the whole run.
    """
    marks, what = store.message_marks(data), state.get("what")
    if what == "chain":
        at, waits = state.get_number("at"), None if marks is None else marks.waits
        chain = wait_chain.find_chain(timeline, state.get_number("member", -1), at, waits)
        last = None
        if chain:
            span = [timeline.events.begin_ns + ns for ns in (chain[-1].begin, chain[-1].until)]
            calls = None if marks is None else marks.overlapping(*span)
            last = asdict(wait_chain.find_last_rank(timeline, chain[-1], calls))
        return _json_response({"chain": [asdict(wait) for wait in chain], "last": last})
    if what == "longest":
        longest = list_longest_waits(timeline, request, marks)
        return _json_response({"longest": [asdict(wait) for wait in longest]})
    if marks is None:
        return _json_response({"waits": [], "calls": [], "sites": [], "shares": []})
    resolved = store.resolve_window(data, timeline, request)
    if what == "strip":
        return _json_response(
            {"shares": share_messages(timeline, request, resolved, marks).tolist()}
        )
    message_marks = list_message_marks(timeline, request, resolved, marks)
    return _json_response(
        message_marks | {"sums": sum_messages(timeline, request, resolved, marks)}
    )


def _list_causes(
    store: TimelineStore,
    data: TraceData,
    timeline: Timeline,
    request: Request,
    resolved: ResolvedRequest,
) -> dict[str, Any]:
    """Return the blamed ranks of the run, those that cost most first, and their work in a window.

    The marks have the index of a title. accented: without the ranks of a delay that moves through
    all ranks, which would all be accented.
    """
    work = store.blamed_work(data)
    findings = data.derive("findings")
    titles = data.compute_once(
        "finding titles",
        lambda: [finding_sentences.finding_title(data.trace, finding) for finding in findings],
    )
    marks = list_causes(timeline, request, resolved, work)
    blamed = order_blamed_ranks([finding.ranks for finding in findings], work)
    accented = order_blamed_ranks([accented_ranks(finding) for finding in findings], work)
    return {"ranks": blamed, "accented": accented, "titles": titles, "marks": marks}


def _answer_instance(
    timeline: Timeline, state: states.PageState, request: Request, what: str
) -> int:
    if what == "next":
        communicators = timeline.find_communicators(request.communicators)
        test = find.make_predicate(timeline, request.find, communicators, request.operations)
        if state.get("late"):
            test = find.make_late_predicate(test)
        step = -1 if state.get_number("step", 1) < 0 else 1
        return find.find_next(
            timeline, state.get_number("number", -1), state.get_number("at"), step, test
        )
    if name := state.get("instance"):
        return find.find_by_address(timeline, name)
    return state.get_number("number", -1)


def _why_empty(data: TraceData) -> str:
    if data.trace.record == "summary":
        return "This trace has only totals: record without --record summary to see a timeline."
    return "No collective was recorded." if data.ended else "No collective has been recorded yet."


def parse_request(data: TraceData, state: states.PageState, timeline: Timeline) -> Request:
    """Return the window that the query of a request describes, within bounds."""
    begin = state.get_number("from")
    colour, sort = state.get("colour", COLOURS[0]), state.get("sort", SORTS[0])
    callsite = state.get("callsite")
    return Request(
        begin,
        state.get_number("to", timeline.length_ns),
        min(max(state.get_number("px", 1000), 16), MAX_PIXELS),
        colour if colour in COLOURS else COLOURS[0],
        sort if sort in SORTS else SORTS[0],
        frozenset(state.get("off").split("|")),
        data.filtered_ranks(state),
        state.communicators,
        state.operations,
        state.get("find") or (f"callsite:{callsite}" if callsite else ""),
    )


def _json_response(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, mimetype="application/json")


def _record_layout(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the layout of a record: its size, and each field's name, type and offset."""
    if dtype.fields is None:
        return {}
    fields = [[name, field_type.str[1:], at] for name, (field_type, at, *_) in dtype.fields.items()]
    return {"each": dtype.itemsize, "fields": fields}


def _pack_response(head: dict[str, Any], arrays: dict[str, Array]) -> Response:
    descriptions, parts, at = {}, [], 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        descriptions[name] = {"at": at, "length": len(data), **_record_layout(array.dtype)}
        parts += [data, bytes(-len(data) % 8)]
        at += len(data) + -len(data) % 8
    text = json.dumps(head | {"arrays": descriptions}).encode()
    text += b" " * (-(len(text) + 4) % 8)
    body = b"".join([len(text).to_bytes(4, "little"), text, *parts])
    response = Response(body, mimetype="application/octet-stream")
    if len(body) > MIN_COMPRESSED_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
        response.set_data(gzip.compress(body, 1))
        response.headers["Content-Encoding"] = "gzip"
    return response
