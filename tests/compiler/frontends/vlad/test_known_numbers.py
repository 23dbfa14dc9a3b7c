"""VLAD programs whose types depend on numbers: conditions on whole numbers are known when the program is compiled."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from retrograd.compiler.frontends.functional import inference
from retrograd.compiler.frontends.functional.types import Exact, Tuple, Type
from retrograd.isa.diagnostics import CompileError
from retrograd.isa.words import Q32_32

from retrograd.derivatives._functional import Evaluated, evaluations, read_vlad


def values(text: str, **settings: Any) -> list[Evaluated]:
    return list(evaluations(read_vlad(text, "known.vlad"), back=True, **settings))


TERMS = """
(define (evaluate e env)
  (cond ((= (car e) 0) (car (cdr e)))
        ((= (car e) 1) (env (car (cdr e))))
        ((= (car e) 2) (+ (evaluate (car (cdr e)) env) (evaluate (car (cdr (cdr e))) env)))
        (else (* (evaluate (car (cdr e)) env) (evaluate (car (cdr (cdr e))) env)))))
(define (square-and-five) '(2 (3 (1 7) (1 7)) (0 5)))
"""
ORDERS = "(define (dn n f) (if (zero? n) f (dn (- n 1) (derivative f))))"

CASES = {
    "(if (= 0 0) 1 '())": 1.0,
    "(if (< 2 1) '() (if (eq? 3 3) #t 1))": True,
    "(let ((n (* 2 (- 5 3)))) (if (= n 4) 'four n))": "four",
    f"{ORDERS} ((dn 0 exp) 1)": math.e,
    f"{ORDERS} ((dn 3 (lambda (x) (* x (* x (* x x))))) 2)": 48.0,
    f"{ORDERS} ((dn 4 sin) 1)": math.sin(1.0),
    f"{TERMS} (evaluate (square-and-five) (lambda (k) 4))": 21.0,
    f"{TERMS} ((derivative (lambda (x) (evaluate (square-and-five) (lambda (k) x)))) 3)": 6.0,
    f"{TERMS} ((gradient-R (lambda (x) (evaluate (square-and-five) (lambda (k) x)))) 3)": 6.0,
    f"{TERMS} ((derivative (derivative (lambda (x) (evaluate (square-and-five) (lambda (k) x))))) 3)": 2.0,
    f"{TERMS} ((gradient-R (derivative (lambda (x) (evaluate (square-and-five) (lambda (k) x))))) 3)": 2.0,
    "((gradient-R (lambda (x) (* x (if (= 1 1) x '())))) 3)": 6.0,
    "((derivative (lambda (x) (* 3 (if (= 1 1) x '())))) 3)": 3.0,
    "((derivative (lambda (x) (if (= 1 1) 7 '()))) 3)": 0.0,
    "(define (f n) (if (= n 0) 1 '())) (cdr (map-n f 2))": ((), ()),
    "(define (pick n) (if (= n 0) '(1 2) (if (= n 1) sin #f))) (let ((p (pick 0)) (f (pick 1))) (f (- (car p) 1)))": 0.0,
}


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_values(text: str, engine: str) -> None:
    (found,) = values(text, engine=engine)
    assert found.value == (pytest.approx(CASES[text], abs=2e-7) if isinstance(CASES[text], float) else CASES[text])
    assert (found.restored, found.erased_bits) == (True, 0)


def test_a_recursion_over_a_number_is_widened() -> None:
    """After some versions, one version is for all numbers."""
    loop = "(let loop ((i 0) (a (if (= 0 0) 1 '()))) (if (= i 300) a (loop (+ i 1) (+ a 1))))"
    assert values(loop)[0].value == 301.0


def test_numbers_at_several_places_stay_known() -> None:
    """Each has few values, though a function has a version for each pair of them."""
    marked = "(map-n (lambda (k) (map-n (lambda (i) (if (= i k) '() 1)) 9)) 9)"
    row = f"(let ((m {marked})) (list (null? (list-ref (list-ref m 8) 8)) (list-ref (list-ref m 8) 7)))"
    assert values(row)[0].value == (True, (1.0, ()))


def test_a_recursion_over_a_number_has_one_version() -> None:
    """No version for a certain number stays of a function that has too many, and the numbers beside the counter stay known."""
    text = "(let loop ((i 0) (k 0) (a 1)) (if (= i 300) (if (= k 0) a '()) (loop (+ i 1) k (+ a 1))))"
    (expression,) = read_vlad(text, "known.vlad").expressions
    found = inference.Inference(Q32_32, lambda f: f.functional_core(None), exact=inference.Numbers())
    found.solve((expression.core(), (), ()))
    versions = [args for code, _, args in found.results if getattr(code, "name", "") == "loop"]
    assert len(versions) == 1
    assert sum(isinstance(t, Exact) for t in flat(versions[0])) == 1
    assert values(text)[0].value == 301.0


def flat(types: Sequence[Type]) -> list[Type]:
    """The types inside tuples."""
    return [leaf for t in types for leaf in (flat(t.items) if isinstance(t, Tuple) else [t])]


def test_types_that_depend_on_more_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{ORDERS} ((dn 5 exp) 0)"
    assert values(text)[0].value == pytest.approx(1.0, abs=1e-6)
    monkeypatch.setattr(inference, "_MOST_EXACT", 3)
    with pytest.raises(CompileError) as caught:
        values(text)
    assert caught.value.diagnostics[0].code == "RG0719"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("(+ (bundle 1 2) 3)", "RG0703"),
        ("((derivative (lambda (x) (if (= x 0) 1 '()))) 3)", "RG0703"),
        ("(define (f n) (if (= n 0) 1 '())) (f (sqrt 4))", "RG0703"),
        ("(let ((x 2)) (car x))", "RG0703"),
        ("(let ((x 2)) (x 1))", "RG0703"),
    ],
)
def test_what_is_refused_stays_refused(text: str, code: str) -> None:
    with pytest.raises(CompileError) as caught:
        values(text)
    assert caught.value.diagnostics[0].code == code


def test_programs_that_do_not_depend_on_numbers_are_not_specialised(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compiled as before, and no version of them is made for a number."""

    def unexpected(self: Any, value: float) -> Any:
        assert not self.exact
        return inference.FIXED

    monkeypatch.setattr(inference.Inference, "number", unexpected)
    assert values("(define (f n) (if (= n 0) 1 (* n (f (- n 1))))) (f 5)")[0].value == 120.0
