"""`retrograd hdl formal`: proofs that the hardware takes back what it did."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING

from retrograd.cli.commands.functions import parse_format
from retrograd.cli.files import fail
from retrograd.cli.main import BAD_INPUT, OK
from retrograd.cli.processes import parse_jobs, processes
from retrograd.isa.diagnostics import nearest
from retrograd.isa.words import Format
from retrograd.presentation.progress import Bar

if TYPE_CHECKING:
    from retrograd.hdl.formal.claims import Claim
    from retrograd.hdl.formal.proofs import ProofResult

#: exit code of a proof that failed
REFUTED = 1


def formal_command(options: argparse.Namespace) -> int:
    """Prove, tell each proof as it ends; returns the exit code."""
    from retrograd.hdl.formal.claims import claims, classes, provable
    from retrograd.hdl.formal.proofs import ProofResult, prove_all
    from retrograd.isa.table import TABLE

    w = parse_format(options.format)
    known = [o.name for o in TABLE]
    for name in options.opcodes:
        if name not in known:
            raise fail("RG0507", f"there is no opcode `{name[:40]}`", nearest(name, known))
        if not provable(TABLE[name]):
            hint = "an erasure loses words by its meaning, and at `start` and `finish` the machine stays"
            raise fail("RG0507", f"there is nothing to prove of `{name}`", hint)
    if options.classes and options.opcodes:
        raise fail("RG0512", "--classes chooses the opcodes", "leave out the opcodes, or --classes")
    seconds, jobs = _seconds(options.seconds), parse_jobs(options.jobs)
    class_of = {o.name: name for name, opcodes in classes(w).items() for o in opcodes}
    wanted = [opcodes[0].name for opcodes in classes(w).values()] if options.classes else options.opcodes or known
    # What is expected follows from the table: a proof that is absent fails like one that is refuted.
    expected = {claim.name: claim for claim in claims(w, wanted)}
    rows: list[tuple[Claim, str, ProofResult]] = []
    told: set[str] = set()

    def tell(found: ProofResult) -> None:
        claim = expected[found.opcode]
        kind = class_of[claim.opcode.name]
        if not options.json:
            _tell(found, claim, kind if options.classes and kind not in told else None)
        told.add(kind)
        rows.append((claim, kind, found))

    try:
        # Where each proof is told as it ends, that is progress enough.
        with processes(jobs) as executor, Bar(len(expected), None if options.json else False, "proving") as bar:
            for found in prove_all(w, wanted, seconds, executor):
                tell(found)
                bar(1)
    except BrokenExecutor:
        print("error: a process that proved was ended from outside", file=sys.stderr)
        return BAD_INPUT
    proved = {found.opcode for _, _, found in rows}
    for name in expected:
        if name not in proved:
            tell(ProofResult(name, False, 0.0, 0, "there is no proof"))
    held = sum(found.holds for _, _, found in rows)
    if options.json:
        print(json.dumps(_as_dict(w, len(expected), rows), indent=2))
    else:
        print(f"{held} of {len(expected)} hold at {w}")
    return OK if held == len(expected) == len(rows) else REFUTED


def _tell(found: ProofResult, claim: Claim, kind: str | None) -> None:
    if kind is not None:
        print(kind)
    said = claim.kind.value if found.holds else f"NOT {claim.kind.value.upper()}: {found.counterexample}"
    print(f"{found.opcode:<28} {said}, {found.seconds:.1f} s", flush=True)


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise fail("RG0507", f"--seconds: `{text[:40]}` is no number of seconds", "1 or more")
    return int(text)


def _as_dict(w: Format, expected: int, rows: list[tuple[Claim, str, ProofResult]]) -> dict[str, object]:
    proofs = [
        {
            "what": found.opcode, "claim": claim.kind.value, "class": kind, "holds": found.holds,
            "seconds": round(found.seconds, 3), "counterexample": found.counterexample, "witnessed": found.witnessed,
        }
        for claim, kind, found in rows
    ]  # fmt: skip
    return {
        "schema": "retrograd.formal/2", "format": {"width": w.width, "frac": w.frac}, "expected": expected,
        "held": sum(found.holds for _, _, found in rows), "proofs": proofs,
    }  # fmt: skip
