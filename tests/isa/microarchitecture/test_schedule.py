"""Schedules are valid by rules written down here a second time, and compute what the trees say: for the whole table, and for any trees."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from retrograd.isa.effects import UPDATE_OPERATORS
from retrograd.isa.entries import Opcode, a, b, d, imm
from retrograd.isa.expr import (
    OPERATIONS,
    ZERO,
    Expr,
    apply_operation,
    const,
    div_shift,
    inputs,
    look_up,
    mul_shift,
    nodes,
    place,
    rotate_left,
    select,
    sqrt_round,
)
from retrograd.isa.microarchitecture.micro_operations import (
    CORES,
    DEFAULT_UNITS,
    FUSED,
    TEMPORARIES,
    Flag,
    GuardCheck,
    Input,
    Literal,
    MicroOperation,
    Passing,
    Schedule,
    Temporary,
    Unit,
    Units,
    execute,
    unit_of,
)
from retrograd.isa.microarchitecture.schedule import schedule, trees
from retrograd.isa.table import TABLE
from retrograd.isa.words import WIDTHS, Format

OPCODES = list(TABLE)
FORMATS = [Format(64, 32), Format(32, 16), Format(8, 4)]
#: D, and whether ra and rb are one register
MODES = [(False, False), (True, False), (True, True)]
#: what the hardware has room for
Q = Format(32, 16)
FAST = CORES["fast"]


# ---------------------------------------------------------------- what makes a schedule valid


def violations(s: Schedule, w: Format, units: Units = DEFAULT_UNITS) -> list[str]:
    """What the schedule does that slots, each with a set of units and one port for results, cannot."""
    slots = {m.slot for m in s.operations} | {*range(len(units.slots))}
    found = [
        x
        for k in slots
        for x in _of_units(replace(s, operations=tuple(m for m in s.operations if m.slot == k)), w, units)
    ]
    return [*found, *_of_slots(s, units), *_of_temporaries(s)]


def _of_slots(s: Schedule, units: Units) -> Iterator[str]:
    for m in s.operations:
        if m.slot >= len(units.slots) or m.unit not in units.slots[m.slot]:
            yield f"slot {m.slot} has no {m.unit.value}"
        if m.operation in units.lacking(m.slot):
            yield f"slot {m.slot} lacks {m.operation}"
        if any(r.register // TEMPORARIES != m.slot for r in m.results if r.register is not None):
            yield f"slot {m.slot} writes temporaries of another"
    computed = Counter(r.node for m in s.operations for r in m.results)
    yield from (f"a node ({node.op}) is computed {n} times" for node, n in computed.items() if n > 1)
    for check in s.checks:
        at, slot = check.cycle, check.predicate.slot if isinstance(check.predicate, Flag) else None
        if isinstance(check.predicate, Flag) and check.predicate.unit:
            own = [m for m in s.operations if m.slot == slot and m.unit in (Unit.MULTIPLIER, Unit.DIVIDER)]
            if not any(r.ready == at for m in own for r in m.results):
                yield f"no product or quotient has its flag in cycle {at}"
        elif slot is not None:
            issued = [m.operation for m in s.operations if (m.cycle, m.slot) == (at - 1, slot)]
            if len([operation for operation in issued if operation in ("add", "sub")]) != 1:
                yield f"no sum has its flag in cycle {at}"
    for m in s.operations:
        if Passing() in m.operands:
            passed = [r for o in s.operations if o.slot == m.slot and o.unit is Unit.MULTIPLIER for r in o.results]
            if [r.ready for r in passed if r.register is None].count(m.cycle + 1) != 1:
                yield f"no product is passed in cycle {m.cycle}"
            if m.operands[1:] != (Passing(),) or not units.chained:
                yield f"a product is passed to the wrong operand in cycle {m.cycle}"


def _of_units(s: Schedule, w: Format, units: Units) -> Iterator[str]:
    issued = [m for m in s.operations if Passing() not in m.operands]
    for earlier, later in pairwise(issued):
        if later.cycle <= earlier.cycle:
            yield f"two issues in cycle {later.cycle}, or out of order"
    # A chained sum has the third operand, and an operation of the multiplier or the divider may be issued beside it.
    chained = Counter(m.cycle for m in s.operations if Passing() in m.operands)
    for m in issued:
        if m.cycle in chained and len(m.operands) > 2:
            yield f"a third operand for two operations in cycle {m.cycle}"
    yield from (f"two chained sums in cycle {cycle}" for cycle, n in chained.items() if n > 1)
    for unit in Unit:
        own = [m for m in s.operations if m.unit is unit]
        for earlier, later in pairwise(own):
            if later.cycle < earlier.cycle + earlier.occupied:
                yield f"the {unit.value} is busy in cycle {later.cycle}"
            if unit is not Unit.LOGIC and later.results[0].ready <= earlier.results[-1].ready:
                yield f"words meet in the {unit.value}"
            if unit is Unit.DIVIDER and later.cycle < earlier.results[-1].ready:
                yield f"the divider still holds a quotient in cycle {later.cycle}"
    for m in s.operations:
        if m.unit is not unit_of(m.operation):
            yield f"the {m.unit.value} does not do {m.operation}"
        if m.cycle < 0 or not m.results:
            yield f"an idle operation in cycle {m.cycle}"
        # The divider holds its quotient until all words of it have left; the multiplier lets each pass.
        if m.occupied != (m.results[-1].ready - m.cycle if unit_of(m.operation) is Unit.DIVIDER else len(m.results)):
            yield f"{m.operation} of cycle {m.cycle} does not occupy its unit for {m.occupied} cycles"
        first = m.cycle + _shortest(m, w, units)
        if [r.ready for r in m.results] != [first + k for k in range(len(m.results))]:
            yield f"{m.operation} of cycle {m.cycle} cannot be ready then"
    for cycle, n in Counter(r.ready for m in s.operations for r in m.results if r.register is not None).items():
        if n > 1:
            yield f"{n} results are written for cycle {cycle}"


def _shortest(m: MicroOperation, w: Format, units: Units) -> int:
    """The unit's time, by the docs' formulas."""
    shifts = [r.node.param for r in m.results if isinstance(r.node.param, int)]
    match m.operation:
        case "mulshift" | "mulround":
            return units.multiplier
        case "table":
            return units.rom
        case "divshift" if units.scaled:
            return units.divider + units.scaling - (-(w.width + max(0, *shifts)) // units.scaled)
        case "divround" if units.scaled:
            return units.divider + units.scaling - (-(w.width + shifts[0] % w.width) // units.scaled)
        case "divshift":
            return units.divider - (-(w.width + max(0, *shifts)) // units.digits)
        case "sqrtround":
            return units.divider - (-((w.width + shifts[0] + 1) // 2 + 1) // (units.roots or units.digits))
        case "divround":
            return units.divider - (-(w.width + shifts[0] % w.width + 1) // units.digits)
    return units.logic


def _of_temporaries(s: Schedule) -> Iterator[str]:
    every = (r for m in s.operations for r in m.results if r.register is not None)
    results = sorted(every, key=lambda r: r.ready)
    ends = [r.ready for r in results] or [0]
    if s.length != max(ends):
        yield f"the schedule ends in cycle {s.length}, not when its last result is ready"
    if s.temporaries != max([r.register % TEMPORARIES + 1 for r in results], default=0):
        yield f"it does not use {s.temporaries} temporaries"
    for number in sorted({r.register for r in results}):
        own = [r for r in results if r.register == number]
        for earlier, later in pairwise(own):
            # A word is written in the cycle before it is ready; in that of its last read the register is still taken.
            if later.ready <= earlier.until:
                yield f"t{number} is overwritten in cycle {later.ready - 1} and read in cycle {earlier.until}"

    def reads() -> Iterator[tuple[int, object]]:
        yield from ((m.cycle, source) for m in s.operations for source in m.operands)
        yield from ((check.cycle, check.predicate) for check in s.checks)
        yield from ((s.length, source) for source in s.after.values())

    for cycle, source in reads():
        if isinstance(source, Temporary) and not any(
            r.register == source.number and r.ready <= cycle <= r.until for r in results
        ):
            yield f"t{source.number} is read in cycle {cycle}, where it holds nothing"


# ---------------------------------------------------------------- what it must compute


def values(roots: Sequence[Expr], w: Format, words: Mapping[str, int]) -> list[int]:
    """The words of the trees, each node once: `evaluate` of many roots."""
    known: dict[Expr, int] = {}
    for node in nodes(*roots):
        if node.op == "input":
            known[node] = words[str(node.param)] & w.mask
        else:
            param = 0 if node.param is None or isinstance(node.param, str) else node.param
            known[node] = apply_operation(w, node.op, param, [known[x] for x in node.args])
    return [known[root] for root in roots]


def some_words(names: frozenset[str], w: Format, rng: random.Random) -> dict[str, int]:
    def word() -> int:
        if rng.random() < 0.3:
            return rng.choice((0, 1, w.mask, w.sign, w.sign - 1, 1 << w.frac))
        return w.wrap(w.signed(rng.getrandbits(w.width)) >> rng.randrange(w.width))

    return {name: word() for name in sorted(names)}


# Asserts get its answer, not the call: a failed one would write out its arguments, trees without end.
def agrees(s: Schedule, after: Mapping[str, Expr], guards: Sequence[Expr], w: Format, words: Mapping[str, int]) -> bool:
    found, predicates = execute(s, w, words)
    expected = values([*after.values(), *guards], w, words)
    return [*found] == [*after] and [*found.values(), *predicates] == expected


# ---------------------------------------------------------------- the table


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda o: o.name)
def test_every_schedule_is_valid_and_computes_the_trees(opcode: Opcode) -> None:
    rng = random.Random(opcode.code)
    for w in FORMATS:
        for lifted, same in MODES:
            after, guards = trees(opcode, w, lifted, same)
            s = schedule(after, guards, w)
            assert violations(s, w) == [], (w, lifted, same)
            assert s.temporaries <= TEMPORARIES
            for _ in range(3):
                words = some_words(inputs(*after.values(), *guards), w, rng)
                same_words = agrees(s, after, guards, w, words)
                assert same_words, (w, lifted, same, words)


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda o: o.name)
def test_every_schedule_of_the_fast_core_too(opcode: Opcode) -> None:
    rng, units = random.Random(opcode.code), FAST
    for lifted, same in MODES:
        after, guards = trees(opcode, Q, lifted, same)
        s = schedule(after, guards, Q, units)
        assert violations(s, Q, units) == [], (lifted, same)
        assert s.temporaries <= TEMPORARIES
        words = some_words(inputs(*after.values(), *guards), Q, rng)
        same_words = agrees(s, after, guards, Q, words)
        assert same_words, (lifted, same, words)


@pytest.mark.parametrize("w", [Format(4, 2), Format(8, 3), Format(16, 8)], ids=str)
def test_short_words_too(w: Format) -> None:
    # Formats in which some functions do not exist, and their guards are constants.
    rng = random.Random(w.width)
    for opcode in OPCODES:
        after, guards = trees(opcode, w, True, False)
        s = schedule(after, guards, w)
        assert violations(s, w) == [], opcode
        words = some_words(inputs(*after.values(), *guards), w, rng)
        same_words = agrees(s, after, guards, w, words)
        assert same_words, (opcode, words)


def digest() -> str:
    """All schedules of the table in Q16.16, as text."""
    found = [schedule(*trees(o, Q, lifted, same), Q) for o in OPCODES for lifted, same in MODES]
    return "\n".join(f"{s}\n{s.operations}" for s in found)


_DIGEST = """
import hashlib, importlib.util, sys
spec = importlib.util.spec_from_file_location("schedules", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["schedules"] = module
{first}
spec.loader.exec_module(module)
print(hashlib.sha256(module.digest().encode()).hexdigest())
"""


@pytest.mark.long
def test_the_schedule_is_the_same_in_every_process() -> None:
    # Other hashes of texts, other addresses of nodes, which are the order of sets.
    found = set()
    for seed, first in (("1", ""), ("2", "kept = [object() for _ in range(12345)]")):
        done = subprocess.run(
            [sys.executable, "-c", _DIGEST.format(first=first), __file__],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.add(done.stdout)
    assert len(found) == 1
    assert len(found.pop()) == 65


@pytest.mark.parametrize("name", ["fexp.add", "rot", "irot", "ladd.mul", "fatan2.sub", "fmul.add"])
def test_a_schedule_is_no_longer_than_it_must_be_by_much(name: str) -> None:
    # No schedule is shorter than the longest path, nor than its results; a list schedule is not both bounds together.
    after, guards = trees(TABLE[name], Q, True, False)
    s = schedule(after, guards, Q)
    path: dict[object, int] = {}
    for m in s.operations:
        begun = max((path[r] for r in _read_by(m, s)), default=0)
        path |= {r: begun + r.ready - m.cycle for r in m.results}
    results = sum(len(m.results) for m in s.operations)
    longest = max(path.values())
    assert max(longest, results) <= s.length < longest + results


def _read_by(m: MicroOperation, s: Schedule) -> list[object]:
    numbers = {x.number for x in m.operands if isinstance(x, Temporary)}
    return [r for o in s.operations for r in o.results if r.register in numbers and r.ready <= m.cycle <= r.until]


# ---------------------------------------------------------------- any trees


def some_nodes(x: Expr, y: Expr, z: Expr, w: Format, rng: random.Random) -> list[Expr]:
    """Nodes of one kind over x, y, z; of products and quotients several that share operands."""
    s, few = rng.randint(0, w.width), rng.randint(1, 3)
    match rng.randrange(9):
        case 0:
            return [x + y, x - y][: rng.randint(1, 2)]
        case 1:
            return [rng.choice([x & y, x | y, x ^ y])]
        case 2:
            return [rng.choice([x << y, x.shr(y), x.sar(y), rotate_left(x, y)])]
        case 3:
            return [rng.choice([x.ne(y), x.ge(y), x.geu(y), x.lt(y), x.ltu(y), x.eq(y)])]
        case 4:
            return [fits(w, x, y) for u in UPDATE_OPERATORS.values() if (fits := u.fits) is not None]
        case 5:
            return [select(x, y, z)]
        case 6:
            return [mul_shift(x, y, 2 * s), mul_shift(y, x, s), mul_shift(x, y, 0)][:few]
        case 7:
            return [div_shift(x, y, s), div_shift(x, y, s - w.width), div_shift(y, x, 0)][:few]
    return [sqrt_round(x, s), look_up(x, [rng.getrandbits(w.width) for _ in range(1 << rng.randint(0, 3))])]


def grow(rng: random.Random, w: Format, size: int) -> list[Expr]:
    """Nodes of all kinds over each other, mostly over the last few."""
    grown: list[Expr] = [a, b, d, -imm, imm, ZERO, const(1), const(-5)]
    for _ in range(size):
        x, y, z = (rng.choice(grown[-12:] if rng.random() < 0.7 else grown) for _ in range(3))
        grown += some_nodes(x, y, z, w, rng)
    return grown


@pytest.mark.parametrize("seed", range(40))
def test_any_trees_on_any_units(seed: int) -> None:
    rng = random.Random(seed)
    w = rng.choice([Format(4, 2), Format(8, 3), Format(16, 8), Format(64, 32)])
    every = frozenset(Unit)
    slots = (
        every,
        *(rng.choice((every, every - {Unit.ROM}, frozenset({Unit.LOGIC}))) for _ in range(rng.choice((0, 0, 1, 2, 4)))),
    )
    # A flag takes the cycle of its sum, and a product is passed in a cycle after its issue.
    flags, chained = rng.random() < 0.5, rng.random() < 0.5
    latencies = (1 if flags or chained else rng.randint(1, 3), rng.randint(1 + chained, 5))
    units = Units(*latencies, *(rng.randint(1, most) for most in (3, 4, 3)), slots=slots, flags=flags, chained=chained)
    units = replace(units, roots=rng.choice((None, 1, 3)))
    grown = grow(rng, w, rng.randint(1, 60))
    after = {name: rng.choice(grown) for name in "dam"}
    guards = [rng.choice(grown) for _ in range(rng.randint(0, 5))]
    s = schedule(after, guards, w, units)
    assert violations(s, w, units) == []
    for _ in range(5):
        words = some_words(frozenset({"a", "b", "d", "imm"}), w, rng)
        same_words = agrees(s, after, guards, w, words)
        assert same_words, words


# ---------------------------------------------------------------- sharing


def done_by(*roots: Expr, w: Format = Q) -> list[str]:
    return [m.operation for m in schedule(dict(zip("dabm", roots, strict=False)), (), w).operations]


def test_words_of_one_product_come_from_one_multiplication() -> None:
    x, y = a + d, b
    s = schedule({"d": mul_shift(x, y, 16), "a": mul_shift(y, x, 48), "b": mul_shift(x, y, 0)}, (), Q)
    (m,) = [m for m in s.operations if m.unit is Unit.MULTIPLIER]
    assert {r.node.param for r in m.results} == {0, 16, 48}
    assert s.length == 1 + 3 + 2
    assert done_by(mul_shift(a, a, 3), mul_shift(a, a, 5)) == ["mulshift"]
    assert done_by(mul_shift(a, b, 3), mul_shift(a, d, 3)) == ["mulshift"] * 2


def test_words_of_one_quotient_come_from_one_division() -> None:
    s = schedule({"d": div_shift(a, b, 16), "a": div_shift(a, b, -16)}, (), Q)
    assert [m.unit for m in s.operations] == [Unit.DIVIDER]
    assert s.length == 2 + (32 + 16) // 2 + 1
    # Here the order of operands matters.
    assert done_by(div_shift(a, b, 0), div_shift(b, a, 0)) == ["divshift"] * 2


def test_the_urgent_word_leaves_first() -> None:
    high, low = mul_shift(a, b, 48), mul_shift(a, b, 16)
    (m, *_) = schedule({"d": low, "a": (high + d).shr(3)}, (), Q).operations
    assert [r.node for r in m.results] == [high, low]


def test_subexpressions_are_computed_once_and_what_stands_ready_not_at_all() -> None:
    assert done_by((a + b) ^ (a + b).shr(1), a + b) == ["add", "shr", "xor"]
    assert done_by(a, const(-1), ZERO - imm) == []
    s = schedule({"d": a, "a": const(-1), "b": ZERO - imm}, (const(1), a), Q)
    assert s.after == {"d": Input("a"), "a": Literal(Q.mask), "b": Input("imm", negated=True)}
    assert s.checks == (GuardCheck(Literal(1), 0, 0), GuardCheck(Input("a"), 0, 1))
    assert (s.length, s.temporaries) == (0, 0)
    assert execute(s, Q, {"a": 7, "imm": 1}) == ({"d": 7, "a": Q.mask, "b": Q.mask}, (1, 7))


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (a.ne(b), ["ne"]),
        (a.ge(b), ["ge"]),
        (a.geu(ZERO), ["geu"]),
        ((a + d).ge(0), ["add", "ge"]),
        (a.eq(0), ["eq"]),
        ((a & b).eq(0), ["and", "eq"]),
        (a + b.lt(d).eq(1), ["lt", "eq", "add"]),
    ],
)
def test_comparisons_are_one_operation(tree: Expr, expected: list[str]) -> None:
    assert done_by(tree) == expected


@pytest.mark.parametrize(("update", "name"), [("add", "addfits"), ("sub", "subfits")])
def test_overflow_is_one_operation(update: str, name: str) -> None:
    operator = UPDATE_OPERATORS[update]
    assert operator.fits is not None
    assert done_by(operator.combine(Q, d, a), operator.fits(Q, d, a)) in ([update, name], [name, update])
    # The same at every width, as FUSED has it at one.
    x, y = place("x"), place("y")
    assert {operator.fits(Format(width, 2), x, y) for width in WIDTHS} == {FUSED[name]}


def test_each_operation_has_its_unit() -> None:
    assert {unit_of(name) for name in FUSED} == {Unit.LOGIC}
    computing = [name for name, (arity, _) in OPERATIONS.items() if arity]
    assert {unit_of(name) for name in computing} == set(Unit)
    with pytest.raises(KeyError):
        unit_of("popcount")


def test_a_unit_takes_time() -> None:
    assert Units(multiplier=1).latency("mulshift", Q) == 1
    assert [Units(digits=n).latency("divshift", Q, 16) for n in (1, 2, 3, 48, 99)] == [50, 26, 18, 3, 3]
    assert [DEFAULT_UNITS.latency("sqrtround", Q, s) for s in (0, 1, 16)] == [11, 11, 15]
    assert DEFAULT_UNITS.latency("divshift", Q, -16) == DEFAULT_UNITS.latency("divshift", Q, 0) == 18
    with pytest.raises(ValueError, match="rom takes at least 1, not 0"):
        Units(rom=0)


# ---------------------------------------------------------------- negative controls


def faults(s: Schedule) -> Iterator[tuple[str, Schedule]]:
    """The schedule with one thing wrong, at each place where it can be."""

    def put(index: int, m: MicroOperation) -> Schedule:
        return replace(s, operations=(*s.operations[:index], m, *s.operations[index + 1 :]))

    for i, m in enumerate(s.operations):
        computed = any(isinstance(x, Temporary) for x in m.operands)
        earlier = tuple(replace(r, ready=r.ready - 1) for r in m.results)
        yield "ready too early", put(i, replace(m, results=earlier))
        if computed:
            yield "issued too early", put(i, replace(m, cycle=0))
            yield "another temporary", put(i, replace(m, operands=(Temporary(s.temporaries),)))
        if i:
            yield "two at once", put(i, replace(m, cycle=s.operations[i - 1].cycle))
        yield "another unit", put(i, replace(m, unit=Unit.ROM if m.unit is not Unit.ROM else Unit.LOGIC))
        for k, r in enumerate(m.results):
            if r.until > r.ready:
                shorter = (*m.results[:k], replace(r, until=r.until - 1), *m.results[k + 1 :])
                yield "forgotten before it is read", put(i, replace(m, results=shorter))
            longer = (*m.results[:k], replace(r, register=s.temporaries), *m.results[k + 1 :])
            yield "a temporary that is not there", put(i, replace(m, results=longer))
    yield "ends too early", replace(s, length=s.length - 1)


@pytest.mark.parametrize("name", ["fmul.add", "fdiv.add", "fexp.add", "fsqrt.sub"])
def test_faults_are_found(name: str) -> None:
    s = schedule(*trees(TABLE[name], Q, True, False), Q)
    for fault, wrong in faults(s):
        assert violations(wrong, Q), fault


def test_lives_that_meet_are_found() -> None:
    # Two words in one temporary, the first still to be read.
    s = schedule({"d": a + b, "a": a - b}, (), Q)
    first, second = s.operations
    taken = replace(second, results=(replace(second.results[0], register=first.results[0].register),))
    wrong = replace(s, operations=(first, taken), temporaries=1, after={"d": Temporary(0), "a": Temporary(0)})
    assert violations(wrong, Q) == ["t0 is overwritten in cycle 1 and read in cycle 2"]
    assert not agrees(wrong, {"d": a + b, "a": a - b}, (), Q, {"a": 5, "b": 3})


def test_a_product_is_issued_beside_a_chained_sum() -> None:
    """Its third operand is the word that is added; so a choice waits."""
    units = replace(FAST, slots=(frozenset(Unit),), lacks=())
    sums = {"d": d + mul_shift(a, b, 16), "a": a + mul_shift(b, d, 16), "b": b + mul_shift(a, d, 16)}
    s = schedule(sums, (), Q, units)
    products, added = [0, 1, 2], [1, 2, 3]
    assert [m.cycle for m in s.operations if m.unit is Unit.MULTIPLIER] == products
    assert [m.cycle for m in s.operations if m.unit is Unit.LOGIC] == added
    assert violations(s, Q, units) == []
    s = schedule({"d": d + mul_shift(a, b, 16), "a": select(a, b, d)}, (), Q, units)
    at = {m.operation: m.cycle for m in s.operations}
    assert at["add"] == 1 != at["select"]
    beside = tuple(replace(m, cycle=1) if m.operation == "select" else m for m in s.operations)
    moved = replace(s, operations=tuple(sorted(beside, key=lambda m: m.cycle)))
    assert "a third operand for two operations in cycle 1" in violations(moved, Q, units)


def test_roots_of_the_fast_core_wait_for_each_other() -> None:
    """Quotients are found in two slots at once, roots in the first only."""
    roots = schedule({"d": sqrt_round(a, 16), "a": sqrt_round(b, 16)}, (), Q, FAST)
    assert [m.slot for m in roots.operations] == [0, 0]
    quotients = schedule({"d": div_shift(a, b, 0), "a": div_shift(b, a, 0)}, (), Q, FAST)
    assert {m.slot for m in quotients.operations} == {0, 1}
    moved = tuple(replace(m, slot=1) for m in roots.operations)
    assert "slot 1 lacks sqrtround" in violations(replace(roots, operations=moved), Q, FAST)


def test_slots_without_some_operations() -> None:
    """Two shifts at once, of which the core fast has a shifter for one; a sum beside it."""
    shifts = schedule({"d": a << b, "a": b << a}, (), Q, FAST)
    assert [(m.cycle, m.slot) for m in shifts.operations] == [(0, 0), (1, 0)]
    assert {m.slot for m in schedule({"d": a << b, "a": a + b}, (), Q, FAST).operations} == {0, 1}
    both = replace(FAST, lacks=())
    assert {m.cycle for m in schedule({"d": a << b, "a": b << a}, (), Q, both).operations} == {0}
    with pytest.raises(ValueError, match="the first slot has all operations"):
        replace(FAST, lacks=(frozenset({"add"}),))


def test_cycles_of_scaled_divisions() -> None:
    """Two and four cycles, and one for each 16 digits; of roots one for each 4."""
    cases = [("divround", 16, 9), ("divshift", 0, 8), ("divshift", -32, 8), ("divshift", 30, 10), ("sqrtround", 16, 9)]
    assert [FAST.latency(operation, Q, s) for operation, s, _ in cases] == [cycles for _, _, cycles in cases]
    large = Format(64, 32)
    assert [FAST.latency(o, large, s) for o, s in (("divround", 32), ("divshift", 62), ("sqrtround", 32))] == [
        12,
        14,
        15,
    ]


def test_a_busy_divider_is_found() -> None:
    s = schedule({"d": div_shift(a, b, 0), "a": div_shift(b, a, 0)}, (), Q)
    first, second = s.operations
    early = tuple(replace(r, ready=r.ready - 5) for r in second.results)
    wrong = replace(s, operations=(first, replace(second, cycle=second.cycle - 5, results=early)))
    assert "the divider is busy in cycle 13" in violations(wrong, Q)
