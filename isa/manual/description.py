"""The description of an opcode in the manual: the facts as data, and the statements that are made of them.

Everything is computed from the trees, guards and adjoints of the table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby, takewhile
from string import ascii_letters
from typing import Any

from retrograd.isa.derivatives.adjoint import NoDerivative, lift
from retrograd.isa.diagnostics import KINDS
from retrograd.isa.effects import UPDATE_OPERATORS, Effects, Update, UpdateOperator, substitute_in, transition
from retrograd.isa.entries import BAR, NOT_JUMPING, Entry, Function, Opcode, bar, imm
from retrograd.isa.expr import ZERO, Expr, fold, inputs, place, substitute
from retrograd.isa.functions import is_opaque
from retrograd.isa.manual.notation import (
    NAMES,
    after,
    call,
    generalise,
    name_of_run,
    write,
    write_condition,
    write_effects,
    write_value,
)
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import WIDTHS, Format

SCHEMA = "retrograd.isa/1"

# ------------------------------------------------------------------------------------------------- facts


@dataclass(frozen=True)
class TrapCondition:
    """A trap that stops an instruction before it has changed anything, unless `condition` holds."""

    code: str
    title: str
    #: None: too long to write; the reason of the error's kind stands in its place
    condition: str | None
    when: str
    mode: str


@dataclass(frozen=True)
class Description:
    """The facts of one opcode; every field is computed."""

    name: str
    code: int
    group: str
    doc: str
    syntax: str
    operands: tuple[str, ...]
    fields: tuple[str, ...]
    distinct: tuple[tuple[str, str], ...]
    formula: tuple[str, ...]
    inverse: str
    inverse_negates_immediate: bool
    inverse_formula: tuple[str, ...]
    traps: tuple[TrapCondition, ...]
    #: the updates of cotangents when it runs, or why there are none
    derivative: tuple[str, ...] | None
    no_derivative: str | None
    #: the meaning of `∂v/∂ra` in `derivative`: the first line of the docstring of the partial derivatives
    partials: str | None
    #: the meaning of `v` in traps and derivative
    value: str | None
    shorthands: tuple[str, ...]
    immediate_form: str | None
    erased_words: int
    turns: bool
    halts: bool


def syntax(opcode: Opcode) -> str:
    operands = ", ".join("[ra + imm]" if kind == "[ra+imm]" else kind for kind in opcode.operands)
    return f"{opcode.name} {operands}".strip()


def _fits(opcode: Opcode, predicate: Expr) -> str | None:
    """`rd + v fits`, if that is the predicate; every checked update has such a guard."""
    entry, w = opcode.entry, Format()
    if not isinstance(entry, Function) or opcode.update is None:
        return None
    update, old, value = UPDATE_OPERATORS[opcode.update], place(entry.target), entry.value(w)
    if update.fits is None or update.fits(w, old, value) is not predicate:
        return None
    return f"{write(update.combine(w, old, place('v') if value.args else value))} fits"


def _named(opcode: Opcode, w: Format) -> Callable[[Expr], Expr]:
    """A tree -> the tree with `v` for the function's value, `rd′` for the word of rd after a bijection."""
    if isinstance(opcode.entry, Function):
        known = {opcode.entry.value(w): place("v")}
    else:
        known = {word: place(after(p)) for p, word in opcode.transition(w).items()}

    def combine(node: Expr, args: list[Expr]) -> Expr:
        composed = node.args or is_opaque(str(node.param))
        return known[node] if composed and node in known else Expr(node.op, tuple(args), node.param)

    return lambda tree: fold(tree, combine)


def _traps(opcode: Opcode) -> Iterator[TrapCondition]:
    if "[ra+imm]" in opcode.operands:
        yield TrapCondition("RG0401", KINDS["RG0401"].title, "0 ≤ ra + imm < N", "before", "always")
    for index, guard in enumerate(opcode.guards(Format())):

        def predicate(w: Format, index: int = index) -> Expr:
            return _named(opcode, w)(opcode.guards(w)[index].predicate)

        condition = _fits(opcode, guard.predicate)
        if condition is None:
            tree = generalise(predicate)
            if tree is not None and tree.op == "const" and tree is not ZERO:
                continue  # it holds in every format
            condition = None if tree is None else write_condition(tree)
        yield TrapCondition(guard.code, KINDS[guard.code].title, condition, guard.when, guard.mode)


def _turns_alike(opcode: Opcode) -> bool:
    """The opcode changes the cotangents of its places in the same way as the places."""
    w = Format()
    plain = {bar(p): place(p) for p in opcode.writes}
    lifted = transition(lift(opcode, w), w)
    return opcode.transition(w) == {p: substitute(lifted.get(bar(p), ZERO), plain) for p in opcode.writes}


def _derivative(opcode: Opcode) -> tuple[str, ...]:
    """The updates of cotangents; a partial derivative that cannot be written out is `∂v/∂ra`."""

    def cotangents(w: Format) -> Effects:
        named = _named(opcode, w)
        effects = lift(opcode, w)
        return tuple(Update(e.place, e.operator, named(e.value)) if isinstance(e, Update) else e for e in effects)

    def partial(run: Effects) -> str:
        (update,) = run
        assert isinstance(opcode.entry, Function)
        assert isinstance(update, Update)
        return f"∂v/∂{NAMES[update.place.removesuffix(BAR)]}·{write(place(bar(opcode.entry.target)))}"

    if isinstance(opcode.entry, Function):
        return write_effects(cotangents, partial)
    return write_effects(cotangents, name_of_run(opcode.name if _turns_alike(opcode) else f"∂{opcode.name}"))


def _partials_doc(entry: Entry) -> str | None:
    """The first line of the docstring of the entry's partial derivatives, with the manual's names of operands."""
    doc = inspect.getdoc(entry.partials) if isinstance(entry, Function) and entry.partials is not None else None
    if not doc:
        return None
    return re.sub(r"(?<![a-z])([abm])(?![a-z])", lambda p: NAMES[p[1]], doc.splitlines()[0]).replace("-", "−")


@cache
def describe(opcode: Opcode, table: Table = TABLE) -> Description:
    """The facts about one opcode of the table."""
    entry, inverse = opcode.entry, table.inverse(opcode)
    name = entry.name if isinstance(entry, Function) else opcode.name

    def undoing(w: Format) -> Effects:
        effects = inverse.effects(w)
        return substitute_in(effects, {"imm": ZERO - imm}) if opcode.negates_immediate else effects

    traps = tuple(_traps(opcode))
    derivative: tuple[str, ...] | None = None
    reason = None
    try:
        derivative = _derivative(opcode)
    except NoDerivative as why:
        reason = str(why)
    value = None
    said = [*(t.condition or "" for t in traps), *(derivative or ())]
    if isinstance(entry, Function) and any(re.search(r"\bv\b", text) for text in said):
        tree = generalise(entry.value)
        value = call(name, inputs(entry.value(Format()))) if tree is None else write_value(tree)
    immediate_form = table.immediate_form(opcode)
    return Description(
        name=opcode.name, code=opcode.code, group=opcode.group, doc=opcode.doc, syntax=syntax(opcode),
        operands=opcode.operands, fields=tuple(f for f in ("rd", "ra", "rb", "imm") if f in opcode.fields),
        distinct=opcode.distinct, formula=write_effects(opcode.effects, name_of_run(name)),
        inverse=inverse.name, inverse_negates_immediate=opcode.negates_immediate,
        inverse_formula=write_effects(undoing, name_of_run(name if isinstance(entry, Function) else inverse.name)),
        traps=traps, derivative=derivative, no_derivative=reason,
        partials=_partials_doc(entry) if any("∂v/∂" in update for update in derivative or ()) else None, value=value,
        shorthands=tuple(short for short, o in table.shorthands.items() if o is opcode),
        immediate_form=None if immediate_form is None else immediate_form.name,
        erased_words=opcode.erased_words, turns=opcode.turns, halts=opcode.halts,
    )  # fmt: skip


def combined(update: UpdateOperator) -> str:
    """`x ⊕ v` as a formula."""
    tree = generalise(lambda w: update.combine(w, place("x"), place("v")))
    return "" if tree is None else write(tree)


def fits_if(update: UpdateOperator) -> str | None:
    """The condition on x and v under which `x ⊕ v` is the exact result."""
    fits = update.fits
    if fits is None:
        return None
    tree = generalise(lambda w: fits(w, place("x"), place("v")))
    return None if tree is None else write_condition(tree)


def as_json(table: Table = TABLE) -> dict[str, Any]:
    """The table as JSON-serialisable data, for tools in other languages; `schema` names its version."""
    return {
        "schema": SCHEMA,
        "widths": list(WIDTHS),
        "encoding": [["op", 63, 56], ["rd", 55, 48], ["ra", 47, 40], ["rb", 39, 32], ["imm", 31, 0]],
        "updates": [
            {"name": u.name, "symbol": u.symbol, "undone_by": u.undone_by, "slope": u.slope, "fits": fits_if(u)}
            for u in UPDATE_OPERATORS.values()
        ],
        "opcodes": [asdict(describe(opcode, table)) for opcode in table],
    }


# ------------------------------------------------------------------------- one entry, as lines of facts

NOTHING = "changes nothing"
MODES = {"always": "", "overflow": "checking machine only", "strict": "strict mode only"}


#: group -> (title, common properties of its instructions)
GROUPS = {
    "moves": ("Moves", "The plainest updates: what is added, subtracted or exclusive-ored is a register or a constant."),
    "memory": ("Memory", "Loads and stores are updates too: neither overwrites, so neither forgets. To move a word "
               "without a copy, use `exch`."),
    "integer": ("Integer", "Two's complement, wrapping. None of these carries a derivative."),
    "fixed": ("Fixed point", "A word stands for word / 2^F. Products, quotients and roots are exact and then rounded to the "
              "nearest word: ⌊z + ½⌋, so ties go up. The checking machine traps where the rounded result does not "
              "fit; otherwise it wraps, and is still reversible."),
    "conversions": ("Conversions", "Between number formats."),
    "lognum": ("Logarithmic numbers", "A lognum is a sign bit above log₂|x| in fixed point. Multiplying and dividing in "
               "place lose nothing, which is why the updates here are `.mul` and `.div`."),
    "bijections": ("Bijections", "Instructions that are no updates, but permute the states of the machine all the same."),
    "ancillas": ("Ancillas and erasure", "An ancilla is a register borrowed at zero and returned at zero. Returning it "
                 "uncomputed costs nothing; erasing it costs its bits, and the machine counts them."),
    "branches": ("Branches", "Only branches change BR, and nothing else runs while a jump is under way. See *Control flow* above."),
}  # fmt: skip


def group_title(group: str) -> str:
    return GROUPS[group][0] if group in GROUPS else group.capitalize()


def stem(name: str) -> str:
    """The part of the name that opcodes with another update or condition share: `goto` of `goto.lt`, `mul` of `mul.add`."""
    return name.partition(".")[0]


def families(entries: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
    """Entries of one stem together, such as a branch under all its conditions."""
    for _, family in groupby(entries, lambda entry: stem(entry.name)):
        yield tuple(family)


def _common_start(texts: Sequence[str]) -> str:
    agreeing = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in agreeing)


def family_doc(family: Sequence[Entry]) -> str:
    """The entries' one description: their common beginning and end, with `…` between."""
    docs = [entry.doc for entry in family]
    if len(set(docs)) == 1:
        return docs[0]
    start = _common_start(docs)
    end = _common_start([doc[len(start) :][::-1] for doc in docs])[::-1].lstrip(ascii_letters)
    return f"{start.rsplit(' ', 1)[0]} …{end}"


def _shared(facts: Sequence[Description], said: Callable[[Description], Iterable[str]]) -> list[str]:
    """The statements about the opcodes, each once, after the opcodes for which it holds unless it holds for all."""
    holders: dict[str, list[Description]] = {}
    for fact in facts:
        for statement in said(fact):
            if statement:
                holders.setdefault(statement, []).append(fact)
    return [
        text if len(held) == len(facts) else f"{_opcode_names(held, facts)}: {text}" for text, held in holders.items()
    ]


def _opcode_names(held: Sequence[Description], facts: Sequence[Description]) -> str:
    """`fmul.add`, or `goto.*` where all opcodes of that stem are meant."""
    names: dict[str, None] = {}
    for fact in held:
        own = stem(fact.name)
        family = [f for f in facts if stem(f.name) == own]
        whole = len(family) > 1 and all(f in held for f in family)
        names[f"`{own}.*`" if whole else f"`{fact.name}`"] = None
    return ", ".join(names)


def _trap_text(trap: TrapCondition, link: Callable[[str], str]) -> str:
    moment = " afterwards" if trap.when == "after" else ""
    mode = f" ({MODES[trap.mode]})" if MODES[trap.mode] else ""
    if trap.condition is None:
        why = re.split(r"[;:.]", KINDS[trap.code].why)[0]
        when = f": {why[0].lower()}{why[1:]}"
    else:
        when = ", always" if trap.condition == "never" else f", unless `{trap.condition}`{moment}"
    return f"{link(trap.code)} {trap.title}{when}{mode}"


def _derivative_text(fact: Description) -> str:
    if fact.derivative is None:
        return f"none ({fact.no_derivative})"
    return ", ".join(f"`{update}`" for update in fact.derivative) or "unchanged"


def statements(
    facts: Sequence[Description], link: Callable[[str], str], all_traps: bool
) -> Iterator[tuple[str, list[str]]]:
    """(title, statements) of an entry, empty ones left out; code in backticks.

    `link` writes an error's code. Without `all_traps`, the trap that all instructions but branches have is left out.
    """
    implied = TrapCondition("RG0405", KINDS["RG0405"].title, write_condition(NOT_JUMPING.predicate), "before", "always")

    def traps(fact: Description) -> list[str]:
        plain = "BR" not in " ".join(fact.formula)
        return [_trap_text(t, link) for t in fact.traps if all_traps or not (plain and t == implied)]

    def direction(fact: Description) -> list[str]:
        return ["flips DIR"] if fact.turns else ["stops the machine"] if fact.halts else []

    def erased(fact: Description) -> list[str]:
        return [] if not fact.erased_words else ["W" if fact.erased_words == 1 else f"{fact.erased_words}·W"]

    yield from _present("Must differ", _shared(facts, lambda f: [", ".join(f"`{x} ≠ {y}`" for x, y in f.distinct)]))
    yield from _present("Where", list(dict.fromkeys(f"`v = {f.value}`" for f in facts if f.value is not None)))
    yield from _present("Traps", _shared(facts, traps))
    yield from _present("Cotangents", _shared(facts, lambda f: [_derivative_text(f)]))
    yield from _present("Derivative of v", list(dict.fromkeys(f.partials for f in facts if f.partials is not None)))
    yield from _present("Direction", _shared(facts, direction))
    yield from _present("Bits erased", _shared(facts, erased))
    yield from _present("Shorthand", [", ".join(f"`{s}` is `{f.name}`" for f in facts for s in f.shorthands)])
    constant = [f"`{f.name}` becomes `{f.immediate_form}`" for f in facts if f.immediate_form is not None]
    yield from _present("With a constant", [", ".join(constant)])


def _present(title: str, statements: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    if any(statements):
        yield title, [s for s in statements if s]


def effect_text(fact: Description) -> str:
    return "; ".join(fact.formula) or NOTHING


def inverse_text(fact: Description) -> str:
    return f"`{fact.inverse}`{' with −imm' if fact.inverse_negates_immediate else ''}"
