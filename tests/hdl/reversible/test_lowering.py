"""Every instruction as a reversible netlist: words, ancillas at 0, and the inverse, against the trees of the table."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from retrograd.hdl.reversible.builder import TRUE, Builder
from retrograd.hdl.reversible.circuit import Circuit, count
from retrograd.hdl.reversible.lowering import EffectLowering, Strategy, lower, lower_operation, places_of
from retrograd.hdl.reversible.verification import disagreement
from retrograd.isa.derivatives import NoDerivative, lift
from retrograd.isa.diagnostics import InputError
from retrograd.isa.entries import Opcode
from retrograd.isa.expr import OPERATIONS, Expr, evaluate, nodes, place
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

OPCODES = [o for o in TABLE if o.name != "unerase"]
STRATEGIES: tuple[Strategy, ...] = ("bennett", "eager", "garbage")
#: opcode by opcode at 4 bits, all words
SMALL = [o for o in OPCODES if not o.name.startswith(("goto", "from", "call", "uncall", "start", "finish"))]


def samples(circuit: Circuit, w: Format, count: int) -> list[dict[str, int]]:
    """Words that are uniform, small, or at the ends of the range."""
    rng = random.Random(7)

    def word() -> int:
        x = rng.getrandbits(w.width)
        return rng.choice((0, 1, w.mask, w.sign, x, x >> rng.randrange(w.width), -rng.randint(0, 99) & w.mask))

    return [{name: word() for name in circuit.inputs} for _ in range(count)]


def all_words(circuit: Circuit, w: Format) -> list[dict[str, int]]:
    names = list(circuit.inputs)
    return [dict(zip(names, words, strict=True)) for words in itertools.product(range(w.mask + 1), repeat=len(names))]


@pytest.mark.parametrize(
    ("strategy", "share"),
    [
        ("bennett", 1),
        *((s, 5) for s in STRATEGIES[1:]),
        *(pytest.param(s, 1, marks=pytest.mark.long) for s in STRATEGIES[1:]),
    ],
)
def test_every_instruction_at_8_bits(strategy: Strategy, share: int) -> None:
    w = Format(8, 4)
    for opcode in OPCODES[::share]:
        circuit = lower(opcode, w, strategy=strategy, trap=True)
        assert disagreement(circuit, opcode, w, samples(circuit, w, 24)) is None, opcode.name
        assert bool(circuit.garbage) <= (strategy == "garbage" or opcode.name == "erase"), opcode.name


def controlled(opcode: Opcode, w: Format) -> Circuit:
    """The effects of an instruction under a control, the input `control` of one line."""
    b, effects = Builder(), opcode.effects(w)
    found = EffectLowering(b, w, "bennett")
    found.places = {name: b.inputs(w.width) for name in sorted(places_of(effects))}
    (found.control,) = b.inputs(1)
    given = {name: tuple(lines) for name, lines in found.places.items()} | {"control": (found.control,)}
    found.effects(effects)
    outputs = {name: tuple(lines) for name, lines in found.places.items()} | {"control": (found.control,)}
    garbage = ({q for word in given.values() for q in word} | b.taken).difference(*outputs.values())
    return Circuit(b.lines, tuple(b.gates), given, outputs, tuple(sorted(garbage)))


def test_an_instruction_under_a_control() -> None:
    """Control 1: the instruction. Control 0: no place changes."""
    w = Format(8, 4)
    for opcode in [*SMALL[::11], *(TABLE[name] for name in ("swap", "cswap", "neg", "rot", "erase"))]:
        circuit, plain = controlled(opcode, w), lower(opcode, w)
        for words in samples(plain, w, 12):
            assert circuit.run(words | {"control": 1}) == plain.run(words) | {"control": 1}, opcode.name
            assert circuit.run(words | {"control": 0}) == words | {"control": 0}, opcode.name


@pytest.mark.parametrize("name", ["mul", "div", "fmul", "fdiv", "shl", "sar", "slt", "sltu", "seq", "max", "fsqrt"])
def test_all_words_of_4_bits(name: str) -> None:
    w = Format(4, 2)
    opcode = TABLE[f"{name}.add"]
    circuit = lower(opcode, w, trap=True)
    assert disagreement(circuit, opcode, w, all_words(circuit, w)) is None


@pytest.mark.long
@pytest.mark.parametrize("opcode", SMALL, ids=lambda o: o.name)
def test_all_words_of_every_instruction_at_4_bits(opcode: Opcode) -> None:
    w = Format(4, 2)
    for strategy in STRATEGIES:
        circuit = lower(opcode, w, strategy=strategy, trap=True)
        assert disagreement(circuit, opcode, w, all_words(circuit, w)) is None


@pytest.mark.parametrize(
    ("operation", "scale"),
    [
        *(("mulshift", s) for s in range(9)), *(("mulround", s) for s in range(8)), *(("divshift", s) for s in range(-4, 5)),
        *(("divround", s) for s in range(-4, 4)), *(("sqrtround", s) for s in range(5)),
    ],
)  # fmt: skip
def test_every_scale_of_an_operation(operation: str, scale: int) -> None:
    """All words of 4 bits, also for scales that no instruction has."""
    w = Format(4, 2)
    names = ("a", "b")[: OPERATIONS[operation][0]]
    tree = Expr(operation, tuple(place(name) for name in names), scale)
    b = Builder()
    given = {name: tuple(b.inputs(4)) for name in names}
    found = tuple(lower_operation(b, w, tree, list(given.values())))
    # A constant bit of the result is no line.
    lines = {i: bit for i, bit in enumerate(found) if bit >= 0}
    circuit = Circuit(b.lines, tuple(b.gates), given, {"d": tuple(lines.values())}, tuple(range(b.lines)))
    for words in all_words(circuit, w):
        bits = circuit.run(words)["d"]
        result = sum(1 << i for i, bit in enumerate(found) if bit == TRUE)
        result += sum((bits >> n & 1) << i for n, i in enumerate(lines))
        assert result == evaluate(tree, w, words), words


#: the first opcode of every function, since the others differ in the update only
FUNCTIONS = [next(o for o in TABLE if o.entry is entry) for entry in dict.fromkeys(o.entry for o in TABLE if o.update)]


@pytest.mark.long
@pytest.mark.parametrize("opcode", FUNCTIONS, ids=lambda o: o.name)
def test_all_operands_of_8_bits(opcode: Opcode) -> None:
    """All words of the operands, and a word of d for each."""
    w = Format(8, 4)
    circuit = lower(opcode, w)
    runs = [
        {**run, "d": sum(run.values()) * 37 & 255}
        for run in all_words(replace(circuit, inputs={n: v for n, v in circuit.inputs.items() if n != "d"}), w)
    ]
    assert disagreement(circuit, opcode, w, runs) is None


@pytest.mark.parametrize("name", ["add", "sub", "xor"])
def test_64_bits(name: str) -> None:
    w = Format(64, 32)
    for function in ("mov", "mul", "fmul", "shr", "slt"):
        opcode = TABLE[f"{function}.{name}"]
        circuit = lower(opcode, w)
        assert disagreement(circuit, opcode, w, samples(circuit, w, 16)) is None


@pytest.mark.long
@pytest.mark.parametrize("opcode", FUNCTIONS, ids=lambda o: o.name)
def test_every_function_at_64_bits(opcode: Opcode) -> None:
    w = Format(64, 32)
    circuit = lower(opcode, w)
    assert disagreement(circuit, opcode, w, samples(circuit, w, 8)) is None


@pytest.mark.long
@pytest.mark.parametrize("name", ["div.add", "fdiv.add", "fsqrt.add", "fexp.add", "flog.add", "fsin.add", "rot"])
def test_long_functions_at_32_bits(name: str) -> None:
    w = Format(32, 16)
    circuit = lower(TABLE[name], w)
    assert disagreement(circuit, TABLE[name], w, samples(circuit, w, 64)) is None


@pytest.mark.long
def test_cotangents() -> None:
    w = Format(8, 4)
    lifted = 0
    for opcode in OPCODES:
        try:
            lift(opcode, w)
        except NoDerivative:
            continue
        if opcode.name in ("rot", "unrot"):
            continue  # as large as all others together
        circuit = lower(opcode, w, cotangents=True)
        assert disagreement(circuit, opcode, w, samples(circuit, w, 12), cotangents=True) is None, opcode.name
        lifted += 1
    assert lifted > 40


def test_a_wrong_netlist_is_found() -> None:
    """A gate that is left out makes a wrong word, an ancilla that is not 0, or a wrong trap line, unless its controls are never 1."""
    w = Format(4, 2)
    opcode = TABLE["fmul.add"]
    circuit = lower(opcode, w, trap=True)
    runs = samples(circuit, w, 300)
    found = [
        disagreement(replace(circuit, gates=circuit.gates[:i] + circuit.gates[i + 1 :]), opcode, w, runs)
        for i in range(0, len(circuit.gates), 5)
    ]
    assert sum(message is None for message in found) <= len(found) // 10


def test_strategies_trade_gates_for_lines() -> None:
    w = Format(8, 4)
    bennett, eager, garbage = (count(lower(TABLE["ladd.mul"], w, strategy=s)) for s in STRATEGIES)
    assert eager.ancillas < 0.9 * bennett.ancillas
    assert garbage.toffoli < bennett.toffoli < eager.toffoli
    assert garbage.garbage > 0 == bennett.garbage == eager.garbage


def test_ancillas_of_a_product() -> None:
    """At most half of the 1,362 ancillas of a netlist in which each intermediate bit has a line of its own."""
    found = count(lower(TABLE["fmul.add"], Format(16, 8)))
    assert found.ancillas <= 1362 // 2
    assert found.toffoli < 3790


def test_updates_are_exact() -> None:
    """A move is an adder in place: 2W − 2 Toffoli gates mod 2^W, no ancilla."""
    for width in (8, 16, 32):
        found = count(lower(TABLE["mov.add"], Format(width, width // 2)))
        assert (found.toffoli, found.ancillas, found.width) == (2 * width - 2, 0, 2 * width)


def test_an_erased_word_is_garbage() -> None:
    circuit = lower(TABLE["erase"], Format(8, 4))
    assert circuit.garbage == circuit.inputs["d"]
    with pytest.raises(InputError, match="RG1402"):
        lower(TABLE["unerase"], Format(8, 4))
    with pytest.raises(ValueError, match="bennett, eager"):
        lower(TABLE["mov.add"], Format(8, 4), strategy="pebbles")  # type: ignore[arg-type]


def provable(opcode: Opcode) -> bool:
    """Updates of registers without products, quotients, roots and tables, which a solver does not decide in reasonable time."""
    trees = opcode.transition(Format()).values()
    hard = {n.op for n in nodes(*trees)} & {"mulshift", "mulround", "divshift", "divround", "sqrtround", "table"}
    return opcode.update is not None and not hard


@pytest.mark.long
@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("name", [o.name for o in TABLE if provable(o)])
def test_proved(name: str, width: int) -> None:
    """For all words, by a solver: the circuit computes the transition of the table, and its ancillas end as 0."""
    import z3
    from retrograd.isa.smtlib import define

    w = Format(width, width // 2)
    opcode = TABLE[name]
    circuit = lower(opcode, w)
    (tree,) = opcode.transition(w).values()
    (where,) = opcode.transition(w)
    commands, (root,) = define([tree], w)
    solver = z3.Solver()
    solver.add(
        z3.parse_smt2_string(
            "\n".join([*commands, f"(declare-const result (_ BitVec {width})) (assert (= result {root}))"])
        )
    )
    state = [z3.BoolVal(False)] * circuit.lines
    for word, lines in circuit.inputs.items():
        for i, line in enumerate(lines):
            state[line] = z3.Extract(i, i, z3.BitVec(word, width)) == 1
    for controls, targets, _ in circuit.gates:
        condition = z3.And(*(state[q] for q in controls)) if controls else z3.BoolVal(True)
        if len(targets) == 1:
            state[targets[0]] = z3.Xor(state[targets[0]], condition)
        else:
            x, y = targets
            state[x], state[y] = z3.If(condition, state[y], state[x]), z3.If(condition, state[x], state[y])
    result = z3.BitVec("result", width)
    wrong = [state[line] for line in circuit.zeros]
    wrong += [state[line] != (z3.Extract(i, i, result) == 1) for i, line in enumerate(circuit.outputs[where])]
    solver.add(z3.Or(*wrong))
    assert solver.check() == z3.unsat
