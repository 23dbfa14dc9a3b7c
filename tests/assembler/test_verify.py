"""The verifier: each fault by itself, the inverse program, and what is allowed."""

from __future__ import annotations

import random

import pytest
from retrograd.assembler.verify import findings
from retrograd.isa.diagnostics import KINDS, Diagnostic
from retrograd.isa.program import SourceMap

import retrograd as rg


def loose(text: str) -> rg.Program:
    return rg.assemble(text, check=False)


def found(text: str, strict: bool = False) -> list[Diagnostic]:
    return findings(loose(text), strict=strict)


#: (name, text, code, line of the first finding, part of its message)
FAULTS: list[tuple[str, str, str, int | None, str]] = [
    ("a jump on no branch", "start\ngoto.eq r1, r2, x\nadd r1, 1\nx: add r1, 1\nfinish",
     "RG0201", 2, "the other end is `imm.add r1, 1`, not a `from`"),
    ("a comefrom from no branch", "start\nx: add r1, 1\nfrom.eq r1, r2, x\nfinish", "RG0201", 3, "not a `goto`"),
    ("a jump on a jump", "start\na: goto.eq r1, r2, b\nb: goto.eq r1, r2, a\nfinish", "RG0201", 2, "not a `from`"),
    ("two comefroms", "start\na: from.eq r1, r2, b\nb: from.eq r1, r2, a\nfinish", "RG0201", 2, "not a `goto`"),
    ("a jump to itself", "start\na: goto.eq r1, r2, a\nfinish", "RG0201", 2, "not a `from`"),
    ("a jump on a call", "start\na: goto.eq r1, r2, b\nb: call f\nfinish\nproc f, r1\nendproc", "RG0201", 2, "`call"),
    ("another source", "start\na: goto.eq r1, r2, x\nb: goto.eq r1, r2, x\nx: from.eq r1, r2, a\nfinish",
     "RG0202", 3, "names <text>:2, not this"),
    ("another target", "start\na: goto.eq r1, r2, x\nx: from.eq r1, r2, a\ny: from.eq r1, r2, a\nfinish",
     "RG0202", 4, "names <text>:3, not this"),
    ("a later source", "start\na: goto.eq r1, r2, x\nb: goto.eq r1, r2, x\nx: from.eq r1, r2, b\nfinish",
     "RG0202", 2, "names <text>:3, not this"),
    ("a later target", "start\nx: from.eq r1, r2, a\ny: from.eq r1, r2, a\na: goto.eq r1, r2, y\nfinish",
     "RG0202", 2, "the `goto` at <text>:4 names <text>:3, not this"),
    ("past the end", "start\ngoto.eq r1, r2, .+9\nfinish", "RG0203", 2, "reaches address 10, outside the code of 3"),
    ("before the beginning", "start\ngoto.eq r1, r2, .-2\nfinish", "RG0203", 2, "reaches address -1"),
    ("on the end", "start\ngoto.eq r1, r2, end\nfinish\nend:", "RG0203", 2, "reaches address 3"),
    ("a call past the end", "start\ncall .+5\nfinish", "RG0203", 2, "`call .+5` reaches address 6"),
    ("an uncall before", "start\nuncall .-5\nfinish", "RG0203", 2, "`uncall .-5` reaches address -4"),
    ("no start", "from .+1\ngoto .-1", "RG0204", 1, "the program has no `start`"),
    ("two starts", "start\nfinish\nstart\nfinish", "RG0204", 3, "a second `start`; the first is at <text>:1"),
    ("no finish", "start\ngoto x\nx: from .-1\n", "RG0205", 1, "the program has no `finish`"),
    ("two finishes", "start\nfinish\nstart\nfinish", "RG0205", 4, "a second `finish`; the first is at <text>:2"),
    ("nothing at all", "", "RG0204", 1, "no `start`"),
    ("off the end", "start\nfinish\nfrom .+2\nadd r1, 1\ngoto .-2\nadd r1, 1", "RG0206", 6, "runs off the end"),
    ("off the beginning", "add r1, 1\ngoto .+1\nfrom .-1\nfinish\nstart\nfinish",
     "RG0206", 1, "running backward from `imm.add r1, 1` control backs off the beginning"),
    ("into a start", "finish\nfrom .+1\ngoto .-1\nfrom .+2\nadd r1, 1\nstart\ngoto .-2\n", "RG0206", 5,
     "after `imm.add r1, 1` control falls into `start`"),
    ("into an unconditional comefrom", "start\nadd r1, 1\na: from b\nb: goto a\nfrom .+1\nfinish",
     "RG0206", 2, "after `imm.add r1, 1` control falls into `from"),
    ("after an unconditional jump", "start\na: goto b\nadd r1, 1\nb: from.eq r1, r2, a\nfinish",
     "RG0206", 3, "control backs into `goto"),
    ("after a finish", "start\nfinish\nadd r1, 1", "RG0206", 3, "control backs into `finish`"),
    ("a call of what is none", "start\ncall x\nx: add r1, 1\nfinish", "RG0207", 2,
     "`call` reaches `imm.add r1, 1`, not a `swapbr`"),
    ("an uncall of what is none", "start\nuncall x\nx: neg r1\nfinish", "RG0207", 2, "`uncall` reaches `neg r1`"),
    ("a shift of more places than a product has", "start\nfmulp.add r1, r2, r3, 128\nfinish", "RG0212", 2, "it takes 0 to 127"),
    ("a swapbr by itself", "start\nswapbr r1\nfinish", "RG0208", 2, "no unconditional `from` and `goto` enclose"),
    ("a swapbr in a conditional pair", "start\na: from.eq r1, r2, b\nswapbr r3\nneg r3\nb: goto.eq r1, r2, a\nfinish",
     "RG0208", 3, "no unconditional"),
    ("no neg", "start\nfinish\na: from b\nswapbr r1\nadd r2, 1\nb: goto a", "RG0208", 4, "not one `neg r1`"),
    ("neg on both sides", "start\nfinish\na: from b\nneg r1\nswapbr r1\nneg r1\nb: goto a", "RG0208", 5, "not one `neg r1`"),
    ("neg of another", "start\nfinish\na: from b\nswapbr r1\nneg r2\nb: goto a", "RG0208", 4, "not one `neg r1`"),
    ("a jump out", "start\na: from.eq r1, r2, x\nfinish\nproc f, r3\nx: goto.eq r1, r2, a\nendproc",
     "RG0209", 2, "crosses the border of a subroutine"),
    ("a jump in", "start\na: goto.eq r1, r2, x\nfinish\nproc f, r3\nx: from.eq r1, r2, a\nendproc",
     "RG0209", 2, "crosses the border"),
    ("two entries", "start\nfinish\na: from b\nswapbr r1\nneg r1\nswapbr r2\nneg r2\nb: goto a",
     "RG0209", 6, "overlaps another"),
    ("never called", "start\nfinish\nproc f, r1\nadd r2, 1\nendproc", "RG0210", 3, "5 instructions from here"),
    ("a closed ring", "start\nfinish\na: from b\nb: goto a", "RG0210", 3, "2 instructions from here cannot be reached"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "line", "message"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_each_fault(text: str, code: str, line: int | None, message: str) -> None:
    program = loose(text)
    those = [d for d in findings(program) if d.code == code]
    assert those, [d.message for d in findings(program)]
    first = next((d for d in those if message in d.message), None)
    assert first is not None, [d.message for d in those]
    assert (None if first.span is None else first.span.line) == line
    if code in ("RG0204", "RG0205") and "has no" in first.message:
        assert first.line is None  # said of the file, not of its first line
    elif line is not None:
        assert first.line == text.split("\n")[line - 1]
    if code == "RG0210":
        assert first.severity == "warning"
        assert rg.verify(program) == those
    else:
        with pytest.raises(rg.VerificationError, match=code):
            rg.verify(program)
        with pytest.raises(rg.VerificationError, match=code):
            rg.assemble(text)


def test_the_simplest_of_each_has_no_other_fault() -> None:
    # Not the number of starts: they and the finishes are as many, where nothing else is wrong.
    alone = {"RG0201", "RG0202", "RG0203", "RG0206", "RG0207", "RG0208", "RG0209", "RG0210"}
    for _, text, code, _, _ in FAULTS:
        if {d.code for d in found(text)} == {code}:
            alone.discard(code)
    assert alone == set()


def test_erase_in_a_strict_program() -> None:
    text = "start\nadd r1, 1\nerase r1\nerase r2\nfinish"
    assert found(text) == []
    strict = found(text, strict=True)
    assert [(d.code, d.span.line, d.message) for d in strict if d.span] == [
        ("RG0211", 3, "`erase r1` erases 64 bits"), ("RG0211", 4, "`erase r2` erases 64 bits"),
    ]  # fmt: skip
    with pytest.raises(rg.VerificationError, match="RG0211"):
        rg.verify(loose(text), strict=True)
    assert rg.verify(loose("start\nadd r1, 1\nfinish"), strict=True) == []


def test_every_code_is_provoked() -> None:
    assert {f[2] for f in FAULTS} | {"RG0211"} == {code for code in KINDS if code.startswith("RG02")}


def test_all_faults_are_reported_together() -> None:
    text = "start\ngoto.eq r1, r2, .+50\ngoto.eq r1, r2, .+1\nadd r1, 1\ncall .-1\nfinish\nadd r1, 1"
    assert [(d.code, d.span.line) for d in found(text) if d.span] == [
        ("RG0203", 2), ("RG0201", 3), ("RG0207", 5), ("RG0206", 7), ("RG0206", 7),
    ]  # fmt: skip
    with pytest.raises(rg.VerificationError) as caught:
        rg.verify(loose(text))
    assert len(caught.value.diagnostics) == 5


def test_an_illegal_word_is_reported() -> None:
    with pytest.raises(rg.VerificationError, match="RG0306"):
        rg.verify(rg.Program([0]))


def test_without_a_source_the_address_is_named() -> None:
    program = loose("start\nswapbr r1\nfinish")
    bare = rg.Program(program.code, source=SourceMap())
    (one,) = findings(bare)
    assert one.span is None
    assert one.message.endswith("(at address 1)")


# ------------------------------------------------------------ what is allowed


GOOD = {
    "nothing": "start\nfinish",
    "straight": "start\nadd r1, 1\nmul.add r2, r1, r1\nfinish",
    "if": "start\na: goto.eq r1, r2, b\nadd r3, 1\nb: from.eq r1, r2, a\nfinish",
    "if, joined by another condition": "start\na: goto.eq r1, r2, b\nadd r3, 1\nb: from.ne r5, r6, a\nfinish",
    "if with else": "start\na: goto.eq r1, r2, t\nadd r3, 1\nb: goto j\nt: from a\nsub r3, 1\nj: from.ne r1, r2, b\nfinish",
    "loop": "start\nt: from.ne r1, r0, b\nadd r1, 1\nb: goto.ne r1, r3, t\nfinish",
    "loop left in the middle":
        "start\nt: from.ne r1, r0, b\nx: goto.eq r1, r2, e\nadd r1, 1\nb: goto t\ne: from x\nfinish",
    "jumps in a row": "start\na: goto c\nb: from e\nd: goto f\nc: from a\ne: goto b\nf: from d\nfinish",
    "subroutine": "start\ncall f\nuncall f\nfinish\nproc f, r1\nadd r2, 1\nendproc",
    "subroutine before": "proc f, r1\nadd r2, 1\nendproc\nstart\ncall f\nfinish",
    "subroutine with a stack": "start\ncall f\nfinish\nproc f, r1, r9\nadd r2, 1\nendproc",
    "subroutine with branches":
        "start\ncall f\nfinish\nproc f, r1\nt: from.ne r2, r0, b\nadd r2, 1\nb: goto.ne r2, r3, t\nendproc",
    "recursion":
        "start\ncall f\nfinish\nproc f, r1, r9\na: goto.eq r2, r0, b\nsub r2, 1\ncall f\nadd r2, 1\n"
        "b: from.eq r2, r0, a\nendproc",
    "two subroutines": "proc f, r1\nadd r2, 1\nendproc\nproc g, r4\ncall f\nendproc\nstart\ncall g\ncall f\nfinish",
    "a branch on equal registers": "start\na: goto.eq r1, r1, b\nadd r3, 1\nb: from.eq r1, r1, a\nfinish",
    "erase": "start\nerase r1\nfinish",
    "finish before start":
        "proc f, r1\nadd r2, 1\nendproc\nfrom .+5\nfinish\nstart\ncall f\nadd r1, 1\ngoto .-5",
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_good_program_passes(name: str) -> None:
    assert found(GOOD[name]) == []


@pytest.mark.parametrize("name", GOOD)
def test_the_inverse_of_a_good_program_passes(name: str) -> None:
    assert findings(~loose(GOOD[name])) == []


@pytest.mark.parametrize("name", [n for n in GOOD if "recursion" not in n and "another condition" not in n])
def test_a_good_program_runs_and_comes_back(name: str) -> None:
    program = rg.assemble(GOOD[name], check=True)
    machine = rg.Machine(program, memory=8)
    machine.registers[3] = 3
    initial = machine.state()
    assert machine.run(1000).stop is rg.Stop.HALTED
    if name != "erase":
        machine.run_back()
        assert machine.state() == initial


def test_of_two_labels_at_one_address_the_first_is_named() -> None:
    (fault, *_) = found("start\nadd r1, 1\ngoto end\nfinish\nend:\nlast:")
    assert fault.message == "`goto end` reaches address 4, outside the code of 4 instructions"
    (fault, *_) = found("start\nlast:\nend: uncall end\ngoto last\nfinish")
    assert fault.message == "`uncall` reaches `uncall last`, not a `swapbr`"


def test_a_subroutine_written_the_mirror_way() -> None:
    # The inverse of a subroutine: `neg` before the `swapbr`, and what was popped is pushed.
    text = "start\ncall f\nfinish\na: from b\nsub r2, 1\nneg r1\nf: swapbr r1\nb: goto a"
    program = loose(text)
    machine = rg.Machine(program)
    assert machine.run(100).stop is rg.Stop.HALTED
    assert machine.registers[2] == (1 << 64) - 1
    assert findings(program) == []
    assert findings(~program) == []


@pytest.mark.parametrize("width", [4, 8, 16])
def test_a_jump_longer_than_a_word(width: int) -> None:
    # BR is a word of W bits: a longer distance wraps, and the jump goes astray.
    size = 1 << width - 1
    text = f".format {width}, 2\nstart\na: goto.eq r1, r2, b\n" + "add r3, 1\n" * size + "b: from.eq r1, r2, a\nfinish"
    with pytest.raises(rg.RetrogradError):
        rg.assemble(text)
    # One instruction fewer, and it is as long as it may be.
    rg.assemble(text.replace("add r3, 1\n", "", 2))


def test_a_large_program_is_verified_at_once() -> None:
    # Many subroutines, and many branches nested in one another: what is quadratic would not end.
    calls = "".join(f"call f{k}\n" for k in range(3000))
    bodies = "".join(f"proc f{k}, r1\nadd r2, 1\nendproc\n" for k in range(3000))
    assert found(f"start\n{calls}finish\n{bodies}") == []
    opened = "".join(f"a{k}: goto.eq r1, r2, b{k}\n" for k in range(3000))
    closed = "".join(f"b{k}: from.eq r1, r2, a{k}\n" for k in reversed(range(3000)))
    assert found(f"start\n{opened}{closed}finish") == []


def blocks(rng: random.Random) -> str:
    """Subroutines, called and not, loops without an exit, and code that is jumped over, in any order."""
    before, after = ["start"], ["finish"]
    for k in range(rng.randint(1, 7)):
        skipped = [
            f"a{k}: goto b{k}",
            rng.choice(("neg r3", f"x{k}: from y{k}\nneg r4\ny{k}: goto x{k}", "")),
            f"b{k}: from a{k}",
        ]
        calls = rng.choice(("neg r1", f"call p{rng.randrange(7)}", f"uncall p{rng.randrange(7)}"))
        subroutine = [f"proc p{k}, r9", calls, "endproc"]
        match rng.randrange(4):
            case 0:
                before += skipped
            case 1:
                before += [skipped[0], *subroutine, skipped[2]]
            case 2:
                after += subroutine
            case 3:
                before.append(calls)
    return "\n".join(line for line in before + after if line)


def flooded(program: rg.Program) -> list[int]:
    """The first instruction of each stretch that is not reached: instruction by instruction, up, down and along branches."""
    code = program.instructions
    reached: set[int] = set()
    work = [program.start, program.finish]
    while work:
        pc = work.pop()
        if pc not in reached:
            reached.add(pc)
            name = code[pc].opcode.name
            work += [pc + 1] * (name not in ("goto", "finish")) + [pc - 1] * (name not in ("from", "start"))
            if "target" in code[pc].opcode.operands:
                work.append(pc + code[pc].opcode.distance(code[pc].imm))
    return [pc for pc in range(len(code)) if pc not in reached and (pc == 0 or pc - 1 in reached)]


def test_unreachable_stretches_are_those_that_a_search_leaves() -> None:
    good = warned = 0
    for seed in range(800):
        try:
            program = loose(blocks(random.Random(seed)))
        except rg.AssemblyError:
            continue
        diagnostics = findings(program)
        if any(d.severity == "error" for d in diagnostics):
            continue
        lines = [d.span.line for d in diagnostics if d.span is not None]
        expected = [program.source.span(pc) for pc in flooded(program)]
        assert lines == [span.line for span in expected if span is not None]
        good, warned = good + 1, warned + bool(lines)
    assert good > 120
    assert warned > 50
