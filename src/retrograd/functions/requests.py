"""A request describes a run; a result holds its values and counts.

    Request(f, engine=…, format=…, max_steps=…).run(args, keywords)  =  Result(values, steps, erased_bits, …)

`rg.run`, `f(…)`, `rg.run_batch`, `rg.vmap`, all derivatives, `rg.energy` and the co-processor describe their runs by the
same request, so `engine`, `format`, `options` and limits mean the same in each. A request is made once, and used for many
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

from retrograd.compiler.compiled import Compiled, Options, Precision
from retrograd.functions.compilation import Compilable
from retrograd.functions.execution import Finished, execute, finished, load, machine_of, read
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine
from retrograd.values.binding import bind
from retrograd.values.precision import Losses


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How a program is run.

    `backward`: from `finish` to `start`. `engine`: a name of `retrograd.functions.execution.ENGINES`; all engines give the
    same bits. `max_steps`: a limit of instructions, for each element of a batch. `overflow`: trap on overflow. `checks`: only
    engines that run a batch as one can leave checks out. `cycles`: count the cycles of the co-processor, with its core `core`.
    """

    backward: bool = False
    engine: str = "auto"
    max_steps: int | None = None
    overflow: bool = True
    checks: bool = True
    cycles: bool = False
    core: str = "small"


@dataclass(frozen=True)
class Request(RunSettings):
    """How a reversible function is compiled and run; its arguments follow with each run.

    `backward`: run the inverse. `format`, `options`: how the function is compiled; None stands for the function's own. `precision`: that of
    the options, if it is another one.
    """

    function: Compilable
    format: Format | str | None = None
    options: Options | None = None
    precision: InitVar[Precision | None] = None

    def __post_init__(self, precision: Precision | None) -> None:
        if precision is not None:
            object.__setattr__(self, "options", replace(self.options or self.function.options, precision=precision))

    def values(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters. Raises InputError."""
        return bind(self.function, args, keywords, self.format)

    def compiled(self, values: Sequence[Any]) -> Compiled:
        """The program for arguments of these types. Raises CompileError, InputError."""
        return self.function.compiled_for(self.function.types_of(values), self.format, self.options)

    def machine(self, compiled: Compiled, values: list[Any], losses: Losses | None = None) -> Machine:
        """A machine of the engine at the start of the program, the arguments loaded. `losses`: see `argument_words`. Raises InputError."""
        return load(compiled, values, backward=self.backward, overflow=self.overflow, engine=self.engine, losses=losses)

    def called(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """All arguments after the run, by position and by name. Raises as `run`."""
        compiled, ran, values = self._finished(args, keywords)
        return self.function.results(*read(compiled, ran, values))

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
        values = bind(self.function, args, keywords, self.format)
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
