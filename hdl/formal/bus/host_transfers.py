# amaranth: UnusedElaboratable=no
"""Transfers on the bus of a host interface, executed on terms, from any of its states, while the core does anything.

begin → transfer → transfer …      each transfer is held until its answer, for `CYCLES` cycles at most, and a cycle without one follows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from retrograd.hdl.bus.host_interface import HostInterface
from retrograd.hdl.formal import terms
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

    @property
    def reaches(self) -> Word:
        """Whether some cycle read or wrote a memory of the core, or strobed a setting."""
        return terms.disjunction(self.changes, any_of(cycle["window.read"] for cycle in self.cycles))

    @property
    def changes(self) -> Word:
        """Whether some cycle wrote a memory of the core, or strobed a setting."""
        return any_of(word for cycle in self.cycles for name, word in cycle.items() if name in _CHANGING)


_CHANGING = ("window.write", *_STROBES)


class HostTransfers:
    """The host interface of a co-processor of this format, or another one in its place."""

    def __init__(self, w: Format, interface: type[HostInterface] = HostInterface) -> None:
        self.interface = part = interface(Parameters(w, code_words=8, data_words=4))
        s, window = part.settings, part.window
        self.outputs: dict[str, Any] = {
            "run": part.run, "code_size": part.code_size, "data_size": part.data_size, "differentiate": part.modes.differentiate,
            "overflow": part.modes.overflow, "strict": part.modes.strict, "window.read": window.read, "window.write": window.write,
            "window.space": window.write_space, "window.address": window.write_address, "window.written": window.written,
            **{name: getattr(s, name) for name in _STROBES}, "value": s.value, "zeroing": part.zeroing, "zeroed": part.zeroes,
            "register_size": part.register_size,
        }  # fmt: skip
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
        """The outputs; `window.write` is high for the writes of transfers only, and `zeroed` for the others."""
        found = {name: self.hardware.peek(signal) for name, signal in self.outputs.items()}
        written, zeroed = found["window.write"], found["zeroed"]
        found["zeroed"] = terms.conjunction(written, zeroed)
        found["window.write"] = terms.conjunction(written, terms.negation(zeroed))
        return found

    def _transfer(self, we: Word, adr: Word, dat: Word, sel: Word = 15, **fixed: Word) -> Transfer:
        """Hold a transfer for as many cycles as it may take. `fixed`: inputs from the core."""
        hw, bus, out = self.hardware, self.interface.bus, Transfer()
        active: Word = 1
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
        self._pause(**fixed)
        return out

    def _pause(self, **fixed: Word) -> None:
        """A cycle without a transfer."""
        self.hardware.settle(**self._inputs(fixed), bus__cyc=0, bus__stb=0)
        self.hardware.tick()
        self.hardware.settle()

    def _any_transfer(self) -> tuple[Word, Word, Word, Word]:
        return terms.unknown("we", 1), terms.unknown("adr", 30), terms.unknown("dat", 32), terms.unknown("sel", 4)

    def _in_window(self, adr: Word) -> Word:
        """Whether the address is one of a memory's word."""
        return terms.negation(terms.equal(terms.piece_of(adr, 26, 4), 0, 4))


def implies(x: Word, y: Word) -> Word:
    return terms.disjunction(terms.negation(x), y)


def any_of(bits: Iterator[Word] | Sequence[Word]) -> Word:
    return reduce(terms.disjunction, bits, 0)
