"""Writer of PISA assembly: Program -> text that `pisa_reader.read` and emulators of PISA take.

Code and data share addresses in PISA, so the data follows the code, and each access adds its first address. The program keeps the registers
$0 to $28; $29 to $31 are temporaries. Every branch of a pair carries its role as a comment. Correct because each instruction becomes a
sequence with the same effect on registers and memory, and jumps have distances only: the verifier holds that a program computes no target.

Expansions of instructions come first, then the writer, then `Output`, the text of the words that a program gives to the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from retrograd.assembler.pisa_reader import CONDITIONAL, FORMAT, PLAIN, ZERO_REGISTER
from retrograd.assembler.verify import at_address, verify
from retrograd.isa.diagnostics import AssemblyError, Diagnostic
from retrograd.isa.encoding import Instruction, write
from retrograd.isa.entries import Function
from retrograd.isa.program import Program

# -----------------------------------------------------------------------------
# Expansions: an instruction of the table as PISA instructions.
#
# An instruction with no counterpart is computed into temporaries, which are cleared again by the inverse of their computation:
#
#     compute;  rd ± temporary;  compute⁻¹
#
# The temporaries $29 to $31 are zero between instructions, but for the path of a jump whose condition PISA does not have: there $31 is
# 1, and both ends of the pair set or clear it (`condition`). Refused: traps of numbers (fixed-point sums, quotients) and functions that PISA
# would have to compute in loops. Assertions are left out: a run in which it holds is the same without it.

S, T, U = 29, 30, 31
#: registers that the writer leaves to the program
OPERANDS = 29
_LOWEST = -FORMAT.sign
_UPDATE = {"add": "ADD", "sub": "SUB", "xor": "XOR"}
_INVERSE = {"ADD": "SUB", "SUB": "ADD", "RL": "RR", "RR": "RL"}
#: function of the table -> the instruction of PISA that updates by it
_EXCLUSIVE_OR = {
    plain.name.removesuffix(".xor"): (mnemonic, plain.fields)
    for mnemonic, plain in PLAIN.items()
    if plain.name.endswith(".xor")
}
_BIJECTIONS = {
    plain.name: (mnemonic, plain.fields) for mnemonic, plain in PLAIN.items() if "." not in plain.name
}  # fmt: skip


class Line(NamedTuple):
    """A PISA instruction: registers, a constant, the target of a branch as a label, the role of a branch, its own label."""

    mnemonic: str
    registers: tuple[int, ...] = ()
    constant: int | None = None
    target: str | None = None
    role: str | None = None
    label: str | None = None


Lines = list[Line]


def undone(lines: Lines) -> Lines:
    """The inverses of instructions that are no branches, last first."""
    return [_inverse(line) for line in reversed(lines)]


def _inverse(line: Line) -> Line:
    if line.mnemonic == "ADDI":
        assert line.constant is not None
        return _constant("ADDI", line.registers[0], -line.constant)
    return line._replace(mnemonic=_INVERSE.get(line.mnemonic, line.mnemonic))


def _constant(mnemonic: str, register: int, value: int) -> Line:
    return Line(mnemonic, (register,), FORMAT.signed(value & FORMAT.mask))


def condition(name: str, a: int, b: int) -> Lines:
    """$31 ^= 1 where the condition of a branch holds; its own inverse."""
    found: Lines = []
    match name.removeprefix("."):
        case "lt" | "ge":
            found = [Line("SLTX", (U, a, b))]
        case "ltu" | "geu":
            found = _unsigned(a, b)
        case "eq" | "ne":
            found = _unequal(a, b)
    return found if name in (".lt", ".ltu", ".ne") else [*found, _constant("XORI", U, 1)]


def _unsigned(a: int, b: int) -> Lines:
    """$31 ^= a < b, unsigned: the order of both with the highest bit inverted, signed."""
    if a == b:
        return []
    shift = [_constant("XORI", a, _LOWEST), _constant("XORI", b, _LOWEST)]
    return [*shift, Line("SLTX", (U, a, b)), *undone(shift)]


def _unequal(a: int, b: int) -> Lines:
    """$31 ^= a ≠ b: one of the two is less."""
    both = [Line("SLTX", (S, a, b)), Line("SLTX", (T, b, a))]
    return [*both, Line("ORX", (U, S, T)), *undone(both)]


def expansion(i: Instruction, base: int, label: str) -> Lines | None:
    """The instruction in PISA, or None where PISA has none. Data begins at address `base`; `label` begins labels of its own.

    No branch and no call. The number of lines does not depend on `base`.
    """
    entry = i.opcode.entry
    if isinstance(entry, Function):
        update = _UPDATE.get(i.opcode.update or "")
        return None if update is None else _function(entry.name, update, i, base)
    name = i.opcode.name
    d, a, b = i.rd, i.ra, i.rb
    match name:
        case "exch":
            reach = [_constant("ADDI", a, i.imm + base)]
            return [*reach, Line("EXCH", (d, a)), *undone(reach)]
        case "not":
            return [_constant("XORI", d, -1)]
        case "swap":
            return _swap(d, a)
        case "cswap":
            past, test = f"{label}.past", f"{label}.test"
            first = Line("BEQ", (b, U), target=past, role="goto", label=test)
            return [first, *_swap(d, a), Line("BEQ", (b, U), target=test, role="from", label=past)]
        case _ if name.startswith("assert"):
            return []
        case "unerase" | "irot" | "rot":
            return None
    mnemonic, fields = _BIJECTIONS[name]
    amount = i.imm % FORMAT.width if "amount" in fields else None
    return [Line(mnemonic, tuple(getattr(i, f) for f in fields if f != "amount"), amount)]


def _swap(d: int, a: int) -> Lines:
    return [Line("XOR", (d, a)), Line("XOR", (a, d)), Line("XOR", (d, a))]


def _function(name: str, update: str, i: Instruction, base: int) -> Lines | None:
    """rd ± f(ra, rb, constant, memory)."""
    d, a, b = i.rd, i.ra, i.rb
    match name:
        case "mov":
            return [Line(update, (d, a))]
        case "imm" | "immhi":
            value = i.imm << (FORMAT.width // 2 if name == "immhi" else 0)
            if update == "XOR":
                return [_constant("XORI", d, value)]
            return [_constant("ADDI", d, value if update == "ADD" else -value)]
        case "ld":
            reach = [_constant("ADDI", a, i.imm + base), Line("EXCH", (S, a))]
            return [*reach, Line(update, (d, S)), *undone(reach)]
        case "st":
            copy = [Line("XOR", (T, b))] if a == b else []
            reach = [*copy, _constant("ADDI", a, i.imm + base), Line("EXCH", (S, a))]
            return [*reach, Line(update, (S, T if a == b else b)), *undone(reach)]
        case "mul":
            return None if update == "XOR" else _product(d, a, b, update)
    if update == "XOR" and name in _EXCLUSIVE_OR:
        return [_exclusive_or(name, i, d)]
    computed = _value(name, i)
    return None if computed is None else [*computed, Line(update, (d, U)), *undone(computed)]


def _exclusive_or(name: str, i: Instruction, d: int) -> Line:
    """d ^= f(…) for a function that PISA has."""
    mnemonic, fields = _EXCLUSIVE_OR[name]
    registers = tuple(getattr(i, f) for f in fields[1:] if f in ("ra", "rb"))
    constant = i.imm % FORMAT.width if "amount" in fields else i.imm if "imm" in fields else None
    return Line(mnemonic, (d, *registers), constant)


def _value(name: str, i: Instruction) -> Lines | None:
    """$31 = f(…), from $31 = 0, with $29 and $30 zero before and after; None for a function that is refused."""
    a, b = i.ra, i.rb
    if name in _EXCLUSIVE_OR:
        return [_exclusive_or(name, i, U)]
    match name:
        case "sltu":
            return _unsigned(a, b)
        case "seq":
            return condition(".eq", a, b)
        case "min" | "max":
            # The difference in bits of a and b, masked where a < b, turns b into the smaller and a into the larger.
            mask = [Line("SLTX", (S, a, b)), Line("NEG", (S,)), Line("XOR", (T, a)), Line("XOR", (T, b))]
            return [*mask, Line("ANDX", (U, T, S)), *undone(mask), Line("XOR", (U, b if name == "min" else a))]
        case "abs":
            sign = [Line("SRAX", (S, a), FORMAT.width - 1)]
            return [*sign, Line("XOR", (U, a)), Line("XOR", (U, S)), Line("SUB", (U, S)), *undone(sign)]
        case "muli":
            found: Lines = []
            for shift in range(FORMAT.width):
                if i.imm >> shift & 1:
                    shifted = [Line("SLLX", (S, a), shift)]
                    found += [*shifted, Line("ADD", (U, S)), *shifted]
            return found
    return None


def _product(d: int, a: int, b: int, update: str) -> Lines:
    """d ± a·b: for each bit of b, a shifted by its place, masked by the bit."""
    found: Lines = []
    for shift in range(FORMAT.width):
        bit = [Line("SLLX", (S, b), FORMAT.width - 1 - shift)]
        mask = [*bit, Line("SRAX", (T, S), FORMAT.width - 1), *bit]
        masked = [*mask, Line("SLLX", (S, a), shift), Line("ANDX", (U, S, T))]
        found += [*masked, Line(update, (d, U)), *undone(masked)]
    return found


# -----------------------------------------------------------------------------
# The writer: labels, blocks of lines for instructions, data.

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
    """The program as PISA text. `pisa_reader.read` gives a program with the same registers, and the same data after its code.

    Raises AssemblyError RG0119 for words that are not of 32 bits, more than 29 registers, and instructions that PISA cannot
    express; VerificationError where the program does not pass the verifier.
    """
    verify(program)
    return _Writer(program).text()


def write_back(program: Program) -> str:
    """A program that `pisa_reader.read` made, as PISA at the same addresses, with the roles of its branches as comments.

    `pisa_reader.read` gives an equal program. Raises KeyError for a program of another origin.
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
        message = f"PISA has no `{write(self.program.instructions[pc])}`"
        return at_address(self.program, pc, "RG0119", message)

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
