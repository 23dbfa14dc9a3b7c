"""Inputs beyond their limits: refused before memory is allocated for them."""

from __future__ import annotations

import io
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from retrograd.isa.files import Limits, command, limits, parse_size, read_file, size_text

from retrograd.cli.arguments import read_arrays

Ran = tuple[int, str, str]
Cli = Callable[..., Ran]


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("4096", 4096), ("64K", 65536), ("3m", 3 << 20), ("2G", 2 << 30), ("1T", 1 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert parse_size(size_text(size)) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5G", "0x10", "1GB", "٣", "9" * 5000, "1 K"])
def test_sizes_that_are_none(cli: Cli, text: str) -> None:
    with pytest.raises(ValueError, match="no number of bytes"):
        parse_size(text)
    for option in ("--max-input", "--max-expanded"):
        assert "error[RG0507]" in cli("run", "square.rga", f"{option}={text}")[2]


def test_each_command_has_limits_of_its_own() -> None:
    with command(Limits(input=5)):
        assert limits().input == 5
    assert limits() == Limits()


def test_programs(cli: Cli, folder: Path) -> None:
    size = (folder / "square.rga").stat().st_size
    for words in (["run"], ["dis"], ["verify"], ["asm", "-o", "out"]):
        assert cli(*words, "square.rga", "--max-input", str(size))[0] == 0
        code, out, err = cli(*words, "square.rga", "--max-input", str(size - 1))
        assert (code, out) == (2, "")
        assert err.startswith(f"error[RG0514]: square.rga has {size} bytes")


def test_data(cli: Cli, folder: Path) -> None:
    np.save(folder / "x.npy", np.arange(3))
    (folder / "x.txt").write_text("1 2 3 " * 100)
    for name in ("x.npy", "x.txt"):
        # The program is within the limit.
        assert cli("run", "add.rga", "--mem", name, "--max-input", "150")[2].startswith(f"error[RG0514]: {name}")


def bomb(path: Path, size: int) -> None:
    """An archive of an array of zeros, a thousandth of its size."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (size // 8,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(head.getvalue())
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))


def test_archives(cli: Cli, folder: Path) -> None:
    (folder / "f.py").write_text(
        "from retrograd import fixed, reversible\n\n\n@reversible\ndef f(x: fixed):\n    x += 1.0\n"
    )
    bomb(folder / "bomb.npz", 8 << 20)
    assert (folder / "bomb.npz").stat().st_size < 1 << 14
    run = ("run", "f.py:f", "--batch", "bomb.npz", "--max-expanded")
    assert cli(*run, "8M")[2].startswith("error[RG0514]: bomb.npz has 8388736 bytes once it is unpacked")
    with command(Limits(expanded=9 << 20)):
        assert len(read_arrays(str(folder / "bomb.npz"))["x"]) == 1 << 20
    assert cli("run", "f.py:f", "--batch", "bomb.npz", "--max-input", "4K")[2].startswith(
        "error[RG0514]: bomb.npz has "
    )


def test_an_archive_that_lies_about_its_size(cli: Cli, folder: Path) -> None:
    """The directory says 64 bytes: no more than those are unpacked."""
    bomb(folder / "bomb.npz", 8 << 20)
    data = (folder / "bomb.npz").read_bytes()
    true = (8388736).to_bytes(4, "little")
    assert true in data
    (folder / "bomb.npz").write_bytes(data.replace(true, (64).to_bytes(4, "little")))
    (folder / "f.py").write_text(
        "from retrograd import fixed, reversible\n\n\n@reversible\ndef f(x: fixed):\n    x += 1.0\n"
    )
    assert "error[RG0504]" in cli("run", "f.py:f", "--batch", "bomb.npz")[2]


#: commands that read from something without an end
ENDLESS = [
    ["run", "/dev/zero"], ["dis", "/dev/zero"], ["verify", "/dev/zero"], ["asm", "/dev/zero", "-o", "out"], ["run", "add.rga", "--mem", "/dev/zero"],
    ["run", "add.rga", "--mem", "/dev/zero,text"], ["run", "add.rga", "--mem", "/dev/zero,npy"], ["energy", "add.rga", "--tech", "/dev/zero"],
    ["energy", "add.rga", "--gates", "/dev/zero"], ["run", "f.py:f", "--batch", "/dev/zero"], ["run", "f.py:f", "@/dev/zero"],
    ["bench", "--from", "/dev/zero"],
]  # fmt: skip


@pytest.mark.parametrize("words", ENDLESS, ids=" ".join)
def test_files_without_an_end(cli: Cli, folder: Path, words: list[str]) -> None:
    (folder / "f.py").write_text(
        "from retrograd import fixed, reversible\n\n\n@reversible\ndef f(x: fixed):\n    x += 1.0\n"
    )
    code, out, err = cli(*words, "--max-input", "1M")
    assert (code, out) == (2, "")
    assert err.startswith(("error[RG0514]", "error[RG0504]"))


@pytest.mark.long
@pytest.mark.parametrize("words", ENDLESS, ids=" ".join)
def test_the_defaults_bound_the_memory(folder: Path, words: list[str]) -> None:
    (folder / "f.py").write_text(
        "from retrograd import fixed, reversible\n\n\n@reversible\ndef f(x: fixed):\n    x += 1.0\n"
    )

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    ran = subprocess.run(
        [sys.executable, "-m", "retrograd.cli.main", *words],
        capture_output=True,
        preexec_fn=bounded,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith((b"error[RG0514]", b"error[RG0504]"))


def test_a_pipe_is_read_to_the_limit(tmp_path: Path) -> None:
    import os

    reader, writer = os.pipe()
    os.write(writer, b"x" * 1000)
    os.close(writer)
    with command(Limits(input=1000)):
        assert len(read_file(f"/dev/fd/{reader}")) == 1000
    os.close(reader)


def test_constants_are_small(cli: Cli, folder: Path) -> None:
    """A shift by 10^12 would fill the memory; it is refused before it is computed."""
    for text in ("1 << 1000000000000", "1 << 4096 << 4096", " * ".join(["9999999999"] * 400), "9" * 100_000):
        (folder / "long.rga").write_text(f"start\nadd r1, {text}\nfinish\n")
        for words in (
            ["run", "long.rga"],
            ["run", "add.rga", "--set", f"r1={text}"],
            ["run", "add.rga", "--out", f"0:{text}=out"],
        ):
            code, out, err = cli(*words)
            assert (code, out) == (2, ""), words
            assert err.startswith("error[RG0")
    (folder / "f.py").write_text("from retrograd import reversible\n\n\n@reversible\ndef f(n: int):\n    n += 1\n")
    for text in ("1 << 1000000000000", "10**10**10", "[0] * 10**12", "'x' * 10**12"):
        assert cli("run", "f.py:f", text)[2].startswith("error[RG0510]")
