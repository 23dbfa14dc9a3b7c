"""OpenQASM that is written here, read and turned into a unitary matrix by MQT Core: the same permutation."""

from __future__ import annotations

import random
import re

import pytest
from retrograd.hdl.reversible.circuit import Gate, permutation
from retrograd.hdl.reversible.formats import Netlist, netlist, read_qasm, read_real, write_qasm, write_real
from retrograd.hdl.reversible.lowering import lower
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
    first = {name: register.start for name, register in circuit.qregs.items()}
    places = []
    for name in net.names:
        if name in first:
            places.append(first[name])
            continue
        word, _, number = name.rpartition("_")
        places.append(first[word if word in first else f"q_{word}"] + int(number))
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
    """`.real` to OpenQASM 3 and 2, and back: the same gates on lines of the same names, and the same permutation by
    MQT Core at each station."""
    rng = random.Random(seed)
    names = rng.choice(
        (("a_0", "a_1", "carry", "q", "n_0"), ("d_0", "d_1", "d_2", "x_0", "x_1"), ("b", "a", "e", "f", "g"))
    )
    gates = []
    for _ in range(12):
        lines = rng.sample(range(5), rng.randint(1, 3))
        targets = 2 if len(lines) > 1 and rng.random() < 0.3 else 1
        gates.append(Gate(tuple(lines[targets:]), tuple(lines[:targets])))
    start = read_real(write_real(Netlist(names, tuple(gates), {})))
    third = write_qasm(start)
    expected = permutation(start.circuit())
    assert read_by_mqt(start, third) == expected
    end = read_real(write_real(read_qasm(third)))
    assert sorted(end.names) == sorted(names)
    assert named(end) == named(start)
    if "carry" not in names and "b" not in names:
        second = (
            re.sub(r"qubit\[(\d+)\] (\w+);", r"qreg \2[\1];", third).replace("3.0", "2.0").replace("stdgates", "qelib1")
        )
        assert read_by_mqt(start, second) == expected
        assert named(read_qasm(second)) == named(start)


def named(net: Netlist) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(tuple(net.names[i] for i in c), tuple(net.names[i] for i in t)) for c, t, _ in net.gates]
