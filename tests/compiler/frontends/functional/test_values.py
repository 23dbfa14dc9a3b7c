"""Functional functions give the values and gradients of the papers, on every engine, and leave nothing behind."""

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.cli.main import main
from retrograd.derivatives._requests import plan_of

_found = importlib.util.spec_from_file_location("functional_programs", Path(__file__).with_name("programs.py"))
assert _found is not None
assert _found.loader is not None
programs = importlib.util.module_from_spec(_found)
_found.loader.exec_module(programs)
CASES = programs.CASES
GRADIENTS = sorted(name for name, case in CASES.items() if case.gradient is not None)


def close(got: Any, wanted: Any, case: Any) -> bool:
    return bool(np.allclose(np.asarray(got), np.asarray(wanted), rtol=0, atol=case.tolerance))


@pytest.mark.parametrize("name", sorted(CASES))
def test_values(name: str) -> None:
    case = CASES[name]
    assert close(case.f(*case.args), case.value, case)


@rg.functional
def beyond(x: rg.fixed):
    return x + 1e12


@rg.functional
def below(x: rg.fixed):
    return 2.0 * x + 1e-12


@rg.functional
def greatest(x: rg.fixed):
    return max(x, 1e12)


@rg.functional
def whole(n: int):
    return n + 2**70


@pytest.mark.parametrize(("f", "constant"), [(beyond, "1e12"), (below, "1e-12"), (greatest, "1e12"), (whole, "2**70")])
def test_a_refused_constant_is_marked(f: rg.Functional, constant: str) -> None:
    """The constant without a word is marked, and not the operation on it."""
    with pytest.raises(rg.RetrogradError) as refused:
        f(2)
    found = refused.value.diagnostics[0]
    assert found.span is not None
    assert found.line is not None
    assert found.line[found.span.column - 1 : found.span.end - 1] == constant


CLASSES = "ABCD"


@pytest.mark.parametrize("own", range(16))
def test_values_without_a_case_of_their_own_take_the_last_case(own: int, tmp_path: Path) -> None:
    """For each set of classes that have a case, in both orders, against Python's own `match`."""
    listed = [c for k, c in enumerate(CLASSES) if own >> k & 1]
    text = "import retrograd as rg\nfrom retrograd import fixed\n"
    text += "".join(f"@rg.data\nclass {c}:\n    value: fixed\n" for c in CLASSES)
    text += "@rg.functional\ndef f(t: A | B | C | D, x: fixed) -> fixed:\n"
    for cases in (listed, listed[::-1]):
        text += "    match t:\n"
        text += "".join(f"        case {c}(v):\n            x = x + {ord(c)} * v\n" for c in cases)
        text += "        case _:\n            x = 2 * x\n"
    path = tmp_path / "cases.py"
    path.write_text(text + "    return x\n")
    spec = importlib.util.spec_from_file_location("cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for c in CLASSES:
        value = getattr(module, c)(0.5)
        assert module.f(value, 1.25) == module.f.fn(value, 1.25), c


#: of (n: int, b: bool, x: fixed), with a number L that no int is
ORDERED = [
    "L >> n", "L // n", "L % n", "n // L", "n % L", "min(n, L)", "max(n, L)", "n < L", "x * L", "x + L",
    "L if b else x",
]  # fmt: skip


@pytest.mark.parametrize("expression", ORDERED)
def test_a_number_that_no_int_is_has_no_sign_bit(expression: str, tmp_path: Path) -> None:
    """It is refused, as in reversible functions: the int with the same word is negative."""
    for w in (rg.Format(64, 0), rg.Format(32, 0), rg.Format(16, 0)):
        for number in (1 << w.width - 1, (1 << w.width) - 1):
            text = "import retrograd as rg\n@rg.functional\ndef f(n: int, b: bool, x: rg.fixed) -> rg.fixed:\n"
            path = tmp_path / f"large{number}.py"
            path.write_text(f"{text}    return 1 * ({expression.replace('L', str(number))})\n")
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            with pytest.raises(rg.CompileError, match="RG0714"):
                module.f.with_options(format=w)(1, True, 1.0)


@pytest.mark.parametrize("width", [64, 32, 16])
def test_a_divisor_that_no_int_is_has_a_point_of_its_own(width: int) -> None:
    large = 1 << width - 1

    @rg.functional
    def f(n: int) -> rg.fixed:
        return n / large

    g = f.with_options(format=rg.Format(width, 0))
    assert [g(n) for n in (0, 1, large // 4, large - 1, -large + 1)] == [0.0, 0.0, 0.0, 1.0, -1.0]


@rg.functional
def whole_powers(n: int) -> tuple[int, int, int, int, int, int]:
    def cubed(k):
        return k**3

    return n**0, n**1, n**2, n**5, n**2 % 7, cubed(n)


@rg.functional
def reciprocals(n: int) -> tuple[rg.fixed, rg.fixed]:
    return n**-1, (n + 1) ** -2


@pytest.mark.parametrize("n", [1, -1, 3, -6, 2**31, 5 - 2**62])
def test_an_int_to_a_known_power_is_an_int_modulo_2_to_the_width(n: int) -> None:
    square = (n**2 + 2**63) % 2**64 - 2**63
    wanted = n**0, n, n**2, n**5, square % 7, n**3
    assert [p % 2**64 for p in whole_powers(n)] == [p % 2**64 for p in wanted]


@pytest.mark.parametrize("n", [1, -3, 40])
def test_an_int_to_a_negative_power_is_a_fixed_number(n: int) -> None:
    assert reciprocals(n) == pytest.approx((n**-1, (n + 1) ** -2), abs=1e-8)


@pytest.mark.parametrize("shape", [1, 0, 2, 4, 8, 16, 32, 64, 6, 26, 42, 100, 127 - 1])
def test_patterns_are_those_of_python(shape: int) -> None:
    f = programs.patterns
    assert f(0.75, shape) == pytest.approx(f.fn(0.75, shape), abs=1e-6)
    slope = (f.fn(0.75 + 1e-4, shape) - f.fn(0.75 - 1e-4, shape)) / 2e-4
    assert rg.grad(f, "x")(0.75, shape) == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", sorted(CASES))
def test_runs_are_undone(name: str, level: int) -> None:
    """No bit is erased, nothing but the result differs, and the inverse takes the result back."""
    case = CASES[name]
    f = case.f.with_options(level=level)
    there = rg.run(f, *case.args, engine="reference")
    assert there.erased_bits == 0
    machine = there.machine
    own = there.compiled.argument_words
    changed = [a for a in range(own, len(machine.memory)) if machine.memory[a]]
    assert changed == []
    back = (~f)(*there.values)
    results = [getattr(back, p.name) for p in f.result_parameters]
    assert results == [0] * len(results)
    translated = rg.run(f, *case.args, engine="translated")
    assert (translated.words, translated.steps) == (there.words, there.steps)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    case = CASES[name]
    by = [p.name for p, x in zip(case.f.given, case.args, strict=True) if isinstance(x, float)]
    assert close(rg.grad(case.f, by)(*case.args), case.gradient, case)


def test_second_derivatives() -> None:
    """A functional function is differentiated from outside as often as one likes, Newton's root through its inner derivative."""
    second = rg.grad(rg.grad(programs.newton, "x"), "x")
    assert abs(second(4.0) + 0.0312493922946) < 1e-9
    assert np.allclose(rg.hessian(programs.sharing, "x")(1.0, 1.0), 2 * 89**2)


@rg.functional
def pair(x: rg.fixed, y: rg.fixed) -> tuple[rg.fixed, rg.fixed]:
    return x * y, x + 10 * y


def test_results_are_no_inputs() -> None:
    """Derivatives of a function with two results are by its arguments; tangents are those of the arguments, cotangents those of the results."""
    by_first = {"x": 3.0, "y": 2.0}
    assert rg.grad(pair)(2.0, 3.0)._asdict() == rg.jacobian(pair)(2.0, 3.0)._asdict() == by_first
    assert rg.grad(pair, loss="out_1")(2.0, 3.0)._asdict() == {"x": 1.0, "y": 10.0}
    assert rg.jacobian(pair, "y", ("out_0", "out_1"))(2.0, 3.0) == (2.0, 10.0)
    assert rg.hessian(pair)(2.0, 3.0).x._asdict() == {"x": 0.0, "y": 1.0}
    _, tangents = rg.jvp(pair, (2.0, 3.0), (1.0, None))
    assert (tangents.out_0, tangents.out_1) == (3.0, 1.0)
    cotangents = rg.vjp(pair, 2.0, 3.0)[1]((1.0, 100.0))
    assert (cotangents.x, cotangents.y) == (103.0, 1002.0)
    with pytest.raises(rg.InputError, match="3 tangents are given for the 4 arguments"):
        rg.jvp(pair, (2.0, 3.0), (1.0, 0.0, None))


def test_gradients_by_arrays() -> None:
    xs = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    gradient = rg.grad(programs.distances, "xs")(xs, 2.0)
    assert np.allclose(gradient[1], [2 * (0.6 + 1 / np.sqrt(2)), 2 * (0.8 + 1 / np.sqrt(2))], atol=1e-8)


def test_batches() -> None:
    xs = np.linspace(1.0, 3.0, 7)
    assert list(rg.vmap(programs.newton)(xs).out) == [programs.newton(x) for x in xs]
    assert list(rg.vmap(rg.grad(programs.newton, "x"))(xs)) == [rg.grad(programs.newton, "x")(x) for x in xs]


@rg.functional
def curve(x: rg.fixed):
    """x³"""
    return x * x * x


@rg.reversible
def twice(y: rg.fixed, x: rg.fixed):
    programs.newton(x, y)
    programs.newton(x, y)


def test_calls_of_reversible_functions() -> None:
    """Inside reversible functions, f(x, y) is y += f(x): called, undone and differentiated."""
    assert abs(twice(0.0, 9.0).y - 6.0) < 1e-8
    assert (~twice)(*twice(0.5, 9.0)).y == 0.5
    assert abs(rg.grad(twice, "x")(0.0, 9.0) - 1 / 3) < 1e-6


def nested_closures(path: Path, n: int) -> Any:
    """A function with n lambdas, each of which has captured the one before."""
    lines = [f"    g{k + 1} = lambda t: g{k}(t) * x + {k}" for k in range(n)]
    head = "import retrograd as rg\n@rg.functional\ndef f(x: rg.fixed):\n    g0 = lambda t: t + x\n"
    path.write_text(head + "\n".join(lines) + f"\n    return g{n}(0.5)\n")
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made.f


def test_functions_capture_each_other_as_deep_as_the_text_goes(tmp_path: Path) -> None:
    """Types that grow without end are those in which a function captures a version of itself."""
    f = nested_closures(tmp_path / "nested.py", 45)
    assert f(0.5) == pytest.approx(f.fn(0.5), abs=1e-7)
    slope = (f.fn(0.5 + 1e-6) - f.fn(0.5 - 1e-6)) / 2e-6
    assert rg.grad(f, "x")(0.5) == pytest.approx(slope, abs=1e-4)


@pytest.mark.long
def test_very_deep_nests_have_a_value(tmp_path: Path) -> None:
    f = nested_closures(tmp_path / "deep.py", 200)
    assert f(0.5) == pytest.approx(f.fn(0.5), abs=1e-6)


def test_help_and_pickles() -> None:
    f = pickle.loads(pickle.dumps(curve.with_options(level=0)))
    assert (f(2.0), f.options.level, type(f)) == (8.0, 0, type(curve))
    assert "out += curve" in (curve.__doc__ or "")


def test_the_command_line_differentiates_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cubes.py").write_text(
        "import retrograd as rg\n@rg.functional\ndef cube(x: rg.fixed):\n    return x ** 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["grad", "cubes.py:cube", "2.0"]) == 0
    assert "∂out/∂x = 12.0" in capsys.readouterr().out


def counted(f: Any, *args: Any) -> tuple[int, int]:
    """(instructions of a value, instructions of value and gradient)"""
    steps = rg.run(f, *args).steps
    request = rg.grad(f, "x", scale=0).request
    values = request.values(args, {})
    compiled = request.compiled(values)
    return steps, plan_of(request, compiled).program.run(values, {}, "auto").retired


@rg.functional(stack=1 << 20, heap=1 << 20)
def mapped_list(x: rg.fixed, n: int):
    def up(k):
        return [] if k == 0 else [x + fixed_of(k) * 0.0001, *up(k - 1)]

    def mapped(f, items):
        match items:
            case []:
                return []
            case [first, *rest]:
                return [f(first), *mapped(f, rest)]

    def folded(f, a, items):
        match items:
            case []:
                return a
            case [first, *rest]:
                return folded(f, f(a, first), rest)

    return folded(lambda a, b: a + b, 0.0, mapped(lambda v: rg.sin(v) * v, up(n)))


@rg.functional
def fixed_of(k):
    return rg.fixed(k)


@rg.functional(stack=1 << 18, heap=1 << 19)
def branching(x: rg.fixed, n: int):
    def go(k, v):
        return v * v if k == 0 else go(k - 1, v * 0.5) + go(k - 1, v + 1.0)

    return go(n, x)


@rg.functional(stack=1 << 20, heap=1 << 20)
def chain(x: rg.fixed, n: int):
    def go(k, v):
        return v if k == 0 else go(k - 1, rg.sin(v) + x)

    return go(n, x)


@pytest.mark.parametrize(
    ("f", "sizes"), [(chain, (10, 1000, 100_000)), (mapped_list, (10, 1000, 100_000)), (branching, (3, 9, 16))]
)
def test_gradients_cost_a_constant_factor(f: Any, sizes: tuple[int, ...]) -> None:
    """Instructions of a value, and of value and gradient, are linear in the nodes, up to 10⁵, without rest; their ratio is below 1.6."""
    counts = [counted(f, 0.3, n) for n in sizes]
    assert max(both / value for value, both in counts) < 1.6
    nodes = [2**n for n in sizes] if f is branching else list(sizes)
    for small, middle, large in zip(*counts, strict=True):
        assert (middle - small) * (nodes[2] - nodes[0]) == (large - small) * (nodes[1] - nodes[0])


def test_doublings_take_linear_steps() -> None:
    """Of the value, and of value and gradient: Smeding and Vákár's example of sharing, whose gradient is 2ⁿ."""
    counts = [counted(programs.doublings, 1.0, n) for n in (5, 10, 20)]
    assert all(c - b == 2 * (b - a) > 0 for a, b, c in zip(*counts, strict=True))


@rg.functional
def sines(x, n):
    return x if n == 0 else rg.sin(sines(x, n - 1)) * x


@rg.functional
def value_of_sines(x: rg.fixed, n: int):
    return sines(x, n)


@rg.functional
def tangent_of_sines(x: rg.fixed, n: int):
    return rg.jvp(lambda t: sines(t, n))(x, 1.0)


@rg.functional
def second_tangent_of_sines(x: rg.fixed, n: int):
    return rg.jvp(lambda u: rg.jvp(lambda t: sines(t, n))(u, 1.0))(x, 1.0)


def test_tangents_run_along_with_the_value() -> None:
    """A tangent takes at most 2 times the instructions of its value at every length, and a second one 2.3 times those of the first."""
    slope = rg.grad(value_of_sines, "x")
    for n in (10, 300):
        value, first, second = (rg.run(f, 0.7, n) for f in (value_of_sines, tangent_of_sines, second_tangent_of_sines))
        assert first.steps <= 2 * value.steps
        assert second.steps <= 2.3 * first.steps
        assert first.values.out == pytest.approx(slope(0.7, n), abs=1e-6)
        assert second.values.out == pytest.approx(rg.grad(slope, "x")(0.7, n), abs=1e-6)


@rg.functional
def dot(xs: rg.Array[rg.fixed, "n"], ys: rg.Array[rg.fixed, "n"]):
    return sum(xs[i] * ys[i] for i in range(len(xs)))


@rg.reversible
def dot_by_hand(out: rg.fixed, xs: rg.Array[rg.fixed, "n"], ys: rg.Array[rg.fixed, "n"]):
    for i in range(len(xs)):
        out += xs[i] * ys[i]


def test_a_sum_costs_what_a_loop_costs() -> None:
    a, b = np.arange(50) / 7, np.arange(50) / 9
    assert rg.run(dot, a, b).steps <= rg.run(dot_by_hand, 0.0, a, b).steps


@rg.functional(stack=1 << 20, heap=1 << 18)
def deep(x: rg.fixed, n: int):
    def go(k):
        return x if k == 0 else rg.sin(go(k - 1)) + x

    return go(n)


def test_deep_recursion() -> None:
    """100,000 frames; and beyond the stack or the heap a diagnostic, in place of a traceback."""
    assert rg.run(deep, 0.3, 100_000).erased_bits == 0
    with pytest.raises(rg.ProgramTrap) as caught:
        deep.with_options(stack=1 << 10)(0.3, 100_000)
    assert caught.value.code == "RG0807"
    with pytest.raises(rg.ProgramTrap) as caught:
        deep.with_options(heap=1 << 10)(0.3, 100_000)
    assert caught.value.code == "RG0811"
    assert "heap of 1024 words is full" in str(caught.value)


@rg.functional
def energy(xs: rg.Array[rg.fixed, "n", 2]):
    d = lambda i, j: sum((xs[i, k] - xs[j, k]) ** 2 for k in range(2))
    return sum(rg.sqrt(d(i, j)) for i in range(len(xs)) for j in range(i))


@rg.reversible
def energy_by_hand(out: rg.fixed, xs: rg.Array[rg.fixed, "n", 2]):
    for i in range(len(xs)):
        for j in range(i):
            out += rg.sqrt((xs[i, 0] - xs[j, 0]) ** 2 + (xs[i, 1] - xs[j, 1]) ** 2)


@rg.functional
def flight(x: rg.fixed, y: rg.fixed, steps: int):
    """A body in a field of force with friction, by Euler's method: see test_examples.particles."""

    def moved(p, v, k):
        if k == 0:
            return p[0] * p[1]
        ax, ay = -0.5 * p[0] - 0.2 * v[0], -0.5 * p[1] - 0.2 * v[1]
        return moved((p[0] + 0.05 * v[0], p[1] + 0.05 * v[1]), (v[0] + 0.05 * ax, v[1] + 0.05 * ay), k - 1)

    return moved((x, y), (1.0, 1.0), steps)


@rg.reversible
def flight_by_hand(out: rg.fixed, x: rg.fixed, y: rg.fixed, steps: int):
    with rg.routine() as flown:
        p, v = rg.zeros(101, 2), rg.zeros(101, 2)
        p[0, 0] += x
        p[0, 1] += y
        for i in range(2):
            v[0, i] += 1.0
        for k in range(steps):
            for i in range(2):
                p[k + 1, i] += p[k, i] + 0.05 * v[k, i]
                v[k + 1, i] += v[k, i] + 0.05 * (-0.5 * p[k, i] - 0.2 * v[k, i])
    out += p[steps, 0] * p[steps, 1]
    ~flown


@rg.functional
def fold(x: rg.fixed, c: rg.fixed, n: int):
    def up(k, v):
        return [] if k == 0 else [v, *up(k - 1, v * 0.99)]

    def folded(f, a, items):
        match items:
            case []:
                return a
            case [v, *rest]:
                return folded(f, f(a, v), rest)

    return folded(lambda a, v: a + rg.sin(v) * c, 0.0, up(n, x))


@rg.reversible
def fold_by_hand(out: rg.fixed, x: rg.fixed, c: rg.fixed, n: int):
    with rg.routine() as filled:
        items = rg.zeros(100)
        for i in range(n):
            if i == 0:
                items[i] += x
            else:
                items[i] += items[i - 1] * 0.99
    for i in range(n):
        out += rg.sin(items[i]) * c
    ~filled


def test_instructions_beside_those_by_hand() -> None:
    """Pairs of particles and their flight take at most 2 times the instructions of loops, a fold over a list with a closure 4 times."""
    xs = np.random.default_rng(1).random((20, 2))
    assert rg.run(energy, xs).steps <= 1.3 * rg.run(energy_by_hand, 0.0, xs).steps
    assert energy(xs) == energy_by_hand(0.0, xs).out
    assert rg.run(flight, 0.5, 0.1, 100).steps <= 1.3 * rg.run(flight_by_hand, 0.0, 0.5, 0.1, 100).steps
    assert flight(0.5, 0.1, 100) == flight_by_hand(0.0, 0.5, 0.1, 100).out
    assert rg.run(fold, 0.3, 0.5, 50).steps <= 3.7 * rg.run(fold_by_hand, 0.0, 0.3, 0.5, 50).steps
