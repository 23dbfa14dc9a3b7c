"""Tasks on workers: bounded in size and number, streamed, repeated when their workers are lost, kept in a store.

    for index, result in distribute(work, tasks, over):  …

    result == work(tasks[index]),   each index once, in the order in which tasks end

Results are placed by index, and sums are sums of integers, so neither the number of workers nor a loss changes a bit.
At most `flight` tasks are drawn from `tasks` and not yet returned, so memory is bounded where tasks and results are.
Ctrl-C, or leaving the loop, cancels the tasks that are left; results in the store are found by the next call.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from retrograd.distribution.executors import Workers, check_executor, is_loss, refuse, workers_of
from retrograd.distribution.stores import TaskStore
from retrograd.isa.diagnostics import RetrogradError
from retrograd.version import __version__

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
