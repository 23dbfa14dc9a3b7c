"""`retrograd demo`: a cipher that has no decryption routine, because the program runs backward."""

from __future__ import annotations

import argparse
import time
from importlib.resources import files

from retrograd.assembler.assemble import assemble
from retrograd.cli.exit_codes import OK
from retrograd.cli.options import Parser
from retrograd.simulator.machine import Machine

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


def arguments(p: Parser) -> None:
    """`retrograd demo` has no options."""


def execute(options: argparse.Namespace) -> int:
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
