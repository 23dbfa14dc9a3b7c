"""Compiled machines in lockstep with the reference machine: whatever is done to both, they stay equal.

Equal are words, cotangents, PC, BR, DIR, traps to the letter, counts in both directions, bits dropped and erased.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from retrograd.isa.entries import Function, Guard, a, b
from retrograd.isa.expr import mul_shift
from retrograd.simulator.engines import array_words as state_words
from retrograd.simulator.engines import native, tiered_machine
from retrograd.simulator.engines.array_words import zeros
from retrograd.simulator.engines.llvm.instructions import step
from retrograd.simulator.engines.llvm.jit import JitCompiler
from retrograd.simulator.engines.native import NativeEngine
from retrograd.simulator.engines.state import ACCOUNT
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.engines.translator import translate
from support import generator
from support.machines import Lockstep

import retrograd as rg

Make = Callable[..., rg.Machine]
W = rg.Format()

#: programs in the default tier, by format; of those whose cotangents may move there are few: a handler is compiled for each
THREADED = {
    rg.Format(64, 32): 5, rg.Format(32, 16): 2, rg.Format(16, 8): 2, rg.Format(8, 4): 4, rg.Format(64, 0): 2, rg.Format(64, 63): 2,
}  # fmt: skip
LIFTED = (rg.Format(64, 32), rg.Format(8, 4))
#: translated ones: without the long functions, which take LLVM most of its time; handed over by `auto`; and with them
TRANSLATED, HANDED_OVER, WHOLE = 24, 12, 1
#: programs in the full tier, in pieces that can run side by side
SLOW, SLOW_TRANSLATED, SLOW_CHUNK = 10_000, 600, 200

LOOP = """
        start
        add r2, {}
top:    from.ne r1, r0, bottom
        add r1, 1
        add r3, r1
        mul.xor r4, r3, r1
bottom: goto.ne r1, r2, top
        finish
"""

FIBONACCI = """
        .memory 40
        .reg z, r0
        .reg n, r1
        .reg x, r2
        .reg y, r3
        proc fib, r4, r5
test:   goto.eq n, z, base
        sub n, 1
        call fib
        fadd x, y
        swap x, y
skip:   goto join
base:   from test
        add x, 1
        add y, 1
join:   from.ne x, y, skip
        endproc
        start
        add n, 12
        call fib
        finish
"""

#: calls both ways, a turn within a turn, an ancilla freed, memory
CALLS = """
        .memory 16
        proc inner, r8
        fmul.add r5, r1, r1
        fmul.add r2, r5, r6
        fmul.sub r5, r1, r1
        assertz r5
        st.add [r3], r2
        endproc
        proc outer, r9
        uncall inner
        fadd r1, r6
        call inner
        endproc
        start
        add r6, 0.5q
        add r4, 5
top:    from.ne r3, r0, bottom
        call outer
        uncall inner
        uncall outer
        exch r2, [r3 + 8]
        call outer
        add r3, 1
bottom: goto.ne r3, r4, top
        finish
"""


# ---------------------------------------------------------------- whatever is done


def word(rng: random.Random, w: rg.Format) -> int:
    return rng.choice(
        (1 << min(w.frac, w.width - 2), rng.getrandbits(w.width), rng.getrandbits(w.width // 2), 0, w.mask)
    )


def play(make: Make, case: Any, lifted: Collection[rg.Format] | None = None, **options: Any) -> Any:
    """Run, stop, turn round, differentiate and take back, at random; in the end, go back."""
    rng, w = random.Random(case.seed), case.program.format
    modes = {"overflow": rng.random() < 0.7, "strict": rng.random() < 0.15, "keep_dropped": rng.random() < 0.15}
    both = Lockstep(make, case.program, **modes, **options)
    both.set(lambda m: case.load(m.registers, m.memory))
    # Translated code takes over where it cannot run out of steps soon.
    enough = max(case.bound, 5 * len(case.program.code))
    places = [(rng.randrange(256), word(rng, w)) for _ in range(8)]
    somewhere = rng.randrange(len(both.reference.memory))
    if rng.random() < 0.5:
        # What a program relies on does not hold: it traps, in all ways, or goes on for ever.
        wrong = [(r, word(rng, w)) for r in rng.sample(list(case.registers), 5)]
        both.set(lambda m: [m.registers.__setitem__(r, x) for r, x in wrong])

    def seed(machine: rg.Machine) -> None:
        for r, x in places:
            machine.cotangents[r] = x
        machine.memory_cotangents[somewhere] = places[0][1]

    def differentiate() -> None:
        if lifted is None or w in lifted:
            both.differentiate(not both.reference.differentiating)
            if both.reference.differentiating:
                both.set(seed)

    if rng.random() < 0.4:
        differentiate()
    both.run(rng.choice((enough, enough, enough, rng.randrange(5, enough))))
    for _ in range(rng.randrange(1, 6)):
        steps = rng.choice((enough, enough, rng.randrange(1, 400), rng.randrange(8)))
        match rng.choice(("run", "run", "turn", "differentiate", "run_back", "single", "change", "clear")):
            case "run":
                both.run(steps)
            case "run_back":
                both.run_back(steps)
            case "turn":
                both.turn()
            case "differentiate":
                differentiate()
            case "single":
                both.do(lambda m: m.step())
                both.do(lambda m: m.step_back())
            case "change":
                change = rng.randrange(256), word(rng, w)
                both.set(lambda m: m.registers.__setitem__(*change))  # noqa: B023 - done at once
            case "clear":
                both.set(lambda m: m.clear_cotangents())
    both.turn()
    both.run(enough)
    return both


def quick(opcode: Any) -> bool:
    """Whether LLVM is soon done with it."""
    return step(opcode, W, True, False).size <= 60


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps that went on after a failed guard and were undone, each time."""
    out: list[int] = []
    undo = NativeEngine._undo

    def counted(engine: NativeEngine, machine: TieredMachine, steps: int) -> None:
        out.append(steps)
        undo(engine, machine, steps)

    monkeypatch.setattr(NativeEngine, "_undo", counted)
    return out


@contextmanager
def told(seed: int) -> Iterator[None]:
    """Whatever fails inside says for which program."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.parametrize("w", THREADED, ids=str)
def test_threaded(threaded: Make, w: rg.Format) -> None:
    for seed in range(THREADED[w]):
        with told(seed):
            play(threaded, generator.generate(seed, formats=((w, 1),)), LIFTED)


@pytest.mark.long
def test_translated(translated: Make, undone: list[int]) -> None:
    engines: Counter[str] = Counter()
    traps: Counter[str] = Counter()
    for seed in range(1000, 1000 + 5 * TRANSLATED):
        if seed >= 1000 + TRANSLATED and {"RG0404", "RG0406"} <= set(traps):
            break
        with told(seed):
            both = play(translated, generator.generate(seed, allow=quick, sizes=(10, 60)), LIFTED)
        engines[both.tested.engine] += 1
        traps.update(both.traps)
    assert engines["translated"] > engines.total() // 2
    assert undone
    assert {"RG0404", "RG0406"} <= set(traps)


@pytest.mark.parametrize("level", [0, None])
def test_translated_with_long_functions(level: int | None) -> None:
    make = partial(TieredMachine, engine="translated", level=level)
    for seed in range(2000, 2000 + WHOLE):
        with told(seed):
            play(make, generator.generate(seed, sizes=(10, 40)), LIFTED)


@pytest.mark.usefixtures("soon")
def test_auto() -> None:
    engines = set()
    for seed in range(3000, 3000 + 5 * HANDED_OVER):
        if seed >= 3000 + HANDED_OVER and len(engines) == 3:
            break
        case = generator.generate(seed, allow=quick, sizes=(10, 50))
        with told(seed):
            both = play(partial(TieredMachine, level=0), case, LIFTED)
        engines.add(both.tested.engine)
    assert engines == {"reference", "threaded", "translated"}


@pytest.fixture
def unkept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of programs that nobody will ask for again nothing is kept, on disk or here."""
    load = JitCompiler.load

    def unkept(found: JitCompiler, key: str, symbols: Any, emit: Any, level: int = 2) -> dict[str, int]:
        with pytest.MonkeyPatch.context() as patch:
            if "translated" in symbols:
                patch.setenv("RETROGRAD_CACHE", "")
            return load(found, key, symbols, emit, level)

    monkeypatch.setattr(JitCompiler, "load", unkept)
    yield
    translate._translation_of.cache_clear()
    translate._loaded.clear()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_many(threaded: Make, first: int) -> None:
    for seed in range(first + 10_000, first + 10_000 + SLOW_CHUNK):
        with told(seed):
            play(threaded, generator.generate(seed))


@pytest.mark.long
@pytest.mark.usefixtures("unkept")
@pytest.mark.parametrize("first", range(0, SLOW_TRANSLATED, SLOW_CHUNK // 8))
@pytest.mark.parametrize("tier", ["translated", "auto"])
def test_many_translated(tier: str, first: int, soon: None) -> None:
    make = partial(TieredMachine, engine=tier, level=0)
    for seed in range(first + 50_000, first + 50_000 + SLOW_CHUNK // 8):
        case = generator.generate(seed, allow=quick if seed % 8 else None, sizes=(10, 60))
        with told(seed):
            play(make, case)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("text", [LOOP.format(60), FIBONACCI, CALLS], ids=["loop", "recursion", "calls"])
@pytest.mark.parametrize("lifted", [False, True])
def test_limits(make: Make, text: str, lifted: bool) -> None:
    check_limits(make, text, lifted, range(1, 201, 19 if lifted else 5))


@pytest.mark.long
@pytest.mark.parametrize("text", [LOOP.format(60), FIBONACCI, CALLS], ids=["loop", "recursion", "calls"])
@pytest.mark.parametrize("lifted", [False, True])
def test_really_every_limit(make: Make, text: str, lifted: bool) -> None:
    check_limits(make, text, lifted, range(1, 201))


def check_limits(make: Make, text: str, lifted: bool, limits: Iterable[int]) -> None:
    """Stopped after any number of steps; gone on from there, taken back, and turned round."""
    program = rg.assemble(text)
    for steps in limits:
        both = Lockstep(make, program, keep_dropped=lifted and steps % 2 == 0)
        both.differentiate(lifted)
        if lifted:
            both.set(lambda m: m.cotangents.__setitem__(slice(2, 7), [1 << 32] * 5))
        assert both.run(steps) == rg.Outcome(rg.Stop.LIMIT, steps)
        if steps % 3 == 0:
            assert both.run(201 - steps) == rg.Outcome(rg.Stop.LIMIT, 201 - steps)
        elif steps % 3 == 1:
            both.run_back(steps // 2)
            both.run_back(201)
        else:
            both.turn()
            both.run(200)


@pytest.mark.parametrize("text", [LOOP.format(60), FIBONACCI, CALLS], ids=["loop", "recursion", "calls"])
def test_limits_near_the_end(make: Make, text: str) -> None:
    """The limit that is just enough, one less, one more, both ways."""
    program = rg.assemble(text)
    whole = rg.Machine(program).run().steps
    for steps in range(whole - 4, whole + 4):
        both = Lockstep(make, program)
        expected = rg.Outcome(rg.Stop.LIMIT, steps) if steps < whole else rg.Outcome(rg.Stop.HALTED, whole)
        assert both.run(steps) == expected
        both.run_back(steps)
        both.run()
        both.turn()
        both.run(steps - 1)
        both.run(1)
        both.run()


def test_a_run_that_turns_out_to_be_long(monkeypatch: pytest.MonkeyPatch, translated: Make) -> None:
    """What was begun without a thread begins anew in one; with cotangents, and those that were dropped, as they were."""
    monkeypatch.setattr(native, "BRIEF", 700)
    threads: list[int] = []
    begin = native._interruptible
    monkeypatch.setattr(native, "_interruptible", lambda *a: threads.append(1) or begin(*a))
    for lifted in (False, True):
        both = Lockstep(translated, rg.assemble(LOOP.format(1000)))
        both.differentiate(lifted)
        both.do(lambda m: m.run())
        both.do(lambda m: m.run_back())
        both.check()
    assert len(threads) == 4


def test_a_long_run(make: Make) -> None:
    """As many steps as make `auto` hand over by itself, and both ways."""
    program = rg.assemble(LOOP.format(12_000))
    others = [TieredMachine(program), TieredMachine(program, engine="native")]
    both = Lockstep(make, program)
    for act in (lambda m: m.run(), lambda m: m.run_back(), lambda m: m.run(30_001), lambda m: (m.turn(), m.run())[1]):
        outcome = both.do(act)
        for other in others:
            assert act(other) == outcome
            assert other.state() == both.reference.state()
            assert other.executed == both.reference.executed


# ---------------------------------------------------------------- guards that are noticed late


#: name -> (lines between `start` and `finish`, code): instructions that trap with many behind them
LATE: dict[str, tuple[list[str], str]] = {
    "division": (["add r5, 3", "div.add r1, r2, r3"], "RG0402"),
    "domain": (["sub r2, 2.5q", "fsqrt.add r1, r2"], "RG0403"),
    "overflow": (["add r1, 100000q", "fmul.add r2, r1, r1", "swap r2, r1"], "RG0404"),
    "ancilla": (["add r1, 3", "assertz r1"], "RG0407"),
    "outside": (["add r2, 9", "add r1, r2", "add r5, 7", "exch r5, [r1]", "st.add [r1 + 5], r5"], "RG0401"),
    "outside from the first": (["add r1, 9", "add r5, 7", "exch r5, [r1]", "st.add [r1 + 5], r5"], "RG0401"),
    "outside at last": (
        ["add r5, 7", "add r1, 1", "exch r5, [r1]", "exch r5, [r1 + 2]", "st.add [r1 + 3], r5"],
        "RG0401",
    ),
    "outside in front": (
        ["add r5, 7", "exch r5, [r1 + 3]", "sub r1, 2", "exch r5, [r1 + 3]", "exch r5, [r1]"],
        "RG0401",
    ),
    "erased behind it": (
        ["add r5, 7", "div.add r1, r2, r3", "add r6, 8", "erase r5", "erase r6", "erase r7"],
        "RG0402",
    ),
    "erased before it": (["add r5, 7", "erase r5", "add r6, 8", "erase r6", "div.add r1, r2, r3"], "RG0402"),
    "freed behind it": (["add r1, 3", "div.add r4, r2, r3", "assertz r5", "assertz r6", "assertz r1"], "RG0402"),
    "called": (["call f", "add r5, 1", "uncall f", "call g", "call f"], "RG0402"),
    "uncalled": (["call f", "uncall g", "add r5, 1", "call f", "uncall f"], "RG0402"),
}
FUNCTIONS = """
        proc f, r20
        add r21, 3
        mul.add r22, r21, r21
        endproc
        proc g, r23
        add r24, 5
        uncall f
        div.add r25, r2, r3
        call f
        endproc
"""


@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("modes", [{}, {"keep_dropped": True}, {"strict": True}], ids=["plain", "keep", "strict"])
@pytest.mark.parametrize("name", LATE)
def test_guards_noticed_late(make: Make, name: str, modes: dict[str, bool], lifted: bool, undone: list[int]) -> None:
    lines, code = LATE[name]
    behind = ["add r9, 1", "mul.xor r10, r9, r1", "exch r9, [r11 + 2]", "neg r10", "fsub r12, r10"]
    body = ["add r30, 5", *lines, *behind, *behind]
    program = rg.assemble("\n".join([".memory 4", "start", *body, "finish", FUNCTIONS]))
    both = Lockstep(make, program, **modes)
    both.differentiate(lifted)
    if lifted:
        both.set(lambda m: m.cotangents.__setitem__(slice(1, 13), range(1, 13)))
    expected = "RG0408" if modes.get("strict") and name == "erased before it" else code
    for _ in range(2):
        assert both.run()[0] in (expected, "RG0408", "RG0407")
    if both.tested.named == "translated" and not (lifted and modes):
        # A block whose addresses are known at its beginning is not begun.
        assert undone or name.startswith("outside ")
    both.run_back()
    both.run(3)
    both.run()
    both.turn()
    both.run()


def check_loop(make: Make) -> Any:
    """Growing until a sum overflows, or an address leaves the memory; cotangents dropped each time round."""
    for line, code in (("fadd r3, r4\nfadd r4, r3", "RG0404"), ("exch r3, [r1 + 2]\nadd r3, 5", "RG0401")):
        for lifted in (False, True):
            text = LOOP.format(500).replace("add r3, r1", f"{line}\nfmul.add r5, r6, r6\nassertz r5")
            both = Lockstep(make, rg.assemble(".memory 100\n" + text))
            both.set(lambda m: m.registers.__setitem__(slice(3, 5), [1, 2]))
            both.differentiate(lifted)
            if lifted:
                both.set(lambda m: m.cotangents.__setitem__(slice(5, 7), [9, 1 << 20]))
            assert both.run()[0] == code
            assert both.reference.retired > 100
            both.run_back()
            both.run()
            both.turn()
            both.run()
    return both


def test_a_guard_that_fails_as_a_loop_goes_on(make: Make, undone: list[int]) -> None:
    both = check_loop(make)
    assert bool(undone) == (both.tested.named == "translated")


@pytest.mark.parametrize("lifted", [False, True])
def test_the_log_holds_all_that_is_lost(translated: Make, lifted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks: a word of each instruction, and its cotangent. Beyond its end, nothing is written."""
    arrays: list[Any] = []

    def guarded(count: int, w: rg.Format) -> Any:
        array = zeros(count + 500, w)
        array[count:] = 0xAB
        arrays.append(array[count:])
        return array[:count]

    lines = [f"erase r{r}" for r in range(1, 201)]
    both = Lockstep(translated, rg.assemble("\n".join(["start", *lines, "div.add r1, r2, r3", "add r9, 1", "finish"])))
    both.differentiate(lifted)
    for machine in both.machines:
        machine.registers[1:] = range(1, 256)
        if lifted:
            machine.cotangents[1:] = range(1, 256)
    for module in (native, state_words):
        monkeypatch.setattr(module, "zeros", guarded)
    assert both.run()[0] == "RG0402"
    assert len(arrays) > 1
    assert all((array == 0xAB).all() for array in arrays)


def test_what_the_guards_refuse_backward(make: Make) -> None:
    """Met backward, an erasure traps, and so does a word that is not what the forward run leaves."""
    for line, code in (("erase r5", "RG0409"), ("assertz r5", "RG0407"), ("fdiv.add r1, r2, r3", "RG0402")):
        both = Lockstep(
            make, rg.assemble(f"start\nadd r6, 1\nadd r7, 2\n{line}\nadd r8, 1\nadd r9, 1\nfinish"), backward=True
        )
        both.set(lambda m: m.registers.__setitem__(5, 4))
        assert both.run()[0] == code
        both.run_back()


# ---------------------------------------------------------------- tables with more entries


#: where the table has room
FREE = [code for code in range(4, 256, 4) if not any(rg.TABLE.by_code[code : code + 4])]
FREE_PAIR = next(
    code for code in range(4, 256, 2) if code & ~3 != FREE[0] and not any(rg.TABLE.by_code[code : code + 2])
)
NAND = Function("nand", FREE[0], "integer", lambda w: ~(a & b), "Not and.", differentiable=False)
#: of the same name and number
OTHER_NAND = Function("nand", FREE[0], "integer", lambda w: ~(a & b) + 1, "Another.", differentiable=False)
CUBE = Function(
    "fcube", FREE_PAIR, "fixed", lambda w: mul_shift(mul_shift(a, a, w.frac), a, w.frac), "The cube.", ("add", "sub"),
    guards=lambda w: (Guard(a.lt(8 << w.frac), "RG0404", mode="overflow", culprit=a),),
)  # fmt: skip


@pytest.mark.parametrize("seeds", [(2,), pytest.param((0, 1, 3, 4), marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize("entry", [NAND, OTHER_NAND, CUBE], ids=lambda entry: entry.doc)
def test_added_entries(make: Make, entry: Function, seeds: tuple[int, ...]) -> None:
    table = rg.TABLE.extended(entry)
    used = 0
    # Programs are drawn from the instructions of the table, so another seed may be needed once it has more of them.
    for seed in (*seeds, *range(100, 130)):
        if used and seed not in seeds:
            break
        case = generator.generate(seed, table=table, formats=((W, 1),), sizes=(30, 40), allow=quick)
        used += sum(i.opcode.entry is entry for i in case.program.instructions)
        with told(seed):
            play(make, case)
    assert used


def test_the_same_code_means_what_its_table_says(make: Make) -> None:
    one, other = (rg.TABLE.extended(entry) for entry in (NAND, OTHER_NAND))
    text = "start\nadd r1, 12\nadd r2, 10\nnand.add r3, r1, r2\nnand.add r4, r1, r1\nfinish"
    for _ in range(2):
        for table, result in ((one, ~8), (other, ~8 + 1)):
            machine = make(rg.assemble(text, table=table))
            machine.run()
            assert machine.registers[3] == result & W.mask


# ---------------------------------------------------------------- the checks can fail


class ForgetsToUndo(NativeEngine):
    """What went on after a failed guard stays."""

    def _undo(self, machine: TieredMachine, steps: int) -> None:
        pass


class UndoesTooLittle(NativeEngine):
    """Only the last steps are taken back."""

    def _undo(self, machine: TieredMachine, steps: int) -> None:
        super()._undo(machine, (steps + 1) // 2)


class CountsWhatWasUndone(NativeEngine):
    """Undone steps count as taken, and as taken back."""

    def _undo(self, machine: TieredMachine, steps: int) -> None:
        before = self.hits.copy()
        super()._undo(machine, steps)
        self.hits[:] = before


class LosesAccount(NativeEngine):
    """Undone, what was dropped stays dropped."""

    def _undo(self, machine: TieredMachine, steps: int) -> None:
        before = [int(self.control[slot]) for slot in ACCOUNT]
        super()._undo(machine, steps)
        for slot, value in zip(ACCOUNT, before, strict=True):
            self.control[slot] = value


class OneStepMore(NativeEngine):
    """Runs a step too far."""

    def _run_threaded(self, machine: TieredMachine, steps: int, stops: frozenset[int] = frozenset()) -> tuple[int, int]:
        why, taken = super()._run_threaded(machine, steps + 1, stops)
        return why, min(taken, steps)


class ForgetsWhatWasDropped(NativeEngine):
    """Dropped cotangents are not counted."""

    def _run_threaded(self, machine: TieredMachine, steps: int, stops: frozenset[int] = frozenset()) -> tuple[int, int]:
        before = None if machine._cotangents is None else machine._cotangents.dropped
        try:
            return super()._run_threaded(machine, steps, stops)
        finally:
            if before is not None and machine._cotangents is not None:
                machine._cotangents.dropped = before


class CountsOneWay(NativeEngine):
    """What the interpreter executes backward is not counted."""

    def _collect(self, entries: Any, n: int) -> None:
        entries["count"][n + 1 :] = 0
        super()._collect(entries, n)


def stand_at(machine: rg.Machine, before: Any) -> None:
    machine.pc, machine.br, machine.direction = before[:3]


def every_limit(make: Make) -> None:
    for text in (LOOP.format(60), CALLS):
        for lifted in (False, True):
            check_limits(make, text, lifted, range(150, 200))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("fault", "engine", "check"),
    [
        (ForgetsToUndo, "translated", check_loop),
        (UndoesTooLittle, "translated", check_loop),
        (CountsWhatWasUndone, "translated", check_loop),
        (LosesAccount, "translated", check_loop),
        ("careless", "translated", check_loop),
        (OneStepMore, "threaded", every_limit),
        (OneStepMore, "translated", every_limit),
        (ForgetsWhatWasDropped, "threaded", every_limit),
        (CountsOneWay, "threaded", every_limit),
        ("begins anew from the middle", "auto", check_loop),
    ],
)
def test_a_planted_fault_is_found(
    fault: Any, engine: str, check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "careless":  # translated code that leaves its guards out
        variant_of = native.variant_of
        monkeypatch.setattr(native, "variant_of", lambda m: replace(variant_of(m), checks=False))
    elif fault == "begins anew from the middle":  # memory and registers stay as they have become
        monkeypatch.setattr(tiered_machine, "restore", stand_at)
    else:
        monkeypatch.setattr(native, "NativeEngine", fault)
    with pytest.raises(AssertionError):
        check(partial(TieredMachine, engine=engine, level=0))


QUOTIENTS = """
        .memory 2
        start
        add r5, 40
top:    from.ne r6, r0, bottom
        add r6, 1
        ld.add r1, [r0]
        ld.add r2, [r0 + 1]
        fdivp.add r3, r1, r2, 40
        fdivp.add r4, r1, r2, 45
        fdivp.sub r4, r1, r2, 45
        fdivp.sub r3, r1, r2, 40
        ld.sub r2, [r0 + 1]
        ld.sub r1, [r0]
bottom: goto.ne r6, r5, top
        sub r6, 40
        sub r5, 40
        finish
"""


def test_quotients_with_cotangents_differ_in_their_shifts() -> None:
    """Translated, an instruction with cotangents calls a function of its own, and each shift needs another."""
    program = rg.assemble(QUOTIENTS)
    for machine in (rg.Machine(program), TieredMachine(program, engine="translated", level=0)):
        machine.load(0, [3 << 40, 5 << 32])
        machine.differentiating = True
        machine.run()
        assert not any(machine.registers)
