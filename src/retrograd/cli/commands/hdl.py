"""`retrograd hdl`: the co-processor simulated, written as Verilog, placed and routed, proved, counted.

The commands share the options of the hardware; `hdl_run.py` has the command `run`. It imports retrograd.hdl.
Start with `arguments` below.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from retrograd.cli.batches import distribution_of
from retrograd.cli.options import Parser, add_commands, fail, integer, opcodes_named
from retrograd.cli.report import print_json
from retrograd.cli.terminal import OK, WRONG, answer
from retrograd.hdl.parameters import Parameters
from retrograd.isa.diagnostics import DeviceError, Diagnostic, InputError, nearest, printable
from retrograd.isa.files import check_output, write_file
from retrograd.isa.manual.description import group_title
from retrograd.isa.microarchitecture.lanes import LANES, MAX_LANES
from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.words import Format, format_of
from retrograd.presentation import Bar, columns

if TYPE_CHECKING:
    from retrograd.hdl.formal.proofs import ProofResult

COMMANDS = {
    "run": "run a program or a reversible function on the simulated co-processor",
    "verilog": "write the co-processor as Verilog",
    "registers": "write its register map as a C header, an SVD file or a page",
    "synth": "place and route the co-processor for an ECP5-85F: how large it is, and how fast",
    "build": "make the bitstream for a board",
    "formal": "prove that the hardware takes back what it did, opcode by opcode",
    "stat": "count the gates of each function unit",
}


def arguments_of_hdl(p: Parser) -> None:
    """The commands of `retrograd hdl`."""
    add_commands(
        p, "retrograd.cli.commands", COMMANDS, "execute_hdl", {**dict.fromkeys(COMMANDS, "hdl"), "run": "hdl_run"}
    )


def execute_hdl(options: argparse.Namespace) -> int:
    """Run one of the commands. Raises DeviceError RG1008 where a tool is missing or fails."""
    try:
        code: int = options.execute_hdl(options)
        return code
    except FileNotFoundError as error:
        tool = Path(error.filename).name if error.filename else str(error)
        raise _lacking(tool) from None
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        raise _lacking("z3-solver") from None
    except subprocess.CalledProcessError as error:
        tool = Path(error.cmd[0]).name
        said = (error.stderr or b"") if isinstance(error.stderr, bytes | None) else error.stderr
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        last = text.strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        raise DeviceError(Diagnostic("RG1008", f"{tool} failed: {last[0][:200]}")) from None


def _lacking(tool: str) -> DeviceError:
    hint = "pip install 'retrograd[synth]'; for --verilator also a C++ compiler"
    return DeviceError(Diagnostic("RG1008", f"a tool is not installed: {tool[:100]}", hint=hint))


# -----------------------------------------------------------------------------
# Options and values that the commands of `retrograd hdl` share: format and sizes of the co-processor.

#: the lanes of a core that is written or placed, unless --lanes is given
SOME_LANES = 4


def format_option(p: Parser, default: str = "32,16") -> None:
    """--format of the hardware."""
    p.add_argument("--format", metavar="W,F", default=default, help=f"word width and fraction (default: {default})")


def memory_options(p: Parser) -> None:
    """--code and --data."""
    p.add_argument("--code", metavar="N", default="1024", help="instructions that fit (default: 1024)")
    p.add_argument("--data", metavar="N", default="1024", help="words of data that fit (default: 1024)")


def dma_option(p: Parser) -> None:
    """--dma."""
    p.add_argument("--dma", action="store_true", help="with direct memory access: a bus to a memory of the host's")


def frequency(text: str) -> float:
    """The value of --mhz. Raises InputError RG0507."""
    try:
        mhz = float(text)
    except ValueError:
        mhz = 0.0
    if not 1 <= mhz <= 1000:
        raise fail("RG0507", f"--mhz: `{text[:40]}` is no frequency from 1 to 1000")
    return mhz


def lanes_given(options: argparse.Namespace) -> int | None:
    """The value of --lanes, None where it is not given. Raises InputError RG0502, RG0512, RG1125."""
    lanes: str | None = getattr(options, "lanes", None)
    if options.core != LANES:
        core_units(options.core)
        if lanes is not None:
            raise fail("RG0512", f"--lanes is for the core lanes, and not for {options.core}", "--core lanes")
    number = None if lanes is None else integer(lanes, "--lanes", 1)
    if number is not None and number > MAX_LANES:
        raise fail("RG0507", f"--lanes {lanes}: a core has 1 to {MAX_LANES} lanes")
    return number


def core_name(p: Parameters) -> str:
    """The core as text: small, or lanes with 4 lanes."""
    return f"{p.core} with {p.lanes} lane{'s' * (p.lanes > 1)}" if p.core == LANES else p.core


def parameters(options: argparse.Namespace) -> Parameters:
    """The co-processor that the options describe. Raises InputError RG0507, RG0604, RG1125."""
    w = format_of(options.format)
    code = integer(getattr(options, "code", "1024"), "--code", 2)
    data = integer(getattr(options, "data", "1024"), "--data", 2)
    lanes = lanes_given(options) or (SOME_LANES if options.core == LANES else 1)
    try:
        return Parameters(w, code, data, core=options.core, lanes=lanes, dma=getattr(options, "dma", False))
    except ValueError as error:
        raise fail("RG0507", str(error)) from None


# -----------------------------------------------------------------------------
# `retrograd hdl build`: the bitstream of the co-processor for a board.


def arguments_of_build(p: Parser) -> None:
    """Options of `retrograd hdl build`."""
    p.add_argument("--board", choices=("ulx3s",), default="ulx3s", help="the board (default: ulx3s, with an ECP5-85F)")
    format_option(p)
    memory_options(p)
    p.core_option(str(SOME_LANES))
    p.add_argument("--mhz", metavar="MHZ", default="25", help="the clock of the co-processor (default: 25)")
    p.add_argument("--seed", metavar="N", default="1", help="of the placement (default: 1)")
    p.add_argument("--folder", metavar="DIR", help="keep the files of the tools here")
    p.add_argument("-o", "--output", metavar="FILE.bit", required=True, help="the bitstream to write")


def execute_build(options: argparse.Namespace) -> int:
    """Build, and write the bitstream if it is reliable."""
    from retrograd.hdl.flow.synthesis import BOARDS, build, pll_for
    from retrograd.hdl.netlist import ECPPACK, NEXTPNR, YOSYS, need, version

    p, mhz, seed = parameters(options), frequency(options.mhz), integer(options.seed, "--seed", 0)
    check_output(options.output)
    board = BOARDS[options.board]
    try:
        pll = pll_for(board.mhz, mhz)
    except ValueError as error:
        raise fail("RG0507", f"--mhz: {error}") from None
    need((YOSYS, NEXTPNR, ECPPACK))
    with tempfile.TemporaryDirectory() as temporary:
        print("synthesis, place and route take minutes …", file=sys.stderr)
        built = build(board, p, Path(options.folder or temporary), pll, seed)
    if not built.reliable:
        raise fail(
            "RG1010",
            f"the placement with seed {seed} runs at {built.placed.mhz:.1f} MHz, and not at {built.mhz:.1f}",
            f"--mhz {int(built.placed.mhz)}, or another --seed",
        )
    write_file(options.output, built.bitstream)
    print(f"{printable(options.output)}: {board.title}, {p.format}, core {core_name(p)}: {built.placed}")
    print(f"clock {built.mhz:.1f} MHz, seed {seed}, {version(YOSYS)}, {version(NEXTPNR)}")
    return OK


# -----------------------------------------------------------------------------
# `retrograd hdl formal`: proofs that each step of the hardware is the table's, and is undone exactly.


def arguments_of_formal(p: Parser) -> None:
    """Options of `retrograd hdl formal`."""
    p.add_argument(
        "opcodes",
        nargs="*",
        metavar="OPCODE",
        help="such as mul.add; or multiplier, divider, ROM, bus, of the core lanes mask or order (default: all of them)",
    )
    format_option(p, "8,4")
    p.core_option("")
    p.add_argument("--classes", action="store_true", help="the shortest opcode of each class only")
    p.add_argument("--seconds", metavar="N", default="60", help="for each proof at most (default: 60)")
    p.distribution_options("proofs are kept there, and not repeated")
    p.json_option("retrograd.formal/2")


def execute_formal(options: argparse.Namespace) -> int:
    """Prove, and show each proof as it ends."""
    from retrograd.hardware.proofs import distributed_proofs
    from retrograd.hdl.formal.claims import claims, classes, not_covered
    from retrograd.hdl.formal.proofs import PART_CLAIM, ProofResult, part_claims, parts_of, prove_parts
    from retrograd.isa.table import TABLE

    w, core = format_of(options.format), options.core
    if core != LANES:
        core_units(core)
    every_part = parts_of(core)
    known = [*(o.name for o in TABLE), *every_part]
    chosen: list[str] = []
    for name in options.opcodes:
        try:
            chosen += [name] if name in every_part else [o.name for o in opcodes_named(name)]
        except InputError:
            hint = nearest(name, [*TABLE.names, *every_part]) or (
                f"`retrograd isa` lists the instructions; the parts of the core {core} are {', '.join(every_part)}"
            )
            raise fail("RG0506", f"no instruction or part is named `{name[:40]}`", hint) from None
    options.opcodes = list(dict.fromkeys(chosen))
    if options.classes and options.opcodes:
        raise fail("RG0512", "--classes chooses the opcodes", "leave out the opcodes, or --classes")
    seconds = integer(options.seconds, "--seconds", 1, "number of seconds")
    over = distribution_of(options)
    class_of = {o.name: group_title(o.group) for o in TABLE}
    class_of |= {o.name: name for name, opcodes in classes(w).items() for o in opcodes}
    wanted = [opcodes[0].name for opcodes in classes(w).values()] if options.classes else options.opcodes or known
    parts = [part for part in every_part if part in wanted or options.classes]
    # The expected claims follow from the table, so an absent proof fails like a refuted claim.
    expected = {claim.name: (claim.kind.value, class_of[claim.opcode.name]) for claim in claims(w, wanted)}
    expected |= {name: (PART_CLAIM, part) for name, part in part_claims(w, parts, core).items()}
    rows: list[tuple[str, str, ProofResult]] = []
    shown: set[str] = set()

    def add(found: ProofResult) -> None:
        claimed, kind = expected[found.opcode]
        if not options.json:
            _show(found, claimed, kind if options.classes and kind not in shown else None)
        shown.add(kind)
        rows.append((claimed, kind, found))

    # Text output shows each proof as it ends, which serves as progress.
    with Bar(len(expected), None if options.json else False, "proving") as bar:
        for found in chain(distributed_proofs(w, wanted, seconds, over, core), prove_parts(w, parts, seconds, core)):
            add(found)
            bar(1)
    proved = {found.opcode for _, _, found in rows}
    for name in expected:
        if name not in proved:
            add(ProofResult(name, False, 0.0, 0, "there is no proof"))
    held = sum(found.holds for _, _, found in rows)
    left = not_covered(w, wanted)
    if options.json:
        print_json("retrograd.formal/2", _as_dict(w, core, len(expected), rows, left))
    else:
        for name, reason in left.items():
            print(f"{name:<28} not claimed of {reason}")
        witnessed = sum(found.witnessed for _, _, found in rows)
        print(f"{len(left)} modes not claimed of all runs, {witnessed} ends reached")
        print(f"{held} of {len(expected)} hold at {w}" + f" on the core {core}" * (core != "small"))
    return OK if held == len(expected) == len(rows) else WRONG


def _show(found: ProofResult, claimed: str, kind: str | None) -> None:
    if kind is not None:
        print(kind)
    verdict = claimed if found.holds else f"NOT {claimed.upper()}: {found.counterexample}"
    print(f"{found.opcode:<28} {verdict}, {found.seconds:.1f} s", flush=True)


def _as_dict(
    w: Format, core: str, expected: int, rows: list[tuple[str, str, ProofResult]], left: dict[str, str]
) -> dict[str, object]:
    proofs = [
        {
            "what": found.opcode, "claim": claimed, "class": kind, "holds": found.holds,
            "seconds": round(found.seconds, 3), "counterexample": found.counterexample, "witnessed": found.witnessed,
        }
        for claimed, kind, found in rows
    ]  # fmt: skip
    return {
        "format": {"width": w.width, "frac": w.frac}, "core": core, "expected": expected,
        "held": sum(found.holds for _, _, found in rows), "proofs": proofs, "not_covered": left,
    }  # fmt: skip


# -----------------------------------------------------------------------------
# `retrograd hdl registers`: the register map of the co-processor for drivers, debuggers and documentation.


def arguments_of_registers(p: Parser) -> None:
    """Options of `retrograd hdl registers`."""
    p.add_argument(
        "--as", dest="kind", choices=("c", "svd", "markdown"),
        help="a C header, a CMSIS-SVD file, or the page of the documentation (default: a table)",
    )  # fmt: skip
    p.add_argument("--base", metavar="ADDRESS", default="0", help="byte address of the device, for svd (default: 0)")
    format_option(p)
    memory_options(p)
    p.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")
    p.json_option("retrograd.registers/1")


def execute_registers(options: argparse.Namespace) -> int:
    """Write or print the map."""
    from retrograd.hdl.bus.register_documents import as_dict, header, markdown, svd
    from retrograd.hdl.bus.register_map import Area

    options.core = "small"
    p, base = parameters(options), integer(options.base, "--base", 0)
    if base + Area.CODE.address(p.code_words) > 1 << 32:
        raise fail("RG0507", f"--base: from {options.base[:40]} on, the device does not fit 32 bits of address")
    if options.output is not None:
        check_output(options.output)
    match options.kind:
        case _ if options.json:
            text = json.dumps(as_dict(), indent=2) + "\n"
        case "c":
            text = header()
        case "svd":
            text = svd(p, base)
        case "markdown":
            text = markdown()
        case _:
            text = _table()
    if options.output is None:
        answer(text.removesuffix("\n"))
    else:
        write_file(options.output, text)
    return OK


def _table() -> str:
    from retrograd.hdl.bus.register_documents import bits_of, described
    from retrograd.hdl.bus.register_map import HostRegister

    rows = [["address", "name", "access", "bits", "meaning"]]
    for slot in HostRegister:
        rows.append([f"{slot.address:#06x}", slot.name, slot.access.value, "", described(slot)])
        rows += [["", f"  {field.name}", "", bits_of(field), described(field)] for field in slot.fields]
    return columns(rows) + "\n"


# -----------------------------------------------------------------------------
# `retrograd hdl stat`: gates of each function unit.


def arguments_of_stat(p: Parser) -> None:
    """Options of `retrograd hdl stat`."""
    format_option(p)
    p.core_option(str(SOME_LANES))
    p.add_argument("-o", "--output", metavar="FILE", help="write them as JSON (schema retrograd.gates/1)")
    p.json_option("retrograd.gates/1")


def execute_stat(options: argparse.Namespace) -> int:
    """Count, write and show."""
    from retrograd.hdl.flow.gates import as_dict, units

    p = parameters(options)
    if options.output is not None:
        check_output(options.output)
    found, levels = units(p)
    text = json.dumps(as_dict(p, found, levels), indent=2)
    if options.output is not None:
        write_file(options.output, text + "\n")
    if options.json:
        answer(text)
        return OK
    rows = [["unit", "AND", "XOR", "flip-flops", "bits of memory"]]
    rows += [[name, *map(str, (g.and_gates, g.xor_gates, g.flip_flops, g.memory_bits))] for name, g in found.items()]
    print(columns(rows, right=range(1, 5)))
    cells = ", ".join(f"{n} {kind}" for kind, n in sorted(levels.cells.items()))
    print(f"in levels: {levels.levels} levels, {cells}")
    return OK


# -----------------------------------------------------------------------------
# `retrograd hdl synth`: size and clock of the co-processor, placed and routed for an ECP5-85F.


def arguments_of_synth(p: Parser) -> None:
    """Options of `retrograd hdl synth`."""
    format_option(p)
    memory_options(p)
    p.core_option(str(SOME_LANES))
    dma_option(p)
    p.add_argument("--mhz", metavar="MHZ", default="60", help="the clock to aim for (default: 60)")
    p.add_argument("--seed", metavar="N", default="1", help="of the placement (default: 1)")
    p.add_argument(
        "--seeds", metavar="N", help="place with N seeds, from --seed on: the least, median and greatest clock"
    )
    p.add_argument("--grade", choices=("6", "7", "8"), default="6", help="the speed grade (default: 6, the slowest)")
    p.add_argument("--folder", metavar="DIR", default="synthesis", help="where files go (default: synthesis)")
    p.add_argument("--path", action="store_true", help="print the critical path, too")
    p.json_option("retrograd.synth/1")


def execute_synth(options: argparse.Namespace) -> int:
    """Place and route, and show the result."""
    from retrograd.hdl.flow.synthesis import place, spread
    from retrograd.hdl.netlist import NEXTPNR, YOSYS, need, version

    p, mhz, first = parameters(options), frequency(options.mhz), integer(options.seed, "--seed", 0)
    number = 1 if options.seeds is None else integer(options.seeds, "--seeds", 1)
    grade = int(options.grade)
    need((YOSYS, NEXTPNR))
    print("place and route takes minutes …", file=sys.stderr)
    found = place(p, Path(options.folder), mhz, range(first, first + number), grade)
    best, versions = max(found, key=lambda placed: placed.mhz), [version(YOSYS), version(NEXTPNR)]
    least, middle, most = spread(found)
    if options.json:
        out = {
            "format": {"width": p.format.width, "frac": p.format.frac}, "device": "ECP5-85F", "grade": grade,
            "core": p.core, "lanes": p.lanes, "code_words": p.code_words, "data_words": p.data_words, "dma": p.dma, "luts": best.luts, "registers": best.registers,
            "multipliers": best.multipliers, "memories": best.memories, "mhz": best.mhz, "aim_mhz": mhz, "seed": best.seed,
            "seeds": [{"seed": placed.seed, "mhz": placed.mhz} for placed in found], "tools": versions,
        }  # fmt: skip
        print_json("retrograd.synth/1", out)
        return OK
    rows = [
        ["format", "core", "grade", "LUTs", "registers", "multipliers", "block RAMs", "MHz", "seed"],
        [
            str(p.format),
            core_name(p),
            str(grade),
            *map(str, (best.luts, best.registers, best.multipliers, best.memories)),
            f"{best.mhz:.1f}",
            str(best.seed),
        ],
    ]
    print(columns(rows, right=range(2, 9)))
    if options.seeds is not None:
        print(f"{number} seeds: {least:.1f} MHz at least, {middle:.1f} in the median, {most:.1f} at most")
    print(", ".join(versions))
    if options.path:
        print("\n" + "\n".join(f"{time:6.2f} ns  {cell}" for time, cell in best.path))
    return OK


# -----------------------------------------------------------------------------
# `retrograd hdl verilog`: the co-processor as Verilog.


def arguments_of_verilog(p: Parser) -> None:
    """Options of `retrograd hdl verilog`."""
    format_option(p)
    memory_options(p)
    p.core_option(str(SOME_LANES))
    p.add_argument(
        "--serial", metavar="N", help="with a serial line in place of the Wishbone bus, N clock cycles for each bit"
    )
    dma_option(p)
    p.add_argument("--axi-lite", action="store_true", help="with AXI4-Lite in place of the Wishbone bus")
    p.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")


def execute_verilog(options: argparse.Namespace) -> int:
    """Write or print the Verilog."""
    from retrograd.hdl.bus.top import AxiLiteCoprocessor, Coprocessor, SerialCoprocessor
    from retrograd.hdl.netlist import convert

    p = parameters(options)
    if options.serial is not None and options.axi_lite:
        raise fail("RG0512", "--serial and --axi-lite are two buses", "Choose one of them.")
    bits = None if options.serial is None else integer(options.serial, "--serial", 4)
    if options.output is not None:
        check_output(options.output)
    made = AxiLiteCoprocessor(p) if options.axi_lite else Coprocessor(p) if bits is None else SerialCoprocessor(p, bits)
    text = convert(made, "retrograd")
    if options.output is None:
        print(text)
        return OK
    write_file(options.output, text)
    print(
        f"{printable(options.output)}: the co-processor for {p.format}, core {core_name(p)}, {len(text)} bytes of Verilog"
    )
    return OK
