"""Instructions that programs execute, as upper bounds; and for each pass a program that costs more without it.

A bound that is exceeded says that an optimisation has stopped, or that a change made code dearer: then the cause is found, or the
bound is raised in the commit that says why. A count far below its bound fails, too: the bound is then lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks.workloads.dense import weighted
from retrograd.compiler.compiled import emit_optimised
from retrograd.compiler.pipeline import PASSES, optimise
from retrograd.examples import bessel, bundle_adjustment, fibonacci_search, gmm, graph_embedding, leapfrog
from retrograd.examples.hypot import hypot

import retrograd as rg
from retrograd import Array, fixed, library, reversible
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._execution import execute, load

#: left out by `executed`, though the pass is no part of the pipeline
OPERANDS = "use_memory_operands"


def executed(f: rg.Reversible, args: tuple[Any, ...], without: Collection[str] = ()) -> int:
    """The instructions of a run, some passes left out."""
    values = bind(f, args, {})
    compiled = f.compiled_for(types_of(f, values))
    if without:
        module = optimise(compiled.lowered.module, 1, without=without)
        compiled = replace(compiled, module=module, emitted=emit_optimised(module, OPERANDS not in without))
    machine = load(compiled, values)
    execute(compiled, machine)
    return sum(machine.executed[1])


# ---------------------------------------------------------------- examples


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).normal(size=shape)


def gmm_arguments() -> tuple[Any, ...]:
    return (0.0, *gmm.read(gmm.DATA / "test.txt").arguments)


def reprojection_arguments() -> tuple[Any, ...]:
    problem = bundle_adjustment.read(bundle_adjustment.DATA / "test.txt", 1)
    return np.zeros(2), problem.cameras[0], problem.points[0], problem.weights[0], problem.features[0]


Arguments = Callable[[], tuple[Any, ...]]
#: function, arguments, most instructions of a run
RUNS: dict[str, tuple[rg.Reversible, Arguments, int]] = {
    "hypot": (hypot, lambda: (0.0, 3.0, 4.0), 12),
    "bessel": (bessel.bessel, lambda: (0.0, 1.0), 188),
    "bessel_log": (bessel.bessel_log, lambda: (0.0, 1.0), 188),
    "fib": (fibonacci_search.fib, lambda: (0, 10), 4336),
    "gmm": (gmm.gmm_objective, gmm_arguments, 520),
    "reprojection": (bundle_adjustment.reprojection_error, reprojection_arguments, 129),
    "embedding": (graph_embedding.embedding_loss, lambda: (0.0, normal(10, 2)), 3571),
    "leapfrog": (leapfrog.leapfrog, lambda: (*leapfrog.solar_system(), 2), 4429),
    "norm": (library.norm, lambda: (0.0, normal(6)), 28),
    "qr": (library.qr, lambda: (np.zeros((5, 3)), np.zeros((3, 3)), normal(5, 3)), 425),
    "affine": (library.affine, lambda: (np.zeros(3), normal(3, 4), normal(4), normal(3)), 62),
    "fft": (library.fft, lambda: (normal(16) + 1j * normal(16),), 698),
}
#: function, arguments, what is differentiated, by what, most steps there and back
GRADIENTS: dict[str, tuple[rg.Reversible, Arguments, str, str, int]] = {
    "bessel": (bessel.bessel, lambda: (0.0, 1.0), "out", "z", 403),
    "gmm": (gmm.gmm_objective, gmm_arguments, "out", "means", 1418),
    "embedding": (graph_embedding.embedding_loss, lambda: (0.0, normal(10, 2)), "out", "x", 7600),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_takes_no_more_instructions(name: str) -> None:
    f, arguments, most = RUNS[name]
    # Where a loop ends by a rounding, a pass more or less is no optimisation.
    assert 0.8 * most <= executed(f, arguments()) <= most


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_takes_no_more_instructions(name: str) -> None:
    f, arguments, loss, by, most = GRADIENTS[name]
    report = rg.gradient_report(f, by, loss)(*arguments())
    assert 0.8 * most <= report.forward_steps + report.backward_steps <= most


# ---------------------------------------------------------------- passes


@reversible
def add_square(y: fixed, x: fixed) -> None:
    y += x * x


@reversible
def calls(y: fixed, x: fixed, n: int) -> None:
    for _ in range(n):
        add_square(y, x)


@reversible
def replays(y: fixed, z: fixed, x: fixed) -> None:
    with rg.routine() as r:
        k = 2.0
        k += 1
        t = x * k
    y += t
    ~r
    r()
    z += t
    ~r


@reversible
def short_loop(a: Array[fixed, 3], x: fixed) -> None:
    for i in range(3):
        a[i] += x


@reversible
def constant_variable(y: fixed, x: fixed) -> None:
    k = 2.0
    k += 1.0
    y += x * k
    k -= 1.0


@reversible
def small_array(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = rg.zeros(2)
        t[0] += x * x
        t[1] += t[0] * x
    y += t[1]
    ~r


@reversible
def matrix(m: Array[fixed, 6, 7], x: fixed) -> None:
    for i in range(6):
        for j in range(7):
            m[i, j] += x


@reversible
def quarter(y: int, n: int) -> None:
    y += n // 4


@reversible
def known_to_hold(y: fixed, a: Array[fixed, 8], n: int) -> None:
    for i in range(n):
        assert i >= 0
        y += a[0]


@reversible
def carried(y: fixed, x: fixed) -> None:
    for _ in range(12):
        with rg.routine() as r:
            t = x * x
        y += t
        ~r


@reversible
def undone(y: fixed, x: fixed) -> None:
    y += x * x
    y -= x * x


@reversible
def alike(y: fixed, z: fixed, x: fixed) -> None:
    y += rg.sqrt(x) * x
    z += rg.sqrt(x) * y


@reversible
def nested(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        u = rg.sqrt(rg.sqrt(x) + 1)
        v = u * x
    y += v * rg.sqrt(u)
    ~r


#: pass -> a program that executes more instructions without it
WITHOUT: dict[str, tuple[rg.Reversible, tuple[Any, ...]]] = {
    "inline_calls": (calls, (0.0, 2.0, 3)),
    "rename_locals": (replays, (0.0, 0.0, 2.0)),
    "nest_inverse_pairs": (weighted, (0.0, np.ones((4, 5)), np.ones((5, 13)), np.ones((4, 13)))),
    "unroll_loops": (short_loop, ([1.0, 2.0, 3.0], 2.0)),
    "fold_constants": (constant_variable, (0.0, 2.0)),
    "replace_arrays_by_scalars": (small_array, (0.0, 2.0)),
    "reduce_induction_variables": (matrix, (np.zeros((6, 7)), 2.0)),
    "reduce_strength": (quarter, (0, 9)),
    "eliminate_checks": (known_to_hold, (0.0, np.ones(8), 4)),
    "forward_substitute": (carried, (0.0, 2.0)),
    "cancel_inverse_pairs": (undone, (0.0, 2.0)),
    "eliminate_common_subexpressions": (alike, (0.0, 0.0, 2.0)),
    "extend_live_ranges": (nested, (0.0, 2.0)),
    "eliminate_dead_code": (undone, (0.0, 2.0)),
}


def test_operands_in_memory_save_instructions() -> None:
    args = (np.zeros((6, 7)), 2.0)
    assert executed(matrix, args, (OPERANDS,)) > executed(matrix, args)


def test_every_pass_has_its_program() -> None:
    assert list(WITHOUT) == list(dict.fromkeys(name for name, _ in PASSES))


@pytest.mark.parametrize("name", WITHOUT)
def test_a_program_costs_more_without_a_pass(name: str) -> None:
    f, args = WITHOUT[name]
    assert executed(f, args, (name,)) > executed(f, args)
