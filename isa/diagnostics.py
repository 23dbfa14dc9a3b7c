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
#: RG06 numbers and arguments, RG07 the compiler, RG08 traps of compiled programs, RG09 laws for tests,
#: RG10 engines and devices, RG11 energy, RG12 benchmarks.
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
     "Directives: .equ .reg .format .memory .data .text .word .zero .ascii .label .include."),
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
    ("RG0508", "Python file cannot be loaded", "The file that defines the function is executed first, and that failed.", "Mend the file; `python FILE.py` shows the same error."),
    ("RG0509", "no such function", "FILE.py:FUNCTION names a function decorated with @reversible, at the top of the file or in a class.", "Mend the name, or decorate the function."),
    ("RG0510", "bad argument on the command line", "Arguments are Python literals, NAME=LITERAL, or @FILE.npy for an array.", "Quote lists for the shell: '[1.0, 2.0]'."),
    ("RG0511", "no such pass", "The compiler's passes have names.", "`--dump-ir all` shows the IR after each."),
    ("RG0512", "option out of place", "Not every option goes with every kind of program, or with every other option.",
     "`retrograd COMMAND --help` says what each option is for."),
    ("RG0513", "output over an input", "A file that the command reads, or has written already, would be replaced and its contents lost.",
     "Write to a file of another name."),
    ("RG0514", "input too large", "A file, or what an archive unpacks to, has more bytes than the limit; it is refused before memory is allocated for it.",
     "If it is meant, allow more with --max-input or --max-expanded."),
    ("RG0601", "number does not fit", "The format has no word for a number of this size.",
     "Scale the numbers, or choose a format with more bits before the point."),
    ("RG0602", "not a real number", "Words hold real numbers; NaN, complex numbers and objects have no word.",
     "Convert or replace the element."),
    ("RG0603", "wrong argument", "The function takes other arguments: another number of them, other types, or other shapes.",
     "Pass what the parameter is declared to take."),
    ("RG0604", "no such format", "A format names the bits before and after the binary point, which together make a word of 4, 8, 16, 32 or 64 bits.",
     "Write it as in Q16.48 or Q32.32, or make one: rg.Format(width=64, frac=48)."),
    ("RG0606", "words would be rounded", "A word may have more bits than the 53 of a float64; written as float64s, the words could not be had again.",
     "Write them in a form that holds words: numpy.savez does, and of files of memory the types npy, textq and word."),
    ("RG0605", "cannot be pickled", "A pickle names a function by its module and its name there, and the process that loads it looks it up.",
     "Define it at the top of a module, so that every process finds it."),
    ("RG0701", "not in the language", "A reversible function is compiled, not executed by Python: it is made of statements that have an inverse.",
     "docs/language.md lists the statements."),
    ("RG0702", "unknown name", "The name is no local variable here, and nothing that the function's module defines.", "Define it first, or mend its spelling."),
    ("RG0703", "wrong type", "The operation is not defined for values of this type.", "Convert the value, or use the operation meant for the type."),
    ("RG0704", "update reads what it writes", "`y += x * y` cannot be undone: the old y is needed to know what was added.",
     "Make a new variable of the new value, `t = y + x * y`, and use it from there on; or a copy of what is only read."),
    ("RG0705", "aliased arguments", "Two parameters would name the same variable or overlapping elements, and at least one of them is changed.",
     "Pass different variables; copy one into a local first if only its value is needed."),
    ("RG0706", "name already in use", "`=` makes a new variable; a variable that exists holds a value that would be lost.",
     "Update it with += or -=, or free it first with `del`."),
    ("RG0707", "condition changed by its body", "Running backward, the condition tells which way control came; so it must still hold after the body.",
     "Write `if (before, after):` with a second condition that is true exactly if the body was run."),
    ("RG0708", "loop changed by its body", "The bounds and the index of a `for` say, running backward, where the loop began; its body leaves them alone.",
     "Use a variable of your own, or `while (before, after):`."),
    ("RG0709", "read-only value changed", "A constant, the value of an expression, or the index of a loop is not stored anywhere that could be changed.",
     "Pass or update a variable; make one with `t = …`."),
    ("RG0710", "ancilla freed with another value", "A variable that goes out of scope must hold what the compiler knows: zero, or the value it was made with.",
     "Undo what was done to it first: put the computation in `with rg.routine() as r:` and write `~r`."),
    ("RG0711", "routine out of order", "Routines are uncomputed in the block in which they were computed, last first, and each must be.",
     "Write `~r` at the end of the part that uses what the routine r computed."),
    ("RG0712", "shape mismatch", "Arrays in one operation have the same shape, or shapes that broadcast: equal lengths or 1, aligned at the last axis.",
     "Make the shapes agree; `x.shape` is known when the program is compiled."),
    ("RG0713", "constant index out of range", "The array has no such element.", "Indices go from 0 to length − 1; negative constants count from the end."),
    ("RG0714", "constant out of range", "The constant has no word in this format.", "Scale it, or choose a format with more bits before the point."),
    ("RG0715", "wrong arguments in a call", "The call does not fit the function's parameters.", "Give as many arguments as there are parameters, of their types."),
    ("RG0716", "no source to compile", "A reversible function is read as source text; for this one there is none.",
     "Define it in a file or a notebook cell."),
    ("RG0717", "unknown until it runs", "The value must be known when the program is compiled: a shape, a length, a static argument.",
     "Use a constant, a length such as len(x), or a parameter annotated `rg.static`."),
    ("RG0718", "value no longer at hand", "To free a variable the compiler computes its value again, and what it was computed from has changed or is gone.",
     "Free it earlier, or undo the change first."),
    ("RG0719", "specialisation without end", "Each call asks for a version of the function for other types, shapes or static values.",
     "Let the recursion end by a condition on static values, or make the argument dynamic."),
    ("RG0720", "function too large", "The compiler works through nested expressions and blocks by recursion, which has an end.",
     "Split the expression, or make functions of its parts."),
    ("RG0721", "impure Python", "Python in a reversible function runs once, when the function is compiled, and its result becomes part of the program. So only Python that is known to be pure is run: docs/language.md lists it.",
     "Compute it outside and pass it as an argument; declare a function of your own with `@rg.pure`; or leave it to the host, `with rg.external():`."),
    ("RG0722", "not a struct", "A struct is a class of fields whose types say how many words they take: int, bool, fixed, lognum, arrays of known shape, other structs.",
     "Annotate each field with such a type, and derive the class from no other: `class Point:`, `x: fixed`."),
    ("RG0723", "constant too large to compute", "Constants are computed while the function is compiled; this one would take memory or time without bound.",
     "Compute it outside and pass the result, or write a smaller constant."),
    ("RG0801", "index out of range", "The array has no such element.", "Test the index with a branch first, or correct the loop's bounds."),
    ("RG0802", "dirty ancilla", "A variable that is freed must hold zero or the value it was made with: anything else would be erased.",
     "Uncompute it with `~r`, or erase it with `rg.erase` and pay for the bits."),
    ("RG0803", "contradicted condition", "Running backward the machine must know which way control came: the condition after the body must hold exactly if the one before did.",
     "Choose a second condition that is true after the body exactly if the body was run."),
    ("RG0804", "assertion failed", "The program claims that this holds, running forward as backward.", "Mend the program or its arguments."),
    ("RG0805", "aliased elements", "Two elements that must differ are the same one: what is written must not be read.", "Treat equal indices in a branch of their own."),
    ("RG0806", "stack overflow or underflow", "The stack has room for as many values as its type says, and gives back no more than it was given.",
     "Give the stack more room, or push and pop in pairs."),
    ("RG0807", "recursion too deep", "Every call that is under way keeps its variables on a stack, and the stack has an end.",
     "Let the recursion end earlier, or give it more room: `@reversible(stack=…)` says how many words."),
    ("RG0808", "statement for the host failed", "The statements in `with rg.external():` are executed by Python, and one of them raised an exception.",
     "Mend the statement; it sees the variables as Python numbers and NumPy arrays."),
    ("RG0809", "no room for cotangents", "A gradient that runs backward too keeps the cotangents of what was freed, and there is room for so many.",
     "Give it more room: `keep=…` says how many words."),
    ("RG0810", "negative power of an int", "The power of an int is an int, and x⁻ⁿ = 1/xⁿ is a fraction.",
     "Write `fixed(x) ** n`, which is a fixed number for every n; or test the exponent with a branch first."),
    ("RG0901", "not given back", "Undoing a run gives back every word it began with; this run did not.",
     "If the function erases nothing, this is a fault of Retrograd's: please report it with the function."),
    ("RG0902", "gradient is not the slope", "The gradient by running backward must agree with differences of the same program.",
     "Words that carry no derivative (int, bits) cut the way of a gradient: look for a conversion on it."),
    ("RG0903", "no slope to compare with", "Differences tell the slope only where the function is smooth: here they do not settle on one value.",
     "Choose arguments away from kinks and jumps, or steps that stay on one side: `step=`."),
    ("RG0904", "garbage left behind", "What a function makes on its way it takes apart again: all else than its arguments is as it was.",
     "Put the computation in `with rg.routine() as r:` and write `~r`."),
    ("RG0905", "too many bits erased", "Every erased bit costs kT ln 2 of heat at least, and cannot come back.",
     "Uncompute what is erased, or allow more bits."),
    ("RG0906", "gradient lost in rounding", "With more places the gradient agrees with the slope; in this format rounding has taken too much of it.",
     "Give it more places: `scale=`, a wider format, other units; or allow for it: `tolerance=`."),
    ("RG1001", "no such engine", "A run names what runs it; this is none of the engines there are, or not one for such a run.",
     "Leave the engine to `auto`, or name one of: reference, native, threaded, translated, cuda."),
    ("RG1002", "no CUDA device", "The CUDA engine runs on an NVIDIA GPU, through the driver that comes with it; one of the two is missing or does not start.",
     "`retrograd devices` says what there is to run on; the CPU runs every program."),
    ("RG1003", "code not accepted by the CUDA driver", "The driver translates PTX for the device that it has; it takes no PTX that is newer than it is, or made for a newer device.",
     "Update the driver if it is the older; else this is a fault of Retrograd's: please report it with the program."),
    ("RG1004", "out of device memory", "Every instance has its data on the device, and so have other processes.",
     "Run fewer instances at a time, or end what else is on the device: `nvidia-smi` lists it."),
    ("RG1005", "a CUDA call failed", "The driver did not do what it was asked for. Work on the device is done later than it is asked for, and a later call tells that it failed.",
     "Start the process again; if it fails again, please report it with the program."),
    ("RG1006", "array cannot be used on the device", "An array on a device is used where it lies, as it lies: on the same device, contiguous, of a type that the program takes.",
     "Bring it into that form with the library that it is from, or pass a NumPy array: that is copied."),
    ("RG1007", "co-processor does not do it", "A co-processor does what docs/coprocessor.md says; on its bus it answers each transfer, or refuses it and changes nothing.",
     "Look at what it is connected to and what it was built for; where its run trapped, look up the code."),
    ("RG1008", "tool for hardware", "Verilog, place and route, gate counts and fast simulation are made by other tools: Yosys, nextpnr, Verilator.",
     "Install what is named; where a tool failed, see what it said."),
    ("RG1009", "co-processor's argument", "The co-processor counts steps in 64 bits; a loss is one of its words, and a scale leaves room for the loss's cotangent in one.",
     "Give an integer within the limits; leave the number of steps out to run to the end."),
    ("RG1101", "no such technology model", "Energy is priced by a technology model; none that comes with Retrograd has this name.",
     "`retrograd energy --models` lists them; a file of your own is named by its path."),
    ("RG1102", "not a technology file", "A technology file is TOML, and its first key says that it is one.",
     "docs/energy.md shows one; mend the syntax."),
    ("RG1103", "unknown key or value in a technology file", "Every key has a meaning, and some have a few values only; what is misspelt would be missing without a word.",
     "docs/energy.md lists keys, causes, laws and kinds of evidence."),
    ("RG1104", "something missing in a technology file", "A figure has a value, a unit, a source and its kind of evidence; a charge has a cause, a label and a law with all its figures.",
     "Add it. A figure that is the device's, for whoever prices to give, is left open: `open = true`."),
    ("RG1105", "wrong unit in a technology file", "A figure's unit says what it measures, and the law says what must be measured.",
     "Give the figure in a unit of what is wanted, such as pJ, zJ, GHz, fF, kohm, K."),
    ("RG1106", "impossible figure in a technology file", "Figures are finite and not negative, temperatures and clocks above zero, each within limits that keep prices finite, and a range holds its value: low ≤ value ≤ high.",
     "Mend the number; look at its unit, too."),
    ("RG1107", "named twice in a technology file", "An id names one model, a label one charge of a cause, and a size one figure.",
     "Rename one of the two, or make one of them."),
    ("RG1108", "outside the model", "A model's figures are for some temperatures and clocks; elsewhere they would be wrong numbers.",
     "Choose a temperature or clock within the model's range, or a model that has figures there."),
    ("RG1109", "figure that cannot be given", "Figures are given for what a model leaves open or assumes, by name, with a unit that measures it.",
     "For example: --figure resistance=10kohm"),
    ("RG1110", "not a file of gate counts", "Gate counts are what synthesis of the hardware writes: JSON of the schema retrograd.gates/1.",
     "Let the hardware's synthesis write it anew."),
    ("RG1111", "not a store of sweeps", "The rows of sweeps are kept in a file of SQLite of their own, each under a hash of all that it follows from.",
     "Name a new file, or one that a sweep by this version has written."),
    ("RG1112", "below a thermodynamic bound", "Erasing a bit dissipates at least kT ln 2 (Landauer), and carrying heat from a cold place to a warm one takes at least the work of Carnot's engine; a model with less would price what no machine can do.",
     "Mend the figure, its low end too, or the temperatures that the model is for; `1 kT ln2` is the bound of erasing at any temperature."),
    ("RG1201", "no such workload", "`retrograd bench` runs workloads and measurements of the toolchain by their names.",
     "docs/benchmarks.md lists them; none runs all."),
    ("RG1202", "no such peer", "A peer is another system that workloads are written with, to be timed beside Retrograd.",
     "Peers: numba, enzyme, casadi, warp, jax, torch, autograd."),
    ("RG1203", "not the figures of a benchmark", "Figures are what `retrograd bench --json` writes: JSON of the schema retrograd.bench/2.",
     "Write them anew with this version."),
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

    def __reduce__(self) -> tuple[object, ...]:
        # By what it holds, not by a call of its class: classes take other arguments than an error keeps.
        return _restored, (type(self), self.diagnostics), vars(self)


def _restored(cls: type[RetrogradError], diagnostics: tuple[Diagnostic, ...]) -> RetrogradError:
    """An error, out of a pickle; its other attributes follow."""
    error = cls.__new__(cls, *diagnostics)
    RetrogradError.__init__(error, *diagnostics)
    return error


class AssemblyError(RetrogradError):
    """Assembly text that is no program."""


class VerificationError(RetrogradError):
    """A program that could not run backward."""


class ImageError(RetrogradError):
    """Bytes that are no image."""


class CompileError(RetrogradError):
    """A reversible function that cannot be compiled."""


class InputError(RetrogradError):
    """Registers, memory or options that make no sense for this program."""


class DeviceError(RetrogradError):
    """A device that is not there, or that did not do what it was asked for."""


def nearest(word: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """`did you mean …`, or None where nothing is near."""
    if len(word) > 64:  # the comparison takes quadratic time
        return None
    found = get_close_matches(word, list(names), n=1, cutoff=cutoff)
    return f"did you mean `{found[0]}`?" if found else None
