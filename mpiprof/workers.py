"""Workers of Dask, which pass over the partitions of a data set for a verb.

They are those of a scheduler that runs already, named by its address or by the file that it wrote,
or processes of this machine. Results come in the order of the items; what a worker has done or held
that died is done again by another.
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
from mpiprof.installation import install_command
from mpiprof.memory import keep_freed
from mpiprof.progress import bar

LOCAL = "local:"
MOST = 1024  # processes of this machine
AHEAD = 8  # items a thread that are under way or done: what is not fetched yet fills its memory
PATIENCE_S = 10  # for a scheduler to answer, and for its first worker
TIMEOUTS = (TimeoutError, asyncio.TimeoutError)  # the same from Python 3.11 on
Item = TypeVar("Item")
Result = TypeVar("Result")
Function = TypeVar("Function")


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option by which workers are named."""
    parser.add_argument(
        "--dask",
        metavar="WHERE",
        help="read data sets with Dask's workers: scheduler file, address or local:N",
    )


class Workers:
    """The workers of a client of Dask."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def threads(self) -> int:
        """Return how many items they work on at a time."""
        return sum(self.client.nthreads().values())

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Call a function of each item, and yield what it gives in the order of the items."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        count, ahead = len(self.client.nthreads()), AHEAD * max(self.threads(), 1)
        # It may be large: as a task of its own it goes to each worker once, to a new one too.
        given = self.client.submit(_given, function, pure=False)
        left = iter(items)
        futures: deque[Any] = deque()
        with bar(f"reading on {count} worker{'s' * (count != 1)}", len(items)) as step:
            try:
                while True:
                    for item in islice(left, ahead - len(futures)):
                        futures.append(self.client.submit(_called, given, item, pure=False))
                    if not futures:
                        return
                    found = self._result(futures[0])
                    futures.popleft()  # which lets the worker forget it
                    step(1)
                    yield found
            except KilledWorker as error:
                raise MpiprofError(
                    f"--dask: workers died again and again at the same partition ({error}); "
                    "do they have memory enough?"
                ) from None
            except (CancelledError, CommClosedError, *TIMEOUTS):
                raise MpiprofError(
                    "--dask: the scheduler has gone; start it and try again"
                ) from None
            finally:
                if self.client.status == "running":
                    self.client.cancel([*futures, given])

    def _result(self, future: Any) -> Any:
        """Wait for a result, as long as there is a worker that may give one, or soon another."""
        without = 0
        while True:
            try:
                return future.result(timeout=PATIENCE_S)
            except TIMEOUTS:
                if future.done():
                    raise
            without = 0 if self.client.nthreads() else without + 1
            if without > 1:
                raise MpiprofError("--dask: all workers have gone; start some and try again")


def _given(function: Function) -> Function:
    return function


def _called(function: Callable[[Item], Result], item: Item) -> Result:
    keep_freed()
    return function(item)


@contextlib.contextmanager
def connected(named: str | None) -> Iterator[Workers | None]:
    """Give the workers that --dask names, None without; raises UsageError where there are none."""
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
        raise UsageError(f"--dask {named}: give a number of processes, such as {LOCAL}2")
    try:  # a scheduler runs what it is sent: without keys, by every user of this machine
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
    return UsageError(f"--dask needs {name}: {install_command('dask')}")


def _client(distributed: Any, named: str) -> Any:
    """Return a client of a scheduler that runs; raises UsageError where none answers."""
    for name in ("distributed", "distributed.client"):  # which has a level of its own
        logging.getLogger(name).setLevel(logging.CRITICAL)  # we say it ourselves, in one line
    address = _address(named)
    try:  # a Client would wait for ever where something else listens, and complain when it ends
        asyncio.run(asyncio.wait_for(_identified(distributed, address), PATIENCE_S))
        client = distributed.Client(address, timeout=PATIENCE_S, set_as_default=False)
    except Exception as error:  # of any kind, as what listens there may be anything
        why = " ".join(str(error).split())[:200] or f"nothing for {PATIENCE_S} s"
        raise UsageError(f"--dask {named}: no scheduler answers there ({why})") from None
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except TIMEOUTS:
        client.close()
        raise UsageError(
            f"--dask {named}: its scheduler has no workers; start some, such as `dask worker`"
        ) from None
    return client


def _address(named: str) -> str:
    """Return the address of a scheduler, from its file where a file is named."""
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
                f"--dask {named}: no file of a scheduler; it writes one with --scheduler-file"
            )
        return address
    if ":" not in named:
        raise UsageError(
            f"--dask {named}: no such scheduler file; give one, an address as tcp://host:8786, "
            f"or {LOCAL}N"
        )
    return named


async def _identified(distributed: Any, address: str) -> None:
    """Raise any error where no scheduler of Dask says at an address that it is one."""
    arguments = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, connection_args=arguments) as there:
        kind = (await there.identity())["type"]
    if kind != "Scheduler":
        raise ValueError(f"a {kind.lower()} does; give its scheduler's address")


def _compare_versions(client: Any, named: str) -> None:
    """Raise UsageError where workers have no mpiprof, or another: bits would differ."""
    try:
        found = set(client.run(version).values())
    except Exception as error:  # whatever becomes of a function that can't be found there
        why = " ".join(str(error).split())[:200]
        raise UsageError(
            f"--dask {named}: its workers can't import mpiprof ({why}); "
            f"where they run: {install_command('dask')}"
        ) from None
    others = sorted(found - {__version__})
    if others:
        raise UsageError(
            f"--dask {named}: its workers have mpiprof {', '.join(others)}, this is {__version__}; "
            "install the same"
        )


def version() -> str:
    """Return the version of mpiprof where this is called."""
    return __version__
