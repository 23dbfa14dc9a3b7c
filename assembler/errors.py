"""Kinds of errors of assembly text (RG01), the verifier (RG02) and images (RG03)."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG0101", "unknown mnemonic", "No instruction, alias or sugar has this name.",
     "`retrograd isa` lists the instructions. An update is a suffix, as in `mul.add`."),
    ("RG0102", "wrong number of operands", "Every instruction and directive has a fixed list of operands.",
     "`retrograd isa NAME` shows the instruction's syntax."),
    ("RG0103", "bad operand", "The operand is not of the kind that this position takes.",
     "Registers are r0 to r255 or a name given by `.reg`; memory operands are written [ra + constant]."),
    ("RG0104", "bad constant expression", "Constants are integers, characters, labels, `.equ` names and fixed-point literals such as 1.5q, joined by + "
     "- * / % << >> & | ^ ~ and parentheses.",
     "Write a constant expression. A value in a register is an operand of an instruction."),
    ("RG0105", "constant out of range", "An immediate has 32 bits, sign-extended to the word; a data word has as many bits as the format's width.",
     "Write a constant that fits, or use a format with wider words."),
    ("RG0106", "undefined symbol", "No label, `.equ` or `.reg` defines this name, or none of the kind needed here.",
     "Define it, or correct its spelling."),
    ("RG0107", "duplicate symbol", "A name has one meaning in a program, its includes counted in.",
     "Rename one of the two."),
    ("RG0108", "aliased operands", "An instruction must not read a register that it writes: `r1 += r1` cannot be undone, since the old r1 is needed to "
     "find the sum that was added.",
     "Copy the value to a zero register first, use that, and uncompute the copy."),
    ("RG0109", "unknown directive", "No directive has this name.",
     "Directives: .equ .reg .format .memory .data .text .word .zero .ascii .label .include .pair .access."),
    ("RG0110", "include cannot be read", "The file that .include names does not exist, is not a regular text file, or is too large.",
     "Give a path relative to the including file."),
    ("RG0111", "include loop", "A file includes itself, directly or through others.",
     "Take the common part into a file that includes neither."),
    ("RG0112", "include outside the program's folder", "An assembly file may come from anywhere, so the assembler reads only files below the folder of "
     "the main file.",
     "Move the included file, or name its folder with -I."),
    ("RG0113", "malformed line", "A line is: a label, one instruction or directive with its operands, a comment after ';'.",
     "Correct the line where the caret points."),
    ("RG0114", "wrong section", "Instructions stand in .text, words in .data.",
     "Put the matching .text or .data before it."),
    ("RG0115", "procedure not closed or not open", "`proc NAME, LINK` and `endproc` enclose a subroutine, and do not nest.",
     "Add the missing half."),
    ("RG0116", "program too large", "Code, data or text exceeds the assembler's limits.",
     "Make it smaller. Load large data at run time with --mem instead of assembling it."),
    ("RG0117", "bad format", "A format is a width of 4, 8, 16, 32 or 64 bits and a smaller number of fraction bits. It is set once, before anything "
     "that depends on it.",
     "For example: .format 64, 32"),
    ("RG0118", "not text", "A source file is UTF-8 text without NUL characters. An image begins with other bytes.",
     "Save the text as UTF-8, or assemble a damaged image again."),
    ("RG0119", "no counterpart in PISA", "PISA has 32 registers of 32 bits, sums, exchanges, shifts and bitwise functions. Quotients, fixed-point and "
     "lognum numbers, and their checks, are not among them.",
     "Write the function with integers, in words of 32 bits, or export another form: --emit llvm, -o for an image."),
    ("RG0120", "literal becomes 0", "The smallest number of a format is 2^-F, and a number up to half of it has the word 0. A number near it "
     "keeps few of its bits (a warning).",
     "Choose a format with more bits behind the point, or write 0."),
    ("RG0201", "unpaired branch", "A jump must land on a branch that names its source, and a comefrom must name a jump. Otherwise the direction from "
     "which control came is lost when the program runs backward.",
     "Write `goto.cc a, b, L` and at L `L: from.cc a, b, K` with K the label of the goto."),
    ("RG0202", "mismatched comefrom", "The branch at the target names another source.",
     "Give each goto its own from. A from joins exactly one jump with the instruction above it."),
    ("RG0203", "jump outside the code", "The target is before the first instruction or after the last.",
     "Name the label of an instruction; to end the program, jump to a `from` before its `finish`."),
    ("RG0206", "control falls where it cannot", "Control reaches the next instruction in one direction and not in the other. An unconditional goto or "
     "a finish must be followed by an unconditional from, a start, or the end of the code; an unconditional from or a start must not be entered from "
     "above.",
     "Pair the paths: jump around with goto, and join with from."),
    ("RG0207", "call of what is no subroutine", "`call` and `uncall` enter a subroutine at its `swapbr`.",
     "Name the label of a `proc`, or of a `swapbr` of your own."),
    ("RG0208", "malformed subroutine", "The Pendulum convention: `top: from bottom`, pops, `entry: swapbr link`, `neg link`, pushes, body, `bottom: "
     "goto top`; or its mirror image.",
     "Use `proc NAME, LINK` … `endproc`."),
    ("RG0209", "jump across a subroutine's border", "A subroutine is entered and left at its `swapbr` only.",
     "Use call or uncall."),
    ("RG0210", "unreachable instruction", "No path from `start` or through a called subroutine reaches it (a warning).",
     "Remove it, or call it."),
    ("RG0211", "erase in a strict program", "An erase loses its word: the program cannot run backward through it.",
     "Uncompute the word, or verify without --strict."),
    ("RG0212", "shift out of range", "The constant is a difference of binary points, of which words of this format allow some.",
     "Choose binary points that lie closer together, or move a number to another point first."),
    ("RG0301", "not a Retrograd image", "The file does not begin with the image's magic bytes.",
     "`retrograd asm` makes images."),
    ("RG0302", "image of another version", "The image was written by a newer version.",
     "Assemble it again, or update."),
    ("RG0303", "truncated image", "The file is shorter than the lengths in its header.",
     "Copy or assemble it again."),
    ("RG0304", "damaged image", "The checksum does not match the contents.",
     "Copy or assemble it again."),
    ("RG0305", "impossible length in an image", "A section's length disagrees with the file's, or exceeds the limits.",
     "Assemble it again; an image is never larger than its sections."),
    ("RG0307", "malformed section", "A section's contents do not follow the format.",
     "Assemble it again."),
)  # fmt: skip
