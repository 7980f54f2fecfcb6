"""Which leaf switch of the network each node is on, where anyone says so.

Slurm says it to every process, where it knows the network (topology/tree): the recorder keeps
`SLURM_TOPOLOGY_ADDR` (`core.leaf3.node12`) and its pattern (`switch.switch.node`). For other traces
the file `switches.txt` in the trace's folder says it, as `scontrol show topology` and Slurm's
topology.conf do: a line `SwitchName=leaf3 Nodes=node[9-16]` for each leaf switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mpiprof.errors import TraceError

FILE = "switches.txt"
MOST_NODES = 1 << 20  # in one file
_FIELD = re.compile(r"(\w+)=(\S+)")
_ENTRY = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")  # of a list of nodes: commas in [] are its own
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def switch_of(folder: Path, processes: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    """Return the leaf switch of each rank that it is known of.

    Raises TraceError for a `switches.txt` that can't be read.
    """
    file = folder / FILE
    if not file.is_file():
        found = {rank: leaf(p["address"], p["host"]) for rank, p in processes.items()}
    else:
        named = read(file)
        found = {
            rank: named.get(p["host"]) or named.get(_short(p["host"]), "")
            for rank, p in processes.items()
        }
    return {rank: switch for rank, switch in sorted(found.items()) if switch}


def leaf(address: tuple[str, str], host: str) -> str:
    """Return the leaf switch of an address as Slurm gives it (names, pattern); "" if of no use.

    An address of another host is of no use: some launchers give every process the environment of
    the first.
    """
    names, kinds = address
    switches = kinds.split(".").count("switch")
    parts = names.split(".", switches)
    if not switches or len(parts) <= switches or _short(parts[switches]) != _short(host):
        return ""
    return parts[switches - 1]


def read(file: Path) -> dict[str, str]:
    """Return the leaf switch of each host that a file names; raises TraceError."""
    found: dict[str, str] = {}
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{file}: can't be read ({error}); repair it or take it away") from error
    for number, line in enumerate(text.splitlines(), 1):
        fields = {k.lower(): v for k, v in _FIELD.findall(line.partition("#")[0])}
        if "switches" in fields or not line.partition("#")[0].strip():
            continue  # a switch of switches: its leaves have lines of their own
        try:
            switch, nodes = fields["switchname"], fields["nodes"]
            for node in _expanded(nodes, MOST_NODES - len(found)):
                found[node] = switch
        except (KeyError, ValueError) as error:
            raise TraceError(
                f"{file}: line {number} is not as in `SwitchName=leaf1 Nodes=node[1-16]`; "
                "repair it or take the file away"
            ) from error
    return found


def _expanded(nodes: str, most: int) -> Iterator[str]:
    """Yield the names of a list such as `a[1-3,08],b`; raises ValueError beyond `most` names."""
    entries = _ENTRY.findall(nodes)
    if ",".join(entries) != nodes:
        raise ValueError("a bracket is not closed")
    for entry in entries:
        for name in _names(entry):
            most -= 1
            if most < 0:
                raise ValueError("too many nodes")
            yield name


def _names(entry: str) -> Iterator[str]:
    before, bracket, rest = entry.partition("[")
    inside, _, after = rest.partition("]")
    if not bracket:
        yield entry
        return
    for part in inside.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ValueError("not a range")
        low, high = found[1], found[2] or found[1]
        for number in range(int(low), int(high) + 1):
            for end in _names(after):
                yield f"{before}{number:0{len(low)}}{end}"


def _short(host: str) -> str:
    return host.partition(".")[0]
