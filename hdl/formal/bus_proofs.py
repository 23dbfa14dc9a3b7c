# amaranth: UnusedElaboratable=no
"""Proofs of the parts on the bus: direct memory access as a master of Wishbone, and the host interface as a slave.

The host interface is executed from any of its states, with arbitrary signals from the core, for all transfers of a few cycles. Any state of
the registers is a first state, so the bounds limit the length of a transfer, and not the time before it. The claims stand above each prover:

    CopyProver          direct memory access: one step, for arbitrary signals of memory and host
    BusProver           the host interface without direct memory access
    CopyingBusProver    the host interface with direct memory access, during a copy and outside of a copy, and claims on a copy
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import z3
from amaranth.hdl import Signal
from retrograd.hdl.bus.host_interface import CycleType, DirectMemoryAccess, HostInterface
from retrograd.hdl.bus.register_map import UNLIMITED, HostRegister
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.solving import ProofResult, truth
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

# -----------------------------------------------------------------------------
# Direct memory access.
#
#     held        a transfer without an answer is there in the next cycle as it was: `cyc`, `stb`, `we`, address, word, kind
#     announced   an incrementing transfer that is carried out is followed at once by the transfer of the next address, in the same cycle of the bus
#     refused     a refused transfer ends the copy: the bus is free in the next cycle
#     ended       behind the last transfer of a burst the bus is free for a cycle
#     free        without a copy no transfer begins, and no word of the co-processor is written or read
#
# The claims are about one step from any state in which a transfer belongs to a copy. The claim `held` shows that this remains so. Assumption: the
# host interface refuses writes of the address, the length and the pointer during a copy.

#: signals of a transfer
TRANSFER = ("cyc", "stb", "we", "adr", "sel", "dat_w", "cti", "bte")


class CopyProver:
    """The claims on the unit of a co-processor of this format. `unit`: a wrong unit, to test that it is refuted."""

    def __init__(self, w: Format, seconds: float = 60, unit: type[DirectMemoryAccess] = DirectMemoryAccess) -> None:
        self.seconds = seconds
        self.unit = part = unit(Parameters(w, code_words=8, data_words=4, dma=True))
        memory = part.memory
        self._signals = {name: getattr(memory, name) for name in TRANSFER} | {
            name: getattr(part, name) for name in ("busy", "write", "read")
        }
        self._hardware = Symbolic(part, [*self._signals.values()])

    def claims(self) -> dict[str, Callable[[], tuple[Word, Word]]]:
        """name -> (premise, conclusion) of a step."""
        return {
            "direct memory access: held": self._held,
            "direct memory access: announced": self._announced,
            "direct memory access: refused": self._refused,
            "direct memory access: ended": self._ended,
            "direct memory access: free": self._free,
        }

    def prove(self, name: str) -> ProofResult:
        """The result of one claim."""
        begun, wrong = time.monotonic(), ""
        premise, holds = self.claims()[name]()
        solver = z3.Solver()
        solver.set("timeout", int(1000 * self.seconds))
        solver.add(truth(premise))
        if solver.check() != z3.sat:
            wrong = "no state satisfies the premise"
        else:
            solver.add(z3.Not(truth(holds)))
            match solver.check():
                case z3.sat:
                    wrong = str(solver.model())
                case z3.unknown:
                    wrong = "undecided"
        return ProofResult(name, not wrong, time.monotonic() - begun, 0, wrong, not wrong)

    def _step(self) -> tuple[dict[str, Word], dict[str, Word], Word]:
        """The signals in a cycle and in the next, and the premise: a transfer belongs to a copy, and a copy is not disturbed."""
        hw = self._hardware
        hw.reset()
        hw.forget([])
        same = {"found": terms.unknown("found", 64), "wide": terms.unknown("wide", 1)}
        given = {
            "memory__ack": terms.unknown("ack", 1), "memory__err": terms.unknown("err", 1), "memory__dat_r": terms.unknown("dat_r", 32),
            "begin": terms.unknown("begin", 1), "out": terms.unknown("out", 1), "stop": terms.unknown("stop", 1),
            "set_address": 0, "set_length": 0, "value": 0,
        }  # fmt: skip
        hw.settle(**same, **given)
        before = {name: hw.peek(signal) for name, signal in self._signals.items()} | given
        hw.tick()
        hw.settle(**same, **(given | {"memory__ack": 0, "memory__err": 0}))
        after = {name: hw.peek(signal) for name, signal in self._signals.items()}
        return before, after, implies(before["cyc"], before["busy"])

    def _same(self, before: dict[str, Word], after: dict[str, Word], names: tuple[str, ...]) -> Word:
        bits = [terms.equal(before[name], after[name], len(self._signals[name])) for name in names]
        return reduce(terms.conjunction, bits, 1)

    def _held(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        unanswered = terms.conjunction(terms.negation(before["memory__ack"]), terms.negation(before["memory__err"]))
        holds = terms.conjunction(self._same(before, after, TRANSFER), after["busy"])
        return reduce(terms.conjunction, (premise, before["cyc"], unanswered)), holds

    def _carried_out(self, before: dict[str, Word], premise: Word) -> Word:
        return reduce(
            terms.conjunction, (premise, before["cyc"], before["memory__ack"], terms.negation(before["memory__err"]))
        )

    def _announced(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        goes_on = terms.equal(before["cti"], CycleType.INCREMENTING.value, 3)
        address = terms.apply("+", 30, [30, 30], [before["adr"], 1])
        holds = terms.conjunction(
            self._same(before, after, ("cyc", "stb", "we", "sel", "bte")), terms.equal(after["adr"], address, 30)
        )
        return terms.conjunction(self._carried_out(before, premise), goes_on), holds

    def _refused(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        free = terms.conjunction(terms.negation(after["cyc"]), terms.negation(after["busy"]))
        return reduce(terms.conjunction, (premise, before["cyc"], before["memory__err"])), free

    def _ended(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        last = terms.equal(before["cti"], CycleType.END.value, 3)
        holds = terms.conjunction(terms.negation(after["cyc"]), after["busy"])
        return terms.conjunction(self._carried_out(before, premise), last), holds

    def _free(self) -> tuple[Word, Word]:
        before, after, premise = self._step()
        return terms.conjunction(premise, terms.negation(before["busy"])), terms.conjunction(
            terms.negation(after["cyc"]), terms.negation(before["read"])
        )


# -----------------------------------------------------------------------------
# Transfers on the bus of a host interface, executed on terms.
#
#     begin → transfer → transfer …      each transfer is held until its answer, for `CYCLES` cycles at most, and a cycle without one follows
#
# Reads and writes of the core's memories by a copy are kept apart from those of transfers.


#: cycles in which a transfer is answered, the first included
CYCLES = 3
#: lines of the bus that a master drives
LINES = {"cyc": 1, "stb": 1, "we": 1, "adr": 30, "dat_w": 32, "sel": 4}
_STROBES = ("set_pc", "set_br", "set_direction", "turn", "forget", "clear")


@dataclass
class Transfer:
    """The outcome of a transfer; each word is a term."""

    acked: Word = 0
    refused: Word = 0
    both: Word = 0
    #: the word that was read
    data: Word = 0
    #: whether it is carried out in each cycle; the outputs of each cycle
    answers: list[Word] = field(default_factory=list)
    cycles: list[dict[str, Word]] = field(default_factory=list)
    #: the outputs of the cycle behind them, without a transfer
    behind: dict[str, Word] = field(default_factory=dict)

    @property
    def reaches(self) -> Word:
        """Whether it read or wrote a memory of the core, or strobed a setting, in some cycle."""
        return terms.disjunction(self.changes, any_of(cycle["window.read"] for cycle in self.cycles))

    @property
    def changes(self) -> Word:
        """Whether it wrote a memory of the core, or strobed a setting, in some cycle."""
        return any_of(word for cycle in self.cycles for name, word in cycle.items() if name in _CHANGING)


_CHANGING = ("window.write", *_STROBES)


class HostTransfers:
    """The host interface of a co-processor of this format, or another one in its place."""

    #: whether the hardware has direct memory access, its core, and the lanes of the core
    dma, core, lanes = False, "small", 1
    #: the cycles in which a transfer is answered, those after which a word that is read is there, and those that the word
    #: of a slot waits in a register
    cycles, late, held = CYCLES, 1, 0

    def __init__(self, w: Format, interface: type[HostInterface] = HostInterface, slots: int = 1) -> None:
        self.interface = part = interface(
            Parameters(w, code_words=8, data_words=4, dma=self.dma, core=self.core, lanes=self.lanes, slots=slots)
        )
        s, window = part.settings, part.window
        self.outputs: dict[str, Any] = {
            "run": part.run, "code_size": part.code_size, "data_size": part.data_size, "differentiate": part.modes.differentiate,
            "overflow": part.modes.overflow, "strict": part.modes.strict, "window.read": window.read, "window.write": window.write,
            "window.space": window.write_space, "window.address": window.write_address, "window.written": window.written,
            **{name: getattr(s, name) for name in _STROBES}, "value": s.value, "zeroing": part.zeroing, "zeroed": part.zeroes,
            "register_size": part.register_size,
        }  # fmt: skip
        if part.dma:
            self.outputs |= {
                "copying": part.dma.busy, "copy.read": part.dma.read, "copy.write": part.dma.write, "copy.length": part.dma.length,
                "copy.high": part.dma.high, "window.read_space": window.read_space, "window.read_address": window.read_address,
            }  # fmt: skip
            self.outputs |= {f"memory.{name}": getattr(part.dma.memory, name) for name in TRANSFER}
        if self.lanes > 1:
            self.outputs |= {"selected": part.selected, "lane": part.lane.as_value()}
        bus = part.bus
        seen = [bus.ack, bus.err, bus.dat_r, part.accepted.as_value(), part.zeroes, part.busy, part.waited]
        seen += [] if part.spreads is None else [part.spreads]
        self.hardware = Symbolic(part, [*self.outputs.values(), *seen])
        ports = self.hardware.cells[0].ports_i
        self._core = {
            name: width
            for name, (_, width) in ports.items()
            if not name.startswith("bus__") and name not in ("clk", "rst")
        }
        self._moment = 0

    def _begin(self) -> None:
        """Begin in any state in which the bus gives no answer and no word is being set to zero. By the first claim no write acts in such a state."""
        hw, bus = self.hardware, self.interface.bus
        hw.reset()
        hw.forget([])
        self._moment = 0
        for signal in (bus.ack, bus.err, self.interface.accepted.as_value(), self.interface.zeroes):
            hw.poke(signal, 0)

    def _inputs(self, fixed: Mapping[str, Word]) -> dict[str, Word]:
        """The inputs from the core in this cycle: anything, except the fixed words, which may be functions of the cycle."""
        self._moment += 1
        given = {name: word(self._moment) if callable(word) else word for name, word in fixed.items()}
        return {
            name: given.get(name, terms.unknown(f"{name}@{self._moment}", width)) for name, width in self._core.items()
        }

    def _outputs(self) -> dict[str, Word]:
        """The outputs; `window.read` and `window.write` are high for transfers only, and `zeroed` for writes of zeros. With the others they are `reads` and `writes`."""
        found = {name: self.hardware.peek(signal) for name, signal in self.outputs.items()}
        found |= {"reads": found["window.read"], "writes": found["window.write"]}
        copying = found.setdefault("copying", 0)
        copied, given = (terms.conjunction(copying, found.get(name, 0)) for name in ("copy.write", "copy.read"))
        written, zeroed = terms.conjunction(found["writes"], terms.negation(copied)), found["zeroed"]
        found["zeroed"] = terms.conjunction(written, zeroed)
        found["window.write"] = terms.conjunction(written, terms.negation(zeroed))
        found["window.read"] = terms.conjunction(found["reads"], terms.negation(given))
        return found

    def _transfer(self, we: Word, adr: Word, dat: Word, sel: Word = 15, active: Word = 1, **fixed: Word) -> Transfer:
        """Hold a transfer for as many cycles as it may take. `active`: 0 for none; `fixed`: inputs from the core."""
        hw, bus, out = self.hardware, self.interface.bus, Transfer()
        for _ in range(self.cycles):
            hw.settle(
                **self._inputs(fixed),
                bus__cyc=active,
                bus__stb=active,
                bus__we=we,
                bus__adr=adr,
                bus__sel=sel,
                bus__dat_w=dat,
            )
            ack, err = (terms.conjunction(active, hw.peek(signal)) for signal in (bus.ack, bus.err))
            out.answers.append(ack)
            out.data = terms.choice(ack, hw.peek(bus.dat_r), out.data, 32)
            out.acked, out.refused = terms.disjunction(out.acked, ack), terms.disjunction(out.refused, err)
            out.both = terms.disjunction(out.both, terms.conjunction(hw.peek(bus.ack), hw.peek(bus.err)))
            out.cycles.append(self._outputs())
            active = terms.conjunction(active, terms.negation(terms.disjunction(ack, err)))
            hw.tick()
        out.behind = self._pause(**fixed)
        return out

    def _pause(self, **fixed: Word) -> dict[str, Word]:
        """A cycle without a transfer, and its outputs."""
        self.hardware.settle(**self._inputs(fixed), bus__cyc=0, bus__stb=0)
        found = self._outputs()
        self.hardware.tick()
        self.hardware.settle()
        return found

    def _any_transfer(self, which: str = "") -> tuple[Word, Word, Word, Word]:
        we, adr, dat, sel = (terms.unknown(which + name, LINES[name]) for name in ("we", "adr", "dat_w", "sel"))
        return we, adr, dat, sel

    def _in_window(self, adr: Word) -> Word:
        """Whether the address is that of a word of a memory, or of STREAM."""
        area = terms.negation(terms.equal(terms.piece_of(adr, 26, 4), 0, 4))
        return terms.disjunction(area, terms.equal(terms.piece_of(adr, 1, 29), HostRegister.STREAM.value, 29))

    def _beside_none(
        self, *transfer: Word, but: Sequence[Signal] = (), **fixed: Word
    ) -> tuple[Transfer, Transfer, list[Word], list[tuple[Word, Word]]]:
        """A transfer, none from the same state, whether each register is then equal, except the bus and `but`, and the words of `but` after both."""
        hw, bus, part = self.hardware, self.interface.bus, self.interface
        before = dict(hw.words)
        found = self._transfer(*transfer, **fixed)
        after, words, self._moment = dict(hw.words), [hw.peek(signal) for signal in but], 0
        hw.restore(before)
        none = self._transfer(*self._any_transfer("free "), active=0, **fixed)
        # What was decoded of a transfer counts in the next cycle of the same transfer only.
        decoded = [] if part.decoded is None else [part.decoded.as_value(), part.spreads]
        own = {
            int(net.cell)
            for signal in (bus.ack, bus.err, bus.dat_r, part.accepted.as_value(), *decoded, *but)
            for net in hw.netlist.signals[signal]
        }
        # The only other register without effect delays a read; it is 0 after a pause in both runs.
        same = [
            terms.equal(after[index], word, len(hw.cells[index].data))
            for index, word in hw.words.items()
            if index not in own
        ]
        pairs = [(word, hw.peek(signal)) for word, signal in zip(words, but, strict=True)]
        return found, none, same, pairs

    def _belongs(self, cycle: dict[str, Word]) -> Word:
        """Whether a transfer to the host's memory belongs to a copy. The claim `one at a time` proves this for every reachable state."""
        return implies(cycle.get("memory.cyc", 0), cycle["copying"])

    def _stands(self, outputs: Mapping[str, Word]) -> Word:
        """Whether no lane may begin an instruction."""
        return terms.equal(outputs["run"], 0, self.lanes)

    def _rests(self, found: Transfer) -> Word:
        """The assumption that an idle core begins no instruction unless `run` is set."""
        rests = [
            implies(
                terms.conjunction(terms.unknown(f"idle@{k}", 1), self._stands(found.cycles[k - 1])),
                terms.unknown(f"idle@{k + 1}", 1),
            )
            for k in range(1, self.cycles)
        ]
        return reduce(terms.conjunction, rests)


def implies(x: Word, y: Word) -> Word:
    return terms.disjunction(terms.negation(x), y)


def any_of(bits: Iterator[Word] | Sequence[Word]) -> Word:
    return reduce(terms.disjunction, bits, 0)


# -----------------------------------------------------------------------------
# The host interface.
#
#     answered     each transfer ends within three cycles, with `ack` or `err`, and not with both. Where a transfer is decoded a cycle before: each is
#                  decoded while no write acts, and only such a write makes a core busy that is not. So what was decoded holds until the answer
#     refused      a transfer that ends with `err` leaves every register as it would be without the transfer, and changes no part of the core
#     busy         while the core is busy, no transfer reaches its memories, PC, BR, DIR, cotangents or counters, sets modes, sizes or steps, or starts it
#     halves       two halves that are written to a slot arrive together; two halves that are read are those of one moment
#     other slot   a held half is dropped by a write to the low word of another slot
#     stop         a command to stop is obeyed in the cycle of its answer
#     zeroes       a command that sets words to zero writes zeros only, while the core is idle, within the sizes; no transfer reaches a memory meanwhile
#     reset        the state after reset
#
# A master holds a transfer until it is answered.


class Fact(NamedTuple):
    """A formula that must hold wherever the premise does; the premise must be possible."""

    name: str
    holds: Word
    premise: Word = 1


class BusProver(HostTransfers):
    """The claims on the host interface of a co-processor of this format. `interface`: a wrong interface, to test that it is refuted."""

    #: the part in the names of claims
    part = "host interface"

    def __init__(
        self, w: Format, seconds: float = 60, interface: type[HostInterface] = HostInterface, slots: int = 1
    ) -> None:
        super().__init__(w, interface, slots)
        self.seconds = seconds

    def claims(self) -> dict[str, Callable[[], list[Fact]]]:
        """name -> the facts that must hold, made by executing the interface."""
        return {f"{self.part}: {name}": facts for name, facts in self._claims().items()}

    def _claims(self) -> dict[str, Callable[[], list[Fact]]]:
        return {
            "answered": self._answered,
            "refused": self._refused,
            "busy": self._busy,
            "halves written": self._written,
            "halves read": self._read,
            "other slot": self._other_slot,
            "stop": self._stop,
            "zeroes": self._zeroes,
            "reset": self._reset,
        }

    def prove(self, name: str) -> ProofResult:
        """The result of one claim."""
        begun, wrong = time.monotonic(), ""
        # The premise of the last fact, which some state satisfies.
        possible: Word | None = None
        for fact in self.claims()[name]():
            solver = z3.Solver()
            solver.set("timeout", int(1000 * self.seconds))
            solver.add(truth(fact.premise))
            if fact.premise is not possible and solver.check() != z3.sat:
                wrong = f"{fact.name}: no state satisfies the premise"
                break
            possible = fact.premise
            solver.add(z3.Not(truth(fact.holds)))
            match solver.check():
                case z3.sat:
                    wrong = f"{fact.name}: {solver.model()}"
                    break
                case z3.unknown:
                    wrong = f"undecided: {fact.name}"
                    break
        return ProofResult(name, not wrong, time.monotonic() - begun, 0, wrong, not wrong)

    # ---------------------------------------------------------------- claims

    def _answered(self) -> list[Fact]:
        self._begin()
        found = self._transfer(*self._any_transfer())
        return [
            Fact("it is answered", terms.disjunction(found.acked, found.refused)),
            Fact("not by both", terms.negation(found.both)),
            *self._acts_with_its_answer(),
        ]

    def _acts_with_its_answer(self) -> list[Fact]:
        """In the cycle after any state, with anything on the bus. Of a core that decodes transfers a cycle before: see above."""
        hw, part = self.hardware, self.interface
        hw.reset()
        hw.forget([])
        self._moment = 0
        lines = {f"bus__{name}": terms.unknown(name, width) for name, width in LINES.items()}

        def now() -> tuple[Word, ...]:
            """Whether a write acts, the core is busy, a transfer is there without its answer, and STREAM stands for no slot."""
            hw.settle(**self._inputs({}), **lines)
            answered = terms.disjunction(hw.peek(part.bus.ack), hw.peek(part.bus.err))
            there = reduce(terms.conjunction, (lines["bus__cyc"], lines["bus__stb"], terms.negation(answered)))
            known: Word = 1
            if part.decoded is not None:
                allowed, in_window, streams = (terms.piece_of(hw.peek(part.decoded.as_value()), k, 1) for k in range(3))
                known = implies(terms.conjunction(allowed, streams), in_window)
            return terms.piece_of(hw.peek(part.accepted.as_value()), 0, 1), hw.peek(part.busy), there, known

        acted, was_busy, waits, was_known = now()
        # A write for all threads goes on behind its answer.
        goes_on = 0 if part.goes_on is None else hw.peek(part.goes_on)
        rests = terms.disjunction(terms.negation(self._stands(self._outputs())), terms.unknown("idle@2", 1))
        hw.tick()
        acts, busy, _, is_known = now()
        holds = implies(terms.conjunction(acts, terms.negation(goes_on)), hw.peek(part.bus.ack))
        facts = [Fact("a write acts with its answer", holds)]
        if part.decoded is not None:
            still = reduce(terms.conjunction, (terms.negation(was_busy), terms.negation(acted), rests))
            strobes = any_of(self._outputs()[name] for name in _STROBES)
            known = reduce(terms.conjunction, (strobes, terms.negation(goes_on), was_known))
            anew = terms.equal(hw.peek(part.waited), 0, len(part.waited))
            facts += [
                Fact("it is decoded anew", anew, implies(waits, acted)),
                Fact("the core stays idle", terms.negation(busy), still),
                Fact("STREAM is a word of a memory", is_known),
                Fact("it is known whether a write is one to each thread", hw.peek(part.spreads), known),
            ]
        return facts

    def _refused(self) -> list[Fact]:
        self._begin()
        found, _, same, _ = self._beside_none(*self._any_transfer())
        premise = reduce(terms.conjunction, (self._rests(found), self._belongs(found.cycles[0]), found.refused))
        return [
            *(Fact("the registers", one, premise) for one in same),
            Fact("the core", terms.negation(found.changes), premise),
        ]

    def _busy(self) -> list[Fact]:
        return self._spared(idle=0)

    def _spared(self, **fixed: Word) -> list[Fact]:
        """No transfer reaches a core with these inputs. Without inputs: no transfer reaches a core while words are copied."""
        self._begin()
        hw = self.hardware
        hw.settle(**self._inputs({"begins": 0} | fixed), bus__cyc=0)
        kept = ("code_size", "data_size", "differentiate", "overflow", "strict", "run")
        before = {name: hw.peek(self.outputs[name]) for name in kept}
        transfer = self._any_transfer()
        found = self._transfer(*transfer, **fixed)
        busy = 1 if fixed else found.cycles[0]["copying"]
        after = self._outputs()
        facts = [
            Fact(f"{name} is kept", terms.equal(after[name], before[name], len(self.outputs[name])), busy)
            for name in kept
            if name != "run"
        ]
        started = terms.conjunction(self._stands(before), terms.negation(self._stands(after)))
        return [
            *facts,
            Fact("it is not started", terms.negation(started), busy),
            Fact("memories are refused", found.refused, terms.conjunction(busy, self._in_window(transfer[1]))),
            Fact("the core", terms.negation(found.reaches), busy),
        ]

    def _slots(self) -> tuple[Word, Word]:
        """The address of the low and of the high word of any slot."""
        slot = terms.unknown("slot", 29)
        return terms.joined([(0, 1), (slot, 29)]), terms.joined([(1, 1), (slot, 29)])

    def _written(self) -> list[Fact]:
        """Through the window, and by reading back the slot of steps."""
        low, high = self._slots()
        x, y = terms.unknown("x", 32), terms.unknown("y", 32)
        self._begin()
        first = self._transfer(1, high, x, idle=1)
        self._pause(idle=1)
        second = self._transfer(1, low, y, idle=1)
        whole = terms.joined([(y, 32), (x, 32)])
        through = [
            terms.disjunction(terms.negation(cycle["window.write"]), terms.equal(cycle["window.written"], whole, 64))
            for cycle in second.cycles
        ]
        acked = terms.conjunction(first.acked, second.acked)
        wrote = terms.conjunction(acked, any_of(cycle["window.write"] for cycle in second.cycles))
        facts = [Fact("through the window", reduce(terms.conjunction, through), wrote)]
        self._begin()
        steps = HostRegister.STEPS.value * 2
        idle = {"idle": 1, "begins": 0, "halts": 0, "traps": 0}
        writes = [self._transfer(1, steps + 1, x, **idle), self._transfer(1, steps, y, **idle)]
        reads = [self._transfer(0, steps, 0, **idle), self._transfer(0, steps + 1, 0, **idle)]
        acked = reduce(terms.conjunction, [one.acked for one in (*writes, *reads)])
        back = terms.conjunction(terms.equal(reads[0].data, y, 32), terms.equal(reads[1].data, x, 32))
        return [*facts, Fact("read back", back, acked)]

    def _read(self) -> list[Fact]:
        """The cycles, which change while the halves are read; and any word of the window."""
        facts = []
        self._begin()
        counter = HostRegister.CYCLES.value * 2
        low = self._transfer(0, counter, 0)
        self._pause()
        high = self._transfer(0, counter + 1, 0)
        acked = terms.conjunction(low.acked, high.acked)
        # Both halves are of one cycle before the answer.
        for k, answered in enumerate(low.answers):
            moment = terms.unknown(f"counters__0@{k - self.held}", 64)
            for half, found, at in (("low", low, 0), ("high", high, 32)):
                same = terms.equal(found.data, terms.piece_of(moment, at, 32), 32)
                facts.append(Fact(f"the cycles, {half}, {k}", implies(answered, same), acked))
        self._begin()
        word = terms.unknown("word", 64)
        first, second = self._slots()
        in_window = self._in_window(first)

        # A cycle without a transfer, so that no earlier read waits.
        self._pause(idle=1)
        begun = self._moment

        # The core holds the word that was read until the next read.
        def data(moment: int) -> Word:
            return word if moment > begun + self.late else terms.unknown(f"early@{moment}", 64)

        low = self._transfer(0, first, 0, idle=1, window__data=data)
        high = self._transfer(0, second, 0, idle=1)
        whole = terms.joined([(low.data, 32), (high.data, 32)])
        acked = reduce(terms.conjunction, (low.acked, high.acked, in_window))
        return [*facts, Fact("the window", terms.equal(whole, word, 64), acked)]

    def _other_slot(self) -> list[Fact]:
        self._begin()
        _, high = self._slots()
        other = terms.unknown("other", 29)
        x, y = terms.unknown("x", 32), terms.unknown("y", 32)
        differs = terms.negation(terms.equal(other, terms.part(high, 1, 29), 29))
        first = self._transfer(1, high, x, idle=1)
        second = self._transfer(1, terms.joined([(0, 1), (other, 29)]), y, idle=1)
        alone = terms.joined([(y, 32), (0, 32)])
        through = [
            terms.disjunction(terms.negation(cycle["window.write"]), terms.equal(cycle["window.written"], alone, 64))
            for cycle in second.cycles
        ]
        wrote = any_of(cycle["window.write"] for cycle in second.cycles)
        premise = reduce(terms.conjunction, (differs, first.acked, second.acked, wrote))
        return [Fact("its high half is 0", reduce(terms.conjunction, through), premise)]

    def _stop(self) -> list[Fact]:
        """Also in a cycle in which an instruction begins."""
        self._begin()
        found = self._transfer(1, HostRegister.CONTROL.value * 2, 4)
        after = {"run": self.hardware.peek(self.outputs["run"])}
        return [Fact("it is accepted", found.acked), Fact("it stops", self._stands(after))]

    def _zeroes(self) -> list[Fact]:
        self._begin()
        hw, (_, adr, *_) = self.hardware, self._any_transfer()
        hw.settle(**self._inputs({}), bus__cyc=0)
        goes_on = hw.peek(self.outputs["zeroing"])
        self._moment = 0
        found = self._transfer(*self._any_transfer())
        facts = []
        for k, cycle in enumerate(found.cycles[1:], 2):
            space, at = cycle["window.space"], cycle["window.address"]
            sizes = [
                terms.joined([(cycle[name], n), (0, 32 - n)])
                for name in ("data_size", "register_size")
                for n in [len(self.outputs[name])]
            ]
            size = terms.choice(terms.piece_of(space, 1, 1), sizes[0], sizes[1], 32)
            less = terms.apply("u<", 1, [32, 32], [at, size])
            inside = terms.conjunction(terms.negation(terms.piece_of(space, 2, 1)), less)
            holds = [terms.equal(cycle["window.written"], 0, 64), terms.unknown(f"idle@{k}", 1), inside]
            facts += [
                Fact(f"{name}, cycle {k}", one, cycle["zeroed"])
                for name, one in zip(("the word", "an idle core", "the place"), holds, strict=True)
            ]
        return [
            Fact("transfers are refused", found.refused, terms.conjunction(goes_on, self._in_window(adr))),
            *facts,
            Fact("the core", terms.negation(found.reaches), goes_on),
        ]

    def _reset(self) -> list[Fact]:
        hw, p = self.hardware, self.interface.parameters
        hw.reset()
        hw.settle(bus__cyc=0)
        expected = {
            "run": 0,
            "code_size": p.code_words,
            "data_size": p.data_words,
            "differentiate": 0,
            "overflow": 0,
            "strict": 0,
        } | ({"copying": 0, "memory.cyc": 0} if self.dma else {})
        facts = [
            Fact(name, terms.equal(hw.peek(self.outputs[name]), word, len(self.outputs[name])))
            for name, word in expected.items()
        ]
        low = self._transfer(0, HostRegister.STEPS.value * 2, 0)
        high = self._transfer(0, HostRegister.STEPS.value * 2 + 1, 0)
        return [*facts, Fact("steps", terms.equal(terms.joined([(low.data, 32), (high.data, 32)]), UNLIMITED, 64))]


# -----------------------------------------------------------------------------
# The host interface with direct memory access: all claims above, whether a copy goes on or not, and claims on a copy.
#
#     one at a time     a run, a copy and a command of zeros exclude each other, and a transfer to the host's memory belongs to a copy
#     core in a copy    no transfer reaches the core during a copy, as while the core is busy; transfers to its memories and to STREAM are refused
#     words of a copy   a copy has the same words, at the same places and times, with and without a transfer that is no command to stop
#     slots in a copy   a write that is accepted during a copy has its effect on the slot that it names, and on no other register
#     stop of a copy    a command to stop during a copy is accepted, and the copy ends at the end of a word; two more words at most are copied, and
#                       these are words of the whole copy
#
# A word of a copy counts as no access of a transfer, so the claims of `BusProver` need no premise about copies.
# `refused` has a premise that `one at a time` proves of every state that is reached: a transfer to the host's memory belongs to a copy.


#: cycles after a stop command in which the copy ends, if the memory answers each transfer at once
_ENDING = 5
#: words that are still copied: the word of the transfer that is under way, and the word that is announced
_MORE = 2
#: outputs of a copy's words and transfers: the signal that is high, and the signals that then count
_WORDS = {
    "writes": ("window.space", "window.address", "window.written"),
    "reads": ("window.read_space", "window.read_address"),
    "memory.cyc": tuple(f"memory.{name}" for name in TRANSFER),
}

_Cycles = list[dict[str, Word]]


class CopyingBusProver(BusProver):
    """The claims on the host interface of a co-processor with direct memory access."""

    part, dma = "host interface with copies", True

    def _claims(self) -> dict[str, Callable[[], list[Fact]]]:
        return super()._claims() | {
            "one at a time": self._one_at_a_time,
            "core in a copy": self._spared,
            "words of a copy": self._words,
            "slots in a copy": self._named_slot,
            "stop of a copy": self._copy_stops,
        }

    def _one_at_a_time(self) -> list[Fact]:
        """If the claim holds before a transfer, it holds after it. By induction from the state after reset, it always holds."""
        self._begin()
        found = self._transfer(*self._any_transfer())
        first, *others = (self._exclusive(found, k) for k in range(len(found.cycles)))
        premise = terms.conjunction(first, self._rests(found))
        return [Fact(f"cycle {k}", holds, premise) for k, holds in enumerate(others, 2)]

    def _exclusive(self, found: Transfer, k: int) -> Word:
        cycle, idle = found.cycles[k], terms.unknown(f"idle@{k + 1}", 1)
        runs = terms.negation(terms.conjunction(self._stands(cycle), idle))
        pairs = ((runs, cycle["copying"]), (runs, cycle["zeroing"]), (cycle["copying"], cycle["zeroing"]))
        return reduce(
            terms.conjunction, [terms.negation(terms.conjunction(*pair)) for pair in pairs], self._belongs(cycle)
        )

    def _words(self) -> list[Fact]:
        self._begin()
        transfer = self._any_transfer()
        found, none, *_ = self._beside_none(*transfer)
        premise = terms.conjunction(_copies_alone(found), terms.negation(_stops(found, *transfer)))
        return [
            *self._no_other_words(found.cycles, none.cycles, premise, "none is added or changed"),
            *self._no_other_words(none.cycles, found.cycles, premise, "none is lost"),
        ]

    def _no_other_words(self, cycles: _Cycles, others: _Cycles, premise: Word, name: str, but: str = "") -> list[Fact]:
        """Each word of some cycles is also a word of the other cycles. `but`: an output that may differ."""
        facts = []
        for high, names in _WORDS.items():
            widths = {name: len(self.outputs[name]) for name in names if name != but}
            holds: Word = 1
            for cycle, other in zip(cycles, others, strict=True):
                same = [terms.equal(cycle[name], other[name], width) for name, width in widths.items()]
                also = reduce(terms.conjunction, same, other[high])
                holds = terms.conjunction(holds, terms.disjunction(terms.negation(cycle[high]), also))
            begun = reduce(terms.disjunction, [cycle[high] for cycle in cycles])
            facts.append(Fact(f"{name}: {high}", holds, terms.conjunction(premise, begun)))
        return facts

    def _named_slot(self) -> list[Fact]:
        part, (_, adr, dat, sel) = self.interface, self._any_transfer()
        but = [part.waiting.as_value(), part.enabled.as_value(), part.pending.as_value()]
        bits = len(but[-1])
        events = terms.part(dat, 0, bits)
        others = terms.apply("~", bits, [bits], [events])
        to_enable, to_clear = (
            _is_slot(adr, slot) for slot in (HostRegister.INTERRUPT_ENABLE, HostRegister.INTERRUPT_CLEAR)
        )
        self._begin()
        found, _, same, pairs = self._beside_none(1, adr, dat, sel, but=but)
        waiting, enabled, pending = (terms.equal(*pair, len(signal)) for pair, signal in zip(pairs, but, strict=True))
        copies = _copies_alone(found)
        enables, clears = (reduce(terms.conjunction, (copies, found.acked, slot)) for slot in (to_enable, to_clear))
        changed = terms.apply("^", bits, [bits, bits], pairs[2])
        kept = [
            *(("other registers", one, _stops(found, 1, adr, dat, sel)) for one in same),
            ("the held half", waiting, found.acked),
            ("no other write enables events", enabled, enables),
            ("no other write clears events", pending, terms.disjunction(clears, _stops(found, 1, adr, dat, sel))),
        ]
        facts = [Fact(name, holds, terms.conjunction(copies, terms.negation(unless))) for name, holds, unless in kept]
        # A memory that does not answer causes no event.
        self._begin()
        waits = self._transfer(1, adr, dat, sel, idle=1, begins=0, halts=0, traps=0, memory__ack=0, memory__err=0)
        first = waits.cycles[0]
        cleared = reduce(terms.conjunction, (_copies_alone(waits), first["memory.cyc"], waits.acked, to_clear))
        left = self.hardware.peek(part.pending.as_value())
        return [
            *facts,
            Fact("events are enabled", terms.equal(pairs[1][0], events, bits), enables),
            Fact("events are cleared", _none_of(events, left, bits), cleared),
            Fact("other events are kept", _none_of(others, changed, bits), clears),
        ]

    def _copy_stops(self) -> list[Fact]:
        self._begin()
        before = dict(self.hardware.words)
        runs = []
        for active in (1, 0):
            self.hardware.restore(before)
            self._moment = 0
            found = self._transfer(1, HostRegister.CONTROL.value * 2, 4, active=active)
            behind = [self._pause(memory__ack=1, memory__err=0) for _ in range(_ENDING + 1)]
            runs.append((found, [*found.cycles, found.behind, *behind]))
        (found, cycles), (_, none) = runs
        width, first = len(self.outputs["copy.length"]), cycles[0]
        more = terms.subtract(cycles[2]["copy.length"], cycles[-1]["copy.length"], width)
        premise = terms.conjunction(_copies_alone(found), self._belongs(first))
        return [
            Fact("it is accepted", found.acked, first["copying"]),
            Fact("the copy ends", terms.negation(cycles[-1]["copying"]), premise),
            Fact("two words at most", terms.apply("u<", 1, [width, width], [more, _MORE + 1]), premise),
            # The memory may have refused a word before.
            Fact(
                "at the end of a word",
                terms.negation(cycles[-1]["copy.high"]),
                terms.conjunction(premise, cycles[-_ENDING - 1]["copying"]),
            ),
            # The kind of a transfer announces the end of a burst.
            *self._no_other_words(cycles, none, premise, "no other words", but="memory.cti"),
        ]


def _copies_alone(found: Transfer) -> Word:
    """Whether a copy goes on as the transfer begins, and no words are set to zero."""
    return terms.conjunction(found.cycles[0]["copying"], terms.negation(found.cycles[0]["zeroing"]))


def _stops(found: Transfer, we: Word, adr: Word, dat: Word, sel: Word) -> Word:
    """Whether the transfer is an accepted command to stop."""
    return reduce(terms.conjunction, (found.acked, we, _is_slot(adr, HostRegister.CONTROL), terms.piece_of(dat, 2, 1)))


def _is_slot(adr: Word, slot: HostRegister) -> Word:
    """Whether the address is that of the low word of the slot."""
    return terms.equal(adr, slot.value * 2, 30)


def _none_of(x: Word, y: Word, width: int) -> Word:
    """Whether no bit of x is high in y."""
    return terms.equal(terms.apply("&", width, [width, width], [x, y]), 0, width)
