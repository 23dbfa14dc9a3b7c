"""Files of VLAD as they are written: comments, numbers in other bases, perturbations, and files that include others."""

import io
import json
from pathlib import Path

import pytest
from retrograd.compiler.frontends.vlad.data import Items, Literal, Symbol, read_data
from retrograd.compiler.frontends.vlad.translation import read_vlad
from retrograd.isa.diagnostics import CompileError, InputError

from retrograd.cli.main import main
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
(list (*j-inverse (*j 1 2)) (zero 1 '(2)) (unperturb (perturb 3 4)) (unsensitize (sensitize 5 6)))
  ===> ((1 . 2) (0 0) (3 . 4) (5 . 6))
(plus (perturb 2) (perturb (zero 1)))                          ===> anything
"""


@pytest.mark.always
def test_a_file_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "library.vlad").write_text(LIBRARY)
    main = tmp_path / "main.vlad"
    main.write_text(MAIN)
    *found, last = evaluations(load_vlad(str(main)), back=True)
    assert [e.agrees for e in found] == [True] * 12
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
        ("(lambda (x) (read-real))", "`read-real` in a function"),
        ("(define (f x) (+ x (read-real)))", "`read-real` in a function"),
        ("(let loop ((i 0)) (loop (read-real)))", "`read-real` in a loop"),
        ("(if #t (read-real) 1)", "`read-real` in a branch"),
        ("(cond ((< 1 2) 1) ((= 1 (read-real)) 2) (else 3))", "`read-real` in a branch"),
        ("(define (f) (read-real)) (if #t 1 (f))", "`read-real` in a branch"),
        ("(cond (#f 1) (#t (read-real)) (else 3))", "in a branch: it reads 1 number, and the other 0"),
        ("(and 1 (read-real))", "`read-real` in a branch, which may read several"),
        ("(define (f) (if (< (read-real) 0) 1 (f))) (f)", "`f` reads and calls itself"),
        ("(define (f) (read-real)) (map f '(1))", "`f` reads a number, and is no value"),
        ("(read-real 1)", "`read-real` reads a number, and is no value"),
        ("(+ 1 (write 2))", "`write` writes a value that is no part of the value"),
        ("(let ((x (write-real 1))) x)", "`write-real` writes a value that is no part"),
        ("(define (f x) (write x)) (map f '(1 2))", "`f` writes a value that is no part"),
        ("(define (f x) (write x)) (+ 1 (f 1))", "`f` writes a value that is no part"),
        ("write", "`write` writes a value that is no part"),
        ("(write)", "`write` takes 1 argument"),
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


READS = """
(define k (read-real))
(define (read-twice) (write-real (* k (read-real))))
(define (shown x) (if (< x 3) (write x) (list x (write x))))
(define (either)
  (cond ((< (read-real) 1) (list (read-real) (if (= (read-real) 7) (read-real) (- (read-real)))))
        ((< (read-real) 2) (list 0 (+ (read-real) (read-real))))
        (else (list (read-real) (read-real)))))
(read-twice)
(list (write (read-real)) (read-twice) 'k)
(let* ((x (read-real)) (y (read-real))) (- x y))
((derivative (lambda (x) (* k x x))) (read-real))
(if (< (read-real) 3) (write 1) (write 2))
(let ((y k)) (write y))
(either)
(either)
(map-n (lambda (i) (* i k)) 18)
"""


def test_numbers_are_read_in_order() -> None:
    """A value reads once for all expressions, a function without parameters at each call."""
    file = read_vlad(READS, "reads.vlad")
    *found, last = evaluations(file, numbers=[2, 3, 4, 5, 6, 7.5, 9, 1, 0, 3, 5, 8, 1, 2, 7, 9], back=True)
    values = [6.0, (4.0, (10.0, ("k", ()))), -1.5, 36.0, 1.0, 2.0, (3.0, (-8.0, ())), (7.0, (9.0, ()))]
    assert [e.value for e in found] == values
    assert all(e.restored and not e.erased_bits for e in (*found, last))
    assert last.value[1][1][0] == 4.0


TESTS = """
(define k (read-real))
(define (pair) (list k (read-real)))
(pair)             ===> (with-inputs (2 3.5) (2 3.5))
(pair)             ===> (with-inputs (7 8) (7 9))
(list (bundle 1 2) (perturb 3)) ===> ((bundle 1 2) (perturbation 3))
(bundle 1 2)       ===> (forward 1 2)
(*j '(1 #t))       ===> (reverse (1 #t))
(sensitize 1)      ===> (reverse 1)
'(bundle 1 2)      ===> '(bundle 1 2)
((*j sin) (*j 1))  ===> (with-inputs () (reverse 1))
"""


def test_tests_have_inputs_of_their_own() -> None:
    found = [e.agrees for e in evaluations(read_vlad(TESTS, "tests.vlad"))]
    assert found == [True, False, True, True, True, False, True, False]


@pytest.mark.parametrize(
    ("test", "code", "message"),
    [
        ("(with-inputs (1) 2)", "RG0504", "no number left"),
        ("(with-inputs (1 2 3) 2)", "RG0504", "the test has 3 inputs, and 2 are read"),
        ("(with-inputs (1 x) 2)", "RG0724", "has another form"),
        ("(with-inputs 1 2)", "RG0724", "has another form"),
    ],
)
def test_inputs_of_a_test_are_checked(test: str, code: str, message: str) -> None:
    with pytest.raises((CompileError, InputError), match=message) as caught:
        list(evaluations(read_vlad(f"(* (read-real) (read-real)) ===> {test}", "f.vlad")))
    assert caught.value.diagnostics[0].code == code


def test_the_input_has_too_few_numbers() -> None:
    with pytest.raises(InputError, match="RG0504") as found:
        list(evaluations(read_vlad(READS, "reads.vlad"), numbers=[2, 3]))
    span = found.value.diagnostics[0].span
    assert span is not None
    assert span.line == 10


def test_the_command_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file, or from the standard input; numbers alone."""
    path, numbers = tmp_path / "sum.vlad", tmp_path / "numbers.txt"
    path.write_text("(write-real (+ (read-real) (read-real)))\n(read-real)\n")
    numbers.write_text("1.5\n -2e0 7")
    assert main(["run", str(path), "--input", str(numbers)]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["-0.5", "7"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1 2 nan")))
    assert main(["run", str(path)]) != 0
    out, err = capsys.readouterr()
    assert (out.splitlines(), "`nan` in line 1 of the standard input is no number" in err) == (["3"], True)
    assert main(["run", str(path), "--input", str(tmp_path / "missing")]) != 0
    assert "RG0501" in capsys.readouterr().err


def test_a_memory_budget_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Loops run in parts where it is too small for them as they are."""
    path = tmp_path / "loop.vlad"
    path.write_text("(let loop ((x 1) (n 300)) (if (zero? n) x (loop (* .5 (sin x)) (- n 1))))\n")
    steps = []
    for more in ([], ["--memory-budget", "200"]):
        assert main(["run", str(path), "--json", *more]) == 0
        steps.append(json.loads(capsys.readouterr().out)["steps"])
    assert steps[1] > 1.8 * steps[0]
    assert main(["run", str(path), "--memory-budget", "0"]) != 0
    assert "--memory-budget" in capsys.readouterr().err


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
