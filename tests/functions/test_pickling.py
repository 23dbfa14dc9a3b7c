"""Functions, what is made of them, what they give, and what they are compiled to, through pickles and other processes."""

from __future__ import annotations

import copy
import gc
import linecache
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.isa.table import ENTRIES

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.runtime._compilation import NotPicklable
from retrograd.runtime._execution import load
from retrograd.runtime._reversible import Listing


@reversible
def f(y: fixed, x: fixed):
    with rg.routine() as r:
        t = x * x
    y += t
    ~r


@reversible
def total(xs: Array[fixed, "n"], y: fixed):
    y += rg.sum(xs)


@reversible
def shown(y: fixed, x: fixed):
    def add(a, b=2):
        a += b
        with rg.external():
            pass

    add(y)


@rg.struct
class Point:
    x: fixed
    y: fixed

    @reversible
    def move(self, dx: fixed):
        self.x += dx


def plain(y: fixed, x: fixed) -> None:
    y += 3 * x


def not_reversible(x: float) -> float:
    return 2 * x


kept = reversible(format=rg.Format(32, 16))(plain)
reversible_again = f.with_options(erase=True, format=rg.Format(32, 16))
XS = np.array([0.1, 1.7, 2.9])
ZEROS = np.zeros(3)

#: a function, and arguments
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "function": (f, (0.1, 1.7)),
    "inverse": (~f, (0.1, 1.7)),
    "options": (reversible_again, (0.1, 1.7)),
    "inverse of options": (~f.with_options(level=0), (0.1, 1.7)),
    "decorated under another name": (kept, (0.1, 1.7)),
    "method": (Point.move, (Point(0.1, 0.2), 0.3)),
    "grad": (rg.grad(f, "x", scale=3), (0.1, 1.7)),
    "grad of the inverse": (rg.grad(~f, ("x",)), (0.1, 1.7)),
    "grad of grad": (rg.grad(rg.grad(f, "x"), "x"), (0.1, 1.7)),
    "value_and_grad": (rg.value_and_grad(f), (0.1, 1.7)),
    "gradient_report": (rg.gradient_report(f), (0.1, 1.7)),
    "gradient": (rg.reversible_gradient(f, "x", keep=99), (0.1, 1.7, 0.0)),
    "inverse of gradient of inverse": (~rg.reversible_gradient(~f, "x"), (0.1, 1.7, 0.0)),
    "gradient with options": (rg.reversible_gradient(f, "x").with_options(level=0), (0.1, 1.7, 0.0)),
    "jacobian": (rg.jacobian(total, "xs", "y"), (XS, 0.0)),
    "hessian": (rg.hessian(f, "x"), (0.1, 1.7)),
    "hvp": (rg.hvp(f, "x"), ((0.1, 1.7), 2.0)),
    "vmap": (rg.vmap(f, (0, None)), (ZEROS, 1.7)),
    "vmap of grad": (rg.vmap(rg.grad(f, "x"), (None, 0)), (0.1, XS)),
    "vmap of grad, summed": (rg.vmap(rg.grad(f, "x"), (0, None), shared="sum"), (ZEROS, 1.7)),
    "vmap of hessian": (rg.vmap(rg.hessian(f, "x")), (ZEROS, XS)),
    "vmap of any function": (rg.vmap(not_reversible), (XS,)),
}


def through(value: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> Any:
    return pickle.loads(pickle.dumps(value, protocol))


def same(one: Any, other: Any) -> bool:
    """Equal, words and all: what a call gives is of classes of its own, whose pickles differ where their words do."""
    return repr(one) == repr(other) and pickle.dumps(one) == pickle.dumps(other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_do_the_same(name: str) -> None:
    function, args = FUNCTIONS[name]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        found = through(function, protocol)
        assert type(found) is type(function)
        assert found.__name__ == function.__name__
        for way in ("format", "options"):
            assert getattr(found, way, None) == getattr(function, way, None)
    assert same(found(*args), function(*args))
    assert same(through(through(function))(*args), function(*args))


def test_a_function_is_itself() -> None:
    """So what was compiled is there."""
    assert through(f) is f
    assert through(~f) is ~f
    assert through(Point.move) is Point.move
    assert through([f, ~f]) == [f, ~f]
    for function, _ in FUNCTIONS.values():
        assert copy.copy(function).__name__ == function.__name__
    assert copy.deepcopy({"f": f, "g": rg.grad(f)})["f"] is f


def test_what_captures_by_name_is_as_it_is_where_it_is_loaded() -> None:
    assert (through(kept).format, through(kept).fn) == (rg.Format(32, 16), plain)
    assert through(reversible_again).options == reversible_again.options


def trapped() -> rg.ProgramTrap:
    with pytest.raises(rg.ProgramTrap) as caught:
        f(0.0, 60000.0)
    return caught.value


#: what functions give
GIVEN: dict[str, Callable[[], Any]] = {
    "values": lambda: f(0.1, 1.7),
    "arrays": lambda: total(XS, 0.1),
    "structs": lambda: Point.move(Point(0.1, 0.2), 0.3),
    "gradients": lambda: rg.grad(f)(0.1, 1.7),
    "batch's values": lambda: rg.run_batch(f, ZEROS, XS).values,
    "gradient report": lambda: rg.gradient_report(f, "x")(0.1, 1.7),
    "format": lambda: rg.Format(32, 16),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_functions_give_is_the_same(name: str) -> None:
    made = GIVEN[name]()
    assert same(through(made), made)


@pytest.mark.parametrize("engine", ["reference", "threaded", "translated"])
def test_results_go_on(engine: str) -> None:
    made = rg.run(f, 0.1, 1.7, engine=engine)
    found = through(made)
    assert same(found.values, made.values)
    assert (found.words, found.steps, found.erased_bits, found.engine) == (
        made.words,
        made.steps,
        made.erased_bits,
        made.engine,
    )
    assert found.machine.state() == made.machine.state()
    assert found.machine.run_back().steps == made.steps
    assert found.machine.state() == rg.run(~f, *made.values).machine.state()[:2] + found.machine.state()[2:]
    assert found.compiled.program == made.compiled.program
    assert found.compiled.function is f


def test_a_machine_with_cotangents_goes_on() -> None:
    compiled = f.compiled_for(tuple(a.type for a in f.compiled().arguments), None, rg.Options(cotangents=True))
    for engine in ("reference", "threaded"):
        machine = load(compiled, [0.1, 1.7], engine=engine)
        machine.run()
        machine.turn()
        machine.differentiating = True
        machine.memory_cotangents[0] = 1 << 32
        other = through(machine)
        for one in (machine, other):
            one.run()
        assert other.state() == machine.state()
        assert other.memory_cotangents[1] != 0


def test_a_pullback_goes_on() -> None:
    _, made = rg.vjp(f, 0.1, 1.7)
    made([1.0, 0.0])
    assert same(through(made)([0.5, 2.0]), made([0.5, 2.0]))


def test_names_of_the_language_are_themselves() -> None:
    for name in ("sqrt", "sum", "rot", "zeros", "routine", "external"):
        assert through(getattr(rg, name)) is getattr(rg, name)
    assert through(fixed) is fixed


def test_batches_and_reports() -> None:
    made = rg.run_batch(f, ZEROS, np.array([0.1, 60000.0, 2.9]), traps="return")
    found = through(made)
    assert same(found.values, made.values)
    assert found.traps.keys() == {1}
    assert str(found.traps[1]) == str(made.traps[1])
    report = rg.energy(rg.vmap(f), ZEROS, XS, tech="cmos45", baseline=True)
    assert through(report).as_dict() == report.as_dict()
    assert str(through(report)) == str(report)


def test_programs_and_compiled_code() -> None:
    for function in (f, total.with_options(level=0), shown, rg.reversible_gradient(f, "x")):
        compiled = function.compiled(*([XS, 0.0] if function.__name__ == "total" else []))
        found = through(compiled)
        assert found.program == compiled.program
        assert found.program.labels == compiled.program.labels
        assert found.program.source.spans == compiled.program.source.spans
        assert str(Listing(found.module)) == str(Listing(compiled.module))
    program = rg.assemble(".data\nhere: .word 7\n.text\nstart\nadd r1, 5\nfinish")
    assert through(program) == program
    assert through(program).data_labels == program.data_labels
    assert through(rg.TABLE) is rg.TABLE
    assert through(rg.TABLE["mov.add"]) is rg.TABLE["mov.add"]


def test_errors() -> None:
    made = trapped()
    found = through(made)
    assert (type(found), str(found), found.trap.pc) == (rg.ProgramTrap, str(made), made.trap.pc if made.trap else None)
    assert found.machine.state() == made.machine.state()
    for wrong in (
        lambda: f(None, 1.0),
        lambda: rg.grad(f, "z"),
        lambda: rg.assemble("nonsense"),
        lambda: rg.Machine(rg.assemble("start\nfinish"), memory=1 << 60),
    ):
        with pytest.raises(rg.RetrogradError) as caught:
            wrong()
        assert (type(through(caught.value)), str(through(caught.value))) == (type(caught.value), str(caught.value))


def local() -> rg.Reversible:
    rate = 2

    @reversible
    def inside(y: fixed, x: fixed):
        y += x * rate

    return inside


def local_function() -> Callable[[float], float]:
    def inside(x: float) -> float:
        return x

    return inside


#: what has no name by which another process could find it
NAMELESS: dict[str, Callable[[], Any]] = {
    "local function": local,
    "inverse": lambda: ~local(),
    "options": lambda: local().with_options(level=0),
    "grad": lambda: rg.grad(local()),
    "gradient": lambda: rg.reversible_gradient(local()),
    "vmap": lambda: rg.vmap(local()),
    "vmap of a lambda": lambda: rg.vmap(lambda x: x),
    "vmap of a local function": lambda: rg.vmap(local_function()),
    "result": lambda: rg.run(local(), 0.0, 1.0),
    "compiled": lambda: local().compiled(),
    "program of a table of its own": lambda: rg.Program((), table=rg.Table(ENTRIES)),
}


@pytest.mark.parametrize("name", NAMELESS)
def test_what_has_no_name_is_refused_with_a_way_out(name: str) -> None:
    made = NAMELESS[name]()
    with pytest.raises(rg.RetrogradError) as caught:
        pickle.dumps(made)
    assert caught.value.code == "RG0605"
    assert "fix: " in str(caught.value)


def test_it_is_an_error_of_pickles_too() -> None:
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(local())


def test_a_function_that_was_defined_anew_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "total", f)
    with pytest.raises(NotPicklable, match="defined anew"):
        pickle.dumps(FUNCTIONS["jacobian"][0])
    monkeypatch.delitem(globals(), "total")
    with pytest.raises(NotPicklable, match="there is no"):
        pickle.dumps(FUNCTIONS["jacobian"][0])


SCRIPT = """
import concurrent.futures, multiprocessing, pickle, sys
import retrograd as rg
from retrograd import fixed, reversible

RATE = 3

@reversible
def f(y: fixed, x: fixed):
    y += RATE * x * x

def main(method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        for made in (f, ~f, rg.grad(f, "x"), f.with_options(level=0), rg.reversible_gradient(f, "x"), rg.vmap(f)):
            args = {"gradient_of_f": (0.1, 1.7, 0.0), "vmap(f)": ([0.1], [1.7])}.get(made.__name__, (0.1, 1.7))
            assert repr(pool.submit(made, *args).result()) == repr(made(*args)), made
        result = pool.submit(rg.run, f, 0.1, 1.7).result()
        assert result.words == rg.run(f, 0.1, 1.7).words
        assert result.compiled.function is f
        try:
            pool.submit(f, 0.1, 60000.0).result()
        except rg.ProgramTrap as trap:
            assert trap.machine.run_back().steps >= 0
        else:
            raise AssertionError("no trap")
        @reversible
        def inside(y: fixed):
            y += 1
        try:
            pool.submit(inside, 0.0).result()
        except rg.RetrogradError as error:
            assert error.code == "RG0605", error
        else:
            raise AssertionError("a local function went through")
    print(method, "went well")

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize("method", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
def test_a_pool_of_processes(tmp_path: Path, method: str) -> None:
    """Of functions in `__main__`; each process compiles what it runs."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), method], check=False, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, f"{method} went well\n"), done.stderr


def numbered(first: int, last: int) -> list[Any]:
    """Functions whose names differ, each of which has run."""
    made = []
    for n in range(first, last):
        text = f"@reversible\ndef numbered{n}(y: fixed, x: fixed):\n    y += x * {n}\n"
        file = f"numbered{n}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        names: dict[str, Any] = {"reversible": reversible, "fixed": fixed}
        exec(compile(text, file, "exec"), names)
        made.append(names[f"numbered{n}"])
        made[-1](0.0, 1.0)
        del linecache.cache[file]
    return made


def classes_of_results() -> int:
    gc.collect()
    return sum(isinstance(c, type) and c.__name__.startswith("numbered") for c in gc.get_objects())


def test_functions_that_are_gone_leave_no_classes() -> None:
    """A process that compiles one function after another does not grow: the classes of the last results stay."""
    numbered(0, 100)
    before = classes_of_results()
    numbered(100, 250)
    assert classes_of_results() <= before < 100


def test_results_have_one_class_as_long_as_one_lives() -> None:
    """Also after many others were made, and for a pickle."""
    (f,) = numbered(300, 301)
    first = f(0.0, 2.0)
    kept = pickle.dumps(first)
    numbered(301, 400)
    assert type(f(0.0, 3.0)) is type(pickle.loads(kept)) is type(first)
    del f, first
    assert pickle.loads(kept) == (600.0, 2.0)
