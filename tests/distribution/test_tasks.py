"""Tasks: every index once, in spite of losses; a bounded number in flight; a store that is believed only where its digests hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from retrograd.isa.diagnostics import InputError

from retrograd.runtime import _distribution
from retrograd.runtime._distribution import RETRIES, Distribution, Keeping, distribute, in_order

Made = Callable[..., Any]


def square(n: int) -> int:
    return n * n


def fail(n: int) -> int:
    raise ZeroDivisionError(f"at {n}\nsecond line")


KEEPING: Keeping[int, int] = Keeping(str, lambda r: str(r).encode(), lambda data: int(data) if data.isdigit() else None)


@pytest.mark.parametrize("seed", range(8))
def test_lost_tasks_run_again(losing: Made, seed: int) -> None:
    executor = losing(seed)
    bar: list[int] = []
    found = dict(distribute(square, range(60), Distribution(executor), bar=bar.append))
    assert found == {n: n * n for n in range(60)}
    assert executor.lost
    assert sum(bar) == 60


def test_a_task_that_is_always_lost_is_given_up(losing: Made) -> None:
    with pytest.raises(InputError, match=f"RG1503.*lost with its worker {RETRIES + 1} times"):
        list(distribute(square, [3], Distribution(losing(share=1.0))))


def test_tasks_are_drawn_as_results_are_taken() -> None:
    """At most the tasks in flight are held, however long the list is and however slow its consumer."""
    drawn: list[int] = []

    def many() -> Iterator[int]:
        for n in range(1000):
            drawn.append(n)
            yield n

    with ThreadPoolExecutor(2) as pool, closing(distribute(square, many(), Distribution(pool), flight=5)) as found:
        for taken, _ in enumerate(found, 1):
            assert len(drawn) <= taken + 5
    assert len(drawn) == 1000


def test_in_order() -> None:
    assert list(in_order([(2, "c"), (0, "a"), (1, "b")])) == ["a", "b", "c"]


def test_leaving_the_loop_cancels_the_others() -> None:
    class Idle(Executor):
        """Runs the first task only."""

        def __init__(self) -> None:
            self.futures: list[Future[Any]] = []

        def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
            self.futures.append(Future())
            if len(self.futures) == 1:
                self.futures[0].set_result(fn(*args))
            return self.futures[-1]

    executor = Idle()
    with closing(distribute(square, range(10), Distribution(executor))) as found:
        assert next(found) == (0, 0)
    assert all(future.cancelled() for future in executor.futures[1:])
    assert len(executor.futures) > 1


# ---------------------------------------------------------------------- the store


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    out: list[int] = []

    def counted(n: int) -> int:
        out.append(n)
        return n * n

    monkeypatch.setitem(globals(), "square", counted)
    return out


def test_finished_tasks_do_not_run_again(tmp_path: Path, ran: list[int]) -> None:
    over = Distribution(store=tmp_path / "store.db")
    with closing(distribute(square, range(10), over, keeping=KEEPING)) as found:
        assert [next(found)[1] for _ in range(4)] == [0, 1, 4, 9]
    assert dict(distribute(square, range(10), over, keeping=KEEPING)) == {n: n * n for n in range(10)}
    assert sorted(ran) == list(range(10))


@pytest.mark.parametrize(
    "damage",
    ["UPDATE kept SET result = X'3939'", "UPDATE kept SET digest = 'x'", "UPDATE kept SET key = key || '1' WHERE key < '5'",
     "UPDATE kept SET result = 'text'", "DELETE FROM kept"],
)  # fmt: skip
def test_damaged_results_are_computed_again(tmp_path: Path, ran: list[int], damage: str) -> None:
    over = Distribution(store=tmp_path / "store.db")
    expected = list(distribute(square, range(10), over, keeping=KEEPING))
    with closing(sqlite3.connect(tmp_path / "store.db")) as file, file:
        file.execute(damage)
    ran.clear()
    assert list(distribute(square, range(10), over, keeping=KEEPING)) == expected
    assert len(ran) >= 5
    ran.clear()
    assert list(distribute(square, range(10), over, keeping=KEEPING)) == expected
    assert ran == []


def test_a_result_of_another_form_is_computed_again(tmp_path: Path, ran: list[int]) -> None:
    over = Distribution(store=tmp_path / "store.db")
    other: Keeping[int, int] = Keeping(str, lambda _: b"no number", KEEPING.decode)
    list(distribute(square, [7], over, keeping=other))
    assert list(distribute(square, [7], over, keeping=KEEPING)) == [(0, 49)]
    assert ran == [7, 7]


def test_files_that_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, and long enough to be looked at" * 40)
    with closing(sqlite3.connect(tmp_path / "other.db")) as file, file:
        file.execute("CREATE TABLE mine (x)")
    with closing(sqlite3.connect(tmp_path / "schema.db")) as file, file:
        file.execute("CREATE TABLE tasks (schema)")
        file.execute("CREATE TABLE kept (key)")
        file.execute("INSERT INTO tasks VALUES ('retrograd.tasks/0')")
    for name in ("text", "other.db", "schema.db", ".", "no/folder.db"):
        with pytest.raises(InputError, match=r"RG1506"):
            list(distribute(square, [1], Distribution(store=tmp_path / name), keeping=KEEPING))
    assert (tmp_path / "text").read_text().startswith("no database")


def test_results_that_have_no_form_in_a_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"RG1508"):
        list(distribute(square, [1], Distribution(store=tmp_path / "store.db")))


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize("wrong", [0, -1, True, 2.5, object()])
def test_no_executor(wrong: object) -> None:
    with pytest.raises(InputError, match=r"RG1501"):
        Distribution(wrong)


@pytest.mark.parametrize("wrong", ["", "tcp", "localhost", "http://host:80", "tcp://:80", "tcp://host:port", "a b:80"])
def test_no_address(wrong: str) -> None:
    with pytest.raises(InputError, match=r"RG1501.*no address"):
        list(distribute(square, [1], Distribution(wrong)))


@pytest.mark.parametrize("chunk", [0, -3, 1.5, True])
def test_no_size_of_a_task(chunk: Any) -> None:
    with pytest.raises(InputError, match=r"RG1508.*chunk"):
        Distribution(chunk=chunk)


def test_an_executor_that_is_shut_down() -> None:
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(InputError, match=r"RG1501.*takes no tasks any more"):
        list(distribute(square, [1], Distribution(pool)))


def test_a_worker_that_fails(losing: Made) -> None:
    with pytest.raises(InputError, match=r"RG1507.*ZeroDivisionError: at 3"):
        list(distribute(fail, [3], Distribution(losing(share=0.0))))


def test_a_worker_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_distribution, "_run", lambda version, work, task: ("0.0.1", None))
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match=r"RG1504.*0\.0\.1"):
        list(distribute(square, [3], Distribution(pool)))


def test_another_version_runs_nothing() -> None:
    assert _distribution._run("0.0.1", fail, 3) == (_distribution.__version__, None)


def test_functions_without_a_name(losing: Made) -> None:
    with pytest.raises(InputError, match=r"RG1505"):
        list(distribute(lambda n: n, [1], Distribution(losing())))


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        status = "running"
        submit = None

        def scheduler_info(self) -> dict[str, Any]:
            return {"address": "tcp://here:1", "workers": {}}

        def nthreads(self) -> dict[str, int]:
            return {}

        def get_executor(self, **_: Any) -> Any:
            class Never(Executor):
                def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
                    return Future()

            return Never()

    monkeypatch.setattr(_distribution, "PATIENCE", 0.3)
    with pytest.raises(InputError, match=r"RG1502.*has no workers"):
        list(distribute(square, [1], Distribution(Client())))
    Client.status = "connecting"
    with pytest.raises(InputError, match=r"RG1502.*is connecting"):
        list(distribute(square, [1], Distribution(Client())))


def test_a_cluster_that_has_no_threads_yet_gets_its_tasks() -> None:
    """An adaptive cluster starts workers for the tasks that wait."""

    class Client:
        status = "running"
        submit = None

        def __init__(self, pool: Executor) -> None:
            self.pool, self.asked = pool, 0

        def scheduler_info(self) -> dict[str, Any]:
            self.asked += 1
            assert self.asked < 100, "no task is given to the cluster"
            return {"address": "tcp://here:1", "workers": {"tcp://here:2": {}}}

        def nthreads(self) -> dict[str, int]:
            return {}

        def get_executor(self, **_: Any) -> Executor:
            return self.pool

    with ThreadPoolExecutor(1) as pool:
        found = dict(distribute(square, range(5), Distribution(Client(pool))))
    assert found == {n: n * n for n in range(5)}
