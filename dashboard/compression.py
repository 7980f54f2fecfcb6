"""Compression of responses, and browser caching of scripts and styles.

Flask-Compress compresses, as in Dash itself. The `compress` option of Dash cannot set a cache for
compressed responses, so each reload would compress plotly.js again.
"""

from __future__ import annotations

from flask import Flask, Request, Response, request
from flask_compress import Compress

SUITES = "/_dash-component-suites/"
ASSETS = "/assets/"
ICON = "/_favicon.ico"
YEAR_S = 31_536_000
LEAST_BYTES = 500


class Kept:
    """Cache of the compressed scripts of packages. Other responses differ and are not cached."""

    def __init__(self) -> None:
        self._of: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return the compressed content of a key, or None if it is not cached."""
        return self._of.get(key)

    def set(self, key: str, content: bytes) -> None:
        """Store the content if the key is that of a file (see file_of)."""
        if not key.endswith(";"):
            self._of[key] = content


def file_of(asked: Request) -> str:
    """Return the path of a package's file, or an empty string for other requests."""
    return asked.path if asked.path.startswith(SUITES) else ""


def deliver(server: Flask) -> None:
    """Compress responses and set their caching rules. Call this after security.protect.

    Flask runs the last registered handler first. Responses without a rule here get the no-store
    of security.protect. URLs that contain a version or a modification time are immutable. For other
    files, the browser revalidates its copy.
    """
    server.config.update(
        COMPRESS_ALGORITHM=["br", "gzip"],
        COMPRESS_STREAMS=False,
        COMPRESS_MIN_SIZE=LEAST_BYTES,
        COMPRESS_CACHE_BACKEND=Kept,
        COMPRESS_CACHE_KEY=file_of,
    )

    @server.after_request
    def keep(response: Response) -> Response:
        path = request.path
        if response.status_code not in (200, 304) or not path.startswith((SUITES, ASSETS, ICON)):
            return response
        cache = response.cache_control
        versioned = "m" in request.args or "v" in request.args or cache.max_age == YEAR_S
        cache.no_cache = None if versioned else True
        cache.private, cache.public = True, False
        if versioned:
            cache.max_age, cache.immutable = YEAR_S, True
        return response

    Compress(server)
