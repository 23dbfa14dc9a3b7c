"""`retrograd grad FILE.py:FUNCTION …`: gradients of a reversible function, and their cost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from retrograd.cli.arguments import argument_named, parse_arguments, plain, shown
from retrograd.cli.exit_codes import OK
from retrograd.cli.functions import function_and_inverse
from retrograd.cli.options import Parser, scale_given
from retrograd.cli.report import print_json, print_trap

if TYPE_CHECKING:
    from retrograd.derivatives import GradientReport


def arguments(p: Parser) -> None:
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


def execute(options: argparse.Namespace) -> int:
    """Run a function forward and back, and show the gradient."""
    from retrograd.derivatives import gradient_report
    from retrograd.derivatives._arguments import automatic, loss_part
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
        print_json("retrograd.gradient/1", _as_dict(f.__name__, of, report, gradients))
    else:
        _show(of, report, gradients)
        if scale == "auto" and report.scale != automatic(function.format_for())[0]:
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


def _show(loss: str, report: GradientReport, gradients: dict[str, Any]) -> None:
    labels = [f"∂{loss}/∂{name}" for name in gradients]
    width = max(map(len, [loss, *labels]))
    for label, value in zip([loss, *labels], [report.value, *gradients.values()], strict=True):
        # Rows of an array are aligned below each other.
        print(f"{label:<{width}} = " + shown(value).replace("\n", "\n" + " " * (width + 3)))
    steps = f"{report.forward_steps} steps forward, {report.backward_steps} back (× {report.ratio:.2f})"
    memory = f"{report.memory_words} words of memory, and their cotangents"
    print(f"\n{steps}; {memory}; {report.dropped_bits} bits of cotangents dropped")
    print(f"the arguments {'are' if report.inputs_restored else 'are NOT'} what they were")
