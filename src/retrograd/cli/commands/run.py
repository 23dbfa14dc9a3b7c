"""`retrograd run --cycles`: cycles of the co-processor for a run, by instruction."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from retrograd.assembler.lexer import decode_text
from retrograd.cli.arguments import argument_named, parse_arguments, plain, rounded_words, shown
from retrograd.cli.files import (
    extent,
    function_and_direction,
    function_and_inverse,
    input_path,
    is_function,
    output_regions,
    prepared,
    read_bytes,
    write_words,
)
from retrograd.cli.options import (
    OF_BATCHES,
    Parser,
    fail,
    given_option,
    integer,
    refuse_options_of_programs,
    scale_given,
    slots_given,
    step_limit,
)
from retrograd.cli.records import BatchOptions, FunctionOptions, ProgramOptions
from retrograd.cli.report import (
    Tracer,
    engine_text,
    memory_table,
    outcome_dict,
    points_dict,
    print_json,
    print_limit,
    print_trap,
    registers_table,
)
from retrograd.cli.terminal import LIMIT, OK, TRAPPED, print_diagnostics, record
from retrograd.isa.diagnostics import nearest
from retrograd.isa.files import check_output
from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.program import Program
from retrograd.presentation import columns
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine, Outcome, Stop, Trap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from retrograd.derivatives import GradientReport
    from retrograd.observe._ranges import ErrorBound


@dataclass(frozen=True)
class Line:
    """An instruction with its counts; `each` has several values if ra and rb may be one register."""

    name: str
    differentiating: bool
    forward: int
    backward: int
    each: tuple[int, ...]
    cycles: int


def lines(machine: Machine, core: str, slots: int = 1) -> list[Line]:
    """The instructions executed, in decreasing order of their cycles."""
    counts: dict[tuple[str, bool], Counter[int]] = {}
    taken: Counter[tuple[str, bool]] = Counter()
    units = core_units(core, slots)
    each: dict[tuple[str, bool], set[int]] = {}
    for execution, n in machine.executions().items():
        key, one = (execution.opcode.name, execution.lifted), execution.cycles(machine.format, units)
        counts.setdefault(key, Counter())[execution.direction] += n
        each.setdefault(key, set()).add(one)
        taken[key] += n * one
    ordered = sorted(counts, key=lambda key: (-taken[key], key))
    return [Line(*key, counts[key][+1], counts[key][-1], tuple(sorted(each[key])), taken[key]) for key in ordered]


def cycles_table(machine: Machine, core: str = "small", slots: int = 1) -> str:
    """A table of instructions: executions, cycles of each and of all on a core, the total."""
    found = lines(machine, core, slots)
    total = sum(line.cycles for line in found)
    if not found:
        return "0 cycles"
    lifted = any(line.differentiating for line in found)
    rows = [["instruction", *["D"] * lifted, "forward", "backward", "cycles", "in all", "share"]]
    for line in found:
        each = "–".join(map(str, line.each))
        rows.append(
            [line.name, *[str(int(line.differentiating))] * lifted, str(line.forward), str(line.backward), each,
             str(line.cycles), f"{100 * line.cycles / total:.1f} %"]
        )  # fmt: skip
    per = total / machine.retired
    return f"{columns(rows, right=range(1, len(rows[0])))}\n{total} cycles, {per:.2f} for an instruction"


def cycles_dict(machine: Machine, core: str = "small", slots: int = 1) -> dict[str, Any]:
    """The same for programs, as part of schemas retrograd.run/1 and retrograd.call/1."""
    found = lines(machine, core, slots)
    return {
        "core": core,
        **({"slots": slots} if slots > 1 else {}),
        "total": sum(line.cycles for line in found),
        "instructions": [
            {
                "name": line.name, "differentiating": line.differentiating, "forward": line.forward,
                "backward": line.backward, "each": list(line.each), "cycles": line.cycles,
            }
            for line in found
        ],
    }  # fmt: skip


# -----------------------------------------------------------------------------
# `retrograd grad FILE.py:FUNCTION …`: gradients of a reversible function, and their cost.


class GradOptions(FunctionOptions):
    json: bool
    function: str
    args: Sequence[str]
    loss: str
    wrt: Sequence[str] | None
    scale: str


def arguments_of_grad(p: Parser) -> None:
    """Options of `retrograd grad`."""
    p.add_argument("function", metavar="FILE.py:FUNCTION", help="~FUNCTION for its inverse")
    p.function_arguments()
    p.add_argument(
        "--loss",
        metavar="NAME",
        default="0",
        help="argument whose final value is differentiated (default: the first; of a functional function, its value)",
    )
    p.add_argument(
        "--wrt",
        metavar="NAME",
        action="append",
        help="argument to differentiate by; may be repeated (default: all that have a derivative but the loss)",
    )
    p.add_argument(
        "--scale",
        metavar="K",
        default="auto",
        help="run with the loss's cotangent at 2^K, and divide by it (default: auto, the greatest of a list that fits)",
    )
    p.run_options("--format", "--dialect", "--entry", "--explain-engine")
    p.json_option("retrograd.gradient/1")
    p.size_options()


def execute_grad(options: GradOptions) -> int:
    """Run a function forward and back, and show the gradient."""
    from retrograd.derivatives import gradient_report
    from retrograd.derivatives._arguments import loss_part, scales_of
    from retrograd.runtime._execution import ProgramTrap

    function, inverse = function_and_inverse(options.function, options)
    f = ~function if inverse else function
    args, keywords = parse_arguments(options.args, function)
    wrt = None if options.wrt is None else [argument_named(text) for text in options.wrt]
    loss, scale = argument_named(options.loss), scale_given(options.scale)
    try:
        report = gradient_report(f, wrt, loss, scale=scale)(*args, **keywords)
    except ProgramTrap as trap:
        return print_trap(trap, as_json=options.json)
    parameters = [p.name for p in function.parameters]
    part = loss_part(f, loss)
    of = parameters[part.position] + part.path
    if wrt is None:
        gradients = report.gradients._asdict()
    else:
        names = [parameters[w] if isinstance(w, int) else w for w in wrt]
        gradients = dict(zip(names, report.gradients, strict=True))
    if options.json:
        print_json("retrograd.gradient/1", _as_dict(f.__name__, of, report, gradients) | points_dict(function))
    else:
        _show_gradient(of, report, gradients)
        if scale == "auto" and report.scale != scales_of(scale, function.compiled(*args, **keywords))[0]:
            print(f"the way back began with the cotangent 2^{report.scale}")
    return OK


def _as_dict(name: str, loss: str, report: GradientReport, gradients: dict[str, Any]) -> dict[str, Any]:
    """The report for programs."""
    return {
        "function": name, "loss": loss, "scale": report.scale, "value": report.value,
        "gradients": {name: plain(value) for name, value in gradients.items()},
        "forward_steps": report.forward_steps, "backward_steps": report.backward_steps, "ratio": report.ratio,
        "memory_words": report.memory_words, "dropped_bits": report.dropped_bits,
        "inputs_restored": report.inputs_restored,
    }  # fmt: skip


def _show_gradient(loss: str, report: GradientReport, gradients: dict[str, Any]) -> None:
    labels = [f"∂{loss}/∂{name}" for name in gradients]
    width = max(map(len, [loss, *labels]))
    for label, value in zip([loss, *labels], [report.value, *gradients.values()], strict=True):
        # Rows of an array are aligned below each other.
        print(f"{label:<{width}} = " + shown(value).replace("\n", "\n" + " " * (width + 3)))
    steps = f"{report.forward_steps} steps forward, {report.backward_steps} back (× {report.ratio:.2f})"
    memory = f"{report.memory_words} words of memory, and their cotangents"
    print(f"\n{steps}; {memory}; {report.dropped_bits} bits of cotangents dropped")
    print(f"the arguments {'are' if report.inputs_restored else 'are NOT'} what they were")


# -----------------------------------------------------------------------------
# `retrograd ranges`: the magnitudes of the numbers of a function, and the formats that hold them.


class RangesOptions(ProgramOptions):
    json: bool
    max_steps: str | None
    loss: str | None
    points: bool
    apply: bool
    margin: str | None


def arguments_of_ranges(p: Parser) -> None:
    """Options of `retrograd ranges`."""
    p.add_argument("program", metavar="FILE.py:FUNCTION", help="the function, or ~FUNCTION for its inverse")
    p.function_arguments()
    p.run_options("--format", "--max-steps")
    p.loss_option("go on, back with cotangents, from this argument's final value, and bound its rounding error")
    p.add_argument(
        "--points", action="store_true", help="choose a binary point for each variable, from runs in float64"
    )
    p.add_argument("--apply", action="store_true", help="the same, and write the points into FILE.py")
    p.add_argument("--margin", metavar="N", help="of --points: bits of room above the greatest number (1)")
    p.json_option("retrograd.ranges/1", "autoscale/1")
    p.size_options()


def execute_ranges(options: RangesOptions) -> int:
    """Run the function, and show the ranges."""
    from retrograd.cli.arguments import argument_named, parse_arguments
    from retrograd.derivatives import grad
    from retrograd.observe._ranges import error_bound, ranges
    from retrograd.runtime._execution import ProgramTrap

    refuse_options_of_programs(options)
    function, inverse = function_and_inverse(options.program, options)
    f = ~function if inverse else function
    if options.points or options.apply:
        return _choose_points(options, f, *parse_arguments(options.args, function))
    if options.margin is not None:
        raise fail("RG0512", "--margin is the room of chosen points", "add --points or --apply")
    measured = f if options.loss is None else grad(f, None, argument_named(options.loss))
    args, keywords = parse_arguments(options.args, function)
    try:
        limit, w = step_limit(options.max_steps), function.format_for()
        found = ranges(measured, *args, max_steps=limit, format=w, **keywords)
        error = None
        if options.loss is not None:
            error = error_bound(
                f, *args, loss=argument_named(options.loss), format=found.format, max_steps=limit, **keywords
            )
    except ProgramTrap as trap:
        return print_trap(trap, as_json=options.json)
    if options.json:
        print_json("retrograd.ranges/1", replace(found, function=function.__name__).as_dict() | _bound(error))
    else:
        print(found if error is None else f"{found}\n{error}")
    return OK


def _choose_points(options: RangesOptions, f: Any, args: Sequence[Any], keywords: dict[str, Any]) -> int:
    """Choose points, show them, and with `--apply` write them into the file."""
    from retrograd.cli.arguments import argument_named
    from retrograd.observe._autoscale import autoscale
    from retrograd.runtime._execution import ProgramTrap

    margin = 1 if options.margin is None else integer(options.margin, "--margin", 0)
    loss = None if options.loss is None else argument_named(options.loss)
    try:
        found = autoscale(f, *args, margin=margin, loss=loss, format=options.format, **keywords).scaling
    except ProgramTrap as trap:
        return print_trap(trap, as_json=options.json)
    assert found is not None
    written = found.write() if options.apply else ""
    if options.json:
        print_json("retrograd.autoscale/1", found.as_dict() | ({"written": written} if written else {}))
    else:
        print(found)
        print()
        unchanged = "nothing to write: the points stand in the file" if options.apply else found.source
        print(f"written into {written}" if written else unchanged)
    return OK


def _bound(error: ErrorBound | None) -> dict[str, Any]:
    return {} if error is None else {"error_bound": error.as_dict()}


# -----------------------------------------------------------------------------
# `retrograd run`: a program or a reversible function, forward or backward, once or on each element of a batch.

#: seconds of a run before its progress is shown, and between two updates
_PATIENCE, _TICK = 1.0, 0.5


class RunOptions(BatchOptions):
    breaks: Sequence[str]
    until: str | None
    resume: str | None
    turn: bool
    save: str | None
    input: str | None
    memory_budget: str | None


def arguments_of_run(p: Parser) -> None:
    """Options of `retrograd run`."""
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE], FILE.vlad")
    p.function_arguments()
    p.run_options()
    p.add_argument(
        "-o", dest="output", metavar="OUT.npz",
        help="the file to write a batch's results to; OUT/ and OUT.zarr are written a part at a time",
    )  # fmt: skip
    p.distribution_options("the results of a batch's parts are kept there, and not run again")
    p.add_argument("--chunk", metavar="N", help="of a batch: elements that a worker takes at a time")
    p.add_argument("--quiet", action="store_true", help="of a batch: no progress on the terminal")
    p.add_argument(
        "--break", metavar="WHERE", action="append", default=[], dest="breaks",
        help="of a program: stop before the instruction at a label or address",
    )  # fmt: skip
    p.add_argument(
        "--until", metavar="EXPR", help="of a program: stop where an expression such as `r1 > 5` becomes true"
    )
    p.add_argument("--resume", metavar="STATE", help="of a program: begin in a state that --save wrote")
    p.add_argument("--turn", action="store_true", help="of a program: turn before the run, so it takes back steps")
    p.add_argument("--save", metavar="STATE", help="of a program: save the state after the run, for --resume")
    p.add_argument("--input", metavar="FILE", help="of a file of VLAD: read its numbers from FILE (default: stdin)")
    p.add_argument(
        "--memory-budget", metavar="WORDS",
        help="of a file of VLAD: words for lists and history, and as many for recursion; loops that need more run in parts",
    )  # fmt: skip
    p.add_argument("--cycles", action="store_true", help="count the cycles of the co-processor by instruction")
    p.core_option(slots=True)
    p.add_argument("--trace", action="store_true", help="print every step and its changes, on stderr")
    p.json_option("retrograd.run/1", "call/1, batch/1 or vlad/1")
    p.size_options(arrays=True)


def execute_run(options: RunOptions) -> int:
    """Load, run, show."""
    slots_given(options.core, options.slots)
    if options.core != "small" and not options.cycles:
        raise fail("RG0512", "--core chooses the core whose cycles --cycles counts", "add --cycles")
    if options.program.endswith(".vlad"):
        return _run_vlad(options)
    option = given_option(options, ("--input", "--memory-budget"))
    if option is not None:
        raise fail("RG0512", f"{option} is for files of VLAD")
    if not is_function(options.program):
        return _run_program(options)
    engine_named(options.engine)
    if options.batch is not None:
        from retrograd.cli.batches import run_batch_command

        return run_batch_command(options)
    option = given_option(options, OF_BATCHES)
    if option is not None:
        raise fail("RG0512", f"{option} is for batches", "name the arrays: --batch FILE.npz")
    return _run_function(options)


# ---------------------------------------------------------------------- files of VLAD


def _run_vlad(options: RunOptions) -> int:
    """Print the value of each expression."""
    from retrograd.derivatives._functional import LARGEST, evaluations, load_vlad
    from retrograd.derivatives._functional import shown as text_of
    from retrograd.runtime._execution import ProgramTrap

    refuse_options_of_programs(options)
    option = given_option(options, ("--batch", *OF_BATCHES, "--cycles", "--trace"))
    if option is not None:
        raise fail("RG0512", f"{option} is not for files of VLAD")
    if options.args or options.backward or options.inverse:
        hint = "each expression is run forward and back by `retrograd test`"
        raise fail("RG0512", "a file of VLAD has no arguments and no direction", hint)
    engine_named(options.engine)
    steps = erased = 0
    budget = options.memory_budget
    rows = []
    file = load_vlad(input_path(options.program))
    found = evaluations(
        file,
        format=options.format,
        precision=options.precision,
        engine=options.engine,
        max_steps=step_limit(options.max_steps),
        overflow=not options.no_overflow,
        memory=LARGEST if budget is None else integer(budget, "--memory-budget", 1),
        numbers=_numbers(options.input),
    )
    try:
        for e in found:
            line = e.expression.datum.at.span.line
            rows.append({"line": line, "value": text_of(e.value), "steps": e.steps, "erased_bits": e.erased_bits})
            steps, erased = steps + e.steps, erased + e.erased_bits
            if not options.json:
                print(text_of(e.value), flush=True)
    except ProgramTrap as trap:
        return print_trap(trap, as_json=options.json)
    if options.json:
        print_json("retrograd.vlad/1", {"expressions": rows, "steps": steps, "erased_bits": erased})
    else:
        print(f"\n{steps} steps forward, {erased} bits erased")
    return OK


def _numbers(path: str | None) -> Iterator[float]:
    """The numbers that `(read-real)` reads: those of a file, or of the standard input, once one is needed.

    Raises InputError RG0504.
    """
    name = "the standard input" if path in (None, "-") else str(path)
    for k, line in enumerate(decode_text(read_bytes(path or "-"), name).splitlines(), 1):
        for word in line.split():
            try:
                number = float(word)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise fail(
                    "RG0504", f"`{word[:40]}` in line {k} of {name} is no number", "write numbers such as 3 or -.5e-3"
                )
            yield number


# ---------------------------------------------------------------------- functions


def _run_function(options: RunOptions) -> int:
    from retrograd.runtime._binding import bind
    from retrograd.runtime._execution import ProgramTrap
    from retrograd.runtime._reversible import request_of

    function, backward = function_and_direction(options)
    args, keywords = parse_arguments(options.args, function)
    limit = step_limit(options.max_steps)
    try:
        given = bind(function, args, keywords)
        request = request_of(
            function,
            engine=options.engine,
            backward=backward,
            max_steps=limit,
            overflow=not options.no_overflow,
        )
        result = request.run(tuple(given), {}, Tracer if options.trace else None)
    except ProgramTrap as trap:
        return print_trap(trap, as_json=options.json)
    values = result.values._asdict()
    if options.json:
        out = {
            "function": function.__name__, "backward": backward,
            "values": {name: plain(v) for name, v in values.items()},
            "steps": result.steps, "erased_bits": result.erased_bits, "engine": result.engine,
        }  # fmt: skip
        out |= points_dict(function)
        words = rounded_words(result.values, result.words)
        if words:
            out["words"] = words
        if options.cycles:
            out["cycles"] = cycles_dict(result.machine, options.core, slots_given(options.core, options.slots))
        print_json("retrograd.call/1", out)
        return OK
    width = max(map(len, values), default=0)
    for v, p in zip(values.values(), function.parameters, strict=True):
        print(f"{p.name:<{width}} = {shown(v)}")
    way = "backward" if backward else "forward"
    engine = engine_text(result.machine, asked=options.engine != "auto")
    print(f"\n{result.steps} steps {way}, {result.erased_bits} bits erased{engine}")
    if options.cycles:
        print("\n" + cycles_table(result.machine, options.core, slots_given(options.core, options.slots)))
    return OK


# ---------------------------------------------------------------------- programs


def _run_program(options: RunOptions) -> int:
    machine, _, is_pisa = prepared(options)
    outputs = output_regions(machine, options.out)
    if options.save is not None:
        check_output(options.save)
    step = 0
    if options.resume is not None:
        from retrograd.observe._timeline import load_state

        step = load_state(options.resume, machine)
    if options.turn:
        machine.turn()
        step = 0
    until: Callable[[Machine], bool] | None = None
    if options.until is not None:
        from retrograd.observe import _variables

        until = _variables.Expression(options.until, machine, condition=True).holds
    breakpoints = frozenset(_breakpoint(text, machine.program) for text in options.breaks)
    max_steps = step_limit(options.max_steps)
    observe = Tracer(machine) if options.trace else None

    trap: Trap | None = None
    before = machine.retired
    try:
        with _Progress(machine, max_steps, wanted=observe is None and sys.stderr.isatty()):
            if is_pisa:
                outcome = _run_pisa(
                    machine, max_steps, breakpoints, until, observe, sys.stderr if options.json else sys.stdout
                )
            else:
                outcome = machine.run(max_steps, breakpoints=breakpoints, until=until, observe=observe)
        stop, steps = outcome.stop.value, outcome.steps
    except Trap as caught:
        trap, stop, steps = caught, "trap", machine.retired - before
        record(caught.diagnostics)
    if options.save is not None:
        from retrograd.observe._timeline import save_state

        save_state(options.save, machine, step + steps)
    for region in outputs:
        write_words(region, machine.memory[region.address : extent(machine, region)], machine.format)
    if options.json:
        found = outcome_dict(machine, stop, steps, trap)
        if options.cycles:
            found["cycles"] = cycles_dict(machine, options.core, slots_given(options.core, options.slots))
        print_json("retrograd.run/1", found)
    else:
        _show(machine, stop, steps, trap, engine_text(machine, asked=options.engine != "auto"))
        if options.cycles:
            print("\n" + cycles_table(machine, options.core, slots_given(options.core, options.slots)))
    return TRAPPED if trap is not None else LIMIT if stop == Stop.LIMIT.value else OK


def _run_pisa(
    machine: Machine,
    max_steps: int | None,
    breakpoints: frozenset[int],
    until: Callable[[Machine], bool] | None,
    observe: Tracer | None,
    out: TextIO,
) -> Outcome:
    """Run a PISA program, and print each word that it outputs, in either direction."""
    from retrograd.assembler.pisa_writer import Output, marks

    registers, output = marks(machine.program), Output()
    column, taken = 0, 0
    while True:
        left = None if max_steps is None else max_steps - taken
        outcome = machine.run(left, breakpoints=breakpoints | registers.keys(), until=until, observe=observe)
        taken += outcome.steps
        if outcome.stop is Stop.BREAKPOINT and machine.pc in registers and not machine.br:
            text = output.text(machine.registers[registers[machine.pc]])
            column = 0 if text.endswith("\n") else column + len(text)
            out.write(text)
        if outcome.stop is Stop.BREAKPOINT and machine.pc not in breakpoints and until is not None and until(machine):
            outcome = Outcome(Stop.CONDITION, outcome.steps)
        if outcome.stop is not Stop.BREAKPOINT or machine.pc in breakpoints:
            if column:
                out.write("\n")
            return Outcome(outcome.stop, taken)


class _Progress:
    """A line on the terminal with the steps of a run so far, once the run takes a while.

    Compiled code publishes its count of steps at safepoints only. Between two of them the line shows the time.
    """

    def __init__(self, machine: Machine, limit: int | None, *, wanted: bool) -> None:
        self._machine, self._limit = machine, limit
        self._seen = machine.retired
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True) if wanted else None

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        begun = time.monotonic()
        shown = False
        while not self._ended.wait(_TICK if shown else _PATIENCE):
            shown = True
            print(f"\r{self._line(time.monotonic() - begun):<60}", end="", file=sys.stderr, flush=True)
        if shown:
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        steps, seen = self._machine.retired, self._seen
        self._seen = steps
        if abs(steps - seen) < 1000:
            return f"running, {seconds:.0f} s"
        share = "" if self._limit is None else f" of {self._limit / 1e6:.1f}"
        return f"{steps / 1e6:.1f}{share} M steps, {steps / seconds / 1e6:.2f} M/s"


def _show(machine: Machine, stop: str, steps: int, trap: Trap | None, engine: str) -> None:
    if trap is not None:
        print_diagnostics(str(trap))
        print("the machine stands before this instruction and can run back from here", file=sys.stderr)
    elif stop == Stop.LIMIT.value:
        print_limit(steps)
    way = "forward" if machine.direction > 0 else "backward"
    where = f"at pc {machine.pc}" + (f", BR = {machine.br}" if machine.br else "")
    erased = f"{machine.erased_bits} bits erased"
    print(f"{stop} {where} after {steps} steps, running {way}; {erased}{engine}\n")
    print(registers_table(machine))
    memory = memory_table(machine)
    if memory:
        print("\n" + memory)


def _breakpoint(text: str, program: Program) -> int:
    if text in program.labels:
        return program.labels[text]
    if text.isdecimal() and int(text) < len(program.code):
        return int(text)
    hint = nearest(text, program.labels) or f"write a code label, or an address from 0 to {len(program.code) - 1}"
    raise fail("RG0507", f"--break {text}: neither a label nor an address of the code", hint)
