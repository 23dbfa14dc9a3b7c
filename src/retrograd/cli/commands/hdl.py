"""`retrograd hdl`: the co-processor simulated, written as Verilog, placed and routed, proved, counted."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.cli.commands.formal import formal_command
from retrograd.cli.commands.functions import (
    is_function,
    load_function,
    parse_arguments,
    parse_format,
    plain,
    shown,
    step_limit,
)
from retrograd.cli.files import cached_folder, constant, fail, load_program
from retrograd.cli.main import LIMIT, OK, TRAPPED
from retrograd.isa.diagnostics import DeviceError, Diagnostic, nearest
from retrograd.isa.files import check_output, write_file
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.presentation.tables import columns

if TYPE_CHECKING:
    from retrograd.hdl.parameters import Parameters
    from retrograd.hdl.simulation.runs import Place, SimulatedRun


def hdl_command(options: argparse.Namespace) -> int:
    """One of the commands; returns the exit code."""
    commands = {"run": _run, "verilog": _verilog, "synth": _synth, "formal": formal_command, "stat": _stat}
    try:
        return commands[options.hdl_command](options)
    except FileNotFoundError as error:
        tool = Path(error.filename).name if error.filename else str(error)
        raise _lacking(tool) from None
    except subprocess.CalledProcessError as error:
        tool = Path(error.cmd[0]).name
        said = (error.stderr or b"") if isinstance(error.stderr, bytes | None) else error.stderr
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        last = text.strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        raise DeviceError(Diagnostic("RG1008", f"{tool} failed: {last[0][:200]}")) from None


def _lacking(tool: str) -> DeviceError:
    hint = "pip install 'retrograd[synth]'; for --verilator also a C++ compiler"
    return DeviceError(Diagnostic("RG1008", f"a tool is not installed: {tool[:100]}", hint=hint))


# ---------------------------------------------------------------------- run


def _run(options: argparse.Namespace) -> int:
    if options.vcd is not None:
        if options.verilator:
            raise fail("RG0512", "--vcd is for Amaranth's simulator", "leave out --verilator")
        check_output(options.vcd)
        check_output(Path(options.vcd).with_suffix(".gtkw"))
    if is_function(options.program):
        return _run_function(options)
    if options.args:
        hint = "set registers with --set; for a function write FILE.py:FUNCTION"
        raise fail("RG0510", f"`{options.args[0][:60]}`: a program takes no arguments", hint)
    if options.format is not None:
        raise fail("RG0512", "--format is for functions: a program says what it is for")
    return _run_program(options)


def _folder(options: argparse.Namespace) -> Path | None:
    """Where Verilator's libraries are kept, if it is to simulate."""
    return cached_folder("verilator") if options.verilator else None


def _run_program(options: argparse.Namespace) -> int:
    program = load_program(options.program, options.include)
    registers: dict[int, int] = {}
    memory: dict[int, int] = {}
    for text in options.sets:
        place, word = _setting(text, program)
        (registers if place.register else memory)[place.address] = word
    loss = None if options.grad is None else _place(options.grad, program, f"--grad {options.grad}")
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
            scale=_number(options.scale, "--scale", 0),
            folder=_folder(options),
            vcd=options.vcd,
        )
    except ValueError as error:
        raise fail("RG0507", str(error)) from None
    if options.json:
        print(json.dumps({"schema": "retrograd.hdl-run/1", "runs": [_run_dict(r, program) for r in found]}, indent=2))
    else:
        for way, one in zip(("", "back with cotangents: "), found, strict=False):
            _show_run(way, one, program)
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
            told = [f"{float(w.to_real(cotangent)):.10g}"] if lifted else []
            rows.append([name, str(w.signed(word)), f"{float(w.to_real(word)):.10g}", *told])
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
    }  # fmt: skip


def _run_function(options: argparse.Namespace) -> int:
    from retrograd.hardware import run_on_hardware

    for option, given in (
        ("--set", options.sets),
        ("--no-overflow", options.no_overflow),
        ("--strict", options.strict),
    ):
        if given:
            raise fail("RG0512", f"{option} is for assembly and images, and `{options.program}` is a function")
    function = load_function(options.program)
    args, keywords = parse_arguments(options.args)
    found = run_on_hardware(
        ~function if options.backward else function,
        *args,
        format=None if options.format is None else parse_format(options.format),
        loss=options.grad,
        scale=_number(options.scale, "--scale", 0),
        verilator=_folder(options),
        vcd=options.vcd,
        max_steps=step_limit(options),
        **keywords,
    )
    values = found.values._asdict()
    gradients = {} if found.gradients is None else found.gradients._asdict()
    if options.json:
        out = {
            "schema": "retrograd.hdl-run/1", "function": function.__name__,
            "values": {name: plain(value) for name, value in values.items()},
            "gradients": {name: plain(value) for name, value in gradients.items()} or None,
            "steps": found.steps, "cycles": found.cycles, "backward_steps": found.backward_steps,
            "backward_cycles": found.backward_cycles, "toggled_bits": found.toggled_bits, "erased_bits": found.erased_bits,
        }  # fmt: skip
        print(json.dumps(out, indent=2))
        return OK
    names = [*values, *(f"∂{options.grad}/∂{name}" for name in gradients)]
    width = max(map(len, names), default=0)
    for name, value in zip(names, [*values.values(), *gradients.values()], strict=True):
        print(f"{name:<{width}} = {shown(value)}")
    back = f", {found.backward_cycles} back with cotangents" if gradients else ""
    print(f"\n{found.steps} instructions in {found.cycles} cycles{back}; {found.toggled_bits} bits toggled")
    return OK


# ---------------------------------------------------------------------- the hardware


def _parameters(options: argparse.Namespace) -> Parameters:
    from retrograd.hdl.parameters import Parameters

    w = parse_format(options.format)
    code = _number(getattr(options, "code", "1024"), "--code", 2)
    data = _number(getattr(options, "data", "1024"), "--data", 2)
    try:
        return Parameters(w, code, data)
    except ValueError as error:
        raise fail("RG0507", str(error)) from None


def _number(text: str, option: str, least: int) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise fail("RG0507", f"{option}: `{text[:40]}` is no integer") from None
    if value < least:
        raise fail("RG0507", f"{option}: {value} is less than {least}")
    return value


def _verilog(options: argparse.Namespace) -> int:
    from retrograd.hdl.bus.top import Coprocessor, SerialCoprocessor
    from retrograd.hdl.verilog import convert

    p = _parameters(options)
    bits = None if options.serial is None else _number(options.serial, "--serial", 4)
    if options.output is not None:
        check_output(options.output)
    text = convert(Coprocessor(p) if bits is None else SerialCoprocessor(p, bits), "retrograd")
    if options.output is None:
        print(text)
        return OK
    write_file(options.output, text)
    print(f"{options.output}: the co-processor for {p.format}, {len(text)} bytes of Verilog")
    return OK


def _synth(options: argparse.Namespace) -> int:
    from retrograd.hdl.flow.synthesis import place

    p = _parameters(options)
    try:
        mhz = float(options.mhz)
    except ValueError:
        mhz = 0.0
    if not 1 <= mhz <= 1000:
        raise fail("RG0507", f"--mhz: `{options.mhz[:40]}` is no frequency from 1 to 1000")
    print("place and route takes minutes …", file=sys.stderr)
    found = place(p, Path(options.folder), mhz, _number(options.seed, "--seed", 0))
    if options.json:
        out = {
            "schema": "retrograd.synth/1", "format": _format_dict(p.format), "device": "ECP5-85F",
            "code_words": p.code_words, "data_words": p.data_words, "luts": found.luts, "registers": found.registers,
            "multipliers": found.multipliers, "memories": found.memories, "mhz": found.mhz, "aim_mhz": mhz,
        }  # fmt: skip
        print(json.dumps(out, indent=2))
        return OK
    rows = [
        ["format", "LUTs", "registers", "multipliers", "block RAMs", "MHz"],
        [
            str(p.format),
            *map(str, (found.luts, found.registers, found.multipliers, found.memories)),
            f"{found.mhz:.1f}",
        ],
    ]
    print(columns(rows, right=range(1, 6)))
    if options.path:
        print("\n" + "\n".join(f"{time:6.2f} ns  {cell}" for time, cell in found.path))
    return OK


def _stat(options: argparse.Namespace) -> int:
    from retrograd.hdl.flow.gates import as_dict, units

    p = _parameters(options)
    if options.output is not None:
        check_output(options.output)
    found = units(p)
    told = json.dumps(as_dict(p, found), indent=2)
    if options.output is not None:
        write_file(options.output, told + "\n")
    if options.json:
        print(told)
        return OK
    rows = [["unit", "AND", "XOR", "flip-flops", "bits of memory"]]
    rows += [[name, *map(str, (g.and_gates, g.xor_gates, g.flip_flops, g.memory_bits))] for name, g in found.items()]
    print(columns(rows, right=range(1, 5)))
    return OK


def _format_dict(w: Format) -> dict[str, int]:
    return {"width": w.width, "frac": w.frac}
