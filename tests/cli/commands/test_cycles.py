"""`retrograd run --cycles`: what the machine counts, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.cli.commands.run import cycles_dict, cycles_table

Cli = Callable[..., tuple[int, str, str]]

PROGRAM = """
        start
        add     r2, 7
top:    from.ne r1, r0, bottom
        add     r1, 1
        mul.add r3, r1, r1
        fmul.add r5, r3, r4
bottom: goto.lt r1, r2, top
        finish
"""
FUNCTION = """\
from retrograd import fixed, reversible

@reversible
def square(y: fixed, x: fixed):
    y += x * x
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "p.rga").write_text(PROGRAM)
    (folder / "f.py").write_text(FUNCTION)


def test_a_program(cli: Cli) -> None:
    machine = rg.Machine(rg.assemble(PROGRAM))
    machine.run()
    code, out, err = cli("run", "p.rga", "--cycles")
    assert (code, err) == (0, "")
    assert out.endswith("\n\n" + cycles_table(machine) + "\n")
    rows = {line.split()[0]: line.split()[1:] for line in cycles_table(machine).splitlines()[1:-1]}
    assert rows["mul.add"][:2] == ["7", "0"]
    total = sum(int(row[3]) for row in rows.values())
    assert out.splitlines()[-1].startswith(f"{total} cycles, ")
    assert total == machine.cycles


@pytest.mark.parametrize("engine", ["reference", "threaded", "translated"])
def test_as_json(cli: Cli, engine: str) -> None:
    code, out, _ = cli("run", "p.rga", "--cycles", "--json", "--engine", engine)
    assert code == 0
    machine = rg.Machine(rg.assemble(PROGRAM))
    machine.run()
    assert json.loads(out)["cycles"] == json.loads(json.dumps(cycles_dict(machine)))
    assert "cycles" not in json.loads(cli("run", "p.rga", "--json")[1])


def test_the_core_is_chosen(cli: Cli) -> None:
    machine = rg.Machine(rg.assemble(PROGRAM), core="fast")
    machine.run()
    fast = json.loads(cli("run", "p.rga", "--cycles", "--json", "--core", "fast")[1])["cycles"]
    assert fast == json.loads(json.dumps(cycles_dict(machine, "fast")))
    assert fast["total"] < json.loads(cli("run", "p.rga", "--cycles", "--json")[1])["cycles"]["total"]


def test_slots_of_the_core_barrel(cli: Cli) -> None:
    """An exchange takes two turns of eight cycles in place of three."""
    program = "start\nswap r1, r2\nfinish\n"
    Path("e.rga").write_text(program)
    machine = rg.Machine(rg.assemble(program))
    machine.run()
    one, two = (
        json.loads(cli("run", "e.rga", "--cycles", "--json", "--core", "barrel", *slots)[1])["cycles"]
        for slots in ((), ("--slots", "2"))
    )
    assert "slots" not in one
    assert two == json.loads(json.dumps(cycles_dict(machine, "barrel", 2)))
    assert (two["slots"], one["total"], two["total"]) == (2, 32, 24)
    for options, code in ((("--slots", "2"), "RG0512"), (("--core", "barrel", "--slots", "3"), "RG0507")):
        status, _, err = cli("run", "e.rga", "--cycles", *options)
        assert status != 0
        assert code in err


def test_a_core_without_cycles(cli: Cli) -> None:
    code, _, err = cli("run", "p.rga", "--core", "fast")
    assert code != 0
    assert "RG0512" in err
    assert "add --cycles" in err


def test_backward(cli: Cli) -> None:
    out = cli("run", "f.py:square", "0.0", "3.0", "--cycles", "--backward", "--json")[1]
    found = json.loads(out)["cycles"]
    assert found["total"] == sum(one["cycles"] for one in found["instructions"]) > 0
    assert all(one["forward"] == 0 < one["backward"] for one in found["instructions"])


def test_cotangents_have_lines_of_their_own() -> None:
    machine = rg.Machine(rg.assemble(PROGRAM))
    machine.run()
    machine.differentiating = True
    machine.run_back()
    found = cycles_dict(machine)
    fmul = [one for one in found["instructions"] if one["name"].startswith("fmul")]
    assert [(one["name"], one["differentiating"], one["forward"], one["backward"]) for one in fmul] == [
        ("fmul.sub", True, 0, 7), ("fmul.add", False, 7, 0),
    ]  # fmt: skip
    assert fmul[0]["cycles"] > fmul[1]["cycles"]
    # x·x is one register twice, which takes other cycles with cotangents.
    head, *rows = cycles_table(machine).splitlines()
    assert head.split()[:3] == ["instruction", "D", "forward"]
    assert len(rows) == len(found["instructions"]) + 1


def test_nothing_was_executed(cli: Cli) -> None:
    assert cli("run", "p.rga", "--cycles", "--max-steps", "0")[1].endswith("\n0 cycles\n")


def test_a_batch(cli: Cli, folder: Path) -> None:
    np.savez(folder / "in.npz", y=np.zeros(3), x=np.array([1.0, 2.0, 3.0]))
    one = json.loads(cli("run", "f.py:square", "0.0", "3.0", "--cycles", "--json")[1])["cycles"]["total"]
    out = cli("run", "f.py:square", "--batch", "in.npz", "--cycles", "-o", "out.npz")[1]
    assert f", {3 * one} cycles; engine" in out
    assert np.load(folder / "out.npz")["retrograd.cycles"].tolist() == [one] * 3
    found = json.loads(cli("run", "f.py:square", "--batch", "in.npz", "--cycles", "--json")[1])
    assert (found["cycles"], found["each"]["cycles"]) == (3 * one, [one] * 3)
    assert "cycles" not in json.loads(cli("run", "f.py:square", "--batch", "in.npz", "--json")[1])
