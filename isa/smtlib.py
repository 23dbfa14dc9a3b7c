"""The format in which an instruction that overflowed has a result, by the guards of the instruction table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from retrograd.isa.effects import Effect, Unerase, inverse, inverse_effect, transition
from retrograd.isa.entries import Guard, Opcode
from retrograd.isa.expr import Expr, evaluate, half, inputs, nodes, place, substitute
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format


def format_that_holds(opcode: Opcode, words: Mapping[str, int], kinds: Mapping[str, str], w: Format) -> Format | None:
    """The format of the width of w with the finest fraction in which the operands and the result fit, or else one of 64 bits, or none.

    `words`: the operands by place, in w. `kinds`: "fixed" or "lognum" for the places whose words depend on the fraction.
    Trap: the format holds this result; a later one may be greater.
    """
    coarser = [Format(w.width, frac) for frac in range(w.frac - 1, -1, -1)]
    wider = [Format(64, frac) for frac in range(w.frac, -1, -1)] if w.width < 64 else []

    def holds(v: Format) -> bool:
        moved = {}
        for operand, word in words.items():
            there = _moved(word, kinds.get(operand, ""), w, v)
            if there is None:
                return False
            moved[operand] = there
        return all(evaluate(opcode.guard_predicate(guard, v), v, moved) for guard in opcode.guards(v))

    # The first that holds is the finest. A lognum is rounded in a coarser format, so a format between two that hold need not hold.
    return next((v for v in (*coarser, *wider) if holds(v)), None)


def _moved(word: int, kind: str, w: Format, v: Format) -> int | None:
    """The word in v of the number or integer that a word of w holds; None where it does not fit."""
    sign = word & w.sign if kind == "lognum" else 0
    # A lognum is a sign and a logarithm of one bit less than the word.
    bits = w.width - 1 if kind == "lognum" else w.width
    number = word & ((1 << bits) - 1)
    number -= (number >> (bits - 1)) << bits
    if kind:
        number = round(Fraction(number, 1 << w.frac) * (1 << v.frac))
    room = v.width - 1 if kind == "lognum" else v.width
    if not -(1 << (room - 1)) <= number < 1 << (room - 1):
        return None
    return number & ((1 << room) - 1) | (v.sign if sign else 0)


# -----------------------------------------------------------------------------
# Fold: the expression tree as SMT-LIB 2 (QF_UFBV), for proofs by any solver.
#
# Square roots are uninterpreted functions: a proof then holds for any function, which is enough for the
# reversibility of `d ⊕= f(a)`.


def _constant(value: int, width: int) -> str:
    return f"(_ bv{value % (1 << width)} {width})"


def _symbol(name: str) -> str:
    """The name as SMT-LIB takes it: cotangents carry a bar, which only a quoted symbol may."""
    return name if name.isascii() else f"|{name}|"


def _term(node: Expr, v: list[str], w: Format) -> str:
    width = w.width
    s = node.param if isinstance(node.param, int) else 0
    zero, one = _constant(0, width), _constant(1, width)

    def bit(predicate: str) -> str:
        return f"(ite {predicate} {one} {zero})"

    def amount(text: str) -> str:
        return f"(bvand {text} {_constant(width - 1, width)})"

    def wide(text: str, by: int) -> str:
        return f"((_ sign_extend {by}) {text})"

    def low(text: str, shift: int = 0) -> str:
        return f"((_ extract {shift + width - 1} {shift}) {text})"

    def quotient(shift: int) -> str:
        # bvsdiv truncates: floor is one less where the remainder is nonzero and the signs differ.
        top, bottom = wide(v[0], 2 * width), wide(v[1], 2 * width)
        if shift > 0:
            top = f"(bvshl {top} {_constant(shift, 3 * width)})"
        if shift < 0:
            bottom = f"(bvshl {bottom} {_constant(-shift, 3 * width)})"
        inexact = f"(not (= (bvsrem {top} {bottom}) {_constant(0, 3 * width)}))"
        opposite = f"(xor (bvslt {v[0]} {zero}) (bvslt {v[1]} {zero}))"
        less = f"(ite (and {inexact} {opposite}) {_constant(1, 3 * width)} {_constant(0, 3 * width)})"
        return f"(bvsub (bvsdiv {top} {bottom}) {less})"

    match node.op:
        case "const":
            return _constant(s, width)
        case "input":
            return _symbol(str(node.param))
        case "add" | "sub" | "and" | "or" | "xor":
            return f"(bv{node.op} {v[0]} {v[1]})"
        case "shl":
            return f"(bvshl {v[0]} {amount(v[1])})"
        case "shr":
            return f"(bvlshr {v[0]} {amount(v[1])})"
        case "sar":
            return f"(bvashr {v[0]} {amount(v[1])})"
        case "eq":
            return bit(f"(= {v[0]} {v[1]})")
        case "lt":
            return bit(f"(bvslt {v[0]} {v[1]})")
        case "ltu":
            return bit(f"(bvult {v[0]} {v[1]})")
        case "select":
            return f"(ite (= {v[0]} {zero}) {v[2]} {v[1]})"
        case "mulshift":
            by = 2 * width  # room for a shift of 2W
            return low(f"(bvmul {wide(v[0], by)} {wide(v[1], by)})", s)
        case "mulround":
            product = f"(bvmul {wide(v[0], 2 * width)} {wide(v[1], 2 * width)})"
            return low(f"(bvadd {product} {_constant(half(s, w), 3 * width)})", s)
        case "divshift":
            return f"(ite (= {v[1]} {zero}) {zero} {low(quotient(s))})"
        case "divround":
            # ⌊z + ½⌋ = ⌊(⌊2z⌋ + 1) / 2⌋
            twice = f"(bvadd {quotient(s % width + 1)} {_constant(1, 3 * width)})"
            return f"(ite (= {v[1]} {zero}) {zero} {low(twice, 1 + s % width - s)})"
        case "sqrtround":
            return f"(isqrt{s} {v[0]})"
        case "table" if isinstance(node.param, tuple):
            index = f"(bvand {v[0]} {_constant(len(node.param) - 1, width)})"
            text = _constant(node.param[0], width)
            for number, entry in enumerate(node.param[1 : 1 << width], 1):  # no word reaches further
                text = f"(ite (= {index} {_constant(number, width)}) {_constant(entry, width)} {text})"
            return text
    raise ValueError(f"no SMT-LIB for operation {node.op!r}")


def define(roots: Sequence[Expr], w: Format, prefix: str = "t") -> tuple[list[str], list[str]]:
    """(commands, one name per root): every distinct node defined once, inputs and roots declared."""
    sort = f"(_ BitVec {w.width})"
    order = list(nodes(*roots))
    commands = [f"(declare-const {_symbol(name)} {sort})" for name in sorted(inputs(*roots))]
    shifts = sorted({n.param for n in order if n.op == "sqrtround" and isinstance(n.param, int)})
    commands += [f"(declare-fun isqrt{s} ({sort}) {sort})" for s in shifts]
    names: dict[Expr, str] = {}
    for node in order:
        term = _term(node, [names[arg] for arg in node.args], w)
        if node.op in ("input", "const"):
            names[node] = term
        else:
            names[node] = f"{prefix}{len(names)}"
            commands.append(f"(define-fun {names[node]} () {sort} {term})")
    return commands, [names[root] for root in roots]


def _stepwise(effects: Sequence[Effect], w: Format) -> tuple[list[Expr], list[Expr]]:
    """For each effect on its own, the words after it and its inverse, and the words that they should be."""
    finals: list[Expr] = []
    originals: list[Expr] = []
    for effect in effects:
        after = transition((effect,), w)
        for name, tree in transition((inverse_effect(effect),), w).items():
            finals.append(substitute(tree, after))
            originals.append(place(name))
    return finals, originals


def reversibility(opcode: Opcode, w: Format, table: Table = TABLE) -> str:
    """SMT-LIB text that is unsatisfiable iff the inverse undoes the opcode wherever neither traps.

    The negated law: the guards hold before and after, but some place differs once the inverse has run, or the
    inverse traps where the instruction did not. The inverse of an erasure may trap.
    """
    partner = table.inverse(opcode)
    # After an instruction that turns the machine round, its inverse is executed in the other direction: as the
    # instruction itself.
    undo = opcode if opcode.turns else partner
    negate = opcode.negates_immediate and not opcode.turns
    after = dict(opcode.transition(w))
    constant = {"imm": -place("imm")} if negate else {}

    def then(tree: Expr) -> Expr:
        return substitute(tree, {**after, **constant})

    restored = {name: then(tree) for name, tree in undo.transition(w).items()}
    effects = opcode.effects(w)
    if len(effects) > 1 and undo.effects(w) == inverse(effects):
        # The inverse of a sequence is the reversed sequence of inverses, so it is enough that the inverse of each
        # step undoes the step.
        finals, originals = _stepwise(effects, w)
    else:
        names = sorted(set(after) | set(restored))
        finals = [restored.get(name, after.get(name, place(name))) for name in names]
        originals = [place(name) for name in names]
    can_trap = not any(isinstance(e, Unerase) for e in undo.effects(w))

    def holds(op: Opcode) -> list[Expr]:
        def relevant(g: Guard) -> bool:
            return g.mode == "always"

        return [op.guard_predicate(g, w) for g in op.guards(w) if relevant(g)]

    first, second = holds(opcode), [then(tree) for tree in holds(undo)]
    trees = [*finals, *originals, *first, *second]
    commands, out = define(trees, w)
    n, zero = len(finals), _constant(0, w.width)
    changed = [f"(not (= {x} {y}))" for x, y in zip(out[:n], out[n : 2 * n], strict=True)]
    true_first = [f"(not (= {x} {zero}))" for x in out[2 * n : 2 * n + len(first)]]
    traps = [f"(= {x} {zero})" for x in out[2 * n + len(first) :]]
    if can_trap:
        wrong = [*changed, *traps]
        assume = true_first
    else:
        wrong, assume = changed, [*true_first, *(f"(not {t})" for t in traps)]
    body = " ".join(["true", *assume]), " ".join(["false", *wrong])
    return "\n".join([*commands, f"(assert (and {body[0]}))", f"(assert (or {body[1]}))"])
