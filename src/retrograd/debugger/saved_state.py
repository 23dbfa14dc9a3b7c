"""Saved states of a machine: a JSON document with a version and the digest of the program.

    load_state(machine, read(save_state(machine, step)))    leaves the machine and the step as they are

Registers and words of memory that are zero are left out. Every number of a document is checked before the machine changes.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import read_file, write_file
from retrograd.isa.program import Program
from retrograd.simulator.machine import Machine

SCHEMA = "retrograd.state/1"


def program_digest(program: Program) -> str:
    """The digest of code, data, size of memory and format."""
    text = json.dumps([list(program.code), list(program.data), program.memory, str(program.format)])
    return hashlib.sha256(text.encode()).hexdigest()


def save_state(path: str, machine: Machine, step: int) -> None:
    """Write the state to a file, which is replaced as a whole. Raises InputError; RG1304 for a machine with cotangents."""
    if machine._cotangents is not None:
        raise InputError(Diagnostic("RG1304", "the state of a machine with cotangents has no file format"))
    document = {
        "schema": SCHEMA, "program": program_digest(machine.program), "step": step, "pc": machine.pc, "br": machine.br,
        "direction": machine.direction, "words": len(machine.memory),
        "registers": _nonzero(machine.registers), "memory": _nonzero(machine.memory),
    }  # fmt: skip
    write_file(path, json.dumps(document) + "\n")


def _nonzero(words: Any) -> dict[str, int]:
    return {str(i): int(word) for i, word in enumerate(words) if word}


def load_state(path: str, machine: Machine) -> int:
    """Set the machine to the state of a file; returns its step. Raises InputError RG0501, RG0514, RG1304."""
    try:
        document = json.loads(read_file(path))
    except (ValueError, RecursionError):
        raise _fault(path, "it is no JSON document") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _fault(path, f"its schema is not {SCHEMA}")
    if document.get("program") != program_digest(machine.program):
        raise _fault(path, "it is of another program")
    size, mask, sign = len(machine.memory), machine.format.mask, machine.format.sign
    step = _number(path, document, "step", 0, 1 << 63)
    pc = _number(path, document, "pc", -mask, mask)
    br = _number(path, document, "br", -sign, sign - 1)
    direction = _number(path, document, "direction", -1, 1)
    if direction == 0 or document.get("words") != size:
        raise _fault(path, f"it is of a machine with {document.get('words')!r:.20} words of memory, not {size}")
    registers = _words(path, document, "registers", len(machine.registers), mask)
    memory = _words(path, document, "memory", size, mask)
    machine.registers[:] = registers
    machine.memory[:] = memory
    machine.pc, machine.br, machine.direction = pc, br, direction
    return step


def _words(path: str, document: dict[str, Any], name: str, size: int, mask: int) -> list[int]:
    found, out = document.get(name), [0] * size
    if not isinstance(found, dict):
        raise _fault(path, f"`{name}` is missing")
    for text in found:
        if not text.isdecimal() or len(text) > 20 or int(text) >= size:
            raise _fault(path, f"`{name}` has no {text:.20}")
        out[int(text)] = _number(path, found, text, 0, mask)
    return out


def _number(path: str, document: dict[str, Any], name: str, low: int, high: int) -> int:
    value = document.get(name)
    if type(value) is not int or not low <= value <= high:
        raise _fault(path, f"`{name}` is {value!r:.40}")
    return value


def _fault(path: str, reason: str) -> InputError:
    return InputError(Diagnostic("RG1304", f"{path} is no state of this program: {reason}"))
