"""The function units of the core, except the dividers: branch unit, counters, guards, tables, logic unit and multiplier.

    branch unit   PC += DIR · (BR if BR ≠ 0 else 1)
    logic unit    sums, bitwise operations, shifts, comparisons and selections, each within one cycle
    multiplier    ⌊(x·y + h) / 2^s⌋
    guard unit    the trap of the first guard that fails
    ROM unit      entry x mod n of a constant table
    counters      cycles, instructions, bits toggled, bits erased, and the places where a cotangent was discarded

Each unit executes micro-operations of the microword, or counts executed instructions. The dividers are in `divider.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out
from retrograd.hdl.microcode import FORBIDDEN
from retrograd.hdl.microword import CHECK, WIDE_CHECK, Operation, TrapCause
from retrograd.hdl.parameters import COUNTER, Parameters

# -----------------------------------------------------------------------------
# Words behind gates: a multiplexer with a line for each word. Synthesis can put its last word next to the output.


def gated(pairs: Iterable[tuple[Any, Any]]) -> Any:
    """The disjunction of the words whose gates are open."""
    words = [gate.replicate(len(word)) & word for gate, word in pairs]
    return any_of(words) if words else Const(0)


def any_of(words: list[Any]) -> Any:
    """The disjunction of the words, as a balanced tree."""
    while len(words) > 1:
        words = [reduce(or_, words[at : at + 2]) for at in range(0, len(words), 2)]
    return words[0]


# -----------------------------------------------------------------------------
# The branch unit: PC, BR and DIR.
#
# PC += DIR · (BR if BR ≠ 0 else 1),  with DIR and BR after the instruction


class BranchUnit(wiring.Component):
    """PC, BR and DIR. While no instruction is executed, the host may set them and reverse DIR."""

    def __init__(self, parameters: Parameters, tells: bool = False) -> None:
        """`tells`: with ports for PC and DIR as they will be if the instruction retires."""
        self.parameters = parameters
        self.tells = tells
        width, pc = parameters.width, signed(parameters.pc_bits)
        super().__init__(
            {
                #: the program counter
                "pc": Out(pc),
                #: the branch register
                "br": Out(width),
                #: DIR = −1
                "backward": Out(1),
                #: DIR was reversed by the host an odd number of times
                "turned": Out(1),
                #: 0 ≤ PC < `size`, the length of the program
                "size": In(range(parameters.code_words + 1)),
                "inside": Out(1),
                #: an instruction retires, unless it traps: if `jump`, BR := `target`; if `flip`, DIR := −DIR
                "prepare": In(1),
                #: the instruction does not trap
                "commit": In(1),
                "jump": In(1),
                "target": In(width),
                "flip": In(1),
                #: commands of the host: store `value` where `set_…` is high, or reverse DIR
                "value": In(pc),
                "set_pc": In(1),
                "set_br": In(1),
                "set_direction": In(1),
                "turn": In(1),
                **({"next_pc": Out(pc), "next_backward": Out(1)} if tells else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        br, backward = Signal(self.parameters.width), Signal()
        jumps = self.prepare & self.jump
        m.d.comb += [
            br.eq(Mux(jumps, self.target, self.br)),
            # The direction of the step. After a reversal the step undoes the step that led to this PC.
            backward.eq(self.backward ^ (self.prepare & self.flip) ^ self.turn),
            self.inside.eq((self.pc >= 0) & (self.pc < self.size)),
        ]
        # All sums are computed before one of them is selected, since BR arrives late.
        following = Mux(jumps, self._after(m, self.target, backward), self._after(m, self.br, backward))
        if self.tells:
            m.d.comb += [self.next_pc.eq(following), self.next_backward.eq(backward)]
        with m.If(self.commit | self.turn):
            m.d.sync += [
                self.pc.eq(following),
                self.br.eq(br),
                self.backward.eq(backward),
                self.turned.eq(self.turned ^ self.turn),
            ]
        with m.If(self.set_pc):
            m.d.sync += self.pc.eq(self.value)
        with m.If(self.set_br):
            m.d.sync += self.br.eq(self.value)
        with m.If(self.set_direction):
            m.d.sync += self.backward.eq(self.value[-1])
        return m

    def _after(self, m: Module, br: Any, backward: Any) -> Any:
        """The PC after a step with this BR."""
        step = Signal(signed(self.parameters.pc_bits))
        m.d.comb += step.eq(br.as_signed())
        beside, there = Mux(backward, self.pc - 1, self.pc + 1), Mux(backward, self.pc - step, self.pc + step)
        return Mux(br == 0, beside, there)


# -----------------------------------------------------------------------------
# The performance counters: cycles, instructions, bits toggled, bits erased.


class Counters(wiring.Component):
    """Cycles of a trapping instruction are not counted. Toggled bits are counted three cycles late and, with `waits`, erased bits one cycle
    late. No host can read the counters earlier.
    """

    def __init__(self, width: int, waits: bool = False) -> None:
        """`waits`: an instruction takes `waiting` cycles more than those from the first to the last, and in its last cycle `ahead` more."""
        self.width = width
        self.waits = waits
        super().__init__(
            {
                #: the first cycle of an instruction, and the last cycle of an instruction that retires
                "first": In(1),
                "last": In(1),
                **({"waiting": In(3), "ahead": In(signed(2))} if waits else {}),
                #: exclusive or of the old and the new words, or zero; and whether the new words are written
                "changes": In(width).array(4),
                "writes": In(1),
                #: words erased and cotangents discarded by this write
                "erases": In(range(3)),
                #: set all counters to zero
                "clear": In(1),
                #: of the instructions that have retired
                "cycles": Out(COUNTER),
                "retired": Out(COUNTER),
                #: bits toggled in registers and memory, cotangents included
                "toggled": Out(COUNTER),
                #: bits erased: those of words and of discarded cotangents
                "erased": Out(COUNTER),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        elapsed = Signal(16)
        m.d.sync += elapsed.eq(elapsed + 1)
        with m.If(self.first):
            m.d.sync += elapsed.eq(1 + self.waiting if self.waits else 2)
        with m.If(self.last):
            taken = elapsed + self.ahead if self.waits else elapsed
            m.d.sync += [self.cycles.eq(self.cycles + taken), self.retired.eq(self.retired + 1)]

        # Population count in three cycles: toggled bits, sums of eight bits, the total.
        changed, writes = [Signal(self.width, name=f"changed_{i}") for i in range(4)], Signal(2)
        m.d.sync += [*(word.eq(self.changes[i]) for i, word in enumerate(changed)), writes.eq(Cat(self.writes, writes))]
        bits = [bit for word in changed for bit in word]
        parts = []
        for at in range(0, len(bits), 8):
            part = Signal(4, name=f"ones_{at}")
            m.d.sync += part.eq(balanced_sum(bits[at : at + 8]))
            parts.append(part)
        ones = Signal(range(len(bits) + 1))
        m.d.sync += [ones.eq(Mux(writes[1], balanced_sum(parts), 0)), self.toggled.eq(self.toggled + ones)]
        erases: Any = self.erases
        if self.waits:
            # Whether a guard fails is known late in the cycle.
            erases = Signal(range(3))
            m.d.sync += erases.eq(self.erases)
        m.d.sync += self.erased.eq(self.erased + (erases << (self.width.bit_length() - 1)))
        with m.If(self.clear):
            m.d.sync += [self.cycles.eq(0), self.retired.eq(0), self.toggled.eq(0), self.erased.eq(0)]
        return m


def balanced_sum(terms: Sequence[Any]) -> Any:
    """The sum of the words, as a balanced tree."""
    while len(terms) > 1:
        pairs = [terms[i] + terms[i + 1] for i in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[len(pairs) * 2 :]]
    return terms[0]


# -----------------------------------------------------------------------------
# The tracker of discarded cotangents: the last point at which a freed ancilla lost a nonzero cotangent. A run that
# crosses it backward traps.
#
# A counter numbers the points of the run at which an ancilla is freed: +1 at each point, or −1 after the machine has
# been reversed. At a point
# where the discarded cotangent was nonzero, the run has lost information. The last such point is stored, and crossing
# it from the other side traps.

#: bits of the counter
POINT = 48


class DiscardedCotangents(wiring.Component):
    """Its input, the cotangent, arrives one cycle before the test. An instruction that traps does not change its state."""

    def __init__(self, width: int, chained: bool = False) -> None:
        """`chained`: a point may be crossed in the cycle in which the next cotangent arrives."""
        self.chained = chained
        #: the number of points crossed; the last point at which a nonzero cotangent was lost, if there is one, and
        #: the direction there
        self.crossed = Signal(POINT)
        self.lost = Signal(POINT)
        self.known = Signal()
        self.lost_turned = Signal()
        super().__init__(
            {
                #: the cotangent that would be discarded
                "cotangent": In(width),
                #: the machine was reversed
                "turned": In(1),
                #: discarding a nonzero cotangent traps
                "strict": In(1),
                #: the trap of this crossing, or none
                "trap": Out(TrapCause),
                #: cross the point
                "cross": In(1),
                #: crossing the point discards a nonzero cotangent
                "loses": Out(1),
                #: all cotangents have been cleared: forget the last point
                "forget": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crossed, lost, known, lost_turned = self.crossed, self.lost, self.known, self.lost_turned
        point, back = Signal(POINT), Signal()
        m.d.comb += point.eq(Mux(self.turned, crossed - 1, crossed))
        meets: Value = known & (lost == point) & (lost_turned != self.turned)
        if self.chained:
            # The number after a point that is crossed in this cycle. A point lost in this cycle is not crossed again
            # in this direction.
            behind = Signal(POINT)
            m.d.comb += behind.eq(Mux(self.turned, crossed - 2, crossed + 1))
            later = known & ~self.loses & (lost == behind) & (lost_turned != self.turned)
            meets = Mux(self.cross, later, meets)
        m.d.sync += [self.loses.eq(self.cotangent != 0), back.eq(meets)]
        with m.If(back):
            m.d.comb += self.trap.eq(TrapCause.ERASED)
        with m.Elif(self.loses & self.strict):
            m.d.comb += self.trap.eq(TrapCause.STRICT)
        with m.If(self.cross):
            m.d.sync += crossed.eq(Mux(self.turned, point, crossed + 1))
            with m.If(self.loses):
                m.d.sync += [lost.eq(point), lost_turned.eq(self.turned), known.eq(1)]
        with m.If(self.forget):
            m.d.sync += known.eq(0)
        return m


# -----------------------------------------------------------------------------
# The guard unit: the trap of the first guard that fails, in the order of the table.


class GuardUnit(wiring.Component):
    """Predicates arrive in the order of the schedule; the guards' order in the table decides which trap is reported."""

    def __init__(self, width: int) -> None:
        super().__init__(
            {
                #: an instruction begins, with a trap that is known before execution, if any
                "begin": In(1),
                "forbidden": In(FORBIDDEN),
                #: the guard whose predicate is computed in this cycle; its value arrives in the next
                "check": In(CHECK),
                "last": In(width),
                #: whether overflow traps, and whether erasure traps
                "overflow": In(1),
                "strict": In(1),
                #: a guard has failed; and the trap of the first guard that failed
                "fails": Out(1),
                "trap": Out(TrapCause),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        check, held = Signal(CHECK), Signal(CHECK)
        m.d.sync += check.eq(self.check)
        fails, first = Signal(), Signal()
        m.d.comb += [
            fails.eq(check.valid & (self.last == 0) & (self.overflow | ~check.overflow)),
            first.eq(fails & (~held.valid | (check.order < held.order))),
            self.fails.eq(fails | held.valid),
            self.trap.eq(Mux(first, check.trap, Mux(held.valid, held.trap, TrapCause.NONE))),
        ]
        f = self.forbidden
        with m.If(self.begin):
            m.d.sync += [
                check.valid.eq(0),
                held.valid.eq(f.valid & (self.overflow | ~f.overflow) & (self.strict | ~f.strict)),
                held.order.eq(f.order),
                held.trap.eq(f.trap),
            ]
        with m.Elif(first):
            m.d.sync += held.eq(check)
        return m


# -----------------------------------------------------------------------------
# The ROM unit: entry x mod n of one of the constant tables.


class RomUnit(wiring.Component):
    """Two cycles: the address, then the entry. All tables share one memory, each at a multiple of its length.

    Raises ValueError for a table whose length is no power of two.
    """

    def __init__(self, width: int, tables: Sequence[Sequence[int]], block: int | None = None) -> None:
        """`block`: bits of a block RAM. Each then holds some bits of all entries, so none is selected behind it."""
        if any(not table or len(table) & (len(table) - 1) for table in tables):
            raise ValueError("a table has a power of two of entries")
        self.width = width
        self.tables = [[entry & ((1 << width) - 1) for entry in table] for table in tables]
        #: first address of each table: the longest tables come first, so each is aligned
        self.bases = [0] * len(tables)
        entries: list[int] = []
        for index in sorted(range(len(tables)), key=lambda i: -len(tables[i])):
            self.bases[index] = len(entries)
            entries += self.tables[index]
        self.entries = MemoryData(shape=width, depth=max(2, len(entries)), init=entries)
        #: the memories, from the lowest bits of the entries on: name, first bit, bits
        self.columns = [("entries", 0, width)]
        if block is not None:
            size = max(1, block >> (self.entries.depth - 1).bit_length())
            self.columns = [(f"entries{low}", low, min(size, width - low)) for low in range(0, width, size)]
        super().__init__(
            {
                #: which table
                "table": In(range(max(2, len(tables)))),
                #: the index
                "x": In(width),
                #: the entry, in the next cycle
                "result": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        address = Signal(range(self.entries.depth))
        with m.Switch(self.table):
            for index, (base, table) in enumerate(zip(self.bases, self.tables, strict=True)):
                bits = (len(table) - 1).bit_length()
                with m.Case(index):
                    m.d.comb += address.eq(Cat(self.x[:bits], Const(base >> bits, max(0, len(address) - bits))))
        for name, low, size in self.columns:
            words = [word >> low & (1 << size) - 1 for word in self.entries.init]
            m.submodules[name] = memory = Memory(MemoryData(shape=size, depth=self.entries.depth, init=words))
            port = memory.read_port()
            m.d.comb += [port.addr.eq(address), self.result[low : low + size].eq(port.data)]
        return m


# -----------------------------------------------------------------------------
# The guard unit of an overlapped core: the guards of several slots are tested in one cycle.

#: a guard that failed
_FAILED = data.StructLayout({"valid": 1, "order": 4, "trap": TrapCause})


class OverlappedGuards(wiring.Component):
    """As `GuardUnit`, for all slots at once. An instruction begins no earlier than the trap of the previous instruction is read."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        super().__init__(
            {
                #: an instruction executes its first row, with a trap that is known before execution, if any; its modes
                "begin": In(1),
                "forbidden": In(FORBIDDEN),
                "entering_overflow": In(1),
                "entering_strict": In(1),
                #: the guards whose predicates are computed in this cycle; the predicates, each 0 or 1, arrive in the
                #: next
                **{f"check{k}": In(WIDE_CHECK) for k in range(slots)},
                **{f"holds{k}": In(1) for k in range(slots)},
                #: whether the sums, and the products or quotients, of this cycle fit
                "fits": In(slots),
                "units_fit": In(slots),
                #: whether overflow traps in the instruction whose predicates arrive
                "overflow": In(1),
                #: a guard has failed; and the trap of the first guard that failed
                "fails": Out(1),
                "trap": Out(TrapCause),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        over, units_over = Signal(self.slots), Signal(self.slots)
        m.d.sync += [over.eq(~self.fits), units_over.eq(~self.units_fit)]
        #: the first guard that failed in earlier cycles, and those of the cycle before
        held = Signal(_FAILED)
        failed = [held]
        for k in range(self.slots):
            check, now = Signal(WIDE_CHECK, name=f"check{k}_arriving"), Signal(_FAILED, name=f"failed{k}")
            m.d.sync += check.eq(getattr(self, f"check{k}"))
            fails = (check.result & ~getattr(self, f"holds{k}")) | (check.sum & over[k]) | (check.unit & units_over[k])
            m.d.comb += [
                now.valid.eq(fails & (self.overflow | ~check.overflow)),
                now.order.eq(check.order),
                now.trap.eq(check.trap),
            ]
            failed.append(now)
        # Of two guards with the same order, the held one counts: it may be a trap that is known before execution.
        first = Signal(_FAILED)
        m.d.comb += [first.valid.eq(self.fails), self.fails.eq(Cat(guard.valid for guard in failed).any())]
        for k, guard in enumerate(failed):
            before = Cat(other.valid & (other.order <= guard.order) for other in failed[:k])
            with m.If(guard.valid & ~before.any()):
                m.d.comb += [first.order.eq(guard.order), first.trap.eq(guard.trap)]
        m.d.comb += self.trap.eq(Mux(first.valid, first.trap, TrapCause.NONE))
        m.d.sync += held.eq(first)
        f = self.forbidden
        with m.If(self.begin):
            m.d.sync += [
                held.valid.eq(f.valid & (self.entering_overflow | ~f.overflow) & (self.entering_strict | ~f.strict)),
                held.order.eq(f.order),
                held.trap.eq(f.trap),
            ]
        return m


# -----------------------------------------------------------------------------
# The logic unit: sums, bitwise operations, shifts, comparisons and selections, each within one cycle.


class LogicUnit(wiring.Component):
    """An adder, which also compares, and a rotator, which also shifts. For an operation of another unit, the result is 0.

    Raises ValueError for a width that is no power of two, since a shift amount is a field of bits.
    """

    def __init__(self, width: int, flags: bool = False, lacks: Collection[str] = ()) -> None:
        """`flags`: with a port for the overflow flag of sums and differences; `lacks`: operations of trees that this unit does not have."""
        if width < 2 or width & (width - 1):
            raise ValueError(f"words have a power of two of bits, not {width}")
        self.width = width
        self.flags = flags
        self.lacks = frozenset(lacks)
        super().__init__(
            {
                #: the operation
                "operation": In(Operation),
                #: the operands; of a selection: the condition, the word if it is nonzero, the word if it is zero
                "x": In(width),
                "y": In(width),
                "z": In(width),
                #: the result
                "result": Out(width),
                **({"fits": Out(1)} if flags else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x, y, width = self.x, self.y, self.width
        is_sum = Signal()
        m.d.comb += is_sum.eq((self.operation == Operation.ADD) | (self.operation == Operation.ADDFITS))

        # x + y, or x + ¬y + 1. The carry in is one more bit below.
        total, addend = Signal(width + 1), Signal(width)
        m.d.comb += addend.eq(Mux(is_sum, y, ~y))
        m.d.comb += total.eq((Cat(~is_sum, x) + Cat(~is_sum, addend))[1:])
        word, carry = total[:width], total[width]
        overflow, equal = Signal(), Signal()
        m.d.comb += overflow.eq((x[-1] == addend[-1]) & (word[-1] != x[-1]))
        m.d.comb += equal.eq(x == y)
        less, below_y = Signal(), Signal()
        m.d.comb += [less.eq(word[-1] ^ overflow), below_y.eq(~carry)]

        if self.flags:
            m.d.comb += self.fits.eq(~overflow)

        op = Operation

        def had(*operations: Operation) -> Any:
            """Whether the operation is one of these, and the unit has it."""
            of_unit = [operation for operation in operations if operation.name.lower() not in self.lacks]
            gate = Signal(name=f"is_{operations[0].name.lower()}")
            m.d.comb += gate.eq(self.operation.matches(*of_unit) if of_unit else 0)
            return gate

        # A shift is a rotation to the right in which the sign or zeros replace the bits that went round.
        left, right, fills = had(op.SHL), had(op.SHR, op.SAR), had(op.SAR)
        amount = y[: (width - 1).bit_length()]
        below, kept = Signal(width), Signal(width)
        m.d.comb += below.eq(Cat(amount > place for place in range(width)))
        m.d.comb += kept.eq((left.replicate(width) & ~below) | (right.replicate(width) & ~Cat(*reversed(below))))
        rotated = _rotated(m, x, amount, left, width)

        truth = Signal()
        m.d.comb += truth.eq(
            gated(
                [
                    (had(op.LT), less), (had(op.GE), ~less), (had(op.LTU), below_y), (had(op.GEU), ~below_y),
                    (had(op.ADDFITS, op.SUBFITS), ~overflow),
                ]
            )
        )  # fmt: skip
        # Gates in place of a multiplexer. The words that arrive last stand next to the output.
        early = gated(
            [
                (had(op.AND), x & y), (had(op.OR), x | y), (had(op.XOR), x ^ y),
                (fills & x[-1], Cat(*reversed(below))),
                (had(op.EQ), equal), (had(op.NE), ~equal),
            ]
        )  # fmt: skip
        chosen = gated([(had(op.SELECT), Mux(x.any(), y, self.z))])
        late = (gated([(had(op.ADD, op.SUB), word)]) | truth) | (kept & rotated)
        m.d.comb += self.result.eq((early | chosen) | late)
        return m


def _rotated(m: Module, word: Any, amount: Any, left: Any, width: int) -> Any:
    """The word rotated to the right, or to the left: a stage for each bit of the amount, or of its negation."""
    any_below: Any = Const(0)
    for k, bit in enumerate(amount):
        stage = Signal(width, name=f"rotated_{1 << k}")
        m.d.comb += stage.eq(Mux(bit ^ (left & any_below), Cat(word[1 << k :], word[: 1 << k]), word))
        word, any_below = stage, any_below | bit
    return word


# -----------------------------------------------------------------------------
# The multiplier: ⌊(x·y + h) / 2^s⌋ for the shifts s and the rounding constants h of the microcode.

#: bits of the limbs that are multiplied: the width of an FPGA's multiplier, signed or unsigned
LIMB = 16


class Multiplier(wiring.Component):
    """Three cycles: partial products; their sum with h; the shift. The product is held until the next.

    Registers stand within the sum, before its last addition. They hold two words: the partial products of limbs at the same place of x
    and y, which do not overlap; and the sum of all other partial products and h.

    Raises ValueError for a shift of the whole product's length or more, and for an h that may overflow the product.
    """

    def __init__(
        self,
        width: int,
        shifts: Sequence[int],
        halves: Sequence[int] = (0,),
        cycles: int = 3,
        tested: Collection[int] | None = None,
    ) -> None:
        """`tested`: with a port for whether the result is the whole product, for these of the shifts."""
        if not all(0 <= s <= 2 * width for s in shifts):
            raise ValueError(f"shifts of a product go from 0 to {2 * width}")
        if not all(0 <= h < 1 << width for h in halves):
            raise ValueError(f"what is added to a product has at most {width} bits")
        if cycles not in (2, 3):
            raise ValueError(f"a product takes 2 or 3 cycles, not {cycles}")
        self.width = width
        self.halves = tuple(halves)
        self.shifts = tuple(shifts)
        self.cycles = cycles
        self.tested = frozenset(tested or ())
        self.flags = tested is not None
        super().__init__(
            {
                #: multiply x and y
                "start": In(1),
                "x": In(width),
                "y": In(width),
                #: index of h
                "half": In(range(max(2, len(halves)))),
                #: index of s
                "shift": In(range(max(2, len(shifts)))),
                #: the result, from the last cycle on
                "result": Out(width),
                **({"fits": Out(1)} if self.flags else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.width
        limb = min(LIMB, width)

        # All limbs except the top one are unsigned. With one more bit, every partial product is a product of signed
        # numbers.
        def limbs(word: Signal) -> list[Signal]:
            found = []
            for at in range(0, width, limb):
                part = Signal(signed(limb + 1), name=f"limb_{at}")
                m.d.comb += part.eq(word[at:].as_signed() if at + limb == width else word[at : at + limb])
                found.append(part)
            return found

        first = m.d.sync if self.cycles == 3 else m.d.comb
        partials: dict[tuple[int, int], Signal] = {}
        for i, a in enumerate(limbs(self.x)):
            for j, b in enumerate(limbs(self.y)):
                partial = partials[i, j] = Signal(signed(2 * limb + 2), name=f"partial_{i}_{j}")
                first += partial.eq(a * b)
        half = Signal(width)
        with m.Switch(self.half):
            for index, h in enumerate(self.halves):
                with m.Case(index):
                    first += half.eq(h)
        product = Signal(signed(2 * width))
        if self.cycles == 3:
            started = Signal()
            m.d.sync += started.eq(self.start)
            with m.If(started):
                m.d.sync += product.eq(sum((partial << limb * (i + j) for (i, j), partial in partials.items()), half))
        else:
            aligned, others = Signal(signed(2 * width)), Signal(signed(2 * width))
            with m.If(self.start):
                m.d.sync += [aligned.eq(_row(partials, 0, limb)), others.eq(_sum_of_rows(partials, limb, half))]
            m.d.comb += product.eq(aligned + others)

        # A multiplexer with a line for each shift is a balanced tree, which the product enters last.
        shifts = [(self.shift == index, s) for index, s in enumerate(self.shifts)]
        m.d.comb += self.result.eq(gated((line, (product >> s)[:width]) for line, s in shifts))
        if self.flags:
            m.d.comb += self.fits.eq(gated((line, fits(product >> s, width)) for line, s in shifts if s in self.tested))
        return m


class ChainedSum(wiring.Component):
    """x ± product, or the product alone; and whether the sum fits. It follows a multiplier, in the same cycle."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                #: add x to the product, or subtract the product from x
                "chain": In(1),
                "subtract": In(1),
                "x": In(width),
                "product": In(width),
                "result": Out(width),
                "fits": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        minus, x, y = Signal(), Signal(self.width), Signal(self.width)
        m.d.comb += [
            minus.eq(self.chain & self.subtract),
            x.eq(Mux(self.chain, self.x, 0)),
            y.eq(self.product ^ minus.replicate(self.width)),
            # x + y, or x + ¬y + 1. The carry in is one more bit below.
            self.result.eq((Cat(minus, x) + Cat(minus, y))[1:]),
            self.fits.eq((x[-1] != y[-1]) | (self.result[-1] == x[-1])),
        ]
        return m


def _row(partials: dict[tuple[int, int], Signal], apart: int, limb: int) -> Any:
    """The sum of the partial products of limbs i of x and i + apart of y. They lie end to end; all except the last are products of unsigned limbs."""
    row = [(i, j) for i, j in partials if j - i == apart]
    return Cat(partials[pair][: 2 * limb] for pair in row).as_signed() << limb * sum(row[0])


def _sum_of_rows(partials: dict[tuple[int, int], Signal], limb: int, half: Signal) -> Any:
    """The sum of half and of all rows except the row of limbs at the same place."""
    apart = sorted({j - i for i, j in partials} - {0}, key=abs)
    return sum((_row(partials, k, limb) for k in apart), half)


def fits(word: Any, width: int) -> Any:
    """Whether a signed number fits a word: all bits from the word's sign on are equal."""
    above = word[width - 1 :]
    return above.all() | ~above.any()
