"""The session of a program, as options describe it: a program, a function, the way back of a gradient, an expression of VLAD."""

from __future__ import annotations

import argparse

from retrograd.cli.files import input_path
from retrograd.cli.options import fail, integer, refuse_options_of_programs
from retrograd.cli.programs import opened, opened_way_back
from retrograd.observe._session import Session
from retrograd.observe._timeline import load_state
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine


def opened_session(options: argparse.Namespace) -> Session:
    """A session at the beginning, or in the state of --resume. Raises InputError, CompileError, ProgramTrap."""
    if options.program.endswith(".vlad"):
        return Session(_opened_vlad(options))
    if options.expression is not None:
        raise fail("RG0512", "--expression is for files of VLAD")
    if options.loss is not None:
        return Session(opened_way_back(options))
    machine, _ = opened(options)
    return Session(machine, 0 if options.resume is None else load_state(options.resume, machine))


def _opened_vlad(options: argparse.Namespace) -> Machine:
    """The machine of an expression of FILE.vlad, the first one if no number is given. Raises InputError, CompileError."""
    from retrograd.derivatives._functional import load_vlad, machine_of

    refuse_options_of_programs(options)
    if options.loss is not None:
        raise fail("RG0512", "--loss is for functions: an expression of VLAD has no arguments")
    if options.args or options.backward or options.inverse:
        raise fail("RG0512", "a file of VLAD has no arguments and no direction", "choose an expression: --expression N")
    engine_named(options.engine)
    file = load_vlad(input_path(options.program))
    number = 1 if options.expression is None else integer(options.expression, "--expression", 1)
    if number > len(file.expressions):
        raise fail("RG0507", f"--expression {number}: the file has {len(file.expressions)} expressions")
    return machine_of(
        file.expressions[number - 1],
        format=options.format or file.format,
        engine=options.engine,
        overflow=not options.no_overflow,
    )
