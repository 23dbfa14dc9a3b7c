"""Micro-operations: the operations of the co-processor's function units that execute an instruction, cycle by cycle.

    each cycle: one micro-operation is issued, one result is written

The hardware is generated from these sequences and the cycle model counts them; `execute` defines their meaning. There is one unit
of each kind. The sequence does not depend on the words, so an instruction takes equally long for all operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.expr import Expr, apply_operation, evaluate, half, place, rounded_place
from retrograd.isa.folds import FITTING
from retrograd.isa.words import Format

# ---------------------------------------------------------------- the units


class Unit(Enum):
    """A function unit, which executes micro-operations."""

    LOGIC = "logic unit"
    MULTIPLIER = "multiplier"
    ROM = "ROM"
    DIVIDER = "divider"


_x, _y = place("x"), place("y")


#: Fused operations of the logic unit: name -> the tree over x and y that the operation computes. An adder has an overflow bit,
#: and a comparison also gives its opposite. Where several match, the first is used.
FUSED: dict[str, Expr] = {
    "addfits": FITTING["add"],
    "subfits": FITTING["sub"],
    "ne": _x.ne(_y),
    "ge": _x.ge(_y),
    "geu": _x.geu(_y),
}


#: sum or difference -> the operation that computes whether it fits
FLAGGED = {"add": "addfits", "sub": "subfits"}

#: operation -> its unit, for all operations of trees that compute
_UNITS = {
    **dict.fromkeys(("add", "sub", "and", "or", "xor", "shl", "shr", "sar", "eq", "lt", "ltu", "select"), Unit.LOGIC),
    **dict.fromkeys(FUSED, Unit.LOGIC),
    "mulshift": Unit.MULTIPLIER,
    "mulround": Unit.MULTIPLIER,
    "table": Unit.ROM,
    "divshift": Unit.DIVIDER,
    "divround": Unit.DIVIDER,
    "sqrtround": Unit.DIVIDER,
}


def unit_of(operation: str) -> Unit:
    """The unit that executes the operation. Raises KeyError for an operation that the hardware does not have."""
    return _UNITS[operation]


def rounding(node: Expr, w: Format) -> int:
    """The places that a product or quotient has when it is rounded, 0 where it is floored."""
    if not isinstance(node.param, int):
        return 0
    return {"mulround": rounded_place(node.param, w), "divround": node.param % w.width}.get(node.op, 0)


@dataclass(frozen=True)
class Units:
    """How long each unit takes: cycles from the issue of a micro-operation to the first that can use its result.

    The defaults are chosen for an ECP5 at 45 MHz with words of 64 bits, at 60 MHz with 32. Raises ValueError for a unit that
    takes no time.
    """

    #: a sum, a comparison, a shift by any amount, a choice
    logic: int = 1
    #: partial products, their sum, the shift that takes a word out of it; it can begin a product in each cycle
    multiplier: int = 3
    #: the address, the entry
    rom: int = 2
    #: digits of a quotient or root in each cycle
    digits: int = 2
    #: further cycles of a quotient or root: magnitudes before the digits, rounding and sign after them
    divider: int = 2
    #: Digits of a quotient in each cycle, of a divider that first scales x and y with 1/y. None: a quotient is found as a root is.
    scaled: int | None = None
    #: cycles of scaling: y is normalised, its reciprocal is read and computed, x and y are multiplied by it
    scaling: int = 4
    #: The slots of a microword, each with the units that it controls. A slot issues a micro-operation and writes a result in each cycle.
    slots: tuple[frozenset[Unit], ...] = (frozenset(Unit),)
    #: for each slot, operations of its units that it does not have; slots behind the end of this list have all
    #: operations
    lacks: tuple[frozenset[str], ...] = ()
    #: A unit delivers to the guards, beside its word, whether the sum, product or quotient fits. All slots check
    #: guards in each cycle, and
    #: of a predicate that is a conjunction each part on its own.
    flags: bool = False
    #: A product is added to a word, or subtracted from it, in the cycle in which the multiplier delivers it. The word is the third operand of
    #: the slot, which may issue another micro-operation in that cycle. In turns, the product and the sum are one row.
    chained: bool = False
    #: an instruction is fetched, decoded and read while the instruction before it executes
    overlapped: bool = False
    #: Threads take turns, and each turn executes one row of a microprogram, see `rows`. Times of units are then in turns. 1: there are no turns.
    threads: int = 1
    #: Digits of a root in each cycle; None: as many as of a quotient. A digit of a root takes two bits of x.
    roots: int | None = None

    def __post_init__(self) -> None:
        for unit in fields(self):
            value = getattr(self, unit.name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise ValueError(f"{unit.name} takes at least 1, not {value}")
        if any(Unit.LOGIC not in slot for slot in self.slots) or frozenset(Unit) != self.slots[0]:
            raise ValueError("each slot has a logic unit, and the first has all units")
        if self.lacks and self.lacks[0]:
            raise ValueError("the first slot has all operations")
        if self.chained and ((self.multiplier == 1 and self.threads == 1) or self.logic > 1):
            raise ValueError("a product is passed after the cycle of its issue, to an operation of one cycle")
        if self.scaled is not None and self.scaled not in (2, 4, 8, 16):
            raise ValueError(f"a scaled division finds 2, 4, 8 or 16 digits a cycle, not {self.scaled}")

    def latency(self, operation: str, w: Format, shift: int = 0) -> int:
        """Cycles to the first result, for the greatest shift s of the results."""
        match unit_of(operation):
            case Unit.LOGIC:
                return self.logic
            case Unit.MULTIPLIER:
                return self.multiplier
            case Unit.ROM:
                return self.rom
            case Unit.DIVIDER:
                scaling = self.scaling if self.scales(operation) else 0
                return self.divider + scaling + self.rounds(operation, w.width, shift)

    def scales(self, operation: str) -> bool:
        """Whether the divider scales the operands of this operation."""
        return self.scaled is not None and operation != "sqrtround"

    def rounds(self, operation: str, width: int, shift: int) -> int:
        """Cycles in which the divider finds digits: ⌊x·2^s/y⌋ has W + s digits, ⌊√(x·2^s)⌋ half as many; for s < 0, as for s = 0.

        A result that is rounded to nearest has one more digit; in a quotient, this digit follows the place s mod W in which it is rounded.
        The first digit of a scaled division has one more bit than the others, so its quotients have the additional digit at no cost.
        """
        digits = width + (shift % width if operation == "divround" else max(shift, 0))
        if operation == "sqrtround":
            digits = _ceiling(digits, 2)
        if self.scaled is not None and self.scales(operation):
            return _ceiling(digits, self.scaled)
        found = self.roots if self.roots and operation == "sqrtround" else self.digits
        return _ceiling(digits + (operation != "divshift"), found)

    def able(self, slot: int, operation: str) -> bool:
        """Whether a slot can issue the operation."""
        return unit_of(operation) in self.slots[slot] and operation not in self.lacking(slot)

    def lacking(self, slot: int) -> frozenset[str]:
        """The operations that a slot does not have although it has their unit."""
        return self.lacks[slot] if slot < len(self.lacks) else frozenset()


def _ceiling(n: int, divisor: int) -> int:
    return -(-n // divisor)


DEFAULT_UNITS = Units()

#: the operations of a shifter
SHIFTS = frozenset({"shl", "shr", "sar"})

#: name -> the units of each core that can be built. The cycles of an instruction depend on the units of the core.
CORES: dict[str, Units] = {
    "small": DEFAULT_UNITS,
    "fast": Units(
        multiplier=2,
        digits=4,
        scaled=16,
        slots=(frozenset(Unit), frozenset(Unit) - {Unit.ROM}),
        lacks=(frozenset(), frozenset({"sqrtround", *SHIFTS})),
        flags=True,
        chained=True,
        overlapped=True,
    ),
}

#: The name of the core whose threads take turns, the only one that executes a batch; the least number of its threads, the cycles from a read to
#: the write of its result; and the greatest.
BARREL, MIN_THREADS, MAX_THREADS = "barrel", 8, 16


#: the greatest number of slots of the core barrel: micro-operations in a turn
MAX_SLOTS = 2


def barrel_units(threads: int = MIN_THREADS, slots: int = 1) -> Units:
    """The units of the core barrel. The divider takes two bits of x in each cycle of a turn. The second slot has a logic unit without a shifter,
    and two operands, see `rows`.
    """
    lacks: tuple[frozenset[str], ...] = (frozenset(), frozenset({"select", *SHIFTS}))
    return Units(
        multiplier=1, rom=1, digits=2 * threads, roots=threads, divider=1, flags=True, chained=True, threads=threads,
        slots=(frozenset(Unit), frozenset({Unit.LOGIC}))[:slots], lacks=lacks if slots > 1 else (),
    )  # fmt: skip


def core_units(name: str, slots: int = 1) -> Units:
    """The units of a core in which a program takes its own cycles; `slots`: of the core barrel. Raises InputError RG1125 for another name."""
    if name == BARREL:
        return barrel_units(slots=slots)
    if name not in CORES:
        hint = f"the cores are {', '.join((*CORES, BARREL))}"
        hint += f"; {BARREL} takes the place of lanes" * (name == "lanes")
        raise InputError(Diagnostic("RG1125", f"there is no core `{str(name)[:40]}`", hint=hint))
    return CORES[name]


#: temporaries of a slot
TEMPORARIES = 32


# ---------------------------------------------------------------- sequences


@dataclass(frozen=True)
class Literal:
    """A word known when the hardware is built."""

    word: int

    def __str__(self) -> str:
        return f"{self.word:#x}"


@dataclass(frozen=True)
class Input:
    """The word of a place before the instruction; `negated`: with the opposite sign, in which the decoder also delivers constants."""

    place: str
    negated: bool = False

    def __str__(self) -> str:
        return "−" * self.negated + self.place


@dataclass(frozen=True)
class Temporary:
    """The word of a temporary register. Slot s writes the registers from TEMPORARIES·s on."""

    number: int

    def __str__(self) -> str:
        return f"t{self.number}"


@dataclass(frozen=True)
class Flag:
    """Whether the sum or difference that a slot computed in the cycle before fits a word; `unit`: the product or quotient that it delivered."""

    slot: int
    unit: bool = False

    def __str__(self) -> str:
        return f"flag {self.slot}" + " of the unit" * self.unit


@dataclass(frozen=True)
class Passing:
    """The product that the multiplier of the same slot delivers in this cycle."""

    def __str__(self) -> str:
        return "product"


Source = Literal | Input | Temporary | Passing


@dataclass(frozen=True)
class UnitResult:
    """One word that a micro-operation yields, the value of `node`.

    It is written into `register` at the end of cycle `ready` − 1, and last read in cycle `until`. Without a register it is passed to the
    logic unit of its slot in cycle `ready` − 1.
    """

    # A shared tree may have very many paths, and each would be written out.
    node: Expr = field(repr=False)
    register: int | None
    ready: int
    until: int


@dataclass(frozen=True)
class MicroOperation:
    """An operation issued to a unit in `cycle`, counted from 0 at the start of execution.

    `operation` is one of FUSED, or one of trees with the parameter of each result's node: a product and a quotient may yield
    several words, that differ in their shifts and are ready in cycles that follow each other. The unit takes nothing
    else for `occupied` cycles.
    """

    cycle: int
    unit: Unit
    operation: str
    operands: tuple[Source, ...]
    results: tuple[UnitResult, ...]
    occupied: int
    slot: int = 0

    def __str__(self) -> str:
        def named(result: UnitResult) -> str:
            shift = f", {result.node.param}" if self.operation.endswith("shift") else ""
            target = "product" if result.register is None else f"t{result.register}"
            return f"{target} = {self.operation}({', '.join(map(str, self.operands))}{shift}) at {result.ready}"

        return f"{self.cycle}: " + "; ".join(map(named, self.results))


@dataclass(frozen=True)
class GuardCheck:
    """A predicate of a guard, which must not be 0, the cycle in which it is read, and the index of the guard."""

    predicate: Source | Flag
    cycle: int
    guard: int = 0


@dataclass(frozen=True)
class Schedule:
    """The micro-operations of an instruction, in order of issue.

    `after`: place -> the source of its new word from cycle `length` on, when all words are known and none is written yet.
    `checks`: the guards in their order, each by one predicate or by several that must all hold; the first guard that fails is the trap.
    """

    operations: tuple[MicroOperation, ...]
    after: Mapping[str, Source]
    checks: tuple[GuardCheck, ...]
    length: int
    #: how many temporary registers it uses
    temporaries: int

    def __str__(self) -> str:
        lines = [*map(str, self.operations)]
        lines += [f"{check.cycle}: check {check.predicate}" for check in self.checks]
        lines += [f"{self.length}: {name} := {source}" for name, source in self.after.items()]
        return "\n".join(lines)


# ---------------------------------------------------------------- meaning


def execute(schedule: Schedule, w: Format, words: Mapping[str, int]) -> tuple[dict[str, int], tuple[int, ...]]:
    """(place -> its new word, the guards' predicates), cycle by cycle, where place `name` holds `words[name]`.

    Raises KeyError where a temporary is read that nothing was written to.
    """
    issued: dict[int, list[MicroOperation]] = {}
    for operation in schedule.operations:
        issued.setdefault(operation.cycle, []).append(operation)
    temporaries: dict[int, int] = {}
    arriving: dict[int, list[tuple[int, int]]] = {}
    #: (slot, cycle) -> the product that is passed there; (flag, cycle) -> the flag
    passing: dict[tuple[int, int], int] = {}
    flags: dict[tuple[Flag, int], int] = {}
    predicates: dict[int, int] = {}

    def read(source: Source | Flag, slot: int = 0) -> int:
        match source:
            case Flag():
                return flags[source, cycle]
            case Passing():
                return passing[slot, cycle]
            case Literal(word):
                return word
            case Input(name, negated):
                return (-words[name] if negated else words[name]) & w.mask
            case Temporary(number):
                return temporaries[number]

    for cycle in range(schedule.length + 1):
        temporaries.update(arriving.pop(cycle, ()))
        for check in schedule.checks:
            if check.cycle == cycle:
                # Several predicates of one guard are each 0 or 1.
                predicates[check.guard] = read(check.predicate) & predicates.get(check.guard, -1)
        # A product is passed to an operation that is issued in a later cycle.
        for operation in issued.get(cycle, ()):
            v = [read(source, operation.slot) for source in operation.operands]
            if operation.operation in FLAGGED:
                fits = evaluate(FUSED[FLAGGED[operation.operation]], w, {"x": v[0], "y": v[1]})
                flags[Flag(operation.slot), cycle + 1] = fits
            for result, (word, fits) in zip(operation.results, _words(operation, w, v), strict=True):
                if operation.unit is not Unit.LOGIC:
                    flags[Flag(operation.slot, True), result.ready] = fits
                if result.register is None:
                    passing[operation.slot, result.ready - 1] = word
                else:
                    arriving.setdefault(result.ready, []).append((result.register, word))
    after = {name: read(source) for name, source in schedule.after.items()}
    return after, tuple(predicates[index] for index in range(len(predicates)))


def _words(operation: MicroOperation, w: Format, v: Sequence[int]) -> list[tuple[int, bool]]:
    """The words of the results, and whether each fits. The words of a product or quotient are shifted out of one computed number.

    A product that is rounded has half of its last place added; a quotient and a root are rounded by their next digit.
    """
    params = [result.node.param for result in operation.results]
    shifts = [param for param in params if isinstance(param, int)]

    def cut(number: int) -> tuple[int, bool]:
        return number & w.mask, w.signed(number & w.mask) == number

    match operation.operation:
        case name if name in FUSED:
            return [(evaluate(FUSED[name], w, {"x": v[0], "y": v[1]}), True)]
        case "mulshift" | "mulround" as name:
            product = w.signed(v[0]) * w.signed(v[1]) + (half(shifts[0], w) if name == "mulround" else 0)
            return [cut(product >> shift) for shift in shifts]
        case "divshift":
            # ⌊⌊z⌋ / 2^k⌋ = ⌊z / 2^k⌋
            most = max(0, *shifts)
            quotient = (w.signed(v[0]) << most) // w.signed(v[1]) if v[1] else 0
            return [cut(quotient >> (most - shift)) for shift in shifts]
        case "divround":
            most = shifts[0] % w.width
            quotient = (w.signed(v[0]) << most + 1) // w.signed(v[1]) + 1 if v[1] else 0
            return [cut(quotient >> (1 + most - shift)) for shift in shifts]
        case name:
            words = [apply_operation(w, name, 0 if p is None or isinstance(p, str) else p, [*v]) for p in params]
            return [(word, True) for word in words]
