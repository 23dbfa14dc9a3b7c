# amaranth: UnusedElaboratable=no
"""Bounded proofs of the host interface of the core `lanes`, with two lanes: the claims of every interface, and two on the slot LANE.

lane        a write to LANE chooses the lane that is seen, and whether writes and commands go to all; no other transfer changes either;
            the number is that of a lane
commands    a command to run or to step starts the lanes that it goes to, and no other
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.bus.host_interface_proofs import BusProver, Fact
from retrograd.hdl.formal.terms import Word
from retrograd.isa.microarchitecture.lanes import LANES

_ALL, _INDEX = HostRegister.LANE.field("all").low, HostRegister.LANE.field("index").width
#: the commands that start a lane
_RUN, _STEP = (HostRegister.CONTROL.field(name).mask for name in ("run", "step"))


class LanesBusProver(BusProver):
    """The claims on the host interface of a core with two lanes."""

    part, core, lanes = "host interface of lanes", LANES, 2

    def _claims(self) -> dict[str, Callable[[], list[Fact]]]:
        return super()._claims() | {"lane": self._lane, "commands": self._commands}

    def _chosen(self) -> tuple[Word, Word]:
        """The lane that is seen, and whether commands go to all lanes."""
        return self.hardware.peek(self.outputs["selected"]), self.hardware.peek(self.outputs["broadcast"])

    def _exists(self) -> Word:
        """Whether the number of the lane that is seen is that of a lane."""
        index = terms.piece_of(self.hardware.peek(self.outputs["lane"]), 0, _INDEX)
        return terms.apply("u<", 1, [_INDEX, _INDEX], [index, self.lanes])

    def _lane(self) -> list[Fact]:
        self._begin()
        self.hardware.settle(**self._inputs({}), bus__cyc=0)
        before, existed = self._chosen(), self._exists()
        self._moment = 0
        we, adr, dat, sel = self._any_transfer()
        found = self._transfer(we, adr, dat, sel)
        after = self._chosen()
        is_lane = terms.equal(adr, HostRegister.LANE.value * 2, 30)
        written = reduce(terms.conjunction, (found.acked, we, is_lane))
        # A number that is too large means the last lane.
        first = terms.equal(terms.piece_of(dat, 0, _INDEX), 0, _INDEX)
        pairs = zip(
            ("the lane", "all"), before, after, (terms.negation(first), terms.piece_of(dat, _ALL, 1)), strict=True
        )
        return [
            Fact("it exists", self._exists(), existed),
            *(
                fact
                for name, old, new, given in pairs
                for fact in (
                    Fact(f"{name} is chosen", terms.equal(new, given, 1), written),
                    Fact(f"{name} is kept", terms.equal(new, old, 1), terms.negation(written)),
                )
            ),
        ]

    def _commands(self) -> list[Fact]:
        """To an idle core whose lanes neither begin, nor halt, nor trap meanwhile. With STEPS = 0 a command to run starts no lane."""
        facts = []
        for name, command in (("run", _RUN), ("step", _STEP)):
            self._begin()
            still: dict[str, Word] = {"idle": 1, "begins": 0, "halts": 0, "traps": 0}
            self.hardware.settle(**self._inputs(still), bus__cyc=0)
            stood, (seen, every) = terms.conjunction(self._stands(self._outputs()), self._exists()), self._chosen()
            self._moment = 0
            found = self._transfer(1, HostRegister.CONTROL.value * 2, command, **still)
            run = self.hardware.peek(self.outputs["run"])
            runs = [terms.piece_of(run, i, 1) for i in range(self.lanes)]
            meant = [terms.disjunction(every, terms.equal(seen, i, 1)) for i in range(self.lanes)]
            premise = terms.conjunction(stood, found.acked)
            started = terms.conjunction(premise, terms.negation(self._stands({"run": run})))
            facts += [
                Fact(f"{name} starts lane {i}", terms.equal(one, asked, 1), premise if name == "step" else started)
                for i, (one, asked) in enumerate(zip(runs, meant, strict=True))
            ]
        return facts
