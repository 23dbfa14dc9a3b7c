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

from retrograd.isa.derivatives import NoDerivative, lift
from retrograd.isa.diagnostics import KINDS
from retrograd.isa.effects import UPDATE_OPERATORS, Effects, Update, UpdateOperator, substitute_in, transition
from retrograd.isa.entries import BAR, NOT_JUMPING, Entry, Function, Opcode, bar, imm, opcodes_of
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
from retrograd.isa.microarchitecture.micro_operations import CORES, DEFAULT_UNITS, TEMPORARIES, Unit, Units
from retrograd.isa.microarchitecture.schedule import (
    ACCESS,
    ADDRESS,
    DECODE,
    FETCH,
    READ,
    REFETCH,
    cycles,
    microprograms,
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
    #: None if the condition is too long to write; the manual then gives the reason of the error's kind
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
    """Whether the opcode changes the cotangents of its places in the same way as the places."""
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
    """One description for all entries: their common beginning and end, with `…` between."""
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


# -----------------------------------------------------------------------------
# The page on cycles, docs/reference/timing.md: the phases of an instruction, the function units, and the cycles of each opcode.

#: the formats of the page: the usual one, and that of small hardware
FORMATS = (Format(64, 32), Format(32, 16))

_FAST = """\

## The core fast

The core `fast` executes the same instructions with more units ([CORES](../../isa/microarchitecture/micro_operations.py)). This section lists the differences.

- **The front end is ahead.** An instruction is fetched, decoded and read while the instruction before it executes. It begins to execute in the cycle in which the
  instruction before it writes its last register, and gets that word past the register file. So its cycles are those of execution, and those of all writes but the last.
- **Instructions on memory** take {access} cycle more, for the access. Their address is computed while the instruction before executes.
- **The instruction before one on memory**, in the direction of the run, takes {address} cycle more if its last write is that of the address register. It takes {access} less if its last cycle
  can be that of the access: it has more cycles than one, writes the address register in neither of the last two, and stores no word in the last.
- **Instructions that set BR, PC or DIR**, or may meet a jump, take {refetch} cycles more: the next instruction is fetched in the cycle of the last write. This does not depend on whether a jump is taken.
- **A `goto`** takes one of these cycles less. BR is 0 before it, so both addresses of the next instruction are known early, and it is fetched in the last cycle of execution.
- **A `from`** takes none of these cycles. It traps unless BR is 0 behind it, so the next instruction of the code follows. With a condition its guard chooses between two comparisons of BR, which takes a
  cycle more than the choice of a `goto`. So an instruction and its inverse differ here.
- **Microwords have {slots} slots.** A slot issues a micro-operation and writes a result in each cycle. The slots have:

| Slot | Units | but not |
| --- | --- | --- |
{units}

- **Overflow flags are free.** Where a sum, product or quotient is computed, its unit also delivers whether the word fits. A predicate that is a conjunction is checked part by part.
- **Products** take {multiplier} cycles. They are passed on: a sum or difference that is the only reader of a product is formed behind the multiplier, in the last cycle of the multiplication.
  Its other word is the third operand of the slot, so a product or quotient may be issued beside it.
- **The dividers scale.** They multiply x and y by a reciprocal of y from a table, and then find {scaled} digits of the quotient in each cycle. A quotient of W + s digits,
  rounded or not, takes {before} + ⌈(W + s) / {scaled}⌉ cycles. A root is found {digits} digits in each cycle.

Guards are checked, in each slot, before the first write, so that traps are precise. The machine stops or turns after any instruction. Instructions that were
fetched ahead are then dropped. Cycles of a core that starts again are not counted.

```python
>>> from retrograd.isa.microarchitecture.micro_operations import CORES
>>> fast = CORES["fast"]
>>> cycles(fmul, q, lifted=False, same=False, units=fast), cycles(fmul, q, lifted=True, same=False, units=fast)
{example}
>>> print(microprograms(fmul.entry, q, lifted=False, same=False, units=fast)["fmul.add"].schedule)
{listing}

```

A temporary t*n* belongs to slot ⌊n / {temporaries}⌋. A check of a flag reads that of the slot's last sum, or of its last product or quotient. `product` is a product that is passed on.

"""

_PAGE = """\
<!-- Generated by python -m retrograd.isa.manual; do not edit. -->

# Cycles

This page lists the cycles of each instruction on the co-processor. The numbers are computed: the trees of an instruction are
[scheduled](../../isa/microarchitecture/schedule.py) as [micro-operations](../../isa/microarchitecture/micro_operations.py) on a few function units. The hardware executes this
schedule, and the simulator counts its cycles.

- **There are two cores.** The sections up to the first table are on the core `small`; [the last one](#the-core-fast) is on the core `fast`.
- **One instruction is in flight.** The cycles of a run are the sum over its instructions. This holds for the core `fast` as well, in which the front end is ahead.
- **Operands do not matter.** An instruction takes the same time for all words. The time of a run depends on its path only, not on its data.
- **A run backward takes as long as the run forward.** An instruction has the cycles of its inverse. Of an instruction and its inverse, such as
  `goto.lt` and `from.lt`, the one with the shorter microprogram is padded to the longer. On the core `fast` the two runs differ by jumps, and where memory is accessed, by the instructions on either side.
- **Checks are always computed.** Switching overflow traps off changes no timing.
- **A trap stops the machine** before the first write. The instruction does not retire, and its cycles are not counted.

## An instruction

| Phase | Cycles | |
| --- | --- | --- |
| fetch | {fetch} | code is read at PC |
| decode | {decode} | the fields address the register file; unless the instruction is one that may meet a jump, BR must be 0 |
| read | {read} | three words, each with its cotangent, go into the operand latches; so does the constant, with either sign |
| address, access | {address} + {access} | instructions on memory only: ra + imm; a memory word with its cotangent goes into its latch |
| execute | 1 or more | the schedule |
| write | 1 or more | one for each register that changes, word and cotangent together, and at least one; PC, BR, DIR and a memory word change along with the first |

The register file and memory have one port for writing, and their words stand beside their cotangents: so an exchange with memory, with D = 1 or without, is one
access that reads and one that writes.

## Micro-operations

In each cycle one micro-operation is issued and one result is written. A micro-operation reads up to three words: operand latches, constants, temporaries. A result can be
an operand in the cycle in which it is ready. Constants cost nothing. A common subexpression is computed once.

| Unit | Operations | Cycles to the result | Busy |
| --- | --- | --- | --- |
| logic unit | `+`, `−`, `∧`, `∨`, `⊕`, shifts, comparisons and their opposites, choices, whether a sum or difference overflows | {logic} | 1 |
| multiplier | ⌊x·y / 2^s⌋, or ⌊x·y / 2^s⌉ rounded in one place, for one or more s | {multiplier}, and 1 for each further s | 1 for each s |
| ROM | look-up in a table | {rom} | 1 |
| divider | ⌊x·2^s / y⌋ for one or more s | {divider} + ⌈(W + s) / {digits}⌉ for the greatest s ≥ 0, and 1 for each further s | until its last result |
| | ⌊x·2^s / y⌉ for one or more s that are rounded in one place p | {divider} + ⌈(W + p + 1) / {digits}⌉, and 1 for each further s | until its last result |
| | ⌊√(x·2^s)⌉ | {divider} + ⌈(⌈(W + s) / 2⌉ + 1) / {digits}⌉ | until its result |

Both words of a product, or of a quotient, come from one multiplication or division. The multiplier takes three stages: partial products, their sum, the shift. The divider finds {digits} digits a
cycle; one cycle before them takes magnitudes, one after them rounds and makes the sign. A result to nearest takes one digit more, and adds ½ at no cost in cycles. The latencies are fields of `Units`; these are chosen for an ECP5 at 45 MHz with W = 64 and 60 MHz with W = 32.

Micro-operations are issued by list scheduling: among those with all operands ready, the one with the longest path to the end goes first. While many temporaries are
taken, a micro-operation that frees one goes first. No instruction needs more than {temporaries} of them.

```python
>>> from retrograd import Format
>>> from retrograd.isa.table import TABLE
>>> from retrograd.isa.microarchitecture.schedule import microprograms
>>> from retrograd.isa.microarchitecture.schedule import cycles
>>> fmul, q = TABLE["fmul.add"], Format(32, 16)
>>> cycles(fmul, q, lifted=False, same=False), cycles(fmul, q, lifted=True, same=False)
{example}
>>> print(microprograms(fmul.entry, q, lifted=False, same=False)["fmul.add"].schedule)
{listing}

```

Each line begins with a cycle; `d`, `a` and `b` are the words of rd, ra and rb. The product is at most a word if its high word is all sign.

## Instructions

With D = 1 an instruction executes its cotangent step as well. In brackets: ra and rb are one register, whose cotangent gets both contributions.

"""


def page(table: Table = TABLE) -> str:
    """docs/reference/timing.md."""
    fmul, w = table["fmul.add"], FORMATS[1]
    text = _PAGE.format(
        fetch=FETCH, decode=DECODE, read=READ, address=ADDRESS, access=ACCESS,
        logic=DEFAULT_UNITS.logic, multiplier=DEFAULT_UNITS.multiplier, rom=DEFAULT_UNITS.rom,
        divider=DEFAULT_UNITS.divider, digits=DEFAULT_UNITS.digits,
        temporaries=_temporaries(table),
        example=(cycles(fmul, w, False, False), cycles(fmul, w, True, False)),
        listing=microprograms(fmul.entry, w, False, False)[fmul.name].schedule,
    )  # fmt: skip
    fast = CORES["fast"]
    more = _FAST.format(
        address=ADDRESS, access=ACCESS, refetch=REFETCH, slots=len(fast.slots), digits=fast.digits,
        scaled=fast.scaled, before=fast.divider + fast.scaling, temporaries=TEMPORARIES, multiplier=fast.multiplier,
        units="\n".join(
            f"| {k} | {', '.join(unit.value for unit in Unit if unit in slot)} | "
            f"{', '.join(f'`{name}`' for name in sorted(fast.lacking(k)))} |"
            for k, slot in enumerate(fast.slots)
        ),
        example=(cycles(fmul, w, False, False, fast), cycles(fmul, w, True, False, fast)),
        listing=microprograms(fmul.entry, w, False, False, fast)[fmul.name].schedule,
    )  # fmt: skip
    return text + _instructions(table, CORES["small"]) + more + _instructions(table, fast)


def _instructions(table: Table, units: Units) -> str:
    """The table of instructions with their cycles."""
    head = ["Instruction", *(f"{w}, D = {d}" for w in FORMATS for d in (0, 1))]
    lines = [head, ["---"] * len(head)]
    for group, entries in groupby(table.entries, lambda entry: entry.group):
        lines.append([f"**{group_title(group)}**", *[""] * (len(head) - 1)])
        rows: dict[tuple[str, ...], list[str]] = {}
        for entry in entries:
            for label, row in _rows(entry, units):
                rows.setdefault(row, []).append(f"`{label}`")
        lines += [[", ".join(labels), *row] for row, labels in rows.items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _temporaries(table: Table) -> int:
    return max(
        program.schedule.temporaries
        for entry in table.entries
        for w in FORMATS
        for lifted, same in ((False, False), (True, False), (True, True))
        for program in microprograms(entry, w, lifted, same).values()
    )


def _rows(entry: Entry, units: Units) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name, cycles) of the entry's opcodes; opcodes with equal cycles share a row."""

    def shown(opcode: Opcode, w: Format, lifted: bool) -> str:
        n, one = cycles(opcode, w, lifted, False, units), cycles(opcode, w, lifted, True, units)
        return str(n) if n == one else f"{n} ({one})"

    rows: dict[tuple[str, ...], list[Opcode]] = {}
    for opcode in opcodes_of(entry):
        rows.setdefault(tuple(shown(opcode, w, d) for w in FORMATS for d in (False, True)), []).append(opcode)
    for row, opcodes in rows.items():
        if len(rows) == 1 and isinstance(entry, Function):
            yield entry.name, row
        elif isinstance(entry, Function) and len(opcodes) > 1:
            yield f"{entry.name}.{{{','.join(str(o.update) for o in opcodes)}}}", row
        else:
            yield from ((o.name, row) for o in opcodes)
