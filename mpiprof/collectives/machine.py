"""A machine for the simulator: alpha, beta and gamma, and how its network carries messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.errors import UsageError
from mpiprof.interface.shell_hints import format_command
from mpiprof.interface.untrusted_files import read_named_json

Numbers = NDArray[np.int64]
Times = NDArray[np.float64]
FindFault = Callable[[Any], str]  # trace.machine.find_fault, which this layer cannot import


@dataclass(frozen=True)
class Machine:
    """A message of n bytes takes alpha + n beta, and a reduction of n bytes n gamma; all in ns.

    A message that goes one way takes one_way_alpha * alpha + n * one_way_beta * beta. Its sender
    receives nothing at the same time, and its receiver sends nothing. (Rabenseifner and Adamidis
    2004, Section 3.1: f_alpha and f_beta, from 0.5 on a simplex network to 1 on a full-duplex one.)
    """

    alpha: float = 2000.0
    beta: float = 0.1
    gamma: float = 0.1
    alpha_within: float = 2000.0
    beta_within: float = 0.1
    node_port: bool = False  # all processes of a node share one full-duplex port to other nodes
    one_way_alpha: float = 1.0
    one_way_beta: float = 1.0
    # The transport, of which model/flow_simulator.py is the model. Without it, a message waits for
    # its receive and for both ports (model/simulate.py).
    eager_limit: int = -1  # bytes of the longest message that leaves before its receive is posted
    window: int = 0  # bytes of a message that may be under way, or 0 without a limit
    copy: float = 0.0  # ns per byte of a message that comes before its receive is posted
    latency_share: float = 0.0  # of alpha, in which a message occupies no port
    buffered: bool = False  # an eager send ends when copied, if the window has room for it
    port_beta: float = 0.0  # ns per byte that a message occupies a port; 0 for beta
    contention: float = 0.0  # bytes take up to so much longer at a port where senders meet
    burst: float = 0.0  # bytes that a port sends in burst_beta ns each after an idle time
    burst_beta: float = 0.0  # at most beta

    @property
    def has_transport(self) -> bool:
        """True if messages are eager, or share ports."""
        return self.eager_limit >= 0 or self.window > 0

    def without_transport(self) -> Machine:
        """Return the machine of the plain model."""
        plain: dict[str, Any] = {name: getattr(DEFAULT, name) for name in TRANSPORT}
        return replace(self, **plain)

    @property
    def distinguishes_ways(self) -> bool:
        """Return whether messages that go one way take another time."""
        return (self.one_way_alpha, self.one_way_beta) != (1.0, 1.0)

    def message_times(
        self, lengths: Numbers, between: NDArray[np.bool_], one_way: NDArray[np.bool_] | None = None
    ) -> Times:
        """Return the times of messages; masks mark messages between nodes, and messages one way."""
        alpha = np.where(between, self.alpha, self.alpha_within)
        beta = np.where(between, self.beta, self.beta_within)
        if one_way is not None:
            alpha = np.where(one_way, self.one_way_alpha * alpha, alpha)
            beta = np.where(one_way, self.one_way_beta * beta, beta)
        return np.asarray(alpha + lengths * beta)

    def message_time(self, length: int, *, between: bool, one_way: bool) -> float:
        """Return the time of one message, equal to `message_times`."""
        alpha, beta = self.message_costs(between=between, one_way=one_way)
        return alpha + length * beta

    def message_costs(self, *, between: bool, one_way: bool) -> tuple[float, float]:
        """Return alpha and beta of a message."""
        alpha, beta = self.alpha, self.beta
        if not between:
            alpha, beta = self.alpha_within, self.beta_within
        if one_way:
            alpha, beta = self.one_way_alpha * alpha, self.one_way_beta * beta
        return alpha, beta


# Fields of the transport.
TRANSPORT = (
    *("eager_limit", "window", "copy", "latency_share", "buffered", "port_beta", "contention"),
    *("burst", "burst_beta"),
)
# Contention of a measured network, which `calibrate` does not measure. It was chosen from 0, 0.1,
# 0.25, 0.4, 0.5, 0.75 and 1 by two runs on an emulated cluster of 8 nodes
# (docs/results/simulator.md).
CONTENTION = 0.5
# Machine without measurements: a cluster with a fast network.
DEFAULT = Machine()
# The same with several processes per node; memory is assumed to be faster than the network.
WITH_FAST_MEMORY = replace(DEFAULT, alpha_within=500.0, beta_within=0.05)


def scale_machine(machine: Machine, factor: float) -> Machine:
    """Return a machine on which everything takes `factor` times as long."""
    times = ["alpha", "beta", "gamma", "alpha_within", "beta_within"]
    times += ["copy", "port_beta", "burst_beta"]
    return replace(machine, **{name: factor * getattr(machine, name) for name in times})


def from_options(
    path: Path | None, per_node: int, find_fault: FindFault, *, node_port: bool
) -> Machine:
    """Return the machine of --machine, --per-node and --node-port; without a file, a default."""
    usual = WITH_FAST_MEMORY if per_node > 1 else DEFAULT
    machine = usual if path is None else read(path, find_fault)
    return replace(machine, node_port=node_port)


def read(path: Path, find_fault: FindFault) -> Machine:
    """Return the machine that `calibrate -o FILE` measured; raises UsageError."""
    return machine_of_table(read_table(path, find_fault), str(path))


def read_table(path: Path, find_fault: FindFault) -> dict[str, Any]:
    """Return the table that `calibrate -o FILE` has written; raises UsageError."""
    try:
        table = read_named_json(path)
    except FileNotFoundError:
        line = format_command("calibrate", "-o", path, ranks=4)
        raise UsageError(f"{path}: no such file; `{line}` makes it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} cannot be read as a machine table: {error}") from None
    why = find_fault(table)
    if why:
        line = format_command("calibrate", "-o", path, ranks=4)
        raise UsageError(f"{path}: its message times are not usable, {why}: repeat `{line}`")
    machine_of_table(table, str(path))
    return dict(table)


def machine_of_table(table: Any, name: str) -> Machine:
    """Return the machine of a table, such as a trace's; raises UsageError with the given name."""
    if not isinstance(table, dict):
        fact = f"{name} contains no message times, so times of algorithms cannot be estimated"
        raise UsageError(f"{fact}: measure message times with `calibrate -o FILE`")
    links = [_check_link(table, name) for name in ("between", "within")]
    # If the ranks had no such link, the other link replaces it.
    between, within = links[0] or links[1], links[1] or links[0]
    gamma = table.get("gamma_sum_ns_per_byte") or 0.0
    if between is None or within is None or not isinstance(gamma, int | float):
        remedy = "make a machine table with `calibrate -o FILE`"
        raise UsageError(f"{name} has no alpha and beta: {remedy}")
    transport = _read_transport(table, name)
    if transport and links[0]:
        transport |= _read_burst(table["between"], name) | {"contention": CONTENTION}
    transport |= {f: _check_factor(table, f, name) for f in ("one_way_alpha", "one_way_beta")}
    return replace(Machine(*between, float(gamma), *within), **transport)


def _check_factor(table: dict[str, Any], factor: str, name: str) -> float:
    """Return the cost of a message one way over that both ways, 1 if the table has none."""
    value = table.get(factor, 1.0)
    if not isinstance(value, int | float) or not 0 < value <= 1:
        raise UsageError(f"{name}: {factor} is {value!r}: write a number above 0, at most 1")
    return float(value)


def _read_transport(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the fields of Machine that a table's transport has; {} if it has none."""
    transport = table.get("transport")
    if not transport:
        return {}
    try:
        return {
            "eager_limit": int(transport["eager_limit"]),
            "window": int(transport["window"]),
            "copy": float(transport["copy_ns_per_byte"]),
            "buffered": bool(transport["buffered"]),
        }
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{name} has a damaged transport: measure it again") from None


def _check_link(table: dict[str, Any], name: str) -> tuple[float, float] | None:
    link = table.get(name)
    try:
        return (float(link["alpha_ns"]), find_pace(link)) if link else None
    except (KeyError, TypeError, ValueError):
        return None


def find_pace(link: Mapping[str, Any]) -> float:
    """Return the ns per byte of messages on a link that follow each other.

    It exceeds the time per byte of one short message if a port sends its first bytes at once after
    an idle time. Raises KeyError, TypeError or ValueError if the link is damaged.
    """
    beta = float(link["beta_ns_per_byte"])
    return max(beta, float(link.get("pace_ns_per_byte") or 0.0))


def _read_burst(link: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the fields of Machine for the bytes that a port sends at once after an idle time."""
    try:
        burst, beta = float(link.get("buffer_bytes") or 0.0), float(link["beta_ns_per_byte"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{name} has a damaged link: measure it again") from None
    return {"burst": burst, "burst_beta": beta} if find_pace(link) > beta else {}
