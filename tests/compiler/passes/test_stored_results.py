"""`memory=`: results of loops are kept in memory where that saves instructions, and nothing else changes."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from retrograd.compiler import pipeline
from retrograd.compiler.compiled import store_results
from retrograd.compiler.ir.statements import Module, Within, invert
from retrograd.simulator.semantics import Fault

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.cli.main import main
from retrograd.runtime._reversible import Reversible

#: too many rows for the loops to be unrolled
X = np.linspace(-1.5, 2.0, 28).reshape(14, 2)


@reversible
def spread(out: fixed, x: Array[fixed, "n", "d"]):
    """out += Σ √(Σ xᵢₖ²) · e^(first distance)."""
    with rg.routine() as r:
        sizes = rg.zeros(len(x))
        for i in range(len(x)):
            sizes[i] += rg.sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + 1)
    for i in range(len(x)):
        out += sizes[i] * rg.exp(-sizes[0])
    ~r


@reversible
def pairs(out: fixed, x: Array[fixed, "n", "d"]):
    """Two loops around the temporaries, one of them downward, and a branch."""
    with rg.routine() as r:
        near = rg.zeros(len(x), len(x))
        for i in range(1, len(x)):
            for j in reversed(range(len(x))):
                if i != j:
                    with rg.routine() as q:
                        s = x[i, 0] * x[j, 0] + x[i, 1] * x[j, 1] + x[i, 0] * x[j, 1] + x[i, 1] * x[j, 0]
                        s += x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + x[j, 0] * x[j, 0] + x[j, 1] * x[j, 1]
                    near[i, j] += rg.exp(-s)
                    ~q
    for i in range(len(x)):
        for j in range(len(x)):
            out += near[i, j]
    ~r


@reversible
def pushed(out: fixed, x: Array[fixed, "n", "d"]):
    """The body of the routine changes x, from which the loop's temporaries were computed."""
    with rg.routine() as r:
        t = fixed(0)
        for i in range(len(x)):
            t += rg.sqrt(x[i, 0] * x[i, 0] + 1)
    out += t
    ~r
    x[0, 0] += 1


@reversible
def far(out: fixed, x: Array[fixed, "n", "d"]):
    """Passes whose numbers do not fit the constant of an instruction."""
    with rg.routine() as r:
        sizes = fixed(0)
        for k in range(2**40, 2**40 + 14):
            i = k - 2**40
            sizes += rg.sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + 1)
    out += sizes
    ~r


def words(f: Reversible, *args: Any) -> dict[str, list[int]]:
    return rg.run(f, *args).words


@pytest.mark.parametrize("f", [spread, pairs, pushed, far])
@pytest.mark.parametrize("budget", [1, 6, 40, 10_000])
def test_values_and_gradients_are_the_same_to_the_bit(f: Reversible, budget: int) -> None:
    g = f.with_options(memory=budget)
    assert words(g, 0.25, X) == words(f, 0.25, X)
    assert f is not far or budget < 14 or rg.run(g, 0.25, X).compiled.storage.chosen
    out = rg.run(f, 0.25, X).values
    assert words(~g, out.out, out.x) == words(~f, out.out, out.x)
    assert np.array_equal(rg.grad(g, "x", "out")(0.25, X), rg.grad(f, "x", "out")(0.25, X))
    assert np.array_equal(rg.hessian(g, "x", "out")(0.25, X), rg.hessian(f, "x", "out")(0.25, X))


@pytest.mark.parametrize("f", [spread, pairs])
def test_the_budget_is_kept_and_each_word_saves_what_was_predicted(f: Reversible) -> None:
    before, plain = None, rg.run(f, 0.25, X)
    first = plain.compiled.storage.following[0]
    assert plain.compiled.storage.chosen == ()
    for budget in (0, first.words - 1, first.words, 10_000):
        result = rg.run(f.with_options(memory=budget), 0.25, X)
        storage = result.compiled.storage
        assert storage.words <= budget
        assert result.compiled.program.memory == plain.compiled.program.memory + storage.words
        assert bool(storage.chosen) == (budget >= first.words)
        assert before is None or result.steps <= before
        before = result.steps
    if f is spread:
        assert plain.steps - result.steps == sum(chosen.saved for chosen in storage.chosen) > 0


def test_a_gradient_takes_fewer_instructions() -> None:
    plain, stored = (
        rg.value_and_grad(f, "x", "out") for f in (spread, spread.with_options(memory=10_000))
    )  # fmt: skip
    counts = [rg.energy(g, 0.25, X).counts.retired for g in (plain, stored)]
    assert counts[1] < counts[0]


def test_level_0_and_erase_mode_keep_nothing() -> None:
    for changes in ({"level": 0}, {"erase": True}):
        f = spread.with_options(memory=10_000, **changes)
        compiled = rg.run(f, 0.25, X).compiled
        assert compiled.storage.chosen == ()


def test_the_choice_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    stored = spread.with_options(memory=20)
    storage = rg.run(stored, 0.25, X).compiled.storage
    assert storage.words == 14
    found = rg.advise(stored, 0.25, X)
    assert "kept in memory" in str(found)
    assert found.as_dict()["memory"]["words"] == 14
    text = str(rg.advise(spread, 0.25, X))
    assert "kept in memory" not in text
    assert f"memory=0: 14 more words, for test_stored_results.py:{storage.chosen[0].span.line}" in text  # type: ignore[union-attr]
    place = "examples/graph_embedding.py:add_distances"
    assert main(["compile", place, "np.zeros(15)", "EDGES", "np.zeros((10, 2))", "--memory-budget", "x"]) == 2
    assert "--memory-budget" in capsys.readouterr().err


# ---------------------------------------------------------------- random programs


def _statements() -> ModuleType:
    path = Path(__file__).with_name("test_random_programs.py")
    spec = importlib.util.spec_from_file_location("random_statements", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks its module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _routines(seed: int, statements: ModuleType) -> Module:
    """A random program, some of whose statements are the compute block of a Within, and others its body."""
    rng = random.Random(seed)
    program = statements.Statements(rng)
    module = program.program()
    inner = [program.loop(2) for _ in range(rng.randint(1, 3))]
    compute = tuple(node for block in inner for node in block)
    body = program.block(rng.randint(0, 3), 1)
    count = len(program.data)
    ends, rest = module.entry[: 2 * count], module.entry[2 * count : len(module.entry) - 2 * count]
    return module.with_entry((*ends, Within(compute, body, "r"), *rest, *invert(ends)))


def _end(module: Module, memory: list[int], interpreter: ModuleType) -> list[int] | None:
    try:
        run = interpreter.interpret(module, [*memory, *[0] * (module.memory - len(memory))])
    except Fault:
        return None
    assert not any(run.memory[len(memory) : module.memory])
    return list(run.memory[: len(memory)])


@pytest.mark.long
def test_random_programs_keep_their_meaning(interpreter: ModuleType) -> None:
    statements = _statements()
    stored = 0
    for seed in range(300):
        rng = random.Random(seed)
        module = _routines(seed, statements)
        memory = [rng.choice((0, 1, 2, 3, 7, rng.getrandbits(16))) for _ in range(module.memory)]
        end = _end(module, memory, interpreter)
        if end is None:
            continue
        if rng.random() < 0.5:
            module = pipeline.optimise(module)
        new, storage = store_results(module, rng.choice((3, 10, 1000)))
        if storage.chosen:
            stored += 1
            assert _end(new, memory, interpreter) == end, seed
            assert _end(~new, end, interpreter) == memory, seed
    assert stored > 10, stored
