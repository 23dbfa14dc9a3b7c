"""Files of VLAD as they are written: comments, numbers in other bases, perturbations, and files that include others."""

from pathlib import Path

import pytest
from retrograd.compiler.frontends.vlad.data import Items, Literal, Symbol, read_data
from retrograd.compiler.frontends.vlad.translation import read_vlad
from retrograd.isa.diagnostics import CompileError

from retrograd.derivatives._functional import evaluations, load_vlad

LIBRARY = """
(define (first (cons x y)) x)
(define (j* x) (bundle x (perturb (zero x))))
(define ((slope f) x) (unperturb (tangent ((j* f) (bundle x (perturb (real 1)))))))
(define ((reduce f i) l) (if (null? l) i (f (first l) ((reduce f i) (cdr l)))))
"""
MAIN = """
#| outer #| inner |# (include "nothing") |#
(include "library") #;(include "nothing")
(include "library.vlad")
(define (nth n f) (if (zero? n) f (nth (- n 1) (slope f))))
((slope (lambda (x) (* x x))) 3)                               ===> 6
((nth 3 (lambda (x) (* x (* x (* x x))))) 2)                   ===> 48
((slope (lambda (x) (* x ((slope (lambda (y) (+ x y))) 3)))) 7) ===> 1
((reduce + 0) (list #b100 #o17 #d9 #x-1f))                     ===> -3
'(1 #;2 3 #;(4 5))                                             ===> (1 3)
(list (perturbation? (perturb 1)) (perturbation? 1))           ===> (#t #f)
(list (forward? (bundle 1 (perturb 1))) (forward? (perturb 1))) ===> (#t #f)
(list (reverse? (*j sin)) (reverse? sin))                      ===> (#t #f)
(sensitivity? ((cdr ((*j sin) (*j 1))) (sensitize 1)))         ===> #t
(unperturb (perturb '(1 2)))                                   ===> (1 2)
(primal (bundle (cons 1 2) (perturb (cons 3 4))))              ===> (1 . 2)
(plus (perturb 2) (perturb (zero 1)))                          ===> anything
"""


@pytest.mark.always
def test_a_file_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "library.vlad").write_text(LIBRARY)
    main = tmp_path / "main.vlad"
    main.write_text(MAIN)
    *found, last = evaluations(load_vlad(str(main)), back=True)
    assert [e.agrees for e in found] == [True] * 11
    assert all(e.restored for e in (*found, last))
    assert str(last.value) == "Formed(form='perturbation', parts=(2.0,))"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('(include "../library")', "it is no name of a file"),
        ('(include "/etc/passwd")', "it is no name of a file"),
        ('(include "missing")', "No such file"),
        ('(include "again")', "`x` is defined twice"),
        ('(+ 1 (include "library"))', "`include` stands at the top"),
        ("(+ 1 (read-real))", "`read-real` is not in VLAD"),
        ("(write (+ 1 2))", "`write` is not in VLAD"),
        ('"text"', '`"text"` is not in VLAD'),
        ("(+ 1 #; )", "no datum that could be left out"),
        ("(+ 1 2) #;", "no datum that could be left out"),
        ("#| #| |#", "this comment is not closed"),
        ("#b12", "`#b12` is not in VLAD"),
        ("(real sin)", "`real` of a function"),
        (f"#x{'f' * 300}", "is too large"),
    ],
)
def test_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "library.vlad").write_text(LIBRARY)
    (tmp_path / "again.vlad").write_text('(include "again") (define x 1) (define x 2)')
    main = tmp_path / "main.vlad"
    main.write_text(text)
    with pytest.raises(CompileError, match=message.replace("(", r"\(")) as caught:
        list(evaluations(load_vlad(str(main))))
    assert caught.value.diagnostics[0].span is not None


def test_a_text_includes_no_file() -> None:
    with pytest.raises(CompileError, match="a text that is no file includes none"):
        read_vlad('(include "library")', "text")


def test_data_that_is_left_out() -> None:
    (found,) = read_data("(a #;b #;#;c d '#;e f . #;g h)", "x")
    assert isinstance(found, Items)
    names = [i.name if isinstance(i, Symbol) else i for i in found.items]
    assert names[:1] == ["a"]
    assert isinstance(found.items[1], Items)
    assert isinstance(found.tail, Symbol)
    assert found.tail.name == "h"
    assert [d.value for d in read_data("#x10 #d-7 #b+11", "x") if isinstance(d, Literal)] == [16.0, -7.0, 3.0]
