"""The irreversible netlist of a circuit computes its function, and no uncomputation is left."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from retrograd.hdl.reversible.builder import cuccaro_adder, maj_uma_adder, takahashi_adder, vbe_adder
from retrograd.hdl.reversible.circuit import Circuit, Gate, simulate, transposed
from retrograd.hdl.reversible.irreversible import FALSE, TRUE, Network, network_of
from retrograd.hdl.reversible.lowering import lower
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

SMALL = Format(4, 2)


def disagreement(circuit: Circuit, net: Network, runs: int = 256) -> str | None:
    """The first output that differs on random inputs."""
    rng, ones = random.Random(1), (1 << runs) - 1
    words = {name: [rng.getrandbits(runs) for _ in lines] for name, lines in circuit.inputs.items()}
    state = [0] * circuit.lines
    for name, lines in circuit.inputs.items():
        for line, bits in zip(lines, words[name], strict=True):
            state[line] = bits
    simulate(circuit.gates, state, ones)
    found = net.run(words, ones)
    return next((name for name, bits in found.items() if bits != [state[q] for q in circuit.outputs[name]]), None)


@pytest.mark.parametrize("opcode", [op for op in TABLE if op.name != "unerase"], ids=lambda op: op.name)
def test_every_instruction(opcode: Opcode) -> None:
    circuit = lower(opcode, SMALL)
    assert disagreement(circuit, network_of(circuit, circuit.outputs)) is None


@pytest.mark.parametrize("name", ["fmul.add", "fdiv.add", "fsqrt.add", "shl.add", "fexp.add"])
def test_uncomputation_leaves_nothing(name: str) -> None:
    """Gates that undo others are no gates of the netlist: with and without uncomputation it is the same."""
    kept, undone = (network_of(lower(TABLE[name], Format(8, 4), strategy=way)) for way in ("garbage", "bennett"))
    assert kept.counts() == undone.counts()


@pytest.mark.parametrize("adder", [takahashi_adder, maj_uma_adder, vbe_adder, cuccaro_adder])
def test_adders(adder: Callable[[int], Circuit]) -> None:
    circuit = adder(8)
    assert disagreement(circuit, network_of(circuit)) is None


def test_the_counts_of_the_adder() -> None:
    assert network_of(takahashi_adder(32)).counts() == {"AND": 1, "MAJ3": 31, "XOR": 63}


def test_rules() -> None:
    net = Network()
    x, y, z, s = net.input("w", 4)
    assert net.both(x, x ^ 1) == FALSE
    assert net.both(x, TRUE) == net.both(x, x) == x
    assert net.both(x, y) == net.both(y, x)
    assert net.differ(x, x ^ 1) == TRUE
    assert net.differ(net.differ(x, y), y) == x
    assert net.differ(net.differ(x ^ 1, y), x) == y ^ 1
    carry = net.differ(z, net.both(net.differ(x, z), net.differ(y, z)))
    assert net.nodes[carry >> 1].kind == "MAJ3"
    chosen = net.differ(x, net.both(net.differ(x, y), s))
    assert net.nodes[chosen >> 1] == ("MUX", (y, x, s))
    net.outputs = {"carry": (carry,), "chosen": (chosen,)}
    words = {"w": transposed(range(16), 4)}
    found = net.run(words, (1 << 16) - 1)
    for k in range(16):
        a, b, c, d = (k >> i & 1 for i in range(4))
        assert found["carry"][0] >> k & 1 == (a + b + c > 1)
        assert found["chosen"][0] >> k & 1 == (b if d else a)


def test_outputs_that_are_inputs_are_left_out() -> None:
    circuit = Circuit(2, (Gate((0,), (1,)),), {"a": (0,), "d": (1,)}, {"a": (0,), "d": (1,)})
    assert set(network_of(circuit).outputs) == {"d"}
    assert set(network_of(circuit, ["a"]).outputs) == {"a"}


def test_random_circuits() -> None:
    rng = random.Random(7)
    for _ in range(60):
        gates = []
        for _ in range(40):
            lines = rng.sample(range(6), rng.randint(1, 5))
            cut = rng.randint(1, min(2, len(lines)))
            gates.append(Gate(tuple(lines[cut:]), tuple(lines[:cut])))
        circuit = Circuit(6, tuple(gates), {"w": (0, 1, 2, 3)}, {"w": (2, 3, 4, 5)}, (0, 1))
        assert disagreement(circuit, network_of(circuit, ["w"])) is None
