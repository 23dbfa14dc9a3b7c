"""`retrograd gates --tech` and `--irreversible`: prices of netlists on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]
OK, BAD_INPUT = 0, 2


def test_an_instruction(cli: Cli) -> None:
    code, out, err = cli("gates", "fmul.add", "--format", "8,4", "--strategy", "garbage", "--tech", "landauer")
    assert (code, err) == (OK, "")
    assert "erased bits: garbage" in out
    told = json.loads(cli("gates", "fmul.add", "--format", "8,4", "--tech", "aqfp", "--frequency", "1kHz", "--json")[1])
    assert (told["schema"], told["reversible"], told["price"]["frequency"]) == ("retrograd.netlist-energy/1", True, 1e3)
    assert told["seconds"] == told["levels"] / 4 / 1e3


def test_an_irreversible_netlist(cli: Cli) -> None:
    code, out, _ = cli("gates", "mov.add", "--format", "8,4", "--irreversible")
    assert code == OK
    assert [line.split() for line in out.splitlines()[:3]] == [["AND", "1"], ["MAJ3", "6"], ["XOR", "15"]]
    told = json.loads(cli("gates", "mov.add", "--format", "8,4", "--irreversible", "--json")[1])
    assert told["counts"] == {"AND": 1, "MAJ3": 6, "XOR": 15}
    assert told["in_levels"]["levels"] == 24
    priced = json.loads(cli("gates", "mov.add", "--format", "8,4", "--irreversible", "--tech", "landauer", "--json")[1])
    assert priced["reversible"] is False
    assert priced["lost_bits"] > 7


def test_a_file_with_constants(cli: Cli, folder: Path) -> None:
    """A line that begins as 1 is a constant of the netlist: x AND 1 takes no gate."""
    text = ".version 2.0\n.numvars 3\n.variables x one y\n.constants -10\n.begin\nt3 x one y\n.end\n"
    (folder / "and.real").write_text(text)
    code, out, err = cli("gates", "and.real", "--irreversible")
    assert (code, err) == (OK, "")
    assert out.startswith("levels")
    assert cli("gates", "and.real", "--tech", "aqfp")[0] == OK


def test_a_file_with_a_mark_of_its_encoding(cli: Cli, folder: Path) -> None:
    """Some editors begin a text with U+FEFF, and end lines with two signs."""
    (folder / "mark.real").write_bytes(
        b"\xef\xbb\xbf.version 2.0\r\n.numvars 1\r\n.variables x\r\n.begin\r\nt1 x\r\n.end\r\n"
    )
    (folder / "mark.qasm").write_bytes(b"\xef\xbb\xbfOPENQASM 3.0;\r\nqubit x;\r\nx x;\r\n")
    assert cli("gates", "check", "mark.real", "mark.qasm") == (OK, "equivalent\n", "")


def test_a_gate_of_many_lines(cli: Cli, folder: Path) -> None:
    """Without a spare line, its cost is 2ⁿ − 3, of more digits than Python writes, or than a reader of JSON takes."""
    names = " ".join(f"x{k}" for k in range(16000))
    (folder / "wide.real").write_text(f".numvars 16000\n.variables {names}\n.begin\nt16000 {names}\n.end\n")
    code, out, err = cli("gates", "wide.real")
    assert (code, err) == (OK, "")
    assert next(line.split()[-1] for line in out.splitlines() if line.startswith("quantum cost")) == "3.019e4816"
    assert json.loads(cli("gates", "wide.real", "--json")[1])["counts"]["quantum_cost"] == "3.019e4816"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--garbage", "left"], "RG0512"), (["--temperature", "4.2K"], "RG0512"), (["--figure", "power=1W"], "RG0512"),
        (["--tech", "no"], "RG1101"), (["--tech", "aqfp", "--temperature", "300K"], "RG1108"),
        (["--tech", "aqfp", "--figure", "voltage=1V"], "RG1109"), (["--tech", "aqfp", "--draw", "x.svg"], "RG0512"),
        (["--irreversible", "--real", "x.real"], "RG0512"),
        (["--draw", "x.png"], "RG0512"), (["--draw", "svg"], "RG0512"),
    ],
)  # fmt: skip
def test_wrong_options(cli: Cli, options: list[str], error: str) -> None:
    code, out, err = cli("gates", "mov.add", "--format", "4,2", *options)
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith(f"error[{error}]")


def test_open_figures_are_named(cli: Cli) -> None:
    code, out, _ = cli("gates", "mov.add", "--format", "4,2", "--tech", "landauer_finite")
    assert code == OK
    assert out.splitlines()[-1] == "erased bits: garbage: give finite_time"
    given = cli("gates", "mov.add", "--format", "4,2", "--tech", "landauer_finite", "--figure", "finite_time=1zJ s")
    assert "give" not in given[1]
