"""Losses of irreversible circuits, gate by gate and as a whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.gates import GATES

from retrograd.physics.entropy import Logic, LogicGate


def half_adder(a: str, b: str, to: str) -> tuple[LogicGate, ...]:
    """Of AND, OR and NOT: sum and carry of two wires."""
    return (
        LogicGate("NOT", (a,), f"not_{a}_{to}"), LogicGate("NOT", (b,), f"not_{b}_{to}"),
        LogicGate("AND", (a, f"not_{b}_{to}"), f"left_{to}"), LogicGate("AND", (f"not_{a}_{to}", b), f"right_{to}"),
        LogicGate("OR", (f"left_{to}", f"right_{to}"), f"sum_{to}"), LogicGate("AND", (a, b), f"carry_{to}"),
    )  # fmt: skip


def full_adder(k: int, carry: str) -> tuple[LogicGate, ...]:
    """Two half adders and OR; its carry is `carry_{k}`."""
    return (
        *half_adder(f"a_{k}", f"b_{k}", f"first_{k}"), *half_adder(f"sum_first_{k}", carry, f"second_{k}"),
        LogicGate("OR", (f"carry_first_{k}", f"carry_second_{k}"), f"carry_{k}"),
    )  # fmt: skip


def test_half_adder() -> None:
    found = Logic(("a", "b"), half_adder("a", "b", "h"), ("sum_h", "carry_h")).losses()
    assert found.gate_by_gate == pytest.approx(4.0662, abs=5e-5)
    assert found.whole == pytest.approx(0.5)
    assert found.gates[:2] == (0, 0)


def test_half_adder_of_two_gates() -> None:
    gates = (LogicGate("XOR", ("a", "b"), "s"), LogicGate("AND", ("a", "b"), "c"))
    found = Logic(("a", "b"), gates, ("s", "c")).losses()
    assert found.gates == pytest.approx((1, 2 + 0.25 * math.log2(0.25) + 0.75 * math.log2(0.75)))
    assert found.gate_by_gate == pytest.approx(2.1887, abs=5e-5)
    assert found.gate_by_gate - found.whole == pytest.approx(1.6887, abs=5e-5)


def test_ripple_carry() -> None:
    """A stage loses 8.6323 bits gate by gate, wherever it stands: its carry is 1 in half of the cases. Its whole loses 1.1887."""
    stage = Logic(("a_0", "b_0", "c"), full_adder(0, "c"), ("sum_second_0", "carry_0")).losses()
    assert stage.gate_by_gate == pytest.approx(8.6323, abs=5e-5)
    assert stage.whole == pytest.approx(1.1887, abs=5e-5)
    gates = tuple(gate for k in range(4) for gate in full_adder(k, f"carry_{k - 1}" if k else "c"))
    inputs = ("c", *(f"{word}_{k}" for k in range(4) for word in "ab"))
    whole = Logic(inputs, gates, (*(f"sum_second_{k}" for k in range(4)), "carry_3")).losses()
    assert whole.gate_by_gate == pytest.approx(4 * stage.gate_by_gate)
    sums = [sum(1 for n in range(512) if (n & 15) + (n >> 4 & 15) + (n >> 8) == s) / 512 for s in range(32)]
    assert whole.whole == pytest.approx(9 + sum(p * math.log2(p) for p in sums if p))


def test_inputs_of_other_probabilities() -> None:
    """Where both inputs are always the same, AND is a wire, and loses nothing; XOR loses their one bit."""
    equal = {(0, 0): 0.5, (1, 1): 0.5}
    for kind, lost in (("AND", 0.0), ("OR", 0.0), ("XOR", 1.0), ("XNOR", 1.0), ("NAND", 0.0), ("ANDNOT", 1.0)):
        assert Logic(("a", "b"), (LogicGate(kind, ("a", "b"), "y"),), ("y",)).losses(equal).whole == lost


def test_kinds_are_those_of_their_names() -> None:
    """The truth tables, lowest input first, as numbers of their rows with 1."""
    tables = {
        "BUF": "01", "NOT": "10", "AND": "0001", "NAND": "1110", "OR": "0111", "NOR": "1000", "XOR": "0110", "XNOR": "1001",
        "ANDNOT": "0010", "ORNOT": "1011", "MAJ3": "00010111", "MAJ5": "00000001000101110001011101111111", "MUX": "00011011",
    }  # fmt: skip
    assert tables.keys() == GATES.keys()
    for kind, table in tables.items():
        n = GATES[kind][0]
        for row, bit in enumerate(table):
            values = [bool(row >> (n - 1 - i) & 1) for i in range(n)]
            wires = {str(i): np.array([value]) for i, value in enumerate(values)}
            found = Logic(tuple(wires), (LogicGate(kind, tuple(wires), "y"),), ("y",)).run(wires)["y"]
            assert bool(found[0]) == (bit == "1"), (kind, values)


@pytest.mark.parametrize(
    ("inputs", "gates", "outputs"),
    [
        (("a", "a"), (), ()),
        (("a",), (LogicGate("AND", ("a",), "y"),), ("y",)),
        (("a",), (LogicGate("LUT", ("a",), "y"),), ("y",)),
        (("a",), (LogicGate("NOT", ("b",), "y"),), ("y",)),
        (("a",), (LogicGate("NOT", ("a",), "a"),), ("a",)),
        (("a",), (), ("y",)),
    ],
)
def test_no_circuits(inputs: tuple[str, ...], gates: tuple[LogicGate, ...], outputs: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        Logic(inputs, gates, outputs)
    assert caught.value.code == "RG1603"


def test_wrong_probabilities() -> None:
    wire = Logic(("a",), (), ("a",))
    for wrong in ({(0,): 0.5}, {(0, 1): 1.0}, {(0,): 2.0, (1,): -1.0}):
        with pytest.raises(InputError) as caught:
            wire.losses(wrong)
        assert caught.value.code == "RG1601"
    with pytest.raises(InputError):
        Logic(tuple(f"x{k}" for k in range(17)), (), ()).losses()
