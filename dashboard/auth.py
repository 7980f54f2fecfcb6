"""Access control: the token, its cookie, and protection against requests from foreign pages.

The URL that `view` prints contains the token; the first request exchanges the token for a cookie.
Every other request (page, data or asset) without the cookie gets a 403. The server refuses requests
with an unknown Host name (DNS rebinding) or from another site before it looks at the token.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import quote, urlencode, urlsplit

from flask import Flask, Response, make_response, redirect, request
from werkzeug.wrappers import Response as Answer

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
