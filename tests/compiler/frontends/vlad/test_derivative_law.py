"""A law of VLAD: each primitive, under each operator of derivatives and each pair of them, agrees with differences.

    for each name of PRIMITIVES a function of a real that uses it, and for each operator D:   (D f) x  =  the difference quotient of f at x

The differences are those of mpmath, of a function that is written down here in Python. A primitive that is added needs an entry.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import pytest
from retrograd.compiler.frontends.vlad.primitives import PRIMITIVES
from retrograd.compiler.frontends.vlad.translation import prelude, read_vlad

from retrograd.derivatives._functional import evaluations
from retrograd.runtime._execution import ProgramTrap

Function = Callable[[Any], Any]

#: name -> (an expression of x, the same in Python, a regular point)
# fmt: off
FUNCTIONS: dict[str, tuple[str, Function, float]] = {
    "+": ("(+ (* x x) (+ x 1))", lambda x: x * x + x + 1, 1.5),
    "-": ("(- (- (* x x)) (- 1 x))", lambda x: -x * x - 1 + x, 1.5),
    "*": ("(* x (* 3 x x))", lambda x: 3 * x**3, 1.25),
    "/": ("(/ (+ x 1) (* x x))", lambda x: (x + 1) / x**2, 1.5),
    "sqrt": ("(sqrt (+ x 2))", lambda x: mpmath.sqrt(x + 2), 2.0),
    "exp": ("(exp (* x x))", lambda x: mpmath.exp(x * x), 0.75),
    "log": ("(log (* 2 x))", lambda x: mpmath.log(2 * x), 1.5),
    "sin": ("(sin (* x x))", lambda x: mpmath.sin(x * x), 0.75),
    "cos": ("(cos (* x x))", lambda x: mpmath.cos(x * x), 0.75),
    "atan": ("(+ (atan x 2) (* 3 (atan (- 1 x) (* x x -1))))",
             lambda x: mpmath.atan2(x, 2) + 3 * mpmath.atan2(1 - x, -x * x), 0.75),
    "abs": ("(* (abs (- x 3)) (abs x))", lambda x: abs(x - 3) * abs(x), 1.5),
    "=": ("(if (= x 1) 0 (* x x x))", lambda x: x**3, 1.5),
    "<": ("(if (< x 1) (* x x x) x)", lambda x: x**3, 0.75),
    ">": ("(if (> x 1) (* x x x) x)", lambda x: x**3, 1.5),
    "<=": ("(if (<= x 1) (* x x x) x)", lambda x: x**3, 0.75),
    ">=": ("(if (>= x 1) (* x x x) x)", lambda x: x**3, 1.5),
    "zero?": ("(if (zero? x) x (* x x x))", lambda x: x**3, 1.5),
    "positive?": ("(if (positive? x) (* x x x) x)", lambda x: x**3, 1.5),
    "negative?": ("(if (negative? x) (* x x x) x)", lambda x: x**3, -1.5),
    "null?": ("(if (null? '()) (* x x x) 0)", lambda x: x**3, 1.5),
    "pair?": ("(if (pair? (cons x x)) (* x x x) 0)", lambda x: x**3, 1.5),
    "real?": ("(if (real? x) (* x x x) 0)", lambda x: x**3, 1.5),
    "boolean?": ("(if (boolean? (< x 1)) (* x x x) 0)", lambda x: x**3, 1.5),
    "symbol?": ("(if (symbol? x) 0 (* x x x))", lambda x: x**3, 1.5),
    "procedure?": ("(if (procedure? sin) (* x x x) 0)", lambda x: x**3, 1.5),
    "bundle?": ("(if (bundle? x) 0 (* x x x))", lambda x: x**3, 1.5),
    "eq?": ("(if (eq? 'a 'a) (if (eq? x 1) 0 (* x x x)) 0)", lambda x: x**3, 1.5),
    "car": ("(car (cons (* x x x) 1))", lambda x: x**3, 1.5),
    "cdr": ("(cdr (cons 1 (* x x x)))", lambda x: x**3, 1.5),
    "bundle": ("(let ((b ((j* (lambda (y) (* x y y))) (bundle x 1)))) (* (primal b) (tangent b)))",
               lambda x: 2 * x**5, 1.25),
    "primal": ("(primal (bundle (* x x x) x))", lambda x: x**3, 1.5),
    "tangent": ("(tangent (bundle x (* x x x)))", lambda x: x**3, 1.5),
    "zero": ("(+ (zero x) (* x (car (zero (list x))) x) (* x x x))", lambda x: x**3, 1.5),
    "plus": ("(* (car (plus (list x) (list 1))) ((plus sin (lambda (y) (* x y))) x))",
             lambda x: (x + 1) * (mpmath.sin(x) + x * x), 0.75),
    "*j": ("(*j-inverse ((lambda (y) (car ((*j (lambda (z) (* x z z))) y))) (*j x)))", lambda x: x**3, 1.5),
    "*j-inverse": ("(* x (*j-inverse (*j (* x x))))", lambda x: x**3, 1.5),
    "sensitize": ("(let (((cons (list k) s) (unsensitize ((cdr ((*j (lambda (z) (* x z z))) (*j x))) (sensitize x)))))"
                  " (+ k s))", lambda x: 3 * x**3, 1.5),
    "unsensitize": ("(* x (unsensitize (sensitize (* x x))))", lambda x: x**3, 1.5),
    "real": ("(* x (real 3) (real (* x x)))", lambda x: 3 * x**3, 1.25),
    "perturb": ("(let ((b ((j* (lambda (y) (* x y y))) (bundle x (perturb 1))))) (* (primal b) (unperturb (tangent b))))",
                lambda x: 2 * x**5, 1.25),
    "unperturb": ("(* x (unperturb (perturb (* x x))))", lambda x: x**3, 1.5),
    "forward?": ("(if (forward? x) 0 (* x x x))", lambda x: x**3, 1.5),
    "perturbation?": ("(if (perturbation? (perturb x)) (* x x x) 0)", lambda x: x**3, 1.5),
    "sensitivity?": ("(if (sensitivity? (sensitize x)) (* x x x) 0)", lambda x: x**3, 1.5),
    "reverse?": ("(if (reverse? (*j x)) (* x x x) 0)", lambda x: x**3, 1.5),
    # functions of the prelude that compute with reals
    "min": ("(* (min x 2) (min 2 x))", lambda x: x * x, 1.5),
    "max": ("(* (max x 1) (max 1 x))", lambda x: x * x, 1.5),
    "sqr": ("(sqr (sqr x))", lambda x: x**4, 1.25),
    "expt": ("(+ (expt x 3) (expt 2 x) (expt x .5))", lambda x: x**3 + 2**x + mpmath.sqrt(x), 1.5),
    "sum": ("(sum (map (lambda (k) (* k x x)) (map-n sqr 4)))", lambda x: 14 * x * x, 0.75),
    "dot": ("(dot (list x 2 x) (map-n (lambda (i) (* i x x)) 3))", lambda x: 2 * x**2 + 2 * x**3, 0.75),
    "magnitude": ("(magnitude (list x 2 (* x x)))", lambda x: mpmath.sqrt(x**2 + 4 + x**4), 0.75),
    "distance": ("(distance (list x 2) (list (* x x) x))", lambda x: mpmath.sqrt((x - x**2)**2 + (2 - x)**2), 0.75),
    "list of the heap": ("(fold (lambda (s v) (+ s (* v v x))) 0 (map-n (lambda (i) (* i x)) 17))",
                         lambda x: 1496 * x**3, 0.25),
}

#: the first derivative of f at a
FIRST = {
    "derivative": "((derivative f) a)",
    "gradient-F": "((gradient-F f) a)",
    "gradient-R": "((gradient-R f) a)",
    "j*": "(tangent ((j* f) (bundle a 1)))",
    "*j": "(cdr (unsensitize ((cdr ((*j f) (*j a))) (sensitize 1))))",
    "directional": "((directional-derivative f) a 1)",
    "curried": "(((derivative (lambda (x) (lambda (y) (* y (f x))))) a) 1)",
    "twice curried": "((((derivative (lambda (x) (lambda (y) (lambda (z) (+ z y (f x)))))) a) 1) 2)",
    "list of functions": "((cdr (car ((derivative (lambda (x) (list (cons x (lambda (y) (+ y (f x))))))) a))) 1)",
    "by a list": "(car ((gradient-R (lambda (l) (f (car l)))) (list a 1)))",
    "by a captured value": "(car ((gradient-R (lambda (g) (g 0))) (let ((k a)) (lambda (y) (+ y (f k))))))",
    "direction of a function": "((directional-derivative (lambda (g) (g a))) (lambda (y) 1) (derivative f))",
    "jacobian": "(car (car ((jacobian (lambda (l) (list (f (car l))))) (list a))))",
}
_OPERATORS = ("derivative", "gradient-F", "gradient-R")
#: the second derivative of f at a
SECOND = {
    **{f"{outer} of {inner}": f"(({outer} ({inner} f)) a)" for outer, inner in itertools.product(_OPERATORS, repeat=2)},
    "curried": "(((derivative (derivative (lambda (x) (lambda (y) (* y (f x)))))) a) 1)",
    "of a curried one": "((derivative (lambda (y) (((derivative (lambda (x) (lambda (z) (f x)))) y) 1))) a)",
    "gradient of a curried one": "((gradient-R (lambda (y) (((derivative (lambda (x) (lambda (z) (f x)))) y) 1))) a)",
    "shift": "(let ((d ((derivative (lambda (u) (lambda (g) (lambda (x) (g (+ x u)))))) 0))) ((d (d f)) a))",
    "hessian": "(car (car ((hessian (lambda (l) (f (car l)))) (list a))))",
}
# fmt: on


def test_each_primitive_has_an_entry() -> None:
    """Those whose names begin with % are known to the prelude alone."""
    assert {name for name in PRIMITIVES if not name.startswith("%")} <= FUNCTIONS.keys()
    operators = {"derivative", "directional-derivative", "gradient-F", "gradient-R", "jacobian", "hessian", "j*"}
    assert operators <= prelude().definitions.keys()


def _compared(name: str, forms: dict[str, str], order: int) -> Iterator[tuple[str, float, float]]:
    """(form, derivative, difference quotient) for each form."""
    text, function, a = FUNCTIONS[name]
    lines = [re.sub(r"\ba\b", str(a), e) for e in forms.values()]
    found = evaluations(read_vlad("\n".join([f"(define (f x) {text})", *lines]), name))
    with mpmath.workdps(60):
        expected = float(mpmath.diff(function, mpmath.mpf(a), order))
    for form, e in zip(forms, found, strict=True):
        yield form, e.value, expected


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_differences(name: str, order: int) -> None:
    for form, found, expected in _compared(name, FIRST if order == 1 else SECOND, order):
        assert found == pytest.approx(expected, rel=2e-7, abs=2e-7), form


#: functions with a kink at 0 -> their slope there, forward and backward
KINKS = {
    "(sqrt x)": 0,
    "(abs x)": 1,
    "(sqrt (* x x))": 0,
    "(magnitude (list x (* 2 x)))": 0,
    "(expt x .5)": 0,
    "(max 0 x)": 1,
    "(min 0 x)": 1,
    "(if (negative? x) 0 (* 2 x))": 2,
}
#: a zero that is found in the run alone
_ZERO = "(- (sqrt 4) 2)"


@pytest.mark.parametrize("text", KINKS)
def test_first_derivatives_at_kinks_agree_in_all_modes(text: str) -> None:
    lines = [re.sub(r"\ba\b", zero, e) for e in FIRST.values() for zero in ("0", _ZERO)]
    for e in evaluations(read_vlad("\n".join([f"(define (f x) {text})", *lines]), "kinks")):
        assert e.value == KINKS[text], e.expression.datum


@pytest.mark.parametrize("zero", ["0", _ZERO])
@pytest.mark.parametrize("form", SECOND)
@pytest.mark.parametrize("text", ["(sqrt x)", "(* x (abs x))", "(sqr (magnitude (list x)))"])
def test_second_derivatives_at_kinks_trap(text: str, form: str, zero: str) -> None:
    """In every pair of modes, by an argument that is known when the program is compiled, too."""
    line = re.sub(r"\ba\b", zero, SECOND[form])
    with pytest.raises(ProgramTrap) as found:
        list(evaluations(read_vlad(f"(define (f x) {text})\n{line}", "kinks")))
    assert found.value.code == "RG0815"
