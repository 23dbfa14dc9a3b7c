"""The meaning of instructions as Python functions, computed from their expression trees, and decoded programs.

    handler(registers, memory, BR, rd, ra, rb, imm) → BR'          one for each opcode, format and set of guards
    decode(program) = {+1: [handler and operands of i for i in code], −1: [handler and operands of i⁻¹ for i in code]}

A handler reads its operands, checks all guards, and then writes. A trap has therefore changed nothing. With D = 1 the handler
also reads and writes the cotangents of its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import isqrt
from typing import Any

from retrograd.isa.derivatives import NOTHING, CotangentStep, cotangent_step
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Opcode, bar
from retrograd.isa.folds import emit
from retrograd.isa.program import Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format
from retrograd.simulator.stores import Cotangents, Fault, Store, for_handlers

#: handler(registers, memory, br, rd, ra, rb, imm as a word) -> br; br is signed
Handler = Callable[[Store, Store, int, int, int, int, int], int]

#: place -> the Python expression for its word, and for its cotangent
_WORDS = {"d": "R[d]", "a": "R[a]", "b": "R[b]", "m": "M[p]"}
_COTANGENTS = {"d": "C[d]", "a": "C[a]", "b": "C[b]", "m": "N[p]"}
_TARGETS = _WORDS | {bar(p): text for p, text in _COTANGENTS.items()}


def handler_source(opcode: Opcode, w: Format, modes: frozenset[str], cotangents: CotangentStep = NOTHING) -> str:
    """The Python source of the opcode's handler, with the guards of the given modes."""
    guards = [g for g in opcode.guards(w) if g.mode == "always" or g.mode in modes]
    further = [g for g in cotangents.guards if g.mode == "always" or g.mode in modes]
    after = opcode.transition(w) | cotangents.after
    body: list[str] = []
    # The most frequent guard needs no tree: BR, an int here, must be zero.
    if NOT_JUMPING in guards:
        body.append(f"if br: raise Fault({NOT_JUMPING.code!r}, br)")
    guards = [g for g in guards if g != NOT_JUMPING]

    predicates = [*(opcode.guard_predicate(g, w) for g in guards), *(g.predicate for g in further)]
    culprits = [g.culprit for g in (*guards, *further) if g.culprit is not None]
    names = {p: f"x_{p}" for p in (*_WORDS, "br")} | {bar(p): f"c_{p}" for p in _WORDS} | {"imm": "imm"}
    statements, out = emit([*predicates, *culprits, *after.values()], w, names)
    tests, rest = out[: len(predicates)], out[len(predicates) :]
    values = iter(rest[: len(culprits)])
    final = dict(zip(after, rest[len(culprits) :], strict=True))

    seen = " ".join([*statements, *out])
    for p in REGISTER_FIELDS:
        if f"x_{p}" in seen:
            body.append(f"x_{p} = R[{p}]")
        if f"c_{p}" in seen:
            body.append(f"c_{p} = C[{p}]")
    if "m" in opcode.reads or "m" in opcode.writes:
        body.append(f"p = (R[a] + imm) & {w.mask}")
        body.append("if p >= len(M): raise Fault('RG0401', p)")
        body.append("x_m = M[p]")
        if "c_m" in seen:
            body.append("c_m = N[p]")
    if "x_br" in seen:
        body.append(f"x_br = br & {w.mask}")
    body += statements
    for guard, test in zip((*guards, *further), tests, strict=True):
        value = next(values) if guard.culprit is not None else "None"
        of_cotangent = ", True" if guard in further else ""
        body.append(f"if not {test}: raise Fault({guard.code!r}, {value}{of_cotangent})")

    changed = [(_TARGETS[p], text) for p, text in final.items() if p != "br"]
    # `drop` comes last, since it may raise a fault and changes the account of cotangents.
    changed += [(_TARGETS[p], f"drop({_TARGETS[p]})") for p in cotangents.drops]
    if changed:
        body.append(f"{', '.join(t for t, _ in changed)} = {', '.join(v for _, v in changed)}")
    body.append(f"return ({final['br']} ^ {w.sign}) - {w.sign}" if "br" in final else "return 0")
    return "def handler(R, M, br, d, a, b, imm):\n" + "".join(f"    {line}\n" for line in body)


@cache
def handler(opcode: Opcode, w: Format, modes: frozenset[str]) -> Handler:
    """The handler of the opcode with D = 0."""
    run: Handler = _compiled(handler_source(opcode, w, modes))["handler"]
    return run


def lifted_handler(opcode: Opcode, w: Format, modes: frozenset[str], same: bool, cotangents: Cotangents) -> Handler:
    """The handler of the opcode with D = 1, which moves these cotangents; `same`: ra and rb are the same register."""
    return _lifted_code(opcode, w, modes, same)(cotangents.registers, for_handlers(cotangents.memory), cotangents.drop)


@cache
def _lifted_code(opcode: Opcode, w: Format, modes: frozenset[str], same: bool) -> Callable[..., Handler]:
    inner = handler_source(opcode, w, modes, cotangent_step(opcode, w, same))
    indented = "".join(f"    {line}\n" for line in inner.splitlines())
    bind: Callable[..., Handler] = _compiled(f"def bind(C, N, drop):\n{indented}    return handler\n")["bind"]
    return bind


def _compiled(source: str) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(source, {"__name__": __name__, "isqrt": isqrt, "Fault": Fault}, scope)
    return scope


# ---------------------------------------------------------------- decoding

#: kinds of instructions: the direction turns, the machine halts, or neither
PLAIN, TURNS, HALTS = 0, 1, 2
#: handler, rd, ra, rb, imm as a word, and the kind
Decoded = tuple[Handler, int, int, int, int, int]


def decode(p: Program, modes: frozenset[str], cotangents: Cotangents | None) -> dict[int, list[Decoded]]:
    """direction -> the decoded instructions by address; their handlers move `cotangents` too, unless it is None.

    Decoded code without cotangents holds no state of a machine, so all machines of one program share it.
    """
    if cotangents is None:
        return _shared(tuple(p.code), p.format, p.table, modes)
    return _decode(p, modes, cotangents)


@lru_cache(maxsize=32)
def _shared(code: tuple[int, ...], w: Format, table: Table, modes: frozenset[str]) -> dict[int, list[Decoded]]:
    return _decode(Program(code, format=w, table=table), modes, None)


def _decode(p: Program, modes: frozenset[str], cotangents: Cotangents | None) -> dict[int, list[Decoded]]:
    w, code = p.format, p.instructions
    made: dict[tuple[Opcode, bool], Handler] = {}

    def decoded(i: Instruction) -> Decoded:
        o, same = i.opcode, cotangents is not None and i.ra == i.rb
        execute = made.get((o, same))
        if execute is None:
            execute = handler(o, w, modes) if cotangents is None else lifted_handler(o, w, modes, same, cotangents)
            made[o, same] = execute
        kind = HALTS if o.halts else TURNS if o.turns else PLAIN
        return execute, i.rd, i.ra, i.rb, i.imm & w.mask, kind

    return {+1: [decoded(i) for i in code], -1: [decoded(inverse(i, p.table)) for i in code]}
