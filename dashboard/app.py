"""The server: Dash behind the token, nothing from other hosts, requests of bounded size."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from pathlib import Path

import dash
from waitress.server import BaseWSGIServer, MultiSocketServer, create_server

from . import delivery, security, shell
from .data import Context

TITLE = "mpiprof"
THREADS = 8
PAGE = """<!doctype html>
<html lang="en">
<head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}</head>
<body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>"""


def make(context: Context, token: str, hosts: Sequence[str] = ()) -> dash.Dash:
    """Return the app; `hosts` are the names that it is reached under besides localhost."""
    app = dash.Dash(
        __name__,
        title=TITLE,
        update_title="",
        serve_locally=True,
        assets_folder=str(Path(__file__).parent / "assets"),
        suppress_callback_exceptions=True,
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "referrer", "content": "no-referrer"},
        ],
        index_string=PAGE,
    )
    app.layout = shell.layout(context)
    shell.register(app, context)
    security.protect(app.server, token, hosts, app.csp_hashes())
    delivery.deliver(app.server)
    return app


def server(app: dash.Dash, listener: socket.socket) -> MultiSocketServer | BaseWSGIServer:
    """Return a server on a socket that listens; `run` serves until it is closed."""
    # That requests wait for a thread is no news to the reader of a terminal.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    return create_server(
        app.server,
        sockets=[listener],
        threads=THREADS,
        ident=None,
        max_request_body_size=security.BODY_LIMIT,
        max_request_header_size=1 << 16,
        connection_limit=200,
        channel_timeout=60,
        clear_untrusted_proxy_headers=True,
    )
