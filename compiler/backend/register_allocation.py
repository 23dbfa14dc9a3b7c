"""Where variables live: registers while there are any, then words of memory.

A location is a number: below SLOT a register, from SLOT on a word of memory that the compiler lays out. A set of
locations is an int, one bit each. What makes sharing them safe is reversibility: a variable begins and ends as zero, so
a location that is free holds zero, and nothing has to be saved that is not alive.

What has to be decided is which variables meet which calls: a procedure has fixed locations of its own, and a variable
that is alive around a call and in one of them must be moved out of the way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from retrograd.compiler.backend.linear_code import Branch, Step, immediate_of
from retrograd.compiler.ir.statements import Call, Const, Delocal, External, Local, Op, Operand, Var
from retrograd.isa.words import Format

#: the register that is zero throughout the program
ZERO_REGISTER = 0
#: the first location that is a word of memory
SLOT = 256
#: what one instruction or one pair of branches may read of variables in memory and of constants
SCRATCH = 4
MAX_CONSTANTS = 64
#: a loop is taken to run so many times
LOOP_WEIGHT = 8


class RegisterRoles(NamedTuple):
    """What each register is for, throughout the program."""

    stack: int | None
    #: zero between any two statements
    scratch: tuple[int, ...]
    #: word -> the register that holds it
    constants: Mapping[int, int]
    #: the set of those that are left for variables
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
    # A register saves the constant's making before and unmaking after each use, for one of each at the program's ends.
    ranked = sorted((word for word, weight in weights.items() if weight >= 2), key=lambda word: (-weights[word], word))
    chosen = ranked[: min(MAX_CONSTANTS, top // 4)]
    constants = {word: top - i for i, word in enumerate(chosen)}
    top -= len(chosen)
    return RegisterRoles(stack, scratch, constants, (1 << top + 1) - 2)


def weigh_constants(steps: Iterable[Step], w: Format, depth: int, weights: dict[int, float]) -> None:
    """Add to `weights` how often each constant is needed in a register, a loop counted as LOOP_WEIGHT passes."""
    operands: Iterable[Operand | None]
    for step in steps:
        match step.item:
            case Op(opcode, d, a, b):
                # An update by a wide constant takes two instructions instead of one; any other takes four more.
                weight, operands = (0.5 if opcode.entry.name == "mov" else 1.0), (d, a, b)
            case Branch(carried=carried):
                weight, operands = 1.0, carried
            case Call(args=args):
                wide = [x for x in args if isinstance(x, Const) and immediate_of(x.word, w) is None]
                weight, operands = 0.5, wide
            case Local() | Delocal() | External():
                continue
        for operand in dict.fromkeys(operands):
            if isinstance(operand, Const) and operand.word & w.mask:
                word = operand.word & w.mask
                weights[word] = weights.get(word, 0.0) + weight * LOOP_WEIGHT ** (step.depth + depth)


class AllocationHint(NamedTuple):
    """What is good for a variable. `avoid`: locations that calls in its life use; `preferred`: where calls take it as argument."""

    avoid: int = 0
    preferred: int | None = None


class _Life:
    """A variable alive: since which step, and where calls took it."""

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
    """(of the parameters, of the link, of each Local in the order of the steps).

    `parameter_locations`: procedure -> the locations of its parameters; `clobbered`: procedure -> all that it and what it calls use.
    A procedure that is in neither is recursive with this one: around such a call everything is saved, wherever it is.
    """
    calls: dict[str, list[int]] = {}
    hints: list[AllocationHint] = []
    alive = {var: _Life(i, -1) for i, var in enumerate(params)}
    hints += [AllocationHint()] * len(params)

    def end(life: _Life) -> None:
        preferred, passed = None, Counter[str]()
        if life.parameter_locations:
            preferred = Counter(location for _, location in life.parameter_locations).most_common(1)[0][0]
            passed.update(name for name, location in life.parameter_locations if location == preferred)
        avoid = 0
        for name in reversed(calls):
            places = calls[name]
            if places[-1] < life.since:
                break
            used = clobbered.get(name, 0)
            if preferred is not None and passed[name] == len(places) - bisect_left(places, life.since):
                used &= ~(1 << preferred)
            avoid |= used
        fits = preferred is not None and preferred < SLOT and not avoid >> preferred & 1
        hints[life.index] = AllocationHint(avoid, preferred if fits else None)

    for at, step in enumerate(steps):
        match step.item:
            case Local(var):
                alive[var] = _Life(len(hints), at)
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
            case Op() | Branch() | External():
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
    """The locations of one procedure while it is emitted: which are taken, which were ever."""

    def __init__(self, variables: int) -> None:
        self.variables = variables
        self.taken = 0
        self.clobbered = 0

    def take(self, hint: AllocationHint) -> int:
        """A free location: its preferred, else a register that no call uses, else any register, else memory."""
        if hint.preferred is not None and self.variables >> hint.preferred & 1 and not self.taken >> hint.preferred & 1:
            location = hint.preferred
        else:
            free = self.variables & ~self.taken
            location = lowest((free & ~hint.avoid) or free or self._slots(hint.avoid))
        self.reserve(location)
        return location

    def take_save_slot(self, avoid: int) -> int:
        """A free location outside `avoid`, for the time of a call."""
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
