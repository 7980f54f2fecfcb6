"""Search of the head: ranks, hosts, call sites, algorithms and sampled functions, with links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.collectives.catalogue import load_catalogue
from mpiprof.interface.format_units import shorten_text
from mpiprof.reports.site_labels import routine_at
from mpiprof.reports.words.ranks_and_steps import host_of

from . import filtered_tables
from .trace_data import TraceData
from .url_state import PageState, change_filters, parse_ranks

MAX_TEXT, MAX_OF_GROUP = 100, 6  # characters of a query; results of one group
RANKS = re.compile(r"(?:ranks?\s*)?(\d{1,9}(?:\s*-\s*\d{1,9})?)")


@dataclass(frozen=True)
class SearchTarget:
    """One result: the name of its group, its text and its address."""

    group: str
    text: str
    href: str


def find_targets(data: TraceData, state: PageState, query: str) -> list[SearchTarget]:
    """Return the results for a query; all its words must occur, whatever their case."""
    text = query[:MAX_TEXT].strip().lower()
    if not text:
        return []
    words = text.split()
    groups = (
        _find_ranks(data, state, text),
        _find_hosts(data, state, words),
        _find_callsites(data, state, words),
        _find_algorithms(state, words),
        _find_functions(state, words),
    )
    return [target for group in groups for target in islice(group, MAX_OF_GROUP)]


def _find_ranks(data: TraceData, state: PageState, text: str) -> Iterator[SearchTarget]:
    match = RANKS.fullmatch(text)
    ranks = parse_ranks(match[1], data.trace.ranks) if match else None
    if match and ranks:
        name = match[1] if len(ranks) > 1 else str(ranks[0])
        where = f" on {host_of(data.trace, ranks[0])}" if len(ranks) == 1 else ""
        query = change_filters(state.without_page_keys(), {"ranks": name}).format_query()
        yield SearchTarget(
            "rank", f"rank{'s' * (len(ranks) > 1)} {name}{where}", "/timeline" + query
        )


def _find_hosts(data: TraceData, state: PageState, words: list[str]) -> Iterator[SearchTarget]:
    for host in data.hosts:
        if all(word in host.lower() for word in words):
            query = change_filters(state.without_page_keys(), {"nodes": [host]}).format_query()
            yield SearchTarget("node", shorten_text(host), "/" + query)


def _find_callsites(data: TraceData, state: PageState, words: list[str]) -> Iterator[SearchTarget]:
    table = data.callsites.sort_values("total_elapsed_ns", ascending=False, kind="stable")
    for row in filtered_tables.table_records(table):
        name = routine_at(row)
        if all(word in name.lower() for word in words):
            href = state.link_to("/callsites", callsite=row["callsite"])
            yield SearchTarget("call site", shorten_text(name), href)


def _find_algorithms(state: PageState, words: list[str]) -> Iterator[SearchTarget]:
    names = dict.fromkeys((entry.operation, entry.name) for entry in load_catalogue())
    for operation, algorithm in names:
        text = f"{algorithm} of {operation}"
        if all(word in f"algorithm {text}" for word in words):
            href = state.link_to("/algorithms", of=operation, name=algorithm)
            yield SearchTarget("algorithm", text, href)


def _find_functions(state: PageState, words: list[str]) -> Iterator[SearchTarget]:
    text = "functions between collectives: flame graph"
    if all(word in text for word in words):
        yield SearchTarget("page", text, state.link_to("/functions"))


def make_results(targets: list[SearchTarget], query: str) -> Component | None:
    """Return the results as a list of links, or None without a query."""
    if not query.strip():
        return None
    if not targets:
        return html.P("No rank, node, file, function or algorithm matches.", className="panel note")
    items = [
        html.Li(dcc.Link([html.Span(target.group), html.B(target.text)], href=target.href))
        for target in targets
    ]
    return html.Ul(items, className="panel")
