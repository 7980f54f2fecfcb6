"""Look at traces in a browser: who is late, where, why, and what it costs.

  python -m mpiprof view [TRACE ...] [--port P] [--host H] [--no-browser]

Without TRACE: the newest in this folder. The server listens on this machine only, and the address
carries a token: who has not got it sees nothing. On another machine, forward the port by ssh as
the printed line says. Needs `pip install mpiprof[dashboard]`.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import importlib
import os
import socket
import webbrowser
from pathlib import Path
from types import ModuleType
from typing import Any

from mpiprof.errors import MpiprofError, UsageError
from mpiprof.invocation import invocation

PORT = 8765
LOCAL = "127.0.0.1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    add("traces", nargs="*", type=Path, metavar="TRACE", help="trace folders")
    add("--port", type=int, metavar="P", help=f"the port to listen on ({PORT}, else a free one)")
    add("--host", default=LOCAL, metavar="H", help="the address to listen on (this machine only)")
    add("--no-browser", action="store_true", help="only print the address")
    add(
        "--source",
        action="append",
        type=Path,
        metavar="DIR",
        help="show source lines from files below DIR (the folder it is started in)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    app, data = part("app"), part("data")
    context = data.Context(folders(args.traces), sources(args.source))
    for name in context.names:
        context.data(name)  # what can't be read is said here, not in the browser
    token = app.new_token()
    server = listening(app, app.make(context, token, [args.host]), args.host, args.port)
    address = f"http://{shown_host(args.host)}:{server.effective_port}/?token={token}"
    announce(address, args.host, server.effective_port)
    if not args.no_browser and has_browser():
        webbrowser.open(address)
    context.data(context.names[0]).prepare()
    try:
        server.run()
    finally:
        server.close()
    return 0


def part(name: str) -> ModuleType:
    """Return a module of the dashboard; raises MpiprofError where it isn't installed."""
    try:
        return importlib.import_module(f"mpiprof.dashboard.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mpiprof"):
            raise
        raise MpiprofError(
            f"view needs {error.name}: python -m pip install 'mpiprof[dashboard]'"
        ) from None


def folders(named: list[Path]) -> list[Path]:
    """Return the trace folders to show."""
    from mpiprof.trace.newest import chosen

    return [chosen(path) for path in named] or [chosen(None)]


def sources(named: list[Path] | None) -> list[Path]:
    """Return the folders that source files may be shown from; raises UsageError."""
    for path in named or []:
        if not path.is_dir():
            raise UsageError(f"--source {path}: no such folder")
    return named or [Path.cwd()]


def listening(app: ModuleType, made: object, host: str, port: int | None) -> Any:
    """Return the server on the port asked for; without one on the usual port, else any free."""
    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"--port {port}: ports are 0 to 65535")
    try:
        if port is None:
            with contextlib.suppress(OSError):
                return app.listen(made, host, PORT)
        return app.listen(made, host, port or 0)
    except OSError as error:
        why = error.strerror or str(error)
    hint = "choose another with --port" if port else "is --host an address of this machine?"
    raise MpiprofError(f"can't listen on {host} port {port or PORT}: {why}; {hint}")


def shown_host(host: str) -> str:
    """Return the host as it is written in an address that this machine can open."""
    if host in ("0.0.0.0", "::", ""):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def announce(address: str, host: str, port: int) -> None:
    """Print where the pages are, and how to come there from elsewhere."""
    print(f"{address}\n")
    machine = socket.gethostname()
    if host in (LOCAL, "localhost", "::1"):
        print("  only on this machine; from another one:")
        print(f"    ssh -L {port}:localhost:{port} {user()}@{machine}     then open the address")
    else:
        print(f"  from other machines: put {machine} for the host; without https the token can be")
        print("  read on the way: trust the network, or leave out --host and use ssh -L")
    print("  end with Ctrl-C\n")
    print(f"next: {invocation()} report   (the same in the terminal)", flush=True)


def user() -> str:
    """Return the user's name for the ssh line."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "USER"


def has_browser() -> bool:
    """Return whether there is a desktop that a browser could open on."""
    remote = "SSH_CONNECTION" in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and not remote
