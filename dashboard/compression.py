"""Compression of responses, and browser caching of scripts and styles.

Flask-Compress compresses, as in Dash itself. The `compress` option of Dash cannot set a cache for
compressed responses, so each reload would compress plotly.js again.
"""

from __future__ import annotations

from flask import Flask, Request, Response, request
from flask_compress import Compress

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
