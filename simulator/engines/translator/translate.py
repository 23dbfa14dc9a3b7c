"""Tier 2: a program as one LLVM function.

Registers are values, branches are branches, and what a guard refuses is found late: the function only notes that some guard
failed, and looks at the note where a loop comes round, or at the end. A program of bijections loses nothing by running on
with a wrapped sum or past the end of memory (the address then stands for one spare word): whoever runs the function undoes
what was done since the last look by running backward, and goes forward again instruction by instruction until the trap. So
checks cost no branches, and no register need lie where a trap could find it. What is lost all the same (words erased,
cotangents dropped) is written to a log between two looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS, bar
from retrograd.isa.expr import Expr
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.engines.interpreter.threaded import storage
from retrograd.simulator.engines.llvm.builder import Callee, Code, ModuleBuilder
from retrograd.simulator.engines.llvm.instructions import MODES, Step, step
from retrograd.simulator.engines.llvm.trees import Trees
from retrograd.simulator.engines.llvm.types import I64, POINTER, pointer
from retrograd.simulator.engines.state.control_block import ACCOUNT, Exit, Late, Slot
from retrograd.simulator.engines.translator.flow import Flow, Node, Variant, flow_of

#: nodes of an instruction's trees from which on it is a function, called where it occurs
OUT_OF_LINE = 40


def translate(program: Program, variant: Variant, module: ModuleBuilder, name: str = "translated") -> Flow:
    """Define the program's function in the module: for a whole machine,

        name(control, R, M, n, C, N, counts) -> Exit                counts: times each block ran, in the order of the flow's

    and for one instance of a batch, whose registers begin as zeros and which tells only how it ended,

        name(M, n, stride, limit, report) -> 0 where it halted      report: steps taken, words lost, cycles
    """
    flow = flow_of(program, variant)
    Translation(flow, variant, module).define(name)
    return flow


class Translation:
    """A program's function in the making. LaneTranslation (lanes.py) makes one of several instances side by side."""

    lanes = 1

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder) -> None:
        self.flow, self.variant, self.module = flow, variant, module
        self.w: Format = flow.program.format
        self.code = Code(module, self.w, lanes=self.lanes)
        self.t, self.s = self.code.word, storage(self.w)
        #: to memory, which on a device is global
        self.pointer = "ptr addrspace(1)" if variant.device else "ptr"
        self.modes = [m for m in MODES if variant.checks and (m == "always" or getattr(variant, m))]
        self.used = self._registers()
        self.names = {node: f"b{k}" for k, node in enumerate(flow.blocks)}
        self.longest = sum(map(len, flow.blocks.values())) + 1
        steps = [self._step(flow.code[at]) for run in flow.blocks.values() for at in run]
        self.loses = sum(len(s.drops) + len(s.erases) for s in steps)
        self.erases = any(s.erases for s in steps)
        self.drops = any(s.drops for s in steps)
        #: some instruction may fail: of those without checks, each that has an address
        self.fails = bool(self.modes) or any(s.memory or s.unerases for s in steps)
        #: functions of long instructions
        self.defined: set[str] = set()

    def _step(self, i: Instruction) -> Step:
        return step(i.opcode, self.w, self.variant.differentiating, i.ra == i.rb and self.variant.differentiating)

    def _registers(self) -> list[int]:
        """The registers that the code names."""
        out: set[int] = set()
        for run in self.flow.blocks.values():
            for at in run:
                i = self.flow.code[at]
                out |= {getattr(i, f) for f in ("rd", "ra", "rb") if f in i.opcode.fields}
        return sorted(out)

    # ------------------------------------------------------------------ the function

    def define(self, name: str) -> None:
        code, let, do = self.code, self.code.let, self.code.do
        whole = self.variant.whole
        m = self.module
        m.define("!0", '!0 = !{!"branch_weights", i32 1000000, i32 1}')
        m.define("!1", '!1 = !{!"branch_weights", i32 1, i32 1000000}')
        do("%left = alloca i64")
        do("%br = alloca i64")
        do("%bad = alloca i1")
        do("%looked = alloca i64")
        do("%logged = alloca i64")
        do("%erased = alloca i64")
        do("%node = alloca i64")
        do("%why = alloca i64")
        do("%cycles = alloca i64")
        do("store i64 0, ptr %cycles")
        if not whole and not self.variant.promoted:
            do(f"%R = alloca [256 x {self.s}]")
        for kind, base in self._files():
            for r in self.used:
                if self.variant.promoted:
                    do(f"%{kind}{r} = alloca {self.s}")
                else:
                    do(f"%{kind}{r} = getelementptr {self.s}, ptr {base}, i64 {r}")
        limit = self._slot(Slot.LEFT) if whole else "%limit"
        for name_, value in (("left", limit), ("br", "0"), ("looked", limit), ("logged", "0"), ("erased", "0")):
            do(f"store i64 {value}, ptr %{name_}")
        do("store i1 false, ptr %bad")
        if not whole and not self.variant.promoted:
            for r in self.used:
                do(f"store {self.s} 0, ptr %r{r}")
        if self.variant.promoted:
            for kind, base in self._files():
                for r in self.used:
                    value = "0"
                    if whole:
                        at = let(f"getelementptr {self.s}, ptr {base}, i64 {r}")
                        value = let(f"load {self.s}, ptr {at}")
                    do(f"store {self.s} {value}, ptr %{kind}{r}")
        if whole:
            for slot in (Slot.WAY, *ACCOUNT):
                do(f"%{slot.name} = alloca i64")
                do(f"store i64 {self._slot(slot)}, ptr %{slot.name}")
            self._save()
            do(f"%log.word = load i64, ptr {self._slot_at(Slot.LOG)}")
            do("%log = inttoptr i64 %log.word to ptr")
        else:
            do("%DROPPED = alloca i64")
            do("store i64 0, ptr %DROPPED")
        do(f"br label %{self.names[next(iter(self.flow.blocks))]}")
        for index, (node, run) in enumerate(self.flow.blocks.items()):
            self._block(index, node, run)
        self._end()
        body = "\n".join(code.lines)
        arguments = (
            "ptr noalias %ctl, ptr noalias %R, ptr noalias %M, i64 %n, ptr noalias %C, ptr noalias %N, ptr noalias %counts"
            if whole
            else f"{self.pointer} noalias %M, i64 %n, i64 %stride, i64 %limit, {self.pointer} noalias %report"
            + ("" if self.variant.device else ", ptr %stop")
        )
        types = [(pointer(1) if "addrspace" in a else POINTER) if "ptr" in a else I64 for a in arguments.split(",")]
        m.callees[name] = Callee(f"@{name}", I64, tuple(types))
        m.functions.append(f"define {'' if whole else 'internal '}i64 @{name}({arguments}) nounwind {{\n{body}\n}}")

    def _files(self) -> list[tuple[str, str]]:
        """(what the slots of a register file are called, its array)"""
        return [("r", "%R"), *([("c", "%C")] if self.variant.differentiating else [])]

    def _slot_at(self, slot: int) -> str:
        return self.code.let(f"getelementptr i64, ptr %ctl, i64 {int(slot)}")

    def _slot(self, slot: int) -> str:
        return self.code.let(f"load i64, ptr {self._slot_at(slot)}")

    def _get(self, name: str, type_: str = "i64") -> str:
        return self.code.let(f"load {type_}, ptr %{name}")

    def _add(self, name: str, amount: str) -> None:
        sum_ = self.code.let(f"add i64 {self._get(name)}, {amount}")
        self.code.do(f"store i64 {sum_}, ptr %{name}")

    def _end(self) -> None:
        code, let, do = self.code, self.code.let, self.code.do
        code.label("exit")
        left, why = self._get("left"), self._get("why")
        if not self.variant.whole:
            do(f"store i64 {let(f'sub i64 %limit, {left}')}, {self.pointer} %report")
            lost = let(f"add i64 {self._get('erased')}, {self._get('DROPPED')}")
            for k, count in ((1, lost), (2, self._get("cycles"))):
                at = let(f"getelementptr i64, {self.pointer} %report, i64 {k}")
                do(f"store i64 {count}, {self.pointer} {at}")
            failed = let(f"zext i1 {self._get('bad', 'i1')} to i64")
            do(f"ret i64 {let(f'or i64 {why}, {failed}')}")
            return
        if self.variant.promoted:
            for kind, base in self._files():
                for r in self.used:
                    at = let(f"getelementptr {self.s}, ptr {base}, i64 {r}")
                    do(f"store {self.s} {self._get(f'{kind}{r}', self.s)}, ptr {at}")
        for slot in ACCOUNT:
            do(f"store i64 {self._get(slot.name)}, ptr {self._slot_at(slot)}")
        window = let(f"sub i64 {self._get('looked')}, {left}")
        window = let(f"select i1 {self._get('bad', 'i1')}, i64 {window}, i64 0")
        told: dict[int, str] = {
            Slot.LEFT: left,
            Slot.BR: self._get("br"),
            Late.WINDOW: window,
            Late.NODE: self._get("node"),
            Slot.LOGGED: self._get("logged"),
        }
        for word, value in told.items():
            do(f"store i64 {value}, ptr {self._slot_at(word)}")
        do(f"ret i64 {why}")

    def _leave(self, why: Exit, at: int) -> None:
        """Stop before the instruction at the address, with BR as its slot says."""
        self.code.do(f"store i64 {at}, ptr %node")
        self.code.do(f"store i64 {why}, ptr %why")
        self.code.do("br label %exit")

    # ------------------------------------------------------------------ blocks

    def _block(self, index: int, node: Node, run: list[int]) -> None:
        code = self.code
        self.cached: dict[str, str] = {}
        self.dirty: set[str] = set()
        self.failed: list[str] = []
        #: words of memory that are at hand: (array, address) -> value
        self.loaded: dict[tuple[str, str], str] = {}
        self.label = self.names[node]
        code.label(self.label)
        if node in self.flow.headers:
            self._look(node)
        at = run[0]
        if self.flow.branches(at):
            self._branch(index, node, at)
            return
        if node[1]:
            self._leave(Exit.REFUSED, at)
            return
        halts = self.flow.code[run[-1]].opcode.halts
        executed = run[:-1] if halts else run
        if executed:
            self._count(index, executed)
        for place in executed:
            self._execute(self.flow.code[place])
        self._flush()
        if halts:
            self._leave(Exit.HALTED, run[-1])
        else:
            self._go(self.flow.after(run[-1]), run[-1])

    def _look(self, node: Node) -> None:
        """Where a loop comes round: has a guard failed, are steps used up, does the host want to stop?"""
        code, let, do = self.code, self.code.let, self.code.do
        left = self._get("left")
        stop = let(f"icmp slt i64 {left}, {self.longest}")
        if self.fails:
            stop = let(f"or i1 {stop}, {self._get('bad', 'i1')}")
        if not self.variant.device:
            # Volatile: it changes behind the code's back.
            asked = let(f"load volatile i64, ptr {self._slot_at(Late.STOP) if self.variant.whole else '%stop'}")
            stop = let(f"or i1 {stop}, {let(f'icmp ne i64 {asked}, 0')}")
        do(f"br i1 {stop}, label %{self.label}.stop, label %{self.label}.on, !prof !1")
        code.label(f"{self.label}.stop")
        self._leave(Exit.LIMIT, node[0])
        code.label(f"{self.label}.on")
        if self.variant.whole:
            do(f"store i64 {left}, ptr %looked")
            do("store i64 0, ptr %logged")
            if self.drops:
                self._save()

    def _save(self) -> None:
        """Note the account of what was dropped as it stands, for when what follows is undone."""
        for k, slot in enumerate(ACCOUNT):
            self.code.do(f"store i64 {self._get(slot.name)}, ptr {self._slot_at(Late.SAVED + k)}")

    def _count(self, index: int, executed: list[int]) -> None:
        let, do = self.code.let, self.code.do
        self._add("left", str(-len(executed)))
        if self.variant.cycles:
            self._add("cycles", str(self._cycles(executed)))
        if self.variant.whole:
            at = let(f"getelementptr i64, ptr %counts, i64 {index}")
            before = let(f"load i64, ptr {at}")
            do(f"store i64 {let(f'add i64 {before}, 1')}, ptr {at}")

    def _cycles(self, executed: list[int]) -> int:
        # Imported here: whoever does not ask need not have the instructions scheduled.
        from retrograd.isa.microarchitecture.timing import cycles

        found = [self.flow.code[at] for at in executed]
        return sum(cycles(i.opcode, self.w, False, i.ra == i.rb) for i in found)

    def _go(self, node: Node | None, at: int) -> None:
        if node is None:
            self._leave(Exit.REFUSED, at + 1)
        else:
            self.code.do(f"br label %{self.names[node]}")

    def _branch(self, index: int, node: Node, at: int) -> None:
        code, let, do, flow = self.code, self.code.let, self.code.do, self.flow
        i = flow.code[at]
        found = self._step(i)
        words = self._words(i, found)
        if node[1]:
            jump = self._get("br")
            words["br"] = jump if self.t == "i64" else let(f"trunc i64 {jump} to {self.t}")
        else:
            words["br"] = "0"
        trees = Trees(code, words, found.roots)
        if found.guards["always"]:
            # Not put off: to go back over a branch, its own condition must tell where from.
            hold = "true"
            for tree in found.guards["always"]:
                hold = let(f"and i1 {hold}, {trees.truth(tree)}")
            do(f"br i1 {hold}, label %{self.label}.go, label %{self.label}.refuse, !prof !0")
            code.label(f"{self.label}.refuse")
            self._leave(Exit.REFUSED, at)
            code.label(f"{self.label}.go")
        self._count(index, [at])
        after = {place: trees.value(tree) for place, tree in found.after.items()}
        for place, value in after.items():
            if place != "br":
                self._set(i, place, value)
        self._flush()
        jump = after["br"]
        if self.t != "i64":
            jump = let(f"sext {self.t} {jump} to i64")
        do(f"store i64 {jump}, ptr %br")
        leaves = flow.leaves(at)
        do(f"br i1 {let(f'icmp eq i64 {jump}, 0')}, label %{self.label}.next, label %{self.label}.jump")
        code.label(f"{self.label}.jump")
        targets = [f"i64 {to - leaves}, label %{self.names[to, True]}" for to in dict.fromkeys(flow.jumps(at))]
        do(f"switch i64 {jump}, label %{self.label}.astray [ {' '.join(targets)} ]")
        code.label(f"{self.label}.astray")
        self._leave(Exit.ASTRAY, leaves)
        code.label(f"{self.label}.next")
        self._go(flow.after(leaves), leaves)

    # ------------------------------------------------------------------ an instruction

    def _slot_name(self, i: Instruction, place: str) -> str | None:
        """The slot of a register's word or cotangent; None for memory."""
        name = place.removesuffix(bar(""))
        if name not in REGISTER_FIELDS:
            return None
        return f"{'r' if name == place else 'c'}{getattr(i, REGISTER_FIELDS[name])}"

    def _read(self, slot: str) -> str:
        found = self.cached.get(slot)
        if found is None:
            found = self._narrow(self._get(slot, self.s))
            self.cached[slot] = found
        return found

    def _narrow(self, value: str) -> str:
        return value if self.s == self.t else self.code.let(f"trunc {self.s} {value} to {self.t}")

    def _widen(self, value: str) -> str:
        return value if self.s == self.t else self.code.let(f"zext {self.t} {value} to {self.s}")

    def _flush(self) -> None:
        for slot in sorted(self.dirty):
            self.code.do(f"store {self.s} {self._widen(self.cached[slot])}, ptr %{slot}")
        self.dirty.clear()
        if self.failed:
            bad = self._get("bad", "i1")
            for failed in self.failed:
                bad = self.code.let(f"or i1 {bad}, {failed}")
            self.code.do(f"store i1 {bad}, ptr %bad")
            self.failed.clear()

    def _words(self, i: Instruction, found: Step) -> dict[str, str]:
        words: dict[str, str] = {}
        reads = found.reads
        if "imm" in reads or found.memory:
            words["imm"] = self.code.number(i.imm & self.w.mask)
        if found.memory:
            self._address(i)
        for place in sorted(reads):
            if place in ("imm", "br"):
                continue
            slot = self._slot_name(i, place)
            words[place] = self._read(slot) if slot else self._load(place)
        return words

    def _address(self, i: Instruction) -> None:
        """`self.address` := where the instruction's word of memory lies, or the spare word."""
        let = self.code.let
        imm = self.code.number(i.imm & self.w.mask)
        address = let(f"add {self.t} {self._read(f'r{i.ra}')}, {imm}")
        if self.w.width < 64:
            address = let(f"zext {self.t} {address} to i64")
        inside = let(f"icmp ult i64 {address}, %n")
        # Noted without checks, too: the spare word holds what instances before this one left there.
        self.failed.append(let(f"xor i1 {inside}, true"))
        self.address = let(f"select i1 {inside}, i64 {address}, i64 %n")
        if self.variant.device:
            self.address = let(f"mul i64 {self.address}, %stride")

    def _pointer(self, place: str) -> str:
        base = "%M" if place == "m" else "%N"
        return self.code.let(f"getelementptr {self.s}, {self.pointer} {base}, i64 {self.address}")

    def _load(self, place: str) -> str:
        found = self.loaded.get((place, self.address))
        if found is None:
            found = self._narrow(self.code.let(f"load {self.s}, {self.pointer} {self._pointer(place)}"))
            self.loaded[place, self.address] = found
        return found

    def _set(self, i: Instruction, place: str, value: str) -> None:
        slot = self._slot_name(i, place)
        if slot:
            self.cached[slot] = value
            self.dirty.add(slot)
        else:
            self.code.do(f"store {self.s} {self._widen(value)}, {self.pointer} {self._pointer(place)}")
            # Another address may be the same.
            self.loaded = {at: word for at, word in self.loaded.items() if at[0] != place}
            self.loaded[place, self.address] = value

    def _execute(self, i: Instruction) -> None:
        found = self._step(i)
        if found.unerases:
            # Nobody can: the note leads to the trap.
            self.failed.append(self.code.true)
            return
        words = self._words(i, found)
        guards = [tree for mode in self.modes for tree in found.guards[mode]]
        if found.size > OUT_OF_LINE:
            after, failed = self._call(found, words, bool(guards) or self.lanes > 1)
            if failed is not None:
                self.failed.append(failed)
        else:
            trees = self._trees(self.code, words, found.roots, guards)
            for tree in guards:
                self.failed.append(self.code.let(f"xor {self.code.truth} {trees.truth(tree)}, {self.code.true}"))
            after = {place: trees.value(tree) for place, tree in found.after.items()}
            self.failed += trees.doubts
        for place in found.erases:
            self._log(words[place])
            self._add("erased", self.code.number(1))
        for place in found.drops:
            self._drop(words[place])
            after[place] = self.code.number(0)
        for place, value in after.items():
            self._set(i, place, value)

    def _trees(self, code: Code, words: Mapping[str, str], roots: Sequence[Expr], noted: Sequence[Expr] = ()) -> Trees:
        return Trees(code, words, roots, noted)

    def _call(self, found: Step, words: dict[str, str], guarded: bool) -> tuple[dict[str, str], str | None]:
        """A long instruction, as a call of its own function."""
        let, t, module = self.code.let, self.t, self.module
        places, results = list(words), list(found.after)
        name = f"@{found.opcode.name.replace('.', '_')}{'_lifted' * self.variant.differentiating}{'_same' * found.same}"
        truth = self.code.truth
        type_ = f"{{ {', '.join([*[t] * len(results), truth])} }}"
        if name not in self.defined:
            self.defined.add(name)
            inner = Code(module, self.w, lanes=self.code.lanes)
            trees = self._trees(inner, {p: f"%{k}" for k, p in enumerate(places)}, found.roots)
            bad = inner.false
            for mode in self.modes:
                for tree in found.guards[mode]:
                    failed = inner.let(f"xor {truth} {trees.truth(tree)}, {inner.true}")
                    bad = inner.let(f"or {truth} {bad}, {failed}")
            out = "poison"
            for k, place in enumerate(results):
                value = trees.value(found.after[place])
                out = inner.let(f"insertvalue {type_} {out}, {t} {value}, {k}")
            for doubt in trees.doubts:
                bad = inner.let(f"or {truth} {bad}, {doubt}")
            out = inner.let(f"insertvalue {type_} {out}, {truth} {bad}, {len(results)}")
            body = "\n".join(inner.lines)
            arguments = ", ".join(f"{t} %{k}" for k in range(len(places)))
            module.functions.append(
                f"define internal {type_} {name}({arguments}) nounwind willreturn memory(none) noinline {{\n{body}\n  ret {type_} {out}\n}}"
            )
        arguments = ", ".join(f"{t} {words[p]}" for p in places)
        all_ = let(f"call {type_} {name}({arguments})")
        after = {place: let(f"extractvalue {type_} {all_}, {k}") for k, place in enumerate(results)}
        return after, let(f"extractvalue {type_} {all_}, {len(results)}") if guarded else None

    def _log(self, word: str) -> None:
        """Note a word that is about to be lost, until the next look."""
        if not self.variant.whole:
            return
        let, do = self.code.let, self.code.do
        count = self._get("logged")
        do(f"store {self.s} {self._widen(word)}, ptr {let(f'getelementptr {self.s}, ptr %log, i64 {count}')}")
        self._add("logged", "1")

    def _drop(self, word: str) -> None:
        """`Cotangents.drop`, where none of what it has lost can be asked for: that the machine sees to."""
        let, do = self.code.let, self.code.do
        self._log(word)
        some = let(f"icmp ne {self.t} {word}, {self.code.number(0)}")
        self._add("DROPPED", let(f"zext {self.code.truth} {some} to {self.code.side_by_side('i64')}"))
        if not self.variant.whole:
            return
        way, crossed = self._get("WAY"), self._get("CROSSED")
        ahead = let(f"icmp sgt i64 {way}, 0")
        point = let(f"select i1 {ahead}, i64 {crossed}, i64 {let(f'sub i64 {crossed}, 1')}")
        self._add("CROSSED", way)
        for name, value in (("LOST_POINT", point), ("LOST_WAY", way)):
            do(f"store i64 {let(f'select i1 {some}, i64 {value}, i64 {self._get(name)}')}, ptr %{name}")
