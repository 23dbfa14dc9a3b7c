"""Reader of PISA assembly: text -> Program, an instruction for each line at the address that the line has in PISA.

Code and data share addresses in PISA, so jumps may be computed (`SWAPBR $r`), and data is found at the address of its line. Here code and
memory are apart: a DATA line is a word of memory, and its place in the code holds a filler that no control reaches.

    [label:] MNEMONIC operand …     ; comment

Operands are registers $0 to $31, constants, and labels, whose value is their address; blanks or commas separate them. Traps: memory
words at the addresses of instructions are zero here, where PISA has the instruction; SRLX fills with zeros, as the
specification has it, where an emulator fills with the sign; the run begins at START, beyond a jump to it at address 0.

Mnemonics come first, then the roles of branches, then the reader. (M. P. Frank, Reversibility for Efficient Computing, PhD thesis, MIT
1999, appendix B.) Each mnemonic stands for one instruction of the table at words of 32 bits; registers $0 to $31 are r0 to r31. A branch
on the sign of a register compares with r255, which no PISA program names, so it stays zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retrograd.assembler.lexer import Position, Sources, TextFault
from retrograd.isa.diagnostics import AssemblyError, Diagnostic, Span, VerificationError, nearest
from retrograd.isa.encoding import Instruction, encode, illegality
from retrograd.isa.program import MAX_CODE, Program, SourceMap
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: the words of PISA
FORMAT = Format(32, 0)
REGISTERS = 32
#: a register that is zero, since no instruction of PISA names it
ZERO_REGISTER = 255


class Plain(NamedTuple):
    """An instruction that is one instruction of the table: its name, and the fields that its operands fill, in order."""

    name: str
    fields: tuple[str, ...]


class Conditional(NamedTuple):
    """A conditional branch: the condition of the table, and the fields of its registers; the field without a register is zero."""

    condition: str
    fields: tuple[str, ...]


_TWO = ("rd", "ra")
_THREE = ("rd", "ra", "rb")
_CONSTANT = ("rd", "imm")
_SHIFT = ("rd", "ra", "amount")

PLAIN = {
    "ADD": Plain("mov.add", _TWO),
    "SUB": Plain("mov.sub", _TWO),
    "XOR": Plain("mov.xor", _TWO),
    "ADDI": Plain("imm.add", _CONSTANT),
    "XORI": Plain("imm.xor", _CONSTANT),
    "NEG": Plain("neg", ("rd",)),
    "EXCH": Plain("exch", _TWO),
    "SWAPBR": Plain("swapbr", ("rd",)),
    "ANDX": Plain("and.xor", _THREE),
    "ANDIX": Plain("andi.xor", ("rd", "ra", "imm")),
    "ORX": Plain("or.xor", _THREE),
    "ORIX": Plain("ori.xor", ("rd", "ra", "imm")),
    "NORX": Plain("nor.xor", _THREE),
    "SLTX": Plain("slt.xor", _THREE),
    "SLTIX": Plain("slti.xor", ("rd", "ra", "imm")),
    "SLLX": Plain("shli.xor", _SHIFT),
    "SRLX": Plain("shri.xor", _SHIFT),
    "SRAX": Plain("sari.xor", _SHIFT),
    "SLLVX": Plain("shl.xor", _THREE),
    "SRLVX": Plain("shr.xor", _THREE),
    "SRAVX": Plain("sar.xor", _THREE),
    "RL": Plain("roli", ("rd", "amount")),
    "RR": Plain("rori", ("rd", "amount")),
    "RLV": Plain("rol", _TWO),
    "RRV": Plain("ror", _TWO),
    "EMIT": Plain("erase", ("rd",)),
    # A mark for the host, which changes nothing: rd −= 0. PISA has no difference with a constant.
    "OUTPUT": Plain("imm.sub", ("rd",)),
    "START": Plain("start", ()),
    "FINISH": Plain("finish", ()),
}

CONDITIONAL = {
    "BEQ": Conditional(".eq", ("ra", "rb")),
    "BNE": Conditional(".ne", ("ra", "rb")),
    "BGEZ": Conditional(".ge", ("ra",)),
    "BLTZ": Conditional(".lt", ("ra",)),
    "BGTZ": Conditional(".lt", ("rb",)),
    "BLEZ": Conditional(".ge", ("rb",)),
}

#: other names of the same instructions
SYNONYMS = {"XORX": "XOR", "XORIX": "XORI", "OUT": "OUTPUT", "SHOW": "OUTPUT"}

UNCONDITIONAL = ("BRA", "RBRA")
MNEMONICS = (*PLAIN, *CONDITIONAL, *UNCONDITIONAL, "DATA")

#: instructions of other machines called Pendulum, and the reason why each is refused
REFUSED = {
    "READ": "a program has no input: load registers and memory by --set and --mem",
    **dict.fromkeys(
        ("BEZ", "RBEZ", "RBLTZ"),
        "it exchanges PC with a register, on the 12-bit Pendulum chip; PISA here is the 32-bit machine with a branch register",
    ),
}


def syntax(mnemonic: str) -> str:
    """An instruction and its operands, as a message shows them."""
    if mnemonic in UNCONDITIONAL:
        return f"{mnemonic} label"
    if mnemonic == "DATA":
        return "DATA constant"
    shown = {"rd": "$d", "ra": "$a", "rb": "$b", "imm": "constant", "amount": "amount"}
    found = PLAIN.get(mnemonic) or CONDITIONAL[mnemonic]
    label = ["label"] if mnemonic in CONDITIONAL else []
    return " ".join([mnemonic, *(shown[field] for field in found.fields), *label])


# -----------------------------------------------------------------------------
# Roles of branches: which end of a pair of PISA branches is the jump (`goto`) and which is the comefrom (`from`).
#
# PISA has one instruction for both: `BR += offset`. The machine here checks that a comefrom is entered as its condition demands, so the
# reader decides on a role for each branch:
#
#     BRA that reaches SWAPBR or RBRA   call: as PISA's BRA, it takes a jump and receives one
#     RBRA                              uncall
#     BRA, paired with a branch         goto where control comes from above, from elsewhere
#     conditional, paired with a BRA    the opposite of the BRA
#     two conditionals                  of an `if` where the conditions are equal: goto, then from; else of a loop: from, then goto
#
# Correct because a wrong role changes no result: where the role is wrong, the machine traps (RG0405 to RG0407). A comment
# `; goto` or `; from` on the line of a branch overrides the choice. The check of pairs is the verifier's, without its demand that every
# SWAPBR is the entry of a subroutine: PISA programs compute the targets of jumps. Instructions that control reaches in neither direction may
# stand before a BRA that is jumped to.

_OPPOSITE = {"goto": "from", "from": "goto"}
#: words behind which control does not go on
_ENDS = ("DATA", "FINISH")


class Cell(NamedTuple):
    """A word of a PISA program: its mnemonic, the registers of a conditional, the target of a branch, the role that its comment gives."""

    mnemonic: str
    registers: tuple[int, ...] = ()
    target: int = -1
    role: str | None = None

    @property
    def is_branch(self) -> bool:
        return self.mnemonic in UNCONDITIONAL or self.mnemonic in CONDITIONAL

    @property
    def is_plain(self) -> bool:
        """Whether control passes from the cell above to the cell below, and from nowhere else."""
        return not self.is_branch and self.mnemonic not in ("SWAPBR", "START", *_ENDS)

    def same_condition(self, other: Cell) -> bool:
        return self.mnemonic == other.mnemonic and sorted(self.registers) == sorted(other.registers)


class PairFault(NamedTuple):
    """A branch, or a border between two cells, where control cannot run backward: code of the diagnostic, address, message, fix."""

    code: str
    address: int
    message: str
    hint: str


def roles_of(cells: Sequence[Cell]) -> dict[int, str]:
    """address -> goto, from, call or uncall, of every branch. The targets must be addresses of cells."""
    roles: dict[int, str] = {}
    entered = _begins_with_jump(cells)
    for pc, cell in enumerate(cells):
        if cell.mnemonic == "RBRA":
            roles[pc] = "uncall"
        elif cell.mnemonic == "BRA":
            if cells[cell.target].mnemonic in ("SWAPBR", "RBRA"):
                roles[pc] = "call"
            else:
                role = roles.get(pc) or _given(cells, pc) or ("goto" if entered else "from")
                roles[pc] = role
                roles.setdefault(cell.target, _OPPOSITE[role])
                entered = role == "from"
                continue
        # Behind a jump, an instruction is entered only where a branch or a call lands.
        entered = cell.mnemonic not in _ENDS and (entered or not cell.is_plain or cell.mnemonic == "START")
    for pc, cell in enumerate(cells):
        if cell.mnemonic in CONDITIONAL and pc not in roles:
            is_if, is_first = cell.same_condition(cells[cell.target]), pc < cell.target
            role = _given(cells, pc) or ("goto" if is_if == is_first else "from")
            roles[pc] = role
            roles.setdefault(cell.target, _OPPOSITE[role])
    return roles


def _begins_with_jump(cells: Sequence[Cell]) -> bool:
    """Whether address 0 holds a jump to the START, as compilers of ROOPL write it. The machine begins at START, beyond it."""
    first = cells[0] if cells else Cell("DATA")
    after = first.target + 1
    return first.mnemonic == "BRA" and 0 < after < len(cells) and cells[after].mnemonic == "START"


def _given(cells: Sequence[Cell], pc: int) -> str | None:
    """The role that the comment of a branch gives, or the opposite of its partner's."""
    cell = cells[pc]
    other = cells[cell.target].role
    return cell.role or (None if other is None else _OPPOSITE[other])


def with_landing(cells: Sequence[Cell]) -> list[Cell]:
    """The cells, with a partner for a BRA that reaches the FINISH.

    A FINISH at the end that only this BRA reaches becomes the partner, and the FINISH follows. Other addresses are as they were.
    """
    last = len(cells) - 1
    sources = [pc for pc, cell in enumerate(cells) if cell.is_branch and cell.target == last]
    if last < 1 or cells[last].mnemonic != "FINISH" or [cells[pc].mnemonic for pc in sources] != ["BRA"]:
        return [*cells]
    found = [*cells[:last], Cell("BRA", (), sources[0]), Cell("FINISH")]
    return [*cells] if _leaves(found, roles_of(found), last - 1) else found


def _leaves(cells: Sequence[Cell], roles: dict[int, str], pc: int) -> bool:
    """Whether control goes on to the cell below."""
    return cells[pc].mnemonic not in _ENDS and not (cells[pc].mnemonic == "BRA" and roles[pc] == "goto")


def faults(cells: Sequence[Cell], roles: dict[int, str]) -> Iterator[PairFault]:
    """Branches without a partner, partners of one role, and places where control falls in one direction only."""
    broken = False
    for pc, cell in enumerate(cells):
        if cell.is_branch:
            found = _pair_fault(cells, roles, pc)
            if found is not None:
                broken = True
                yield found
    if not broken:
        yield from _falls(cells, roles)


def _pair_fault(cells: Sequence[Cell], roles: dict[int, str], pc: int) -> PairFault | None:
    cell = cells[pc]
    other = cells[cell.target]
    if roles[pc] == "call":
        return None
    if roles[pc] == "uncall":
        if other.mnemonic == "SWAPBR" or (other.mnemonic in ("BRA", "RBRA") and other.target == pc):
            return None
        hint = "Let RBRA name the SWAPBR of a subroutine, or a BRA or RBRA that names it."
        return PairFault("RG0207", pc, f"RBRA reaches `{other.mnemonic}`, which does not end its jump", hint)
    if not other.is_branch:
        hint = "Put at the target a branch that names this one, so that BR is zero again after the jump."
        if cell.mnemonic != "BRA" and other.mnemonic == "SWAPBR":
            hint = "Put the call in an `if`: a conditional branch around a BRA."
        elif other.mnemonic == "FINISH":
            hint = "Put a branch that names this one before the FINISH, and jump there."
        return PairFault("RG0201", pc, f"{cell.mnemonic} reaches `{other.mnemonic}`, which is no branch", hint)
    if other.target != pc:
        hint = "Give each branch a partner of its own: two branches that name each other."
        return PairFault("RG0202", pc, f"the {other.mnemonic} at address {cell.target} does not name this branch", hint)
    if cell.role not in (None, roles[pc]):
        hint = "Write `; goto` on the branch that control leaves by, and `; from` on the other, or leave both out."
        return PairFault(
            "RG0202", pc, f"this branch and its partner at address {cell.target} are both `{cell.role}`", hint
        )
    return None


def _falls(cells: Sequence[Cell], roles: dict[int, str]) -> Iterator[PairFault]:
    """Control leaves a cell downward iff it can enter the next from above."""

    def enters(pc: int) -> bool:
        return cells[pc].mnemonic != "DATA" and not (cells[pc].mnemonic == "BRA" and roles[pc] == "from")

    jump = _begins_with_jump(cells)
    landing = cells[0].target if jump else -1
    hint = "Jump around with a pair of branches; after a BRA that jumps, a FINISH or DATA comes a BRA that is jumped to, or DATA."
    unreached = set(_unreached(cells, roles))
    for pc in range(len(cells) + 1):
        if pc in unreached:
            continue
        above = pc > 0 and _leaves(cells, roles, pc - 1)
        below = pc < len(cells) and enters(pc)
        if pc < len(cells) and cells[pc].mnemonic == "START":
            below = above and pc - 1 == landing
        if jump and pc == 0:
            continue
        if above and not below:
            into = f"falls into `{cells[pc].mnemonic}`" if pc < len(cells) else "runs off the end"
            yield PairFault("RG0206", pc - 1, f"after `{cells[pc - 1].mnemonic}` control {into}", hint)
        elif below and not above:
            into = f"backs into `{cells[pc - 1].mnemonic}`" if pc else "backs off the beginning"
            message = f"running backward from `{cells[pc].mnemonic}` control {into}"
            yield PairFault("RG0206", pc, message, hint)


def _unreached(cells: Sequence[Cell], roles: dict[int, str]) -> Iterator[int]:
    """The ends of plain instructions between a cell that control does not leave downward and a BRA that is jumped to."""
    for pc, cell in enumerate(cells):
        if cell.mnemonic == "BRA" and roles[pc] == "from":
            first = pc
            while first and cells[first - 1].is_plain:
                first -= 1
            if 0 < first < pc and not _leaves(cells, roles, first - 1):
                yield from (first, pc)


# -----------------------------------------------------------------------------
# The reader: lines, operands, words.

#: words of memory at least: code, data, stack and heap share them in PISA
MEMORY = 1 << 16

_LINE = re.compile(r"\s*(?:([^\s:;,$]+)\s*:)?([^;]*)(?:;\s*(goto|from)\s*$)?")
_WORD = re.compile(r"[^\s,]+")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)")
_LONGEST_NUMBER = 40
#: the filler at the address of a DATA line: it promises that a register is zero which no PISA program names
_FILLER = Instruction(TABLE["assertz"], ZERO_REGISTER)


class _Operand(NamedTuple):
    text: str
    column: int

    def fault(self, code: str, message: str, hint: str | None = None) -> TextFault:
        return TextFault(code, message, self.column, self.column + len(self.text), hint)


class _Line(NamedTuple):
    """A line with a word of the program: PISA's name of the instruction, where it stands, its operands, the role in its comment."""

    mnemonic: str
    start: int
    operands: tuple[_Operand, ...]
    role: str | None
    position: Position


def read(text: str, *, name: str = "<text>") -> Program:
    """The program that a PISA text denotes, its branches paired. Inverse: `pisa_writer.write_program`.

    Raises AssemblyError with every fault of the text, VerificationError with every branch that has no partner.
    """
    return _Reader(name, text).program()


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self.sources = Sources(())
        self.labels: dict[str, int] = {}
        self.lines: list[_Line] = []
        self.start_label: tuple[_Operand, int] | None = None
        with self.sources.opened(name, text, None) as file:
            for number, line in enumerate(file.lines, 1):
                self.sources.line = number
                try:
                    self._line(line)
                except TextFault as fault:
                    self._report(fault)

    # ------------------------------------------------------------ lines

    def _line(self, line: str) -> None:
        found = _LINE.match(line)
        assert found is not None, "every group of the pattern may be empty"
        label, body, role = found.groups()
        if label is not None:
            self._define(_Operand(label, found.start(1)))
        words = [_Operand(w[0], found.start(2) + w.start()) for w in _WORD.finditer(body)]
        if not words:
            return
        first, *rest = words
        if first.text.lower() == ".start":
            if len(rest) != 1:
                raise first.fault("RG0102", "expected `.start LABEL`")
            self.start_label = rest[0], self.sources.line
            return
        end = rest[-1].column + len(rest[-1].text) if rest else first.column + len(first.text)
        position = self.sources.position(first.column, end)
        if len(self.lines) == MAX_CODE:
            raise self.sources.stop("RG0116", f"more than {MAX_CODE} words")
        mnemonic = first.text.upper()
        mnemonic = SYNONYMS.get(mnemonic, mnemonic)
        # The word keeps its address even where it is at fault, so that the addresses of others are right.
        self.lines.append(_Line(mnemonic, first.column, tuple(rest), role, position))
        if mnemonic in REFUSED:
            raise first.fault("RG0101", f"{mnemonic} has no counterpart: {REFUSED[mnemonic]}", "See docs/pisa.md.")
        if mnemonic not in MNEMONICS:
            hint = nearest(mnemonic, MNEMONICS) or "docs/pisa.md lists the instructions of PISA."
            raise first.fault("RG0101", f"`{first.text[:40]}` is no instruction of PISA", hint)

    def _define(self, label: _Operand) -> None:
        if _NUMBER.fullmatch(label.text):
            raise label.fault("RG0113", f"the number `{label.text[:40]}` is no label")
        if label.text in self.labels:
            raise label.fault("RG0107", f"the label `{label.text[:40]}` is already defined")
        self.labels[label.text] = len(self.lines)

    def _report(self, fault: TextFault) -> None:
        self.sources.report(self.sources.position(fault.start, fault.end), fault, fault.hint)

    # ------------------------------------------------------------ operands

    def _register(self, o: _Operand) -> int:
        digits = o.text[1:]
        if (
            o.text[:1] == "$"
            and digits.isdecimal()
            and digits.isascii()
            and len(digits) < 4
            and int(digits) < REGISTERS
        ):
            return int(digits)
        hint = f"Registers are $0 to ${REGISTERS - 1}."
        raise o.fault("RG0103", f"`{o.text[:40]}` is no register of PISA", hint)

    def _value(self, o: _Operand) -> int:
        """A constant, the address of a label, or its negative."""
        if o.text in self.labels:
            return self.labels[o.text]
        if _NUMBER.fullmatch(o.text):
            if len(o.text) > _LONGEST_NUMBER:
                raise o.fault("RG0105", "the number is too long")
            digits = o.text.lstrip("+-")
            octal = len(digits) > 1 and digits[0] == "0" and digits.isdecimal()
            if octal and not set(digits) <= set("01234567"):
                raise o.fault("RG0104", f"`{o.text}` is no number: a leading 0 makes it octal")
            value = int(digits, 8 if octal else 0)
            return -value if o.text[0] == "-" else value
        if o.text[0] == "-" and o.text[1:] in self.labels:
            return -self.labels[o.text[1:]]
        if o.text[0] == "$":
            raise o.fault(
                "RG0104", f"`{o.text[:40]}` is a register, where a constant stands", "Write a number or a label."
            )
        hint = nearest(o.text, self.labels) or "Write a number, or a label that some line defines."
        raise o.fault("RG0106", f"`{o.text[:40]}` is not defined", hint)

    def _constant(self, o: _Operand) -> int:
        """A constant as a signed word."""
        value = self._value(o)
        if not -FORMAT.sign <= value <= FORMAT.mask:
            raise o.fault("RG0105", f"{value} does not fit in {FORMAT.width} bits", "Write a constant that fits.")
        return FORMAT.signed(value & FORMAT.mask)

    def _amount(self, o: _Operand) -> int:
        value = self._value(o)
        if not 0 <= value < FORMAT.width:
            raise o.fault("RG0105", f"a shift by {value}", f"Shifts go by 0 to {FORMAT.width - 1}.")
        return value

    def _target(self, o: _Operand) -> int:
        value = self._value(o)
        if not 0 <= value < len(self.lines):
            raise o.fault(
                "RG0203",
                f"address {value} is outside the program of {len(self.lines)} words",
                "Name the label of a branch.",
            )
        return value

    # ------------------------------------------------------------ words

    def _expect(self, line: _Line, count: int) -> None:
        if len(line.operands) != count:
            found = f"{len(line.operands)} operand{'s' * (len(line.operands) != 1)}"
            shown = syntax(line.mnemonic)
            last = (
                line.operands[-1].column + len(line.operands[-1].text)
                if line.operands
                else line.start + len(line.mnemonic)
            )
            raise TextFault("RG0102", f"{found}; expected `{shown}`", line.start, last, f"Write `{shown}`.")

    def _plain(self, line: _Line) -> Instruction:
        plain = PLAIN[line.mnemonic]
        self._expect(line, len(plain.fields))
        fields: dict[str, int] = {}
        for field, o in zip(plain.fields, line.operands, strict=True):
            if field == "amount":
                fields["imm"] = self._amount(o)
            else:
                fields[field] = self._constant(o) if field == "imm" else self._register(o)
        i = Instruction(TABLE[plain.name], **fields)
        if illegality(i) is not None:
            message = f"{line.mnemonic} reads a register that it changes"
            hint = "Copy the value to a register that is zero, use that, and clear the copy again."
            raise TextFault("RG0108", message, line.start, line.position[3] - 1, hint)
        return i

    def _branch(self, line: _Line) -> Cell:
        count = len(CONDITIONAL[line.mnemonic].fields) if line.mnemonic in CONDITIONAL else 0
        self._expect(line, count + 1)
        registers = tuple(self._register(o) for o in line.operands[:-1])
        return Cell(line.mnemonic, registers, self._target(line.operands[-1]), line.role)

    def program(self) -> Program:
        """The program. Raises AssemblyError, VerificationError."""
        cells: list[Cell] = []
        plain: dict[int, Instruction] = {}
        data = [0] * len(self.lines)
        for pc, line in enumerate(self.lines):
            self.sources.line = line.position[1]
            cell = Cell(line.mnemonic)
            try:
                if line.mnemonic in PLAIN:
                    plain[pc] = self._plain(line)
                elif line.mnemonic == "DATA":
                    self._expect(line, 1)
                    data[pc] = self._constant(line.operands[0]) & FORMAT.mask
                elif line.mnemonic in CONDITIONAL or line.mnemonic in UNCONDITIONAL:
                    cell = self._branch(line)
            except TextFault as fault:
                self._report(fault)
            cells.append(cell)
        if self.sources.errors:
            raise AssemblyError(*self.sources.errors)
        self._check_ends()
        if len(cells) < MAX_CODE and len(found := with_landing(cells)) > len(cells):
            plain[len(cells)] = plain.pop(len(cells) - 1)
            cells = found
        roles = roles_of(cells)
        wrong = [self._diagnostic(f.code, f.address, f.message, f.hint) for f in faults(cells, roles)]
        if wrong:
            raise VerificationError(*wrong)
        code = [
            encode(plain[pc] if pc in plain else _FILLER if cell.mnemonic == "DATA" else _branch(cell, pc, roles[pc]))
            for pc, cell in enumerate(cells)
        ]
        file = self.sources.files[0]
        source = SourceMap((file.name,), [self._position(pc) for pc in range(len(cells))], (file.lines,))
        is_data = {pc for pc, cell in enumerate(cells) if cell.mnemonic == "DATA"}
        labels = {name: pc for name, pc in self.labels.items() if pc not in is_data}
        data_labels = {name: pc for name, pc in self.labels.items() if pc in is_data}
        return Program(code, data, max(MEMORY, len(data)), FORMAT, labels, data_labels, source)

    def _check_ends(self) -> None:
        """One START, at the label of a `.start`, and one FINISH."""
        found: list[Diagnostic] = []
        name = self.sources.files[0].name
        for mnemonic, code in (("START", "RG0204"), ("FINISH", "RG0205")):
            places = [pc for pc, line in enumerate(self.lines) if line.mnemonic == mnemonic]
            if not places:
                found.append(Diagnostic(code, f"the program has no {mnemonic}", Span(name, 1)))
            found += [self._diagnostic(code, pc, f"a second {mnemonic}", f"Keep one {mnemonic}.") for pc in places[1:]]
            if mnemonic == "START" and places and self.start_label is not None:
                label, number = self.start_label
                if self.labels.get(label.text) != places[0]:
                    place = 0, number, label.column + 1, label.column + len(label.text) + 1
                    message = f"`{label.text[:40]}` is not the label of the START, where the run begins"
                    found.append(self.sources.finding(place, code, message, "Name the label of the START."))
        if found:
            raise VerificationError(*found)

    def _position(self, pc: int) -> Position:
        """The place of a word; a FINISH behind its landing has the place of that line."""
        return self.lines[min(pc, len(self.lines) - 1)].position

    def _diagnostic(self, code: str, pc: int, message: str, hint: str) -> Diagnostic:
        return self.sources.finding(self._position(pc), code, message, hint)


def _branch(cell: Cell, pc: int, role: str) -> Instruction:
    """A branch in its role, as an instruction at an address."""
    distance = cell.target - pc
    if cell.mnemonic in UNCONDITIONAL:
        opcode = TABLE[role]
        return Instruction(opcode, imm=opcode.distance(distance))
    condition, fields = CONDITIONAL[cell.mnemonic]
    opcode = TABLE[role + condition]
    registers = {"ra": ZERO_REGISTER, "rb": ZERO_REGISTER} | dict(zip(fields, cell.registers, strict=True))
    return Instruction(opcode, imm=opcode.distance(distance), **registers)
