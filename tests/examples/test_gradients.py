"""Gradients of the workloads and of the library against float64 and mpmath (benchmarks/references), which share nothing with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks import references
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.compiled import Compiled, discarding_cotangents, real_regions
from retrograd.compiler.derivatives.gradients import gradient as gradient_program
from retrograd.examples import bessel, bundle_adjustment, gmm, graph_embedding, leapfrog, quadratic, sparse_dot

import retrograd as rg
from retrograd import library
from retrograd.derivatives._arguments import kinds
from retrograd.library import Complex, Quaternion, Vector3
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._execution import execute, load


@dataclass
class Pulled:
    """What came of a run forward and back: arguments as they were in between, gradients, all flat and by name."""

    values: dict[str, Any]
    gradients: dict[str, Any]


def pulled_back(function: Any, args: Any, seeds: dict[str, Any], scale: int = 0) -> Pulled:
    """∂L/∂args of L = Σ seeds · arguments afterwards; every word of memory must be back when the gradient is there."""
    values = bind(function, args, {})
    # Cotangents are dropped where variables die, as by `rg.grad`.
    plain = function.compiled_for(types_of(function, values))
    compiled = discarding_cotangents(plain)
    machine = load(compiled, values)
    begun = machine.memory[:]
    execute(compiled, machine)
    w, places = compiled.format, {a.name: slice(a.address, a.address + a.type.size) for a in compiled.arguments}
    # A number at the point p has a cotangent of 2F − p places.
    points = {
        a.name: np.array([k.point(w) if k.is_fixed else w.frac for k in kinds(a.type)], dtype=int)
        for a in compiled.arguments
    }

    def reals(words: list[int], point: Any) -> Any:
        return np.array([w.signed(word) for word in words]) / 2.0**point

    after = {name: reals(machine.memory[place], points[name]) for name, place in places.items()}
    machine.differentiating = True
    for name, seed in seeds.items():
        units = 2.0 ** (2 * w.frac - points[name] + scale)
        words = [round(x) & w.mask for x in (np.ravel(seed) * units).tolist()]
        machine.memory_cotangents[places[name]] = words
    set_out = machine.memory_cotangents[:]
    machine.turn()
    machine.run()
    came_back(machine, begun)
    if machine.retired < 100_000:
        agrees_with_the_program(plain, values, set_out, machine.memory_cotangents)
    gradients = {
        name: reals(machine.memory_cotangents[place], 2 * w.frac - points[name] + scale)
        for name, place in places.items()
    }
    return Pulled(after, gradients)


def agrees_with_the_program(plain: Compiled, values: list[Any], before: list[int], after: list[int]) -> None:
    """The gradient program, which needs no differentiation mode, gives the same cotangents of all arguments, bit for bit."""
    regions = real_regions(plain.lowered)
    made = gradient_program(plain.module, regions, regions)
    program = load(replace(plain, module=made.module, emitted=emit(made.module)), values)
    for r in regions:
        assert r.address is not None
        program.load(r.address + made.offset, before[r.address : r.address + r.size])
    program.run()
    for r in regions:
        assert r.address is not None
        start = r.address + made.offset
        assert program.memory[start : start + r.size] == after[r.address : r.address + r.size], r.name


def came_back(machine: rg.Machine, begun: list[int]) -> None:
    """Every word is as it was; nothing was erased but cotangents of ancillas, which nobody asks for."""
    assert machine.at_end
    assert machine.memory == begun
    assert not any(machine.registers)
    assert machine.erased_bits == machine.dropped_bits


def of_loss(function: Any, args: Any, scale: int = 0) -> Pulled:
    """The same for a function whose first argument is the loss, by `rg.value_and_grad`, which must agree to the last bit."""
    out = pulled_back(function, args, {function.parameters[0].name: 1.0}, scale)
    value, gradients = rg.value_and_grad(function, scale=scale)(*args)
    assert value == out.values[function.parameters[0].name]
    for name, gradient in zip(gradients._fields, gradients, strict=True):
        assert np.array_equal(flat(gradient), out.gradients[name])
    return out


def flat(gradient: Any) -> Any:
    """A number, an array, a struct or an array of structs as a row of numbers."""
    if isinstance(gradient, float):
        return np.array([gradient])
    if isinstance(gradient, np.ndarray) and gradient.dtype != object:
        return gradient.ravel()
    if isinstance(gradient, np.ndarray):
        return np.concatenate([flat(g) for g in gradient.ravel()])
    return np.array([getattr(gradient, name) for name in type(gradient).__annotations__])


def error(found: Any, exact: Any) -> float:
    """The largest difference, as a part of the largest component."""
    found, exact = np.ravel(found), np.ravel(exact)
    most = np.abs(exact).max(initial=0)
    return float(np.abs(found - exact).max(initial=0) / (most or 1))


# ---------------------------------------------------------------- the library, one case a line


@dataclass
class Case:
    """A function of the library, its reference, arguments as arrays; what makes structs of them; a bound on the error."""

    function: Any
    reference: Callable[..., tuple[Any, ...]]
    args: tuple[Any, ...]
    bound: float = 4e-9
    packed: dict[int, Callable[[Any], Any]] = field(default_factory=dict)
    #: the position of the first argument to differentiate by: those before must be zero
    first: int = 0

    def error(self, scale: int = 0) -> float:
        """Of the worst argument, for random seeds of all results."""
        plain = [np.asarray(a, dtype=float) for a in self.args]
        generator = np.random.default_rng(len(self.args))
        seeds = [generator.normal(size=np.shape(a)) for a in self.reference(*plain)]
        given = [self.packed[i](a) if i in self.packed else a for i, a in enumerate(self.args)]
        names = [p.name for p in self.function.parameters]
        named = dict(zip(names, seeds, strict=False))
        out = pulled_back(self.function, given, named, scale)
        # `rg.vjp` is the same to the last bit.
        cotangents = {
            name: self.packed[i](seed) if i in self.packed else seed if np.ndim(seed) else float(seed)
            for i, (name, seed) in enumerate(named.items())
        }
        public = rg.vjp(self.function, *given, scale=scale)[1](cotangents)
        for name, gradient in zip(public._fields, public, strict=True):
            assert np.array_equal(flat(gradient), out.gradients[name])
        worst = 0.0
        for i, a in list(enumerate(plain))[self.first :]:

            def loss(x: Any, i: int = i) -> Any:
                after = self.reference(*plain[:i], x, *plain[i + 1 :])
                return sum((seed * y).sum() for seed, y in zip(seeds, after, strict=True))

            worst = max(worst, error(out.gradients[names[i]], references.jacobian(loss, a)))
        return worst


def cases() -> Iterator[tuple[str, Case]]:
    """By name. The bounds are a few times what was reached."""
    normal = np.random.default_rng(20).normal
    positive = np.abs(normal(size=5)) + 0.2

    def vector(a: Any) -> Any:
        return Vector3(*a)

    def to_complex(a: Any) -> Any:
        return a[:, 0] + 1j * a[:, 1]

    square = {n: normal(size=(n, n)) for n in (2, 3, 5)}
    zeros = np.zeros
    yield "dot", Case(library.dot, references.dot, (0.0, normal(size=6), normal(size=6)))
    yield "norm", Case(library.norm, references.norm, (0.0, normal(size=6)), 2e-8)
    affine = zeros(3), normal(size=(3, 4)), normal(size=4), normal(size=3)
    yield "affine", Case(library.affine, references.affine, affine)
    product = zeros((3, 2)), normal(size=(3, 4)), normal(size=(4, 2))
    yield "matmul", Case(library.matmul, references.matmul, product)
    turn = zeros(3), np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0, 7.0]) / np.sqrt(126)
    fields = {0: vector, 1: vector, 2: lambda a: Quaternion(*a)}
    yield "rotate by a quaternion", Case(library.rotate, references.rotate, turn, packed=fields)
    for n, a in square.items():
        yield f"determinant {n}", Case(library.determinant, references.determinant, (0.0, a))
    yield "inverse", Case(library.inverse, references.inverse, (zeros((3, 3)), square[3]))
    yield "solve", Case(library.solve, references.solve, (zeros(5), square[5], normal(size=5)))
    yield "qr", Case(library.qr, references.qr, (zeros((5, 3)), zeros((3, 3)), normal(size=(5, 3))), first=2)
    yield "rotate_planes", Case(library.rotate_planes, references.rotate_planes, (normal(size=(4, 2)), normal(size=6)))
    yield "hadamard", Case(library.hadamard, references.hadamard, (normal(), normal()))
    yield "fft", Case(library.fft, references.fft, (normal(size=(16, 2)),), packed={0: to_complex})
    waves = np.concatenate([normal(size=(1, 8)), zeros((5, 8))])
    yield "lax_wendroff", Case(library.lax_wendroff, references.lax_wendroff, (waves, 0.75))
    layers = normal(size=6), normal(size=(3, 4, 3)), normal(size=(3, 4)), normal(size=(3, 3, 4)), normal(size=(3, 3))
    yield "nice", Case(library.nice, references.nice, layers)
    yield "variance", Case(library.variance, references.variance, (0.0, normal(size=7)), 3e-8)
    yield "logsumexp", Case(library.logsumexp, references.logsumexp, (0.0, 3 * normal(size=6)), 2e-8)
    yield "softmax", Case(library.softmax, references.softmax, (zeros(5), normal(size=5)))
    entropy = 0.0, normal(size=5), positive / positive.sum()
    yield "cross_entropy", Case(library.cross_entropy, references.cross_entropy, entropy)
    yield "normal_logpdf", Case(library.normal_logpdf, references.normal_logpdf, (0.0, 1.3, 0.4, 0.7))
    yield "box_muller", Case(library.box_muller, references.box_muller, (0.0, 0.0, 0.3, 0.2))


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_library(name: str) -> None:
    case = CASES[name]
    assert case.bound <= 1e-6
    assert case.error() < case.bound


def test_scalar_losses_by_the_public_route() -> None:
    """`rg.value_and_grad` and the machine turned round by hand give the same words."""
    for name in ("dot", "norm", "determinant 3", "logsumexp", "normal_logpdf"):
        of_loss(CASES[name].function, CASES[name].args)
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    dot = of_loss(library.dot, (0.0, x, y)).gradients
    assert (dot["x"].tolist(), dot["y"].tolist()) == (y.tolist(), x.tolist())


# ---------------------------------------------------------------- a function known by heart


def test_quadratic() -> None:
    found = of_loss(quadratic.quadratic, (0.0, 3.0, 4.0)).gradients
    assert (found["x"].item(), found["y"].item()) == (24, 41) == quadratic.gradient(3, 4)
    for x, y in ((0.3, -1.7), (-20.25, 11.1)):
        point = np.array([x, y])
        exact = references.jacobian(lambda z: references.quadratic(0, *z)[0], point)
        found = of_loss(quadratic.quadratic, (0.0, x, y)).gradients
        assert error([found["x"], found["y"]], exact) < 2e-9


def test_hessian_times_vector() -> None:
    assert rg.hvp(quadratic.quadratic, ("x", "y"))((0.0, 3.0, 4.0), (7.0, 8.0)) == (52, 85)
    assert quadratic.hessian_vector(7, 8) == (52, 85)
    # A gradient that is linear: its differences are those of its derivative.
    gradient = rg.grad(quadratic.quadratic, ("x", "y"))
    there, here = gradient(0.0, 3.0 + 7, 4.0 + 8), gradient(0.0, 3.0, 4.0)
    assert tuple(np.subtract(there, here)) == (52, 85)


# ---------------------------------------------------------------- Bessel functions


@pytest.mark.parametrize("f", [bessel.bessel, bessel.bessel_log])
def test_bessel_golden(f: Any) -> None:
    """To 1e-8; reached: 5e-10 and 2e-9."""
    value, slope = rg.value_and_grad(f, "z")(0.0, 1.0)
    assert value == pytest.approx(0.1149034849298, abs=1e-8)
    assert slope == pytest.approx(0.2102436158518, abs=1e-8)
    assert slope == pytest.approx(references.bessel(2, 1.0)[1], abs=2e-9)
    if f is bessel.bessel:
        of_loss(f, (0.0, 1.0), 14)


@pytest.mark.parametrize("nu", [0, 1, 2, 5])
def test_bessel_against_mpmath(nu: int) -> None:
    """Of one term as of twenty. Reached: 3e-9 for |z| ≤ 2, 6e-8 at 5 and 7e-7 at 10; lognums 3e-9, 1e-9 and 4e-8."""
    for z in (-2.0, -1.0, 0.25, 0.7, 1.7, 2.0, 5.0, 10.0):
        exact = references.bessel(nu, z)[1]
        bound, of_log = (6e-9, 1e-8) if abs(z) <= 2 else (1.5e-7, 1e-8) if z <= 5 else (2e-6, 6e-8)
        assert rg.grad(bessel.bessel, "z")(0.0, z, nu) == pytest.approx(exact, abs=bound)
        assert rg.grad(bessel.bessel_log, "z")(0.0, z, nu) == pytest.approx(exact, abs=of_log)


#: of a difference of eighth order: f′(x) ≈ Σᵢ wᵢ (f(x + ih) − f(x − ih)) / h
EIGHTH_ORDER = (4 / 5, -1 / 5, 4 / 105, -1 / 280)


def difference(f: Callable[[Any], Any], x: Any, h: Any) -> Any:
    """The derivative of f along h."""
    return sum(w * (f(x + i * h) - f(x - i * h)) for i, w in enumerate(EIGHTH_ORDER, 1))


def test_bessel_hessian() -> None:
    """To 1e-8. Reached: 2e-9; by lognums 5e-11 with eight more binary places (1e-8 without); by differences of gradients 5e-10."""
    exact = references.bessel(2, 1.0)[2]
    assert exact == pytest.approx(0.13446683853, abs=1e-8)
    finer, of_log = (f.with_options(format=rg.Format(64, 40)) for f in (bessel.bessel, bessel.bessel_log))
    found = rg.hessian(bessel.bessel, "z")(0.0, 1.0)
    assert found == pytest.approx(0.13446683853, abs=1e-8)
    assert found == pytest.approx(exact, abs=5e-9)
    assert rg.hessian(of_log, "z")(0.0, 1.0) == pytest.approx(exact, abs=1e-9)
    gradient = rg.grad(finer, "z")
    h = 0.125
    assert difference(lambda z: gradient(0.0, z, 2, 1e-11), 1.0, h) / h == pytest.approx(exact, abs=2e-9)


# ---------------------------------------------------------------- graph embedding


@pytest.mark.parametrize("k", [2, 5])
def test_graph_embedding(k: int) -> None:
    """Reached: 3e-8."""
    pairs = graph_embedding.EDGES, graph_embedding.OTHERS
    for scale in (0.5, 1.0, 3.0):
        x = scale * np.random.default_rng(k).normal(size=(10, k))
        exact = references.jacobian(lambda x: references.embedding(0, x, *pairs)[0], x)
        assert error(of_loss(graph_embedding.embedding_loss, (0.0, x)).gradients["x"], exact) < 1e-7


def test_graph_hessian_times_vector() -> None:
    """Against differences of the reference's gradients. Reached: 2e-8."""
    pairs = graph_embedding.EDGES, graph_embedding.OTHERS
    x, v = np.random.default_rng(5).normal(size=(2, 10, 5))

    def gradient(x: Any) -> Any:
        return references.jacobian(lambda x: references.embedding(0, x, *pairs)[0], x)

    h = 1e-3
    exact = difference(gradient, x, h * v) / h
    assert error(rg.hvp(graph_embedding.embedding_loss, "x")((0.0, x), v), exact) < 1e-7


def test_graph_is_the_same() -> None:
    """The reference's own numbering of the Petersen graph, where a solution has the same loss: none, and no gradient."""
    edges, others = references.kneser()
    assert (len(edges), len(others)) == (len(graph_embedding.EDGES), len(graph_embedding.OTHERS)) == (15, 30)
    x = graph_embedding.solution()
    gradient = rg.grad(graph_embedding.embedding_loss, "x")(0.0, x)
    assert np.abs(gradient).max() < 1e-8
    exact = references.jacobian(
        lambda x: references.embedding(0, x, graph_embedding.EDGES, graph_embedding.OTHERS)[0], x / 10
    )
    assert error(rg.grad(graph_embedding.embedding_loss, "x")(0.0, x / 10), exact) < 1e-6


# ---------------------------------------------------------------- Gaussian mixture

MIXTURE = ("alphas", "means", "icf", "x")


def mixture_errors(mixture: Any, of: Callable[..., Pulled]) -> list[float]:
    """Of the value (absolute), then of each gradient."""
    value, exact = references.likelihood_gradient(*mixture)
    out = of(gmm.gmm_objective, (0.0, *mixture))
    return [
        abs(out.values["out"].item() - value),
        *(error(out.gradients[name], getattr(exact, name)) for name in MIXTURE),
    ]


def test_gmm_golden() -> None:
    """test.txt to 1e-6; reached: 8e-10."""
    mixture = references.read_mixture(gmm.DATA / "test.txt")
    value, *errors = mixture_errors(mixture, of_loss)
    assert value < 1e-9
    assert max(errors) < 3e-9
    # The reference itself, by hand and by complex steps.
    _, exact = references.likelihood_gradient(*mixture)
    for i, name in enumerate(MIXTURE):
        parts = list(mixture)

        def moved(z: Any, i: int = i, parts: list[Any] = parts) -> Any:
            return references.likelihood(*parts[:i], z, *parts[i + 1 :])

        assert error(getattr(exact, name), references.jacobian(moved, parts[i])) < 1e-14


def test_gmm_hessian_times_vector() -> None:
    """test.txt against differences of the reference's gradients. Reached: 3e-10."""
    mixture = references.read_mixture(gmm.DATA / "test.txt")
    generator = np.random.default_rng(3)
    vectors = [generator.normal(size=part.shape) for part in mixture[:3]]
    ends = np.cumsum([part.size for part in mixture[:2]])

    def gradient(flat: Any) -> Any:
        parts = [a.reshape(b.shape) for a, b in zip(np.split(flat, ends), mixture[:3], strict=True)]
        return row(references.likelihood_gradient(*parts, *mixture[3:])[1][:3])

    def row(parts: Any) -> Any:
        return np.concatenate([np.ravel(part) for part in parts])

    h = 1e-3
    exact = difference(gradient, row(mixture[:3]), h * row(vectors)) / h
    found = rg.hvp(gmm.gmm_objective, ("alphas", "means", "icf"))((0.0, *mixture), vectors)
    assert error(row(found), exact) < 2e-9


@pytest.mark.parametrize(("gamma", "m"), [(1.0, 0), (0.7, 3)])
def test_gmm_first_points(gamma: float, m: int) -> None:
    """Of d = 10, k = 25. Reached: 5e-9."""
    mixture = references.read_mixture(gmm.DATA / "1k_d10_K25.txt", 2)._replace(gamma=gamma, m=m)
    value, *errors = mixture_errors(mixture, lambda f, args: pulled_back(f, args, {"out": 1.0}))
    assert value < 5e-7
    assert max(errors) < 1e-8


@pytest.mark.long
def test_gmm_1k_full() -> None:
    """All 1000 points, d = 10, k = 25. Reached: 8e-9."""
    mixture = references.read_mixture(gmm.DATA / "1k_d10_K25.txt")
    value, *errors = mixture_errors(mixture, lambda f, args: pulled_back(f, args, {"out": 1.0}))
    assert value < 2e-6
    assert max(errors) < 3e-8


# ---------------------------------------------------------------- bundle adjustment


def bundle(name: str) -> Any:
    return references.read_bundle(bundle_adjustment.DATA / name)


def reprojection_jacobian(inputs: Any, feature: Any) -> Any:
    """The reference's 2 × 15."""
    return references.jacobian(lambda z: references.reprojection(z, feature), inputs)


class Projections:
    """One machine that takes measurement after measurement: forward, back with each error's cotangent, and again."""

    def __init__(self, function: Any = bundle_adjustment.reprojection_error) -> None:
        example = np.zeros(2), np.zeros(11), np.zeros(3), 0.0, np.zeros(2)
        self.compiled = function.compiled_for(types_of(function, bind(function, example, {})))
        self.machine = load(self.compiled, list(example))
        self.address = {a.name: a.address for a in self.compiled.arguments}

    def jacobian(self, inputs: Any, feature: Any) -> Any:
        """2 × 15, by 2 runs back; the words of memory return from both."""
        machine, at = self.machine, self.address
        w = self.compiled.format
        camera, point, weight = np.split(inputs, [11, 14])
        for name, part in (("camera", camera), ("point", point), ("weight", weight), ("feature", feature)):
            machine.load(at[name], [round(x * 2**w.frac) for x in part.tolist()])
        begun = machine.memory[:]
        rows = []
        for i in range(2):
            machine.run()
            machine.differentiating = True
            machine.clear_cotangents()
            machine.memory_cotangents[at["error"] + i] = 1 << w.frac
            machine.turn()
            machine.run()
            came_back(machine, begun)
            found = machine.memory_cotangents
            words = found[at["camera"] : at["camera"] + 11] + found[at["point"] : at["point"] + 3]
            rows.append([w.signed(word) for word in [*words, found[at["weight"]]]])
            machine.differentiating = False
            machine.turn()
        return np.array(rows) / 2.0**w.frac


def test_ba_golden() -> None:
    """test.txt to 1e-6, element by element; reached: 4e-7, and 4e-9 but for ∂/∂w, a difference of pixels."""
    data = bundle("test.txt")
    exact = reprojection_jacobian(data.inputs, data.feature)
    found = Projections().jacobian(data.inputs, data.feature)
    assert error(found, exact) < 4e-9
    inside = exact != 0
    assert np.array_equal(found[~inside], exact[~inside])
    relative = np.abs(found[inside] / exact[inside] - 1)
    assert relative.max() < 1e-6
    assert np.sort(relative)[:-2].max() < 2e-8


def test_ba1_golden() -> None:
    """Reached: 2e-9. ∂/∂w is what `error` is for w = 1, and good to some 10⁻⁶ of a pixel: 9e-6 of itself."""
    data = bundle("ba1_n49_m7776_p31843.txt")
    exact = reprojection_jacobian(data.inputs, data.feature)
    assert exact[0, 0] == pytest.approx(-461.4463210015993, rel=1e-14)
    found = Projections().jacobian(data.inputs, data.feature)
    assert error(found, exact) < 6e-9
    assert found[:, :14] == pytest.approx(exact[:, :14], rel=5e-8)
    assert found[:, 14] == pytest.approx(exact[:, 14], abs=5e-6)


def test_ba1_in_a_finer_format() -> None:
    """With eight more binary places, all elements to 1e-7 of themselves; reached: 5e-8."""
    data = bundle("ba1_n49_m7776_p31843.txt")
    finer = bundle_adjustment.reprojection_error.with_options(format=rg.Format(64, 40))
    found = Projections(finer).jacobian(data.inputs, data.feature)
    assert found == pytest.approx(reprojection_jacobian(data.inputs, data.feature), rel=1e-7)


@pytest.mark.long
def test_ba_sparse_jacobian() -> None:
    """test.txt, all of it: 30 × 62, 310 elements, from the objective of ten measurements."""
    data = bundle("test.txt")
    cameras, points = np.tile(data.inputs[:11], (data.n, 1)), np.tile(data.inputs[11:14], (data.m, 1))
    observed = np.array([data.seen(i) for i in range(data.p)])
    arguments = cameras, points, np.full(data.p, data.inputs[14]), observed, np.tile(data.feature, (data.p, 1))
    rows = []
    for i in range(3 * data.p):
        seed = np.eye(3 * data.p)[i]
        split = {"errors": seed[: 2 * data.p], "weight_errors": seed[2 * data.p :]}
        out = pulled_back(bundle_adjustment.objective, (np.zeros((data.p, 2)), np.zeros(data.p), *arguments), split)
        rows.append(np.concatenate([out.gradients[name] for name in ("cameras", "points", "weights")]))
    found = np.array(rows)
    where = references.sparsity(data)
    assert found.shape == (30, 62)
    assert len(where[0]) == 310
    inside = np.zeros(found.shape, dtype=bool)
    inside[where] = True
    assert not found[~inside].any()
    block = reprojection_jacobian(data.inputs, data.feature)
    exact = np.concatenate([*[np.concatenate([*block, [-2 * data.inputs[14]]])] * data.p])
    assert error(found[where], exact) < 4e-9
    # The same by `rg.jacobian`, where measurements that share neither camera nor point go back together.
    errors, weights = inside[: 2 * data.p], inside[2 * data.p :]
    for outputs, pattern, rows in (
        ("errors", errors, found[: 2 * data.p]),
        ("weight_errors", weights, found[2 * data.p :]),
    ):
        public = rg.jacobian(bundle_adjustment.objective, ("cameras", "points", "weights"), outputs, pattern=pattern)
        jacobian = public(np.zeros((data.p, 2)), np.zeros(data.p), *arguments)
        # To rounding only: rows that go back together share registers, and cotangents of dead ones are left in them.
        assert error(jacobian.toarray(), rows) < 2e-9
        assert jacobian.indptr[-1] == pattern.sum()
    assert errors.sum() + weights.sum() == 310
    assert out.values["errors"][:2] == pytest.approx([-0.2690488, 0.2599448], abs=1e-6)


def scattered(data: Any) -> tuple[Any, Any]:
    """Cameras and points that differ: the file's, moved by about a hundredth."""
    generator = np.random.default_rng(49)
    camera, point = data.inputs[:11], data.inputs[11:14]
    cameras = camera * (1 + 0.01 * generator.normal(size=(data.n, 11)))
    return cameras, point + 0.05 * generator.normal(size=(data.m, 3))


def ba1_errors(kind: str, every: int) -> tuple[float, float, float]:
    """(a block's error, that of an element but for ∂/∂w, that of ∂/∂w in pixels), the largest of one measurement in `every`."""
    data = bundle("ba1_n49_m7776_p31843.txt")
    cameras, points = scattered(data)
    projections = Projections()
    worst = np.zeros(3)
    exact = reprojection_jacobian(data.inputs, data.feature)
    for i in range(0, data.p, every):
        inputs = data.inputs
        if kind == "scattered":
            camera, point = data.seen(i)
            # As the machine holds them: an input's rounding is no error of the gradient.
            inputs = np.concatenate([cameras[camera], points[point], data.inputs[14:]])
            inputs = np.round(inputs * 2.0**32) / 2.0**32
            exact = reprojection_jacobian(inputs, data.feature)
        found = projections.jacobian(inputs, data.feature)
        off = np.abs(found - exact)
        inside = np.abs(exact[:, :14]) > 1
        relative = (off[:, :14][inside] / np.abs(exact[:, :14][inside])).max()
        worst = np.maximum(worst, [off.max() / np.abs(exact).max(), relative, off[:, 14].max()])
    block, relative, weight = worst.tolist()
    return block, relative, weight


@pytest.mark.parametrize(("kind", "every"), [("filed", 10000), ("scattered", 400)])
def test_ba1_sample(kind: str, every: int) -> None:
    block, relative, weight = ba1_errors(kind, every)
    assert block < 1e-8
    assert relative < 1e-6
    assert weight < 1e-5


@pytest.mark.long
@pytest.mark.parametrize("kind", ["filed", "scattered"])
def test_ba1_full(kind: str) -> None:
    """All 31,843 blocks; the file replicates one measurement, so another time with cameras and points that differ."""
    block, relative, weight = ba1_errors(kind, 1)
    assert block < 1e-8
    assert relative < 1e-6
    assert weight < 1e-5


# ---------------------------------------------------------------- leapfrog


def planet_errors(steps: int, body: int, axis: int, scale: int) -> list[float]:
    """Of a coordinate (AU), then of its gradients by the initial q, v and G m."""
    q, v, gm = leapfrog.solar_system()
    value, (by_q, by_v, by_m) = references.gradients(q, v, gm, steps, 1 / leapfrog.RATE, body, axis)
    seed = np.zeros((len(gm), 3))
    seed[body, axis] = 1
    out = pulled_back(leapfrog.leapfrog, (q, v, gm, steps), {"q": seed}, scale)
    return [
        abs(out.values["q"].reshape(-1, 3)[body, axis] - value),
        error(out.gradients["q"], by_q),
        error(out.gradients["v"], by_v),
        error(out.gradients["gm"], by_m),
    ]


def test_planets() -> None:
    """A cotangent of a velocity with 58 places has 6, and as many more as the scale. Reached: 2e-9."""
    value, *errors = planet_errors(30, 3, 0, 30)
    assert value < 1e-10
    assert max(errors) < 1e-8
    # Without a scale, hardly a digit is left.
    assert max(planet_errors(10, 3, 0, 0)) > 1e-2


@pytest.mark.long
@pytest.mark.parametrize(
    ("steps", "body", "axis", "scale"), [(300, 1, 0, 24), (300, 3, 1, 30), (300, 5, 0, 30), (1000, 3, 1, 28)]
)
def test_planets_for_years(steps: int, body: int, axis: int, scale: int) -> None:
    """Mercury, the Earth, Jupiter. Reached: 1e-6; larger scales would do better, and soon overflow."""
    value, *errors = planet_errors(steps, body, axis, scale)
    assert value < 5e-9
    assert max(errors) < 3e-6


# ---------------------------------------------------------------- sparse matrices


def compressed(matrix: Any) -> tuple[Any, Any, Any]:
    return matrix.indptr, matrix.indices, matrix.data


@pytest.mark.parametrize("name", ["trace_with_keeper", "sparse_dot", "sparse_dot_scattered"])
def test_sparse_trace(name: str) -> None:
    """Reached: 5e-11, a last place of the largest value: products with 1 lose nothing."""
    generator = np.random.default_rng(8)
    a, b = (references.random(generator, (50, 40), 0.1) for _ in range(2))
    clear = np.ones(40)
    clear[[0, 17, 39]] = 0
    empty = (a * clear).tocsc()
    empty.eliminate_zeros()
    for x, y in ((a, b), (a, a), (empty, b), (b, empty)):
        x.sum_duplicates()
        args = (*compressed(x), *compressed(y))
        value, (by_x, by_y) = references.trace(x, y)
        match name:
            case "trace_with_keeper":
                out, names = of_loss(sparse_dot.trace_with_keeper, (0.0, *args, x.shape[0])), ("a", "b")
            case "sparse_dot":
                out, names = of_loss(library.sparse_dot, (0.0, *args)), ("a_values", "b_values")
            case _:
                out = of_loss(library.sparse_dot_scattered, (0.0, x.shape[0], *args))
                names = "a_values", "b_values"
        assert out.values["out"].item() == pytest.approx(value, abs=1e-7)
        assert error(out.gradients[names[0]], by_x) < 2e-10
        assert error(out.gradients[names[1]], by_y) < 2e-10


def test_sparse_complex_product() -> None:
    """Reached: 1e-9."""
    generator = np.random.default_rng(9)

    def normal(*shape: int) -> Any:
        return generator.normal(size=shape) + 1j * generator.normal(size=shape)

    def pairs(z: Any) -> Any:
        return np.stack([np.real(z), np.imag(z)], axis=-1)

    a, b, factor, seeds = references.random(generator, (6, 5), 0.4, complex), normal(5, 3), 0.7 - 0.4j, normal(6, 3)
    value, exact = references.product(a, b, factor, seeds)
    arguments = np.zeros((6, 3), complex), *compressed(a), b, Complex(factor.real, factor.imag)
    out = pulled_back(library.sparse_matmul, arguments, {"c": pairs(seeds)})
    assert out.values["c"] == pytest.approx(pairs(value).ravel(), abs=1e-8)
    for name, gradient in zip(("values", "b", "factor"), exact, strict=True):
        assert error(out.gradients[name], pairs(gradient)) < 4e-9
