"""The two forms of table entry, and the opcodes that they stand for.

An entry is written once, by hand, in `table.py`. Everything else about an instruction (its operands, alias
rule, syntax, encoding, inverse, guards on control flow) is computed here from the entry's effects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

from retrograd.isa.effects import (
    UPDATE_OPERATORS,
    Effects,
    Erase,
    Exchange,
    Permute,
    Unerase,
    Update,
    inverse,
    substitute_in,
    transition,
    written,
)
from retrograd.isa.expr import ZERO, Expr, inputs, nodes, place, substitute
from retrograd.isa.folds import replaced
from retrograd.isa.words import Format

d, a, b = place("d"), place("a"), place("b")
m, imm, br = place("m"), place("imm"), place("br")


#: the mark of the cotangent shadow of a place: "d" -> "d̄"
BAR = "\u0304"


def bar(name: str) -> str:
    """The name of the cotangent shadow of a place."""
    return name + BAR


#: place -> the field of the encoding that names it
REGISTER_FIELDS = {"d": "rd", "a": "ra", "b": "rb"}

REGISTER_PLACES = {name: p for p, name in REGISTER_FIELDS.items()}

#: how an operand is written: a register, a memory word, a constant, the label of the partner branch
OperandKind = Literal["rd", "ra", "rb", "[ra+imm]", "imm", "target"]

Moment = Literal["before", "after"]
Mode = Literal["always", "overflow", "strict"]


@dataclass(frozen=True)
class Guard:
    """A predicate that must be nonzero, on the words before or after the effects; else trap `code`.

    A guard is checked before anything is written, so a trap has changed nothing. Inverting an instruction
    exchanges before and after; a guard on words that are not written is the same either way.
    """

    predicate: Expr
    code: str
    when: Moment = "before"
    mode: Mode = "always"
    #: the word to show to the user
    culprit: Expr | None = None
    #: the code where the guard, inverted, is checked at the other moment
    inverted_code: str | None = None

    def inverted(self) -> Guard:
        other = self.inverted_code or self.code
        moment: Moment = "after" if self.when == "before" else "before"
        return Guard(self.predicate, other, moment, self.mode, self.culprit, self.code)


Guards = tuple[Guard, ...]

#: A jump is under way exactly while BR != 0, and only a branch may end it.
NOT_JUMPING = Guard(br.eq(0), "RG0405", inverted_code="RG0406", culprit=br)


def no_guards(w: Format) -> Guards:
    return ()


@dataclass(frozen=True)
class Function:
    """`target ⊕= value`, for every ⊕ in `updates`; the opcode is `code` + the update's index.

    Trap to avoid: the value must not read the target; the table refuses it.
    """

    name: str
    code: int
    group: str
    value: Callable[[Format], Expr]
    doc: str
    updates: tuple[str, ...] = ("add", "sub", "xor")
    target: str = "d"
    guards: Callable[[Format], Guards] = no_guards
    #: False: integer or bitwise, carries no derivative
    differentiable: bool = True
    #: place -> cotangent · ∂value/∂place, for a tree with tables and roundings, which the chain rule must not
    #: differentiate
    partials: Callable[[Format, Expr], dict[str, Expr]] | None = None
    #: the words are fixed-point numbers: the checking machine traps where a sum overflows
    checked: bool = False
    #: short name by update: "f{}" makes fadd of fmov.add
    shorthand: str | None = None
    #: the function that takes a constant in place of the last register
    immediate_form: str | None = None
    #: the constants that an instruction may hold, where its tree has a meaning for some alone; the verifier refuses
    #: others
    constants: Callable[[Format], range] | None = None


@dataclass(frozen=True)
class Bijection:
    """Named effects, each a bijection; `inverse_name` names the opcode (code + 1) that undoes them.

    Without `inverse_name` the instruction is its own inverse, up to the sign of the constant where
    `negates_immediate`; the laws hold it to that.
    """

    name: str
    code: int
    group: str
    effects: Callable[[Format], Effects]
    doc: str
    inverse_name: str | None = None
    guards: Callable[[Format], Guards] = no_guards
    negates_immediate: bool = False
    #: flips the direction of execution
    turns: bool = False
    #: the one of the pair that halts the machine
    halts: str | None = None
    #: (format, backward) -> its cotangent lift, where this is simpler than the composition of the lifts of its effects
    lift: Callable[[Format, bool], Effects] | None = None
    immediate_form: str | None = None


Entry = Function | Bijection


@dataclass(frozen=True, eq=False)
class Opcode:
    """One opcode: a function with its update, or a bijection, or the inverse of one."""

    name: str
    code: int
    entry: Entry
    inverse_name: str
    _effects: Callable[[Format], Effects] = field(repr=False)
    _guards: Callable[[Format], Guards] = field(repr=False)
    update: str | None = None

    def __repr__(self) -> str:
        return f"<Opcode {self.name} 0x{self.code:02x}>"

    @property
    def group(self) -> str:
        return self.entry.group

    @property
    def doc(self) -> str:
        return self.entry.doc

    @cached_property
    def negates_immediate(self) -> bool:
        """The inverse instruction carries −imm."""
        return isinstance(self.entry, Bijection) and self.entry.negates_immediate

    @cached_property
    def turns(self) -> bool:
        """Executing it flips DIR."""
        return isinstance(self.entry, Bijection) and self.entry.turns

    @cached_property
    def halts(self) -> bool:
        """Executing it stops the machine."""
        return isinstance(self.entry, Bijection) and self.entry.halts == self.name

    @cache  # noqa: B019 - opcodes live as long as their table
    def effects(self, w: Format) -> Effects:
        return self._effects(w)

    @cache  # noqa: B019
    def transition(self, w: Format) -> dict[str, Expr]:
        """place -> its word afterwards."""
        return transition(self.effects(w), w)

    @cache  # noqa: B019
    def guards(self, w: Format) -> Guards:
        """All guards: the guards of the entry, after the guards that follow from the effects."""
        implied: list[Guard] = []
        if "br" not in self.writes:
            implied.append(NOT_JUMPING)
        for effect in self.effects(w):
            match effect:
                case Erase():
                    implied.append(Guard(ZERO, "RG0408", mode="strict"))
                case Unerase():
                    implied.append(Guard(ZERO, "RG0409"))
                case Update() | Exchange() | Permute():
                    pass
        return (*implied, *self._guards(w))

    @cache  # noqa: B019
    def guard_predicate(self, guard: Guard, w: Format) -> Expr:
        """The guard as a predicate over the words before the effects, also if the guard holds after them.

        A predicate on the words after the effects is simplified: an instruction that undoes another cancels with it.
        """
        return guard.predicate if guard.when == "before" else replaced(guard.predicate, self.transition(w))

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """The places it changes, in the order in which its operands are written."""
        return written(self.effects(Format()))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The places and constants that its effects and guards read, the address of `m` not counted."""
        w = Format()
        trees = [*self.transition(w).values(), *(g.predicate for g in self._guards(w))]
        for effect in self.effects(w):
            match effect:
                case Update(_, _, value):
                    trees.append(value)
                case Exchange(_, _, when):
                    trees.extend([] if when is None else [when])
                case Permute() | Erase() | Unerase():
                    pass
        return inputs(*trees)

    def distance(self, offset: int) -> int:
        """target − source of a branch from its constant, and the constant from that.

        The jump is taken in the direction of execution after the branch: backward, if the branch turns the machine round.
        """
        return -offset if self.turns else offset

    def constants(self, w: Format) -> range | None:
        """The constants for which its tree has a meaning, where it has none for others."""
        legal = self.entry.constants if isinstance(self.entry, Function) else None
        return None if legal is None else legal(w)

    @cached_property
    def erased_words(self) -> int:
        """How many words it erases."""
        return sum(isinstance(effect, Erase) for effect in self.effects(Format()))

    @cached_property
    def operands(self) -> tuple[OperandKind, ...]:
        """Its operands as written: the places that it changes, the places that it reads, its constant."""
        named = list(self.writes)
        named += [p for p in ("d", "a", "b", "m") if p in self.reads and p not in named]
        kinds: list[OperandKind] = []
        for p in named:
            match p:
                case "d":
                    kinds.append("rd")
                case "a":
                    kinds.append("ra")
                case "b":
                    kinds.append("rb")
                case "m":
                    kinds.append("[ra+imm]")
        if "imm" in self.reads:
            kinds.append("target" if "br" in self.writes else "imm")
        return tuple(kinds)

    @cached_property
    def fields(self) -> frozenset[str]:
        """The fields of the encoding that it uses; the others must be zero."""
        used: set[str] = set()
        for kind in self.operands:
            used |= {"ra", "imm"} if kind == "[ra+imm]" else {"imm"} if kind == "target" else {kind}
        return frozenset(used)

    @cached_property
    def unused_fields(self) -> tuple[str, ...]:
        """The fields that must be zero."""
        return tuple(name for name in ("rd", "ra", "rb", "imm") if name not in self.fields)

    @cached_property
    def distinct(self) -> tuple[tuple[str, str], ...]:
        """Pairs of register fields that must not name the same register: (rd or another written one, any other)."""
        registers = [f for f in ("rd", "ra", "rb") if f in self.fields]
        # With D = 1 the cotangent of rd is written even where rd is only read.
        changed = [f for f in registers if f == "rd" or f in {REGISTER_FIELDS.get(p) for p in self.writes}]
        pairs = [(x, y) for x in changed for y in registers if x != y]
        return tuple(p for i, p in enumerate(pairs) if p[::-1] not in pairs[:i])

    @cached_property
    def multiplies(self) -> bool:
        """Its trees hold a product, quotient or root, so a proof at full width is costly."""
        w = Format()
        trees = [*self.transition(w).values(), *(g.predicate for g in self.guards(w))]
        return any(n.op.startswith(("mul", "div", "sqrt")) for n in nodes(*trees))


def _function_opcode(entry: Function, index: int, update: str) -> Opcode:
    def effects(w: Format) -> Effects:
        return (Update(entry.target, update, entry.value(w)),)

    def guards(w: Format) -> Guards:
        own = entry.guards(w)
        fits = UPDATE_OPERATORS[update].fits
        if not entry.checked or fits is None:
            return own
        old, value = place(entry.target), entry.value(w)
        return (*own, Guard(fits(w, old, value), "RG0404", mode="overflow", culprit=value))

    undone_by = UPDATE_OPERATORS[update].undone_by
    name, partner = f"{entry.name}.{update}", f"{entry.name}.{undone_by}"
    return Opcode(name, entry.code + index, entry, partner, effects, guards, update)


def _bijection_opcodes(entry: Bijection) -> list[Opcode]:
    negated = {"imm": ZERO - imm} if entry.negates_immediate else {}

    def backward_effects(w: Format) -> Effects:
        return substitute_in(inverse(entry.effects(w)), negated)

    def backward_guards(w: Format) -> Guards:
        out = []
        for guard in entry.guards(w):
            g = guard.inverted()
            tree = substitute(g.predicate, negated)
            out.append(Guard(tree, g.code, g.when, g.mode, g.culprit, g.inverted_code))
        return tuple(out)

    partner = entry.inverse_name or entry.name
    opcodes = [Opcode(entry.name, entry.code, entry, partner, entry.effects, entry.guards)]
    if entry.inverse_name is not None:
        opcodes.append(Opcode(partner, entry.code + 1, entry, entry.name, backward_effects, backward_guards))
    return opcodes


def opcodes_of(entry: Entry) -> list[Opcode]:
    """The opcodes that the entry stands for."""
    match entry:
        case Function():
            return [_function_opcode(entry, i, update) for i, update in enumerate(entry.updates)]
        case Bijection():
            return _bijection_opcodes(entry)
