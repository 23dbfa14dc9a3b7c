"""The calling convention: the instructions in front of a call. Their inverse stands behind it.

    save live locations that the callee clobbers · assign the arguments to the callee's parameters · call · undo both

A procedure has fixed locations for its parameters. A call of a procedure in another strongly connected component of the call graph saves
into save slots, which are locations that the callee does not use. A call within a recursive component saves on the stack.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from retrograd.compiler.backend.linear_code import Branch, FixedRegions, Mark, Step, callees
from retrograd.compiler.backend.registers import (
    EXCHANGE,
    SLOT,
    ZERO_REGISTER,
    AllocationHint,
    Locations,
    Moves,
    RegisterRoles,
    allocation_hints,
    make_constant,
    members,
    undo,
)
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.instruction_selection import facts, guards
from retrograd.compiler.ir.statements import SP, Call, Module, Operand, Var
from retrograd.compiler.ir.traversal import Component
from retrograd.isa.diagnostics import Span
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


@dataclass
class Shared:
    """The state that the emitters of one program share."""

    module: Module
    roles: RegisterRoles
    moves: Moves
    fixed: FixedRegions
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


# -----------------------------------------------------------------------------
# The function emitter: the code of one procedure, or of the entry. Steps on variables become instructions on locations.
#
# The compiler's own instructions, which bring a variable in from memory, make a constant, or assign arguments to parameters,
# stand in front of the instruction that needs them, and their inverse stands behind it. So they are undone in either
# direction of execution, and no information is lost.

_SWAP, _NEG, _SWAPBR, _ASSERT = TABLE["swap"], TABLE["neg"], TABLE["swapbr"], TABLE["assertz"]
#: part of an instruction's effect -> the field that names its register
_FIELDS = {"d": "rd", "a": "ra", "b": "rb"}
_GOTO, _FROM = TABLE["goto"], TABLE["from"]


@cache
def _can_trap(opcode: Opcode, w: Format) -> bool:
    return facts(opcode).memory or bool(guards(opcode, w))


class FunctionEmitter:
    """The instructions of one procedure or of the entry, while they are emitted. Branch distances are final, calls are not."""

    def __init__(
        self,
        shared: Shared,
        steps: Sequence[Step],
        procedure: ir.Procedure | None = None,
        component: Component | None = None,
    ) -> None:
        self.shared = shared
        self.steps = steps
        self.procedure = procedure
        #: the procedures from which a call may return to this procedure while it is active
        self.component = (
            frozenset(component.names) if component is not None and component.recursive else frozenset[str]()
        )
        self.code: list[Instruction] = []
        self.origins: list[ir.Node | None] = []
        self.spans: list[Span | None] = []
        #: addresses of instructions that can trap by the meaning of their origin
        self.checks: list[int] = []
        #: address of a mark -> where the operands of its External are
        self.watched: dict[int, tuple[int | ir.Const, ...]] = {}
        #: pair -> the addresses of its marks, and how many instructions of the block were removed there with their
        #: inverses outside
        self.marks: dict[int, list[tuple[int, int]]] = {}
        self._placed: list[Mark] = []
        #: address of an access -> the array at a fixed address in which it lies
        self.regions: dict[int, ir.Region] = {}
        #: address of a call -> procedure; its distance is set when all addresses are known
        self.calls: dict[int, str] = {}
        #: address of the `swapbr`
        self.entrance = 0
        self.locations = Locations(shared.roles.variables)
        self._w = shared.module.format
        self._moves = shared.moves
        self._calls = CallSequences(shared, self._name, self.component, self.locations, self._location)
        self._scratch = shared.roles.scratch
        #: variable, or constant that has a register -> its location; an operand that is not used is register 0
        self._where: dict[ir.Operand | None, int] = {None: ZERO_REGISTER, ir.ZERO: ZERO_REGISTER}
        self._where |= {ir.Const(word): register for word, register in shared.roles.constants.items()}
        if shared.roles.stack is not None:
            self._where[ir.SP] = shared.roles.stack
        #: a hash of the live variables and their locations: equal at the two ends of every branch
        self._alive = 0
        self._first_ends: dict[int, tuple[int, int]] = {}
        self._origin: ir.Node | None = None
        self._span: Span | None = None
        #: how many instructions at the end of the code put variables back that the next instruction may bring in again
        self._put_back = 0
        #: (variable, location, address where it becomes live, address where it is freed), in the order of freeing
        self.live_ranges: list[tuple[ir.Var, int, int, int]] = []
        self._begun: dict[ir.Var, int] = {}
        #: register -> (first, end) of the points of the code at which a call sequence has moved its word elsewhere
        self._displaced: dict[int, list[tuple[int, int]]] = {}

    # ---------------------------------------------------------------- frames

    def assign_parameters(self) -> None:
        """Give the parameters their locations, for all members of a component before any of them is emitted."""
        assert self.procedure is not None
        params = self.procedure.params
        hints, self._link_hint, _ = allocation_hints(
            params, self.steps, self.shared.parameter_locations, self.shared.clobbered
        )
        self.shared.parameter_locations[self.procedure.name] = tuple(map(self._begin, params, hints))

    def emit_procedure(self) -> None:
        """The Pendulum convention: `from`, entrance in the middle, body, `goto` back to the `from`.

        The link stays in a register of its own; where the procedure may be active twice it is pushed on the stack, and
        where no register is left it is put into memory.
        """
        assert self.procedure is not None
        self._span = self.procedure.span
        link, keep = self._scratch[0], list[Instruction]()
        if self.component:
            keep = self._moves.push(link)
        else:
            location = self.locations.take(self._link_hint)
            if location < SLOT:
                link = location
            else:
                keep = [self._moves.exchange_slot(link, location)]
        self._put(Instruction(_FROM))
        self._put_all(undo(keep))
        self.entrance = len(self.code)
        self._put_all([Instruction(_SWAPBR, link), Instruction(_NEG, link), *keep])
        self.emit_body()
        self._origin, self._span = None, self.procedure.span
        last = len(self.code)
        self._put(Instruction(_GOTO, imm=-last))
        self.code[0] = Instruction(_FROM, imm=last)

    def emit_body(self) -> None:
        params = () if self.procedure is None else self.procedure.params
        _, _, hints = allocation_hints(params, self.steps, self.shared.parameter_locations, self.shared.clobbered)
        wanted = iter(hints)
        before = self._alive
        for step in self.steps:
            self._origin, self._span = step.origin, step.span
            match step.item:
                case ir.Op():
                    self._op(step.item, step.undone)
                case ir.Local(var):
                    self._begin(var, next(wanted))
                case ir.Delocal(var):
                    self._end(var)
                case Branch():
                    self._branch(step.item)
                case Mark(pair, place):
                    self.marks.setdefault(pair, [(0, 0)] * 4)[place] = len(self.code), 0
                    self._placed.append(step.item)
                case ir.Call():
                    self._call(step.item)
                case ir.External(_, _, args):
                    self.watched[len(self.code)] = tuple(
                        x if isinstance(x, ir.Const) else self._location(x) for x in args
                    )
                    self._put(Instruction(_ASSERT, ZERO_REGISTER))
        if self._alive != before:
            alive = [x.name for x in self._where if isinstance(x, ir.Var) and x is not ir.SP and x not in params]
            raise AssertionError(f"{self._name}: alive at the end: {', '.join(alive) or 'not all parameters'}")
        assert not self._first_ends, "a branch without its other end"

    @property
    def _name(self) -> str:
        return "the entry" if self.procedure is None else self.procedure.name

    # ---------------------------------------------------------------- variables

    def _begin(self, var: ir.Var, hint: AllocationHint) -> int:
        if var in self._where:
            raise AssertionError(f"{self._name}: {var!r} becomes live, but it is")
        location = self.locations.take(hint)
        self._where[var] = location
        self._alive ^= hash((id(var), location))
        self._begun[var] = len(self.code)
        return location

    def _end(self, var: ir.Var) -> None:
        location = self._location(var)
        del self._where[var]
        self._alive ^= hash((id(var), location))
        self.locations.give_back(location)
        self.live_ranges.append((var, location, self._begun.pop(var), len(self.code)))

    def _shorten_ranges(self) -> None:
        """Let live ranges and blocks that began or ended behind an instruction that was removed begin or end at its address."""
        end = len(self.code)
        for pair, place in reversed(self._placed):
            at, removed = self.marks[pair][place]
            if at <= end:
                break
            self.marks[pair][place] = end, removed + 1
        for var in reversed(self._begun):
            if self._begun[var] <= end:
                break
            self._begun[var] = end
        at = len(self.live_ranges)
        while at and self.live_ranges[at - 1][3] > end:
            at -= 1
            var, location, first, _ = self.live_ranges[at]
            self.live_ranges[at] = var, location, min(first, end), end

    def pairs(self) -> Iterator[tuple[int, int, int, int]]:
        """The pairs of blocks of which each undoes the other; an instruction that was removed at an end of one block is left out of the other."""
        for (start, head), (end, tail), (undone, undone_tail), (after, undone_head) in self.marks.values():
            outer, inner = head - undone_head, tail - undone_tail
            yield start + max(-outer, 0), end - max(-inner, 0), undone + max(inner, 0), after - max(outer, 0)

    def location_lists(self) -> Iterator[tuple[ir.Var, int, int, int]]:
        """(variable, location, first, last): the location holds the variable from point `first` of the code to point `last`.

        The live ranges of local variables and parameters, without the points at which call sequences have moved the word elsewhere.
        """
        parameters = ((var, self._where[var], 0, len(self.code)) for var in self._begun)
        for var, location, first, last in (*self.live_ranges, *parameters):
            start, displaced = first, self._displaced.get(location, [])
            for away, back in displaced[bisect_right(displaced, (first, len(self.code) + 1)) :]:
                if back > last:
                    break
                yield var, location, start, away - 1
                start = back
            if start < last:
                yield var, location, start, last

    def _location(self, var: ir.Var) -> int:
        location = self._where.get(var)
        if location is None:
            raise AssertionError(f"{self._name}: {var!r} is used, but it is not live ({self._origin!r})")
        return location

    def _register(self, operand: ir.Operand) -> int | None:
        """The register that holds the operand all the time, if one does."""
        if isinstance(operand, ir.Var):
            location = self._location(operand)
            return location if location < SLOT else None
        return self._where.get(ir.Const(operand.word & self._w.mask))

    def _reach(self, operands: Iterable[ir.Operand | None]) -> tuple[dict[ir.Operand | None, int], list[Instruction]]:
        """(operand -> register, the instructions that bring in the operands without a register of their own)."""
        registers: dict[ir.Operand | None, int] = {None: ZERO_REGISTER}
        loads: list[Instruction] = []
        free = iter(self._scratch)
        for operand in operands:
            if operand is None or operand in registers:
                continue
            register = self._register(operand)
            if register is None:
                register = next(free)
                if isinstance(operand, ir.Var):
                    loads.append(self._moves.exchange_slot(register, self._location(operand)))
                else:
                    loads += make_constant(register, operand.word & self._w.mask, self._w)
            registers[operand] = register
        return registers, loads

    # ---------------------------------------------------------------- instructions

    def _put(self, i: Instruction) -> None:
        self.code.append(i)
        self.origins.append(self._origin)
        self.spans.append(self._span)
        self._put_back = 0

    def _put_all(self, instructions: Iterable[Instruction]) -> None:
        for i in instructions:
            self._put(i)

    def _load(self, loads: Sequence[Instruction]) -> None:
        """Bring operands in; of an operand that has just been put back, the putting back is removed instead."""
        for n, i in enumerate(loads):
            if not self._put_back or self.code[-1] != inverse(i):
                self._put_all(loads[n:])
                return
            for items in (self.code, self.origins, self.spans):
                items.pop()
            self._put_back -= 1
            self._shorten_ranges()

    def _unload(self, loads: Sequence[Instruction]) -> None:
        if loads:
            self._put_all(undo(loads))
            self._put_back = len(loads)

    def _op(self, op: ir.Op, undone: bool) -> None:
        opcode, find, region = op.opcode, self._where.get, op.region
        rd, ra, rb = find(op.d, SLOT), find(op.a, SLOT), find(op.b, SLOT)
        if rd | ra | rb < SLOT:
            self._put_checked(Instruction(opcode, rd, ra, rb, op.imm), opcode, region)
            return
        if opcode.entry.name in ("mov", "swap"):
            op = self._shortened(op)
            if op.opcode is opcode and isinstance(op.a, ir.Const) and self._register(op.a) is None:
                self._update_wide(op, op.a.word, undone)
                return
        registers, loads = self._reach((op.d, op.a, op.b))
        self._load(loads)
        self._put_checked(
            Instruction(op.opcode, registers[op.d], registers[op.a], registers[op.b], op.imm), opcode, region
        )
        self._unload(loads)

    def _put_checked(self, i: Instruction, opcode: Opcode, region: ir.Region | None) -> None:
        """Put, and note the address if the opcode of the origin can trap, and the array that it accesses."""
        if region is not None and (known := self.shared.fixed.one(region)) is not None:
            self.regions[len(self.code)] = known
        if _can_trap(opcode, self._w):
            self.checks.append(len(self.code))
        self._put(i)

    def _shortened(self, op: ir.Op) -> ir.Op:
        """A move or exchange as a memory instruction, where one of the two variables lies in memory."""
        for mine, other in ((op.a, op.d), (op.d, op.a)):
            location = self._location(mine) if isinstance(mine, ir.Var) else ZERO_REGISTER
            if location < SLOT:
                continue
            slot = self._moves.slot(location)
            if op.opcode is _SWAP:
                return ir.Op(EXCHANGE, other, ir.ZERO, None, slot)
            if mine is op.a:
                return ir.Op(TABLE[f"ld.{op.opcode.update}"], op.d, ir.ZERO, None, slot)
            if isinstance(other, ir.Var) or self._register(other or ir.ZERO) is not None:
                return ir.Op(TABLE[f"st.{op.opcode.update}"], None, ir.ZERO, other, slot)
        return op

    def _update_wide(self, op: ir.Op, word: int, undone: bool) -> None:
        computed = ir.invert_node(op) if undone else op
        assert isinstance(computed, ir.Op)
        assert computed.opcode.update is not None
        registers, loads = self._reach((op.d,))
        made = make_constant(registers[op.d], word & self._w.mask, self._w, computed.opcode.update)
        self._load(loads)
        self._put_all(undo(made) if undone else made)
        self._unload(loads)

    def _branch(self, branch: Branch) -> None:
        """One end of a pair. Its carried operands are brought in on every path that leads here, and put back on every path out."""
        registers, loads = self._reach(branch.carried)
        kind, test = branch.kind, branch.test
        if test is not None or kind == "goto":
            self._load(loads)
        at = len(self.code)
        self.checks.append(at)
        first = self._first_ends.pop(branch.pair, None)
        if first is None:
            distance = 0
            self._first_ends[branch.pair] = at, self._alive
        else:
            start, alive = first
            if alive != self._alive:
                raise AssertionError(f"{self._name}: other variables are live at the two ends of {self._origin!r}")
            distance = start - at
            self.code[start] = self.code[start]._replace(imm=-distance)
        if test is None:
            self._put(Instruction(TABLE[kind], imm=distance))
        else:
            opcode = TABLE[f"{kind}.{test.cc}"]
            self._put(Instruction(opcode, 0, registers[test.a], registers[test.b], distance))
        if test is not None or kind == "from":
            self._unload(loads)

    # ---------------------------------------------------------------- calls

    def _call(self, call: ir.Call) -> None:
        before = self._calls.before(call)
        start, end = len(self.code), len(self.code) + 2 * len(before)
        for n, i in enumerate(before):
            for part in i.opcode.writes:
                if part in _FIELDS:
                    self._displace(getattr(i, _FIELDS[part]), start + n + 1, end - n + 1)
        self._put_stacked(before)
        self.calls[len(self.code)] = call.procedure
        self._put(Instruction(TABLE["uncall" if call.backward else "call"]))
        self._put_stacked(undo(before))

    def _displace(self, register: int, first: int, end: int) -> None:
        found = self._displaced.setdefault(register, [])
        if not found or first >= found[-1][1]:
            found.append((first, end))

    def _put_stacked(self, instructions: Sequence[Instruction]) -> None:
        """Put; accesses to the stack can trap, when it is full."""
        for i in instructions:
            if i.opcode is EXCHANGE and i.ra == self.shared.roles.stack:
                self.checks.append(len(self.code))
            self._put(i)

    def clobbers(self) -> int:
        """Every location that this code and its callees outside its own component use."""
        out = self.locations.clobbered
        for name in callees(self.steps):
            out |= self.shared.clobbered.get(name, 0)
        return out
