"""What the command-line tests share: a folder of small programs to stand in, and the command, in process or not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retrograd.cli.main import main

Ran = tuple[int, str, str]

PROGRAMS = {
    # (r1, r2) := (F(n), F(n+1)) for n in r3, by calling itself
    "fib.rga": """\
.memory 64
.reg n, r3
.reg a, r1
.reg b, r2
        start
        call fib
        finish
proc fib, r10, r11
fib.test: goto.eq n, r9, fib.base
        sub n, 1
        call fib
        add n, 1
        add a, b
        swap a, b
fib.then: goto fib.join
fib.base: from fib.test
        add a, 1
        add b, 1
fib.join: from.ne a, b, fib.then
endproc
""",
    # every word of `text` is rotated and has a key added: eight words, two labels, run with r4 = 8
    "cipher.rga": """\
.memory 16
.data
key:    .word 17
text:   .zero 8
after:  .word 99
.text
        start
        ld.add r1, [r0]
loop:   from.ne r3, r0, again
        exch r2, [r3 + 1]
        add r2, r1
        roli r2, 5
        exch r2, [r3 + 1]
        add r3, 1
again:  goto.ne r3, r4, loop
        sub r3, r4
        ld.sub r1, [r0]
        finish
""",
    # adds r1 to the word at `sum`
    "add.rga": """\
.memory 8
.data
sum:    .word 0
table:  .word 1, -2, 3
.text
        start
again:  st.add [r0], r1
        finish
""",
    "square.rga": """\
        start
        fmul.add r2, r1, r1
        finish
""",
    "erase.rga": """\
        start
        add r1, 5
        erase r1
        finish
""",
    "endless.rga": """\
        start
loop:   from.ne r1, r0, again
        add r1, 1
again:  goto.ne r1, r2, loop
        finish
""",
    "small.rga": """\
.format 16, 8
.memory 4
        start
        finish
""",
    "tiny.rga": """\
.format 8, 4
.memory 4
        start
        finish
""",
    "wrong.rga": """\
        start
        ad r1, 5
        add r1, r1
        finish
""",
    "unreachable.rga": """\
        start
        finish
proc f, r1
endproc
""",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the programs in it."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """A command in this process: (exit code, stdout, stderr). Anything raised but SystemExit is a failure."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def process(folder: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """A command in a process of its own, buffered as a user's is."""

    def run(
        *arguments: str, given: bytes = b"", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | (environment or {})
        command = [sys.executable, "-m", "retrograd.cli.main", *arguments]
        return subprocess.run(command, input=given, capture_output=True, env=variables, check=False)

    return run
