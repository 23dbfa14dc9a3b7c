"""Large memories: the room of a machine and of a run is that of the words that are written."""

import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.simulator.engines import machines
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
    """Few steps on a large memory: fresh pages; many steps: zeros, as before. The words are the same."""
    made = []
    zeros = machines._zeros

    def recorded(size: int, steps: int | None) -> Any:
        made.append(zeros(size, steps))
        return made[-1]

    monkeypatch.setattr(machines, "_zeros", recorded)
    function = descent(heap=1 << 18, stack=1 << 18)
    values = [rg.run(function, 0.25, 9, engine="translated").values for _ in range(3)]
    assert values[0] == values[1] == values[2]
    assert [a.base is not None for a in made] == [True] * len(made)
    assert made
    assert not any(a.any() for a in (zeros(1 << 18, 1), zeros(1 << 18, 1 << 18), zeros(10, None)))


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
