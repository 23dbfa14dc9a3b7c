"""Workers that are killed at random times: the same bits, and no process that stays."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from retrograd.isa.diagnostics import InputError

from retrograd.runtime import _distribution

#: A pool whose process was killed joins its processes in a thread, while `submit` may add one: CPython's executor then
#: ends this thread by an error. The pool is given up anyway, and its tasks move.
_JOINED = "ignore:(?s)Exception in thread.*dictionary changed size:pytest.PytestUnhandledThreadExceptionWarning"
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings(_JOINED)]
HERE = Path(__file__).parent


@pytest.fixture
def workload(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("tests/distribution/workload.py")


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A process that a shell has started in the background ignores SIGINT, and so do its children; here they do not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def killing(pids: Callable[[], list[int]], seed: int) -> Iterator[list[int]]:
    """Kill one of the processes at random times. The list has the killed processes."""
    killed: list[int] = []
    ended, choose = threading.Event(), random.Random(seed)

    def kill() -> None:
        # The first as soon as there is a process: on a fast machine all work ends soon.
        while not ended.wait(choose.uniform(0.05, 0.6) if killed else 0.01):
            found = [pid for pid in pids() if pid not in killed]
            if found and len(killed) < 6:
                victim = choose.choice(found)
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed.append(victim)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def children() -> list[int]:
    return [p.pid for p in active_children() if p.pid is not None]


@pytest.mark.parametrize(("workers", "chunk", "seed"), [(1, 400, 0), (2, 150, 1), (4, 500, 2)])
def test_processes_of_our_own(workload: ModuleType, workers: int, chunk: int, seed: int) -> None:
    expected = workload.summed()
    with killing(children, seed) as killed:
        assert workload.summed(workers, chunk) == expected
    assert killed
    assert children() == []


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_pool_of_the_caller(workload: ModuleType, start: str) -> None:
    """It breaks with its first process; tasks move to a pool of the same kind."""
    expected = workload.summed()
    with ProcessPoolExecutor(2, get_context(start)) as pool:
        with killing(children, 3) as killed:
            assert workload.summed(pool, 150) == expected
        assert killed


def test_a_pool_that_breaks_while_it_starts_a_process(workload: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process dies as the second one starts: the pool has closed the pipe that the second was to inherit."""
    expected = workload.summed()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        real, seen = ProcessPoolExecutor._adjust_process_count, []

        def adjust(self: Any) -> None:
            if self is pool and self._processes and not seen:
                os.kill(next(iter(self._processes)), signal.SIGKILL)
                _wait_for(lambda: self._call_queue._reader.closed, 30)
                seen.append(True)
            real(self)

        monkeypatch.setattr(ProcessPoolExecutor, "_adjust_process_count", adjust)
        assert workload.summed(pool, 150) == expected
        assert seen


def test_four_workers_of_dask(workload: ModuleType) -> None:
    """A scheduler and four workers in processes of their own."""
    distributed = pytest.importorskip("distributed")
    expected = workload.summed()
    local: dict[str, Any] = {"n_workers": 4, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**local, silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):

        def workers() -> list[int]:
            return [w.pid for w in cluster.workers.values() if w.pid is not None]

        assert len(set(workers())) == 4
        assert workload.summed(client, 1000) == expected
        assert workload.summed(client.get_executor(), 999) == expected
        with killing(workers, 4) as killed:
            assert workload.summed(client, 250) == expected
            assert workload.summed(cluster.scheduler_address, 333) == expected
        assert killed
        client.run(_pretend, "0.0.1")
        with pytest.raises(InputError, match=r"RG1504.*0\.0\.1"):
            workload.summed(client, 1000)


@pytest.mark.parametrize(("status", "lost"), [("lost", True), ("error", False)])
def test_a_worker_of_dask_that_is_lost_behind_its_answer(status: str, lost: bool) -> None:
    """Dask's executor takes the answer for an error of three parts. An error of the task that reads alike is none of these."""
    cfexecutor = pytest.importorskip("distributed.cfexecutor")

    class Task:
        def __init__(self) -> None:
            self.status = status

        async def _result(self, raiseit: bool) -> tuple[Any, ...]:
            if lost:
                return "0.1.0", 5
            try:
                _, _, _ = (1, 2)  # type: ignore[misc]
            except ValueError as error:
                return type(error), error, error.__traceback__
            raise AssertionError

    async def passed_on() -> BaseException | None:
        found: Future[Any] = Future()
        await cfexecutor._cascade_future(Task(), found)
        return found.exception()

    error = asyncio.run(passed_on())
    assert isinstance(error, ValueError)
    assert _distribution.is_loss(error) == lost


def _pretend(version: str) -> None:
    import retrograd.runtime._distribution as there

    there.__version__ = version


def test_a_scheduler_that_dies(workload: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is ours, and the store goes on elsewhere."""
    pytest.importorskip("distributed")

    monkeypatch.setattr(_distribution, "PATIENCE", 3.0)
    dask = [sys.executable, "-m", "dask"]
    file = tmp_path / "scheduler.json"
    with _running(
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    ) as scheduler:
        _wait_for(file.exists)
        address = json.loads(file.read_text())["address"]
        with _running([*dask, "worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]):
            store, ended = tmp_path / "store.db", threading.Event()

            def kill() -> None:
                while not ended.wait(0.05):
                    if _kept(store) > 2:
                        scheduler.kill()
                        return

            killer = threading.Thread(target=kill)
            killer.start()
            try:
                with pytest.raises(InputError, match=r"RG1502|RG1503"):
                    workload.slow_batch(800, executor=address, store=store, chunk=4)
            finally:
                ended.set()
                killer.join()
    before = _kept(store)
    assert before > 2
    expected = workload.slow_batch(800)
    assert (workload.slow_batch(800, store=store, chunk=4).matrix == expected.matrix).all()


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def _kept(store: Path) -> int:
    """How many results a store has."""
    if not store.exists():
        return 0
    try:
        with closing(sqlite3.connect(store)) as file:
            return int(file.execute("SELECT count(*) FROM kept").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


# ---------------------------------------------------------------------- cancelling


def _workers_of(pid: int) -> list[int]:
    """The processes that a process started, by Linux's list."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(text) for text in found.read_text().split()] if found.exists() else []


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_no_worker_is_left_and_nothing_is_lost(workload: ModuleType, tmp_path: Path, how: int) -> None:
    """Ctrl-C reaches all processes of a terminal, as here those of one group."""
    store = tmp_path / "store.db"
    command = [sys.executable, str(HERE / "workload.py"), "800", "2", str(store)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    _wait_for(lambda: _kept(store) > 3)
    workers = _workers_of(process.pid)
    assert len(workers) >= 2
    (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
    _, text = process.communicate(timeout=60)
    assert process.returncode != 0
    _wait_for(lambda: not any(map(_alive, workers)), 30)
    if how == signal.SIGINT:
        assert text.count("Traceback") == 1, text
        assert "KeyboardInterrupt" in text
    before = _kept(store)
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert _kept(store) == 200 > before
    assert int(ran.stdout) == int(workload.slow_batch(800).matrix.sum())


def test_the_command_line(tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "in.npz", y=np.zeros(800), x=np.linspace(0, 1, 800), n=np.full(800, 3000))
    store = tmp_path / "store.db"
    command = [
        str(Path(sys.executable).parent / "retrograd"), "run", f"{HERE / 'workload.py'}:slow", "--batch", "in.npz",
        "--no-overflow", "--workers", "2", "--store", "store.db", "--chunk", "4", "-o", "out.npz",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, text=True)
    _wait_for(lambda: _kept(store) > 3)
    workers = _workers_of(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in text) == (130, False), text
    assert text == "interrupted: finished parts are in store.db, and the same command goes on from there\n"
    assert not (tmp_path / "out.npz").exists()
    _wait_for(lambda: not any(map(_alive, workers)), 30)
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    alone = [*command[: command.index("--workers")], "-o", "alone.npz"]
    subprocess.run(alone, cwd=tmp_path, check=True, capture_output=True)
    with np.load(tmp_path / "out.npz") as a, np.load(tmp_path / "alone.npz") as b:
        assert all(np.array_equal(a[name], b[name]) for name in b)
