"""Programs of the field, with the final stores and the lines that the Jana interpreter gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.compiled import Options
from retrograd.compiler.frontends.janus.parser import read
from retrograd.isa.diagnostics import CompileError, InputError
from retrograd.isa.words import Format

from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import JanusFunction, run

# Some programs call procedures that they do not define, on paths that are not taken.
pytestmark = pytest.mark.filterwarnings("ignore:.*there is no procedure")

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "programs.json").read_text())
GOOD = [c for c in CASES if "store" in c]
WRONG = [c for c in CASES if "error" in c]

#: wrong programs that trap, and the codes of their traps
TRAPS = {
    "errorstmt": "RG0804", "expneg": "RG0810", "exprargbad": "RG0802", "idxalias2": "RG0805", "ifcontra": "RG0803",
    "negidx": "RG0801", "topempty": "RG0806", "alias-2": "RG0805", "array-out-of-bounds": "RG0801",
    "assertion-fail-from-bwd": "RG0803", "assertion-fail-from-fwd": "RG0803", "assertion-fail-if-bwd": "RG0803",
    "assertion-fail-if-fwd": "RG0803", "delocal-wrong-value": "RG0802", "division-by-zero": "RG0402", "pop-empty": "RG0806",
    "pop-to-non-zero": "RG0802", "proc-not-defined": "RG0804",
}  # fmt: skip
#: lines that differ: the condition of an `uncall`ed loop or branch that fails is named at its other end; Jana names no call
OTHER_LINES = {"exprargbad", "assertion-fail-from-bwd", "assertion-fail-if-bwd"}
#: an argument of another length or type is named at the call, where the interpreter names the procedure; `fi 1` of modular-integer is
#: refused when the program is compiled
OTHER_LINES |= {"array-size-mismatch", "type-error-argument", "modular-integer"}


def function(case: dict[str, Any], width: int, level: int) -> JanusFunction:
    program = read(case["text"], case["program"], case.get("dialect"))
    return JanusFunction(program, case.get("entry", "main"), Format(width, 0), Options(level=level))


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def check(case: dict[str, Any], engine: str, width: int, level: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The store and the lines of a run, and zeros where it began."""
    if width == 32 and case["program"].endswith("probes/sized.ja"):
        with pytest.raises(CompileError, match="RG0714"):
            run(function(case, 32, level))
        return
    f = function(case, width, level)
    found = run(f, engine=engine)
    assert capsys.readouterr().out.split("\n")[:-1] == case["stdout"]
    store = case["store"] if width == 64 else case.get("store32", case["store"])
    for name, value in found.values._asdict().items():
        wanted = store[name]["stack"][::-1] if isinstance(store[name], dict) else store[name]
        assert plain(value) == wanted, name
    machine = found.machine
    machine.turn()
    machine.run()
    assert machine.erased_bits == 0
    assert not any(machine.memory[: found.compiled.argument_words])


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("case", GOOD, ids=lambda c: f"{c['program']}:{c.get('entry', '')}")
def test_stores_lines_and_the_way_back(case: dict[str, Any], engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    for width in (64, 32):
        check(case, engine, width, int((width == 64) == (engine == "native")), capsys)


@pytest.mark.long
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("engine", ["reference", "native", "threaded", "translated"])
@pytest.mark.parametrize("case", GOOD, ids=lambda c: f"{c['program']}:{c.get('entry', '')}")
def test_every_engine_level_and_width(
    case: dict[str, Any], engine: str, level: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in (64, 32):
        check(case, engine, width, level, capsys)


def check_wrong(case: dict[str, Any], engine: str, width: int, level: int) -> None:
    """The kind of the error and its line; after a trap, zeros where the run began."""
    name = Path(case["program"]).stem
    try:
        run(function(case, width, level), engine=engine)
    except ProgramTrap as trap:
        found, machine = trap.diagnostics[0], trap.machine
    except CompileError as error:
        found, machine = error.diagnostics[0], None
    else:
        # Conditions are compared with = here; the interpreter has no such comparison.
        assert name == "boolvar"
        return
    assert (machine is not None) == (name in TRAPS)
    if machine is not None:
        assert found.code == TRAPS[name]
        machine.turn()
        machine.run()
        assert not any(machine.memory)
    if name == "no-main-proc":
        return
    assert found.span is not None
    if name not in OTHER_LINES and case["line"]:
        assert found.span.line == case["line"]


@pytest.mark.parametrize("case", WRONG, ids=lambda c: c["program"])
def test_wrong_programs(case: dict[str, Any]) -> None:
    check_wrong(case, "reference", 64, 1)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["reference", "native", "threaded", "translated"])
@pytest.mark.parametrize("case", WRONG, ids=lambda c: c["program"])
def test_wrong_programs_on_every_engine(case: dict[str, Any], engine: str) -> None:
    for width in (64, 32):
        for level in (0, 1):
            check_wrong(case, engine, width, level)


def test_equal_values_of_two_statements_leave_a_loop() -> None:
    """Common-subexpression elimination left out a temporary that the second product reads."""
    text = """procedure main()
    int x = 87
    stack s
    u32 u[5]
    u8 y = 11
    local int k = 0
    from k = 0 loop
        if (y - y) <= (y >> 70) then
        fi (y - y) <= (y >> 70)
        local u8 w[1] = {3}
        push(x, s)
        pop(x, s)
        w[0] -= ((y << 1) % 3) * y
        delocal u8 w[1] = {3}
        k += 1
    until k = 0
    delocal int k = 0
"""
    found = run(JanusFunction(read(text, "loop"), "main"), engine="reference")
    assert found.values.x == 87
    assert found.values.y == 11


@pytest.mark.parametrize(("width", "t"), [(32, "u32"), (64, "u64"), (64, "u32")])
def test_arguments_without_a_sign_are_numbers_from_zero_on(width: int, t: str) -> None:
    """An argument from the sign bit on is given as it is, and a number below zero is refused."""
    text = f"procedure f({t} x, {t} y, {t} a[2])\n    x += y / 3\n    a[1] += y\nprocedure main()\n    int z\n"
    f = JanusFunction(read(text, "unsigned"), "f", Format(width, 0))
    y = 2 ** int(t[1:]) - 1
    got = f(0, y, [7, 0])
    assert (got.x, got.y, [*got.a]) == (y // 3, y, [7, y])
    back = (~f)(*got)
    assert (back.x, back.y, [*back.a]) == (0, y, [7, 0])
    with pytest.raises(InputError, match="RG0601"):
        f(0, -1, [0, 0])


def main_of(body: str, width: int = 32) -> JanusFunction:
    lines = "".join(f"    {line}\n" for line in body.split("; "))
    return JanusFunction(read(f"procedure main()\n{lines}", "t"), "main", Format(width, 0))


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ("[3]", "{0}"), ("[3]", "{4}"), ("[3]", "{4, 5, 6}"), ("[2][3]", "{{1}}"), ("[2][3]", "{{1, 2, 3}, {4, 5, 6}}"),
        ("[2][3]", "{{0}, {0, 7}}"), ("[2][2][2]", "{{{1, 2}}, {{3}, {4, 5}}}"),
    ],
)  # fmt: skip
def test_values_of_an_array_whose_length_is_known_at_run_time(shape: str, values: str) -> None:
    """Of each dimension or of some: the elements are those of an array whose lengths are numbers."""

    def found(lengths: str) -> Any:
        """The elements of a local array, added to one of known lengths."""
        copies = "; ".join(f"out{at} += a{at}" for at in places(shape))
        local = f"int a{lengths} = {values}"
        f = main_of(f"int two = 2; int three = 3; int out{shape}; local {local}; {copies}; delocal {local}")
        return run(f).values.out.tolist()

    names = {"2": "two", "3": "three"}
    known = found(shape)
    assert any(np.ravel(known)) == (values != "{0}")
    rank = shape.count("[")
    for open_ones in range(1, 1 << rank):
        parts = shape[1:-1].split("][")
        lengths = "".join(f"[{names[n] if open_ones >> k & 1 else n}]" for k, n in enumerate(parts))
        assert found(lengths) == known, lengths


def places(shape: str) -> list[str]:
    return ["".join(f"[{i}]" for i in at) for at in np.ndindex(*map(int, shape[1:-1].split("][")))]


def test_more_values_than_an_array_has_elements() -> None:
    """Refused where the length is a number; else a trap, also of an inner dimension."""
    with pytest.raises(CompileError, match="RG0712"):
        main_of("local int a[2] = {1, 2, 3}; delocal int a[2] = {1, 2, 3}").compiled()
    for lengths, values in (("[n]", "{1, 2, 3}"), ("[n][2]", "{{1}, {2}, {3}}"), ("[2][n]", "{{1}, {1, 2, 3}}")):
        f = main_of(f"int n = 2; local int a{lengths} = {values}; delocal int a{lengths} = {values}")
        with pytest.raises(ProgramTrap, match="RG0801") as trapped:
            run(f)
        assert "does not fit the shape" in str(trapped.value)


@pytest.mark.parametrize(
    "exchange",
    [
        "x <=> x",
        "a[0] <=> a[0]",
        "a[2 - 1] <=> a[1]",
        "a[x] <=> a[x]",
        "a <=> a",
        "m[1] <=> m[1]",
        "m[x] <=> m[x]",
        "s <=> s",
    ],
)
def test_a_variable_is_not_exchanged_with_itself(exchange: str) -> None:
    """As the Jana interpreter has it."""
    with pytest.raises(CompileError, match=r"RG0705.*with itself"):
        main_of(f"int x; int a[3]; int m[2][2]; stack s; {exchange}").compiled()


@pytest.mark.parametrize(
    ("one", "other"),
    [("a[x]", "a[y]"), ("a[x + 1]", "a[1]"), ("m[x]", "m[y]"), ("m[x][1]", "m[y][1]"), ("m[x]", "m[0]")],
)
def test_elements_and_rows_are_exchanged_if_they_differ(one: str, other: str) -> None:
    """Rows are arrays. An element that is exchanged with itself at run time is a trap, and nothing has changed."""
    for second in (0, 1):
        start = f"int x; int y; int a[3]; int m[2][2]; a[0] += 1; a[1] += 2; a[2] += 3; m[0][0] += 4; m[0][1] += 5; m[1][0] += 6; y += {second}"
        f = main_of(f"{start}; {one} <=> {other}")
        names = {"x": 0, "y": second}
        same = eval(one.partition("[")[2].partition("]")[0], names) == eval(
            other.partition("[")[2].partition("]")[0], names
        )
        if same:
            with pytest.raises(ProgramTrap, match="RG0805"):
                run(f)
            continue
        a, m = np.array([1, 2, 3]), np.array([[4, 5], [6, 0]])
        names |= {"a": a, "m": m}
        exec("held = {0} + 0; {0} = {1}; {1} = held".format(*(x.replace("][", ", ") for x in (one, other))), names)
        found = run(f).values
        assert (found.a.tolist(), found.m.tolist()) == (a.tolist(), m.tolist())
