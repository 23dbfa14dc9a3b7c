"""Values known when the program is compiled: names of constants as static arguments."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd import reversible


@reversible
def count_down(x: int, n: rg.static) -> None:
    if n > 0:
        m = n - 1
        x += n
        count_down(x, m)


@reversible
def name_before_the_test(x: int, n: rg.static) -> None:
    m = n - 1
    x += n
    if m > 0:
        name_before_the_test(x, n=m)


@reversible
def name_in_a_routine(x: int, n: rg.static) -> None:
    with rg.routine() as r:
        t = 0
        m = n - 1
        if m > 0:
            name_in_a_routine(t, m)
    x += t + n
    ~r


@reversible
def backward(x: int, n: rg.static) -> None:
    if n > 0:
        m = n - 1
        ~backward(x, m)
        x += n


@reversible
def inner(x: int, n: rg.static) -> None:
    def add(x: int, k: rg.static) -> None:
        if k > 0:
            less = k - 1
            x += k
            add(x, less)

    add(x, n)


@pytest.mark.parametrize("f", [count_down, name_before_the_test, name_in_a_routine, inner])
@pytest.mark.parametrize("level", [0, 1])
def test_a_name_of_a_constant_is_a_static_argument_of_a_recursive_call(f: rg.Reversible, level: int) -> None:
    g = f.with_options(level=level)
    assert g(3, 4) == (13, 4)
    assert (~g)(13, 4) == (3, 4)


def test_a_name_of_a_constant_is_a_static_argument_of_an_inverse_call() -> None:
    assert backward(0, 4).x == 4 - 3 + 2 - 1


@reversible
def changes(x: int) -> None:
    x += 1


@reversible
def uses(n: rg.static) -> None:
    assert n >= 0


@reversible
def takes_a_function(x: int, uses: rg.static) -> None:
    """The parameter has the name of a function that may change nothing."""
    t = 0
    uses(t)
    x += t
    ~uses(t)


def test_a_parameter_of_the_name_of_another_function_is_not_that_function() -> None:
    assert takes_a_function(3, changes).x == 4
    assert rg.run(takes_a_function, 3, changes).values[0] == 4
