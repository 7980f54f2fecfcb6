"""Dask workers, which pass over the partitions of a data set for a verb.

They are the workers of a running scheduler, named by its address or its scheduler file, or
processes of this machine. Results come in the order of the items. If a worker dies, another repeats
its work.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from mpiprof import __version__
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.installation import install_command
from mpiprof.interface.progress import show_progress
from mpiprof.trace.malloc_tuning import keep_freed

LOCAL = "local:"
MOST = 1024  # processes of this machine
AHEAD = 8  # unfetched items per thread, running or done; they occupy the worker's memory
PATIENCE_S = 10  # for a scheduler to answer, and for its first worker
TIMEOUTS = (TimeoutError, asyncio.TimeoutError)  # the same from Python 3.11 on
Item = TypeVar("Item")
Result = TypeVar("Result")
Function = TypeVar("Function")


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that names workers."""
    parser.add_argument(
        "--dask",
        metavar="WHERE",
        help="read data sets with Dask's workers: scheduler file, address or local:N",
    )


class Workers:
    """The workers of a Dask client."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def threads(self) -> int:
        """Return the number of items processed at a time."""
        return sum(self.client.nthreads().values())

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Apply a function to each item, and yield the results in the order of the items."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        count, ahead = len(self.client.nthreads()), AHEAD * max(self.threads(), 1)
        # The function may be large. As a separate task it is sent once to each worker, also to new
        # ones.
        given = self.client.submit(_given, function, pure=False)
        left = iter(items)
        futures: deque[Any] = deque()
        with show_progress(f"reading on {count} worker{'s' * (count != 1)}", len(items)) as step:
            try:
                while True:
                    for item in islice(left, ahead - len(futures)):
                        futures.append(self.client.submit(_called, given, item, pure=False))
                    if not futures:
                        return
                    found = self._result(futures[0])
                    futures.popleft()  # so that the worker frees it
                    step(1)
                    yield found
            except KilledWorker as error:
                raise MpiprofError(
                    f"--dask: workers died repeatedly at the same partition ({error}): "
                    "check their memory limit"
                ) from None
            except (CancelledError, CommClosedError, *TIMEOUTS):
                raise MpiprofError(
                    "--dask: the scheduler has ended: start it and repeat the command"
                ) from None
            finally:
                if self.client.status == "running":
                    self.client.cancel([*futures, given])

    def _result(self, future: Any) -> Any:
        """Wait for a result, as long as a worker exists or may soon appear."""
        without = 0
        while True:
            try:
                return future.result(timeout=PATIENCE_S)
            except TIMEOUTS:
                if future.done():
                    raise
            without = 0 if self.client.nthreads() else without + 1
            if without > 1:
                raise MpiprofError(
                    "--dask: all workers have ended: start workers and repeat the command"
                )


def _given(function: Function) -> Function:
    return function


def _called(function: Callable[[Item], Result], item: Item) -> Result:
    keep_freed()
    return function(item)


@contextlib.contextmanager
def connected(named: str | None) -> Iterator[Workers | None]:
    """Yield the workers of --dask, or None without --dask; UsageError if there are no workers."""
    if named is None:
        yield None
        return
    try:
        import distributed
    except ImportError:
        raise _missing("dask") from None
    with contextlib.ExitStack() as opened:
        if named.startswith(LOCAL):
            address: Any = opened.enter_context(_processes(distributed, named))
            client = opened.enter_context(distributed.Client(address))
        else:
            client = opened.enter_context(_client(distributed, named))
        _compare_versions(client, named)
        yield Workers(client)


def _processes(distributed: Any, named: str) -> Any:
    """Return a cluster of so many processes of this machine."""
    number = named.removeprefix(LOCAL)
    if not (number.isascii() and number.isdecimal() and 1 <= int(number) <= MOST):
        raise UsageError(f"--dask {named}: not a number of processes, such as {LOCAL}2")
    try:  # without keys, the scheduler would run code of any user of this machine
        security = distributed.Security.temporary()
    except ImportError:
        raise _missing("cryptography") from None
    return distributed.LocalCluster(
        n_workers=int(number),
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        security=security,
    )


def _missing(name: str) -> UsageError:
    return UsageError(f"--dask requires {name}: {install_command('dask')}")


def _client(distributed: Any, named: str) -> Any:
    """Return a client of a running scheduler; raises UsageError if none answers."""
    for name in ("distributed", "distributed.client"):  # the second has a separate level
        # mpiprof reports failures itself, on one line.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    address = _address(named)
    try:  # Client alone would wait for ever for a foreign server, and print at the end
        asyncio.run(asyncio.wait_for(_identified(distributed, address), PATIENCE_S))
        client = distributed.Client(address, timeout=PATIENCE_S, set_as_default=False)
    except Exception as error:  # of any type, because any server may listen there
        why = " ".join(str(error).split())[:200] or f"no answer for {PATIENCE_S} s"
        raise UsageError(f"--dask {named}: no scheduler answers there ({why})") from None
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except TIMEOUTS:
        client.close()
        raise UsageError(
            f"--dask {named}: its scheduler has no workers: start some with `dask worker`"
        ) from None
    return client


def _address(named: str) -> str:
    """Return a scheduler's address, read from its file if a file is named."""
    path = Path(named)
    if path.is_file():
        try:
            address = json.loads(path.read_bytes())["address"]
        except OSError as error:
            raise UsageError(f"--dask {named}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            address = None
        if not isinstance(address, str):
            raise UsageError(
                f"--dask {named}: not a scheduler file: `dask scheduler --scheduler-file` "
                "writes one"
            )
        return address
    if ":" not in named:
        raise UsageError(
            f"--dask {named}: no such scheduler file: pass a file, an address such as "
            f"tcp://host:8786, or {LOCAL}N"
        )
    return named


async def _identified(distributed: Any, address: str) -> None:
    """Raise an exception unless a Dask scheduler identifies itself at an address."""
    arguments = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, connection_args=arguments) as there:
        kind = (await there.identity())["type"]
    if kind != "Scheduler":
        raise ValueError(f"a {kind.lower()} answers: pass the address of its scheduler")


def _compare_versions(client: Any, named: str) -> None:
    """Raise UsageError if workers have no or another mpiprof, because results would differ."""
    try:
        found = set(client.run(version).values())
    except Exception as error:  # any exception, because a missing function may fail in many ways
        why = " ".join(str(error).split())[:200]
        raise UsageError(
            f"--dask {named}: its workers cannot import mpiprof ({why}): on their machine "
            f"run {install_command('dask')}"
        ) from None
    others = sorted(found - {__version__})
    if others:
        raise UsageError(
            f"--dask {named}: its workers have mpiprof {', '.join(others)}, but this is "
            f"{__version__}: install the same version"
        )


def version() -> str:
    """Return the version of mpiprof in the calling process."""
    return __version__
