"""Conditions of a study: processors, computation, message times and repetitions.

Every study states them in this one form: before its table, on its page and in its JSON file.
"""

from __future__ import annotations

from pathlib import Path

from mpiprof.collectives.machine import Machine
from mpiprof.collectives.papers.harness.intervals import FEWEST_VALUES
from mpiprof.collectives.papers.harness.study import Setup
from mpiprof.interface.format_units import format_link, format_size

TIMER = "a timer, because ranks share processors"
ARITHMETIC = "arithmetic, equal on all ranks"


def list_conditions(setup: Setup) -> dict[str, str]:
    """Return the conditions of a study by name."""
    processes = f"{setup.ranks}, simulated"
    if not setup.simulated:
        processes = str(setup.processors or f"{setup.ranks} ranks")
    return {
        "processes": processes,
        "computation": setup.computation,
        "message times": _describe_times(setup),
        "repetitions": _describe_repetitions(setup),
    }


def list_table_conditions(table: Path) -> dict[str, str]:
    """Return the conditions of times that another study has measured."""
    return {"times of calls": f"measured, from {table}, whose JSON file states the conditions"}


def _describe_times(setup: Setup) -> str:
    if setup.simulated:
        source = f", {setup.times_source}" if setup.times_source else ""
        return describe_machine(setup.machine, setup.per_node) + source
    if setup.times_source:
        return setup.times_source
    if setup.fault:
        return f"refused, {setup.fault}; {setup.message_times_text} assumed"
    file = setup.options.machine
    source = f"from {file}" if file else "measured on these ranks"
    if setup.options.is_calibrated:
        source = "measured by `calibrate` on these ranks"
    return f"{setup.message_times_text}, {source}"


def _describe_repetitions(setup: Setup) -> str:
    if setup.simulated:
        patterns = f"{setup.laps} patterns" if setup.laps > 1 else "none"
        return f"{patterns}, because simulated times are exact"
    few = f"; an interval of 95 % needs {FEWEST_VALUES}" * (setup.laps < FEWEST_VALUES)
    return f"{setup.laps} of each case{few}"


def describe_transport(machine: Machine) -> str:
    """Return how a machine's network carries messages, in words."""
    eager = "no eager messages"
    if machine.eager_limit >= 0:
        eager = f"eager up to {format_size(machine.eager_limit)}"
    window = f"windows of {format_size(machine.window)}" if machine.window else "no windows"
    eager += ", buffered" * machine.buffered
    text = f"{eager}, {window}, copies at {machine.copy:.3g} ns a byte"
    share = machine.latency_share
    text += f", {share:.0%} of the start-up in the network" * (share > 0)
    text += f", {machine.port_beta:.3g} ns a byte at a port" * (machine.port_beta > 0)
    if machine.burst > 0:
        first = f"{format_size(round(machine.burst))} at once"
        text += f", {first} after an idle time at {machine.burst_beta:.3g} ns a byte"
    longer = f", up to {machine.contention:.0%} longer where senders meet"
    return text + longer * (machine.contention > 0)


def describe_machine(machine: Machine, per_node: int) -> str:
    """Return the message times of a simulation in words."""
    text = f"simulated with {format_link(machine.alpha, machine.beta)} a message"
    if machine.distinguishes_ways:
        text += f", {machine.one_way_alpha:g} and {machine.one_way_beta:g} times that one way"
    if machine.has_transport:
        text += f", {describe_transport(machine)}"
    if per_node == 1:
        return text
    within = format_link(machine.alpha_within, machine.beta_within)
    port = ", which share its port" * machine.node_port
    return f"{text}, {within} within nodes of {per_node} processes{port}"
