"""Passes as text: each example is a module before and after a pass, in a file `NAME.ir` of the pass NAME beside this one.

    region a[8] at 0                the declarations that all examples of the file share
    free y: fixed, i: int

    == replaces a copy              an example: its title, and the text before
    within
      local t: fixed; mov.add t, x
    do
      fmul.add y, t, t
    ->                              the text behind the pass, or `-> unchanged`
    fmul.add y, x, x

A line `==` alone begins a further example of the title. `-> NAME max_live=1` names another pass than that of the file, and gives it
arguments; several such lines each run a pass on the text before.

    python tests/compiler/passes/test_passes.py --update

writes the texts anew, those before in the form of the printer. Read each difference before you keep it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from retrograd.compiler import pipeline
from retrograd.compiler.backend.memory_operands import promote_to_registers, select_operands, use_memory_operands
from retrograd.compiler.ir.instruction_selection import code_size
from retrograd.compiler.ir.statements import Block, Call, For, Module
from retrograd.compiler.ir.text import as_text, parse
from retrograd.compiler.ir.traversal import bodies
from retrograd.compiler.passes.check_elimination import eliminate_checks
from retrograd.compiler.passes.common_subexpressions import eliminate_common_subexpressions
from retrograd.compiler.passes.constant_folding import fold_constants
from retrograd.compiler.passes.dead_code import eliminate_dead_code, erase_routines
from retrograd.compiler.passes.forward_substitution import forward_substitute, substitute_erased
from retrograd.compiler.passes.induction_variables import reduce_induction_variables
from retrograd.compiler.passes.inlining import inline_calls, rename_locals
from retrograd.compiler.passes.inverse_pairs import cancel_inverse_pairs, nest_inverse_pairs
from retrograd.compiler.passes.live_range_extension import extend_live_ranges
from retrograd.compiler.passes.loop_unrolling import unroll_loops
from retrograd.compiler.passes.scalar_replacement import replace_arrays_by_scalars
from retrograd.compiler.passes.strength_reduction import reduce_strength

HERE = Path(__file__).parent
WIDTH = 110
PASSES: dict[str, Callable[..., Module]] = {
    run.__name__: run
    for run in (
        cancel_inverse_pairs, eliminate_checks, eliminate_common_subexpressions, eliminate_dead_code, erase_routines,
        extend_live_ranges, fold_constants, forward_substitute, inline_calls, nest_inverse_pairs, promote_to_registers,
        reduce_induction_variables, reduce_strength, rename_locals, replace_arrays_by_scalars, select_operands,
        substitute_erased, unroll_loops, use_memory_operands,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Example:
    """A text before, and what passes make of it: (the line that calls the pass, the text behind)."""

    file: Path
    #: its line `==`, comments, and another line of arguments than the file's
    head: str
    name: str
    declarations: str
    before: str
    after: list[tuple[str, str]]

    @property
    def module(self) -> Module:
        return parse(self.declarations + "".join(self.head.splitlines(True)[1:]) + self.before)

    def run(self, call: str) -> str:
        """The text that the passes of a line `-> NAME … KEY=VALUE … unchanged` make, the last with these arguments."""
        words = [word for word in call.split()[1:] if word != "unchanged"]
        *others, last = [word for word in words if "=" not in word] or [self.file.stem]
        module = self.module
        for name in others:
            module = PASSES[name](module)
        options = {
            key: ast.literal_eval(value) for key, equals, value in (word.partition("=") for word in words) if equals
        }
        return as_text(PASSES[last](module, **options), header=False, width=WIDTH)

    def __str__(self) -> str:
        """The example as the file should have it."""
        before = as_text(self.module, header=False, width=WIDTH)
        parts = [self.head, before]
        for call, _ in self.after:
            got, plain = self.run(call), call.removesuffix(" unchanged")
            parts.append(f"{plain} unchanged\n" if got == before else f"{plain}\n{got}")
        return "".join(parts)


def read(file: Path) -> tuple[str, list[Example]]:
    """The declarations of a file, and its examples."""
    declarations, *texts = ("\n" + file.read_text(encoding="utf-8")).split("\n==")
    examples, title, number = [], "", 1
    for text in texts:
        first, *lines = text.splitlines()
        title, number = (first.strip(), 1) if first else (title, number + 1)
        above = [line for line in lines if line.startswith(("#", "arguments "))]
        body = [line for line in lines if line and line not in above]
        starts = [at for at, line in enumerate(body) if line.startswith("->")]
        ends = [*starts[1:], len(body)]
        after = [(body[a], "".join(f"{line}\n" for line in body[a + 1 : b])) for a, b in zip(starts, ends, strict=True)]
        before = "".join(f"{line}\n" for line in body[: starts[0]])
        head = "".join(f"{line}\n" for line in (f"=={first}", *above))
        examples.append(Example(file, head, f"{file.stem}: {title} {number}", declarations + "\n", before, after))
    return declarations.removeprefix("\n"), examples


def examples() -> Iterator[Example]:
    for file in sorted(HERE.glob("*.ir")):
        yield from read(file)[1]


@pytest.mark.parametrize("example", [*examples()], ids=lambda example: example.name)
def test_a_pass_makes_the_text_behind(example: Example) -> None:
    before = as_text(example.module, header=False, width=WIDTH)
    for call, expected in example.after:
        assert example.run(call) == (before if call.endswith(" unchanged") else expected), call


def test_the_examples_are_written_as_the_printer_writes() -> None:
    for example in examples():
        assert as_text(example.module, header=False, width=WIDTH) == example.before, example.name


# ---------------------------------------------------------------- sizes, which no example shows


def entry_of(run: Callable[[Module], Module], text: str) -> Block:
    """What a pass makes of the entry of a text."""
    return run(parse(text)).entry


LARGE = "free x: fixed, y: fixed\nprocedure f(p: fixed) changes p\n" + "  neg p\n" * 50


def test_a_large_procedure_is_inlined_where_it_is_called_once_and_only_once() -> None:
    assert code_size(entry_of(inline_calls, LARGE + "call f(x)")) == 50
    assert code_size(entry_of(inline_calls, LARGE + "call f(x); call f(y)")) == 2 * code_size((Call("f", ()),))
    # What is computed is uncomputed: that makes two.
    computed = parse(LARGE + "within\n  call f(x)\ndo")
    assert code_size(inline_calls(computed).entry) == 100
    assert code_size(inline_calls(computed, largest_twice=40).entry) == 2


def test_no_large_body_is_inlined_into_a_recursive_procedure() -> None:
    module = parse(LARGE + "procedure again(q: fixed) changes q recursive\n  call f(q); call again(q)\ncall again(x)")
    assert inline_calls(module).procedures["again"] == module.procedures["again"]


def test_inlining_is_not_exponential() -> None:
    chain = [f"procedure f{at + 1}(p: fixed) changes p\n  call f{at}(p); call f{at}(p)\n" for at in range(29)]
    got = inline_calls(
        parse("free x: fixed\nprocedure f0(p: fixed) changes p\n  neg p\n" + "".join(chain) + "call f29(x)")
    )
    assert sum(map(code_size, bodies(got))) < 2000


def unrolls(loop: str, *body: str) -> bool:
    module = parse("free n: int, k: int\n" + LOOKED_UP + loop + "\n" + "".join(f"  {line}\n" for line in body))
    return unroll_loops(module).entry != module.entry


LOOKED_UP = "region table[9] at 20\n  words 0, 1, 2, 3, 4, 5, 6, 7, 8\nregion other[9] at 40\n"


def test_long_loops_are_not_unrolled() -> None:
    assert not unrolls("for i: int in range(0, 13)", "mov.add n, i")
    assert not unrolls("for i: int in range(0, 3)", *["mov.add n, k"] * 60)
    assert not unrolls("for i: int in range(0, k)", "mov.add n, i")


@pytest.mark.parametrize("passes", [8, 9, 12, 13])
@pytest.mark.parametrize(("others", "share"), [(0, 0.75), (8, 0.27), (9, 0.25), (10, 0.23)])
def test_unrolling_weighs_the_instructions_that_vanish(passes: int, others: int, share: float) -> None:
    """Of the three instructions that control a loop and the others of a pass, at least a quarter, for more than eight passes."""
    got = unrolls(f"for i: int in range(0, {passes})", "mov.add n, i", *["mov.add n, k"] * others)
    assert got == (passes == 8 or (passes <= 12 and round(3 / (4 + others), 2) >= 0.25))
    assert round(3 / (4 + others), 2) == pytest.approx(share, abs=0.021)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if i = 4\n  fi i = 4", True),
        ("within\n    local t: int; mul.add t, i, i\n  do\n    mov.add n, t", True),
        ("within\n    local t: int; ld.add t, table[i]\n  do\n    mov.add n, t", True),
        ("within\n    local t: int; ld.add t, other[i]\n  do\n    mov.add n, t", False),
        ("", False),
    ],
)
def test_unrolling_counts_what_becomes_constant(body: str, expected: bool) -> None:
    """A test, an integer that depends on the variable only, and a load from a constant array. Another load does not count."""
    assert unrolls("for i: int in range(0, 9)", body, *["mov.add n, k"] * 12) == expected


def test_unrolling_keeps_inner_loops_and_calls() -> None:
    """A loop and a call stay in each pass: their control makes the share of the instructions that vanish smaller."""
    procedure = "procedure f(p: int) changes p\n  neg p\n"

    def unrolled(body: str, others: int) -> bool:
        loop = "\n".join(["for i: int in range(0, 9)", f"  {body}", *["  mov.add n, k"] * others])
        module = parse(f"free n: int, k: int\n{procedure}{loop}")
        return unroll_loops(module).entry != module.entry

    inner = "while n = k\n    mov.add n, k\n  again n = 0", "for j: int in range(0, k)\n    mov.add n, k"
    for body, kept in (*((loop, 4) for loop in inner), ("call f(n)", 1)):
        # The control of the loop itself vanishes: three instructions, a quarter of twelve.
        assert unrolled(body, 9 - kept), body
        assert not unrolled(body, 10 - kept), body


def test_unrolling_is_bounded() -> None:
    loop = "for i: int in range(0, 10)\n" + "  mov.add n, i\n" * 4
    got = entry_of(unroll_loops, "free n: int\n" + loop * 100)
    # Each adds nine times four instructions to the 2000 that a program may grow by.
    assert sum(isinstance(node, For) for node in got) == 100 - 2000 // 36


# ---------------------------------------------------------------- the pipeline


def test_the_pipeline_shows_each_step() -> None:
    seen: list[str] = []
    square = "procedure f(p: fixed, q: fixed) changes p\n  within\n    local m: fixed; fmul.add m, q, q\n  do\n    fmov.add p, m\n"
    module = parse("free x: fixed, y: fixed\n" + square + "call f(x, y)")
    got = pipeline.optimise(module, observe=lambda name, _: seen.append(name))
    assert seen == [name for name, _ in pipeline.PASSES]
    assert as_text(got, header=False) == "fmul.add x, y, y\n"
    assert pipeline.optimise(module, 0) is module
    with pytest.raises(ValueError, match="no level 7"):
        pipeline.optimise(module, 7)


def update() -> None:
    """Write all files anew."""
    for file in sorted(HERE.glob("*.ir")):
        declarations, found = read(file)
        file.write_text("\n".join([declarations, *map(str, found)]), encoding="utf-8")


if __name__ == "__main__" and "--update" in sys.argv:
    update()
