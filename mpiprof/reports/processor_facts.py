"""The processors of the ranks: one line of the report, rows of the JSON, and what exceeds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpiprof.causes.processor_sets import Overload, find_overload, read_thread_setting
from mpiprof.interface.format_units import format_count, format_runs
from mpiprof.trace import Trace

MAX_NODES = 2  # in the line of the report


def processor_fact(trace: Trace) -> str:
    """Return the processors, the quota and the number of threads of the ranks by node, or ""."""
    nodes = list(_group_by_node(trace).values())
    texts: dict[str, list[str]] = {}
    for ranks in nodes:
        if text := _describe_node(ranks):
            texts.setdefault(text, []).append(next(iter(ranks.values()))["host"])
    parts = []
    for text, hosts in list(texts.items())[:MAX_NODES]:
        of = "" if len(nodes) == 1 else f" of {hosts[0]}"
        of += f" and {len(hosts) - 1} more nodes" if len(hosts) > 1 else ""
        parts.append(text.replace("@", of))
    more = len(texts) - MAX_NODES
    return "; ".join([*parts, *([f"{more} other kinds of nodes"] if more > 0 else [])])


def overload_sentence(trace: Trace) -> str:
    """Return a sentence on ranks whose threads exceed their processors, "" without any."""
    found = find_overload(trace.tables.processes)
    return "" if found is None else _describe_overload(trace, found)


def processors_as_data(trace: Trace) -> list[dict[str, Any]]:
    """Return the processors of each rank in the schema of the JSON report."""
    return [
        {
            "rank": rank,
            "host": process["host"],
            "processors": process["processors"],
            "node_processors": process["node_processors"] or None,
            "quota": process["quota"] or None,
            "threads_at_start": process["threads"] or None,
            "environment": process["environment"],
        }
        for rank, process in sorted(trace.tables.processes.items())
    ]


def _group_by_node(trace: Trace) -> dict[str, dict[int, Mapping[str, Any]]]:
    nodes: dict[str, dict[int, Mapping[str, Any]]] = {}
    for rank, process in sorted(trace.tables.processes.items()):
        nodes.setdefault(process["node"], {})[rank] = process
    return nodes


def _describe_node(ranks: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the processors of a node's ranks, with "@" in place of the node's name."""
    affinities = [frozenset(process["processors"]) for process in ranks.values()]
    if not all(affinities):
        return ""
    union = frozenset().union(*affinities)
    known = max(process["node_processors"] for process in ranks.values())
    processors = f"processors {format_runs(sorted(union), 4)}"
    processors += f" of {known}" if known > len(union) else ""
    share = ""
    if len(ranks) > 1:
        own = sum(map(len, affinities)) == len(union)
        share = ", each on its own" if own else ", which they share"
    plural = "s" * (len(ranks) != 1)
    text = f"{format_count(len(ranks))} rank{plural}@ on {processors}{share}"
    quotas = [process["quota"] for process in ranks.values() if process["quota"]]
    if quotas:
        some = f"{format_count(len(quotas))} of them " if len(quotas) < len(ranks) else ""
        text += f", {some}with a quota of {min(quotas):.3g} processor{'s' * (min(quotas) != 1)}"
    settings = {read_thread_setting(process)[1] for process in ranks.values()} - {""}
    return text + (f", {' or '.join(sorted(settings))}" if settings else "")


def _describe_overload(trace: Trace, found: Overload) -> str:
    ranks = f"{format_count(found.ranks)} rank{'s' * (found.ranks != 1)}"
    where = f" of {found.node}" if trace.node_count > 1 else ""
    processors = f"{found.processors:.3g} processor{'s' * (found.processors != 1)}"
    limit, remedy = "may run on", "start fewer ranks on a node"
    if found.is_quota:
        limit = f"{'has' if found.ranks == 1 else 'have'} a quota of"
        remedy = f"raise the quota{', or start fewer ranks' * (found.ranks > 1)}"
    if found.setting:
        threads = f"up to {format_count(found.threads)} threads ({found.setting})"
        return (
            f"{ranks}{where} {limit} {processors}, but start {threads}: {remedy}, or start fewer "
            "threads."
        )
    return f"{ranks}{where} {limit} {processors}: {remedy}."
