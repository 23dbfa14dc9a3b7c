"""`retrograd compile … --emit`: LLVM IR that computes what the program does, and PTX."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray
from retrograd.isa.words import Format
from retrograd.simulator.engines.array_words import DTYPES
from retrograd.simulator.engines.batch.layout import BatchLayout, ResultArray, array_table
from retrograd.simulator.engines.batch.loops import PENDING
from retrograd.simulator.engines.llvm.jit import jit_compiler

from retrograd import __version__

Cli = Callable[..., tuple[int, str, str]]
OK, BAD_INPUT = 0, 2

SOURCE = """\
from retrograd import Array, fixed, reversible

@reversible
def divide(y: int, x: int, z: int):
    y += x // z

@reversible
def total(y: fixed, xs: Array[fixed, "n"]):
    for x in xs:
        y += x * x
"""
#: adds to the word at `sum` all the words up to the one at `last`
SUM = """\
.format {width}, {frac}
.memory 8
.data
sum:    .word 0
last:   .word 0
.text
        start
        ld.add r3, [r0 + 1]
loop:   from.ne r1, r0, again
        st.add [r0], r1
        add r1, 1
again:  goto.le r1, r3, loop
        sub r1, r3
        sub r1, 1
        ld.sub r3, [r0 + 1]
        finish
"""


@pytest.fixture(autouse=True)
def source(folder: Path) -> None:
    (folder / "f.py").write_text(SOURCE)
    for width, frac in ((8, 4), (16, 8), (32, 16), (64, 32)):
        (folder / f"sum{width}.rga").write_text(SUM.format(width=width, frac=frac))


def emitted(ran: tuple[int, str, str]) -> str:
    """The text of a command that must succeed, and that says what it is."""
    code, out, err = ran
    assert (code, err) == (OK, "")
    assert f"retrograd {__version__}: " in out.split("\n")[0]
    return out


def run_rows(
    text: str, rows: list[list[int]], width: int = 64, memory: int = 8
) -> tuple[list[list[int]], list[int], list[int]]:
    """(rows, steps, status) afterwards, of the batch loop in the text: compiled here, and called."""
    batch = ctypes.CFUNCTYPE(None, *_BATCH)(jit_compiler().load(text, ("batch",), lambda: text)["batch"])
    matrix, w = np.array(rows, dtype=np.uint64), Format(width, width // 2)
    out, sums, steps = matrix.copy(), np.zeros(1, np.int64), np.zeros(len(rows), np.int64)
    layout, results = BatchLayout.first(len(rows[0])), ResultArray(out, None, w)
    table = array_table(layout, layout.shared(memory), [matrix], [results], (steps, None, None), w)
    blank, room = np.zeros(memory, DTYPES[width]), np.zeros(memory + 1, DTYPES[width])
    status, stop = np.full(len(rows), PENDING, np.uint8), np.zeros(1, np.int64)

    def at(array: NDArray[Any]) -> int:
        return array.ctypes.data

    batch(at(table), 0, len(rows), at(blank), memory, at(room), 1 << 40, at(status), at(sums), at(stop))
    return out.tolist(), steps.tolist(), status.tolist()


_WORD, _POINTER = ctypes.c_int64, ctypes.c_void_p
_BATCH = (_POINTER, _WORD, _WORD, _POINTER, _WORD, _POINTER, _WORD, *[_POINTER] * 3)


# --------------------------------------------------------------------------------------------------- llvm


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_a_program_as_llvm_computes_what_it_does(cli: Cli, width: int) -> None:
    text = emitted(cli("compile", f"sum{width}.rga", "--emit", "llvm"))
    first = text.split("\n")[0]
    assert first.startswith(
        f"; retrograd {__version__}: LLVM IR of 'sum{width}.rga', Q{width // 2}.{width // 2}, 10 instructions, for "
    )
    assert run_rows(text, [[0, 3], [5, 10]], width) == ([[6, 3], [60, 10]], [21, 49], [0, 0])


def test_a_function_as_llvm(cli: Cli) -> None:
    text = emitted(cli("compile", "f.py:divide", "--emit", "llvm"))
    assert text.startswith(f"; retrograd {__version__}: LLVM IR of 'f.py:divide', Q32.32, ")
    rows, _, status = run_rows(text, [[1, 7, 2], [1, 7, 0]], memory=3)
    assert (rows, status) == ([[4, 7, 2], [1, 7, 0]], [0, 1])


def test_an_inverse_as_llvm(cli: Cli) -> None:
    text = emitted(cli("compile", "f.py:~divide", "--emit", "llvm"))
    assert run_rows(text, [[4, 7, 2]], memory=3)[0] == [[1, 7, 2]]


def test_arguments_are_examples(cli: Cli) -> None:
    text = emitted(cli("compile", "f.py:total", "0.0", "[1.0, 2.0]", "--emit", "llvm", "--format", "32,16"))
    assert "Q16.16" in text.split("\n")[0]
    assert run_rows(text, [[0, 1 << 16, 3 << 16]], 32, 3)[0] == [[10 << 16, 1 << 16, 3 << 16]]
    code, out, err = cli("compile", "f.py:total", "--emit", "llvm")
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("error[RG0603]: the type of `xs` is open")


def test_images_and_standard_input(cli: Cli, process: Callable[..., Any]) -> None:
    text = emitted(cli("compile", "sum64.rga", "--emit", "llvm"))
    assert cli("asm", "sum64.rga", "-o", "sum.rgx")[0] == OK
    assert emitted(cli("compile", "sum.rgx", "--emit", "llvm")) == text.replace("sum64.rga", "sum.rgx")
    done = process("compile", "-", "--emit", "llvm", given=Path("sum64.rga").read_bytes())
    assert done.stdout.decode() == text.replace("sum64.rga", "standard input")


def test_included_files(cli: Cli, folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "body.rga").write_text("add r1, 5\n")
    (folder / "main.rga").write_text('start\n.include "body.rga"\nfinish\n')
    assert cli("compile", "main.rga", "--emit", "llvm")[0] == BAD_INPUT
    emitted(cli("compile", "main.rga", "--emit", "llvm", "-I", "parts"))


@pytest.mark.parametrize("form", ["llvm", "ptx"])
def test_into_a_file(cli: Cli, form: str) -> None:
    text = emitted(cli("compile", "sum64.rga", "--emit", form))
    code, out, err = cli("compile", "sum64.rga", "--emit", form, "-o", "out.txt")
    assert (code, err) == (OK, "")
    assert out == f"out.txt: 10 instructions, {len(text.encode())} bytes\n"
    assert Path("out.txt").read_text("utf-8") == text


def test_llvm_accepts_it(cli: Cli) -> None:
    for program in ("sum8.rga", "sum64.rga", "f.py:divide", "fib.rga", "cipher.rga", "erase.rga", "square.rga"):
        module = llvm.parse_assembly(emitted(cli("compile", program, "--emit", "llvm")))
        module.verify()
        assert module.triple == jit_compiler().triple
        assert {"instance", "batch"} <= {f.name for f in module.functions}


@pytest.mark.parametrize("name", ["a\ndeclare void @x()", "größe", 'a" ; b', "a\\n", "\u2028"])
@pytest.mark.parametrize("form", ["llvm", "ptx"])
def test_a_name_stays_in_its_comment(cli: Cli, folder: Path, name: str, form: str) -> None:
    (folder / f"{name}.rga").write_text(SUM.format(width=64, frac=32))
    text = emitted(cli("compile", f"{name}.rga", "--emit", form))
    assert text.split("\n")[1:] == emitted(cli("compile", "sum64.rga", "--emit", form)).split("\n")[1:]
    assert text.split("\n")[0].isascii()


# ---------------------------------------------------------------------------------------------------- ptx


@pytest.mark.parametrize("arch", [None, "sm_80", "sm_90"])
@pytest.mark.parametrize("program", ["sum64.rga", "sum16.rga", "f.py:divide"])
def test_ptx(cli: Cli, program: str, arch: str | None) -> None:
    text = emitted(cli("compile", program, "--emit", "ptx", *(() if arch is None else ("--arch", arch))))
    assert text.startswith(f"// retrograd {__version__}: PTX of '{program}', ")
    assert text.split("\n")[0].endswith(f", for {arch or 'sm_80'}")
    assert re.search(r"^\.target (\w+)", text, re.MULTILINE)[1] == (arch or "sm_80")  # type: ignore[index]
    assert ".visible .entry " in text
    # Comments, then the version: what a driver asks of the first line.
    assert next(line for line in text.split("\n") if line and not line.startswith("//")).startswith(".version ")


# --------------------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nope.rga", "--emit", "llvm"), "RG0501"),
        (("wrong.rga", "--emit", "llvm"), "RG0101"),
        (("f.py:nope", "--emit", "llvm"), "RG0509"),
        (("sum64.rga", "1.0", "--emit", "llvm"), "RG0510"),
        (("sum64.rga", "--emit", "llvm", "--format", "32,16"), "RG0512"),
        (("sum64.rga", "--emit", "ptx", "--erase"), "RG0512"),
        (("sum64.rga", "--emit", "ptx", "--no-optimise"), "RG0512"),
        (("sum64.rga", "--emit", "llvm", "--arch", "sm_90"), "RG0512"),
        (("f.py:divide", "--emit", "llvm", "--arch", "sm_90"), "RG0512"),
        (("f.py:divide", "--arch", "sm_90"), "RG0512"),
        (("sum64.rga",), "RG0509"),
        (("sum64.rga", "--asm"), "RG0509"),
        (("sum64.rga", "--emit", "llvm", "-o", "nope/out.ll"), "RG0501"),
        (("sum64.rga", "--emit", "ptx", "-o", "."), "RG0501"),
    ],
)
def test_wrong_input(cli: Cli, arguments: tuple[str, ...], code: str) -> None:
    status, out, err = cli("compile", *arguments)
    assert (status, out) == (BAD_INPUT, "")
    assert err.startswith(f"error[{code}]: ")


@pytest.mark.parametrize(
    "options",
    [
        ("--emit", "asm"),
        ("--emit",),
        ("--emit", "ptx", "--arch", "sm_12"),
        ("--emit", "llvm", "--asm"),
        ("--emit", "ptx", "--dump-ir", "all"),
    ],
)
def test_usage(cli: Cli, options: tuple[str, ...]) -> None:
    code, out, err = cli("compile", "f.py:divide", *options)
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("usage: retrograd compile")
