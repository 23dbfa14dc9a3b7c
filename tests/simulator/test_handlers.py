"""The instructions of every machine, against their expression trees and against known results."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import combinations, islice
from math import gcd
from typing import Any

import pytest
from retrograd.isa import laws
from retrograd.isa.encoding import Instruction, encode, inverse
from retrograd.isa.entries import Function, Opcode
from retrograd.isa.functions import available
from retrograd.simulator.semantics import Fault, handler, handler_source

import retrograd as rg

MASK = (1 << 64) - 1

Make = Callable[..., rg.Machine]


def states(machine: rg.Machine) -> list[Any]:
    """The state before every step and after the last."""
    out = [machine.state()]
    while machine.step():
        out.append(machine.state())
    return out


# ------------------------------------------------------------ the handlers against the trees


def operand_states(opcode: Opcode, w: rg.Format, rng: random.Random, count: int) -> Iterator[dict[str, int]]:
    """Words by place; BR as a signed number: nothing, this branch's own jump either way, another's."""
    corners = (0, 1, w.mask, w.sign, w.sign - 1, 2)
    # Offsets and constants are used modulo 2^W; a jump's offset is one that the word can hold.
    bound = min(w.sign, 1 << 31) - 1

    def word() -> int:
        return rng.choice(corners) if rng.random() < 0.4 else rng.getrandbits(w.width) >> rng.randrange(w.width)

    for _ in range(count):
        state = {place: word() for place in ("d", "a", "b", "m")}
        if rng.random() < 0.3:
            state["b"] = state["a"]
        imm = rng.randint(-bound, bound) if rng.random() < 0.6 else rng.choice((0, 1, -1, bound, -bound))
        br = rng.choice((0, 0, 0, imm, -imm, rng.randint(-bound, bound)))
        yield {**state, "imm": imm, "br": br}


def compare(opcode: Opcode, w: rg.Format, modes: frozenset[str], state: dict[str, int], run: Any) -> str | None:
    """Run a handler and the definition on one state; what differs, or the trap's code or None if nothing does."""
    registers, memory = [0] * 8, [11, 12, 13, 14]
    fields = {"d": 1, "a": 2, "b": 3}
    for place, number in fields.items():
        registers[number] = state[place]
    imm, address = state["imm"], 2
    if "[ra+imm]" in opcode.operands:
        registers[fields["a"]] = address - imm & w.mask
        memory[address] = state["m"]
    expected = laws.execute(
        opcode,
        {**state, "a": registers[2], "imm": imm & w.mask, "br": state["br"] & w.mask},
        w,
        ("always", *modes),
    )
    before = list(registers), list(memory)
    fault: Fault | None = None
    br = 0
    try:
        br = run(registers, memory, state["br"], 1, 2, 3, imm & w.mask)
    except Fault as raised:
        fault = raised
    if fault is not None:
        assert (registers, memory) == before, "a trap has changed something"
        assert fault.code == expected
        return fault.code
    assert not isinstance(expected, str), f"should trap {expected}"
    assert {p: registers[n] for p, n in fields.items()} == {p: expected[p] for p in fields}
    if "[ra+imm]" in opcode.operands:
        assert memory == [11, 12, expected["m"], 14]
    else:
        assert memory == before[1]
    assert br == w.signed(expected["br"])
    assert registers[4:] == [0] * 4
    return None


def modes_of(opcode: Opcode, w: rg.Format) -> Iterator[frozenset[str]]:
    """Every set of modes that the opcode can tell apart."""
    known = sorted({g.mode for g in opcode.guards(w)} - {"always"})
    for size in range(len(known) + 1):
        yield from (frozenset(chosen) for chosen in combinations(known, size))


FORMATS = [rg.Format(8, 4), rg.Format(16, 8), rg.Format(32, 16), rg.Format(64, 32), rg.Format(64, 0), rg.Format(64, 63)]


def is_rounded(opcode: Opcode) -> bool:
    """Whether it is a real function rounded, which formats without room for it refuse."""
    entry = opcode.entry
    return (entry.partials if isinstance(entry, Function) else entry.lift) is not None


@pytest.mark.parametrize("opcode", list(rg.TABLE), ids=lambda o: o.name)
def test_handlers_agree_with_the_trees(opcode: Opcode) -> None:
    check_handlers(opcode, 20)


@pytest.mark.long
@pytest.mark.parametrize("opcode", list(rg.TABLE), ids=lambda o: o.name)
def test_handlers_agree_with_the_trees_on_more_states(opcode: Opcode) -> None:
    check_handlers(opcode, 200)


def check_handlers(opcode: Opcode, count: int) -> None:
    rng = random.Random(opcode.code)
    for w in FORMATS:
        for modes in modes_of(opcode, w):
            run = handler(opcode, w, modes)
            states = operand_states(opcode, w, rng, 50 * count)
            met = {compare(opcode, w, modes, state, run) for state in islice(states, count)}
            if None not in met:  # a state that passes is rare, and there must be one
                met |= {compare(opcode, w, modes, state, run) for state in islice(states, 10 * count)}
            absent = is_rounded(opcode) and not available(w)
            assert None in met or opcode.name == "unerase" or "strict" in modes or (absent and "RG0403" in met)


def test_handlers_have_the_guards_of_their_modes() -> None:
    w = rg.Format()
    assert "RG0404" in handler_source(rg.TABLE["fmul.add"], w, frozenset({"overflow"}))
    assert "RG0404" not in handler_source(rg.TABLE["fmul.add"], w, frozenset())
    assert "RG0408" in handler_source(rg.TABLE["erase"], w, frozenset({"strict"}))
    assert "RG0408" not in handler_source(rg.TABLE["erase"], w, frozenset({"overflow"}))


@pytest.mark.parametrize("name", ["mul.add", "st.xor", "exch", "cswap", "from.lt", "uncall", "fdiv.sub", "rol"])
def test_a_wrong_handler_is_found(name: str) -> None:
    opcode, w = rg.TABLE[name], rg.Format()
    other = rg.TABLE[{"exch": "ld.add", "cswap": "swap", "uncall": "call", "rol": "ror"}.get(name, "")
                     or rg.TABLE[name].inverse_name]  # fmt: skip
    if other is opcode:
        other = rg.TABLE[name.replace("xor", "add")]
    run = handler(other, w, frozenset())

    def differences() -> None:
        for state in operand_states(opcode, w, random.Random(1), 200):
            compare(opcode, w, frozenset(), state, run)

    with pytest.raises(AssertionError):
        differences()


@pytest.mark.parametrize("make", ["reference", "threaded"], indirect=True)
@pytest.mark.parametrize("way", [+1, -1])
def test_the_machine_executes_the_table(make: Make, way: int) -> None:
    """Every instruction by itself, in a machine, either way: its own definition, or its inverse's."""
    w = rg.Format()
    rng = random.Random(way)
    for opcode in rg.TABLE:
        if "br" in opcode.writes or opcode.name in ("start", "finish"):
            continue
        for state in operand_states(opcode, w, rng, 3):
            fields = {"rd": 1, "ra": 2, "rb": 3, "imm": state["imm"]}
            i = Instruction(opcode, **{f: v for f, v in fields.items() if f in opcode.fields})
            ends = [Instruction(rg.TABLE["start"]), i, Instruction(rg.TABLE["finish"])]
            machine = make(rg.Program([encode(x) for x in ends], memory=4), backward=way < 0)
            machine.registers[1:4] = state["d"], state["a"], state["b"]
            if "[ra+imm]" in opcode.operands:
                machine.registers[2] = 2 - state["imm"] & w.mask
                machine.memory[2] = state["m"]
            words = {**state, "a": machine.registers[2], "imm": state["imm"] & w.mask, "br": 0}
            executed = opcode if way > 0 else inverse(i).opcode
            expected = laws.execute(executed, words, w, ("always", "overflow"))
            before = machine.registers[:], machine.memory[:]
            machine.step()
            if isinstance(expected, str):
                with pytest.raises(rg.Trap, match=expected):
                    machine.run()
                assert (machine.registers, machine.memory) == before
                continue
            machine.run()
            assert machine.registers[1:4] == [expected["d"], expected["a"], expected["b"]]
            if "[ra+imm]" in opcode.operands:
                assert machine.memory == [0, 0, expected["m"], 0]


# ------------------------------------------------------------ known results


FIBONACCI = """
; After Axelsen, Glück, Yokoyama: n = 0 gives (1, 1); a call takes n to 0 and makes (x1, x2) = (F(n+1), F(n+2)).
        .memory 400
        .reg z, r0
        .reg n, r1
        .reg x1, r2
        .reg x2, r3
        .reg link, r4
        .reg sp, r5
        proc fib, link, sp
test:   goto.eq n, z, base
        sub n, 1
        call fib
        add x1, x2
        swap x1, x2
skip:   goto join
base:   from test
        add x1, 1
        add x2, 1
join:   from.ne x1, x2, skip
        endproc
        start
        {}
        finish
"""


def fibonacci(count: int) -> tuple[int, int]:
    x, y = 1, 1
    for _ in range(count):
        x, y = y, x + y
    return x, y


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 10, 60])
def test_fibonacci_called_and_uncalled(make: Make, n: int) -> None:
    called = rg.assemble(FIBONACCI.format("call fib"))
    machine = make(called)
    machine.registers[1] = n
    begun = machine.state()
    assert machine.run().stop is rg.Stop.HALTED
    assert machine.registers[1:6] == [0, *fibonacci(n), 0, 0]
    assert not any(machine.memory)
    assert machine.erased_bits == 0
    ended = machine.state()
    machine.run_back()
    assert machine.state() == begun

    # Uncalled, it finds which n two numbers belong to.
    other = make(rg.assemble(FIBONACCI.format("uncall fib")))
    other.registers[:] = ended[0]
    other.run()
    assert other.registers[1:6] == [n, 0, 0, 0, 0]

    # Called and uncalled in one program: nothing has happened.
    both = make(rg.assemble(FIBONACCI.format("call fib\nuncall fib\ncall fib\nuncall fib")))
    both.registers[1] = n
    both.run()
    assert both.registers[1:6] == [n, 0, 0, 0, 0]


def test_numbers_that_are_not_of_fibonacci(make: Make) -> None:
    machine = make(rg.assemble(FIBONACCI.format("uncall fib")))
    machine.registers[2:4] = 4, 7
    begun = machine.state()
    # (4, 7) is of the other such sequence: it goes back past its beginning, until the stack leaves the memory.
    with pytest.raises(rg.Trap):
        machine.run(100_000)
    machine.run_back()
    assert machine.state() == begun


EUCLID = """
        .memory 100
        .reg z, r0
        .reg a, r1
        .reg b, r2
        .reg q, r3
        .reg t, r4
        .reg sp, r5
        start
top:    from.ne sp, z, bottom
test:   goto.eq b, z, exit
        div.add q, a, b
        mul.add t, q, b
        sub a, t
        mul.sub t, q, b
        swap a, b
        push q, sp
bottom: goto top
exit:   from test
        finish
"""


@pytest.mark.parametrize(
    ("a", "b", "quotients"),
    [(1071, 462, [2, 3, 7]), (462, 1071, [0, 2, 3, 7]), (1, 1, [1]), (17, 0, []), (355, 113, [3, 7, 16])],
)
def test_euclid(make: Make, a: int, b: int, quotients: list[int]) -> None:
    program = rg.assemble(EUCLID)
    machine = make(program)
    machine.registers[1:3] = a, b
    begun = machine.state()
    machine.run()
    assert machine.registers[1:6] == [gcd(a, b), 0, 0, 0, len(quotients)]
    assert machine.memory[: len(quotients) + 1] == [*quotients, 0]
    machine.run_back()
    assert machine.state() == begun
    # From a quotients' list backward: the numbers with that continued fraction.
    other = make(program, backward=True)
    other.registers[1], other.registers[5] = gcd(a, b), len(quotients)
    other.load(0, quotients)
    other.run()
    assert other.registers[1:6] == [a, b, 0, 0, 0]
    assert not any(other.memory)


def test_a_reversible_generator_of_random_numbers(make: Make) -> None:
    # xorshift64 of Marsaglia: three updates of a word by shifts of itself, each through a copy that is uncomputed.
    rounds = 50
    body = []
    for shift, name in ((13, "shli"), (7, "shri"), (17, "shli")):
        undo = range(shift, 64, shift)
        body += [f"{name}.xor r2, r1, {shift}", "xor r1, r2"]
        # r2 = old << s; from the new word, old = new ^ new<<s ^ new<<2s …, so the copy is a sum of shifts of the new.
        body += [f"{name}.xor r2, r1, {k}" for k in undo]
    program = rg.assemble("\n".join([
        "start", f"add r4, {rounds}", "top: from.ne r3, r0, bottom", *body, "add r3, 1",
        "bottom: goto.ne r3, r4, top", "finish"]))  # fmt: skip
    machine = make(program)
    machine.registers[1] = 88172645463325252
    machine.run()
    x = 88172645463325252
    for _ in range(rounds):
        x ^= x << 13 & MASK
        x ^= x >> 7
        x ^= x << 17 & MASK
    assert machine.registers[1:4] == [x, 0, rounds]
    machine.run_back()
    assert machine.registers[1] == 88172645463325252


def test_recursion_uses_its_stack(make: Make) -> None:
    machine = make(rg.assemble(FIBONACCI.format("call fib")))
    machine.registers[1] = 30
    deepest = 0

    def watch(m: rg.Machine, pc: int) -> None:
        nonlocal deepest
        deepest = max(deepest, m.registers[5])

    machine.run(observe=watch)
    assert deepest == 31
