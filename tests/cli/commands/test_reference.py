"""`retrograd isa` and `explain`: the manual at hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from retrograd.isa.table import TABLE

from retrograd.catalogue import catalogue
from retrograd.cli.options import opcodes_named

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

Cli = Callable[..., tuple[int, str, str]]
OK, BAD_INPUT = 0, 2


def test_the_whole_table(cli: Cli) -> None:
    code, out, err = cli("isa")
    assert (code, err) == (OK, "")
    for entry in TABLE.entries:
        assert entry.name in out


def check_one_instruction(cli: Cli, name: str) -> None:
    code, out, err = cli("isa", name)
    assert (code, err) == (OK, "")
    assert out.startswith(f"{name}  (")


def test_one_instruction(cli: Cli, every: Every) -> None:
    every(
        lambda name: check_one_instruction(cli, name),
        [*TABLE.by_name, *TABLE.shorthands, *sorted({e.name for e in TABLE.entries} - {*TABLE.by_name})],
    )


def test_as_json(cli: Cli) -> None:
    found = json.loads(cli("isa", "--json")[1])
    assert found["schema"] == "retrograd.isa/1"
    assert [o["name"] for o in found["opcodes"]] == [o.name for o in TABLE]
    assert [o["code"] for o in found["opcodes"]] == [o.code for o in TABLE]


def test_as_markdown(cli: Cli) -> None:
    code, out, _ = cli("isa", "--markdown")
    assert code == OK
    assert "\n# " in out


@pytest.mark.parametrize(
    ("name", "near"), [("mull", "mul"), ("swapp", "swap"), ("goto.zz", "goto"), ("", ""), ("RG0101", ""), ("½", "")]
)
def test_no_such_instruction(cli: Cli, name: str, near: str) -> None:
    code, out, err = cli("isa", name)
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith(f"error[RG0506]: no instruction is named `{name}`")
    assert f"did you mean `{near}" in err or not near


@pytest.mark.parametrize("name", ["mov.add", *TABLE.shorthands])
def test_one_name_for_an_instruction_in_every_command(cli: Cli, name: str) -> None:
    """A shorthand has the page, the netlist and the proofs of its opcode."""
    opcode = TABLE.shorthands.get(name, TABLE["mov.add"])
    assert cli("isa", name)[1].split("\n", 1)[1] == cli("isa", opcode.name)[1].split("\n", 1)[1]
    assert cli("gates", name, "--format", "4,2", "--strategy", "garbage") == cli(
        "gates", opcode.name, "--format", "4,2", "--strategy", "garbage"
    )
    assert [o.name for o in opcodes_named(name)] == [opcode.name]


@pytest.mark.parametrize("name", ["mul", "mull", "swapp", ""])
def test_a_netlist_is_of_one_instruction(cli: Cli, name: str) -> None:
    code, out, err = cli("gates", name)
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("error[RG0506]")
    if name == "mul":
        assert "name one of them: mul.add, mul.sub, mul.xor" in err
    else:
        assert err == cli("isa", name)[2]


@pytest.mark.parametrize("name", ["goto.gt", "from.le", "push", "pop", "proc", "endproc"])
def test_what_the_assembler_takes_can_be_looked_up(cli: Cli, name: str) -> None:
    """`retrograd isa NAME` is what the assembler's own messages name; so it knows every name the assembler knows."""
    assert cli("isa", name)[0] == OK


def test_the_list_of_errors(cli: Cli) -> None:
    lines = cli("explain")[1].splitlines()
    assert [line.split("  ", 1) for line in lines] == [[k.code, k.title] for k in catalogue().values()]


def check_every_code_is_explained(cli: Cli, code: str) -> None:
    status, out, err = cli("explain", code)
    assert (status, err) == (OK, "")
    assert out.startswith(f"{code}: {catalogue()[code].title}\n  why: ")
    assert " ".join(catalogue()[code].fix.split()) in " ".join(out.split())
    assert cli("explain", code.lower())[1] == out


def test_every_code_is_explained(cli: Cli, every: Every) -> None:
    every(lambda code: check_every_code_is_explained(cli, code), catalogue())


@pytest.mark.parametrize("code", ["RG9999", "RG01", "0108", "", "swap", "RG0108 ", "é"])
def test_no_such_code(cli: Cli, code: str) -> None:
    status, out, err = cli("explain", code)
    assert (status, out) == (BAD_INPUT, "")
    assert err.startswith("error[RG0506]: ")
