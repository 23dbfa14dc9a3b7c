"""Readers take a time that grows with the length of any input: counted in executed lines, not in seconds."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from retrograd.assembler.assemble import assemble
from retrograd.assembler.pisa_reader import read as read_pisa
from retrograd.compiler.frontends.janus.parser import read as read_janus
from retrograd.hdl.reversible.formats import read_real
from retrograd.hdl.reversible.openqasm import read_qasm
from retrograd.isa.diagnostics import RetrogradError, nearest
from retrograd.isa.words import Format
from retrograd.simulator.energy.technology import from_text

from retrograd.cli.arguments import read_array, read_folder

READERS: dict[str, Callable[[str], object]] = {
    "asm": assemble,
    "pisa": lambda t: read_pisa(t, name="x.pisa"),
    "jana": lambda t: read_janus(t, "x.ja", "jana"),
    "1982": lambda t: read_janus(t, "x.janus", "1982"),
    "toml": lambda t: from_text(t, "x.toml"),
    "real": lambda t: read_real(t, "x.real"),
    "qasm": lambda t: read_qasm(t, "x.qasm"),
    "format": Format.named,
}
_MAIN = "procedure main()\n    int x\n    "
#: reader -> (text that stands once, text that is repeated). %d is the number of the repetition, %p the number before it
PATTERNS = {
    "asm": [("", p) for p in (
        "(", "-", "~", "1+", "a:\n", "a", "9", "'", " ", "\t", ";", "\n", "neg r1\n", ".word 1,", '"', "[", "L%d: neg r1\n", ".equ a%d, 1\n",
        ".equ a%d, a%p\n", ".data\n", "start\n", "proc p%d, r1\nendproc\n", "\\", "2**", "1<<4000*", "é", ".zero 1\n", "r1,",
        ".equ alpha_beta_gamma_%d, 1\nadd r1, alpha_beta_gimma_%d\n",
    )],
    "pisa": [("", p) for p in ("(", "-", "a:\n", "9", " ", "ADD $1 $2\n", "$", "L%d: ADD $1 $2\n", "BRA L%d\n", ";", "\n", "DATA 1\n")],
    "jana": [("", p) for p in ("(", "if x = 0 then ", "//", "/*", " ", "9", "procedure p%d()\n    skip\n", "int a%d\n", '"', "a[")] + [
        (_MAIN, p) for p in (
            "x += (", "x += -", "x += 1 + ", "x += 1\n    ", "if x = 0 then ", "from x = 0 loop ", "local int a = 0 ", "x += a[", "x += !", "fi ",
        )
    ],
    "1982": [("", p) for p in ("(", "if x then ", "x += (", "x += 1 ", "from x do ", "9", "procedure p%d x += 1\n", "; c\n", "call p ", "a[", "-")],
    "toml": [("", p) for p in ("[", "[[a]]\n", "a=1\n", "a%d=1\n", "{", '"', "'", "9", "a.", "[a%d]\n", "a=[", "#", "a.b%d = 1\n")],
    "real": [(h, p) for h in ("", ".version 2.0\n.numvars 1\n.variables a\n.begin\n") for p in ("t1 a\n", "a ", ".variables a%d\n", "(", "9", "#\n", "-")],
    "qasm": [(h, p) for h in ("", 'OPENQASM 3.0;\ninclude "stdgates.inc";\nqubit[2] q;\n') for p in (
        "(", "x q[0];\n", "ctrl @ ", "inv @ ", "9", "/*", "//", "qubit a%d;\n", '"', "[", "q,",
    )],
    "format": [("", p) for p in ("9", "Q", "1,", "Q1.", ".")],
}  # fmt: skip
CASES = [(reader, head, pattern) for reader, found in PATTERNS.items() for head, pattern in found]


def lines_of(run: Callable[[], object]) -> int:
    """How many lines of Python are executed."""
    count = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        run()
    except RetrogradError as error:
        for d in error.diagnostics:
            d.render()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(("reader", "head", "pattern"), CASES, ids=range(len(CASES)))
def test_time_is_linear(reader: str, head: str, pattern: str) -> None:
    def work(n: int) -> int:
        many = "%d" in pattern
        body = (
            "".join(pattern.replace("%d", str(i)).replace("%p", str(i - 1)) for i in range(n)) if many else pattern * n
        )
        return lines_of(lambda: READERS[reader](head + body))

    work(10)  # tables that are made once
    few, many = work(200), work(800)
    # Fifty errors have hints, each of which looks at all names, and compares a hundred.
    assert many <= 800 * 1000 + 10_000_000 * ("gimma" in pattern)
    # A quadratic part of a tenth of the work for 200 repetitions would give 5.2 times the lines, and one of all the work 16 times.
    assert many <= 4.5 * few + 2000, (few, many)


def test_long_lines_of_toml_are_refused() -> None:
    """Python's reader takes the square of the parts of a key."""
    with pytest.raises(RetrogradError) as raised:
        from_text("a = 1\n" + "a." * 5000 + "a = 1\n", "x.toml")
    assert raised.value.code == "RG1102"
    assert "x.toml:2" in str(raised.value)


def test_hints_compare_few_names() -> None:
    def work(n: int) -> int:
        names = [f"alpha_beta_gamma_delta_epsilon_zeta_{i}" for i in range(n)]
        return lines_of(lambda: nearest("alpha_beta_gamma_delta_epsilon_zeto_7x", names))

    assert work(8000) - work(4000) < 4000 * 100
    assert nearest("gamme", [f"name_{i}" for i in range(5000)] + ["gamma"]) == "did you mean `gamma`?"
    assert nearest("xgamma", [f"name_{i}" for i in range(5000)] + ["gamma"]) == "did you mean `gamma`?"


HEADERS = [b" ", b"'", b'"', b"\\'", b"' ", b"(", b"{", b"#", b"\n", b"'''", b"9", b"{'descr': ", b"[[", b"1L "]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("piece", HEADERS)
def test_a_damaged_header_is_not_given_to_numpy(
    piece: bytes, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's reader of headers takes the square of their length and more."""
    for name in ("read_array_header_1_0", "read_array_header_2_0", "_read_array_header"):
        monkeypatch.setattr(np.lib.format, name, lambda *_, **__: pytest.fail("NumPy reads it"), raising=False)
    for length in (9000, 1500):
        text = (piece * length)[:length] + b"\n"
        header = struct.pack("<H" if version == 1 else "<I", len(text)) + text
        path = tmp_path / "x.npy"
        path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + header)
        for read, name in ((read_array, path), (read_folder, tmp_path)):
            with pytest.raises(RetrogradError) as raised:
                read(str(name))
            assert raised.value.code == "RG0504"


def test_headers_of_every_array_that_is_read(tmp_path: Path) -> None:
    """The bound is above the headers that NumPy writes."""
    for array in (
        np.zeros((1,) * 64), np.zeros((3, 0, 123456789)), np.array(1.5), np.zeros(3, ">i2"), np.zeros((2, 3), order="F"), np.zeros(2, bool),
    ):  # fmt: skip
        np.save(tmp_path / "x.npy", array)
        found = read_array(str(tmp_path / "x.npy"))
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
