"""Variables in the debugger against an interpreter of the source, on random programs of the language, forward and back.

At each line of the function the debugger shows variables. Their values are those of the model of the language
(tests/support/random_programs/model.py) at a moment of its run:

    level 0: all variables of a line together, without variables lent to views, and the moments of later lines do not come earlier
    level 1: the same for each variable and element by itself, since the optimiser moves statements. A variable that it removed is not shown,
             and a value that it may have changed is marked (`Variable.unsettled`).
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine
from support.random_programs import checks, generate

import retrograd as rg
from retrograd.observe._session import Session
from retrograd.observe._variables import Variable, value_of

#: random programs of the default tier, and those of the full one, in chunks
QUICK, CHUNK = 10, 50
SLOW = range(30, 1030, CHUNK)
#: lines that are looked at in one run
LINES = 250

#: name of a variable -> its words, and its elements where it is a stack
State = dict[str, tuple[int, ...]]


def states_of_the_model(
    case: Any, words: list[list[int]], values: ModuleType, model: ModuleType
) -> dict[int, list[State]]:
    """Level -> the variables of the function before and after each of its statements; for level 1, of those of its calls, too.

    The optimiser cancels a statement and its inverse, which may leave the state in the midst of a call until the second one.
    """
    states: dict[int, list[State]] = {0: [], 1: []}

    class Traced(model.Model):  # type: ignore[name-defined, misc]
        depth = 0
        own: dict[str, Any]

        def call(self, callee: Any, args: Any) -> None:
            self.depth += 1
            super().call(callee, args)
            self.depth -= 1

        def note(self) -> None:
            self.own = self.names if self.depth == 1 else self.own
            now = dict(flat(self.own))
            states[1].append(now)
            if self.depth == 1:
                states[0].append(now)

        def step(self, node: Any, forward: bool, makes: bool) -> None:
            self.note()
            super().step(node, forward, makes)
            self.note()

    def flat(names: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
        for name, value in names.items():
            match value:
                case values.Struct(_, fields):
                    yield from flat({f"{name}.{field}": inner for field, inner in fields.items()})
                case values.Stack(count, inner):
                    yield name, tuple(c.word for c in inner[: case.format.signed(count.word)])
                case values.Cell():
                    yield name, (value.word,)
                case values.View(items) if items.size and isinstance(items.flat[0], values.Cell):
                    yield name, tuple(c.word for c in items.flat)

    given = [values.make(t, iter(w)) for (_, t), w in zip(case.parameters, words, strict=True)]
    Traced(case.tree, case.format).run(case.entry, given)
    return states


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def agrees(value: Any, kind: str, words: tuple[int, ...] | None, w: Format, element: int | None = None) -> bool:
    """Whether a shown value, or one element of it, is that of the model. A variable that is not live yet, or no longer, is zero."""
    found = list(leaves(value))
    expected = [value_of(kind, word, w) for word in ([0] * len(found) if words is None else words)]
    if element is None:
        return found == expected
    return element < len(expected) and len(found) == len(expected) and found[element] == expected[element]


def lines_of(session: Session, first: int, last: int) -> Iterator[int]:
    """Runs to the end or a trap, and stops at the beginning of each line of the function."""
    program = session.machine.program
    spans = [program.source.span(pc) for pc in range(len(program.code))]
    # The first instructions load the arguments of the function.
    file = next((span.file for span in spans if span is not None), "")
    before: int | None = None
    mine: int | None = None
    while True:
        span = spans[session.pc]
        line = None if span is None else span.line
        inside = span is not None and span.file == file and first <= span.line <= last
        # Back in a line after the lines of a procedure that it calls, the line goes on.
        if inside and line is not None and line not in (before, mine) and not session.machine.br:
            yield line
        before, mine = line, line if inside else mine
        if not session.timeline.one(back=False):
            return


class Moments:
    """The moments of the model's run that the shown variables have passed."""

    def __init__(self, states: list[State], w: Format) -> None:
        self.states, self.w = states, w
        self.passed: Counter[tuple[str, int | None]] = Counter()

    def next(self, key: tuple[str, int | None], shown: list[Variable]) -> bool:
        """Go on to the first moment, from the last one of `key` on, at which the variables have their values."""
        for n in range(self.passed[key], len(self.states)):
            state = self.states[n]
            if all(agrees(v.value, v.kind, state.get(v.name), self.w, key[1]) for v in shown):
                self.passed[key] = n
                return True
        return False

    def check(self, level: int, shown: list[Variable]) -> None:
        shown = [v for v in shown if not v.unsettled]
        if level == 0:
            assert self.next(("", None), shown), [(v.name, v.value) for v in shown]
            return
        for v in shown:
            found = list(leaves(v.value))
            if not isinstance(v.value, list):
                assert self.next((v.name, None), [v]), (v.name, v.value)
            elif not any(len(state.get(v.name, found)) != len(found) for state in self.states):
                for k in range(len(found)):
                    assert self.next((v.name, k), [v]), (v.name, k, v.value)


def check(seed: int, went: Counter[str]) -> None:
    case = generate.generate(seed)
    model = sys.modules[checks.Model.__module__]
    values = sys.modules[model.Cell.__module__]
    words = checks.arguments(case, random.Random(seed))
    try:
        states = states_of_the_model(case, words, values, model)
    except (checks.Trapped, checks.Wild):
        went["left out"] += 1
        return
    names = {name for state in states[0] for name in state}
    entry = next(node for node in case.tree.body if getattr(node, "name", "") == case.entry)
    for level in (0, 1):
        compiled = case.compiled(level)
        machine = Machine(compiled.program)
        machine.load(0, checks.memory_of(compiled, words))
        session, moments = Session(machine), Moments(states[level], case.format)
        seen: list[tuple[int, list[Variable]]] = []
        for number, line in zip(range(LINES), lines_of(session, entry.body[0].lineno, entry.end_lineno), strict=False):
            shown = [v for v in session.variables() if v.name in names]
            went[f"level {level}"] += len(shown)
            went[f"unsettled {level}"] += sum(v.unsettled for v in shown)
            try:
                moments.check(level, shown)
            except AssertionError as error:
                error.add_note(f"generate({seed}), level {level}, stop {number} at line {line}\n{case.source}")
                raise
            seen.append((session.position, shown))
        # Back at each of these steps, the variables are the same.
        for position, shown in reversed(seen):
            session.to(position)
            assert [v for v in session.variables() if v.name in names] == shown, (seed, level, position)
    case.release()


def test_variables_are_those_of_the_source() -> None:
    went: Counter[str] = Counter()
    for seed in range(QUICK):
        check(seed, went)
    assert went["level 0"] > 10 * QUICK
    assert went["level 1"] > 5 * QUICK
    assert went["unsettled 0"] < went["level 0"] / 20
    assert went["unsettled 1"] < went["level 1"] / 8


@pytest.mark.long
@pytest.mark.parametrize("first", SLOW)
def test_variables_of_more_programs(
    first: int,
) -> None:
    went: Counter[str] = Counter()
    failures: list[Exception] = []
    for seed in range(first, first + CHUNK):
        try:
            check(seed, went)
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {CHUNK} programs", failures)
    assert went["left out"] <= CHUNK // 5, went
    assert went["unsettled 0"] < went["level 0"] / 20
    assert went["unsettled 1"] < went["level 1"] / 8, went


def test_a_cancelled_update_is_said_to_be() -> None:
    """Between n += k and its inverse, n keeps its value, and is marked; so is a sum of two lines, and an element in a register."""

    @rg.reversible
    def cancelled(out: int, n: int, k: int, a: rg.Array[int, 3]) -> None:
        n += k
        out += k
        n -= k
        out += 3
        out += 4
        rg.flip(a[k % 3])
        n += 1
        rg.flip(a[k % 3])

    for level in (0, 1):
        function = rg.reversible(level=level)(cancelled.fn)
        session = Session(rg.Machine(function.program()))
        marks: dict[int, set[str]] = {}
        first = cancelled.fn.__code__.co_firstlineno
        for line in lines_of(session, first, first + 20):
            marks[line - first - 1] = {v.name for v in session.variables() if v.unsettled}
        assert marks.keys() >= {2, 4, 6, 7}
        if level:
            assert marks[2] >= {"n"}
            assert marks[4] >= {"out"}
            assert marks[7] >= {"a"}
        else:
            assert not any(marks.values())


@rg.functional
def shifted(x: rg.fixed) -> rg.fixed:
    return x * 3.0


def test_a_line_that_begins_half_updated_is_said_to_be() -> None:
    """y += f(1.0) + x is two updates, of which f's comes first; where f is inlined, the line begins between them."""

    @rg.reversible
    def library(y: rg.fixed, x: rg.fixed, z: rg.fixed) -> None:
        z += 1.0
        y += rg.sinh(x) + x
        z += 1.0

    @rg.reversible
    def file(y: rg.fixed, x: rg.fixed, z: rg.fixed) -> None:
        z += 1.0
        y += shifted(1.0) + x
        z += 1.0

    @rg.reversible
    def begun(y: rg.fixed, x: rg.fixed, z: rg.fixed) -> None:
        z += 1.0
        y += x + rg.sinh(x)
        z += 1.0

    for function, level, expected in (library, 1, {"y"}), (file, 1, {"y"}), (begun, 1, set()), (library, 0, set()):
        first = function.fn.__code__.co_firstlineno + 2
        session = Session(rg.Machine(rg.reversible(level=level)(function.fn).program()))
        marks = {
            line - first: {v.name for v in session.variables() if v.unsettled}
            for line in lines_of(session, first, first + 2)
        }
        assert marks == {0: set(), 1: expected, 2: set()}, (function, level)


@rg.reversible
def repeated(n: int, y: rg.fixed, x: rg.fixed) -> None:
    if n > 0:
        y += x + rg.sinh(x)
        m: int = n - 1
        repeated(m, y, x)
        del m


@rg.reversible
def repeated_briefly(n: int, y: rg.fixed, x: rg.fixed) -> None:
    if n > 0:
        y += x + shifted(x)
        m: int = n - 1
        repeated_briefly(m, y, x)
        del m


@pytest.mark.parametrize("procedure", [repeated, repeated_briefly])
def test_a_line_of_a_procedure_may_begin_at_its_end(procedure: Any) -> None:
    """The inverse of y += x + f(x) begins with f's update, of many instructions or of one."""

    @rg.reversible
    def main(n: int, y: rg.fixed, x: rg.fixed) -> None:
        ~procedure(n, y, x)

    program = main.program()
    assert program.unsettled["y"] == {(program.source.files[0], procedure.fn.__code__.co_firstlineno + 3)}


def test_joined_updates_of_an_element_are_said_to_be() -> None:
    """Where an element is in a register, the array is marked."""

    @rg.reversible
    def joined(a: rg.Array[int, 3], x: int) -> None:
        a[1] += 3
        a[1] += 4
        a[1] += x

    first = joined.fn.__code__.co_firstlineno + 2
    session = Session(rg.Machine(joined.program()))
    marks = {
        line - first: {v.name for v in session.variables() if v.unsettled}
        for line in lines_of(session, first, first + 2)
    }
    assert marks == {0: {"a"}, 2: set()}


def test_an_element_that_became_a_variable_is_said_to_be() -> None:
    """t = a[1] takes the word itself, since nothing else reads it meanwhile: in memory is 0."""

    @rg.reversible
    def taken(a: rg.Array[int, 3], n: int, m: int) -> None:
        for i in range(2):
            t = a[i + 1] + i // 3
            a[i] -= t * 2
        n += a[m % 3]

    first = taken.fn.__code__.co_firstlineno + 2
    machine = rg.Machine(taken.program())
    machine.load(0, [-1, 8, 5])
    for line in lines_of(session := Session(machine), first, first + 3):
        [a] = [v for v in session.variables() if v.name == "a"]
        assert a.unsettled or 0 not in a.value, (line - first, a)
