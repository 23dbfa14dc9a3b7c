"""`retrograd run`: a program on a machine, forward or backward."""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import time
from types import TracebackType

from retrograd.cli.files import Region, constant, fail, load_program, read_words, write_words
from retrograd.cli.main import LIMIT, OK, TRAPPED
from retrograd.cli.report import Tracer, engine_text, memory_table, outcome_dict, registers_table
from retrograd.isa.diagnostics import Diagnostic, nearest
from retrograd.isa.files import check_output
from retrograd.isa.program import Program
from retrograd.simulator.engines.tiered_machine import machine_for
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import MEMORY_LIMIT, Machine, Stop, Trap

#: seconds of a run before its progress is shown, and between two looks at it
_PATIENCE, _TICK = 1.0, 0.5


def run(options: argparse.Namespace) -> int:
    """Load, run, show; returns the exit code."""
    for option, given in (("--batch", options.batch), ("--shared", options.shared), ("-o", options.output)):
        if given:
            hint = "write FILE.py:FUNCTION; memory of a single run is loaded by --mem and saved by --out"
            raise fail("RG0512", f"{option} is for functions: a program does not say what its arguments are", hint)
    machine, _ = prepared(options)
    program = machine.program
    outputs = [Region.parse(text, program, "--out") for text in options.out]
    for region in outputs:
        extent(machine, region)
        check_output(region.path)
    breakpoints = frozenset(_breakpoint(text, program) for text in options.breaks)
    max_steps = _count(options.max_steps, "--max-steps", program)
    observe = Tracer(machine) if options.trace else None

    trap: Trap | None = None
    before = machine.retired
    try:
        with _Progress(machine, max_steps, wanted=observe is None and sys.stderr.isatty()):
            outcome = machine.run(max_steps, breakpoints=breakpoints, observe=observe)
        stop, steps = outcome.stop.value, outcome.steps
    except Trap as caught:
        trap, stop, steps = caught, "trap", machine.retired - before
    for region in outputs:
        write_words(region, machine.memory[region.address : extent(machine, region)], program.format)
    if options.json:
        found = outcome_dict(machine, stop, steps, trap)
        if options.cycles:
            from retrograd.cli.cycles import cycles_dict

            found["cycles"] = cycles_dict(machine)
        print(json.dumps(found, indent=2))
    else:
        _show(machine, stop, steps, trap, engine_text(machine, asked=options.engine != "auto"))
        if options.cycles:
            from retrograd.cli.cycles import cycles_table

            print("\n" + cycles_table(machine))
    return TRAPPED if trap is not None else LIMIT if stop == Stop.LIMIT.value else OK


def prepared(options: argparse.Namespace) -> tuple[Machine, int]:
    """(the machine that the options describe, loaded and about to run; how many words were loaded beside the program's data)."""
    if options.args:
        hint = "set registers with --set and memory with --mem; for a function write FILE.py:FUNCTION"
        raise fail("RG0510", f"`{options.args[0][:60]}`: a program takes no arguments", hint)
    engine_named(options.engine)
    from_stdin = [options.program == "-", *(re.match(r"(.*=)?-(,\w+)?$", text) is not None for text in options.mem)]
    if sum(from_stdin) > 1:
        raise fail("RG0503", "standard input is read once; two files are to come from it")
    program = load_program(options.program, options.include)
    if options.inverse:
        program = ~program
    limit = _count(options.memory_limit, "--memory-limit", program)
    machine = machine_for(
        program,
        options.engine,
        backward=options.backward,
        memory=_count(options.memory, "--memory", program),
        overflow=not options.no_overflow,
        strict=options.strict,
        memory_limit=MEMORY_LIMIT if limit is None else limit,
    )
    loaded = len(options.sets)
    for text in options.mem:
        region = Region.parse(text, program, "--mem")
        if region.count is not None:
            raise fail("RG0503", f"--mem {text}: a count belongs to --out")
        words = read_words(region, program.format)
        machine.load(region.address, words)
        loaded += len(words)
    for text in options.sets:
        _set(machine, text)
    return machine, loaded


class _Progress:
    """A line on the terminal that tells how far a run has come, once that takes a while.

    Compiled code counts its steps where nobody sees them until it comes up; as long as it is down, the line tells the time.
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
        print(trap, file=sys.stderr)
        print("the machine stands before this instruction and can run back from here", file=sys.stderr)
    elif stop == Stop.LIMIT.value:
        print(Diagnostic("RG0420", f"stopped by the limit of {steps} steps").render(), file=sys.stderr)
    way = "forward" if machine.direction > 0 else "backward"
    where = f"at pc {machine.pc}" + (f", BR = {machine.br}" if machine.br else "")
    erased = f"{machine.erased_bits} bits erased"
    print(f"{stop} {where} after {steps} steps, running {way}; {erased}{engine}\n")
    print(registers_table(machine))
    memory = memory_table(machine)
    if memory:
        print("\n" + memory)


def _count(text: str | None, option: str, program: Program) -> int | None:
    if text is None:
        return None
    try:
        value = int(text, 0)
    except ValueError:
        raise fail("RG0507", f"{option}: `{text[:40]}` is no integer") from None
    if value < 0:
        raise fail("RG0507", f"{option}: {value} is negative")
    if value > sys.maxsize and option != "--max-steps":
        raise fail("RG0507", f"{option}: {value} is more than any machine has")
    return value


def _set(machine: Machine, text: str) -> None:
    """NAME=VALUE: a register, or the word at a data label."""
    name, equals, value = text.partition("=")
    labels = machine.program.data_labels
    option = f"--set {text}"
    if not equals:
        raise fail("RG0502", f"{option}: `=` is missing")
    word = constant(value, machine.format, labels, "RG0502", option)
    if name[:1] == "r" and name[1:].isdecimal() and int(name[1:]) < len(machine.registers):
        machine.registers[int(name[1:])] = word
    elif name in labels:
        machine.load(labels[name], [word])
    else:
        hint = (
            nearest(name, labels)
            or "write r0 to r255 or a data label; what `.reg` names is known to the assembler only"
        )
        raise fail("RG0502", f"{option}: `{name}` is neither a register nor a data label", hint)


def _breakpoint(text: str, program: Program) -> int:
    if text in program.labels:
        return program.labels[text]
    if text.isdecimal() and int(text) < len(program.code):
        return int(text)
    hint = nearest(text, program.labels) or f"write a code label, or an address from 0 to {len(program.code) - 1}"
    raise fail("RG0507", f"--break {text}: neither a label nor an address of the code", hint)


def extent(machine: Machine, region: Region) -> int:
    """The end of a region to save: its count, else the next data label, else the end of memory."""
    later = [a for a in machine.program.data_labels.values() if a > region.address]
    end = min([*later, len(machine.memory)]) if region.count is None else region.address + region.count
    if end > len(machine.memory) or region.address > len(machine.memory):
        raise fail("RG0505", f"--out {region.path}: words up to {end}, in a memory of {len(machine.memory)}")
    return end
