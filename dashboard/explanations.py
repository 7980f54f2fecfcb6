"""Cards on the causes of late arrivals at a call site and on other algorithms for the call site.

Each card needs a pass over the trace or a simulation, so the page loads the cards last.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.diagnosis.causes import Causes
from mpiprof.errors import UsageError
from mpiprof.interface.format_units import UNKNOWN, format_share, format_time
from mpiprof.interface.shell_hints import format_command, switch_value
from mpiprof.reports import conclusion, phrases
from mpiprof.tune import result

from . import components, filtered_tables, predictions
from . import url_state as states
from .figures import algorithms as pictures
from .figures.distribution import draw_shares
from .trace_data import TraceData

MAX_RANKS, MAX_ORIGINS, MAX_TRIED = 8, 6, 12
MAX_TEXT = 1000  # characters of a command
SHARES = {  # by heading: attributes of Causes, and their names in the figure
    "Origin of the spread of arrivals": {
        "inherited": "already late at the end of the previous collective",
        "outside": "delayed since then, outside MPI collectives",
        "point_to_point": "delayed since then, in point-to-point calls",
    },
    "Who it is": {
        "by_rank": "always the same ranks",
        "by_node": "always the same nodes",
        "random": "changes from instance to instance",
    },
}


def causes_card(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return the card on the causes of a call site's arrival pattern."""
    causes: Causes = data.derive("causes", callsite)
    if not causes.instances:
        return components.make_card("Why they are late", note="No complete instance.")
    row = dict(data.trace.callsites.loc[callsite])
    problems = [html.P(line) for line in conclusion.callsite_problems(data.trace, row)]
    sentences = [html.Li(line) for line in phrases.cause_sentences(causes)]
    parts: list[Component] = [*problems, html.Ul(sentences, className="told")]
    for title, names in SHARES.items():
        estimates = [(text, getattr(causes, name)) for name, text in names.items()]
        rows = [(text, e.value, e.low, e.high) for text, e in estimates]
        table = pd.DataFrame(rows, columns=["name", "value", "low", "high"])
        parts += [html.H3(title), components.make_graph(draw_shares(table), state)]
    ranks = causes.ranks[causes.ranks["late_ns"] > 0].head(MAX_RANKS)
    ranks = ranks.assign(where=[data.describe_location(int(rank)) for rank in ranks["rank"]])
    columns = [("rank", "rank"), ("where", "on"), ("late_ns", "mean"), ("late_share", "late in")]
    parts += [
        html.H3("Ranks that arrive after the median of the others"),
        components.make_table(ranks, columns),
    ]
    if len(causes.chain):
        parts += [html.H3("Origin of their lateness"), origin_list(causes.chain, state)]
    looked = f"From {causes.instances} of {causes.complete_instances} complete instances."
    return components.make_card("Why they are late", *parts, note=looked)


def origin_list(table: pd.DataFrame, state: states.PageState) -> Component:
    """Return the origins of lateness as a list with links to their call sites."""
    items = []
    for row in filtered_tables.table_records(table.head(MAX_ORIGINS)):
        text = f"rank {row['rank']} at {filtered_tables.shorten_text(row['site'])}"
        where: Any = text
        if row["callsite"] >= 0:
            where = dcc.Link(text, href=state.link_to("/callsites", callsite=row["callsite"]))
        about = f" after {filtered_tables.shorten_text(row['after_site'])}" * (row["after"] >= 0)
        about += f", {row['hops']:.0f} instances before" if row["hops"] >= 1 else ""
        about += f": {format_share(row['share'])} of instances, late by "
        items.append(html.Li([where, about + format_time(row["late_ns"])]))
    return html.Ul(items, className="told")


def algorithms_card(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return the card on the algorithms tried at a call site, and on the simulated candidates."""
    title = "Algorithms"
    tried = filtered_tables.callsite_trials(data, callsite)
    parts: list[Component] = []
    if len(tried):
        parts.append(trial_table(tried.head(MAX_TRIED), "tried while it ran"))
    work = predictions.work_at_callsite(data, callsite)
    if work is None:
        note = "There is no other algorithm for this operation, or its sizes are unknown."
        return components.make_card(title, *parts, note=note)
    try:
        predicted = predictions.simulate_work(data, work)
    except UsageError as error:
        return components.make_card(title, *parts, note=f"{error}.")
    table = predictions.prediction_table(predicted)
    parts += [
        html.H3("Simulated under the recorded arrivals"),
        components.make_graph(pictures.draw_scores(table.head(MAX_TRIED)), state),
        html.P(expectation_text(predictions.judge_prediction(data, predicted)), className="note"),
        dcc.Link(
            "the whole comparison, also on more processes",
            href=state.link_to("/algorithms", callsite=callsite),
        ),
    ]
    note = "Score: mean time in the call after the last arrival that the rank must wait for."
    return components.make_card(title, *parts, note=note)


def trial_table(trials: pd.DataFrame, heading: str) -> Component:
    """Return the selector's trials as a table; `heading` titles the column of algorithms."""
    columns = [("phase", "phase"), ("algorithm", heading), ("instances", "instances")]
    return components.make_table(trials, [*columns, ("score_ns", "score"), ("error_ns", "±")])


def expectation_text(verdict: result.Verdict) -> Any:
    """Return the verdict of the simulation as text, with the command that tries the algorithm."""
    if verdict.worth == result.NO:
        return f"Not worth a change: {verdict.reason or UNKNOWN}."
    work = verdict.result.work
    gain = (
        f"{verdict.best} would save {format_share(verdict.gain_ns / verdict.base_ns)} of the score"
    )
    sure = "" if verdict.worth == result.YES else f", which is doubtful: {verdict.reason}"
    where = (work.sites or (work.operation,))[0]
    line = format_command("run", "--switch", switch_value(where, verdict.best), "PROGRAM")
    sentence = f"{gain}, {format_time(verdict.total_saving(verdict.gain_ns))} in all{sure}."
    # Show the whole command or none: an unclosed quotation would swallow the user's next input.
    return [f"{sentence} Try: ", html.Code(line)] if len(line) < MAX_TEXT else sentence
