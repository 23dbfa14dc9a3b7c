"""`retrograd energy`: a run counted and priced; models compared; erase or uncompute; plots."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.cli.arguments import parse_arguments
from retrograd.cli.batches import executor_of
from retrograd.cli.files import (
    extent,
    function_and_direction,
    function_and_inverse,
    is_function,
    load_function,
    output_regions,
    prepared,
    write_words,
)
from retrograd.cli.options import Parser, fail, figures_of, integer, refuse_options_of_programs, step_limit
from retrograd.cli.records import MachineOptions, ProgramOptions, SharingOptions
from retrograd.cli.report import print_json, print_limit, print_trap, show_errors
from retrograd.cli.terminal import LIMIT, OK, TRAPPED
from retrograd.isa.files import check_output, replacing
from retrograd.presentation import columns
from retrograd.simulator.energy.counts import host_traffic
from retrograd.simulator.energy.technology import Range, shipped, technology, with_prefix

if TYPE_CHECKING:
    from retrograd.compiler.compiled import Precision
    from retrograd.physics.report import EnergyReport
    from retrograd.physics.sweeps import Row
    from retrograd.runtime._reversible import Inverse, Reversible

#: file names that matplotlib writes
_PICTURES = (".png", ".svg", ".pdf")
#: the kind of plot that observes every step
_TIME = "time"


class EnergyOptions(MachineOptions):
    json: bool
    models: bool
    compare: str | None
    scope: str | None
    tech: str | None
    temperature: str | None
    frequency: str | None
    figures: Sequence[str]
    gates: str | None
    activity: str | None
    advise: bool
    lines: bool
    timeline: bool
    plot: str | None
    plot_kind: str


def arguments_of_energy(p: Parser) -> None:
    """Options of `retrograd energy`."""
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE]", nargs="?")
    p.function_arguments()
    p.run_options()
    p.add_argument("--models", action="store_true", help="list the models")
    p.add_argument("--compare", metavar="A,B", help="several models beside each other")
    p.add_argument(
        "--scope", metavar="PARTS",
        help="what --compare compares: common, or parts such as logic,memory (default: all, if all models have the same)",
    )  # fmt: skip
    p.technology_options("a model's name (see --models), or a TOML file (default: landauer)")
    p.gates_option()
    p.activity_option()
    p.add_argument("--advise", action="store_true", help="for each routine: erase or uncompute, and why")
    p.add_argument("--lines", action="store_true", help="print the source, with the cost of each line")
    p.add_argument("--timeline", action="store_true", help="look at every step: bits toggled, and live over time")
    p.add_argument("--plot", metavar="FILE", help="draw it: .png, .svg or .pdf")
    p.add_argument(
        "--plot-kind", choices=("causes", "frequency", "delay", "time"), default="causes",
        help="energy by cause (default), against the clock, against the time of the run; bits over time",
    )  # fmt: skip
    p.json_option("retrograd.energy/1", "energy-comparison/1", "energy-advice/1 or technologies/1")
    p.size_options(arrays=True)


def execute_energy(options: EnergyOptions) -> int:
    """Count, price, show."""
    if options.models:
        return _show_models(options.json)
    if not options.program:
        raise fail(
            "RG0512", "nothing to run", "write FILE.py:FUNCTION, an assembly text or an image; --models lists models"
        )
    _check(options)
    if options.plot is not None:
        check_output(options.plot)
    techs = options.compare.split(",") if options.compare else [options.tech or "landauer"]
    how = _how(options)
    if options.advise:
        return _advise(options, techs[0], {key: value for key, value in how.items() if key != "activity"})
    # Errors in a model are reported before anything runs.
    each = [_fitting(tech, how, alone=len(techs) == 1) for tech in techs]
    for name in how["figures"]:
        if not any(name in one["figures"] for one in each):
            hint = "its models have no such figure; `retrograd energy --models` shows what they leave open"
            raise fail("RG1109", f"--compare {options.compare}: `{name}` is none of their figures", hint)
    # A model that prices by addresses needs a run that is observed; the others price the same run.
    first = next((k for k, tech in enumerate(techs) if technology(tech).by_addresses), 0)
    run = _function_report if is_function(options.program) else _program_report
    found = run(options, techs[first], each[first])
    if isinstance(found, int):
        return found
    reports = [found.priced_by(tech, **one) for tech, one in zip(techs, each, strict=True)]
    reports[first] = found
    if options.compare:
        from retrograd.physics.report import compared

        reports = compared(reports, options.scope)
    if options.plot is not None:
        from retrograd.physics.plots import KINDS

        _save(KINDS[options.plot_kind](reports), options.plot)
    if options.json:
        documents = [r.as_dict() for r in reports]
        if options.compare is None:
            print_json("retrograd.energy/1", documents[0])
        else:
            ratios = [r.ratio_to(reports[0]).as_dict() for r in reports]
            print_json("retrograd.energy-comparison/1", {"reports": documents, "ratios_to_the_first": ratios})
    elif options.compare:
        print(_compared(reports))
    else:
        print(found.annotated() if options.lines else found)
    return OK


def _check(options: EnergyOptions) -> None:
    """Raise InputError RG0512 for options that exclude each other."""
    if options.plot is not None and not options.plot.endswith(_PICTURES):
        raise fail("RG0512", f"--plot {options.plot[:60]}: no picture", f"the name ends in {', '.join(_PICTURES)}")
    if options.plot is None and options.plot_kind != "causes":
        raise fail("RG0512", "--plot-kind is for --plot")
    if options.tech is not None and options.compare is not None:
        raise fail("RG0512", "--tech is one model, and --compare several", "name all in --compare")
    if options.scope is not None and options.compare is None:
        raise fail("RG0512", "--scope is for comparisons", "name the models: --compare A,B")
    if options.scope is not None and options.plot is not None and options.plot_kind in ("frequency", "delay"):
        raise fail("RG0512", f"--plot-kind {options.plot_kind} draws whole prices", "leave out --scope")
    if options.batch is None and options.shared:
        raise fail("RG0512", "--shared is for batches", "name the arrays: --batch FILE.npz")
    if options.batch is not None:
        if not is_function(options.program):
            raise fail("RG0512", "--batch is for functions: a program does not say what its arguments are")
        if options.advise or _look(options):
            raise fail("RG0512", "--batch prices many runs: --advise, and bits over time, are of one")
    if options.lines and (options.json or options.compare or options.advise):
        raise fail(
            "RG0512", "--lines prints one source by one model, as text", "leave out --json, --compare and --advise"
        )
    if options.advise and options.activity is not None:
        raise fail("RG0512", "--advise compares programs, and --activity is of one", "leave out --activity")
    if options.advise and options.timeline:
        raise fail("RG0512", "--advise looks at whole runs: --timeline is for one that is shown")
    if options.advise and (options.compare or options.plot is not None):
        raise fail("RG0512", "--advise goes by one model, and draws nothing", "name the model: --tech")
    if options.advise and not is_function(options.program):
        raise fail("RG0512", "--advise is for functions: a program says nothing of routines", "write FILE.py:FUNCTION")


def _how(options: EnergyOptions) -> dict[str, Any]:
    return {
        "temperature": options.temperature, "frequency": options.frequency, "figures": figures_of(options.figures),
        "gates": options.gates, "activity": options.activity,
    }  # fmt: skip


def _fitting(tech: str, how: dict[str, Any], *, alone: bool) -> dict[str, Any]:
    """The pricing terms with the figures that this model has. A model that is `alone` gets all figures, and refuses unknown names."""
    model = technology(tech)
    known = {name for charge in model.charges for name in charge.figures}
    figures = {name: value for name, value in how["figures"].items() if alone or name in known}
    activity = how["activity"] if alone or model.by_activity else None
    return {**how, "figures": figures, "activity": activity}


def _look(options: EnergyOptions) -> bool:
    return bool(options.timeline) or (options.plot is not None and options.plot_kind == _TIME)


# ---------------------------------------------------------------------- runs


def _function_report(options: EnergyOptions, tech: str, how: dict[str, Any]) -> EnergyReport | int:
    from retrograd.physics.energy import energy
    from retrograd.runtime._binding import bind
    from retrograd.runtime._execution import ProgramTrap

    function, backward = function_and_direction(options)
    if options.no_overflow:
        raise fail("RG0512", f"--no-overflow is for assembly and images, and `{options.program}` is a function")
    f: Any = ~function if backward else function
    if options.batch is None:
        args, keywords = parse_arguments(options.args, function)
        values: list[Any] = bind(function, args, keywords)
    else:
        from retrograd.cli.batches import batch_values
        from retrograd.runtime._batches import vmap

        values, in_axes = batch_values(function, options)
        f = vmap(f, in_axes)
    try:
        return energy(
            f,
            *values,
            tech=tech,
            engine=options.engine,
            max_steps=step_limit(options.max_steps),
            timeline=_look(options),
            **how,
        )
    except ProgramTrap as trap:
        return print_trap(trap)


def _program_report(options: EnergyOptions, tech: str, how: dict[str, Any]) -> EnergyReport | int:
    from retrograd.physics.report import report_of, with_way_back
    from retrograd.simulator.energy.counts import Ledger
    from retrograd.simulator.energy.pricing import pricing_context
    from retrograd.simulator.machine import Stop, Trap

    limit = step_limit(options.max_steps)
    machine, loaded, _ = prepared(options)
    program = machine.program
    by = pricing_context(tech, program.format, **how)
    outputs = output_regions(machine, options.out)
    copied = sum(extent(machine, region) - region.address for region in outputs)
    look, addresses = _look(options), by.technology.by_addresses
    ledger = Ledger(machine, addresses=addresses, silent=not look) if look or addresses else None
    try:
        outcome = machine.run(limit, observe=ledger)
    except Trap as trap:
        return show_errors(trap, as_json=False)
    if outcome.stop is Stop.LIMIT:
        print_limit(outcome.steps)
        return LIMIT
    for region in outputs:
        write_words(region, machine.memory[region.address : extent(machine, region)], program.format)
    report = report_of(machine, Path(options.program).name, by, host_traffic(program, loaded, copied), ledger=ledger)
    return report if report.ledger is None else with_way_back(report, machine, report.ledger)


def _advise(options: EnergyOptions, tech: str, how: dict[str, Any]) -> int:
    from retrograd.physics.advice import advise
    from retrograd.runtime._binding import bind
    from retrograd.runtime._execution import ProgramTrap

    function, backward = function_and_direction(options)
    if backward:
        raise fail("RG0512", "--advise is for functions that run forward: what erases has no inverse")
    args, keywords = parse_arguments(options.args, function)
    values = bind(function, args, keywords)
    try:
        found = advise(function, *values, tech=tech, max_steps=step_limit(options.max_steps), **how)
    except ProgramTrap as trap:
        return print_trap(trap)
    if options.json:
        print_json("retrograd.energy-advice/1", found.as_dict())
    else:
        print(found)
    return OK


# ---------------------------------------------------------------------- to be read


def _show_models(as_json: bool) -> int:
    models = [technology(name) for name in shipped()]
    if as_json:
        print_json("retrograd.technologies/1", {"models": [m.as_dict() for m in models]})
        return OK
    rows = [["model", "version", "", "left open"]]
    rows += [[m.id, m.version, m.title, ", ".join(m.open)] for m in models]
    print(columns(rows))
    return OK


def _compared(reports: list[EnergyReport]) -> str:
    """One column for each model, one row for each cause."""
    from retrograd.physics.report import energy_text, program_text, to_give, total_text
    from retrograd.simulator.energy.technology import PARTS

    prices = [r.price for r in reports]
    rows = [["cause", *(f"{p.technology.id}, {p.temperature:g} K" for p in prices)]]
    scope = reports[0].by.scope
    rows += [[cause, *(energy_text(p.of(cause)) for p in prices)] for cause in prices[0].causes]
    rows.append(["program, in all", *(program_text(p) for p in prices)])
    rows.append(["with host and cooling" if scope is None else "with cooling", *(total_text(p) for p in prices)])
    rows.append(["program, over the first", *(str(r.ratio_to(reports[0])) for r in reports)])
    c = reports[0].counts
    head = f"{reports[0].name}: {c.retired} instructions, {c.cycles} cycles, {c.erased_bits} bits erased"
    if scope is not None:
        head += f"\nscope: {', '.join(part for part in PARTS if part in scope)}"
    lacking = [line for line in (to_give(p.technology) for p in prices) if line]
    return "\n".join([head, "", columns(rows), *lacking])


def _save(figure: Any, path: str) -> None:
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format=Path(path).suffix.removeprefix("."))


# -----------------------------------------------------------------------------
# `retrograd entropy`: the information that a function loses, for a distribution of its arguments.

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_WORDS = "words"


class EntropyOptions(ProgramOptions):
    json: bool
    prior: Sequence[str]
    erase: bool
    condition: bool
    samples: str
    seed: str
    temperature: str
    max_steps: str | None


def arguments_of_entropy(p: Parser) -> None:
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


def execute_entropy(options: EntropyOptions) -> int:
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
            max_steps=step_limit(options.max_steps),
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


# -----------------------------------------------------------------------------
# `retrograd sweep`: functions, formats and arguments, each run once and priced by models at temperatures and clocks.

#: reasons for missing prices that are shown
_SHOWN = 3


class SweepOptions(SharingOptions):
    json: bool
    functions: Sequence[str]
    arguments: Sequence[Sequence[str]]
    format: str | None
    precision: Precision | None
    tech: str
    temperature: str | None
    frequency: str | None
    figures: Sequence[str]
    gates: str | None
    max_steps: str | None
    export: str | None
    quiet: bool


def arguments_of_sweep(p: Parser) -> None:
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
    p.add_argument("--export", metavar="FILE", help="write the rows as a table, too: .csv or .parquet")
    p.run_options("--max-steps")
    p.add_argument("--quiet", action="store_true", help="no progress on the terminal")
    p.json_option("retrograd.energy-sweep/2")
    p.size_options()


def execute_sweep(options: SweepOptions) -> int:
    """Run, price, show."""
    from retrograd.physics.sweeps import check_table, energy_sweep, export_rows

    if options.export is not None:
        check_table(options.export)
        check_output(options.export)
    executor = executor_of(options)
    programs = _programs(options.functions)
    arguments_of_sweep = [partial(parse_arguments, texts) for texts in options.arguments or [[]]]
    rows = energy_sweep(
        programs,
        arguments_of_sweep,
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
        max_steps=step_limit(options.max_steps),
        traps="return",
    )
    if options.export is not None:
        export_rows(rows, options.export)
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


def _programs(texts: Sequence[str]) -> dict[str, Reversible | Inverse]:
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


def _as_dict(options: SweepOptions, rows: list[Row]) -> dict[str, Any]:
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
