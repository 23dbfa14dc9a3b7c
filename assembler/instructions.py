"""Instructions: how each mnemonic is written, and the operands of an instruction as the fields of its encoding.

The encoding of an instruction is the exclusive or of the bits of its mnemonic and the bits of its operands. The bits of most operands
do not depend on the line, and are kept in tables. `Instructions.look_up` encodes an instruction by these tables alone. Where an
operand has no entry, `Instructions.encode` encodes the instruction with a fixup, or reports a fault with its columns. Both compute an
operand by the same function, so an operand has one meaning.

`add rd, constant` is one instruction where 32 bits hold the constant, and else two, for the lower and the upper half.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from retrograd.assembler.directives import Fixup, Layout, Subroutine, looks_like_register
from retrograd.assembler.lexer import TextFault, arguments, checked_name, is_name, name_in, split_operands, stripped
from retrograd.isa.encoding import (
    CODE_SHIFT,
    FIELD_SHIFT,
    IMMEDIATE_MAX,
    IMMEDIATE_MIN,
    RA_SHIFT,
    RD_SHIFT,
    DistinctFields,
    distinct_fields,
)
from retrograd.isa.entries import Opcode
from retrograd.isa.table import Table

_MEMORY = re.compile(r"\[\s*([A-Za-z_][\w.]*)\s*([+-].*)?\]", re.DOTALL)
_DISTANCE = re.compile(r"\.([+-]\d{1,10})$")


#: conditions that are other conditions with the operands exchanged
MIRRORED = {"gt": "lt", "le": "ge", "gtu": "ltu", "leu": "geu"}
#: instructions that have a condition
CONDITIONAL = ("goto", "from", "assert")
_EXCHANGED = {"ra": "rb", "rb": "ra"}


class Form(NamedTuple):
    """How the instructions of a mnemonic are written and encoded."""

    opcode: Opcode
    bits: int
    #: kinds of the operands as written
    operands: tuple[str, ...]
    #: the same, but ra and rb exchanged where the mnemonic is a mirrored condition
    fields: tuple[str, ...]
    #: the form that takes a constant as its last operand
    constant: Form | None


def _form(table: Table, o: Opcode, mirrored: bool = False) -> Form:
    constant = table.immediate_form(o)
    fields = tuple(_EXCHANGED.get(kind, kind) for kind in o.operands) if mirrored else o.operands
    return Form(o, o.code << CODE_SHIFT, o.operands, fields, None if constant is None else _form(table, constant))


class Forms(NamedTuple):
    """The forms of a table."""

    table: Table
    #: mnemonic -> form, for opcodes, shorthands and mirrored conditions
    by_name: dict[str, Form]
    #: opcode -> pairs of fields that must not name one register
    distinct: dict[int, tuple[DistinctFields, ...]]
    #: mnemonic -> opcode, of instructions whose last operand is a target
    branches: dict[str, Opcode]


_FORMS: dict[int, Forms] = {}


def forms_of(table: Table) -> Forms:
    """The forms of a table, computed once."""
    known = _FORMS.get(id(table))
    if known is None:
        forms = {o.name: _form(table, o) for o in table}
        forms |= {name: _form(table, o) for name, o in table.shorthands.items()}
        for name, base in MIRRORED.items():
            for way in CONDITIONAL:
                forms[f"{way}.{name}"] = _form(table, table[f"{way}.{base}"], mirrored=True)
        distinct = {o.code: distinct_fields(o) for o in table}
        branches = {name: form.opcode for name, form in forms.items() if "target" in form.operands}
        known = _FORMS[id(table)] = Forms(table, forms, distinct, branches)
    return known


class WrittenInstruction(NamedTuple):
    """An instruction as it is written: its mnemonic and its operands, with their columns."""

    name: str
    start: int
    rest: str
    column: int


class OperandTable(dict[str, int]):
    """text of an operand -> its bits, for operands that have the same bits on every line; computed on the first use.

    `compute` gives None where the bits depend on the line. Such an operand, and an operand with a fault, raises KeyError and gets no
    entry: its name may be defined later.
    """

    def __init__(self, compute: Callable[[str], int | None]) -> None:
        self.compute = compute

    def __missing__(self, text: str) -> int:
        try:
            bits = self.compute(text)
        except TextFault:
            bits = None
        if bits is None:
            raise KeyError(text)
        self[text] = bits
        return bits


class Instructions:
    """Encodes instructions into a layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.symbols = layout.symbols
        _, self.forms, self.distinct, self.branches = forms_of(layout.table)
        #: mnemonic -> (its bits, a table for each operand)
        self._encoders: dict[str, tuple[int, tuple[OperandTable, ...]]] = {}
        self._tables: dict[tuple[str, bool, int], OperandTable] = {}

    # ------------------------------------------------------------ by tables

    def look_up(self, name: str, operands: Sequence[str]) -> int | None:
        """The encoding of an instruction that is one word, the same on every line; None for any other, and for any fault.

        The target of a branch may be a label: the encoding lacks its distance, and `label_of` gives the fixup.
        """
        encoder = self._encoders.get(name) or self._encoder(name)
        if encoder is None:
            return None
        word, tables = encoder
        count = len(operands)
        if count != len(tables):
            return None
        try:
            # A loop over the operands would take longer than the tables.
            if count == 3:
                x, y, z = operands
                first, second, third = tables
                word ^= first[x] ^ second[y] ^ third[z]
            elif count == 2:
                x, y = operands
                first, second = tables
                word ^= first[x] ^ second[y]
            else:
                for table, text in zip(tables, operands, strict=True):
                    word ^= table[text]
        except KeyError:
            return None
        for shift, mask, modulus in self.distinct[word >> CODE_SHIFT]:
            if (word >> shift & mask) % modulus == 0:
                return None
        return word

    def label_of(self, name: str, target: str, end: int) -> Fixup | None:
        """The fixup of a branch that `look_up` has encoded, whose target ends at a column; None where the target is a distance."""
        text = target.strip()
        return None if text[0] == "." else self.layout.later(text, end - len(text), self.branches[name])

    def forget(self) -> None:
        """Empty the tables: the format has changed, and with it the bits of constants."""
        for table in self._tables.values():
            table.clear()

    def _encoder(self, name: str) -> tuple[int, tuple[OperandTable, ...]] | None:
        form = self.forms.get(name)
        if form is None:
            return None
        tables = [self._table(form.opcode, kind, 0, None) for kind in form.fields[:-1]]
        if form.fields:
            exchanged = 0 if form.constant is None else form.bits ^ form.constant.bits
            tables.append(self._table(form.opcode, form.fields[-1], exchanged, form.constant))
        self._encoders[name] = form.bits, tuple(tables)
        return self._encoders[name]

    def _table(self, opcode: Opcode, kind: str, exchanged: int, constant: Form | None) -> OperandTable:
        """The table of a kind of operand. Where a constant stands in its place, its bits turn the opcode into that of `constant`."""

        def operand(part: str) -> int | None:
            bits, fixup = self._operand(opcode, kind, part, 0)
            return bits if fixup is None or kind == "target" else None

        def operand_or_constant(part: str) -> int | None:
            bits = self.symbols.plain_field(part)
            if bits is not None:
                return bits ^ exchanged
            if constant is None or not self._is_constant(part):
                return operand(part)
            if constant.opcode.entry.name == "imm":
                value = self._added_value(part, 0)
                return None if value is None or not self._is_one_word(value) else value & 0xFFFFFFFF ^ exchanged
            bits, fixup = self._immediate(part, 0)
            return bits ^ exchanged if fixup is None else None

        def compute(part: str) -> int | None:
            with self.symbols.losses_as_faults():  # `encode` warns at each place
                return operand(part) if constant is None else operand_or_constant(part)

        return self._tables.setdefault((kind, opcode.turns, exchanged), OperandTable(compute))

    # ------------------------------------------------------------ with fixups and faults

    def encode(self, form: Form, line: WrittenInstruction) -> None:
        """Append the instruction. Raises TextFault."""
        name, start, rest, column = line
        parts = split_operands(rest) if rest and not rest.isspace() else []
        if len(parts) != len(form.operands):
            operands = form.operands
            syntax = f"`{name} {', '.join(operands)}`".replace(" `", "`")
            message = f"`{name}` takes {len(operands)} operand{'s' * (len(operands) != 1)}, not {len(parts)}"
            raise TextFault("RG0102", message, start, start + len(name), f"syntax: {syntax}")
        if form.constant is not None and self._is_constant(parts[-1]):
            if form.constant.opcode.entry.name == "imm":
                self._add_constant(str(form.opcode.update), parts, start, column)
                return
            form = form.constant
        word, fixup, at = form.bits, None, column
        for kind, part in zip(form.fields, parts, strict=True):
            bits, later = self._operand(form.opcode, kind, part, at)
            word, fixup = word | bits, fixup or later
            at += len(part) + 1
        for shift, mask, modulus in distinct_fields(form.opcode):
            if (word >> shift & mask) % modulus == 0:
                raise self._aliased(name, form.opcode, word >> shift & 255, parts, column)
        self.layout.emit(word, self.layout.sources.position(start, column + len(rest.rstrip())), fixup)

    def _is_constant(self, part: str) -> bool:
        """Whether the last operand of an instruction that takes a register or a constant is a constant."""
        text = part.strip()
        return text not in self.symbols.registers and not text.startswith("[") and not looks_like_register(text)

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

    def _operand(self, opcode: Opcode, kind: str, part: str, at: int) -> tuple[int, Fixup | None]:
        """The bits of an operand, and the fixup for bits that are not known yet."""
        if kind in FIELD_SHIFT:
            number = self.symbols.registers.get(part.strip())
            if number is None:
                raise self.symbols.no_register(part, at)
            return number << FIELD_SHIFT[kind], None
        if kind == "imm":
            return self._immediate(part, at)
        return self._memory(part, at) if kind == "[ra+imm]" else self._target(opcode, part, at)

    def _memory(self, part: str, at: int) -> tuple[int, Fixup | None]:
        text = part.strip()
        found = _MEMORY.fullmatch(text)
        number = None if found is None else self.symbols.registers.get(found[1])
        if found is None or number is None:
            begin = at + len(part) - len(part.lstrip())
            message = f"`{text[:40]}` is not a memory operand" if text else "a memory operand is missing here"
            raise TextFault("RG0103", message, begin, begin + len(text), "write [ra], [ra + 4] or [ra - name]")
        inside = found[2]
        if inside is None:
            return number << RA_SHIFT, None
        # The sign belongs to the expression: [r1 - 5 + 1] is four words below r1.
        bits, fixup = self._immediate(inside, at + len(part.rstrip()) - 1 - len(inside))
        return bits | number << RA_SHIFT, fixup

    def _target(self, branch: Opcode, part: str, at: int) -> tuple[int, Fixup | None]:
        text, begin = stripped(part, at)
        distance = _DISTANCE.match(text)
        if distance is not None:
            return self.symbols.as_offset(branch, int(distance.group(1)), begin, len(text)) & 0xFFFFFFFF, None
        if not is_name(text):
            message = f"`{text}` is not a label" if text else "a label is missing here"
            hint = "name the label of the other end, or its distance in instructions, such as .+5"
            raise TextFault("RG0103", message, begin, begin + len(text), hint)
        return 0, self.layout.later(text, begin, branch)

    def _immediate(self, text: str, at: int) -> tuple[int, Fixup | None]:
        bits = self.symbols.plain_field(text)
        if bits is not None:
            return bits, None
        value = self.symbols.value_if_known(text, at)
        if value is None:
            return 0, self.layout.later(text, at)
        return self.symbols.as_immediate(value, at, len(text)) & 0xFFFFFFFF, None

    def _add_constant(self, update: str, parts: list[str], start: int, column: int) -> None:
        """`add rd, constant`, and the like with another update."""
        layout = self.layout
        number = self.symbols.registers.get(parts[0].strip())
        if number is None:
            raise self.symbols.no_register(parts[0], column)
        text, at = parts[1], column + len(parts[0]) + 1
        value = self._added_value(text, at)
        position = layout.sources.position(start, at + len(text.rstrip()))
        base = layout.table[f"imm.{update}"].code << CODE_SHIFT | number << RD_SHIFT
        if value is None:
            layout.emit(base, position, layout.later(text, at))
            return
        if self._is_one_word(value):
            layout.emit(base | value & 0xFFFFFFFF, position)
            return
        low = ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
        # The sign extension of the lower half changes the bits above 31; the upper half undoes that.
        high = (value ^ low if update == "xor" else value - low) >> 32 & 0xFFFFFFFF
        if low:
            layout.emit(base | low & 0xFFFFFFFF, position)
        layout.emit(layout.table[f"immhi.{update}"].code << CODE_SHIFT | number << RD_SHIFT | high, position)

    def _added_value(self, text: str, at: int) -> int | None:
        """The signed word that the constant of an `add`, `sub` or `xor` denotes; None where it is not known yet."""
        value = self.symbols.value_if_known(text, at)
        return None if value is None else self.symbols.format.signed(self.symbols.as_word(value, at, len(text)))

    def _is_one_word(self, value: int) -> bool:
        """Whether one instruction holds the constant."""
        return self.symbols.format.width <= 32 or IMMEDIATE_MIN <= value <= IMMEDIATE_MAX


# -----------------------------------------------------------------------------
# Subroutines and stacks: the words that stand for a few instructions, push, pop, proc and endproc.
#
# A stack grows upward, and the word at its pointer is zero. `pop` is the inverse of `push`.

#: word -> (syntax, meaning)
SUGAR = {
    "push": ("push REGISTER, STACK", "exch REGISTER, [STACK] and add STACK, 1: onto a stack whose next word is zero"),
    "pop": ("pop REGISTER, STACK", "sub STACK, 1 and exch REGISTER, [STACK]: the inverse of push"),
    "proc": (
        "proc NAME, LINK [, STACK]",
        "the head of a subroutine: from NAME.bottom, (pop LINK), swapbr LINK, neg LINK, (push LINK)",
    ),
    "endproc": ("endproc", "the foot of a subroutine: goto NAME.top"),
}


def sugar_page(name: str) -> str | None:
    """The instructions that a word of the assembler stands for, as a page; None for other words."""
    if name in SUGAR:
        syntax, meaning = SUGAR[name]
        return f"{name}  (assembler)\n\n  {syntax}\n    {meaning}"
    way, _, condition = name.partition(".")
    if way in CONDITIONAL and condition in MIRRORED:
        other, target = f"{way}.{MIRRORED[condition]}", ", target" * (way != "assert")
        return f"{name}  (assembler)\n\n  {name} ra, rb{target}\n    {other} rb, ra{target}"
    return None


class Subroutines:
    """Expands the words of `SUGAR` into a layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.symbols = layout.symbols
        #: word -> (rest of the line, its column) -> nothing
        self.words: dict[str, Callable[[str, int], None]] = {
            "proc": self._proc,
            "endproc": self._endproc,
            "push": partial(self._stack, "push"),
            "pop": partial(self._stack, "pop"),
        }

    def _stack(self, word: str, rest: str, column: int) -> None:
        (value, at), (stack, where) = arguments(rest, column, 2, f"{word} REGISTER, STACK")
        register, pointer = self.symbols.register(value, at), self.symbols.register(stack, where)
        self._exchange(word, register, pointer, at, where + len(stack))

    def _exchange(self, word: str, register: int, pointer: int, at: int, end: int) -> None:
        """push: M[pointer] ↔ register, pointer += 1. pop: the inverse."""
        if register == pointer:
            raise TextFault("RG0108", "the stack pointer cannot be pushed on its own stack", at, end)
        if word == "push":
            self.layout.emit_named("exch", rd=register, ra=pointer)
            self.layout.emit_named("imm.add", rd=pointer, imm=1)
        else:
            self.layout.emit_named("imm.sub", rd=pointer, imm=1)
            self.layout.emit_named("exch", rd=register, ra=pointer)

    def _proc(self, rest: str, column: int) -> None:
        """proc NAME, LINK [, STACK]: the head of a subroutine, which keeps the link on the stack if there is one."""
        layout = self.layout
        count = 3 if rest.count(",") == 2 else 2
        (name, at), (link_text, where), *more = arguments(rest, column, count, "proc NAME, LINK [, STACK]")
        if layout.subroutine is not None:
            raise TextFault("RG0115", f"the procedure `{layout.subroutine.name}` is still open", at, at + len(name))
        link = self.symbols.register(link_text, where)
        stack = self.symbols.register(*more[0]) if more else None
        checked_name(name, at)
        for label in (f"{name}.top", name, f"{name}.bottom"):
            self.symbols.claim(label, at, len(name))
        layout.subroutine = Subroutine(name, layout.sources.position(at, at + len(name)))
        end = column + len(rest.rstrip())
        self._branch("from", f"{name}.top", f"{name}.bottom", at)
        if stack is not None:
            self._exchange("pop", link, stack, where, end)
        self.symbols.labels[name] = len(layout.code)
        layout.emit_named("swapbr", rd=link)
        layout.emit_named("neg", rd=link)
        if stack is not None:
            self._exchange("push", link, stack, where, end)

    def _endproc(self, rest: str, column: int) -> None:
        arguments(rest, column, 0, "endproc")
        at = max(column - len("endproc"), 0)
        if self.layout.subroutine is None:
            raise TextFault("RG0115", "no procedure is open", at, column)
        name = self.layout.subroutine.name
        self.layout.subroutine = None
        self._branch("goto", f"{name}.bottom", f"{name}.top", at)

    def _branch(self, branch: str, label: str, target: str, at: int) -> None:
        """An unconditional branch under a label of its own."""
        self.symbols.labels[label] = len(self.layout.code)
        self.layout.emit_named(branch, fixup=self.layout.later(target, at, self.layout.table[branch]))
