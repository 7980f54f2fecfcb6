"""The exceptions that mpiprof raises deliberately, each with its exit code."""

from __future__ import annotations


class MpiprofError(Exception):
    """A failure; the text states the fault, the object and the remedy."""

    exit_code = 1


class UsageError(MpiprofError):
    """Wrong use of the command; nothing has been started or changed."""

    exit_code = 2


class TraceError(MpiprofError):
    """A trace is missing, damaged, foreign or empty."""


class NoTraceError(TraceError):
    """A path is not a trace folder, so the command is wrong and not the trace."""

    exit_code = UsageError.exit_code
