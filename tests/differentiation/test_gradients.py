"""Gradients by running backward, against closed forms and central differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.examples import bessel, bundle_adjustment, graph_embedding

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.derivatives._requests import way_back
from retrograd.library import Complex, Vector3, determinant, dot, logsumexp, relu, scalar_product
from retrograd.testing import fixed_numbers


@reversible
def complex_log(re: fixed, im: fixed, x: fixed, y: fixed):
    with rg.routine() as r:
        n = rg.sqrt(x * x + y * y)
    re += rg.log(n)
    im += rg.atan2(y, x)
    ~r


def test_closed_forms() -> None:
    assert rg.grad(complex_log, argnums=(2, 3), loss=0)(0.0, 0.0, 3.0, 4.0) == pytest.approx((0.12, 0.16), abs=1e-8)
    assert rg.grad(complex_log, argnums=("x", "y"), loss="im")(0.0, 0.0, 3.0, 4.0) == pytest.approx(
        (-0.16, 0.12), abs=1e-8
    )


def test_one_argument_several_or_all_by_name() -> None:
    alone = rg.grad(complex_log, argnums="y")(0.0, 0.0, 3.0, 4.0)
    assert isinstance(alone, float)
    every = rg.grad(complex_log)(0.0, 0.0, 3.0, 4.0)
    assert every._fields == ("im", "x", "y")
    assert (every.im, every.y) == (0.0, alone)


def test_value_and_gradient() -> None:
    value, (gx,) = rg.value_and_grad(complex_log, argnums=(2,))(0.0, 0.0, 3.0, 4.0)
    assert value == pytest.approx(math.log(5), abs=1e-9)
    assert gx == pytest.approx(0.12, abs=1e-8)


def test_the_gradient_of_a_dot_product_is_the_other_vector() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    out = rg.grad(dot)(0.0, x, y)
    assert out.x.tolist() == y.tolist()
    assert out.y.tolist() == x.tolist()


def test_squares_and_shared_reads() -> None:
    @reversible
    def f(y: fixed, x: fixed):
        y += x * x + 3 * x

    assert rg.grad(f, argnums=1)(0.0, 5.0) == 13.0


def test_softmax_from_the_library() -> None:
    x = np.array([0.5, -1.0, 2.0])
    expected = np.exp(x) / np.exp(x).sum()
    assert rg.grad(logsumexp, argnums="x")(0.0, x) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("f", [bessel.bessel, bessel.bessel_log])
def test_golden_of_bessel(f: rg.Reversible) -> None:
    assert rg.grad(f, argnums="z", scale=16)(0.0, 1.0) == pytest.approx(0.2102436158518, abs=1e-8)


def central(function: Any, x: np.ndarray[Any, Any], h: float = 1e-6) -> np.ndarray[Any, Any]:
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = h
        out[i] = (function(x + step) - function(x - step)) / (2 * h)
    return out


def test_graph_embedding_against_differences() -> None:
    x = np.random.default_rng(0).normal(size=(10, 3))
    found = rg.grad(graph_embedding.embedding_loss, argnums="x")(0.0, x)
    assert found == pytest.approx(central(graph_embedding.reference, x), abs=1e-6)


def test_a_projection_against_differences() -> None:
    problem = bundle_adjustment.read(bundle_adjustment.DATA / "test.txt", 1)
    camera, point = problem.cameras[0], problem.points[0]

    @reversible
    def first(out: fixed, camera: Array[fixed, 11], point: Array[fixed, 3]):
        with rg.routine() as r:
            pixel = rg.zeros(2)
            bundle_adjustment.project(pixel, camera, point)
        out += pixel[0]
        ~r

    found = rg.grad(first, argnums="point")(0.0, camera, point)
    expected = central(lambda p: float(bundle_adjustment.reference(camera, p, 1.0, np.zeros(2))[0]), point)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_structs_and_lognums() -> None:
    @reversible
    def f(out: fixed, z: Complex, s: lognum):
        out += z.re * z.im
        out += fixed(s)

    g = rg.grad(f)(0.0, Complex(2.0, 3.0), 4.0)
    assert (g.z.re, g.z.im) == (3.0, 2.0)
    assert g.s == pytest.approx(1.0, abs=1e-8)


def test_branches_loops_recursion_and_uncalls() -> None:
    @reversible
    def power(y: fixed, x: fixed, n: int):
        with rg.routine() as r:
            less = n - 1
            inner = 0.0
            if n > 0:
                power(inner, x, less)
        if n == 0:
            y += 1
        else:
            y += inner * x
        ~r

    assert rg.grad(power, argnums="x")(0.0, 1.5, 4) == pytest.approx(4 * 1.5**3, abs=1e-7)

    @reversible
    def relu(y: fixed, x: fixed):
        y += rg.select(x > 0, x, 0)

    assert [rg.grad(relu, argnums="x")(0.0, x) for x in (2.0, -2.0, 0.0)] == [1.0, 0.0, 0.0]


def test_memory_does_not_grow_with_the_loop() -> None:
    @reversible
    def long(y: fixed, x: fixed, n: int):
        for _ in range(n):
            y += rg.sin(x)

    sizes = {len(rg.run(long, 0.0, 0.5, n).machine.memory) for n in (10, 1000)}
    assert len(sizes) == 1
    assert rg.grad(long, argnums="x")(0.0, 0.5, 1000) == pytest.approx(1000 * math.cos(0.5), abs=1e-5)


# ---------------------------------------------------------------------- what is differentiated


@reversible
def wave(y: fixed, x: fixed):
    with rg.routine() as r:
        t = rg.exp(-x * x) * rg.cos(3 * x)
    y += rg.log(2 + t) / (1 + x * x)
    y += rg.sqrt(1 + x * x) * rg.atan2(x, 2.0)
    ~r


@settings(max_examples=40)
@given(fixed_numbers(low=-4, high=4))
def test_a_smooth_function_against_high_precision(x: float) -> None:
    def exact(t: Any) -> Any:
        inner = mpmath.exp(-t * t) * mpmath.cos(3 * t)
        return mpmath.log(2 + inner) / (1 + t * t) + mpmath.sqrt(1 + t * t) * mpmath.atan2(t, 2)

    word = float(fixed.to_reals(fixed.to_words(x)))
    with mpmath.workdps(40):
        expected = float(mpmath.diff(exact, mpmath.mpf(word)))
    assert rg.grad(wave, "x")(0.0, word) == pytest.approx(expected, abs=2e-8)


@settings(max_examples=30)
@given(st.lists(st.integers(-8, 8), min_size=4, max_size=4), st.integers(-16, 16))
def test_polynomials_are_differentiated_exactly(coefficients: list[int], sixteenths: int) -> None:
    @reversible
    def polynomial(y: fixed, x: fixed, a: Array[fixed, 4]):
        with rg.routine() as r:
            powers = rg.zeros(4)
            powers[0] += 1
            for i in range(1, 4):
                powers[i] += powers[i - 1] * x
        for i in range(4):
            y += a[i] * powers[i]
        ~r

    x = sixteenths / 16
    value, found = rg.value_and_grad(polynomial)(0.0, x, np.array(coefficients, dtype=float))
    assert value == sum(c * x**k for k, c in enumerate(coefficients))
    assert found.x == sum(k * c * x ** max(0, k - 1) for k, c in enumerate(coefficients))
    assert found.a.tolist() == [1, x, x**2, x**3]


def test_what_the_loss_holds_before_is_an_input_too() -> None:
    @reversible
    def f(y: fixed, x: fixed):
        y += x * x
        rg.neg(y)

    assert rg.grad(f, ("y", "x"))(1.0, 3.0) == (-1.0, -6.0)
    assert rg.grad(f)(1.0, 3.0)._fields == ("x",)


def test_positions_count_from_either_end_and_keep_their_order() -> None:
    out = rg.grad(complex_log, argnums=(-1, np.int64(2)))(0.0, 0.0, 3.0, 4.0)
    assert out == rg.grad(complex_log, argnums=("y", "x"))(0.0, 0.0, 3.0, 4.0)
    assert rg.grad(complex_log, argnums=())(0.0, 0.0, 3.0, 4.0) == ()


def test_the_inverse_is_differentiated_too() -> None:
    @reversible
    def f(y: fixed, x: fixed, s: lognum):
        y += x * x
        s *= lognum(x)

    after = f(1.0, 4.0, 3.0)
    # (~f)(y, x, s) = (y − x², x, s/x)
    value, found = rg.value_and_grad(~f)(*after)
    assert value == 1.0
    assert found == (-8.0, 0.0)
    assert rg.grad(~~f)(1.0, 4.0, 3.0) == (8.0, 0.0)


def test_matrices() -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=(3, 3)) + 3 * np.eye(3)
    value, found = rg.value_and_grad(determinant, "a")(0.0, a)
    assert value == pytest.approx(np.linalg.det(a), abs=1e-7)
    assert found == pytest.approx(np.linalg.det(a) * np.linalg.inv(a).T, abs=1e-6)


@reversible
def walk(out: fixed, xs: Array[fixed, "n"], start: int, passes: int):
    """Elements chosen as the program runs, so that the array stays in memory."""
    with rg.routine() as r:
        s = fixed(0)
        at = start
        for _ in range(passes):
            s += xs[at % len(xs)] * xs[(at + 1) % len(xs)]
            at += 3
    out += s * s
    ~r


def test_arrays_in_memory_are_differentiated_where_they_lie() -> None:
    x = np.array([1.0, -0.5, 2.0, 0.25, 3.0])

    def reference(t: np.ndarray[Any, Any]) -> float:
        return sum(float(t[(2 + 3 * k) % 5] * t[(3 + 3 * k) % 5]) for k in range(4)) ** 2

    assert rg.grad(walk, "xs")(0.0, x, 2, 4) == pytest.approx(central(reference, x), abs=1e-7)


def test_changed_arrays_and_bijections() -> None:
    @reversible
    def f(out: fixed, xs: Array[fixed, 3], angle: fixed):
        rg.rot(xs[0], xs[1], angle)
        xs[2] += xs[0] * xs[1]
        rg.swap(xs[0], xs[2])
        out += xs[0] * xs[0] + xs[2]

    def reference(t: np.ndarray[Any, Any]) -> float:
        c, s = math.cos(t[3]), math.sin(t[3])
        a, b = c * t[0] - s * t[1], s * t[0] + c * t[1]
        return float((t[2] + a * b) ** 2 + a)

    x = np.array([1.0, -0.5, 2.0, 0.75])
    found = rg.grad(f)(0.0, x[:3], 0.75)
    assert [*found.xs, found.angle] == pytest.approx(central(reference, x), abs=1e-7)


def test_recursion_uncalls_and_inverses_of_calls() -> None:
    @reversible
    def g(y: fixed, x: fixed):
        y += x * x * x

    @reversible
    def f(y: fixed, x: fixed, n: int):
        g(y, x)
        (~g)(y, 2 * x)
        if n > 0:
            with rg.routine() as r:
                less = n - 1
            f(y, x, less)
            ~r

    # y += 4 (x³ − 8x³)
    assert rg.grad(f, "x")(0.0, 0.5, 3) == pytest.approx(-84 * 0.25, abs=1e-7)


# ---------------------------------------------------------------------- kinks


@reversible
def absolute(y: fixed, x: fixed):
    y += abs(x)


@reversible
def larger(y: fixed, x: fixed, z: fixed):
    y += max(x, z)


@reversible
def smaller(y: fixed, x: fixed, z: fixed):
    y += min(x, z)


def test_at_a_kink_the_gradient_is_that_of_the_side_taken() -> None:
    # |x| takes −x where x < 0; max and min take their second argument at a tie; relu adds nothing at 0.
    assert [rg.grad(absolute, "x")(0.0, x) for x in (-1.0, 0.0, 1.0)] == [-1, 1, 1]
    points = ((1.0, 2.0), (1.0, 1.0), (2.0, 1.0))
    assert [rg.grad(larger)(0.0, *p) for p in points] == [(0, 1), (0, 1), (1, 0)]
    assert [rg.grad(smaller)(0.0, *p) for p in points] == [(1, 0), (0, 1), (0, 1)]
    assert [rg.grad(relu, "x")(0.0, x) for x in (-1.0, 0.0, 1.0)] == [0, 0, 1]


@settings(max_examples=25)
@given(fixed_numbers(low=-100, high=100), fixed_numbers(low=-100, high=100))
def test_one_side_has_all_of_it(x: float, z: float) -> None:
    for f in (larger, smaller):
        value, found = rg.value_and_grad(f)(0.0, x, z)
        assert sorted(found) == [0, 1]
        assert value == pytest.approx(x if found.x else z, abs=1e-9)


# ---------------------------------------------------------------------- forms


def test_structs_come_back_as_structs() -> None:
    found = rg.grad(scalar_product)(0.0, Vector3(1.0, 2.0, 3.0), Vector3(4.0, 5.0, 6.0))
    assert found == (Vector3(4.0, 5.0, 6.0), Vector3(1.0, 2.0, 3.0))


@reversible
def power_of(out: fixed, zs: Array[Complex, "n"]):
    for z in zs:
        out += z.re * z.re + 2 * z.im * z.im


def test_complex_numbers_come_back_as_their_values_do() -> None:
    @reversible
    def f(out: fixed, z: Complex):
        out += z.re * z.re * z.im

    # However z is written, its value comes back as a Complex, and so does its gradient.
    for z in (3 + 2j, np.complex128(3 + 2j), Complex(3.0, 2.0)):
        assert f(0.0, z).z == Complex(3.0, 2.0)
        assert rg.grad(f, "z")(0.0, z) == Complex(12.0, 9.0)
    expected = [Complex(2.0, 8.0), Complex(0.0, -4.0)]
    for zs in ([Complex(1.0, 2.0), Complex(0.0, -1.0)], np.array([1 + 2j, -1j])):
        assert rg.grad(power_of, "zs")(0.0, zs).tolist() == expected


def test_lognums_of_both_signs_and_any_size() -> None:
    @reversible
    def f(out: fixed, s: lognum, t: lognum):
        out += fixed(s / t)

    for s, t in ((3.0, 2.0), (-3.0, 2.0), (3e-200, -2e-200), (3e250, 2e250)):
        found = rg.grad(f)(0.0, s, t)
        assert found == pytest.approx((1 / t, -s / t / t), rel=1e-6, abs=0)


def test_a_lognum_beyond_floats_leaves_zeros_as_they_are() -> None:
    @reversible
    def f(s: lognum, t: lognum, u: fixed):
        s *= t * t
        u += fixed(t / t)

    for t in (1e250, 1e-250):
        # s = t³ is 10^±750, which no float holds.
        values, pullback = rg.vjp(f, t, t, 3.0)
        assert values.s in (0.0, math.inf)
        assert pullback({"u": 1.0}) == (0.0, 0.0, 1.0)
        assert rg.jacobian(f, "u", outputs="s")(t, t, 3.0) == 0.0


# ---------------------------------------------------------------------- scale, formats, reports


def test_scale_saves_small_cotangents() -> None:
    @reversible
    def f(y: fixed, x: fixed):
        y += x / 60000 / 60000

    exact = 1 / 60000**2
    # 1.19 units of the last place: rounded, a sixth of it is gone.
    assert abs(rg.grad(f, "x", scale=0)(0.0, 3.0) / exact - 1) > 0.1
    assert rg.grad(f, "x", scale=16)(0.0, 3.0) == pytest.approx(exact, rel=1e-4, abs=0)


def test_other_formats() -> None:
    narrow = wave.with_options(format=rg.Format(32, 16))
    assert rg.grad(narrow, "x")(0.0, 0.5) == pytest.approx(rg.grad(wave, "x")(0.0, 0.5), abs=2e-3)


def test_a_cotangent_that_does_not_fit_traps_and_says_so() -> None:
    @reversible
    def f(y: fixed, x: fixed):
        y += rg.sqrt(x)

    with pytest.raises(rg.ProgramTrap, match="cotangent overflow") as caught:
        rg.grad(f, "x", scale=30)(0.0, 1e-6)
    assert caught.value.diagnostics[0].code == "RG0404"
    assert "scale" in (caught.value.diagnostics[0].hint or "")
    machine = caught.value.machine
    machine.run_back()
    assert machine.at_origin
    assert machine.memory[1] == rg.fixed.to_words(1e-6)


def test_a_report_says_what_a_gradient_cost() -> None:
    x = np.linspace(-1, 1, 5)
    report = rg.gradient_report(logsumexp, "x")(0.0, x)
    assert report.value == rg.value_and_grad(logsumexp)(0.0, x)[0]
    assert report.gradients.tolist() == rg.grad(logsumexp, "x")(0.0, x).tolist()
    run = rg.run(logsumexp, 0.0, x)
    # The way back is as long but for `start`, and where variables die it drops their cotangents.
    assert report.forward_steps == run.steps
    assert 0 < report.backward_steps - (run.steps - 1) < run.steps / 2
    assert report.ratio == report.backward_steps / report.forward_steps
    assert report.memory_words == len(run.machine.memory)
    assert report.inputs_restored


@pytest.mark.parametrize("format", ["Q40.24", "Q33.31", "Q16.16"])
def test_scales_of_a_report(format: str) -> None:
    """The same gradient at each scale; each more bit of scale is a bit of it."""
    for scale in (0, 1, 7, 8, 9):
        report = rg.gradient_report(rg.library.norm, "x", scale=scale, format=format)(0.0, [3.0, 4.0])
        frac = rg.Format.named(format).frac
        assert report.gradients == pytest.approx([0.6, 0.8], abs=2.0 ** (4 - scale - frac))
        request = rg.grad(rg.library.norm.with_options(format=format), "x", scale=scale).request
        assert way_back(request, request.values((0.0, [3.0, 4.0]), {})).one == 2 ** (frac + scale)


def test_a_report_measures_the_stack_and_not_what_is_reserved_for_it() -> None:
    @reversible
    def deep(y: fixed, x: fixed, n: int):
        with rg.routine() as r:
            less = n - 1
            inner = 0.0
            if n > 0:
                deep(inner, x, less)
        y += x + inner * x
        ~r

    words = [rg.gradient_report(deep, "x")(0.0, 0.5, n).memory_words for n in (1, 3, 5)]
    assert words[1] - words[0] == words[2] - words[1] > 0
    assert words[2] < 1000 < len(rg.run(deep, 0.0, 0.5, 5).machine.memory)


def test_restored_inputs_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    run = rg.Machine.run

    def wrong(machine: rg.Machine, *args: Any, **keywords: Any) -> Any:
        outcome = run(machine, *args, **keywords)
        if machine.direction < 0:
            machine.memory[1] ^= 1
        return outcome

    monkeypatch.setattr(rg.Machine, "run", wrong)
    assert not rg.gradient_report(absolute)(0.0, 1.0).inputs_restored


def test_the_host_looks_on_once(capsys: pytest.CaptureFixture[str]) -> None:
    @reversible
    def f(y: fixed, x: fixed):
        with rg.external():
            print("seen", x)
        y += x * x

    assert rg.grad(f, "x")(0.0, 2.0) == 4.0
    assert capsys.readouterr().out == "seen 2.0\n"


# ---------------------------------------------------------------------- refusals


@rg.struct
class Tagged:
    value: fixed
    tag: int


@reversible
def of_all_types(y: fixed, n: int, b: bool, s: rg.Stack[fixed, 4], z: Tagged, c: rg.static, xs: Array[fixed, 2]):
    y += xs[0]


def double(x: float) -> float:
    return 2 * x


ALL = (0.0, 3, True, [1.0], Tagged(1.0, 2), 5, np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"argnums": 1}, "`n` of `of_all_types` is int"),
        ({"argnums": "b"}, "`b` of `of_all_types` is bool"),
        ({"argnums": "s"}, "`s` of `of_all_types` is Stack[fixed, 4]: a stack has no derivative"),
        ({"argnums": "z.tag"}, "`z.tag` of `of_all_types` is int: int has no derivative"),
        ({"argnums": "c"}, "`c` of `of_all_types` is static 5: a static value has no derivative"),
        ({"argnums": ("xs", "n")}, "`n` of `of_all_types` is int"),
        ({"loss": 1}, "the loss `n` of `of_all_types` is int"),
        ({"loss": "xs"}, "the loss `xs` of `of_all_types` is Array[fixed, 2]"),
        ({"argnums": "w"}, "no argument 'w'"),
        ({"argnums": 7}, "no argument 7"),
        ({"argnums": -8}, "no argument -8"),
        ({"argnums": 1.5}, "1.5 is neither the position nor the name"),
        ({"argnums": True}, "True is neither the position nor the name"),
        ({"loss": None}, "None is neither the position nor the name"),
        ({"argnums": (6, "xs")}, "`xs` of `of_all_types` is chosen twice"),
        ({"argnums": (6, -1)}, "`xs` of `of_all_types` is chosen twice"),
        ({"scale": 99}, "scale = 99"),
        ({"scale": -33}, "scale = -33"),
        ({"scale": "2"}, "scale = '2'"),
    ],
)  # fmt: skip
def test_what_has_no_derivative_is_a_type_error(options: dict[str, Any], said: str) -> None:
    for derive in (rg.grad, rg.value_and_grad, rg.gradient_report):
        with pytest.raises(TypeError) as caught:
            derive(of_all_types, **options)(*ALL)
        assert isinstance(caught.value, rg.NotDifferentiable)
        assert said in str(caught.value)


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(rg.NotDifferentiable, match="its arguments are y, n, b, s, z, c, xs"):
        rg.grad(of_all_types, "q")
    with pytest.raises(rg.NotDifferentiable, match=r"rg\.jacobian .* rg\.vjp"):
        rg.grad(of_all_types, loss="xs")(*ALL)
    with pytest.raises(rg.NotDifferentiable, match=r"-32 to 30 in Q32\.32"):
        rg.grad(of_all_types, scale=31)(*ALL)
    assert rg.grad(of_all_types)(*ALL)._fields == ("z", "xs")


@pytest.mark.parametrize("f", [3, double, None, rg.value_and_grad(absolute), Complex])
def test_only_functions_of_the_language_are_differentiated(f: Any) -> None:
    for derive in (rg.grad, rg.value_and_grad, rg.gradient_report, rg.jacobian, rg.vjp):
        with pytest.raises(rg.NotDifferentiable, match="is no reversible function") as caught:
            derive(f)
        assert "@reversible" in str(caught.value)


@pytest.mark.parametrize("args", [(), (0.0,), (0.0, 1.0, 2.0), ("a", 1.0), (0.0, None), (0.0, [1.0])])
def test_wrong_arguments_are_those_of_a_call(args: tuple[Any, ...]) -> None:
    with pytest.raises(rg.InputError) as of_call:
        absolute(*args)
    with pytest.raises(rg.InputError) as of_gradient:
        rg.grad(absolute)(*args)
    assert str(of_gradient.value) == str(of_call.value)


# ---------------------------------------------------------------------- gradients of gradients


@reversible
def growth(y: fixed, x: fixed, z: fixed):
    y += rg.exp(x) * z + x * x * x * z


@pytest.mark.parametrize(("order", "expected"), [(1, 3 * 2), (2, 6 * 2), (3, 6 * 2), (4, 0)])
def test_gradients_of_gradients(order: int, expected: float) -> None:
    f = growth
    for _ in range(order):
        f = rg.grad(f, "x")
    assert f(0.0, 1.0, 2.0) == pytest.approx(2 * np.e + expected, abs=1e-7)
    assert f(0.0, z=2.0, x=1.0) == f(0.0, 1.0, 2.0)
    assert f.__name__ == "grad(" * order + "growth" + ")" * order


def test_a_gradient_of_a_gradient_is_by_the_arguments_that_are_no_losses() -> None:
    assert rg.grad(rg.grad(growth, "x"))(0.0, 0.0, 2.0) == pytest.approx((2.0, 1.0), abs=1e-7)
    # By the loss's first value nothing changes, and it may be asked for.
    assert rg.grad(rg.grad(growth, "x"), "y")(0.0, 0.0, 2.0) == 0.0
    # Of an inverse, the other sign.
    assert rg.grad(rg.grad(~growth, "x"), "x")(0.0, 0.0, 2.0) == pytest.approx(-2.0, abs=1e-7)


def test_what_is_no_number_has_no_gradient() -> None:
    with pytest.raises(rg.NotDifferentiable, match="gives several gradients"):
        rg.grad(rg.grad(growth))
    with pytest.raises(rg.NotDifferentiable, match=r"gives an array, the gradient by `x`"):
        rg.grad(rg.grad(logsumexp, "x"))


# ---------------------------------------------------------------------- cotangents that nobody asks for


@reversible
def there_and_back(y: fixed, x: fixed, n: int):
    for _ in range(n):
        y += x * 0.5
    for _ in range(n):
        y -= x * 0.5


def test_a_constant_whose_cotangent_outgrows_the_word_does_no_harm() -> None:
    """Of ½ it is Σ x, 3000 times 1000 and 2^20 times as large: a machine has that, too, and the gradient program has not."""
    report = rg.gradient_report(there_and_back, scale=20)(0.0, 1000.0, 3000)
    assert report.gradients == (0.0,)
    assert report.inputs_restored
    assert report.backward_steps > report.forward_steps / 2
    # Backward, too, and as often as asked.
    values, pullback = rg.vjp(~there_and_back, 0.0, 1000.0, 3000, scale=20)
    assert [pullback({"y": 1.0}).x for _ in range(2)] == [0.0, 0.0]
    assert values.y == 0.0
    # What is asked for and does not fit is still told.
    with pytest.raises(rg.ProgramTrap, match="cotangent overflow") as caught:
        rg.grad(there_and_back, "x", scale=30)(0.0, 1000.0, 3000)
    assert caught.value.code == "RG0404"


# ---------------------------------------------------------------------- blocks for the host

SHOWN: list[float] = []


@reversible
def shown(y: fixed, x: fixed):
    with rg.external():
        SHOWN.append(x)
    y += x * x * x


@pytest.mark.parametrize(
    ("call", "times"),
    [
        (lambda: rg.grad(shown, "x")(0.0, 2.0), 1),
        (lambda: rg.value_and_grad(shown)(0.0, 2.0), 1),
        (lambda: rg.gradient_report(shown)(0.0, 2.0), 1),
        (lambda: [rg.vjp(shown, 0.0, 2.0)[1]({"y": 1.0})], 1),
        (lambda: rg.jacobian(shown, ("y", "x"))(0.0, 2.0), 1),
        (lambda: rg.jvp(shown, (0.0, 2.0), {"x": 1.0}), 1),
        (lambda: rg.hvp(shown, "x")((0.0, 2.0), 1.0), 1),
        (lambda: rg.hessian(shown, ("y", "x"))(0.0, 2.0), 1),
        (lambda: rg.vmap(rg.grad(shown, "x"))(np.zeros(3), np.full(3, 2.0)), 3),
    ],
)
def test_a_derivative_executes_external_blocks_once(call: Callable[[], Any], times: int) -> None:
    SHOWN.clear()
    call()
    assert [2.0] * times == SHOWN
