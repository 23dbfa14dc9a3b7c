"""Random instruction sequences, every opcode in every format: compiled code against the reference machine.

A sequence is a few instructions met in a random state: words, cotangents, PC, BR and DIR as no program need leave them.
Many states go through one program, which is decoded, or translated, once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import pytest
from retrograd.isa.encoding import Instruction, encode, illegality, inverse
from retrograd.isa.entries import Bijection, Entry, Function, Opcode, no_guards
from retrograd.isa.table import Table
from retrograd.isa.words import Format
from support.machines import Lockstep

import retrograd as rg

Make = Callable[..., rg.Machine]
W = rg.Format()

#: those of the generator of programs
FORMATS = [Format(64, 32), Format(32, 16), Format(16, 8), Format(8, 4), Format(64, 0), Format(64, 63)]
#: of those, the ones whose cotangents move in the default tier: a handler is compiled for every format
LIFTED = [Format(64, 32), Format(8, 4)]
#: registers that instructions name, the one that most addresses are made of, and words of memory
POOL, ADDRESS, MEMORY = (0, 1, 2, 3, 254, 255), 7, 6

#: sequences of the full tier, in pieces
SLOW, SLOW_CHUNK = 1_000_000, 12_500


# ---------------------------------------------------------------- programs


def instruction(rng: random.Random, opcode: Opcode, w: Format) -> Instruction:
    """The opcode with random operands: ra and rb often one register, addresses and jumps mostly short."""
    while True:
        registers = {"rd": rng.choice(POOL), "ra": rng.choice(POOL), "rb": rng.choice(POOL)}
        if rng.random() < 0.25:
            registers["rb"] = registers["ra"]
        # A constant must fit the word, or the machine refuses the program.
        high = min(w.sign, 1 << 31) - 1
        imm = rng.choice(
            (rng.randint(-8, 7), rng.randint(0, min(w.width, high)), rng.randint(-high - 1, high), -1, high)
        )
        if "[ra+imm]" in opcode.operands and rng.random() < 0.9:
            registers["ra"], imm = ADDRESS, rng.randint(-2, MEMORY)
        if "target" in opcode.operands and rng.random() < 0.95:
            imm = rng.randint(-6, 6)
        fields = {name: value for name, value in (registers | {"imm": imm}).items() if name in opcode.fields}
        found = Instruction(opcode, **fields)
        if illegality(found) is None:
            return found


def cycle(rng: random.Random, entries: Collection[str] = ()) -> Iterator[Opcode]:
    """Every opcode of the table, or of some entries, in turn, in random order, again and again."""
    opcodes = [o for o in rg.TABLE if o.name not in ("start", "finish") and (not entries or o.entry.name in entries)]
    while True:
        yield from rng.sample(opcodes, len(opcodes))


def program(
    rng: random.Random, w: Format, opcodes: Iterator[Opcode], size: int, table: Table = rg.TABLE, undoing: float = 0
) -> rg.Program:
    """`undoing`: how often an instruction undoes one of the last three, instead of being drawn."""
    body: list[Instruction] = []
    for _ in range(size):
        if undoing and body and rng.random() < undoing:
            body.append(inverse(rng.choice(body[-3:]), table))
        else:
            body.append(instruction(rng, next(opcodes), w))
    code = [Instruction(table["start"]), *body, Instruction(table["finish"])]
    return rg.Program([encode(i) for i in code], [], MEMORY, w, table=table)


# ---------------------------------------------------------------- states


def word(rng: random.Random, w: Format, mood: int) -> int:
    """Small numbers, numbers about one, numbers of any length."""
    match mood:
        case 0:
            return rng.randint(-3, 5) & w.mask
        case 1:
            return (rng.choice((1, 1, -1)) * rng.getrandbits(w.frac + 1 if w.frac < w.width - 1 else w.frac)) & w.mask
        case 2:
            return rng.choice((0, 1, w.mask, w.sign, w.sign - 1, rng.getrandbits(w.width)))
    return (rng.choice((1, -1)) * rng.getrandbits(rng.randint(1, w.width))) & w.mask


#: for each mood, words to draw from
Words = list[list[int]]


def words_of(rng: random.Random, w: Format) -> Words:
    return [[word(rng, w, mood) for _ in range(200)] for mood in range(4)]


def scatter(both: Any, rng: random.Random, words: Words) -> None:
    """New words where instructions read and write, in both machines."""
    drawn = rng.choices(rng.choice(words), k=len(POOL) + MEMORY)
    address = rng.randint(0, 3) if rng.random() < 0.95 else rng.choice(words[3])
    lifted = both.reference.differentiating
    if lifted:
        quiet = rng.random() < 0.2
        cotangents = [0] * (len(POOL) + MEMORY) if quiet else rng.choices(rng.choice(words), k=len(POOL) + MEMORY)
    for machine in both.machines:
        registers = machine.registers
        for r, x in zip(POOL, drawn, strict=False):
            registers[r] = x
        registers[ADDRESS] = address
        machine.memory[:] = drawn[-MEMORY:]
        if lifted:
            machine.clear_cotangents()
            for r, x in zip(POOL, cotangents, strict=False):
                machine.cotangents[r] = x
            machine.memory_cotangents[:] = cotangents[-MEMORY:]


def place(both: Any, pc: int, br: int, direction: int) -> None:
    for machine in both.machines:
        machine.pc, machine.br, machine.direction = pc, br, direction


def anywhere(both: Any, rng: random.Random, words: Words) -> int:
    """From anywhere, either way, jumping or not, for a few steps; sometimes back again. How many runs that were."""
    scatter(both, rng, words)
    code = both.reference.program.instructions
    pc = rng.randrange(len(code))
    i = code[pc]
    imm = i.imm if "br" in i.opcode.writes else 0
    place(both, pc, rng.choice((0, 0, imm, -imm, rng.randint(-5, 5) if rng.random() < 0.2 else 0)), rng.choice((1, -1)))
    steps = rng.choice((4, 5, 6, 8, 12))
    both.do(lambda m: m.run(steps), fully=False)
    match rng.randrange(4):
        case 0:
            both.do(lambda m: m.run_back(steps), fully=False)
        case 1:
            both.set(lambda m: m.turn())
            both.do(lambda m: m.run(steps), fully=False)
        case _:
            return 1
    return 2


def through(both: Any, rng: random.Random, words: Words) -> int:
    """From one end to the other, or to the trap, or going round for ever; sometimes back again."""
    scatter(both, rng, words)
    direction, steps = rng.choice((1, 1, -1)), rng.choice((300, 301, 400))
    p = both.reference.program
    place(both, p.start if direction > 0 else p.finish, 0, direction)
    both.do(lambda m: m.run(steps), fully=False)
    match rng.randrange(4):
        case 0:
            both.do(lambda m: m.run_back(steps), fully=False)
        case 1:
            both.set(lambda m: m.turn())
            both.do(lambda m: m.run(steps), fully=False)
        case _:
            return 1
    return 2


def sequences(
    make: Make,
    w: Format,
    lifted: bool,
    seed: int,
    count: int,
    states: int = 40,
    way: Callable[[Any, random.Random, Words], int] = anywhere,
    size: int = 24,
    spoil: Callable[[rg.Program], rg.Program] | None = None,
    entries: Collection[str] = (),
    undoing: float = 0,
) -> tuple[Counter[str], Counter[str]]:
    """Run `count` sequences, `states` of them in one program; how often opcodes were executed, and machines trapped."""
    rng = random.Random(seed)
    opcodes = cycle(rng, entries)
    executed, traps = Counter[str](), Counter[str]()
    while count > 0:
        p = program(rng, w, opcodes, size, undoing=undoing)
        modes = {"overflow": rng.random() < 0.6, "strict": rng.random() < 0.1, "keep_dropped": rng.random() < 0.1}
        both = Lockstep(make, p, spoiled=spoil and spoil(p), **modes)
        both.differentiate(lifted)
        words = words_of(rng, w)
        for _ in range(states):
            count -= way(both, rng, words)
        both.check()
        executed.update(both.reference.counts())
        traps.update(both.traps)
    return executed, traps


#: what a machine that may be anywhere can be told; RG0408 is for strict ones
TRAPS = {"RG0401", "RG0402", "RG0403", "RG0404", "RG0405", "RG0406", "RG0407", "RG0409", "RG0410", "RG0411", "RG0413"}


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_sequences_anywhere(threaded: Make, w: Format) -> None:
    executed, traps = sequences(threaded, w, False, w.width, count=2800 if w == W else 300)
    if w == W:
        # All opcodes that can be executed, and all traps, are met.
        assert set(executed) == {o.name for o in rg.TABLE} - {"unerase"}
        assert set(traps) >= TRAPS


@pytest.mark.parametrize("w", LIFTED, ids=str)
def test_lifted_sequences_anywhere(threaded: Make, w: Format) -> None:
    _, traps = sequences(threaded, w, True, w.width + 1, count=450)
    assert {"RG0404", "RG0409"} <= traps.keys()


FORMATS_AND_MODES = [(w, False) for w in FORMATS] + [(w, True) for w in (*LIFTED, Format(8, 3))]


@pytest.mark.parametrize(("w", "lifted"), FORMATS_AND_MODES, ids=str)
def test_sequences_from_end_to_end(make: Make, w: Format, lifted: bool) -> None:
    sequences(make, w, lifted, w.frac + 2, count=60, states=100, way=through, size=12)


@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("w", LIFTED, ids=str)
def test_sequences_that_undo(make: Make, w: Format, lifted: bool) -> None:
    """Values added and taken away again, of which translated code makes less: traps where sums do not fit included."""
    some = ("mov", "fmov", "ld", "st", "exch", "fmul", "neg", "fabs")
    _, traps = sequences(make, w, lifted, 9, count=400, states=100, way=through, size=16, entries=some, undoing=0.5)
    assert {"RG0404", "RG0405"} & traps.keys()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_a_million_sequences(threaded: Make, first: int) -> None:
    piece = first // SLOW_CHUNK
    w, lifted = FORMATS[piece % len(FORMATS)], piece // len(FORMATS) % 2 == 1
    way = through if piece % 5 == 0 else anywhere
    sequences(threaded, w, lifted, first + 100, count=SLOW_CHUNK, states=400, way=way)


# ---------------------------------------------------------------- the checks can fail


def altered(name: str, how: str) -> Table:
    """The table, but for one entry."""
    (old,) = (e for e in rg.TABLE.entries if e.name == name)
    new: Entry
    match old, how:
        case Function(), "value":
            new = replace(old, value=lambda w: old.value(w) + 1)
        case _, "guards":
            new = replace(old, guards=no_guards)
        case Function(), "cotangents":
            new = replace(old, differentiable=False)
        case Bijection(), _:
            (other,) = (e for e in rg.TABLE.entries if e.name == how)
            assert isinstance(other, Bijection)
            new = replace(old, effects=other.effects)
        case _:
            raise ValueError(how)
    return Table(new if e is old else e for e in rg.TABLE.entries)


def spoiled_by(table: Table) -> Callable[[rg.Program], rg.Program]:
    return lambda p: rg.Program(p.code, p.data, p.memory, p.format, table=table)


#: entry, what is wrong with it, whether cotangents must move to find it
ALTERED = [
    ("fmul", "value", False),
    ("flog", "value", False),
    ("st", "value", True),
    ("div", "guards", False),
    ("fmul", "guards", True),
    ("fmul", "cotangents", True),
    ("neg", "not", False),
]


@pytest.mark.parametrize(("name", "how", "lifted"), ALTERED)
def test_an_altered_entry_is_found(make: Make, name: str, how: str, lifted: bool) -> None:
    spoil = spoiled_by(altered(name, how))
    with pytest.raises(AssertionError):
        sequences(make, W, lifted, 5, count=500, way=through, size=8, spoil=spoil, entries=(name, "swap", "imm"))


@pytest.mark.parametrize(("name", "how"), [("goto.lt", "goto.ltu"), ("goto.eq", "goto.ne"), ("goto", "goto.ge")])
def test_an_altered_branch_is_found(threaded: Make, name: str, how: str) -> None:
    with pytest.raises(AssertionError):
        sequences(threaded, W, False, 6, count=1000, spoil=spoiled_by(altered(name, how)), entries=(name, "imm"))


@pytest.mark.long
@pytest.mark.parametrize("name", [e.name for e in rg.TABLE.entries if isinstance(e, Function)])
def test_every_altered_function_is_found(make: Make, name: str) -> None:
    with pytest.raises(AssertionError):
        sequences(
            make,
            W,
            False,
            7,
            count=3000,
            way=through,
            spoil=spoiled_by(altered(name, "value")),
            entries=(name, "swap"),
        )
