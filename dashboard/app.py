"""The web server: Dash protected by a token, no external resources, requests of bounded size.

Flask-Compress compresses, as in Dash itself. The `compress` option of Dash cannot set a cache for
compressed responses, so each reload would compress plotly.js again.

The URL that `view` prints contains the token; the first request exchanges the token for a cookie.
Every other request (page, data or asset) without the cookie gets a 403. The server refuses requests
with an unknown Host name (DNS rebinding) or from another site before it looks at the token.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import socket
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import dash
import dash_ag_grid
from flask import Flask, Request, Response, make_response, redirect, request
from flask_compress import Compress
from waitress.server import BaseWSGIServer, MultiSocketServer, create_server
from werkzeug.wrappers import Response as Answer

from mpiprof.interface import tokens
from mpiprof.reports import overview
from mpiprof.reports.pictures import icons

from . import layout
from .pages import list_pages
from .trace_data import TraceContext

SUITES_PATH = "/_dash-component-suites/"
ASSETS_PATH = "/assets/"
FAVICON_PATH = "/_favicon.ico"
CACHE_LIFETIME_S = 31_536_000
MIN_BYTES = 500
BROTLI_LEVEL = 9  # a tenth smaller than the default, for a fifth of a second at the first request
BODY_LIMIT = 1 << 20
POLICY = (
    "default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
DOCUMENT_HEADERS = {"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"}
# A browser never shows these as documents that can run scripts or load anything. Without the
# headers of a document, the first page is 12 KB shorter.
NO_DOCUMENTS = {"application/json", "text/css", "text/javascript", "application/javascript"}


# ---- token and headers


def protect(server: Flask, token: str, hosts: Iterable[str], script_hashes: Iterable[str]) -> None:
    """Require the token for every request; `hosts` are server names besides localhost."""
    names = {"localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)}
    policy = POLICY.format(hashes=" ".join(script_hashes))
    server.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT

    @server.before_request
    def check() -> Answer | None:
        host = parse_host(request.host)
        if host not in names and not is_address(host):
            return refuse_request("unknown host name: use the address that `view` printed")
        if not is_same_site(request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")):
            return refuse_request("the request comes from another site")
        cookie = cookie_name(request.host)
        sent_token = request.args.get("token")
        if sent_token is not None:
            if not is_correct_token(sent_token, token):
                return refuse_request("wrong token: use the address that `view` printed")
            return set_cookie_and_redirect(cookie, token)
        if not is_correct_token(request.cookies.get(cookie, ""), token):
            return refuse_request("open the address that `view` printed, with its token")
        return None

    @server.after_request
    def harden(response: Response) -> Response:
        response.headers.update(HEADERS)
        if response.mimetype not in NO_DOCUMENTS:
            response.headers.update(DOCUMENT_HEADERS)
            response.headers["Content-Security-Policy"] = policy
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def is_correct_token(sent_token: str, token: str) -> bool:
    """Return whether a token is correct, compared in constant time."""
    return hmac.compare_digest(sent_token.encode("utf-8", "replace"), token.encode())


def refuse_request(why: str) -> Answer:
    """Return a 403 response with one line of text."""
    return make_response(Response(f"403: {why}\n", 403, mimetype="text/plain"))


def set_cookie_and_redirect(cookie: str, token: str) -> Answer:
    """Return a redirect that sets the cookie and leads to the same URL without the token."""
    arguments = [(k, v) for k, values in request.args.lists() for v in values if k != "token"]
    path = "/" + quote(request.path.lstrip("/\\"))
    answer = redirect(path + ("?" + urlencode(arguments) if arguments else ""), 303)
    # With Strict, the file by which `view` opens the browser would lead to a page without access.
    # With Lax, links from other sites can open a page, as `is_same_site` permits.
    answer.set_cookie(cookie, token, httponly=True, samesite="Lax", path="/")
    return answer


def cookie_name(host: str) -> str:
    """Return the cookie's name, which contains the port because browsers share cookies of ports."""
    port = urlsplit(f"//{host}").netloc.rpartition(":")[2]
    return f"mpiprof-{port if port.isdigit() else 'token'}"


def parse_host(header: str) -> str:
    """Return the host of a Host header without port and brackets; empty if it is malformed."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, which DNS rebinding cannot forge."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_same_site(origin: str | None, fetch_site: str | None) -> bool:
    """Return whether a request comes from the dashboard's own pages or is typed by the user."""
    if origin is not None and origin != f"{request.scheme}://{request.host}":
        return False
    if fetch_site in (None, "same-origin", "none"):
        return True
    # Links from other pages are safe: they can open a page, but neither read nor change data.
    return request.method == "GET" and request.headers.get("Sec-Fetch-Mode") == "navigate"


# ---- compression and caching


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
    """Compress responses and set their caching rules. Call this after protect.

    Flask runs the last registered handler first. Responses without a rule here get the no-store
    of protect. URLs that contain a version or a modification time are immutable. For other
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


# ---- server


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
    protect(app.server, token, hosts, app.csp_hashes())
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
        max_request_body_size=BODY_LIMIT,
        max_request_header_size=1 << 16,
        connection_limit=200,
        channel_timeout=60,
        clear_untrusted_proxy_headers=True,
    )
