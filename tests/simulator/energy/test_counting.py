"""What a run counts: by hand for programs small enough, the same on every engine, and additive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from retrograd.examples import bessel
from retrograd.isa.microarchitecture.schedule import Execution
from retrograd.isa.program import SourceMap
from retrograd.simulator.energy.counts import (
    FRAME,
    TOP,
    Access,
    Counts,
    HostTraffic,
    by_function,
    by_line,
    counts_of,
    host_traffic,
    operations_of,
)
from retrograd.simulator.engines.tiered_machine import TieredMachine

import retrograd as rg
from retrograd import Array, fixed, library, reversible
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._execution import execute, load
from retrograd.runtime._reversible import Reversible

ENGINES: dict[str, Callable[..., rg.Machine]] = {
    "threaded": partial(TieredMachine, engine="threaded"),
    "translated": partial(TieredMachine, engine="translated", level=0),
}

#: three passes of a loop, with memory, an erase and a test of an ancilla
LOOP = """
.format 32, 16
.memory 2
start
add r1, 3
top: from.ne r3, r0, bottom
add r3, 1
st.add [r0 + 1], r3
ld.add r4, [r0 + 1]
erase r4
bottom: goto.ne r3, r1, top
assertz r4
finish
"""


def ran(text: str, make: Callable[..., rg.Machine] = rg.Machine, **modes: Any) -> rg.Machine:
    machine = make(rg.assemble(text), **modes)
    machine.run()
    return machine


def test_by_hand() -> None:
    counts = counts_of(ran(LOOP))
    assert counts.retired == 3 + 3 * 6
    assert counts.retired_by_function() == {
        "start": {1: 1, -1: 0},
        "imm": {1: 1 + 3, -1: 0},
        "goto.ne": {1: 2 * 3, -1: 0},
        "st": {1: 3, -1: 0},
        "ld": {1: 3, -1: 0},
        "erase": {1: 3, -1: 0},
        "assertz": {1: 1, -1: 0},
    }
    # A store reads the word that it changes; a load writes nothing.
    assert counts.accesses == Access(reads=6, writes=3, bits=9 * 32)
    assert counts.erase_bits == counts.erased_bits == 3 * 32
    assert counts.toggled_bits is None
    assert counts.host == HostTraffic()


def test_a_load_writes_the_cotangent_of_what_it_reads() -> None:
    text = ".memory 1\nstart\nld.add r1, [r0]\nfinish"
    machine = rg.Machine(rg.assemble(text), backward=True)
    machine.differentiating = True
    machine.run()
    assert counts_of(machine).accesses == Access(1, 1, 2 * 128)


def test_host_traffic() -> None:
    program = rg.assemble(".memory 4\nstart\nfinish\n.data\n.word 1, 2\n")
    assert host_traffic(program, 3, 1) == HostTraffic(2 * 64, 5 * 64, 64)
    assert host_traffic(program, 3, 1).bits == 8 * 64
    assert HostTraffic(1, 2, 3) + HostTraffic(10, 20, 30) == HostTraffic(11, 22, 33)


# ------------------------------------------------------------------ engines


@reversible
def forgetful(y: fixed, xs: Array[fixed, "n"]) -> None:
    for i in range(len(xs)):
        t = xs[i] * xs[i]
        t += 1
        y += t
        rg.erase(t)


CASES: dict[str, tuple[Reversible, tuple[Any, ...]]] = {
    "bessel": (bessel.bessel, (0.0, 1.5)),
    "norm": (library.norm, (0.0, [3.0, 4.0, 12.0])),
    "forgetful": (forgetful, (0.0, [1.0, 2.0, 3.0] * 20)),
}


def there_and_back(make: Callable[..., rg.Machine], f: Reversible, args: tuple[Any, ...]) -> list[Counts]:
    """Forward; back with cotangents, where nothing is erased."""
    values = bind(f, args, {})
    compiled = f.compiled_for(types_of(f, values))
    source = load(compiled, values, engine="reference")
    machine = make(compiled.program)
    machine.load(0, source.memory)
    machine.run()
    out = [counts_of(machine)]
    if not machine.erased_bits:
        machine.differentiating = True
        machine.cotangents[1] = 1 << 20
        machine.memory_cotangents[0] = 1 << 32
        machine.turn()
        machine.run()
        out.append(counts_of(machine))
        machine.differentiating = False
        machine.turn()
        machine.run()
        out.append(counts_of(machine))
    return out


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_the_same_on_every_engine(engine: str, case: str) -> None:
    f, args = CASES[case]
    expected = there_and_back(rg.Machine, f, args)
    found = there_and_back(ENGINES[engine], f, args)
    for one, other in zip(expected, found, strict=True):
        assert one.executed == other.executed
        assert (one.cycles, one.accesses, one.operations) == (other.cycles, other.accesses, other.operations)
        assert (one.erase_bits, one.dropped_bits) == (other.erase_bits, other.dropped_bits)
        assert {line: c.executed for line, c in by_line(one).items()} == {
            line: c.executed for line, c in by_line(other).items()
        }


def test_both_ways_of_d_are_told_apart() -> None:
    forward, back, again = there_and_back(rg.Machine, *CASES["norm"])
    assert {e.lifted for e in forward.executions} == {False}
    way = back - forward
    assert {(e.lifted, e.direction) for e in way.executions} == {(True, -1)}
    # Met backward, `start` halts: turned round, the run does not pass it again.
    assert way.retired == forward.retired - 1
    assert way.cycles > forward.cycles
    last = again - back
    assert {(e.lifted, e.direction) for e in last.executions} == {(False, 1)}
    start = Execution.at(forward.program, forward.program.start, False, 1)
    assert {**last.executions, start: 1} == forward.executions


# ------------------------------------------------------------------ parts and their sum


def test_parts_add_up() -> None:
    machine = rg.Machine(rg.assemble(LOOP))
    parts = []
    before = counts_of(machine)
    while machine.step():
        now = counts_of(machine)
        parts.append(now - before)
        before = now
    assert [part.retired for part in parts] == [1] * len(parts)
    total = sum(parts[1:], parts[0])
    whole = counts_of(ran(LOOP))
    assert (total.executed, total.cycles, total.accesses) == (whole.executed, whole.cycles, whole.accesses)
    assert total.operations == whole.operations


def test_counts_of_different_programs_have_no_sum() -> None:
    with pytest.raises(ValueError, match="different programs"):
        counts_of(ran("start\nfinish")) + counts_of(ran(LOOP))


@pytest.mark.parametrize("case", CASES)
def test_lines_and_functions_add_up(case: str) -> None:
    f, args = CASES[case]
    values = bind(f, args, {})
    compiled = f.compiled_for(types_of(f, values))
    machine = load(compiled, values)
    execute(compiled, machine)
    whole = counts_of(machine)
    for parts in (by_line(whole), by_function(whole)):
        assert sum(c.retired for c in parts.values()) == whole.retired
        assert sum(c.cycles for c in parts.values()) == whole.cycles
        assert sum(c.erase_bits for c in parts.values()) == whole.erase_bits
        assert sum(c.accesses.bits for c in parts.values()) == whole.accesses.bits


def test_erased_bits_belong_to_their_line() -> None:
    found = by_line(counts_of(rg.run(forgetful, 0.0, [1.0, 2.0]).machine))
    erasing = {line.line: c.erase_bits for line, c in found.items() if c.erase_bits}
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert erasing == {source.index("        rg.erase(t)") + 1: 128}


@reversible
def inner(y: fixed, x: fixed) -> None:
    y += x * x


@reversible
def outer(y: fixed, x: fixed) -> None:
    inner(y, x)
    y += rg.sqrt(x)


def test_what_is_inlined_belongs_to_its_own_function() -> None:
    found = by_function(counts_of(rg.run(outer, 0.0, 4.0).machine))
    names = {name: set(c.retired_by_function()) for name, c in found.items()}
    assert "fmul" in names["inner"]
    assert "fsqrt" in names["outer"]
    assert names[FRAME] == {"start"}


def test_a_program_without_a_source_has_addresses() -> None:
    program = replace(rg.assemble(LOOP), source=SourceMap())
    machine = rg.Machine(program)
    machine.run()
    found = {str(line): c.retired for line, c in by_line(counts_of(machine)).items()}
    assert found["address:0"] == 1
    assert found["address:4"] == 3
    assert FRAME not in found


def test_subroutines_of_assembly_have_their_labels() -> None:
    program = rg.assemble("start\ncall twice\ncall twice\nfinish\nproc twice, r9\nadd r1, 2\nendproc\n")
    machine = rg.Machine(program)
    machine.run()
    found = {name: c.retired for name, c in by_function(counts_of(machine)).items()}
    assert found.keys() == {TOP, "twice"}
    assert found[TOP] == 5  # a call is met twice: as control goes, and as it comes back


@pytest.mark.parametrize(("labels", "name"), [
    ({}, "at 4"), ({"inside": 6}, "inside"), ({"outside": 0}, "at 4"), ({"end": 8, "entry": 5, "first": 4}, "entry"), ({"a": 5, "b": 5}, "a"),
])  # fmt: skip
def test_subroutines_without_a_label_are_called_by_their_address(labels: dict[str, int], name: str) -> None:
    """That of `swapbr` comes first, then that of the first address inside; without any, the address of the pair around it."""
    program = rg.assemble("start\ncall twice\ncall twice\nfinish\nproc twice, r9\nadd r1, 2\nendproc\n")
    assert [i.opcode.name for i in program.instructions[4:]] == ["from", "swapbr", "neg", "imm.add", "goto"]
    machine = rg.Machine(replace(program, labels=labels))
    machine.run()
    found = {owner: c.retired for owner, c in by_function(counts_of(machine)).items()}
    assert found == {TOP: 5, name: machine.retired - 5}


# ------------------------------------------------------------------ what an instruction costs


@pytest.mark.parametrize("lifted", [False, True])
def test_an_instruction_costs_what_its_inverse_does(lifted: bool) -> None:
    w = rg.Format(32, 16)
    for opcode in rg.TABLE.by_name.values():
        one = Execution(opcode, lifted, False, 1)
        other = Execution(rg.TABLE.inverse(opcode), lifted, False, -1)
        assert operations_of(one, w) == operations_of(other, w), opcode.name


def test_operations_by_hand() -> None:
    w = rg.Format(32, 16)

    def units(name: str, lifted: bool = False) -> dict[str, int]:
        return dict(operations_of(Execution(rg.TABLE[name], lifted, False, 1), w))

    assert units("mov.add") == {"logic unit": 1}
    # Of a fixed-point sum the overflow is looked at; with D = 1 that of the cotangent too, and both at once.
    assert units("fmov.add") == {"logic unit": 2}
    assert units("fmov.add", lifted=True) == {"logic unit": 5}
    assert units("mul.sub") == {"multiplier": 1, "logic unit": 1}
    # A jump sets BR if its condition holds; its partner looks whether that was so.
    assert units("goto.lt") == units("from.lt") == {"logic unit": 4}
    assert units("exch") == {}
