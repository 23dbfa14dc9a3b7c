"""`retrograd hdl formal`: proofs that the hardware takes back what it did."""

from __future__ import annotations

import argparse
import json
import re
import sys
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING

from retrograd.cli.files import fail
from retrograd.cli.functions import parse_format
from retrograd.cli.main import BAD_INPUT, OK
from retrograd.cli.processes import parse_jobs, processes
from retrograd.isa.diagnostics import nearest
from retrograd.isa.words import Format
from retrograd.progress import Bar

if TYPE_CHECKING:
    from retrograd.hdl.proofs import Result

#: exit code of a proof that failed
REFUTED = 1


def formal_command(options: argparse.Namespace) -> int:
    """Prove, tell each proof as it ends; returns the exit code."""
    from retrograd.hdl.proofs import classes, prove_all
    from retrograd.isa.table import TABLE

    w = parse_format(options.format)
    known = [o.name for o in TABLE]
    for name in options.opcodes:
        if name not in known:
            raise fail("RG0507", f"there is no opcode `{name[:40]}`", nearest(name, known))
    if options.classes and options.opcodes:
        raise fail("RG0512", "--classes chooses the opcodes", "leave out the opcodes, or --classes")
    seconds, jobs = _seconds(options.seconds), parse_jobs(options.jobs)
    class_of = {o.name: name for name, opcodes in classes(w).items() for o in opcodes}
    wanted = [opcodes[0].name for opcodes in classes(w).values()] if options.classes else options.opcodes or known
    rows: list[tuple[str, Result]] = []
    proved: set[str] = set()
    try:
        # Where each proof is told as it ends, that is progress enough.
        with processes(jobs) as executor, Bar(len(wanted), None if options.json else False, "proving") as bar:
            for found in prove_all(w, wanted, seconds, executor):
                opcode = re.split("[ ,]", found.opcode)[0]
                kind = class_of[opcode]
                if not options.json:
                    _tell(found, kind if options.classes and kind not in (told for told, _ in rows) else None)
                rows.append((kind, found))
                bar(opcode not in proved)
                proved.add(opcode)
    except BrokenExecutor:
        print("error: a process that proved was ended from outside", file=sys.stderr)
        return BAD_INPUT
    held = sum(found.holds for _, found in rows)
    if options.json:
        print(json.dumps(_as_dict(w, rows), indent=2))
    else:
        print(f"{held} of {len(rows)} hold at {w}")
    return OK if held == len(rows) else REFUTED


def _tell(found: Result, kind: str | None) -> None:
    if kind is not None:
        print(kind)
    said = "taken back" if found.holds else f"NOT TAKEN BACK: {found.counterexample}"
    print(f"{found.opcode:<28} {said}, {found.seconds:.1f} s", flush=True)


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise fail("RG0507", f"--seconds: `{text[:40]}` is no number of seconds", "1 or more")
    return int(text)


def _as_dict(w: Format, rows: list[tuple[str, Result]]) -> dict[str, object]:
    proofs = [
        {
            "what": found.opcode, "class": kind, "holds": found.holds, "seconds": round(found.seconds, 3),
            "counterexample": found.counterexample,
        }
        for kind, found in rows
    ]  # fmt: skip
    return {"schema": "retrograd.formal/1", "format": {"width": w.width, "frac": w.frac}, "proofs": proofs}
