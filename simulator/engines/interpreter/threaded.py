"""Tier 1: an interpreter in threaded code, its handlers compiled from the instruction table.

A decoded instruction holds the address of its handler, which executes it and jumps to the handler of the next: there is no
loop and no dispatcher. The code lies in memory twice, as it runs forward and, reversed, as it runs backward, so that the
next instruction is the next one in memory in either direction; turning round is a reflection.

A handler computes all guards before it writes. Where one fails it leaves the machine as it is and returns: the reference
machine executes that instruction, and raises what is to be raised. So a trap is told by the definition alone.
"""

from __future__ import annotations

from enum import IntEnum

from retrograd.isa.entries import REGISTER_FIELDS, Mode, Opcode, bar
from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import Code, ModuleBuilder
from retrograd.simulator.engines.llvm.instructions import MODES, Step, step
from retrograd.simulator.engines.llvm.trees import Trees
from retrograd.simulator.engines.state.control_block import Exit, Flag, Slot

#: a decoded instruction: handler, rd, ra, rb, whether it takes a jump, imm, times executed
ENTRY_BYTES = 24
#: where in it that last number stands
COUNT = 16
_FIELDS = {"handler": 0, "rd": 8, "ra": 9, "rb": 10, "branches": 11, "imm": 12, "count": COUNT}


class Branching(IntEnum):
    """What decoding tells of a branch; 0 of what is none."""

    TAKES_JUMPS = 1
    #: a jump by its constant meets a branch
    WELL = 2


def storage(w: Format) -> str:
    """The LLVM type of a word in memory: whole bytes."""
    return f"i{max(8, w.width)}"


def handler_name(opcode: Opcode, w: Format, differentiating: bool, same: bool) -> str:
    """The symbol of a handler."""
    lifted = f".lifted{'.same' * same}" if differentiating else ""
    return f"{opcode.name}.{w.width}.{w.frac}{lifted}".replace(".", "_")


_ARGUMENTS = "ptr %ip, i64 %left, ptr %R, ptr %M, i64 %n, ptr %ctl, ptr %C, ptr %N"


def trampoline(convention: str, name: str = "run_threaded") -> str:
    """IR of the function that the host calls: run(ctl, R, M, n, C, N) -> Exit."""
    return f"""
define i64 @{name}(ptr %ctl, ptr %R, ptr %M, i64 %n, ptr %C, ptr %N) {{
  %ip = load ptr, ptr %ctl
  %left.at = getelementptr i64, ptr %ctl, i64 {Slot.LEFT}
  %left = load i64, ptr %left.at
  %handler = load ptr, ptr %ip
  %why = call {convention} i64 %handler({_ARGUMENTS})
  %why.at = getelementptr i64, ptr %ctl, i64 {Slot.WHY}
  store i64 %why, ptr %why.at
  ret i64 %why
}}

define {convention} i64 @sentinel({_ARGUMENTS}) {{
  store ptr %ip, ptr %ctl
  %left.at = getelementptr i64, ptr %ctl, i64 {Slot.LEFT}
  store i64 %left, ptr %left.at
  ret i64 {Exit.REFUSED}
}}
"""


def emit_handler(
    module: ModuleBuilder, opcode: Opcode, w: Format, differentiating: bool, same: bool, convention: str
) -> str:
    """Define the handler of an opcode in the module; its symbol."""
    name = handler_name(opcode, w, differentiating, same)
    text = _Handler(module, step(opcode, w, differentiating, same), convention).text()
    module.functions.append(f"define {convention} i64 @{name}({_ARGUMENTS}) nounwind {{\n{text}\n}}")
    return name


class _Handler:
    def __init__(self, module: ModuleBuilder, step: Step, convention: str) -> None:
        self.step, self.w = step, step.format
        self.code = Code(module, step.format)
        module.define("!0", '!0 = !{!"branch_weights", i32 1000000, i32 1}')
        module.define("!1", '!1 = !{!"branch_weights", i32 1, i32 1000000}')
        #: what labels begin with, where the body is emitted twice
        self.tag = ""
        self.convention = convention
        self.t, self.s = self.code.word, storage(step.format)

    def text(self) -> str:
        step, code, let = self.step, self.code, self.code.let
        if step.opcode.halts:
            self._leave(Exit.HALTED)
            return "\n".join(code.lines)
        words = self._operands()
        if "br" not in step.reads:
            self._body(words, "")
        else:
            # Most branches are met with BR = 0. Told apart, where they lead hangs on no data: the processor runs ahead.
            br = self._slot(Slot.BR)
            code.do(f"br i1 {let(f'icmp eq i64 {br}, 0')}, label %fresh, label %landed, !prof !0")
            code.label("fresh")
            self._body(words | {"br": "0"}, "fresh.")
            code.label("landed")
            self._body(words | {"br": self._fit(br, 64)}, "landed.")
        return "\n".join(code.lines)

    def _body(self, words: dict[str, str], tag: str) -> None:
        step, let = self.step, self.code.let
        self.tag = tag
        trees = Trees(self.code, words, step.roots)
        self._guards(trees)
        count = let(f"getelementptr i8, ptr %ip, i64 {_FIELDS['count']}")
        more = let(f"add i64 {let(f'load i64, ptr {count}')}, 1")
        if step.erases:
            # Met while undoing, it is the inverse of an `unerase` that was refused, and did nothing.
            self.code.do(f"br i1 {self._is_lenient()}, label %undone, label %erase")
            self.code.label("undone")
            self.code.do(f"store i64 {more}, ptr {count}")
            self._continue(let(f"getelementptr i8, ptr %ip, i64 {ENTRY_BYTES}"), let("sub i64 %left, 1"), "undone")
            self.code.label("erase")
        # All words are computed before the first is written.
        after = {place: trees.value(tree) for place, tree in step.after.items()}
        for place, value in after.items():
            if place != "br" and place not in step.unerases:
                self._store(place, value)
        for place in step.unerases:
            # Only reached while undoing. What was lost last comes back first.
            if step.differentiating:
                self._store(bar(place), self._from_log())
            self._store(place, self._from_log())
        for place in step.drops:
            self._store(place, self._drop(words[place]))
        self.code.do(f"store i64 {more}, ptr {count}")
        self._go_on(after.get("br"), let("sub i64 %left, 1"))

    # ------------------------------------------------------------------ operands

    def _field(self, name: str, type_: str) -> str:
        at = self.code.let(f"getelementptr i8, ptr %ip, i64 {_FIELDS[name]}")
        return self.code.let(f"load {type_}, ptr {at}")

    def _operands(self) -> dict[str, str]:
        step, let = self.step, self.code.let
        reads = step.reads
        self.places: dict[str, str] = {}
        words: dict[str, str] = {}
        imm = None
        if "imm" in reads or step.memory:
            imm = words["imm"] = self._fit(self._field("imm", "i32"), 32, signed=True)
        named = {p.removesuffix(bar("")) for p in (*reads, *step.after, *step.drops)}
        for place in REGISTER_FIELDS:
            if place in named or (place == "a" and step.memory):
                index = let(f"zext i8 {self._field(REGISTER_FIELDS[place], 'i8')} to i64")
                self.places[place] = let(f"getelementptr {self.s}, ptr %R, i64 {index}")
                self.places[bar(place)] = let(f"getelementptr {self.s}, ptr %C, i64 {index}")
        if step.memory:
            address = let(f"add {self.t} {self._load('a')}, {imm}")
            if self.w.width < 64:
                address = let(f"zext {self.t} {address} to i64")
            inside = let(f"icmp ult i64 {address}, %n")
            self._unless(inside, "outside", always=True)
            # While undoing, an address out of range stands for one spare word, as it did on the way.
            address = let(f"select i1 {inside}, i64 {address}, i64 %n")
            self.places["m"] = let(f"getelementptr {self.s}, ptr %M, i64 {address}")
            self.places[bar("m")] = let(f"getelementptr {self.s}, ptr %N, i64 {address}")
        for place in self.places:
            if place in reads:
                words[place] = self._load(place)
        return words

    def _fit(self, value: str, bits: int, signed: bool = False) -> str:
        width = self.w.width
        if width == bits:
            return value
        how = "trunc" if width < bits else "sext" if signed else "zext"
        return self.code.let(f"{how} i{bits} {value} to {self.t}")

    def _load(self, place: str) -> str:
        word = self.code.let(f"load {self.s}, ptr {self.places[place]}")
        return word if self.s == self.t else self.code.let(f"trunc {self.s} {word} to {self.t}")

    def _store(self, place: str, value: str) -> None:
        if self.s != self.t:
            value = self.code.let(f"zext {self.t} {value} to {self.s}")
        self.code.do(f"store {self.s} {value}, ptr {self.places[place]}")

    def _slot(self, slot: Slot) -> str:
        at = self.code.let(f"getelementptr i64, ptr %ctl, i64 {slot}")
        return self.code.let(f"load i64, ptr {at}")

    def _set(self, slot: Slot, value: str) -> None:
        at = self.code.let(f"getelementptr i64, ptr %ctl, i64 {slot}")
        self.code.do(f"store i64 {value}, ptr {at}")

    # ------------------------------------------------------------------ guards

    def _guards(self, trees: Trees) -> None:
        let = self.code.let
        hold: dict[Mode, str] = {}
        for mode in MODES:
            for tree in self.step.guards[mode]:
                truth = trees.truth(tree)
                hold[mode] = truth if mode not in hold else let(f"and i1 {hold[mode]}, {truth}")
        if not hold:
            return
        every = None
        for truth in hold.values():
            every = truth if every is None else let(f"and i1 {every}, {truth}")
        assert every is not None
        cold, on = self._branch(every, "guard")
        # Which of them counts, the flags say; that is looked at only here.
        flags = self._slot(Slot.FLAGS)
        fatal = "false"
        for mode, truth in hold.items():
            failed = let(f"xor i1 {truth}, true")
            if mode != "always":
                bit = let(f"and i64 {flags}, {Flag.OVERFLOW if mode == 'overflow' else Flag.STRICT}")
                failed = let(f"and i1 {failed}, {let(f'icmp ne i64 {bit}, 0')}")
            fatal = let(f"or i1 {fatal}, {failed}")
        lenient = let(f"icmp ne i64 {let(f'and i64 {flags}, {Flag.LENIENT}')}, 0")
        refused = let(f"and i1 {fatal}, {let(f'xor i1 {lenient}, true')}")
        self._refuse_if(refused, cold, on)

    def _unless(self, holds: str, what: str, always: bool) -> None:
        """Refuse where it does not hold, unless lenient."""
        let = self.code.let
        cold, on = self._branch(holds, what)
        lenient = let(f"icmp ne i64 {let(f'and i64 {self._slot(Slot.FLAGS)}, {Flag.LENIENT}')}, 0")
        self._refuse_if(let(f"xor i1 {lenient}, true"), cold, on)

    def _is_lenient(self) -> str:
        let = self.code.let
        return let(f"icmp ne i64 {let(f'and i64 {self._slot(Slot.FLAGS)}, {Flag.LENIENT}')}, 0")

    def _branch(self, holds: str, what: str) -> tuple[str, str]:
        code = self.code
        cold, on = f"{self.tag}{what}.cold", f"{self.tag}{what}.on"
        code.do(f"br i1 {holds}, label %{on}, label %{cold}, !prof !0")
        code.label(cold)
        return cold, on

    def _refuse_if(self, refused: str, cold: str, on: str) -> None:
        self.code.do(f"br i1 {refused}, label %{cold}.out, label %{on}")
        self.code.label(f"{cold}.out")
        self._leave(Exit.REFUSED)
        self.code.label(on)

    def _leave(self, why: Exit, ip: str = "%ip", left: str = "%left") -> None:
        """Return to the host, the machine standing at `ip`."""
        self._set(Slot.LEFT, left)
        self.code.do(f"store ptr {ip}, ptr %ctl")
        self.code.do(f"ret i64 {why}")

    # ------------------------------------------------------------------ what is lost

    def _from_log(self) -> str:
        """The last word of the log, taken off."""
        let = self.code.let
        count = let(f"sub i64 {self._slot(Slot.LOGGED)}, 1")
        self._set(Slot.LOGGED, count)
        log = let(f"inttoptr i64 {self._slot(Slot.LOG)} to ptr")
        word = let(f"load {self.s}, ptr {let(f'getelementptr {self.s}, ptr {log}, i64 {count}')}")
        return word if self.s == self.t else let(f"trunc {self.s} {word} to {self.t}")

    def _drop(self, word: str) -> str:
        """`Cotangents.drop`: the companion of a freed ancilla, from here on."""
        code, let = self.code, self.code.let
        flags, way, crossed = self._slot(Slot.FLAGS), self._slot(Slot.WAY), self._slot(Slot.CROSSED)
        ahead = let(f"icmp sgt i64 {way}, 0")
        point = let(f"select i1 {ahead}, i64 {crossed}, i64 {let(f'sub i64 {crossed}, 1')}")
        there = let(f"icmp eq i64 {self._slot(Slot.LOST_POINT)}, {point}")
        facing = let(f"icmp eq i64 {self._slot(Slot.LOST_WAY)}, {let(f'sub i64 0, {way}')}")
        gone = let(f"and i1 {there}, {facing}")
        some = let(f"icmp ne {self.t} {word}, 0")
        special = let(f"and i64 {flags}, {Flag.STRICT | Flag.LENIENT | Flag.KEEP}")
        usual = let(f"icmp eq i64 {special}, 0")
        _, on = self._branch(let(f"and i1 {usual}, {let(f'xor i1 {gone}, true')}"), "drop")
        lenient = let(f"icmp ne i64 {let(f'and i64 {flags}, {Flag.LENIENT}')}, 0")
        code.do(f"br i1 {lenient}, label %drop.back, label %drop.unusual")
        # Strict, kept or lost: the reference machine knows. It must find nothing changed.
        code.label("drop.unusual")
        fine = let(f"and i1 {let(f'icmp eq i64 {special}, {int(Flag.STRICT)}')}, {let(f'xor i1 {some}, true')}")
        fine = let(f"and i1 {fine}, {let(f'xor i1 {gone}, true')}")
        code.do(f"br i1 {fine}, label %{on}, label %drop.refused")
        code.label("drop.refused")
        self._leave(Exit.REFUSED)
        code.label("drop.back")
        back = self._from_log()
        code.do("br label %drop.end")
        code.label(on)
        count = let(f"zext i1 {some} to i64")
        self._set(Slot.CROSSED, let(f"add i64 {crossed}, {way}"))
        self._set(Slot.DROPPED, let(f"add i64 {self._slot(Slot.DROPPED)}, {count}"))
        self._set(Slot.LOST_POINT, let(f"select i1 {some}, i64 {point}, i64 {self._slot(Slot.LOST_POINT)}"))
        self._set(Slot.LOST_WAY, let(f"select i1 {some}, i64 {way}, i64 {self._slot(Slot.LOST_WAY)}"))
        code.do("br label %drop.end")
        code.label("drop.end")
        return let(f"phi {self.t} [ {back}, %drop.back ], [ 0, %{on} ]")

    # ------------------------------------------------------------------ onward

    def _go_on(self, br: str | None, left: str) -> None:
        code, let, do, tag = self.code, self.code.let, self.code.do, self.tag
        if br is None:
            self._continue(let(f"getelementptr i8, ptr %ip, i64 {ENTRY_BYTES}"), left, "next")
            return
        if self.w.width < 64:
            br = let(f"sext {self.t} {br} to i64")
        here = "%ip"
        if self.step.opcode.turns:
            at = let("ptrtoint ptr %ip to i64")
            here = let(f"inttoptr i64 {let(f'sub i64 {self._slot(Slot.MIRROR)}, {at}')} to ptr")
        do(f"br i1 {let(f'icmp ne i64 {br}, 0')}, label %{tag}jump, label %{tag}on")

        code.label(f"{tag}jump")
        self._set(Slot.BR, br)
        to = let(f"getelementptr i8, ptr {here}, i64 {let(f'mul i64 {br}, {ENTRY_BYTES}')}")
        if "imm" in self.step.reads and tag == "fresh.":
            # It jumps as far as its constant says, and whether that is well was seen when the code was decoded.
            well = let(f"and i8 {self._field('branches', 'i8')}, {Branching.WELL}")
            do(f"br i1 {let(f'icmp ne i8 {well}, 0')}, label %{tag}land, label %{tag}look, !prof !0")
        else:
            do(f"br label %{tag}look")
        code.label(f"{tag}look")
        start = let(f"inttoptr i64 {self._slot(Slot.BACKWARD)} to ptr")
        behind = let(f"icmp uge ptr {here}, {start}")
        first = let(f"select i1 {behind}, i64 {self._slot(Slot.BACKWARD)}, i64 {self._slot(Slot.FORWARD)}")
        ahead = let(f"sub i64 {let(f'ptrtoint ptr {to} to i64')}, {first}")
        inside = let(f"icmp ult i64 {ahead}, {self._slot(Slot.BYTES)}")
        if self.w.width == 64:
            # A jump so long that its bytes wrap could seem to end in the code.
            size = self._slot(Slot.BYTES)
            near = let(f"icmp ule i64 {let(f'add i64 {br}, {size}')}, {let(f'shl i64 {size}, 1')}")
            inside = let(f"and i1 {inside}, {near}")
        do(f"br i1 {inside}, label %{tag}inside, label %{tag}astray, !prof !0")
        code.label(f"{tag}astray")
        self._leave(Exit.ASTRAY, here, left)
        code.label(f"{tag}inside")
        kind_at = let(f"getelementptr i8, ptr {to}, i64 {_FIELDS['branches']}")
        kind = let(f"load i8, ptr {kind_at}")
        do(f"br i1 {let(f'icmp ne i8 {kind}, 0')}, label %{tag}land, label %{tag}refuse, !prof !0")
        code.label(f"{tag}refuse")
        self._leave(Exit.REFUSED, to, left)
        code.label(f"{tag}land")
        self._continue(to, left, "land")

        code.label(f"{tag}on")
        if tag == "landed.":
            self._set(Slot.BR, "0")
        self._continue(let(f"getelementptr i8, ptr {here}, i64 {ENTRY_BYTES}"), left, "on")

    def _continue(self, to: str, left: str, what: str) -> None:
        code, let, do, tag = self.code, self.code.let, self.code.do, self.tag
        do(f"br i1 {let(f'icmp eq i64 {left}, 0')}, label %{tag}{what}.limit, label %{tag}{what}.go, !prof !1")
        code.label(f"{tag}{what}.limit")
        self._leave(Exit.LIMIT, to, left)
        code.label(f"{tag}{what}.go")
        handler = let(f"load ptr, ptr {to}")
        arguments = f"ptr {to}, i64 {left}, ptr %R, ptr %M, i64 %n, ptr %ctl, ptr %C, ptr %N"
        why = let(f"musttail call {self.convention} i64 {handler}({arguments})")
        do(f"ret i64 {why}")
