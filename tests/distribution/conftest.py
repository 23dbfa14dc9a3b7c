"""An executor that loses tasks and ends them in any order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest


class Losing(Executor):
    """A thread that ends tasks in a random order; `share` of them are lost, in one of three ways."""

    def __init__(self, seed: int = 0, share: float = 0.3) -> None:
        self._random, self._share = random.Random(seed), share
        self._waiting: list[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = []
        self._changed = threading.Condition()
        self._ended = False
        self.lost = self.most = 0
        #: how many of the last tasks were lost, one after the other
        self._together = 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._changed:
            self._waiting.append((future, fn, args))
            self.most = max(self.most, len(self._waiting))
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if self._ended:
                    return
                task = self._waiting.pop(self._random.randrange(len(self._waiting)))
            self._end(*task)

    def _end(self, future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        way = self._random.randrange(3) if self._random.random() < self._share else None
        # A task that is lost nine times is given up: the last one that waits would meet them by chance.
        way = None if self._together == 6 and self._share < 1 else way
        self._together = 0 if way is None else self._together + 1
        self.lost += way is not None
        if way == 2:
            future.cancel()
        # The caller may have cancelled the task, too; no result may follow then.
        if not future.set_running_or_notify_cancel():
            return
        try:
            if way is not None:
                raise (BrokenProcessPool("lost"), CancelledError())[way]
            future.set_result(fn(*args))
        except BaseException as error:
            future.set_exception(error)


@pytest.fixture
def losing(request: pytest.FixtureRequest) -> Callable[..., Losing]:
    """losing(seed, share): an executor that loses tasks."""

    def made(seed: int = 0, share: float = 0.3) -> Losing:
        found = Losing(seed, share)
        request.addfinalizer(found.shutdown)
        return found

    return made


@pytest.fixture(scope="session")
def losing_once() -> Callable[..., Any]:
    """with losing_once(seed, share) as executor: …"""
    return Losing
