"""Large memories: the room of a machine and of a run is that of the words that are written."""

import pickle
import tracemalloc
from collections.abc import Callable
from random import Random
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.simulator.engines import array_words, machines
from retrograd.simulator.engines.array_words import ArrayWords, words_with_spare
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.stores import LARGE, SparseWords, memory_words

import retrograd as rg
from retrograd import fixed

#: words of a large memory
WORDS = 2 * LARGE

_PLACES = st.integers(-50, 49)
_CUTS = st.builds(slice, *[st.none() | st.integers(-60, 60)] * 2, st.none() | st.sampled_from((-3, -1, 1, 2)))


@given(
    first=st.lists(st.integers(0, 9), max_size=50),
    changes=st.lists(st.tuples(_PLACES | _CUTS, st.integers(0, 1 << 63))),
)
def test_sparse_words_equal_the_list(first: list[int], changes: list[tuple[int | slice, int]]) -> None:
    sparse, words = SparseWords(first, 50), first + [0] * (50 - len(first))
    for at, word in changes:
        if isinstance(at, slice):
            block = [word + k for k in range(len(words[at]))]
            sparse[at] = block
            words[at] = block
            assert sparse[at] == words[at]
        else:
            sparse[at] = words[at] = word
            assert sparse[at] == words[at]
    assert list(sparse) == words
    assert sparse == words
    assert words == sparse
    array = words_with_spare(50, rg.Program(()).format)
    array[:] = sparse
    assert array == words
    assert array == sparse
    assert sparse == array
    kept = sparse.copy()
    assert pickle.loads(pickle.dumps(sparse)) == kept
    sparse[0] = words[0] + 1
    assert kept == words
    assert kept != sparse
    sparse[:] = kept
    assert sparse == kept


def test_words_beyond_the_memory_are_refused() -> None:
    sparse = SparseWords((1,), 50)
    for at in (50, -51):
        with pytest.raises(IndexError):
            sparse[at]
        with pytest.raises(IndexError):
            sparse[at] = 1


def test_a_small_memory_and_a_full_one_are_lists() -> None:
    assert isinstance(memory_words((), LARGE), list)
    assert isinstance(memory_words((), LARGE + 1), SparseWords)
    machine = rg.Machine(_program("start\nfinish\n"))
    held = machine.memory
    machine.load(1, [7] * (LARGE // 4 + 1))
    assert isinstance(machine._memory, list)
    assert held[1] == machine.memory[1] == 7


def _program(text: str) -> Any:
    return rg.assemble(f".memory {WORDS}\n{text}")


def descent(**sizes: int) -> Any:
    @rg.functional(**sizes)
    def down(x: fixed, n: int):
        def some(v, k):
            return v if k == 0 else some(rg.sin(v) + x, k - 1)

        return some(x, n)

    return down


@pytest.mark.parametrize("engine", ["reference", "threaded", "translated"])
def test_the_result_does_not_depend_on_the_memory(engine: str) -> None:
    small, large = (rg.run(descent(heap=size, stack=size), 0.25, 60, engine=engine) for size in (1 << 12, WORDS))
    assert small.values == large.values
    assert small.steps == large.steps
    assert list(large.machine.memory)[3:] == [0] * (len(large.machine.memory) - 3)


def test_a_trap_on_a_large_memory_runs_back() -> None:
    @rg.functional(heap=WORDS, stack=64)
    def deep(x: fixed, n: int):
        def some(v, k):
            return v if k == 0 else x + some(rg.sin(v), k - 1)

        return some(x, n)

    for engine in ("reference", "auto", "translated"):
        with pytest.raises(rg.ProgramTrap) as caught:
            rg.run(deep, 0.25, 60, engine=engine)
        machine = caught.value.machine
        machine.run_back()
        assert [w for w in machine.memory if w] == machine.memory[:2]


def test_a_run_has_the_room_of_its_words() -> None:
    compiled = descent(heap=1 << 22, stack=1 << 22)
    rg.run(compiled, 0.25, 5, engine="reference")
    tracemalloc.start()
    rg.run(compiled, 0.25, 5, engine="reference")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 22


def test_pages_of_a_run_without_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps on a large memory: pages of the run before, cleared. Words that are still seen stay."""
    monkeypatch.setattr(array_words.ReusedZeros, "_spare", spare := [])
    function = descent(heap=1 << 18, stack=1 << 18)
    found = [
        rg.run(function, x, n, engine="translated") for x, n in ((0.25, 9), (0.25, 9), (0.5, 9), (0.25, 9), (0.25, 300))
    ]
    assert [run.values for run in found[:2]] == [found[3].values] * 2
    for run, x, n in zip(found[1:], (0.25, 0.5, 0.25, 0.25), (9, 9, 9, 300), strict=True):
        again = rg.run(function, x, n, engine="reference")
        assert (run.values, run.machine.state()) == (again.values, again.machine.state())
    assert not any(
        a.any() for a in (machines._zeros(1 << 18, 1), machines._zeros(1 << 18, 1 << 18), machines._zeros(10, None))
    )
    assert len(spare) == 4 * array_words.ReusedZeros.are_supported


@pytest.mark.skipif(not array_words.ReusedZeros.are_supported, reason="this system does not report the pages in use")
@pytest.mark.parametrize("report", [array_words._PAGE_MAP, "/nowhere"])
@pytest.mark.parametrize("steps", [0, 1 << 20])
def test_words_are_zero_again(steps: int, report: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a run has written, and wherever; behind a short run, pages of a longer one are given back."""
    monkeypatch.setattr(array_words.ReusedZeros, "_spare", [])
    monkeypatch.setattr(array_words, "_PAGE_MAP", report)
    random, count = Random(steps), 1 << 17
    first = array_words.ReusedZeros.of(count)
    for _ in range(4):
        for at in random.sample(range(count), random.choice([1, 30, 3000])):
            first.array[at] = -1
        first.used(steps)
        view = first.array[3:]
        assert array_words.ReusedZeros.of(count) is not first
        del view
        assert array_words.ReusedZeros.of(2 * count) is not first
        assert array_words.ReusedZeros.of(count) is first
        assert steps or sum(n for _, n in first._resident or []) <= array_words.ReusedZeros._FEW
        assert not first.array.any()
        first.used(steps)
        assert array_words.ReusedZeros.of(count) is first


@pytest.mark.skipif(not array_words.ReusedZeros.are_supported, reason="this system does not report the pages in use")
def test_words_of_another_thread_are_zero_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads may share the rows of a loop, and meet pages that the first one has not."""
    monkeypatch.setattr(array_words.ReusedZeros, "_spare", [])
    zeros, count = array_words.ReusedZeros.of(1 << 17), 1 << 17
    zeros.used(1 << 20)
    for at in (5, 70_000, 130_000):
        assert array_words.ReusedZeros.of(count) is zeros
        worker = Thread(target=zeros.array.__setitem__, args=(at, 1))
        worker.start()
        worker.join()
        del worker
        zeros.used(1 << 20)
    assert array_words.ReusedZeros.of(count) is zeros
    assert not zeros.array.any()


def test_the_machine_of_a_long_run() -> None:
    """It begins with sparse words, which are copied for a second start, unless most of its memory is given."""
    runs = machines.WholeRuns(_program("start\nfinish\n"), backward=False, overflow=True)
    few, many = (runs.fresh_machine("auto", given) for given in (3, WORDS // 2))
    assert isinstance(few._memory, SparseWords)
    assert isinstance(many._memory, ArrayWords)


def test_a_machine_restores_a_large_memory() -> None:
    """A run that outgrows Python is begun again by the translation, from the words at its beginning."""
    function = descent(heap=WORDS, stack=WORDS)
    expected = rg.run(function, 0.25, 600, engine="reference")
    found = rg.run(function, 0.25, 600, engine="auto")
    assert (found.values, found.steps) == (expected.values, expected.steps)
    program = expected.compiled.program
    machine = machine_for(program, "translated")
    machine.load(0, rg.run(function, 0.25, 600).machine.memory[:3])
    before = list(machine.memory)
    machine.run()
    machine.turn()
    machine.run()
    assert list(machine.memory) == before


@pytest.mark.parametrize("call", ["vjp", "jacobian", "hessian", "advise", "batch"])
def test_a_derivative_has_the_room_of_its_words(call: str) -> None:
    function = descent(heap=1 << 22, stack=1 << 22)
    calls: dict[str, Callable[[], object]] = {
        "vjp": lambda: rg.vjp(function, 0.25, 5)[1]({"out": 1.0}),
        "jacobian": lambda: rg.jacobian(function, "x")(0.25, 5),
        "hessian": lambda: rg.hessian(function, ["x"])(0.25, 5),
        "advise": lambda: rg.advise(function, 0.25, 5, memory=100),
        "batch": lambda: rg.run_batch(function, [0.25, 0.5], [5, 5], engine="reference"),
    }
    calls[call]()
    tracemalloc.start()
    calls[call]()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 22
