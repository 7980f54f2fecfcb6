"""MPICH's selection tree, for `MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE` (csel.c, 5.0).

A node's keys are tried in order: `comm_size<=8`, `total_msg_size<=4096`, `is_commutative=yes`,
`comm_size=any`. A leaf is `algorithm=MPIR_<Operation>_intra_<name>`. The tree must be complete: an
unknown name, or a call without a branch, ends the job. So the tree is the library's own, which is
compiled into the library as text, with branches for single communicator sizes inserted first.

The library descends a tree twice. When a communicator is created, it evaluates the conditions on
the communicator; at each call, it evaluates the rest. At a call, `comm_size<8` is true for 8 as
well. So no `comm_size` may be below a choice by bytes. For one size, all such conditions can be
evaluated here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpiprof.collectives.tune.export_rules.cells import NO_END, Cell, RefusedError
from mpiprof.errors import MpiprofError
from mpiprof.facts.operations import OPERATIONS

Tree = dict[str, Any]
MAX_BYTES = (1 << 31) - 2  # bytes; thresholds are of type int
# Measure of a choice by bytes, and whether it is a plan's bytes times the processes.
MEASURES = {
    "allgather": ("total_msg_size", True),
    "allgatherv": ("total_msg_size", False),
    "alltoall": ("avg_msg_size", False),
    "alltoallv": ("", False),
    "reduce_scatter": ("total_msg_size", False),
    "reduce_scatter_block": ("total_msg_size", True),
}
SPLIT_BY_NODES = (
    "MPICH splits this operation by nodes before it reads the tree, so the rules would apply to "
    "the parts, with other numbers of processes"
)
UNSUPPORTED = dict.fromkeys(("allreduce", "barrier", "bcast", "reduce"), SPLIT_BY_NODES)
UNSUPPORTED |= dict.fromkeys(
    ("gather", "gatherv", "scatter", "scatterv"), "MPICH always uses the same algorithm"
)
WITHOUT_PARAMETERS = ("k_brucks", "recexch_doubling", "recexch_halving", "noncommutative")
TREE_BEGIN = b'{"collective='


def read_compiled_tree(library: Path) -> Tree:
    """Return the tree that is compiled into a library; raises MpiprofError if there is none."""
    content = library.read_bytes()
    for match in re.finditer(re.escape(TREE_BEGIN), content):
        text = content[match.start() : content.index(b"\0", match.start())]
        if b'"algorithm=MPIR_Allgather_intra_' in text:
            tree: Tree = json.loads(text)
            if all(f"collective={name}" in tree for name in MEASURES):
                return tree
    fact = f"{library} has no readable tree of algorithms"
    raise MpiprofError(f"{fact}, so no rules can be exported to it")


def check_cell(names: bytes, cell: Cell) -> None:
    """Raise RefusedError if a tree cannot express a cell; names: content of the library."""
    if cell.operation in UNSUPPORTED:
        raise RefusedError(UNSUPPORTED[cell.operation])
    if f"\0{_leaf_name(cell)}\0".encode() not in names:
        raise RefusedError(f"this MPICH has no {_leaf_name(cell)}")
    if cell.algorithm.name in WITHOUT_PARAMETERS or "in_place" in cell.algorithm.requirements:
        fact = "requires more parameters than a plan contains"
        raise RefusedError(f"{cell.algorithm.name} {fact}")
    first, last = _counted_span(cell)
    if first > MAX_BYTES or MAX_BYTES < last < NO_END:
        raise RefusedError(f"MPICH cannot distinguish sizes above {MAX_BYTES} bytes")


def _leaf_name(cell: Cell) -> str:
    return f"algorithm=MPIR_{cell.operation.capitalize()}_intra_{cell.algorithm.name}"


def _counted_span(cell: Cell) -> tuple[int, int]:
    """Return a cell's byte range as the library counts it, with NO_END for an open end."""
    times = cell.size if MEASURES[cell.operation][1] else 1
    return cell.first * times, NO_END if cell.last == NO_END else cell.last * times


# ---- writing


def merge_cells(tree: Tree, cells: Sequence[Cell]) -> Tree:
    """Return a tree that obeys the cells, and elsewhere selects as before."""
    by_operation: dict[str, dict[int, list[Cell]]] = {}
    for cell in cells:
        by_operation.setdefault(cell.operation, {}).setdefault(cell.size, []).append(cell)
    merged = dict(tree)
    for operation, sizes in by_operation.items():
        branches = tree[f"collective={operation}"]
        intra = branches["comm_type=intra"]
        before: Tree = {}
        for size in sorted(sizes):
            before.setdefault(f"comm_size<={size - 1}", intra)
            before[f"comm_size<={size}"] = _size_branches(resolve_size(intra, size), sizes[size])
        changed = before | {"comm_size=any": intra}
        merged[f"collective={operation}"] = branches | {"comm_type=intra": changed}
    return merged


def _size_branches(intra: Tree, cells: Sequence[Cell]) -> Tree:
    measure, _ = MEASURES[cells[0].operation]
    if not measure:
        return _guard_algorithm(cells[0], intra)
    branches: Tree = {}
    for cell in cells:
        first, last = _counted_span(cell)
        if first:
            branches.setdefault(f"{measure}<={first - 1}", intra)
        key = f"{measure}=any" if last == NO_END else f"{measure}<={last}"
        branches[key] = _guard_algorithm(cell, intra)
    branches.setdefault(f"{measure}=any", intra)
    return branches


def _guard_algorithm(cell: Cell, intra: Tree) -> Tree:
    """Return an algorithm behind branches that check its requirements."""
    leaf: Tree = {_leaf_name(cell): {}}
    if "commutes" in cell.algorithm.requirements:
        return {"is_commutative=yes": leaf, "is_commutative=no": intra}
    if "not_in_place" in cell.algorithm.requirements:
        return {"is_sendbuf_inplace=yes": intra, "is_sendbuf_inplace=no": leaf}
    return leaf


def resolve_size(tree: Tree, size: int, *, at_call: bool = False) -> Tree:
    """Return a tree for one size, without conditions on it; at_call: below a condition at calls."""
    resolved: Tree = {}
    for key, below in tree.items():
        holds = _evaluate_size(key, size, at_call=at_call)
        if holds is None:
            resolved[key] = resolve_size(below, size, at_call=True)
        elif holds:
            # Earlier keys stay, because they are tried first. Later keys are never reached.
            subtree = resolve_size(below, size, at_call=at_call)
            return resolved | {"comm_size=any": subtree} if resolved else subtree
    return resolved


def _evaluate_size(key: str, size: int, *, at_call: bool) -> bool | None:
    """Evaluate a condition on the communicator's size; returns None for other conditions."""
    if key in ("comm_size=any", "comm_size=pow2"):
        return key.endswith("any") or size & (size - 1) == 0
    match = re.fullmatch(r"comm_size<(=?)([0-9]+)", key)
    if match is None:
        return None
    return size <= int(match[2]) if match[1] or at_call else size < int(match[2])


# ---- reading the tree as the library does


@dataclass(frozen=True)
class TreeCall:
    """A call as the tree sees it; count: bytes as a plan counts them."""

    operation: str
    size: int
    count: int
    in_place: bool = False
    commutes: bool = True


def find_leaf(tree: Tree, call: TreeCall) -> str:
    """Return the leaf for a call; raises MpiprofError if the library would end the job."""
    node: Tree = tree[f"collective={call.operation}"]
    at_call = False
    while True:
        for key, below in node.items():
            if key.startswith("algorithm="):
                return key
            if not at_call and not key.startswith("comm_"):
                at_call = True  # the communicator alone does not decide further
                break
            if _is_met(key, call, at_call=at_call):
                node = below
                break
        else:
            raise MpiprofError(f"no branch for {call}")


def _is_met(key: str, call: TreeCall, *, at_call: bool) -> bool:
    of_size = _evaluate_size(key, call.size, at_call=at_call)
    if of_size is not None or key.endswith("=any"):
        return of_size is not False
    name, sign, value = re.fullmatch(r"(\w+)(<=|<|=)(\w+)", key).groups()  # type: ignore[union-attr]
    if sign == "=":
        if name == "comm_type":
            return bool(value == "intra")
        facts = {"is_commutative": call.commutes, "is_sendbuf_inplace": call.in_place}
        facts["is_block_regular"] = True
        if name not in facts:
            raise MpiprofError(f"{key} is not known")
        return facts[name] == (value == "yes")
    if name != MEASURES[call.operation][0]:
        raise MpiprofError(f"{key} does not apply to {call.operation}")
    count = call.count * (call.size if MEASURES[call.operation][1] else 1)
    return count <= int(value) if sign == "<=" else count < int(value)


def find_differences(tree: Tree, changed: Tree, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield each call for which the changed tree disobeys the cells, or else the old tree."""
    for key in {*tree, *changed}:
        if key.removeprefix("collective=") not in MEASURES and tree.get(key) != changed.get(key):
            yield key
    for operation, (_, times) in MEASURES.items():
        key = f"collective={operation}"
        if tree[key].get("comm_type=inter") != changed[key].get("comm_type=inter"):
            yield f"{operation} on inter-communicators"
        operation_cells = [cell for cell in cells if cell.operation == operation]
        near = {7, 8, 9, *(c.size + step for c in operation_cells for step in (-1, 0, 1))}
        for size in sorted(near - {0, 1}):
            for count in _edge_counts(tree[key], operation_cells, size if times else 1):
                for in_place, commutes in ((False, True), (True, True), (False, False)):
                    call = TreeCall(operation, size, count, in_place, commutes)
                    if find_leaf(changed, call) != _expected_leaf(tree, operation_cells, call):
                        yield str(call)


def _expected_leaf(tree: Tree, cells: Sequence[Cell], call: TreeCall) -> str:
    for cell in cells:
        if cell.size == call.size and cell.covers(call.count):
            if call.in_place and "not_in_place" in cell.algorithm.requirements:
                break
            if not call.commutes and "commutes" in cell.algorithm.requirements:
                break
            return _leaf_name(cell)
    return find_leaf(tree, call)


def _edge_counts(tree: Tree, cells: Sequence[Cell], times: int) -> list[int]:
    """Return byte counts, in a plan's measure, near the ends of cells and of the tree's ranges."""
    if cells and not OPERATIONS[cells[0].operation].sized:
        return [0]
    ends = {0, *(end for cell in cells for end in (cell.first, cell.last) if end < NO_END)}
    ends |= {int(n) // times for n in re.findall(r"msg_size<=?([0-9]+)", json.dumps(tree))}
    return sorted({max(0, end + step) for end in ends for step in (-1, 0, 1)})
