"""Register allocation: locations of variables, which are registers while there are any, then words of memory.

A location is a number: below SLOT a register, from SLOT on a word of memory that the compiler lays out. A set of
locations is an int, one bit each.
Correct because a variable is zero where its live range begins and ends: a free location holds zero, and only live
variables have to be saved.
A procedure has fixed locations of its own. A variable that is live across a call and shares a location with the callee must
be saved, so allocation avoids such locations (`allocation_hints`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from retrograd.compiler.backend.linear_code import Branch, Mark, Step, immediate_of
from retrograd.compiler.ir.instruction_selection import ASSUMED_TRIPS
from retrograd.compiler.ir.statements import Call, Const, Delocal, External, Local, Module, Op, Operand, Var
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: the register that is zero throughout the program
ZERO_REGISTER = 0
#: the first location that is a word of memory
SLOT = 256
#: the most operands in memory and constants that one instruction or pair of branches may read
SCRATCH = 4
MAX_CONSTANTS = 64


class RegisterRoles(NamedTuple):
    """The role of each register throughout the program."""

    stack: int | None
    #: zero between any two statements
    scratch: tuple[int, ...]
    #: word -> the register that holds it
    constants: Mapping[int, int]
    #: the set of registers that are left for variables
    variables: int


def assign_roles(registers: int, uses_stack: bool, weights: Mapping[int, float]) -> RegisterRoles:
    """Share out the registers below `registers`; the constants of most weight get a register each."""
    top = registers - 1
    stack = top if uses_stack else None
    top -= uses_stack
    scratch = tuple(range(top - SCRATCH + 1, top + 1))
    top -= SCRATCH
    if top < 4:
        raise ValueError(f"{registers} registers are too few")
    # A constant in a register is loaded once at entry and cleared once at exit, in place of before and after each use.
    ranked = sorted((word for word, weight in weights.items() if weight >= 2), key=lambda word: (-weights[word], word))
    chosen = ranked[: min(MAX_CONSTANTS, top // 4)]
    constants = {word: top - i for i, word in enumerate(chosen)}
    top -= len(chosen)
    return RegisterRoles(stack, scratch, constants, (1 << top + 1) - 2)


def weigh_constants(steps: Iterable[Step], w: Format, depth: int, weights: dict[int, float]) -> None:
    """Add to `weights` how often each constant is needed in a register, a loop counted as ASSUMED_TRIPS passes."""
    operands: Iterable[Operand | None]
    for step in steps:
        match step.item:
            case Op(opcode, d, a, b):
                # An update by a wide constant takes two instructions instead of one; any other use takes four more.
                weight, operands = (0.5 if opcode.entry.name == "mov" else 1.0), (d, a, b)
            case Branch(carried=carried):
                weight, operands = 1.0, carried
            case Call(args=args):
                wide = [x for x in args if isinstance(x, Const) and immediate_of(x.word, w) is None]
                weight, operands = 0.5, wide
            case Local() | Delocal() | External() | Mark():
                continue
        for operand in dict.fromkeys(operands):
            if isinstance(operand, Const) and operand.word & w.mask:
                word = operand.word & w.mask
                weights[word] = weights.get(word, 0.0) + weight * ASSUMED_TRIPS ** (step.depth + depth)


class AllocationHint(NamedTuple):
    """`avoid`: locations that calls in the live range clobber. `preferred`: the parameter location for which calls take the variable."""

    avoid: int = 0
    preferred: int | None = None


class _LiveRange:
    """A live range: its first step, and the parameter locations for which calls took the variable."""

    __slots__ = ("index", "parameter_locations", "since")

    def __init__(self, index: int, since: int) -> None:
        self.index = index
        self.since = since
        self.parameter_locations: list[tuple[str, int]] = []


def allocation_hints(
    params: Sequence[Var],
    steps: Sequence[Step],
    parameter_locations: Mapping[str, Sequence[int]],
    clobbered: Mapping[str, int],
) -> tuple[list[AllocationHint], AllocationHint, list[AllocationHint]]:
    """The hints (of the parameters, of the link, of each Local in the order of the steps).

    `parameter_locations`: procedure -> the locations of its parameters; `clobbered`: procedure -> all locations that it and
    its callees use. A procedure in neither is recursive with this one: every live variable is saved around its calls.
    """
    calls: dict[str, list[int]] = {}
    hints: list[AllocationHint] = []
    alive = {var: _LiveRange(i, -1) for i, var in enumerate(params)}
    hints += [AllocationHint()] * len(params)

    def end(live: _LiveRange) -> None:
        preferred, passed = None, Counter[str]()
        if live.parameter_locations:
            preferred = Counter(location for _, location in live.parameter_locations).most_common(1)[0][0]
            passed.update(name for name, location in live.parameter_locations if location == preferred)
        avoid = 0
        for name in reversed(calls):
            places = calls[name]
            if places[-1] < live.since:
                break
            used = clobbered.get(name, 0)
            if preferred is not None and passed[name] == len(places) - bisect_left(places, live.since):
                used &= ~(1 << preferred)
            avoid |= used
        fits = preferred is not None and preferred < SLOT and not avoid >> preferred & 1
        hints[live.index] = AllocationHint(avoid, preferred if fits else None)

    for at, step in enumerate(steps):
        match step.item:
            case Local(var):
                alive[var] = _LiveRange(len(hints), at)
                hints.append(AllocationHint())
            case Delocal(var):
                if var in alive:
                    end(alive.pop(var))
            case Call(name, args):
                # Taken out and put in again, so that the calls stand in the order of their last use.
                places = calls.pop(name, [])
                places.append(at)
                calls[name] = places
                seen: set[Operand] = set()
                for arg, location in zip(args, parameter_locations.get(name, ()), strict=False):
                    if isinstance(arg, Var) and arg not in seen and arg in alive:
                        seen.add(arg)
                        alive[arg].parameter_locations.append((name, location))
            case Op() | Branch() | External() | Mark():
                pass
    for var in list(alive):
        end(alive.pop(var))
    link = AllocationHint(_union(clobbered.get(name, 0) for name in calls))
    return hints[: len(params)], link, hints[len(params) :]


def _union(sets: Iterable[int]) -> int:
    out = 0
    for some in sets:
        out |= some
    return out


def members(locations: int) -> Iterator[int]:
    """The locations of a set, lowest first."""
    while locations:
        location = lowest(locations)
        yield location
        locations ^= 1 << location


def lowest(locations: int) -> int:
    """The lowest location of a set that is not empty."""
    return (locations & -locations).bit_length() - 1


class Locations:
    """The locations of one procedure while it is emitted: those taken now, and those ever taken (clobbered)."""

    def __init__(self, variables: int) -> None:
        self.variables = variables
        self.taken = 0
        self.clobbered = 0

    def take(self, hint: AllocationHint) -> int:
        """A free location: the preferred one, else a register that no call clobbers, else any register, else memory."""
        if hint.preferred is not None and self.variables >> hint.preferred & 1 and not self.taken >> hint.preferred & 1:
            location = hint.preferred
        else:
            free = self.variables & ~self.taken
            location = lowest((free & ~hint.avoid) or free or self._slots(hint.avoid))
        self.reserve(location)
        return location

    def take_save_slot(self, avoid: int) -> int:
        """A free location outside `avoid`, to save a variable in during a call."""
        location = lowest((self.variables & ~self.taken & ~avoid) or self._slots(avoid))
        self.clobbered |= 1 << location
        return location

    def _slots(self, avoid: int) -> int:
        # The complement has a bit for each word of memory, however high: slots never run out.
        return ~(self.taken | avoid | (1 << SLOT) - 1)

    def reserve(self, location: int) -> None:
        self.taken |= 1 << location
        self.clobbered |= 1 << location

    def give_back(self, location: int) -> None:
        self.taken &= ~(1 << location)


# -----------------------------------------------------------------------------
# Moves between locations: sequences of instructions that exchange, copy and fill registers and words of memory.
#
# Each sequence can be undone by its inverse, and leaves the scratch registers zero.

_MOV, _IMM, _LD, _ST = TABLE["mov.add"], TABLE["imm.add"], TABLE["ld.add"], TABLE["st.add"]
_SWAP, _ASSERT = TABLE["swap"], TABLE["assertz"]
EXCHANGE = TABLE["exch"]


def undo(instructions: Sequence[Instruction]) -> list[Instruction]:
    """(i₁ i₂ … iₙ)⁻¹, for instructions that do not jump."""
    return [inverse(i) for i in reversed(instructions)]


def make_constant(register: int, word: int, w: Format, update: str = "add") -> list[Instruction]:
    """register ⊕= word, in two instructions where 32 bits do not hold it and its lower half is not zero.

    The lower half is sign-extended, and the upper half makes up for it: word = low + high·2^32, or with ⊕ for +.
    """
    value = immediate_of(word, w)
    if value is not None:
        return [Instruction(TABLE[f"imm.{update}"], register, imm=value)]
    low = _signed32(word)
    rest = word ^ low if update == "xor" else word - low
    upper = Instruction(TABLE[f"immhi.{update}"], register, imm=_signed32(rest >> 32))
    return [Instruction(TABLE[f"imm.{update}"], register, imm=low), upper] if low else [upper]


def _signed32(value: int) -> int:
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


class Moves:
    """The moves of one program, with its scratch registers and registers of constants."""

    def __init__(self, module: Module, roles: RegisterRoles) -> None:
        self.w = module.format
        self._memory = module.memory
        self.roles = roles

    def slot(self, location: int) -> int:
        """The immediate of an instruction that accesses the memory word of a location, based on the zero register."""
        return self.w.signed(self._memory + location - SLOT)

    @property
    def stack(self) -> int:
        """The register of the stack pointer."""
        assert self.roles.stack is not None
        return self.roles.stack

    def push(self, register: int) -> list[Instruction]:
        return [Instruction(EXCHANGE, register, self.stack), Instruction(_IMM, self.stack, imm=1)]

    def save(self, locations: Sequence[int]) -> list[Instruction]:
        """The locations exchanged with the free words of the stack, which then end behind them."""
        scratch, out = self.roles.scratch[0], list[Instruction]()
        for depth, location in enumerate(locations):
            if location < SLOT:
                out.append(Instruction(EXCHANGE, location, self.stack, imm=depth))
            else:
                out += [self.exchange_slot(scratch, location), Instruction(EXCHANGE, scratch, self.stack, imm=depth)]
        return [*out, Instruction(_IMM, self.stack, imm=len(locations))] if locations else out

    def exchange_slot(self, register: int, location: int) -> Instruction:
        """Exchange a register with a location in memory."""
        return Instruction(EXCHANGE, register, ZERO_REGISTER, imm=self.slot(location))

    def exchange(self, x: int, y: int) -> list[Instruction]:
        """Exchange two locations."""
        if x >= SLOT:
            x, y = y, x
        if x >= SLOT:
            scratch = self.roles.scratch[0]
            first = self.exchange_slot(scratch, x)
            return [first, self.exchange_slot(scratch, y), first]
        return [self.exchange_slot(x, y) if y >= SLOT else Instruction(_SWAP, x, y)]

    def test_zero(self, location: int) -> list[Instruction]:
        """Trap unless the location holds zero."""
        if location < SLOT:
            return [Instruction(_ASSERT, location)]
        exchange = self.exchange_slot(self.roles.scratch[0], location)
        return [exchange, Instruction(_ASSERT, self.roles.scratch[0]), exchange]

    def copy(self, source: int, target: int) -> list[Instruction]:
        """target += source."""
        if target >= SLOT and source >= SLOT:
            scratch = self.roles.scratch[0]
            load = Instruction(_LD, scratch, ZERO_REGISTER, imm=self.slot(source))
            return [load, self.exchange_slot(scratch, target)]
        if target >= SLOT:
            return [Instruction(_ST, 0, ZERO_REGISTER, source, self.slot(target))]
        if source >= SLOT:
            return [Instruction(_LD, target, ZERO_REGISTER, imm=self.slot(source))]
        return [Instruction(_MOV, target, source)]

    def fill(self, target: int, word: int) -> list[Instruction]:
        """target += word, from zero."""
        register = self.roles.constants.get(word)
        if register is not None and (target >= SLOT or immediate_of(word, self.w) is None):
            return self.copy(register, target)
        if target < SLOT:
            return make_constant(target, word, self.w)
        scratch = self.roles.scratch[0]
        return [*make_constant(scratch, word, self.w), self.exchange_slot(scratch, target)]
