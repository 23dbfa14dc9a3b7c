"""Programs of the SyReC suite as netlists of ours, beside the published counts of their synthesis.

The programs have words of two bits (`for_32`: 32), without a sign. The lowering is a fold over trees and needs no machine format. The published
counts, gates, lines and quantum cost, are those of the suite's tests of cost-aware synthesis (R. Wille, S. Offermann, R. Drechsler, SyReC: a
programming language for synthesis of reversible circuits, 2010; Munich Quantum Toolkit).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import pytest
from retrograd.hdl.reversible.builder import FALSE, Builder, floor_quotient
from retrograd.hdl.reversible.circuit import Circuit, count
from retrograd.hdl.reversible.lowering import EffectLowering, Strategy
from retrograd.isa.effects import Effects, Exchange, Update
from retrograd.isa.expr import Expr, mul_shift, place, select
from retrograd.isa.words import Format

Words = Mapping[str, int]
Figures = tuple[int, int, int]


class Bits(Format):
    """Words of any width, for netlists only."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", (1 << self.width) - 1)
        object.__setattr__(self, "sign", 1 << (self.width - 1))


def circuit_of(
    width: int,
    names: Sequence[str],
    effects: Effects | Callable[[EffectLowering], None],
    strategy: Strategy = "bennett",
) -> Circuit:
    """The effects on words of this width; `op` has one bit."""
    b = Builder()
    lowering = EffectLowering(b, Bits(width, 0), strategy)
    given = {name: b.inputs(1 if name == "op" else width) for name in names}
    lowering.places = {name: [*lines, *[FALSE] * (width - len(lines))] for name, lines in given.items()}
    if callable(effects):
        effects(lowering)
    else:
        lowering.effects(effects)
    outputs = {name: tuple(line for line in lines if line >= 0) for name, lines in lowering.places.items()}
    garbage = sorted(b.taken) if strategy == "garbage" else ()
    return Circuit(
        b.lines, tuple(b.gates), {name: tuple(lines) for name, lines in given.items()}, outputs, tuple(garbage)
    )


op, x1, x2 = (place(name) for name in ("op", "x1", "x2"))


def sum_or_difference(x: Expr, y: Expr) -> Expr:
    return select(op, x + y, x - y)


def divide(lowering: EffectLowering) -> None:
    """a ^= x1 / x2; b += x1 / x2; c −= x1 / x2, and all of it undone: `call` and `uncall`."""
    b, places = lowering.b, lowering.places

    def once() -> None:
        b.within(
            lambda: floor_quotient(b, [*places["x1"], FALSE], [*places["x2"], FALSE], 0, 0, 2),
            lambda q: [b.flip_each(places["a"], q), b.add(places["b"], q), b.subtract(places["c"], q)],
        )

    once()
    b.inverted(once)


def alu(words: Words) -> int:
    sign = 1 if words["op"] else -1
    return words["x0"] ^ (words["x1"] + sign * words["x2"]) & 3


ARRAYS = [f"{array}{i}" for array in "abc" for i in range(4)]
PROGRAMS: dict[str, tuple[int, Sequence[str], Effects | Callable[[EffectLowering], None]]] = {
    "swap_2": (2, ("x1", "x2"), (Exchange("x1", "x2"),)),
    "simple_add_2": (2, ("x0", "x1", "x2"), (Update("x0", "add", x1 - x2),)),
    "multiply_2": (2, ("x0", "x1", "x2"), (Update("x0", "xor", mul_shift(x1, x2, 0)),)),
    "alu_2": (2, ("op", "x0", "x1", "x2"), (Update("x0", "xor", sum_or_difference(x1, x2)),)),
    "divide_2": (2, ("a", "b", "c", "x1", "x2"), divide),
    "for_32": (
        32,
        ("op", *ARRAYS),
        tuple(Update(f"c{i}", "xor", sum_or_difference(place(f"a{i}"), place(f"b{i}"))) for i in range(4)),
    ),
}
CIRCUITS = {name: circuit_of(*program) for name, program in PROGRAMS.items()}
#: gates, lines, quantum cost: published; ours without garbage; ours with the values of expressions left as
#: garbage, which `uncall` of `divide_2` would need
COUNTS: dict[str, tuple[Figures, Figures, Figures | None]] = {
    "alu_2": ((26, 11, 138), (50, 13, 98), (26, 13, 50)),
    "multiply_2": ((5, 8, 17), (8, 8, 32), (5, 8, 17)),
    "divide_2": ((246, 22, 998), (680, 24, 1628), None),
    "simple_add_2": ((18, 8, 34), (22, 8, 46), (14, 8, 30)),
    "swap_2": ((2, 4, 2), (0, 4, 0), (0, 4, 0)),
    "for_32": ((2498, 641, 15426), (5120, 481, 10112), (2624, 769, 5120)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    _, clean, left = COUNTS[name]
    assert figures(CIRCUITS[name]) == clean
    if left is not None:
        circuit = circuit_of(*PROGRAMS[name], strategy="garbage")
        assert figures(circuit) == left
        assert bool(circuit.garbage) == (name != "swap_2")


def figures(circuit: Circuit) -> Figures:
    found = count(circuit)
    return found.gates, found.width, found.quantum_cost


def test_garbage_makes_the_published_product() -> None:
    """Three Toffoli gates and two CNOT gates: the product stays on its two lines."""
    assert COUNTS["multiply_2"][0] == COUNTS["multiply_2"][2]


@pytest.mark.parametrize(
    ("name", "changed", "expected"),
    [
        ("swap_2", ("x1", "x2"), lambda w: (w["x2"], w["x1"])),
        ("simple_add_2", ("x0",), lambda w: (w["x0"] + w["x1"] - w["x2"] & 3,)),
        ("multiply_2", ("x0",), lambda w: (w["x0"] ^ w["x1"] * w["x2"] & 3,)),
        ("alu_2", ("x0",), lambda w: (alu(w),)),
        ("divide_2", (), lambda w: ()),
    ],
)
def test_all_words_of_two_bits(name: str, changed: Sequence[str], expected: Callable[[Words], Sequence[int]]) -> None:
    circuit = CIRCUITS[name]
    names = list(circuit.inputs)
    for words in product(*(range(1 << len(lines)) for lines in circuit.inputs.values())):
        given = dict(zip(names, words, strict=True))
        assert circuit.run(given) == {**given, **dict(zip(changed, expected(given), strict=True))}
        assert circuit.inverse().run(circuit.run(given)) == given


def test_the_call_of_the_division() -> None:
    """Half of the gates are the call: for x2 ≠ 0 the quotient is that of words without a sign."""
    whole = CIRCUITS["divide_2"]
    half = len(whole.gates) // 2
    call = Circuit(whole.lines, whole.gates[:half], whole.inputs, whole.outputs)
    assert whole.gates[half:] == call.gates[::-1]
    for a, b, c, x, y in product(range(4), range(4), range(4), range(4), range(1, 4)):
        q = x // y
        found = call.run({"a": a, "b": b, "c": c, "x1": x, "x2": y})
        assert found == {"a": a ^ q, "b": (b + q) & 3, "c": (c - q) & 3, "x1": x, "x2": y}


def test_loops_over_words_of_32_bits() -> None:
    rng = random.Random(5)
    for case in range(16):
        given = {name: rng.getrandbits(32) for name in ARRAYS} | {"op": case & 1}
        after = dict(given)
        for i in range(4):
            x, y = given[f"a{i}"], given[f"b{i}"]
            after[f"c{i}"] ^= (x + y if case & 1 else x - y) & 0xFFFFFFFF
        assert CIRCUITS["for_32"].run(given) == after
