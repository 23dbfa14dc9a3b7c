"""Diagnostics: every error says what, where, why and what to do, under a code that never changes meaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple


class Span(NamedTuple):
    """A piece of one line of a source: lines and columns count from 1, `end` is one past the last column."""

    file: str
    line: int
    column: int = 1
    end: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Kind:
    """A kind of error: what it is called, why it is one, what mends it."""

    code: str
    title: str
    why: str
    fix: str


def _kinds(*rows: tuple[str, str, str, str]) -> dict[str, Kind]:
    kinds = {row[0]: Kind(*row) for row in rows}
    if len(kinds) != len(rows):
        raise ValueError("two kinds of error share a code")
    return kinds


#: RG01 assembly text, RG02 the verifier, RG03 binary images, RG04 traps and limits, RG05 the command line,
#: RG06 numbers.
#: A code, once released, keeps its meaning; a retired one is not reused.
KINDS = _kinds(
    ("RG0101", "unknown mnemonic", "No instruction, alias or sugar has this name.",
     "`retrograd isa` lists the instructions; updates are written as a suffix, such as `mul.add`."),
    ("RG0102", "wrong number of operands", "Every instruction and directive has a fixed list of operands.",
     "`retrograd isa NAME` shows the instruction's syntax."),
    ("RG0103", "bad operand", "The operand is not of the kind that this position takes.",
     "Registers are r0 to r255 or a name given by `.reg`; memory operands are written [ra + constant]."),
    ("RG0104", "bad constant expression", "Constants are integers, characters, labels, `.equ` names and "
     "fixed-point literals such as 1.5q, joined by + - * / % << >> & | ^ ~ and parentheses.",
     "Write a constant expression here; what depends on a register belongs in an instruction."),
    ("RG0105", "constant out of range", "An immediate has 32 bits, sign-extended to the word; "
     "a data word has as many bits as the format's width.",
     "Write a constant that fits, or use a format with wider words."),
    ("RG0106", "undefined symbol", "No label, `.equ` or `.reg` defines this name, or none of the kind needed here.", "Define it, or mend its spelling."),
    ("RG0107", "duplicate symbol", "A name stands for one thing in a program, includes counted in.",
     "Rename one of the two."),
    ("RG0108", "aliased operands", "What an instruction writes it must not also read elsewhere: "
     "`r1 += r1` cannot be undone, since the old r1 is needed to know what was added.",
     "Copy the value to a zero register first, use that, and uncompute the copy."),
    ("RG0109", "unknown directive", "No directive has this name.",
     "Directives: .equ .reg .format .memory .data .text .word .zero .ascii .include."),
    ("RG0110", "include cannot be read", "The file named by .include is not there, is not a regular text file, or is too large.",
     "Give a path relative to the including file."),
    ("RG0111", "include loop", "A file includes itself, directly or through others.",
     "Take the common part into a file that includes neither."),
    ("RG0112", "include outside the program's folder", "An assembly file may come from anywhere, "
     "so it reads only files below the folder of the main file.", "Move the included file, or name its folder with -I."),
    ("RG0113", "malformed line", "A line is: a label, one instruction or directive with its operands, a comment after ';'.",
     "Mend the line as the caret shows."),
    ("RG0114", "wrong section", "Instructions stand in .text, words in .data.", "Put the matching .text or .data before it."),
    ("RG0115", "procedure not closed or not open", "`proc NAME, LINK` and `endproc` enclose a subroutine, and do not nest.",
     "Add the missing half."),
    ("RG0116", "program too large", "Code, data or text exceeds the assembler's limits.",
     "Ask for less; large data is better loaded at run time with --mem than assembled."),
    ("RG0117", "bad format", "A format is a width of 4, 8, 16, 32 or 64 bits, and a fraction shorter than that; "
     "it is set once, before anything that depends on it.", "For example: .format 64, 32"),
    ("RG0118", "not text", "An assembly file is UTF-8 text without NUL characters; an image begins with other bytes.",
     "Save the text as UTF-8, or assemble a damaged image again."),
    ("RG0201", "unpaired branch", "A jump must land on a branch that names its source, and a comefrom must name a jump: "
     "else running backward cannot know where control came from.",
     "Write `goto.cc a, b, L` and at L `L: from.cc a, b, K` with K the label of the goto."),
    ("RG0202", "mismatched comefrom", "The branch at the target names another source.",
     "Give each goto a from of its own; a from joins exactly one jump with the instruction above it."),
    ("RG0203", "jump outside the code", "The target is before the first instruction or after the last.",
     "Name the label of an instruction; to end the program, jump to a `from` before its `finish`."),
    ("RG0204", "not exactly one start", "A program is entered at its `start`; running backward ends there.",
     "Put one `start` before the first instruction to run."),
    ("RG0205", "not exactly one finish", "A program ends at its `finish`; running backward begins there.",
     "Put one `finish` where the program ends; let other exits jump to it."),
    ("RG0206", "control falls where it cannot", "Control reaches the next instruction in one direction but not in the other: "
     "after an unconditional goto or finish must come an unconditional from, or start, or the end of the code, "
     "and before those nothing that falls through.",
     "Pair the paths: jump around with goto, and join with from."),
    ("RG0207", "call of what is no subroutine", "`call` and `uncall` enter a subroutine at its `swapbr`.",
     "Name the label of a `proc`, or of a `swapbr` of your own."),
    ("RG0208", "malformed subroutine", "The Pendulum convention: `top: from bottom`, pops, `entry: swapbr link`, "
     "`neg link`, pushes, body, `bottom: goto top`; or its mirror image.", "Use `proc NAME, LINK` … `endproc`."),
    ("RG0209", "jump across a subroutine's border", "A subroutine is entered and left at its `swapbr` only.",
     "Use call or uncall."),
    ("RG0210", "unreachable instruction", "No path from `start` or through a called subroutine meets it (a warning).",
     "Remove it, or call it."),
    ("RG0211", "erase in a strict program", "An erase loses its word: the program cannot run backward through it.",
     "Uncompute the word, or verify without --strict."),
    ("RG0301", "not a Retrograd image", "The file does not begin with the image's magic bytes.", "`retrograd asm` makes images."),
    ("RG0302", "image of another version", "The image was written by a newer version.", "Assemble it again, or update."),
    ("RG0303", "truncated image", "The file ends before the lengths in its header say.", "Copy or assemble it again."),
    ("RG0304", "damaged image", "The checksum does not match the contents.", "Copy or assemble it again."),
    ("RG0305", "impossible length in an image", "A section's length disagrees with the file's, or exceeds the limits.",
     "Assemble it again; an image is never larger than its sections."),
    ("RG0306", "illegal encoding", "The 64 bits are no instruction: unknown opcode, or a field that is not used is not zero.",
     "Assemble the program again with this version."),
    ("RG0307", "malformed section", "A section's contents do not follow the format.", "Assemble it again."),
    ("RG0401", "memory address out of range", "The address R[ra] + imm is not in 0 … N−1.",
     "Check the index, or give the program more memory with .memory or --memory."),
    ("RG0402", "division by zero", "The quotient by zero has no value.", "Test the divisor with a branch first."),
    ("RG0403", "argument out of domain", "The function has no value for this argument.", "Test the argument with a branch first."),
    ("RG0404", "fixed-point overflow", "The exact result does not fit the format; wrapped, it would be a wrong number.",
     "Scale the values, use a wider format or a lognum, or turn the check off to let it wrap."),
    ("RG0405", "unpaired branch", "Control arrived by a jump (BR ≠ 0) where no branch ends it.",
     "The verifier finds such jumps before they run: `retrograd verify`."),
    ("RG0406", "contradicted comefrom", "The condition of the comefrom does not agree with how control arrived: "
     "it must hold exactly when control came by its jump.",
     "Choose a condition that is false on first entry and true after the jump."),
    ("RG0407", "ancilla not zero", "assertz promises that the register is zero, so that it can be freed without loss.",
     "Uncompute what the register holds, or erase it and pay for the bits."),
    ("RG0408", "erase in strict mode", "A strict machine erases nothing.", "Uncompute the word, or run without --strict."),
    ("RG0409", "an erased word cannot come back", "Running backward met an erase: what it lost is nowhere to be found.",
     "Run forward again, or replace the erase by uncomputing."),
    ("RG0410", "execution left the code", "PC is outside the program.", "Verify the program: it falls or jumps out of its code."),
    ("RG0411", "lognum of zero", "Zero has no logarithm, so no lognum.", "Test for zero, or for equal magnitudes, with a branch first."),
    ("RG0420", "step limit reached", "The run used up its allowance of steps; the machine can go on from here, either way.",
     "Allow more with --max-steps."),
    ("RG0421", "memory limit exceeded", "The program asks for more data memory than this machine allows.",
     "Allow more with --memory-limit, or ask for less."),
    ("RG0501", "file cannot be read or written", "The operating system refused it.", "Check the path and its permissions."),
    ("RG0502", "bad --set", "Written NAME=VALUE, NAME a register or a data label, VALUE a constant that fits a word.",
     "For example: --set r1=42 --set length=0x10"),
    ("RG0503", "bad --mem or --out", "Written [WHERE=]FILE[,TYPE]: WHERE a data label or address, with :COUNT for --out; "
     "TYPE one of text, npy, word, u8, u16, u16be, u32, u32be, u64, u64be.", "For example: --mem text=plain.bin,u32be"),
    ("RG0504", "malformed data file", "The file's contents are not of its type: the one after the comma, or that of its suffix.",
     "Give its type after a comma, such as FILE,u32be, or mend its contents."),
    ("RG0505", "data outside the memory", "The data does not fit in the machine's memory at that place.",
     "Give the program more memory with .memory or --memory."),
    ("RG0506", "no such thing to explain", "Neither an error code nor an instruction has this name.",
     "`retrograd explain` lists the codes, `retrograd isa` the instructions."),
    ("RG0507", "bad number on the command line", "A number is out of its range or is no number.", "Write an integer such as 1000 or 0x3e8."),
    ("RG0601", "number does not fit", "The format has no word for a number of this size.",
     "Scale the numbers, or choose a format with more bits before the point."),
    ("RG0602", "not a real number", "Words hold real numbers; NaN, complex numbers and objects have no word.",
     "Convert or replace the element."),
)  # fmt: skip


#: columns of a source line that are shown
_LONGEST_LINE = 100


@dataclass(frozen=True)
class Diagnostic:
    """One finding: its kind, what exactly is wrong, where, and a fix nearer than the kind's own."""

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None
    #: the text of the line that `span` points into, where the source was at hand
    line: str | None = None
    severity: str = "error"

    @property
    def kind(self) -> Kind:
        return KINDS[self.code]

    def render(self) -> str:
        """what, where with a caret, why, what to do."""
        out = [f"{self.severity}[{self.code}]: {_printable(self.message)}"]
        if self.span is not None:
            out.append(f"  --> {_printable(str(self.span))}")
            if self.line is not None:
                text, column = _window(_printable(self.line.rstrip()), self.span.column)
                gutter = f"{self.span.line:>5}"
                width = max(1, min(self.span.end - self.span.column, len(text) + 1 - column))
                out.append(f"{gutter} | {text}")
                out.append(f"{' ' * len(gutter)} | {' ' * (column - 1)}{'^' * width}")
        out.append(f"  why: {self.kind.why}")
        out.append(f"  fix: {self.hint or self.kind.fix}")
        return "\n".join(out)


def _printable(text: str) -> str:
    """The text with nothing in it that a terminal obeys: blanks for tabs, a mark for other control characters."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in text)


def _window(text: str, column: int) -> tuple[str, int]:
    """(the part of a long line around a column, the column in it)."""
    if len(text) <= _LONGEST_LINE:
        return text, column
    begin = max(0, min(column - _LONGEST_LINE // 2, len(text) - _LONGEST_LINE))
    end = begin + _LONGEST_LINE
    head, tail = "… " if begin else "", " …" if end < len(text) else ""
    return head + text[begin:end] + tail, column - begin + len(head)


class RetrogradError(Exception):
    """The root of every error that Retrograd raises on purpose; carries one or more diagnostics."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    @property
    def code(self) -> str:
        """The first diagnostic's code."""
        return self.diagnostics[0].code

    def __str__(self) -> str:
        return "\n".join(d.render() for d in self.diagnostics)


class AssemblyError(RetrogradError):
    """Assembly text that is no program."""


class VerificationError(RetrogradError):
    """A program that could not run backward."""


class ImageError(RetrogradError):
    """Bytes that are no image."""


class InputError(RetrogradError):
    """Registers, memory or options that make no sense for this program."""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """`did you mean …`, or None where nothing is near."""
    if len(word) > 64:  # the comparison takes quadratic time
        return None
    found = get_close_matches(word, list(names), n=1, cutoff=0.6)
    return f"did you mean `{found[0]}`?" if found else None
