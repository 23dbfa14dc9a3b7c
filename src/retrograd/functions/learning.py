"""Learning by consistency: parameters found by running forward and backward, without a derivative.

    run forward;  outputs := targets;  run backward;  inputs := data;  again

A reversible function can run backward from results that it has not computed. Where the targets are consistent with the
other results, a round changes nothing any more. Source: Liu and Zhao, arXiv 2003.04617.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from retrograd.compiler.language.types import ArrayType, ScalarType
from retrograd.functions.compilation import Compilable
from retrograd.functions.execution import ProgramTrap, execute, read
from retrograd.functions.reversible import Inverse, Reversible, request_of
from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.words import Format
from retrograd.values.binding import located, types_of
from retrograd.values.marshal import to_words
from retrograd.values.precision import Losses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrograd.compiler.compiled import Compiled, Precision
    from retrograd.compiler.pipeline import Argument


@dataclass(frozen=True)
class Consistency:
    """The result of learning by consistency.

    `arguments`: all arguments: the inputs as given, the parameters as learnt.
    `history`: for each output, its values after the forward run of each round.
    `converged`: in the last round the outputs were within `tolerance` of their targets.
    `period`: the number of rounds since the parameters had the same words; 0 if they never had. 1: a round changes
    nothing. 2: often rounding, which alternates between neighbouring words.
    """

    arguments: Any
    history: dict[str, NDArray[Any]]
    converged: bool
    period: int

    @property
    def stationary(self) -> bool:
        """Further rounds repeat earlier ones. A run that is stationary and not converged does not learn."""
        return self.period > 0

    @property
    def rounds(self) -> int:
        """The number of rounds that were run."""
        return len(next(iter(self.history.values())))


def learn_by_consistency(
    f: Reversible | Inverse,
    args: Sequence[Any] | Mapping[str, Any],
    outputs: Mapping[str, Any],
    parameters: str | Sequence[str],
    steps: int = 100,
    callback: Callable[[int, Any], object] | None = None,
    *,
    tolerance: float = 1e-6,
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Consistency:
    """Run f forward, replace its results by `outputs`, run backward, replace the inputs by `args`; `steps` times.

    `args`: the initial arguments, in order or by name. `outputs`: name -> target. `parameters`: the names of the learnt arguments,
    which keep their values from round to round. All other arguments, the outputs too, are inputs, and begin every round
    as in `args`. It ends before `steps` where the parameters repeat those of an earlier round, or where
    `callback(round, arguments after the forward run)` is true. Rounds begin with 0. Words are exact. `engine`, `format`, `precision`: see `run`.

    Trap: a function that leaves its inputs unchanged gives the same parameters in each round, and learns nothing. A
    target from which the function cannot run backward, such as to the logarithm of a negative number, is a ProgramTrap with the
    round in its note. Raises InputError naming the argument, CompileError, ProgramTrap.
    """
    request = request_of(f, engine=engine, format=format, precision=precision)
    function = request.function
    values = request.values((), dict(args)) if isinstance(args, Mapping) else request.values(tuple(args), {})
    compiled = request.compiled(values)
    learnt = [
        _argument(function, compiled, name, "a parameter")
        for name in ([parameters] if isinstance(parameters, str) else parameters)
    ]
    losses = Losses()
    targets = [_target(function, compiled, values, name, target, losses) for name, target in outputs.items()]
    losses.report(compiled, "the target of ")
    if not learnt or not targets:
        _refuse(
            function,
            f"there are no {'outputs to learn from' if learnt else 'parameters to learn'}",
            "Name one or more arguments.",
        )
    if steps < 1:
        _refuse(function, f"steps = {steps} is no number of rounds", "Learning takes one round or more.")
    for a, _ in targets:
        if a in learnt:
            _refuse(function, f"`{a.name}` is an output and a parameter", "What has a target is not learnt.", a.name)

    machine = request.machine(compiled, values)

    def words(of: Sequence[Argument]) -> list[tuple[Argument, list[int]]]:
        return [(a, machine.memory[a.address : a.address + a.type.size]) for a in of]

    def put(what: Sequence[tuple[Argument, list[int]]]) -> None:
        for a, value in what:
            machine.load(a.address, value)

    def known() -> tuple[int, ...]:
        return tuple(word for _, value in words(learnt) for word in value)

    data = words([a for a in compiled.arguments if a not in learnt])
    history: dict[str, list[Any]] = {name: [] for name in outputs}
    seen = {known(): 0}
    period = 0
    for i in range(steps):
        with _noting(i, "forward"):
            execute(compiled, machine)
        after = function.results(*read(compiled, machine))
        for a, _ in targets:
            history[a.name].append(after[compiled.arguments.index(a)])
        put(targets)
        machine.turn()
        with _noting(i, "back"):
            execute(compiled, machine)
        put(data)
        machine.turn()
        period = i + 1 - seen.setdefault(known(), i + 1)
        stopped = callback is not None and bool(callback(i, after))
        if period or stopped:
            break
    converged = all(_near(history[name][-1], target, tolerance) for name, target in outputs.items())
    arguments = function.results(*read(compiled, machine))
    return Consistency(arguments, {name: np.array(found) for name, found in history.items()}, converged, period)


@contextmanager
def _noting(i: int, way: str) -> Iterator[None]:
    """Add the round to the note of a trap."""
    try:
        yield
    except ProgramTrap as trap:
        trap.add_note(f"learning by consistency: in round {i}, on the way {way}")
        raise


def _near(value: Any, target: Any, tolerance: float) -> bool:
    return bool(np.all(np.abs(np.asarray(value, dtype=float) - np.asarray(target, dtype=float)) <= tolerance))


def _refuse(function: Compilable, message: str, hint: str | None, parameter: str = "") -> NoReturn:
    diagnostic = Diagnostic("RG0603", f"`{function.__name__}`: {message}", hint=hint)
    raise InputError(located(diagnostic, function, parameter))


def _argument(function: Compilable, compiled: Compiled, name: str, role: str) -> Argument:
    """The argument of this name, which is a number or an array of numbers."""
    names = [a.name for a in compiled.arguments]
    if name not in names:
        _refuse(function, f"there is no argument `{name}`", nearest(name, names) or f"It has {', '.join(names)}.")
    argument = compiled.arguments[names.index(name)]
    match argument.type:
        case ScalarType() | ArrayType(ScalarType()):
            return argument
    hint = "Numbers and arrays of numbers are."
    _refuse(function, f"`{name}` is {argument.type}, which is not {role}", hint, name)


def _target(
    function: Compilable, compiled: Compiled, values: Sequence[Any], name: str, target: Any, losses: Losses
) -> tuple[Argument, list[int]]:
    """An output and the words of its target, which is of the output's type and shape."""
    argument = _argument(function, compiled, name, "an output")
    i = compiled.arguments.index(argument)
    found = types_of(function, [*values[:i], target, *values[i + 1 :]])[i]
    if found != argument.type:
        _refuse(function, f"the target of `{name}` is {found}, and `{name}` is {argument.type}", None, name)
    try:
        return argument, to_words(argument.type, target, compiled.format, name, losses)
    except InputError as error:
        raise InputError(located(error.diagnostics[0], function, name)) from None
