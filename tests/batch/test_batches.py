"""run_batch and vmap: element by element as `run`, bit for bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.library import Complex, Vector3, dot, scalar_product, softmax
from retrograd.testing import fixed_numbers


@reversible
def norm(r: fixed, x: fixed, y: fixed):
    r += rg.sqrt(x * x + y * y)


@reversible
def steps(x: int, y: int, n: int, limit: int):
    """As many passes as the arguments ask for."""
    while (x < limit, n > 0):
        x += y
        x, y = y, x
        n += 1


@reversible
def changes_all(a: fixed, xs: Array[fixed, "n"], k: int, b: bool, s: lognum):
    xs += a
    a += rg.sum(xs)
    k += 3
    b ^= k > 5
    s *= lognum(a + 10)


XS, YS = np.array([3.0, 5.0, 8.0]), np.array([4.0, 12.0, 15.0])


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and np.array_equal(left, right)


# ---------------------------------------------------------------------- run_batch


def test_every_argument_comes_back_stacked() -> None:
    result = rg.run_batch(norm, np.zeros(3), XS, YS)
    assert result.values._fields == ("r", "x", "y")
    assert result.values.r.tolist() == [5.0, 13.0, 17.0]
    assert result.values.x.tolist() == XS.tolist()
    assert result.erased_bits.tolist() == [0, 0, 0]


def test_none_gives_all_elements_the_same_value() -> None:
    for in_axes in ((None, 0, None), {"r": None, "y": None}, [None, 0, None]):
        result = rg.run_batch(norm, 1.0, XS, 4.0, in_axes=in_axes)
        assert result.values.y.tolist() == [4.0, 4.0, 4.0]
        assert result.values.r.tolist() == [norm(1.0, x, 4.0).r for x in XS]


@settings(max_examples=25)
@given(st.data(), st.integers(0, 4), st.integers(0, 3))
def test_elements_are_runs_of_their_own(data: st.DataObject, length: int, n: int) -> None:
    reals = fixed_numbers(low=-3, high=3)

    def many(of: Any, *shape: int) -> np.ndarray[Any, Any]:
        size = int(np.prod(shape))
        return np.array(data.draw(st.lists(of, min_size=size, max_size=size))).reshape(shape)

    a, xs = many(reals, length).astype(float), many(reals, length, n).astype(float)
    k, b = many(st.integers(-9, 9), length).astype(int), many(st.booleans(), length).astype(bool)
    s = many(st.floats(0.1, 9), length).astype(float)
    result = rg.run_batch(changes_all, a, xs, k, b, s)
    for i in range(length):
        alone = rg.run(changes_all, a[i], xs[i], k[i], b[i], s[i])
        assert all(np.array_equal(v[i], w) for v, w in zip(result.values, alone.values, strict=True))
        assert {name: w[i].tolist() for name, w in result.words.items()} == alone.words
        assert (result.steps[i], result.erased_bits[i]) == (alone.steps, alone.erased_bits)
    assert result.values.xs.shape == (length, n)
    assert [v.dtype.kind for v in result.values] == ["f", "f", "i", "b", "f"]
    back = rg.run_batch(changes_all, *result.values, backward=True)
    assert all(
        np.array_equal(v, w)
        for v, w in zip(back.words.values(), rg.run_batch(~changes_all, *result.values).words.values(), strict=True)
    )
    assert np.array_equal(back.values.k, k)


def test_there_and_back() -> None:
    limits = np.array([10, 100, 1000])
    there = rg.run_batch(steps, 1, 1, 0, limits, in_axes=(None, None, None, 0))
    assert there.values.x.tolist() == [13, 144, 1597]
    assert there.steps.tolist() == [rg.run(steps, 1, 1, 0, n).steps for n in limits]
    assert len(set(there.steps.tolist())) == 3
    back = rg.run_batch(~steps, *there.values)
    assert [v.tolist() for v in back.values] == [[1] * 3, [1] * 3, [0] * 3, limits.tolist()]
    assert rg.run_batch(~steps, *back.values, backward=True).values.x.tolist() == [13, 144, 1597]


def test_one_machine_for_all_remembers_nothing() -> None:
    # Erased and left dirty by one element, memory and counters are as new for the next.
    @reversible
    def f(y: fixed, xs: Array[fixed, "n"], i: int):
        with rg.routine() as r:
            t = rg.zeros(8)
            t[i % 8] += xs[i % len(xs)]
        y += t[3] + rg.sum(t)
        ~r

    erasing = f.with_options(erase=True)
    xs, i = np.arange(12.0).reshape(3, 4), np.array([3, 5, 3])
    for function in (f, erasing):
        result = rg.run_batch(function, np.zeros(3), xs, i)
        alone = [rg.run(function, 0.0, x, k) for x, k in zip(xs, i, strict=True)]
        assert result.values.y.tolist() == [one.values.y for one in alone]
        assert result.erased_bits.tolist() == [one.erased_bits for one in alone]
        assert result.steps.tolist() == [one.steps for one in alone]
    assert result.erased_bits.min() > 0


def test_auto_runs_at_once_what_is_compiled_already() -> None:
    @reversible
    def fresh(y: fixed, x: fixed):
        y += x * x + 17 * x

    # To look whether code is at hand, it must not be compiled.
    first = rg.run_batch(fresh, np.zeros(3), XS)
    assert first.engine == "reference"
    rg.run_batch(fresh, np.zeros(3), XS, engine="translated")
    again = rg.run_batch(fresh, np.zeros(3), XS)
    assert again.engine == "translated"
    assert np.array_equal(first.values.y, again.values.y)
    # Of another program, of the other direction, it is not.
    assert rg.run_batch(fresh, again.values.y, XS, backward=True).engine == "reference"


def test_axes_other_than_the_first() -> None:
    x = np.arange(12.0).reshape(3, 4)
    expected = [float(row @ row) for row in x.T]
    for axes in ((None, 1, -1), (None, -1, 1)):
        assert rg.run_batch(dot, 0.0, x, x, in_axes=axes).values.out.tolist() == expected
    assert rg.run_batch(dot, 0.0, x, x, in_axes=(None, 1, 1)).values.x.tolist() == x.T.tolist()


def test_lists_are_arrays() -> None:
    assert rg.run_batch(norm, [0, 0], [3, 5], [4.0, 12.0]).values.r.tolist() == [5.0, 13.0]
    assert rg.run_batch(dot, [0.0], [[1.0, 2.0]], [[3.0, 4.0]]).values.out.tolist() == [11.0]


def test_structs_complex_numbers_and_arrays_of_them() -> None:
    us = [Vector3(1.0, 2.0, 3.0), Vector3(0.0, 1.0, 0.0)]
    result = rg.run_batch(scalar_product, [0.0, 0.0], us, Vector3(1.0, 1.0, 1.0), in_axes=(0, 0, None))
    assert result.values.out.tolist() == [6.0, 1.0]
    assert result.values.a.tolist() == us
    assert result.values.b.tolist() == [Vector3(1.0, 1.0, 1.0)] * 2

    @reversible
    def f(z: Complex, ws: Array[Complex, "n"]):
        for w in ws:
            z.add(w)

    ws = np.array([[1j, 2.0], [3.0, 4 + 1j], [0j, 0j]])
    for given_ws in (ws, [[Complex(w.real, w.imag) for w in row] for row in ws]):
        found = rg.run_batch(f, np.array([1j, 0j, 2.0]), given_ws).values
        assert [complex(z) for z in found.z] == [2 + 2j, 7 + 1j, 2]
        assert found.ws.shape == (3, 2)
        # What comes back can be given again.
        assert [complex(z) for z in rg.run_batch(~f, *found).values.z] == [1j, 0, 2]


def test_stacks_are_lists() -> None:
    @reversible
    def f(s: rg.Stack[fixed, 3], x: fixed):
        rg.push(s, x)

    result = rg.run_batch(f, [[], [1.0, 2.0]], [5.0, 6.0])
    assert result.values.s == [[5.0], [1.0, 2.0, 6.0]]
    with pytest.raises(rg.InputError, match=r"`s`.* up to 3 values, not a list of 4"):
        rg.run_batch(f, [[], [1.0] * 4], [5.0, 6.0])


def test_static_arguments_functions_and_defaults_are_the_same_for_all() -> None:
    @reversible
    def square(y: fixed, x: fixed):
        y += x * x

    @reversible
    def f(y: fixed, x: fixed, g: rg.static, times: rg.static, shift: fixed = 0.5):
        for _ in range(times):
            g(y, x)
        y += shift

    result = rg.run_batch(f, np.zeros(3), XS, square, 2)
    assert result.values.y.tolist() == [2 * x * x + 0.5 for x in XS]
    assert result.values.times == 2
    assert result.values.shift.tolist() == [0.5] * 3


def test_a_batch_of_none() -> None:
    result = rg.run_batch(changes_all, np.zeros(0), np.zeros((0, 4)), np.zeros(0, int), np.zeros(0, bool), np.zeros(0))
    assert result.values.xs.shape == (0, 4)
    assert (len(result.steps), result.values.k.dtype) == (0, np.int64)


def test_options_are_those_of_run() -> None:
    q16 = rg.Format(32, 16)
    result = rg.run_batch(norm, np.zeros(3), XS, YS, format=q16)
    assert result.compiled.format == q16
    assert result.words["r"].tolist() == [[5 << 16], [13 << 16], [17 << 16]]
    with pytest.raises(rg.ElementTrap, match="does not fit"):
        rg.run_batch(quotient, np.zeros(1), [200.0], [2.0**-12], format=q16)
    wrapped = rg.run_batch(quotient, np.zeros(1), [200.0], [2.0**-12], format=q16, overflow=False)
    assert wrapped.values.q.tolist() == [200.0 * 2**12 % 2**16 - 2**16]
    with pytest.raises(rg.InputError, match="there is no engine `warp`"):
        rg.run_batch(norm, np.zeros(3), XS, YS, engine="warp")


# ---------------------------------------------------------------------- traps


@reversible
def quotient(q: fixed, x: fixed, y: fixed):
    q += x / y


def test_a_trap_names_its_element_and_leaves_its_machine() -> None:
    with pytest.raises(rg.ProgramTrap) as caught:
        rg.run_batch(quotient, np.zeros(3), XS, [1.0, 2.0, 0.0])
    assert isinstance(caught.value, rg.ElementTrap)
    assert caught.value.element == 2
    assert caught.value.diagnostics[0].message.startswith("element 2: division by zero")
    assert caught.value.trap is not None
    machine = caught.value.machine
    machine.run_back()
    assert machine.at_origin
    assert machine.memory == [0, 8 << 32, 0]


def test_the_limit_of_steps_is_one_of_each_element() -> None:
    enough = int(rg.run_batch(steps, 1, 1, 0, [10, 20], in_axes=(None, None, None, 0)).steps.max())
    assert len(rg.run_batch(steps, 1, 1, 0, [10, 20], in_axes=(None, None, None, 0), max_steps=enough).steps) == 2
    with pytest.raises(rg.ElementTrap, match="element 1: stopped by the limit") as caught:
        rg.run_batch(steps, 1, 1, 0, [10, 1000], in_axes=(None, None, None, 0), max_steps=enough)
    assert caught.value.trap is None


def test_a_trap_in_a_gradient_names_its_element() -> None:
    with pytest.raises(rg.ElementTrap, match="element 1: division by zero") as caught:
        rg.vmap(rg.grad(quotient, "y"), in_axes=(None, None, 0))(0.0, 1.0, [1.0, 0.0])
    assert caught.value.element == 1
    with pytest.raises(rg.InputError, match="`y`: element 1: NaN is not a number"):
        rg.vmap(rg.grad(quotient, "y"), in_axes=(None, None, 0))(0.0, 1.0, [1.0, float("nan")])


# ---------------------------------------------------------------------- vmap


def test_vmap_of_a_function_and_its_inverse() -> None:
    there = rg.vmap(norm, in_axes=(None, 0, 0))(0.0, XS, YS)
    assert type(there).__name__ == "norm"
    assert there.r.tolist() == [5.0, 13.0, 17.0]
    assert rg.vmap(~norm)(*there).r.tolist() == [0.0, 0.0, 0.0]
    assert rg.vmap(norm)(np.zeros(3), y=YS, x=XS).r.tolist() == [5.0, 13.0, 17.0]


def test_vmap_of_derivatives() -> None:
    axes = (None, 0, 0)
    assert rg.vmap(rg.grad(norm, "x"), axes)(0.0, XS, YS).tolist() == [
        rg.grad(norm, "x")(0.0, x, y) for x, y in zip(XS, YS, strict=True)
    ]
    value, gradients = rg.vmap(rg.value_and_grad(norm), axes)(0.0, XS, YS)
    assert value.tolist() == [5.0, 13.0, 17.0]
    assert gradients._fields == ("x", "y")
    assert gradients.y == pytest.approx(YS / value, abs=1e-8)
    pair = rg.vmap(rg.grad(norm, (1, 2)), {"r": None})(0.0, XS, y=YS)
    assert [v.tolist() for v in pair] == [v.tolist() for v in gradients]
    rows = np.array([[0.5, 1.0], [-1.0, 2.0], [0.0, 0.0]])
    found = rg.vmap(rg.jacobian(softmax, "x"), in_axes=(None, 0))(np.zeros(2), rows)
    assert found.shape == (3, 2, 2)
    assert found[1].tolist() == rg.jacobian(softmax, "x")(np.zeros(2), rows[1]).tolist()


def test_structs_and_sparse_matrices_of_derivatives() -> None:
    us = [Vector3(1.0, 2.0, 3.0), Vector3(0.0, 1.0, 0.0)]
    found = rg.vmap(rg.grad(scalar_product), in_axes=(None, 0, None))(0.0, us, Vector3(4.0, 5.0, 6.0))
    assert found.a.tolist() == [Vector3(4.0, 5.0, 6.0)] * 2
    assert found.b.tolist() == us
    sparse = rg.vmap(rg.jacobian(softmax, "x", pattern=np.ones((2, 2))))(np.zeros((3, 2)), np.ones((3, 2)))
    assert [one.runs for one in sparse] == [2, 2, 2]


def test_vmap_of_vmap() -> None:
    grid = np.arange(6.0).reshape(2, 3) + 1
    found = rg.vmap(rg.vmap(norm, in_axes=(None, 0, None)), in_axes=(None, 0, None))(0.0, grid, 2.0)
    assert found.r.shape == (2, 3)
    assert found.r == pytest.approx(np.hypot(grid, 2.0), abs=1e-8)
    outer = rg.vmap(rg.vmap(rg.grad(norm, "x"), in_axes=(None, 0, None)), in_axes=(None, None, 0))
    assert outer(0.0, XS, np.array([1.0, 2.0])).shape == (2, 3)


def test_vmap_of_any_function() -> None:
    def f(x: float, y: Any, *, k: float = 1.0) -> Any:
        return x * k, {"y": y}, "text", y + x

    first, second, third, fourth = rg.vmap(f, in_axes=(0, 1))(XS, np.arange(6.0).reshape(2, 3))
    assert first.tolist() == XS.tolist()
    assert isinstance(second, list)
    assert third == ["text"] * 3
    assert fourth.shape == (3, 2)
    assert rg.vmap(f, in_axes={"k": None, "argument 1": None})(XS, 1.0, k=2.0)[0].tolist() == (2 * XS).tolist()


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("args", "in_axes", "said"),
    [
        ((0.0, XS, YS), 0, "`r` of `norm` is one value: it has no axis 0"),
        ((np.zeros(3), XS, YS[:2]), 0, "`y` of `norm` has 2 elements, and `r` has 3"),
        ((np.zeros(3), XS, YS[:1]), 0, "`y` of `norm` has 1 element, and `r` has 3"),
        ((np.zeros(3), XS, YS), (0, 0, 1), r"`y` of `norm` is an array of shape \(3,\): it has no axis 1"),
        ((np.zeros(3), XS, YS), (0, 0, -2), "it has no axis -2"),
        ((0.0, 1.0, 2.0), None, "no argument of `norm` is batched"),
        ((np.zeros(3), XS, YS), (0, 0), "in_axes says 2 of the 3 arguments"),
        ((np.zeros(3), XS, YS), (0, 0, 0, 0), "in_axes says 4 of the 3 arguments"),
        ((np.zeros(3), XS, YS), {"z": 0}, "`norm` has no argument 'z'"),
        ((np.zeros(3), XS, YS), (0, 0, 0.5), "the axis of `y` is 0.5"),
        ((np.zeros(3), XS, YS), "000", "the axis of `r` is '000'"),
        ((np.zeros(3), XS, YS), True, "the axis of `r` is True"),
        ((np.zeros(3), XS, [[1.0], [2.0, 3.0], 4.0]), 0, "`y` of `norm` is given rows of different lengths"),
        ((np.zeros(3), XS, np.ones((3, 2))), 0, "`y` of `norm` is one fixed, not an array of shape"),
        ((np.zeros(3), XS, [1.0, float("nan"), 2.0]), 0, "`y`: element 1: NaN"),
        ((np.zeros(3), XS, [1.0, 2.0, 1e12]), 0, r"`y`: element 2: 1000000000000\.0 does not fit"),
        ((np.zeros(3), XS), 0, "called without `y`"),
    ],
)  # fmt: skip
def test_batches_that_do_not_fit(args: tuple[Any, ...], in_axes: Any, said: str) -> None:
    with pytest.raises(rg.InputError, match=said):
        rg.run_batch(norm, *args, in_axes=in_axes)
    with pytest.raises(rg.InputError, match=said):
        rg.vmap(norm, in_axes)(*args)


def test_axes_that_make_no_sense() -> None:
    @reversible
    def f(y: fixed, x: fixed, n: rg.static, shift: fixed = 1.0):
        y += n * x + shift

    with pytest.raises(rg.InputError, match="`n` of `f` is known when it is compiled"):
        rg.run_batch(f, np.zeros(3), XS, 2, in_axes={"n": 0})
    with pytest.raises(rg.InputError, match="`shift` of `f` an axis, and `shift` is not given"):
        rg.run_batch(f, np.zeros(3), XS, 2, in_axes=(0, 0, None, 0))
    assert rg.run_batch(f, np.zeros(3), XS, 2, in_axes=(0, 0, None, None)).values.y.tolist() == (2 * XS + 1).tolist()


@pytest.mark.parametrize("function", [3, None, len, rg.grad(norm)])
def test_run_batch_takes_functions_of_the_language(function: Any) -> None:
    with pytest.raises(rg.InputError, match="is no reversible function"):
        rg.run_batch(function, XS)


def test_vmap_takes_functions() -> None:
    with pytest.raises(rg.InputError, match="vmap takes a function, not `3`"):
        rg.vmap(3)  # type: ignore[arg-type]
    # What it would give for no elements, only functions of the language and gradients of them tell.
    assert [part.shape for part in rg.vmap(rg.grad(norm))(np.zeros(0), np.zeros(0), np.zeros(0))] == [(0,)] * 2
    with pytest.raises(rg.InputError, match="is given no elements"):
        rg.vmap(lambda x: x)(np.zeros(0))
    with pytest.raises(rg.NotDifferentiable, match="`x` of `steps` is int"):
        rg.vmap(rg.grad(steps, "x"), in_axes=(0, None, None, None))([1], 1, 0, 10)


# ---------------------------------------------------------------- gradients of a sum


@reversible
def line(loss: fixed, w: Array[fixed, "n"], b: fixed, x: Array[fixed, "n"], y: fixed):
    """The square of how far a point is off."""
    with rg.routine() as r:
        error = fixed(0)
        error += b - y
        dot(error, w, x)
    loss += error * error
    ~r


@pytest.mark.parametrize("engine", ["auto", "reference", "threaded", "native"])
def test_gradients_of_a_sum(engine: str) -> None:
    rng = np.random.default_rng(3)
    w, b, xs, ys = rng.normal(size=3), 0.25, rng.normal(size=(40, 3)), rng.normal(size=40)
    axes = (None, None, None, 0, 0)
    arguments = 0.0, w, b, xs, ys
    # At scale 0 the gradients of elements are floats without rounding.
    losses, one_by_one = rg.vmap(rg.value_and_grad(line, scale=0), axes)(*arguments)
    found, total = rg.vmap(rg.value_and_grad(line, scale=0), axes, engine=engine, shared="sum")(*arguments)
    # One number, that of which the gradients are.
    assert found == sum(map(Fraction, losses.tolist()))
    # What each element has for itself comes one by one; what they share comes as the sum, which no rounding has touched.
    assert (total.x.tolist(), total.y.tolist()) == (one_by_one.x.tolist(), one_by_one.y.tolist())
    assert total.w.tolist() == [sum(map(Fraction, column)) for column in one_by_one.w.T.tolist()]
    assert total.b == sum(map(Fraction, one_by_one.b.tolist()))
    error = xs @ w + b - ys
    assert total.w == pytest.approx(2 * error @ xs, abs=1e-6)
    # By position, without the loss.
    only = rg.vmap(rg.grad(line, ["b", "x"], scale=0), axes, engine=engine, shared="sum")(*arguments)
    assert (only[0], only[1].tolist()) == (total.b, total.x.tolist())


def test_gradients_of_a_sum_by_lognums_and_structs() -> None:
    @reversible
    def f(y: fixed, c: Complex, x: lognum, n: fixed):
        y += c.re * n + c.im * fixed(x)

    ns = np.array([1.0, 2.0, 3.5])
    axes = (None, None, None, 0)
    each = rg.vmap(rg.grad(f), axes)(0.0, 1 + 2j, 3.0, ns)
    total = rg.vmap(rg.grad(f), axes, shared="sum")(0.0, 1 + 2j, 3.0, ns)
    assert total.c == Complex(6.5, sum(c.im for c in each.c))
    assert total.x == pytest.approx(6.0, rel=1e-6)
    assert each.x.sum() == pytest.approx(total.x, rel=1e-12)
    assert total.n.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(rg.ElementTrap, match="element 1"):
        rg.vmap(rg.grad(f), axes, shared="sum")(0.0, 4 + 2j, 3.0, np.array([1.0, 2.0**30.9, 2.0]))


def test_gradients_of_a_sum_of_none() -> None:
    total = rg.vmap(rg.grad(norm), (None, None, 0), shared="sum")(0.0, 3.0, np.zeros(0))
    assert (total.x, total.y.shape) == (0.0, (0,))


@pytest.mark.parametrize(
    ("f", "shared", "said"),
    [
        (rg.grad(norm), "both", 'shared = \'both\'.*"each" or "sum"'),
        (norm, "sum", "for gradients"),
        (abs, "sum", "for gradients"),
        (rg.jacobian(norm), "sum", "for gradients"),
    ],
    ids=str,
)
def test_what_cannot_be_shared(f: Any, shared: Any, said: str) -> None:
    with pytest.raises(rg.InputError, match=f"(?s){said}"):
        rg.vmap(f, shared=shared)


@pytest.mark.parametrize("engine", ["auto", "reference", "threaded", "native"])
def test_cycles(engine: str) -> None:
    assert rg.run_batch(norm, np.zeros(3), XS, YS, engine=engine).cycles is None
    for f in (norm, ~norm):
        found = rg.run_batch(f, np.zeros(3), XS, YS, engine=engine, cycles=True).cycles
        assert found is not None
        machines = [rg.run(f, 0.0, x, y).machine for x, y in zip(XS, YS, strict=True)]
        assert found.tolist() == [machine.cycles for machine in machines]
        fast = rg.run_batch(f, np.zeros(3), XS, YS, engine=engine, cycles=True, core="fast").cycles
        for machine in machines:
            machine.core = "fast"
        assert fast is not None
        assert fast.tolist() == [machine.cycles for machine in machines]
        assert (fast < found).all()
    with pytest.raises(rg.InputError, match="there is no core `quick`"):
        rg.run_batch(norm, np.zeros(3), XS, YS, engine=engine, cycles=True, core="quick")


@pytest.mark.parametrize("engine", ["auto", "reference", "native"])
def test_cycles_of_what_traps_are_none(engine: str) -> None:
    found = rg.run_batch(norm, np.zeros(2), [1.0, 1e9], [1.0, 1.0], engine=engine, cycles=True, traps="return")
    assert list(found.traps) == [1]
    assert found.cycles is not None
    assert found.cycles[0] > 0 == found.cycles[1]


@pytest.mark.parametrize("engine", ["auto", "native", "translated"])
def test_without_checks_words_wrap(engine: str) -> None:
    @reversible
    def f(y: fixed, x: fixed, n: int):
        y += x * x

    xs = np.array([1.5, -2.0, 65536.0])
    checked = rg.run_batch(f, np.zeros(3), xs, 1, in_axes=(0, 0, None), engine=engine, traps="return")
    assert list(checked.traps) == [2]
    found = rg.run_batch(f, np.zeros(3), xs, 1, in_axes=(0, 0, None), engine=engine, checks=False)
    assert (found.traps, found.values.y.tolist()) == ({}, [2.25, 4.0, 0.0])
    # What wraps is a bijection still.
    back = rg.run_batch(f, found.values.y, xs, 1, in_axes=(0, 0, None), engine=engine, checks=False, backward=True)
    assert back.values.y.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("engine", ["auto", "native", "translated"])
def test_without_checks_memory_is_kept(engine: str) -> None:
    """An index out of range, far enough to leave memory: the element traps, and no other element's word shows in its place."""

    @reversible
    def f(y: fixed, xs: Array[fixed, "n"], i: int):
        y += xs[i]

    xs, index = np.arange(1.0, 13.0).reshape(3, 4), np.array([1, 4000, 2])
    found = rg.run_batch(f, np.zeros(3), xs, index, engine=engine, checks=False, traps="return")
    assert found.values.y.tolist() == [2.0, 0.0, 11.0]
    assert list(found.traps) == [1]
    with pytest.raises(rg.ElementTrap, match="element 1"):
        rg.run_batch(f, np.zeros(3), xs, index, engine=engine, checks=False)


@pytest.mark.parametrize("engine", ["reference", "threaded"])
def test_machines_make_every_check(engine: str) -> None:
    with pytest.raises(rg.InputError, match=f"the engine `{engine}` makes every check"):
        rg.run_batch(norm, np.zeros(3), XS, YS, engine=engine, checks=False)
