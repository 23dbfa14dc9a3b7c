"""What users call: functions, their inverses, what they are compiled to, and the host's look inside."""

from __future__ import annotations

import inspect
import linecache
import pickle
import pydoc
import re
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible


@reversible
def complex_log(re: fixed, im: fixed, x: fixed, y: fixed):
    """(re, im) += log(x + iy)"""
    with rg.routine() as r:
        n = rg.sqrt(x * x + y * y)
    re += rg.log(n)
    im += rg.atan2(y, x)
    ~r


@reversible
def shift(xs: Array[fixed, "n"], by=2, *, twice: rg.static = False):
    """xs += by, or 2·by."""
    xs += by
    if twice:
        xs += by


@rg.struct
class Point:
    x: fixed
    y: fixed = 1.0

    @reversible
    def move(self, dx: fixed, dy: fixed):
        self.x += dx
        self.y += dy


@reversible
def total(out: fixed, xs: Array[fixed, ...]):
    out += rg.sum(xs)


def test_every_argument_comes_back_by_position_and_name() -> None:
    out = complex_log(0.0, 0.0, 3.0, 4.0)
    assert out == (out.re, out.im, out.x, out.y)
    assert (round(out.re, 6), round(out.im, 6), out.x, out.y) == (1.609438, 0.927295, 3.0, 4.0)
    assert (~complex_log)(*out) == (0.0, 0.0, 3.0, 4.0)


def test_the_inverse_of_the_inverse_is_the_function() -> None:
    assert ~~complex_log is complex_log
    assert complex_log.inverse is ~complex_log
    assert (~complex_log).inverse is complex_log


def test_defaults_and_keywords() -> None:
    assert shift([1.0, 2.0]).xs.tolist() == [3.0, 4.0]
    assert shift(xs=[1.0], by=5).xs.tolist() == [6.0]
    assert shift([1.0], twice=True).xs.tolist() == [5.0]
    assert (~shift)([5.0], twice=True).xs.tolist() == [1.0]


@pytest.mark.parametrize(
    ("value", "shape"),
    [(np.ones(3), (3,)), (np.ones((2, 3)), (2, 3)), ([[1, 2], [3, 4]], (2, 2)), (np.ones((0,)), (0,))],
)
def test_arrays_of_any_shape(value: Any, shape: tuple[int, ...]) -> None:
    out = total(0.0, value)
    assert out.out == np.sum(value)
    assert out.xs.shape == shape


def test_structs_are_values_of_python() -> None:
    p = Point(1.0)
    assert p == Point(x=1.0, y=1.0)
    moved = Point.move(p, 2.0, 3.0)
    assert moved.self == Point(3.0, 4.0)
    assert p.move(2.0, 3.0) == moved
    assert p == Point(1.0, 1.0)
    with pytest.raises(AttributeError):
        p.x = 2.0  # type: ignore[misc]


def test_complex_numbers_are_structs_of_two_fields() -> None:
    @rg.struct
    class Complex:
        re: fixed
        im: fixed

    @reversible
    def double(zs: Array[Complex, "n"]):
        for z in zs:
            t = z.re * 1
            u = z.im * 1
            z.re += t
            z.im += u
            rg.free(t, z.re / 2)
            rg.free(u, z.im / 2)

    assert [z.im for z in double(np.array([1 + 2j, 3 - 4j])).zs] == [4.0, -8.0]


def test_results_carry_steps_words_and_the_machine() -> None:
    result = rg.run(complex_log, 0.0, 0.0, 3.0, 4.0)
    assert result.erased_bits == 0
    assert result.words["x"] == [3 << 32]
    assert result.steps == result.machine.retired
    assert not any(result.machine.registers)
    back = rg.run(complex_log, *result.values, backward=True)
    assert back.values == (0.0, 0.0, 3.0, 4.0)
    assert rg.run(~complex_log, *result.values).words == back.words


@pytest.mark.parametrize("engine", ["auto", "reference", "threaded", "translated"])
def test_a_result_stays_as_the_machine_goes_on(engine: str) -> None:
    """However often the program has run: a first run has a machine, and a later one makes it when it is asked for."""
    for _ in range(3):
        result = rg.run(complex_log, 0.0, 0.0, 3.0, 4.0, engine=engine)
        expected = rg.run(complex_log, 0.0, 0.0, 3.0, 4.0, engine="reference").words
        ran = result.engine
        machine = result.machine
        machine.run_back()
        machine.load(0, [9] * 4)
        result.words["x"][0] = 7
        assert (result.words, result.engine, result.values.x) == (expected, ran, 3.0)
        assert result.machine is machine
        assert pickle.loads(pickle.dumps(result)).words == expected


def test_results_have_every_name() -> None:
    """A field of a named tuple may not begin with `_`; `_asdict` has its name, and so has an attribute where none is in the way."""

    @reversible
    def f(_x: fixed, y: fixed, _make: fixed):
        y += _x * _x + _make

    found, slope = f(3.0, 0.0, 0.5), rg.grad(f, loss="y")(3.0, 0.0, 0.5)
    assert found._asdict() == {"_x": 3.0, "y": 9.5, "_make": 0.5}
    assert (found._x, found[2], repr(found)) == (3.0, 0.5, "f(_x=3.0, y=9.5, _make=0.5)")
    assert (slope._asdict(), slope._x) == ({"_x": 6.0, "_make": 1.0}, 6.0)
    assert found._replace(y=1.0) == (3.0, 1.0, 0.5)
    # Derivatives that lack an argument are taken by name.
    _, pull = rg.vjp(f, 3.0, 0.0, 0.5)
    assert pull(slope) == (6.0, 0.0, 1.0)
    assert pickle.loads(pickle.dumps(found))._x == 3.0


def test_a_function_is_compiled_once_for_each_combination_of_types() -> None:
    first = total.compiled(0.0, np.ones(3))
    assert total.compiled(0.0, np.zeros(3)) is first
    assert total.compiled(0.0, np.ones(4)) is not first
    assert total.compiled(0.0, np.ones(3, dtype=np.float32)) is first


def test_without_examples_annotations_must_say_all() -> None:
    assert len(complex_log.compiled().arguments) == 4
    with pytest.raises(rg.InputError) as caught:
        total.compiled()
    assert caught.value.code == "RG0603"
    assert "`xs`" in str(caught.value)


def test_formats_by_call_by_function_and_for_all() -> None:
    narrow = rg.Format(32, 16)
    assert rg.run(complex_log, 0.0, 0.0, 3.0, 4.0, format=narrow).compiled.format == narrow
    assert complex_log.with_options(format=narrow).compiled().format == narrow
    previous = rg.use_format(narrow)
    try:
        assert complex_log.compiled().format == narrow
    finally:
        rg.use_format(previous)
    assert complex_log.compiled().format == previous == rg.Format()


def test_erasing_gives_the_same_values_and_counts_bits() -> None:
    plain = rg.run(complex_log, 0.0, 0.0, 3.0, 4.0)
    erasing = rg.run(complex_log.with_options(erase=True), 0.0, 0.0, 3.0, 4.0)
    assert erasing.words == plain.words
    assert erasing.erased_bits == 128
    assert erasing.steps < plain.steps
    only = rg.run(complex_log.with_options(erase=frozenset({"r"})), 0.0, 0.0, 3.0, 4.0)
    assert only.words == plain.words
    assert 0 < only.erased_bits <= 128


def test_the_uncomputing_level() -> None:
    assert rg.uncomputing_level(complex_log, 0.0, 0.0, 3.0, 4.0) == pytest.approx(np.log2(17 / 16))


@reversible
def scaled_sum(out: fixed, x: Array[fixed, "n"], y: Array[fixed, "n"]) -> None:
    for i in range(len(x)):
        out += x[i] * y[i]


@reversible
def erasing_copies(out: fixed, x: Array[fixed, "n"]) -> None:
    for i in range(len(x)):
        copy = x[i]
        out += copy
        rg.erase(copy)


def test_erase_mode_uses_operands_in_memory_as_other_programs_do() -> None:
    x = np.arange(20.0)
    assert rg.uncomputing_level(scaled_sum, 0.0, x, x) == 0
    # An erasure of the user's stays, in both modes.
    for f in (erasing_copies, erasing_copies.with_options(erase=True)):
        assert rg.run(f, 0.0, x).erased_bits >= 20 * 64


def test_listings() -> None:
    assert "fsqrt.add n, " in complex_log.lower().as_text()
    assert complex_log.lower().as_text() == str(complex_log.lower())
    assert "fsqrt.sub" in complex_log.assembly()
    assert "re += rg.log(n)" in complex_log.assembly()
    assert rg.assemble(complex_log.assembly()).code == complex_log.program().code
    assert rg.verify(complex_log.program()) is None or not rg.verify(complex_log.program())


def test_the_inverse_program_runs_the_inverse() -> None:
    compiled = complex_log.compiled()
    after = rg.run(complex_log, 0.0, 0.0, 3.0, 4.0).machine.memory
    machine = rg.Machine(~compiled.program)
    machine.load(0, after)
    machine.run()
    assert machine.memory[:4] == [0, 0, 3 << 32, 4 << 32]


def test_help_shows_signature_docstring_and_inverse() -> None:
    @reversible
    def area(a: fixed, /, w: fixed, *, h: fixed = 2.0) -> None:
        """a += w h.

        Inverse: −=.
        """
        a += w * h

    for f, name, inverse in ((area, "area", "(~area)"), (~area, "~area", "area")):
        assert list(inspect.signature(f).parameters) == ["a", "w", "h"]
        assert inspect.signature(f).parameters["h"].default == 2.0
        assert inspect.signature(f).parameters["w"].annotation in (fixed, "fixed")
        assert inspect.signature(f).return_annotation is tuple
        shown = pydoc.render_doc(f, renderer=pydoc.plaintext)
        assert re.search(rf"^{name}\(a: .*, /, w: .*, \*, h: .* = 2.0\) -> tuple$", shown, re.MULTILINE), shown
        assert "a += w h.\n" in shown
        assert f"Runs backward as {inverse}(*results)" in shown
    assert inspect.getsource(area) == inspect.getsource(area.fn)
    d_total = rg.reversible_gradient(total, 1)
    assert list(inspect.signature(d_total).parameters) == ["out", "xs", "d_xs"]
    assert list(inspect.signature(rg.Reversible).parameters) == ["fn", "format", "options"]


@pytest.mark.parametrize("decorator", ["rg.reversible", "rg.functional"])
def test_lines_that_a_notebook_cuts_within_a_comment_are_refused(decorator: str) -> None:
    """IPython cuts a cell's text at separators that are no ends of lines for Python."""
    text = f"@{decorator}\ndef cut(x: rg.fixed, y: rg.fixed):\n    y += x  # a\u2028(\n    return y + x\n"
    names: dict[str, Any] = {"rg": rg}
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(keepends=True), "<cell 1>")

    def called() -> None:
        exec(compile(text, "<cell 1>", "exec"), names)
        names["cut"](1.0, 2.0)

    with pytest.raises(rg.CompileError, match=r"(?s)RG0716.*cut at a character.*fix: .*U\+2028"):
        called()


def test_source_of_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 keeps the text of the prompt and of `python -c` in linecache, under the code's file name."""
    text = "def f(y):\n    y += 1\n"

    def entry(text: str) -> tuple[Any, ...]:
        return len(text), None, text.splitlines(keepends=True), "<string>"

    def defined() -> Any:
        names: dict[str, Any] = {}
        exec(text, names)
        return reversible(names["f"])

    with pytest.raises(rg.CompileError, match=r"(?s)RG0716.*cannot be read.*fix: .*Python 3\.13"):
        defined()(1)
    monkeypatch.setitem(linecache.cache, "<string>", entry(text))
    assert defined()(1) == (2,)
    # Code that `exec` makes under `python -c` has the file name of another text.
    monkeypatch.setitem(linecache.cache, "<string>", entry(text.replace("f(y)", "g(y)").replace("1", "7")))
    with pytest.raises(rg.CompileError, match="RG0716"):
        defined()(1)


def test_a_method_and_its_inverse_are_bound() -> None:
    @rg.struct
    class Pair:
        x: fixed
        y: fixed

        @reversible
        def shear(self, k: fixed) -> None:
            self.y += k * self.x

        unshear = ~shear

    after, _ = Pair(2.0, 1.0).shear(3.0)
    assert after.y == 7.0
    assert after.unshear(3.0)[0].y == 1.0
    assert list(inspect.signature(after.shear).parameters) == ["k"]


def test_notebooks_show_the_code() -> None:
    shown = complex_log._repr_html_()
    assert shown.startswith("<div><code><b>complex_log(re: fixed")
    assert "(re, im) += log(x + iy)" in shown
    assert "flog.add re, n" in shown
    assert "<b>total(" in total._repr_html_()


def test_notebooks_show_what_a_call_runs() -> None:
    """Whatever was compiled since: for a price in erase mode, in another format, for a gradient."""

    @reversible
    def f(xs: Array[fixed, "n"], y: fixed):
        with rg.routine() as r:
            t = rg.sum(xs * xs)
        y += rg.sqrt(t)
        ~r

    assert "details" not in f._repr_html_(), "nothing says yet for which shapes"
    f([1.0, 2.0], 0.0)
    shown = f._repr_html_()
    assert "for xs: Array[fixed, 2], y: fixed; Q32.32, level 1<" in shown
    assert "erase" not in shown
    assert "<details open>" in shown, "a short one is shown at once"
    rg.energy(f, [1.0, 2.0], 0.0, baseline=True)
    rg.run(f, [1.0, 2.0], 0.0, format=rg.Format(32, 16), options=rg.Options(level=0))
    rg.grad(f, loss="y")([1.0, 2.0], 0.0)
    assert f._repr_html_() == shown
    f([1.0, 2.0, 3.0], 0.0)
    assert "Array[fixed, 3]" in f._repr_html_()
    other = f.with_options(erase=frozenset({"r"}), level=0, format=rg.Format(32, 16), stack=64)
    other([1.0], 0.0)
    assert "Q16.16, level 0, erase mode of r, stack of 64 words<" in other._repr_html_()
    annotated = complex_log.with_options(erase=True)
    rg.run(annotated, 0.0, 0.0, 3.0, 4.0, options=rg.Options())
    assert "; Q32.32, level 1, erase mode<" in annotated._repr_html_()


def test_the_host_looks_on_in_both_directions(capsys: pytest.CaptureFixture[str]) -> None:
    @reversible
    def count(xs: Array[fixed, "n"], p: Point, k: int):
        for i, x in enumerate(xs):
            t = x * 2
            with rg.external():
                print(i, x, t, k, p, xs.sum())
            xs[i] += k
            xs[i] -= k

    after = count([1.0, 2.0], Point(0.5), 7)
    assert capsys.readouterr().out == "0 1.0 2.0 7 Point(x=0.5, y=1.0) 3.0\n1 2.0 4.0 7 Point(x=0.5, y=1.0) 3.0\n"
    (~count)(*after)
    assert capsys.readouterr().out.startswith("1 2.0 4.0 7")
    assert rg.run(count, [1.0], Point(0.5), 7).machine.erased_bits == 0


@pytest.mark.parametrize("engine", ["threaded", "translated"])
def test_compiled_code_runs_between_the_blocks_of_the_host(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    @reversible
    def walk(y: fixed, xs: Array[fixed, "n"], n: int):
        for i in range(n):
            with rg.routine() as r:
                t = rg.sin(xs[i]) * xs[i]
            if i % 100 == 50:
                with rg.external():
                    print(i, t, y, xs[i])
            y += t
            ~r
        with rg.external():
            print(y)
        for i in range(n):
            xs[i] += y

    given = 0.0, [k / 500 for k in range(500)], 500
    runs = {}
    for name in ("reference", engine):
        there = rg.run(walk, *given, engine=name)
        back = rg.run(~walk, *there.values, engine=name)
        machines = there.machine, back.machine
        counts = [(m.counts(+1), m.counts(-1), m.erased_bits, m.state()) for m in machines]
        runs[name] = counts, [m.engine for m in machines], capsys.readouterr().out
    assert runs["reference"][0] == runs[engine][0]
    assert runs["reference"][2] == runs[engine][2]
    assert runs[engine][2].count("\n") == 12
    assert runs[engine][1] == [engine, engine]


def test_what_the_host_does_changes_nothing() -> None:
    @reversible
    def watched(x: int):
        with rg.external():
            seen = [x]
            seen.append(x + 1)
        x += 1

    assert watched(1).x == 2

    @reversible
    def changing(x: int):
        with rg.external():
            x = 99  # noqa: F841

    with pytest.raises(rg.CompileError) as caught:
        changing(1)
    assert caught.value.code == "RG0709"


def test_a_trap_leaves_a_machine_that_can_go_back() -> None:
    @reversible
    def divide(y: int, x: int, z: int):
        y += 5
        y += x // z

    with pytest.raises(rg.ProgramTrap) as caught:
        divide(1, 2, 0)
    machine = caught.value.machine
    machine.run_back()
    assert machine.memory[:3] == [1, 2, 0]
    assert not any(machine.registers)


def test_a_limit_stops_the_run_and_the_machine_goes_on() -> None:
    with pytest.raises(rg.ProgramTrap) as caught:
        rg.run(total, 0.0, np.ones(50), max_steps=20)
    assert caught.value.code == "RG0420"
    machine = caught.value.machine
    machine.run()
    assert machine.memory[0] == 50 << 32


def test_functions_and_inverses_as_arguments() -> None:
    @reversible
    def increment(x):
        x += 1

    @reversible
    def apply(f, xs: Array[int, "n"]):
        f.each(xs)
        with rg.routine() as r:
            f(xs[0])
        ~r

    assert apply(increment, [1, 2]).xs.tolist() == [2, 3]
    assert apply(~increment, [1, 2]).xs.tolist() == [0, 1]
    assert (~apply)(increment, [1, 2]).xs.tolist() == [0, 1]


def test_inner_functions_see_constants() -> None:
    scale = 3

    @reversible
    def outer(y: int, x: int):
        twice = 2

        def inner(a, b):
            a += b * scale * twice

        inner(y, x)

    assert outer(0, 5).y == 30
    assert (~outer)(30, 5).y == 0


def test_recursion_with_local_arrays() -> None:
    @reversible
    def deep(out: int, n: int):
        with rg.routine() as r:
            row = rg.zeros(3, dtype=int)
            row[1] += n
            less = n - 1
        out += row[1]
        if n > 0:
            deep(out, less)
        ~r

    result = rg.run(deep, 0, 10)
    assert result.values.out == 55
    assert rg.run(deep, 55, 10, backward=True).values.out == 0


def test_lognums_go_in_and_out() -> None:
    @reversible
    def double(x: lognum):
        x *= 2.0

    assert double(3.0).x == pytest.approx(6.0, rel=1e-9)
    assert double(-0.5).x == pytest.approx(-1.0, rel=1e-9)
    assert (~double)(-1.0).x == pytest.approx(-0.5, rel=1e-9)


def test_stacks_are_lists() -> None:
    @reversible
    def shove(s: rg.Stack[fixed, 3], x: fixed):
        rg.push(s, x)

    assert shove([1.0], 2.0) == ([1.0, 2.0], 0.0)
    assert (~shove)([1.0, 2.0], 0.0) == ([1.0], 2.0)
    with pytest.raises(rg.ProgramTrap) as caught:
        shove([1.0, 2.0, 3.0], 4.0)
    assert caught.value.code == "RG0806"


def test_the_language_means_nothing_outside() -> None:
    for call in (lambda: rg.sqrt(2.0), lambda: rg.rot(1, 2, 3), lambda: complex_log.each([1.0])):
        with pytest.raises(rg.CompileError) as caught:
            call()
        assert caught.value.code == "RG0701"


@pytest.mark.parametrize(
    "changes",
    [
        *({name: value} for name in ("memory", "stack", "heap") for value in (-1, 1.5, "a", True)),
        {"memory": None},
        *({name: value} for name in ("cotangents", "temporaries") for value in (3, "x", None)),
        *({name: value} for name in ("erase", "forget") for value in (3, "r", [3], None)),
        *({"level": value} for value in (2, True, "1", None)),
        {"forgett": frozenset()},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(rg.InputError, match="RG0603"):
        complex_log.with_options(**changes)


def test_names_of_routines_may_be_a_list() -> None:
    erasing = complex_log.with_options(erase=["r"])
    assert erasing.options == complex_log.with_options(erase=frozenset({"r"})).options
