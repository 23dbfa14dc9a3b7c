"""What must hold for every program of the language: the properties, one program and one set of arguments each."""

from __future__ import annotations

import ast
import itertools
import linecache
import random
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from retrograd.compiler.backend.emission import emit
from retrograd.compiler.compiled import Compiled, Options
from retrograd.compiler.passes.dead_code import erase_routines
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.engines.tiered_machine import TieredMachine

import retrograd as rg
from retrograd.runtime._binding import types_from_annotations
from retrograd.runtime._marshal import from_words, to_words

from .model import Model
from .values import Many, Pile, Record, Scalar, Type, cells, make
from .words import Trapped, Wild

Words = list[int]
#: words of stack that a program gets, and steps that a run may take: beyond what the model permits
STACK, STEPS = 1024, 400_000
ENGINES = ("threaded", "translated")
_numbers = itertools.count()


@dataclass
class Case:
    """A program: its text, the function that is run, and that function's parameters."""

    source: str
    parameters: tuple[tuple[str, Type], ...]
    format: Format
    entry: str = "main"
    #: arguments are drawn from this
    seed: int = 0
    _compiled: dict[Options, Compiled] = field(default_factory=dict)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def function(self) -> rg.Reversible:
        """The function that is run, as Python defines it; its text is where `inspect` finds it."""
        name = f"random_program_{next(_numbers)}"
        file = f"<{name}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        module = types.ModuleType(name)
        module.__file__ = file
        sys.modules[name] = module
        exec(compile(self.source, file, "exec"), vars(module))
        found = vars(module)[self.entry]
        assert isinstance(found, rg.Reversible)
        return found

    def compiled(self, level: int, erase: bool = False) -> Compiled:
        """The program for these options, made from what level 1 was lowered to; now and then wholly by itself."""
        options = Options(level, erase, STACK)
        if options not in self._compiled:
            if options == Options(1, False, STACK) or self.seed % 8 == 0:
                found = self.function.compiled_for(self._types, self.format, options)
            else:
                usual = self.compiled(1)
                module = usual.lowered.module if level == 0 else usual.module
                module = erase_routines(module) if erase else module
                found = replace(usual, options=options, module=module, emitted=emit(module))
            self._compiled[options] = found
        return self._compiled[options]

    @cached_property
    def _types(self) -> Any:
        return types_from_annotations(self.function)

    def release(self) -> None:
        """Forget the module that `function` made."""
        if "function" in self.__dict__:
            module = self.function.fn.__module__
            linecache.cache.pop(sys.modules.pop(module).__file__ or "", None)


# ---------------------------------------------------------------------- arguments


def arguments(case: Case, rng: random.Random) -> list[Words]:
    """Random words for each parameter."""
    return [list(_words(t, case.format, rng)) for _, t in case.parameters]


def _words(t: Type, w: Format, rng: random.Random) -> Iterator[int]:
    match t:
        case Scalar("complex"):
            yield from (_word("fixed", w, rng) for _ in range(2))
        case Scalar(kind):
            yield _word(kind, w, rng)
        case Many(element, shape):
            for _ in range(_size(shape)):
                yield from _words(element, w, rng)
        case Record(_, fields):
            for _, inner in fields:
                yield from _words(inner, w, rng)
        case Pile(kind, capacity):
            count = rng.randrange(capacity // 2 + 1)
            yield count
            for i in range(capacity):
                yield _word(kind, w, rng) if i < count else 0


def _size(shape: Sequence[int]) -> int:
    out = 1
    for n in shape:
        out *= n
    return out


def _word(kind: str, w: Format, rng: random.Random) -> int:
    match kind:
        case "bool":
            return rng.randrange(2)
        case "fixed":
            value = rng.choice((rng.uniform(-2, 2), rng.randint(-3, 3), rng.randint(-8, 8) / 4))
            return w.from_real(value)
        case "lognum":
            exponent = round(rng.uniform(-1, 1) * (1 << w.frac)) & (w.sign - 1)
            return exponent | (w.sign if rng.random() < 0.2 else 0)
    if rng.random() < 0.06:
        return rng.choice((w.sign, w.sign - 1, w.mask, rng.getrandbits(w.width)))
    return rng.randint(-6, 9) & w.mask


# ---------------------------------------------------------------------- runs


def expected(case: Case, words: Sequence[Words], backward: bool = False) -> list[Words]:
    """The arguments' words afterwards, by the model. Raises Trapped, Wild."""
    values = [make(t, iter(w)) for (_, t), w in zip(case.parameters, words, strict=True)]
    Model(case.tree, case.format).run(case.entry, values, backward)
    return [[c.word for c in cells(v)] for v in values]


def memory_of(compiled: Compiled, words: Sequence[Words]) -> Words:
    """The memory that holds these arguments, and what the program brings along."""
    memory = [0] * compiled.module.memory
    for region in compiled.module.regions:
        if region.address is not None and region.data is not None:
            memory[region.address : region.address + region.size] = region.data
    for argument, block in zip(compiled.arguments, words, strict=True):
        memory[argument.address : argument.address + len(block)] = block
    return memory


@dataclass
class After:
    """A machine that has run: None for the trap if it came to its end."""

    machine: rg.Machine
    trap: rg.Trap | None


def run(program: Program, memory: Words, backward: bool = False) -> After:
    machine = rg.Machine(program, backward=backward)
    machine.load(0, memory)
    try:
        outcome = machine.run(STEPS)
    except rg.Trap as trap:
        return After(machine, trap)
    assert outcome.stop is rg.Stop.HALTED, "the program does not end"
    return After(machine, None)


def finished(after: After, memory: Words, what: str) -> None:
    """The run came to its end and left this memory, and nothing else anywhere."""
    assert after.trap is None, f"{what}: {after.trap}"
    compare(after.machine.memory, memory, what)
    left = {i: r for i, r in enumerate(after.machine.registers) if r}
    assert not left, f"{what}: registers are left: {left}"


def compare(found: Sequence[int], memory: Words, what: str) -> None:
    wrong = {i: (f, w) for i, (f, w) in enumerate(zip(found, memory, strict=False)) if f != w}
    assert not wrong, f"{what}: address: (found, expected) = {wrong}"
    assert not any(found[len(memory) :]), f"{what}: the stack is not empty"


Interpret = Callable[[Any, Words], Any]


def check(case: Case, words: list[Words], interpret: Interpret, fault: type[Exception], rng: random.Random) -> str:
    """All properties on one set of arguments; says how the run went: "ended", "trapped", "wild"."""
    plain, optimised = case.compiled(0), case.compiled(1)
    if case.seed % 4 == 0:
        check_engines(optimised, words)
    try:
        result = expected(case, words)
    except Wild:
        return "wild"
    except Trapped as trapped:
        result, why = None, str(trapped)
    if result is None:
        check_trap(plain, words, why, interpret, fault)
        check_trap(optimised, words, why, interpret, fault)
        return "trapped"
    for compiled in (plain, optimised):
        level = f"level {compiled.options.level}"
        before, then = memory_of(compiled, words), memory_of(compiled, result)
        finished(run(compiled.program, before), then, level)
        finished(run(compiled.program, then, backward=True), before, f"{level}, backward")
        compare(interpret(compiled.module, before).memory, then, f"the IR of {level}")
    check_inverse(optimised if rng.random() < 0.5 else plain, words, result)
    erased = case.compiled(1, erase=True)
    finished(run(erased.program, memory_of(erased, words)), memory_of(erased, result), "erased")
    check_partial(optimised, words, rng)
    check_values(optimised, words, result)
    return "ended"


def check_trap(compiled: Compiled, words: list[Words], why: str, interpret: Interpret, fault: type[Exception]) -> None:
    """The program traps, as the model does, and goes back to where it began; the IR traps, too.

    What the optimiser drops traps no more: at its level a run may come to its end.
    """
    before = memory_of(compiled, words)
    after = run(compiled.program, before)
    if after.trap is None:
        assert compiled.options.level, f"no trap, but {why}"
        return
    after.machine.run_back()
    assert after.machine.at_origin
    compare(after.machine.memory, before, "back from the trap")
    try:
        interpret(compiled.module, before)
    except fault:
        return
    raise AssertionError(f"the IR of level {compiled.options.level} does not trap, but {why}")


def check_engines(compiled: Compiled, words: list[Words]) -> None:
    """Compiled code leaves the state and the counts of the reference machine, at the end or at a trap, and goes back."""
    machines = [rg.Machine(compiled.program), *(TieredMachine(compiled.program, engine=e, level=0) for e in ENGINES)]
    reference, *others = machines
    for machine in machines:
        machine.load(0, memory_of(compiled, words))
        with suppress(rg.Trap):
            machine.run(STEPS)
    for machine in others:
        assert machine.state() == reference.state(), f"the state of {machine.engine}"
        assert machine.counts() == reference.counts(), f"the counts of {machine.engine}"
    for machine in machines:
        machine.run_back()
    for machine in others:
        assert machine.state() == reference.state(), f"the state of {machine.engine}, back"


def check_inverse(compiled: Compiled, words: list[Words], result: list[Words]) -> None:
    """The inverse module, emitted on its own, undoes the run."""
    inverse = emit(~compiled.module).program
    finished(run(inverse, memory_of(compiled, result)), memory_of(compiled, words), "the inverse module")


def check_partial(compiled: Compiled, words: list[Words], rng: random.Random) -> None:
    """Stopped anywhere, a run goes back to where it began."""
    machine = rg.Machine(compiled.program)
    machine.load(0, memory_of(compiled, words))
    before = machine.state()
    machine.run(int(400 ** rng.random()))
    machine.run_back()
    assert machine.at_origin
    assert machine.state() == before, "back from the middle"


def check_values(compiled: Compiled, *states: Sequence[Words]) -> None:
    """What Python sees of the arguments, before a run and after it, has their words."""
    for words in states:
        for a, block in zip(compiled.arguments, words, strict=True):
            value = from_words(a.type, block, compiled.format)
            assert to_words(a.type, value, compiled.format, a.name) == block, f"`{a.name}` as a value, {value!r}"


def check_backward(case: Case, words: list[Words]) -> str:
    """Run backward from any state, as the model does; and forward again to it."""
    try:
        result = expected(case, words, backward=True)
    except Wild:
        return "wild"
    except Trapped as trapped:
        result, why = None, str(trapped)
    if result is None:
        plain = case.compiled(0)
        assert run(plain.program, memory_of(plain, words), backward=True).trap is not None, f"no trap, but {why}"
        return "trapped"
    for level in (0, 1):
        compiled = case.compiled(level)
        before, then = memory_of(compiled, words), memory_of(compiled, result)
        finished(run(compiled.program, before, backward=True), then, f"level {level} backward")
        finished(run(compiled.program, then), before, f"level {level} backward and forward")
    return "ended"
