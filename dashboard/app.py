"""The web server: Dash protected by a token, no external resources, requests of bounded size.

Flask-Compress compresses, as in Dash itself. The `compress` option of Dash cannot set a cache for
compressed responses, so each reload would compress plotly.js again.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

import dash
import dash_ag_grid
from flask import Flask, Request, Response, request
from flask_compress import Compress
from waitress.server import BaseWSGIServer, MultiSocketServer, create_server

from mpiprof.interface import tokens
from mpiprof.reports import overview
from mpiprof.reports.pictures import icons

from . import auth, layout
from .pages import list_pages
from .trace_data import TraceContext

# ---- compression and caching


SUITES_PATH = "/_dash-component-suites/"
ASSETS_PATH = "/assets/"
FAVICON_PATH = "/_favicon.ico"
CACHE_LIFETIME_S = 31_536_000
MIN_BYTES = 500
BROTLI_LEVEL = 9  # a tenth smaller than the default, for a fifth of a second at the first request


class ScriptCache(dict[str, bytes]):
    """Cache of the compressed scripts of packages. Other responses differ and are not cached."""

    def set(self, key: str, content: bytes) -> None:
        """Store the content if the key is that of a file (see package_file)."""
        if not key.endswith(";"):
            self[key] = content


def package_file(request_path: Request) -> str:
    """Return the path of a package's file, or an empty string for other requests."""
    return request_path.path if request_path.path.startswith(SUITES_PATH) else ""


def compress_responses(server: Flask) -> None:
    """Compress responses and set their caching rules. Call this after auth.protect.

    Flask runs the last registered handler first. Responses without a rule here get the no-store
    of auth.protect. URLs that contain a version or a modification time are immutable. For other
    files, the browser revalidates its copy.
    """
    server.config.update(
        COMPRESS_ALGORITHM=["br", "gzip"],
        COMPRESS_BR_LEVEL=BROTLI_LEVEL,
        COMPRESS_STREAMS=False,
        COMPRESS_MIN_SIZE=MIN_BYTES,
        COMPRESS_CACHE_BACKEND=ScriptCache,
        COMPRESS_CACHE_KEY=package_file,
    )

    @server.after_request
    def keep(response: Response) -> Response:
        path = request.path
        if response.status_code not in (200, 304) or not path.startswith(
            (SUITES_PATH, ASSETS_PATH, FAVICON_PATH)
        ):
            return response
        cache = response.cache_control
        versioned = "m" in request.args or "v" in request.args or cache.max_age == CACHE_LIFETIME_S
        cache.no_cache = None if versioned else True
        cache.private, cache.public = True, False
        if versioned:
            cache.max_age, cache.immutable = CACHE_LIFETIME_S, True
        return response

    Compress(server)


TITLE = "mpiprof"
THREADS = 8
OUTLINE_STYLE = (
    tokens.make_stylesheet()
    + Path(__file__).with_name("skeleton.css").read_text()
    + overview.read_style()
)
PAGE = """<!doctype html>
<html lang="en">
<head>{%metas%}<title>{%title%}</title>{%favicon%}</head>
<body>{%app_entry%}{%skeleton%}{%css%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>"""


class App(dash.Dash):
    """Dash app that sends an outline of the requested page in its first response."""

    pages: Sequence[ModuleType] = ()

    def interpolate_index(self, **parts: Any) -> str:  # type: ignore[override]
        """Return the HTML page that the scripts fill in."""
        index: str = super().interpolate_index(**parts)  # type: ignore[no-untyped-call]
        return index.replace("{%skeleton%}", make_outline(self.pages, request.path))


def make_outline(pages: Sequence[ModuleType], path: str) -> str:
    """Return the outline of the page at a path: plain HTML with inline style.

    It is shown before the server's next response. A page lists the expected heights of its cards in
    `SKELETON` (px). shell.js removes the outline's head when the frame appears, and the rest when
    the page is complete.
    """
    current = next((page for page in pages if path == page.PATH), None)
    names = "".join(
        f'<span class="here">{escape(page.TITLE)}</span>'
        if page is current
        else f"<span>{escape(page.TITLE)}</span>"
        for page in pages
    )
    cards = "".join(f'<i style="height:{high}px"></i>' for high in getattr(current, "SKELETON", ()))
    return (
        f"<style>{OUTLINE_STYLE}</style>"
        '<div id="skeleton" role="status" aria-label="The page is being made">'
        '<div class="skeleton-head" aria-hidden="true">'
        f'<span class="brand">{icons.draw_brand()}mpiprof</span><div>{names}</div></div>'
        f'<div class="skeleton-cards" aria-hidden="true">{cards}</div></div>'
    )


def make(context: TraceContext, token: str, hosts: Sequence[str] = ()) -> dash.Dash:
    """Return the app; `hosts` are the server's host names besides localhost."""
    app = App(
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
        assets_ignore=r"\.mjs$",  # the timeline's modules are loaded by its page
    )
    shorten_scripts()
    app.pages = list_pages(of_folder=context.lists_runs)
    app.layout = layout.make_layout(context)
    layout.register_callbacks(app, context)
    auth.protect(app.server, token, hosts, app.csp_hashes())
    compress_responses(app.server)
    return app


def shorten_scripts() -> None:
    """Remove from Dash's first response the scripts that the first page does not need.

    shell.js loads the script of the grid. No page has a table of Dash.
    """
    table_scripts = dash.dash_table._js_dist  # type: ignore[attr-defined]
    for script in (*dash_ag_grid._js_dist, *table_scripts):
        script |= {} if script.get("dynamic") else {"async": "lazy"}


def make_server(app: dash.Dash, listener: socket.socket) -> MultiSocketServer | BaseWSGIServer:
    """Return a server on a listening socket; its `run` serves until the server is closed."""
    # Hide the warning that requests wait for a thread, which does not help the user.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    return create_server(
        app.server,
        sockets=[listener],
        threads=THREADS,
        ident=None,
        max_request_body_size=auth.BODY_LIMIT,
        max_request_header_size=1 << 16,
        connection_limit=200,
        channel_timeout=60,
        clear_untrusted_proxy_headers=True,
    )
