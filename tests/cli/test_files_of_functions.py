"""FILE.py without :FUNCTION, and programs by the paths of their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import retrograd as rg

Cli = Callable[..., tuple[int, str, str]]

SOURCE = """\
from retrograd import fixed, reversible, struct
from retrograd.library.vectors import *


@reversible
def first(x: fixed):
    x += 1.0


@reversible
def second(x: fixed):
    x += 2.0


@struct
class Point:
    x: fixed

    @reversible
    def shift(self):
        self.x += 1.0


def ordinary(x):
    return x
"""


@pytest.mark.parametrize(
    "text",
    [
        "run f.py",
        "run ./f.py:",
        "energy f.py",
        "compile f.py",
        "grad f.py",
        "sweep f.py",
        "hdl run f.py",
        "run f.py --set r1=2",
    ],
)
def test_a_file_alone_lists_its_functions(cli: Cli, folder: Path, text: str) -> None:
    (folder / "f.py").write_text(SOURCE)
    code, out, err = cli(*text.split())
    assert (code, out) == (2, "")
    assert err.startswith("error[RG0509]: `")
    assert "f.py` is a file: which of its functions is meant?" in err
    assert "f.py:first; it defines first, second, Point.shift\n" in err


def test_a_file_without_functions(cli: Cli, folder: Path) -> None:
    (folder / "f.py").write_text("from retrograd.library.vectors import *\n")
    assert "error[RG0509]: f.py defines no reversible function" in cli("run", "f.py")[2]
    assert "error[RG0501]: none.py: there is no such file" in cli("run", "none.py")[2]
    (folder / "f.py").write_text("x = 1 / 0\n")
    assert "error[RG0508]: f.py: ZeroDivisionError" in cli("run", "f.py")[2]
    (folder / "f.py").write_text(
        "from retrograd import fixed, reversible\n"
        + "".join(f"\n@reversible\ndef f{i}(x: fixed):\n    x += 1.0\n" for i in range(25))
    )
    assert "f18, f19, and 5 more\n" in cli("run", "f.py")[2]


@pytest.mark.parametrize("kind", [str, Path])
def test_programs_by_path(cli: Cli, folder: Path, kind: type) -> None:
    program = rg.assemble_file(kind("cipher.rga"))
    assert program.data_labels == {"key": 0, "text": 1, "after": 9}
    assert cli("asm", "cipher.rga", "-o", "cipher.rgx")[0] == 0
    for name in ("cipher.rga", "cipher.rgx"):
        machine = rg.Machine(kind(name), memory=20)
        assert machine.program == program
        assert len(machine.memory) == 20
    assert rg.Machine(program).program is program
    with pytest.raises(rg.InputError, match="RG0501"):
        rg.Machine(kind("none.rga"))
    with pytest.raises(FileNotFoundError):
        rg.assemble_file(kind("none.rga"))
    with pytest.raises(TypeError, match="expected a Program"):
        rg.Machine(3)  # type: ignore[arg-type]
    (folder / "sub").mkdir()
    (folder / "sub/main.rga").write_text('start\n.include "part.rga"\nfinish\n')
    (folder / "sub/part.rga").write_text("add r1, 1\n")
    assert len(rg.Machine(kind("sub/main.rga")).program.code) == len(rg.assemble_file(kind("sub/main.rga")).code) == 3
