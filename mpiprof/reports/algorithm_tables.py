"""The catalogue of algorithms and their predicted times, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from mpiprof.interface.format_units import format_count, format_runs, format_size, format_time
from mpiprof.reports.table import TableColumn, render, wrap_paragraph

FAMILIES = {"openmpi": "Open MPI", "mpich": "MPICH"}
PROOF_MEANING = (
    "proved: on labels in place of data every rank ends with the right result, every byte of it is "
    "written once, nothing waits for ever though each send waits for its receive, nothing depends "
    "on timing, and reductions associate their operands alike on all ranks. roots: pairs of a "
    "number of processes and a root. data: a vector, a rank's block, or all contributions together"
)


@dataclass(frozen=True)
class AlgorithmPrediction:
    """Predicted times of an operation, in ns."""

    rows: Sequence[tuple[str, float, float]]  # name, end, end after the last arrival
    left_out: Sequence[tuple[str, str]]  # name of an excluded algorithm, and the reason
    bound: float
    last_arrival: float


def catalogue_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the catalogue's entries as text, by operation, with the MPI libraries' last."""
    parts = []
    group_key = itemgetter("operation", "intercommunicator", "library")
    for (operation, inter, library), group in groupby(rows, key=group_key):
        head = f"{operation} on inter-communicators" if inter else str(operation)
        head += f" in {FAMILIES[library]} itself" if library else ""
        entry = _library_entry if library else _catalogue_entry
        parts.append("\n".join([head, *(entry(row) for row in group)]))
    return "\n\n".join(parts)


def _library_entry(row: Mapping[str, Any]) -> str:
    number = "" if row["number"] is None else f"{row['number']} "
    same_as = f"as {' or '.join(row['same_as'])}" if row["same_as"] else ""
    needs = f"needs {row['restrictions']}" if row["restrictions"] else ""
    description = ", ".join(text for text in (same_as, needs) if text)
    return _named_lines(number + row["name"], description)


def _catalogue_entry(row: Mapping[str, Any]) -> str:
    needs = f"needs {row['restrictions']}" if row["restrictions"] else ""
    texts = [text for text in (needs, f"from {row['source']}", row["parameters"]) if text]
    head = _named_lines(str(row["name"]), str(row["cost"]))
    return "\n".join([head, *(wrap_paragraph(text, 30) for text in texts)])


def _named_lines(name: str, description: str) -> str:
    """Return a name and its description, wrapped to the terminal's width."""
    text = wrap_paragraph(f"{name:<27} {description}", 2, 30)
    return f"  {name:<27} {text.strip()[len(name) :].strip()}".rstrip()


def case_title(operation: str, name: str, options: Mapping[str, Any]) -> str:
    """Return one line that describes the simulated case."""
    text = f"{operation} {name}".strip() + f" on {options['processes']}"
    text += f" and {options['remote']} processes" if options["remote"] else " processes"
    if operation != "barrier":
        text += f", {format_size(options['bytes'])}"
    if options["distribution"] != "regular":
        text += f" as base of {options['distribution']}"
    if options["root"]:
        text += f", root {options['root']}"
    if options["parameters"]:
        text += ", " + ", ".join(options["parameters"])
    return text


def machine_text(values: Mapping[str, Any], origin: str, per_node: int) -> str:
    """Return alpha, beta and gamma as one line of text."""

    def link(alpha: float, beta: float) -> str:
        return f"alpha {format_time(alpha)}, beta {beta:.3g} ns/B"

    text = link(values["alpha"], values["beta"])
    if per_node > 1:
        text += f" between nodes; {link(values['alpha_within'], values['beta_within'])} within"
        text += f"; {per_node} processes a node" + ", which share its port" * values["node_port"]
    factors = (values.get("one_way_alpha", 1.0), values.get("one_way_beta", 1.0))
    if factors != (1.0, 1.0):
        text += f"; one way {factors[0]:g} alpha and {factors[1]:g} beta"
    return f"{text}; gamma {values['gamma']:.3g} ns/B ({origin})"


def times_text(end: float, after_last: float) -> str:
    """Return as text when the last process ends."""
    delay = f", {format_time(after_last)} after the last arrival" if after_last != end else ""
    return f"The last process ends at {format_time(end)}{delay}"


def prediction_table(prediction: AlgorithmPrediction) -> str:
    """Return the table of predicted times, with the lower bound below it."""
    bound_after = max(0.0, prediction.bound - prediction.last_arrival)
    rows = [*prediction.rows, ("lower bound", prediction.bound, bound_after)]
    columns = [
        TableColumn("algorithm", [name for name, _, _ in rows], left=True),
        TableColumn("ends at", [format_time(end) for _, end, _ in rows]),
    ]
    if prediction.last_arrival > 0:
        columns.append(TableColumn("after the last arrival", [format_time(r[2]) for r in rows]))
    bound = prediction.bound
    ratios = [f"{end / bound:.2f}" if bound > 0 else "" for _, end, _ in prediction.rows]
    columns.append(TableColumn("of the bound", [*ratios, ""]))
    text = render(*columns)
    text += "\n" + wrap_paragraph(
        "lower bound: alpha, and beta for all bytes that one process has to send or to receive"
    )
    for name, why in prediction.left_out:
        text += "\n" + wrap_paragraph(f"not applicable: {name}, which {why}")
    return text


def predictions_as_data(prediction: AlgorithmPrediction) -> dict[str, Any]:
    """Return predictions as JSON data."""
    return {
        "lower_bound_ns": prediction.bound,
        "last_arrival_ns": prediction.last_arrival,
        "algorithms": [
            {"name": name, "end_ns": end, "after_last_arrival_ns": after_last}
            for name, end, after_last in prediction.rows
        ],
        "not_applicable": [{"name": name, "why": why} for name, why in prediction.left_out],
    }


def proof_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of what was proved for each algorithm, and below it what was not proved."""
    good = [row for row in rows if not row["failure"]]
    parts = []
    if good:
        names = [row["operation"] + " between groups" * row["intercommunicator"] for row in good]
        sizes = [(row["least_bytes"], row["most_bytes"]) for row in good]
        spans = [f"{least} to {format_size(most)}" if most > 0 else "" for least, most in sizes]
        columns = [
            TableColumn("operation", names, left=True),
            TableColumn("algorithm", [row["algorithm"] for row in good], left=True),
            TableColumn(
                "processes", [format_runs(row["processes"], 10) for row in good], left=True
            ),
            TableColumn(
                "roots", [format_count(row["roots"]) if row["roots"] else "" for row in good]
            ),
            TableColumn("data", spans),
            TableColumn("problems", [format_count(row["problems"]) for row in good]),
        ]
        parts.append("Proved\n" + render(*columns))
    failures = [wrap_paragraph(row["failure"]) for row in rows if row["failure"]]
    if failures:
        parts.append("\n".join(["Not proved", *failures]))
    parts.append(wrap_paragraph(PROOF_MEANING))
    return "\n\n".join(parts)
