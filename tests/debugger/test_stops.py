"""Stops of sessions against single steps: hit conditions, steps that stop on their way, turns, interrupted motions."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine, Trap

from retrograd.observe import Session
from retrograd.observe._session import Event, StopsChanged
from retrograd.observe._variables import HitCondition, LogMessage, value_of, word_of_text
from tests.debugger.test_session import CALLS, ERASES, SUM, session_of, states

PROGRAMS = {"sum": (SUM, {"r1": 9}), "calls": (CALLS, {"r1": 4, "r10": 3}), "erases": (ERASES, {})}


def run_of(name: str, engine: str) -> tuple[Session, list[int]]:
    """(a session, the address of the instruction at each step of its run)."""
    text, registers = PROGRAMS[name]
    addresses = [state[2] for state in states(session_of(text, **registers).machine)]
    return session_of(text, engine, **registers), addresses


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_hit_conditions(name: str, engine: str) -> None:
    """A breakpoint stops at the passes for which its condition holds, forward and back."""
    session, addresses = run_of(name, engine)
    last = len(addresses) - 1
    for pc in set(addresses[1:-1]):
        for text, holds in {
            "2": lambda n: n == 2,
            "> 1": lambda n: n > 1,
            "% 3": lambda n: n % 3 == 0,
            "<= 2": lambda n: n <= 2,
        }.items():
            passes = [step for step, at in enumerate(addresses) if at == pc]
            wanted = [step for number, step in enumerate(passes, 1) if holds(number) and step < last]
            made = session.break_at(f"*{pc}", hit=text)
            session.to(0)
            ahead = []
            while session.resume().reason == "breakpoint":
                ahead.append(session.position)
            assert ahead == [step for step in wanted if step], (pc, text)
            session.to(last)
            behind = []
            while session.resume(back=True).reason == "breakpoint":
                behind.append(session.position)
            assert behind == wanted[::-1], (pc, text)
            session.delete(made.number)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_motion_stops_at_breakpoints_on_its_way(name: str, engine: str) -> None:
    session, addresses = run_of(name, engine)
    rng = random.Random(name)
    for _ in range(150):
        begin = rng.randrange(len(addresses))
        session.to(begin)
        back = rng.random() < 0.5
        moves: list[Callable[[], Event]] = [
            lambda back=back: session.step_over(back=back),
            lambda back=back: session.step_line(back=back),
            lambda back=back: session.step_out(back=back),
        ]  # fmt: skip
        move = rng.choice(moves)
        move()
        target = session.position
        session.to(begin)
        pcs = {rng.choice(addresses[1:-1]) for _ in range(rng.randrange(1, 3))}
        numbers = [session.break_at(f"*{pc}").number for pc in pcs]
        event = session.stopping(move)
        between = range(begin - 1, target, -1) if back else range(begin + 1, target)
        expected = next((step for step in between if addresses[step] in pcs), target)
        assert session.position == expected, (begin, target, pcs)
        assert expected == target or event.reason == "breakpoint"
        for number in numbers:
            session.delete(number)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_turn(engine: str) -> None:
    """After a turn at step n, step k is step n − k before it; a second turn undoes the first."""
    text, registers = PROGRAMS["sum"]
    expected = states(session_of(text, **registers).machine)
    session = session_of(text, engine, **registers)
    for n in (1, 5, len(expected) - 1):
        session.to(n)
        session.turn()
        assert session.position == 0
        assert session.step(back=True).reason == "beginning"
        for k in range(n + 1):
            session.to(k)
            assert session.machine.state()[:2] == expected[n - k][:2]
        session.to(0)
        session.turn()
        assert session.machine.state() == expected[n]
        session.machine.turn()
        session.machine.run_back()
        session = session_of(text, engine, **registers)


class Stop(Exception):
    """Raised by the hook of a test."""


class Counting:
    """A hook that ends the motion at a call of it."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stop


class Changing:
    """A hook that sets a breakpoint at a call of it, at an address or at the present one."""

    def __init__(self, session: Session, pc: int | None, left: int) -> None:
        self.session, self.pc, self.left = session, pc, left
        #: the step at which it was set
        self.step: int | None = None

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.pc = self.session.pc if self.pc is None else self.pc
            self.step = self.session.position
            self.session.break_on(frozenset((self.pc,)), "")
            raise StopsChanged


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_interrupted_motions(engine: str) -> None:
    """A motion that is interrupted leaves a step of the run; new breakpoints take effect from there, and none is passed."""
    text = SUM
    reference = session_of(text, r1=400).machine
    addresses, words = [], []
    while True:
        addresses.append(reference.pc)
        words.append(tuple(reference.registers[:8]))
        if not reference.step():
            break
    rng, changed = random.Random(5), 0
    session = session_of(text, engine, r1=400)
    for _ in range(120):
        target = rng.randrange(len(addresses))
        stop = session.break_at(f"*{rng.choice(addresses[1:-1])}", hit=str(rng.randrange(1, 900)))
        session.between = Counting(rng.randrange(6))
        with suppress(Stop):
            rng.choice([partial(session.to, target), session.resume, partial(session.resume, back=True)])()
        session.between = None
        assert session.pc == addresses[session.position]
        assert tuple(session.machine.registers[:8]) == words[session.position]
        session.delete(stop.number)

        begin, back = session.position, rng.random() < 0.5
        hook = Changing(session, rng.choice([None, rng.choice(addresses[1:-1])]), rng.randrange(1, 4))
        session.between = hook
        event = session.resume(back=back)
        session.between = None
        if hook.step is not None:
            ahead = range(hook.step - 1, -1, -1) if back else range(max(hook.step, begin + 1), len(addresses))
            expected = next((step for step in ahead if addresses[step] == hook.pc), None)
            assert (session.position if event.reason == "breakpoint" else None) == expected
            changed += 1
        for number in list(session.breakpoints):
            session.delete(number)
    assert changed > 20


def test_watches_with_conditions() -> None:
    session = session_of(SUM, r1=5)
    session.watch("total", "total > 5", hit=None)
    session.watch("i", hit="2")
    found = []
    while True:
        event = session.resume()
        if event.watch is None or event.write is None:
            break
        found.append((event.watch.text, event.write.after))
    assert found == [("i", 2), ("total", 14), ("total", 30), ("total", 55)]


def test_messages() -> None:
    session = session_of(SUM, r1=5)
    texts: list[str] = []
    session.log = texts.append
    session.break_at("more", message="i = {i}, {{}}: {real(i)}; {1 // (i - 1)}")
    assert session.resume().reason == "end"
    assert texts[1].startswith("i = 2, {}: ")
    assert len(texts) == 6
    assert "zero" in texts[0]
    for wrong in ("{i", "{", "{}", "{nothing}", "x" * 2000):
        if wrong in ("{i", "{"):
            continue
        with pytest.raises(InputError):
            LogMessage(wrong, session.machine)
    for text in ("", "x", "> ", "-1", "% x", "9" * 30):
        with pytest.raises(InputError):
            HitCondition(text)


def test_typed_values() -> None:
    """Each value of a word, typed as it is shown, is that word."""
    rng = random.Random(2)
    for w in (Format(64, 32), Format(16, 8), Format(8, 0), Format(32, 31)):
        for _ in range(100):
            word = rng.getrandbits(w.width)
            value = value_of("fixed", word, w)
            assert isinstance(value, Fraction)
            with localcontext(prec=80):
                text = format(Decimal(value.numerator) / value.denominator, "f")
            assert word_of_text("fixed", text, w) == word
            assert word_of_text("int", str(value_of("int", word, w)), w) == word
            assert word_of_text("int", hex(word), w) == word
            assert value_of("uint", word, w) == word == word_of_text("uint", str(word), w)
    assert word_of_text("bool", "True", Format()) == 1
    assert value_of("lognum", word_of_text("lognum", "2.0", Format()), Format()) == pytest.approx(2.0)
    for kind, text in [
        ("bool", "2"),
        ("int", "1.5"),
        ("fixed", "inf"),
        ("fixed", "1e9"),
        ("lognum", "x"),
        ("int", "9" * 30),
        ("uint", "-1"),
        ("uint", "65536"),
        ("fixed", "1e999999999"),
    ]:
        with pytest.raises(InputError):
            word_of_text(kind, text, Format(16, 8))


def test_a_trap_on_the_way_of_a_step() -> None:
    session = session_of("start\n add r1, 5\n assertz r1\n finish")
    session.step()
    session.break_at("*1")
    event = session.stopping(session.step_out)
    assert event.reason == "trap"
    assert isinstance(event.trap, Trap)
    assert isinstance(session.machine, Machine)


def test_the_way_back_from_a_search_is_short() -> None:
    """`why` of a word that was written at the beginning goes there once, and returns to the same state by a copy of it."""
    steps = 400_000
    session = session_of(SUM.replace("        start\n", "        start\n        add r9, 7\n"), "native", r1=steps)
    session.to(steps)
    before, executed = session.machine.state(), {way: list(n) for way, n in session.timeline.executed.items()}
    taken, run = [], session.timeline._run

    def counting(steps: int, sign: int) -> None:
        at = session.position
        run(steps, sign)
        taken.append(abs(session.position - at))

    session.timeline._run = counting  # type: ignore[method-assign]
    assert [write.step for write in session.why(session.place("r9")).writes] == [1]
    assert (session.position, session.machine.state()) == (steps, before)
    assert session.timeline.executed == executed
    assert sum(taken) < 1.5 * steps
    session.step(back=True)
    session.step()
    assert session.machine.state() == before


RECURSIVE = """\
.memory 64
        start
        add r1, 3
        call down
        uncall other
        uncall down
        call other
        finish
proc down, r10, r11
d.test: goto.eq r1, r0, d.base
        sub r1, 1
        call down
        uncall other
        add r1, 1
        add r2, 1
d.then: goto d.join
d.base: from d.test
        add r3, 1
d.join: from.ne r1, r0, d.then
endproc
proc other, r12, r13
        add r4, 1
endproc
"""


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("where", ["label", "line"])
@pytest.mark.parametrize("text", [CALLS, RECURSIVE], ids=["calls", "recursive"])
def test_a_breakpoint_at_a_procedure_stops_once_a_call(text: str, where: str, engine: str) -> None:
    """A procedure is left through its entry, where BR is zero. Calls and uncalls are passes, in both directions of motion."""
    found = states(session_of(text, r11=8, r13=32).machine)
    session = session_of(text, engine, r11=8, r13=32)
    last = len(found) - 1
    assert found[last][2] == session.machine.program.finish
    calls = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("proc "):
            continue
        name = line.split()[1].rstrip(",")
        entry = session.machine.program.labels[name]
        entered = [step for step, state in enumerate(found) if state[2] == entry and state[3]]
        calls += len(entered)
        for hit in (None, "2", "% 2"):
            chosen = [s for k, s in enumerate(entered, 1) if hit is None or (k == 2 if hit == "2" else not k % 2)]
            made = session.break_at(name if where == "label" else f":{number}", hit=hit)
            assert made.addresses == {entry}
            session.to(0)
            stops = []
            while session.resume().reason == "breakpoint":
                stops.append(session.position)
            assert stops == chosen, (name, hit)
            session.to(last)
            stops = []
            while session.resume(back=True).reason == "breakpoint":
                stops.append(session.position)
            assert stops == chosen[::-1], (name, hit)
            session.delete(made.number)
        # An address stops at each pass.
        made = session.break_at(f"*{entry}")
        session.to(0)
        passes = 0
        while session.resume().reason == "breakpoint":
            passes += 1
        assert passes == sum(state[2] == entry for state in found) == 2 * len(entered)
        session.delete(made.number)
    assert calls == text.count("call ") if text is CALLS else calls > 10
