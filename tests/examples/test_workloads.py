"""The example functions against goldens and independent arithmetic; all of them out and back, to the same words."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.examples import (
    bessel,
    bundle_adjustment,
    consistency,
    fibonacci_search,
    gmm,
    graph_embedding,
    leapfrog,
    quadratic,
    sparse_dot,
    wave,
)

import retrograd as rg
from retrograd.library.linear_algebra import sparse_dot as sparse_dot_of_library
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._execution import ProgramTrap, execute, load, read

#: the last place
ULP = 2.0**-32


def checked(function: Any, *args: Any) -> Any:
    """The arguments after a run that obeys every law: nothing is left over, and every way back leads to the same words."""
    values = bind(function, args, {})
    compiled = function.compiled_for(types_of(function, values))
    machine = load(compiled, values)
    begun = machine.state()
    execute(compiled, machine)
    assert machine.at_end
    assert not any(machine.registers)
    assert machine.br == 0
    assert machine.erased_bits == 0
    ended, after = machine.memory[:], read(compiled, machine)
    machine.run_back()
    assert machine.state() == begun

    # From the end to the beginning, on a machine that knows nothing of the way.
    machine = load(compiled, values, backward=True)
    machine.load(0, ended)
    execute(compiled, machine)
    assert tuple(machine.memory) == begun[1]
    assert not any(machine.registers)
    assert machine.erased_bits == 0
    return function.results(*after)


def code_of(function: Any, *args: Any) -> str:
    """The code of the trap that a run ends in, after which the machine goes back to its beginning."""
    values = bind(function, args, {})
    compiled = function.compiled_for(types_of(function, values))
    machine = load(compiled, values)
    begun = machine.state()
    with pytest.raises(ProgramTrap) as caught:
        execute(compiled, machine)
    machine.run_back()
    assert machine.state() == begun
    return caught.value.diagnostics[0].code


# ---------------------------------------------------------------- Bessel functions

BESSEL = [bessel.bessel, bessel.bessel_log]


@pytest.mark.parametrize("f", BESSEL, ids=lambda f: f.__name__)
def test_bessel_golden(f: Any) -> None:
    out = checked(f, 0.0, 1.0).out
    assert out == pytest.approx(0.1149034849298, abs=1e-8)
    assert out == pytest.approx(bessel.reference(1.0), abs=2 * ULP)


@pytest.mark.parametrize("f", BESSEL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("nu", [0, 1, 2, 5])
def test_bessel_against_mpmath(f: Any, nu: int) -> None:
    for z in (-2.0, -1.0, -0.01, 0.001, 0.5, 1.7, 2.0, 5.0, 10.0):
        # Of 488 points with 2 ≤ |z| ≤ 5 the worst is 1.12e-9 off (1.33e-9 where products are floored): of the terms' factors,
        # 1/(k(k + ν)) and its like, half a unit is lost, and terms are larger than the sum.
        bound = 3e-10 if abs(z) <= 2 else 1.2e-9 if abs(z) <= 5 else 5e-8
        assert checked(f, 0.0, z, nu).out == pytest.approx(float(mpmath.besselj(nu, z)), abs=bound)


def test_bessel_adds() -> None:
    out, z, *_ = bessel.bessel(3.0, 1.0)
    assert out == pytest.approx(3 + bessel.reference(1.0), abs=1e-9)
    assert (~bessel.bessel)(0.0, z).out == pytest.approx(-bessel.reference(1.0), abs=1e-9)


@pytest.mark.parametrize("z", [0.0, 2.0**-17, -(2.0**-32)])
def test_bessel_where_the_ratio_rounds_to_zero(z: float) -> None:
    assert checked(bessel.bessel, 0.0, z, 0).out == pytest.approx(1, abs=ULP)
    assert checked(bessel.bessel, 0.0, z, 1).out == pytest.approx(z / 2, abs=ULP)


def test_zero_has_no_logarithm() -> None:
    assert code_of(bessel.bessel_log, 0.0, 0.0) == "RG0411"


def test_crumbs_stay_out_of_the_product() -> None:
    """Ten factors of 1/10, one after the other: the ancilla grows tenfold with each, the product does not notice."""
    y, crumbs = 1000.0, 0.0
    for _ in range(10):
        y, _, crumbs = checked(bessel.multiply, y, 0.1, crumbs)
    assert y == pytest.approx(1e-7, abs=4 * ULP)
    assert abs(crumbs) > 1e6 * ULP


# ---------------------------------------------------------------- graph embedding


def test_petersen_graph() -> None:
    edges, others = graph_embedding.EDGES, graph_embedding.OTHERS
    assert (len(edges), len(others)) == (15, 30)
    assert np.bincount(edges.ravel()).tolist() == [3] * 10
    # No triangles, no squares: two vertices have a common neighbour if and only if they are no neighbours.
    adjacency = np.zeros((10, 10), dtype=int)
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1
    assert (adjacency @ adjacency == 3 * np.eye(10) + (1 - np.eye(10) - adjacency)).all()


@pytest.mark.parametrize("k", range(1, 11))
def test_embedding_loss(k: int) -> None:
    generator = np.random.default_rng(k)
    for scale in (1.0,) if k != 3 else (0.1, 1.0, 10.0):
        x = scale * generator.normal(size=(10, k))
        assert checked(graph_embedding.embedding_loss, 0.0, x).out == pytest.approx(
            graph_embedding.reference(x), abs=1e-8 * max(1, scale)
        )


def test_embedding_solution() -> None:
    x = graph_embedding.solution()
    assert x.shape == (10, 5)
    assert checked(graph_embedding.embedding_loss, 0.0, x).out == pytest.approx(0, abs=10 * ULP)
    near, far = (
        np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1)
        for pairs in (graph_embedding.EDGES, graph_embedding.OTHERS)
    )
    assert far / near[0] == pytest.approx(np.sqrt(2) * np.ones(30))
    assert near == pytest.approx(near[0] * np.ones(15))
    # Half as large, the two kinds of distance still differ by more than a tenth; a tenth as large, they do not.
    assert checked(graph_embedding.embedding_loss, 0.0, x / 2).out == pytest.approx(0, abs=10 * ULP)
    assert checked(graph_embedding.embedding_loss, 0.0, x / 10).out > 0.06


# ---------------------------------------------------------------- Gaussian mixture


def test_gmm_golden() -> None:
    mixture = gmm.read(gmm.DATA / "test.txt")
    assert checked(gmm.gmm_objective, 0.0, *mixture.arguments).out == pytest.approx(8.07380408004975791, abs=1e-9)


def test_gmm_reference_golden() -> None:
    mixture = gmm.read(gmm.DATA / "1k_d10_K25.txt")
    assert gmm.reference(*mixture.arguments) == pytest.approx(-25649.6526211973, abs=1e-9)


@pytest.mark.parametrize(("gamma", "m"), [(1.0, 0), (0.7, 3)])
def test_gmm_first_points(gamma: float, m: int) -> None:
    mixture = gmm.read(gmm.DATA / "1k_d10_K25.txt", 2)
    arguments = (*mixture.arguments[:4], gamma, m)
    assert checked(gmm.gmm_objective, 0.0, *arguments).out == pytest.approx(gmm.reference(*arguments), abs=5e-7)


@pytest.mark.long
def test_gmm_1k_golden() -> None:
    mixture = gmm.read(gmm.DATA / "1k_d10_K25.txt")
    out = rg.run(gmm.gmm_objective, 0.0, *mixture.arguments)
    assert out.values.out == pytest.approx(-25649.6526211973, abs=2e-6)
    assert out.erased_bits == 0
    out.machine.run_back()
    assert out.machine.memory[out.compiled.arguments[0].address] == 0
    assert not any(out.machine.registers)


# ---------------------------------------------------------------- bundle adjustment


def measurement(name: str) -> tuple[Any, Any, float, Any]:
    problem = bundle_adjustment.read(bundle_adjustment.DATA / name, 1)
    return problem.cameras[0], problem.points[0], problem.weights[0], problem.features[0]


@pytest.mark.parametrize(
    ("name", "golden"),
    [("test.txt", (-0.2690488, 0.2599448)), ("ba1_n49_m7776_p31843.txt", (0.1013358, -0.0689678))],
)
def test_reprojection_golden(name: str, golden: tuple[float, float]) -> None:
    arguments = measurement(name)
    error = checked(bundle_adjustment.reprojection_error, np.zeros(2), *arguments).error
    assert error == pytest.approx(golden, abs=1e-6)
    assert error == pytest.approx(bundle_adjustment.reference(*arguments), abs=1e-6)


@pytest.mark.parametrize("r", [(0, 0, 0), (1e-5, 2e-5, -1e-5), (2e-3, 0, 0), (0, np.pi, 0), (2.0, -3.0, 1.0)])
def test_rotations(r: tuple[float, float, float]) -> None:
    camera, _, weight, feature = measurement("ba1_n49_m7776_p31843.txt")
    camera = np.array([*r, *camera[3:]])
    point = camera[3:6] + np.array([0.3, -0.2, 2.0])
    error = checked(bundle_adjustment.reprojection_error, np.zeros(2), camera, point, weight, feature).error
    assert error == pytest.approx(bundle_adjustment.reference(camera, point, weight, feature), abs=2e-6)


def test_objective() -> None:
    generator = np.random.default_rng(3)
    model = bundle_adjustment.read(bundle_adjustment.DATA / "test.txt", 6)
    cameras = np.tile(model.cameras[0], (3, 1)) + generator.normal(scale=0.1, size=(3, 11)) * ([1] * 9 + [0.1] * 2)
    points = np.tile(model.points[0], (4, 1)) + generator.normal(size=(4, 3))
    weights = generator.normal(size=6)
    observed = np.array([(0, 3), (2, 1), (2, 2), (1, 1), (0, 0), (1, 3)])
    nothing = np.zeros((6, 2)), np.zeros(6)
    after = checked(bundle_adjustment.objective, *nothing, cameras, points, weights, observed, model.features)
    for i, (camera, point) in enumerate(observed):
        exact = bundle_adjustment.reference(cameras[camera], points[point], weights[i], model.features[i])
        assert after.errors[i] == pytest.approx(exact, abs=5e-6)
    assert after.weight_errors == pytest.approx(1 - weights**2, abs=2 * ULP)
    observed[4, 1] = 4
    arguments = cameras, points, weights, observed, model.features
    assert code_of(bundle_adjustment.objective, *nothing, *arguments) == "RG0801"


def test_a_point_beside_the_camera_is_not_seen() -> None:
    camera, _, weight, feature = measurement("test.txt")
    camera = np.array([0, 0, 0, *camera[3:]])
    point = camera[3:6] + np.array([1.0, 1.0, 0.0])
    assert code_of(bundle_adjustment.reprojection_error, np.zeros(2), camera, point, weight, feature) == "RG0402"


# ---------------------------------------------------------------- leapfrog


def test_planets_return() -> None:
    q, v, gm = leapfrog.solar_system()
    after = checked(leapfrog.leapfrog, q, v, gm, 40)
    q_exact, v_exact = leapfrog.reference(q, v, gm, 40)
    assert np.abs(after.q - q_exact).max() < 1e-10
    assert np.abs(after.v - v_exact).max() < 1e-8
    assert np.abs(after.q - q).max() > 0.1


def test_solar_system() -> None:
    q, v, gm = leapfrog.solar_system()
    assert np.abs(gm @ q).max() / gm.sum() < 1e-12
    assert np.abs(gm @ v).max() / gm.sum() < 1e-12
    assert gm[0] == 4 * np.pi**2
    # Two days before it is nearest to the Sun, at 0.98329 AU, and fastest.
    assert np.linalg.norm(q[3] - q[0]) == pytest.approx(0.98329, abs=1e-4)
    fastest = 2 * np.pi * np.sqrt(1.01671 / 0.98329)
    assert np.linalg.norm(v[3] - v[0]) == pytest.approx(fastest, rel=1e-4)


@pytest.mark.long
def test_planets_return_after_years() -> None:
    q, v, gm = leapfrog.solar_system()
    after = checked(leapfrog.leapfrog, q, v, gm, 2000)
    assert leapfrog.energy(after.q, after.v, gm) == pytest.approx(leapfrog.energy(q, v, gm), rel=2e-5)


# ---------------------------------------------------------------- waves


def test_a_wave_returns() -> None:
    q, p, c = wave.pulse(14), np.zeros((14, 14)), wave.medium(14, lens=0.3)
    after = checked(wave.propagate, q, p, c, 12)
    exact = wave.reference(q, p, c, 12)
    assert np.abs(after.q - exact[0]).max() < 5e-8
    assert np.abs(after.p - exact[1]).max() < 5e-8
    assert np.abs(after.q - q).max() > 0.1
    line = checked(wave.misfit, 0.5, q, p, c, np.arange(14.0), 5, 12)
    assert line.out == pytest.approx(0.5 + ((exact[0][:, 5] - np.arange(14)) ** 2).sum(), abs=1e-6)


def test_the_layer_of_a_medium() -> None:
    c = wave.medium(60)
    assert (c[10:-10, 10:-10] == wave.COURANT).all()
    assert (c[0] < wave.COURANT / 50).all()
    assert c.min() > 0
    assert wave.medium(60, lens=0.5)[30, 30] == pytest.approx(wave.COURANT / 2, rel=0.05)


# ---------------------------------------------------------------- sparse matrices


def sparse_traces(x: Any, y: Any) -> list[float]:
    """trace(XᵀY) by both functions."""
    arguments = (*sparse_dot.csc(x), *sparse_dot.csc(y))
    return [
        checked(sparse_dot.trace_with_keeper, 0.0, *arguments, len(x)).out,
        checked(sparse_dot_of_library, 0.0, *arguments).out,
    ]


@pytest.mark.long
@settings(max_examples=25)
@given(st.data())
def test_sparse_trace(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    numbers = st.lists(st.sampled_from([0, 0, 1, -2, 3.5]), min_size=rows * columns, max_size=rows * columns)
    x, y = (np.array(data.draw(numbers), dtype=float).reshape(rows, columns) for _ in range(2))
    assert sparse_traces(x, y) == [np.trace(x.T @ y)] * 2


def test_sparse_equal_patterns_and_empty_columns() -> None:
    generator = np.random.default_rng(5)
    x, y = (sparse_dot.sparse_random(generator, 30, 20, 0.2) for _ in range(2))
    x[:, [0, 7, 19]] = 0
    y[:, [0, 1, 18]] = 0
    for a, b in ((x, y), (x, x), (x, np.where(x != 0, 1.5, 0)), (x, np.zeros_like(x)), (x, np.ones_like(x))):
        assert sparse_traces(a, b) == pytest.approx([np.trace(a.T @ b)] * 2, abs=200 * ULP)


def test_csc() -> None:
    starts, rows, values = sparse_dot.csc(np.array([[0, 0, 5], [7, 0, 0], [1, 0, 2.0]]))
    assert (starts.tolist(), rows.tolist(), values.tolist()) == ([0, 2, 2, 4], [1, 2, 0, 2], [7, 1, 5, 2])


@pytest.mark.long
def test_sparse_trace_of_size_1000() -> None:
    generator = np.random.default_rng(6)
    x, y = (sparse_dot.sparse_random(generator, 1000, 1000, 0.05) for _ in range(2))
    assert sparse_traces(x, y) == pytest.approx([float((x * y).sum())] * 2, abs=1e-6)


# ---------------------------------------------------------------- learning by consistency


def test_what_keeps_x_does_not_learn() -> None:
    *answers, p = consistency.train(consistency.keeping)
    assert set(answers) == {answers[0]}
    assert answers[0] == pytest.approx(5.336, abs=5e-4)
    assert answers[0] == pytest.approx(consistency.reference(0.0, 0.3, 1.6), abs=4 * ULP)
    assert p == pytest.approx(1.6, abs=ULP)


def test_what_clears_x_learns() -> None:
    *answers, p = consistency.train(consistency.clearing)
    assert p == pytest.approx(0.5543552444685, abs=4 * ULP)
    assert answers[0] == pytest.approx(5.336, abs=5e-4)
    assert answers[-1] == pytest.approx(1, abs=8 * ULP)


def test_consistency_is_reversible() -> None:
    assert checked(consistency.keeping, 0.0, 0.3, 1.6).x == pytest.approx(0.3, abs=ULP)
    assert checked(consistency.clearing, 0.0, 0.3, 1.6).x == pytest.approx(0, abs=2 * ULP)
    assert code_of(consistency.clearing, 5.0, 0.3, 1.6) == "RG0403"


# ---------------------------------------------------------------- a function with known derivatives


@settings(max_examples=30)
@given(*[st.integers(-1000, 1000)] * 2)
def test_quadratic_of_integers(x: int, y: int) -> None:
    assert checked(quadratic.quadratic, 0.0, float(x), float(y)).out == quadratic.reference(x, y)


def test_quadratic() -> None:
    assert quadratic.quadratic(0.0, 3.0, 4.0).out == 118
    assert checked(quadratic.quadratic, 0.0, 0.3, -1.7).out == pytest.approx(
        quadratic.reference(0.3, -1.7), abs=16 * ULP
    )
    assert quadratic.hessian_vector(7, 8) == (52, 85)
    # Differences of a polynomial of second degree about the middle are its derivatives.
    for x, y in ((3, 4), (-2, 5)):
        dx = (quadratic.reference(x + 1, y) - quadratic.reference(x - 1, y)) / 2
        dy = (quadratic.reference(x, y + 1) - quadratic.reference(x, y - 1)) / 2
        assert quadratic.gradient(x, y) == (dx, dy)


# ---------------------------------------------------------------- Fibonacci numbers


def test_fibonacci() -> None:
    assert [checked(fibonacci_search.fib, 0, n).out for n in range(11)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    assert checked(fibonacci_search.fib, -100, 9).out == -66


@pytest.mark.parametrize("bound", [-7, 0, 1, 2, 3, 21, 22, 100])
def test_fibonacci_search(bound: int) -> None:
    assert checked(fibonacci_search.search, 0, bound).n == fibonacci_search.reference(bound)


def test_fibonacci_search_golden() -> None:
    assert fibonacci_search.search(0, 100).n == 12


# ---------------------------------------------------------------- all of them


def small_runs() -> list[tuple[Any, tuple[Any, ...]]]:
    generator = np.random.default_rng(9)
    sparse = sparse_dot.csc(sparse_dot.sparse_random(generator, 9, 9, 0.4))
    return [
        (bessel.bessel, (0.5, 1.5)),
        (bessel.bessel_log, (0.5, -1.5)),
        (graph_embedding.embedding_loss, (0.0, generator.normal(size=(10, 3)))),
        (gmm.gmm_objective, (0.0, *gmm.read(gmm.DATA / "test.txt").arguments)),
        (bundle_adjustment.reprojection_error, (np.zeros(2), *measurement("test.txt"))),
        (leapfrog.leapfrog, (*leapfrog.solar_system(), 2)),
        (sparse_dot.trace_with_keeper, (0.0, *sparse, *sparse, 9)),
        (consistency.clearing, (0.0, 0.3, 1.6)),
        (quadratic.quadratic, (0.0, 3.1, -4.2)),
        (fibonacci_search.search, (0, 13)),
    ]


@pytest.mark.parametrize(("function", "arguments"), small_runs(), ids=lambda x: getattr(x, "__name__", ""))
def test_optimised_or_not_the_words_are_the_same(function: Any, arguments: tuple[Any, ...]) -> None:
    memories = []
    for level in (0, 1):
        out = rg.run(function, *arguments, options=rg.Options(level=level))
        size = sum(argument.type.size for argument in out.compiled.arguments)
        memories.append(out.machine.memory[:size])
    assert memories[0] == memories[1]


# ---------------------------------------------------------------- as programs

MAINS = [
    bessel,
    bundle_adjustment,
    consistency,
    fibonacci_search,
    gmm,
    graph_embedding,
    leapfrog,
    quadratic,
    sparse_dot,
]


@pytest.mark.parametrize("module", MAINS, ids=lambda m: m.__name__.rpartition(".")[2])
def test_main(module: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["5"] if module is leapfrog else []
    monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
    module.main()
    assert capsys.readouterr().out


def test_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "retrograd.examples.quadratic"],
        capture_output=True, text=True, encoding="utf-8", check=False, env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "118" in done.stdout


def test_memory_does_not_grow() -> None:
    """As many words for many steps as for few."""
    q, v, gm = leapfrog.solar_system()
    assert len({len(rg.run(leapfrog.leapfrog, q, v, gm, n).machine.memory) for n in (1, 5)}) == 1
    assert len({len(rg.run(bessel.bessel, 0.0, z).machine.memory) for z in (0.1, 5.0)}) == 1
