"""IR → Program: what the machine does is what the IR means, forward and backward, whatever the registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from types import ModuleType
from typing import Any

import pytest
from retrograd.assembler.assemble import assemble, disassemble
from retrograd.assembler.verify import verify
from retrograd.compiler.backend.emission import Emitted, emit
from retrograd.compiler.ir.statements import (
    SP,
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Local,
    Module,
    Node,
    Op,
    Procedure,
    Region,
    Var,
    While,
    Within,
    invert,
)
from retrograd.compiler.ir.statements import (
    Test as When,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.encoding import inverse
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.semantics import Fault

#: random modules in the default tier, and in the full one
QUICK, CHUNK = 60, 20
SLOW, SLOW_CHUNK = 10_000, 250
REGISTERS = (256, 24, 14)
STEPS = 2_000_000

ADD, SUB, IMM, EXCH = TABLE["mov.add"], TABLE["mov.sub"], TABLE["imm.add"], TABLE["exch"]


# ---------------------------------------------------------------- what every module must satisfy


@contextmanager
def told(what: str) -> Iterator[None]:
    """Whatever fails inside says for which module."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        raise


def checked_emit(module: Module, registers: int = 256) -> Emitted:
    emitted = emit(module, registers=registers)
    assert verify(emitted.program) == []
    assert len(emitted.origins) == len(emitted.program.code) == len(emitted.program.source.spans)
    code = emitted.program.instructions
    for start, end, undo, after in emitted.program.hints.pairs:
        assert start < end <= undo < after
        assert code[undo:after] == tuple(map(inverse, reversed(code[start:end]))), (start, end, undo, after)
    return emitted


def run(
    emitted: Emitted, module: Module, memory: Sequence[int], backward: bool = False
) -> tuple[str | None, list[int]]:
    """(trap's code or None, the module's memory at the end). All that is the compiler's own must be zero at the ends."""
    machine = Machine(emitted.program, backward=backward)
    machine.load(0, memory)
    before = machine.state()
    trap: Trap | None = None
    try:
        machine.run(STEPS)
    except Trap as error:
        trap = error
    after = machine.memory[: module.memory]
    if trap is not None:
        assert trap.pc in emitted.checks
        machine.run_back(STEPS)
        assert machine.state() == before, "the way back from the trap"
        return trap.diagnostics[0].code, after
    assert machine.at_end
    assert not any(machine.registers), {i: word for i, word in enumerate(machine.registers) if word}
    assert not any(machine.memory[module.memory :])
    return None, after


def agree(interpreter: ModuleType, module: Module, memory: Sequence[int], registers: int = 256) -> list[int]:
    """The machine does what the interpreter does, both ways; gives the memory afterwards."""
    try:
        expected: tuple[str | None, list[int]] = None, interpreter.interpret(module, memory).memory[: module.memory]
    except Fault as fault:
        expected = fault.code, fault.run.memory[: module.memory]  # type: ignore[attr-defined]
    emitted = checked_emit(module, registers)
    found = run(emitted, module, memory)
    assert found == expected
    if expected[0] is None:
        start = [*memory, *[0] * (module.memory - len(memory))]
        assert run(emitted, module, found[1], backward=True) == (None, start), "the program run backward"
        assert run(checked_emit(~module, registers), module, found[1]) == (None, start), "the inverse module"
    return found[1]


def random_modules(interpreter: ModuleType, random_ir: ModuleType, seeds: Sequence[int]) -> None:
    for seed in seeds:
        registers = REGISTERS[seed % len(REGISTERS)]
        with told(f"random_ir.generate({seed}), {registers} registers"):
            case = random_ir.generate(seed)
            agree(interpreter, case.module, case.memory, registers)


@pytest.mark.parametrize("first", range(0, QUICK, CHUNK))
def test_machine_and_interpreter_agree(interpreter: ModuleType, random_ir: ModuleType, first: int) -> None:
    random_modules(interpreter, random_ir, range(first, first + CHUNK))


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, SLOW_CHUNK))
def test_machine_and_interpreter_agree_at_length(interpreter: ModuleType, random_ir: ModuleType, first: int) -> None:
    random_modules(interpreter, random_ir, range(first, first + SLOW_CHUNK))


@pytest.mark.parametrize("seed", range(5))
def test_the_registers_do_not_change_what_is_computed(
    interpreter: ModuleType, random_ir: ModuleType, seed: int
) -> None:
    case = random_ir.generate(1000 + seed)
    results = [agree(interpreter, case.module, case.memory, registers) for registers in (256, 40, 20, 14)]
    assert all(result == results[0] for result in results)


# ---------------------------------------------------------------- small programs


def op(name: str, *operands: Any, imm: int = 0, span: Span | None = None) -> Op:
    return Op(TABLE[name], *operands, imm=imm, span=span)


def ported(variables: Sequence[Var], body: Block, **more: Any) -> Module:
    """A module whose variables are the first words of memory."""
    bring = [node for i, v in enumerate(variables) for node in (Local(v), Op(EXCH, v, Const(i)))]
    more.setdefault("memory", len(variables))
    return Module((*bring, *body, *invert(bring)), more.pop("procedures", {}), **more)


def names(emitted: Emitted) -> list[str]:
    return [i.opcode.name for i in emitted.program.instructions]


def inner_names(emitted: Emitted, ports: int) -> list[str]:
    """The instructions between bringing in and putting back the ports."""
    return names(emitted)[1 + ports : -1 - ports]


def procedures(*made: Procedure) -> dict[str, Procedure]:
    return {p.name: p for p in made}


def fibonacci() -> Procedure:
    """pair(n, a, b): (a, b) += (F(n), F(n+1)), from zeros."""
    n, a, b = Var("n"), Var("a"), Var("b")
    deeper = (
        op("imm.sub", n, imm=1),
        Call("pair", (n, a, b)),
        op("imm.add", n, imm=1),
        op("mov.add", a, b),
        op("swap", a, b),
    )
    test = When("ne", n, Const(0))
    body = (If(test, deeper, (op("imm.add", b, imm=1),), test),)
    return Procedure("pair", (n, a, b), (), body, frozenset({0, 1, 2}), True)


@pytest.mark.parametrize("registers", [256, 14])
def test_recursion_is_undone_by_its_uncall(interpreter: ModuleType, registers: int) -> None:
    n, result, a, b = (Var(name) for name in ("n", "result", "a", "b"))
    compute = (Local(a), Local(b), Call("pair", (n, a, b)))
    module = ported(
        [n, result], (Within(compute, (op("mov.add", result, a),)),), procedures=procedures(fibonacci()), stack=99
    )
    assert agree(interpreter, module, [20, 0], registers) == [20, 6765]


def test_a_stack_too_small_traps_at_a_call_and_the_way_back_is_open() -> None:
    n, a, b = Var("n"), Var("a"), Var("b")
    module = ported([n, a, b], (Call("pair", (n, a, b)),), procedures=procedures(fibonacci()), stack=5)
    emitted = checked_emit(module)
    machine = Machine(emitted.program)
    machine.load(0, [30, 0, 0])
    before = machine.state()
    with pytest.raises(Trap) as trap:
        machine.run(STEPS)
    assert trap.value.diagnostics[0].code == "RG0401"
    machine.run_back()
    assert machine.state() == before


@pytest.mark.parametrize("registers", [256, 14])
def test_a_circle_of_procedures_keeps_what_is_alive(interpreter: ModuleType, registers: int) -> None:
    """even and odd call each other; each holds a local around the call that the other would use too."""

    def half(name: str, other: str) -> Procedure:
        n, x, kept = Var("n"), Var("x"), Var("kept")
        test = When("ne", n, Const(0))
        inside = (
            op("imm.sub", n, imm=1),
            Call(other, (n, x)),
            op("mov.add", x, kept),
            op("imm.add", n, imm=1),
        )
        keep = (Local(kept), op("muli.add", kept, n, imm=3))
        return Procedure(name, (n, x), (), (If(test, (Within(keep, inside),), (), test),), frozenset({0, 1}), True)

    n, x = Var("n"), Var("x")
    module = ported(
        [n, x], (Call("even", (n, x)),), procedures=procedures(half("even", "odd"), half("odd", "even")), stack=99
    )
    assert agree(interpreter, module, [6, 1], registers) == [6, 1 + 3 * 21]


def mixer(name: str = "mix", count: int = 4) -> Procedure:
    """xᵢ += i·xᵢ₊₁: tells its parameters apart."""
    xs = [Var(f"x{i}") for i in range(count)]
    body = tuple(op("muli.add", xs[i], xs[(i + 1) % count], imm=i + 1) for i in range(count))
    return Procedure(name, tuple(xs), (), body, frozenset(range(count)))


@pytest.mark.parametrize("registers", [256, 14])
def test_arguments_in_each_others_places(interpreter: ModuleType, registers: int) -> None:
    xs = [Var(f"v{i}") for i in range(4)]
    calls = tuple(Call("mix", order, backward=i % 3 == 1) for i, order in enumerate(permutations(xs)))
    module = ported(xs, calls, procedures=procedures(mixer()))
    agree(interpreter, module, [3, 5, 7, 11], registers)


def test_an_argument_lives_where_the_parameter_is() -> None:
    xs = [Var(f"v{i}") for i in range(4)]
    emitted = checked_emit(ported(xs, (Call("mix", (xs[2], xs[0], xs[3], xs[1])),), procedures=procedures(mixer())))
    assert inner_names(emitted, 4)[0] == "call"


@pytest.mark.parametrize("registers", [256, 14])
def test_a_read_argument_may_be_a_constant_or_stand_twice(interpreter: ModuleType, registers: int) -> None:
    out, a, b, c = Var("out"), Var("a"), Var("b"), Var("c")
    body = (op("mul.add", out, a, b), op("mov.add", out, c))
    p = Procedure("f", (out, a, b, c), (), body, frozenset({0}))
    y, x, z = Var("y"), Var("x"), Var("z")
    wide = Const(0x123456789ABCDEF)
    calls = (
        Call("f", (y, x, x, x)),
        Call("f", (y, x, Const(5), z)),
        Call("f", (y, Const(0), wide, wide), backward=True),
        Call("f", (y, z, wide, Const(3))),
    )
    module = ported([y, x, z], calls, procedures=procedures(p))
    agree(interpreter, module, [1, 10, 100], registers)


@pytest.mark.parametrize("registers", [256, 24])
def test_more_variables_than_registers(interpreter: ModuleType, registers: int) -> None:
    many = [Var(f"x{i}") for i in range(300)]
    total, i, a, b = Var("total"), Var("i"), Var("a"), Var("b")
    compute: list[Node] = []
    for index, x in enumerate(many):
        compute += [Local(x), op("mov.add", x, Const(index))]
    body: list[Node] = [op("mov.add", total, x) for x in many[::-1]]
    body += [op("mul.add", total, many[290], many[299]), op("swap", many[298], a), op("swap", many[298], a)]
    test = When("lt", many[295], many[296])
    body.append(If(test, (op("imm.add", total, imm=7),), (op("imm.sub", total, imm=9),), test))
    body.append(If(When("lt", many[296], many[295]), (op("neg", total),), (), When("eq", many[297], many[294])))
    body.append(For(i, many[1], many[299], 2, (op("mov.add", total, i),)))
    k = Var("k")
    loop = While(When("ne", k, many[288]), (op("imm.add", k, imm=1), op("mov.sub", total, k)), When("ne", k, Const(0)))
    body += [Local(k), loop, op("mov.sub", k, many[288]), Delocal(k, checked=True)]
    body.append(op("cswap", a, b, many[297]))
    body.append(op("ld.add", total, many[2]))
    body.append(Check(When("lt", many[280], many[281]), "RG0801", "in order"))
    module = ported([total, a, b], (Within(tuple(compute), tuple(body)),))
    after = agree(interpreter, module, [0, 50, 60], registers)
    assert after[1:] == [60, 50]


def test_a_variable_in_memory_is_brought_in_once_for_neighbours() -> None:
    many = [Var(f"x{i}") for i in range(300)]
    start = tuple(Local(x) for x in many)
    body = (op("muli.add", many[299], many[0], imm=3), op("muli.sub", many[299], many[1], imm=5))
    emitted = checked_emit(Module((Within(start, body),), {}))
    assert inner_names(emitted, 0) == ["exch", "muli.add", "muli.sub", "exch"]


@pytest.mark.parametrize("registers", [256, 14])
def test_more_parameters_than_registers(interpreter: ModuleType, registers: int) -> None:
    count = 270
    xs = [Var(f"v{i}") for i in range(count)]
    calls = (
        Call("mix", tuple(xs)),
        Call("mix", tuple(xs[1:] + xs[:1]), backward=True),
        Call("mix", tuple(reversed(xs))),
    )
    module = ported(xs, calls, procedures=procedures(mixer(count=count)))
    agree(interpreter, module, list(range(1, count + 1)), registers)


@pytest.mark.parametrize("registers", [256, 14])
def test_copies_and_constants_for_parameters_in_memory(interpreter: ModuleType, registers: int) -> None:
    """out += Σ i·xᵢ, where one variable stands in many places and constants in others."""
    count = 280
    params = [Var(f"p{i}") for i in range(count)]
    body = tuple(op("muli.add", params[0], params[i], imm=i) for i in range(1, count))
    p = Procedure("sum", tuple(params), (), body, frozenset({0}))
    out, x, z = Var("out"), Var("x"), Var("z")
    wide = 0x123456789ABCDEF
    # First come constants, so that the variables' first places are in memory, too.
    first = [Const(i) for i in range(1, 261)]
    args = (out, *first, *([x, z, Const(3), Const(wide + i % 2), Const(0)][i % 5] for i in range(261, count)))
    module = ported([out, x, z], (Call("sum", args), Call("sum", (out, *reversed(args[1:])))), procedures=procedures(p))
    agree(interpreter, module, [1, 10, 100], registers)


@pytest.mark.parametrize("registers", [256, 24, 14])
def test_a_deep_chain_of_calls_runs_out_of_registers(interpreter: ModuleType, registers: int) -> None:
    """Each level holds locals around its call; below, links and parameters must go to memory."""
    made: list[Procedure] = []
    for depth in range(60):
        xs = [Var(f"x{i}") for i in range(3)]
        kept = [Var(f"kept{i}") for i in range(5)]
        keep = tuple(node for i, k in enumerate(kept) for node in (Local(k), op("muli.add", k, xs[0], imm=i)))
        body: list[Node] = [op("mov.add", xs[1], kept[3]), op("mov.sub", xs[2], kept[2])]
        if depth:
            args = (kept[4], *xs[1:]) if depth % 2 else (kept[4], *xs[:0:-1])
            body.insert(1, Call(f"level{depth - 1}", args, backward=depth % 3 == 0))
        made.append(Procedure(f"level{depth}", tuple(xs), (), (Within(keep, tuple(body)),), frozenset({1, 2})))
    xs = [Var(f"v{i}") for i in range(3)]
    module = ported(xs, (Call("level59", tuple(xs)),), procedures=procedures(*made))
    agree(interpreter, module, [2, 3, 5], registers)


# ---------------------------------------------------------------- structure and constants


X, Y = Var("x"), Var("y")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ((op("mov.add", X, Const(5)),), ["imm.add"]),
        ((op("mov.sub", X, Const(0xFFFFFFFF_FFFFFFFF)),), ["imm.sub"]),
        ((op("mov.xor", X, Const(1 << 40)),), ["immhi.xor"]),
        ((op("mov.xor", X, Const((1 << 40) + 1)),), ["imm.xor", "immhi.xor"]),
        ((op("mul.add", X, Y, Const(5)),), ["muli.add"]),
        ((op("mul.add", X, Const(5), Y),), ["muli.add"]),
        ((op("and.xor", X, Const(5), Y),), ["andi.xor"]),
        ((op("shl.add", X, Y, Const(3)),), ["shli.add"]),
        ((op("shl.add", X, Const(3), Y),), ["imm.add", "shl.add", "imm.sub"]),
        ((op("rol", X, Const(3)),), ["roli"]),
        ((op("fmul.add", X, Y, Const(0)),), ["fmul.add"]),
        ((op("fmul.add", X, Const(3), Const(3)),), ["imm.add", "fmul.add", "imm.sub"]),
        ((op("fmov.add", X, Const(1 << 40)),), ["immhi.add", "fmov.add", "immhi.sub"]),
        ((op("ld.add", X, Const(1)), op("st.add", None, Const(0), X, imm=1)), ["ld.add", "st.add"]),
        ((For(Var("i"), Const(0), Const(0), 1, (op("neg", X),)),), []),
        ((For(Var("i"), Const(0), Const(1), 1, (op("neg", X),)),), ["neg", "imm.add", "imm.sub"]),
        ((For(Var("i"), Const(3), Const(1), -2, (op("neg", X),), backward=True),), ["imm.add", "imm.sub", "neg", "imm.sub"]),
        ((For(Var("i"), Const(0), Y, 1, (op("neg", X),), some=True),), ["from.ne", "neg", "imm.add", "goto.ne", "mov.sub"]),
        (
            (For(Var("i"), Const(0), Y, 1, (op("neg", X),)),),
            ["goto.eq", "from.ne", "neg", "imm.add", "goto.ne", "mov.sub", "from.eq"],
        ),
        (
            (While(When("lt", X, Y), (op("neg", X),), When("ge", X, Y)),),
            ["goto.ge", "from.ge", "neg", "goto.lt", "from.lt"],
        ),
        ((If(When("lt", X, Y), (op("not", Y),), (), When("lt", X, Y)),), ["goto.ge", "not", "from.ge"]),
        ((If(When("lt", X, Y), (), (op("not", Y),), When("lt", X, Y)),), ["goto.lt", "not", "from.lt"]),
        (
            (If(When("lt", X, Y), (op("not", Y),), (op("neg", Y),), When("eq", X, Y)),),
            ["goto.ge", "not", "goto", "from", "neg", "from.eq"],
        ),
        ((Check(When("eq", X, X), "RG0801", ""),), ["assert.eq"]),
        ((External(0),), ["assertz"]),
    ],
)  # fmt: skip
def test_what_a_statement_becomes(body: Block, expected: list[str]) -> None:
    assert inner_names(checked_emit(ported([X, Y], body)), 2) == expected


def test_constants_that_are_used_often_get_a_register() -> None:
    loop = For(Var("i"), Const(0), Y, 1, (op("fmul.add", X, Y, Const(1 << 31)),))
    emitted = checked_emit(ported([X, Y], (loop,)))
    listed = names(emitted)
    at = listed.index("fmul.add")
    assert listed[1] == "imm.add"
    assert listed[at - 1] == "from.ne"
    assert listed[at + 1] == "imm.add"
    assert listed[-2] == "imm.sub"


@pytest.mark.parametrize("w", [Format(64, 32), Format(32, 16), Format(16, 8)], ids=str)
def test_constants_of_every_size(interpreter: ModuleType, w: Format) -> None:
    words = {c & w.mask for k in range(w.width) for c in (1 << k, (1 << k) - 1, -(1 << k), -(1 << k) - 1)}
    for name in ("mov.add", "mov.sub", "mov.xor", "mul.add", "or.xor", "fmov.xor", "sltu.add"):
        operands = (Y,) if TABLE[name].fields >= {"rb"} else ()
        body = tuple(op(name, X, *operands, Const(word)) for word in sorted(words))
        agree(interpreter, ported([X, Y], body, format=w), [3, 0x5A5A], 24)


# ---------------------------------------------------------------- checks


@pytest.mark.parametrize("registers", [256, 14])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("value", [9, 10])
def test_a_check_traps_in_both_directions(value: int, backward: bool, registers: int) -> None:
    crowd = tuple(Local(Var(f"c{i}")) for i in range(20))
    x = Var("x")
    check = Check(When("lt", x, Const(10)), "RG0801", "x is small")
    module = Module((Within((*crowd, Local(x), op("exch", x, Const(0))), (check, External(0))),), {}, memory=1)
    emitted = checked_emit(module, registers)
    machine = Machine(emitted.program, backward=backward)
    machine.load(0, [value])
    before = machine.state()
    if value < 10:
        machine.run()
        assert machine.memory[0] == value
        return
    with pytest.raises(Trap) as trap:
        machine.run()
    assert emitted.checks[trap.value.pc] is check
    assert trap.value.diagnostics[0].code == "RG0413"
    assert sum(machine.executed[1]) + sum(machine.executed[-1]) < len(emitted.program.code)
    machine.run_back()
    assert machine.state() == before


@pytest.mark.parametrize("node", ["Delocal", "Local"])
def test_a_checked_variable_must_be_zero(node: str) -> None:
    x, t = Var("x"), Var("t")
    end: Node = Delocal(t, checked=True)
    body: Block = (Local(t), op("mov.add", t, x), end)
    if node == "Local":
        body, end = invert(body), Local(t, checked=True)
    emitted = checked_emit(ported([x], body))
    machine = Machine(emitted.program, backward=node == "Local")
    machine.load(0, [4])
    with pytest.raises(Trap) as trap:
        machine.run()
    assert trap.value.diagnostics[0].code == "RG0407"
    assert emitted.checks[trap.value.pc] == end
    assert type(emitted.checks[trap.value.pc]) is type(end)


def test_a_broken_promise_is_traced_to_its_statement() -> None:
    x, y = Var("x"), Var("y")
    promised = If(When("eq", x, Const(0)), (op("imm.add", x, imm=1),), (), When("eq", x, Const(0)))
    divided = op("div.add", y, Const(1), x)
    for body, value, code in (((promised,), 0, "RG0406"), ((divided,), 0, "RG0402")):
        emitted = checked_emit(ported([x, y], body))
        machine = Machine(emitted.program)
        machine.load(0, [value])
        with pytest.raises(Trap) as trap:
            machine.run()
        assert trap.value.diagnostics[0].code == code
        assert emitted.checks[trap.value.pc] is body[0]


# ---------------------------------------------------------------- the program around the code


def test_externals_are_marked_in_order() -> None:
    i = Var("i")
    module = Module((External(7), For(i, Const(0), Const(3), 1, (External(4),))), {})
    emitted = checked_emit(module)
    machine = Machine(emitted.program)
    seen: list[int] = []
    machine.run(observe=lambda _, pc: seen.append(emitted.externals[pc]) if pc in emitted.externals else None)
    assert seen == [7, 4, 4, 4]


def test_the_source_map_points_to_the_statements() -> None:
    span, inside = Span("b.py", 2, 5, 9), Span("a.py", 1, 1, 3)
    x, t = Var("x"), Var("t")
    compute = (Local(t), op("mov.add", t, x, span=inside))
    body: Block = (Within(compute, (op("mov.add", x, Const(1)),), span=span),)
    module = ported([x], body, files=("a.py", "b.py"), texts=(["x = 1"], ["", "y = x + 2"]))
    source = checked_emit(module).program.source
    assert [source.span(pc) for pc in range(2, 5)] == [inside, span, inside]
    assert source.span(0) is None
    assert source.line(source.span(3)) == "y = x + 2"


def test_names_can_be_assembled() -> None:
    wanted = ["f", "f[fixed, 3]", "f[fixed, 4]", "f[fixed  3]", "r7", "2x"]
    xs = [Var("x")]
    p = Var("p")
    made = [Procedure(name, (p,), (), (op("imm.add", p, imm=1),), frozenset({0})) for name in wanted]
    regions = (Region("f", 2, 1, (5, 6)), Region("é", 1, 3, (7,)), Region("somewhere", 4))
    body = tuple(Call(name, (xs[0],)) for name in wanted)
    module = ported(xs, body, procedures=procedures(*made), regions=regions, memory=4)
    program = checked_emit(module).program
    assert program.data == (0, 5, 6, 7)
    again = assemble(disassemble(program))
    assert (again.code, again.data, again.data_labels) == (program.code, program.data, program.data_labels)
    assert again.labels.items() >= program.labels.items()
    assert len({*program.labels, *program.data_labels}) == len(wanted) + 2


def test_procedures_that_nobody_calls_are_left_out() -> None:
    x = Var("x")
    module = ported(
        [x], (For(Var("i"), Const(1), Const(1), 1, (Call("mix", (x,)),)),), procedures=procedures(mixer(count=1))
    )
    assert names(checked_emit(module)) == ["start", "exch", "exch", "finish"]


def test_the_stack_is_there_only_where_it_is_used() -> None:
    x = Var("x")
    assert checked_emit(ported([x], (op("neg", x),), stack=100)).program.memory == 1
    framed = ported([x], (op("imm.add", SP, imm=1), op("imm.sub", SP, imm=1)), stack=100)
    assert checked_emit(framed).program.memory == 101


# ---------------------------------------------------------------- what is not well formed


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ((op("neg", Y),), "is not live"),
        ((Local(X),), "becomes live, but it is"),
        ((Local(Y),), "alive at the end: y"),
        ((If(When("eq", X, X), (Local(Y),), (op("neg", X),), When("eq", X, X)),), "other variables are live"),
        ((While(When("ne", X, X), (Local(Y),), When("ne", X, X)),), "other variables are live"),
        ((op("mov.add", Const(3), X),), "writes Const"),
        ((op("mul.add", X, X, X),), "which it writes"),
        ((Call("mix", (X,)),), "takes 2 arguments, not 1"),
        ((Call("mix", (X, X)),), "writes its parameter 1"),
        ((Call("mix", (X, Const(1))),), "writes its parameter 1"),
        ((Call("mix", (X, SP)),), "stack pointer is an argument"),
        ((Call("nobody", ()),), "does not define"),
    ],
)
def test_an_ill_formed_module_is_refused(body: Block, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        emit(ported([X], body, procedures=procedures(mixer(count=2))))


def test_too_few_registers_are_refused() -> None:
    with pytest.raises(ValueError, match="8 registers are too few"):
        emit(Module((), {}), registers=8)


@pytest.mark.parametrize("update", ["add", "sub", "xor"])
def test_a_wide_constant_is_undone_by_the_inverse_of_its_making(update: str) -> None:
    """In a block that engines skip: of two instructions, the last is undone first."""
    x, y = Var("x"), Var("y")
    words = [(k + 3) * 0x1234_5678_9ABC for k in range(5)]
    compute = (Local(x), *(Op(TABLE[f"mov.{update}"], x, Const(word)) for word in words))
    body = (Local(y), Op(ADD, y, x), Op(SUB, y, x), Delocal(y))
    emitted = checked_emit(Module((Within(compute, body),), {}))
    ((start, end, _, _),) = emitted.program.hints.pairs
    assert end - start == 2 * len(words)
