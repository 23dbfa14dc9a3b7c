"""Instructions: how each mnemonic is written, and the operands of an instruction as the fields of its encoding.

`add rd, constant` is one instruction where 32 bits hold the constant, and else two, for the lower and the upper half.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from retrograd.assembler.layout import Fixup, Layout
from retrograd.assembler.lexer import TextFault, is_name, name_in, split_operands, stripped
from retrograd.assembler.symbols import looks_like_register
from retrograd.isa.encoding import CODE_SHIFT, FIELD_SHIFT, IMMEDIATE_MAX, IMMEDIATE_MIN, RA_SHIFT, RB_SHIFT, RD_SHIFT
from retrograd.isa.entries import Opcode
from retrograd.isa.table import Table

_MEMORY = re.compile(r"\[\s*([A-Za-z_][\w.]*)\s*")
_DISTANCE = re.compile(r"\.([+-]\d{1,10})$")


#: conditions that are other conditions with the operands exchanged
MIRRORED = {"gt": "lt", "le": "ge", "gtu": "ltu", "leu": "geu"}


class Form(NamedTuple):
    """How the instructions of a mnemonic are written and encoded."""

    opcode: Opcode
    bits: int
    operands: tuple[str, ...]
    #: the form that takes a constant as its last operand
    constant: Form | None
    #: the two registers are exchanged
    mirrored: bool
    #: shifts of pairs of fields that must not name one register
    distinct: tuple[tuple[int, int], ...]
    #: shifts of the fields of its registers, if it has no other operand
    shifts: tuple[int, ...]


def _form(table: Table, o: Opcode, mirrored: bool = False) -> Form:
    constant = table.immediate_form(o)
    shifts = tuple(FIELD_SHIFT[kind] for kind in o.operands if kind in FIELD_SHIFT)
    if len(shifts) < len(o.operands) or mirrored:
        shifts = ()
    pairs = tuple((FIELD_SHIFT[x], FIELD_SHIFT[y]) for x, y in o.distinct)
    code = o.code << CODE_SHIFT
    return Form(o, code, o.operands, None if constant is None else _form(table, constant), mirrored, pairs, shifts)


_FORMS: dict[int, tuple[Table, dict[str, Form]]] = {}


def forms_of(table: Table) -> dict[str, Form]:
    """mnemonic -> form, for opcodes, shorthands and mirrored conditions."""
    known = _FORMS.get(id(table))
    if known is None:
        forms = {o.name: _form(table, o) for o in table}
        forms |= {name: _form(table, o) for name, o in table.shorthands.items()}
        for name, base in MIRRORED.items():
            for way in ("goto", "from"):
                forms[f"{way}.{name}"] = _form(table, table[f"{way}.{base}"], mirrored=True)
        known = _FORMS[id(table)] = (table, forms)
    return known[1]


class WrittenInstruction(NamedTuple):
    """An instruction as it is written: its mnemonic and its operands, with their columns."""

    name: str
    start: int
    rest: str
    column: int


class Instructions:
    """Encodes instructions into a layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.symbols = layout.symbols

    def encode(self, form: Form, line: WrittenInstruction) -> bool:
        """Append the instruction. True where it is one word that does not depend on where the line stands."""
        name, start, rest, column = line
        parts = split_operands(rest) if rest and not rest.isspace() else []
        if len(parts) != len(form.operands):
            operands = form.operands
            syntax = f"`{name} {', '.join(operands)}`".replace(" `", "`")
            message = f"`{name}` takes {len(operands)} operand{'s' * (len(operands) != 1)}, not {len(parts)}"
            raise TextFault("RG0102", message, start, start + len(name), f"syntax: {syntax}")
        registers = self.symbols.registers
        if form.constant is not None and parts[-1].strip() not in registers:
            last = parts[-1].strip()
            if not last.startswith("[") and not looks_like_register(last):
                if form.constant.opcode.entry.name == "imm":
                    self._add_constant(str(form.opcode.update), parts, start, column)
                    return False
                form = form.constant
        word, fixup, at = form.bits, None, column
        for kind, part in zip(form.operands, parts, strict=True):
            if kind in FIELD_SHIFT:
                number = registers.get(part) if part in registers else registers.get(part.strip())
                if number is None:
                    raise self.symbols.no_register(part, at)
                word |= number << FIELD_SHIFT[kind]
            else:
                bits, fixup = self._constant_operand(form.opcode, kind, part, at)
                word |= bits
            at += len(part) + 1
        if form.mirrored:
            ra, rb = word >> RA_SHIFT & 255, word >> RB_SHIFT & 255
            word ^= (ra ^ rb) << RA_SHIFT | (ra ^ rb) << RB_SHIFT
        for x, y in form.distinct:
            if (word >> x ^ word >> y) & 255 == 0:
                raise self._aliased(name, form.opcode, word >> x & 255, parts, column)
        self.layout.emit(word, self.layout.sources.position(start, column + len(rest.rstrip())), fixup)
        return fixup is None

    def _aliased(self, name: str, opcode: Opcode, register: int, parts: list[str], column: int) -> TextFault:
        """The fault of naming a second time a register that is written, at the second of the two."""
        at, seen = column, False
        of = "" if opcode.writes != ("m",) else "the cotangent of "
        for part in parts:
            found = name_in(part)
            if found is not None and self.symbols.registers.get(found[0]) == register:
                if seen:
                    message = f"`{name}` writes {of}r{register} and also names it a second time"
                    return TextFault("RG0108", message, at + found.start(), at + found.end())
                seen = True
            at += len(part) + 1
        return TextFault("RG0108", f"`{name}` names r{register} twice", column, at)

    def _constant_operand(self, opcode: Opcode, kind: str, part: str, at: int) -> tuple[int, Fixup | None]:
        """The bits of a memory operand, a constant or a target, and the fixup for bits that are not known yet."""
        text, begin = stripped(part, at)
        if kind == "imm":
            return self._immediate(part, at)
        if kind == "target":
            distance = _DISTANCE.match(text)
            if distance is not None:
                return self.symbols.as_offset(opcode, int(distance.group(1)), begin, len(text)) & 0xFFFFFFFF, None
            if not is_name(text):
                message = f"`{text}` is not a label" if text else "a label is missing here"
                hint = "name the label of the other end, or its distance in instructions, such as .+5"
                raise TextFault("RG0103", message, begin, begin + len(text), hint)
            return 0, self.layout.later(text, begin, opcode)
        found = _MEMORY.match(text)
        number = self.symbols.registers.get(found[1]) if found and text.endswith("]") else None
        inside = text[found.end() : -1] if found else ""
        if number is None or (inside and inside[0] not in "+-"):
            message = f"`{text[:40]}` is not a memory operand" if text else "a memory operand is missing here"
            raise TextFault("RG0103", message, begin, begin + len(text), "write [ra], [ra + 4] or [ra - name]")
        # The sign belongs to the expression: [r1 - 5 + 1] is four words below r1.
        bits, fixup = self._immediate(inside, begin + len(text) - 1 - len(inside)) if inside else (0, None)
        return bits | number << RA_SHIFT, fixup

    def _immediate(self, text: str, at: int) -> tuple[int, Fixup | None]:
        value = self.symbols.value_if_known(text, at)
        if value is None:
            return 0, self.layout.later(text, at)
        return self.symbols.as_immediate(value, at, len(text)) & 0xFFFFFFFF, None

    def _add_constant(self, update: str, parts: list[str], start: int, column: int) -> None:
        """`add rd, constant`, and the like with another update."""
        layout, w = self.layout, self.symbols.format
        number = self.symbols.registers.get(parts[0].strip())
        if number is None:
            raise self.symbols.no_register(parts[0], column)
        text, at = parts[1], column + len(parts[0]) + 1
        value = self.symbols.value_if_known(text, at)
        position = layout.sources.position(start, at + len(text.rstrip()))
        base = layout.table[f"imm.{update}"].code << CODE_SHIFT | number << RD_SHIFT
        if value is None:
            layout.emit(base, position, layout.later(text, at))
            return
        value = w.signed(self.symbols.as_word(value, at, len(text)))
        if w.width <= 32 or IMMEDIATE_MIN <= value <= IMMEDIATE_MAX:
            layout.emit(base | value & 0xFFFFFFFF, position)
            return
        low = ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
        # The sign extension of the lower half changes the bits above 31; the upper half undoes that.
        high = (value ^ low if update == "xor" else value - low) >> 32 & 0xFFFFFFFF
        if low:
            layout.emit(base | low & 0xFFFFFFFF, position)
        layout.emit(layout.table[f"immhi.{update}"].code << CODE_SHIFT | number << RD_SHIFT | high, position)
