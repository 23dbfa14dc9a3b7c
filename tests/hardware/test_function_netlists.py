"""Whole functions as netlists: the words, ancillas back at 0, and the inverse, against the program on a machine."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from retrograd.compiler.ir import statements as ir
from retrograd.hdl.reversible.lowering import Strategy
from retrograd.isa.diagnostics import CompileError, InputError, Span
from retrograd.isa.words import Format
from support.random_programs import checks, generate

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.hardware._program_lowering import ProgramLowering
from retrograd.hardware.function_netlists import FunctionNetlist

STRATEGIES: tuple[Strategy, ...] = ("bennett", "eager", "garbage")


@rg.struct
class Point:
    x: int
    y: int


@reversible
def polynomial(y: fixed, x: fixed) -> None:
    """A loop with a static range, and a sum of products."""
    for i in range(1, 3):
        y += x * x * i - x


@reversible
def branches(y: int, a: int, b: int, c: int) -> None:
    """Branches within a branch, with locals, and a second condition that is not the first."""
    if a < b:
        t = a + 3
        if (t == 5, y > 2):
            y += t
        else:
            y ^= b
        rg.free(t, a + 3)
    elif a == b:
        y -= 1
    else:
        y += a
        rg.swap(y, c)
        c += b
        rg.neg(y)


@reversible
def triangle(total: int) -> None:
    """A `while` that counts by a variable."""
    i = 0
    while (i != 3, i != 0):
        i += 1
        total += i
    rg.free(i, 3)


@reversible
def element(y: int, v: Array[int, 3], i: int) -> None:
    """Reads an array at an index that depends on data, and writes it."""
    y += v[i]
    v[i] ^= y
    with rg.routine() as r:
        t = v[i] * 3
    y -= t
    ~r


@reversible
def exchange(v: Array[int, 4], i: int, j: int) -> None:
    """Exchanges elements under a condition."""
    if i < j:
        rg.swap(v[i], v[j])


@reversible
def power(y: int, x: int, n: rg.static) -> None:
    """Recursion whose depth is static."""
    if n == 0:
        y += 1
    else:
        t = 0
        power(t, x, n - 1)
        y += t * x
        ~power(t, x, n - 1)
        rg.free(t, 0)


@reversible
def cube(y: int, x: int) -> None:
    power(y, x, 3)


@reversible
def points(p: Point, q: Point) -> None:
    if p.x > q.x:
        p.y += q.y
    else:
        rg.neg(p.y)


@rg.struct
class Signal:
    high: bool
    count: int


@reversible
def logic(a: bool, b: bool, c: bool) -> None:
    """Gates of bools, with locals that are uncomputed."""
    c ^= a & b
    with rg.routine() as r:
        t = a and c
        u = not t
    b ^= u
    ~r
    rg.flip(a)


@reversible
def decisions(y: int, a: bool, b: bool, v: Array[bool, 3]) -> None:
    """Bools as conditions, from comparisons, and exchanged under a condition."""
    if a:
        y += 3
        rg.swap(b, v[0])
    v[1] ^= y > 2
    if b:
        rg.swap(v[1], v[2])


@reversible
def counted(s: Signal, i: int, v: Array[bool, 2]) -> None:
    """A bool in a struct, and one at an index that depends on data."""
    if s.high:
        s.count += 1
    s.high ^= s.count == 2
    v[i & 1] ^= s.high


#: arguments of a call
GIVEN = {
    logic: (True, False, True),
    decisions: (1, True, False, [True, False, True]),
    counted: (Signal(high=True, count=1), 3, [False, True]),
}
#: function → its words that are no bools
BOOLS = {logic: (), decisions: ("y",), counted: ("s_count", "i")}
FUNCTIONS = (polynomial, branches, triangle, element, exchange, cube, points)


def rows_of(found: FunctionNetlist, count: int, seed: int = 5) -> list[list[int]]:
    """Words that are uniform, small, or at the ends of the range."""
    rng, w = random.Random(seed), found.compiled.format

    def word() -> int:
        x = rng.getrandbits(w.width)
        return rng.choice((rng.randrange(4), rng.randrange(4), w.mask, w.sign, x, x >> rng.randrange(w.width)))

    return [[word() for _ in found.words] for _ in range(count)]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_functions_at_16_bits(f: rg.Reversible, strategy: Strategy) -> None:
    for g in (f, ~f):
        found = rg.netlist(g, format="Q16.0" if f is not polynomial else "Q8.8", strategy=strategy)
        assert found.disagreement(rows_of(found, 60)) is None
        assert bool(found.counts.garbage) <= (strategy == "garbage")


@pytest.mark.parametrize("f", BOOLS, ids=lambda f: f.__name__)
def test_a_bool_is_one_line(f: rg.Reversible) -> None:
    """As an argument and as a result: all words, the program on a machine, ancillas at 0, and the inverse."""
    for strategy, budget in (*((s, None) for s in STRATEGIES), ("pebble", 60)):
        for g in (f, ~f):
            found = rg.netlist(g, format="Q4.0", strategy=strategy, budget=budget)
            for words in (found.circuit.inputs, found.circuit.outputs):
                assert {name: len(lines) for name, lines in words.items()} == {
                    name: 4 if name in BOOLS[f] else 1 for name in found.words
                }
            values = [range(16) if name in BOOLS[f] else (0, 1) for name in found.words]
            assert found.disagreement([list(row) for row in itertools.product(*values)]) is None
    if f is logic:
        assert rg.netlist(logic, format="Q32.32", strategy="eager").circuit.lines < 10
    ran, called = rg.netlist(f, format="Q4.0").run(*GIVEN[f]), f.with_options(format=Format(4, 0))(*GIVEN[f])
    assert str(ran) == str(called)


@pytest.mark.parametrize("f", [polynomial, cube, triangle], ids=lambda f: f.__name__)
def test_all_arguments_of_4_bits(f: rg.Reversible) -> None:
    for strategy in STRATEGIES:
        found = rg.netlist(f, format="Q2.2" if f is polynomial else "Q4.0", strategy=strategy)
        rows = [list(row) for row in itertools.product(range(16), repeat=len(found.words))]
        assert found.disagreement(rows) is None


@pytest.mark.long
def test_all_elements_of_4_bits() -> None:
    """All words but those of the last element, which is the sum of the others."""
    found = rg.netlist(element, format="Q4.0")
    count = len(found.words) - 1
    rows = [[*row[:2], sum(row) & 15, *row[2:]] for row in itertools.product(range(16), repeat=count)]
    assert found.disagreement(rows) is None


def test_all_places_of_an_exchange() -> None:
    """In 8 bits: words of 4 hold no jump over it."""
    found = rg.netlist(exchange, format="Q8.0")
    rows = [[3, 30, 17, 200, i, j] for i in range(-1, 6) for j in range(-1, 6)]
    assert found.disagreement(rows) is None


def test_values_are_those_of_a_call() -> None:
    found = rg.netlist(polynomial, format="Q8.8")
    assert found.run(0.5, 1.25) == rg.run(polynomial, 0.5, 1.25, format="Q8.8").values
    assert found.words == ("y", "x")
    inverse = rg.netlist(~polynomial, format="Q8.8")
    assert inverse.run(*found.run(0.5, 1.25)) == (0.5, 1.25)
    assert found.circuit.inverse().outputs == found.circuit.inputs


def test_words_are_named_as_in_the_source() -> None:
    assert rg.netlist(points, format="Q4.0").words == ("p_x", "p_y", "q_x", "q_y")

    @reversible
    def f(a: Array[int, 2, 2], a_0_0: int) -> None:
        a[0, 1] += a_0_0

    assert rg.netlist(f, format="Q4.0").words == ("a_0_0", "a_0_1", "a_1_0", "a_1_1", "a_0_0_")


def test_static_control_costs_no_gates() -> None:
    """The counter of `triangle` is constant in each pass: three additions of constants are left."""
    found = rg.netlist(triangle, format="Q8.0").counts

    def adding(n: int) -> FunctionNetlist:
        @reversible
        def f(total: int) -> None:
            total += n

        return rg.netlist(f, format="Q8.0")

    parts = [adding(n).counts for n in (1, 2, 3)]
    assert found.toffoli == sum(part.toffoli for part in parts)
    assert found.width == max(part.width for part in parts)


def test_an_erasure_leaves_garbage() -> None:
    @reversible
    def f(y: int, x: int) -> None:
        t = x * y
        x += t
        rg.erase(t)

    found = rg.netlist(f, format="Q8.0")
    assert found.counts.garbage == 8
    assert found.disagreement(rows_of(found, 40)) is None
    with pytest.raises(InputError, match="RG1402"):
        rg.netlist(~f, format="Q8.0")


def test_a_wrong_netlist_is_found() -> None:
    """A netlist without one of its gates, unless the gate does nothing: its control is 0, as in sums with constants."""
    found = rg.netlist(branches, format="Q8.0")
    rows = rows_of(found, 300)
    gates = found.circuit.gates
    places = range(0, len(gates), len(gates) // 40)
    wrong = [replace(found, circuit=replace(found.circuit, gates=gates[:i] + gates[i + 1 :])) for i in places]
    assert sum(each.disagreement(rows) is None for each in wrong) <= len(wrong) // 5


def test_budgets_of_ancillas() -> None:
    @reversible
    def chain(y: fixed, x: fixed, z: fixed) -> None:
        y += x * z * x * z * x

    bennett = rg.netlist(chain, format="Q4.4").counts
    with pytest.raises(InputError, match="RG1406") as caught:
        rg.netlist(chain, format="Q4.4", strategy="pebble", budget=1)
    least = int(caught.value.diagnostics[0].message.split()[-1])
    found = rg.netlist(chain, format="Q4.4", strategy="pebble", budget=least)
    assert found.counts.ancillas <= least < bennett.ancillas
    assert found.counts.gates > bennett.gates
    assert found.disagreement(rows_of(found, 60)) is None
    assert rg.netlist(chain, format="Q4.4", strategy="pebble", budget=bennett.ancillas).counts == bennett


def unbounded(f: Callable[..., Any]) -> str:
    with pytest.raises(InputError) as caught:
        rg.netlist(reversible(f), format="Q8.0")
    (found,) = caught.value.diagnostics
    assert found.code == "RG1404"
    assert found.span is not None
    return found.message


def test_bounds_that_depend_on_data_are_refused() -> None:
    def by_range(y: int, n: int) -> None:
        for i in range(n):
            y += i

    def by_while(y: int, n: int) -> None:
        while (y < n, y != 0):
            y += 1

    @reversible
    def again(y: int, n: int) -> None:
        if n > 0:
            again(y, n - 1)
        y += n

    def by_recursion(y: int, n: int) -> None:
        again(y, n)

    def never(y: int) -> None:
        t = 3
        y += t
        rg.free(t, 4)

    assert "bounds of this loop" in unbounded(by_range)
    assert "passes of this loop" in unbounded(by_while)
    assert "nested deeper" in unbounded(by_recursion)
    assert "traps for all arguments" in unbounded(never)
    with pytest.raises(ValueError, match="bennett, eager"):
        rg.netlist(cube, strategy="pebbles")  # type: ignore[arg-type]


def examine(seed: int) -> int:
    """A random program in a strategy and a direction of its seed: the number of rows that were compared; 0 if it has no netlist."""
    case, rng = generate.generate(seed), random.Random(seed)
    try:
        f = ~case.function if rng.random() < 0.3 else case.function
        options = replace(case.function.options, level=rng.randrange(2))
        found = rg.netlist(f, format="Q8.8", strategy=rng.choice(STRATEGIES), options=options)
        case.format = found.compiled.format
        rows = [[word for part in checks.arguments(case, rng) for word in part] for _ in range(6)]
        assert found.disagreement(rows) is None, f"generate({seed})\n{case.source}"
        return len(rows)
    except (CompileError, InputError) as error:
        # A constant of the program would be 0 in this narrow format (RG0730), or a dictionary's does not fit (RG0714).
        if error.diagnostics[0].code not in ("RG0714", "RG0730", "RG1404", "RG1405"):
            raise
        return 0
    finally:
        case.release()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_random_programs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.hardware._program_lowering.MOST_GATES", 200_000)
    assert sum(examine(seed) for seed in range(first, first + 20)) >= 6


def test_a_refusal_shows_its_line_where_there_is_one() -> None:
    """A statement may have no place, or one in a file whose text is not at hand."""
    module = ir.Module((), {}, (), 0, 0, format=Format(8, 4), files=("f.py", "other.py"), texts=(("x += 1",),))
    lowering = ProgramLowering(module, "uncompute")
    places = {
        None: None,
        Span("f.py", 1): "x += 1",
        Span("f.py", 2): None,
        Span("other.py", 1): None,
        Span("g.py", 1): None,
    }
    for span, line in places.items():
        with pytest.raises(InputError) as refused:
            lowering._refuse("RG1404", "this depends on data", span)
        assert refused.value.diagnostics[0].line == line
