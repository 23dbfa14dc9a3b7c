"""Executors: processes of our own, a pool of `concurrent.futures`, or the cluster of a Dask client.

    with workers_of(executor) as workers:
        future = workers.submit(function, argument)
        workers.check()       raises InputError RG1502 if no worker can answer any more
        workers.renew()       after the loss of a pool: a pool of the same kind

A process pool is broken for good when one of its processes is killed, so its tasks move to a new pool. A thread pool loses
nothing. Dask replaces its workers itself.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import current_process, get_context, parent_process
from typing import Any, NoReturn

from retrograd.isa.diagnostics import Diagnostic, InputError

#: seconds without a scheduler or a worker before tasks are given up
PATIENCE = 60.0
#: exit code of a process that was started by a script without a main guard
_UNGUARDED = 77
#: workers of an executor that does not state their number
_SEVERAL = 4
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|wss?)://)?[^\s/:]+:\d{1,5}|(?:tcp|tls)://\[[0-9a-fA-F:]+\]:\d{1,5}")
_HINT = "a number of processes, an executor of concurrent.futures, a client of Dask, or the address of its scheduler"


def refuse(code: str, message: str, hint: str | None = None) -> NoReturn:
    """Raise InputError."""
    raise InputError(Diagnostic(code, message, hint=hint))


def check_executor(executor: Any) -> None:
    """Raise InputError RG1501 for an object that runs no tasks. Nothing is started."""
    if executor is None or isinstance(executor, str) or hasattr(executor, "submit"):
        return
    if isinstance(executor, int) and not isinstance(executor, bool) and executor > 0:
        return
    refuse("RG1501", f"executor = {executor!r:.40}", _HINT)


@contextmanager
def workers_of(executor: Any) -> Iterator[Workers | None]:
    """The workers of an executor; None runs tasks here. Processes that are started here end with the block, at an exception at once.

    Raises InputError RG1501, RG1502.
    """
    check_executor(executor)
    if executor is None or isinstance(executor, Workers):
        yield executor
        return
    with _closing(_workers(executor)) as found:
        yield found


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """Processes for several calls: `with rg.workers(4) as four: rg.run_batch(f, y, x, executor=four)`.

    `executor=4` starts and ends them in each call. A process that is lost is replaced. All end with the block. Raises InputError RG1501.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        refuse("RG1501", f"workers({count!r:.40})", "a number of processes, 1 or more")
    with _closing(_Processes(count)) as found:
        yield found


@contextmanager
def _closing(found: Workers) -> Iterator[Workers]:
    """Close workers when the block ends; at an exception without waiting for their tasks."""
    try:
        yield found
    except BaseException:
        found.close(now=True)
        raise
    found.close(now=False)


def _workers(executor: Any) -> Workers:
    if isinstance(executor, int):
        return _Processes(executor)
    if isinstance(executor, str):
        return _Cluster(_client(executor), owned=True)
    client = getattr(executor, "_client", executor)
    if hasattr(client, "get_executor") and hasattr(client, "scheduler_info"):
        return _Cluster(client, owned=False)
    if not isinstance(executor, Executor) and not callable(getattr(executor, "submit", None)):
        refuse("RG1501", f"executor = {executor!r:.40}", _HINT)
    if isinstance(executor, ProcessPoolExecutor):
        return _Processes(getattr(executor, "_max_workers", _SEVERAL), executor)
    return Workers(executor, getattr(executor, "_max_workers", _SEVERAL))


def is_loss(error: BaseException) -> bool:
    """Whether a task is lost with its worker; the task itself has raised nothing."""
    if isinstance(error, BrokenExecutor | CancelledError):
        return True
    kind = type(error)
    return kind.__module__.startswith("distributed") and kind.__name__ in _LOSSES


#: exceptions of Dask for tasks whose worker, or whose connection, is gone
_LOSSES = frozenset(
    {"KilledWorker", "CommClosedError", "FutureCancelledError", "FuturesCancelledError", "NoWorkerError"}
)


class Workers:
    """The workers of an executor that another owner closes."""

    def __init__(self, executor: Any, count: int) -> None:
        self.executor = executor
        #: about how many tasks run at a time
        self.count = count

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        """A task. Raises BrokenExecutor, InputError RG1501."""
        try:
            future: Future[Any] = self.executor.submit(work, *args)
        except BrokenExecutor:
            raise
        except RuntimeError as error:
            refuse("RG1501", f"the executor takes no tasks any more: {error}", "It has been shut down: make a new one.")
        return future

    def check(self) -> None:
        """Raise InputError RG1502 if no worker can answer any more."""

    def renew(self) -> None:
        """Replace an executor that is broken for good, where that is possible."""

    def close(self, now: bool) -> None:
        """End the workers that were started here; `now`: without waiting for their tasks."""


class _Processes(Workers):
    """A process pool: our own, or that of a user until it breaks."""

    def __init__(self, count: int, given: ProcessPoolExecutor | None = None) -> None:
        self._like = given
        self._processes: dict[int, Any] = {}
        super().__init__(given if given is not None else self._made(count), count)

    def _made(self, count: int) -> ProcessPoolExecutor:
        if self._like is None:
            # Spawned, since libraries loaded here have threads, which a forked copy of the process lacks.
            return ProcessPoolExecutor(count, get_context("spawn"), initializer=_begin_process)
        like = vars(self._like)
        context, begin, arguments = (like.get(f"_{name}") for name in ("mp_context", "initializer", "initargs"))
        return ProcessPoolExecutor(count, context, begin, arguments or ())

    @property
    def _owned(self) -> bool:
        return self.executor is not self._like

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        """A task. A pool starts its processes here; those of our own are not reached by Ctrl-C, which ends them through `close`."""
        if getattr(current_process(), "_inheriting", False):
            # This process is importing the user's script, which starts processes in its turn. Its parent reports that.
            raise SystemExit(_UNGUARDED)
        with _signals_blocked() if self._owned else nullcontext():
            try:
                return super().submit(work, *args)
            finally:
                self._processes.update(getattr(self.executor, "_processes", None) or {})

    def check(self) -> None:
        """Raise InputError RG1510 if a process ended because its script starts processes where it is imported."""
        for process in self._processes.values():
            # A process that has just ended has its exit code after it is joined.
            process.join(0)
            if process.exitcode == _UNGUARDED:
                refuse("RG1510", "the script starts processes while a process of its own imports it")

    def renew(self) -> None:
        """A new pool of the same kind in place of a broken one. Raises InputError RG1510."""
        self.check()
        self._processes.clear()
        if self._owned:
            self.close(now=True)
        self.executor = self._made(self.count)

    def close(self, now: bool) -> None:
        """End the processes."""
        if not self._owned:
            return
        processes: Mapping[int, Any] = self._processes | (getattr(self.executor, "_processes", None) or {})
        self.executor.shutdown(wait=not now, cancel_futures=True)
        if now:
            for process in processes.values():
                process.kill()
            for process in processes.values():
                process.join()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process that is started within does not receive Ctrl-C: its parent does, and ends it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_process() -> None:
    """Let the process end when its parent is gone, killed or not."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _client(address: str) -> Any:
    """A client of the scheduler at an address. Raises InputError RG1501, RG1502."""
    if not _ADDRESS.fullmatch(address):
        refuse(
            "RG1501", f"{address!r:.80} is no address of a scheduler", "tcp://HOST:PORT, such as tcp://127.0.0.1:8786"
        )
    try:
        from distributed import Client
    except ImportError:
        refuse("RG1501", f"executor = {address!r:.60} needs `distributed`", "pip install 'retrograd[sweep]'")
    try:
        with _quiet_dask():
            return Client(address, timeout=5, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError, LookupError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        refuse("RG1502", f"no scheduler answers at {address:.80}: {reason}")


@contextmanager
def _quiet_dask() -> Iterator[None]:
    """Dask logs each failed connection; the error that follows has its reason."""
    import logging

    log = logging.getLogger("distributed")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


class _Cluster(Workers):
    """The cluster of a Dask client."""

    def __init__(self, client: Any, owned: bool) -> None:
        self._client, self._closes = client, owned
        self._missing: float | None = None
        if getattr(client, "asynchronous", False) is True:
            refuse("RG1501", "the client of Dask is asynchronous", "Client(…, asynchronous=False)")
        if client.status != "running":
            refuse("RG1502", f"the client of Dask is {client.status}")
        super().__init__(client.get_executor(pure=False), max(1, sum(client.nthreads().values())))

    def check(self) -> None:
        """Raise InputError RG1502 once there has been no scheduler, or no worker, for some time."""
        status = self._client.status
        if status == "running" and self._client.scheduler_info().get("workers"):
            self._missing = None
            return
        now = time.monotonic()
        self._missing = self._missing or now
        if status == "closed" or now - self._missing > PATIENCE:
            lacks = "the scheduler has no workers" if status == "running" else "the scheduler has gone away"
            refuse("RG1502", f"{lacks} ({self._client.scheduler_info().get('address', 'no address')})")

    def close(self, now: bool) -> None:
        """Cancel tasks that are left; end a client that was made here."""
        with suppress(Exception):
            self.executor.shutdown(wait=False)
        if self._closes:
            with suppress(Exception):
                self._client.close(timeout=5)
