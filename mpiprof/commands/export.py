"""Export a trace: as a page, for Perfetto, or as tables.

FORMATS

Without TRACE, the newest trace in this folder is exported. Without -o, the name derives from the
trace's name, in this folder. Parquet and CSV have further tables for messages and for intervals
between calls, if the trace has any. Collectives are read piece by piece in all formats except the
page, so a trace of any length can be exported. Calls on messages are read piece by piece by
`--to perfetto`; Parquet, CSV, OTF2 and the data set hold all of them in memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiprof.commands import open_named_trace
from mpiprof.errors import TraceError, UsageError
from mpiprof.interface.format_units import format_count, format_size
from mpiprof.interface.output_files import (
    check_output,
    format_utf8_path,
    write_atomically,
    write_text,
)
from mpiprof.interface.progress import show_progress
from mpiprof.interface.shell_hints import format_command

if TYPE_CHECKING:
    from mpiprof.trace import Trace

PERFETTO_LIMIT = 2 << 30  # approximate limit of Perfetto's page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    add("trace", nargs="?", type=Path, metavar="TRACE", help="a trace folder")
    add("--to", choices=tuple(FORMATS), required=True, help="output format")
    add("--machine", type=Path, metavar="FILE", help="machine table of `calibrate`")
    add("-o", dest="output", type=Path, metavar="FILE", help="output file or folder")


def run(args: argparse.Namespace) -> int:
    """Write the files."""
    to, form = args.to, FORMATS[args.to]
    trace = open_named_trace(args.trace, args.machine)
    if to != "html" and trace.record == "summary":
        why = "recorded as summary, so it has no events"
        raise TraceError(f"{trace.path}: {why}: --to html shows the totals")
    if form.holds_messages:
        check_memory(trace, to)
    path = (output_folder if form.is_folder else output_file)(args.output, trace, form)
    problem_count = len(trace.problems)
    with show_progress("exporting", 2 * trace.record_capacity) as step:
        written = form.write(trace, path, step)
    for file, content in written.items():
        print(f"{file}: {content}, {format_size_on_disk(file)}")
    for problem in trace.problems[problem_count:]:
        print(f"mpiprof: {problem}", file=sys.stderr)
    first = next(iter(written))
    hint = form.next_step.format(first, report=format_command("report", first))
    if to == "perfetto" and first.stat().st_size > PERFETTO_LIMIT:
        use = f"use `{format_command('view')}` or Perfetto's trace_processor"
        hint = f"too large for Perfetto's page (2 GB): {use}"
    print(f"next: {hint}")
    return 0


def check_memory(trace: Trace, to: str) -> None:
    """Raise TraceError if the calls on messages of a trace do not fit in memory."""
    from mpiprof.account.analysis_memory import count_message_bytes
    from mpiprof.trace.memory_limit import memory_limit_bytes

    needed, limit = count_message_bytes(trace), memory_limit_bytes()
    if needed > limit:
        fact = f"--to {to} holds all calls on messages in memory, about {format_size(needed)}"
        remedy = "use --to perfetto, or a machine with more memory"
        raise TraceError(f"{trace.path}: {fact}, and {format_size(limit)} are there: {remedy}")


def output_file(output: Path | None, trace: Trace, form: Format) -> Path:
    """Return the output file; raises UsageError if it cannot be written."""
    if output is None:
        return Path(trace.path.resolve().name + form.name_ending + form.ending)
    check_output("-o", output, f"{output / 'trace'}{form.ending}", replaced=True)
    stem = output.with_suffix("") if output.suffix == form.ending else output
    return stem.with_name(stem.name + form.ending)


def output_folder(output: Path | None, trace: Trace, form: Format) -> Path:
    """Return the output folder; raises UsageError if it cannot be created."""
    if output is None:
        output = Path(trace.path.resolve().name + form.ending)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise UsageError(f"{output} already exists: name a new folder with -o")
    if not output.parent.is_dir():
        raise UsageError(f"-o {output}: no such folder {output.parent}")
    return output


# ---- writers: each returns its files and their descriptions


def write_page(trace: Trace, path: Path, step: Callable[[int], None]) -> dict[Path, str]:
    """Write the page."""
    from mpiprof.hang import hang_pictures
    from mpiprof.reports.html_report import page

    write_text(path, page.make_page(trace, *hang_pictures.describe_fault(trace)))
    step(2 * trace.record_capacity)
    return {path: f"{len(trace.callsites)} call sites"}


def write_perfetto(trace: Trace, path: Path, step: Callable[[int], None]) -> dict[Path, str]:
    """Write the file for Perfetto."""
    from mpiprof.formats import perfetto_json

    with write_atomically(path) as unfinished:
        calls = perfetto_json.write(unfinished, trace, run_facts(trace), step)
    return {path: f"{format_count(calls)} calls"}


def write_caliper(trace: Trace, path: Path, step: Callable[[int], None]) -> dict[Path, str]:
    """Write the sums of each rank at each call site."""
    from mpiprof.formats import caliper

    with write_atomically(path) as unfinished:
        rows = caliper.write(unfinished, trace, run_facts(trace))
    step(2 * trace.record_capacity)
    return {path: f"{rows} call sites of {trace.ranks} ranks"}


def write_otf2(trace: Trace, folder: Path, step: Callable[[int], None]) -> dict[Path, str]:
    """Write an OTF2 archive into a folder."""
    from mpiprof.formats.otf2 import export

    with write_atomically(folder) as unfinished:
        unfinished.mkdir()
        events = export.write(unfinished, trace, run_facts(trace), step)
    return {folder / f"{export.ARCHIVE_NAME}.otf2": f"{format_count(events)} events"}


def write_dataset(trace: Trace, folder: Path, step: Callable[[int], None]) -> dict[Path, str]:
    """Write a data set into a folder."""
    import mpiprof
    from mpiprof.formats import dataset
    from mpiprof.trace.dataset import import_pyarrow

    import_pyarrow()
    with write_atomically(folder) as unfinished:
        format_utf8_path(unfinished, "Parquet")
        dataset.copy_trace_files(trace.path, unfinished)
        calls = dataset.write(unfinished, mpiprof.open(unfinished), lambda done: step(2 * done))
    return {folder: f"{format_count(calls)} calls"}


def write_tables(trace: Trace, path: Path, step: Callable[[int], None]) -> dict[Path, str]:
    """Write events and instances as tables, and tables of messages and intervals with rows."""
    from pandas.api.types import is_numeric_dtype

    from mpiprof.account.tables import make_event_pieces, make_instance_pieces
    from mpiprof.formats import export_columns, table_files

    def step_events(events: Any) -> None:
        step(len(events))

    def step_instances(instances: Any) -> None:
        step(int(instances["size"].sum()))

    tables: list[tuple[str, Iterable[Any], Mapping[str, str], Callable[[Any], None]]] = [
        ("events", make_event_pieces(trace), export_columns.EVENT_COLUMNS, step_events),
        ("instances", make_instance_pieces(trace), export_columns.of_instances(), step_instances),
    ]
    for name, described in export_columns.EXPORTED_TABLES.items():
        table = trace.derive(name)
        if len(table):
            texts = {name: "category" for name in table if not is_numeric_dtype(table[name])}
            tables.append((name, [table.astype(texts)], described, lambda _: None))
    written = {}
    for name, pieces, meanings, report_piece in tables:
        file = path.with_name(f"{path.stem}-{name}{path.suffix}")
        with write_atomically(file) as unfinished:
            if path.suffix == ".csv":
                rows = table_files.write_csv(unfinished, pieces, report_piece)
            else:
                facts = run_facts(trace)
                rows = table_files.write_parquet(unfinished, pieces, meanings, facts, report_piece)
        written[file] = f"{format_count(rows)} {name}"
    return written


@dataclass(frozen=True)
class Format:
    """An output format.

    ending: of its file, or of its folder's name. name_ending: of its file's name by default.
    holds_messages: its writer holds all logged calls on messages in memory.
    """

    ending: str
    write: Callable[[Trace, Path, Callable[[int], None]], dict[Path, str]]
    output: str  # in the help
    use: str  # in the help
    next_step: str
    name_ending: str = ""
    is_folder: bool = False
    holds_messages: bool = False


FORMATS = {
    "html": Format(
        *(".html", write_page, "FILE.html", "one self-contained page"),
        "open it in a browser; no network is required",
    ),
    "perfetto": Format(
        *(".json", write_perfetto, "FILE.json", "opens at https://ui.perfetto.dev"),
        "open it at https://ui.perfetto.dev (the file stays inside the browser)",
    ),
    "caliper": Format(
        *(".json", write_caliper, "FILE.json", "sums by rank, for Hatchet, Thicket"),
        'hatchet.GraphFrame.from_caliper("{0}"), or thicket.Thicket.from_caliper',
        name_ending="-caliper",  # two formats end in .json
    ),
    "parquet": Format(
        *(".parquet", write_tables, "NAME", "NAME-events, NAME-instances, ..."),
        'pandas.read_parquet("{0}")',
        holds_messages=True,
    ),
    "csv": Format(
        *(".csv", write_tables, "NAME", "the same tables as text"),
        'pandas.read_csv("{0}")',
        holds_messages=True,
    ),
    "otf2": Format(
        *("-otf2", write_otf2, "DIR", "DIR/traces.otf2, for Vampir, ..."),
        "open {0} in Vampir, or try `otf2-print {0}`",
        is_folder=True,
        holds_messages=True,
    ),
    "dataset": Format(
        *("-dataset", write_dataset, "DIR", "Parquet, for --dask and others"),
        "{report}   (its folder calls holds one row a call, for pandas and others)",
        is_folder=True,
        holds_messages=True,
    ),
}


def list_formats() -> str:
    """Return a line of help for each format."""
    return "\n".join(
        f"  python -m mpiprof export [TRACE] --to {f'{to} [-o {form.output}]':<24} {form.use}"
        for to, form in FORMATS.items()
    )


__doc__ = (__doc__ or "").replace("FORMATS", list_formats())


def run_facts(trace: Trace) -> dict[str, Any]:
    """Return the facts of the run that are written into the file."""
    from mpiprof import __version__
    from mpiprof.reports.json import plain_number

    return {
        "mpiprof": __version__,
        "program": trace.program,
        "mpi": trace.mpi,
        "ranks": trace.ranks,
        "nodes": trace.node_count,
        "started_ns": plain_number(trace.calls_start_ns),
        "duration_ns": plain_number(trace.duration_ns),
        "clock_error_ns": plain_number(trace.clock_error_ns),
        "complete": bool(trace.is_complete),
    }


def format_size_on_disk(path: Path) -> str:
    """Return the size as text of a file, of a folder, or of an archive named by its anchor."""
    folder = path.parent if path.suffix == ".otf2" else path
    files = [entry for entry in folder.rglob("*") if entry.is_file()] if folder.is_dir() else [path]
    return format_size(sum(file.stat().st_size for file in files))
