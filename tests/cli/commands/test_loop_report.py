"""`retrograd compile --report`: loops in the vector unit, skipped uncompute blocks, and reasons; as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from retrograd.simulator.engines.llvm.builder import VectorUnit
from retrograd.simulator.engines.llvm.jit import jit_compiler

Cli = Callable[..., tuple[int, str, str]]
OK, BAD_INPUT = 0, 2

SOURCE = """\
import retrograd as rg
from retrograd import Array, fixed, reversible

@reversible
def scale(ys: Array[fixed, 40], xs: Array[fixed, 40], k: fixed):
    for i in range(len(xs)):
        ys[i] += k * xs[i]

@reversible
def prefix(ys: Array[fixed, 40], xs: Array[fixed, 40]):
    for i in range(1, len(xs)):
        ys[i] += ys[i - 1] * xs[i]

@reversible
def smooth(ys: Array[fixed, 20, 20], xs: Array[fixed, 20, 20]):
    for i in range(1, 19):
        for j in range(1, 19):
            ys[i, j] += xs[i - 1, j] + xs[i + 1, j]

@reversible
def positive(total: fixed, xs: Array[fixed, 40]):
    for x in xs:
        with rg.routine() as r:
            a = rg.sqrt(x * x + 1.0)
            b = rg.sqrt(a * a + x)
            c = b * a + x * rg.sqrt(b)
        if x > 0:
            total += c * x
        ~r

@reversible
def spread(total: fixed, xs: Array[fixed, 40]):
    for x in xs:
        with rg.routine() as r:
            a = rg.sqrt(x * x + 1.0)
        total += a
        ~r

@reversible
def straight(y: fixed, x: fixed):
    y += x

@reversible
def picked(y: fixed, xs: Array[fixed, 40], at: Array[int, 40], n: int):
    for i in range(40):
        y += xs[at[i]]
    for k in range(n):
        y += xs[k]

@reversible
def fed_back(y: fixed, z: fixed, xs: Array[fixed, 40]):
    for x in xs:
        z += x
        y += x * z
"""


@pytest.fixture(autouse=True)
def source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions, and a processor with eight lanes and two cores."""
    (folder / "loops.py").write_text(SOURCE)
    monkeypatch.setattr(jit_compiler(), "vector_unit", VectorUnit(8, True, True))


def loops(cli: Cli, name: str, *options: str) -> list[dict[str, Any]]:
    code, out, err = cli("compile", name, "--report", "--json", *options)
    assert (code, err) == (OK, "")
    document = json.loads(out)
    assert document["schema"] == "retrograd.loops/1"
    assert document["lanes"] == 8
    found: list[dict[str, Any]] = document["loops"]
    return found


def test_a_vector_loop(cli: Cli) -> None:
    (loop,) = loops(cli, "loops.py:scale")
    assert loop["source"]["line"] == 6
    assert loop["source"]["text"] == "for i in range(len(xs)):"
    assert loop["vector"] == {"lanes": 8, "checks": 0, "reason": ""}
    assert loop["within"] is loop["rows"] is None
    first, last = loop["addresses"]
    assert loop["instructions"] == last - first + 1
    assert loop["checks"]["branch"] == 2
    # The product and the sum are checked; x and y have addresses.
    assert loop["checks"]["overflow"] >= 2
    assert loop["checks"]["address"] >= 2


def test_the_reason_of_a_scalar_loop(cli: Cli) -> None:
    (loop,) = loops(cli, "loops.py:prefix")
    assert loop["vector"] == {
        "lanes": 1, "checks": None, "reason": "a pass reads or writes a word that is written 1 passes before",
    }  # fmt: skip


def test_a_narrow_word_has_more_lanes(cli: Cli) -> None:
    (narrow,) = loops(cli, "loops.py:scale", "--format", "32,16")
    assert narrow["vector"] == {"lanes": 16, "checks": 0, "reason": ""}


def test_rows_for_a_second_core(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner = loops(cli, "loops.py:smooth")
    assert (outer["source"]["line"], inner["source"]["line"]) == (16, 17)
    assert (outer["within"], inner["within"]) == (None, 0)
    assert outer["rows"] == {"shared": True, "reason": ""}
    assert outer["vector"]["reason"] == "it holds another loop"
    assert outer["addresses"][0] < inner["addresses"][0] < inner["addresses"][1] < outer["addresses"][1]
    # The inner loop is not counted in the outer one.
    assert inner["instructions"] == inner["addresses"][1] - inner["addresses"][0] + 1
    assert outer["instructions"] < outer["addresses"][1] - outer["addresses"][0] + 1
    monkeypatch.setattr(jit_compiler(), "vector_unit", VectorUnit(8, True, False))
    outer, _ = loops(cli, "loops.py:smooth")
    assert not outer["rows"]["shared"]
    assert "no second core" in outer["rows"]["reason"]


@pytest.mark.parametrize("name", ["loops.py:positive", "loops.py:~positive"])
def test_a_skipped_uncompute_block(cli: Cli, name: str) -> None:
    (loop,) = loops(cli, name)
    assert loop["uncompute"]["skipped"] >= 8
    # The load of the element is undone by itself.
    assert loop["uncompute"]["executed"] == 1
    assert loop["vector"]["reason"] == "it skips an uncompute block"
    first, last = loop["addresses"]
    assert loop["instructions"] == last - first + 1


def test_executed_uncompute(cli: Cli) -> None:
    """x, x², 1 and √ are undone: each compute instruction has its inverse behind the sum."""
    (loop,) = loops(cli, "loops.py:spread")
    # Without both branches, the sum and the step of the counter, half of the instructions are uncompute.
    reason = "it lies in a loop without branches"
    assert loop["uncompute"] == {"executed": (loop["instructions"] - 4) // 2, "skipped": 0, "reason": reason}


def reasons(loop: dict[str, Any]) -> list[tuple[str, str]]:
    return [(remark["transformation"], remark["reason"]) for remark in loop["remarks"]]


def test_reasons_of_the_compiler(cli: Cli) -> None:
    counted, open_ = (loop for loop in loops(cli, "loops.py:picked") if loop["source"]["text"].startswith("for"))
    assert reasons(counted) == [
        ("unroll_loops", "it makes 40 passes, and at most 12 are unrolled"),
        ("eliminate_checks", "the test `at <ᵤ 40` of line 46 stays: `at` may be any number"),
    ]
    assert reasons(open_) == [
        ("unroll_loops", "the number of its passes is known only when the program runs"),
        ("eliminate_checks", f"the test `k <ᵤ 40` of line 48 stays: `k` is in 0 … {2**63 - 2}"),
    ]
    # A test that stays is one instruction of a straight line.
    assert (open_["vector"]["lanes"], open_["checks"]["domain"]) == (8, 2)
    # Where a pass applies, it has no reason; where none runs, there are none.
    (loop,) = loops(cli, "loops.py:scale")
    assert [name for name, _ in reasons(loop)] == ["unroll_loops"]
    for loop in loops(cli, "loops.py:picked", "--no-optimise"):
        assert reasons(loop) == []
    _, out, _ = cli("compile", "loops.py:picked", "--report")
    assert "loops.py:47  unroll_loops      the number of its passes is known only when the program runs" in out


def test_reasons_of_a_forward_sweep(cli: Cli) -> None:
    """A gradient program of sums needs none; with a sum that reads its target it has one."""

    def whole(*options: str) -> tuple[list[tuple[str, str]], int]:
        code, out, err = cli("compile", *options, "--report", "--json", "--gradient")
        assert (code, err) == (OK, "")
        document = json.loads(out)
        return reasons(document), len(document["loops"])

    assert whole("loops.py:positive") == ([], 1)
    found, count = whole("loops.py:fed_back")
    assert count == 2
    reason = "`z`, which the program changes, is used in `fmul.add`, which is no sum into it (line 54)"
    assert found == [("eliminate_forward_sweep", reason)]
    assert (
        "program      eliminate_forward_sweep  `z`" in cli("compile", "loops.py:fed_back", "--report", "--gradient")[1]
    )
    # A program without loops has its remarks, too.
    code, out, _ = cli("compile", "loops.py:prefix", "--report", "--gradient", "ys[3]")
    assert (code, "the loss is one word of `ys`" in out) == (OK, True)


def test_inverses_in_two_branches_undo_nothing(cli: Cli, folder: Path) -> None:
    text = """
        .memory 4
        start
top:    from.ne r1, r0, bottom
one:    goto.ne r2, r3, other
        {then}
two:    goto join
other:  from one
        sub r4, r5
join:   from.ne r2, r3, two
        add r1, 1
bottom: goto.ne r1, r6, top
        finish
"""
    (folder / "arms.rga").write_text(text.format(then="add r4, r5"))
    (loop,) = loops(cli, "arms.rga")
    assert loop["uncompute"]["executed"] == 0
    assert loop["vector"]["reason"] == "it is not one straight line"
    (folder / "arms.rga").write_text(text.format(then="add r4, r5\n        add r7, r5\n        sub r4, r5"))
    # Between the two lies an instruction that leaves r4 and r5 as they are.
    (loop,) = loops(cli, "arms.rga")
    assert loop["uncompute"]["executed"] == 1


def test_spills(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop whose words do not fit the registers of the processor accesses the stack, and a small one seldom."""
    turns = "\n".join(f"        mul.add r{2 + k % 40}, r{2 + (k + 7) % 40}, r{2 + (k + 13) % 40}" for k in range(80))
    for name, body in (("wide", turns), ("narrow", "        add r2, r3")):
        (folder / f"{name}.rga").write_text(
            f"""
        .memory 4
        start
top:    from.ne r1, r0, bottom
{body}
        add r1, 1
bottom: goto.ne r1, r60, top
        finish
""".replace("        goto.ne r50, r0, odd\nodd:    from.ne r50, r0, top\n", "")
        )
    (wide,), (narrow,) = (loops(cli, f"{name}.rga") for name in ("wide", "narrow"))
    if narrow["spills"] is not None:
        assert wide["spills"] > narrow["spills"] + 20
    monkeypatch.setattr(
        jit_compiler(), "triple", jit_compiler().triple.replace("x86_64", "vax").replace("aarch64", "vax")
    )
    monkeypatch.setattr(type(jit_compiler()), "assembly", lambda *_: "")
    (unknown,) = loops(cli, "narrow.rga")
    assert unknown["spills"] is None


def test_a_procedure_is_not_part_of_a_loop(cli: Cli, folder: Path) -> None:
    """Two calls, one of them backward, are no loop, and a loop of a procedure is not one of its callers."""
    (folder / "calls.rga").write_text("""
        .memory 4
        start
        call count
        uncall count
        call count
        finish
proc count, r10, r11
top:    from.ne r1, r0, bottom
        add r1, 1
bottom: goto.ne r1, r6, top
endproc
""")
    found = loops(cli, "calls.rga")
    assert {(loop["within"], loop["instructions"], loop["source"]["line"] in (9, 11)) for loop in found} == {
        (None, 3, True)
    }
    # In either direction.
    assert len(found) == 2


def test_a_table(cli: Cli) -> None:
    code, out, _ = cli("compile", "loops.py:smooth", "--report")
    assert code == OK
    tables = [table.splitlines() for table in out.split("\n\n")]
    (head,), (names, outer, inner), (_, rows, passes), (remarks, *reasons) = tables
    assert head.endswith("Q32.32, 2 loops")
    assert names.split()[:5] == ["loop", "addresses", "instructions", "uncompute", "skipped"]
    assert outer.startswith("loops.py:16  for i in range(1, 19):")
    assert inner.startswith("  loops.py:17  for j in range(1, 19):")
    assert rows.split(maxsplit=1)[1] == "a second core shares the rows"
    assert passes.split(maxsplit=1)[1] == "8 passes at once, 0 checks in each"
    assert remarks.split(maxsplit=2) == ["loop", "transformation", "why it did not apply"]
    assert [reason.split(maxsplit=2)[:2] for reason in reasons] == [[f"loops.py:{k}", "unroll_loops"] for k in (16, 17)]
    code, out, _ = cli("compile", "loops.py:straight", "--report")
    assert (code, out.count("\n")) == (OK, 1)
    assert out.endswith("0 loops\n")


def test_assembly_text_has_lines_too(cli: Cli) -> None:
    assert "cipher.rga:9  " in cli("compile", "cipher.rga", "--report")[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("loops.py:scale", "--json"), "--json is for `--report`"),
        (("loops.py:scale", "--report", "-o", "x.rgx"), "writes no file"),
        (("loops.py:nothing", "--report"), "nothing"),
        (("cipher.rga", "--report", "1.0"), "RG0510"),
        (("cipher.rga", "--report", "--no-optimise"), "RG0512"),
        (("loops.py:scale", "--report", "--asm"), "not allowed with"),
        (("loops.py:positive", "--gradient"), "--gradient is for `--report`"),
        (("cipher.rga", "--report", "--gradient"), "RG0512"),
        (("loops.py:positive", "--report", "--gradient", "nothing"), "RG0603"),
        (("loops.py:scale", "--report", "--gradient"), "is Array[fixed, 40]"),
    ],
)
def test_wrong_input(cli: Cli, options: tuple[str, ...], words: str) -> None:
    code, out, err = cli("compile", *options)
    assert code == BAD_INPUT
    assert words in out + err
    assert "Traceback" not in err
