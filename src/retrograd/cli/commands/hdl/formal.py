"""`retrograd hdl formal`: proofs that each step of the hardware is the table's, and is undone exactly."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import TYPE_CHECKING

from retrograd.cli.batches import distribution_of
from retrograd.cli.commands.hdl.hardware import format_option
from retrograd.cli.options import Parser, fail, integer, opcodes_named
from retrograd.cli.report import print_json
from retrograd.cli.terminal import OK, WRONG
from retrograd.isa.diagnostics import InputError, nearest
from retrograd.isa.manual.description import group_title
from retrograd.isa.microarchitecture.lanes import LANES
from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.words import Format, format_of
from retrograd.presentation import Bar

if TYPE_CHECKING:
    from retrograd.hdl.formal.proofs import ProofResult


def arguments(p: Parser) -> None:
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


def execute(options: argparse.Namespace) -> int:
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
