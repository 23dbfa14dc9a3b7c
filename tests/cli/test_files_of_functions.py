"""FILE.py without :FUNCTION, and programs by the paths of their files."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

import retrograd as rg

Cli = Callable[..., tuple[int, str, str]]

SOURCE = """\
from retrograd import fixed, reversible, struct
from retrograd.library.linear_algebra import *


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
    (folder / "f.py").write_text("from retrograd.library.linear_algebra import *\n")
    assert "error[RG0509]: f.py defines no reversible function" in cli("run", "f.py")[2]
    assert "error[RG0501]: none.py: No such file or directory" in cli("run", "none.py")[2]
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


@pytest.mark.parametrize(
    "command",
    [
        "run {}hypot.py:hypot 0.0 3.0 4.0", "run {}hypot.py:~hypot 5.0 3.0 4.0", "run {}squares.rga --set r1=3",
        "run {}vlad/slope.vlad", "test {}vlad/slope.vlad", "run {}janus/fib.ja", "invert {}janus/fib.ja",
        "verify {}xtea.rga {}sort.rga", "compile {}hypot.py:hypot", "grad {}hypot.py:hypot 1.0 3.0 4.0",
        "run {}xtea.rga --set blocks=191 --mem text={}message.txt,u32be",
    ],
)  # fmt: skip
def test_examples_by_name_in_any_folder(cli: Cli, folder: Path, command: str) -> None:
    """`examples/NAME` is the package's own file where the working folder has none of that name."""
    own = f"{Path(str(files('retrograd.examples')))}/"
    expected = cli(*command.format(*[own] * 2).split())
    assert expected[0] == 0
    found = cli(*command.format(*["examples/"] * 2).split())
    # The second run of a program may take another engine.
    shown, wanted = (re.sub("; engine: .*", "", text) for text in (found[1], expected[1].replace(own, "examples/")))
    assert (found[0], shown, found[2]) == (0, wanted, "")


def test_a_file_of_the_working_folder_comes_first(cli: Cli, folder: Path) -> None:
    (folder / "examples").mkdir()
    (folder / "examples/hypot.py").write_text(SOURCE)
    assert cli("run", "examples/hypot.py:first", "1.0")[1].startswith("x = 2.0\n")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("examples/leapfrog", "did you mean `examples/leapfrog.py`?"),
        ("examples/bessell.py:bessel", "did you mean `examples/bessel.py`?"),
        ("fibb.rga", "did you mean `fib.rga`?"),
        ("./fibb.rga", "did you mean `fib.rga`?"),
        ("sub/cipher.rg", "did you mean `sub/cipher.rga`?"),
        ("sub/none/f.py:f", "there is no folder `sub/none`"),
        ("sub/none/f.ja", "there is no folder `sub/none`"),
    ],
)
def test_a_missing_file_has_the_nearest_name(cli: Cli, folder: Path, path: str, hint: str) -> None:
    (folder / "sub").mkdir()
    (folder / "sub/cipher.rga").write_text("start\nfinish\n")
    code, out, err = cli("run", path)
    assert (code, out) == (2, "")
    assert err.startswith("error[RG0501]: ")
    assert err.endswith(f"  fix: {hint}\n")
