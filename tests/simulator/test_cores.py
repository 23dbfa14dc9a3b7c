"""The cycles of a run on each core of the co-processor, of machines and of counts, with the gate counts of the same core."""

from __future__ import annotations

import pytest
from retrograd.isa.microarchitecture.micro_operations import CORES
from retrograd.isa.microarchitecture.schedule import cycles
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.energy.counts import counts_of
from retrograd.simulator.energy.gates import Gates, gates_from
from retrograd.simulator.energy.pricing import price
from retrograd.simulator.energy.technology import Range, technology

import retrograd as rg

PROGRAM = rg.assemble(".format 32, 16\nstart\nimm.add r1, 3\nfmul.add r2, r1, r1\nfmov.add r2, r1\nfinish")
Q32 = Format(32, 16)


@pytest.mark.parametrize("core", CORES)
def test_a_machine_counts_the_cycles_of_its_core(core: str) -> None:
    machine = rg.Machine(PROGRAM, core=core)
    machine.run()
    names = "start", "imm.add", "fmul.add", "fmov.add"
    expected = sum(cycles(TABLE[name], Q32, False, name == "fmul.add", CORES[core]) for name in names)
    assert machine.cycles == counts_of(machine).cycles == expected
    assert counts_of(machine).at([1]).cycles == cycles(TABLE["imm.add"], Q32, False, False, CORES[core])


def test_a_core_may_be_chosen_after_the_run() -> None:
    machine = rg.Machine(PROGRAM)
    machine.run()
    before = machine.cycles
    machine.core = "fast"
    assert machine.cycles < before
    with pytest.raises(rg.InputError, match="there is no core `quick`") as error:
        machine.core = "quick"
    assert error.value.code == "RG1125"
    with pytest.raises(rg.InputError, match="there is no core"):
        rg.Machine(PROGRAM, core="quick")


def test_counts_of_two_cores_have_no_sum() -> None:
    small, fast = (rg.Machine(PROGRAM, core=core) for core in ("small", "fast"))
    with pytest.raises(ValueError, match="cores"):
        counts_of(small) + counts_of(fast)


def test_a_sum_and_its_flag_are_one_micro_operation_of_the_fast_core() -> None:
    found = {}
    for core in CORES:
        machine = rg.Machine(rg.assemble(".format 32, 16\nstart\nfmov.add r1, r2\nfinish"), core=core)
        machine.run()
        found[core] = counts_of(machine).operations
    assert found == {"small": {"logic unit": 2}, "fast": {"logic unit": 1}}


def test_gate_counts_name_their_core() -> None:
    document = {"schema": "retrograd.gates/1", "format": {"width": 32, "frac": 16}, "units": {"logic unit": {"AND": 3}}}
    assert gates_from(document, "gates").core == "small"
    assert gates_from(document | {"core": "fast"}, "gates").core == "fast"
    with pytest.raises(rg.InputError, match="no name of a core"):
        gates_from(document | {"core": 3}, "gates")


def test_cells_of_another_core_are_not_priced() -> None:
    """The energy of the cells is then unknown, with a reason, and not that of the other core."""
    machine = rg.Machine(PROGRAM, core="fast")
    machine.run()
    cells = {"logic unit": {"AND": 3}}
    known, unknown = (
        price(
            counts_of(machine),
            technology("aqfp"),
            gates=Gates(Q32, cells, core=core, levels=1, in_levels=cells["logic unit"]),
        )
        for core in ("fast", "small")
    )
    assert isinstance(known.of("logic"), Range)
    assert not isinstance(unknown.of("logic"), Range)
    assert any("on the core fast" in str(item) for item in unknown.items)
