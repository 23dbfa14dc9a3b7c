"""The code of one procedure, or of the entry: steps on variables become instructions on registers and memory.

What the compiler adds for its own roles (bringing a variable in from memory, making a constant, moving arguments to
their places) stands in front of the instruction that needs it, and its inverse behind. So it is undone in either
direction of execution, and forgets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from retrograd.compiler.backend.linear_code import Branch, Step, callees, immediate_of
from retrograd.compiler.backend.register_allocation import (
    SLOT,
    ZERO_REGISTER,
    AllocationHint,
    Locations,
    RegisterRoles,
    allocation_hints,
    members,
)
from retrograd.compiler.ir.call_graph import Component
from retrograd.compiler.ir.opcode_facts import facts, guards
from retrograd.compiler.ir.statements import (
    SP,
    ZERO,
    Call,
    Const,
    Delocal,
    External,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Procedure,
    Var,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

_MOV, _IMM, _LD, _ST = TABLE["mov.add"], TABLE["imm.add"], TABLE["ld.add"], TABLE["st.add"]
_SWAP, _EXCH, _NEG, _SWAPBR = TABLE["swap"], TABLE["exch"], TABLE["neg"], TABLE["swapbr"]
_ASSERT = TABLE["assertz"]
_GOTO, _FROM = TABLE["goto"], TABLE["from"]


@dataclass
class Shared:
    """What the parts of a program have in common."""

    module: Module
    roles: RegisterRoles
    #: procedure -> the locations of its parameters
    parameter_locations: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: procedure -> every location that it and what it calls may use
    clobbered: dict[str, int] = field(default_factory=dict)

    @property
    def format(self) -> Format:
        return self.module.format

    def slot(self, location: int) -> int:
        """The constant of an instruction for the memory word of a location, based on the zero register."""
        return self.format.signed(self.module.memory + location - SLOT)


def undo(instructions: Sequence[Instruction]) -> list[Instruction]:
    """(i₁ i₂ … iₙ)⁻¹, for instructions that do not jump."""
    return [inverse(i) for i in reversed(instructions)]


def make_constant(register: int, word: int, w: Format, update: str = "add") -> list[Instruction]:
    """register ⊕= word, in two instructions where 32 bits do not hold it.

    The lower half is sign-extended, and the upper half makes up for it: word = low + high·2^32, or with ⊕ for +.
    """
    value = immediate_of(word, w)
    if value is not None:
        return [Instruction(TABLE[f"imm.{update}"], register, imm=value)]
    low = _signed32(word)
    rest = word ^ low if update == "xor" else word - low
    return [
        Instruction(TABLE[f"imm.{update}"], register, imm=low),
        Instruction(TABLE[f"immhi.{update}"], register, imm=_signed32(rest >> 32)),
    ]


def _signed32(value: int) -> int:
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@cache
def _can_trap(opcode: Opcode, w: Format) -> bool:
    return facts(opcode).memory or bool(guards(opcode, w))


class FunctionEmitter:
    """The instructions of one procedure or of the entry, while they are emitted. Branch distances are final, calls are not."""

    def __init__(
        self,
        shared: Shared,
        steps: Sequence[Step],
        procedure: Procedure | None = None,
        component: Component | None = None,
    ) -> None:
        self.shared = shared
        self.steps = steps
        self.procedure = procedure
        #: those whose calls may come back to this procedure while it is active
        self.component = (
            frozenset(component.names) if component is not None and component.recursive else frozenset[str]()
        )
        self.code: list[Instruction] = []
        self.origins: list[Node | None] = []
        self.spans: list[Span | None] = []
        #: addresses of instructions that can trap by the meaning of their origin
        self.checks: list[int] = []
        #: address of a mark -> where the operands of its External are
        self.watched: dict[int, tuple[int | Const, ...]] = {}
        #: address -> procedure, of what has to be given a distance when all addresses are known
        self.calls: dict[int, str] = {}
        #: address of the `swapbr`
        self.entrance = 0
        self.locations = Locations(shared.roles.variables)
        self._w = shared.format
        self._scratch = shared.roles.scratch
        #: variable, or constant that has a register -> where it is; what an instruction does not use is register 0
        self._where: dict[Operand | None, int] = {None: ZERO_REGISTER, ZERO: ZERO_REGISTER}
        self._where |= {Const(word): register for word, register in shared.roles.constants.items()}
        if shared.roles.stack is not None:
            self._where[SP] = shared.roles.stack
        #: a hash of which variables are alive and where: equal at the two ends of every branch
        self._alive = 0
        self._first_ends: dict[int, tuple[int, int]] = {}
        self._origin: Node | None = None
        self._span: Span | None = None
        #: how many instructions at the end of the code only put back what the next may bring in again
        self._put_back = 0

    # ---------------------------------------------------------------- frames

    def assign_parameters(self) -> None:
        """Give the parameters their locations. All members of a component assign_parameters before any is emitted."""
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
            keep = self._push(link)
        else:
            location = self.locations.take(self._link_hint)
            if location < SLOT:
                link = location
            else:
                keep = [Instruction(_EXCH, link, ZERO_REGISTER, imm=self.shared.slot(location))]
        self._put(Instruction(_FROM))
        self._put_all(undo(keep))
        self.entrance = len(self.code)
        self._put_all([Instruction(_SWAPBR, link), Instruction(_NEG, link), *keep])
        self.emit_body()
        self._origin, self._span = None, self.procedure.span
        last = len(self.code)
        self._put(Instruction(_GOTO, imm=-last))
        self.code[0] = Instruction(_FROM, imm=last)

    def _push(self, register: int) -> list[Instruction]:
        sp = self._stack()
        return [Instruction(_EXCH, register, sp), Instruction(_IMM, sp, imm=1)]

    def _stack(self) -> int:
        stack = self.shared.roles.stack
        assert stack is not None
        return stack

    def emit_body(self) -> None:
        params = () if self.procedure is None else self.procedure.params
        _, _, hints = allocation_hints(params, self.steps, self.shared.parameter_locations, self.shared.clobbered)
        wanted = iter(hints)
        before = self._alive
        for step in self.steps:
            self._origin, self._span = step.origin, step.span
            match step.item:
                case Op():
                    self._op(step.item)
                case Local(var):
                    self._begin(var, next(wanted))
                case Delocal(var):
                    self._end(var)
                case Branch():
                    self._branch(step.item)
                case Call():
                    self._call(step.item)
                case External(_, _, args):
                    self.watched[len(self.code)] = tuple(x if isinstance(x, Const) else self._location(x) for x in args)
                    self._put(Instruction(_ASSERT, ZERO_REGISTER))
        if self._alive != before:
            alive = [x.name for x in self._where if isinstance(x, Var) and x is not SP and x not in params]
            raise AssertionError(f"{self._name}: alive at the end: {', '.join(alive) or 'not all parameters'}")
        assert not self._first_ends, "a branch without its other end"

    @property
    def _name(self) -> str:
        return "the entry" if self.procedure is None else self.procedure.name

    # ---------------------------------------------------------------- variables

    def _begin(self, var: Var, hint: AllocationHint) -> int:
        if var in self._where:
            raise AssertionError(f"{self._name}: {var!r} becomes live, but it is")
        location = self.locations.take(hint)
        self._where[var] = location
        self._alive ^= hash((id(var), location))
        return location

    def _end(self, var: Var) -> None:
        location = self._location(var)
        del self._where[var]
        self._alive ^= hash((id(var), location))
        self.locations.give_back(location)

    def _location(self, var: Var) -> int:
        location = self._where.get(var)
        if location is None:
            raise AssertionError(f"{self._name}: {var!r} is used, but it is not live ({self._origin!r})")
        return location

    def _register(self, operand: Operand) -> int | None:
        """The register that holds the operand all the time, if one does."""
        if isinstance(operand, Var):
            location = self._location(operand)
            return location if location < SLOT else None
        return self._where.get(Const(operand.word & self._w.mask))

    def _reach(self, operands: Iterable[Operand | None]) -> tuple[dict[Operand | None, int], list[Instruction]]:
        """(operand -> register, what brings those in that have none of their own)."""
        registers: dict[Operand | None, int] = {None: ZERO_REGISTER}
        loads: list[Instruction] = []
        free = iter(self._scratch)
        for operand in operands:
            if operand is None or operand in registers:
                continue
            register = self._register(operand)
            if register is None:
                register = next(free)
                if isinstance(operand, Var):
                    loads.append(self._exchange_slot(register, self._location(operand)))
                else:
                    loads += make_constant(register, operand.word & self._w.mask, self._w)
            registers[operand] = register
        return registers, loads

    def _exchange_slot(self, register: int, location: int) -> Instruction:
        return Instruction(_EXCH, register, ZERO_REGISTER, imm=self.shared.slot(location))

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
        """Bring in; what has just been put back is still there."""
        for n, i in enumerate(loads):
            if not self._put_back or self.code[-1] != inverse(i):
                self._put_all(loads[n:])
                return
            for items in (self.code, self.origins, self.spans):
                items.pop()
            self._put_back -= 1

    def _unload(self, loads: Sequence[Instruction]) -> None:
        if loads:
            self._put_all(undo(loads))
            self._put_back = len(loads)

    def _op(self, op: Op) -> None:
        opcode, find = op.opcode, self._where.get
        rd, ra, rb = find(op.d, SLOT), find(op.a, SLOT), find(op.b, SLOT)
        if rd | ra | rb < SLOT:
            self._put_checked(Instruction(opcode, rd, ra, rb, op.imm), opcode)
            return
        if opcode.entry.name in ("mov", "swap"):
            op = self._shortened(op)
            if op.opcode is opcode and isinstance(op.a, Const) and self._register(op.a) is None:
                self._update_wide(op, op.a.word)
                return
        registers, loads = self._reach((op.d, op.a, op.b))
        self._load(loads)
        self._put_checked(Instruction(op.opcode, registers[op.d], registers[op.a], registers[op.b], op.imm), opcode)
        self._unload(loads)

    def _put_checked(self, i: Instruction, opcode: Opcode) -> None:
        """Put, and note it if what was meant by it, the opcode, can trap."""
        if _can_trap(opcode, self._w):
            self.checks.append(len(self.code))
        self._put(i)

    def _shortened(self, op: Op) -> Op:
        """A move or exchange as the instruction that does it in memory, where one of the two lies there."""
        for mine, other in ((op.a, op.d), (op.d, op.a)):
            location = self._location(mine) if isinstance(mine, Var) else ZERO_REGISTER
            if location < SLOT:
                continue
            slot = self.shared.slot(location)
            if op.opcode is _SWAP:
                return Op(_EXCH, other, ZERO, None, slot)
            if mine is op.a:
                return Op(TABLE[f"ld.{op.opcode.update}"], op.d, ZERO, None, slot)
            if isinstance(other, Var) or self._register(other or ZERO) is not None:
                return Op(TABLE[f"st.{op.opcode.update}"], None, ZERO, other, slot)
        return op

    def _update_wide(self, op: Op, word: int) -> None:
        assert op.opcode.update is not None
        registers, loads = self._reach((op.d,))
        self._load(loads)
        self._put_all(make_constant(registers[op.d], word & self._w.mask, self._w, op.opcode.update))
        self._unload(loads)

    def _branch(self, branch: Branch) -> None:
        """One end of a pair. What the pair carries is brought in on every way that leads here, and put back on every way out."""
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

    def _call(self, call: Call) -> None:
        """save · bring the arguments to the parameters · call · take them back · restore"""
        before = [*self._save(call), *self._place(call)]
        self._put_stacked(before)
        self.calls[len(self.code)] = call.procedure
        self._put(Instruction(TABLE["uncall" if call.backward else "call"]))
        self._put_stacked(undo(before))

    def _put_stacked(self, instructions: Sequence[Instruction]) -> None:
        """Put; accesses to the stack can trap, when it is full."""
        for i in instructions:
            if i.opcode is _EXCH and i.ra == self.shared.roles.stack:
                self.checks.append(len(self.code))
            self._put(i)

    def _save(self, call: Call) -> list[Instruction]:
        """What is alive, is no argument, and may be used by the callee, moved out of its way.

        Into the stack if the call may come back here, else into locations that the callee does not use.
        """
        arguments = {self._location(arg) for arg in call.args if isinstance(arg, Var)}
        held = self.locations.taken
        for location in arguments:
            held &= ~(1 << location)
        out: list[Instruction] = []
        if call.procedure not in self.component:
            used = self.shared.clobbered[call.procedure]
            save_slots = used | self.locations.taken
            for location in members(held & used):
                save_slot = self.locations.take_save_slot(save_slots)
                save_slots |= 1 << save_slot
                out += self._exchange(location, save_slot)
            return out
        sp, scratch = self._stack(), self._scratch[0]
        for depth, location in enumerate(members(held)):
            if location < SLOT:
                out.append(Instruction(_EXCH, location, sp, imm=depth))
            else:
                out += [self._exchange_slot(scratch, location), Instruction(_EXCH, scratch, sp, imm=depth)]
        if held:
            out.append(Instruction(_IMM, sp, imm=held.bit_count()))
        return out

    def _place(self, call: Call) -> list[Instruction]:
        """The arguments brought to the callee's parameters: variables by exchange, constants by adding them to zero."""
        name = call.procedure
        parameter_locations, written = (
            self.shared.parameter_locations[name],
            self.shared.module.procedures[name].written,
        )
        if len(parameter_locations) != len(call.args):
            raise AssertionError(
                f"{self._name}: {name} takes {len(parameter_locations)} arguments, not {len(call.args)}"
            )
        first: dict[Var, int] = {}
        copies: list[tuple[Operand, int]] = []
        discarded, discarding = self.shared.module.discarded, list[int]()
        for index, (arg, preferred) in enumerate(zip(call.args, parameter_locations, strict=True)):
            if isinstance(arg, Var) and arg not in first:
                if arg is SP:
                    raise AssertionError(f"{self._name}: the stack pointer is an argument of {name}")
                first[arg] = index
                continue
            # A second place of a variable is a copy, which is only right if nobody writes any of them.
            if index in written or (isinstance(arg, Var) and first[arg] in written):
                raise AssertionError(f"{self._name}: {name} writes its parameter {index}, given {arg!r}")
            copies.append((arg, preferred))
            if discarded and self.shared.module.procedures[name].params[index] in discarded:
                discarding.append(preferred)
        out: list[Instruction] = []
        now = {var: self._location(var) for var in first}
        holder = {location: var for var, location in now.items()}
        for var, index in first.items():
            here, preferred = now[var], parameter_locations[index]
            if here == preferred:
                continue
            out += self._exchange(here, preferred)
            del holder[here]
            displaced = holder.get(preferred)
            if displaced is not None:
                now[displaced], holder[here] = here, displaced
            now[var], holder[preferred] = preferred, var
        for preferred in discarding:
            # What a copy or a constant has gained ends with it.
            out += self._test(preferred)
        for arg, preferred in copies:
            if isinstance(arg, Var):
                out += self._copy(parameter_locations[first[arg]], preferred)
            elif arg.word & self._w.mask:
                out += self._fill(preferred, arg)
        return out

    def _exchange(self, x: int, y: int) -> list[Instruction]:
        """Exchange two locations."""
        if x >= SLOT:
            x, y = y, x
        if x >= SLOT:
            scratch = self._scratch[0]
            mine = self._exchange_slot(scratch, x)
            return [mine, self._exchange_slot(scratch, y), mine]
        return [self._exchange_slot(x, y) if y >= SLOT else Instruction(_SWAP, x, y)]

    def _test(self, location: int) -> list[Instruction]:
        """That a location holds zero."""
        if location < SLOT:
            return [Instruction(_ASSERT, location)]
        exchange = self._exchange_slot(self._scratch[0], location)
        return [exchange, Instruction(_ASSERT, self._scratch[0]), exchange]

    def _copy(self, source: int, target: int) -> list[Instruction]:
        """target += source."""
        if target >= SLOT and source >= SLOT:
            scratch = self._scratch[0]
            load = Instruction(_LD, scratch, ZERO_REGISTER, imm=self.shared.slot(source))
            return [load, self._exchange_slot(scratch, target)]
        if target >= SLOT:
            return [Instruction(_ST, 0, ZERO_REGISTER, source, self.shared.slot(target))]
        if source >= SLOT:
            return [Instruction(_LD, target, ZERO_REGISTER, imm=self.shared.slot(source))]
        return [Instruction(_MOV, target, source)]

    def _fill(self, target: int, constant: Const) -> list[Instruction]:
        """target += constant, from zero."""
        word, register = constant.word & self._w.mask, self._register(constant)
        if register is not None and (target >= SLOT or immediate_of(word, self._w) is None):
            return self._copy(register, target)
        if target < SLOT:
            return make_constant(target, word, self._w)
        scratch = self._scratch[0]
        return [*make_constant(scratch, word, self._w), self._exchange_slot(scratch, target)]

    def clobbers(self) -> int:
        """Every location that this code uses, and what it calls outside its own component."""
        out = self.locations.clobbered
        for name in callees(self.steps):
            out |= self.shared.clobbered.get(name, 0)
        return out
