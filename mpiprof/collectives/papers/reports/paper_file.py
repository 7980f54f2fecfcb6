"""Reads a paper from its file, claims/NAME.json: runs, rules, exhibits and claims.

`modules` have the functions that the file names, and `lists` are values that several runs share.
A run is a function (`compute`, perhaps with `examples`), a simulated study (`study`), or the words
of a measurement (`measure`), with its approximate duration. Machines and notes are those of
machines.py. `quick` has the different options of a quick run. An exhibit is shown by a function
with its arguments, or by a view (views.py). A claim names a function (`check`), a rule with
arguments (`rule`), or has a rule itself (claim_rules.py).
"""

from __future__ import annotations

import importlib
import json
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from mpiprof.collectives import machine
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.reports import machines
from mpiprof.collectives.papers.reports.claim_rules import ClaimRule, judge_cases
from mpiprof.collectives.papers.reports.exhibits import (
    FOLDER,
    Claim,
    Content,
    Exhibit,
    Paper,
    Results,
)
from mpiprof.collectives.papers.reports.runs import Computation, Measurement, Run, Simulation
from mpiprof.collectives.papers.reports.views import show_view

Entry = Mapping[str, Any]
MACHINES: Entry = vars(machine) | vars(machines)
NO_CONTENT = Content()


def read_file(name: str) -> Entry:
    """Return the file of a paper as stored."""
    stored: Entry = json.loads((FOLDER / "claims" / f"{name}.json").read_text("utf-8"))
    return stored


def read_paper(name: str) -> Paper:
    """Return a paper."""
    stored = read_file(name)
    functions = import_functions(stored["modules"])
    lists = stored.get("lists", {})
    runs = {n: _make_run(_fill(entry, lists), functions) for n, entry in stored["runs"].items()}
    exhibits = [_make_exhibit(e, stored["rules"], functions) for e in stored["exhibits"]]
    return Paper(name, stored["citation"], stored["link"], runs, exhibits)


def import_functions(modules: Sequence[str]) -> Entry:
    """Return what the modules of a paper define, by name."""
    functions: dict[str, Any] = {}
    for module in modules:
        functions |= vars(importlib.import_module(f"{__package__}.{module}"))
    return functions


def _make_run(entry: Entry, functions: Entry) -> Run:
    names = ("seconds", "quick seconds")
    durations = {name.replace(" ", "_"): entry[name] for name in names if name in entry}
    if "compute" in entry:
        compute = functions[entry["compute"]]
        if "examples" in entry:
            compute = partial(compute, examples=entry["examples"])
        return Computation(compute, entry["description"], **durations)
    if "measure" in entry:
        words: dict[str, Any] = {
            n: tuple(entry[n].split()) for n in ("quick", "alternative") if n in entry
        }
        return Measurement(tuple(entry["measure"].split()), **words, **durations)
    full = _make_options(Options(), entry["options"])
    quick = _make_options(full, entry["quick"]) if "quick" in entry else None
    note = MACHINES.get(entry.get("note", ""), entry.get("note", ""))
    run = Simulation(entry["study"], entry["processes"], full, quick, note=note)
    algorithms, labels = tuple(entry.get("algorithms", ())), tuple(entry.get("labels", {}).items())
    simulated_machine = MACHINES[entry.get("machine", "DEFAULT")]
    return replace(run, machine=simulated_machine, algorithms=algorithms, labels=labels)


def _make_options(options: Options, entry: Entry) -> Options:
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in entry.items()}
    return replace(options, **values)


def _make_exhibit(entry: Entry, rules: Entry, functions: Entry) -> Exhibit:
    show = _make_show(entry["show"], functions) if "show" in entry else lambda _: NO_CONTENT
    claims = tuple(make_claim(claim, rules, functions) for claim in entry.get("claims", ()))
    runs, optional_runs = (tuple(entry.get(key, ())) for key in ("runs", "optional runs"))
    head = (entry["exhibit"], entry["section"], entry["shows"])
    return Exhibit(*head, runs, show, claims, optional_runs)


def _make_show(entry: Entry | Sequence[Any], functions: Entry) -> Callable[[Results], Content]:
    if not isinstance(entry, Mapping):
        return _bind(entry, functions)
    cases = _bind(entry["cases"], functions)
    return partial(show_view, view=entry, query=_make_rule(entry), make_cases=cases)


def make_claim(entry: Entry, rules: Entry, functions: Entry) -> Claim:
    """Return a claim as stored."""
    if "check" in entry:
        return Claim(entry["text"], _bind(entry["check"], functions))
    if "rule" in entry:
        title, *arguments = entry["rule"]
        parameters = rules[title].get("parameters", ())
        entry = entry | _fill(rules[title], dict(zip(parameters, arguments, strict=True)))
    make_cases = _bind(entry["cases"], functions)
    return Claim(entry["text"], partial(judge_cases, rule=_make_rule(entry), make_cases=make_cases))


def _make_rule(entry: Entry) -> ClaimRule:
    return ClaimRule(**{f.name: entry[f.name] for f in fields(ClaimRule) if f.name in entry})


def _bind(call: str | Sequence[Any], functions: Entry) -> Callable[..., Any]:
    """Return a function with its arguments, or the one that returns the rows of a run."""
    if isinstance(call, str):
        return lambda results: results.rows.get(call, [])
    function, arguments = functions[call[0]], call[1:]
    return lambda results: function(results, *arguments)


def _fill(value: Any, arguments: Entry) -> Any:
    """Return an entry in which the arguments replace the parameters, such as $size."""
    if isinstance(value, dict):
        return {key: _fill(item, arguments) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, arguments) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith("$") and value[1:] in arguments:
        return arguments[value[1:]]
    return string.Template(value).substitute(arguments)
