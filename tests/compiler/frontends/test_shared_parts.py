"""The parts that front ends share, used as another front end would: without Python's syntax trees."""

from __future__ import annotations

import ast
from typing import NoReturn

import numpy as np
import pytest
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.frontends.builder import IRBuilder, ModuleBuilder, OwnedLocal, OwnedLocals, Scope
from retrograd.compiler.frontends.python.source import condition
from retrograd.compiler.frontends.specialisation import parameters_of
from retrograd.compiler.ir.expressions import E, const, read
from retrograd.compiler.ir.flatten import allocate, release
from retrograd.compiler.ir.statements import Block, Call, Const, Delocal, Kind, Local, Module, Op, Var, Within
from retrograd.compiler.language.arithmetic import Arithmetic
from retrograd.compiler.language.types import ScalarShape
from retrograd.compiler.language.values import Scalar, Value, variable
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine

W = Format(32, 16)
SPAN = Span("program", 1, 1, 2)


class Refused(Exception):
    """(code, message)."""


def refuse(code: str, message: str, where: Span, hint: str | None = None) -> NoReturn:
    raise Refused(code, message)


class Function:
    """The shared parts of the lowering of one function of two ints, x and y."""

    def __init__(self) -> None:
        self.module = ModuleBuilder(W)
        self.builder = IRBuilder(self.module, SPAN)
        self.scope = Scope()
        self.locals = OwnedLocals(self.builder, self.scope, refuse)
        self.parameters = parameters_of(("x", "y"), (ScalarShape(Kind.INT), ScalarShape(Kind.INT)))
        self.scope.names.update(self.parameters.names)
        self.arithmetic = Arithmetic(W)

    def e(self, name: str) -> E:
        return self.arithmetic.expression(self.scope.names[name])

    def product(self, x: str, y: str) -> E:
        value: Value = self.arithmetic.binary("*", self.scope.names[x], self.scope.names[y])
        return self.arithmetic.expression(value)

    def update(self, name: str, update: str, e: E) -> None:
        place = self.scope.names[name]
        assert isinstance(place, Scalar)
        assert isinstance(place.place, Var)
        t = self.builder.temporaries()
        body: list[object] = []
        t.into(body, place.place, update, e)  # type: ignore[arg-type]
        self.locals.emit_update(place.place, update, e, t.wrap(tuple(body)))  # type: ignore[arg-type]

    def local(self, name: str, e: E) -> OwnedLocal:
        """`name = e`."""
        var = Var(name, e.kind, SPAN)
        self.builder.emit(allocate(self.builder.temporaries(), var, e), var)

        def undo(checked: bool, _: Span | None) -> Block:
            return release(self.builder.temporaries(), var, e, checked)

        made = OwnedLocal(name, variable(var), (var,), undo, self.builder.snapshot(e), SPAN, initial=e)
        self.locals.add(made)
        self.scope.names[name] = made.value
        return made

    def tested(self) -> bool:
        """Whether the machine tests that the local released last is zero."""
        return next(n for n in reversed(self.builder.out) if isinstance(n, Delocal)).checked


def test_a_program_is_made_without_a_syntax_tree() -> None:
    """t = x * x; y += t * x; t is freed: y += x³, and back."""
    f = Function()
    t = f.local("t", f.product("x", "x"))
    f.update("y", "add", f.product("t", "x"))
    f.locals.release(t)
    f.module.procedures["f"] = f.parameters.procedure("f", tuple(f.builder.out), frozenset({1}), False, SPAN)
    regions = [f.module.static_region(name, 1, SPAN) for name in "xy"]
    passed = tuple(Var(name, Kind.INT, SPAN) for name in "xy")
    compute = tuple(
        node
        for var, region in zip(passed, regions, strict=True)
        for node in (Local(var), Op(TABLE["exch"], var, Const(0), None, region.address or 0, SPAN, region))
    )
    entry = (Within(compute, (Call("f", passed),)),)
    module = Module(entry, f.module.procedures, tuple(f.module.regions), f.module.memory, format=W)
    machine = Machine(emit(module).program)
    machine.memory[:2] = [3, 4]
    machine.run()
    assert list(machine.memory[:2]) == [3, 31]
    backward = Machine(emit(module).program, backward=True)
    backward.memory[:2] = [3, 31]
    backward.run()
    assert list(backward.memory[:2]) == [3, 4]


def test_an_update_that_is_undone_needs_no_test_for_zero() -> None:
    f = Function()
    t = f.local("t", f.e("x"))
    f.update("t", "add", f.e("y"))
    f.update("t", "sub", f.e("y"))
    f.locals.release(t)
    assert not f.tested()


def test_an_update_that_stays_is_tested_in_both_directions() -> None:
    f = Function()
    t = f.local("t", f.e("x"))
    f.update("t", "add", f.e("y"))
    f.locals.release(t)
    assert f.tested()
    assert next(n for n in f.builder.out if isinstance(n, Local) and n.var in t.parts).checked


def test_the_operands_of_an_undone_update_must_be_unchanged() -> None:
    f = Function()
    t = f.local("t", f.e("x"))
    f.update("t", "add", f.e("y"))
    f.update("y", "add", f.e("x"))
    f.update("t", "sub", f.e("y"))
    f.locals.release(t)
    assert f.tested()


def test_an_operand_that_has_its_former_value_has_its_former_version() -> None:
    f = Function()
    t = f.local("t", f.e("y"))
    f.update("y", "add", f.e("x"))
    f.update("y", "sub", f.e("x"))
    f.locals.release(t)
    assert not f.tested()


def test_a_local_whose_operand_changed_is_not_freed() -> None:
    f = Function()
    t = f.local("t", f.e("y"))
    f.update("y", "add", f.e("x"))
    with pytest.raises(Refused, match="RG0718"):
        f.locals.release(t)


def test_a_value_that_is_certainly_left_is_refused() -> None:
    f = Function()
    t = f.local("t", const(2, Kind.INT))
    f.update("t", "add", const(3, Kind.INT))
    with pytest.raises(Refused, match="`t` holds 5 and not 2"):
        f.locals.release(t)


def test_a_local_that_was_used_as_a_constant_may_not_change() -> None:
    f = Function()
    t = f.local("t", const(2, Kind.INT))
    assert f.locals.constant(t.value, SPAN) == 2
    assert f.locals.constant(f.scope.names["x"], SPAN) is None
    with pytest.raises(Refused, match="used in line 1 as a constant"):
        f.update("t", "add", f.e("x"))


def test_a_released_name_is_free() -> None:
    f = Function()
    f.locals.release(f.local("t", f.e("x")))
    assert "t" not in f.scope.names
    assert f.scope.freed["t"] == SPAN


def test_a_checkpoint_restores_the_module() -> None:
    module = ModuleBuilder(W)
    module.constants.array(np.array([1, 2]), Kind.INT)
    before = module.checkpoint()
    procedure = parameters_of(("x",), (ScalarShape(Kind.INT),)).declaration("f", frozenset())
    module.procedures[module.unique_name("f")] = procedure
    added = module.constants.array(np.array([3]), Kind.INT)
    module.restore(before)
    assert module.procedures == {}
    assert (module.memory, len(module.regions)) == (2, 1)
    assert module.unique_name("f") == "f"
    assert module.constants.array(np.array([3]), Kind.INT) is not added


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x < y", ": `x` is {a}, `y` is {b}"),
        ("x > y", ": `y` is {a}, `x` is {b}"),
        ("x >= 3", ": `x` is {a}"),
        ("not x", ""),
        ("x < y < 3", ""),
    ],
)
def test_the_sides_of_a_condition(text: str, values: str) -> None:
    found = condition(ast.parse(text, mode="eval").body, SPAN)
    assert found.text == text
    a, b = read(Var("a", Kind.INT)).param, Const(3) if "3" in text else Var("b", Kind.INT)
    assert found.values(a, b) == values
