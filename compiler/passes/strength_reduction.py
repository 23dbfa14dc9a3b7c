"""Strength reduction and algebraic simplification: instructions with a constant are replaced by cheaper instructions.

    y += x · 1.0, x / 1.0   →  y += x                y ± x · 2.0    →  y ± x, twice
    y ± x · −1.0            →  y ∓ x                 y += x · 0.0   →  nothing
    y ⊕= x / c              →  y ⊕= x · (1/c)        if 1/c is a word
    y ⊕= x · 2ᵏ, x / 2ᵏ     →  y ⊕= x                between binary points: a move by more or fewer places
    y ⊕= n · 2ᵏ             →  y ⊕= n << k           integers
    y ⊕= n // 2ᵏ, n % 2ᵏ    →  y ⊕= n >> k, n ∧ (2ᵏ − 1)
    y += c; y += d          →  y += c + d            if the sum fits

Correct because words and cotangents are equal. An integer product carries no derivative, so it never becomes a move, which
carries one. Traps: a product or quotient that does not fit is no longer formed where only its sum with y counts, so a trap may
disappear. Cost: none.
"""

from __future__ import annotations

from collections import defaultdict

from retrograd.compiler.ir.instruction_selection import OPPOSITE, facts
from retrograd.compiler.ir.statements import Block, Const, Module, Node, Op, Operand, Var
from retrograd.compiler.ir.traversal import map_blocks, map_bodies
from retrograd.isa.points import shifts_of_moves
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


def reduce_strength(module: Module) -> Module:
    """Use cheaper instructions where the words and cotangents are the same."""
    w = module.format
    joined = defaultdict[str, set[tuple[str, int]]](set)
    module = map_bodies(module, lambda body: map_blocks(body, lambda block: _reduce(block, w, joined)))
    return module.with_unsettled(joined)


def _reduce(block: Block, w: Format, joined: defaultdict[str, set[tuple[str, int]]]) -> Block:
    """`joined`: variable -> the lines whose updates have become one."""
    out: list[Node] = []
    changed = False
    for node in block:
        if not isinstance(node, Op):
            out.append(node)
            continue
        cheaper = _cheaper(node, w)
        changed |= cheaper is not None
        for op in (node,) if cheaper is None else cheaper:
            merged = _merged(out[-1], op, w) if out else None
            if merged is not None:
                lines = [x.span.lines() for x in (out[-1], op) if x.span is not None]
                if lines and lines[0] != lines[-1] and isinstance(op.d, Var) and not op.d.name.startswith("%"):
                    joined[op.d.name].update(*lines)
                out[-1:] = merged
                changed = True
            else:
                out.append(op)
    return tuple(out) if changed else block


def _cheaper(op: Op, w: Format) -> tuple[Op, ...] | None:
    """Cheaper instructions with the same effect, or None."""
    a, b = op.a, op.b
    match op.opcode.entry.name:
        case "fmul" if isinstance(b, Const):
            return _product(op, a, b.word, w)
        case "fmul" if isinstance(a, Const):
            return _product(op, b, a.word, w)
        case "fdiv" if isinstance(b, Const):
            return _quotient(op, b.word, w)
        case "fmulp" if isinstance(b, Const):
            return _moved(op, a, b.word, -1, w)
        case "fmulp" if isinstance(a, Const):
            return _moved(op, b, a.word, -1, w)
        case "fdivp" if isinstance(b, Const):
            return _moved(op, a, b.word, 1, w)
        case "mul" if isinstance(b, Const):
            return _integer_product(op, a, b.word, w)
        case "mul" if isinstance(a, Const):
            return _integer_product(op, b, a.word, w)
        case "div" | "mod" if isinstance(b, Const):
            return _integer_quotient(op, b.word, w)
    return None


def _use(op: Op, name: str, update: str | None, a: Operand | None, b: Operand | None = None) -> Op:
    return op._replace(opcode=TABLE[f"{name}.{update}"], a=a, b=b, imm=0)


def _product(op: Op, x: Operand | None, word: int, w: Format) -> tuple[Op, ...] | None:
    """y ⊕= x · c."""
    update = op.opcode.update
    one, factor = 1 << w.frac, w.signed(word)
    if factor == 0:
        return ()
    if factor == one:
        return (_use(op, "fmov", update, x),)
    if update not in ("add", "sub"):
        return None
    update = OPPOSITE[update] if factor < 0 else update
    # Between y and y + 2x lies y + x: if those fit, so does this.
    if abs(factor) in (one, 2 * one):
        return (_use(op, "fmov", update, x),) * (abs(factor) // one)
    return None


def _quotient(op: Op, word: int, w: Format) -> tuple[Op, ...] | None:
    """y ⊕= x / c = x · (1/c): the same rational number, rounded."""
    divisor, one = w.signed(word), 1 << w.frac
    if divisor == 0 or (one * one) % divisor:
        return None
    inverse = one * one // divisor
    if not -w.sign <= inverse < w.sign:
        return None
    product = _use(op, "fmul", op.opcode.update, op.a, Const(inverse & w.mask))
    return _product(product, op.a, inverse & w.mask, w) or (product,)


def _moved(op: Op, x: Operand | None, word: int, sign: int, w: Format) -> tuple[Op, ...] | None:
    """y ⊕= ⌊x·2^k / 2^imm⌉ or, with the sign 1, ⌊x·2^imm / 2^k⌉: a move, which rounds as they do."""
    k = _power_of_two(word, w)
    by = 0 if k is None else sign * (op.imm - k)
    if k is None or op.opcode.update not in ("add", "sub") or by not in shifts_of_moves(w):
        return None
    return (_use(op, "fmovp" if by else "fmov", op.opcode.update, x)._replace(imm=by),)


def _power_of_two(word: int, w: Format) -> int | None:
    value = w.signed(word)
    return value.bit_length() - 1 if value > 0 and not value & (value - 1) else None


def _integer_product(op: Op, x: Operand | None, word: int, w: Format) -> tuple[Op, ...] | None:
    """y ⊕= x · c mod 2^W."""
    if word & w.mask == 0:
        return ()
    # The low words of products are right for the sign bit, too.
    k = w.width - 1 if word & w.mask == w.sign else _power_of_two(word, w)
    return None if k is None else (_use(op, "shl", op.opcode.update, x, Const(k)),)


def _integer_quotient(op: Op, word: int, w: Format) -> tuple[Op, ...] | None:
    """y ⊕= x // 2ᵏ or x % 2ᵏ, floored as a shift floors."""
    k = _power_of_two(word, w)
    if k is None:
        return None
    if op.opcode.entry.name == "div":
        return (_use(op, "sar", op.opcode.update, op.a, Const(k)),)
    return (_use(op, "and", op.opcode.update, op.a, Const((1 << k) - 1)),) if k else ()


def _merged(first: Node, second: Op, w: Format) -> tuple[Op, ...] | None:
    """y += c; y += d as one update by a constant, or none where that is zero."""
    if not isinstance(first, Op) or first.d is not second.d:
        return None
    entry = second.opcode.entry
    if first.opcode.entry is not entry or entry.name not in ("mov", "fmov"):
        return None
    if not isinstance(first.a, Const) or not isinstance(second.a, Const) or not facts(second.opcode).updates:
        return None
    updates = {first.opcode.update, second.opcode.update}
    if updates == {"xor"}:
        word = first.a.word ^ second.a.word
    elif "xor" not in updates:
        sign = 1 if first.opcode.update == second.opcode.update else -1
        total = w.signed(first.a.word) + sign * w.signed(second.a.word)
        if entry.name == "fmov" and not -w.sign < total < w.sign:
            return None
        word = total & w.mask
    else:
        return None
    return (first._replace(a=Const(word)),) if word else ()
