# amaranth: UnusedElaboratable=no
"""The overlapped core: the parts of `Core` with a front end that is ahead of execution, and microwords of several slots.

Three sets of an instruction's facts follow each other: those of the instruction that is read, of the one that executes (`running`),
and of the one that writes (`writing`), one cycle later.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.memory import Memory
from retrograd.hdl.core.core import Committing, Core
from retrograd.hdl.core.decoder import FIELDS, Decoder
from retrograd.hdl.core.memory_port import MemoryPort
from retrograd.hdl.core.operand_file import PORTS
from retrograd.hdl.core.overlapped.dependences import Dependences, names
from retrograd.hdl.core.overlapped.guards import OverlappedGuards
from retrograd.hdl.core.overlapped.operand_network import HITS, OperandNetwork
from retrograd.hdl.core.overlapped.sequencer import OverlappedSequencer
from retrograd.hdl.core.register_file import PLACES, RegisterFile
from retrograd.hdl.core.retirement import WRITTEN
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.core.units.branch import BranchUnit
from retrograd.hdl.core.units.counters import Counters
from retrograd.hdl.core.units.discarded_cotangents import DiscardedCotangents
from retrograd.hdl.core.units.gating import any_of, gated
from retrograd.hdl.core.units.logic import LogicUnit
from retrograd.hdl.core.units.multiplier import ChainedSum, Multiplier
from retrograd.hdl.core.units.rom import RomUnit
from retrograd.hdl.core.units.scaled_divider import ScaledDivider
from retrograd.hdl.dispatch import FORBIDDEN
from retrograd.hdl.microword import Field, Operation, Select, TrapCause, Writer
from retrograd.isa.microarchitecture.micro_operations import Unit

#: D, overflow, strict
_MODES = data.StructLayout({"lifted": 1, "overflow": 1, "strict": 1})

#: word or cotangent -> the field of a commit that names its register
_NAMED = {"word": "field", "cotangent": "shadow"}

#: The facts of an instruction that are needed while it executes.
_FACTS = data.StructLayout(
    {
        "instruction": FIELDS,
        "modes": _MODES,
        "turns": 1,
        "erases": 1,
        "redirects": 1,
        "lands": 1,
        "leaps": 1,
        "chooses": 1,
        "waiting": 3,
        "forbidden": FORBIDDEN,
        # why it has no effect: PC outside the code, an illegal encoding, a BR that is not 0, an address outside memory; or it halts
        "outside": 1,
        "illegal": 1,
        "jumping": 1,
        "invalid": 1,
        "halts": 1,
    }
)


class OverlappedCore(Core):
    """A core whose instructions are fetched, decoded and read while others execute. It has the ports of `Core`."""

    def _make(self) -> None:
        p, code = self.parameters, self.microcode
        width, micro = p.width, p.microarchitecture
        self.slots = slots = len(micro.slots)
        self.registers = RegisterFile(width, transparent=True)
        self.memory = MemoryPort(width, p.data_words, ahead=True)
        self.decoder = Decoder(width, code.head)
        self.branch = BranchUnit(p, tells=True)
        self.operands = OperandNetwork(width, slots, code.constants, code.prompts, code.selections)
        self.rom = RomUnit(width, code.tables)
        self.logics = [LogicUnit(width, flags=True, lacks=micro.lacking(k)) for k in range(slots)]
        self.results = [getattr(self.operands, f"result{k}") for k in range(slots)]
        self.multipliers = {
            k: Multiplier(width, code.products, code.halves, micro.multiplier, code.tested)
            for k, s in enumerate(micro.slots)
            if Unit.MULTIPLIER in s
        }
        self.dividers = {
            k: ScaledDivider(width, code.divisions, code.quotients, micro, roots=k == 0, flags=True)
            for k, s in enumerate(micro.slots)
            if Unit.DIVIDER in s
        }
        self.logic, self.multiplier, self.divider = self.logics[0], self.multipliers[0], self.dividers[0]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, width = self.parameters, self.parameters.width
        m.submodules.sequencer = sequencer = OverlappedSequencer(self.microcode)
        m.submodules.decoder = decoder = self.decoder
        m.submodules.branch = branch = self.branch
        m.submodules.registers = registers = self.registers
        m.submodules.memory = memory = self.memory
        m.submodules.operands = operands = self.operands
        m.submodules.guards = guards = OverlappedGuards(self.slots)
        m.submodules.ledger = ledger = DiscardedCotangents(width, chained=True)
        m.submodules.counters = counters = Counters(width, waits=True)
        m.submodules.code = code_memory = Memory(self.code)
        fetched = code_memory.read_port()

        phase, head, commit = sequencer.phase, sequencer.head, sequencer.commit
        instruction = Signal(FIELDS)
        m.d.comb += [instruction.eq(fetched.data), self.phase.eq(phase), self.idle.eq(phase == Phase.IDLE)]
        m.d.comb += [self.begins.eq(sequencer.begins), sequencer.run.eq(self.run), branch.size.eq(self.code_size)]

        # ------------------------------------------------ fetch: at PC, or behind the instruction that is decoded
        at, here, behind = Signal(p.pc_bits), Signal(p.pc_bits), Signal(p.pc_bits)
        backward, leap = Signal(), Signal(p.pc_bits)
        given, modes, read_modes = self.modes, Signal(_MODES), Signal(_MODES)
        known = Mux(sequencer.leap, leap, Mux(sequencer.restart, self.pc, behind))
        sets_pc = ~self.idle & sequencer.restart & ~sequencer.leap & commit.first
        m.d.comb += [
            # An instruction that sets PC writes it in this cycle, late, or in the next.
            at.eq(Mux(sets_pc, branch.next_pc, Mux(self.idle, self.window.read_address, known))),
            behind.eq(Mux(backward, here - 1, here + 1)),
        ]
        # Whether PC is in the code is known in the cycle of the fetch after a start, and else in the next.
        starts, early, was_inside, inside, read_inside = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.sync += starts.eq(self.idle)
        with m.If(sequencer.fetch):
            m.d.sync += [
                here.eq(at),
                backward.eq(Mux(commit.first, branch.next_backward, branch.backward)),
                modes.eq(Cat(given.differentiate, given.overflow, given.strict)),
                early.eq(starts & sequencer.restart),
                was_inside.eq(branch.inside),
            ]
        ahead = here.as_signed()
        m.d.comb += inside.eq(Mux(early, was_inside, (ahead >= 0) & (ahead < self.code_size)))

        # ------------------------------------------------ decode, read
        read = Signal(FIELDS)
        m.d.comb += [
            decoder.instruction.eq(instruction),
            decoder.backward.eq(branch.backward),
            decoder.lifted.eq(modes.lifted),
            decoder.decode.eq(sequencer.advance),
            decoder.head.eq(head),
            sequencer.opcode.eq(decoder.opcode),
            fetched.addr.eq(at),
            fetched.en.eq(sequencer.fetch),
            # While an instruction waits to begin, its registers are read again and again.
            registers.read.eq(~self.idle),
        ]
        with m.If(sequencer.advance):
            m.d.sync += [read.eq(instruction), read_modes.eq(modes), read_inside.eq(inside)]
        for place, field in zip(PLACES, ("rd", "ra", "rb"), strict=True):
            number = Mux(sequencer.advance, instruction[field], read[field])
            m.d.comb += getattr(registers, f"{place}_number").eq(number)
        self._window(m, fetched, code_memory.write_port(), instruction)

        # ------------------------------------------------ the instruction that is read, that executes, that writes
        entering, running, writing, landing = Signal(_FACTS), Signal(_FACTS), Signal(_FACTS), Signal()
        m.d.comb += [
            # BR is written in the first cycle of execution of the next instruction, which may be its last.
            landing.eq(sequencer.begins & writing.lands),
            self.jumping.eq(head.settled & ~running.lands & ~landing & (branch.br != 0)),
            entering.instruction.eq(read),
            entering.modes.eq(read_modes),
            entering.turns.eq(head.turns),
            entering.erases.eq(head.erases),
            entering.redirects.eq(head.redirects),
            entering.lands.eq(head.lands),
            entering.leaps.eq(head.leaps),
            entering.chooses.eq(head.chooses),
            entering.waiting.eq(head.waiting),
            entering.forbidden.eq(head.forbidden),
            sequencer.redirects.eq(running.redirects),
            sequencer.leaps.eq(running.leaps),
        ]
        # Whether an instruction waits for memory does not depend on whether it is legal, which is known later.
        addressed = (phase == Phase.ACCESS) | sequencer.ready
        dooms = {
            "outside": ~read_inside,
            "illegal": ~decoder.legal,
            "jumping": self.jumping,
            "invalid": head.memory & addressed & ~memory.valid,
            "halts": head.halts,
        }
        m.d.comb += [entering[name].eq(found) for name, found in dooms.items()]
        m.d.comb += [sequencer.accesses.eq(head.memory), sequencer.doomed.eq(Cat(dooms.values()).any())]
        with m.If(sequencer.launch):
            m.d.sync += running.eq(entering)
        with m.If(sequencer.restart):
            m.d.sync += running.lands.eq(0)
        m.d.sync += writing.eq(running)
        m.submodules.dependences = pairs = Dependences()
        m.d.comb += [
            pairs.decoded.eq(instruction),
            pairs.read.eq(read),
            pairs.running.eq(running.instruction),
            pairs.advance.eq(sequencer.advance),
            pairs.launch.eq(sequencer.launch),
        ]
        # The addresses of the next instruction, if the one that executes jumps and if not. Where the constant is 0, it does not.
        read_at, target, beyond, jumps = Signal(p.pc_bits), Signal(p.pc_bits), Signal(p.pc_bits), Signal()
        step = Signal(signed(p.pc_bits))
        m.d.comb += step.eq(decoder.imm.as_signed())
        with m.If(sequencer.advance):
            m.d.sync += read_at.eq(here)
        with m.If(sequencer.launch):
            m.d.sync += [
                target.eq(Mux(branch.backward, read_at - step, read_at + step)),
                beyond.eq(here),
                jumps.eq(decoder.imm != 0),
            ]
        chosen = getattr(operands, f"x{self.microcode.chooser}")[0]
        m.d.comb += leap.eq(Mux(jumps & (chosen | ~running.chooses), target, beyond))
        # Addresses of the words of those instructions. That of the port is of the instruction that is read.
        running_address, stored_at = Signal(width), Signal(width)
        with m.If(sequencer.launch):
            m.d.sync += running_address.eq(memory.address)
        m.d.sync += stored_at.eq(running_address)
        # Where an instruction on memory is next, the instruction that executes takes a cycle more or less.
        waits, ahead = sequencer.ending & ~running.redirects & read_inside & head.memory, Signal(signed(2))
        m.d.sync += ahead.eq(Mux(waits, Mux(sequencer.unknown, 1, Mux(sequencer.ready, -1, 0)), 0))

        old = self._latches(m, decoder, sequencer, running, landing, pairs)
        last, fits, units_fit = self._slots(m, sequencer)

        # ------------------------------------------------ guards
        early_trap, ends = Signal(TrapCause), Signal()
        doomed = ~self.idle & sequencer.begins & ~sequencer.abandon
        causes = {
            "outside": TrapCause.CODE,
            "illegal": TrapCause.ILLEGAL,
            "jumping": TrapCause.JUMP,
            "invalid": TrapCause.MEMORY,
        }
        m.d.sync += [early_trap.eq(TrapCause.NONE), ends.eq(0)]
        with m.If(doomed):
            m.d.sync += ends.eq(running.halts & ~Cat(running[name] for name in causes).any())
            for name, cause in reversed(causes.items()):
                with m.If(running[name]):
                    m.d.sync += early_trap.eq(cause)
        m.d.comb += [
            guards.begin.eq(sequencer.begins),
            guards.forbidden.eq(running.forbidden),
            guards.entering_overflow.eq(running.modes.overflow),
            guards.entering_strict.eq(running.modes.strict),
            *(getattr(guards, f"check{k}").eq(self._slot(sequencer.now, k).check) for k in range(self.slots)),
            guards.overflow.eq(writing.modes.overflow),
            guards.fits.eq(fits),
            guards.units_fit.eq(units_fit),
            *(getattr(guards, f"holds{k}").eq(word[0]) for k, word in enumerate(last)),
            ledger.cotangent.eq(operands.latches[Select.D_BAR.value]),
            ledger.turned.eq(branch.turned),
            ledger.strict.eq(writing.modes.strict),
            ledger.forget.eq(self.settings.forget),
        ]
        x, y, z = (getattr(operands, f"{port}_written") for port in PORTS)
        m.d.comb += [
            memory.passing_target.eq(stored_at),
            memory.passing_word.eq(z),
            memory.passing_cotangent.eq(Mux(sequencer.written.memory, old["d"][1], z)),
            memory.passes_word.eq(sequencer.written.memory),
            memory.passes_cotangent.eq(sequencer.written.memory_cotangent),
        ]
        m.d.comb += [counters.waiting.eq(running.waiting), counters.ahead.eq(ahead)]
        self._commit(
            m, sequencer, guards, ledger, counters, Committing(
                commit, x, y, z, sequencer.reads, operands.entering[Select.A.value], stored_at, early_trap, ends, sequencer.begins, writing.turns, writing.erases,
                writing.instruction, running.instruction, old,
            )
        )  # fmt: skip
        return m

    def _destination(self, m: Module, c: Committing) -> tuple[Any, Any, Any]:
        numbers = [self._number(c.commit[field], c.instruction) for field in _NAMED.values()]
        m.d.comb += self.registers.shadow.eq(Mux(self.idle, self.window.write_address, numbers[1]))
        which = [c.old["d"], *(c.old[place] for place in PLACES)]
        before = [Array(pair[k] for pair in which)[c.commit[field]] for k, field in enumerate(_NAMED.values())]
        return numbers[0], before[0], before[1]

    def _number(self, field: Any, instruction: Any) -> Any:
        """The number of the register that is written."""
        return Array([0, instruction.rd, instruction.ra, instruction.rb])[field]

    def _latches(
        self,
        m: Module,
        decoder: Decoder,
        sequencer: OverlappedSequencer,
        running: Any,
        landing: Signal,
        pairs: Dependences,
    ) -> dict[str, tuple[Any, Any]]:
        """The operand latches of the instruction that executes, and the words for the one that begins; by place, those of the one that writes.

        A word that an instruction writes goes to the next one past the register file, in the cycle of the write.
        """
        width, operands, registers, memory = self.parameters.width, self.operands, self.registers, self.memory
        written, fresh, closing = sequencer.written, sequencer.fresh, sequencer.closing
        old: dict[str, Signal] = {}
        hits = []
        for select in HITS:
            place, what = select.name[0].lower(), "cotangent" if select.name.endswith("BAR") else "word"
            field = {"d": "rd", "a": "ra", "b": "rb"}[place]
            passing = getattr(operands, f"{'y' if what == 'cotangent' else 'x'}_written")
            latch, hit, held = (
                Signal(width, name=f"{place}_{what}"),
                Signal(),
                Signal(width, name=f"old_{place}_{what}"),
            )
            stale = written[what] & names(written[_NAMED[what]], pairs.of_writing, field)
            found = Mux(stale, passing, getattr(registers, f"{place}_{what}"))
            kept = Mux(hit, passing, latch)
            m.d.comb += [operands.entering[select.value].eq(found), operands.latches[select.value].eq(kept)]
            # whether the last write is one to this register
            hits.append(names(closing[_NAMED[what]], pairs.of_running, field))
            if select is Select.A:
                m.d.comb += [sequencer.stale.eq(stale), sequencer.unknown.eq(hits[-1])]
            m.d.sync += [hit.eq(fresh & hits[-1]), latch.eq(Mux(fresh, found, kept)), held.eq(kept)]
            old[f"{place}_{what}"] = held
        m.d.comb += [operands.hits.eq(Cat(hits)), operands.fresh.eq(fresh)]
        for select, word in ((Select.IMM, decoder.imm), (Select.NEGATED, decoder.negated)):
            latch = Signal(width, name=select.name.lower())
            with m.If(fresh):
                m.d.sync += latch.eq(word)
            m.d.comb += [operands.entering[select.value].eq(word), operands.latches[select.value].eq(latch)]
        for words, landed in ((operands.entering, running.lands | landing), (operands.latches, landing)):
            m.d.comb += words[Select.BR.value].eq(Mux(landed, 0, self.branch.br))
        for select, what in ((Select.M, "word"), (Select.M_BAR, "cotangent")):
            word, latch = getattr(memory, f"old_{what}"), Signal(width, name=f"m_{what}")
            held = old[f"m_{what}"] = Signal(width, name=f"old_m_{what}")
            m.d.sync += [latch.eq(Mux(fresh, word, latch)), held.eq(latch)]
            m.d.comb += [operands.entering[select.value].eq(word), operands.latches[select.value].eq(latch)]
        return {place: (old[f"{place}_word"], old[f"{place}_cotangent"]) for place in (*PLACES, "m")}

    @staticmethod
    def _slot(word: Any, k: int) -> Any:
        """The fields of a slot in a microword."""
        return word if k == 0 else word[f"slot{k}"]

    def _slots(self, m: Module, sequencer: OverlappedSequencer) -> tuple[list[Any], Any, Any]:
        """The units of each slot; their last results, and whether their sums fit, and their products or quotients."""
        operands, head, now, following = self.operands, sequencer.head, sequencer.now, sequencer.next
        m.submodules.rom = rom = self.rom
        fits, units_fit = [], []
        for k, logic in enumerate(self.logics):
            slot, ahead = self._slot(now, k), self._slot(following, k)
            x, y, z = (getattr(operands, f"{port}{k}") for port in PORTS)
            for port in PORTS:
                m.d.comb += getattr(operands, f"{port}{k}_source").eq(ahead[port])
                m.d.comb += getattr(operands, f"{port}{k}_first").eq(head[f"{port}{k or ''}"])
            result = getattr(operands, f"result{k}")
            m.submodules[f"logic{k or ''}"] = logic
            m.d.comb += [logic.operation.eq(slot.operation), logic.x.eq(x), logic.y.eq(y), logic.z.eq(z)]
            m.d.comb += [
                getattr(operands, f"write{k}").eq(slot.write),
                getattr(operands, f"temporary{k}").eq(slot.temporary),
            ]
            # The logic unit needs no gate: its result is 0 where another unit writes. That of the multiplier arrives last.
            words, product = [logic.result], Const(0)
            sum_fits, unit_fits = logic.fits, Const(1)
            if k == 0:
                m.d.comb += [rom.table.eq(slot.parameter), rom.x.eq(x)]
                words.append(gated([(slot.writer == Writer.ROM, rom.result)]))
            if k in self.multipliers:
                m.submodules[f"multiplier{k or ''}"] = multiplier = self.multipliers[k]
                multiplies = (slot.operation == Operation.MULSHIFT) | (slot.operation == Operation.MULROUND)
                m.d.comb += [multiplier.start.eq(multiplies), multiplier.half.eq(slot.parameter)]
                m.d.comb += [multiplier.x.eq(x), multiplier.y.eq(y), multiplier.shift.eq(slot.shift)]
                m.submodules[f"chained{k or ''}"] = chained = ChainedSum(self.parameters.width)
                m.d.comb += [chained.chain.eq(slot.chain), chained.subtract.eq(slot.difference)]
                m.d.comb += [chained.x.eq(z), chained.product.eq(multiplier.result)]
                sum_fits, unit_fits = Mux(slot.chain, chained.fits, logic.fits), multiplier.fits
                product = gated([(slot.writer == Writer.MULTIPLIER, chained.result)])
            if k in self.dividers:
                m.submodules[f"divider{k or ''}"] = divider = self.dividers[k]
                divides = slot.operation.matches(Operation.DIVSHIFT, Operation.DIVROUND, Operation.SQRTROUND)
                m.d.comb += [divider.start.eq(divides), divider.division.eq(slot.parameter)]
                m.d.comb += [divider.x.eq(x), divider.y.eq(y), divider.shift.eq(slot.shift)]
                unit_fits = Mux(slot.writer == Writer.DIVIDER, divider.fits, unit_fits)
                words.append(gated([(slot.writer == Writer.DIVIDER, divider.result)]))
            m.d.comb += result.eq(any_of(words) | product)
            fits.append(sum_fits)
            units_fit.append(unit_fits)
        return [getattr(operands, f"last{k}") for k in range(self.slots)], Cat(fits), Cat(units_fit)

    def _report(self, m: Module, c: Committing, writes: Value) -> None:
        r, branch, registers, commit = self.retirement, self.branch, self.registers, c.commit
        # An instruction changes PC at its first write. A doomed instruction traps after the last write of its predecessor.
        with m.If(commit.first | self.traps):
            m.d.sync += [
                r.pc_before.eq(branch.pc), r.br_before.eq(branch.br), r.backward_before.eq(branch.backward),
                r.instruction.eq(Mux(commit.first, c.instruction, c.trapping)),
                r.address.eq(c.target),
                *(getattr(r, f"{place}_written").eq(0) for place in WRITTEN),
            ]  # fmt: skip
            for place, (word, cotangent) in c.old.items():
                m.d.sync += getattr(r, f"{place}_word_before").eq(word)
                m.d.sync += getattr(r, f"{place}_cotangent_before").eq(cotangent)
        for place, field in zip(PLACES, (Field.RD, Field.RA, Field.RB), strict=True):
            for bit, what in enumerate(_NAMED):
                with m.If(commit[what] & (commit[_NAMED[what]] == field) & writes):
                    m.d.sync += [
                        getattr(r, f"{place}_written")[bit].eq(1),
                        getattr(r, f"{place}_{what}_after").eq(getattr(registers, what)),
                    ]
