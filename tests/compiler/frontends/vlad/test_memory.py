"""The memory of VLAD programs: each expression is compiled once, for all the words that a machine grants."""

from typing import Any

import pytest

from retrograd.derivatives import _functional
from retrograd.derivatives._functional import evaluations, read_vlad

DEEP = "(define (f x n) (if (= n 0) x (f (* 1.0 x) (- n 1))))\n"


def test_a_deep_recursion_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    run = _functional.run

    def counted(*args: Any, **settings: Any) -> Any:
        runs.append(args)
        return run(*args, **settings)

    monkeypatch.setattr(_functional, "run", counted)
    (found,) = evaluations(read_vlad(f"{DEEP}(f 3 40000)", "deep.vlad"))
    assert (found.value, len(runs)) == (3.0, 1)


@pytest.mark.parametrize("text", ["(f 3 20)", "((derivative (lambda (x) (* x x))) 3)", "(map-n (lambda (i) i) 3)"])
def test_words_of_sixteen_bits(text: str) -> None:
    """Heap and stack are as large as the addresses of a word allow."""
    small, large = (
        next(iter(evaluations(read_vlad(f"(format {name}){DEEP}{text}", "small.vlad")))) for name in ("Q8.8", "Q32.32")
    )
    assert small.value == large.value


def test_a_derivative_takes_what_a_machine_grants() -> None:
    nested = "((derivative (lambda (x) ((derivative (lambda (y) (f (* x (* y y)) 3))) x))) 3)"
    (found,) = evaluations(read_vlad(DEEP + nested, "nested.vlad"))
    assert found.value == pytest.approx(12.0)
    (found,) = evaluations(
        read_vlad(
            f"{DEEP}((gradient-R (lambda (x) ((gradient-R (lambda (y) (f (* x (* y y)) 3))) x))) 3)", "nested.vlad"
        )
    )
    assert found.value == pytest.approx(12.0)
