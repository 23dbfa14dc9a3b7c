"""VLAD: every form, primitive and operator by the tests inside the files, engines, formats, and texts that are no programs."""

import json
import random
import re
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from retrograd.compiler.frontends.vlad.data import read_data
from retrograd.compiler.frontends.vlad.translation import IN_PLACE, read_vlad
from retrograd.isa.diagnostics import CompileError, PrecisionWarning, RetrogradError
from retrograd.isa.words import Format

from retrograd.cli.main import main
from retrograd.derivatives._functional import evaluations, shown

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[3] / "examples" / "vlad"


@pytest.mark.parametrize("name", ["forms", pytest.param("derivatives", marks=pytest.mark.long)])
def test_values(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each value is as written, each run back leaves zeros, and no bit is erased."""
    assert main(["test", str(HERE / f"{name}.vlad")]) == 0
    assert "0 failed" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.vlad")), ids=lambda p: p.stem)
def test_examples(path: Path) -> None:
    assert main(["test", str(path)]) == 0


def test_failures_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.vlad"
    path.write_text("(+ 1 2) ===> 4\n(list 1 2) ===> (1 2)\n'(1 . 2) ===> (1)\n#t ===> 1\n1 ===> 1.0000001\n")
    assert main(["test", str(path)]) == 1
    found = capsys.readouterr()
    assert "5 tests in 1 file, 3 failed" in found.out
    assert [line.split(":", 3)[1] for line in found.err.splitlines()] == ["1", "3", "4"]
    assert main(["test", str(path), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["failures"]) == 3


def test_what_is_refused_or_traps_fails_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mixed.vlad"
    path.write_text(
        "(define (f x) (/ 1 x))\n(f 0) ===> 1\n(car 1) ===> 2\n(f 4) ===> .25\n"
        "(if #t (read-real) 2)\n(+ (write 1) 2)\n(f 2) ===> .5\n"
    )
    assert main(["test", str(path)]) == 1
    found = capsys.readouterr()
    assert "4 tests in 1 file, 4 failed, of which 4 are refused or trap" in found.out
    codes = ("RG0402", "RG0703", "RG0729", "RG0729")
    assert re.findall(r"error\[(\w+)\]", found.err) == [*codes]
    assert main(["test", str(path), "--json"]) == 1
    failures = json.loads(capsys.readouterr().out)["failures"]
    assert [(f["where"].split(":")[-2], f["problem"][:6]) for f in failures] == list(zip("2356", codes, strict=True))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(define a 3)\n(define (f x) (+ x a))\n(f 1)", "4"),
        ("(define (f x) (+ x a))\n(define b 2)\n(define a (* b 3))\n(f b)", "8"),
        ("(define (f x) (+ x a))\n(define (g x) (f (+ x b)))\n(define a 3)\n(define b (f 1))\n(g 1)", "8"),
    ],
)
def test_a_function_may_stand_before_the_values_that_it_uses(text: str, value: str) -> None:
    """A function is bound as soon as all its values are, and not before."""
    assert [shown(e.value) for e in evaluations(read_vlad(text, "f.vlad"))] == [value]


@pytest.mark.parametrize("w", [Format(64, 32), Format(32, 16)], ids=str)
@pytest.mark.parametrize(
    "text", ["(* 6.674e-11 X)", "(/ X 3e9)", "(* 1e-7 X)", "(* X 3e-6)", "(/ 2e-7 X)", "(* 0.25 X)"]
)
def test_a_factor_is_computed_refused_or_warned_of(text: str, w: Format) -> None:
    """The numbers of VLAD are at the point F, factors and divisors included: none loses half of its bits silently."""
    c = float(text.strip("(*/ X)"))
    program = read_vlad(text.replace("X", "(real 1234.5)"), "f.vlad")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if w.keeps(c) and abs(c) < w.sign >> w.frac:
            [found] = [e.value for e in evaluations(program, format=w)]
            exact = c * 1234.5 if text[1] == "*" else 1234.5 / c if "X 3" in text else c / 1234.5
            assert abs(found - exact) <= abs(exact) * 2.0 ** (-w.width // 4) + 2.0**-w.frac
            return
        with pytest.raises((CompileError, PrecisionWarning)) as refused:
            list(evaluations(program, format=w))
    assert getattr(refused.value, "code", "RG0730") in ("RG0730", "RG0714")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("(+ X 1e-20)", "No format holds it. Scale the numbers of the program."),
        ("(< X 1e-20)", "No format holds it. Scale the numbers"),
        ("(+ X 1e-14)", "Q2.62 to Q1.63 hold it. Or scale"),
    ],
)
def test_ways_out_of_a_number_that_would_be_0(text: str, hint: str) -> None:
    """VLAD has no lognums."""
    with pytest.raises(CompileError) as caught:
        list(evaluations(read_vlad(text.replace("X", "(real 1)"), "f.vlad")))
    found = caught.value.diagnostics[0]
    assert (found.code, hint in str(found.hint), "lognum" in str(found.hint)) == ("RG0730", True, False)


def test_run_prints_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "values.vlad"
    path.write_text("(define (f x) (* x x))\n(f 3)\n(list #t 'a (bundle 1 2) f)\n(map f (map-n f 3))\n")
    assert main(["run", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["9", "(#t a #[bundle 1 2] #[procedure f])", "(0 1 16)"]
    assert lines[-1].endswith("0 bits erased")
    assert main(["run", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [e["value"] for e in document["expressions"]] == ["9", "(#t a #[bundle 1 2] #[procedure f])", "(0 1 16)"]
    for name in ("steps", "erased_bits"):
        assert document[name] == sum(e[name] for e in document["expressions"])
    assert lines[-1] == f"{document['steps']} steps forward, {document['erased_bits']} bits erased"


def test_symbols_and_names_are_printed_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "controls.vlad"
    path.write_text("'(1 a\x01\x1bb)\n(define (f\x07g x) x)\nf\x07g\n")
    assert main(["run", str(path)]) == 0
    assert capsys.readouterr().out.startswith("(1 a\ufffd\ufffdb)\n#[procedure f\ufffdg]\n")


@pytest.mark.parametrize("engine", ["reference", pytest.param("translated", marks=pytest.mark.long)])
def test_engines_and_formats(engine: str) -> None:
    text = "(format Q16.48)\n((gradient (lambda (x) (fold + 0 (map-n (lambda (i) (* i (* x x))) 4)))) 3)"
    found = [list(evaluations(read_vlad(text, "t.vlad"), engine=engine, format=w, back=True)) for w in (None, "Q32.32")]
    assert [shown(e[0].value) for e in found] == ["36", "36"]
    assert all(e[0].restored and e[0].erased_bits == 0 for e in found)


def test_malformed_texts_are_refused() -> None:
    """Texts that are cut, and texts of random tokens, end in a diagnostic or are read."""
    rng = random.Random(20)
    text = (HERE / "forms.vlad").read_text()
    tokens = [
        "(",
        ")",
        "[",
        "]",
        "'",
        ".",
        "#|",
        "|#",
        "===>",
        "define",
        "lambda",
        "let",
        "if",
        "x",
        "1",
        "#t",
        ";",
        "\n",
    ]
    tokens += ["cond", "else", "letrec", "cons", "list", "bundle", "+", "car", "f", "quote", "#", "1e999", "()", '"']
    refused = []
    for k in range(200):
        if k % 2:
            given = " ".join(rng.choice(tokens) for _ in range(rng.randrange(1, 24)))
        else:
            at = rng.randrange(len(text))
            given = text[:at] + rng.choice(tokens) + text[at + rng.randrange(3) :][: rng.randrange(40)]
        try:
            for e in read_vlad(given, "fuzz.vlad").expressions:
                e.core()
        except RetrogradError as error:
            refused.append(error.diagnostics[0].span)
    assert len(refused) > 100
    assert None not in refused


def test_a_line_is_not_scanned_for_each_place_in_it() -> None:
    """Calls of methods whose time grows with the line do not grow with the items in it. So a file on one line is read in linear time."""
    scans = {"rstrip", "strip", "split", "find", "rfind", "index", "count", "replace"}

    def counted(n: int) -> int:
        found = 0

        def see(frame: FrameType, event: str, what: Any) -> None:
            nonlocal found
            found += event == "c_call" and what.__name__ in scans

        before = sys.getprofile()
        sys.setprofile(see)
        try:
            read_vlad("(define (f x) (+ x 1)) (f 2) ===> 3 " + "'(a . 1) " * n + "\n" + "(f 3) " * n, "long.vlad")
        finally:
            sys.setprofile(before)
        return found

    counted(1)
    assert counted(20) == counted(400)


@pytest.mark.long
def test_deep_nesting_is_refused_or_read() -> None:
    deep = 3000
    assert len(read_data("(" * deep + ")" * deep, "deep.vlad")) == 1
    assert len(read_data("'" * deep + "a", "deep.vlad")) == 1
    for begin in ("", "(define (f x) ", "(define x "):
        with pytest.raises(CompileError, match="RG0720"):
            list(evaluations(read_vlad(begin + "(+ 1 " * deep + "1" + ")" * (deep + bool(begin)), "deep.vlad")))


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("(define (f x y) (+ x y))", "(f 1)"), ("(define (f x y) (+ x y))", "(f)"), ("(define (f x y) (+ x y))", "(f #t)"),
        ("(define (f x y z) (+ x (+ y z)))", "(f 1 2)"), ("(define (f x y z) (+ x (+ y z)))", "(map f '(1 2))"),
        ("(define (g f) (f 1))", "(g (lambda (x y) (+ x y)))"), ("(define (g x) (let loop ((a x) (b 1)) (loop a)))", "(g 1)"),
    ],
)  # fmt: skip
def test_a_call_with_fewer_arguments_names_the_function(function: str, call: str) -> None:
    with pytest.raises(
        RetrogradError, match=r"`(f|lambda|loop)` has [23] parameters, and is called with fewer arguments"
    ):
        list(evaluations(read_vlad(f"{function}\n{call}\n", "f.vlad")))


def test_a_pair_is_all_arguments() -> None:
    file = read_vlad("(define (f x y) (+ x y))\n(f (cons 1 2))\n(f 1 2)\n", "f.vlad")
    assert [shown(e.value) for e in evaluations(file)] == ["3", "3"]


@pytest.mark.parametrize("form", sorted(IN_PLACE))
def test_forms_of_scheme_are_refused_by_name(form: str) -> None:
    for text in (f"({form} x 3)", f"(lambda (x) ({form} x 3))", f"(let ((x 1)) {form})"):
        with pytest.raises(CompileError, match="RG0729") as found:
            list(evaluations(read_vlad(text, "f.vlad")))
        d = found.value.diagnostics[0]
        assert d.message.startswith(f"`{form}` is not in VLAD")
        assert d.span is not None
        assert text[d.span.column - 1 :].startswith(form)
    file = read_vlad(f"(define (f {form}) (+ {form} 1)) (f 2)", "f.vlad")
    assert [shown(e.value) for e in evaluations(file)] == ["3"]
