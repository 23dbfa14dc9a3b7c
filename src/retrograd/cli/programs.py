"""Programs on machines as the command line describes them: limits, registers, memory from files, memory to files."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retrograd.cli.files import Region, constant, read_program, read_words
from retrograd.cli.functions import function_and_direction, is_function
from retrograd.cli.options import fail, integer, refuse_options_of_functions
from retrograd.isa.diagnostics import nearest
from retrograd.isa.files import check_output
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import MEMORY_LIMIT, Machine

if TYPE_CHECKING:
    from retrograd.compiler.compiled import Compiled
    from retrograd.derivatives._gradients import GradientFunction


def opened(options: argparse.Namespace) -> tuple[Machine, Compiled | None]:
    """(the machine at the beginning of a program or of FILE.py:FUNCTION with its arguments, the compiled function)."""
    if not is_function(options.program):
        return prepared(options)[0], None
    from retrograd.cli.arguments import parse_arguments
    from retrograd.runtime._binding import bind
    from retrograd.runtime._execution import load

    function, backward = function_and_direction(options)
    args, keywords = parse_arguments(options.args, function)
    given = bind(function, args, keywords)
    compiled = function.compiled_for(function.types_of(given), function.format_for())
    overflow = not options.no_overflow
    return load(compiled, given, backward=backward, overflow=overflow, engine=options.engine), compiled


def gradient_of(options: argparse.Namespace) -> tuple[GradientFunction, list[Any], dict[str, Any]]:
    """(the gradient of the argument --loss of FILE.py:FUNCTION, its arguments). Raises InputError RG0512 for programs."""
    if not is_function(options.program):
        raise fail("RG0512", "--loss is for functions: a program has no arguments")
    from retrograd.cli.arguments import argument_named, parse_arguments
    from retrograd.derivatives import grad

    function, backward = function_and_direction(options)
    args, keywords = parse_arguments(options.args, function)
    f = grad(~function if backward else function, None, argument_named(options.loss), format=function.format_for())
    return f, args, keywords


def opened_way_back(options: argparse.Namespace) -> Machine:
    """The machine of a gradient at the beginning of its way back. Raises InputError, ProgramTrap."""
    from retrograd.runtime._execution import execute

    f, args, keywords = gradient_of(options)
    run = replace(f.requested.run, engine=options.engine)
    values = run.values(tuple(args), keywords)
    way_back = f.requested.way_back(run, values)
    machine = run.machine(way_back.compiled, values)
    execute(way_back.compiled, machine)
    way_back.begin(machine)
    return machine


def prepared(options: argparse.Namespace) -> tuple[Machine, int]:
    """(the machine, loaded and ready to run; the number of words loaded beside the program's data).

    Raises InputError, AssemblyError, ImageError, VerificationError.
    """
    refuse_options_of_functions(options)
    engine_named(options.engine)
    from_stdin = [options.program == "-", *(re.match(r"(.*=)?-(,\w+)?$", text) is not None for text in options.mem)]
    if sum(from_stdin) > 1:
        raise fail("RG0503", "standard input is read once; two files are to come from it")
    program, options.is_pisa = read_program(options.program, options.include)
    if options.inverse:
        program = ~program
    limit = _words(options.memory_limit, "--memory-limit")
    machine = machine_for(
        program,
        options.engine,
        backward=options.backward,
        memory=_words(options.memory, "--memory"),
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


def _words(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    count = integer(text, option, 0)
    if count > sys.maxsize:
        raise fail("RG0507", f"{option}: {count} is more than any machine has")
    return count


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
    elif name in machine.program.register_names:
        machine.registers[machine.program.register_names[name]] = word
    elif name in labels:
        machine.load(labels[name], [word])
    else:
        known = [*labels, *machine.program.register_names]
        hint = nearest(name, known) or "write r0 to r255, a name of `.reg` in a text, or a data label"
        raise fail("RG0502", f"{option}: `{name}` is neither a register nor a data label", hint)


def output_regions(machine: Machine, texts: list[str]) -> list[Region]:
    """The regions of --out, checked before anything runs. Raises InputError RG0503, RG0505, RG0513."""
    regions = [Region.parse(text, machine.program, "--out") for text in texts]
    for region in regions:
        extent(machine, region)
        check_output(region.path)
    return regions


def extent(machine: Machine, region: Region) -> int:
    """The address after a region to save: its count, else the next data label, else the end of memory."""
    later = [a for a in machine.program.data_labels.values() if a > region.address]
    end = min([*later, len(machine.memory)]) if region.count is None else region.address + region.count
    if end > len(machine.memory) or region.address > len(machine.memory):
        raise fail("RG0505", f"--out {region.path}: words up to {end}, in a memory of {len(machine.memory)}")
    return end
