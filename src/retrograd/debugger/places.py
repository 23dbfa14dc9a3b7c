"""Places: registers and words of memory, by number or by their names in the program.

A place has a static set of instructions that may write it (`writers`). The set is complete: an instruction outside of it never
changes the place. An address is static if no instruction of the program writes its base register.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.encoding import Instruction
from retrograd.isa.program import Program
from retrograd.simulator.machine import REGISTERS, Machine

#: part of an instruction's effect -> the field that names its register
_FIELDS = {"d": "rd", "a": "ra", "b": "rb"}


@dataclass(frozen=True)
class Place:
    """A register (`memory` is false) or a word of memory."""

    index: int
    memory: bool = False

    def __str__(self) -> str:
        return f"M[{self.index}]" if self.memory else f"r{self.index}"

    def word(self, machine: Machine) -> int:
        """The word that the place holds now."""
        return (machine._memory if self.memory else machine._registers)[self.index]


def cotangent_of(place: Place, machine: Machine) -> Fraction | None:
    """The cotangent that a place holds beside its value, as a number; None unless the machine differentiates."""
    if machine._cotangents is None:
        return None
    store = machine._cotangents.memory if place.memory else machine._cotangents.registers
    return machine.format.to_real(int(store[place.index]))


def place_named(text: str, program: Program, words: int) -> Place:
    """The place with a name; `words`: the size of memory. Raises InputError RG1302."""
    found = re.fullmatch(r"r(\d{1,3})", text)
    if found is not None and int(found[1]) < REGISTERS:
        return Place(int(found[1]))
    if text in program.register_names:
        return Place(program.register_names[text])
    base, offset = text, "0"
    found = re.fullmatch(r"([A-Za-z_][\w.]*)\[\s*(\w+)\s*\]", text)
    if found is not None:
        base, offset = found[1], found[2]
    known: Mapping[str, int] = {"M": 0, **program.data_labels} if found is not None else program.data_labels
    if base in known:
        try:
            address = known[base] + int(offset, 0)
        except ValueError:
            address = -1
        if 0 <= address < words:
            return Place(address, memory=True)
        raise InputError(Diagnostic("RG1302", f"`{text[:60]}` lies outside of the {words} words of memory"))
    hint = nearest(text, [*program.register_names, *program.data_labels])
    raise InputError(Diagnostic("RG1302", f"`{text[:60]}` is no place of this program", hint=hint))


def memory_names(program: Program, words: int) -> Callable[[int], str]:
    """Address -> `label`, `label[k]` within the words up to the next label, or `M[address]` before all labels."""
    labels = sorted((address, name) for name, address in program.data_labels.items() if address < words)
    addresses = [address for address, _ in labels]

    def name(address: int) -> str:
        k = bisect_right(addresses, address)
        if not k:
            return f"M[{address}]"
        start, label = labels[k - 1]
        end = addresses[k] if k < len(addresses) else words
        return label if end - start == 1 else f"{label}[{address - start}]"

    return name


def entries(program: Program) -> frozenset[int]:
    """The addresses at which calls enter and leave procedures."""
    return frozenset(pc for pc, i in enumerate(program.instructions) if i.opcode.name == "swapbr")


def line_addresses(program: Program) -> dict[str, dict[int, frozenset[int]]]:
    """file -> line -> the first addresses of each stretch of its code; of the line that heads a procedure, its entry.

    The code of such a line frames the body, so its first address is that of the return.
    """
    found: dict[str, dict[int, set[int]]] = {name: {} for name in program.source.files}
    heads: dict[tuple[str, int], set[int]] = {}
    before: tuple[str, int] | None = None
    entered = entries(program)
    for pc in range(len(program.code)):
        span = program.source.span(pc)
        now = None if span is None else (span.file, span.line)
        if now is not None and now != before:
            found[now[0]].setdefault(now[1], set()).add(pc)
        if now is not None and pc in entered:
            heads.setdefault(now, set()).add(pc)
        before = now
    return {
        name: {n: frozenset(heads.get((name, n), pcs)) for n, pcs in sorted(of.items())} for name, of in found.items()
    }


def written_registers(i: Instruction) -> set[int]:
    """The registers that an instruction or its inverse may write."""
    return {getattr(i, _FIELDS[part]) for part in i.opcode.writes if part in _FIELDS}


def writers(place: Place, machine: Machine) -> frozenset[int]:
    """The addresses of the instructions that may change the place."""
    code = machine.program.instructions
    if not place.memory:
        return frozenset(pc for pc, i in enumerate(code) if place.index in written_registers(i))
    changed = set[int]().union(*map(written_registers, code))
    mask = machine.format.mask
    return frozenset(
        pc
        for pc, i in enumerate(code)
        if "m" in i.opcode.writes and (i.ra in changed or (machine._registers[i.ra] + i.imm) & mask == place.index)
    )
