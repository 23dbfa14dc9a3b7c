"""Loops whose passes run side by side in the vector unit: which are found, and machines in lockstep with the reference machine.

Random loops have strides of both signs, arrays that overlap, sums in registers and in memory, words that are too large at some place,
addresses beyond the memory, and limits of steps inside a chunk.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines.batch.cpu import run_batch
from retrograd.simulator.engines.llvm.builder import VectorUnit
from retrograd.simulator.engines.llvm.jit import jit_compiler
from retrograd.simulator.engines.translator import flow, loops, translate
from retrograd.simulator.engines.translator import vector_loops as vector_loops_module
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.engines.translator.loops import vector_loops
from retrograd.simulator.engines.translator.vector_loops import VectorLoopEmitter
from support.machines import Lockstep

import retrograd as rg
from tests.simulator.engines.conftest import WITH_VECTOR_LOOPS, set_transformations

Make = Callable[..., rg.Machine]

#: loops of the default tier, and of the full tier in pieces
SOME, SOME_NARROW, SLOW, SLOW_CHUNK = 40, 10, 4000, 100
#: words of memory, and where chunks have many passes
MEMORY, MORE = 96, 220
#: words of which a register holds more than of 64 bits
NARROW = (32, 16, 8)

LOOP = """
        .memory {memory}
        start
        add r251, {first}
        add r250, {last}
        add r249, 4
        roli r249, {frac}
        add r7, {first}
top:    from.ne r7, r251, bottom
        add r7, {by}
{body}
        add r5, {stride}
        add r6, {second}
bottom: goto.ne r7, r250, top
        finish
"""


def loop_of(
    *body: str, passes: int = 40, stride: int = 1, second: int = 0, by: int = 1, width: int = 64, memory: int = MEMORY,
    last: int | None = None,
) -> rg.Program:  # fmt: skip
    first = 3 if by > 0 or last is not None else 3 - passes * by
    lines = "\n".join(f"        {line}" for line in body)
    last = (first + passes * by) % (1 << width) if last is None else last
    frac = width // 2
    text = LOOP.format(
        memory=memory, first=first, last=last, by=by, body=lines, stride=stride, second=second, frac=frac
    )
    return rg.assemble(text, format=rg.Format(width, frac))


#: instructions of a body -> why the loop stays scalar; "" where it does not
BODIES: dict[str, tuple[tuple[str, ...], str]] = {
    "copy": (("ld.add r8, [r5 + 1]", "st.add [r5 + 60], r8", "ld.sub r8, [r5 + 1]"), ""),
    "update": (
        ("ld.add r8, [r5 + 1]", "exch r9, [r5 + 40]", "fadd r9, r8", "exch r9, [r5 + 40]", "ld.sub r8, [r5 + 1]"),
        "",
    ),
    "product by a constant": (
        ("ld.add r8, [r5]", "exch r9, [r5 + 40]", "fmul.add r9, r8, r249", "exch r9, [r5 + 40]", "ld.sub r8, [r5]"),
        "",
    ),
    "later words": (("ld.add r8, [r5 + 1]", "st.add [r5], r8", "ld.sub r8, [r5 + 1]"), ""),
    "words to which passes add": (
        ("ld.add r8, [r5 + 50]", "st.add [r5], r8", "st.add [r5 + 1], r8", "ld.sub r8, [r5 + 50]"),
        "",
    ),
    "sum": (("ld.add r8, [r5]", "fmul.add r3, r8, r8", "ld.sub r8, [r5]"), ""),
    "sum in memory": (("ld.add r8, [r5 + 1]", "st.add [r0], r8", "ld.sub r8, [r5 + 1]"), ""),
    "erased": (("ld.add r8, [r5]", "st.add [r5 + 40], r8", "erase r8"), ""),
    "overwritten": (("ld.add r8, [r5]", "exch r8, [r0 + 3]", "erase r8"), "overwrites the same word"),
    "recurrence": (("ld.add r8, [r5]", "st.add [r5 + 1], r8", "ld.sub r8, [r5]"), "1 passes before"),
    "prefix sum": (("ld.add r8, [r5]", "fadd r3, r8", "st.add [r5 + 40], r3", "ld.sub r8, [r5]"), "partial sum"),
    "no memory": (("fadd r3, r4",), "does not touch memory"),
    "carried": (("exch r8, [r5]",), "carries"),
    "indirect": (("ld.add r8, [r5]", "st.add [r8], r4", "ld.sub r8, [r5]"), "an address depends"),
}


@pytest.fixture(params=WITH_VECTOR_LOOPS, autouse=True)
def transformations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vector loops are the subject of these tests."""
    set_transformations(request.param, monkeypatch)


@pytest.mark.parametrize("name", BODIES)
def test_dependences(name: str) -> None:
    body, reason = BODIES[name]
    (finding,) = vector_loops(loop_of(*body), Variant())
    assert (finding.loop is None) == bool(reason)
    assert reason in finding.reason


def test_words_put_back_cost_nothing() -> None:
    """A loaded word that is put back is no store, its checks are proven, and a product with 4 is a shift."""
    (finding,) = vector_loops(loop_of(*BODIES["product by a constant"][0]), Variant())
    loop = finding.loop
    assert loop is not None
    assert not loop.guards
    assert [str(tree.op) for tree in loop.stores.values()] == ["add"]
    assert loop.bits < 63
    assert loop.constants[249] == 4 << 32


@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
def test_a_known_shift_costs_nothing(checks: bool) -> None:
    """A product with the shift of the format is the loop of `fmul`: the same words, tests and bounds."""
    plain = ("ld.add r8, [r5]", "exch r9, [r5 + 40]", "fmul.add r9, r8, r8", "exch r9, [r5 + 40]", "ld.sub r8, [r5]")
    shifted = tuple(line.replace("fmul.add r9, r8, r8", "fmulp.add r9, r8, r8, 32") for line in plain)
    (one,), (other,) = (vector_loops(loop_of(*body), Variant(overflow=checks)) for body in (plain, shifted))
    assert one.loop is not None
    assert other.loop is not None
    assert list(one.loop.stores.values()) == list(other.loop.stores.values())
    assert one.loop.guards == other.loop.guards
    assert one.loop.bits == other.loop.bits


def test_unlimited_without_checks() -> None:
    (finding,) = vector_loops(loop_of(*BODIES["update"][0]), Variant(overflow=False))
    assert finding.loop is not None
    assert not finding.loop.bounded


def test_words_of_four_bits_stay_scalar() -> None:
    """They have a byte each in memory."""
    text = """
            .memory 16
            start
            add r6, 5
    top:    from.ne r7, r0, bottom
            add r7, 1
            ld.add r8, [r7]
            st.add [r7 + 7], r8
            ld.sub r8, [r7]
    bottom: goto.ne r7, r6, top
            finish
    """
    (finding,) = vector_loops(rg.assemble(text, format=rg.Format(4, 2)), Variant())
    assert finding.reason == "words have 4 bits"


@pytest.mark.parametrize("width", NARROW)
@pytest.mark.parametrize("name", BODIES)
def test_narrow_words_have_more_lanes(name: str, width: int) -> None:
    body, reason = BODIES[name]
    (finding,) = vector_loops(loop_of(*body, width=width), Variant())
    assert (finding.loop is None) == bool(reason) or (finding.loop is None and finding.reason)
    assert finding.loop is None or finding.loop.lanes == 512 // width


# ---------------------------------------------------------------- in lockstep


@dataclass
class Case:
    program: rg.Program
    memory: list[int]
    registers: dict[int, int]
    overflow: bool

    def load(self, machine: rg.Machine) -> None:
        for r, word in self.registers.items():
            machine.registers[r] = word
        for at, word in enumerate(self.memory):
            machine.memory[at] = word


def generate(seed: int, width: int = 64) -> Case:
    """A random loop: mostly of words that are loaded, used and put back."""
    rng = random.Random(seed)
    memory_size, most = (MORE, 140) if width < 64 or seed % 3 == 2 else (MEMORY, 60)
    stride = rng.choice((1, 1, 1, -1, -1, 0, 2, -3))
    second = rng.choice((stride, stride, 1, -1, 0))
    body: list[str] = []
    undo: list[str] = []
    for r in (8, 9, 10)[: rng.randrange(1, 4)]:
        word = f"[{rng.choice(('r5', 'r5', 'r5', 'r6'))} + {rng.randrange(20)}]"
        body.append(f"ld.add r{r}, {word}")
        undo.insert(0, f"ld.sub r{r}, {word}" if rng.random() < 0.8 else f"erase r{r}")
    if rng.random() < 0.5:
        update = rng.choice(("fadd r9, r8", "fsub r9, r8", "fmul.add r10, r8, r249", "xor r9, r8", "fabs.add r10, r8"))
        body.append(update)
        if update[1:4] in ("add", "sub"):
            undo.insert(0, update.replace("fadd", "fsub") if "fadd" in update else update.replace("fsub", "fadd"))
        else:
            undo.insert(0, update if "xor" in update else "erase r10")
    for _ in range(rng.randrange(1, 4)):
        place = f"[{rng.choice(('r5', 'r5', 'r5', 'r6', 'r0'))} + {rng.choice((30, 31, 32, 45, rng.randrange(60)))}]"
        update = rng.choice(
            ("fadd r14, r8", "fmul.add r14, r8, r9", "fmul.sub r14, r8, r8", "fdiv.add r14, r8, r9", "xor r14, r8", "fmul.add r14, r8, r249", "mul.add r14, r8, r9", "add r14, r7", "fsqrt.add r14, r8")
        )  # fmt: skip
        match rng.randrange(4):
            case 0:
                body.append(f"st.add {place}, r8")
            case 1:
                body.append(rng.choice(("fadd r3, r8", "fmul.add r3, r8, r9", "add r4, r8")))
            case _:
                body += [f"exch r14, {place}", update, f"exch r14, {place}"]
    passes = rng.choice((1, 2, 3, rng.randrange(1, 21), rng.randrange(20, most)))
    by = rng.choice((1, 1, -1, 3))
    program = loop_of(*body, *undo, passes=passes, stride=stride, second=second, by=by, width=width, memory=memory_size)
    # Factors of products are often of different sizes.
    sizes = [rng.choice((20, 36, 44, 62)) * width // 64 for _ in range(2)]
    halves = (sizes[2 * at // memory_size] for at in range(memory_size))
    memory = [rng.randrange(-1 << size, 1 << size) % (1 << width) for size in halves]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        large = 1 << width - 1, (1 << width - 1) - 1, 1 << 50 * width // 64, -1 << width - 3, 0
        memory[rng.randrange(memory_size)] = rng.choice(large) % (1 << width)
    far = passes * abs(stride)
    start = rng.choice((0, 1, far % memory_size, memory_size - 62, rng.randrange(memory_size)))
    registers = {5: start, 6: rng.choice((start, start + 20, rng.randrange(memory_size)))}
    if rng.random() < 0.1:
        registers |= {rng.choice((3, 8, 14)): rng.getrandbits(width)}
    if rng.random() < 0.05:
        registers |= {5: rng.choice((-3, 1 << width - 1, (1 << width) - 2)) % (1 << width)}
    return Case(program, memory, registers, rng.random() < 0.8)


def play(make: Make, seed: int, width: int = 64) -> Any:
    """Run to the end or to a limit inside, and back."""
    print(f"seed {seed}, {width} bits")
    case = generate(seed, width)
    rng = random.Random(~seed)
    both = Lockstep(make, case.program, overflow=case.overflow)
    both.set(case.load)
    # A translation is taken only where steps are left for the whole program several times.
    least, most = 5 * len(case.program.code), 1200
    both.run(rng.choice((most, most, rng.randrange(least, most))))
    both.run(most)
    both.turn()
    both.run(rng.choice((most, rng.randrange(least, most))))
    both.run(most)
    return both


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No code is kept or taken from the cache: the code generator is changed."""
    monkeypatch.setenv("RETROGRAD_CACHE", "")
    # Loops are vectorised also where that does not pay.
    monkeypatch.setattr(loops, "MOST_SCATTERED", 0)
    linked = dict(jit_compiler()._linked)
    jit_compiler()._linked.clear()
    translate._translation_of.cache_clear()
    yield
    jit_compiler()._linked.clear()
    jit_compiler()._linked.update(linked)
    translate._translation_of.cache_clear()


#: vector units of this host and of others: without masks, with four lanes and with two
UNITS = [None, VectorUnit(4, True), VectorUnit(4, False), VectorUnit(2, False)]
#: passes of a strip: more than any loop here has; fewer; 0: passes are not counted
STRIPS = [loops.STRIP, 32, 0]


def set_strip(passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if passes:
        monkeypatch.setattr(vector_loops_module, "STRIP", passes)
    else:
        monkeypatch.setattr(loops._Analysis, "_countdown", lambda self, truth: None)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("strip", STRIPS)
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_random_loops(translated: Make, unit: VectorUnit | None, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if unit is not None:
        monkeypatch.setattr(jit_compiler(), "vector_unit", unit)
    set_strip(strip, monkeypatch)
    found = 0
    for seed in range(SOME):
        both = play(translated, seed)
        assert both.tested.engine == "translated"
        found += vector_loops(both.reference.program, Variant())[0].loop is not None
    assert found > SOME // 4


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("width", NARROW)
@pytest.mark.parametrize("unit", UNITS[:3], ids=str)
def test_random_loops_of_narrow_words(
    translated: Make, unit: VectorUnit | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if unit is not None:
        monkeypatch.setattr(jit_compiler(), "vector_unit", unit)
    found = 0
    for seed in range(SOME_NARROW):
        both = play(translated, seed, width)
        found += vector_loops(both.reference.program, Variant())[0].loop is not None
    assert found


@pytest.mark.long
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("width", [64, *NARROW])
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_many_random_loops(translated: Make, first: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = UNITS[first // SLOW_CHUNK % len(UNITS)]
    if unit is not None:
        monkeypatch.setattr(jit_compiler(), "vector_unit", unit)
    set_strip(STRIPS[first // SLOW_CHUNK // len(UNITS) % len(STRIPS)], monkeypatch)
    for seed in range(first + 10_000, first + 10_000 + SLOW_CHUNK):
        play(translated, seed, width)


@pytest.mark.parametrize(
    ("by", "last", "passes"), [(2, 3 + 2 * 100, 100), (2, 4, 0), (-3, 3 - 3 * 40, 40), (3, 1, 0), (5, 3 + 5 * 55, 55)]
)
def test_a_register_that_passes_its_last_word(translated: Make, by: int, last: int, passes: int) -> None:
    """Of 8 bits: it meets that word beyond 2^W, or meets its first word before, at which the landing traps."""
    program = loop_of(*BODIES["later words"][0], by=by, width=8, memory=MORE, passes=passes, last=last % 256)
    (finding,) = vector_loops(program, Variant())
    assert finding.loop is not None
    assert finding.loop.end is not None
    both = Lockstep(translated, program)
    both.set(lambda m: [m.memory.__setitem__(at, at % 3) for at in range(MORE)])
    both.run(5000)
    both.turn()
    both.run(5000)


@pytest.mark.parametrize("passes", range(1, 22))
def test_every_number_of_passes(translated: Make, passes: int) -> None:
    both = Lockstep(translated, loop_of(*BODIES["words to which passes add"][0], passes=passes))
    both.set(lambda m: [m.memory.__setitem__(at, at + 1) for at in range(MEMORY)])
    both.run(2000)
    both.turn()
    both.run(2000)


@pytest.mark.parametrize("at", range(0, 40, 3))
def test_overflow_at_every_pass(translated: Make, at: int) -> None:
    """A sum that leaves its word traps at its own pass, and all passes before it have been made."""
    both = Lockstep(translated, loop_of(*BODIES["update"][0], passes=39))
    both.set(lambda m: [m.memory.__setitem__(k, 1 << 40) for k in range(MEMORY)])
    both.set(lambda m: m.memory.__setitem__(at + 41, (1 << 63) - 5))
    both.run(2000)
    assert (at < 39) == bool(both.traps)


@pytest.mark.parametrize("width", [64, *NARROW])
def test_partial_sums_overflow_in_the_order_of_passes(translated: Make, width: int) -> None:
    """All words together fit, and a partial sum does not."""
    both = Lockstep(translated, loop_of(*BODIES["sum"][0], passes=30, stride=1, width=width), overflow=True)
    root = isqrt((1 << width // 2 - 1) - 1)
    both.set(lambda m: [m.memory.__setitem__(k, root << width // 2) for k in range(MEMORY)])
    both.run(2000)
    assert both.traps == {"RG0404": 1}


@pytest.mark.parametrize("eighths", range(-8, 17, 2))
@pytest.mark.parametrize("name", ["update", "sum"])
def test_words_about_their_bound(translated: Make, name: str, eighths: int) -> None:
    """All chunks of words below the bound are taken, and none in which a sum may overflow."""
    program = loop_of(*BODIES[name][0], passes=32)
    (finding,) = vector_loops(program, Variant())
    assert finding.loop is not None
    word = int(2 ** (finding.loop.bits + eighths / 8))
    for sign in (1, -1):
        both = Lockstep(translated, program)
        both.set(lambda m, sign=sign: [m.memory.__setitem__(k, sign * (word - k) % (1 << 64)) for k in range(MEMORY)])
        both.run(2000)


@pytest.mark.parametrize("start", [-2, 0, 15, 16, 17, 18, 25, 40])
def test_addresses_beyond_memory(translated: Make, start: int) -> None:
    both = Lockstep(translated, loop_of(*BODIES["update"][0], passes=39))
    both.set(lambda m: m.registers.__setitem__(5, start % (1 << 64)))
    both.run(2000)
    assert bool(both.traps) == (start not in range(18))


@pytest.mark.parametrize("start", [0, 170, 176, 177, 178, 200, 216, 230, 250])
def test_addresses_of_eight_bits_begin_again(translated: Make, start: int) -> None:
    """Beyond 256 words, an address of 8 bits is that of a word at the beginning of a larger memory."""
    both = Lockstep(translated, loop_of(*BODIES["update"][0], passes=39, width=8, memory=400))
    both.set(lambda m: [m.memory.__setitem__(at, at % 3) for at in range(400)])
    both.set(lambda m: m.registers.__setitem__(5, start))
    both.run(2000)
    both.turn()
    both.run(2000)


@pytest.mark.parametrize("limit", range(100, 420, 23))
def test_limits_inside_a_chunk(translated: Make, limit: int) -> None:
    both = Lockstep(translated, loop_of(*BODIES["update"][0]))
    both.set(lambda m: [m.memory.__setitem__(at, at + 1) for at in range(MEMORY)])
    assert both.run(limit) == rg.Outcome(rg.Stop.LIMIT, limit)
    both.run_back(limit // 2)
    both.run()


@pytest.mark.usefixtures("fresh")
def test_chunks_are_executed(translated: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in the code of chunks is found, and only where there are vector loops."""
    store = VectorLoopEmitter._store
    monkeypatch.setattr(VectorLoopEmitter, "_store", lambda self, word, value: store(self, word, value + 1))

    def run() -> None:
        both = Lockstep(translated, loop_of(*BODIES["update"][0]))
        both.run(2000)

    with pytest.raises(AssertionError, match="memory"):
        run()
    monkeypatch.setattr(flow, "VECTOR_LOOPS", False)
    run()


#: a word of memory times a register, added to a word of memory and to a register
FACTORS = (
    "ld.add r8, [r5]", "exch r9, [r5 + 50]", "fmul.add r9, r8, r4", "exch r9, [r5 + 50]", "fmul.add r3, r8, r4", "ld.sub r8, [r5]"
)  # fmt: skip


#: products of three words, two by two
TRIANGLE = (
    "ld.add r8, [r5]", "exch r9, [r5 + 50]", "fmul.add r9, r8, r4", "exch r9, [r5 + 50]", "fmul.add r3, r8, r10", "fmul.add r12, r4, r10",
    "ld.sub r8, [r5]",
)  # fmt: skip


def factors(width: int, own: int, other: int) -> Callable[[rg.Machine], None]:
    """Words of memory of `own` bits, and a register of `other` bits."""

    def load(machine: rg.Machine) -> None:
        machine.registers[4] = (1 << other) - 1
        for at in range(MEMORY):
            machine.memory[at] = (1 << own) - 1 - at % 2 if at < 50 else at

    return load


def lockstep_of_factors(make: Make, width: int, *sizes: tuple[int, int], body: tuple[str, ...] = FACTORS) -> Lockstep:
    """Runs one after the other, forward and back, with factors of these sizes."""
    both = Lockstep(make, loop_of(*body, passes=40, width=width))
    for own, other in sizes:
        both.set(factors(width, own, other))
        both.set(lambda machine, other=other: machine.registers.__setitem__(10, (1 << other) - 2))
        both.run(2000)
        both.turn()
        both.run(2000)
        both.turn()
    return both


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("width", [64, 32])
@pytest.mark.parametrize(("shares", "body"), [((8, 2), FACTORS), ((2, 8), FACTORS), ((8, 2), TRIANGLE)])
def test_bounds_of_factors_are_chosen(
    translated: Make, width: int, shares: tuple[int, int], body: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks run where one factor is large and the other is small; with one bound for both, they do not."""
    store = VectorLoopEmitter._store
    monkeypatch.setattr(VectorLoopEmitter, "_store", lambda self, word, value: store(self, word, value + 1))
    sizes = width * shares[0] // 10, width * shares[1] // 10
    with pytest.raises(AssertionError, match="memory"):
        lockstep_of_factors(translated, width, sizes, body=body)
    jit_compiler()._linked.clear()
    translate._translation_of.cache_clear()
    monkeypatch.setattr(loops._Analysis, "_split", lambda self, proven: None)
    lockstep_of_factors(translated, width, sizes, body=body)


@pytest.mark.parametrize("body", [FACTORS, TRIANGLE], ids=["two", "three"])
@pytest.mark.parametrize("width", [64, *NARROW])
def test_factors_of_all_sizes(translated: Make, width: int, body: tuple[str, ...]) -> None:
    """The same words and traps wherever the bounds lie."""
    few = range(1, width - 1, max(1, width // 8))
    sizes = [(own, other) for own in few for other in few]
    trapped = [bool(lockstep_of_factors(translated, width, one, body=body).traps) for one in sizes]
    assert True in trapped
    assert False in trapped


@pytest.mark.parametrize("width", [64, 32, 16])
def test_bounds_of_factors_change_within_a_run(translated: Make, width: int) -> None:
    both = Lockstep(translated, loop_of(*FACTORS, passes=40, width=width))
    for own, other in ((width * 7 // 10, 2), (2, width * 7 // 10)) * 2:
        both.set(factors(width, own, other))
        both.run(2000)
        both.turn()
        both.run(2000)
        both.turn()
    assert not both.traps


@pytest.mark.parametrize("checks", [True, False])
def test_instances_of_a_batch(checks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a batch that run one by one: words, steps, cycles and erased words; a row that traps fails."""
    monkeypatch.setattr(jit_compiler(), "lanes", 1)
    failed = 0
    for seed in range(100, 108):
        case, core = generate(seed), ("small", "fast")[seed % 2]
        rows = np.array([case.memory, case.memory[::-1]], dtype=np.uint64)
        ran = run_batch(case.program, rows, overflow=case.overflow, checks=checks, cycles=True, core=core)
        assert ran.cycles is not None
        for i, row in enumerate(rows.tolist()):
            machine = rg.Machine(case.program, overflow=case.overflow, core=core)
            machine.load(0, row)
            try:
                machine.run()
            except rg.Trap:
                failed += 1
                assert i in ran.failed or not checks
                continue
            assert ran.rows[i].tolist() == machine.memory[:]
            assert (ran.steps[i], ran.cycles[i]) == (machine.retired, machine.cycles)
    assert failed
