"""Sections of the page, in the words and pictures of the overview."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mpiprof.account import columns as metric_columns
from mpiprof.account.division import divide_time
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.rank_pairs import list_waiting_pairs, make_pair_matrix
from mpiprof.causes import sampled_code
from mpiprof.causes.finding import Finding
from mpiprof.interface.format_units import UNKNOWN, format_count, format_time
from mpiprof.interface.svg import DataPicture
from mpiprof.interface.tokens import name_operation_colour
from mpiprof.reports import callsite_table, efficiency_table, message_table, text
from mpiprof.reports.overview import callsite_rows, finding_rows, proof, time_sums
from mpiprof.reports.overview.answer import Answer, TextPart
from mpiprof.reports.overview.callsite_rows import CallsiteRow, read_pattern
from mpiprof.reports.overview.finding_rows import FindingRow
from mpiprof.reports.pictures import flame_graph, pair_matrix, time_split
from mpiprof.reports.pictures.arrival_pattern import draw_arrival_pattern
from mpiprof.reports.pictures.icons import draw_icon
from mpiprof.reports.table import TableColumn
from mpiprof.reports.words import callsite_sentences, captions, message_sentences, stack_sentences
from mpiprof.reports.words.answer_facts import Fact
from mpiprof.trace import Trace

MAX_TEXT, MAX_LONG_TEXT = 300, 2000  # characters of a name and of a paragraph
MAX_SITES = 40
WIDTHS = {"wide": 1232.0, "medium": 700.0, "narrow": 366.0}  # by class: of pictures in px


def format_text(content: object, limit: int = MAX_TEXT) -> str:
    """Return a text, escaped, and cut to a limit."""
    text = str(content)
    return escape(text if len(text) <= limit else f"{text[: limit - 1]}…")


def format_sentence(content: str) -> str:
    """Return a sentence, escaped, in which text between backticks is code."""
    parts = format_text(content, MAX_LONG_TEXT).split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick belongs to the text
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def make_paragraph(content: str, name: str = "") -> str:
    """Return a paragraph of a class, or nothing without text."""
    style = f' class="{name}"' if name else ""
    return f"<p{style}>{format_sentence(content)}</p>" if content else ""


def make_section(title: str, note: str, *parts: str, name: str = "") -> str:
    """Return a section with a heading and a note beside it."""
    style = f' class="{name}"' if name else ""
    beside = f"<span>{format_text(note)}</span>" if note else ""
    heading = f'<div class="heading"><h2>{format_text(title)}</h2>{beside}</div>'
    return f"<section{style}>{heading}{''.join(parts)}</section>"


def make_figure(pictures: Sequence[tuple[str, str]], how_to_read: str, caption: str = "") -> str:
    """Return pictures of one content with their explanation.

    pictures: class and SVG of each; "wide" or "narrow" shows a picture on pages of that width only.
    """
    drawn = "".join(
        f'<div class="picture {name}"{" tabindex=0" if name == "scrolls" else ""}>{svg}</div>'
        for name, svg in pictures
    )
    head = f'<p class="caption">{format_text(caption)}</p>' if caption else ""
    note = f"<b>How to read this:</b> {format_text(how_to_read, MAX_LONG_TEXT)}"
    return f"<figure>{head}{drawn}<figcaption>{note}</figcaption></figure>"


def make_rows(heads: Sequence[str], rows: Sequence[str], name: str) -> str:
    """Return a table of rows; a heading may be empty."""
    head = "".join(
        f'<th scope="col">{format_text(text)}</th>' if text else "<td></td>" for text in heads
    )
    body = "".join(rows)
    return f'<table class="rows {name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def make_cell(content: str, name: str = "") -> str:
    """Return a cell of HTML content."""
    return f'<td class="{name}">{content}</td>' if name else f"<td>{content}</td>"


def make_table(columns: Sequence[TableColumn]) -> str:
    """Return a table of a report's columns."""
    sides = [' class="left"' * column.left for column in columns]
    heads = "".join(
        f'<th scope="col"{side}>{format_text(column.head)}</th>'
        for side, column in zip(sides, columns, strict=True)
    )
    body = ""
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = zip(sides, row, strict=True)
        body += f"<tr>{''.join(f'<td{side}>{format_text(text)}</td>' for side, text in cells)}</tr>"
    table = f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scrolls" tabindex=0><table class="table">{table}</table></div>'


def name_operation(operation: str) -> str:
    """Return an operation with its colour."""
    colour = f"var(--{name_operation_colour(operation)})"
    mark = f'<i style="background:{colour}"></i>'
    return f'<span class="operation">{mark}{format_text(operation)}</span>'


def make_answer(answer: Answer | None, shown: proof.Proof | None) -> str:
    """Return the answer beside the picture that proves it."""
    if answer is None:
        return make_paragraph("No collective operation was recorded.", "sentence")
    late = ' class="late"' * answer.is_late
    parts = []
    if answer.share:
        share, amount = format_text(answer.share), format_text(answer.amount)
        parts.append(f'<div class="share"><b{late}>{share}</b><span>{amount}</span></div>')
    parts += [f'<p class="sentence">{_mark_text(line)}</p>' for line in answer.sentences]
    if answer.facts:
        parts.append(f'<dl class="who">{"".join(map(_show_fact, answer.facts))}</dl>')
    parts.append(make_paragraph(answer.advice, "advice"))
    if answer.command:
        command = format_text(answer.command, 1000)
        parts.append(f'<div class="command"><code tabindex="0">{command}</code></div>')
    parts += [make_paragraph(line, "note") for line in answer.notes]
    picture = ""
    if shown is not None:
        pictures = [(name, shown.draw(size)) for name, size in proof.WIDTHS.items()]
        picture = make_figure(pictures, shown.how_to_read, shown.title)
        picture = picture.replace("<figure>", '<figure class="proof">', 1)
    answered = f'<div class="answer">{"".join(parts)}</div>'
    return f'<section class="hero" aria-label="Answer">{answered}{picture}</section>'


def _mark_text(parts: Sequence[TextPart]) -> str:
    marked = {"late": '<b class="late">', "good": '<b class="good">', "strong": "<b>"}
    return "".join(
        f"{marked[part.mark]}{format_text(part.text)}</b>"
        if part.mark
        else format_sentence(part.text)
        for part in parts
    )


def _show_fact(fact: Fact) -> str:
    icon = draw_icon(fact.icon) if fact.icon else ""
    late = ' class="late"' * fact.is_late
    value = f"{icon}<b{late}>{format_text(fact.text)}</b>"
    more = f'<dd class="more">{format_text(fact.more)}</dd>'
    return f"<div><dt>{format_text(fact.name)}</dt><dd>{value}</dd>{more}</div>"


def make_time(trace: Trace, finding: Finding | None) -> str:
    """Return the bar of the run's time."""
    if not len(trace.callsites) and not len(trace.message_callsites):
        return ""
    parts = time_sums.list_time_parts(trace, divide_time(trace), trace.ranks)
    blamed = time_sums.find_blamed_time(trace, finding)
    pictures = [
        (name, time_split.draw_split(parts, blamed, width)) for name, width in WIDTHS.items()
    ]
    total = format_time(sum(part.time_ns for part in parts))
    figure = make_figure(pictures, time_sums.how_to_read(parts, blamed))
    return make_section(f"Where the {total} went", "mean of all ranks", figure)


def make_findings(trace: Trace, findings: Sequence[Finding]) -> str:
    """Return the findings as ranked rows, and each in words with its evidence and advice."""
    shown = findings[: finding_rows.MAX_FINDINGS]
    if not shown:
        return ""
    totals = None if trace.record == "summary" else trace.rank_totals
    rows = finding_rows.make_rows(trace, shown, totals)
    table = make_rows(
        finding_rows.HEADS[:-1], [_show_finding(row) for row in rows], "findings-table"
    )
    texts = "".join(f"<li>{format_sentence(row.text)}</li>" for row in rows)
    note = finding_rows.describe_savings(trace, shown)
    return make_section("Findings", note, table, f'<ol class="told">{texts}</ol>')


def _show_finding(row: FindingRow) -> str:
    late = f"<span> {row.lateness}</span>" if row.lateness else ""
    saving = f"<div><div>{row.bar}</div><b>{row.saved}</b><span>{row.share}</span></div>"
    place = UNKNOWN
    if row.callsite is not None:
        place = f"{name_operation(row.operation)} <code>{format_text(row.place)}</code>"
    cells = [
        make_cell(str(row.number), "number"),
        make_cell(saving, "saving"),
        make_cell(f"<b>{format_text(row.title)}</b>{late}", "what"),
        make_cell(row.picture, "who-is-late"),
        make_cell(place, "place"),
        make_cell(f"<div>{draw_icon(row.icon)}</div>{format_text(row.reason)}", "why"),
        make_cell(row.instances, "numeric"),
    ]
    return f"<tr{' class=first' * row.is_first}>{''.join(cells)}</tr>"


def make_pattern(trace: Trace, findings: Sequence[Finding]) -> str:
    """Return the arrivals at the call site of the first finding that has one."""
    callsite = next((one.callsites[0] for one in findings if one.callsites), None)
    if callsite is None or trace.record == "summary":
        return ""
    cells = read_pattern(trace, callsite, trace.instances)
    if cells is None:
        return ""
    pictures = [(name, draw_arrival_pattern(cells, width)) for name, width in WIDTHS.items()]
    note = f"{format_count(cells.instances)} instances, from the median of the others"
    return make_section(
        f"Arrivals at {cells.site}", note, make_figure(pictures, captions.ARRIVAL_PATTERN)
    )


def make_fault(drawn: DataPicture) -> str:
    """Return the picture of the ranks that wait for each other in a hung job."""
    return make_section(drawn.title, "", make_figure([("scrolls", drawn.svg)], drawn.how_to_read))


def make_functions(trace: Trace) -> str:
    """Return the flame graph of late ranks, compared with others if there are any, or nothing."""
    if not trace.tables.presite_samples:
        return ""
    late = sampled_code.find_late_ranks(trace, None)
    others = sorted({*range(trace.ranks)} - {*late})
    groups = [late, others] if late and others else [list(range(trace.ranks))]
    tree = sampled_code.make_stack_tree(trace, groups)
    if not tree.samples[0, 0]:
        return ""
    compared = len(groups) > 1
    words = stack_sentences.excess_phrases(tree, late) if compared else []
    sentence = "".join(words[0] for words in words)
    names = stack_sentences.name_groups(groups) if compared else ["all ranks"]
    note = stack_sentences.sample_note(tree, names) + stack_sentences.caller_note(tree)
    label = sentence or "Functions of all ranks between collectives."
    pictures = [
        (name, flame_graph.draw_flame_graph(tree, label, compared=compared, width=width))
        for name, width in WIDTHS.items()
    ]
    how = stack_sentences.HOW_TO_READ if compared else stack_sentences.HOW_TO_READ_ONE
    return make_section(
        stack_sentences.TITLE,
        "from samples",
        make_paragraph(sentence),
        make_figure(pictures, how),
        make_paragraph(note, "note"),
    )


def make_messages(trace: Trace, findings: Sequence[Finding]) -> str:
    """Return who waits for whose messages, and the matrix; nothing if messages take no time."""
    rows = message_table.reported_callsites(trace)
    if not len(rows):
        return ""
    matrix = make_pair_matrix(trace, trace.message_matrix, pair_matrix.MAX_ROWS)
    figures = []
    for quantity in ("wait", "bytes"):
        cells = matrix.get_cells(quantity)
        if cells.any():
            drawn = pair_matrix.draw_matrix(matrix.ranks, cells, quantity)
            title = pair_matrix.QUANTITIES[quantity].title
            figures.append(make_figure([("scrolls", drawn)], captions.RANK_MATRIX, title))
    pairs = list_waiting_pairs(find_located_waits(trace))
    cause = message_sentences.find_message_cause(findings, pairs)
    sentences = [
        message_sentences.headline_text(trace, pairs, cause),
        *message_sentences.further_sentences(trace, pairs, cause),
    ]
    columns = message_table.message_columns(rows.head(MAX_SITES), findings)
    legend = callsite_table.legend("  ".join(column.head for column in columns))
    return make_section(
        "Messages",
        message_table.section_title(len(rows), MAX_SITES),
        *map(make_paragraph, sentences),
        f'<div class="matrices">{"".join(figures)}</div>',
        make_table(columns),
        make_paragraph(legend, "note"),
    )


def make_callsites(trace: Trace, findings: Sequence[Finding]) -> str:
    """Return the costliest call sites as rows."""
    every = callsite_rows.list_callsites(trace)
    if not every:
        return make_section("Call sites", "", make_paragraph("No operation was recorded."))
    lines = {} if trace.record == "summary" else callsite_rows.make_sparklines(trace.instances)
    causes = callsite_sentences.name_causes(findings)
    shown = every[:MAX_SITES]
    rows = callsite_rows.make_rows(shown, float(trace.run_ns), trace.ranks, lines, causes)
    table = make_rows(callsite_rows.HEADS, [_show_callsite(row) for row in rows], "sites-table")
    more = len(every) - len(shown)
    note = f"{format_count(more)} more call sites are left out; `report --all` lists them."
    return make_section(
        "Call sites", "mean of the ranks", table, make_paragraph(note if more else "", "note")
    )


def _show_callsite(row: CallsiteRow) -> str:
    latest = f"{row.latest} <span>{row.latest_share}</span>" if row.latest else UNKNOWN
    place, function = format_text(row.place), format_text(row.function)
    cells = [
        make_cell(f"<b><code>{place}</code></b> <code>{function}</code>"),
        make_cell(name_operation(row.operation)),
        make_cell(row.size, "numeric"),
        make_cell(row.instances, "numeric"),
        make_cell(f"<b>{row.waiting}</b>", "numeric"),
        make_cell(row.share, "numeric"),
        make_cell(row.picture),
        make_cell(row.spread, "numeric"),
        make_cell(row.factor, "numeric"),
        make_cell(latest),
        make_cell(format_text(row.cause or UNKNOWN), "late" if row.cause else ""),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def make_numbers(trace: Trace) -> str:
    """Return all columns of the call sites of collectives with most waiting, and their meanings."""
    order = ["total_wait_ns", "total_elapsed_ns"]
    table = trace.callsites.sort_values(order, ascending=False, kind="stable").head(MAX_SITES)
    if not len(table):
        return ""
    columns = callsite_table.view_columns(table, metric_columns.PAGE)
    columns = [column for column in columns if any(column.cells)]
    legend = callsite_table.legend("  ".join(column.head for column in columns))
    note = "means over instances"
    return make_section(
        "All numbers of collectives", note, make_table(columns), make_paragraph(legend, "note")
    )


def make_efficiencies(trace: Trace) -> str:
    """Return the table of efficiencies by phase, or nothing if the run has a single phase."""
    columns = efficiency_table.phase_columns(trace)
    if not columns:
        return ""
    legend = make_paragraph(captions.EFFICIENCY_LEGEND, "note")
    return make_section(efficiency_table.phase_title(trace), "", make_table(columns), legend)


def make_facts(trace: Trace) -> str:
    """Return all facts of the trace."""
    _, facts = text.fact_rows(trace)
    rows = "".join(
        f"<div><dt>{format_text(name)}</dt><dd>{format_text(value)}</dd></div>"
        for name, value in facts
    )
    return make_section("About this trace", "", f'<dl class="facts">{rows}</dl>')
