"""Netlists of updates with a product, proved for all words of 16 and 32 bits, in four parts.

    rows      the gates of each step of the product map total[slice] to total[slice] ± value where the condition is 1, and nothing else: by a solver
    carries   no step carries out of its slice: by the greatest values of the partial sums
    sum       the steps add up to the signed product mod 2^size: coefficient by coefficient of the bits of x and y
    whole     with the gates of all steps replaced by a function of the factors, the netlist is the update, and its ancillas end as 0: by a solver

A solver does not decide the equality of two products of 32 bits at once. Each step alone is a sum, and equal steps on other lines are proved once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import z3
from retrograd.hdl.reversible import builder
from retrograd.hdl.reversible.builder import FALSE, TRUE, Builder, ProductStep
from retrograd.hdl.reversible.circuit import Circuit, Gate
from retrograd.hdl.reversible.lowering import lower
from retrograd.isa.entries import Opcode
from retrograd.isa.expr import half, nodes
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


def _is_proved_here(opcode: Opcode) -> bool:
    """Whether an opcode updates a number by a product of two words, without quotients, roots and tables."""
    tree = list(nodes(*opcode.transition(Format()).values()))
    products = [n for n in tree if n.op in ("mulshift", "mulround")]
    others = {"divshift", "divround", "sqrtround", "table"} & {n.op for n in tree}
    whole = bool(products) and all(arg.op != "const" for n in products for arg in n.args)
    return opcode.update in ("add", "sub", "xor") and whole and not others


NAMES = [o.name for o in TABLE if _is_proved_here(o)]


class Unproved(Exception):
    """A part of the proof fails; the message names it."""


@dataclass
class Product:
    """A product in a netlist, as it was made."""

    x: Sequence[int]
    y: Sequence[int]
    shift: int
    half: int
    start: int = 0
    end: int = 0
    total: Sequence[int] = ()
    #: (first gate, first gate behind it, the step, whether the total was 0)
    steps: list[tuple[int, int, ProductStep, bool]] | None = None


def lowered(name: str, w: Format, monkeypatch: pytest.MonkeyPatch) -> tuple[Circuit, Product]:
    """The netlist of an update, and its product."""
    made: list[Product] = []
    make, step_of = builder.product, builder.add_step

    def product(b: Builder, x: Any, y: Any, shift: int, half: int) -> Any:
        found = Product(x, y, shift, half, len(b.gates), steps=[])
        made.append(found)
        out = make(b, x, y, shift, half)
        found.end = len(b.gates)
        return out

    def add_step(b: Builder, total: Any, step: ProductStep, onto_zero: bool) -> None:
        start = len(b.gates)
        step_of(b, total, step, onto_zero)
        made[-1].total = total
        assert made[-1].steps is not None
        made[-1].steps.append((start, len(b.gates), step, onto_zero))

    with monkeypatch.context() as patch:
        patch.setattr(builder, "product", product)
        patch.setattr(builder, "add_step", add_step)
        circuit = lower(TABLE[name], w)
    (found,) = made
    return circuit, found


def apply(gates: Sequence[Gate], state: dict[int, Any]) -> None:
    """Execute gates on Booleans of the solver."""
    for controls, targets, _ in gates:
        condition = z3.And(*(state[q] for q in controls)) if controls else z3.BoolVal(True)
        assert len(targets) == 1
        state[targets[0]] = z3.simplify(z3.Xor(state[targets[0]], condition))


def word(bits: Sequence[Any]) -> Any:
    """The word of Booleans, the lowest first."""
    ones = [z3.If(bit, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1)) for bit in reversed(bits)]
    return z3.Concat(*ones) if len(ones) > 1 else ones[0]


def bit(state: dict[int, Any], line: int) -> Any:
    return z3.BoolVal(line == TRUE) if line < 0 else state[line]


def satisfiable(claim: Any) -> bool:
    solver = z3.Solver()
    solver.add(claim)
    return bool(solver.check() != z3.unsat)


def prove_step(
    gates: Sequence[Gate], part: Sequence[int], step: ProductStep, onto_zero: bool, proved: set[Any]
) -> None:
    """Rows: for all words on the slice, the value and the condition, and 0 on all other lines."""
    own = {line for line in (*part, *step.value, step.condition) if line >= 0}
    lines = sorted(own | {line for gate in gates for line in gate.controls + gate.targets})
    number = {line: k for k, line in enumerate(dict.fromkeys([*part, *step.value, step.condition, *lines]))}
    renamed = tuple(tuple(tuple(number[q] for q in side) for side in gate) for gate in gates)
    key = renamed, len(part), tuple(number[q] for q in step.value), number[step.condition], step.subtract, onto_zero
    if key in proved:
        return
    state = {line: z3.Bool(f"line{line}") if line in own else z3.BoolVal(False) for line in lines}
    if onto_zero:
        state |= {line: z3.BoolVal(False) for line in part}
    before = dict(state)
    apply(gates, state)
    size = len(part)
    value = [bit(before, q) for q in step.value][:size]
    term = z3.If(
        bit(before, step.condition), word(value + [z3.BoolVal(False)] * (size - len(value))), z3.BitVecVal(0, size)
    )
    old = word([before[q] for q in part])
    expected = old - term if step.subtract else old + term
    changed = [state[q] != before[q] for q in lines if q not in part]
    if satisfiable(z3.Or(word([state[q] for q in part]) != expected, *changed)):
        raise Unproved("rows")
    proved.add(key)


def check_carries(found: Product) -> None:
    """Carries: the greatest total before each step, and of its value, fit the slice, unless the slice ends where the total does."""
    size, most = len(found.total), found.half
    for _, _, step, _ in found.steps or ():
        top = step.first + step.length
        if top < size:
            if step.subtract:
                raise Unproved("carries")
            most += sum(1 << k for k, q in enumerate(step.value) if q != FALSE) << step.first
            if most >= 1 << top:
                raise Unproved("carries")


def check_sum(found: Product) -> None:
    """Sum: the coefficients of all products of a bit of x and a bit of y, with the signs of both words."""
    size = len(found.total)
    coefficients: dict[frozenset[int], int] = {}
    for _, _, step, _ in found.steps or ():
        for k, line in enumerate(step.value[: step.length]):
            key = frozenset((line, step.condition))
            sign = -1 if step.subtract else 1
            coefficients[key] = coefficients.get(key, 0) + (sign << step.first + k)
    expected: dict[frozenset[int], int] = {}
    for i, p in enumerate(found.x):
        for j, q in enumerate(found.y):
            sign = (-1) ** ((i == len(found.x) - 1) + (j == len(found.y) - 1))
            key = frozenset((p, q))
            expected[key] = expected.get(key, 0) + (sign << i + j)
    if any(
        (coefficients.get(key, 0) - expected.get(key, 0)) % (1 << size) for key in coefficients.keys() | expected.keys()
    ):
        raise Unproved("sum")


def check_whole(circuit: Circuit, found: Product, name: str, w: Format) -> None:
    """Whole: the product's gates, forward and in reverse order, are replaced; all other gates are executed."""
    state = {line: z3.BoolVal(False) for line in range(circuit.lines)}
    given = {}
    for place, lines in circuit.inputs.items():
        given[place] = z3.BitVec(place, w.width)
        state |= {line: z3.Extract(i, i, given[place]) == 1 for i, line in enumerate(lines)}
    size = len(found.total)
    function = z3.Function("product", z3.BitVecSort(w.width), z3.BitVecSort(w.width), z3.BitVecSort(size))
    gates = circuit.gates
    forward = gates[found.start : found.end]
    scratch = {q for gate in forward for q in gate.controls + gate.targets} - {*found.x, *found.y, *found.total}

    def zero(lines: Any) -> bool:
        return all(z3.is_false(state[q]) for q in lines)

    at, product, factors = 0, None, []
    while at < len(gates):
        if at == found.start:
            factors = [state[q] for q in (*found.x, *found.y)]
            if not zero(scratch | {*found.total}):
                raise Unproved("whole: lines of the product are not 0")
            product = function(word(factors[: w.width]), word(factors[w.width :]))
            state |= {q: z3.Extract(i, i, product) == 1 for i, q in enumerate(found.total)}
            at = found.end
        elif product is not None and gates[at : at + len(forward)] == forward[::-1]:
            # The adder of the update has changed the lines of the total, and changed them back.
            differs = [state[q] != (z3.Extract(i, i, product) == 1) for i, q in enumerate(found.total)]
            differs += [state[q] for q in scratch]
            differs += [x != state[q] for x, q in zip(factors, (*found.x, *found.y), strict=True)]
            if satisfiable(z3.Or(*differs)):
                raise Unproved("whole: the product is not undone")
            state |= {q: z3.BoolVal(False) for q in found.total}
            at += len(forward)
        else:
            apply(gates[at : at + 1], state)
            at += 1
    opcode = TABLE[name]
    (where,) = opcode.transition(w)
    wide = z3.SignExt(w.width, z3.Extract(size - 1, 0, product))
    value = z3.Extract(w.width - 1, 0, wide >> found.shift)
    assert opcode.update is not None
    after = {"add": given[where] + value, "sub": given[where] - value, "xor": given[where] ^ value}[opcode.update]
    wrong = [
        word([state[q] for q in circuit.outputs[place]]) != (after if place == where else given[place])
        for place in given
    ]
    if satisfiable(z3.Or(*wrong, *(state[q] for q in circuit.zeros))):
        raise Unproved("whole: the update")


def prove(circuit: Circuit, found: Product, name: str, w: Format) -> int:
    """All four parts; the number of steps that were proved by the solver."""
    (node,) = (n for n in nodes(*TABLE[name].transition(w).values()) if n.op in ("mulshift", "mulround"))
    assert (found.shift, found.half) == (node.param, half(found.shift, w) if node.op == "mulround" else 0)
    proved: set[Any] = set()
    # Before the first step, the total is half, and between the steps are no gates.
    at = found.start
    assert found.steps
    ones = [gate.targets[0] for gate in circuit.gates[at : found.steps[0][0]]]
    assert sum(1 << found.total.index(q) for q in ones) == found.half % (1 << len(found.total))
    at += len(ones)
    for start, end, step, onto_zero in found.steps:
        assert start == at
        if onto_zero and (start != found.start or found.half):
            raise Unproved("rows: the total is not 0")
        prove_step(
            circuit.gates[start:end], found.total[step.first : step.first + step.length], step, onto_zero, proved
        )
        at = end
    assert at == found.end
    check_carries(found)
    check_sum(found)
    check_whole(circuit, found, name, w)
    return len(proved)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("mul.add", 16),
        ("fmul.sub", 16),
        *(pytest.param(name, width, marks=pytest.mark.long) for name in NAMES for width in (16, 32)),
    ],
)
def test_updates_with_products(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    w = Format(width, width // 2)
    circuit, found = lowered(name, w, monkeypatch)
    assert len(found.steps or ()) >= width
    # Few steps differ but for their lines.
    different = prove(circuit, found, name, w)
    assert 1 < different <= width + 1


def without(place: Callable[[Product], int]) -> Callable[[Circuit, Product], tuple[Circuit, Product]]:
    """A gate turned into an X gate that is undone at once would change nothing: it loses its controls instead."""

    def planted(circuit: Circuit, found: Product) -> tuple[Circuit, Product]:
        gates, at = list(circuit.gates), place(found)
        gates[at] = Gate((), gates[at].targets)
        return replace(circuit, gates=tuple(gates)), found

    return planted


def narrower(circuit: Circuit, found: Product) -> tuple[Circuit, Product]:
    """A row whose carry ends one line too early: the gates are those of a shorter slice."""
    steps = [(a, b, replace(s, length=s.length - (k == 3)), z) for k, (a, b, s, z) in enumerate(found.steps or ())]
    return circuit, replace(found, steps=steps)


def unsigned(circuit: Circuit, found: Product) -> tuple[Circuit, Product]:
    """The product without its last correction."""
    return circuit, replace(found, steps=(found.steps or [])[:-1])


@pytest.mark.parametrize(
    ("plant", "part"),
    [
        (without(lambda p: (p.steps or [])[5][0] + 20), "rows"),
        (without(lambda p: (p.steps or [])[-1][1] - 1), "rows"),
        (without(lambda p: p.end + 1), "whole"),
        (without(lambda p: 2 * p.end + 40), "whole"),
    ],
)
def test_planted_gates(plant: Any, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = Format(16, 8)
    circuit, found = plant(*lowered("fmul.add", w, monkeypatch))
    with pytest.raises(Unproved, match=part):
        prove(circuit, found, "fmul.add", w)


def test_planted_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    w = Format(16, 8)
    circuit, found = lowered("fmul.add", w, monkeypatch)
    with pytest.raises(Unproved, match="carries"):
        check_carries(narrower(circuit, found)[1])
    with pytest.raises(Unproved, match="sum"):
        check_sum(unsigned(circuit, found)[1])
    with pytest.raises(Unproved, match="carries"):
        check_carries(replace(found, half=1 << 17))
