"""The reference machine: the living definition of a step, in plain Python over ints.

    i = code[PC];  execute i if DIR = +1, the inverse of i if DIR = −1
    PC += DIR · (BR if BR ≠ 0 else 1)

All other engines are tested against this machine. Every step can be undone at every reachable point. A trap leaves the
machine as it was before the faulting instruction.

With D = 1 every word has a cotangent, and a step moves the cotangents too (`stores.py`). The gradient of a program's result:

    machine.run()                                  # forward, D = 0
    machine.differentiating = True
    machine.cotangents[result] = 1 << frac         # ∂L/∂L = 1, of all others 0
    machine.turn()
    machine.run()                                  # back to `start`: cotangents of the inputs are ∂L/∂input
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from retrograd.isa.diagnostics import KINDS, Diagnostic, InputError, RetrogradError, api_boundary, shorten_traceback
from retrograd.isa.encoding import inverse, write
from retrograd.isa.program import Program, program_at
from retrograd.simulator.semantics import HALTS, TURNS, Decoded, decode
from retrograd.simulator.stores import (
    LARGE,
    Cotangents,
    Fault,
    SparseWords,
    Store,
    WordsView,
    for_handlers,
    integer_of,
    limit_of,
    memory_words,
    words_of,
)

if TYPE_CHECKING:
    from retrograd.isa.microarchitecture.schedule import Execution

REGISTERS = 256
#: words of data memory that a machine grants by default
MEMORY_LIMIT = 1 << 26

#: registers, memory, PC, BR, DIR; then D and the cotangents of registers and memory, on a machine that has them
MachineState = tuple[Any, ...]


class Stop(Enum):
    """Why a run stopped without a trap."""

    HALTED = "halted"
    LIMIT = "limit"
    BREAKPOINT = "breakpoint"
    CONDITION = "condition"


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and after how many steps."""

    stop: Stop
    steps: int


class Trap(RetrogradError):
    """An instruction could not execute. The machine stands before it, and can run back from there."""

    def __init__(self, diagnostic: Diagnostic, pc: int, direction: int, value: int | None) -> None:
        super().__init__(diagnostic)
        self.pc = pc
        self.direction = direction
        #: the operand's word that the guard refused, where there is one
        self.value = value


class Machine:
    """R[0..255], M[0..N), PC, BR, DIR, and a program.

    `program`: a Program; for `retrograd.Machine` also the path of a text or an image.
    `memory`: the number of data words, where that is more than the program declares.
    `backward=True`: start at `finish` with DIR = −1.
    `overflow=False`: fixed-point results wrap.
    `strict=True`: `erase` traps.
    `keep_dropped=True`: the cotangents of freed ancillas are kept, so that a run with D = 1 can be undone.
    `core`: the co-processor's core whose cycles are counted, "small" or "fast".

    Raises InputError RG0421 if the program needs more memory than `memory_limit`, ImageError RG0306 for an illegal encoding,
    VerificationError without exactly one start and one finish.
    """

    @api_boundary
    def __init__(
        self,
        program: Program | str | os.PathLike[str],
        *,
        backward: bool = False,
        memory: int | None = None,
        overflow: bool = True,
        strict: bool = False,
        keep_dropped: bool = False,
        memory_limit: int = MEMORY_LIMIT,
        core: str = "small",
    ) -> None:
        if not isinstance(program, Program):
            program = program_at(program)
        size = max(program.memory, limit_of(memory, "memory") or 0)
        if size > memory_limit:
            message = f"the program needs {size} words of memory; this machine grants {memory_limit}"
            raise InputError(Diagnostic("RG0421", message))
        self.program = program
        self.format = program.format
        #: the words that instructions read and write; users of the machine have the views below
        self._registers: Store = [0] * REGISTERS
        self._memory: Store = self._first_memory(size)
        self._views: dict[str, WordsView] = {}
        self._br = 0
        self._direction = -1 if backward else 1
        self._pc = program.finish if backward else program.start
        modes = {"overflow"} if overflow else set()
        modes |= {"strict"} if strict else set()
        self._modes = frozenset(modes)
        #: how often each instruction was executed, by direction and address
        self.executed: dict[int, Store] = {+1: [0] * len(program.code), -1: [0] * len(program.code)}
        self._keep_dropped = keep_dropped
        self.core = core
        self._cotangents: Cotangents | None = None
        #: the places of the loss behind its binary point, where they are not those of the format; for showing cotangents
        self.loss_point: int | None = None
        self._differentiating = False
        #: the part of `executed` that was executed with the other D
        self._otherwise = {way: list(hits) for way, hits in self.executed.items()}
        #: the decoded code with D = 0 and D = 1, made when it is first needed
        self._code: dict[bool, dict[int, list[Decoded]]] = {}
        #: the breakpoints of the run, where compiled code stops at them
        self._stops: frozenset[int] = frozenset()

    def _first_memory(self, size: int) -> Store:
        """Memory of that size, with the data of the program."""
        return memory_words(self.program.data, size)

    def __getstate__(self) -> dict[str, object]:
        """The program, and the state in stores of Python. Code is decoded again before the next run."""
        c = self._cotangents
        return {
            **vars(self),
            "_registers": list(self._registers),
            "_memory": self._memory if isinstance(self._memory, SparseWords) else list(self._memory),
            "_views": {},
            "executed": {way: list(hits) for way, hits in self.executed.items()},
            "_cotangents": None if c is None else c.copy(),
            "_code": {},
        }

    def _new_cotangents(self) -> Cotangents:
        return Cotangents(
            [0] * REGISTERS,
            memory_words((), len(self._memory)),
            keep=self._keep_dropped,
            strict="strict" in self._modes,
        )

    @property
    def _decoded(self) -> dict[int, list[Decoded]]:
        """The code in each direction, with handlers that move the cotangents too if D = 1."""
        found = self._code.get(self._differentiating)
        if found is None:
            if self._differentiating:
                found = decode(self.program, self._modes, self._cotangents)
            else:
                made, key = self.program.made, ("decoded", self._modes)
                found = made.get(key) or made.setdefault(key, decode(self.program, self._modes, None))
            self._code[self._differentiating] = found
        return found

    # ---------------------------------------------------------------- state

    @property
    def engine(self) -> str:
        """The fastest engine that has run so far: "reference", "threaded" or "translated"."""
        return "reference"

    @property
    def registers(self) -> WordsView:
        """R[0..255]. Integers are stored mod 2^W."""
        return self._shown("registers", self._registers)

    @registers.setter
    def registers(self, words: Iterable[int]) -> None:
        self.registers[:] = words

    @property
    def memory(self) -> WordsView:
        """M[0..N). Integers are stored mod 2^W."""
        return self._shown("memory", self._memory)

    @memory.setter
    def memory(self, words: Iterable[int]) -> None:
        self.memory[:] = words

    @property
    def pc(self) -> int:
        """The address of the next instruction; beyond the code, the next step traps."""
        return self._pc

    @pc.setter
    def pc(self, address: int) -> None:
        self._pc = integer_of(address, "pc")

    @property
    def br(self) -> int:
        """The branch register, a signed number. Integers are stored mod 2^W."""
        return self._br

    @br.setter
    def br(self, distance: int) -> None:
        self._br = self.format.signed(integer_of(distance, "br"))

    @property
    def direction(self) -> int:
        """DIR: +1 forward, −1 backward. `turn` faces the other way; this alone leaves the PC."""
        return self._direction

    @direction.setter
    def direction(self, direction: int) -> None:
        found = integer_of(direction, "direction")
        if found not in (1, -1):
            raise InputError(Diagnostic("RG0603", f"direction = {found} is neither 1 nor -1"))
        self._direction = found

    @api_boundary
    def load(self, address: int, words: Iterable[int]) -> None:
        """M[address…] = words. Raises InputError RG0505 where they do not fit."""
        address, block = integer_of(address, "address"), words_of(words, self.format.mask, "memory")
        if address < 0 or address + len(block) > len(self._memory):
            end = address + len(block) - 1
            message = f"words {address} to {end} do not fit in a memory of {len(self._memory)} words"
            raise InputError(Diagnostic("RG0505", message))
        if len(block) > LARGE // 4 and isinstance(self._memory, SparseWords):
            # A list has less room for each word, and takes less time to be filled.
            self._memory = list(self._memory)
            if "memory" in self._views:
                self._views["memory"].store = self._memory
        self._memory[address : address + len(block)] = block

    def state(self) -> MachineState:
        """(registers, memory, PC, BR, DIR); with cotangents also (D, cotangents of registers, cotangents of memory).

        Machines in equal states behave alike. Trap: the cotangents that `keep_dropped` keeps are not part of it.
        """
        state = tuple(self._registers), tuple(self._memory), self._pc, self._br, self._direction
        if self._cotangents is None:
            return state
        return *state, self.differentiating, tuple(self._cotangents.registers), tuple(self._cotangents.memory)

    @property
    def at_end(self) -> bool:
        """Whether the next step in this direction halts."""
        return self._meets(self._direction)

    @property
    def at_origin(self) -> bool:
        """Whether there is no step to take back."""
        return self._meets(-self._direction)

    def _meets(self, direction: int) -> bool:
        code = self.program.instructions
        if self._br or not 0 <= self._pc < len(code):
            return False
        met = code[self._pc].opcode
        return (met if direction > 0 else self.program.table.inverse(met)).halts

    def counts(self, direction: int | None = None) -> dict[str, int]:
        """name -> how many instructions of that name were executed, in one direction or both; backward, an instruction counts as its inverse."""
        total: Counter[str] = Counter()
        for way in (+1, -1) if direction is None else (direction,):
            for i, n in zip(self.program.instructions, self.executed[way], strict=True):
                if n:
                    total[i.opcode.name if way > 0 else i.opcode.inverse_name] += n
        return dict(total)

    @property
    def retired(self) -> int:
        """Executed instructions, both directions together."""
        return sum(self.executed[+1]) + sum(self.executed[-1])

    def executions(self) -> Counter[Execution]:
        """Execution -> how often. An Execution holds all that the cycles of an instruction depend on."""
        out: Counter[Execution] = Counter()
        for (_, execution), n in self.executions_at().items():
            out[execution] += n
        return out

    def executions_at(self) -> dict[tuple[int, Execution], int]:
        """(address, Execution) -> how often. All other counts of a run follow from these."""
        # Imported here, since it schedules the instructions, which takes long.
        from retrograd.isa.microarchitecture.schedule import Execution

        out: dict[tuple[int, Execution], int] = {}
        now = self._differentiating
        for way, hits in self.executed.items():
            for pc, (n, other) in enumerate(zip(hits, self._otherwise[way], strict=True)):
                for lifted, times in ((now, n - other), (not now, other)):
                    if times:
                        out[pc, Execution.at(self.program, pc, lifted, way)] = times
        return out

    @property
    def core(self) -> str:
        """The co-processor's core whose cycles are counted. It may be changed at any time. Raises InputError RG1125 for an unknown one."""
        return self._core

    @core.setter
    def core(self, name: str) -> None:
        # Imported only for a name that may be wrong, since it takes long.
        if name != "small":
            from retrograd.isa.microarchitecture.micro_operations import core_units

            core_units(name)
        self._core = name

    @property
    def cycles(self) -> int:
        """Cycles of the co-processor for the executed instructions, by the cycle model (docs/reference/timing.md)."""
        from retrograd.isa.microarchitecture.micro_operations import core_units
        from retrograd.isa.microarchitecture.schedule import total_cycles

        return total_cycles(self.executions(), self.format, core_units(self.core))

    @property
    def erased_bits(self) -> int:
        """Bits lost: by `erase`, and by cotangents that were dropped when their ancillas were freed."""
        table = self.program.table
        erased = sum(n * table[name].erased_words for name, n in self.counts().items())
        return erased * self.format.width + self.dropped_bits

    # ---------------------------------------------------------------- cotangents

    @property
    def differentiating(self) -> bool:
        """D: whether steps move cotangents. It is set between runs. Cotangents begin as zeros, and stay when D is cleared."""
        return self._differentiating

    @differentiating.setter
    def differentiating(self, on: bool) -> None:
        if on and self._cotangents is None:
            self._cotangents = self._new_cotangents()
        if on != self._differentiating:
            self._otherwise = {
                way: [n - other for n, other in zip(hits, self._otherwise[way], strict=True)]
                for way, hits in self.executed.items()
            }
        self._differentiating = on

    @property
    def cotangents(self) -> WordsView:
        """The cotangents of the registers, as words; empty before D is first set. Integers are stored mod 2^W."""
        return self._shown("cotangents", None if self._cotangents is None else self._cotangents.registers)

    @property
    def memory_cotangents(self) -> WordsView:
        """The cotangents of the memory words; empty before D is first set."""
        return self._shown("memory_cotangents", None if self._cotangents is None else self._cotangents.memory)

    def _shown(self, name: str, store: Store | None) -> WordsView:
        """The view of a store: the same object for as long as the machine lives."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = WordsView([], self.format.mask, name)
        view.store = [] if store is None else store
        return view

    def clear_cotangents(self) -> None:
        """Set all cotangents to zero, and forget the cotangents that were kept when their ancillas were freed."""
        if self._cotangents is not None:
            self._cotangents.clear()

    @property
    def dropped_bits(self) -> int:
        """Bits of cotangents that were not zero when their ancillas were freed."""
        return 0 if self._cotangents is None else self._cotangents.dropped * self.format.width

    # ---------------------------------------------------------------- motion

    def turn(self) -> None:
        """Reverse the direction: the next step takes back the last one. An involution."""
        self._pc -= self._direction * (self._br or 1)
        self._face_about()

    def _face_about(self) -> None:
        self._direction = -self._direction
        if self._cotangents is not None:
            self._cotangents.way = -self._cotangents.way

    def step(self) -> bool:
        """Execute one instruction; False if it halts instead. Raises Trap, having changed nothing."""
        return self._loop(1) == 1

    def step_back(self) -> bool:
        """The inverse of `step`: undo the update of the PC, then the instruction. DIR is unchanged.

        Returns False if there is no step to take back. Raises Trap, having changed nothing, for an `erase`: it has no inverse.
        """
        if self.at_origin:
            return False
        direction, pc = self._direction, self._pc - self._direction * (self._br or 1)
        execute, d, a, b, imm, kind = self._fetch(pc, -direction)
        self._face_about()
        try:
            self._br = execute(self._registers, for_handlers(self._memory), self._br, d, a, b, imm)
        except Fault as fault:
            raise self._trap(fault, pc, -direction) from None
        finally:
            self._face_about()
        self.executed[-direction][pc] += 1
        self._pc = pc
        if kind == TURNS:
            self._direction = -direction
        return True

    def run(
        self,
        max_steps: int | None = None,
        *,
        breakpoints: Collection[int] = (),
        until: Callable[[Machine], bool] | None = None,
        observe: Callable[[Machine, int], None] | None = None,
    ) -> Outcome:
        """Step until the machine halts, reaches a breakpoint or a condition, or has taken `max_steps`.

        `until(machine)` and the breakpoints are tested after every step. `observe(machine, pc)` is called after the instruction
        at `pc` has executed. Raises Trap; the machine can go on from there, forward or backward.
        """
        try:
            max_steps = limit_of(max_steps)
            if not breakpoints and until is None and observe is None:
                taken = self._loop(max_steps)
                return Outcome(Stop.LIMIT if taken == max_steps and not self.at_end else Stop.HALTED, taken)
            return self._watch(self.step, max_steps, breakpoints, until, observe)
        except RetrogradError as error:
            shorten_traceback(error)
            raise

    def run_back(
        self,
        max_steps: int | None = None,
        *,
        breakpoints: Collection[int] = (),
        until: Callable[[Machine], bool] | None = None,
        observe: Callable[[Machine, int], None] | None = None,
    ) -> Outcome:
        """Take back steps until there are no more: the inverse of `run`, with the same options."""
        try:
            max_steps = limit_of(max_steps)
            if not breakpoints and until is None and observe is None:
                if self.at_origin:
                    return Outcome(Stop.HALTED, 0)
                self.turn()
                halted = False
                before = self.retired
                try:
                    self._loop(max_steps)
                    halted = self.at_end
                finally:
                    taken = self.retired - before
                    if halted and taken != max_steps:
                        # Met backward, `start` does nothing, so to take it back is to stand on it again.
                        self._face_about()
                        self.executed[-self._direction][self._pc] += 1
                        taken += 1
                    else:
                        self.turn()
                return Outcome(Stop.HALTED if self.at_origin else Stop.LIMIT, taken)
            return self._watch(self.step_back, max_steps, breakpoints, until, observe)
        except RetrogradError as error:
            shorten_traceback(error)
            raise

    def _watch(
        self,
        move: Callable[[], bool],
        max_steps: int | None,
        breakpoints: Collection[int],
        until: Callable[[Machine], bool] | None,
        observe: Callable[[Machine, int], None] | None,
    ) -> Outcome:
        steps = 0
        while steps != max_steps:
            executed_at = self._pc if move == self.step else self._pc - self._direction * (self._br or 1)
            if not move():
                return Outcome(Stop.HALTED, steps)
            steps += 1
            if observe is not None:
                observe(self, executed_at)
            if self._pc in breakpoints:
                return Outcome(Stop.BREAKPOINT, steps)
            if until is not None and until(self):
                return Outcome(Stop.CONDITION, steps)
        at_rest = self.at_end if move == self.step else self.at_origin
        return Outcome(Stop.HALTED if at_rest else Stop.LIMIT, steps)

    def _loop(self, max_steps: int | None) -> int:
        """Repeat the step, with the state in local variables. Returns the number of steps."""
        registers, memory = self._registers, for_handlers(self._memory)
        pc, br, direction = self._pc, self._br, self._direction
        decoded = self._decoded
        code, hits = decoded[direction], self.executed[direction]
        size = len(code)
        left = -1 if max_steps is None else max_steps
        limit = left
        try:
            while left:
                if not 0 <= pc < size:
                    raise Fault("RG0410", pc)
                execute, d, a, b, imm, kind = code[pc]
                if kind == HALTS and not br:
                    break
                br = execute(registers, memory, br, d, a, b, imm)
                hits[pc] += 1
                if kind:
                    direction = -direction
                    code, hits = decoded[direction], self.executed[direction]
                pc += direction * br if br else direction
                left -= 1
        except Fault as fault:
            self._pc, self._br, self._direction = pc, br, direction  # the message shows them
            raise self._trap(fault, pc, direction) from None
        finally:
            self._pc, self._br, self._direction = pc, br, direction
        return limit - left

    def _fetch(self, pc: int, direction: int) -> Decoded:
        if not 0 <= pc < len(self._decoded[direction]):
            raise self._trap(Fault("RG0410", pc), pc, direction)
        return self._decoded[direction][pc]

    def _trap(self, fault: Fault, pc: int, direction: int) -> Trap:
        found = trap_diagnostic(self.program, fault, pc, direction, self._br, len(self._memory))
        return Trap(found, pc, direction, fault.value)


# ---------------------------------------------------------------- snapshots
#
# All that a run changes, copied so that the run can begin anew: restore(machine, snapshot(machine)) changes nothing, on
# whichever engine the machine has run in between.


class Snapshot(NamedTuple):
    pc: int
    br: int
    direction: int
    #: copies of registers, memory, counts and cotangents
    stores: list[Any]
    #: the account of dropped cotangents; None on a machine without cotangents
    dropped: tuple[Any, ...] | None


def snapshot(machine: Machine) -> Snapshot:
    c = machine._cotangents
    dropped = None if c is None else (c.way, c.dropped, dict(c.kept), c._crossed, c._lost)
    return Snapshot(machine._pc, machine._br, machine._direction, [s.copy() for s in _stores(machine)], dropped)


def restore(machine: Machine, before: Snapshot) -> None:
    machine._pc, machine._br, machine._direction = before[:3]
    for store, old in zip(_stores(machine), before.stores, strict=True):
        store[:] = old
    c = machine._cotangents
    if c is not None and before.dropped is not None:
        c.way, c.dropped, c.kept, c._crossed, c._lost = before.dropped


def _stores(machine: Machine) -> list[Any]:
    c = machine._cotangents
    cotangents: list[Store] = [] if c is None else [c.registers, c.memory]
    return [machine._registers, machine._memory, machine.executed[+1], machine.executed[-1], *cotangents]


# ---------------------------------------------------------------- messages of traps


def trap_diagnostic(program: Program, fault: Fault, pc: int, direction: int, br: int, memory_words: int) -> Diagnostic:
    """The diagnostic of a fault at `pc`, in a machine that runs in this direction with this BR."""
    span = program.source.span(pc)
    way = "forward" if direction > 0 else "backward"
    if 0 <= pc < len(program.code):
        i = program.instructions[pc]
        executed = i if direction > 0 else inverse(i, program.table)
        where = f"pc {pc}, `{write(i)}` running {way}"
        if direction < 0 and executed != i:
            where += f" as `{write(executed)}`"
    else:
        where = f"pc {pc}, running {way}"
    detail = _detail(program, fault, br, memory_words)
    return Diagnostic(fault.code, f"{detail} (at {where})", span, line=program.source.line(span))


def _detail(program: Program, fault: Fault, br: int, memory_words: int) -> str:
    w, code, value = program.format, fault.code, fault.value
    shown = "" if value is None else f"{w.signed(value)}"
    fixed = "" if value is None else f"{float(w.to_real(value))}"
    match code:
        case "RG0404" if fault.cotangent:
            return f"cotangent overflow in {w}, with cotangent {fixed}"
        case "RG0408" if fault.cotangent:
            return f"freeing the ancilla would drop its cotangent, {fixed}, and erase {w.width} bits"
        case "RG0409" if fault.cotangent:
            return "the cotangent that was dropped when the ancilla was freed here cannot come back"
        case "RG0401":
            negative = f"; as a signed word it is {shown}" if shown.startswith("-") else ""
            return f"address {value} is outside the memory of {memory_words} words{negative}"
        case "RG0403":
            return f"the argument {fixed} is outside the function's domain"
        case "RG0404":
            return f"fixed-point overflow in {w}, with operand {fixed}"
        case "RG0405":
            return f"control arrived by a jump (BR = {shown}), and this instruction does not end it"
        case "RG0406" if br == 0:
            return "control came from above, but the comefrom's condition says that it came by the jump"
        case "RG0406":
            return f"control came by the jump (BR = {br}), but the comefrom's condition says otherwise"
        case "RG0407":
            return f"the ancilla holds {shown}, not zero: freeing it would erase {w.width} bits"
        case "RG0413":
            return f"the comparison of {shown} with another word does not hold"
        case "RG0410":
            return f"PC = {value} is outside the code of {len(program.code)} instructions"
    return KINDS[code].title
