"""`retrograd completion`: a script that completes commands, options and their values."""

from __future__ import annotations

import argparse
import sys
import time
from importlib.resources import files

from retrograd.assembler.assemble import assemble
from retrograd.cli.files import input_path
from retrograd.cli.grammar import bash_script, fish_script, grammar, man_page, zsh_script
from retrograd.cli.options import EXIT_CODES, Parser, step_limit
from retrograd.cli.report import print_json, print_trap
from retrograd.cli.terminal import OK, WRONG
from retrograd.isa.diagnostics import printable
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine

_SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}


def arguments_of_completion(p: Parser) -> None:
    """Options of `retrograd completion`."""
    p.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help="bash, zsh or fish")


def execute_completion(options: argparse.Namespace) -> int:
    """Print the script of one shell."""
    from retrograd.cli.main import parser

    sys.stdout.write(_SCRIPTS[options.shell](grammar(parser())))
    return OK


# -----------------------------------------------------------------------------
# `retrograd man`: the manual page, for `man -l` and for packages.


def arguments_of_man(p: Parser) -> None:
    """`retrograd man` has no options of its own."""


def execute_man(options: argparse.Namespace) -> int:
    """Print the page in the macros of man(7)."""
    from retrograd.cli.main import parser

    sys.stdout.write(man_page(grammar(parser()), EXIT_CODES))
    return OK


# -----------------------------------------------------------------------------
# `retrograd demo`: a cipher that has no decryption routine, because the program runs backward.

_KEY = (0x00010203, 0x04050607, 0x08090A0B, 0x0C0D0E0F)
_SHOWN = 56


def _words(data: bytes) -> list[int]:
    return [int.from_bytes(data[i : i + 4], "big") for i in range(0, len(data), 4)]


def _bytes(machine: Machine, address: int, count: int) -> bytes:
    return b"".join(word.to_bytes(4, "big") for word in machine.memory[address : address + count])


def _excerpt(text: str, label: str, lines: int) -> str:
    """Some lines of a source, from a label on."""
    found = text.splitlines()
    at = next(i for i, line in enumerate(found) if line.startswith(f"{label}:"))
    return "\n".join(found[at : at + lines])


def arguments_of_demo(p: Parser) -> None:
    """`retrograd demo` has no options."""


def execute_demo(options: argparse.Namespace) -> int:
    """Assemble, verify, run forward, run backward, and show that every bit is back."""
    folder = files("retrograd.examples")
    source = folder.joinpath("xtea.rga").read_text("utf-8")
    program = assemble(source, name="xtea.rga")
    message = folder.joinpath("message.txt").read_bytes()
    message += b"\0" * (-len(message) % 8)
    text = program.data_labels["text"]

    print("Retrograd runs programs backward, exactly. This is the cipher XTEA in its assembly language;")
    print("it encrypts. There is no decryption routine: the same program, run from its end to its start, decrypts.\n")
    print(_excerpt(source, "cycle", 11) + "\n        …\n")

    machine = Machine(program, strict=True)
    machine.load(program.data_labels["key"], _KEY)
    machine.load(program.data_labels["blocks"], [len(message) // 8])
    machine.load(text, _words(message))
    before = machine.state()

    print(f"message   {message[:_SHOWN]!r} … ({len(message)} bytes)")
    begun = time.perf_counter()
    out = machine.run()
    spent = time.perf_counter() - begun
    cipher = _bytes(machine, text, len(message) // 4)
    print(f"forward   {cipher[: _SHOWN // 2].hex()} …  {out.steps} instructions, {out.steps / spent / 1e6:.1f} M/s")
    begun = time.perf_counter()
    back = machine.run_back()
    spent = time.perf_counter() - begun
    plain = _bytes(machine, text, len(message) // 4)
    print(f"backward  {plain[:_SHOWN]!r} …  {back.steps} instructions, {back.steps / spent / 1e6:.1f} M/s\n")

    same = "every register and every memory word is back, bit for bit" if machine.state() == before else "NOT RESTORED"
    print(f"{same}; {machine.erased_bits} bits were erased on the way.")
    print("A program that erases nothing loses no information, and needs no tape to run backward.\n")
    print("next:  retrograd isa              the instructions, each with its inverse and its adjoint")
    print("       retrograd isa fmul         one of them")
    print("       retrograd run PROG --trace every step of a program of yours; add --backward to see it undone")
    return OK


# -----------------------------------------------------------------------------
# `retrograd test`: the expressions of VLAD files that have an expected value, forward and back.


def arguments_of_test(p: Parser) -> None:
    """Options of `retrograd test`."""
    p.add_argument("files", metavar="FILE.vlad", nargs="+", help="files with lines `expression ===> value`")
    p.run_options("--engine", "--format", "--max-steps", "--no-overflow")
    p.json_option("retrograd.vlad-test/1")
    p.size_options()


def execute_test(options: argparse.Namespace) -> int:
    """Run the tests, and print the failures. All expressions are evaluated; those without expected value must not trap."""
    from retrograd.compiler.frontends.vlad.translation import shown as datum_text
    from retrograd.derivatives._functional import evaluations, load_vlad, shown
    from retrograd.runtime._execution import ProgramTrap

    engine_named(options.engine)
    tests = wrong = 0
    failures = []
    for path in options.files:
        found = evaluations(
            load_vlad(input_path(path)),
            format=options.format,
            precision=options.precision,
            engine=options.engine,
            back=True,
            max_steps=step_limit(options),
            overflow=not options.no_overflow,
        )
        try:
            for e in found:
                where = str(e.expression.datum.at.span)
                problems = []
                if not e.restored or e.erased_bits:
                    problems.append(f"the run back does not restore zeros, or {e.erased_bits} bits are erased")
                if e.expression.expected is not None:
                    tests += 1
                    if not e.agrees:
                        problems.append(f"{shown(e.value)} in place of {datum_text(e.expression.expected)}")
                wrong += bool(problems)
                failures += [{"where": where, "problem": text} for text in problems]
                if not options.json:
                    for text in problems:
                        print(printable(f"{where}: {text}"), file=sys.stderr)
        except ProgramTrap as trap:
            return print_trap(trap, as_json=options.json)
    if options.json:
        print_json("retrograd.vlad-test/1", {"tests": tests, "failures": failures})
    else:
        print(f"{tests} tests in {len(options.files)} file{'s' * (len(options.files) != 1)}, {wrong} failed")
    return WRONG if wrong else OK
