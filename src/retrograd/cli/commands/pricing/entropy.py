"""`retrograd entropy`: the information that a function loses, for a distribution of its arguments."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrograd.cli.arguments import parse_arguments
from retrograd.cli.files import function_and_inverse
from retrograd.cli.options import Parser, fail, integer, refuse_options_of_programs, step_limit
from retrograd.cli.report import print_json, print_trap
from retrograd.cli.terminal import OK

if TYPE_CHECKING:
    from retrograd.runtime._reversible import Reversible

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_WORDS = "words"


def arguments(p: Parser) -> None:
    """Options of `retrograd entropy`."""
    p.add_argument("program", metavar="FILE.py:FUNCTION", help="the function, or ~FUNCTION for its inverse")
    p.function_arguments(
        "for each argument, its values, which are uniform and independent: NAME=0..63, NAME=1.5,2.5, NAME=[1,2],[3,4], or NAME=words for all words"
    )
    p.add_argument("--prior", metavar="NAME=VALUES", action="append", default=[],
                   help="the values for which a device of the function was made, where they are others; may be repeated")  # fmt: skip
    p.add_argument("--erase", action="store_true", help="in erase mode: routines are erased, not uncomputed")
    p.add_argument("--condition", action="store_true", help="leave out inputs that trap")
    p.add_argument(
        "--samples", metavar="N", default="4096", help="draws, where there are more than 65536 inputs (default: 4096)"
    )
    p.add_argument("--seed", metavar="N", default="0", help="of the draws (default: 0)")
    p.add_argument("--temperature", metavar="T", default="300K", help="of the erasures (default: 300K)")
    p.run_options("--format", "--max-steps")
    p.json_option("retrograd.entropy/1")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Run the function on all inputs, or on samples, and show its entropies."""
    from retrograd.physics.entropy import entropy
    from retrograd.runtime._execution import ProgramTrap

    refuse_options_of_programs(options)
    function, inverse = function_and_inverse(options.program, options)
    if options.erase:
        if inverse:
            raise fail("RG0512", "--erase is for functions that run forward: a program that erases has no inverse")
        function = function.with_options(erase=True)
    given = _values(function, options.args)
    prior = {**given, **_values(function, options.prior)} if options.prior else None
    try:
        found = entropy(
            ~function if inverse else function,
            given,
            prior=prior,
            samples=integer(options.samples, "--samples", 1, "number of samples"),
            seed=integer(options.seed, "--seed", 0),
            traps="condition" if options.condition else "raise",
            temperature=options.temperature,
            max_steps=step_limit(options),
        )
    except ProgramTrap as trap:
        return print_trap(trap)
    if options.json:
        print_json("retrograd.entropy/1", found.as_dict())
    else:
        print(found)
    return OK


def _values(function: Reversible, texts: Sequence[str]) -> dict[str, Any]:
    """name -> values, of `NAME=VALUES`. Raises InputError RG0510."""
    found: dict[str, Any] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if not values or not name.isidentifier():
            raise fail("RG0510", f"`{text[:60]}` gives no values", "write NAME=0..63, NAME=1.5,2.5 or NAME=words")
        if name in found:
            raise fail("RG0510", f"`{name}` is given twice", "Give each argument once.")
        if values == _WORDS:
            found[name] = values
        elif span := _RANGE.fullmatch(values):
            found[name] = range(int(span[1]), int(span[2]) + 1)
        else:
            found[name] = [parse_arguments([f"{name}={item}"], function)[1][name] for item in _items(values)]
    return found


def _items(text: str) -> list[str]:
    """The values between commas, outside of brackets."""
    try:
        return [ast.unparse(item) for item in ast.parse(f"[{text}]", mode="eval").body.elts]  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, AttributeError, RecursionError, MemoryError):
        return [text]  # the message is that of a single value
