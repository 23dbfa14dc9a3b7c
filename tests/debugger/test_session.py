"""Sessions of the debugger: each step equals that of the reference machine, and every search finds the nearest step."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.examples.bessel import bessel
from retrograd.examples.fibonacci_search import search
from retrograd.isa.diagnostics import InputError
from retrograd.isa.program import Program
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import Machine, MachineState, Trap
from support.generator import Case, generate

from retrograd.derivatives import grad
from retrograd.derivatives._requests import way_back
from retrograd.observe import Place, Session
from retrograd.observe._timeline import load_state, save_state
from retrograd.observe._variables import variables, written_registers
from retrograd.runtime._binding import bind
from retrograd.runtime._execution import load

#: r2 = Σ i² for i ≤ r1; M[0] counts the passes, M[1] stays
SUM = """\
.reg n, r1
.reg total, r2
.reg i, r3
.data
passes: .word 0
other:  .word 7
.text
        start
again:  from.ne i, r0, more
        mul.add total, i, i
        add r5, 1
        st.add [r0 + passes], r5
        sub r5, 1
        add i, 1
more:   goto.le i, n, again
        sub i, n
        sub i, 1
        finish
"""
CALLS = """\
.memory 64
        start
        call outer
        uncall inner
        finish
proc outer, r10, r11
        call inner
        add r2, 1
        call inner
endproc
proc inner, r12, r13
        add r1, 1
endproc
"""
ERASES = "start\n add r1, 5\n erase r1\n add r1, 7\n erase r1\n add r2, 1\n finish"
#: no run of these programs is longer
MOST = 800


def session_of(text: str, engine: str = "reference", **registers: int) -> Session:
    machine = machine_for(assemble(text), engine)
    for name, word in registers.items():
        machine.registers[int(name[1:])] = word
    return Session(machine)


def states(machine: Machine) -> list[MachineState]:
    """The states of a run until it ends or traps."""
    out = [machine.state()]
    try:
        while len(out) < MOST and machine.step():
            out.append(machine.state())
    except Trap:
        pass
    return out


def loaded(case: Case, engine: str) -> Machine:
    machine = machine_for(case.program, engine)
    for number, word in case.registers.items():
        machine.registers[number] = word
    machine.load(0, case.memory)
    return machine


def test_the_way_back_of_a_gradient() -> None:
    """Random motions on the way back, with cotangents, end at the states of the reference machine."""
    from tests.debugger.test_recording import words_of

    def opened(engine: str) -> Machine:
        request = replace(grad(bessel, loss="out", scale=14).request, engine=engine)
        values = request.values((0.0, 2.5), {})
        turned = way_back(request, values)
        machine = request.machine(turned.compiled, values)
        machine.run()
        turned.begin(machine)
        return machine

    machine, states = opened("reference"), []
    while True:
        states.append((machine.pc, words_of(machine), machine.dropped_bits))
        if not machine.step():
            break
    assert states[-1][2] > 0
    for engine in ("reference", "native"):
        session, rng = Session(opened(engine)), random.Random(7)
        for _ in range(60):
            n = rng.randrange(len(states))
            session.to(n)
            now = session.machine
            assert (now.pc, words_of(now)) == states[n][:2], (engine, n)
            assert session.counts().dropped_bits == states[n][2]
            assert session.counts().retired == n
            for variable in session.variables():
                assert variable.cotangent is not None


def check_motions(machine: Machine, expected: list[MachineState], seed: int) -> None:
    """Random motions, each of which must end at a state of the reference machine."""
    session, rng, last = Session(machine), random.Random(seed), len(expected) - 1
    for _ in range(12):
        motion = rng.randrange(7)
        back = rng.random() < 0.5
        match motion:
            case 0:
                session.to(rng.randrange(last + 1))
            case 1:
                session.step(back=back)
            case 2:
                session.step_over(back=back)
            case 3:
                session.step_line(back=back, over=rng.random() < 0.5)
            case 4:
                session.step_out(back=back)
            case 5:
                pc = rng.randrange(len(machine.program.code))
                found = session.break_at(f"*{pc}")
                here = session.position
                session.resume(back=back)
                ways = range(here - 1, -1, -1) if back else range(here + 1, last + 1)
                nearest = next((n for n in ways if expected[n][2] == pc), 0 if back else last)
                assert session.position == nearest, (here, pc, back)
                session.delete(found.number)
            case _:
                check_last_write(session, expected, rng)
        assert 0 <= session.position <= last
        assert session.machine.state() == expected[session.position], motion
        assert sum(map(sum, session.timeline.executed.values())) == session.position
    n = rng.randrange(last + 1)
    session.to(n)
    assert session.machine.state() == expected[n]


def check_last_write(session: Session, expected: list[MachineState], rng: random.Random) -> None:
    memory = bool(expected[0][1]) and rng.random() < 0.5
    index = rng.randrange(len(expected[0][1])) if memory else rng.randrange(8)
    words = [state[1 if memory else 0][index] for state in expected]
    here = session.position
    last = next((n for n in range(here - 1, -1, -1) if words[n] != words[n + 1]), None)
    found = session.last_write(Place(index, memory))
    assert (found and found.step) == last
    if found is not None and last is not None:
        assert (found.before, found.after, found.pc) == (words[last], words[last + 1], expected[last][2])
    assert session.position == here


@pytest.mark.parametrize("engine", ["reference", "threaded"])
@pytest.mark.parametrize("seed", range(4))
def test_any_motions_end_at_the_states_of_the_reference_machine(seed: int, engine: str) -> None:
    case = generate(seed)
    check_motions(loaded(case, engine), states(loaded(case, "reference")), seed)


@pytest.mark.parametrize("text", [SUM, CALLS, ERASES])
@pytest.mark.parametrize("engine", ["reference", "threaded"])
def test_motions_in_calls_loops_and_erasure(text: str, engine: str) -> None:
    for seed in range(4):
        machines = [machine_for(assemble(text), name) for name in (engine, "reference")]
        for machine in machines:
            machine.registers[1] = 6 * (text is SUM)
        check_motions(machines[0], states(machines[1]), seed)


@pytest.mark.parametrize("engine", ["reference", "threaded"])
def test_a_breakpoint_far_away_is_found_in_both_directions(engine: str) -> None:
    session = session_of(SUM, engine, r1=400)
    session.break_at("more", "i == 3")
    assert session.resume().reason == "breakpoint"
    first = session.position
    assert session.resume().reason == "end"
    assert session.resume(back=True).reason == "breakpoint"
    assert (session.position, session.evaluate("i")) == (first, 3)


def test_a_watch_stops_after_the_change_forward_and_before_it_backward() -> None:
    session = session_of(SUM, r1=5)
    session.watch("total")
    event = session.resume()
    assert event.write is not None
    assert (event.reason, event.write.before, event.write.after) == ("watch", 0, 1)
    assert session.evaluate("total") == 1
    assert session.resume(back=True).reason == "watch"
    assert session.evaluate("total") == 0
    assert session.resume(back=True).reason == "beginning"


def test_a_watch_of_a_word_that_no_instruction_writes_runs_to_the_end() -> None:
    session = session_of(SUM, r1=5)
    session.watch("other")
    assert session.resume().reason == "end"
    cause = session.why(session.place("other"))
    assert (cause.writes, cause.initial) == ((), True)


def test_why_follows_exchanges_to_the_instruction_that_computed_the_value() -> None:
    session = session_of("start\n add r1, 5\n swap r1, r2\n exch r2, [r0]\n finish\n.memory 1")
    session.to(100)
    cause = session.why(session.place("M[0]"))
    assert [w.instruction.opcode.name for w in cause.writes] == ["exch", "swap", "imm.add"]
    assert not cause.initial


def test_calls_are_stepped_over_and_listed() -> None:
    session = session_of(CALLS)
    session.to(1)
    session.step_over()
    assert session.evaluate("r1 + r2") == 3
    session.step_over(back=True)
    assert session.position == 1
    session.break_at("inner")
    session.resume()
    frames, whole = session.frames()
    assert whole
    assert [frame.pc for frame in frames[1:]] == sorted((f.pc for f in frames[1:]), reverse=True)
    assert len(frames) == 3


def test_a_step_back_over_an_erasure_begins_the_run_anew() -> None:
    session = session_of(ERASES)
    session.to(100)
    assert session.counts().erased_bits == 128
    session.to(2)
    assert (session.evaluate("r1"), session.counts().erased_bits) == (5, 0)


def test_a_change_begins_another_run_in_both_directions() -> None:
    session = session_of(SUM, r1=5)
    session.to(4)
    session.set(session.place("total"), 100)
    session.step(back=True)
    session.step()
    assert session.evaluate("total") == 100


def test_a_trap_is_an_event_and_the_run_goes_back_from_there() -> None:
    session = session_of("start\n add r1, 5\n assertz r1\n finish")
    event = session.resume()
    assert (event.reason, event.pc, session.position) == ("trap", 2, 2)
    assert session.resume(back=True).reason == "beginning"


@pytest.mark.parametrize(
    "text", ["r1 +", "f(1)", "r1 < 'a'", "[1]", "r1 if r2 else r3", "__import__('os')", "1 // 0", ""]
)
def test_expressions_have_few_nodes(text: str) -> None:
    with pytest.raises(InputError, match=r"expression|meaning|division"):
        session_of(SUM).evaluate(text)


@pytest.mark.parametrize(("text", "way"), [("r1 / 2", "`//`"), ("$2 + 1", "`r2` is $2")])
def test_the_hint_of_an_expression_leads_on(text: str, way: str) -> None:
    with pytest.raises(InputError) as caught:
        session_of(SUM).evaluate(text)
    assert way in str(caught.value)


def test_expressions() -> None:
    session = session_of(SUM, r1=5, r4=(1 << 64) - 1)
    for text in (
        "n == 5",
        "r4 == -1",
        "other == 7 and not passes",
        "0 < n < 6",
        "M[1] == other",
        "real(r4) < 0.5",
        "pc == 0",
    ):
        assert session.evaluate(text), text
    for text, value in ("0 or 3", 3), ("2 and 5", 5), ("0 and 5", 0), ("4 or 3", 4), ("1 and 0 or 7", 7):
        assert session.evaluate(text) == value, text


def test_writers_are_complete() -> None:
    """An instruction changes no register outside of its `written_registers`."""
    for seed in range(8):
        machine = loaded(generate(seed), "reference")
        code: Program = machine.program
        before = machine.state()
        for after in states(machine)[1:]:
            changed = {i for i, (x, y) in enumerate(zip(before[0], after[0], strict=True)) if x != y}
            assert changed <= written_registers(code.instructions[before[2]])
            before = after


def test_a_saved_state_is_read_back_and_checked(tmp_path: Path) -> None:
    session = session_of(SUM, r1=5)
    session.to(9)
    path = str(tmp_path / "state")
    save_state(path, session.machine, session.position)
    other = machine_for(assemble(SUM), "reference")
    assert load_state(path, other) == 9
    assert other.state() == session.machine.state()
    resumed = Session(other, 9)
    resumed.to(0)
    session.to(0)
    assert other.state() == session.machine.state()
    text = (tmp_path / "state").read_text()
    for wrong in (
        text[:-9],
        text.replace("state/1", "state/2"),
        text.replace('"pc": ', '"pc": 1e400 , "x":'),
        "[]",
        "{}",
    ):
        (tmp_path / "state").write_text(wrong)
        before = other.state()
        with pytest.raises(InputError, match="no state"):
            load_state(path, other)
        assert other.state() == before
    save_state(path, session.machine, 0)
    with pytest.raises(InputError, match="another program"):
        load_state(path, Machine(assemble(CALLS)))


def test_variables_of_the_source_by_name_in_recursive_calls() -> None:
    """search(n) at the call of fib: the variables of the caller there, those of each activation inside."""
    compiled = search.compiled(0, 3)
    session = Session(load(compiled, [0, 3], engine="reference"))
    session.break_at("fib", "n == 2")
    assert session.resume().reason == "breakpoint"
    assert {v.name: v.value for v in session.variables()} == {"n": 2, "out": 0}
    assert session.evaluate("n + out") == 2
    here = session.position
    assert session.resume().reason == "breakpoint"
    assert session.resume(back=True).step == here
    session.run_until("value > 0")
    assert {v.name for v in session.variables()} == {"n", "value", "bound"}
    assert session.place("value") == next(v.place for v in session.variables() if v.name == "value")
    with pytest.raises(InputError, match="no place"):
        session.evaluate("nothing")


def test_values_of_variables_are_numbers_of_their_kind() -> None:
    values = bind(bessel, (0.0, 1.5, 2), {})
    session = Session(load(bessel.compiled(*values), values, engine="reference"))
    session.run_until("term > 0.25")
    found = {v.name: v for v in session.variables()}
    assert found["term"].kind == "fixed[48]"
    assert found["term"].value == Fraction(3, 4) ** 2 / 2
    session.run_until("divisor > 3")
    assert session.evaluate("divisor") == 8


def test_a_variable_that_is_not_live_makes_a_condition_false_and_an_expression_wrong() -> None:
    session = Session(load(search.compiled(0, 3), [0, 3], engine="reference"))
    assert session.evaluate("bound") == 3  # the word of the argument in memory
    with pytest.raises(InputError, match="not live"):
        session.evaluate("out")
    session.break_at("fib", "value == 0")
    assert session.resume().reason == "end"


def test_locations_of_the_inverse_program() -> None:
    """Run forward, the inverse program passes the points of the program run backward."""
    program = search.compiled(0, 3).program
    forward, backward = machine_for(~program, "reference"), machine_for(program, "reference", backward=True)
    for machine in (forward, backward):
        machine.load(0, [4, 3])
    seen = 0
    while True:
        assert variables(forward) == variables(backward)
        seen += len(variables(forward))
        if not forward.step():
            break
        backward.step()
    assert seen > 100
