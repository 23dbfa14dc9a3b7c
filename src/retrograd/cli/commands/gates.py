"""`retrograd gates`: reversible netlists of instructions and functions, and files of netlists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.cli.arguments import parse_arguments
from retrograd.cli.files import is_function, load_function, read_bytes
from retrograd.cli.options import Parser, fail, figures_of, integer, opcodes_named
from retrograd.cli.records import FunctionOptions
from retrograd.cli.report import print_json
from retrograd.cli.terminal import OK, WRONG
from retrograd.isa.diagnostics import printable
from retrograd.isa.files import check_output, write_file
from retrograd.isa.words import format_of
from retrograd.presentation import columns

if TYPE_CHECKING:
    from retrograd.hdl.reversible.circuit import Circuit
    from retrograd.hdl.reversible.formats import Netlist

#: options of netlists that are made here, and those of instructions only
_MADE = ("strategy", "budget", "format", "trap", "cotangents")
#: the format of netlists that are made here, where --format does not name another
_FORMAT = "16,8"
_OF_OPCODES = ("trap", "cotangents")


class GatesOptions(FunctionOptions):
    json: bool
    what: str
    files: Sequence[str]
    strategy: str | None
    budget: str | None
    trap: bool
    by: str
    cotangents: bool
    input: str | None
    real: str | None
    qasm: str | None
    qasm_version: str | None
    reset: bool
    draw: str | None
    irreversible: bool
    tech: str | None
    temperature: str | None
    frequency: str | None
    figures: Sequence[str]
    garbage: str | None
    seconds: str


def arguments_of_gates(p: Parser) -> None:
    """Options of `retrograd gates`."""
    p.add_argument(
        "what",
        metavar="OPCODE",
        help="such as fmul.add; FILE.py:FUNCTION; FILE.real or FILE.qasm; or check, and two files",
    )
    p.add_argument(
        "files", nargs="*", metavar="FILE",
        help="of check: two netlists, .real or .qasm; of a function: examples of its arguments, where annotations leave shapes open",
    )  # fmt: skip
    p.add_argument(
        "--format", metavar="W,F", help=f"word width and fraction, such as 32,16 or Q16.16 (default: {_FORMAT})"
    )
    p.add_argument(
        "--strategy", choices=("bennett", "eager", "garbage", "pebble"),
        help="when intermediate values are undone: bennett (the default), eager, garbage (never), pebble (as --budget needs)",
    )  # fmt: skip
    p.add_argument(
        "--budget", metavar="N", help="ancillas at most; values are computed again where there is no room for them"
    )
    p.add_argument("--trap", action="store_true", help="of an instruction: with a line that is 1 where it traps")
    p.add_argument("--cotangents", action="store_true", help="of an instruction: with the cotangents of the words")
    p.add_argument(
        "--input", metavar="BITS", help="of a file: simulate it on a bit for each input line, in their order"
    )
    p.add_argument("--real", metavar="FILE", help="write the netlist as .real 2.0")
    p.add_argument("--qasm", metavar="FILE", help="write the netlist as OpenQASM")
    p.add_argument("--qasm-version", choices=("2", "3"), help="of --qasm (default: 3)")
    p.add_argument(
        "--reset",
        action="store_true",
        help="of --qasm: set the ancillas to 0, for readers that take all lines as inputs",
    )
    p.add_argument("--draw", metavar="FILE.svg", help="draw a short netlist")
    p.add_argument(
        "--irreversible", action="store_true",
        help="the same function in gates that lose information: AND, XOR, MAJ3, MUX; with splitters and buffers",
    )  # fmt: skip
    p.technology_options("price one evaluation by this model (see `retrograd energy --models`)")
    p.add_argument(
        "--garbage", choices=("erased", "left"),
        help="whether the price includes the erasure of garbage (the default), or leaves it out",
    )  # fmt: skip
    p.add_argument(
        "--by", choices=("name", "position"), default="name",
        help="of check: which lines correspond, those of one name (the default), or those of one place, for files of other programs",
    )  # fmt: skip
    p.add_argument("--seconds", metavar="N", default="60", help="of check: for the solver at most (default: 60)")
    p.size_options()
    p.json_option("retrograd.netlist/1", "retrograd.netlist-energy/1 or retrograd.equivalence/1")


def execute_gates(options: GatesOptions) -> int:
    """Count, write, simulate or compare."""
    for path in (options.real, options.qasm, options.draw):
        if path is not None:
            check_output(path)
    if options.draw is not None and Path(options.draw).suffix != ".svg":
        raise fail("RG0512", f"--draw {options.draw[:60]}: no drawing in SVG", "the name ends in .svg")
    for option in ("qasm_version", "reset"):
        if getattr(options, option) and options.qasm is None:
            raise fail(
                "RG0512", f"--{option.replace('_', '-')} is for OpenQASM", "name the file that is written: --qasm"
            )
    if options.what == "check":
        return _check(options)
    if options.files and not is_function(options.what):
        raise fail("RG0512", f"`{options.files[0][:60]}`: only `check` and functions take arguments behind them")
    return _show(options)


def _read(path: str) -> Netlist:
    from retrograd.hdl.reversible.formats import read_real
    from retrograd.hdl.reversible.openqasm import read_qasm

    # Bytes that are no text become characters that the reader refuses, with their place. Some editors begin with a
    # mark of the encoding.
    text = read_bytes(path).decode(errors="replace").removeprefix("\ufeff")
    return (read_qasm if Path(path).suffix == ".qasm" else read_real)(text, path)


def _show(options: GatesOptions) -> int:
    from retrograd.hdl.reversible.circuit import count, simulate
    from retrograd.hdl.reversible.formats import netlist as named
    from retrograd.hdl.reversible.formats import write_real

    is_file = options.what.endswith((".real", ".qasm"))
    if is_file:
        given = next((name for name in _MADE if getattr(options, name)), None)
        if given is not None:
            raise fail("RG0512", f"--{given} is for instructions and functions, and `{options.what[:60]}` is a netlist")
        net = _read(options.what)
        # A circuit of a file has no ancillas but the constants of its header.
        counts = count(net.circuit()).as_dict() | {"ancillas": len(net.constants)}
    else:
        if options.input is not None:
            raise fail(
                "RG0512", "--input is for netlists in files", "write the netlist with --real, and simulate the file"
            )
        circuit = (_of_function if is_function(options.what) else _of_opcode)(options)
        net, counts = named(circuit), count(circuit).as_dict()
    if options.tech is not None or options.irreversible:
        return _priced(options, net.with_constants() if is_file else circuit)
    for option in ("temperature", "frequency", "figures", "garbage"):
        if getattr(options, option):
            raise fail("RG0512", f"--{option.removesuffix('s')} is for prices", "name the model: --tech")
    result = None
    if options.input is not None:
        places = [i for i in range(len(net.names)) if i not in net.constants]
        if len(options.input) != len(places) or set(options.input) - set("01"):
            lines = " ".join(net.names[i] for i in places)[:120]
            hint = "a digit for each input line, in their order"
            raise fail("RG0507", f"--input has {len(places)} digits 0 or 1: {lines}", hint)
        state = [net.constants.get(i, 0) for i in range(len(net.names))]
        for i, digit in zip(places, options.input, strict=True):
            state[i] = int(digit)
        result = dict(zip(net.names, simulate(net.gates, state, 1), strict=True))
    if options.real is not None:
        write_file(options.real, write_real(net))
    if options.qasm is not None:
        from retrograd.hdl.reversible.openqasm import write_qasm

        write_file(options.qasm, write_qasm(net, version=int(options.qasm_version or 3), reset=options.reset))
    if options.draw is not None:
        from retrograd.hdl.reversible.formats import draw_svg

        write_file(options.draw, draw_svg(net, options.what))
    if options.json:
        told = {name: _shown(value) if _long(value) else value for name, value in counts.items()}
        print_json("retrograd.netlist/1", {"netlist": options.what, "counts": told, "lines": result})
        return OK
    rows = [[name.replace("_", " "), _shown(value)] for name, value in counts.items() if not isinstance(value, dict)]
    controls = counts["mct"]
    assert isinstance(controls, dict)
    rows += [[f"x with {k} controls", str(n)] for k, n in controls.items()]
    print(columns(rows, right=[1]))
    if result is not None:
        print("\n".join(f"{printable(name)} = {bit}" for name, bit in result.items()))
    return OK


def _long(value: object) -> bool:
    """Whether a count has more digits than a reader of JSON takes: the cost of a gate of n lines may be 2ⁿ − 3."""
    return isinstance(value, int) and value >= 10**300


def _shown(value: object) -> str:
    if not _long(value):
        return str(value)
    assert isinstance(value, int)
    power = int((value.bit_length() - 1) * math.log10(2))
    lead = value // 10 ** (power - 3)
    return f"{lead / 1000:.4g}e{power}" if lead < 10000 else f"{lead / 10000:.4g}e{power + 1}"


def _priced(options: GatesOptions, circuit: Circuit) -> int:
    """The price of one evaluation, or the gates of the irreversible netlist."""
    from retrograd.hdl.reversible.irreversible import levels_of, network_of
    from retrograd.physics._derived import energy_of_netlist

    for option in ("input", "real", "qasm", "draw"):
        if getattr(options, option) is not None:
            raise fail("RG0512", f"--{option} is for reversible netlists without a price")
    chosen = network_of(circuit) if options.irreversible else circuit
    if options.tech is not None:
        at = {
            "temperature": options.temperature,
            "frequency": options.frequency,
            "figures": figures_of(options.figures),
        }
        found = energy_of_netlist(chosen, options.what, options.garbage or "erased", options.tech, **at)
        if options.json:
            print_json("retrograd.netlist-energy/1", found.as_dict())
        else:
            print(found)
        return OK
    net = network_of(circuit)
    counts, levels = net.counts(), levels_of(net)
    if options.json:
        document = {"netlist": options.what, "counts": counts, "in_levels": levels.as_dict(), "lines": None}
        print_json("retrograd.netlist/1", document)
        return OK
    rows = [[kind, str(n)] for kind, n in counts.items()]
    rows += [["levels", str(levels.levels)], *([f"in levels: {k}", str(n)] for k, n in sorted(levels.cells.items()))]
    print(columns(rows, right=[1]))
    return OK


def _strategy(options: GatesOptions) -> dict[str, Any]:
    """The strategy and its budget, as keywords."""
    budget = None if options.budget is None else integer(options.budget, "--budget", 0, "number of ancillas")
    strategy = options.strategy or ("bennett" if budget is None else "pebble")
    if (strategy == "pebble") != (budget is not None):
        raise fail("RG0512", "--budget and the strategy pebble go together")
    return {"strategy": strategy, "budget": budget}


def _of_function(options: GatesOptions) -> Circuit:
    from retrograd.hardware.function_netlists import netlist
    from retrograd.runtime._reversible import oriented

    for option in _OF_OPCODES:
        if getattr(options, option):
            raise fail("RG0512", f"--{option} is for instructions, and `{options.what[:60]}` is a function")
    f = load_function(options.what)
    w = format_of(options.format or _FORMAT)
    args, keywords = parse_arguments(options.files, oriented(f)[0].with_options(format=w))
    return netlist(f, *args, format=w, **_strategy(options), **keywords).circuit


def _of_opcode(options: GatesOptions) -> Circuit:
    from retrograd.hdl.reversible.lowering import lower
    from retrograd.isa.derivatives import NoDerivative

    named = opcodes_named(options.what)
    if len(named) > 1:
        several = ", ".join(o.name for o in named)
        raise fail("RG0506", f"`{options.what}` is several instructions", f"name one of them: {several}")
    try:
        return lower(
            named[0],
            format_of(options.format or _FORMAT),
            **_strategy(options),
            trap=options.trap,
            cotangents=options.cotangents,
        )
    except NoDerivative as error:
        raise fail("RG0512", f"--cotangents: `{options.what}` has none: {error}") from None


def _check(options: GatesOptions) -> int:
    given = next(
        (
            name
            for name in (*_MADE, "input", "real", "qasm", "draw", "irreversible", "tech", "garbage")
            if getattr(options, name)
        ),
        None,
    )
    if given is not None:
        raise fail("RG0512", f"--{given} does not apply to `gates check`")
    if len(options.files) != 2:
        raise fail("RG0512", f"`gates check` compares two netlists, and {len(options.files)} are named")
    first, second = map(_read, options.files)
    if options.by == "position":
        if len(first.names) != len(second.names):
            sizes = f"{len(first.names)} and {len(second.names)} lines"
            raise fail("RG0512", f"--by position: the netlists have {sizes}", "netlists of one size, or --by name")
        second = replace(second, names=first.names)
    try:
        from retrograd.hdl.reversible.verification import difference

        found = difference(first, second, integer(options.seconds, "--seconds", 1, "number of seconds"))
    except ModuleNotFoundError:
        raise fail("RG0515", "`gates check` uses z3", "pip install 'retrograd[synth]'") from None
    if options.json:
        print_json("retrograd.equivalence/1", {"equivalent": found is None, "input": found})
    elif found is None:
        print("equivalent")
    else:
        ones = " ".join(printable(name) for name, bit in found.items() if bit) or "none"
        print(f"NOT EQUIVALENT: they differ where the lines that are 1 are: {ones}")
    return OK if found is None else WRONG
