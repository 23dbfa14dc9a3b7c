"""Random programs of the language: compiled, they do what an independent model of the language says, and undo it.

A failure names its seed and shows the program; `generate(seed)` of random_programs/generate.py makes it again, and
`shrink` of random_programs/shrink.py makes it smaller.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from types import ModuleType

import pytest
from retrograd.simulator.semantics import Fault
from support.random_programs import checks, generate

#: formats are narrow here, and numbers lose their bits on purpose
pytestmark = pytest.mark.filterwarnings("ignore::retrograd.PrecisionWarning")

#: programs in the default tier, in which every construct stands
QUICK = 160
#: programs in the full tier, in pieces that can run side by side
SLOW, SHARD = 10_000, 100


def examine(seed: int, interpreter: ModuleType) -> list[str]:
    """All properties of one program, on random arguments each way: how the runs went."""
    case = generate.generate(seed)
    rng = random.Random(case.seed)
    try:
        forward = checks.check(case, checks.arguments(case, rng), interpreter.interpret, Fault, rng)
        backward = checks.check_backward(case, checks.arguments(case, rng))
    except Exception as error:
        error.add_note(f"program: generate({seed}), {case.format}\n\n{case.source}")
        raise
    finally:
        case.release()
    return [forward, backward]


@pytest.mark.parametrize("seed", range(QUICK), ids=lambda seed: f"seed{seed}")
def test_programs_do_as_the_model_says(seed: int, interpreter: ModuleType) -> None:
    examine(seed, interpreter)


@pytest.mark.long
@pytest.mark.parametrize(
    "first", range(QUICK, QUICK + SLOW, SHARD), ids=lambda first: f"seeds{first}to{first + SHARD - 1}"
)
def test_more_programs_do_as_the_model_says(first: int, interpreter: ModuleType) -> None:
    went: Counter[str] = Counter()
    failures: list[Exception] = []
    for seed in range(first, first + SHARD):
        try:
            went.update(examine(seed, interpreter))
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {SHARD} programs", failures)
    # Runs that say little are few.
    assert went["wild"] + went["trapped"] <= SHARD // 5, went


#: what the generator must write somewhere
CONSTRUCTS = (
    "while (", "if (", "elif ", "else:", "with rg.routine()", "    ~r", "del ", "assert ", "rg.free(", "rg.zeros(",
    "rg.zeros_like(", "rg.stack(", "rg.push(", "rg.pop(", "rg.rot(", "rg.irot(", "rg.neg(", "rg.flip(", "rg.cswap(",
    "rg.rol(", "rg.ror(", "rg.swap(", ".each(", "rg.sum(", "rg.mean(", "rg.select(", "rg.floor(", "rg.sqrt(", "rg.exp(",
    "rg.log(", "rg.sin(", "rg.cos(", "rg.atan2(", "rg.atan(", "lognum(", "fixed(", "min(", "max(", "abs(", "len(",
    " // ", " % ", " & ", " | ", " ^ ", " << ", " >> ", " ** ", " and ", " or ", "not ", "enumerate(", "zip(", ".T",
    "reversed(", "::-1", "@rg.struct", ".act(", "rg.Stack[", "Array[bool", "Array[lognum", "Array[P", "    ~f", "~g(",
    "    ~q", "C[", "in reversed(range(", "zip(range(", ") ** ((", "** (-", "u0: ", " @ ", "rg.top(", "len(st",
    "rg.repeat(", "rg.view(-", "rg.view(~", "rg.view(not ", "*xs: int", ", *a", "xs[1:]", "p1(-", "[: (", " :])", "(len(w",
    "complex(", ".conjugate()", ".imag ", "rg.unchecked()", "insert(", "remove(", "D(a", ".adjoint", "rg.tanh(", "rg.hypot(",
    " * 3e-7", " / 4e-5", "import dot", "*xs: fixed", "*xs[1:]", "rg.view(-a", "rg.view(~a", "w1 = a", "+ 1] += t", "rg.cosh(",
)  # fmt: skip
STATEMENTS = ("AugAssign", "AnnAssign", "Assert", "Assign", "Delete", "For", "If", "IfExp", "While", "With")


def test_the_programs_are_varied() -> None:
    """Every construct stands in some program of the default tier or the first of the full one, and so does every kind of statement."""
    sources = [generate.generate(seed).source for seed in range(2 * QUICK)]
    kinds = {type(node).__name__ for source in sources for node in ast.walk(ast.parse(source))}
    text = "".join(sources)
    assert [c for c in CONSTRUCTS if c not in text] == []
    assert set(STATEMENTS) - kinds == set()


def test_a_seed_gives_one_program() -> None:
    assert generate.generate(7).source == generate.generate(7).source
