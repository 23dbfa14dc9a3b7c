"""`with rg.external():` blocks: Python reads the variables of a running program, and the program continues unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from traceback import walk_tb
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, Options, Precision
from retrograd.compiler.frontends.python.source import UndeclaredResult
from retrograd.compiler.ir.statements import Const, Var
from retrograd.compiler.language.types import ArrayType, ScalarType, Type
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    MeasuredArray,
    Scalar,
    StackValue,
    StructValue,
    Value,
)
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError, Span
from retrograd.isa.words import Format
from retrograd.runtime._arrays import is_lent_by_device
from retrograd.runtime._binding import Arguments, bind, has_trees, located, restored
from retrograd.runtime._compilation import Compilable
from retrograd.runtime._marshal import Losses, from_words, to_words, word_array
from retrograd.runtime._traps import explain
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.tiering import ENGINES, engine_named
from retrograd.simulator.machine import REGISTERS, Machine, Outcome, Stop, Trap
from retrograd.simulator.stores import limit_of

if TYPE_CHECKING:
    from retrograd.runtime._distribution import Distribution
    from retrograd.simulator.engines.machines import FinishedRun

T = TypeVar("T")


def run_with_externals(
    compiled: Compiled,
    machine: Machine,
    max_steps: int | None,
    observe: Callable[[Machine, int], None] | None = None,
) -> Outcome:
    """Run to the end, and execute a block each time the machine reaches its mark, in either direction.

    `observe` is called after every step, as by `Machine.run`.
    """
    marks = compiled.externals
    taken = 0
    while True:
        if machine.pc in marks and machine.br == 0:
            block = compiled.lowered.externals[marks[machine.pc]]
            words = iter([_word(machine, x) for x in compiled.emitted.watched[machine.pc]])
            scope = {name: _seen(compiled, machine, value, words) for name, value in block.watched.items()}
            try:
                block.run(scope)
            except RetrogradError:
                raise
            except Exception as error:
                raise RetrogradError(_failed(compiled, block.file, error)) from error
        left = None if max_steps is None else max_steps - taken
        outcome = machine.run(left, breakpoints=marks, observe=observe)
        taken += outcome.steps
        if outcome.stop is not Stop.BREAKPOINT:
            return Outcome(outcome.stop, taken)


def _failed(compiled: Compiled, file: str, error: Exception) -> Diagnostic:
    """The diagnostic of an exception in a block."""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    lines = [at for frame, at in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    if not lines:
        return Diagnostic("RG0808", message)
    text = compiled.program.source.line(Span(file, lines[-1])) or ""
    begin = len(text) - len(text.lstrip())
    return Diagnostic("RG0808", message, Span(file, lines[-1], begin + 1, len(text.rstrip()) + 1), line=text)


def _word(machine: Machine, place: int | Const) -> int:
    if isinstance(place, Const):
        return place.word
    return machine.registers[place] if place < REGISTERS else machine.memory[place - REGISTERS]


def _seen(compiled: Compiled, machine: Machine, value: Value, words: Iterator[int]) -> Any:
    """The value of a name at this point of the run; `words` are those of the operands, in order."""
    w = compiled.format
    match value:
        case Constant(v):
            return v
        case Scalar(e, place):
            word = next(words)
            # The operand of a value in memory is its address.
            stored = machine.memory[word] if place is not None and not isinstance(place, Var) else word
            return from_words(ScalarType(e.kind), [stored], w)
        case ArrayView(element, lengths, strides):
            base = next(words)
            shape = tuple(n if isinstance(n, int) else next(words) for n in lengths)
            out = []
            for index in np.ndindex(*shape):
                at = base + sum(i * s for i, s in zip(index, strides, strict=True))
                out += machine.memory[at : at + element.size]
            return from_words(ArrayType(element, shape), out, w)
        case MeasuredArray(element, known):
            base = next(words)
            measured = tuple(next(words) if n is None else n for n in known)
            t = ArrayType(element, measured)
            return from_words(t, machine.memory[base : base + t.size], w)
        case StackValue(t):
            base = next(words)
            return from_words(t, machine.memory[base : base + t.size], w)
        case StructValue(t, fields):
            return t.cls(**{name: _seen(compiled, machine, inner, words) for name, inner in fields.items()})
    raise TypeError(value)


# -----------------------------------------------------------------------------
# Compiled functions on machines: arguments are loaded as words, the machine runs, results are read.
#
#     load(compiled, values)  →  Machine  →  execute(compiled, machine)  →  read(compiled, machine)
#
# The arguments lie at the beginning of memory, in the order of the parameters. A trap is raised as a ProgramTrap, whose
# message uses the names and lines of the source.

__all__ = [
    "ENGINES",
    "Finished",
    "ProgramTrap",
    "argument_words",
    "execute",
    "finished",
    "load",
    "machine_of",
    "read",
    "words_of",
]

#: engines that run a loaded translation
_TRANSLATING = frozenset({"auto", "native", "translated"})
_NOTHING: Mapping[int, int] = MappingProxyType({})
#: a run at its end: both have `memory`, `retired`, `erased_bits` and `engine`
Finished: TypeAlias = "Machine | FinishedRun"


class ProgramTrap(RetrogradError):
    """A compiled function trapped, or reached its limit of steps.

    `machine` stands before the instruction that trapped, and can run back to its start.
    """

    def __init__(self, diagnostic: Diagnostic, machine: Machine, trap: Trap | None) -> None:
        super().__init__(diagnostic)
        self.machine = machine
        self.trap = trap


class Unexplained(Exception):
    """A run that trapped, of which no machine has given the trap: the caller did not ask for it."""


def load(
    compiled: Compiled,
    values: list[Any],
    *,
    backward: bool = False,
    overflow: bool = True,
    engine: str = "auto",
    losses: Losses | None = None,
) -> Machine:
    """A machine at the start of the program, these arguments in its memory. `losses`: see `argument_words`. Raises InputError."""
    machine = machine_for(compiled.emitted.program, engine, backward=backward, overflow=overflow)
    machine.load(0, _argument_words(compiled, values, losses))
    return machine


def argument_words(compiled: Compiled, values: list[Any], losses: Losses | None = None) -> list[int]:
    """The words of all arguments, one argument after the other. Raises InputError at the parameter.

    Numbers that lose most of their bits are reported as `Options.precision` states; with `losses` they are noted there.
    """
    words = _argument_words(compiled, values, losses)
    return [*words] if isinstance(words, list) else words.tolist()


def _argument_words(
    compiled: Compiled, values: list[Any], losses: Losses | None = None
) -> list[int] | NDArray[np.uint64]:
    """The same, not to be changed; an array where an argument is one. Those of one call are made once: see `Arguments`."""
    # A derived program has the arguments of its function.
    of, w = compiled.lowered.arguments, compiled.format
    if isinstance(values, Arguments) and values.examples is not None:
        values = values.copied()
    made = values.made if isinstance(values, Arguments) else None
    if made is not None and made[0] is of:
        return made[1]
    words: list[int] = []
    parts: list[Any] = []
    # Of one call they are reported once.
    noted = losses
    if noted is None and compiled.options.precision != "ignore":
        noted = None if isinstance(values, Arguments) and values.reported else Losses()
    for argument, value in zip(of, values, strict=True):
        t = argument.type
        try:
            if type(t) is ArrayType:
                parts += (words, word_array(t, value, w, argument.name, noted))
                words = []
            else:
                words += to_words(t, value, w, argument.name, noted)
        except InputError as error:
            raise InputError(located(error.diagnostics[0], compiled.function, argument.name)) from None
    found = words if not parts else np.concatenate([np.array(part, dtype=np.uint64) for part in (*parts, words)])
    if isinstance(values, Arguments):
        values.reported = True
    if losses is None and noted:
        noted.report(compiled)
    if made is None and isinstance(values, Arguments):
        values.made = of, found
    return found


def words_of(run: Finished) -> Any:
    """The memory after a run, in which slices are lists or arrays of words."""
    if not isinstance(run, Machine):
        return run.memory.array
    if run.engine == "cuda":
        return run.memory  # on a device, of which only what is asked for is copied
    return getattr(run.memory.store, "array", run.memory)


def numbers_there(
    run: Finished, values: Sequence[Any], t: Type, address: int, w: Format, scale: int | None = None
) -> Any:
    """See `retrograd.runtime._device.numbers_there`; None of runs on a CPU of arguments that lie on the host."""
    if run.engine != "cuda" and getattr(values, "examples", None) is None:
        return None
    from retrograd.runtime import _device

    return _device.numbers_there(run, values, t, address, w, scale)


def read(compiled: Compiled, run: Finished, given: Sequence[Any] | None = None, first: int = 0) -> list[Any]:
    """The arguments in memory after a run, in the order of the parameters; trees in the form of the `given` arguments.

    `first`: those from this position on.
    """
    w, arguments, memory = compiled.format, compiled.lowered.arguments[first:], words_of(run)
    # A run on arrays of a device may have ended on the host.
    if run.engine == "cuda" or getattr(given, "examples", None) is not None:
        there = [numbers_there(run, given or (), a.type, a.address, w) for a in arguments]
        found = [
            from_words(a.type, memory[a.address : a.address + a.type.size], w) if one is None else one
            for a, one in zip(arguments, there, strict=True)
        ]
    else:
        found = [from_words(a.type, memory[a.address : a.address + a.type.size], w) for a in arguments]
    if given is not None:
        for i, a in enumerate(arguments):
            if has_trees(a.type):
                found[i] = restored(a.type, given[first + i], found[i])
    return found


def finished(
    compiled: Compiled,
    values: list[Any],
    *,
    backward: bool = False,
    overflow: bool = True,
    engine: str = "auto",
    max_steps: int | None = None,
    given: Mapping[int, int] = _NOTHING,
    explain: bool = True,
) -> Finished:
    """The run of the program on these arguments, and on the `given` words (address -> word), at its end.

    Where a machine has run the program by its translation, later runs need no machine (`WholeRuns`), unless they do not reach
    the end. Raises InputError, ProgramTrap; with `explain` False, Unexplained where the translation has found a trap.
    """
    key = "whole runs", backward, overflow
    whole, named = compiled.derived.get(key), engine_named(engine)
    machine: Machine
    if named == "cuda":
        machine = _machine_there(compiled, values, engine, backward=backward, overflow=overflow)
    else:
        words = _argument_words(compiled, values)
        if whole is not None and named in _TRANSLATING:
            found: FinishedRun | None = whole(words, named, limit_of(max_steps), given)
            if found is not None:
                return found
            if whole.trapped and not explain:
                raise Unexplained
        if whole is not None and named in _TRANSLATING and whole.is_long:
            machine = whole.fresh_machine(named, len(words))
        else:
            machine = machine_for(compiled.emitted.program, engine, backward=backward, overflow=overflow)
        machine.load(0, words)
    for address, block in _blocks(given):
        machine.load(address, block)
    execute(compiled, machine, max_steps)
    if whole is None and machine.engine == "translated" and not compiled.externals:
        from retrograd.simulator.engines.machines import WholeRuns

        compiled.derived[key] = WholeRuns(compiled.program, backward=backward, overflow=overflow)
    return machine


def _machine_there(compiled: Compiled, values: list[Any], engine: str, **modes: bool) -> Machine:
    """A machine on a device at the start of the program; numbers of large arrays become words there. Raises as `load`."""
    from retrograd.runtime import _device
    from retrograd.simulator.engines.cuda.kernels import Mark

    of, w = compiled.lowered.arguments, compiled.format
    machine = _device.machine_there(compiled.emitted.program, [a.type for a in of], values, engine, **modes)
    known = isinstance(values, Arguments) and values.reported
    losses = None if known or compiled.options.precision == "ignore" else Losses()
    for a, value in zip(of, values, strict=True):
        try:
            marks = _device.load_numbers(machine, a.type, a.address, value, w)
            if marks is not None and not marks[Mark.REFUSED] and not (marks[Mark.LOSSY] and losses is not None):
                continue
            # The host finds the numbers that have no word, or lose bits.
            words = word_array(a.type, _device.on_host(value), w, a.name, losses)
            if marks is None:
                machine.load(a.address, words)
        except InputError as error:
            raise InputError(located(error.diagnostics[0], compiled.function, a.name)) from None
    if isinstance(values, Arguments):
        values.reported = True
    if losses:
        losses.report(compiled)
    return machine


def _blocks(given: Mapping[int, int]) -> Iterator[tuple[int, list[int]]]:
    """(address, words) of words that lie side by side: to load one word takes as long as a hundred."""
    block: list[int] = []
    start = end = 0
    for address, word in given.items():
        if address != end or not block:
            if block:
                yield start, block
            start, block = address, []
        block.append(word)
        end = address + 1
    if block:
        yield start, block


def machine_of(run: Finished) -> Machine:
    """The machine at the end of a run; made now, where the run needed none."""
    return run if isinstance(run, Machine) else run.machine()


def execute(
    compiled: Compiled,
    machine: Machine,
    max_steps: int | None = None,
    observe: Callable[[Machine, int], None] | None = None,
    *,
    externals: bool = True,
) -> None:
    """Run until the machine halts. Raises ProgramTrap.

    `observe` is called after every step, as by `Machine.run`. `externals`: whether `rg.external` blocks are executed.
    """
    try:
        if compiled.externals and externals:
            outcome = run_with_externals(compiled, machine, limit_of(max_steps), observe)
        else:
            outcome = machine.run(max_steps, observe=observe)
    except Trap as trap:
        raise ProgramTrap(explain(compiled, machine, trap), machine, trap) from None
    if outcome.stop is not Stop.HALTED:
        source = compiled.program.source
        span = source.span(machine.pc)
        diagnostic = Diagnostic("RG0420", f"stopped by the limit of {max_steps} steps", span, line=source.line(span))
        raise ProgramTrap(diagnostic, machine, None)


# -----------------------------------------------------------------------------
# A request describes a run; a result holds its values and counts.
#
#     Request(f, engine=…, format=…, max_steps=…).run(args, keywords)  =  Result(values, steps, erased_bits, …)
#
# `rg.run`, `f(…)`, `rg.run_batch`, `rg.vmap`, all derivatives, `rg.energy` and the co-processor describe their runs
# by this
# one record, so `engine`, `format`, `options` and limits mean the same in each. A request is made once, and used for
# many
# arguments.

#: arguments to differentiate by: positions, names or parts
Which: TypeAlias = int | str | Sequence[int | str] | None
#: cotangents are 2^scale times as large in a run; "auto": see `derivatives._arguments.automatic`
Scale: TypeAlias = int | Literal["auto"]


class ArgumentPart(NamedTuple):
    """An argument by its position, and the steps from it to a part: names of fields, and indices."""

    position: int
    steps: tuple[str | tuple[int, ...], ...] = ()

    @property
    def path(self) -> str:
        """The steps as text: `.x[1]`."""
        return "".join(f".{s}" if isinstance(s, str) else f"[{', '.join(map(str, s))}]" for s in self.steps)


@dataclass(frozen=True)
class Request:
    """What is compiled and run, and how; the arguments follow with each run.

    `backward`: from `finish` to `start`: the inverse of the function. `engine`: a name of `ENGINES`; all engines give
    the same bits.
    `format`, `options`: how the function is compiled; None stands for the function's own. `precision`: that of the
    options, if it
    is another one. `max_steps`: a limit of instructions, for each element of a batch. `overflow`: trap on overflow.

    Of a batch: `checks`: engines that run it as one can leave checks out. `cycles`: count the cycles of the
    co-processor, with its
    core `core`. `progress`: whether a bar is shown; None shows one on a terminal after a second. `over`: the workers
    that run it.

    Of a derivative: ∂(the part `loss`)/∂(the parts `chosen`), None for all that have a derivative, in the form of
    `argnums`, with
    cotangents at `scale`; with `value`, the loss besides.
    """

    function: Compilable
    _: KW_ONLY
    backward: bool = False
    engine: str = "auto"
    format: Format | str | None = None
    options: Options | None = None
    precision: InitVar[Precision | None] = None
    max_steps: int | None = None
    overflow: bool = True
    checks: bool = True
    cycles: bool = False
    core: str = "small"
    progress: bool | None = None
    over: Distribution | None = None
    loss: ArgumentPart | None = None
    chosen: tuple[ArgumentPart, ...] | None = None
    argnums: Which = None
    scale: Scale = "auto"
    value: bool = False

    def __post_init__(self, precision: Precision | None) -> None:
        if precision is not None:
            object.__setattr__(self, "options", replace(self.options or self.function.options, precision=precision))

    def changed(
        self,
        engine: str = "auto",
        format: Format | str | None = None,
        precision: Precision | None = None,
        options: Options | None = None,
        **settings: Any,
    ) -> Request:
        """The same on another engine, in another format, with other options; "auto" and None leave its own.

        `settings`: other fields.
        """
        given: dict[str, Any] = {"engine": engine, "format": format, "precision": precision, "options": options}
        return replace(
            self, **{name: value for name, value in given.items() if value not in ("auto", None)}, **settings
        )

    def derived(self, max_steps: int | None) -> Request:
        """The same for a program that is derived from the function: it runs forward, also that of an inverse."""
        other = object.__new__(Request)
        # As `replace` does in nine microseconds, a tenth of the call of a gradient.
        vars(other).update(vars(self), backward=False, max_steps=max_steps)
        return other

    def with_cotangents(self) -> Request:
        """The same compiled for differentiation mode: with tests where active variables are freed, so that their cotangents are dropped."""
        return replace(self, options=replace(self.options or self.function.options, cotangents=True))

    def for_whole_memory(self, compiled: Compiled) -> Request:
        """The same for a run that costs all words of memory: `ROW_HEAP` words of heap and stack unless they are named."""
        from retrograd.compiler.pipeline import ROW_HEAP

        own = self.options or self.function.options
        heaps = [r.size for r in compiled.module.regions if r.name == "heap" and r.data is None]
        sizes = {"heap": max(heaps, default=0), "stack": compiled.module.stack}
        fewer: dict[str, Any] = {
            n: ROW_HEAP for n, words in sizes.items() if getattr(own, n) is None and words > ROW_HEAP
        }
        return replace(self, options=replace(own, **fewer)) if fewer else self

    def of_code(self) -> Request:
        """The same for a worker, which runs code that is sent beside it and has no function: all that determines a run, and the engine."""
        return Request(
            cast("Compilable", None), backward=self.backward, engine=self.engine, max_steps=limit_of(self.max_steps),
            overflow=self.overflow, checks=self.checks, cycles=self.cycles, core=self.core, progress=False,
        )  # fmt: skip

    def suited(self, args: tuple[Any, ...], keywords: dict[str, Any], call: Callable[[Request], T]) -> T:
        """call(request), for the function whose results have the type that they have for these arguments."""
        function = self.function.suited(args, keywords)
        request = self if function is self.function else replace(self, function=function)
        try:
            return call(request)
        except UndeclaredResult as error:
            if self.backward:
                raise
            return call(replace(self, function=self.function.giving(error, args, keywords)))

    def values(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Arguments:
        """The arguments in the order of the parameters; for the engine `cuda`, arrays on a device stay there.

        Raises InputError.
        """
        found = bind(self.function, args, keywords, self.format)
        if self.engine != "cuda" or not any(map(is_lent_by_device, found)):
            return found
        from retrograd.runtime._device import left_on_device

        return left_on_device(found, [p.name for p in self.function.parameters])

    def compiled(self, values: Sequence[Any]) -> Compiled:
        """The program for arguments of these types. Raises CompileError, InputError."""
        examples = getattr(values, "examples", None) or values
        return self.function.compiled_for(self.function.types_of(examples), self.format, self.options)

    def machine(self, compiled: Compiled, values: list[Any], losses: Losses | None = None) -> Machine:
        """A machine of the engine at the start of the program, the arguments loaded. `losses`: see `argument_words`. Raises InputError."""
        return load(compiled, values, backward=self.backward, overflow=self.overflow, engine=self.engine, losses=losses)

    def called(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """All arguments after the run, by position and by name. Raises as `run`."""
        found = self.called_from(0, args, keywords)
        # Behind the run: a function that cannot be compiled need not have a name for its results.
        return self.function.results(*found)

    def called_from(self, first: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        """The arguments from a position on after the run. Raises as `run`."""
        compiled, ran, values = self._finished(args, keywords)
        return read(compiled, ran, values, first)

    def run(
        self,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        observer: Callable[[Machine], Callable[[Machine, int], None]] | None = None,
    ) -> Result:
        """Run the function on these arguments; `observer(machine)` makes the `observe` of the run. Raises CompileError, InputError, ProgramTrap."""
        if observer is None:
            compiled, ran, given = self._finished(args, keywords)
        else:
            given = self.values(args, keywords)
            compiled = self.compiled(given)
            ran = self.machine(compiled, given)
            execute(compiled, ran, self.max_steps, observer(ran))
        values = self.function.results(*read(compiled, ran, given))
        return Result(values, ran.retired, ran.erased_bits, ran, compiled)

    def _finished(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Compiled, Finished, list[Any]]:
        of_cpu = self.engine != "cuda"
        values = bind(self.function, args, keywords, self.format) if of_cpu else self.values(args, keywords)
        compiled = self.compiled(values)
        ran = finished(
            compiled,
            values,
            backward=self.backward,
            overflow=self.overflow,
            engine=self.engine,
            max_steps=self.max_steps,
        )
        return compiled, ran, values


@dataclass
class Result:
    """A finished run on a machine.

    A batch has a `BatchResult`: its counts are arrays, and there is no single machine. The co-processor has a
    `HardwareResult`, which counts clock cycles and toggled bits instead of showing a machine.
    """

    #: all arguments after the run, by position and by name
    values: Any
    #: instructions executed
    steps: int
    erased_bits: int
    _ran: Finished = field(repr=False)
    compiled: Compiled = field(repr=False)
    #: the engine, and the first words of memory, from before the machine was handed out
    _kept: tuple[str, list[int]] | None = field(default=None, init=False, repr=False, compare=False)

    def _after(self) -> tuple[str, list[int]]:
        """The engine that ran, and the words of the arguments after the run."""
        return self._kept or (self._ran.engine, self._ran.memory[: self.compiled.argument_words])

    @property
    def machine(self) -> Machine:
        """The machine at the end of the run. It may run back, or on: the other fields stay those of the run."""
        self._kept = self._after()
        return machine_of(self._ran)

    @property
    def engine(self) -> str:
        """The engine that ran: reference, threaded or translated."""
        return self._after()[0]

    @property
    def words(self) -> dict[str, list[int]]:
        """The words of the arguments after the run, by name: exact, where a float64 has only 53 bits."""
        words = self._after()[1]
        return {a.name: words[a.address : a.address + a.type.size] for a in self.compiled.arguments}

    def __getstate__(self) -> dict[str, Any]:
        machine = self.machine
        return {**vars(self), "_ran": machine}
