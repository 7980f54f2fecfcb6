"""Makes the report of a paper: obtains the results of its runs, and writes the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mpiprof.bench.papers import claims_table, import_paper, page, pdf
from mpiprof.bench.papers.exhibits import Exhibit, Paper
from mpiprof.bench.papers.report_sections import compose_report
from mpiprof.bench.papers.result_files import (
    RESULTS,
    RunResult,
    load_result,
    make_key,
    obtain_result,
    result_path,
)
from mpiprof.bench.papers.statements import read_statements
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.format_units import format_rough_time
from mpiprof.interface.output_files import write_text


def select_exhibits(paper: Paper, wanted: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of these numbers, in any case of letters, or all; raises UsageError."""
    known = {exhibit.number.casefold(): exhibit for exhibit in paper.exhibits}
    for number in wanted:
        if number.casefold() not in known:
            numbers = ", ".join(exhibit.number for exhibit in paper.exhibits)
            raise UsageError(f"--only {number!r}: {paper.name} has {numbers}")
    chosen = [known[number] for number in dict.fromkeys(map(str.casefold, wanted))]
    return chosen or list(paper.exhibits)


def make_paper_report(name: str, folder: Path, wanted: Sequence[str], quick: bool) -> None:
    """Print the expected duration, make the report, and write it into a folder."""
    paper = import_paper(name)
    exhibits = select_exhibits(paper, wanted)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fact = "is a file" if folder.is_file() else f"cannot be created: {error.strerror}"
        raise MpiprofError(f"-o {folder} {fact}: pass a folder for the report's files") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise MpiprofError(f"-o {folder} is not writable: pass a folder for the report's files")
    results = obtain_results(paper, exhibits, folder, quick)
    report = compose_report(paper, exhibits, results, quick)
    files = [folder / f"{name}.{form}" for form in ("html", "pdf", "md")]
    write_text(files[0], page.make_paper_page(report))
    pdf.write_pdf(report, files[1])
    write_text(files[2], claims_table.make_claims_table(report, read_statements(name)))
    print(f"\n{report.summary}\nwritten: {', '.join(map(str, files))}")


def obtain_results(
    paper: Paper, exhibits: Sequence[Exhibit], folder: Path, quick: bool
) -> dict[str, RunResult]:
    """Return the results of all runs of these exhibits, from files where they exist."""
    names = list(dict.fromkeys(name for e in exhibits for name in e.all_runs))
    keys = {name: make_key(paper.runs[name], quick) for name in names}
    paths = {name: result_path(folder / RESULTS / paper.name, name, quick) for name in names}
    results = {name: load_result(paths[name], keys[name]) for name in names}
    missing = [name for name, result in results.items() if result is None]
    expected = {name: paper.runs[name].estimate_s(quick) for name in missing}
    done = f", {len(names) - len(missing)} of them done before" * (len(missing) < len(names))
    print(f"{paper.citation}: {len(exhibits)} exhibits, {len(names)} runs{done}.")
    print(f"This will take about {format_rough_time(sum(expected.values()))}.", flush=True)
    for number, name in enumerate(missing, 1):
        rough = format_rough_time(expected[name])
        print(f"[{number}/{len(missing)}] {name}: about {rough}", flush=True)
        results[name] = obtain_result(paper.runs[name], quick, paths[name], keys[name])
    return {name: result for name, result in results.items() if result is not None}
