"""Dask workers, which pass over the partitions of a data set for a verb.

They are the workers of a running scheduler, named by its address or its scheduler file, or
processes of this machine. Results come in the order of the items. If a worker dies, another repeats
its work.
"""

from __future__ import annotations

import argparse
import contextlib
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
from mpiprof.interface.untrusted_files import read_named_json
from mpiprof.trace.malloc_tuning import retain_freed_memory

LOCAL_PREFIX = "local:"
MAX_WORKERS = 1024  # processes of this machine
ITEMS_AHEAD = 8  # unfetched items per thread, running or done; they occupy the worker's memory
CONNECT_TIMEOUT_S = 10  # for a scheduler to answer, and for its first worker
Item = TypeVar("Item")
Result = TypeVar("Result")
Function = TypeVar("Function")


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that names workers."""
    text = "read data sets with Dask's workers: scheduler file, address or local:N"
    parser.add_argument("--dask", metavar="WHERE", help=text)


def list_timeouts() -> tuple[type[Exception], ...]:
    """Return the errors of a timeout, which are the same from Python 3.11 on."""
    import asyncio  # takes longer than all other imports of a verb without pandas

    return TimeoutError, asyncio.TimeoutError


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

        count, ahead = len(self.client.nthreads()), ITEMS_AHEAD * max(self.threads(), 1)
        # The function may be large. As a separate task it is sent once to each worker, also to new
        # ones.
        serialised = self.client.submit(_serialise_function, function, pure=False)
        remaining = iter(items)
        futures: deque[Any] = deque()
        with show_progress(f"reading on {count} worker{'s' * (count != 1)}", len(items)) as step:
            try:
                while True:
                    for item in islice(remaining, ahead - len(futures)):
                        # A local name of the future would retain its result on the worker.
                        futures.append(
                            self.client.submit(_call_function, serialised, item, pure=False)
                        )
                    if not futures:
                        return
                    result = self._wait_for_result(futures[0])
                    futures.popleft()  # so that the worker frees it
                    step(1)
                    yield result
            except KilledWorker as error:
                fact = f"workers died repeatedly at the same partition ({error})"
                raise MpiprofError(f"--dask: {fact}: check their memory limit") from None
            except (CancelledError, CommClosedError, *list_timeouts()):
                remedy = "start it and repeat the command"
                raise MpiprofError(f"--dask: the scheduler has ended: {remedy}") from None
            finally:
                if self.client.status == "running":
                    self.client.cancel([*futures, serialised])

    def _wait_for_result(self, future: Any) -> Any:
        """Wait for a result, as long as a worker exists or may soon appear."""
        without = 0
        while True:
            try:
                return future.result(timeout=CONNECT_TIMEOUT_S)
            except list_timeouts():
                if future.done():  # after the time limit, or by its own TimeoutError
                    return future.result()
            without = 0 if self.client.nthreads() else without + 1
            if without > 1:
                remedy = "start workers and repeat the command"
                raise MpiprofError(f"--dask: all workers have ended: {remedy}")


def _serialise_function(function: Function) -> Function:
    return function


def _call_function(function: Callable[[Item], Result], item: Item) -> Result:
    retain_freed_memory()
    return function(item)


@contextlib.contextmanager
def connect_workers(address: str | None) -> Iterator[Workers | None]:
    """Yield the workers of --dask, or None without --dask; UsageError if there are no workers."""
    if address is None:
        yield None
        return
    try:
        import distributed
    except ImportError:
        raise _missing_dask_error("dask") from None
    with contextlib.ExitStack() as opened:
        if address.startswith(LOCAL_PREFIX):
            parsed: Any = opened.enter_context(_start_local_cluster(distributed, address))
            client = opened.enter_context(distributed.Client(parsed))
        else:
            client = opened.enter_context(_connect_client(distributed, address))
        _compare_versions(client, address)
        yield Workers(client)


def _start_local_cluster(distributed: Any, named: str) -> Any:
    """Return a cluster of so many processes of this machine."""
    number = named.removeprefix(LOCAL_PREFIX)
    if not (number.isascii() and number.isdecimal() and 1 <= int(number) <= MAX_WORKERS):
        raise UsageError(f"--dask {named}: not a number of processes, such as {LOCAL_PREFIX}2")
    try:  # without keys, the scheduler would run code of any user of this machine
        security = distributed.Security.temporary()
    except ImportError:
        raise _missing_dask_error("cryptography") from None
    return distributed.LocalCluster(
        n_workers=int(number),
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        security=security,
    )


def _missing_dask_error(name: str) -> UsageError:
    return UsageError(f"--dask requires {name}: {install_command('dask')}")


def _connect_client(distributed: Any, named: str) -> Any:
    """Return a client of a running scheduler; raises UsageError if none answers."""
    import asyncio

    for name in ("distributed", "distributed.client"):  # the second has a separate level
        # mpiprof reports failures itself, on one line.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    address = _read_address(named)
    try:  # Client alone would wait for ever for a foreign server, and print at the end
        asyncio.run(asyncio.wait_for(_check_identity(distributed, address), CONNECT_TIMEOUT_S))
        client = distributed.Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except Exception as error:  # of any type, because any server may listen there
        why = " ".join(str(error).split())[:200] or f"no answer for {CONNECT_TIMEOUT_S} s"
        raise UsageError(f"--dask {named}: no scheduler answers there ({why})") from None
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
    except list_timeouts():
        client.close()
        remedy = "start some with `dask worker`"
        raise UsageError(f"--dask {named}: its scheduler has no workers: {remedy}") from None
    return client


def _read_address(named: str) -> str:
    """Return a scheduler's address, read from its file if a file is named."""
    path = Path(named)
    if path.is_file():
        try:
            address = read_named_json(path)["address"]
        except OSError as error:
            raise UsageError(f"--dask {named}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            address = None
        if not isinstance(address, str):
            remedy = "`dask scheduler --scheduler-file` writes one"
            raise UsageError(f"--dask {named}: not a scheduler file: {remedy}")
        return address
    if ":" not in named:
        remedy = f"pass a file, an address such as tcp://host:8786, or {LOCAL_PREFIX}N"
        raise UsageError(f"--dask {named}: no such scheduler file: {remedy}")
    return named


async def _check_identity(distributed: Any, address: str) -> None:
    """Raise an exception unless a Dask scheduler identifies itself at an address."""
    arguments = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, connection_args=arguments) as there:
        kind = (await there.identity())["type"]
    if kind != "Scheduler":
        raise ValueError(f"a {kind.lower()} answers: pass the address of its scheduler")


def _compare_versions(client: Any, named: str) -> None:
    """Raise UsageError if workers have no or another mpiprof, because results would differ."""
    try:
        versions = set(client.run(mpiprof_version).values())
    except Exception as error:  # any exception, because a missing function may fail in many ways
        reason = " ".join(str(error).split())[:200]
        fact = f"its workers cannot import mpiprof ({reason})"
        remedy = f"on their machine run {install_command('dask')}"
        raise UsageError(f"--dask {named}: {fact}: {remedy}") from None
    others = sorted(versions - {__version__})
    if others:
        fact = f"its workers have mpiprof {', '.join(others)}, but this is {__version__}"
        raise UsageError(f"--dask {named}: {fact}: install the same version")


def mpiprof_version() -> str:
    """Return the version of mpiprof in the calling process."""
    return __version__
