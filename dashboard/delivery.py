"""How answers travel: compressed, and scripts and styles kept by the browser.

Compression is Flask-Compress's, which is what Dash itself uses; Dash's own switch for it has no
place for what was compressed, so that each reload would compress plotly.js anew.
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
    """What was compressed of the scripts of packages; nothing of answers, which all differ."""

    def __init__(self) -> None:
        self._of: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return what was kept."""
        return self._of.get(key)

    def set(self, key: str, content: bytes) -> None:
        """Keep what is a file's."""
        if not key.endswith(";"):
            self._of[key] = content


def file_of(asked: Request) -> str:
    """Return the path of a package's file, empty for all else."""
    return asked.path if asked.path.startswith(SUITES) else ""


def deliver(server: Flask) -> None:
    """Compress answers, and tell browsers what to keep; called after security.protect.

    Flask asks the last one first: what has no rule here, security.protect lets nobody keep.
    What has its version or a time of change in its address never changes there; of other files the
    browser asks whether they are what it has.
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
