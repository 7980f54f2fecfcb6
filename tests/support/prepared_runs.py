"""Commands of `mpiprof run`, prepared once for all ranks of a job.

Under a launcher each rank starts a Python, which replaces itself by the program. That takes a tenth
of a second of processor time per rank. A test that is not about this start avoids it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NoReturn
from unittest.mock import patch

from mpiprof.__main__ import main
from support.jobs import clean_environment


class _ReplacedError(Exception):
    """The command and the environment by which a process would be replaced."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.argv, self.environment = argv, environment


def _replace(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    raise _ReplacedError(argv, environment)


def prepare_run(
    options: Sequence[object], program: Sequence[object], *, env: Mapping[str, str] | None = None
) -> list[str]:
    """Return the command of each rank for a compiled program, recorded with options of `run`.

    options: with the folder of the trace, which all ranks share, and without those for which each
    rank starts an agent (--watch, --summary-to). env: variables of the job beside a clean
    environment; the caller passes them to the ranks, too.
    """
    words = ["run", *map(str, options), "--", *map(str, program)]
    before = clean_environment(env)
    with (
        patch("mpiprof.commands.run.replace_process", _replace),
        patch.dict(os.environ, before, clear=True),
    ):
        try:
            code = main(words)
        except _ReplacedError as replaced:
            after, argv = replaced.environment, replaced.argv
        else:
            raise AssertionError(f"{words} ended with {code}")
    changed = [f"{name}={value}" for name, value in after.items() if before.get(name) != value]
    return ["env", *changed, *argv]
