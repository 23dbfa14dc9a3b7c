"""`retrograd sweep`: functions, formats and arguments, each run once and priced by models at temperatures and clocks."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from retrograd.cli.arguments import parse_arguments
from retrograd.cli.batches import executor_of
from retrograd.cli.files import load_function
from retrograd.cli.options import Parser, fail, figures_of, step_limit
from retrograd.cli.report import print_json
from retrograd.cli.terminal import LIMIT, OK, TRAPPED
from retrograd.presentation import columns
from retrograd.simulator.energy.technology import Range, technology, with_prefix

if TYPE_CHECKING:
    from retrograd.physics.sweeps import Row
    from retrograd.runtime._reversible import Inverse, Reversible

#: reasons for missing prices that are shown
_SHOWN = 3


def arguments(p: Parser) -> None:
    """Options of `retrograd sweep`."""
    p.add_argument("functions", metavar="FILE.py:FUNCTION", nargs="+", help="~FUNCTION for its inverse")
    p.add_argument(
        "--args", metavar="ARG", nargs="*", action="append", default=[], dest="arguments",
        help="arguments of a run, as `run` and `energy` take them; may be repeated, for a run each",
    )  # fmt: skip
    p.add_argument("--format", metavar="Q,Q", help="formats such as Q32.32,Q16.16 (default: the function's)")
    p.run_options("--precision")
    p.add_argument("--tech", metavar="A,B", default="landauer", help="models, see energy (default: landauer)")
    p.add_argument("--temperature", metavar="T,T", help="such as 4.2K,300K (default: the model's)")
    p.add_argument("--frequency", metavar="F,F", help="clocks, such as 1MHz,5GHz (default: the model's)")
    p.figure_option()
    p.gates_option()
    p.distribution_options("rows are kept there, and not run again")
    p.run_options("--max-steps")
    p.add_argument("--quiet", action="store_true", help="no progress on the terminal")
    p.json_option("retrograd.energy-sweep/2")
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Run, price, show."""
    from retrograd.physics.sweeps import energy_sweep

    executor = executor_of(options)
    programs = _programs(options.functions)
    arguments = [partial(parse_arguments, texts) for texts in options.arguments or [[]]]
    rows = energy_sweep(
        programs,
        arguments,
        formats=_formats(options.format),
        techs=options.tech.split(","),
        temperatures=_listed(options.temperature),
        frequencies=_listed(options.frequency),
        figures=figures_of(options.figures),
        gates=options.gates,
        precision=options.precision,
        executor=executor,
        store=options.store,
        progress=False if options.quiet else None,
        max_steps=step_limit(options),
        traps="return",
    )
    if options.json:
        print_json("retrograd.energy-sweep/2", _as_dict(options, rows))
    else:
        print(_table(rows))
    _show_reasons(dict.fromkeys(_reason(row) for row in rows if row.why is not None))
    codes = {row.why[:6] for row in rows if row.why is not None and not _is_outside(row)}
    if not codes:
        return OK
    return LIMIT if codes == {"RG0420"} else TRAPPED


def _is_outside(row: Row) -> bool:
    return row.why is not None and row.why.startswith(("RG1108", "RG1112"))


def _reason(row: Row) -> str:
    """The reason for a missing price: of the point, or of the run."""
    return str(row.why) if _is_outside(row) else f"{row.program}, {row.format}, arguments {row.number}: {row.why}"


def _show_reasons(reasons: Iterable[str]) -> None:
    listed = [*reasons]
    for text in listed[:_SHOWN]:
        print(text, file=sys.stderr)
    if len(listed) > _SHOWN:
        print(f"… and {len(listed) - _SHOWN} more", file=sys.stderr)


# ---------------------------------------------------------------------- axes of the sweep


def _programs(texts: list[str]) -> dict[str, Reversible | Inverse]:
    """The functions by name; two functions of the same name get the texts of the command line as names."""
    found = [(text, load_function(text)) for text in texts]
    names = [f.__name__ for _, f in found]
    out: dict[str, Reversible | Inverse] = {}
    for text, f in found:
        name = f.__name__ if names.count(f.__name__) == 1 else text
        if name in out:
            raise fail("RG0510", f"{text} is given twice", "once is enough: what differs between runs is in --args")
        out[name] = f
    return out


def _formats(text: str | None) -> list[str | None]:
    """Q32.32,Q16.16 is two formats, and 32,16 one."""
    if text is None or re.fullmatch(r"\d+,\d+", text):
        return [text]
    return [*text.split(",")]


def _listed(text: str | None) -> list[str | None]:
    return [None] if text is None else [*text.split(",")]


# ---------------------------------------------------------------------- to be read


def _as_dict(options: argparse.Namespace, rows: list[Row]) -> dict[str, Any]:
    """The models with their figures and sources, and the rows, which refer to models by name."""
    models = [technology(name).as_dict() for name in options.tech.split(",")]
    figures = figures_of(options.figures)
    return {
        "arguments": [shlex.join(texts) for texts in options.arguments],
        "models": models,
        "figures": figures,
        "rows": [row._asdict() for row in rows],
    }


def _table(rows: list[Row]) -> str:
    head = ["program", "format", "arguments", "model", "at", "clock", "instructions", "bits erased", "program, in all"]
    out = [[*head, "with host and cooling"]]
    for row in rows:
        clock = "" if row.frequency is None else with_prefix(row.frequency, "Hz")
        where = [row.program, row.format, str(row.number), f"{row.technology} {row.version}", f"{row.temperature:g} K"]
        if row.why is not None:
            out.append([*where, clock, "", "", "outside the model" if _is_outside(row) else row.why[:6], ""])
            continue
        counts, price = row.counts, row.price
        program = _energy(price["program"], price["program_complete"])
        total = _energy(price["total"], price["complete"])
        out.append([*where, clock, str(counts["retired"]), str(counts["erased_bits"]), program, total])
    return columns(out, right=(2, 6, 7))


def _energy(joules: Any, complete: bool) -> str:
    """An energy as in reports: an incomplete sum is a lower bound."""
    from retrograd.physics.report import energy_text

    if isinstance(joules, str):
        return joules
    text = energy_text(Range(joules["low"], joules["value"], joules["high"]))
    return text if complete else f"≥ {text}"
