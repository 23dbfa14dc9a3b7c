"""Opcode -> Python function on a machine's state, folded from the table.

One function an opcode and format: it reads the operands, checks every guard, and only then writes. So a
trap has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isqrt

from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Opcode
from retrograd.isa.python_source import emit
from retrograd.isa.words import Format

#: handler(registers, memory, br, rd, ra, rb, imm as a word) -> br; br is signed
Handler = Callable[[list[int], list[int], int, int, int, int, int], int]


class Fault(Exception):
    """A guard that did not hold, before the machine adds where it stands."""

    def __init__(self, code: str, value: int | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.value = value


def handler_source(opcode: Opcode, w: Format, modes: frozenset[str]) -> str:
    """The Python source of the opcode's handler, with the guards of the given modes."""
    guards = [g for g in opcode.guards(w) if g.mode == "always" or g.mode in modes]
    after = opcode.transition(w)
    body: list[str] = []
    # The commonest guard needs no tree: BR is at hand as an int, and must be zero.
    if NOT_JUMPING in guards:
        body.append(f"if br: raise Fault({NOT_JUMPING.code!r}, br)")
    guards = [g for g in guards if g != NOT_JUMPING]

    culprits = [g.culprit for g in guards if g.culprit is not None]
    roots = [*(opcode.guard_predicate(g, w) for g in guards), *culprits, *after.values()]
    names = {p: f"x_{p}" for p in (*REGISTER_FIELDS, "m", "br")} | {"imm": "imm"}
    statements, out = emit(roots, w, names)
    predicates, rest = out[: len(guards)], out[len(guards) :]
    values = iter(rest[: len(culprits)])
    final = dict(zip(after, rest[len(culprits) :], strict=True))

    seen = " ".join([*statements, *out])
    for p in REGISTER_FIELDS:
        if f"x_{p}" in seen:
            body.append(f"x_{p} = R[{p}]")
    if "m" in opcode.reads or "m" in opcode.writes:
        body.append(f"p = (R[a] + imm) & {w.mask}")
        body.append("if p >= len(M): raise Fault('RG0401', p)")
        body.append("x_m = M[p]")
    if "x_br" in seen:
        body.append(f"x_br = br & {w.mask}")
    body += statements
    for guard, predicate in zip(guards, predicates, strict=True):
        value = next(values) if guard.culprit is not None else "None"
        body.append(f"if not {predicate}: raise Fault({guard.code!r}, {value})")

    targets = {"d": "R[d]", "a": "R[a]", "b": "R[b]", "m": "M[p]"}
    changed = [(targets[p], text) for p, text in final.items() if p != "br"]
    if changed:
        body.append(f"{', '.join(t for t, _ in changed)} = {', '.join(v for _, v in changed)}")
    body.append(f"return ({final['br']} ^ {w.sign}) - {w.sign}" if "br" in final else "return 0")
    return "def handler(R, M, br, d, a, b, imm):\n" + "".join(f"    {line}\n" for line in body)


@cache
def handler(opcode: Opcode, w: Format, modes: frozenset[str]) -> Handler:
    """The opcode as a Python function."""
    scope: dict[str, Handler] = {}
    exec(handler_source(opcode, w, modes), {"isqrt": isqrt, "Fault": Fault}, scope)
    return scope["handler"]
