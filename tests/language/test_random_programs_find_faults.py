"""Faults that are planted in the compiler or the library: the random programs find each of them, construct by construct."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from retrograd.compiler.derivatives.lifting import Lifting
from retrograd.compiler.frontends import builder
from retrograd.compiler.frontends.builder import WriteLog
from retrograd.compiler.frontends.python import calls, statements
from retrograd.compiler.frontends.python.context import Context
from retrograd.compiler.ir.expressions import add, const
from retrograd.compiler.ir.statements import Call, If, Kind
from retrograd.compiler.ir.traversal import map_children
from retrograd.compiler.language.complex_numbers import ComplexArithmetic
from retrograd.compiler.language.values import ArrayView, Scalar, StructValue
from retrograd.simulator.semantics import Fault
from support.random_programs import checks, generate

import retrograd as rg
from retrograd import fixed
from retrograd.library import dictionaries, linear_algebra

pytestmark = pytest.mark.long

#: seeds among which a program with the construct is looked for, and programs that may miss the fault
SEEDS, MISSES = range(2000), 25

Patch = pytest.MonkeyPatch


def product_of_other_sign(patch: Patch) -> None:
    def wrong(self: Any, a: Any, b: Any) -> Any:
        re = self._do("+", self._do("*", a[0], b[0]), self._do("*", a[1], b[1]))
        return re, self._do("+", self._do("*", a[0], b[1]), self._do("*", a[1], b[0]))

    patch.setattr(ComplexArithmetic, "_product", wrong)


def quotient_without_turn(patch: Patch) -> None:
    right = ComplexArithmetic._quotient
    patch.setattr(ComplexArithmetic, "_quotient", lambda self, a, b: right(self, a, b)[::-1])


def no_conjugate(patch: Patch) -> None:
    patch.setattr(ComplexArithmetic, "conjugate", lambda self, x: x)


def root_of_the_other_branch(patch: Patch) -> None:
    right = ComplexArithmetic._root

    def wrong(self: Any, re: Any, im: Any) -> Any:
        x, y = right(self, re, im)
        return x, self._real.unary("-", y)

    patch.setattr(ComplexArithmetic, "_root", wrong)


def cosine_for_sine(patch: Patch) -> None:
    right = ComplexArithmetic._circular
    names = {"sin": "cos", "sinh": "cosh"}
    patch.setattr(ComplexArithmetic, "_circular", lambda self, f, re, im: right(self, names.get(f, f), re, im))


def field_one_word_on(patch: Patch) -> None:
    right = calls._constructed_struct

    def wrong(cx: Any, cls: Any, node: Any) -> Any:
        made = right(cx, cls, node)
        fields = {
            name: replace(v, address=v.address.moved(1)) if isinstance(v, ArrayView) and name == "b" else v
            for name, v in made.fields.items()
        }
        return StructValue(made.type, fields)

    patch.setattr(calls, "_constructed_struct", wrong)


def addition_that_subtracts(patch: Patch) -> None:
    patch.setattr(dictionaries, "add", ~dictionaries.add)


def value_of_the_first_place(patch: Patch) -> None:
    @rg.reversible
    def get(y: fixed, d: dictionaries.Dictionary, key: int) -> None:
        y += d.values[0]

    patch.setattr(dictionaries, "get", get)


def elements_are_one(patch: Patch) -> None:
    """A change of one element counts as a change of the others."""
    patch.setattr(WriteLog, "_misses", lambda *_: False)


def items_in_the_other_order(patch: Patch) -> None:
    right = Context.items
    patch.setattr(Context, "items", lambda self, *args: right(self, *args)[::-1])


def view_that_is_the_variable(patch: Patch) -> None:
    patch.setattr(statements, "lend", lambda cx, view, node: ((), view.place))


def length_one_too_long(patch: Patch) -> None:
    right = calls._passed_length

    def wrong(cx: Any, n: Any, name: str, where: Any, found: list[Any]) -> Any:
        made = right(cx, n, name, where, found)
        if found and found[-1].length is n and isinstance(found[-1].value, Scalar):
            longer = add(found[-1].value.e, const(1, Kind.INT), cx.w)
            found[-1] = replace(found[-1], value=replace(found[-1].value, e=longer))
        return made

    patch.setattr(calls, "_passed_length", wrong)


def branches_exchanged(patch: Patch) -> None:
    """The tests are left out, and the branches are exchanged."""
    right = builder.without_tests

    def wrong(block: Any) -> Any:
        out = []
        for node in right(block):
            inner = map_children(node, wrong)
            out.append(inner._replace(then=inner.orelse, orelse=inner.then) if isinstance(inner, If) else inner)
        return tuple(out)

    patch.setattr(builder, "without_tests", wrong)


def called_in_place(patch: Patch) -> None:
    patch.setattr(calls, "only_adds", lambda *_: True)


def other_function_of_the_library(patch: Patch) -> None:
    patch.setattr(linear_algebra, "cumulative_sum", ~linear_algebra.cumulative_sum)


def adjoint_left_out(patch: Patch) -> None:
    right = Lifting._own_adjoint

    def wrong(self: Any, p: Any, adjoint: Any, backward: bool) -> Any:
        return tuple(n for n in right(self, p, adjoint, backward) if not isinstance(n, Call) or n.procedure == p.name)

    patch.setattr(Lifting, "_own_adjoint", wrong)


#: fault -> text of the programs in which it may show
FAULTS: dict[Callable[[Patch], None], str] = {
    product_of_other_sign: "complex",
    quotient_without_turn: "complex",
    no_conjugate: ".conjugate()",
    root_of_the_other_branch: "rg.sqrt((",
    cosine_for_sine: "rg.sin(complex(",
    field_one_word_on: "D(a",
    addition_that_subtracts: "add(d",
    value_of_the_first_place: "= get(",
    elements_are_one: "+ 1] += t",
    items_in_the_other_order: ", *a",
    view_that_is_the_variable: "with rg.view(-",
    length_one_too_long: "g1(w",
    branches_exchanged: "with rg.unchecked():\n        if ",
    called_in_place: "rg.tanh(",
    other_function_of_the_library: "    cumulative_sum(",
}


def first_failure(fails: Callable[[int], None], text: str) -> int:
    """The number of programs with this text that pass before one fails."""
    passed = 0
    for seed in SEEDS:
        if text not in generate.generate(seed).source:
            continue
        try:
            fails(seed)
        except (AssertionError, rg.RetrogradError, KeyError):
            return passed
        passed += 1
        if passed > MISSES:
            break
    raise AssertionError(f"{passed} programs with {text!r} did not find the fault")


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(
    plant: Callable[[Patch], None],
    interpreter: ModuleType,
    monkeypatch: Patch,
) -> None:
    plant(monkeypatch)

    def fails(seed: int) -> None:
        case = generate.generate(seed)
        rng = random.Random(case.seed)
        try:
            checks.check(case, checks.arguments(case, rng), interpreter.interpret, Fault, rng)
        finally:
            case.release()

    first_failure(fails, FAULTS[plant])


def test_an_adjoint_that_is_left_out_is_found(routes: ModuleType, module: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr(generate, "_SCALARS", {"int": 1, "fixed": 8, "bool": 0.5, "lognum": 1})
    adjoint_left_out(monkeypatch)
    examine = module("tests/language/test_routes.py").examine
    first_failure(lambda seed: examine(seed, routes), ".adjoint")
