"""Uncompute blocks that translated code skips: results, counts and traps are those of the reference machine.

Random programs hold compute blocks, bodies and uncompute blocks, nested, in loops and branches. Hostile ones have uncompute blocks
that are no inverse, bodies that change words that compute read, accesses outside their region, wrong labels, jumps
into blocks. Hints
are found in the code, with any body; wrong ones name other addresses and regions.
"""

from __future__ import annotations

import contextlib
import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from retrograd.isa.encoding import IMMEDIATE_MAX, Instruction, encode, illegality, inverse
from retrograd.isa.program import Hints
from retrograd.isa.table import TABLE
from retrograd.simulator.engines.batch.cpu import run_batch
from retrograd.simulator.engines.llvm.jit import jit_compiler
from retrograd.simulator.engines.translator import ghost_uncompute
from retrograd.simulator.engines.translator.flow import Flow, Mirror, can_be_undone, has_address
from retrograd.simulator.engines.translator.ghost_uncompute import ghosts_of
from support.machines import Lockstep

import retrograd as rg

Make = Callable[..., rg.Machine]

#: registers: data, pointers into regions, counters of loops by their depth, and the bound of loops
DATA, POINTERS, COUNTERS, BOUND = range(1, 9), (9, 10), range(11, 17), 17
PASSES = 3
#: words of each region, and of memory behind the last
REGION, REGIONS, REST = 5, 3, 2

#: random programs in the default tier, and in the full one
FEW, SLOW, SLOW_CHUNK = 14, 50_000, 200


def op(name: str, **fields: int) -> Instruction:
    return Instruction(TABLE[name], **fields)


@dataclass
class Generator:
    """Random programs. `hostile`: how often something is wrong."""

    rng: random.Random
    hostile: float = 0.0
    wrong: Counter[str] = field(default_factory=Counter)

    def goes_wrong(self, how: str) -> bool:
        found = self.rng.random() < self.hostile
        self.wrong[how] += found
        return found

    def simple(self, registers: range | tuple[int, ...]) -> Instruction:
        """An instruction that changes one of the registers, or a word of memory."""
        rng = self.rng
        d = rng.choice(registers)
        a, b = (rng.choice([r for r in DATA if r != d]) for _ in "ab")
        kind = rng.randrange(7)
        if kind < 3:
            region = rng.randrange(REGIONS)
            place = rng.randrange(REGION) if not self.goes_wrong("address") else rng.randrange(-2, 18)
            address = {"ra": rng.choice((0, *POINTERS)), "imm": REGION * region + place}
            if address["ra"] and place == REGION - 1:
                address["imm"] -= 1
            if kind < 2:
                return op(rng.choice(("ld.add", "ld.sub")), rd=d, **address)
            return rng.choice((op("exch", rd=d, **address), op(rng.choice(("st.add", "st.sub")), rb=d, **address)))
        if kind == 3:
            return op(rng.choice(("imm.add", "imm.sub", "imm.xor")), rd=d, imm=rng.randrange(1, 9))
        if kind == 4:
            return op(rng.choice(("mul.add", "and.xor", "fmul.add", "fmul.sub")), rd=d, ra=a, rb=b)
        if kind == 5:
            return op(rng.choice(("mov.add", "fmov.sub", "fmov.add")), rd=d, ra=a)
        return rng.choice((op("neg", rd=d), op("swap", rd=d, ra=a)))

    def block(self, depth: int, registers: range | tuple[int, ...], size: int) -> list[Instruction]:
        rng, out = self.rng, []
        for _ in range(size):
            kind = rng.random()
            if depth and kind < 0.12:
                out += self.loop(depth, registers)
            elif depth and kind < 0.2:
                out += self.branch(depth, registers)
            elif depth and kind < 0.4:
                out += self.uncomputed(depth - 1)
            else:
                out.append(self.simple(registers))
        return out

    def loop(self, depth: int, registers: range | tuple[int, ...]) -> list[Instruction]:
        counter = COUNTERS[depth]
        inside = [*self.block(depth - 1, registers, self.rng.randrange(1, 4)), op("imm.add", rd=counter, imm=1)]
        length = len(inside) + 1
        begin = op("from.ne", ra=counter, rb=0, imm=length)
        end = op("goto.ne", ra=counter, rb=BOUND, imm=-length)
        # A pointer moves along.
        if self.rng.random() < 0.3:
            inside.insert(0, op("imm.add", rd=POINTERS[0], imm=1))
            begin, end = begin._replace(imm=length + 1), end._replace(imm=-length - 1)
            return [
                begin,
                *inside,
                end,
                op("imm.sub", rd=counter, imm=PASSES),
                op("imm.sub", rd=POINTERS[0], imm=PASSES),
            ]
        return [begin, *inside, end, op("imm.sub", rd=counter, imm=PASSES)]

    def branch(self, depth: int, registers: range | tuple[int, ...]) -> list[Instruction]:
        a = self.rng.choice(DATA)
        others = tuple(r for r in registers if r != a) or registers
        inside = self.block(depth - 1, others, self.rng.randrange(1, 4))
        test = self.rng.choice(("ge", "eq", "ne"))
        length = len(inside) + 1
        return [op(f"goto.{test}", ra=a, rb=0, imm=length), *inside, op(f"from.{test}", ra=a, rb=0, imm=-length)]

    def uncomputed(self, depth: int) -> list[Instruction]:
        """compute; body; compute⁻¹"""
        half = self.rng.sample(DATA, 4)
        rest = tuple(r for r in DATA if r not in half)
        compute = self.block(depth, tuple(half), self.rng.randrange(3, 9))
        body = self.block(depth, DATA if self.goes_wrong("body") else rest, self.rng.randrange(1, 5))
        undone = [inverse(i) for i in reversed(compute)]
        if self.goes_wrong("inverse"):
            undone[self.rng.randrange(len(undone))] = self.simple(DATA)
        out = [*compute, *body, *undone]
        if self.goes_wrong("jump"):
            at = self.rng.randrange(len(out))
            out[at] = op(self.rng.choice(("goto.ne", "from.ne", "goto.eq")), ra=1, rb=2, imm=self.rng.randrange(-6, 7))
        return out

    def program(self) -> rg.Program:
        rng = self.rng
        frame = [op("imm.add", rd=BOUND, imm=PASSES)]
        if self.goes_wrong("pointer"):
            frame.append(op("ld.add", rd=POINTERS[1], ra=0, imm=rng.randrange(4)))
        code = [op("start"), *frame, *self.block(3, DATA, rng.randrange(2, 6)), op("finish")]
        memory = REGIONS * REGION + REST
        labels = {f"region{k}": k * REGION for k in range(REGIONS)}
        labels["rest"] = REGIONS * REGION
        if self.goes_wrong("labels"):
            labels = {f"wrong{k}": rng.randrange(memory) for k in range(rng.randrange(4))}
        assert all(illegality(i) is None and abs(i.imm) <= IMMEDIATE_MAX for i in code)
        data = [rng.getrandbits(rng.choice((2, 8, 34, 64))) for _ in range(memory)]
        return hinted(rg.Program([encode(i) for i in code], data, memory, data_labels=labels))


def hinted(program: rg.Program, wrong: random.Random | None = None) -> rg.Program:
    """The program with hints: stretches that undo an earlier one, whatever lies between; for an access, the region of its constant.

    `wrong`: some hints are replaced.
    """
    code, starts = program.instructions, sorted({0, *program.data_labels.values()})
    pairs = []
    for undo in range(len(code)):
        for end in range(1, undo + 1):
            size = 0
            while undo + size < len(code) and size < end and is_undone(code[end - 1 - size], code[undo + size]):
                size += 1
            longest = end == undo or not is_undone(code[end], code[undo - 1])
            if size >= 4 and longest:
                pairs.append((end - size, end, undo, undo + size))
    accesses = []
    for at, i in enumerate(code):
        k = bisect_right(starts, i.imm)
        if has_address(i) and k > 0 and i.imm < program.memory:
            accesses.append((at, starts[k - 1], [*starts, program.memory][k] - starts[k - 1]))
    if wrong is not None:
        pairs = [
            pair for p in pairs for pair in ((p,) if wrong.random() < 0.5 else (p, wrong_pair(wrong, p, len(code))))
        ]
        regions = ((wrong.randrange(-2, 15), wrong.randrange(1, 18)) for _ in accesses)
        accesses = [(a[0], *r) if wrong.random() < 0.2 else a for a, r in zip(accesses, regions, strict=True)]
    return replace(program, hints=Hints(tuple(pairs), tuple(accesses)))


def is_undone(i: Instruction, by: Instruction) -> bool:
    return by == inverse(i) and can_be_undone(i) and i.opcode.name != "call"


def wrong_pair(rng: random.Random, pair: tuple[int, ...], length: int) -> tuple[int, int, int, int]:
    """Addresses near those of a pair, or anywhere."""
    near = [at + rng.randrange(-3, 4) for at in pair]
    size = near[1] - near[0]
    anywhere = [rng.randrange(-3, 2 * length) for _ in pair]
    a, b, c, d = rng.choice((near, anywhere, sorted(anywhere), [near[0], near[1], near[2], near[2] + size]))
    return a, b, c, d


@pytest.fixture
def skips(request: pytest.FixtureRequest) -> bool:
    """Whether blocks are skipped: code that executes them has nothing to give up."""
    return "executed" not in request.node.name


@pytest.fixture(autouse=True)
def not_given_up(monkeypatch: pytest.MonkeyPatch) -> set[Any]:
    """The programs that are given up during the test."""
    found: set[Any] = set()
    monkeypatch.setattr(ghost_uncompute, "_given_up", found)
    return found


@pytest.fixture(autouse=True, params=[4, pytest.param(1, marks=pytest.mark.long)], ids=["lanes", "alone"])
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances side by side; in the full tier, also one by one."""
    monkeypatch.setattr(jit_compiler(), "lanes", request.param)
    monkeypatch.setattr("retrograd.simulator.engines.tiering.policy.costs.lanes", 0.0)
    monkeypatch.setattr("retrograd.simulator.engines.tiering.policy.costs.wait", math.inf)


@pytest.fixture(autouse=True)
def unkept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No code is kept, and batches are translated without LLVM's optimiser, too."""
    monkeypatch.setattr("retrograd.simulator.engines.llvm.jit.write", lambda key, code: None)
    monkeypatch.setattr("retrograd.simulator.engines.batch.loops.level_for", lambda instructions: 0)


#: r1 … r4 := words of two regions and a product, used and uncomputed; `{body}` is an instruction of the body
USED = """
        .data
left:   .word 5, 6, 7
right:  .word 8, 9, 10
out:    .word 0, 0
        .text
        start
        {before}
        ld.add r1, [r0 + 0]
        ld.add r2, [r0 + 1]
        mul.add r3, r1, r2
        ld.add r5, [r0 + 2]
        mul.add r4, r3, r5
        mul.add r6, r4, r4
        mul.add r7, r6, r4
        ld.add r11, [r0 + 3]
        {inside}
        st.add [r0 + 6], r4
        {body}
        ld.sub r11, [r0 + 3]
        mul.sub r7, r6, r4
        mul.sub r6, r4, r4
        mul.sub r4, r3, r5
        ld.sub r5, [r0 + 2]
        mul.sub r3, r1, r2
        ld.sub r2, [r0 + 1]
        ld.sub r1, [r0 + 0]
        finish
"""


def ghosts(program: rg.Program) -> list[Mirror]:
    return Flow(program, program.start, program.hints).ghosts


def assembled(text: str) -> rg.Program:
    return hinted(rg.assemble(text))


def check(make: Make, program: rg.Program, rng: random.Random) -> Any:
    """Forward and backward, with a limit and without, with overflow checked and not."""
    both = Lockstep(make, program, overflow=rng.random() < 0.5)
    registers = {r: rng.getrandbits(rng.choice((4, 33))) for r in rng.sample(DATA, 3)}
    if rng.random() < 0.2:
        registers[rng.choice(POINTERS)] = rng.randrange(8)
    both.set(lambda m: [m.registers.__setitem__(r, x) for r, x in registers.items()])
    both.run(5000)
    both.run_back(5000)
    both.run(rng.choice((5000, 4 * len(program.code) + rng.randrange(300))))
    return both


def check_batch(program: rg.Program, rng: random.Random) -> None:
    rows = np.array([[rng.getrandbits(rng.choice((2, 3, 20))) for _ in range(4)] for _ in range(6)], dtype=np.uint64)
    if rng.random() < 0.7:
        # Lanes that go the same way.
        rows[1:, :3] = rows[0, :3]
    backward, core = rng.random() < 0.5, rng.choice(("small", "small", "fast"))
    ran = run_batch(program, rows, limit=5000, cycles=True, core=core, backward=backward, threads=1)
    for k, row in enumerate(rows.tolist()):
        machine = rg.Machine(program, backward=backward, core=core)
        machine.load(0, row)
        try:
            ended = machine.run(5000).stop is rg.Stop.HALTED
        except rg.Trap:
            ended = False
        if k not in ran.failed:
            assert ended
            assert ran.cycles is not None
            assert ran.rows[k].tolist() == machine.memory[:4]
            assert (ran.steps[k], ran.cycles[k]) == (machine.retired, machine.cycles)
        else:
            assert not ended or machine.retired > 5000 - 2 * len(program.code)


def run_random(make: Make, first: int, count: int, hostile: float, wrong: bool = False) -> Counter[str]:
    """Counts of programs with ghosts, and of each way in which something was wrong. `wrong`: hints are."""
    met: Counter[str] = Counter()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        generator = Generator(rng, hostile)
        program = generator.program()
        if wrong:
            program = hinted(program, rng)
        if not ghosts(program) and rng.random() < 0.8:
            continue
        met["ghosts"] += bool(ghosts(program))
        met["traps"] += bool(check(make, program, rng).traps)
        check_batch(program, rng)
        met["skipped"] += bool(ghosts(program)) and ghosts_of(program) is not None
        met += generator.wrong
    return met


#: words that compute pushes onto a stack at r9, and uncompute pops; `{body}` is an instruction of the body
PUSHED = """
        .data
count:  .word 4
given:  .word {given}
sum:    .word 0
room:   .word {first}, 0, 0, 0, 0, 0, 0, 0, 0, 0
other:  .word 0
        .text
        start
        ld.add r1, [r0 + 0]
        ld.add r2, [r0 + 1]
        imm.add r9, 3
        mov.add r10, r9
head:   goto.eq r1, r0, tail
loop:   from.ne r9, r10, next
        mul.add r3, r2, r2
        imm.add r3, 1
        exch r2, [r9]
        imm.add r9, {step}
        swap r2, r3
        imm.sub r1, 1
next:   goto.ne r1, r0, loop
tail:   from.eq r9, r10, head
        exch r1, [r9]
        st.add [r0 + 2], r2
        {body}
        exch r1, [r9]
back:   goto.eq r9, r10, gone
undo:   from.ne r1, r0, more
        imm.add r1, 1
        swap r2, r3
        imm.sub r9, {step}
        exch r2, [r9]
        imm.sub r3, 1
        mul.sub r3, r2, r2
more:   goto.ne r9, r10, undo
gone:   from.eq r1, r0, back
        mov.sub r10, r9
        imm.sub r9, 3
        ld.sub r2, [r0 + 1]
        ld.sub r1, [r0 + 0]
        finish
"""


@pytest.mark.parametrize(
    ("given", "first", "step", "body", "cleared"),
    [
        (3, 0, 1, "st.add [r0 + 13], r2", True),
        (3, 5, 1, "st.add [r0 + 13], r2", False),
        (3, 0, 2, "st.add [r0 + 13], r2", False),
        (3, 0, 1, "st.add [r0 + 4], r2", False),
    ],
    ids=["zeros", "another word", "a gap", "a store of the body"],
)
def test_words_on_a_stack_are_cleared(
    translated: Make,
    given: int,
    first: int,
    step: int,
    body: str,
    cleared: bool,
    skips: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a region that is too large to be copied, the words that compute has stored to have been zero before."""
    left: set[Any] = set()
    monkeypatch.setattr(ghost_uncompute, "_not_cleared", left)
    monkeypatch.setattr("retrograd.simulator.engines.translator.flow.COPIED", 4)
    program = rg.assemble(PUSHED.format(given=given, first=first, step=step, body=body))
    code = [i.opcode.name for i in program.instructions]
    start, end, undo, after = 1, code.index("st.add"), code.index("st.add") + 2, len(code) - 1
    room = program.data_labels["room"], 10
    accesses = [
        (at, *(room if i.ra == 9 else (i.imm, 1))) for at, i in enumerate(program.instructions) if has_address(i)
    ]
    program = replace(program, hints=Hints(((start, end, undo, after),), tuple(accesses)))
    found = Flow(program, program.start, program.hints, True).ghosts
    assert [g[:3] for g in found] == [(start, end, undo)] * (body != "st.add [r0 + 4], r2")
    for _ in range(2):
        both = Lockstep(translated, program)
        both.run()
        both.run_back()
        both = Lockstep(translated, program)
        both.run(60)
        both.run()
    assert bool(left) == (skips and bool(found) and not cleared)


@pytest.mark.long
@pytest.mark.parametrize("hostile", [0.0, 0.1], ids=["sound", "hostile"])
def test_random_programs_with_cleared_regions(
    translated: Make, hostile: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ghost_uncompute, "_not_cleared", set())
    monkeypatch.setattr("retrograd.simulator.engines.translator.flow.COPIED", 0)
    # Programs of no other test, whose code is kept in the process.
    run_random(translated, FEW + SLOW, FEW, hostile)


@pytest.mark.long
@pytest.mark.parametrize("hostile", [0.0, 0.1], ids=["sound", "hostile"])
def test_random_programs(translated: Make, hostile: float) -> None:
    met = run_random(translated, 0, FEW, hostile)
    assert met["ghosts"] >= FEW // 4
    assert met["skipped"]
    if hostile:
        assert met["traps"]
        assert len({"address", "body", "inverse", "jump", "labels", "pointer"} & met.keys()) >= 4


@pytest.mark.long
def test_hints_are_not_believed(translated: Make, not_given_up: set[Any], skips: bool) -> None:
    """Each condition is needed: without it, one of these programs has other words."""
    assert run_random(translated, 0, FEW, 0.1, wrong=True)["ghosts"] >= FEW // 4
    assert bool(not_given_up) == skips


@pytest.mark.long
@pytest.mark.parametrize("first", range(FEW, FEW + SLOW, SLOW_CHUNK))
def test_many_hints_are_not_believed(translated: Make, first: int) -> None:
    run_random(translated, first, SLOW_CHUNK, 0.1, wrong=True)


@pytest.mark.long
@pytest.mark.parametrize("first", range(FEW, FEW + SLOW, SLOW_CHUNK))
def test_many_random_programs(translated: Make, first: int) -> None:
    run_random(translated, first, SLOW_CHUNK, 0.1 * (first // SLOW_CHUNK % 2))


@pytest.mark.parametrize(
    ("body", "given_up"),
    [
        ("st.add [r0 + 7], r3", False),
        ("st.add [r9 + 7], r1", True),
        ("mov.add r5, r8", True),
        ("exch r8, [r0 + 7]", False),
    ],
    ids=["kept", "stray store", "register", "other register"],
)
def test_conditions_are_checked_at_run_time(
    translated: Make, body: str, given_up: bool, not_given_up: set[Any], skips: bool
) -> None:
    program = assembled(USED.format(before="", inside="", body=body))
    assert ghosts(program)
    for again in range(2):
        both = Lockstep(translated, program)
        both.set(lambda m: [m.registers.__setitem__(r, x) for r, x in ((8, 3), (9, -6 % 2**64))])
        both.run()
        both.run_back()
        assert bool(not_given_up) == (given_up and skips), again
        both = Lockstep(translated, program)
        both.run()


PAIR = 1, 9, 10, 18


@pytest.mark.parametrize(
    "pair", [PAIR, (0, 9, 10, 19), (1, 9, 10, 17), (1, 10, 9, 18), (9, 1, 18, 10), (-1, 7, 8, 16), (1, 9, 19, 27)]
)
@pytest.mark.parametrize("region", [(0, 4), (-1, 9), (0, 2**40)])
@pytest.mark.parametrize("last", ["ld.sub r1, [r0 + 0]", "ld.sub r1, [r0 + 1]", "ld.add r1, [r0 + 0]", "erase r1"])
def test_wrong_hints(translated: Make, pair: Any, region: Any, last: str) -> None:
    """A pair that is none, and regions in which an access is not, or that are not in memory."""
    right = rg.assemble(USED.format(before="", inside="", body="").replace("ld.sub r1, [r0 + 0]", last))
    accesses = [(at, *(region if at < PAIR[1] else (6, 2))) for at in range(len(right.code))]
    program = replace(right, hints=Hints((pair,), tuple(accesses)))
    both = Lockstep(translated, program)
    both.run()
    both.run_back()
    if pair == PAIR and not last.startswith("erase"):
        found = [(g.start, g.end, g.undo, g.after) for g in ghosts(program)]
        assert found == ([PAIR] if last == "ld.sub r1, [r0 + 0]" and region == (0, 4) else []), found


#: a block and its inverse in turns, in a branch: each uncompute block is the compute block of the next pair
CHAIN = """
        .data
out:    .word 0, 0, 0, 0
        .text
        start
        add r1, 5
        add r2, 3
{blocks}
        finish
"""
COMPUTE = "a{k}: goto.ne r8, r0, b{k}\n st.add [r0 + 3], r1\n sub r2, r1\nb{k}: from.ne r8, r0, a{k}\n"
UNCOMPUTE = "a{k}: goto.ne r8, r0, b{k}\n add r2, r1\n st.sub [r0 + 3], r1\nb{k}: from.ne r8, r0, a{k}\n"


def test_uncompute_blocks_that_are_compute_blocks(translated: Make) -> None:
    """Steps and counts of a chain of pairs, in both directions: a skipped block counts the steps of the first block."""
    blocks = "".join(block.format(k=k) + f"add r{k + 4}, 1\n" for k, block in enumerate([COMPUTE, UNCOMPUTE] * 2))
    program = assembled(CHAIN.format(blocks=blocks))
    pairs = ghosts(program)
    assert sum(x.undo == y.start for x in pairs for y in pairs) == 2
    both = Lockstep(translated, program)
    both.run()
    both.run_back()


def test_words_that_the_body_changes_are_noticed(translated: Make, not_given_up: set[Any], skips: bool) -> None:
    program = assembled(USED.format(before="", inside="", body="st.add [r0 + 1], r4"))
    assert not ghosts(program)
    at = program.instructions.index(op("st.add", imm=1, rb=4))
    elsewhere = tuple((found, 6, 2) if found == at else (found, *region) for found, *region in program.hints.accesses)
    program = replace(program, hints=replace(program.hints, accesses=elsewhere))
    assert ghosts(program)
    Lockstep(translated, program).run()
    assert bool(not_given_up) == skips


@pytest.mark.parametrize("jumps", [0, 1])
def test_a_jump_over_the_compute_block_is_noticed(
    translated: Make, jumps: int, not_given_up: set[Any], skips: bool
) -> None:
    way = {"before": "leave:  goto.ne r8, r0, inside", "inside": "inside: from.ne r8, r0, leave"}
    program = assembled(USED.format(body="", **way))
    assert ghosts(program)
    both = Lockstep(translated, program)
    both.set(lambda m: m.registers.__setitem__(8, jumps))
    both.run()
    assert not_given_up or not jumps or not skips


#: called with two parameters r14; its counter r13 is zero at each call
PROCEDURE = """
begin:  from end
f:      swapbr r12
        neg r12
        add r13, 1
        ld.add r15, [r14 + 0]
        st.add [r13 + 5], r15
        ld.sub r15, [r14 + 0]
        sub r13, 1
end:    goto begin
"""
CALLS = "add r14, 2\n call f\n sub r14, 2\n add r14, 4\n uncall f\n sub r14, 4"


@pytest.mark.parametrize(("counter", "given_up"), [(0, False), (1, False), (-6, True)])
def test_a_body_may_call(translated: Make, counter: int, given_up: bool, not_given_up: set[Any], skips: bool) -> None:
    program = assembled(USED.format(before="", inside="", body=CALLS) + PROCEDURE)
    # The address of the load comes from the caller, and that of the store is a counter's.
    at = program.instructions.index(op("ld.add", rd=15, ra=14))
    accesses = tuple(found for found in program.hints.accesses if found[0] < at)
    program = replace(program, hints=replace(program.hints, accesses=(*accesses, (at + 1, 6, 2))))
    assert max(ghost.end - ghost.start for ghost in ghosts(program)) >= 8
    for _ in range(2):
        both = Lockstep(translated, program)
        both.set(lambda m: m.registers.__setitem__(13, counter % 2**64))
        both.run()
        both.run_back()
        assert bool(not_given_up) == (given_up and skips)
    check_batch(program, random.Random(1))


#: in a loop, with loops in the compute block and in the body
LOOP = """
        .data
out:    .word 0, 0
        .text
        start
        add r20, 30
        add r21, 3
top:    from.ne r9, r0, bottom
        add r9, 1
sum:    from.ne r12, r0, sums
        add r1, r9
        add r12, 1
sums:   goto.ne r12, r20, sum
        sub r12, 30
        mul.add r2, r1, r9
        mul.add r3, r1, r2
        mul.add r4, r3, r9
        mul.add r5, r4, r3
        add r6, 7
        mul.add r7, r6, r5
        mul.add r8, r7, r9
again:  from.ne r10, r0, more
        st.add [r0], r8
        {}
        add r10, 1
more:   goto.ne r10, r21, again
        sub r10, 3
        mul.sub r8, r7, r9
        mul.sub r7, r6, r5
        sub r6, 7
        mul.sub r5, r4, r3
        mul.sub r4, r3, r9
        mul.sub r3, r1, r2
        mul.sub r2, r1, r9
        add r12, 30
back:   from.ne r12, r20, backs
        sub r12, 1
        sub r1, r9
backs:  goto.ne r12, r0, back
bottom: goto.ne r9, r20, top
        sub r9, 30
        sub r21, 3
        sub r20, 30
        finish
"""


@pytest.mark.long
@pytest.mark.parametrize("body", ["st.add [r0 + 1], r3", "fmul.add r11, r2, r9"], ids=["", "overflow"])
def test_limits(translated: Make, body: str) -> None:
    """A limit within a skipped block, and a check that fails before it."""
    program = assembled(LOOP.format(body))
    assert len(ghosts(program)) == 1
    steps = rg.Machine(program)
    with contextlib.suppress(rg.Trap):
        steps.run()
    for limit in range(max(steps.retired - 160, 4 * len(program.code) + 1), steps.retired + 2):
        both = Lockstep(translated, program)
        both.run(limit)
        both.run_back(limit)
    assert not ghost_uncompute._given_up


#: r1 is a word of the row before the compute block, which changes it; r8 counts in a loop
ROWS = """
        .data
row:    .word 0, 0
out:    .word 0, 0
        .text
        start
        ld.add r1, [r0]
        add r9, 5
top:    from.ne r8, r0, bottom
        ld.add r2, [r0 + 1]
        mul.add r1, r2, r2
        mul.add r3, r1, r2
        mul.add r4, r3, r1
        mul.add r5, r4, r3
        add r8, 1
        add r6, 7
        mul.add r7, r6, r8
again:  from.ne r10, r0, more
        st.add [r0 + 2], r5
        add r10, 1
more:   goto.ne r10, r9, again
        sub r10, 5
        mul.sub r7, r6, r8
        sub r6, 7
        sub r8, 1
        mul.sub r5, r4, r3
        mul.sub r4, r3, r1
        mul.sub r3, r1, r2
        mul.sub r1, r2, r2
        ld.sub r2, [r0 + 1]
        st.add [r0 + 3], r1
        add r8, 1
bottom: goto.ne r8, r9, top
        finish
"""


@pytest.mark.parametrize("core", ["small", "fast"])
def test_converged_lanes(core: str) -> None:
    """On the core fast the uncompute block takes a cycle less than the compute block: the load is behind a product."""
    program = assembled(ROWS)
    assert len(ghosts(program)) == 1
    rows = np.array([[7 + i, 3 + i * i, 0, 0] for i in range(8)], dtype=np.uint64)
    ran = run_batch(program, rows, threads=1, cycles=True, core=core)
    assert not ran.given_up
    assert not ghost_uncompute._given_up
    assert ran.cycles is not None
    for i, row in enumerate(rows.tolist()):
        machine = rg.Machine(program, core=core)
        machine.load(0, row)
        machine.run()
        assert ran.rows[i].tolist() == machine.memory[:4]
        assert (ran.steps[i], ran.cycles[i]) == (machine.retired, machine.cycles)
