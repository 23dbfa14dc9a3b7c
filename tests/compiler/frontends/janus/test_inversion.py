"""`retrograd invert`: the inverse of the inverse is the program, its text parses to its tree, and it runs back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.parser import read
from retrograd.compiler.frontends.janus.syntax import inverted, program_text
from retrograd.isa.diagnostics import CompileError

from retrograd.cli.main import main
from retrograd.runtime._reversible import JanusFunction, run

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no procedure")

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "programs.json").read_text())


def trees() -> list[syntax.Program]:
    out = []
    for case in CASES:
        try:
            out.append(read(case["text"], case["program"], case.get("dialect")))
        except CompileError:
            assert "error" in case
    return out


def test_the_inverse_of_the_inverse_is_the_program() -> None:
    found = trees()
    assert len(found) > 100
    changed = 0
    for tree in found:
        for main_too in (False, True):
            inverse = inverted(tree, main_too)
            assert inverted(inverse, main_too) == tree
            changed += inverse != tree
            assert read(program_text(inverse), "x", tree.dialect) == inverse
        assert read(program_text(tree), "x", tree.dialect) == tree
    assert changed > 120


def test_the_inverse_runs_from_the_final_store_to_the_first() -> None:
    count = 0
    for case in CASES:
        if "store" not in case or case["stdout"]:
            continue
        tree = read(case["text"], case["program"], case.get("dialect"))
        entry = tree.entry(case.get("entry", "main"))
        assert entry is not None
        if any(d.initial is not None or d.type == "stack" for d in entry.declarations):
            continue
        name = case.get("entry", "main")
        final = run(JanusFunction(tree, name, "64,0")).values
        back = run(JanusFunction(inverted(tree), name, "64,0"), *final).values
        assert not any(v.any() if hasattr(v, "any") else v for v in back), case["program"]
        count += 1
    assert count > 8


#: texts that only a careful printer keeps
HARD = r"""procedure f(int a[], u8 b, stack s, int m[2][3])
    a[(1 - 2) - 3] += 1 - (2 - 3) * (4 + 5) ** 2
    b ^= (u8) (a[0] + 1) & (u8) 3
    if !(a[0] = 1 && true) || empty(s) then print("a \"quoted\" \\ line\n\ttab") fi top(s) > -1
    from a[1] = 0 do skip loop m[1][2] += ~a[0] until a[1] = size(a)
    iterate int i = 10 by -3 to 1
        constant int c = i * 2
        ancilla int d = 0, int e[2]
        a[0] += c
    end
    iterate int i = 0 by 1 to a[0]
        local int t = 0, stack u = nil, int v[2] = {1, 2}
        push(a[0], u)
        delocal int t = 0, stack u = nil, int v[2] = {1, 2}
        constant int last = 3
    end
    constant int x = 1
    show(a, x)
    printf("%d\n", x)
procedure g(int n, int s)
    iterate int i = 0 by n to 3 * s
    end
    iterate int i = 0 by 0 - n to 3
    end
    uncall g(n, s + 1)
    error("never")
    assert n = 0
"""


def test_texts_that_are_hard_to_print() -> None:
    tree = read(HARD, "hard")
    assert read(program_text(tree), "hard") == tree
    inverse = inverted(tree)
    assert inverted(inverse) == tree
    assert read(program_text(inverse), "hard") == inverse


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fib.ja"
    file.write_text(
        "procedure main()\n    int n\n    int x\n    call f(n, x)\n    n += 1\nprocedure f(int n, int x)\n    x += n\n    n -= 3\n"
    )
    assert main(["invert", str(file)]) == 0
    inverse = capsys.readouterr().out
    assert inverse == (
        "procedure main()\n    int n\n    int x\n\n    n -= 1\n    call f(n, x)\n\nprocedure f(int n, int x)\n    n += 3\n    x -= n\n"
    )
    assert main(["invert", str(file), "--jana"]) == 0
    assert "    call f(n, x)\n    n += 1\n\n" in capsys.readouterr().out
    out = tmp_path / "back.ja"
    assert main(["invert", str(file), "-o", str(out)]) == 0
    assert out.read_text() == inverse
    assert main(["invert", str(out), "-o", str(out)]) == 2
    assert out.read_text() == inverse
    assert main(["run", str(out), "n=-2", "x=0"]) == 0
    assert "n = 0\nx = 0" in capsys.readouterr().out
