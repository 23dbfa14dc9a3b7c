"""`retrograd energy`: what it prints, for functions and programs, and what it draws."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from retrograd.simulator.energy.technology import BOLTZMANN

from retrograd import presentation
from retrograd.cli.terminal import BAD_INPUT, LIMIT, OK, TRAPPED

#: energies are smaller than 1e-12, the absolute tolerance of pytest.approx
approx = partial(pytest.approx, rel=1e-6, abs=0.0)
Cli = Callable[..., tuple[int, str, str]]
KT_LN2 = BOLTZMANN * 300 * math.log(2)

SOURCE = """\
import retrograd as rg
from retrograd import Array, fixed, reversible

@reversible
def norm(out: fixed, x: fixed, y: fixed):
    with rg.routine() as r:
        square = fixed(0)
        square += x * x
        square += y * y
    out += rg.sqrt(square) + rg.sqrt(square + 1)
    ~r

@reversible
def forget(y: fixed, x: fixed):
    t = x * x
    t += 1
    y += t
    rg.erase(t)

@reversible
def root(y: fixed, x: fixed):
    y += rg.sqrt(x)
"""


@pytest.fixture
def functions(folder: Path) -> str:
    (folder / "f.py").write_text(SOURCE)
    return "f.py"


def test_a_function(cli: Cli, functions: str) -> None:
    code, out, err = cli("energy", f"{functions}:forget", "0.0", "3.0")
    assert (code, err) == (OK, "")
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "64 by erase" in rows["bits erased"]
    assert "183.7 zJ" in rows["erasure"]
    assert "covered by the bound of erasures" in rows["logic"]
    assert "landauer 1.1, 300 K" in out


def test_lines(cli: Cli, functions: str, tmp_path: Path) -> None:
    """The costs of the lines add up to those of the run."""
    norm = ["energy", f"{functions}:norm", "0.0", "3.0", "4.0"]
    whole = json.loads(cli(*norm, "--json")[1])
    code, out, _ = cli(*norm, "--lines")
    assert code == OK
    head, *rows = out.splitlines()
    assert head.split() == ["instructions", "undoing", "cycles", "energy", "line"]
    columns = [head.index(name) for name in ("undoing", "cycles", "energy")]
    costs = [(row[: columns[0]], row[columns[0] : columns[1]], row[columns[1] - 4 : columns[2]]) for row in rows]
    assert sum(int(count) for count, _, _ in costs if count.strip()) == whole["counts"]["retired"]
    [square] = [row for row in rows if "square += x * x" in row]
    assert square.split()[:2] == ["2", "1"]
    program = tmp_path / "p.rga"
    program.write_text("start\n add r1, 5\n mov.add r2, r1\n sub r1, 5\n finish\n")
    rows = [line.split() for line in cli("energy", str(program), "--lines")[1].splitlines()[1:]]
    assert [row[:2] for row in rows if row[-3:] == ["sub", "r1,", "5"]] == [["1", "1"]]


def test_lines_of_several_files_have_their_names(cli: Cli, tmp_path: Path) -> None:
    """A row with its name before the lines of each file; a program of one file has no such row."""
    (tmp_path / "steps.rga").write_text(" add r1, 5\n sub r1, 5\n")
    (tmp_path / "one.rga").write_text("start\n add r1, 5\n finish\n")
    (tmp_path / "two.rga").write_text('start\n.include "steps.rga"\n finish\n')

    def names(program: str) -> list[str]:
        rows = cli("energy", str(tmp_path / program), "--lines")[1].splitlines()
        return [Path(row.strip()).name for row in rows if row.endswith(".rga")]

    assert names("one.rga") == []
    assert sorted(names("two.rga")) == ["steps.rga", "two.rga"]


@pytest.mark.parametrize("other", [["--json"], ["--compare", "cmos45,landauer"], ["--advise"]])
def test_lines_are_text(cli: Cli, functions: str, other: list[str]) -> None:
    code, out, err = cli("energy", f"{functions}:norm", "0.0", "3.0", "4.0", "--lines", *other)
    assert (code, "RG0512" in out + err) == (BAD_INPUT, True)


def test_json(cli: Cli, functions: str) -> None:
    code, out, _ = cli("energy", f"{functions}:forget", "0.0", "3.0", "--temperature", "4.2K", "--json")
    told = json.loads(out)
    assert (code, told["schema"]) == (OK, "retrograd.energy/1")
    assert told["price"]["temperature"] == 4.2
    assert told["price"]["program"]["value"] == approx(64 * KT_LN2 * 4.2 / 300)
    assert told["price"]["causes"]["logic"] == "covered by the bound of erasures"


def test_an_inverse(cli: Cli, functions: str) -> None:
    arguments = ("out=5.0", "x=3.0", "y=4.0", "--json", "--engine", "reference")
    code, out, _ = cli("energy", f"{functions}:~norm", *arguments)
    told = json.loads(out)
    assert (code, told["name"], told["baseline"]) == (OK, "~norm", None)
    assert {way for f in told["counts"]["functions"].values() for way, n in f.items() if n} == {"backward"}
    code, again, _ = cli("energy", f"{functions}:norm", *arguments, "--backward")
    assert again == out


def test_models_beside_each_other(cli: Cli, functions: str) -> None:
    code, out, _ = cli(
        "energy", f"{functions}:forget", "0.0", "3.0", "--compare", "landauer,cmos45,aqfp", "--scope", "common"
    )
    assert code == OK
    assert "landauer, 300 K" in out
    assert "aqfp, 4.2 K" in out
    code, out, _ = cli(
        "energy", f"{functions}:forget", "0.0", "3.0", "--compare", "landauer,cmos45", "--json", "--scope", "common"
    )
    told = json.loads(out)
    assert told["schema"] == "retrograd.energy-comparison/1"
    assert [r["technology"]["id"] for r in told["reports"]] == ["landauer", "cmos45"]
    ratios = [r["range"]["value"] for r in told["ratios_to_the_first"]]
    assert (ratios[0], ratios[1] > 1e6) == (1.0, True)
    for report in told["reports"]:
        assert set(report["price"]["causes"]) == {"logic", "leakage", "clock", "memory", "erasure", "cooling"}


def test_a_ratio_to_nothing(cli: Cli, functions: str) -> None:
    """A reversible run costs 0 J by `landauer`: the ratio is infinite, which JSON has no number for."""
    which = (
        "energy",
        f"{functions}:norm",
        "0.0",
        "3.0",
        "4.0",
        "--compare",
        "landauer,cmos45",
        "--scope",
        "overhead,logic",
    )
    code, out, _ = cli(*which)
    assert code == OK
    assert out.splitlines()[-1].split("  ")[-1].strip() == "not modelled"
    code, out, _ = cli(*which[:-1], "logic,erasure")
    assert (code, out.splitlines()[-1].split("  ")[-1].strip()) == (OK, "∞: the divisor is 0 J")
    told = json.loads(cli(*which[:-1], "logic,erasure", "--json")[1], parse_constant=pytest.fail)
    assert told["ratios_to_the_first"][1]["range"] == {"low": None, "value": None, "high": None}
    # Parts that are not compared are left out, and not called unmodelled.
    assert [list(r["price"]["causes"]) for r in told["reports"]] == [["logic", "erasure"]] * 2


@pytest.mark.parametrize(
    ("figures", "code", "message", "fix"),
    [
        (["capacitance=1fF", "capacitance=2fF"], "RG0512", "capacitance is given twice", "give each figure once"),
        (["capacitance=1"], "RG1105", "`1` has no unit", "pF, fF, aF"),
        (["voltage=0.5:0.8:1"], "RG1105", "`0.5:0.8:1` has no unit", "V, mV"),
        (["capacitance=2:1:3fF"], "RG0507", "2:1:3 is no range", "the lowest first"),
        (["efficiency=1.5"], "RG0507", "`efficiency` = 1.5 is out of range", "a value from 1e-09 to 1\n"),
        (["capacitance=1:2:1e9F"], "RG0507", "`capacitance` = 1:2:1e+09 F is out", "a value from 0 to 1e+06 F\n"),
        (["power=0", "quality=1e4"], "", "", ""),
    ],
)  # fmt: skip
def test_figures_as_people_write_them(
    cli: Cli, functions: str, figures: list[str], code: str, message: str, fix: str
) -> None:
    """A figure that is not said clearly is refused: one farad in place of one femtofarad is a price of gigajoules."""
    options = [word for figure in figures for word in ("--figure", figure)]
    ended, out, err = cli("energy", f"{functions}:forget", "0.0", "3.0", "--tech", "adiabatic_rc", *options)
    assert (ended, err.partition("]")[0]) == ((BAD_INPUT, f"error[{code}") if code else (OK, ""))
    assert (message in err, fix in err, bool(out)) == (True, True, not code)


def test_figures_go_to_the_models_that_have_them(cli: Cli, functions: str) -> None:
    figures = ("--figure", "capacitance=1fF", "--figure", "voltage=1V")
    code, out, _ = cli(
        "energy", f"{functions}:forget", "0.0", "3.0", "--compare", "landauer,adiabatic_rc", *figures, "--scope=erasure"
    )
    assert code == OK
    erasure = next(line for line in out.splitlines() if line.startswith("erasure"))
    assert erasure.split("  ")[-1].strip() == "32 fJ"


def test_a_program(cli: Cli) -> None:
    code, out, _ = cli("energy", "erase.rga", "--json")
    told = json.loads(out)
    assert (code, told["name"]) == (OK, "erase.rga")
    assert told["price"]["program"]["value"] == approx(64 * KT_LN2)
    assert told["counts"]["host_bits"] == {"code_bits": 4 * 64, "data_bits": 0, "copied_bits": 0}
    assert [line["line"] for line in told["lines"]] == [1, 2, 3]


def test_what_the_host_loads_and_copies_out_is_counted(cli: Cli, folder: Path) -> None:
    (folder / "in.txt").write_text("7 8")
    code, out, _ = cli(
        "energy", "add.rga", "--set", "r1=5", "--mem", "table=in.txt", "--out", "sum:1=out.txt", "--json"
    )
    told = json.loads(out)
    assert code == OK
    assert told["counts"]["host_bits"] == {"code_bits": 3 * 64, "data_bits": (4 + 1 + 2) * 64, "copied_bits": 64}
    assert (folder / "out.txt").read_text().split() == ["5"]
    assert told["price"]["program"]["value"] == 0.0
    assert told["price"]["causes"]["copy-out"]["value"] == approx(64 * KT_LN2)


def test_subroutines(cli: Cli) -> None:
    code, out, _ = cli("energy", "fib.rga", "--set", "r3=5", "--set", "r11=8", "--tech", "cmos45")
    assert code == OK
    assert "fib  " in out


def test_traps_and_limits(cli: Cli, functions: str) -> None:
    assert cli("energy", f"{functions}:root", "0.0", "-1.0")[0] == TRAPPED
    assert cli("energy", f"{functions}:root", "0.0", "1.0", "--max-steps", "2")[0] == LIMIT
    assert cli("energy", "erase.rga", "--strict")[0] == TRAPPED
    code, out, err = cli("energy", "endless.rga", "--set", "r2=-1", "--max-steps", "10")
    assert (code, out) == (LIMIT, "")
    assert "RG0420" in err


def test_models(cli: Cli) -> None:
    code, out, _ = cli("energy", "--models")
    assert code == OK
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "adiabatic_rc", "aqfp", "cmos45", "cmos45_caches", "cmos7", "cmos7_caches", "cmos_switching", "landauer", "landauer_finite",
    ]  # fmt: skip
    told = json.loads(cli("energy", "--models", "--json")[1])
    assert told["schema"] == "retrograd.technologies/1"
    assert all(f["source"] for m in told["models"] for c in m["charges"] for f in c["figures"])


def test_advice(cli: Cli, functions: str) -> None:
    code, out, _ = cli("energy", f"{functions}:norm", "0.0", "3.0", "4.0", "--advise")
    assert code == OK
    assert re.search("^r +uncompute", out, re.MULTILINE)
    code, out, _ = cli("energy", f"{functions}:norm", "0.0", "3.0", "4.0", "--advise", "--tech", "cmos45", "--json")
    told = json.loads(out)
    assert {r["routine"]: r["advice"] for r in told["routines"]}["r"] == "erase"


def test_compiling_by_energy(cli: Cli, functions: str) -> None:
    arguments = ("compile", f"{functions}:norm", "0.0", "3.0", "4.0", "--asm", "--strategy", "energy")
    code, by_bits, _ = cli(*arguments)
    assert code == OK
    assert "erase" not in by_bits
    code, by_steps, _ = cli(*arguments, "--tech", "cmos45")
    assert code == OK
    assert "erase " in by_steps


@pytest.mark.parametrize("kind", ["causes", "frequency", "delay", "time"])
def test_plots(cli: Cli, functions: str, folder: Path, kind: str) -> None:
    figures = [f"--figure={f}" for f in ("resistance=10kohm", "capacitance=1fF", "voltage=1V", "power=1fW")]
    (folder / "gates.json").write_text(
        '{"schema": "retrograd.gates/1", "format": {"width": 64, "frac": 32}, "units": {"logic unit": {"AND": 9}}, '
        '"in levels": {"levels": 20, "cells": {"AND": 9, "BUF": 30}}}'
    )
    code, _, err = cli(
        "energy", f"{functions}:norm", "0.0", "3.0", "4.0", "--tech", "adiabatic_rc", *figures, "--gates", "gates.json",
        "--plot", "out.png", "--plot-kind", kind,
    )  # fmt: skip
    assert (code, err) == (OK, "")
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_written(cli: Cli, functions: str) -> None:
    code, _, err = cli("energy", f"{functions}:forget", "0.0", "1.0", "--plot", "no/where.png")
    assert code == 2
    assert "RG0501" in err


def test_nothing_heavy_is_imported(folder: Path) -> None:
    """The table of a model needs no matplotlib, and pricing a short program neither NumPy nor a compiler."""
    check = (
        "import sys; from retrograd.cli.main import main; main(['energy', 'erase.rga']); "
        "print([m for m in ('matplotlib', 'llvmlite', 'numpy', 'retrograd.compiler') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


# ------------------------------------------------------------------ batches


def test_a_batch(cli: Cli, functions: str, folder: Path) -> None:
    np.savez(folder / "in.npz", y=np.zeros(3), x=np.array([1.0, 2.0, 3.0]))
    code, out, err = cli("energy", f"{functions}:forget", "--batch", "in.npz", "--json")
    told = json.loads(out)
    assert (code, err, told["name"]) == (OK, "", "vmap(forget)")
    assert [e["erased_bits"] for e in told["elements"]] == [64] * 3
    assert told["price"]["program"]["value"] == approx(3 * 64 * KT_LN2)
    one = json.loads(cli("energy", f"{functions}:forget", "0.0", "3.0", "--json")[1])
    assert told["counts"]["retired"] == 3 * one["counts"]["retired"]
    np.savez(folder / "x.npz", x=np.array([1.0, 2.0]))
    code, out, _ = cli("energy", f"{functions}:forget", "y=0.0", "--batch", "x.npz", "--compare", "landauer,cmos45")
    assert (code, out.partition(":")[0]) == (OK, "vmap(forget)")
    code, out, _ = cli("energy", f"{functions}:~root", "y=2.0", "--batch", "x.npz", "--json")
    assert json.loads(out)["name"] == "vmap(~root)"
    np.savez(folder / "wrong.npz", y=np.zeros(2), x=np.array([1.0, -2.0]))
    code, _, err = cli("energy", f"{functions}:root", "--batch", "wrong.npz")
    assert code == TRAPPED
    assert "element 1: " in err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("add.rga", "--batch", "in.npz"), "--batch is for functions"),
        (("f.py:forget", "--shared", "x"), "--shared is for batches"),
        (("f.py:forget", "--batch", "in.npz", "--advise"), "--advise"),
        (("f.py:forget", "--batch", "in.npz", "--timeline"), "bits over time"),
        (("f.py:forget", "--batch", "in.npz", "--plot", "a.png", "--plot-kind", "time"), "bits over time"),
        (("f.py:forget", "--batch", "none.npz"), "none.npz"),
    ],
)
def test_wrong_batches(cli: Cli, functions: str, folder: Path, arguments: tuple[str, ...], text: str) -> None:
    np.savez(folder / "in.npz", y=np.zeros(2), x=np.ones(2))
    code, _, err = cli("energy", *arguments)
    assert code == 2
    assert text in err


# ------------------------------------------------------------------ sweeps


def test_a_sweep(cli: Cli, functions: str) -> None:
    code, out, err = cli(
        "sweep",
        f"{functions}:forget",
        f"{functions}:~norm",
        "--args",
        "0.0",
        "3.0",
        "--tech",
        "landauer,cmos45",
        "--json",
    )
    assert code == 2  # `norm` takes three
    assert "RG0603" in err + out
    arguments = (
        "--args",
        "0.0",
        "3.0",
        "--args",
        "y=1.0",
        "x=4.0",
        "--format",
        "Q32.32,Q16.16",
        "--tech",
        "landauer,cmos45",
    )
    code, out, err = cli("sweep", f"{functions}:forget", f"{functions}:root", *arguments, "--json")
    assert (code, err) == (OK, "")
    told = json.loads(out)
    assert told["schema"] == "retrograd.energy-sweep/2"
    assert [(r["program"], r["format"], r["number"], r["technology"]) for r in told["rows"]] == [
        (p, f, i, t)
        for p in ("forget", "root")
        for f in ("Q32.32", "Q16.16")
        for i in (0, 1)
        for t in ("landauer", "cmos45")
    ]
    assert told["rows"][0]["price"]["program"]["value"] == approx(64 * KT_LN2)
    # Every number can be traced: the rows name the models, whose figures say where they are from.
    assert [m["id"] for m in told["models"]] == ["landauer", "cmos45"]
    assert all(f["source"] for m in told["models"] for c in m["charges"] for f in c["figures"])
    code, out, _ = cli("sweep", f"{functions}:forget", f"{functions}:root", *arguments)
    lines = out.splitlines()
    assert len(lines) == 1 + len(told["rows"])
    assert "183.7 zJ" in lines[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("0.0", "3.0"), ("0.0", "x=3.0"), ("y=0.0", "x=3.0"), ("0.0", "-1e-5"), ("-1.5e-3", "-2"), ("0.0", "word(12345)"),
    ],
)  # fmt: skip
def test_a_sweep_takes_arguments_as_energy_does(cli: Cli, functions: str, arguments: tuple[str, ...]) -> None:
    (row,) = json.loads(cli("sweep", f"{functions}:forget", "--args", *arguments, "--json")[1])["rows"]
    report = json.loads(cli("energy", f"{functions}:forget", *arguments, "--json")[1])
    assert row["counts"]["retired"] == report["counts"]["retired"]
    assert row["price"]["program"] == report["price"]["program"]


STRUCTS = """\
from retrograd import fixed, reversible, struct

@struct
class One:
    a: fixed

@struct
class Two:
    a: fixed

@reversible
def by_one(y: fixed, p: One):
    y += p.a * p.a

@reversible
def by_two(y: fixed, p: Two):
    y += p.a
"""


def test_structs_in_a_sweep(cli: Cli, folder: Path) -> None:
    """Each function gets the struct that it declares."""
    (folder / "structs.py").write_text(STRUCTS)
    code, out, err = cli("sweep", "structs.py:by_one", "structs.py:by_two", "--args", "0.0", '{"a": 1.5}', "--json")
    assert (code, err) == (OK, "")
    assert [r["program"] for r in json.loads(out)["rows"]] == ["by_one", "by_two"]
    assert json.loads(out)["arguments"] == ["0.0 '{\"a\": 1.5}'"]


def test_a_sweep_goes_on(cli: Cli, functions: str, folder: Path) -> None:
    arguments = ("sweep", f"{functions}:forget", "--args", "0.0", "3.0", "--store", "sweep.db", "--json")
    first = cli(*arguments)
    at = (folder / "sweep.db").stat().st_mtime_ns
    assert cli(*arguments) == first
    assert (folder / "sweep.db").stat().st_mtime_ns == at
    assert cli(*arguments, "--tech", "aqfp")[0] == OK
    assert (folder / "sweep.db").stat().st_mtime_ns > at


@pytest.mark.long
def test_a_sweep_in_processes(cli: Cli, functions: str) -> None:
    arguments = ("sweep", f"{functions}:forget", "--args", "0.0", "3.0", "--args", "0.0", "4.0", "--json")
    assert cli(*arguments, "--workers", "2") == cli(*arguments)


def test_a_sweep_tells_why_there_is_no_price(cli: Cli, functions: str) -> None:
    code, out, err = cli(
        "sweep", f"{functions}:root", "--args", "0.0", "4.0", "--args", "0.0", "-1.0", "--tech", "landauer,aqfp",
        "--temperature", "4.2K,300K",
    )  # fmt: skip
    assert code == TRAPPED
    assert sum("outside the model" in line for line in out.splitlines()) == 2
    assert sum("RG0403" in line for line in out.splitlines()) == 3
    assert "root, Q32.32, arguments 1: RG0403" in err
    assert "RG1108" in err
    arguments = ("sweep", f"{functions}:root", "--args", "0.0", "4.0")
    assert cli(*arguments, "--tech", "landauer,aqfp", "--temperature", "4.2K,300K")[0] == OK
    assert cli(*arguments, "--max-steps", "2")[0] == LIMIT
    # kT ln 2 is 2.87 zJ at 300 K, and less at 4.2 K: one point is below the bound.
    code, out, err = cli(*arguments, "--temperature", "4.2K,300K", "--figure", "energy=1zJ")
    assert (code, sum("outside the model" in line for line in out.splitlines())) == (OK, 1)
    assert err.startswith("RG1112")


def test_progress_of_a_sweep(cli: Cli, functions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody looks, and only there."""
    arguments = ["sweep", f"{functions}:forget", "--args", "0.0", "3.0", "--args", "0.0", "4.0"]
    monkeypatch.setattr(presentation, "PATIENCE", 0.0)
    assert cli(*arguments)[2] == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = cli(*arguments)
    assert code == OK
    assert "sweeping" in err
    assert "sweeping" not in out
    assert "sweeping" not in cli(*arguments, "--quiet")[2]
