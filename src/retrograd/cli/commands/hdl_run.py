"""`retrograd hdl run`: a program or a reversible function on the simulated co-processor."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.cli.arguments import parse_arguments, plain, shown
from retrograd.cli.commands.hdl import lanes_given
from retrograd.cli.files import cached_folder, constant, function_and_inverse, is_function, load_function, load_program
from retrograd.cli.options import (
    Parser,
    fail,
    given_option,
    integer,
    refuse_options_of_functions,
    refuse_options_of_programs,
    scale_given,
    step_limit,
)
from retrograd.cli.report import print_json, show_errors
from retrograd.cli.terminal import LIMIT, OK, TRAPPED
from retrograd.isa.diagnostics import nearest
from retrograd.isa.files import check_output, write_file
from retrograd.isa.microarchitecture.lanes import LANES
from retrograd.isa.program import Program
from retrograd.isa.words import Format, format_of
from retrograd.presentation import columns

if TYPE_CHECKING:
    from retrograd.hdl.simulation.meters import Overwrites
    from retrograd.hdl.simulation.runs import Place, SimulatedRun


def arguments_of_run(p: Parser) -> None:
    """Options of `retrograd hdl run`."""
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE]")
    p.function_arguments()
    p.run_options(
        "--set",
        "--format",
        "--dialect",
        "--entry",
        "--batch",
        "--shared",
        "--backward",
        "--max-steps",
        "--no-overflow",
        "--strict",
        max_steps="100000",
    )
    p.add_argument(
        "--grad",
        metavar="LOSS",
        help="then run back with cotangents: of a function's argument, a register, a data label or an address",
    )
    p.add_argument(
        "--scale",
        metavar="K",
        help="the loss's cotangent is 2^K, and divided by it (default: 0 for a program, auto for a function)",
    )
    p.core_option("the number of elements of the batch, at most 8")
    p.add_argument(
        "--verilator",
        action="store_true",
        help="simulate by Verilator, some hundred times as fast once it has compiled",
    )
    p.add_argument("--vcd", metavar="FILE", help="write waveforms, and FILE.gtkw for GTKWave")
    p.add_argument(
        "--erasure", action="store_true", help="count the bits of the core's state that each cycle overwrites"
    )
    p.add_argument(
        "--activity",
        metavar="FILE.json",
        help="count how often gates and flip-flops switch, for `retrograd energy --activity`",
    )
    p.json_option("retrograd.hdl-run/1")
    p.size_options(arrays=True)


def execute_run(options: argparse.Namespace) -> int:
    """Run and show."""
    counting = given_option(options, ("--activity", "--erasure"))
    if counting is not None:
        other = given_option(options, ("--verilator", "--vcd", *["--erasure"] * (counting == "--activity")))
        if other is not None:
            raise fail("RG0512", f"{counting} counts by a simulator of its own, without {other}", f"leave out {other}")
        if options.core != "small":
            raise fail(
                "RG0512",
                f"{counting} is counted on the core small only",
                f"leave out --core {options.core}, or {counting}",
            )
    if options.activity is not None:
        check_output(options.activity)
    lanes_given(options)
    if options.core == LANES:
        if options.vcd is not None:
            raise fail("RG0512", "--vcd is not for the core lanes", "leave out --vcd, or --core lanes")
        if options.batch is None:
            raise fail("RG0512", "the core lanes executes the elements of a batch", "name the arrays: --batch FILE.npz")
        if not is_function(options.program):
            raise fail("RG0512", f"--batch is for functions, and `{options.program}` is a program", "FILE.py:FUNCTION")
        return _run_batch(options)
    option = given_option(options, ("--batch", "--shared"))
    if option is not None:
        raise fail("RG0512", f"{option} is for the core lanes", "--core lanes")
    if options.vcd is not None:
        if options.verilator:
            raise fail("RG0512", "--vcd is for Amaranth's simulator", "leave out --verilator")
        check_output(options.vcd)
        check_output(Path(options.vcd).with_suffix(".gtkw"))
    return _run_function(options) if is_function(options.program) else _run_program(options)


def _folder(options: argparse.Namespace) -> Path | None:
    """The folder of Verilator's libraries; None for Amaranth's simulator."""
    return cached_folder("verilator") if options.verilator else None


def _run_program(options: argparse.Namespace) -> int:
    refuse_options_of_functions(options)
    program = load_program(options.program, options.include)
    registers: dict[int, int] = {}
    memory: dict[int, int] = {}
    for text in options.sets:
        place, word = _setting(text, program)
        (registers if place.register else memory)[place.address] = word
    loss = None if options.grad is None else _place(options.grad, program, f"--grad {options.grad}")
    from retrograd.hdl.simulation.meters import document
    from retrograd.hdl.simulation.runs import run

    try:
        found = run(
            program,
            registers=registers,
            memory=memory,
            backward=options.backward,
            overflow=not options.no_overflow,
            strict=options.strict,
            steps=step_limit(options),
            loss=loss,
            scale=integer(options.scale or "0", "--scale", 0),
            folder=_folder(options),
            vcd=options.vcd,
            erasure=options.erasure,
            activity=options.activity is not None,
            core=options.core,
        )
    except ValueError as error:
        raise fail("RG0507", str(error)) from None
    activity = _write_activity(
        options, document(program, Path(options.program).name, options.core, [r.activity for r in found if r.activity])
    )
    if options.json:
        print_json("retrograd.hdl-run/1", {"runs": [_run_dict(r, program) for r in found], **activity})
    else:
        for way, one in zip(("", "back with cotangents: "), found, strict=False):
            _show_run(way, one, program)
        _show_overwrites([one.overwrites for one in found if one.overwrites is not None], program.format)
        _show_activity(activity)
    stops = [r.stop for r in found]
    return TRAPPED if "trap" in stops else LIMIT if "limit" in stops else OK


def _place(text: str, program: Program, option: str) -> Place:
    from retrograd.hdl.simulation.runs import Place

    if text[:1] == "r" and text[1:].isdecimal() and int(text[1:]) < 256:
        return Place(int(text[1:]), register=True)
    if text in program.data_labels:
        return Place(program.data_labels[text])
    if text.isdecimal() and int(text) < program.memory:
        return Place(int(text))
    hint = nearest(text, program.data_labels) or "write r0 to r255, a data label, or an address of its memory"
    raise fail("RG0507", f"{option}: `{text[:40]}` is neither a register nor a place in memory", hint)


def _setting(text: str, program: Program) -> tuple[Place, int]:
    name, equals, value = text.partition("=")
    if not equals:
        raise fail("RG0502", f"--set {text}: `=` is missing")
    place = _place(name, program, f"--set {text}")
    return place, constant(value, program.format, program.data_labels, "RG0502", f"--set {text}")


def _show_run(way: str, run: SimulatedRun, program: Program) -> None:
    w = program.format
    code = f" {run.code}" if run.code else ""
    facing = "forward" if run.direction > 0 else "backward"
    print(
        f"{way}{run.stop}{code} at pc {run.pc} after {run.retired} instructions in {run.cycles} cycles, running {facing}; "
        f"{run.toggled} bits toggled, {run.erased} erased"
    )
    lifted = any(run.cotangents) or any(run.memory_cotangents)
    names = {address: name for name, address in program.data_labels.items()}
    rows = [["place", "decimal", str(w), *["cotangent"] * lifted]]
    places = [(f"r{i}", *pair) for i, pair in enumerate(zip(run.registers, run.cotangents, strict=True))]
    places += [
        (names.get(i, f"[{i}]"), *pair) for i, pair in enumerate(zip(run.memory, run.memory_cotangents, strict=True))
    ]
    for name, word, cotangent in places:
        if word or cotangent:
            extra = [f"{float(w.to_real(cotangent)):.10g}"] if lifted else []
            rows.append([name, str(w.signed(word)), f"{float(w.to_real(word)):.10g}", *extra])
    print(columns(rows, right=range(1, len(rows[0]))) if len(rows) > 1 else "all registers and words are zero")
    print()


def _run_dict(run: SimulatedRun, program: Program) -> dict[str, Any]:
    w = program.format

    def words(found: list[int]) -> dict[str, int]:
        return {str(i): w.signed(word) for i, word in enumerate(found) if word}

    return {
        "stop": run.stop, "code": run.code, "pc": run.pc, "br": run.br, "direction": run.direction,
        "steps": run.retired, "cycles": run.cycles, "toggled_bits": run.toggled, "erased_bits": run.erased,
        "registers": words(run.registers), "memory": words(run.memory),
        "register_cotangents": words(run.cotangents), "memory_cotangents": words(run.memory_cotangents),
        **({} if run.overwrites is None else {"overwritten": _overwrites_dict(run.overwrites, w)}),
    }  # fmt: skip


def _show_overwrites(found: Sequence[Overwrites], w: Format) -> None:
    """A table of the bits in an average cycle; nothing where none were counted."""
    for way, one in zip(("", ", back with cotangents"), found, strict=False):
        rows = [["bits of the core's state, of a cycle" + way, "in all", "overwritten", "lost", "toggled"]]
        for part, (bits, overwritten, toggled) in sorted(one.by_part.items()):
            if bits or overwritten:
                shown = str(bits) if bits else "–"
                rows.append([part, shown, f"{overwritten / one.cycles:.1f}", "", f"{toggled / one.cycles:.1f}"])
        whole = (f"{n / one.cycles:.1f}" for n in (one.overwritten, one.lost, one.toggled))
        rows.append([f"whole, {one.cycles} cycles", str(one.bits), *whole])
        print(f"\n{columns(rows, right=range(1, 5))}")
    if found:
        from retrograd.hardware import logic_loss

        logic = logic_loss(w)
        text = "not modelled: there are no gate counts" if logic is None else f"{logic:.0f} bits"
        print(f"lost by the logic in each cycle, for uniform inputs: {text}")


def _overwrites_dict(one: Overwrites, w: Format) -> dict[str, Any]:
    from retrograd.hardware import logic_loss

    parts = {
        part: {"bits": bits, "overwritten_bits": overwritten, "toggled_bits": toggled}
        for part, (bits, overwritten, toggled) in sorted(one.by_part.items())
    }
    return {
        "cycles": one.cycles, "state_bits": one.bits, "overwritten_bits": one.overwritten, "lost_bits": one.lost,
        "toggled_bits": one.toggled, "parts": parts, "logic_bits_per_cycle": logic_loss(w),
        "each": [dict(zip(("overwritten", "lost", "toggled"), bits, strict=True)) for bits in one.each],
    }  # fmt: skip


def _write_activity(options: argparse.Namespace, document: dict[str, Any] | None) -> dict[str, Any]:
    """Write the file of --activity: {"activity": document}; nothing without the option."""
    if options.activity is None or document is None:
        return {}
    write_file(options.activity, json.dumps(document, indent=1) + "\n")
    return {"activity": document}


def _show_activity(activity: dict[str, Any]) -> None:
    """A table of toggles in an average cycle, for each run; nothing where none were counted."""
    for run in activity.get("activity", {"runs": []})["runs"]:
        way = ("forward" if run["direction"] > 0 else "backward") + ", with cotangents" * run["D"]
        rows = [[f"toggles of a cycle, {way}", *_KINDS]]
        units = {unit: kinds for unit, kinds in run["units"].items() if any(part["toggles"] for part in kinds.values())}
        for unit, kinds in units.items():
            shown = (f"{kinds[kind]['toggles'] / run['cycles']:.1f}" if kind in kinds else "" for kind in _KINDS)
            rows.append([unit, *shown])
        whole = (sum(kinds[kind]["toggles"] for kinds in units.values() if kind in kinds) for kind in _KINDS)
        rows.append([f"whole, {run['cycles']} cycles", *(f"{n / run['cycles']:.1f}" for n in whole)])
        print(f"\n{columns(rows, right=range(1, len(_KINDS) + 1))}")


_KINDS = ("AND", "XOR", "NOT", "DFF", "memory port", "memory bits")


def _run_function(options: argparse.Namespace) -> int:
    from retrograd.hardware import run_on_hardware
    from retrograd.hdl.bus.links import UnfinishedRun
    from retrograd.runtime._reversible import oriented

    refuse_options_of_programs(options, "--no-overflow")
    function = load_function(options.program, options)
    args, keywords = parse_arguments(options.args, oriented(function)[0])
    try:
        found = run_on_hardware(
            ~function if options.backward else function,
            *args,
            format=None if options.format is None else format_of(options.format),
            precision=options.precision,
            loss=options.grad,
            scale=scale_given(options.scale or "auto"),
            verilator=_folder(options),
            vcd=options.vcd,
            erasure=options.erasure,
            activity=options.activity is not None,
            max_steps=step_limit(options),
            core=options.core,
            **keywords,
        )
    except UnfinishedRun as error:
        show_errors(error, as_json=options.json)
        return TRAPPED if error.trapped else LIMIT
    activity = _write_activity(options, found.activity)
    values = found.values._asdict()
    gradients = {} if found.gradients is None else found.gradients._asdict()
    if options.json:
        out = {
            "function": function.__name__,
            "values": {name: plain(value) for name, value in values.items()},
            "gradients": {name: plain(value) for name, value in gradients.items()} or None,
            "steps": found.steps, "cycles": found.cycles, "backward_steps": found.backward_steps,
            "backward_cycles": found.backward_cycles, "toggled_bits": found.toggled_bits, "erased_bits": found.erased_bits,
            **({"overwritten": [_overwrites_dict(one, found.format) for one in found.overwrites]} if options.erasure else {}),
            **activity,
        }  # fmt: skip
        print_json("retrograd.hdl-run/1", out)
        return OK
    names = [*values, *(f"∂{options.grad}/∂{name}" for name in gradients)]
    width = max(map(len, names), default=0)
    for name, value in zip(names, [*values.values(), *gradients.values()], strict=True):
        print(f"{name:<{width}} = {shown(value)}")
    back = f", {found.backward_cycles} back with cotangents" if gradients else ""
    print(f"\n{found.steps} instructions in {found.cycles} cycles{back}; {found.toggled_bits} bits toggled")
    _show_overwrites(found.overwrites, found.format)
    _show_activity(activity)
    return OK


def _run_batch(options: argparse.Namespace) -> int:
    """Each element of a batch on a lane of its own."""
    from retrograd.cli.batches import batch_values
    from retrograd.hardware import run_batch_on_hardware
    from retrograd.hdl.bus.links import UnfinishedRun

    refuse_options_of_programs(options, "--no-overflow")
    function, inverse = function_and_inverse(options.program, options)
    values, in_axes = batch_values(function, options)
    try:
        found = run_batch_on_hardware(
            ~function if inverse != options.backward else function,
            *values,
            in_axes=in_axes,
            lanes=lanes_given(options),
            format=None if options.format is None else format_of(options.format),
            precision=options.precision,
            loss=options.grad,
            scale=scale_given(options.scale or "auto"),
            verilator=_folder(options),
            max_steps=step_limit(options),
        )
    except UnfinishedRun as error:
        show_errors(error, as_json=options.json)
        return TRAPPED if error.trapped else LIMIT
    named = found.values._asdict()
    gradients = {} if found.gradients is None else found.gradients._asdict()
    if options.json:
        out = {
            "function": function.__name__,
            "values": {name: plain(value) for name, value in named.items()},
            "gradients": {name: plain(value) for name, value in gradients.items()} or None,
            "steps": found.steps.tolist(), "cycles": found.cycles, "issued": found.issued,
            "backward_steps": found.backward_steps.tolist(), "backward_cycles": found.backward_cycles,
            "backward_issued": found.backward_issued, "toggled_bits": found.toggled_bits.tolist(),
            "erased_bits": found.erased_bits.tolist(),
        }  # fmt: skip
        print_json("retrograd.hdl-run/1", out)
        return OK
    shown_values = {**named, **{f"∂{options.grad}/∂{name}": value for name, value in gradients.items()}}
    rows = [["element", *shown_values, "instructions"]]
    rows += [
        [str(i), *(shown(plain(value[i])) for value in shown_values.values()), str(n)]
        for i, n in enumerate(found.steps)
    ]
    print(columns(rows, right=range(len(rows[0]))) + "\n")
    back = f", {found.backward_issued} in {found.backward_cycles} back with cotangents" if gradients else ""
    print(f"{found.steps.sum()} instructions, issued as {found.issued} in {found.cycles} cycles{back}")
    return OK
