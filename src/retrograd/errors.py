"""Error codes of the parts in this folder: numbers and their files, runs, distributed work, laws for tests, prices, the debugger, the command line."""

from __future__ import annotations

from retrograd.isa.diagnostics import Diagnostic, InputError, register

# -----------------------------------------------------------------------------
# Kinds of errors of numbers and of files of numbers.

register(
    ("RG0504", "malformed data file", "The contents of the file do not have its type, which is the type after the comma or that of its suffix.",
     "Give the type after a comma, as in FILE,u32be, or correct the contents."),
    ("RG0601", "number does not fit", "The format has no word for a number of this size.",
     "Scale the numbers, or choose a format with more bits before the point."),
    ("RG0602", "not a real number", "Words hold real numbers; NaN, complex numbers and objects have no word.",
     "Convert or replace the element."),
    ("RG0606", "words would be rounded", "A word may have more bits than the 53 of a float64, so that float64s would not give the same words again.",
     "Write a form that holds words: numpy.savez, or the types npy, textq and word of memory files."),
)  # fmt: skip


# -----------------------------------------------------------------------------
# Kinds of errors of functions that are run.

register(
    ("RG0808", "statement for the host failed", "Python executes the statements in `with rg.external():`, and one of them raised an exception.",
     "Correct the statement. It receives the variables as Python numbers and NumPy arrays."),
)  # fmt: skip


# -----------------------------------------------------------------------------
# Kinds of errors of work that is distributed.

register(
    ("RG1501", "no such executor", "Tasks run on an executor of `concurrent.futures`, on a client of Dask, or on a number of processes.",
     "executor = 4, ProcessPoolExecutor(4), distributed.Client(…) or \"tcp://HOST:PORT\"."),
    ("RG1502", "scheduler out of reach", "The scheduler does not answer at this address, has gone away, or has no workers.",
     "Start `dask scheduler` and `dask worker ADDRESS`, and name the scheduler's address. A store keeps all finished tasks."),
    ("RG1503", "task lost too often", "The worker of a task ended before the task did, and so did each worker that repeated it.",
     "Look at the workers' memory limits. A store keeps all finished tasks."),
    ("RG1504", "workers of another version", "Another version of Retrograd may give other counts, so its results are not mixed with ours.",
     "Install the same version on all workers."),
    ("RG1505", "task that cannot be sent", "Another process finds a Python function by its module and name. Lambdas and functions within functions have no such name.",
     "Define the function at the top of a module that the workers can import."),
    ("RG1506", "not a store of tasks", "The results of tasks are kept in an SQLite file of their own, each under a hash of all its inputs.",
     "Name a new file, or a file that this version wrote."),
    ("RG1507", "worker failed", "A worker raised an exception that is no error of the task: a package is missing there, or memory has run out.",
     "Install the same packages on all workers, and make tasks smaller: chunk = N."),
    ("RG1508", "work that is not distributed", "Tasks hold code and numbers. Statements for the host run where the call is made.",
     "Leave out executor, store and out for this call."),
    ("RG1509", "chunks of arrays", "Arrays in chunks lie along axis 0, one row for each element of the batch, and results are written in the same form.",
     "Name a new folder, or a folder of the same call; a name that ends in .zarr makes an archive of Zarr."),
    ("RG1510", "script without a main guard", "A new process imports the script. Statements at its top run there, too, and would start processes without end.",
     "Call it below `if __name__ == \"__main__\":`."),
)  # fmt: skip


# -----------------------------------------------------------------------------
# Kinds of errors of laws for tests.

register(
    ("RG0901", "not given back", "Undoing a run must restore every word with which it began. This run was not undone.",
     "If the function erases nothing, this is a fault of Retrograd. Please report it with the function."),
    ("RG0902", "gradient is not the slope", "The gradient by running backward must agree with finite differences of the same program.",
     "Words without a derivative (int, bits) interrupt the flow of cotangents: look for a conversion on the path."),
    ("RG0903", "no slope to compare with", "Finite differences approximate the slope only where the function is smooth. Here they do not converge.",
     "Choose arguments away from kinks and jumps, or steps that stay on one side: `step=`."),
    ("RG0904", "garbage left behind", "A function must restore all memory except its arguments to the state before the call.",
     "Put the computation in `with rg.routine() as r:` and write `~r`."),
    ("RG0905", "too many bits erased", "Every erased bit dissipates at least kT ln 2 of heat and cannot be restored.",
     "Uncompute the erased values, or allow more bits."),
    ("RG0906", "gradient lost in rounding", "With more fraction bits the gradient agrees with the slope; in this format rounding has removed too much "
     "of it.",
     "Use more fraction bits: `scale=`, a wider format, or other units. Or allow for the error: `tolerance=`."),
)  # fmt: skip


# -----------------------------------------------------------------------------
# Kinds of errors of stores of sweeps, and of entropies.

register(
    ("RG1111", "not a store of sweeps", "The rows of sweeps are kept in an SQLite file of their own, each under a hash of all its inputs.",
     "Name a new file, or a file that a sweep by this version wrote."),
    ("RG1601", "not a distribution", "A distribution is a mapping from arguments to probabilities, from names to values that are drawn independently, a list of samples, or a "
     "function that draws arguments.",
     "docs/entropy.md has an example of each."),
    ("RG1602", "a mismatch that has no value", "The mismatch cost is finite where the prior gives a probability above 0 to all that occurs. It needs the probabilities of "
     "both distributions, and samples have none.",
     "Give probabilities, and let the prior include each value."),
    ("RG1603", "not a circuit of gates", "Each wire is an input or the output of one earlier gate, and a gate has as many inputs as its kind takes.",
     "Correct the gate that is named."),
)  # fmt: skip


def refuse(code: str, message: str, hint: str | None = None) -> InputError:
    """The error, to be raised."""
    return InputError(Diagnostic(code, message, hint=hint))


# -----------------------------------------------------------------------------
# Kinds of errors of the debugger.

register(
    ("RG1301", "bad expression of the debugger", "An expression has registers, labels, `M[…]`, numbers, comparisons, arithmetic, and, or, not.",
     "For example: `r3 > 10 and total == 5`."),
    ("RG1302", "no such place", "A place is a variable of the source where it is live, a register, the name of one, a data label, or `M[ADDRESS]`.",
     "`info` lists the names of a program."),
    ("RG1303", "no such step", "A step number counts the instructions from the beginning. An erased word cannot be brought back from before the "
     "beginning of the session, and a state that was changed by hand may have no way back.",
     "Begin the session at an earlier step, or use a smaller number than that of the last step."),
    ("RG1304", "not a saved state", "A saved state has a version, the digest of its program, and words of the program's format.",
     "Save it anew with `retrograd run PROG --save FILE`, on the same program."),
    ("RG1305", "bad command of the debugger", "The command does not exist, or its operands are not of the kind that it takes.",
     "`help` lists the commands."),
    ("RG1306", "bad request of an editor", "A request of the Debug Adapter Protocol has its arguments by name and type, and some need a program that is "
     "launched and stands still.",
     "The documentation of the protocol lists the arguments; docs/debugging.md has an example of `launch`."),
    ("RG1307", "not a value of this variable", "A value is a number of the variable's type that fits in a word.",
     "For example: 42, 0x2a, 1.5, true."),
)  # fmt: skip


# -----------------------------------------------------------------------------
# Kinds of errors of the command line.

register(
    ("RG0502", "bad --set", "Written NAME=VALUE, NAME a register or a data label, VALUE a constant that fits a word.",
     "For example: --set r1=42 --set length=0x10"),
    ("RG0503", "bad --mem or --out", "Written [WHERE=]FILE[,TYPE]: WHERE a data label or address, with :COUNT for --out; TYPE one of text, npy, word, "
     "u8, u16, u16be, u32, u32be, u64, u64be.",
     "For example: --mem text=plain.bin,u32be"),
    ("RG0506", "no such thing to explain", "Neither an error code nor an instruction has this name.",
     "`retrograd explain` lists the codes, `retrograd isa` the instructions."),
    ("RG0508", "Python file cannot be loaded", "The file that defines the function is executed first, and its execution failed.",
     "Correct the file; `python FILE.py` shows the same error."),
    ("RG0509", "no such function", "FILE.py:FUNCTION names a function decorated with @reversible, at the top of the file or in a class.",
     "Correct the name, or decorate the function."),
    ("RG0510", "bad argument on the command line", "Arguments are Python literals, NAME=LITERAL, or @FILE.npy for an array.",
     "Quote lists for the shell: '[1.0, 2.0]'."),
    ("RG0511", "no such pass", "The compiler's passes have names.",
     "`--dump-ir all` shows the IR after each."),
    ("RG0512", "option out of place", "The option does not apply to this kind of program, or not together with another option.",
     "`retrograd COMMAND --help` says what each option is for."),
    ("RG1008", "tool for hardware", "Other tools make Verilog, place and route, count gates and simulate fast: Yosys, nextpnr, Verilator.",
     "Install the tool that the message names. If a tool failed, read its output."),
    ("RG1010", "placement too slow", "A bitstream is reliable only at a clock that its placement reaches. The placement depends on a seed.",
     "Ask for a slower clock by --mhz, or for another --seed."),
    ("RG1201", "no such workload", "`retrograd bench` runs workloads and measurements of the toolchain by their names.",
     "docs/benchmarks.md lists them. Without a name, all run."),
)  # fmt: skip
