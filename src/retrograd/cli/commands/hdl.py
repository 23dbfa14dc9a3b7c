"""`retrograd hdl`: the co-processor simulated, written as Verilog, placed and routed, proved, counted; last, the command `run`.

It imports retrograd.hdl. Start with `arguments` below; the options of the hardware are shared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrograd.cli import files as program_files
from retrograd.cli.arguments import parse_arguments, plain, shown
from retrograd.cli.batches import distribution_of
from retrograd.cli.files import cached_folder, constant, function_and_inverse, is_function, load_function, load_program
from retrograd.cli.options import (
    Parser,
    add_commands,
    fail,
    given_option,
    integer,
    opcodes_named,
    refuse_options_of_functions,
    refuse_options_of_programs,
    scale_given,
    slots_given,
    step_limit,
)
from retrograd.cli.records import CoreOptions, MachineOptions, SharingOptions
from retrograd.cli.report import print_json, show_errors
from retrograd.cli.terminal import LIMIT, OK, TRAPPED, WRONG, answer
from retrograd.hdl.parameters import Parameters
from retrograd.isa.diagnostics import DeviceError, Diagnostic, InputError, nearest, printable
from retrograd.isa.files import check_output, write_file
from retrograd.isa.manual.description import group_title
from retrograd.isa.microarchitecture.micro_operations import BARREL, MAX_THREADS, MIN_THREADS, core_units
from retrograd.isa.program import Program
from retrograd.isa.words import Format, format_of
from retrograd.presentation import Bar, columns

if TYPE_CHECKING:
    from retrograd.hdl.formal.proofs import ProofResult
    from retrograd.hdl.simulation.meters import Overwrites
    from retrograd.hdl.simulation.runs import Place, SimulatedRun

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
    add_commands(p, "retrograd.cli.commands", COMMANDS, dict.fromkeys(COMMANDS, "hdl"))


def execute_hdl(run: Callable[[], int]) -> int:
    """Run one of the commands. Raises DeviceError RG1008 where a tool is missing or fails."""
    try:
        return run()
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


def lanes_given(core: str, lanes: str | None) -> int | None:
    """The value of --lanes, None where it is not given. Raises InputError RG0502, RG0512, RG1125."""
    core_units(core)
    if core != BARREL and lanes is not None:
        raise fail("RG0512", f"--lanes is for the core barrel, and not for {core}", "--core barrel")
    number = None if lanes is None else integer(lanes, "--lanes", 1)
    if number is not None and not MIN_THREADS <= number <= MAX_THREADS:
        raise fail("RG0507", f"--lanes {lanes}: the core barrel has {MIN_THREADS} to {MAX_THREADS}")
    return number


def core_name(p: Parameters) -> str:
    """The core as text: small, or barrel with 8 threads, or with 8 threads and 2 slots."""
    return p.core + f" with {p.lanes} threads" * (p.core == BARREL) + f" and {p.slots} slots" * (p.slots > 1)


#: words of a memory of a co-processor that is written as text or placed: 16 Mbit of code, and 2 GB of memory for Yosys
_MOST_WORDS = 1 << 18


def parameters(options: CoreOptions) -> Parameters:
    """The co-processor that the options describe. Raises InputError RG0507, RG0604, RG1125."""
    w = format_of(options.format)
    code, data = integer(options.code, "--code", 2), integer(options.data, "--data", 2)
    for option, words in (("--code", code), ("--data", data)):
        if words > _MOST_WORDS:
            message = f"{option}: {words} words; tools of synthesis hold some 8 kB for each word of a memory"
            raise fail("RG0507", message, f"{_MOST_WORDS} or less")
    lanes = lanes_given(options.core, options.lanes) or (MIN_THREADS if options.core == BARREL else 1)
    try:
        slots = slots_given(options.core, options.slots)
        return Parameters(w, code, data, core=options.core, lanes=lanes, slots=slots, dma=options.dma)
    except ValueError as error:
        raise fail("RG0507", str(error)) from None


# -----------------------------------------------------------------------------
# `retrograd hdl build`: the bitstream of the co-processor for a board.


class BuildOptions(CoreOptions):
    board: str
    mhz: str
    seed: str
    folder: str | None
    output: str


def arguments_of_build(p: Parser) -> None:
    """Options of `retrograd hdl build`."""
    p.add_argument("--board", choices=("ulx3s",), default="ulx3s", help="the board (default: ulx3s, with an ECP5-85F)")
    format_option(p)
    memory_options(p)
    p.core_option(lanes=True, slots=True)
    p.add_argument("--mhz", metavar="MHZ", default="25", help="the clock of the co-processor (default: 25)")
    p.add_argument("--seed", metavar="N", default="1", help="of the placement (default: 1)")
    p.add_argument("--folder", metavar="DIR", help="keep the files of the tools here")
    p.add_argument("-o", "--output", metavar="FILE.bit", required=True, help="the bitstream to write")


def execute_build(options: BuildOptions) -> int:
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


class FormalOptions(CoreOptions, SharingOptions):
    opcodes: Sequence[str]
    classes: bool
    seconds: str


def arguments_of_formal(p: Parser) -> None:
    """Options of `retrograd hdl formal`."""
    p.add_argument(
        "opcodes", nargs="*", metavar="OPCODE",
        help="such as mul.add; or multiplier, divider, ROM, bus; of the core barrel also turns or threads (default: all)",
    )  # fmt: skip
    format_option(p, "8,4")
    p.core_option(slots=True)
    p.add_argument("--classes", action="store_true", help="the shortest opcode of each class only")
    p.add_argument("--seconds", metavar="N", default="60", help="for each proof at most (default: 60)")
    p.distribution_options("proofs are kept there, and not repeated")
    p.json_option("retrograd.formal/2")


def execute_formal(options: FormalOptions) -> int:
    """Prove, and show each proof as it ends."""
    from retrograd.hardware.proofs import distributed_proofs
    from retrograd.hdl.formal.claims import claims, classes, not_covered
    from retrograd.hdl.formal.proofs import PART_CLAIM, ProofResult, part_claims, parts_of, prove_parts
    from retrograd.isa.table import TABLE

    w, core = format_of(options.format), options.core
    slots = slots_given(core, options.slots)
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
    opcodes = list(dict.fromkeys(chosen))
    if options.classes and opcodes:
        raise fail("RG0512", "--classes chooses the opcodes", "leave out the opcodes, or --classes")
    seconds = integer(options.seconds, "--seconds", 1, "number of seconds")
    over = distribution_of(options)
    class_of = {o.name: group_title(o.group) for o in TABLE}
    class_of |= {o.name: name for name, opcodes in classes(w).items() for o in opcodes}
    wanted = [opcodes[0].name for opcodes in classes(w).values()] if options.classes else opcodes or known
    parts = [part for part in every_part if part in wanted or options.classes]
    # The expected claims follow from the table, so an absent proof fails like a refuted claim.
    expected = {claim.name: (claim.kind.value, class_of[claim.opcode.name]) for claim in claims(w, wanted, core)}
    expected |= {name: (PART_CLAIM, part) for name, part in part_claims(w, parts, core, slots).items()}
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
        steps = distributed_proofs(w, wanted, seconds, over, core, slots)
        for found in chain(steps, prove_parts(w, parts, seconds, core, slots)):
            add(found)
            bar(1)
    proved = {found.opcode for _, _, found in rows}
    for name in expected:
        if name not in proved:
            add(ProofResult(name, False, 0.0, 0, "there is no proof"))
    held = sum(found.holds for _, _, found in rows)
    left = not_covered(w, wanted)
    if options.json:
        print_json("retrograd.formal/2", _as_dict(w, core, slots, len(expected), rows, left))
    else:
        for name, reason in left.items():
            print(f"{name:<28} not claimed of {reason}")
        witnessed = sum(found.witnessed for _, _, found in rows)
        print(f"{len(left)} modes not claimed of all runs, {witnessed} ends reached")
        on = f" on the core {core}" * (core != "small") + f" with {slots} slots" * (slots > 1)
        print(f"{held} of {len(expected)} hold at {w}{on}")
    return OK if held == len(expected) == len(rows) else WRONG


def _show(found: ProofResult, claimed: str, kind: str | None) -> None:
    if kind is not None:
        print(kind)
    verdict = claimed if found.holds else f"NOT {claimed.upper()}: {found.counterexample}"
    print(f"{found.opcode:<28} {verdict}, {found.seconds:.1f} s", flush=True)


def _as_dict(
    w: Format, core: str, slots: int, expected: int, rows: list[tuple[str, str, ProofResult]], left: dict[str, str]
) -> dict[str, object]:
    proofs = [
        {
            "what": found.opcode, "claim": claimed, "class": kind, "holds": found.holds,
            "seconds": round(found.seconds, 3), "counterexample": found.counterexample, "witnessed": found.witnessed,
        }
        for claimed, kind, found in rows
    ]  # fmt: skip
    return {
        "format": {"width": w.width, "frac": w.frac}, "core": core, **({"slots": slots} if slots > 1 else {}),
        "expected": expected,
        "held": sum(found.holds for _, _, found in rows), "proofs": proofs, "not_covered": left,
    }  # fmt: skip


# -----------------------------------------------------------------------------
# `retrograd hdl registers`: the register map of the co-processor for drivers, debuggers and documentation.


class RegistersOptions(CoreOptions):
    kind: str | None
    base: str


def arguments_of_registers(p: Parser) -> None:
    """Options of `retrograd hdl registers`."""
    p.add_argument(
        "--as", dest="kind", choices=("c", "svd", "markdown"),
        help="a C header, a CMSIS-SVD file, or the page of the documentation (default: as -o ends, else a table)",
    )  # fmt: skip
    p.add_argument("--base", metavar="ADDRESS", default="0", help="byte address of the device, for svd (default: 0)")
    format_option(p)
    memory_options(p)
    p.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")
    p.json_option("retrograd.registers/1")


def execute_registers(options: RegistersOptions) -> int:
    """Write or print the map."""
    from retrograd.hdl.bus.register_documents import as_dict, header, markdown, svd
    from retrograd.hdl.bus.register_map import Area

    p, base = parameters(options), integer(options.base, "--base", 0)
    if base + Area.CODE.address(p.code_words) > 1 << 32:
        raise fail("RG0507", f"--base: from {options.base[:40]} on, the device does not fit 32 bits of address")
    if options.output is not None:
        check_output(options.output)
    by_suffix = {".h": "c", ".svd": "svd", ".md": "markdown"}.get(Path(options.output or "").suffix)
    match options.kind or by_suffix:
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


class StatOptions(CoreOptions):
    pass


def arguments_of_stat(p: Parser) -> None:
    """Options of `retrograd hdl stat`."""
    format_option(p)
    p.core_option(lanes=True, slots=True)
    p.add_argument("-o", "--output", metavar="FILE", help="write them as JSON (schema retrograd.gates/1)")
    p.json_option("retrograd.gates/1")


def execute_stat(options: StatOptions) -> int:
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


class SynthOptions(CoreOptions):
    mhz: str
    seed: str
    seeds: str | None
    grade: str
    folder: str
    path: bool


def arguments_of_synth(p: Parser) -> None:
    """Options of `retrograd hdl synth`."""
    format_option(p)
    memory_options(p)
    p.core_option(lanes=True, slots=True)
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


def execute_synth(options: SynthOptions) -> int:
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
            "core": p.core, "lanes": p.lanes, "slots": p.slots, "code_words": p.code_words, "data_words": p.data_words, "dma": p.dma, "luts": best.luts, "registers": best.registers,
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


class VerilogOptions(CoreOptions):
    serial: str | None
    axi_lite: bool


def arguments_of_verilog(p: Parser) -> None:
    """Options of `retrograd hdl verilog`."""
    format_option(p)
    memory_options(p)
    p.core_option(lanes=True, slots=True)
    p.add_argument(
        "--serial", metavar="N", help="with a serial line in place of the Wishbone bus, N clock cycles for each bit"
    )
    dma_option(p)
    p.add_argument("--axi-lite", action="store_true", help="with AXI4-Lite in place of the Wishbone bus")
    p.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")


def execute_verilog(options: VerilogOptions) -> int:
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


# -----------------------------------------------------------------------------
# `retrograd hdl run`: a program or a reversible function on the simulated co-processor.


class RunOptions(MachineOptions):
    json: bool
    grad: str | None
    scale: str | None
    core: str
    lanes: str | None
    slots: str | None
    verilator: bool
    vcd: str | None
    erasure: bool
    activity: str | None


def arguments_of_run(p: Parser) -> None:
    """Options of `retrograd hdl run`."""
    p.program_argument(" or FILE.py:FUNCTION, FILE.ja[:PROCEDURE]")
    p.function_arguments()
    p.run_options(
        "--set", "--format", "--dialect", "--entry", "--batch", "--shared", "--backward", "--max-steps", "--no-overflow",
        "--strict", max_steps="100000",
    )  # fmt: skip
    p.add_argument(
        "--grad",
        metavar="LOSS",
        help="then run back with cotangents: of a function's argument, a register, a data label or an address",
    )
    p.add_argument(
        "--scale", metavar="K",
        help="the loss's cotangent is 2^K, and divided by it (default: 0 for a program, auto for a function)",
    )  # fmt: skip
    p.core_option(lanes=True, slots=True)
    p.add_argument(
        "--verilator", action="store_true",
        help="simulate by Verilator, some hundred times as fast once it has compiled",
    )  # fmt: skip
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


def execute_run(options: RunOptions) -> int:
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
    lanes_given(options.core, options.lanes)
    slots_given(options.core, options.slots)
    if options.core == BARREL:
        if options.vcd is not None:
            raise fail("RG0512", f"--vcd is not for the core {options.core}", "leave out --vcd")
        if options.batch is None:
            raise fail("RG0512", f"the core {options.core} executes the elements of a batch", "--batch FILE.npz")
        if not is_function(options.program):
            raise fail("RG0512", f"--batch is for functions, and `{options.program}` is a program", "FILE.py:FUNCTION")
        return _run_batch(options)
    option = given_option(options, ("--batch", "--shared"))
    if option is not None:
        raise fail("RG0512", f"{option} is for the core barrel", "--core barrel")
    if options.vcd is not None:
        if options.verilator:
            raise fail("RG0512", "--vcd is for Amaranth's simulator", "leave out --verilator")
        check_output(options.vcd)
        check_output(Path(options.vcd).with_suffix(".gtkw"))
    return _run_function(options) if is_function(options.program) else _run_program(options)


def _folder(options: RunOptions) -> Path | None:
    """The folder of Verilator's libraries; None for Amaranth's simulator."""
    return cached_folder("verilator") if options.verilator else None


def _run_program(options: RunOptions) -> int:
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
            steps=step_limit(options.max_steps),
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

    register = program_files.register_named(text, program)
    if register is not None:
        return Place(register, register=True)
    if text in program.data_labels:
        return Place(program.data_labels[text])
    if text.isdecimal() and int(text) < program.memory:
        return Place(int(text))
    hint = program_files.other_place(text, program)
    hint = hint or "write r0 to r255, a name of `.reg`, a data label, or an address of its memory"
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


def _write_activity(options: RunOptions, document: dict[str, Any] | None) -> dict[str, Any]:
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


def _run_function(options: RunOptions) -> int:
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
            max_steps=step_limit(options.max_steps),
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


def _run_batch(options: RunOptions) -> int:
    """Each element of a batch on a thread of its own."""
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
            lanes=lanes_given(options.core, options.lanes),
            slots=slots_given(options.core, options.slots),
            format=None if options.format is None else format_of(options.format),
            precision=options.precision,
            loss=options.grad,
            scale=scale_given(options.scale or "auto"),
            verilator=_folder(options),
            max_steps=step_limit(options.max_steps),
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
    print(f"{found.issued} instructions in {found.cycles} cycles{back}")
    return OK
