"""Executors: processes of our own, a pool of `concurrent.futures`, or the cluster of a Dask client.

    with workers_of(executor) as workers:
        future = workers.submit(function, argument)
        workers.check()       raises InputError RG1502 if no worker can answer any more
        workers.renew()       after the loss of a pool: a pool of the same kind

A process pool is broken for good when one of its processes is killed, so its tasks move to a new pool. A thread pool loses
nothing. Dask replaces its workers itself.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import current_process, get_context, parent_process
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.version import __version__

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
    kind, at = type(error), error.__traceback__
    if kind is ValueError and at is not None and at.tb_next is None:
        # The worker was lost behind the answer of the task: Dask's executor then unpacks the answer as an error of three parts.
        where = at.tb_frame.f_globals.get("__name__"), at.tb_frame.f_code.co_name
        return where == ("distributed.cfexecutor", "_cascade_future") and "to unpack" in str(error)
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
            except OSError as error:
                # A process has died while this call starts another one: the pool has closed the pipe that the new one
                # was to inherit.
                if getattr(self.executor, "_broken", False):
                    raise BrokenExecutor("the pool broke while it started a process") from error
                refuse("RG1501", f"no process can be started: {error}", "Ask for fewer workers.")
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


# -----------------------------------------------------------------------------
# Results of tasks in a file of SQLite, each under the hash of everything that determines it.
#
#     tasks   schema
#     kept    key, result in bytes, digest of both
#
# A result with a wrong digest is damaged, and its task is run again. A file with other contents or another schema is refused, and left
# as it is. A result is written whole or not at all, so a process may be killed at any time.

SCHEMA = "retrograd.tasks/1"
#: seconds that a store waits for another process that has locked it

#: seconds between two attempts: SQLite would wait by itself, but not look at signals meanwhile
_PAUSE = 0.02
#: the exceptions of opening, reading and writing a file of SQLite: the store cannot be used
WRONG = (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError, MemoryError)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_T = TypeVar("_T")


class StoreFile:
    """A file of SQLite with tables of one schema, or no file at all. Only this process writes the results of its work."""

    #: the kind of error of a file that is no such store, and the contents that it should have
    code = "RG1506"
    contents = "results of tasks"

    def __init__(self, path: str | Path | None) -> None:
        self._path = path
        self._file: sqlite3.Connection | None = None
        if path is None:
            return
        try:
            # Absolute: SQLite has names that stand for no file, such as :memory:
            place = Path(path).absolute()
            if place.exists() and not place.is_file():
                raise ValueError("it is no file")
            self._file = sqlite3.connect(place, timeout=0)
            problem = self.patiently(self.opened)
        except WRONG as error:
            problem = f"keeps no {self.contents}: {error}"
        except BaseException:
            self.close()
            raise
        if problem is not None:
            self.close()
            raise self.refusal(problem)

    def opened(self, file: sqlite3.Connection) -> str | None:
        """Make the tables of a new file; return the reason if an old file is no store."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        """Whether there is a file."""
        return self._file is not None

    def refusal(self, problem: str) -> InputError:
        """The error of a file that cannot be used."""
        return InputError(Diagnostic(self.code, f"{self._path} {problem}"))

    def patiently(self, act: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `act` as soon as no other process has locked the file. Raises sqlite3.OperationalError after `PATIENCE`."""
        assert self._file is not None
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return act(self._file)
            except sqlite3.OperationalError as error:
                # The lowest byte is the kind of error, the other bytes its details.
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _LOCKED or time.monotonic() >= end:
                    raise
            time.sleep(_PAUSE)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def tables_of(file: sqlite3.Connection) -> set[str]:
    """The names of the tables."""
    return {str(name) for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


class TaskStore(StoreFile):
    """Results of tasks by key."""

    def opened(self, file: sqlite3.Connection) -> str | None:
        """Make the tables of a new file; return the reason if an old file is no store."""
        with file:
            # Of two processes that begin at once, one makes the tables and the other finds them.
            file.execute("BEGIN IMMEDIATE")
            tables = tables_of(file)
            if not tables:
                file.execute("CREATE TABLE tasks (schema TEXT NOT NULL)")
                file.execute("INSERT INTO tasks VALUES (?)", (SCHEMA,))
                file.execute("CREATE TABLE kept (key TEXT PRIMARY KEY, result BLOB NOT NULL, digest TEXT NOT NULL)")
                return None
            if not {"tasks", "kept"} <= tables:
                return f"keeps no {self.contents}: its tables are {', '.join(sorted(tables))[:80]}"
            schema = file.execute("SELECT schema FROM tasks").fetchone()
            if schema != (SCHEMA,):
                return f"keeps tasks of the schema {str(schema and schema[0])[:60]}, and this is {SCHEMA}"
            return None

    def result(self, key: str) -> bytes | None:
        """The result under a key; None where there is none, or a damaged one. Raises InputError RG1506."""
        if not self:
            return None
        query = "SELECT result, digest FROM kept WHERE key = ?"
        try:
            found = self.patiently(lambda file: file.execute(query, (key,)).fetchone())
        except WRONG as error:
            raise self.refusal(f"cannot be read: {error}") from None
        if found is None or not isinstance(found[0], bytes) or found[1] != _digest(key, found[0]):
            return None
        return found[0]

    def keep(self, key: str, result: bytes) -> None:
        """Write a result, whole or not at all. Raises InputError RG1506."""
        if not self:
            return

        def write(file: sqlite3.Connection) -> None:
            with file:
                file.execute("BEGIN IMMEDIATE")
                file.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (key, result, _digest(key, result)))

        try:
            self.patiently(write)
        except WRONG as error:
            raise self.refusal(f"cannot keep a result: {error}") from None


def _digest(key: str, result: bytes) -> str:
    """The digest of a result and its key, so that a result under another key is found to be damaged."""
    return hashlib.sha256(key.encode() + result).hexdigest()


# -----------------------------------------------------------------------------
# Tasks on workers: bounded in size and number, streamed, repeated when their workers are lost, kept in a store.
#
#     for index, result in distribute(work, tasks, over):  …
#
#     result == work(tasks[index]),   each index once, in the order in which tasks end
#
# Results are placed by index, and sums are sums of integers, so neither the number of workers nor a loss changes a bit.
# At most `flight` tasks are drawn from `tasks` and not yet returned, so memory is bounded where tasks and results are.
# Ctrl-C, or leaving the loop, cancels the tasks that are left; results in the store are found by the next call.

T = TypeVar("T")
R = TypeVar("R")

#: how often a task is sent again after the loss of its worker
RETRIES = 8
#: tasks that are in flight for each worker: one runs, and one waits for it
AHEAD = 2
#: seconds between two looks at the workers
GLANCE = 0.2


@dataclass(frozen=True)
class Distribution:
    """Where tasks run, and where their results are kept. Raises InputError RG1501, RG1508.

    `executor`: None for this process, a number of processes, an executor of `concurrent.futures`, a client of Dask, or
    the address of its scheduler. `store`: a file of SQLite. `chunk`: elements of a task; by default as many as the size of a
    task allows.
    """

    executor: Any = None
    store: str | Path | None = None
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_executor(self.executor)
        chunk = self.chunk
        if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            refuse("RG1508", f"chunk = {chunk!r:.40}", "a number of elements, 1 or more")

    @classmethod
    def of(cls, executor: Any, store: str | Path | None = None, chunk: int | None = None) -> Distribution | None:
        """The distribution that a caller describes; None without any."""
        return None if executor is None and store is None and chunk is None else cls(executor, store, chunk)


@dataclass(frozen=True)
class Keeping(Generic[T, R]):
    """How results are kept in a store. `decode` gives None for bytes of another form, whose task is then run again."""

    key: Callable[[T], str]
    encode: Callable[[R], bytes]
    decode: Callable[[bytes], R | None]


class _Sent(NamedTuple):
    number: int
    task: Any
    #: how often its worker was lost
    losses: int = 0


def distribute(
    work: Callable[[T], R],
    tasks: Iterable[T],
    over: Distribution,
    *,
    keeping: Keeping[T, R] | None = None,
    flight: int | None = None,
    bar: Callable[[int], object] | None = None,
    size: Callable[[T], int] = lambda _: 1,
) -> Generator[tuple[int, R], None, None]:
    """(index, work(task)) of each task. `work` is a function at the top of a module; errors of ours that it raises are raised here.

    `flight`: tasks at a time (default: two for each worker). `bar(size(task))` is called for each finished task.
    Raises InputError RG1501 to RG1507, and the errors of `work`.
    """
    if over.store is not None and keeping is None:
        refuse("RG1508", "these results are not kept in a store", "Leave out `store`.")
    with closing(TaskStore(over.store)) as store, workers_of(over.executor) as workers:
        run = _Here(work) if workers is None else _There(work, workers, flight)
        with closing(run):
            for sent, result, new in run.results(_unfinished(tasks, store, keeping)):
                if new and keeping is not None:
                    store.keep(keeping.key(sent.task), keeping.encode(result))
                if bar is not None:
                    bar(size(sent.task))
                yield sent.number, result


def in_order(found: Iterable[tuple[int, R]]) -> Iterator[R]:
    """The results of `distribute` by index; a result waits for those before it."""
    waiting: dict[int, R] = {}
    at = 0
    for index, result in found:
        waiting[index] = result
        while at in waiting:
            yield waiting.pop(at)
            at += 1


def _unfinished(
    tasks: Iterable[T], store: TaskStore, keeping: Keeping[T, R] | None
) -> Iterator[tuple[_Sent, R | None]]:
    """The tasks, each with its result if the store has it."""
    for index, task in enumerate(tasks):
        found: R | None = None
        if store and keeping is not None:
            kept = store.result(keeping.key(task))
            found = None if kept is None else keeping.decode(kept)
        yield _Sent(index, task), found


class _Here:
    """Tasks in this process, one after the other."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def results(self, tasks: Iterator[tuple[_Sent, Any]]) -> Iterator[tuple[_Sent, Any, bool]]:
        """(task, result, whether it is new)"""
        for sent, found in tasks:
            yield sent, self._work(sent.task) if found is None else found, found is None

    def close(self) -> None:
        """Nothing is left."""


class _There:
    """Tasks on workers."""

    def __init__(self, work: Callable[[Any], Any], workers: Workers, flight: int | None) -> None:
        self._work, self._workers = work, workers
        self._flight = flight or AHEAD * workers.count
        self._running: dict[Future[Any], _Sent] = {}
        #: lost tasks, which are sent again
        self._again: list[_Sent] = []
        self._checked = isinstance(workers.executor, ThreadPoolExecutor)

    def results(self, tasks: Iterator[tuple[_Sent, Any]]) -> Iterator[tuple[_Sent, Any, bool]]:
        """(task, result, whether it is new)"""
        left = True
        while left or self._running or self._again:
            while len(self._running) < self._flight and (self._again or left):
                if self._again:
                    self._send(self._again.pop())
                    continue
                drawn = next(tasks, None)
                if drawn is None:
                    left = False
                elif drawn[1] is not None:
                    yield drawn[0], drawn[1], False
                else:
                    self._send(drawn[0])
            ended, _ = wait(self._running, timeout=GLANCE, return_when=FIRST_COMPLETED)
            if not ended:
                self._workers.check()
            for future in ended:
                sent = self._running.pop(future)
                found = self._result(future, sent)
                if found is not None:
                    yield sent, found[0], True

    def _send(self, sent: _Sent) -> None:
        if not self._checked:
            _need_pickle(self._work, sent.task)
            self._checked = True
        for _ in range(RETRIES):
            try:
                self._running[self._workers.submit(_run, __version__, self._work, sent.task)] = sent
                return
            except BrokenExecutor:
                self._workers.renew()
        self._give_up()

    def _result(self, future: Future[Any], sent: _Sent) -> tuple[Any] | None:
        """The result of a task that has ended; None if it was lost, and is sent again."""
        error = future.exception() if not future.cancelled() else None
        if future.cancelled() or (error is not None and is_loss(error)):
            self._workers.check()
            if sent.losses == RETRIES:
                self._give_up()
            self._again.append(sent._replace(losses=sent.losses + 1))
            return None
        match error:
            case None:
                version, result = future.result()
                if version != __version__:
                    refuse("RG1504", f"a worker has Retrograd {version:.40}, and this is {__version__}")
                return (result,)
            case RetrogradError() | KeyboardInterrupt():
                raise error
            case pickle.PicklingError():
                refuse("RG1505", f"a task has no pickle: {error!s:.160}")
        # Dask's scheduler reports a missing package as the cause of an error of its own.
        error = error.__cause__ or error
        refuse("RG1507", f"a worker raised {type(error).__name__}: {str(error).partition(chr(10))[0][:160]}")

    def _give_up(self) -> None:
        refuse("RG1503", f"a task was lost with its worker {RETRIES + 1} times")

    def close(self) -> None:
        """Cancel the tasks that are left."""
        for future in self._running:
            future.cancel()


def _need_pickle(work: Callable[[Any], Any], task: Any) -> None:
    """Raise InputError RG1505 for a task that cannot be sent; NotPicklable RG0605 for a function of the language."""
    try:
        pickle.dumps((work, task))
    except RetrogradError:
        raise
    except Exception as error:  # any exception of an object's own `__reduce__`
        nameless = next(_nameless((work, task)), None)
        if nameless is not None:
            refuse("RG1505", f"no other process finds `{nameless.__qualname__}` by its name")
        refuse("RG1505", f"a task has no pickle: {str(error).partition(chr(10))[0][:160]}")


def _nameless(value: Any) -> Iterator[Any]:
    """The functions without a name of their own in a task."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from _nameless(part)
    elif "<" in getattr(value, "__qualname__", ""):
        yield value


def _run(version: str, work: Callable[[T], R], task: T) -> tuple[str, R | None]:
    """On a worker: (its version, the result); another version runs nothing."""
    return __version__, work(task) if version == __version__ else None
