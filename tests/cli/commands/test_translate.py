"""`retrograd asm`, `dis`, `verify`: text, images, standard input, includes."""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.assembler.image import from_image

Cli = Callable[..., tuple[int, str, str]]
OK, BAD_INPUT = 0, 2
GOOD = ["fib.rga", "cipher.rga", "add.rga", "square.rga", "erase.rga", "endless.rga", "small.rga", "unreachable.rga"]


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Standard input for the next command."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("name", GOOD)
def test_text_to_image_to_text(cli: Cli, folder: Path, name: str) -> None:
    code, out, err = cli("asm", name, "-o", "out.rgx")
    program = assemble((folder / name).read_text())
    image = (folder / "out.rgx").read_bytes()
    assert (code, err) == (OK, "")
    assert out == (
        f"out.rgx: {len(program.code)} instructions, {len(program.data)} words of data, {len(image)} bytes\n"
    )
    assert from_image(image) == program
    from_text, from_binary = cli("dis", name), cli("dis", "out.rgx")
    assert from_text == from_binary
    assert assemble(from_text[1], check=False).code == program.code


@pytest.mark.parametrize("name", ["fib.rga", "add.rga"])
def test_an_image_runs_as_its_text_does(cli: Cli, folder: Path, name: str) -> None:
    assert cli("asm", name, "-o", "out.rgx")[0] == OK
    options = ("--set", "r3=6", "--set", "r1=0", "--json")
    assert cli("run", "out.rgx", *options) == cli("run", name, *options)
    assert cli("verify", "out.rgx") == cli("verify", name)


def test_a_trap_in_an_image_names_the_line(cli: Cli) -> None:
    cli("asm", "square.rga", "-o", "out.rgx")
    code, _, err = cli("run", "out.rgx", "--set", "r1=100000q")
    assert code == 3
    assert "  --> square.rga:2:9\n" in err


def test_dis_with_addresses(cli: Cli) -> None:
    out = cli("dis", "add.rga", "--addresses")[1]
    lines = [line for line in out.splitlines() if ";" in line]
    assert [line.split(";")[1].split(":")[0].strip() for line in lines] == ["0", "1", "2"]
    assert assemble(out) == assemble(cli("dis", "add.rga")[1])


def test_dis_of_the_inverse_twice(cli: Cli, folder: Path) -> None:
    code, inverse, _ = cli("dis", "fib.rga", "--inverse")
    (folder / "inverse.rga").write_text(inverse)
    assert code == OK
    assert assemble(inverse) == ~assemble((folder / "fib.rga").read_text())
    assert assemble(cli("dis", "inverse.rga", "--inverse")[1]) == assemble((folder / "fib.rga").read_text())


def test_dis_shows_a_program_that_is_not_reversible(cli: Cli, folder: Path) -> None:
    (folder / "odd.rga").write_text("start\nadd r1, 1\n")
    assert cli("dis", "odd.rga")[0] == OK
    assert cli("asm", "odd.rga", "-o", "odd.rgx")[0] == BAD_INPUT
    assert not (folder / "odd.rgx").exists()


@pytest.mark.parametrize("command", [("run", "-"), ("verify", "-"), ("dis", "-"), ("asm", "-", "-o", "out.rgx")])
@pytest.mark.parametrize("image", [False, True])
def test_standard_input(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], image: bool
) -> None:
    cli("asm", "add.rga", "-o", "add.rgx")
    give(monkeypatch, (folder / ("add.rgx" if image else "add.rga")).read_bytes())
    code, out, err = cli(*command)
    assert (code, err) == (OK, "")
    if command[0] != "asm":
        assert out == cli(command[0], "add.rga")[1]


def test_standard_input_names_itself(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"start\nad r1, 1\nfinish\n")
    assert "  --> <stdin>:2:1\n" in cli("run", "-")[2]
    give(monkeypatch, b'start\n.include "add.rga"\nfinish\n')
    assert "error[RG0110]" in cli("run", "-")[2]


@pytest.mark.parametrize("name", ["-", "sum=-", "sum=-,u8"])
def test_data_from_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    give(monkeypatch, b"\x05\0\0\0\0\0\0\0" if "u8" not in name else b"\5")
    code, out, _ = cli("run", "add.rga", f"--mem={name}", "--json")
    assert (code, json.loads(out)["memory"]["nonzero"]["0"]) == (OK, 5)


def test_an_array_from_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    file = io.BytesIO()
    np.save(file, np.array([5]))
    give(monkeypatch, file.getvalue())
    code, out, err = cli("run", "add.rga", "--mem=-,npy", "--json")
    assert code == OK, err
    assert json.loads(out)["memory"]["nonzero"]["0"] == 5


def test_standard_input_is_there_once(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program and data, or two data files, cannot both be read from it: the second would be empty without a word."""
    give(monkeypatch, (folder / "add.rga").read_bytes())
    assert cli("run", "-", "--mem=-,u8")[0] == BAD_INPUT


# --------------------------------------------------------------------------------------------- verify


def test_verify(cli: Cli) -> None:
    code, out, err = cli("verify", "fib.rga")
    assert (code, err) == (OK, "")
    assert out == "22 instructions, 1 subroutines: the program can run backward everywhere\n"


def test_verify_warns(cli: Cli) -> None:
    code, out, err = cli("verify", "unreachable.rga")
    assert code == OK
    assert err.startswith("warning[RG0210]")
    assert out.endswith("can run backward everywhere\n")
    assert cli("run", "unreachable.rga")[2] == ""


def test_verify_strict(cli: Cli) -> None:
    code, out, err = cli("verify", "erase.rga", "--strict")
    assert code == BAD_INPUT
    assert err.startswith("error[RG0211]")
    assert out.endswith("cannot run backward everywhere\n")
    assert cli("verify", "erase.rga")[0] == OK


def test_verify_promises_nothing_of_a_program_that_erases(cli: Cli) -> None:
    assert "can run backward everywhere" not in cli("verify", "erase.rga")[1]


def test_verify_as_json(cli: Cli) -> None:
    code, out, err = cli("verify", "erase.rga", "--strict", "--json")
    found = json.loads(out)
    assert (code, err, found["schema"], len(found["findings"])) == (BAD_INPUT, "", "retrograd.findings/1", 1)
    finding = found["findings"][0]
    assert set(finding) == {"code", "severity", "title", "message", "span", "why", "fix"}
    assert finding["span"] == {"file": "erase.rga", "line": 3, "column": 9, "end": 17}
    assert json.loads(cli("verify", "add.rga", "--json")[1])["findings"] == []
    assert json.loads(cli("verify", "unreachable.rga", "--json")[1])["findings"][0]["severity"] == "warning"
    assert [f["code"] for f in json.loads(cli("verify", "wrong.rga", "--json")[1])["findings"]] == ["RG0101", "RG0108"]


def test_several_errors_are_counted(cli: Cli) -> None:
    code, out, err = cli("verify", "wrong.rga")
    assert (code, out) == (BAD_INPUT, "")
    assert err.endswith("\n\n2 errors\n")


# -------------------------------------------------------------------------------------------- includes


def test_includes(cli: Cli, folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib/part.rga").write_text("add r1, 5\n")
    (folder / "main.rga").write_text('start\n.include "lib/part.rga"\nfinish\n')
    assert json.loads(cli("run", "main.rga", "--json")[1])["registers"] == {"r1": 5}


def test_includes_from_another_folder(cli: Cli, folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "app").mkdir()
    (folder / "lib/part.rga").write_text("add r1, 5\n")
    (folder / "app/main.rga").write_text('start\n.include "part.rga"\nfinish\n')
    (folder / "app/up.rga").write_text('start\n.include "../lib/part.rga"\nfinish\n')
    for command in ("run", "verify", "dis"):
        assert cli(command, "app/main.rga")[0] == BAD_INPUT
        assert cli(command, "app/main.rga", "-I", "lib")[0] == OK
        assert cli(command, "--include", "nope", "-I", "lib", "app/main.rga")[0] == OK
        assert "error[RG0112]" in cli(command, "app/up.rga")[2]
        assert cli(command, "app/up.rga", "-I", "lib")[0] == OK


def test_an_error_in_an_include_names_a_path_that_can_be_opened(cli: Cli, folder: Path) -> None:
    (folder / "app/lib").mkdir(parents=True)
    (folder / "app/main.rga").write_text('start\n.include "lib/part.rga"\nfinish\n')
    (folder / "app/lib/part.rga").write_text('.include "detail.rga"\n')
    (folder / "app/lib/detail.rga").write_text("ad r1, 5\n")
    assert "  --> app/lib/detail.rga:1:1\n" in cli("verify", "app/main.rga")[2]


# --------------------------------------------------------------------------------------------- no traceback

COMMANDS = [("run",), ("verify",), ("dis",), ("asm", "-o", "out.rgx")]


def inputs() -> dict[str, bytes]:
    """Files that are no programs, by name; a fixed seed."""
    rng = random.Random(7)
    alphabet = [
        "start",
        "finish",
        "add",
        "r1",
        ",",
        ";",
        '"',
        "[",
        "]",
        "(",
        ")",
        "+",
        "-",
        ".",
        ":",
        "\n",
        "\t",
        ".word",
        ".data",
        ".equ",
        ".include",
        "proc",
        "endproc",
        "goto",
        "'é'",
        "1q",
        "0x",
    ]
    out = {
        "nothing": b"",
        "blank lines": b"\n\n \t\n",
        "a lone byte": b"\xff",
        "utf-16": "start\nfinish\n".encode("utf-16"),
        "zeros": bytes(1000),
        "an image's magic": b"\x89RGX",
        "a longer magic": b"\x89RGX\r\n\x1a\n" + bytes(100),
        "old line ends": b"start\rfinish\r",
        "one long line": b"add r1, " + b"1 + " * 20000 + b"1",
        "many brackets": b"add r1, " + b"(" * 20000,
        "a long name": b"x" * 100000 + b": start\nfinish\n",
        "strange spaces": "start\n\u2028add\u00a0r1, 1\n\u3000finish\n".encode(),
        "surrogates": b"start\nadd r1, '\xed\xa0\x80'\nfinish\n",
        "arabic digits": "start\nadd r١, ٢\nfinish\n".encode(),
    }
    for number in range(12):
        out[f"bytes {number}"] = rng.randbytes(300)
        out[f"words {number}"] = " ".join(rng.choices(alphabet, k=300)).encode()
    return out


INPUTS = inputs()


@pytest.mark.parametrize("name", INPUTS)
def test_garbage_is_refused_with_a_code(cli: Cli, folder: Path, name: str) -> None:
    (folder / "input").write_bytes(INPUTS[name])
    for command, *options in COMMANDS:
        code, out, err = cli(command, "input", *options)
        if code != OK:
            assert (code, out if command != "verify" else "") == (BAD_INPUT, "")
            assert err.startswith(("error[RG", "error: "))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
@pytest.mark.parametrize("path", ["", ".", "nope", "nope/nope", "add.rga/x", "a\0b", "n" * 5000, "/dev/null"])
def test_paths_that_are_no_program(cli: Cli, command: tuple[str, ...], path: str) -> None:
    code, _, err = cli(command[0], path, *command[1:])
    if (command[0], path) != ("dis", "/dev/null"):
        assert code == BAD_INPUT
        assert err.startswith("error[RG")


@pytest.mark.parametrize("path", ["", ".", "nope/out.rgx", "add.rga/x", "a\0b"])
def test_images_that_cannot_be_written(cli: Cli, path: str) -> None:
    code, out, err = cli("asm", "add.rga", "-o", path)
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("error[RG0501]")


def test_damaged_images(cli: Cli, folder: Path) -> None:
    """Every byte of an image counts, and every shorter file is refused."""
    cli("asm", "square.rga", "-o", "good.rgx")
    good = (folder / "good.rgx").read_bytes()
    rng = random.Random(11)
    bad = [good[:n] for n in rng.sample(range(len(good)), 30)]
    for at in rng.sample(range(len(good)), 40):
        bad.append(good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :])
    for data in bad:
        (folder / "bad.rgx").write_bytes(data)
        code, _, err = cli("dis", "bad.rgx")
        if data:
            assert code == BAD_INPUT
            assert err.startswith(("error[RG03", "error[RG0118]"))
