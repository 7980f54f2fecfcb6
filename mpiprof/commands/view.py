"""Look at traces in a browser: who is late, where, why, and what it costs.

  python -m mpiprof view [TRACE ...] [--port P] [--host H] [--no-browser]

Without TRACE, the newest trace in this folder is shown. If TRACE is a folder that contains traces,
the first page lists them. By default the server accepts connections
from this machine only. --host selects another address. The address contains a token, and requests
without the token are rejected. To view from another machine, forward the port by ssh as the printed
line says. This verb requires the extra `dashboard`.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import html
import importlib.util
import os
import secrets
import socket
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path
from typing import Any

from mpiprof.errors import MpiprofError, UsageError
from mpiprof.formats import dask_workers
from mpiprof.interface.installation import import_dashboard, missing_module_error
from mpiprof.interface.output_files import create_file
from mpiprof.interface.shell_hints import format_command

REQUIRED_MODULES = (
    "dash", "dash_ag_grid", "flask_compress", "plotly", "waitress",
)  # fmt: skip
LISTEN_BACKLOG = 128  # requests that may wait until the pages are ready
DEFAULT_PORT = 8765
LOCALHOST = "127.0.0.1"
REDIRECT = (
    '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0;url={0}"><title>mpiprof</title><a href="{0}">mpiprof</a>'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    add("traces", nargs="*", type=Path, metavar="TRACE", help="traces, or a folder of traces")
    add("--port", type=int, metavar="P", help=f"port to listen on ({DEFAULT_PORT}, or a free port)")
    host = "address to listen on (default: this machine only)"
    add("--host", default=LOCALHOST, metavar="H", help=host)
    add("--machine", type=Path, metavar="FILE", help="machine table of `calibrate`")
    add("--no-browser", action="store_true", help="print the address and open no browser")
    below = "show source lines of files below DIR (default: the current folder)"
    add("--source", action="append", type=Path, metavar="DIR", help=below)
    dask_workers.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    for module in REQUIRED_MODULES:
        if importlib.util.find_spec(module) is None:
            raise missing_module_error(module)
    from mpiprof.collectives.machine import read_table
    from mpiprof.trace.machine import find_fault

    paths, lists_runs = trace_folders(args.traces)
    allowed = args.source or [Path.cwd()]
    for path in args.source or []:
        if not path.is_dir():
            raise UsageError(f"--source {path}: no such folder")
    machine = read_table(args.machine, find_fault) if args.machine else None
    if args.workers is not None:
        from mpiprof.formats.cached_trace import require_dataset

        for path in paths:
            require_dataset(path)
    token = secrets.token_urlsafe(24)
    with open_listener(args.host, args.port) as listener, contextlib.ExitStack() as closing:
        port = listener.getsockname()[1]
        address = f"http://{browsable_host(args.host)}:{port}/?token={token}"
        # Requests wait until the large imports and reads are done.
        announce(address, args.host, port, paths[0])
        if not args.no_browser and has_browser():
            open_browser(address, closing)
        app, data = import_dashboard("app"), import_dashboard("trace_data")
        context = data.TraceContext(paths, allowed, args.workers, machine, lists_runs=lists_runs)
        for name in context.names[: 1 if lists_runs else None]:
            threading.Thread(target=read, args=(context, name), daemon=True).start()
        server = app.make_server(app.make(context, token, [args.host]), listener)
        try:
            server.run()
        finally:
            server.close()
    return 0


def read(context: Any, name: str) -> None:
    """Read a trace before the first request, and report an unreadable trace."""
    try:
        data = context.latest_data(name)
    except MpiprofError as error:
        print(f"mpiprof: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    else:
        if name == context.names[0]:
            data.start_preparation()


def trace_folders(named: list[Path]) -> tuple[list[Path], bool]:
    """Return the trace folders to show, and whether they come from a folder of traces.

    The traces of a folder are in order of their start, the newest first. Raises TraceError for a
    folder without a trace.
    """
    from mpiprof.reports.run_summary import is_trace
    from mpiprof.trace.default_trace import OTF2, choose_trace
    from mpiprof.trace.folder import find_files

    folders = [choose_trace(path) for path in named] or [choose_trace(None)]
    found, lists_runs = [], False
    for path in folders:
        runs = [] if path.suffix == OTF2 or is_trace(path) else find_runs(path)
        lists_runs |= bool(runs)
        found += runs or [path]
    for path in [] if lists_runs else found:
        find_files(path)
    return found, lists_runs


def find_runs(folder: Path) -> list[Path]:
    """Return the traces in a folder, the newest first; none if it contains no traces."""
    from mpiprof.errors import TraceError
    from mpiprof.reports.run_summary import list_runs

    with contextlib.suppress(TraceError, UsageError):
        return [run.path for run in reversed(list_runs([folder])) if run.is_trace]
    return []


def open_listener(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on `port`, or on the default port or any free port if None."""
    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"--port {port}: ports range from 0 to 65535")
    try:
        if port is None:
            with contextlib.suppress(OSError):
                return bind_socket(host, DEFAULT_PORT)
        return bind_socket(host, port or 0)
    except OSError as error:
        why = error.strerror or str(error)
    hint = "check that --host is an address of this machine"
    if port:
        hint = "choose another port with --port"
    raise MpiprofError(f"cannot listen on {host} port {port or DEFAULT_PORT}: {why}; {hint}")


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port of a host; raises OSError."""
    kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
    family, *_, address = socket.getaddrinfo(host or None, port, type=kind, flags=flags)[0]
    return socket.create_server(address[:2], family=family, backlog=LISTEN_BACKLOG)


def browsable_host(host: str) -> str:
    """Return the host in the form for an address that this machine can open."""
    if host in ("0.0.0.0", "::", ""):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def announce(address: str, host: str, port: int, trace: Path) -> None:
    """Print the address of the pages, how to reach them from elsewhere, and the next command.

    trace: the first trace on the pages.
    """
    print(f"{address}\n")
    machine = socket.gethostname()
    if host in (LOCALHOST, "localhost", "::1"):
        ssh = f"ssh -L {port}:localhost:{port} {user_name()}@{machine}"
        print("  reachable only from this machine; from another machine:")
        print(f"    {ssh}     then open the address")
    else:
        instruction = f"replace the host by {machine}"
        print(f"  from other machines: {instruction}; without https the token can be")
        print("  read in transit: use a trusted network, or leave out --host and use ssh -L")
    print("  end with Ctrl-C\n")
    print(f"next: {format_command('report', trace)}   (the same in the terminal)", flush=True)


def user_name() -> str:
    """Return the user's name for the ssh line."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "USER"


def open_browser(address: str, closing: contextlib.ExitStack) -> None:
    """Open the address in a browser, through a file that only this user can read.

    Every user of the machine can read the arguments of the browser's process. `closing` removes
    the file.
    """
    folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="mpiprof-view-"))
    file = Path(folder, "open.html")
    with os.fdopen(create_file(file, 0o600), "w", encoding="utf-8") as page:
        page.write(REDIRECT.format(html.escape(address)))
    webbrowser.open(file.as_uri())


def has_browser() -> bool:
    """Return whether a desktop is available for opening a browser."""
    remote = "SSH_CONNECTION" in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and not remote
