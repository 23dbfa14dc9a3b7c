"""The calling convention: the instructions in front of a call. Their inverse stands behind it.

    save live locations that the callee clobbers · assign the arguments to the callee's parameters · call · undo both

A procedure has fixed locations for its parameters. A call of a procedure in another strongly connected component of the call graph saves
into save slots, which are locations that the callee does not use. A call within a recursive component saves on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from retrograd.compiler.backend.moves import Moves
from retrograd.compiler.backend.register_allocation import Locations, RegisterRoles, members
from retrograd.compiler.ir.statements import SP, Call, Module, Operand, Var
from retrograd.isa.encoding import Instruction


@dataclass
class Shared:
    """The state that the emitters of one program share."""

    module: Module
    roles: RegisterRoles
    moves: Moves
    #: procedure -> the locations of its parameters
    parameter_locations: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: procedure -> every location that it and its callees may use
    clobbered: dict[str, int] = field(default_factory=dict)


class CallSequences:
    """The calls of one procedure or of the entry.

    `component`: the procedures from which a call may return to this procedure while it is active. `location`: where a variable is.
    """

    def __init__(
        self,
        shared: Shared,
        caller: str,
        component: Collection[str],
        locations: Locations,
        location: Callable[[Var], int],
    ) -> None:
        self.shared = shared
        self.moves = shared.moves
        self.caller = caller
        self.component = component
        self.locations = locations
        self.location = location

    def before(self, call: Call) -> list[Instruction]:
        """The instructions in front of the call."""
        return [*self._save(call), *self._assign_parameters(call)]

    def _save(self, call: Call) -> list[Instruction]:
        arguments = {self.location(arg) for arg in call.args if isinstance(arg, Var)}
        held = self.locations.taken
        for location in arguments:
            held &= ~(1 << location)
        if call.procedure in self.component:
            return self.moves.save(list(members(held)))
        out: list[Instruction] = []
        used = self.shared.clobbered[call.procedure]
        avoid = used | self.locations.taken
        for location in members(held & used):
            save_slot = self.locations.take_save_slot(avoid)
            avoid |= 1 << save_slot
            out += self.moves.exchange(location, save_slot)
        return out

    def _assign_parameters(self, call: Call) -> list[Instruction]:
        """The arguments brought to the callee's parameters: variables by exchange, constants by adding them to zero."""
        callee = self.shared.module.procedures[call.procedure]
        targets = self.shared.parameter_locations[call.procedure]
        if len(targets) != len(call.args):
            raise AssertionError(f"{self.caller}: {callee.name} takes {len(targets)} arguments, not {len(call.args)}")
        first: dict[Var, int] = {}
        copies: list[tuple[Operand, int]] = []
        discarded: list[int] = []
        for index, (arg, target) in enumerate(zip(call.args, targets, strict=True)):
            if isinstance(arg, Var) and arg not in first:
                if arg is SP:
                    raise AssertionError(f"{self.caller}: the stack pointer is an argument of {callee.name}")
                first[arg] = index
                continue
            # The second place of a variable is a copy, which is right only if the callee writes neither.
            if index in callee.written or (isinstance(arg, Var) and first[arg] in callee.written):
                raise AssertionError(f"{self.caller}: {callee.name} writes its parameter {index}, given {arg!r}")
            copies.append((arg, target))
            if callee.params[index] in self.shared.module.discarded:
                discarded.append(target)
        out = self._permute({var: targets[index] for var, index in first.items()})
        for target in discarded:
            # The cotangent of a copy or a constant ends with it.
            out += self.moves.test_zero(target)
        for arg, target in copies:
            if isinstance(arg, Var):
                out += self.moves.copy(targets[first[arg]], target)
            elif word := arg.word & self.moves.w.mask:
                out += self.moves.fill(target, word)
        return out

    def _permute(self, targets: dict[Var, int]) -> list[Instruction]:
        """Parameter assignment: the variables exchanged into their targets, one after the other."""
        now = {var: self.location(var) for var in targets}
        holder = {location: var for var, location in now.items()}
        out: list[Instruction] = []
        for var, target in targets.items():
            here = now[var]
            if here == target:
                continue
            out += self.moves.exchange(here, target)
            del holder[here]
            displaced = holder.get(target)
            if displaced is not None:
                now[displaced], holder[here] = here, displaced
            now[var], holder[target] = target, var
        return out
