"""Batches, shared sums and gradients on workers: the bits of one process, for any workers, any tasks and any loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.isa.diagnostics import InputError

import retrograd as rg
from retrograd import Array, Stack, fixed, reversible
from retrograd.runtime import _batch_runs
from retrograd.runtime._batch_runs import RowPart, _decoded, _encoded, rows_of_task
from retrograd.runtime._distribution import Distribution

Made = Callable[..., Any]
X = np.random.default_rng(0).random(300) * 4


@reversible
def wave(y: fixed, a: fixed, x: fixed) -> None:
    with rg.routine() as r:
        z = rg.sin(a * x)
    y += z * z * x
    ~r


@reversible
def root(y: fixed, x: fixed) -> None:
    y += rg.sqrt(x)


@reversible
def totals(y: Array[fixed, 2], n: int, x: Array[fixed, 2]) -> None:
    for _ in range(n):
        y[0] += x[0] * x[1]
        y[1] += y[0]


@reversible
def pile(s: Stack[int, 4], x: int) -> None:
    rg.push(s, x)


def same(a: Any, b: Any) -> None:
    """Equal in every bit and count."""
    assert np.array_equal(a.matrix, b.matrix)
    assert np.array_equal(a.steps, b.steps)
    assert np.array_equal(a.erased_bits, b.erased_bits)
    assert (a.cycles is None) == (b.cycles is None)
    assert a.cycles is None or np.array_equal(a.cycles, b.cycles)
    assert [*a.traps] == [*b.traps]
    assert [str(t) for t in a.traps.values()] == [str(t) for t in b.traps.values()]


@pytest.mark.parametrize("chunk", [1, 7, 64, 300, 1000, None])
def test_any_size_of_tasks(losing: Made, chunk: int | None) -> None:
    count = 40 if chunk == 1 else 300
    y = np.zeros(count)
    expected = rg.run_batch(wave, y, 0.5, X[:count], in_axes=(0, None, 0), cycles=True)
    found = rg.run_batch(
        wave, y, 0.5, X[:count], in_axes=(0, None, 0), cycles=True, executor=losing(share=0.2), chunk=chunk
    )
    same(found, expected)
    assert np.array_equal(found.values.y, expected.values.y)


def test_without_elements() -> None:
    with ThreadPoolExecutor(1) as pool:
        found = rg.run_batch(root, np.zeros(0), np.zeros(0), executor=pool)
    same(found, rg.run_batch(root, np.zeros(0), np.zeros(0)))


def test_arrays_stacks_and_functions_without_a_name() -> None:
    """Workers are sent code and words."""

    @reversible
    def inner(y: fixed, x: fixed) -> None:
        y += x * x * x

    with ThreadPoolExecutor(2) as pool:
        how: dict[str, Any] = {"executor": pool, "chunk": 5}
        n = np.arange(20)
        y, x = np.zeros((20, 2)), np.random.default_rng(1).random((20, 2))
        same(rg.run_batch(totals, y, n, x, **how), rg.run_batch(totals, y, n, x))
        same(rg.run_batch(inner, n * 0.0, n * 1.0, **how), rg.run_batch(inner, n * 0.0, n * 1.0))
        stacks: Any = [[1] * (i % 3) for i in range(20)]
        found = rg.run_batch(pile, stacks, n, **how)
        assert found.values.s == rg.run_batch(pile, stacks, n).values.s
        same(rg.run_batch(~inner, n * 1.0, n * 1.0, **how), rg.run_batch(~inner, n * 1.0, n * 1.0))


def test_traps_are_those_of_one_process(losing: Made) -> None:
    x = X.copy()
    x[[3, 150, 299]] = -1.0
    with pytest.raises(rg.ElementTrap, match=r"element 3: rg.sqrt has no value at -1.0") as caught:
        rg.run_batch(root, np.zeros(300), x, executor=losing(), chunk=20)
    expected = rg.run_batch(root, np.zeros(300), x, traps="return")
    same(caught.value.result, expected)
    caught.value.machine.turn()
    caught.value.machine.run()
    assert [*expected.traps] == [3, 150, 299]


def test_a_limit_of_steps(losing: Made) -> None:
    arguments = np.zeros((40, 2)), np.arange(40), np.ones((40, 2))
    how: dict[str, Any] = {"max_steps": 60, "traps": "return"}
    found = rg.run_batch(totals, *arguments, executor=losing(), chunk=8, **how)
    same(found, rg.run_batch(totals, *arguments, **how))
    assert found.traps


def test_a_number_without_a_word(losing: Made) -> None:
    x = X.copy()
    x[200] = 1e300
    with pytest.raises(InputError, match=r"RG0601.*`x`: element 200"):
        rg.run_batch(root, np.zeros(300), x, executor=losing(), chunk=20)


def test_statements_for_the_host_stay_here() -> None:
    @reversible
    def printing(y: fixed, x: fixed) -> None:
        y += x
        with rg.external():
            print(y)

    with pytest.raises(InputError, match=r"RG1508.*rg.external"):
        rg.run_batch(printing, np.zeros(3), np.zeros(3), executor=2)


# ---------------------------------------------------------------------- sums and gradients


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.integers(1, 400), st.floats(0, 0.4))
def test_shared_sums(losing_once: Made, seed: int, chunk: int, share: float) -> None:
    """Any size of tasks, any order, any loss: the same bits."""
    how: dict[str, Any] = {"in_axes": (0, None, 0), "shared": "sum"}
    with losing_once(seed, share) as executor:
        found = rg.vmap(rg.value_and_grad(wave, "a"), executor=executor, chunk=max(chunk, 40), **how)(X * 0, 0.7, X)
    assert found == rg.vmap(rg.value_and_grad(wave, "a"), **how)(X * 0, 0.7, X)


@pytest.mark.parametrize("scale", [0, "auto"])
def test_gradients_of_each_element(losing: Made, scale: Any) -> None:
    of = rg.value_and_grad(wave, ("a", "x"), scale=scale)
    axes = (0, None, 0)
    value, by = rg.vmap(of, axes, executor=losing(), chunk=30)(X[:90] * 0, 0.7, X[:90])
    expected, slopes = rg.vmap(of, axes)(X[:90] * 0, 0.7, X[:90])
    assert np.array_equal(value, expected)
    assert all(np.array_equal(a, b) for a, b in zip(by, slopes, strict=True))


def test_traps_of_gradients(losing: Made) -> None:
    x = X.copy()
    x[7] = -1.0
    with pytest.raises(rg.ElementTrap, match=r"element 7: rg.sqrt has no value"):
        rg.vmap(rg.grad(root, "x"), executor=losing(), chunk=30)(X * 0, x)


def cube(x: float) -> float:
    return x**3


def reciprocal(x: float) -> float:
    return 1 / float(x)


def test_any_function(losing: Made) -> None:
    """Functions of Python, element by element, in tasks of several elements."""
    found = rg.vmap(cube, executor=losing(), chunk=4)(X)
    assert np.array_equal(found, rg.vmap(cube)(X))
    with pytest.raises(ZeroDivisionError):
        rg.vmap(reciprocal, executor=losing())(np.array([1.0, 2.0, 0.0, 3.0]))
    with pytest.raises(InputError, match=r"RG1508"):
        rg.vmap(cube, store="store.db")(X)
    jacobians = rg.vmap(rg.jacobian(wave, "x", "y"), (0, None, 0), executor=losing(), chunk=4)(X[:9] * 0, 0.7, X[:9])
    assert np.array_equal(jacobians, rg.vmap(rg.jacobian(wave, "x", "y"), (0, None, 0))(X[:9] * 0, 0.7, X[:9]))


# ---------------------------------------------------------------------- the store


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first rows of tasks that are run."""
    out: list[int] = []
    run = _batch_runs.run_task
    monkeypatch.setattr(_batch_runs, "run_task", lambda task: (out.append(task.first), run(task))[1])
    return out


def test_a_batch_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[int]) -> None:
    how: dict[str, Any] = {"store": tmp_path / "store.db", "chunk": 50}
    counted, run = list[int](), _batch_runs.run_task

    def broken(task: Any) -> RowPart:
        if len(counted) == 3:
            raise KeyboardInterrupt
        counted.append(task.first)
        return run(task)

    monkeypatch.setattr(_batch_runs, "run_task", broken)
    with pytest.raises(KeyboardInterrupt):
        rg.run_batch(root, X * 0, X, **how)
    ran.clear()
    monkeypatch.setattr(_batch_runs, "run_task", run)
    same(rg.run_batch(root, X * 0, X, **how), rg.run_batch(root, X * 0, X))
    assert ran == [150, 200, 250]
    # Another executor, and a sum with more than 64 bits, from the store.
    with ThreadPoolExecutor(2) as pool:
        same(rg.run_batch(root, X * 0, X, executor=pool, **how), rg.run_batch(root, X * 0, X))
    assert len(ran) == 3


@pytest.mark.parametrize(
    "other",
    [{"backward": True}, {"checks": False}, {"overflow": False}, {"max_steps": 99}, {"cycles": True}, {"format": "Q16.16"},
     {"function": wave.with_options(level=0)}, {"a": 0.75}, {"x": X + 1}, {"chunk": 49}],
    ids="-".join,
)  # fmt: skip
def test_each_input_is_part_of_the_key(tmp_path: Path, ran: list[int], other: dict[str, Any]) -> None:
    def call(function: Any = wave, a: float = 0.5, x: Any = X, **how: Any) -> Any:
        return rg.run_batch(function, x * 0, a, x, in_axes=(0, None, 0), **{"chunk": 150, **how})

    store = tmp_path / "store.db"
    call(store=store)
    before = len(ran)
    same(call(**other, store=store), call(**other))
    assert len(ran) > before + (0 if "chunk" in other else 1)
    ran.clear()
    same(call(store=store), call())
    assert len(ran) == 2  # the second call has no store


def test_parts_in_bytes() -> None:
    words = np.arange(6, dtype=np.uint64).reshape(3, 2)
    counts = np.arange(3, dtype=np.int64)
    part = RowPart(words, (words * 0.5,), (True,), counts, counts, None, (1 << 200, -5), (1,), "translated")
    found = _decoded(_encoded(part))
    assert found is not None
    for a, b in zip(found, part, strict=True):
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else str(a) == str(b)
    for cut in (0, 10, len(_encoded(part)) - 30):
        assert _decoded(_encoded(part)[:cut]) is None


@pytest.mark.parametrize(
    ("chunk", "translated", "named"), [(50, (50, 100, 150, 200), "translated"), (250, (250,), "reference")]
)
def test_the_engine_that_ran_most_elements_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, translated: tuple[int, ...], named: str
) -> None:
    run = _batch_runs.run_task

    def on_some_engine(task: Any) -> RowPart:
        return run(task)._replace(engine="translated" if task.first in translated else "reference")

    monkeypatch.setattr(_batch_runs, "run_task", on_some_engine)
    assert rg.run_batch(root, X * 0, X, chunk=chunk).engine == named
    assert rg.run_chunked(root, X * 0, X, chunk=chunk, out=tmp_path / "out").engine == named


def test_tasks_do_not_depend_on_workers() -> None:
    for count, words in itertools.product((1, 100, 10**4, 10**7), (1, 10, 10**4)):
        rows = rows_of_task(Distribution(), count, words)
        assert rows == rows_of_task(Distribution(7), count, words)
        assert 1 <= rows <= max(1, (1 << 20) // (8 * words))
