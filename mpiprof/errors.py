"""The one family of exceptions that mpiprof raises on purpose, each with its exit code."""

from __future__ import annotations


class MpiprofError(Exception):
    """Something failed; the text says what, with which object, and what to do about it."""

    exit_code = 1


class UsageError(MpiprofError):
    """The command was used wrongly; nothing has been started or changed."""

    exit_code = 2


class TraceError(MpiprofError):
    """A trace is missing, damaged, foreign or empty."""
