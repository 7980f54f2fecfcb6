"""Reads and checks --switch for `run`, and reports unusable entries of its plans."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from mpiprof.errors import UsageError
from mpiprof.interface import elf
from mpiprof.launch import library
from mpiprof.launch.job import find_rank, find_rank_count
from mpiprof.launch.library import Mpi
from mpiprof.launch.program import Program

if TYPE_CHECKING:
    from mpiprof.collectives.tune.plan import Plan

AUTO_OPTIONS = (("reproducible", "--reproducible"), ("learn", "--learn"))

# Options of earlier versions, with the command that replaces each.
REPLACED = {
    "--explain": "`report TRACE` shows what `auto` tried and chose, and why",
    "--plan-out": "after the job, `tune TRACE --found -o plan.json` writes what `auto` found",
}


class Replaced(argparse.Action):
    """An option of an earlier version, refused with the command that replaces it."""

    def __call__(self, *_: object) -> NoReturn:
        """Raise UsageError."""
        (name,) = self.option_strings
        raise UsageError(f"`run` has no option {name}: {REPLACED[name]}")


def add_replaced(parser: argparse.ArgumentParser) -> None:
    """Add the options of earlier versions to a parser, hidden."""
    for name in REPLACED:
        parser.add_argument(name, action=Replaced, nargs=0, help=argparse.SUPPRESS)


def switch_words(args: argparse.Namespace) -> list[str]:
    """Return the words of --switch for a rank that `run -n` starts in this folder."""
    if args.switch is None:
        return []
    from mpiprof.collectives.tune import plan

    return ["--switch", plan.make_absolute(args.switch)]


def read_usable_plan(
    args: argparse.Namespace, program: Program, environment: Mapping[str, str]
) -> Plan | None:
    """Return the usable plan with remarks, or None without --switch; raises UsageError."""
    if args.switch is None:
        for name, option in AUTO_OPTIONS:
            if getattr(args, name):
                raise UsageError(f"{option} requires --switch auto, or --switch PLAN.json,auto")
        if args.strict_plan:
            raise UsageError("--strict-plan requires --switch PLAN.json")
        if args.scratch is not None:
            effect = "it limits the memory of selected algorithms"
            raise UsageError(f"--scratch requires --switch: {effect}")
        return None
    from mpiprof.collectives.tune import (  # imports the catalogue, so only on demand
        plan,
        plan_check,
    )

    if args.record == "off":
        raise UsageError("--switch requires the recorder: use --record summary in place of off")
    if args.partial:
        obstacle = "messages between recorders, which --partial forbids"
        raise UsageError(f"--switch requires {obstacle}: leave out one of them")
    strict = bool(args.strict_plan)
    usable_plan = plan.read(args.switch, strict=strict)
    if usable_plan.robust:
        check_robust(args)
    for name, option in AUTO_OPTIONS:
        if getattr(args, name) and not usable_plan.auto:
            raise UsageError(f"{option} requires automatic selection: --switch {args.switch},auto")
    if strict and not usable_plan.files:
        raise UsageError(f"--strict-plan: --switch {args.switch} names no plan file with entries")
    ranks = args.ranks or find_rank_count(environment)
    usable_plan = plan_check.check_plan(usable_plan, ranks, strict=strict)
    return locate_sites(args, usable_plan, program)


def check_robust(args: argparse.Namespace) -> None:
    """Raise UsageError if an option cannot be combined with --switch robust."""
    for name, option in AUTO_OPTIONS:
        if getattr(args, name):
            raise UsageError(f"{option} requires --switch auto in place of robust")
    if args.record != "events" or args.summary_to is not None:
        option = "--summary-to" if args.record == "events" else f"--record {args.record}"
        fact = f"{option} computes statistics of arrivals, which --switch robust cannot use"
        raise UsageError(f"{fact}: leave {option} out, or pass --switch auto")


def locate_sites(args: argparse.Namespace, plan: Plan, program: Program) -> Plan:
    """Return a plan with call sites in the program; raises UsageError for unknown ones."""
    if not plan.sites:
        return plan
    if program.file is not None and str(program.file) == program.argv[0]:
        from mpiprof.collectives.tune import site_offsets

        return site_offsets.locate_sites(plan, program.file, strict=args.strict_plan)
    # With skipped packages, a call site may be a line without a call.
    if program.folder is None or args.module or args.skip_packages:
        return plan
    from mpiprof.collectives.tune import plan_check

    remarks: list[str] = list(plan.remarks)
    omitted: set[int] = set()
    for rule, text in plan_check.find_missing_sites(plan, Path(program.command[0])):
        if args.strict_plan or not rule.file:
            raise UsageError(f"{rule.source_text}: {text}" if rule.file else f"--switch {text}")
        remarks.append(f"{rule.source_text}: {text} (left out)")
        omitted.add(id(rule))
    rules = tuple(rule for rule in plan.rules if id(rule) not in omitted)
    return replace(plan, rules=rules, remarks=tuple(remarks))


def fit_to_mpi(
    args: argparse.Namespace, plan: Plan, mpi: Mpi, environment: Mapping[str, str]
) -> Plan:
    """Return the plan's rules that are usable under an MPI; report the others once per job."""
    from mpiprof.collectives.tune import plan_check

    recorded = {rule.measured.mpi for rule in plan.rules if rule.measured.mpi}
    versions = [text for text in recorded if matches_mpi(text, mpi)]
    plan, texts = plan_check.check_provenance(plan, mpi.family, versions, os.uname().nodename)
    if args.strict_plan and texts:
        raise UsageError(texts[0])
    plan, unsupported = plan_check.drop_unsupported(plan, mpi.family)
    if args.strict_plan and unsupported:
        raise UsageError(unsupported[0].removesuffix(" (left out)"))
    texts += unsupported
    if not args.named and not find_rank(environment):
        for text in (*plan.remarks, *texts):
            print(f"mpiprof: {text}", file=sys.stderr)
    return plan


def read_start_values(args: argparse.Namespace, mpi: Mpi) -> str | None:
    """Return the start values from --learn for an MPI, or None; raises UsageError."""
    if args.learn is None:
        return None
    from mpiprof.collectives.tune.model_correction import format_start_values, read

    return format_start_values(read(args.learn), lambda text: matches_mpi(text, mpi))


def check_start_values(path: Path) -> None:
    """Raise UsageError unless a file of --learn can be read and extended, or created."""
    from mpiprof.collectives.tune.model_correction import read

    read(path)


def matches_mpi(text: str, mpi: Mpi) -> bool:
    """Return True if a trace's MPI name and version may belong to the MPI here."""
    name, _, version = text.rpartition(" ")
    version = version.removeprefix("v")
    if mpi.abi == "mpiabi" or not version[:1].isdigit():
        return True
    if name in library.FAMILIES.values() and name != mpi.family:
        return False
    # Both families store their version as a separate string in their library.
    return mpi.library is None or elf.contains_bytes(mpi.library, f"\0{version}\0".encode())
