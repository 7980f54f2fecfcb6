"""The leaf switch of each node in the network, if known.

Slurm sets it in every process's environment if it knows the network (topology/tree). The recorder
stores `SLURM_TOPOLOGY_ADDR` (`core.leaf3.node12`) and its pattern (`switch.switch.node`). For other
traces the user may write `switches.txt` in the trace's folder, in the format of `scontrol show
topology` and Slurm's topology.conf. It has a line `SwitchName=leaf3 Nodes=node[9-16]` for each leaf
switch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from mpiprof.errors import TraceError
from mpiprof.interface.untrusted_files import read_file
from mpiprof.interface.untrusted_text import decode_text

FILE = "switches.txt"
MAX_NODES = 1 << 20  # in one file
_FIELD = re.compile(r"(\w+)=(\S+)")
_ENTRY = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")  # of a node list; commas in [] do not separate
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def find_switches(folder: Path, processes: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    """Return each rank's leaf switch, if known; TraceError if `switches.txt` is unreadable."""
    file = folder / FILE
    if os.path.lexists(file):
        named = read(file)
        hosts = {rank: p["host"] for rank, p in processes.items()}
        switches = {r: named.get(h) or named.get(_short_host_name(h)) for r, h in hosts.items()}
    else:
        switches = {rank: leaf_switch(p["address"], p["host"]) for rank, p in processes.items()}
    return {rank: switch for rank, switch in sorted(switches.items()) if switch}


def leaf_switch(address: tuple[str, str], host: str) -> str:
    """Return the leaf switch of a Slurm address (names, pattern), or "" if it is unusable."""
    names, kinds = address
    switches = kinds.split(".").count("switch")
    parts = names.split(".", switches)
    usable = 0 < switches < len(parts)
    # Some launchers copy the first process's environment, with its address, to every process.
    if usable and _short_host_name(parts[switches]) == _short_host_name(host):
        return parts[switches - 1]
    return ""


def read(file: Path) -> dict[str, str]:
    """Return the leaf switch of each host in a file; raises TraceError."""
    switches: dict[str, str] = {}
    try:
        text = decode_text(read_file(file))
    except OSError as error:
        raise TraceError(f"{file}: cannot be read: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), 1):
        fields = {k.lower(): v for k, v in _FIELD.findall(line.partition("#")[0])}
        if "switches" in fields or not line.partition("#")[0].strip():
            continue  # a switch above other switches; its leaves have separate lines
        try:
            switch, nodes = fields["switchname"], fields["nodes"]
            for node in _expand_nodes(nodes, MAX_NODES - len(switches)):
                switches[node] = switch
        except (KeyError, ValueError) as error:
            form = "`SwitchName=leaf1 Nodes=node[1-16]`: repair the line, or remove the file"
            raise TraceError(f"{file}: line {number} is not of the form {form}") from error
    return switches


def _expand_nodes(nodes: str, most: int) -> Iterator[str]:
    """Yield the names of a list such as `a[1-3,08],b`; raises ValueError beyond `most` names."""
    entries = _ENTRY.findall(nodes)
    if ",".join(entries) != nodes:
        raise ValueError("a bracket is not closed")
    for count, name in enumerate(chain.from_iterable(map(_expand_entry, entries))):
        if count >= most:
            raise ValueError("too many nodes")
        yield name


def _expand_entry(entry: str) -> Iterator[str]:
    before, bracket, ending = entry.partition("[")
    inside, _, after = ending.partition("]")
    if not bracket:
        yield entry
        return
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError("not a range")
        low, high = match[1], match[2] or match[1]
        for number in range(int(low), int(high) + 1):
            for end in _expand_entry(after):
                yield f"{before}{number:0{len(low)}}{end}"


def _short_host_name(host: str) -> str:
    return host.partition(".")[0]
