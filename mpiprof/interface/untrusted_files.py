"""Opens files that somebody else may have written, as the files of a trace are.

A file of a trace folder is a regular file. A link could lead to the reader's own files, a device
has no end, and a pipe blocks. The folder itself may be reached through links, because the user has
named it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

from mpiprof.interface.untrusted_text import parse_json

# Largest plausible file that is read as a whole; a file of logs is read in pieces.
MAX_TABLES_BYTES = 1 << 30
MAX_SMALL_FILE_BYTES = 1 << 26
MAX_LOG_BYTES = 1 << 42
READ_BYTES = 1 << 20
# Without O_NONBLOCK, opening a pipe blocks.
FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_file(path: Path, limit: int = MAX_SMALL_FILE_BYTES) -> int:
    """Return the descriptor of a regular file of at most `limit` bytes; raises OSError."""
    try:
        descriptor = os.open(path, FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            error.strerror = "it is a symbolic link"
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
        if status.st_size > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(path: Path) -> None:
    """Raise OSError unless the path is a regular file, for libraries that open files themselves."""
    os.close(open_file(path, MAX_LOG_BYTES))


def read_file(path: Path, limit: int = MAX_SMALL_FILE_BYTES) -> bytes:
    """Return the content of a regular file of at most `limit` bytes; raises OSError."""
    return _read(open_file(path, limit), path, limit)


def read_named_file(path: Path, limit: int = MAX_SMALL_FILE_BYTES) -> bytes:
    """Return the content of a file that the user has named; raises OSError.

    It may be a link or a pipe, as in `--switch <(command)`.
    """
    return _read(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path, limit)


def read_named_json(path: Path) -> Any:
    """Return the value of a JSON file that the user has named; raises OSError or ValueError."""
    return parse_json(read_named_file(path))


def read_json(path: Path, limit: int = MAX_SMALL_FILE_BYTES) -> Any:
    """Return the value of a JSON file; raises OSError, or ValueError for invalid JSON."""
    return parse_json(read_file(path, limit))


def _read(descriptor: int, path: Path, limit: int) -> bytes:
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        parts, size = [], 0
        # A device states no size, and a file can grow while it is read.
        while part := file.read(READ_BYTES):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
    return b"".join(parts)
