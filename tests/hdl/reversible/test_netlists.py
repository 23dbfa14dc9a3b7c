"""Files of netlists: written and read again, refused where they are malformed, compared by a solver. RevLib's functions."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.hdl.reversible import formats, openqasm
from retrograd.hdl.reversible.circuit import Circuit, Gate, count, permutation, transposed
from retrograd.hdl.reversible.formats import Netlist, netlist, read_real, write_real
from retrograd.hdl.reversible.irreversible import network_of
from retrograd.hdl.reversible.lowering import lower
from retrograd.hdl.reversible.openqasm import read_qasm, write_qasm
from retrograd.hdl.reversible.verification import difference
from retrograd.isa.diagnostics import InputError
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.energy.netlists import ReversibleShape

W = Format(4, 2)
#: with exchanges, controls in numbers, and a word that leaves on other lines
OPCODES = ("mov.add", "fmul.add", "shl.xor", "seq.add", "swap", "fdiv.sub")


def same(x: Netlist, y: Netlist) -> None:
    """Equal up to the order of the lines."""
    assert sorted(x.names) == sorted(y.names)
    assert {x.names[i]: bit for i, bit in x.constants.items()} == {y.names[i]: bit for i, bit in y.constants.items()}

    def gates(net: Netlist) -> list[tuple[list[str], list[str]]]:
        return [([net.names[q] for q in gate.controls], [net.names[q] for q in gate.targets]) for gate in net.gates]

    assert gates(x) == gates(y)


@pytest.mark.parametrize("name", [name for name in OPCODES if name in TABLE.by_name])
def test_written_and_read(name: str) -> None:
    net = netlist(lower(TABLE[name], W))
    assert read_real(write_real(net)) == net
    same(read_qasm(write_qasm(net, reset=True)), net)
    bare = write_qasm(net)
    assert "reset" not in bare
    same(read_qasm(bare), Netlist(net.names, net.gates, {}))


def test_peres_and_negative_controls() -> None:
    text = ".version 1.0\n.numvars 3\n.variables a b c\n.begin\np3 a b c # Peres\nt2 -a b\nf3 a b c\n.end\n"
    cnot, negative = Gate((0,), (1,)), Gate((0,), (1,), (0,))
    assert read_real(text).gates == (Gate((0, 1), (2,)), cnot, negative, Gate((0,), (1, 2)))
    formats = "OPENQASM 3.0; qubit[3] q; negctrl @ x q[0], q[1]; ctrl(2) @ x q[0], q[1], q[2];"
    assert read_qasm(formats).gates == (negative, Gate((0, 1), (2,)))


@st.composite
def signed_gates(draw: st.DrawFn, lines: int = 5) -> tuple[Gate, ...]:
    """Gates of all kinds, with controls of both signs."""
    found = []
    for order, size, targets, signs in draw(
        st.lists(
            st.tuples(st.permutations(range(lines)), st.integers(1, lines), st.integers(1, 2), st.integers(0, 31)),
            min_size=1,
            max_size=8,
        )
    ):
        chosen = tuple(order[: max(size, targets)])
        controls = chosen[targets:]
        found.append(Gate(controls, chosen[:targets], tuple(c for c in controls if signs >> c & 1)))
    return tuple(found)


def between_inverters(gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
    """The same function: X on each negative control, before and behind the gate."""
    out: list[Gate] = []
    for controls, targets, negative in gates:
        flips = [Gate((), (line,)) for line in negative]
        out += [*flips, Gate(controls, targets), *flips]
    return tuple(out)


@given(signed_gates())
def test_negative_controls_are_inverters_on_both_sides(gates: tuple[Gate, ...]) -> None:
    """In the simulation, in the proof, in the irreversible netlist and in both formats. The inverse has the gates in
    reverse order."""
    word = tuple(range(5))
    circuit, plain = (Circuit(5, g, {"w": word}, {"w": word}) for g in (gates, between_inverters(gates)))
    images = permutation(circuit)
    assert images == permutation(plain)
    back = permutation(circuit.inverse())
    assert [back[image] for image in images] == [*range(32)]
    net, other = (Netlist(tuple("abcde"), c.gates, {}) for c in (circuit, plain))
    assert read_real(write_real(net)) == net
    assert read_qasm(write_qasm(net)) == net
    assert difference(net, other) is None
    found = network_of(circuit, ["w"]).run({"w": transposed(range(32), 5)}, (1 << 32) - 1)["w"]
    assert transposed(found, 32) == images
    counts = count(circuit)
    assert (counts.gates, counts.t) == (len(gates), count(plain).t)
    positive = tuple(gate._replace(negative=()) for gate in gates)
    shapes = [ReversibleShape(5, g, frozenset(word), frozenset(word)) for g in (gates, positive)]
    assert shapes[0].timed({"Toffoli": 5}, peres=True) == shapes[1].timed({"Toffoli": 5}, peres=True)


def test_a_control_of_the_other_sign_is_another_function() -> None:
    first, second = (Netlist(("a", "b", "c"), (Gate((0, 1), (2,), low),), {}) for low in ((1,), (0, 1)))
    assert difference(first, second) is not None
    with pytest.raises(ValueError, match="negative"):
        Circuit(2, (Gate((0,), (1,), (1,)),))


@pytest.mark.parametrize("controls", range(1, 7))
def test_quantum_cost_of_negative_controls(controls: int) -> None:
    """The table's, beside a positive control; without one, the cost of the gate and of the X gates which make a control
    positive."""
    lines = tuple(range(controls))
    for width in range(controls + 1, 2 * controls + 2):
        costs = [
            count(Circuit(width, (Gate(lines, (controls,), lines[:low]),))).quantum_cost for low in range(controls + 1)
        ]
        assert costs[1:-1] == costs[:1] * (controls - 1)
        assert costs[-1] == costs[0] + min(controls, 2)


def test_the_order_of_a_header_means_nothing() -> None:
    lines = [".numvars 3", ".variables a b c", ".constants -0-", ".garbage ---", ".define s x y\nt2 x y\n.enddefine"]
    for order in itertools.permutations(lines):
        net = read_real("\n".join([".version 2.0", *order, ".begin", "s b c", ".end"]))
        assert net == Netlist(("a", "b", "c"), (Gate((1,), (2,)),), {1: 0})


def test_inverse_peres() -> None:
    """With and without its number of lines; the inverse of `p3`, for each first control."""
    head = ".numvars 3\n.variables a b c\n.begin\n"
    for control in ("a", "-a"):
        for name in ("pi3", "pi", "PI3"):
            there, back = (read_real(f"{head}{gate} {control} b c\n.end\n").gates for gate in ("p3", name))
            assert back == there[::-1]


@given(st.lists(st.tuples(st.integers(0, 3), st.permutations(range(4))), min_size=1, max_size=8), st.randoms())
def test_definitions_stand_for_their_gates(pieces: list[tuple[int, list[int]]], rng: random.Random) -> None:
    """A definition of definitions, on any lines, has the gates of the text in which it is written out."""
    kinds = ("t1", "t2", "f3", "p3")
    names = "abcd"

    def gate(kind: int, order: list[int], lines: str) -> str:
        return f"{kinds[kind]} {' '.join(lines[i] for i in order[: int(kinds[kind][1])])}"

    inner = [gate(kind, order, "wxyz") for kind, order in pieces]
    order = rng.sample(range(4), 4)
    text = ["one w x y z", *inner], ["two p q r s", f"one {' '.join('pqrs'[i] for i in order)}", "t1 q"]
    definitions = "".join(f".define {head}\n{chr(10).join(body)}\n.enddefine\n" for head, *body in text)
    turned = rng.sample(names, 4)
    whole = f".version 2.0\n.numvars 4\n.variables a b c d\n{definitions}.begin\ntwo {' '.join(turned)}\n.end\n"
    lines = "".join(turned[i] for i in order)
    plain = "\n".join(
        [
            ".numvars 4",
            ".variables a b c d",
            ".begin",
            *(gate(k, o, lines) for k, o in pieces),
            f"t1 {turned[1]}",
            ".end",
        ]
    )
    assert read_real(whole) == read_real(plain)


def test_definitions_that_grow_without_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stands for twice the gates of the one before."""
    assert formats._MOST_EXPANDED <= 1 << 20
    monkeypatch.setattr(formats, "_MOST_EXPANDED", 1000)
    text = [".version 2.0", ".numvars 1", ".variables a", ".define g0 a", "t1 a", ".enddefine"]
    for k in range(1, 60):
        text += [f".define g{k} a", f"g{k - 1} a", f"g{k - 1} a", ".enddefine"]
    with pytest.raises(InputError, match=r"RG1401.*more than"):
        read_real("\n".join([*text, ".begin", "g59 a", ".end"]))


@pytest.mark.parametrize("key", [".module", ".state", ".definition", ".numvar"])
def test_a_word_is_not_suggested_for_itself(key: str) -> None:
    with pytest.raises(InputError, match=rf"`{key}` is not read") as refused:
        read_real(f".version 2.0\n{key} 3\n")
    assert f"did you mean `{key}`" not in str(refused.value)


def test_openqasm_2() -> None:
    """The same gates on the same lines as the text of OpenQASM 3."""
    gates = "x q[2]; ccx q[0], q[1], q[2]; cx r[1], q[0]; swap q[1], r[0]; cswap q[0], q[1], q[2];"
    old = f'OPENQASM 2.0; include "qelib1.inc"; qreg q[3]; qreg r[2]; {gates}'
    assert read_qasm(old) == read_qasm(f'OPENQASM 3.0; include "stdgates.inc"; qubit[3] q; qubit[2] r; {gates}')


def test_a_register_stands_for_each_of_its_bits() -> None:
    """Beside a register of its size, and beside a bit, which all its bits share."""
    head = "OPENQASM 3.0; qubit[3] q; qubit[3] r; qubit c; gate g a, b { cx a, b; x a; } "
    for gate in (
        "x {}",
        "cx {}, {}",
        "ctrl @ x {}, {}",
        "negctrl @ cx {}, {}, {}",
        "g {}, {}",
        "ctrl @ g {}, {}, {}",
        "ccx {}, {}, {}",
    ):
        operands = ("q", "r", "c")[: gate.count("{}")]
        each = " ".join(f"{gate.format(*(o if o == 'c' else f'{o}[{k}]' for o in operands))};" for k in range(3))
        assert read_qasm(f"{head}{gate.format(*operands)};") == read_qasm(head + each), gate


@given(
    st.lists(
        st.tuples(st.sampled_from(["x", "cx", "ccx", "swap", "cswap", "negctrl @ x"]), st.permutations(range(3))),
        min_size=1,
        max_size=6,
    ),
    st.permutations(range(4)),
    st.booleans(),
)
def test_gates_that_a_text_defines(pieces: list[tuple[str, list[int]]], order: list[int], negative: bool) -> None:
    """A gate of gates is the gates that it stands for, and under a control each of them is controlled."""
    sizes = {"x": 1, "cx": 2, "ccx": 3, "swap": 2, "cswap": 3, "negctrl @ x": 2}
    body = " ".join(f"{name} {', '.join('abc'[i] for i in wires[: sizes[name]])};" for name, wires in pieces)
    lines = ", ".join(f"q[{i}]" for i in order)
    control = "negctrl @" if negative else "ctrl @"
    defined = f"gate one a, b, c {{ {body} }} gate two a, b, c {{ one c, a, b; x a; }} {control} two {lines};"
    a, b, c = (f"q[{order[i]}]" for i in (3, 1, 2))
    plain = [
        *((name, [(a, b, c)[i] for i in wires[: sizes[name]]]) for name, wires in pieces),
        ("x", [f"q[{order[1]}]"]),
    ]
    flip = f"x q[{order[0]}];" if negative else ""
    written = " ".join(f"ctrl @ {name} q[{order[0]}], {', '.join(wires)};" for name, wires in plain)
    found, expected = (read_qasm(f"OPENQASM 3.0; qubit[4] q; {text}") for text in (defined, f"{flip} {written} {flip}"))
    assert permutation(found.circuit()) == permutation(expected.circuit())


def test_defined_gates_that_grow_without_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stands for twice the gates of the one before; and a register for a gate of each bit."""
    monkeypatch.setattr(openqasm, "_MOST_GATES", 1000)
    text = "gate g0 a { x a; } " + " ".join(f"gate g{k} a {{ g{k - 1} a; g{k - 1} a; }}" for k in range(1, 60))
    for rest in (text + " qubit q; g59 q;", "qubit[600] q; x q; x q;"):
        with pytest.raises(InputError, match=r"RG1401.*more than"):
            read_qasm(f"OPENQASM 3.0; {rest}")


HEAD = ".version 2.0\n.numvars 2\n.variables a b\n"
MALFORMED_REAL = [
    "", ".version 3.0\n", ".numvars 99999999\n", ".numvars 3\n.variables a b\n", HEAD + "t2 a b\n", HEAD + ".begin\nt2 a b\n",
    HEAD + ".begin\nt3 a b\n.end\n", HEAD + ".begin\nt2 a a\n.end\n", HEAD + ".begin\nv2 a b\n.end\n", HEAD + ".begin\nt2 a c\n.end\n",
    HEAD + ".constants -\n.begin\n.end\n", HEAD + ".begin\n.end\nt2 a b\n", ".begin\n.end\n", HEAD + ".begin\nt2 a -b\n.end\n",
    ".numvars 2\n.variables a a\n.begin\n.end", HEAD + ".define f\n", HEAD + ".define f a a\n", HEAD + ".define t2 a b\n", HEAD + ".define f a\n.begin\n", HEAD + ".define f a\nt1 a\n",
    HEAD + ".define s a\nt1 a\n.enddefine\n.define s a\n", HEAD + ".define s a\nt1 b\n.enddefine\n", HEAD + ".define s a\ns a\n.enddefine\n",
    HEAD + ".define s a\nt1 a\n.enddefine\n.begin\ns a b\n.end\n", HEAD + ".define s a b\nt1 a\n.enddefine\n.begin\ns a a\n.end\n",
    HEAD + ".define s a b\nt1 a\n.enddefine\n.begin\ns -a b\n.end\n", HEAD + ".enddefine\n", HEAD + ".begin\n.define s a\n.enddefine\n.end\n",
    ".constants -0-\n" + HEAD, ".variables a b c\n.numvars 2\n", HEAD + ".begin\npi2 a b\n.end\n", ".version 2.0\n.variables\n", HEAD + ".begin\nt0\n.end\n", HEAD + ".begin\nt\n.end\n",
]  # fmt: skip
QASM = "OPENQASM 3.0; qubit[2] q; "
MALFORMED_QASM = [
    "", "OPENQASM 2.0;", "OPENQASM 3.0;", QASM + "h q[0];", QASM + "cx q[0], q[0];", QASM + "x q[2];", QASM + "x r[0];", QASM + "cx q, q;", QASM + "qubit[3] r; cx q, r;", QASM + "cx q, q[0];",
    QASM + "gate g a, a { x a; }", QASM + "gate g { }", QASM + "gate x a { }", QASM + "gate g(t) a { x a; }", QASM + "gate g a { x b; }",
    QASM + "gate g a { x a }", QASM + "gate g a { x a;", QASM + "gate g a { reset a; }", QASM + "gate g a { x a[0]; }", QASM + "gate g a { g a; }",
    QASM + "gate g a { x a; } gate g a { x a; }", QASM + "gate g a, b { cx a, b; } g q[0];", QASM + "gate g a { x q[0]; }", QASM + "gate g a { ctrl(2) @ x a; }",
    "OPENQASM 2.0; qreg q;", "OPENQASM 2.0; qreg q[0];", 'OPENQASM 2.0; include "stdgates.inc"; qreg q[1];', "OPENQASM 2.0; qreg q[1]; h q[0];",
    QASM + "barrier r;", QASM + "barrier q[0] q[1];", QASM + "gate g a { barrier q; }",
    QASM + "cx q[0];", QASM + "x q[0]", QASM + "ctrl(9999999) @ x q[0];", QASM + "qubit q;", QASM + "x q[0]; reset q[0];",
    'OPENQASM 3.0; include "/etc/passwd";', "OPENQASM 3.0; qubit[0] q;", "OPENQASM 3.0; qubit[99999999] q;", QASM + "x q[99999999999];", QASM + "x q[٣];",
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED_REAL)
def test_malformed_real(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_real(text, "f.real")
    (found,) = caught.value.diagnostics
    assert found.code == "RG1401"
    assert found.span is not None


@pytest.mark.parametrize("text", MALFORMED_QASM)
def test_malformed_qasm(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_qasm(text, "f.qasm")
    (found,) = caught.value.diagnostics
    assert found.code == "RG1401"
    assert found.span is not None


def mutated(text: str, rng: random.Random) -> str:
    """A text with a few characters or words exchanged, doubled or left out."""
    words = text.split(" ")
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(4):
            case 0:
                words[i] = words[j]
            case 1:
                del words[i]
                words = words or [""]
            case 2:
                words[i] = (
                    words[i][: len(words[i]) // 2] + rng.choice(".-;[]{}@#\n\0é٣9") + words[i][len(words[i]) // 2 :]
                )
            case _:
                words.insert(
                    i,
                    rng.choice(
                        ("t99 a", "ctrl(99) @", "-a", ".end", "9" * 30, ";", "qubit[7] x;", ".constants", "\x1b[31m")
                    ),
                )
    return " ".join(words)


@pytest.mark.parametrize("read", [read_real, read_qasm])
def test_hostile_files(read: Callable[[str, str], Netlist]) -> None:
    """Of 200 texts, each is read or refused with our own diagnostic at a place; at least 100 are refused."""
    write = write_real if read is read_real else write_qasm
    good = write(netlist(lower(TABLE["fmul.add"], W)))
    good = "\n".join(good.splitlines()[:40] + ([".end"] if read is read_real else [])) + "\n"
    rng, refused = random.Random(11), 0
    for _ in range(200):
        text, errors = mutated(good, rng), []
        try:
            found = read(text, "hostile")
            assert found.circuit().lines == len(found.names)
        except InputError as error:
            errors += error.diagnostics
        refused += len(errors)
        assert all(d.code == "RG1401" and d.span is not None for d in errors)
    assert refused >= 100


@pytest.mark.parametrize("seed", range(12))
def test_equivalence_is_that_of_all_inputs(seed: int) -> None:
    """Netlists that differ by gates and their inverses, or by one gate; with constants and negative controls."""
    rng = random.Random(seed)

    def some(number: int) -> list[Gate]:
        picked = [(rng.randint(1, 2), rng.sample(range(5), rng.randint(2, 5))) for _ in range(number)]
        low = [tuple(line for line in lines[n:] if rng.random() < 0.4) for n, lines in picked]
        return [Gate((*lines[n:],), (*lines[:n],), lows) for (n, lines), lows in zip(picked, low, strict=True)]

    for _ in range(10):
        gates, more, at = some(6), some(2), rng.randint(0, 6)
        constants = {line: rng.randint(0, 1) for line in range(5) if rng.random() < 0.3}
        others = gates[:at] + more + more[::-1] + gates[at:], gates[:at] + more[:1] + gates[at:]
        inputs = [x for x in range(32) if all(x >> line & 1 == bit for line, bit in constants.items())]
        first, *rest = (Netlist(tuple("abcde"), tuple(g), constants) for g in (gates, *others))
        images = permutation(first.circuit())
        for other in rest:
            found, ends = difference(first, other), permutation(other.circuit())
            assert (found is None) == all(images[x] == ends[x] for x in inputs)
            assert found is None or ran(first, found) != ran(other, found)


def test_the_time_of_the_solver_includes_reading() -> None:
    net = Netlist(("a", "b", "c"), (Gate((0, 1), (2,)),) * 300, {})
    assert difference(net, net) is None
    with pytest.raises(InputError, match="RG1403"):
        difference(net, net, -1)


@pytest.mark.long
def test_equivalence() -> None:
    bennett, eager, garbage = (
        netlist(lower(TABLE["fmul.add"], W, strategy=s)) for s in ("bennett", "eager", "garbage")
    )  # fmt: skip
    assert difference(bennett, eager) is None
    # Ancillas that both have are compared by name: garbage differs from 0.
    assert difference(bennett, garbage) is not None
    for i in range(0, len(bennett.gates), 40):
        wrong = Netlist(bennett.names, bennett.gates[:i] + bennett.gates[i + 1 :], bennett.constants)
        found = difference(bennett, wrong)
        if found is None:
            continue
        ends = [ran(net, found) for net in (bennett, wrong)]
        assert ends[0] != ends[1]


def ran(net: Netlist, bits: dict[str, int]) -> dict[str, int]:
    state = [net.constants.get(i, bits.get(name, 0)) for i, name in enumerate(net.names)]
    word = sum(bit << i for i, bit in enumerate(state))
    end = net.circuit().run({"lines": word})["lines"]
    return {name: end >> i & 1 for i, name in enumerate(net.names)}


def test_other_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="RG1401"):
        difference(Netlist(("a",), (), {}), Netlist(("b",), (), {}))


def test_a_header_is_not_believed() -> None:
    """A constant that ends as another bit makes a difference, though its header calls it garbage."""
    plain = read_real(".numvars 1\n.variables a\n.begin\n.end\n")
    dirty = read_real(".numvars 2\n.variables a z\n.constants -0\n.garbage -1\n.begin\nt2 a z\n.end\n")
    assert difference(plain, dirty) == {"a": 1}


#: gates of three lines: X, CNOT and Toffoli
THREE = [
    Gate(controls, (target,))
    for target in range(3)
    for n in range(3)
    for controls in itertools.combinations([q for q in range(3) if q != target], n)
]

#: 3_17 of RevLib, from its published truth table
THREE_17 = read_real(
    """.version 2.0
.numvars 3
.variables a b c
.begin
t1 a
t2 c a
t2 a b
t3 a b c
t2 b a
t3 b c a
.end
"""
)


def test_all_functions_of_three_bits() -> None:
    """How many have each optimal number of gates. (V. Shende, A. Prasad, I. Markov, J. Hayes, Synthesis of reversible logic circuits, 2003.)"""
    moves = [tuple(permutation(Circuit(3, (gate,)))) for gate in THREE]
    identity = tuple(range(8))
    size, frontier = {identity: 0}, [identity]
    while frontier:
        reached = []
        for f in frontier:
            for move in moves:
                g = tuple(move[x] for x in f)
                if g not in size:
                    size[g] = size[f] + 1
                    reached.append(g)
        frontier = reached
    sizes = Counter(size.values())
    assert [sizes[n] for n in range(9)] == [1, 12, 102, 625, 2780, 8921, 17049, 10253, 577]
    assert size[7, 0, 1, 3, 4, 2, 6, 5] == 6
    assert tuple(permutation(THREE_17.circuit())) == (7, 0, 1, 3, 4, 2, 6, 5)
    counts = count(THREE_17.circuit())
    assert (counts.gates, counts.quantum_cost) == (6, 14)


#: size of a gate -> (spare lines, cost): Maslov's table of reversible benchmarks, which RevLib uses
MASLOV = {
    1: [(0, 1)], 2: [(0, 1)], 3: [(0, 5)], 4: [(0, 13)], 5: [(0, 29), (2, 26)], 6: [(0, 61), (1, 52), (3, 38)],
    7: [(0, 125), (1, 80), (4, 50)], 8: [(0, 253), (1, 100), (5, 62)], 9: [(0, 509), (1, 128), (6, 74)],
    10: [(0, 1021), (1, 152), (7, 86)], 12: [(0, 4093), (1, 200), (9, 110)], 20: [(0, 2**20 - 3), (1, 392), (17, 206)],
}  # fmt: skip


@pytest.mark.parametrize("size", MASLOV)
def test_quantum_cost(size: int) -> None:
    """The least cost of the rows whose size and spare lines the netlist has room for; an exchange costs two CNOT
    gates more."""
    gate, exchange = Gate(tuple(range(size - 1)), (size - 1,)), Gate(tuple(range(size - 2)), (size - 2, size - 1))
    for width in range(size, 2 * size + 2):
        expected = min(cost for spare, cost in MASLOV[size] if size + spare <= width)
        assert count(Circuit(width, (gate,), {}, {})).quantum_cost == expected
        if size > 1:
            assert count(Circuit(width, (exchange,), {}, {})).quantum_cost == expected + 2


NAMED = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "x",
            "q_x",
            "q_q_x",
            "a_0",
            "a_1",
            "a_3",
            "cx_0",
            "q_cx_0",
            "carry_in",
            "q_b",
            "z_0",
            "_",
            "1",
            "Sum",
            "q_Sum",
            "for",
        ]
    )
    | st.text("aBqx_019.[]'-é𝟘", min_size=1, max_size=6).filter(lambda name: name[0] != "-"),
    min_size=2,
    max_size=8,
    unique=True,
)


@pytest.mark.parametrize("version", [2, 3])
@given(names=NAMED)
def test_names_survive(version: int, names: list[str]) -> None:
    net = Netlist(tuple(names), (Gate((0,), (1,)),), {})
    text = write_qasm(net, version=version)
    again = read_qasm(text)
    assert sorted(again.names) == sorted(names)
    (gate,) = again.gates
    assert [again.names[line] for line in gate.controls + gate.targets] == names[:2]
    registers = re.findall(r"(?:qreg|qubit)\S* (\w+)", text)
    assert len(registers) == len({*registers})
    assert all(re.fullmatch("[a-z][A-Za-z0-9_]*" if version == 2 else "[A-Za-z_][A-Za-z0-9_]*", r) for r in registers)


@given(signed_gates())
def test_openqasm_2_has_the_same_gates(gates: tuple[Gate, ...]) -> None:
    """Gates with negative controls are defined by X gates, and read as one gate; exchanges with two controls or more
    as three."""
    net = Netlist((*"abcd", "x_pn"), gates, {})
    again = read_qasm(write_qasm(net, version=2))
    assert permutation(again.circuit()) == permutation(net.circuit())
    if all(len(gate.controls) < 3 - len(gate.targets) + 2 * (len(gate.targets) == 1) for gate in gates):
        assert again.gates == gates


def test_openqasm_2_has_no_gate_of_five_controls() -> None:
    for gate in (Gate((0, 1, 2, 3, 4), (5,)), Gate((0, 1, 2, 3), (4, 5))):
        with pytest.raises(InputError, match=r"RG1408.*OpenQASM 2 has gates of 4 at most"):
            write_qasm(Netlist(tuple("abcdef"), (gate,), {}), version=2)


def test_a_constant_of_one_netlist_is_a_constant_of_both() -> None:
    """An ancilla without `reset` is compared as a constant; two constants that differ are refused."""
    made = netlist(lower(TABLE["fmul.add"], W))
    assert made.constants
    assert difference(made, read_qasm(write_qasm(made))) is None
    ones = Netlist(("a", "z"), (Gate((0,), (1,)),), {1: 1})
    assert read_qasm(write_qasm(ones)).constants == {1: 0}
    with pytest.raises(InputError, match="begins as 0 in one"):
        difference(ones, Netlist(("a", "z"), (), {1: 0}))


def qasm(text: str) -> tuple[Gate, ...]:
    return read_qasm(f"OPENQASM 3.0; {text}").gates


def test_constants_and_loops() -> None:
    """The gates of the text that is written out."""
    for text, plain in (
        ("const int n = 3; qubit[n] q; for int i in [0:n - 1] { x q[i]; }", "x q[0]; x q[1]; x q[2];"),
        (
            "const uint[8] n = 2 ** 3 - 5; qubit[n] q; for uint i in [n - 1:-1:1] cx q[i], q[i - 1];",
            "cx q[2], q[1]; cx q[1], q[0];",
        ),
        (
            "qubit[3] q; for int i in {2, 0} { for int j in [i:1] { x q[j]; } x q[i]; }",
            "x q[2]; x q[0]; x q[1]; x q[0];",
        ),
        (
            "qubit[3] q; for int i in [0:1] { const int k = (i + 1) % 2; cx q[k], q[2]; }",
            "cx q[1], q[2]; cx q[0], q[2];",
        ),
        (
            "qubit[3] q; gate g a, b { for int i in [1:3] cx a, b; } g q[0], q[1];",
            "cx q[0], q[1]; cx q[0], q[1]; cx q[0], q[1];",
        ),
        (
            "const int n = 2; qubit[3] q; ctrl(n) @ x q[0], q[1], q[2]; pow(n) @ x q[-1];",
            "ccx q[0], q[1], q[2]; x q[2]; x q[2];",
        ),
        (
            "qubit[3] q; for int i in [1:0] for int j in {1} { x q; } x q[0:2:2]; cx q[0], q[1:2];",
            "x q[0]; x q[2]; cx q[0], q[1]; cx q[0], q[2];",
        ),
        ("qubit[3] q; gate g a { barrier a; x a; } barrier; g q[1]; barrier q[0:1], q[2]; barrier q;", "x q[1];"),
    ):
        assert qasm(text) == qasm(f"qubit[3] q; {plain}"), text


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("1 << 4 | 3 ^ 1 & 5", 18),
        ("10 - 3 - 2", 5),
        ("2 * (3 + 4)", 14),
        ("100 >> 3", 12),
        ("2 + 3 * 4 - -1", 15),
    ],
)
def test_values_of_constants(expression: str, value: int) -> None:
    """As C computes them, from the left; powers from the right, before a sign."""
    assert len(qasm(f"qubit q; const int[64] n = {expression}; for int i in [{value}:n] x q;")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "const n = 3;",
        "const float n = 3;",
        "const int n = 3; const int n = 4;",
        "const int q = 3;",
        "const uint n = 0 - 1;",
        "const int[4] n = 8;",
        "const int n = 1 / 0;",
        "const int n = 9 ** 63;",
        "const int n = 1 << 64;",
        "const int n = m;",
        "const int n = 1.5;",
        "const int[65] n = 1;",
        "for i in [0:1] x q[i];",
        "for int i in [0:0:1] x q[i];",
        "for int i in [0:2] x q[i];",
        "for int i in [0:1] { x q[i];",
        "for int i in [0] x q[i];",
        "for int q in [0:1] x q;",
        "for int i in [0:1] { qubit r; }",
        "for int i in [0:9999999] {}",
        "for int i in [0:300] for int j in [0:1000] {}",
        "for int i in [0:9999] { " + "x q[0]; " * 20 + "}",
        "for int[64] i in [-9223372036854775807:9223372036854775807] {}",
        "for int i in {0, 1 x q[0];",
        "for int i in [1:0] { x q[0];",
        "x q[1:0];",
        "for int x in [0:1] {}",
        "const int n = " + "(" * 100 + "1" + ")" * 100 + ";",
        "for int i in [0:1] " * 70 + "x q[0];",
        "for uint i in [-1:1] {}",
        "x q[-3];",
        "ctrl(0) @ x q[0];",
        "const int n = 1; qubit n;",
        "pow(4000000000) @ x q[0];",
        "for int i in [1:0] for",
        "gate for a { }",
    ],
)
def test_malformed_loops(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_qasm(f"OPENQASM 3.0; qubit[2] q; {text}", "f.qasm")
    (found,) = caught.value.diagnostics
    assert found.code == "RG1401"
    assert found.span is not None


def test_openqasm_2_has_no_loops() -> None:
    with pytest.raises(InputError, match="OpenQASM 2 has no loops"):
        read_qasm("OPENQASM 2.0; qreg q[2]; for int i in [0:1] { x q[i]; }")


def test_inverses_and_powers() -> None:
    head = "OPENQASM 3.0; gate g a, b, c { cx a, b; ccx a, b, c; x a; } qubit[4] q; "
    cnot, toffoli, x = Gate((0,), (1,)), Gate((0, 1), (2,)), Gate((), (0,))
    made = (cnot, toffoli, x)
    for text, expected in (
        ("g", made), ("inv @ g", made[::-1]), ("pow(2) @ g", made * 2), ("pow(-1) @ g", made[::-1]), ("inv @ pow(-3) @ g", made * 3),
        ("pow(0) @ g", ()),
    ):  # fmt: skip
        assert read_qasm(f"{head}{text} q[0], q[1], q[2];").gates == expected
    (controlled, *_) = read_qasm(f"{head}ctrl @ inv @ g q[3], q[0], q[1], q[2];").gates
    assert controlled == Gate((3,), (0,))
    assert read_qasm(f"{head}pow(4/2) @ g q[0], q[1], q[2];").gates == made * 2
    # A power of 1/2 is a root, as in `sx`, and no power of 0.
    roots = "pow(1/2) @ g", "const int n = 3; pow((n - 1) / 4) @ g", "pow(-1/2) @ g"
    for wrong in ("pow(1.5) @ g", "pow(9999999) @ g", "pow @ g", "inv g", *roots):
        with pytest.raises(InputError, match="RG1401"):
            read_qasm(f"{head}{wrong} q[0], q[1], q[2];")
    with pytest.raises(InputError, match="two lines are called"):
        read_qasm("OPENQASM 3.0; qubit a_0; qubit[2] a; x a_0;")
