"""Completion scripts, in the shells themselves where they are installed."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from retrograd.cli.commands.shell import Argument, Command, bash_script, fish_script, grammar, zsh_script
from retrograd.cli.main import parser

Cli = Callable[..., tuple[int, str, str]]
TOP = grammar(parser())
SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
#: words before the cursor -> completions that must be there, and a word that must not
CASES: list[tuple[list[str], set[str], str]] = [
    (["retrograd", "ver"], {"verify"}, "run"),
    (["retrograd", "hdl", ""], {"run", "verilog", "registers", "synth", "build", "formal", "stat"}, "asm"),
    (["retrograd", "run", "--dialect", ""], {"jana", "1982"}, "--json"),
    (["retrograd", "hdl", "run", "--veri"], {"--verilator"}, "--json"),
    (["retrograd", "verify", "squ"], {"square.rga"}, "add.rga"),
    (["retrograd", "verify", "--sarif", "squ"], {"square.rga"}, "add.rga"),
    (["retrograd", "completion", "z"], {"zsh"}, "fish"),
    (["retrograd", "verify", "--color", "a"], {"auto", "always"}, "never"),
    (["retrograd", "run", "run", "--dial"], {"--dialect"}, "--json"),
]


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"needs {shell}")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_prints_the_script(cli: Cli, shell: str) -> None:
    assert cli("completion", shell) == (0, SCRIPTS[shell](TOP), "")


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in SCRIPTS])
def test_the_shell_accepts_the_script(shell: str, tmp_path: Path) -> None:
    """Names of values and help texts with every sign that a shell reads."""
    signs = 'it\'s `x` $HOME "q" [a:b] {c} (d) \\ %s; # & * ? ~ <e>'
    option = Argument(("-x", "--exotic"), "[W:]V", (), signs, repeated=True, needed=False)
    odd = Command(("retrograd", "odd"), signs, (option,), (Argument((), "A:B", (), signs, True, False),), ())
    for number, top in enumerate((TOP, Command(("retrograd",), signs, (option,), (), (odd,)))):
        script = tmp_path / f"script{number}"
        script.write_text(SCRIPTS[shell](top), "utf-8")
        done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        if shell != "zsh":  # zsh calls `compdef`, which an interactive shell has
            done = subprocess.run([shell, str(script)], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs("bash")
@pytest.mark.parametrize(
    ("words", "there", "absent"), CASES, ids=lambda case: " ".join(case) if isinstance(case, list) else ""
)
def test_bash(folder: Path, words: list[str], there: set[str], absent: str) -> None:
    (folder / "script").write_text(bash_script(TOP), "utf-8")
    call = 'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _retrograd; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", call, "bash", *words], capture_output=True, text=True, check=True)
    assert there <= set(done.stdout.split())
    assert absent not in done.stdout.split()
    assert done.stderr == ""


@needs("bash")
def test_bash_after_an_equals_sign(folder: Path) -> None:
    (folder / "script").write_text(bash_script(TOP), "utf-8")
    for words, found in (
        (("--dialect", "=", ""), "jana 1982"),
        (("--dialect", "="), "jana 1982"),
        (("--dialect", "=", "j"), "jana"),
    ):
        call = 'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _retrograd; echo "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", call, "bash", "retrograd", "run", *words], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == found


@needs("fish")
@pytest.mark.parametrize(
    ("words", "there", "absent"), CASES, ids=lambda case: " ".join(case) if isinstance(case, list) else ""
)
def test_fish(folder: Path, words: list[str], there: set[str], absent: str) -> None:
    (folder / "script").write_text(fish_script(TOP), "utf-8")
    call = ["fish", "--no-config", "-c", f"source ./script; complete -C '{' '.join(words)}'"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(folder)})
    found = {line.partition("\t")[0] for line in done.stdout.splitlines()}
    assert there <= found
    assert absent not in found


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@needs("zsh")
def test_zsh(folder: Path) -> None:
    """zsh completes in an interactive shell only: keys are typed on a pseudo-terminal, and the screen is read."""
    import pty

    (folder / "_retrograd").write_text(zsh_script(TOP), "utf-8")
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "dumb"
        os.execvp("zsh", ["zsh", "-f", "-i"])
    try:
        os.write(
            terminal,
            b"autoload -U compinit; compinit -u -D; source ./_retrograd; unsetopt automenu; echo ready$((6 * 7))\n",
        )
        read(terminal, {"ready42"})
        for words, there, absent in CASES:
            os.write(terminal, f"\x15{' '.join(words)}\t".encode())
            screen = read(terminal, there)
            shown = words_on(screen)
            assert there <= shown, (words, screen)
            assert absent not in shown - set(words), (words, screen)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def words_on(screen: str) -> set[str]:
    return set(re.findall(r"[\w.-]+", screen))


def read(terminal: int, wanted: set[str]) -> str:
    """The text on the terminal, until it has these words and is silent for half a second. Takes as long as it must."""
    out, end = "", time.monotonic() + 30.0
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            out += os.read(terminal, 1 << 16).decode(errors="replace")
        elif wanted <= words_on(out):
            break
    return out
