"""Writer of PISA assembly: Program -> text that `reader.read` and emulators of PISA take.

Code and data share addresses in PISA, so the data follows the code, and each access adds its first address. The program keeps the registers
$0 to $28; $29 to $31 are temporaries. Conditions that PISA lacks, and jumps between ends with different conditions, are in
`instructions.py`. Every branch of a pair carries its role as a comment. Correct because each instruction becomes a sequence with the same effect
on registers and memory, and jumps have distances only: the verifier holds that a program computes no target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from retrograd.assembler.pisa.instructions import (
    CONDITIONAL,
    FORMAT,
    OPERANDS,
    PLAIN,
    ZERO_REGISTER,
    Line,
    Lines,
    S,
    U,
    condition,
    expansion,
)
from retrograd.assembler.verify import verify
from retrograd.isa.diagnostics import AssemblyError, Diagnostic
from retrograd.isa.encoding import Instruction, write
from retrograd.isa.program import Program

HEADER = ";; pendulum pal file"
_NAME = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
#: the most words of data that are written because a label names a word without a value
_MOST_LABELLED = 1 << 16
#: instruction of the table -> PISA's, with its operands; condition and fields of its registers -> branch
_PLAIN = {plain.name: (mnemonic, plain.fields) for mnemonic, plain in PLAIN.items()}
_BRANCHES = {(c.condition, c.fields): mnemonic for mnemonic, c in CONDITIONAL.items()} | {("", ()): "BRA"}
#: conditions that PISA has for two registers
_DIRECT = {"": "BRA", ".eq": "BEQ", ".ne": "BNE"}


def write_program(program: Program) -> str:
    """The program as PISA text. `reader.read` gives a program with the same registers, and the same data after its code.

    Raises AssemblyError RG0119 for words that are not of 32 bits, more than 29 registers, and instructions that PISA cannot
    express; VerificationError where the program does not pass the verifier.
    """
    verify(program)
    return _Writer(program).text()


def write_back(program: Program) -> str:
    """A program that `reader.read` made, as PISA at the same addresses, with the roles of its branches as comments.

    `reader.read` gives an equal program. Raises KeyError for a program of another origin.
    """
    names: dict[int, list[str]] = {}
    for name, pc in [*program.labels.items(), *program.data_labels.items()]:
        names.setdefault(pc, []).append(name)
    lines = [HEADER]
    for pc, i in enumerate(program.instructions):
        found = names.get(pc, [])
        lines += [f"{name}:" for name in found[:-1]]
        lines.append(_shown(found[-1] if found else "", _read_line(program, pc, i, names)))
    # A label at the end stands on a line without an instruction.
    lines += [f"{name}:" for name in names.get(len(program.code), [])]
    return "\n".join(lines) + "\n"


def _read_line(program: Program, pc: int, i: Instruction, names: Mapping[int, list[str]]) -> Line:
    """The PISA instruction that the reader turned into an instruction."""
    name = i.opcode.name
    if name == "assertz":
        return Line("DATA", constant=FORMAT.signed(program.data[pc]))
    if "target" in i.opcode.operands:
        to = pc + i.opcode.distance(i.imm)
        target = names.get(to, [str(to)])[-1]
        if name in ("call", "uncall"):
            return Line("BRA" if name == "call" else "RBRA", target=target)
        role, test = name[:4], name[4:]
        registers = tuple(r for r in (i.ra, i.rb) if r != ZERO_REGISTER) if test else ()
        fields = tuple(f for f in ("ra", "rb") if test and getattr(i, f) != ZERO_REGISTER)
        return Line(_BRANCHES[test, fields], registers, target=target, role=role)
    mnemonic, fields = _PLAIN[name]
    registers = tuple(getattr(i, f) for f in fields if f not in ("imm", "amount"))
    return Line(mnemonic, registers, i.imm if {"imm", "amount"} & {*fields} else None)


class _Writer:
    def __init__(self, program: Program) -> None:
        if program.format.width != FORMAT.width:
            message = f"words of {program.format.width} bits, where PISA has {FORMAT.width}"
            raise AssemblyError(Diagnostic("RG0119", message, hint="Compile with --format 32,0."))
        self.program = program
        new = renumbering(program)
        self.code = [_with_registers(i, new) for i in program.instructions]
        self.taken = {*program.labels, *program.data_labels}
        self.targets = self._targets()

    def _targets(self) -> dict[int, str]:
        """address -> label, of every target of a branch and every label of the program."""
        names: dict[int, str] = {}
        for name, pc in self.program.labels.items():
            if _NAME.fullmatch(name) and name not in self.program.data_labels:
                names.setdefault(pc, name)
        for pc, i in enumerate(self.code):
            if "target" in i.opcode.operands:
                names.setdefault(target := pc + i.opcode.distance(i.imm), self._fresh(f"L{target}"))
        return names

    def _fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    # ------------------------------------------------------------ code

    def text(self) -> str:
        blocks, refused = self._blocks(0), []
        for pc, block in enumerate(blocks):
            if block is None:
                refused.append(self._refusal(pc))
        if refused:
            raise AssemblyError(*refused)
        base = sum(map(len, filter(None, blocks)))
        lines = [HEADER]
        if self.program.start:
            lines.append(f".start {self.targets.setdefault(self.program.start, self._fresh('start'))}")
        waiting: list[str] = []
        for pc, block in enumerate(self._blocks(base)):
            name = self.targets.get(pc)
            main = self._main(pc, block or [])
            waiting += [name] if name is not None and not block else []
            for at, line in enumerate(block or []):
                labels = [
                    *waiting,
                    *([name] if name is not None and at == main else []),
                    *([line.label] if line.label else []),
                ]
                waiting = []
                lines += [f"{label}:" for label in labels[:-1]]
                lines.append(_shown(labels[-1] if labels else "", line))
        return "\n".join([*lines, *self._data()]) + "\n"

    def _main(self, pc: int, block: Lines) -> int:
        """The place in a block where jumps arrive: at the branch, after the computation of its condition."""
        if not self._is_jump(pc):
            return 0
        return next(at for at, line in enumerate(block) if line.role is not None)

    def _is_jump(self, pc: int) -> bool:
        return self.code[pc].opcode.entry.name.startswith("goto")

    def _blocks(self, base: int) -> list[Lines | None]:
        return [self._block(pc, i, base) for pc, i in enumerate(self.code)]

    def _block(self, pc: int, i: Instruction, base: int) -> Lines | None:
        name = i.opcode.name
        if name in ("call", "uncall"):
            return [Line("BRA" if name == "call" else "RBRA", target=self._target(pc))]
        if not self._is_jump(pc):
            return expansion(i, base, f".{pc}")
        role, ours = name[:4], name[4:]
        other = self.code[pc + i.opcode.distance(i.imm)].opcode.name[4:]
        target = self._target(pc)
        if ours in _DIRECT and other in _DIRECT:
            return [Line(_DIRECT[ours], (i.ra, i.rb) if ours else (), target=target, role=role)]
        test = condition(ours, i.ra, i.rb)
        if ours:
            return [*test, Line("BNE", (U, S), target=target, role=role), *test]
        branch = Line("BRA", target=target, role=role)
        return [*test, branch] if role == "goto" else [branch, *test]

    def _target(self, pc: int) -> str:
        i = self.code[pc]
        return self.targets[pc + i.opcode.distance(i.imm)]

    def _refusal(self, pc: int) -> Diagnostic:
        span = self.program.source.span(pc)
        where = "" if span is not None else f" (at address {pc})"
        message = f"PISA has no `{write(self.program.instructions[pc])}`{where}"
        return Diagnostic("RG0119", message, span, None, self.program.source.line(span))

    # ------------------------------------------------------------ data

    def _data(self) -> Iterator[str]:
        """The data, and zeros up to the last word that has a label."""
        program = self.program
        names: dict[int, str] = {}
        for name, address in program.data_labels.items():
            if _NAME.fullmatch(name) and address < _MOST_LABELLED:
                names.setdefault(address, name)
        count = max([len(program.data), *(address + 1 for address in names)])
        for address in range(count):
            value = FORMAT.signed(program.data[address]) if address < len(program.data) else 0
            yield _shown(names.get(address, ""), Line("DATA", constant=value))


def renumbering(program: Program) -> dict[int, int]:
    """register -> its number in PISA, for the registers that the program names; those below 29 keep their numbers.

    Raises AssemblyError RG0119 where there are more than 29.
    """
    used = {getattr(i, field) for i in program.instructions for field in _registers(i)}
    if len(used) > OPERANDS:
        message = f"the program uses {len(used)} registers; PISA has {OPERANDS}, and three temporaries"
        hint = "Use fewer registers, or compile the function itself with --emit pisa."
        raise AssemblyError(Diagnostic("RG0119", message, hint=hint))
    free = iter(sorted(set(range(OPERANDS)) - used))
    return {r: r if r < OPERANDS else next(free) for r in sorted(used)}


def _registers(i: Instruction) -> list[str]:
    """The fields of an instruction that name registers."""
    return [field for field in ("rd", "ra", "rb") if field not in i.opcode.unused_fields]


def _with_registers(i: Instruction, new: Mapping[int, int]) -> Instruction:
    """The instruction with other registers; a field that names none stays zero."""
    rd, ra, rb = (new[getattr(i, f)] if f in _registers(i) else 0 for f in ("rd", "ra", "rb"))
    return Instruction(i.opcode, rd, ra, rb, i.imm)


def _shown(label: str, line: Line) -> str:
    operands = [f"${r}" for r in line.registers]
    operands += [str(line.constant)] if line.constant is not None else []
    operands += [line.target] if line.target is not None else []
    text = f"{label + ':' if label else '':<16} {line.mnemonic:<6} {' '.join(operands)}".rstrip()
    return f"{text:<44} ; {line.role}" if line.role is not None else text


# -----------------------------------------------------------------------------
# The output of PISA programs: words that `OUTPUT` gives to the host, as text, by the protocol of the emulator PendVM.
#
# The first word is a type, the next is a value of the type: an integer, or a text of four characters a word up to a zero byte. The type 0xFF00
# is a line break by itself. `OUTPUT $r` is `imm.sub r, 0`, which no other instruction of PISA becomes.

_KIND, _INTEGER, _TEXT, _LINE_BREAK = 0xFF00, 0x0000, 0x0100, 0xFF00
_UNSIGNED, _HEXADECIMAL = 0x01, 0x10


def marks(program: Program) -> dict[int, int]:
    """address -> register, of every OUTPUT of a program that was read from PISA."""
    return {
        pc: i.rd for pc, i in enumerate(program.instructions) if i.opcode.name == "imm.sub" and not i.imm
    }  # fmt: skip


class Output:
    """Words to text; keeps the type between two words."""

    def __init__(self) -> None:
        self._type: int | None = None

    def text(self, word: int) -> str:
        """The text of the next word; empty for a type. A word without a type that is known is shown in hexadecimal."""
        if self._type is None:
            if word == _LINE_BREAK:
                return "\n"
            self._type = word
            return ""
        kind, form = self._type & _KIND, self._type
        if kind == _TEXT:
            characters = word.to_bytes(FORMAT.width // 8, "little").partition(b"\0")[0]
            if not word >> FORMAT.width - 8:
                self._type = None
            return "".join(chr(c) if chr(c).isprintable() or c == 10 else "\ufffd" for c in characters)
        self._type = None
        if kind != _INTEGER or form & _HEXADECIMAL:
            return f"{word:x}"
        return str(word if form & _UNSIGNED else FORMAT.signed(word))
