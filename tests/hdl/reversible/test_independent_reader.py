"""OpenQASM that is written here, read and turned into a unitary matrix by MQT Core: the same permutation."""

from __future__ import annotations

import random

import pytest
from retrograd.hdl.reversible.circuit import Gate, permutation
from retrograd.hdl.reversible.formats import Netlist, netlist, read_real, write_real
from retrograd.hdl.reversible.lowering import lower
from retrograd.hdl.reversible.openqasm import read_qasm, write_qasm
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

import retrograd as rg

mqt = pytest.importorskip("mqt.core", reason="mqt-core is not installed: pip install 'retrograd[test]'")


def read_by_mqt(net: Netlist, text: str = "") -> list[int]:
    """The permutation of all lines, in the order of the netlist's lines; of a text, if there is one."""
    import numpy as np
    from mqt.core import dd

    circuit = mqt.load(text or write_qasm(net))
    matrix = np.array(dd.build_unitary(circuit))
    assert np.array_equal(matrix, matrix.real.round())
    images = matrix.real.argmax(axis=0).tolist()
    # The registers in their order have the lines in the order in which our own reader finds them.
    order = sorted(circuit.qregs.values(), key=lambda register: register.start)
    found = read_qasm(text or write_qasm(net)).names
    assert sum(register.size for register in order) == len(found)
    places = [found.index(name) for name in net.names]
    out = []
    for state in range(1 << len(places)):
        theirs = images[sum((state >> ours & 1) << place for ours, place in enumerate(places))]
        out.append(sum((theirs >> place & 1) << ours for ours, place in enumerate(places)))
    return out


@pytest.mark.parametrize("name", ["mov.add", "mov.sub", "mov.xor", "swap"])
def test_instructions(name: str) -> None:
    net = netlist(lower(TABLE[name], Format(4, 2)))
    assert not net.constants
    assert read_by_mqt(net) == permutation(net.circuit())


@pytest.mark.long
def test_a_function() -> None:
    """Branches and a loop, with ancillas as further lines: MQT Core has no classical registers for `reset`, which is left out."""

    @rg.reversible
    def f(y: int, x: int) -> None:
        for _ in range(2):
            if x < 0:
                y += 3
            else:
                y ^= x

    found = rg.netlist(f, format="Q4.0")
    net = netlist(found.circuit)
    assert 8 < len(net.names) <= 12
    free = Netlist(net.names, net.gates, {})
    assert read_by_mqt(free) == permutation(free.circuit())


@pytest.mark.parametrize("seed", range(4))
def test_gates_of_every_kind(seed: int) -> None:
    rng = random.Random(seed)
    gates = []
    for _ in range(25):
        lines = rng.sample(range(6), rng.randint(1, 6))
        targets = rng.randint(1, min(2, len(lines)))
        low = tuple(line for line in lines[targets:] if rng.random() < 0.4)
        gates.append(Gate(tuple(lines[targets:]), tuple(lines[:targets]), low))
    net = Netlist(tuple(f"{word}_{k}" for word in "ax" for k in range(3)), tuple(gates), {})
    assert read_by_mqt(net) == permutation(net.circuit())


@pytest.mark.parametrize("seed", range(20))
def test_round_trips(seed: int) -> None:
    """`.real` to OpenQASM 2 and 3, and back: the same gates on lines of the same names, and the same permutation by
    MQT Core at each station."""
    rng = random.Random(seed)
    names = rng.choice(
        (
            ("a_0", "a_1", "carry", "q", "n_0"),
            ("d_0", "d_1", "d_2", "x_0", "x_1"),
            ("b", "A", "e", "1", "sum'"),
            ("x", "q_x", "z_1", "_", "for"),
        )
    )
    gates = []
    for _ in range(12):
        targets = rng.randint(1, 2)
        lines = rng.sample(range(5), targets + rng.randint(0, 5 - targets if targets == 1 else 1))
        low = tuple(line for line in lines[targets:] if rng.random() < 0.3)
        gates.append(Gate(tuple(lines[targets:]), tuple(lines[:targets]), low))
    start = read_real(write_real(Netlist(names, tuple(gates), {})))
    expected = permutation(start.circuit())
    for version in (2, 3):
        text = write_qasm(start, version=version)
        assert read_by_mqt(start, text) == expected
        end = read_real(write_real(read_qasm(text)))
        assert sorted(end.names) == sorted(names)
        assert named(end) == named(start)


@pytest.mark.parametrize("seed", range(4))
def test_constants_and_loops(seed: int) -> None:
    """Loops and constants in OpenQASM 3 mean the gates that MQT Core finds in the text that is written out."""
    rng = random.Random(seed)
    n = rng.randint(4, 6)
    text = (
        f'OPENQASM 3.0; include "stdgates.inc"; const int n = {n}; qubit[n] q; '
        "for int i in [0:n - 2] { cx q[i], q[i + 1]; for int j in {1, 2} negctrl @ x q[(i + j + 1) % n], q[i]; } "
        f"ctrl({rng.randint(1, 3)}) @ x q[0], q[1], q[2], q[3];".replace(
            "ctrl(1) @ x q[0], q[1], q[2]", "cx q[2]"
        ).replace("ctrl(2) @ x q[0], q[1]", "ccx q[1]")
    )
    net = read_qasm(text)
    assert len(net.gates) == 3 * (n - 1) + 1
    assert read_by_mqt(net) == permutation(net.circuit())


def named(net: Netlist) -> list[tuple[tuple[str, ...], ...]]:
    return [tuple(tuple(net.names[i] for i in side) for side in gate) for gate in net.gates]
