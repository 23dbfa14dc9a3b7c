# amaranth: UnusedElaboratable=no
"""Transfers on the bus of a host interface, executed on terms, from any of its states, while the core does anything.

    begin → transfer → transfer …      each transfer is held until its answer, for `CYCLES` cycles at most, and a cycle without one follows

Reads and writes of the core's memories by a copy are kept apart from those of transfers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from amaranth.hdl import Signal
from retrograd.hdl.bus.host_interface import HostInterface
from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.bus.dma_proofs import TRANSFER
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

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
    #: (cycle's outputs) of each cycle
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

    def __init__(self, w: Format, interface: type[HostInterface] = HostInterface) -> None:
        self.interface = part = interface(
            Parameters(w, code_words=8, data_words=4, dma=self.dma, core=self.core, lanes=self.lanes)
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
            self.outputs |= {"selected": part.selected, "broadcast": part.broadcast, "lane": part.lane.as_value()}
        bus = part.bus
        self.hardware = Symbolic(
            part, [*self.outputs.values(), bus.ack, bus.err, bus.dat_r, part.accepted.as_value(), part.zeroes]
        )
        ports = self.hardware.cells[0].ports_i
        self._core = {
            name: width
            for name, (_, width) in ports.items()
            if not name.startswith("bus__") and name not in ("clk", "rst")
        }
        self._moment = 0

    def _begin(self) -> None:
        """Any state in which no answer is given, and so no write acts: the first claim has this. No word is set to zero in the first cycle."""
        hw, bus = self.hardware, self.interface.bus
        hw.reset()
        hw.forget([])
        self._moment = 0
        for signal in (bus.ack, bus.err, self.interface.accepted.as_value(), self.interface.zeroes):
            hw.poke(signal, 0)

    def _inputs(self, fixed: Mapping[str, Word]) -> dict[str, Word]:
        """The inputs from the core in this cycle: anything, except the fixed words."""
        self._moment += 1
        return {
            name: fixed.get(name, terms.unknown(f"{name}@{self._moment}", width)) for name, width in self._core.items()
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
        for _ in range(CYCLES):
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
        own = {
            int(net.cell)
            for signal in (bus.ack, bus.err, bus.dat_r, part.accepted.as_value(), *but)
            for net in hw.netlist.signals[signal]
        }
        # The only other register without effect is the one that delays a read; it is 0 after a pause in both runs.
        same = [
            terms.equal(after[index], word, len(hw.cells[index].data))
            for index, word in hw.words.items()
            if index not in own
        ]
        pairs = [(word, hw.peek(signal)) for word, signal in zip(words, but, strict=True)]
        return found, none, same, pairs

    def _belongs(self, cycle: dict[str, Word]) -> Word:
        """Whether a transfer to the host's memory belongs to a copy: the claim `one at a time` has this of every state that is reached."""
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
            for k in range(1, CYCLES)
        ]
        return reduce(terms.conjunction, rests)


def implies(x: Word, y: Word) -> Word:
    return terms.disjunction(terms.negation(x), y)


def any_of(bits: Iterator[Word] | Sequence[Word]) -> Word:
    return reduce(terms.disjunction, bits, 0)
