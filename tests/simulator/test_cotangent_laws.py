"""The cotangent step of every opcode, against exact derivatives: one instruction, random programs, compiled functions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.isa import points
from retrograd.isa.derivatives import NoDerivative, cotangent_step, freed, lift
from retrograd.isa.effects import UPDATE_OPERATORS, Exchange, Permute, Update
from retrograd.isa.encoding import Instruction, encode, inverse
from retrograd.isa.entries import BAR, Function, Opcode, bar
from retrograd.isa.expr import Expr, evaluate, fold, place
from retrograd.isa.functions import available
from retrograd.simulator.semantics import handler, lifted_handler
from retrograd.simulator.stores import Cotangents, Fault

import retrograd as rg
from retrograd import fixed, reversible

FORMATS = [rg.Format(8, 4), rg.Format(16, 8), rg.Format(64, 32)]

OVERFLOW, WRAPPING = frozenset({"overflow"}), frozenset[str]()

ONE = 1 << 32

W = rg.Format()

PLACES = ("d", "a", "b", "m")

Make = Callable[..., rg.Machine]


def word(value: float) -> int:
    return W.from_real(value)


def real(found: int) -> float:
    return float(W.to_real(found))


# ---------------------------------------------------------------- the law over the whole table


class Case(NamedTuple):
    """One instruction on a small machine: R[1], R[2], R[3] for d, a, b, memory word 2 for m."""

    registers: list[int]
    memory: list[int]
    cotangents: Cotangents
    br: int
    imm: int
    fields: tuple[int, int, int]

    @property
    def words(self) -> tuple[list[int], ...]:
        return self.registers[:], self.memory[:], self.cotangents.registers[:], self.cotangents.memory[:]

    def file(self, w: rg.Format) -> dict[str, int]:
        """place -> its word, shadows too."""
        d, a, b = self.fields
        values, shadows = self.registers, self.cotangents.registers
        out = {"imm": self.imm & w.mask, "br": self.br & w.mask}
        for name, r in (("d", d), ("a", a), ("b", b)):
            out |= {name: values[r], bar(name): shadows[r]}
        return out | {"m": self.memory[2], bar("m"): self.cotangents.memory[2]}


def cases(opcode: Opcode, w: rg.Format, rng: random.Random, count: int, quiet: bool = False) -> Iterator[Case]:
    """Random words of all sizes; ra and rb sometimes one register; `quiet`: all cotangents zero."""
    corners = (0, 1, w.mask, w.sign, w.sign - 1, 1 << w.frac)
    bound = min(w.sign, 1 << 31) - 1

    def some_word() -> int:
        if rng.random() < 0.3:
            return rng.choice(corners)
        return w.wrap(w.signed(rng.getrandbits(w.width)) >> rng.randrange(w.width))

    for _ in range(count):
        same = rng.random() < 0.3 and ("ra", "rb") not in opcode.distinct and {"ra", "rb"} <= opcode.fields
        registers, memory = [some_word() for _ in range(6)], [some_word() for _ in range(4)]
        if opcode.name == "assertz" and rng.random() < 0.8:
            registers[1] = 0
        imm = rng.choice(opcode.constants(w) or (0, 1, -1, 3, rng.randint(-bound, bound)))
        if "[ra+imm]" in opcode.operands:
            registers[2] = 2 - imm & w.mask
        cotangents = Cotangents([0] * 6, [0] * 4, keep=True)
        if not quiet:
            cotangents.registers[:] = [some_word() for _ in range(6)]
            cotangents.memory[:] = [some_word() for _ in range(4)]
        br = rng.choice((0, 0, imm, -imm))
        yield Case(registers, memory, cotangents, br, imm, (1, 2, 2 if same else 3))


def some(opcode: Opcode, w: rg.Format, count: int) -> int:
    """How many cases: fewer where trees have thousands of nodes and are walked one by one."""
    return count // 8 if w.width == 64 and has_tables(opcode) else count // 2 if has_tables(opcode) else count


def has_tables(opcode: Opcode) -> bool:
    entry = opcode.entry
    return (entry.partials if isinstance(entry, Function) else entry.lift) is not None


def run(opcode: Opcode, w: rg.Format, modes: frozenset[str], case: Case, way: int, br: int, imm: int) -> int | Fault:
    """The lifted handler on the case; the fault, if it is refused."""
    same = case.fields[1] == case.fields[2]
    execute = lifted_handler(opcode, w, modes, same, case.cotangents)
    case.cotangents.way = way
    try:
        return execute(case.registers, case.memory, br, *case.fields, imm & w.mask)
    except Fault as fault:
        return fault


def plain(opcode: Opcode, w: rg.Format, modes: frozenset[str], case: Case) -> tuple[list[int], list[int], int | str]:
    """What D = 0 makes of the case."""
    registers, memory = case.registers[:], case.memory[:]
    try:
        br: int | str = handler(opcode, w, modes)(registers, memory, case.br, *case.fields, case.imm & w.mask)
    except Fault as fault:
        br = fault.code
    return registers, memory, br


def defined(opcode: Opcode, w: rg.Format, case: Case) -> dict[str, int]:
    """shadow's register or "m" -> its word afterwards: the lift's effects, one after the other, on storage."""
    d, a, b = case.fields
    where = {bar("d"): d, bar("a"): a, bar("b"): b, bar("m"): "m"}
    before = case.file(w)
    store: dict[Any, int] = {where[bar(p)]: before[bar(p)] for p in PLACES}
    try:
        effects = lift(opcode, w)
    except NoDerivative:
        effects = ()
    for effect in effects:
        env = before | {name: store[r] for name, r in where.items()}
        match effect:
            case Update(name, operator, value):
                tree = UPDATE_OPERATORS[operator].combine(w, place(name), value)
                store[where[name]] = evaluate(tree, w, env)
            case Exchange(left, right, when):
                if when is None or evaluate(when, w, env):
                    x, y = where[left], where[right]
                    store[x], store[y] = store[y], store[x]
            case Permute(name, forward):
                store[where[name]] = evaluate(forward, w, env)
    if freed(opcode, w):
        store[d] = 0
    return store


@pytest.mark.parametrize("opcode", list(rg.TABLE), ids=lambda o: o.name)
def test_the_lifted_step(opcode: Opcode) -> None:
    """Values as with D = 0, cotangents as the lift says, both undone by the inverse; refused, nothing has changed."""
    check_lifted_step(opcode, 8)


@pytest.mark.long
@pytest.mark.parametrize("opcode", list(rg.TABLE), ids=lambda o: o.name)
def test_the_lifted_step_in_more_states(opcode: Opcode) -> None:
    check_lifted_step(opcode, 64)


def check_lifted_step(opcode: Opcode, count: int) -> None:
    rng = random.Random(opcode.code)
    undo = opcode if opcode.turns else rg.TABLE.inverse(opcode)
    for w in FORMATS:
        for modes in (OVERFLOW, WRAPPING) if w.width == 8 else (OVERFLOW,) if w.width == 64 else (WRAPPING,):
            for case in cases(opcode, w, rng, some(opcode, w, count)):
                before, expected = case.words, plain(opcode, w, modes, case)
                store = defined(opcode, w, case)
                br = run(opcode, w, modes, case, +1, case.br, case.imm)
                if isinstance(br, Fault):
                    assert case.words == before
                    assert br.code == expected[2] or (br.code == "RG0404" and br.cotangent and modes == OVERFLOW)
                    continue
                assert (case.registers, case.memory, br) == expected
                d, a, b = case.fields
                found = {r: case.cotangents.registers[r] for r in (d, a, b)} | {"m": case.cotangents.memory[2]}
                assert found == store
                imm = -case.imm if opcode.negates_immediate and not opcode.turns else case.imm
                back = run(undo, w, modes, case, -1, br, imm)
                if opcode.name == "erase":
                    assert isinstance(back, Fault)
                    assert back.code == "RG0409"
                    continue
                assert back == case.br
                assert case.words == before
                assert not case.cotangents.kept


@pytest.mark.parametrize("opcode", list(rg.TABLE), ids=lambda o: o.name)
def test_without_cotangents_nothing_more_is_refused(opcode: Opcode) -> None:
    rng = random.Random(opcode.code)
    for w in (FORMATS[0], FORMATS[-1]):
        for case in cases(opcode, w, rng, 8, quiet=True):
            expected = plain(opcode, w, OVERFLOW, case)
            br = run(opcode, w, OVERFLOW, case, +1, case.br, case.imm)
            assert (br.code if isinstance(br, Fault) else br) == expected[2]
            assert not any((*case.cotangents.registers, *case.cotangents.memory))


def exact(root: Expr, w: rg.Format, env: Mapping[str, int]) -> int | None:
    """The tree with what depends on a cotangent in unbounded integers; None where that leaves the word.

    Another way to say what `overflow_guards` says: no predicate, the numbers themselves.
    """

    def combine(node: Expr, v: list[tuple[int | None, bool]]) -> tuple[int | None, bool]:
        moved = any(m for _, m in v)
        if node.op == "input":
            return env[str(node.param)], str(node.param).endswith(BAR)
        if node.op == "select":
            condition = v[0][0]
            return v[1][0] if condition else v[2][0], moved
        if any(x is None for x, _ in v):
            # Only the last bit of it is wanted.
            return (0, False) if node.op == "and" else (None, moved)
        if not moved or node.op == "and":
            words = [x & w.mask for x, _ in v if x is not None]
            leaves = Expr(node.op, tuple(place(str(i)) for i in range(len(v))), node.param)
            return evaluate(leaves, w, {str(i): x for i, x in enumerate(words)}), False
        x, y, *_ = [w.signed(x) for x, _ in v if x is not None] + [0]
        s = node.param if isinstance(node.param, int) else 0
        match node.op:
            case "add":
                value = x + y
            case "sub":
                value = x - y
            case "shl":
                value = x << y
            case "sar":
                value = x >> y
            case "mulshift":
                value = x * y >> s
            case "divshift" if y == 0:
                return (None if x else 0), True
            case "divshift":
                value = (x << s) // y
            case "mulround":
                value = math.floor(Fraction(x * y, 1 << s) + Fraction(1, 2))
            case "divround" if y == 0:
                return (None if x else 0), True
            case "divround":
                value = math.floor(Fraction(x << s, y) + Fraction(1, 2))
            case _:
                raise AssertionError(node.op)
        return (value & w.mask if -w.sign <= value < w.sign else None), True

    return fold(root, combine)[0]


def fits_exactly(opcode: Opcode, w: rg.Format, case: Case) -> bool:
    d, a, b = case.fields
    where = {bar("d"): d, bar("a"): a, bar("b"): b, bar("m"): "m"}
    before = case.file(w)
    store: dict[Any, int] = {where[bar(p)]: before[bar(p)] for p in PLACES}
    effects = lift(opcode, w)
    if a == b and {getattr(effect, "place", "") for effect in effects} == {bar("a"), bar("b")}:
        first, second = effects
        assert isinstance(first, Update)
        assert isinstance(second, Update)
        # Neither gain reads what the other writes, and so one sum may be made of them.
        effects = (Update(bar("a"), first.operator, first.value + second.value),)
    for effect in effects:
        env = before | {name: store[r] for name, r in where.items()}
        match effect:
            case Update(name, operator, value):
                gain = exact(points.at(value, case.imm, w), w, env)
                if gain is None:
                    return False
                total = w.signed(store[where[name]]) + (1 if operator == "add" else -1) * w.signed(gain)
                if not -w.sign <= total < w.sign:
                    return False
                store[where[name]] = total & w.mask
            case Exchange(left, right, when):
                if when is None or evaluate(when, w, env):
                    x, y = where[left], where[right]
                    store[x], store[y] = store[y], store[x]
            case Permute(name, forward):
                turned = exact(forward, w, env)
                if turned is None:
                    return False
                store[where[name]] = turned
    return True


def has_gains(opcode: Opcode) -> bool:
    return bool(cotangent_step(opcode, W, False).guards)


@pytest.mark.parametrize("opcode", [o for o in rg.TABLE if has_gains(o)], ids=lambda o: o.name)
def test_a_cotangent_is_refused_exactly_where_it_does_not_fit(opcode: Opcode) -> None:
    rng = random.Random(opcode.code)
    met = set()
    for w in (FORMATS[0], FORMATS[-1]):
        for case in cases(opcode, w, rng, some(opcode, w, 32)):
            if isinstance(plain(opcode, w, OVERFLOW, case)[2], str):
                continue
            fits = fits_exactly(opcode, w, case)
            br = run(opcode, w, OVERFLOW, case, +1, case.br, case.imm)
            if opcode.entry.name in ("ladd", "lsub") and isinstance(br, Fault) and fits:
                # The share of an operand in a sum that nearly cancels: larger than a word, before it is multiplied.
                assert br.cotangent
                continue
            assert isinstance(br, Fault) == (not fits), case
            met.add(fits)
    assert True in met


def test_what_frees_an_ancilla() -> None:
    assert {o.name: freed(o, W) for o in rg.TABLE if freed(o, W)} == {"assertz": ("d",), "erase": ("d",)}


# ---------------------------------------------------------------- random programs


#: of floats: values after (x), and the rows that differ from the identity's, {row: {column: ∂/∂column}}
Rows = dict[int, dict[int, float]]
SLOTS = 9
#: what a slot is: registers 1 … 5, then memory words 0 … 3
MEMORY = 5


def _update(name: str, d: int, a: int, b: int, x: list[float]) -> tuple[float, dict[int, float]] | None:
    """(f, ∂f), or None where f is ill-behaved."""
    u, v = x[a], x[b]

    def two(value: float, by_a: float, by_b: float) -> tuple[float, dict[int, float]]:
        out: dict[int, float] = {a: by_a}
        out[b] = out.get(b, 0.0) + by_b
        return value, out

    match name:
        case "fmov" | "ld":
            return u, {a: 1.0}
        case "fmul":
            return two(u * v, v, u)
        case "fdiv" if abs(v) > 0.25:
            return two(u / v, 1 / v, -u / v**2)
        case "fsqrt" if u > 0.25:
            return math.sqrt(u), {a: 0.5 / math.sqrt(u)}
        case "fabs" if abs(u) > 0.25:
            return abs(u), {a: math.copysign(1.0, u)}
        case "fexp" if u < 2:
            return math.exp(u), {a: math.exp(u)}
        case "flog" if u > 0.25:
            return math.log(u), {a: 1 / u}
        case "fsin":
            return math.sin(u), {a: math.cos(u)}
        case "fcos":
            return math.cos(u), {a: -math.sin(u)}
        case "fatan2" if math.hypot(u, v) > 0.25 and (v > 0 or abs(u) > 0.25):
            r = u * u + v * v
            return two(math.atan2(u, v), v / r, -u / r)
    return None


TWO = ("fmul", "fdiv", "fatan2")
ONES = ("fmov", "fsqrt", "fabs", "fexp", "flog", "fsin", "fcos")


def advance(kind: tuple[Any, ...], x: list[float]) -> tuple[str, list[float], Rows] | None:
    """One instruction drawn: its text, the floats after it, its Jacobian. None where it would be ill-behaved."""
    name, update, d, a, b = kind
    y = list(x)
    if name in TWO or name in ONES or name == "ld":
        if name == "ld":
            a = MEMORY + a % 4
        if d == a or (d == b and name in TWO):
            return None
        found = _update(name, d, a, b, x)
        if found is None:
            return None
        sign = 1 if update == "add" else -1
        y[d] += sign * found[0]
        row = {d: 1.0} | {c: sign * g for c, g in found[1].items()}
        operand = f"[r0 + {a - MEMORY}]" if name == "ld" else f"r{a + 1}" + (f", r{b + 1}" if name in TWO else "")
        text, rows = f"{name}.{update} r{d + 1}, {operand}", {d: row}
    elif name == "st":
        m = MEMORY + a % 4
        sign = 1 if update == "add" else -1
        y[m] += sign * x[b]
        text, rows = f"st.{update} [r0 + {m - MEMORY}], r{b + 1}", {m: {m: 1.0, b: float(sign)}}
    elif name == "neg":
        y[d] = -x[d]
        text, rows = f"neg r{d + 1}", {d: {d: -1.0}}
    elif name == "exch":
        m = MEMORY + a % 4
        y[d], y[m] = x[m], x[d]
        text, rows = f"exch r{d + 1}, [r0 + {m - MEMORY}]", {d: {m: 1.0}, m: {d: 1.0}}
    elif len({d, a, b}) < 3:
        return None
    elif name == "rot":
        c, s = math.cos(x[b]), math.sin(x[b])
        y[d], y[a] = c * x[d] - s * x[a], s * x[d] + c * x[a]
        rows = {d: {d: c, a: -s, b: -y[a]}, a: {d: s, a: c, b: y[d]}}
        text = f"rot r{d + 1}, r{a + 1}, r{b + 1}"
    else:
        if abs(x[b]) < 0.25:
            return None
        y[d], y[a] = x[a], x[d]
        text, rows = f"cswap r{d + 1}, r{a + 1}, r{b + 1}", {d: {a: 1.0}, a: {d: 1.0}}
    if max(map(abs, y)) > 50:
        return None
    return text, y, rows


KINDS = st.tuples(
    st.sampled_from((*TWO, *TWO, *ONES, "ld", "st", "neg", "exch", "rot", "cswap")),
    st.sampled_from(("add", "sub")),
    *(st.integers(0, 4),) * 3,
)


@given(
    st.lists(KINDS, min_size=1, max_size=25), st.lists(st.integers(-12, 12), min_size=SLOTS, max_size=SLOTS), st.data()
)
@settings(max_examples=60)
def test_random_programs(kinds: list[tuple[Any, ...]], start: list[int], data: st.DataObject) -> None:
    """The machine's gradient is the transposed product of the instructions' Jacobians, made of floats."""
    x = [v / 4 for v in start]
    lines, jacobians = [], []
    for kind in kinds:
        step = advance(kind, x)
        if step is not None:
            lines.append(step[0])
            x = step[1]
            jacobians.append(step[2])
    loss = np.array(data.draw(st.lists(st.integers(-4, 4), min_size=SLOTS, max_size=SLOTS))) / 4

    machine = rg.Machine(rg.assemble("\n".join([".memory 4", "start", *lines, "finish"])), keep_dropped=True)
    machine.registers[1:6] = [word(v / 4) for v in start[:5]]
    machine.memory[:] = [word(v / 4) for v in start[5:]]
    machine.run()
    machine.differentiating = True
    machine.cotangents[1:6] = [word(v) for v in loss[:5]]
    machine.memory_cotangents[:] = [word(v) for v in loss[5:]]
    begun = machine.state()

    expected, largest = loss, float(np.abs(loss).max())
    for rows in reversed(jacobians):
        j = np.eye(SLOTS)
        for row, entries in rows.items():
            j[row] = 0
            for column, value in entries.items():
                j[row, column] = value
        expected = j.T @ expected
        largest = max(largest, float(np.abs(expected).max()))
    machine.turn()
    if largest > 1e6:
        return
    machine.run()
    found = [real(c) for c in (*machine.cotangents[1:6], *machine.memory_cotangents)]
    assert found == pytest.approx(list(expected), rel=1e-5, abs=1e-5 * (1 + largest))
    machine.turn()
    machine.run()
    assert machine.state() == begun


# ---------------------------------------------------------------- compiled functions


@reversible
def complex_log(re: fixed, im: fixed, x: fixed, y: fixed) -> None:
    """(re, im) += log(x + iy)"""
    with rg.routine() as r:
        n = rg.sqrt(x * x + y * y)
    re += rg.log(n)
    im += rg.atan2(y, x)
    ~r


@reversible
def long_sum(y: fixed, x: fixed, n: int) -> None:
    """y += n x / 10, by way of x / 1000 in one register"""
    for _ in range(n):
        y += 100 * (x / 1000)


def compiled_gradient(function: Any, result: str, **arguments: Any) -> dict[str, float]:
    found = rg.run(function, **arguments)
    machine = found.machine
    places = {a.name: a.address for a in found.compiled.arguments}
    machine.differentiating = True
    machine.memory_cotangents[places[result]] = ONE
    machine.turn()
    machine.run()
    assert machine.at_end
    return {name: real(machine.memory_cotangents[address]) for name, address in places.items()}


def test_a_compiled_function() -> None:
    x, y = 3.0, 4.0
    re = compiled_gradient(complex_log, "re", re=0.0, im=0.0, x=x, y=y)
    im = compiled_gradient(complex_log, "im", re=0.0, im=0.0, x=x, y=y)
    assert (re["x"], re["y"]) == (pytest.approx(3 / 25, abs=4e-9), pytest.approx(4 / 25, abs=4e-9))
    assert (im["x"], im["y"]) == (pytest.approx(-4 / 25, abs=4e-9), pytest.approx(3 / 25, abs=4e-9))
    assert (re["re"], re["im"], im["re"], im["im"]) == (1, 0, 0, 1)


def test_what_is_left_in_a_register_used_again_cancels() -> None:
    # n times, the register is left with 100 more than before: what the next product adds, its inverse takes off.
    for n in (1, 10, 200):
        found = compiled_gradient(long_sum, "y", y=0.0, x=1.5, n=n)
        assert abs(found["x"] - n / 10) < 2e-9 * n / 10


def test_formats_without_functions_refuse_them_as_before(make: Make) -> None:
    w = rg.Format(64, 0)
    assert not available(w)
    machine = make(rg.assemble(".format 64, 0\nstart\nfexp.add r9, r1\nfinish"))
    machine.differentiating = True
    machine.cotangents[9] = 1
    with pytest.raises(rg.Trap, match="RG0403"):
        machine.run()


@pytest.mark.parametrize("make", ["reference", "threaded"], indirect=True)
def test_the_machine_executes_the_lifted_table(make: Make) -> None:
    """Every instruction by itself in a machine, either way, and taken back."""
    rng = random.Random(11)
    for opcode in rg.TABLE:
        if "br" in opcode.writes or opcode.name in ("start", "finish", "erase", "unerase"):
            continue
        for case in cases(opcode, W, rng, 4):
            fields = {"rd": 1, "ra": 2, "rb": case.fields[2], "imm": case.imm}
            i = Instruction(opcode, **{f: v for f, v in fields.items() if f in opcode.fields})
            code = [Instruction(rg.TABLE["start"]), i, Instruction(rg.TABLE["finish"])]
            for way in (+1, -1):
                machine = make(rg.Program([encode(x) for x in code], memory=4), backward=way < 0, keep_dropped=True)
                machine.differentiating = True
                machine.registers[:6], machine.memory[:] = case.registers, case.memory
                machine.cotangents[:6] = case.cotangents.registers
                machine.memory_cotangents[:] = case.cotangents.memory
                machine.step()
                before = machine.state()
                executed = i if way > 0 else inverse(i)
                one = Case(
                    case.registers[:],
                    case.memory[:],
                    Cotangents([0] * 6, [0] * 4, keep=True),
                    0,
                    executed.imm,
                    case.fields,
                )
                one.cotangents.registers[:] = case.cotangents.registers
                one.cotangents.memory[:] = case.cotangents.memory
                br = run(executed.opcode, W, OVERFLOW, one, way, 0, executed.imm)
                if isinstance(br, Fault):
                    with pytest.raises(rg.Trap, match=br.code):
                        machine.step()
                    assert machine.state() == before
                    continue
                machine.step()
                assert (machine.registers[:6], machine.memory) == (one.registers, one.memory)
                assert (machine.cotangents[:6], machine.memory_cotangents) == (
                    one.cotangents.registers,
                    one.cotangents.memory,
                )
                machine.step_back()
                assert machine.state() == before
