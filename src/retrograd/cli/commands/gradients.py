"""`retrograd grad FILE.py:FUNCTION …`: gradients of a reversible function, and what they cost."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from retrograd.cli.commands.functions import load_function, parse_arguments, parse_format, plain, shown
from retrograd.cli.files import fail
from retrograd.cli.main import OK, TRAPPED

if TYPE_CHECKING:
    from retrograd.differentiation import GradientReport


def gradient_command(options: argparse.Namespace) -> int:
    """Run a function forward and back, and show the gradient; returns the exit code."""
    from retrograd.cli.report import show_errors
    from retrograd.differentiation import gradient_report
    from retrograd.functions.execution import ProgramTrap
    from retrograd.functions.reversible import Inverse

    function = load_function(options.function)
    if options.format is not None:
        w = parse_format(options.format)
        inverse = isinstance(function, Inverse)
        plain_function = ~function if isinstance(function, Inverse) else function
        changed = plain_function.with_options(format=w)
        function = ~changed if inverse else changed
    args, keywords = parse_arguments(options.args, ~function if isinstance(function, Inverse) else function)
    wrt = None if options.wrt is None else [_which(text) for text in options.wrt]
    loss, scale = _which(options.loss), _integer(options.scale)
    try:
        report = gradient_report(function, wrt, loss, scale=scale)(*args, **keywords)
    except ProgramTrap as trap:
        if options.json:
            show_errors(trap, as_json=True)
            return TRAPPED
        print(trap, file=sys.stderr)
        print(f"the machine trapped after {trap.machine.retired} steps, and can run back from there", file=sys.stderr)
        return TRAPPED
    parameters = [p.name for p in (~function if isinstance(function, Inverse) else function).parameters]
    of = parameters[loss] if isinstance(loss, int) else loss
    if wrt is None:
        gradients = report.gradients._asdict()
    else:
        names = [parameters[w] if isinstance(w, int) else w for w in wrt]
        gradients = dict(zip(names, report.gradients, strict=True))
    if options.json:
        print(json.dumps(_as_dict(function.__name__, of, scale, report, gradients), indent=2))
    else:
        _show(of, report, gradients)
    return OK


def _which(text: str) -> int | str:
    """An argument by name, or by position."""
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else text


def _integer(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise fail("RG0507", f"--scale: `{text[:40]}` is no integer") from None


def _as_dict(name: str, loss: str, scale: int, report: GradientReport, gradients: dict[str, Any]) -> dict[str, Any]:
    """The report for programs: schema retrograd.gradient/1."""
    return {
        "schema": "retrograd.gradient/1", "function": name, "loss": loss, "scale": scale, "value": report.value,
        "gradients": {name: plain(value) for name, value in gradients.items()},
        "forward_steps": report.forward_steps, "backward_steps": report.backward_steps, "ratio": report.ratio,
        "memory_words": report.memory_words, "dropped_bits": report.dropped_bits,
        "inputs_restored": report.inputs_restored,
    }  # fmt: skip


def _show(loss: str, report: GradientReport, gradients: dict[str, Any]) -> None:
    labels = [f"∂{loss}/∂{name}" for name in gradients]
    width = max(map(len, [loss, *labels]))
    for label, value in zip([loss, *labels], [report.value, *gradients.values()], strict=True):
        # The rows of an array stand below each other.
        print(f"{label:<{width}} = " + shown(value).replace("\n", "\n" + " " * (width + 3)))
    steps = f"{report.forward_steps} steps forward, {report.backward_steps} back (× {report.ratio:.2f})"
    memory = f"{report.memory_words} words of memory, and their cotangents"
    print(f"\n{steps}; {memory}; {report.dropped_bits} bits of cotangents dropped")
    print(f"the arguments {'are' if report.inputs_restored else 'are NOT'} what they were")
