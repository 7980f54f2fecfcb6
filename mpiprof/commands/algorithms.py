"""List the algorithms, draw their schedules, and predict their times.

  python -m mpiprof algorithms [OPERATION [NAME]] [--json]
  python -m mpiprof algorithms OPERATION NAME -p 8 --draw [-o FILE.html]
  python -m mpiprof algorithms OPERATION [NAME] -p 5772 --bytes 64K --simulate
  python -m mpiprof algorithms [OPERATION [NAME]] --prove [-p 64]

The list also has the algorithms of Open MPI and MPICH, with the library's numbers and names, and
the equivalent algorithm of mpiprof if there is one.

--bytes is the message of a bcast, the vector of a reduction, and the block of a rank in all other
operations (to each other rank in an alltoall). With a distribution, --bytes is its base. Sizes may
end in K, M or G, times end in ns, us, ms or s. --arrivals 0,0,5ms is a list by rank, and --arrivals
7=5ms sets one rank. All other ranks arrive at 0. With -q the operation runs on an
inter-communicator, and the arrivals of the remote group follow those of the local group.
Predictions include contention only at the ports of processes. --prove checks that a schedule
implements its operation on 1 to 33 processes, or on P processes. The exit code is 1 if a schedule
fails the check.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from mpiprof.errors import UsageError
from mpiprof.interface.output_files import write_text
from mpiprof.interface.parse_units import (
    parse_arrivals,
    parse_parameters,
    parse_positive,
    parse_size,
)
from mpiprof.interface.progress import show_progress, show_work
from mpiprof.interface.shell_hints import format_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpiprof.collectives.catalogue import Algorithm
    from mpiprof.collectives.machine import Machine
    from mpiprof.collectives.problem_spec import ProblemSpec
    from mpiprof.collectives.simulate import Timing

TEXT_LIMIT, PAGE_LIMIT = 64, 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    add("operation", nargs="?", metavar="OPERATION", help="such as allgatherv")
    add("name", nargs="?", metavar="NAME", help="such as pipelined_ring")
    add("--json", action="store_true", help="print JSON")
    add("--draw", action="store_true", help="a space-time diagram")
    add("--simulate", action="store_true", help="print predicted times, fastest first")
    add("--prove", action="store_true", help="verify the schedules symbolically")
    add("-p", dest="processes", type=parse_positive, metavar="P", help="number of processes")
    remote = "number of processes of the remote group, on an inter-communicator"
    add("-q", dest="remote", type=parse_positive, default=0, metavar="Q", help=remote)
    add("--bytes", type=parse_size, default=65536, metavar="SIZE", help="bytes of data (64K)")
    add("--root", type=int, default=0, metavar="R", help="rank of the root (0)")
    sizes = "sizes in a v-form: regular, broadcast, spike, half_full, decreasing or geometric"
    add("--distribution", default="regular", metavar="D", help=sizes)
    add("--arrivals", default="0", metavar="LIST", help="when processes arrive")
    parameters = "parameters of the algorithm, such as block_size=64K,order=spread"
    add("--parameters", action="append", default=[], metavar="NAME=VALUE", help=parameters)
    table = "machine table (alpha, beta, gamma) that `calibrate` wrote"
    add("--machine", type=Path, metavar="FILE", help=table)
    add("--per-node", type=parse_positive, default=1, metavar="N", help="N processes per node (1)")
    add("--node-port", action="store_true", help="all processes of a node share one network port")
    add("-o", dest="output", type=Path, metavar="FILE.html", help="write the drawing to a file")


def run(args: argparse.Namespace) -> int:
    """Print the catalogue, a diagram or predictions."""
    from mpiprof.collectives import problem_spec
    from mpiprof.reports import algorithm_tables

    chosen = problem_spec.list_algorithms(args.operation or "")
    if args.name:
        chosen = problem_spec.find_named(args.operation, args.name)
    if args.prove:
        return print_proofs(args, chosen)
    if args.draw or args.output:
        print_diagram(args)
        return 0
    if args.simulate or args.processes:
        print_predictions(args)
        return 0
    rows = [problem_spec.catalogue_row(a) for a in chosen]
    for operation in [] if args.name else dict.fromkeys(a.operation for a in chosen):
        rows += problem_spec.library_rows(operation)
    if args.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        operation = args.operation or "allgatherv"
        print(algorithm_tables.catalogue_text(rows))
        arguments = (operation, "-p", 64, "--bytes", "64K", "--simulate")
        print(f"\nnext: {format_command('algorithms', *arguments)}")
    return 0


def print_proofs(args: argparse.Namespace, chosen: Sequence[Algorithm]) -> int:
    """Print what is proved for some algorithms; returns 1 if a proof fails, otherwise 0."""
    from mpiprof.collectives.catalogue import applies_to_size
    from mpiprof.collectives.proofs import PROVED_SIZES, prove
    from mpiprof.reports import algorithm_tables

    if args.draw or args.simulate or args.output:
        raise UsageError("--prove accepts only an operation, a name, -p and --json")
    sizes = PROVED_SIZES if args.processes is None else (args.processes,)
    fitting = [a for a in chosen if any(applies_to_size(a, n) for n in sizes)]
    if not fitting:
        raise UsageError(f"-p {args.processes}: the algorithm requires {chosen[0].restrictions}")
    proofs = []
    with show_progress("proving", len(fitting)) as step:
        for a in fitting:
            proofs.append(prove(a, sizes))
            step(1)
    rows = [proof.as_row() for proof in proofs]
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        print(algorithm_tables.proof_table(rows))
        first = proofs[0].algorithm
        line = format_command("algorithms", first.operation, first.name, "-p", 8, "--draw")
        print(f"\nnext: {line}")
    return int(any(proof.failure for proof in proofs))


def problem_from_options(args: argparse.Namespace) -> tuple[ProblemSpec, list[float], list[int]]:
    """Return the problem that the options describe, the arrivals and the nodes."""
    from mpiprof.collectives import machine
    from mpiprof.collectives.problem_spec import ProblemSpec, assign_nodes
    from mpiprof.trace.machine import find_fault

    if args.operation is None:
        raise UsageError("name an operation: `algorithms allgatherv -p 64 --simulate`")
    if args.processes is None:
        raise UsageError("-p is missing: pass the number of processes")
    per_node, port = args.per_node, args.node_port
    machine_table = machine.from_options(args.machine, per_node, find_fault, node_port=port)
    nodes = assign_nodes(args.processes, args.remote, per_node)
    sizes = (args.processes, args.remote, args.bytes)
    shared_nodes = tuple(nodes) if per_node > 1 else ()
    spec = ProblemSpec(*sizes, args.root, args.distribution, shared_nodes, machine_table)
    return spec, parse_arrivals(args.arrivals, args.processes + args.remote), nodes


def print_predictions(args: argparse.Namespace) -> None:
    """Print predictions for all algorithms, or for the named algorithm."""
    from mpiprof.collectives import problem_spec
    from mpiprof.collectives.simulate import lower_bound
    from mpiprof.reports import algorithm_tables

    spec, begin, nodes = problem_from_options(args)
    groups = bool(args.remote)
    if args.name:
        algorithms = [problem_spec.find_algorithm(args.operation, args.name, groups=groups)]
    else:
        candidates = problem_spec.list_algorithms(args.operation)
        algorithms = [a for a in candidates if a.intercommunicator == groups]
    if not algorithms:
        option = "without -q" if groups else "with -q"
        raise UsageError(f"{args.operation} has algorithms {option} only")
    problem = problem_spec.make_problem(args.operation, spec)
    rows, left_out = [], []
    for a in algorithms:
        with show_work(f"simulating {a.name}"):
            timing = simulate_if_applicable(args, a, spec, begin, nodes)
        if isinstance(timing, str):
            left_out.append((a.name, timing))
        else:
            rows.append((a.name, float(timing.finish.max()), timing.after_last))
    rows.sort(key=lambda row: row[1])
    bound = lower_bound(args.operation, problem, spec.machine, begin)
    result = algorithm_tables.AlgorithmPrediction(rows, left_out, bound, max(begin))
    if args.json:
        print(json.dumps(algorithm_tables.predictions_as_data(result), indent=1))
        return
    title = algorithm_tables.case_title(args.operation, "", vars(args))
    print(f"{title}\n  {describe_machine(args, spec.machine)}\n")
    print(algorithm_tables.prediction_table(result))
    if rows:
        size = min(8, args.processes)
        arguments = [args.operation, rows[0][0], "-p", size]
        arguments += ["-q", min(4, args.remote)] if groups else []
        print(f"\nnext: {format_command('algorithms', *arguments, '--draw')}")


def simulate_if_applicable(
    args: argparse.Namespace, a: Algorithm, spec: ProblemSpec, begin: list[float], nodes: list[int]
) -> Timing | str:
    """Return an algorithm's times, and messages if it is drawn, or why it does not apply."""
    from mpiprof.collectives import problem_spec
    from mpiprof.collectives.round_simulator import applies_to
    from mpiprof.collectives.simulate import simulate

    problem = problem_spec.make_problem(a.operation, spec)
    parameters = parse_parameters(args.parameters)
    if not args.name:  # each algorithm gets only the parameters that it has
        parameters = problem_spec.select_parameters(a, parameters)
    problem = problem_spec.set_parameters(a, problem, parameters)
    if not applies_to(a, problem):
        return f"requires {a.restrictions or 'another problem'}"
    draws = bool(args.draw or args.output)
    return simulate(a, problem, spec.machine, begin, nodes, trace=draws)


def print_diagram(args: argparse.Namespace) -> None:
    """Print a diagram, or write it into a file."""
    from mpiprof.collectives import draw, problem_spec
    from mpiprof.reports import algorithm_tables
    from mpiprof.reports.table import terminal_width

    spec, begin, nodes = problem_from_options(args)
    if args.name is None:
        raise UsageError(f"name an algorithm to draw; `algorithms {args.operation}` lists them")
    count, limit = len(nodes), PAGE_LIMIT if args.output else TEXT_LIMIT
    if count > limit:
        hint = "" if args.output else "; with -o FILE.html up to " + str(PAGE_LIMIT)
        raise UsageError(f"-p {count}: a drawing shows at most {limit} processes{hint}")
    a = problem_spec.find_algorithm(args.operation, args.name, groups=bool(args.remote))
    timing = simulate_if_applicable(args, a, spec, begin, nodes)
    if isinstance(timing, str):
        raise UsageError(f"{args.operation} {args.name} {timing}")
    names = draw.name_processes(args.processes, args.remote)
    title = algorithm_tables.case_title(args.operation, args.name, vars(args))
    machine = describe_machine(args, spec.machine)
    times = algorithm_tables.times_text(timing.finish.max(), timing.after_last)
    if args.output is None:
        print(f"{title}\n  {machine}\n  {times}\n")
        print(draw.draw_text(timing, names, terminal_width()))
        groups = ["-q", args.remote] if args.remote else []
        arguments = [args.operation, "-p", args.processes, *groups, "--simulate"]
        print(f"\nnext: {format_command('algorithms', *arguments)}")
        return
    facts = [machine, times, f"Cost: {a.cost}. Source: {a.source}."]
    write_text(args.output, draw.draw_page(timing, names, title, facts))
    print(f"{args.output}: {title}; {times}\nnext: open it in a browser")


def describe_machine(args: argparse.Namespace, machine: Machine) -> str:
    """Return a description of the assumed machine parameters."""
    from mpiprof.reports import algorithm_tables

    origin = "assumed values: measure this machine with `calibrate`"
    if args.machine:
        origin = f"from {args.machine}"
    return algorithm_tables.machine_text(vars(machine), origin, args.per_node)
