"""The function units do what the definition of their operations says, in the cycles that schedules count on."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator
from retrograd.hdl.bus.serial_line import Receiver, Transmitter
from retrograd.hdl.core.divider import Divider, Division, RingDivider
from retrograd.hdl.core.memories import OperandFile
from retrograd.hdl.core.units import LogicUnit, Multiplier, RomUnit
from retrograd.hdl.microword import Operation
from retrograd.hdl.parameters import Parameters
from retrograd.isa.expr import apply_operation, evaluate, half
from retrograd.isa.microarchitecture.micro_operations import CORES, FUSED, Unit, Units, unit_of
from retrograd.isa.program import MAX_CODE
from retrograd.isa.words import Format

FORMATS = [Format(8, 4), Format(32, 16), Format(64, 32)]


def some_word(w: Format, rng: random.Random) -> int:
    if rng.random() < 0.3:
        return rng.choice((0, 1, w.mask, w.sign, w.sign - 1))
    return w.wrap(w.signed(rng.getrandbits(w.width)) >> rng.randrange(w.width))


def simulate(component: Any, bench: Callable[[Any], Awaitable[None]], clocked: bool = True) -> None:
    simulator = Simulator(component)
    if clocked:
        simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_every_operation_of_trees_has_a_number() -> None:
    names = {o.name.lower() for o in Operation} - {"none"}
    assert names >= {*FUSED}
    assert all(unit_of(name) in Unit for name in names)
    with pytest.raises(KeyError):
        unit_of("none")


@pytest.mark.parametrize("lacks", [frozenset(), *CORES["fast"].lacks[1:]], ids=len)
@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_the_logic_unit(w: Format, lacks: frozenset[str]) -> None:
    """An operation that the unit lacks gives 0, so that no unit has hardware for it."""
    unit, rng = LogicUnit(w.width, lacks=lacks), random.Random(w.width)
    operations = [o for o in Operation if o is not Operation.NONE and unit_of(o.name.lower()) is Unit.LOGIC]

    async def bench(ctx: Any) -> None:
        for k in range(40 * len(operations)):
            operation = operations[k % len(operations)]
            x, y, z = (some_word(w, rng) for _ in "xyz")
            ctx.set(unit.operation, operation)
            ctx.set(unit.x, x)
            ctx.set(unit.y, y)
            ctx.set(unit.z, z)
            name = operation.name.lower()
            fused = FUSED.get(name)
            expected = (
                evaluate(fused, w, {"x": x, "y": y}) if fused is not None else apply_operation(w, name, 0, [x, y, z])
            )
            assert ctx.get(unit.result) == (0 if name in lacks else expected), (operation, x, y, z)

    simulate(unit, bench, clocked=False)


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("core", CORES)
def test_the_multiplier(w: Format, core: str) -> None:
    shifts = (0, w.frac, w.width, w.width + w.frac, 2 * w.width, 5)
    halves = (0, 1, half(w.frac, w), half(w.width - 1, w))
    cycles = CORES[core].multiplier
    unit, rng = Multiplier(w.width, shifts, halves, cycles, shifts[1:3]), random.Random(w.width)
    assert cycles == {"small": 3, "fast": 2}[core]

    async def bench(ctx: Any) -> None:
        # A product begins in each cycle. Issued in cycle c, its word is written at the end of c + 1 or c + 2.
        asked: list[int] = []
        for _ in range(100):
            x, y, which = some_word(w, rng), some_word(w, rng), rng.randrange(len(halves))
            asked.append(w.signed(x) * w.signed(y) + halves[which])
            ctx.set(unit.x, x)
            ctx.set(unit.y, y)
            ctx.set(unit.half, which)
            ctx.set(unit.start, 1)
            if len(asked) >= cycles:
                index = rng.randrange(len(shifts))
                whole = asked[-cycles] >> shifts[index]
                ctx.set(unit.shift, index)
                assert ctx.get(unit.result) == whole & w.mask
                assert shifts[index] not in unit.tested or ctx.get(unit.fits) == (w.signed(whole & w.mask) == whole)
            await ctx.tick()
        # The last stays.
        ctx.set(unit.start, 0)
        await ctx.tick().repeat(5)
        for index, shift in enumerate(shifts):
            ctx.set(unit.shift, index)
            assert ctx.get(unit.result) == (asked[-1] >> shift) & w.mask

    simulate(unit, bench)


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize(("digits", "stages"), [(2, 0), (4, 0), (8, 0), (16, 8), (18, 9)])
def test_the_divider(w: Format, digits: int, stages: int) -> None:
    """With stages: a ring."""
    shifts = (0, 1, 2, 3, w.frac, w.width - 1)
    divisions = [Division(False, s) for s in (*shifts, w.width)]
    divisions += [Division(root, s, True) for root in (False, True) for s in shifts]
    kind, size = (RingDivider, stages) if stages else (Divider, digits)
    unit, rng = kind(w.width, divisions, (0, w.width), size), random.Random(w.width)
    units = Units(digits=digits, roots=stages or None)

    async def bench(ctx: Any) -> None:
        corners = [(x, y) for x in (w.sign, w.sign - 1, w.mask, 1) for y in (1, w.mask, 2, w.sign)]
        for k in range(len(corners) * len(divisions) + 6 * len(divisions)):
            index = k % len(divisions)
            root, s, rounded = divisions[index]
            drawn = some_word(w, rng), some_word(w, rng)
            x, y = corners[k // len(divisions)] if k // len(divisions) < len(corners) else drawn
            ctx.set(unit.x, x)
            ctx.set(unit.y, y)
            ctx.set(unit.division, index)
            ctx.set(unit.start, 1)
            await ctx.tick()
            ctx.set(unit.start, 0)
            ctx.set(unit.x, some_word(w, rng))
            ctx.set(unit.y, some_word(w, rng))
            # Its first word is written in the cycle before it is ready.
            operation = divisions[index].operation
            latency = units.latency(operation, w, s)
            await ctx.tick().repeat(units.rounds(operation, w.width, s) * stages + 1 if stages else latency - 2)
            if root:
                exact = 0 if x & w.sign else round(Decimal(x << s).sqrt(Context(prec=60)))
            elif rounded:
                exact = math.floor(Fraction(w.signed(x) << s, w.signed(y)) + Fraction(1, 2)) if y else 0
            else:
                exact = (w.signed(x) << s) // w.signed(y) if y else 0
            for which, shift in enumerate((0, w.width)):
                ctx.set(unit.shift, which)
                assert ctx.get(unit.result) == (exact >> shift) & w.mask, (root, s, x, y)
            await ctx.tick()

    simulate(unit, bench)


def test_the_rom() -> None:
    tables = [[1, 2, 3, 4], list(range(100, 116)), [9, 8], [77]]
    unit, rng = RomUnit(8, tables), random.Random(1)

    async def bench(ctx: Any) -> None:
        for _ in range(100):
            which, x = rng.randrange(4), rng.randrange(256)
            ctx.set(unit.table, which)
            ctx.set(unit.x, x)
            await ctx.tick()
            assert ctx.get(unit.result) == tables[which][x % len(tables[which])]

    simulate(unit, bench)


def test_a_serial_line_loses_nothing() -> None:
    m = Module()
    m.submodules.sender = sender = Transmitter(5)
    m.submodules.receiver = receiver = Receiver(5)
    m.d.comb += receiver.rx.eq(sender.tx)
    rng = random.Random(3)
    sent = [rng.randrange(256) for _ in range(40)]

    async def bench(ctx: Any) -> None:
        found, left = [], list(sent)
        for _ in range(len(sent) * 60):
            ctx.set(sender.valid, bool(left))
            ctx.set(sender.byte, left[0] if left else 0)
            if left and ctx.get(sender.ready):
                left.pop(0)
            await ctx.tick()
            if ctx.get(receiver.valid):
                found.append(ctx.get(receiver.byte))
        assert found == sent

    simulate(m, bench)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LogicUnit(24), "power of two"),
        (lambda: Multiplier(8, [17]), "shifts of a product"),
        (lambda: Multiplier(8, [0], [256]), "at most 8 bits"),
        (lambda: Multiplier(8, [0], cycles=4), "takes 2 or 3 cycles, not 4"),
        (lambda: Divider(8, [Division(False, 9)], [0]), "x is shifted"),
        (lambda: Divider(8, [Division(False, 1)], [17]), "shifts of a quotient"),
        (lambda: Divider(8, [], [], 3), "no pairs"),
        (lambda: RomUnit(8, [[1, 2, 3]]), "power of two"),
        (lambda: OperandFile(8, range(97), []), "constants do not fit"),
        (lambda: Receiver(3), "4 cycles"),
        (lambda: Parameters(Format(4, 2)), "8 to 64 bits"),
        (lambda: Parameters(core="large"), "the cores are small, fast, barrel, not large"),
        (lambda: Parameters(core="lanes", lanes=8), "the cores are small, fast, barrel, not lanes"),
        (lambda: Parameters(core="barrel"), "the core barrel has 8 to 16 threads, not 1"),
        (lambda: Parameters(lanes=True), "the core small has one lane, not True"),
        (lambda: Parameters(lanes=2), "the core small has one lane, not 2"),
        (lambda: Units(slots=(frozenset({Unit.LOGIC}),)), "the first has all units"),
        (lambda: Units(digits=0), "digits takes at least 1"),
        (lambda: Parameters(code_words=1), "room for 2"),
        (lambda: Parameters(code_words=MAX_CODE + 1), "room for 2"),
        (lambda: Parameters(data_words=0), "words of data"),
        (lambda: Parameters(units=frozenset({Unit.DIVIDER})), "logic unit"),
    ],
)
def test_impossible_hardware_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
