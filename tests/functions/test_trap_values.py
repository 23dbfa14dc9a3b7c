"""The values in the messages of traps are those of the source: forms of a local's life × types × engines, and conditions.

A form's text is executed by Python too, on Python's numbers, which gives the values that the message must have.
"""

from __future__ import annotations

import itertools
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from retrograd.compiler.frontends.janus.parser import read as read_janus

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import JanusFunction

ENGINES = ("reference", "threaded", "translated", "batch")


class Of(NamedTuple):
    """A type: its name, an update, and the values that a form starts with."""

    name: str
    update: str
    values: tuple[Any, ...]


INT, FIXED, BOOL, LOGNUM = (
    Of("int", "+", (5, 7, -3)),
    Of("fixed", "+", (2.5, -0.75, 1.25)),
    Of("bool", "^", (True, True, True)),
    Of("lognum", "*", (4.0, 2.0, 0.5)),
)
#: name -> (body, the name in the message, Python's value that it holds, and that it must hold). The parameters are a, b, c, and o, an output
FORMS = {
    "free": ("t = a\nt {u}= b\nrg.free(t, c)", "t", "a {u} b", "c"),
    "free_of_an_expression": ("t = a {u} b\nt {u}= c\nrg.free(t, a {u} b)", "t", "a {u} b {u} c", "a {u} b"),
    "free_after_an_operand_changed": ("t = a {u} b\na {u}= c\nrg.free(t, a {u} b)", "t", "a {u} b", "a {u} c {u} b"),
    "del": ("t = a\nt {u}= b\ndel t", "t", "a {u} b", "a"),
    "end_of_function": ("t = a\no {u}= t\nt {u}= b", "t", "a {u} b", "a"),
    "used_between": ("t = a\nt {u}= b\no {u}= t\no {u}= t\ndel t", "t", "a {u} b", "a"),
    "two_locals": ("t = a\ns = b\nt {u}= s\no {u}= s\ndel s\ndel t", "t", "a {u} b", "a"),
    "in_a_branch": ("if k > 0:\n    t = a\n    t {u}= b\n    del t", "t", "a {u} b", "a"),
    "in_a_loop": ("for i in range(3):\n    t = a\n    if i == 1:\n        t {u}= b\n    o {u}= t", "t", "a {u} b", "a"),
    "routine_whose_local_changed": ("with rg.routine() as r:\n    t = a {u} b\no {u}= t\nt {u}= c\n~r", "t", "a {u} b {u} c", "a {u} b"),
    "routine_whose_operand_changed": ("with rg.routine() as r:\n    t = a {u} b\no {u}= t\na {u}= c\n~r", "t", "a {u} b", "a {u} c {u} b"),
    "routine_that_updates": (
        "with rg.routine() as r:\n    t = a\n    t {u}= b\no {u}= t\na {u}= c\n~r", "t", "a {u} b", "a {u} c {u} b"
    ),
    "inner_function": ("def g(p, q):\n    t = p\n    t {u}= q\ng(a, b)", "t", "a {u} b", "a"),
    "recursion": ("deep(a, b, k)", "t", "a {u} b", "a"),
    "popped": ("s = rg.stack({T}, 4)\nm = a\nrg.push(s, m)\nt = rg.pop(s)\nt {u}= b\nrg.free(t, c)", "t", "a {u} b", "c"),
    "element": ("t = rg.copy(v)\nt[1] {u}= c\ndel t", "t[1]", "b {u} c", "b"),
    "element_at_an_index": ("t = rg.copy(v)\nt[k] {u}= c\no {u}= t[0]", "t[1]", "b {u} c", "b"),
}  # fmt: skip
NUMBERS = {
    "zeros": ("t = rg.zeros(3, dtype={T})\nt[k] {u}= a\nt[2] {u}= b", "t[1]", "a", "a - a"),
    "zeros_of_a_length_of_the_run": ("t = rg.zeros(k + 2, dtype={T})\nt[k] {u}= a\nt[2] {u}= b", "t[1]", "a", "a - a"),
    "routine_with_an_array": (
        "with rg.routine() as r:\n    t = rg.zeros(2, dtype={T})\n    t[1] += a\no += t[1]\na += c\n~r", "t[1]", "a", "a + c"
    ),
    "difference": ("t = a - b\na += c\nrg.free(t, a - b)", "t", "a - b", "a + c - b"),
}  # fmt: skip
FIELDS = {
    "field": ("t = Pair(a, b)\nt.y += c\ndel t", "t.y", "b + c", "b"),
    "array_of_structs": ("t = rg.zeros(2, dtype=Pair)\nt[k].y += a", "t.y[1]", "a", "a - a"),
}
COMPLEX = {
    "complex": ("t = complex(a, b)\nt += complex(c, 0)\ndel t", "t.re", "a + c", "a"),
    "complex_array": ("t = rg.zeros(2, dtype=complex)\nt[k] += complex(0, a)", "t.im[1]", "a", "a - a"),
}
CASES = [
    *itertools.product(FORMS.items(), (INT, FIXED, BOOL, LOGNUM)),
    *itertools.product(NUMBERS.items(), (INT, FIXED)),
    *itertools.product(FIELDS.items(), (INT, FIXED)),
    *itertools.product(COMPLEX.items(), (FIXED,)),
]
HEAD = """
import retrograd as rg
from retrograd import Array, fixed, lognum, reversible

@rg.struct
class Pair:
    x: {T}
    y: {T}

@reversible
def deep(p: {T}, q: {T}, k: int):
    if k == 0:
        t = p
        t {u}= q
        del t
    else:
        m = k - 1
        deep(p, q, m)

@reversible
def f(o: {T}, a: {T}, b: {T}, c: {T}, v: Array[{T}], k: int):
"""


def program(path: Path, text: str) -> Any:
    path.write_text(text)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def message_of(f: Any, engine: str, args: dict[str, Any]) -> str:
    if engine == "batch":
        batch = rg.run_batch(f, **{name: [value] for name, value in args.items()}, traps="return")
        (trap,) = batch.traps.values()
        return str(trap)
    with pytest.raises(ProgramTrap) as raised:
        rg.run(f, **args, engine=engine)
    return str(raised.value)


def value(text: str) -> Any:
    return text == "True" if text in ("True", "False") else float(text)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("form", "of"), CASES, ids=[f"{form[0]}-{of.name}" for form, of in CASES])
def test_value_of_a_local(tmp_path: Path, form: tuple[str, tuple[str, str, str, str]], of: Of, engine: str) -> None:
    body, name, holds, must = (part.format(T=of.name, u=of.update) for part in form[1])
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    f = program(tmp_path / "m.py", HEAD.format(T=of.name, u=of.update) + lines).f
    a, b, c = of.values
    args = {"o": a, "a": a, "b": b, "c": c, "v": [a, b], "k": 1}
    message = message_of(f, engine, args)
    found = re.search(rf"`{re.escape(name)}` holds (\S+) when .*?, and must hold (\S+)", message)
    assert found is not None, message
    assert [value(x) for x in found.groups()] == [float(eval(e, {}, {"a": a, "b": b, "c": c})) for e in (holds, must)]


#: name -> (statements before, the statement that traps, the types). {k} stands for the value of a
CONDITIONS = {
    "assertion": ("b {u}= c", "assert a == b", (INT, FIXED, LOGNUM)),
    "assertion_of_expressions": ("a {u}= b", "assert a {u} b == c {u} b", (INT, FIXED, LOGNUM)),
    "assertion_of_a_constant": ("a {u}= b", "assert a == {k}", (INT, FIXED, LOGNUM)),
    "assertion_of_a_local": ("t = a {u} b\no {u}= c", "assert t == o", (INT, FIXED, LOGNUM)),
    "updates_that_cancel": ("a += b\na += c\na -= b", "assert a == b", (INT, FIXED)),
    "an_order": ("a += b", "assert a + c + a < a", (INT, FIXED)),
    "if_with_two_conditions": ("", "if (a == {k}, b == c):\n    o {u}= a", (INT, FIXED, LOGNUM)),
    "if_left_by_another_condition": ("b {u}= a", "if (b != a, a == c):\n    o {u}= a", (INT, FIXED, LOGNUM)),
    "repeat": ("", "for _ in rg.repeat(a == b, until=o == c):\n    o {u}= a", (INT, FIXED, LOGNUM)),
    "quotient": ("a += b\na -= b", "o += c / (a - a)", (FIXED,)),
    "root": ("a += b", "o += rg.sqrt(-a - a - 9)", (FIXED,)),
    "overflow": ("t = a * 1e5\na += c", "o += t * t\n{free}", (FIXED,)),
    "overflow_of_an_update": ("o += a\no += 2000000000\no += b", "o += 2000000000", (FIXED,)),
    "overflow_of_elements": ("v[k] -= 100000", "o += v[k] * v[k]", (FIXED,)),
    "index": ("k += 9", "o {u}= v[k]", (INT, FIXED)),
}
TYPED = [(name, of) for name, (_, _, types) in CONDITIONS.items() for of in types]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "of"), TYPED, ids=[f"{name}-{of.name}" for name, of in TYPED])
def test_values_of_a_condition(tmp_path: Path, name: str, of: Of, engine: str) -> None:
    """Each "`expression` is value" of the message has Python's value."""
    a, b, c = of.values
    before, failing = (part.format(u=of.update, k=a, free="rg.free(t, 0)") for part in CONDITIONS[name][:2])
    lines = "".join(f"    {line}\n" for line in f"{before}\n{failing}".splitlines())
    f = program(tmp_path / "m.py", HEAD.format(T=of.name, u=of.update) + lines).f
    args = {"o": a, "a": a, "b": b, "c": c, "v": [a, b], "k": 1}
    message = message_of(f, engine, args).splitlines()[0]
    state = dict(args)
    exec(before, {}, state)
    for expression, found in re.findall(r"`([^`]*)` (?:is|was) ([-+.\w]+?)(?=[.,]?(?: |$))", message):
        if found not in ("true", "false"):
            assert float(eval(expression, {}, state)) == pytest.approx(value(found), rel=1e-9), message


#: name of a form -> Python's value that the local holds where it was made, run backward, and that it must hold
BACKWARD = {
    "free": ("c - b", "a"),
    "del": ("a - b", "a"),
    "end_of_function": ("a - b", "a"),
    "in_a_branch": ("a - b", "a"),
    "inner_function": ("a - b", "a"),
    "element": ("b - c", "b"),
    "routine_whose_operand_changed": ("a + b", "a - c + b"),
}


@pytest.mark.parametrize("engine", ENGINES[:3])
@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.parametrize("of", [INT, FIXED], ids=("int", "fixed"))
def test_value_of_a_local_backward(tmp_path: Path, name: str, of: Of, engine: str) -> None:
    body, local, *_ = (part.format(T=of.name, u=of.update) for part in FORMS[name])
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    f = program(tmp_path / "m.py", HEAD.format(T=of.name, u=of.update) + lines).f
    a, b, c = of.values
    message = message_of(~f, engine, {"o": a, "a": a, "b": b, "c": c, "v": [a, b], "k": 1})
    found = re.search(rf"`{re.escape(local)}` holds (\S+) where .*?, and must hold (\S+)", message)
    assert found is not None, message
    assert [value(x) for x in found.groups()] == [eval(e, {}, {"a": a, "b": b, "c": c}) for e in BACKWARD[name]]


JANUS = {
    "local int t = a t += b delocal int t = a": ("a + b", "a"),
    "local int t = a\nt += b\nt -= c\ndelocal int t = c": ("a + b - c", "c"),
    "local int t = a + b\na += c\ndelocal int t = a + b": ("a + b", "a + c + b"),
    "local int t[2] = {3, 4}\nt[1] += c\ndelocal int t[2] = {3, 4}": ("4 + c", "4"),
    "local int t = a\nif t = 5 then t += b fi t = 12\ndelocal int t = 5": ("a + b", "5"),
}


@pytest.mark.parametrize("engine", ENGINES[:3])
@pytest.mark.parametrize("body", JANUS)
def test_value_of_a_local_of_janus(body: str, engine: str) -> None:
    text = f"procedure main()\nint a\nint b\nint c\na += 5\nb += 7\nc += 1\n{body}\n"
    with pytest.raises(ProgramTrap) as raised:
        rg.run(JanusFunction(read_janus(text, "m.ja"), "main"), engine=engine)
    found = re.search(r"`t(?:\[1\])?` holds (\S+) when .*?, and must hold (\S+)", str(raised.value))
    assert found is not None, str(raised.value)
    assert [value(x) for x in found.groups()] == [eval(e, {}, {"a": 5, "b": 7, "c": 1}) for e in JANUS[body]]


def test_no_value_where_the_run_cannot_be_repeated(tmp_path: Path) -> None:
    """A program that erases has no way back to its arguments: only the rest of the local is certain."""
    body = "    with rg.routine() as r:\n        m = a * b\n        m += rg.exp(a)\n    o += m\n    o += rg.sqrt(m * m + b)\n    ~r\n    t = a\n    t += b\n    o += t\n    del t\n"
    f = program(tmp_path / "m.py", HEAD.format(T="fixed", u="+") + body).f
    with pytest.raises(ProgramTrap, match=r"`t` is left with 0.75, which must be 0.0, when it is freed"):
        f.with_options(erase=True)(1.0, 2.5, 0.75, 1.0, [1.0], 0)


@reversible
def sine(y: fixed, x: fixed) -> None:
    y += rg.sin(x)


@reversible
def power(y: fixed, x: fixed) -> None:
    y += rg.exp(-x)


@reversible
def turned(y: fixed, x: fixed) -> None:
    rg.rot(y, x, 0.25)


@pytest.mark.parametrize("format", ["Q1.15", "Q1.31"])
@pytest.mark.parametrize("f", [sine, power, turned], ids=lambda f: f.__name__)
def test_a_function_without_values_in_a_format_names_the_format(f: rg.Reversible, format: str) -> None:
    with pytest.raises(rg.ProgramTrap, match=rf"RG0403.* has no values in {format}"):
        rg.run(f, 0.0, 0.5, format=format)
    assert rg.run(f, 0.0, 0.5, format="Q2.14")
