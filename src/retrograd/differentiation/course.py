"""One run of a function, there and back as often as asked.

    forward, D = 0;   then for each set of cotangents of the results:  back, D = 1;  forward again, D = 0

The way forward is the program's own. The way back is that of the same program with its active variables tested where they
are freed: there their cotangents are dropped, as in gradient programs, and the two agree to the last bit.
Trap: a machine that trapped on the way is left to whoever catches the trap; the next way back has a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.lower import Argument
from retrograd.differentiation.arguments import Reals, direction_of, from_words, logarithms, need_scale, sizes
from retrograd.differentiation.programs import gradient_program, kept
from retrograd.functions.execution import ProgramTrap, execute, load, read
from retrograd.functions.reversible import Inverse, Reversible, results
from retrograd.functions.traps import explain
from retrograd.isa.diagnostics import Diagnostic
from retrograd.simulator.cotangents import Store
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import Machine, Trap
from retrograd.values.marshal import bind, types_of

_TOO_LARGE = "Take a smaller `scale`, scale the loss, or use a format with more bits before the point."


class _Watched(list[int]):
    """Memory that remembers the highest address written: how far the stack of calls has grown."""

    highest = -1

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, int) and index > self.highest:
            self.highest = index
        super().__setitem__(index, value)


class Course:
    """A function on its arguments, run to its end. Raises CompileError, InputError, ProgramTrap."""

    def __init__(
        self,
        f: Reversible | Inverse,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        scale: Any = 0,
        watched: bool = False,
    ) -> None:
        self.f = f
        self.function, self.backward = direction_of(f)
        self.values = bind(self.function, args, keywords)
        types = types_of(self.function, self.values)
        self._plain: Compiled = self.function.compiled_for(types)
        self.compiled = self.function.compiled_for(types, None, replace(self._plain.options, cotangents=True))
        self.format = self.compiled.format
        self.arguments: tuple[Argument, ...] = self.compiled.arguments
        self.scale = need_scale(scale, self.format)
        self._watched = watched
        self._initial: dict[str, list[int]] = {}
        self._final: dict[str, list[int]] = {}
        self._trapped = self._at_end = False
        self._cotangents: dict[str, list[int]] = {}
        #: of the last way back: its steps, bits of cotangents dropped, whether every word of the arguments was as loaded
        self.back_steps = self.dropped_bits = 0
        self.restored = False
        #: the machine that goes back
        self.machine: Machine
        ran = self._start()
        #: results and steps of the way forward
        self.results = results(self.function, read(self.compiled, ran))
        self.steps = ran.retired

    @property
    def one(self) -> int:
        """The cotangent 1, as a word: 2^scale."""
        return 1 << (self.format.frac + self.scale)

    def words(self, a: Argument) -> list[int]:
        """The argument as it stands in memory."""
        return self.machine.memory[a.address : a.address + a.type.size]

    def _start(self) -> Machine:
        """Forward; the machine that ran."""
        # Memory is watched in Python.
        ran = load(self._plain, self.values, backward=self.backward, engine="reference" if self._watched else "auto")
        if self._watched:
            ran._memory = _Watched(ran._memory)
        self._initial = {a.name: ran.memory[a.address : a.address + a.type.size] for a in self.arguments}
        execute(self._plain, ran)
        engine = "reference" if self._watched else "auto"
        self.machine = machine_for(self.compiled.program, engine, backward=not self.backward)
        if self._watched:
            self.machine._memory = _Watched(self.machine._memory)
        self.machine.load(0, ran.memory[: self._plain.module.memory])
        self._final = {a.name: self.words(a) for a in self.arguments}
        self._trapped, self._at_end = False, True
        #: whether the machine stands at the end as if it had come from there
        self._facing_back = True
        self._highest = _reached(ran._memory)
        return ran

    def back(self, seeds: Mapping[int, int]) -> None:
        """Back with D = 1, from the cotangents `seeds`, address -> word, and zeros elsewhere. Raises ProgramTrap.

        What the host looks at (`rg.external`) it has seen on the way forward; it is not shown twice.
        """
        if self._trapped:
            self._start()
        if not self._at_end:
            self.machine.differentiating = False
            self.machine.turn()
            self._run()
        self.machine.differentiating = True
        self.machine.clear_cotangents()
        for address, word in seeds.items():
            self.machine.memory_cotangents[address] = word
        if not self._facing_back:
            self.machine.turn()
        self._at_end = self._facing_back = False
        try:
            self._run()
        except ProgramTrap as trap:
            # A machine has cotangents of constants, too. Nobody asks for them, and in a long loop they may outgrow the word.
            if trap.code != "RG0404" or not self._by_program(seeds):
                raise
            return
        words = self.machine.memory_cotangents
        self._cotangents = {a.name: words[a.address : a.address + a.type.size] for a in self.arguments}
        self.back_steps, self.dropped_bits = self.machine.retired, self.machine.dropped_bits
        self.restored = all(self.words(a) == self._initial[a.name] for a in self.arguments)

    def _by_program(self, seeds: Mapping[int, int]) -> bool:
        """The same by the gradient program, which has cotangents of what is active only; False if it traps, too."""
        program = kept(self._plain, ("gradient", self.backward), lambda: gradient_program(self._plain, self.backward))
        machine = load(program.compiled, self.values)
        for address, word in seeds.items():
            machine.load(address + program.cotangents, [word])
        try:
            machine.run()
        except Trap:
            return False
        memory = machine.memory
        self._cotangents = {
            a.name: memory[a.address + program.cotangents : a.address + program.cotangents + a.type.size]
            for a in self.arguments
        }
        self.back_steps, self.dropped_bits = machine.retired - self.steps, machine.erased_bits
        self.restored = all(
            memory[a.address : a.address + a.type.size] == self._initial[a.name] for a in self.arguments
        )
        return True

    def _run(self) -> None:
        self._trapped = True
        try:
            self.machine.run()
        except Trap as trap:
            raise ProgramTrap(explained(self.compiled, self.machine, trap), self.machine, trap) from None
        self._trapped = False
        self._at_end = not self._at_end and not self.machine.differentiating

    # ------------------------------------------------------------------ what came back

    def gradient(self, a: Argument) -> Reals:
        """∂L/∂(the argument before the run), flat, after `back`."""
        return from_words(
            self._cotangents[a.name], sizes(a.type, self._initial[a.name], self.format), self.scale, self.format
        )

    def inside(self, a: Argument) -> Reals:
        """What the machine keeps, flat, after `back`: ∂L/∂x for fixed x, ∂L/∂ln|x| for lognums."""
        return from_words(self._cotangents[a.name], np.ones(a.type.size), self.scale, self.format)

    def logarithms(self, a: Argument, *, final: bool) -> tuple[Reals, Reals]:
        """(signs, log₂ of the sizes) of the argument's numbers before or after the run; (1, 0) for fixed ones."""
        return logarithms(a.type, (self._final if final else self._initial)[a.name], self.format)

    def final_sizes(self, a: Argument) -> Reals:
        """The argument's lognums after the run, and 1 for its fixed numbers."""
        return sizes(a.type, self._final[a.name], self.format)

    @property
    def highest_memory(self) -> int:
        """Words of memory in use where they were most, the stack of calls among them."""
        return max(self.compiled.module.memory, self._highest, _reached(self.machine._memory))

    def seeds(self, addresses: Iterable[int]) -> dict[int, int]:
        """The cotangent 1 at each of these addresses."""
        return dict.fromkeys(addresses, self.one)


def explained(compiled: Compiled, machine: Machine, trap: Trap) -> Diagnostic:
    """A trap on the way back, in the terms of the source."""
    d = explain(compiled, machine, trap)
    plain = trap.diagnostics[0].message.partition(" (at pc")[0]
    if "cotangent" not in plain:
        return d
    # The numbers themselves are fine: it is what runs beside them.
    hint = _TOO_LARGE if trap.diagnostics[0].code == "RG0404" else None
    return replace(d, code=trap.diagnostics[0].code, message=f"running back, {plain}", hint=hint)


def _reached(memory: Store) -> int:
    """The words from the first to the last that was written, where that is watched."""
    return memory.highest + 1 if isinstance(memory, _Watched) else 0
