"""Workers of Dask, which pass over the partitions of a data set for a verb.

They are those of a scheduler that runs already, named by its address or by the file that it wrote,
or processes of this machine. Results come in the order of the items; what a worker has done or held
that died is done again by another.
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
from mpiprof.progress import bar

LOCAL = "local:"
MOST = 1024  # processes of this machine
AHEAD = 8  # items a thread that are under way or done: what is not fetched yet fills its memory
PATIENCE_S = 10  # for a scheduler to answer, and for its first worker
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

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Call a function of each item, and yield what it gives in the order of the items."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        threads = self.client.nthreads()
        count, ahead = len(threads), AHEAD * max(sum(threads.values()), AHEAD)
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
                    found = futures[0].result()
                    futures.popleft()  # which lets the worker forget it
                    step(1)
                    yield found
            except KilledWorker as error:
                raise MpiprofError(
                    f"--dask: workers died again and again at the same partition ({error}); "
                    "do they have memory enough?"
                ) from None
            except (CancelledError, CommClosedError, TimeoutError) as error:
                raise MpiprofError(f"--dask: the scheduler has gone ({error})") from None
            finally:
                if self.client.status == "running":
                    self.client.cancel([*futures, given])


def _given(function: Function) -> Function:
    return function


def _called(function: Callable[[Item], Result], item: Item) -> Result:
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
    if not (number.isdecimal() and 1 <= int(number) <= MOST):
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
    return UsageError(f"--dask needs {name}: python -m pip install 'mpiprof[dask]'")


def _client(distributed: Any, named: str) -> Any:
    """Return a client of a scheduler that runs; raises UsageError where none answers."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # we say it ourselves, in one line
    path = Path(named)
    where = {"scheduler_file": named} if path.is_file() else {"address": named}
    if not path.is_file() and ":" not in named:
        raise UsageError(
            f"--dask {named}: no such scheduler file; give one, an address as tcp://host:8786, "
            f"or {LOCAL}N"
        )
    try:
        client = distributed.Client(**where, timeout=PATIENCE_S, set_as_default=False)
    except Exception as error:  # of any kind, where the file is that of something else
        why = " ".join(str(error).split())[:200]
        raise UsageError(f"--dask {named}: no scheduler answers there ({why})") from None
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except TimeoutError:
        client.close()
        raise UsageError(
            f"--dask {named}: its scheduler has no workers; start some, such as `dask worker`"
        ) from None
    return client


def _compare_versions(client: Any, named: str) -> None:
    """Raise UsageError where workers have no mpiprof, or another: bits would differ."""
    try:
        found = set(client.run(version).values())
    except Exception as error:  # whatever becomes of a function that can't be found there
        why = " ".join(str(error).split())[:200]
        raise UsageError(
            f"--dask {named}: its workers can't import mpiprof ({why}); "
            "install mpiprof[dask] where they run"
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
