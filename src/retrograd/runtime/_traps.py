"""Diagnostics of traps in terms of the source: names and values instead of registers and addresses.

An optimised program has joined, moved and cancelled updates, so its registers need not hold the values of the source. The run is
repeated without optimisation, and the messages have the values of that run; a message has no values where the run cannot be repeated.
The search for causes takes steps back on the machine that trapped, and takes them again, so the machine ends where it trapped.
A check's message has blanks that are filled in when it fails: `{a}`, `{b}` the two compared words, `{k}` the index of the
checked element, `{full}` the state of a stack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retrograd.compiler.backend.release_marks import changed_operands, mark_of
from retrograd.compiler.compiled import Compiled, as_written
from retrograd.compiler.deep_recursion import with_deep_stack
from retrograd.compiler.ir.statements import (
    Check,
    Const,
    Delocal,
    If,
    Kind,
    Local,
    Node,
    Op,
    Test,
    Var,
    While,
)
from retrograd.compiler.language.intrinsics import INTRINSICS
from retrograd.compiler.language.values import Condition
from retrograd.isa.diagnostics import CalledSpan, Diagnostic, InputError, Span
from retrograd.isa.expr import ZERO as ZERO_WORD
from retrograd.isa.smtlib import format_that_holds
from retrograd.isa.words import Format
from retrograd.runtime._binding import lognum
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import REGISTERS, Machine, Trap, restore, snapshot

if TYPE_CHECKING:
    from retrograd.isa.encoding import Instruction

#: kT ln 2 at 300 K, in joules (Landauer 1961; k = 1.380649e-23 J/K exactly, SI 2019)
LANDAUER_300K = 1.380649e-23 * 300 * math.log(2)
#: the folder of the library
_LIBRARY = Path(__file__).resolve().parents[1] / "library"
#: steps that are taken back to find the last write to an ancilla
_SEARCHED = 200_000
#: a longer run is not repeated
_REPEATED = 500_000_000
#: a program without optimisation takes at most this multiple of the steps
_MOST = 50
#: the decimal digits of a number in a message are fewer
_DIGITS = 40
#: steps that are taken back within one statement
_NEAR = 200
#: function of the instruction table -> its name in the language
_FUNCTIONS = {
    **{f.instruction: f"rg.{name}" for name, f in INTRINSICS.items() if f.instruction is not None},
    "ftol": "lognum", "ltof": "fixed", "llog": "rg.log", "lexp": "rg.exp", "lpow": "a power",
}  # fmt: skip

_BACKWARD = "Run backward from values that running forward leaves; from others, or where the program is wrong, there is no way back."


def explain(compiled: Compiled, machine: Machine, trap: Trap) -> Diagnostic:
    """The diagnostic of a trap: the check or instruction that failed, and the values that it failed on."""
    found = _repeated(compiled, machine, trap)
    return _explained(_TrapContext(compiled, machine, trap) if found is None else found)


def _repeated(compiled: Compiled, machine: Machine, trap: Trap) -> _TrapContext | None:
    """The same trap of the program as it is written; None where there is no such trap, or the run cannot be repeated."""
    taken = machine.retired
    if machine.differentiating or taken > _REPEATED:
        return None
    there = snapshot(machine)
    try:
        machine.run_back()
        words, direction = machine.memory[: compiled.argument_words], machine.direction
        if not machine.at_origin:
            return None
    except Trap:
        return None  # of an erasure
    finally:
        restore(machine, there)
    program = compiled.derived.get(("as written",))
    if program is None:
        program = compiled.derived["as written",] = with_deep_stack(lambda: as_written(compiled))
    engine, checked = "auto" if taken > _SEARCHED else "reference", "overflow" in machine._modes
    repeated = machine_for(program.program, engine, backward=direction < 0, overflow=checked)
    repeated.load(0, words)
    try:
        repeated.run(_MOST * taken + _SEARCHED)
    except Trap as found:
        context = _TrapContext(program, repeated, found, as_written=True)
        return context if context.meaning == _TrapContext(compiled, machine, trap).meaning else None
    return None


def _explained(context: _TrapContext) -> Diagnostic:
    compiled, trap = context.compiled, context.trap
    node = compiled.emitted.checks.get(trap.pc)
    found = trap.diagnostics[0]
    plain = found.message.partition(" (at pc")[0]
    code, message, span = found.code, plain, context.source.span(trap.pc)
    match node:
        case Check(_, code_, _, span_) if found.code in ("RG0407", "RG0413"):
            code, span, message = code_, span_ or span, context.check(node)
        case Local(var) | Delocal(var) if found.code == "RG0407":
            code, message = context.dirty(node, var, trap.value or 0)
        case If() | While() if found.code == "RG0406":
            code = "RG0803"
            message, span = context.condition(node, span)
        case _ if found.code == "RG0401":
            # Indices are checked before, so only the stack can leave the memory.
            code, message = "RG0807", f"the stack of {context.stack} words is full"
        case Op() if found.code in ("RG0402", "RG0403", "RG0404", "RG0411"):
            message = context.arithmetic(node, found.code, plain)
        case _:
            pass
    hint = compiled.function.trap_fixes.get("loop" if code == "RG0803" and isinstance(node, While) else code)
    if code == "RG0404" and isinstance(node, Op) and (point := context.point_that_holds(node)) is not None:
        hint = f"`fixed[{point}]` holds this result: write it for the variable, or around the part of the expression."
    elif code == "RG0404" and hint and isinstance(node, Op) and (holds := context.format_that_holds(node)) is not None:
        hint = f"{holds} holds this result. {hint}"
    if trap.direction < 0:
        message = f"running backward, {message}"
        if code in ("RG0802", "RG0803"):
            hint = _BACKWARD
    own = context.call_of(span, compiled.emitted.origins[trap.pc])
    if own is not None and span is not None:
        within = span._replace(file=f"retrograd/library/{Path(span.file).name}")
        return Diagnostic(code, message, own, hint, context.source.line(own), within=within)
    return Diagnostic(code, message, span, hint, context.source.line(span))


def _outside_library(node: Node | None) -> Span | None:
    """The place of a statement, or of the call outside of the library that it was copied to."""
    at = None if node is None else node.span
    while isinstance(at, CalledSpan) and in_library(at.file):
        at = at.caller
    return at


def in_library(file: str) -> bool:
    """Whether a file is one of the library's. The name may be relative to the working directory of another time."""
    path = Path(file)
    return path.parts[-3:-1] == _LIBRARY.parts[-2:] and (_LIBRARY / path.name).is_file()


def _shortest(value: Fraction, is_word: Callable[[Fraction], bool]) -> str:
    """The decimal with the fewest digits that stands for the word of a value, so that two words never look alike."""
    exact = Decimal(value.numerator), Decimal(value.denominator)
    for digits in range(1, _DIGITS):
        found = Context(prec=digits).divide(*exact)
        with suppress(OverflowError, InputError):
            if is_word(Fraction(found)):
                break
    return f"{found:f}" if -5 < found.adjusted() < 20 else f"{found:e}"


class _Event(NamedTuple):
    """A step back: its address, and whether it changed the watched word."""

    pc: int
    changed: bool


class _TrapContext:
    """A machine that trapped, with the meaning of its program."""

    def __init__(self, compiled: Compiled, machine: Machine, trap: Trap, as_written: bool = False) -> None:
        self.compiled, self.machine, self.trap = compiled, machine, trap
        #: whether variables have the values that the source gives them
        self.as_written = as_written
        self.w: Format = compiled.format
        self.source = compiled.program.source

    @property
    def meaning(self) -> tuple[object, ...]:
        """The trap as the source sees it: equal for the same trap of two programs of one function."""
        node = self.compiled.emitted.checks.get(self.trap.pc)
        place = self.source.span(self.trap.pc) if node is None else node.span
        name = node.var.name if isinstance(node, Local | Delocal) else None
        return self.trap.code, self.trap.direction, type(node), place, name

    @property
    def stack(self) -> int:
        """The words of the stack of calls."""
        return min(self.compiled.module.stack, self.w.mask - self.compiled.module.memory)

    # ------------------------------------------------------------------ words

    def shown(self, word: int, kind: Kind) -> str:
        """A word as a value of the language."""
        if kind.is_fixed:
            w = kind.numbers(self.w)
            text = _shortest(w.to_real(word), lambda x: w.from_real(x) == word)
            return text if re.search("[.en]", text) else f"{text}.0"
        match kind:
            case Kind.LOGNUM:
                value = float(lognum.to_reals(word, self.w))
                if not math.isfinite(value) or not value:
                    return f"{value:g}"
                return _shortest(Fraction(value), lambda x: int(lognum.to_words(float(x), self.w)) == word)
            case Kind.BOOL if word in (0, 1):
                return str(bool(word))
        return f"{word if kind is Kind.UINT else self.w.signed(word)}"

    def branch(self) -> Instruction:
        """The branch or assertion whose condition failed."""
        return self.compiled.program.instructions[self.trap.pc]

    @property
    def register(self) -> int:
        """The register of the first word that the failed test compares."""
        i = self.branch()
        return i.rd if i.opcode.name == "assertz" else i.ra

    def operands(self, test: Test) -> tuple[str, str]:
        """The two words that the branch compares, as values of the test's kind."""
        i = self.branch()
        kinds = {x.kind for x in (test.a, test.b) if isinstance(x, Var)}
        kind = kinds.pop() if len(kinds) == 1 else Kind.INT
        second = 0 if i.opcode.name == "assertz" else self.machine.registers[i.rb]
        return self.shown(self.machine.registers[self.register], kind), self.shown(second, kind)

    def holds(self, test: Test) -> bool:
        """Whether the test holds; it is that of the branch, or its opposite."""
        i = self.branch()
        cc = i.opcode.name.partition(".")[2]
        x, y = self.machine.registers[i.ra], self.machine.registers[i.rb]
        signed_x, signed_y = self.w.signed(x), self.w.signed(y)
        value = {
            "eq": x == y, "ne": x != y, "lt": signed_x < signed_y, "ge": signed_x >= signed_y,
            "le": signed_x <= signed_y, "gt": signed_x > signed_y, "ltu": x < y, "geu": x >= y,
        }.get(cc, False)  # fmt: skip
        return value if cc == test.cc else not value

    # ------------------------------------------------------------------ looking back

    def _back(self, watch: Callable[[], int], most: int) -> Generator[_Event, None, None]:
        """At most `most` steps back, one at a time, each with whether it changed the watched word. Closing it takes them again."""
        taken, value = 0, watch()
        try:
            while taken < most and self.machine.step_back():
                taken += 1
                before, value = value, watch()
                yield _Event(self.machine.pc, value != before)
        except Trap:
            pass
        finally:
            for _ in range(taken):
                self.machine.step()

    def released(self, node: Check | Local | Delocal, address: int | None = None) -> tuple[int, Span | None] | None:
        """(the word of a local where its release begins, the place of its last change before); None if the program has no such place."""
        if not self.as_written:
            return None
        mark, emitted, code = mark_of(node), self.compiled.emitted, self.compiled.program.instructions
        read: Callable[[], int] | None = None
        depth, value, after, before = 0, 0, 0, 0
        at: Span | None = None
        with closing(self._back(lambda: 0, _SEARCHED)) as steps:
            for event in steps:
                if code[event.pc].opcode.name in ("call", "uncall"):
                    # A call instruction is executed again, with BR set, as the return.
                    depth += 1 if self.machine.br else -1
                if depth < 0:
                    break
                if depth:
                    continue
                if read is None:
                    if emitted.origins[event.pc] == mark:
                        read = self._reader(emitted.watched[event.pc], address)
                        value = after = before = read()
                    continue
                # The word is compared before and after each statement, within which it may lie elsewhere.
                span = self.source.span(event.pc)
                if span != at:
                    if before != after:
                        return value, at
                    at, after = span, before
                before = read()
        return None if read is None else (value, at if before != after else None)

    def _reader(self, watched: tuple[int | Const, ...], address: int | None) -> Callable[[], int]:
        """A function that reads the location at a mark; the word at the address, for an array."""
        registers, memory = self.machine.registers, self.machine.memory
        for location in watched:
            assert isinstance(location, int)
            return (
                partial(registers.__getitem__, location)
                if location < REGISTERS
                else partial(memory.__getitem__, location - REGISTERS)
            )
        assert address is not None
        return partial(memory.__getitem__, address)

    def call_of(self, span: Span | None, node: Node | None) -> Span | None:
        """The call in the user's file of the function of the library that the place is in; None for other places."""
        if span is None or not in_library(span.file) or in_library(self.compiled.function.source.file):
            return None
        at = _outside_library(node)
        code = self.compiled.program.instructions
        depth = 0
        with closing(self._back(lambda: 0, _SEARCHED)) as steps:
            while at is None or in_library(at.file):
                # A call instruction is executed again, with BR set, as the return.
                event = next((e for e in steps if code[e.pc].opcode.name in ("call", "uncall")), None)
                if event is None:
                    return None
                depth += 1 if self.machine.br else -1
                if depth < 0:
                    depth, node = 0, self.compiled.emitted.origins[event.pc]
                    at = _outside_library(node)
        return at

    # ------------------------------------------------------------------ messages

    def check(self, node: Check) -> str:
        """The message of a check, its blanks filled in."""
        message = node.message
        if node.code == "RG0802":
            return self._dirty_element(node)
        if node.code == "RG0803":
            return self._kept_condition(node)
        a, b = self.operands(node.test)
        count = self.w.signed(self.machine.registers[self.branch().ra])
        full = "empty" if count < 0 else f"full: it has room for {count}"
        return message.replace("{full}", full).replace("{a}", a).replace("{b}", b)

    def dirty(self, node: Local | Delocal, var: Var, rest: int) -> tuple[str, str]:
        """(code, message) for a variable that is freed with another value than its initial one."""
        if var.span is not None and var.span == node.span:
            # A temporary of the compiler: its operands have changed before it was uncomputed.
            what = self._statement(node.span)
            return "RG0803", f"{what} changed while the body ran: the body writes to what it reads"
        when = "when it is freed" if self.trap.direction > 0 else "where it was made"
        found = self.released(node)
        if found is None:
            return "RG0802", f"{self._left(f'`{var.name}`', rest, var.kind)} {when}{self._history(var.span, None)}"
        message = self._held(f"`{var.name}`", found[0], rest, var.kind, when)
        return "RG0802", message + self._history(var.span, found[1], changed_operands(self.compiled.module, node))

    def _held(self, name: str, word: int, rest: int, kind: Kind, when: str) -> str:
        """The value that a local holds, and the value with which undoing its initial value would leave zero."""
        expected = self._expected(word, rest, kind)
        return f"{name} holds {self.shown(word, kind)} {when}, and must hold {self.shown(expected, kind)}"

    def _left(self, name: str, rest: int, kind: Kind) -> str:
        """The rest of a local whose value has been undone."""
        if kind is Kind.LOGNUM:
            return f"{name} is left with a factor of {self.shown(rest, kind)}, which must be 1,"
        return f"{name} is left with {self.shown(rest, kind)}, which must be {self.shown(0, kind)},"

    def _expected(self, before: int, rest: int, kind: Kind) -> int:
        """The word that the variable must hold, so that uncomputing it leaves zero."""
        if kind is Kind.BOOL:
            return before ^ rest
        if kind is Kind.LOGNUM:
            low = self.w.sign - 1
            return ((before - rest) & low) | ((before ^ rest) & self.w.sign)
        return (before - rest) & self.w.mask

    def _history(self, made: Span | None, writer: Span | None, operands: Sequence[tuple[str, Span | None]] = ()) -> str:
        bits = self.w.width
        lines = []
        if writer is not None and made is not None and writer[:2] == made[:2]:
            writer = None
        if made is not None:
            of = f" of {Path(made.file).name}" if in_library(made.file) else ""
            lines.append(f"made in line {made.line}{of}")
        if writer is not None:
            where = "" if made is None or writer.file == made.file else f" of {writer.file}"
            lines.append(f"changed last in line {writer.line}{where}")
        for name, at in operands:
            if at is not None and (made is None or at.file == made.file):
                lines.append(f"`{name}` changed in line {at.line}")
        found = f" ({', '.join(lines)})" if lines else ""
        return f"{found}; to erase it would cost {bits} bits, {bits * LANDAUER_300K:.2g} J at 300 K"

    def _dirty_element(self, node: Check) -> str:
        """The message for an array that is freed with a nonzero element, whose word has just been exchanged out of memory."""
        assert isinstance(node.test.a, Var)
        kind, register = node.test.a.kind, self.register
        rest, address = self.machine.registers[register], None
        if "is freed" not in node.message:
            return node.message.replace("{a}", self.shown(rest, kind))
        instructions = self.compiled.program.instructions
        with closing(self._back(lambda: self.machine.registers[register], _NEAR)) as steps:
            for event in steps:
                i = instructions[event.pc]
                if event.changed:
                    if i.opcode.name == "exch" and i.rd == register:
                        address = (self.machine.registers[i.ra] + i.imm) & self.w.mask
                    break
        element = None if address is None else self._element_at(address)
        if "{a}" not in node.message:
            found = self.released(node, address)
            return node.message + self._history(node.test.a.span, None if found is None else found[1])
        name = node.test.a.name
        when = f"when `{name}` is freed" if self.trap.direction > 0 else f"where `{name}` was made"
        shown = f"`{name}`"
        if element is not None:
            shown, kind = element
        elif (promoted := re.search(r"\[\d+\]$", name)) is not None:
            # The element is a variable of its own.
            when = when.replace(promoted[0], "")
        elif address is not None and "[{k}]" in node.message and (base := self._word_of(f"{name}.base")) is not None:
            shown = f"`{name}[{address - base}]`"
        else:
            shown = f"an element of {shown}"
        found = self.released(node, address)
        if found is None:
            return f"{self._left(shown, rest, kind)} {when}{self._history(node.test.a.span, None)}"
        return self._held(shown, found[0], rest, kind, when) + self._history(node.test.a.span, found[1])

    def condition(self, node: If | While, span: Span | None) -> tuple[str, Span | None]:
        """(message, place) for a pair of conditions of which the second, in this direction, contradicts the path of control."""
        forward = self.trap.direction > 0
        test = node.post if forward else node.test
        truth = self.holds(test)
        before, after = self._pair(span)
        failed, by = (after, before) if forward else (before, after)
        text = "the second condition" if failed is None else f"`{failed.text}`"
        other = "the other condition" if by is None else f"`{by.text}`"
        values = self._values(failed, test)
        negated = failed is not None and failed.negated
        word, wanted = str(truth != negated).lower(), str(truth == negated).lower()
        if isinstance(node, If):
            if forward:
                body = f"its body was {'not ' * truth}run"
                if by is not None and failed is not None and by.text != failed.text:
                    body = f"{other} was {str(not truth).lower()} before it"
                when = f"after the `if`, though {body}"
            else:
                when = f"before the `if`, though {other} is {str(not truth).lower()} after it"
        elif forward:
            when = (
                f"before the first pass of the loop, and must be {wanted} there"
                if truth
                else f"after a pass of the loop, and must be {wanted} there"
            )
        else:
            when = (
                "after the last pass of the loop, where the loop would go on"
                if truth
                else "before a pass of the loop, which would not be made"
            )
        return f"{text} is {word} {when}{values}", span if failed is None else failed.span

    def _kept_condition(self, node: Check) -> str:
        """The message for a condition that was kept in a bit; `{truth}` stands for the bit."""
        if "{truth}" not in node.message:
            before, after = self._pair(node.span)
            found_wrong = node.message.startswith("the condition at the other end")
            if before is None or after is None or before is after or not found_wrong:
                return node.message
            return f"`{before.text}` and `{after.text}` contradict each other{self._values(before, node.test)}"
        register, origins = self.register, self.compiled.emitted.origins
        toggled = False
        with closing(self._back(lambda: self.machine.registers[register], _SEARCHED)) as steps:
            for event in steps:
                origin = origins[event.pc]
                if event.changed or (isinstance(origin, If) and origin.test.a is node.test.a):
                    toggled = event.changed
                    break
        # The bit is the xor of both conditions, and it is one: exactly one condition is true, the last to change the bit or else the first.
        truth = toggled if self.trap.direction > 0 else not toggled
        return node.message.replace("{truth}", str(truth).lower()).replace("{other}", str(not truth).lower())

    def arithmetic(self, node: Op, code: str, plain: str) -> str:
        """The message for an instruction that has no result for its operands."""
        i = self.compiled.program.instructions[self.trap.pc]
        kind = Kind.LOGNUM if i.opcode.entry.name in ("llog", "lpow") else Kind.FIXED
        value = self.shown(self.trap.value, kind) if self.trap.value is not None else ""
        match code:
            case "RG0402":
                message = "division by zero"
            case "RG0403" if any(g.predicate is ZERO_WORD for g in i.opcode.guards(self.w)):
                name = _FUNCTIONS.get(i.opcode.entry.name, f"rg.{i.opcode.entry.name}")
                return f"{name} has no values in {self.w}: its formats have two bits or more before the point, and behind it"
            case "RG0403":
                message = f"{_FUNCTIONS.get(i.opcode.entry.name, 'the function')} has no value at {value}"
            case "RG0404":
                message = f"the result does not fit in {self._target(node)}"
            case "RG0411":
                message = "the result is zero, which no lognum can be"
            case _:
                return plain
        known = [f"`{name}` is {value}" for name, value in self._variables(node, i).items()]
        if code == "RG0404":
            known += [f"{name} is {value}" for name, value in self._numbers_without_names(node, i)]
        return message + (f": {', '.join(known)}" if known else "")

    def _target(self, node: Op) -> str:
        """What the result of an instruction must fit: the format, or a type with a point of its own and its range."""
        kind = node.d.kind if isinstance(node.d, Var) else Kind.FIXED
        if not kind.is_fixed or kind is Kind.FIXED:
            return f"{self.w}"
        return f"{kind.value}, whose numbers reach to ±{float(self.w.times(self.w.sign, -kind.point(self.w))):.4g}"

    def _variables(self, node: Op, i: Instruction) -> dict[str, str]:
        """The values of the user's variables among the operands."""
        text = self.source.line(node.span) or ""
        seen = set(re.findall(r"\w+", text))
        out: dict[str, str] = {}
        operands = ((node.d, i.rd), (node.a, i.ra), (node.b, i.rb))
        region = node.region
        memory = region is not None and region.size == 1 and region.name in seen and node.opcode.entry.name != "ld"
        if memory and region is not None and "m" in node.opcode.writes:
            out[region.name] = self._word(i)
        for operand, register in operands if self.trap.diagnostics[0].code == "RG0404" else operands[1:]:
            if isinstance(operand, Var) and operand.span != node.span and operand.name in seen:
                out[operand.name] = self.shown(self.machine.registers[register], operand.kind)
        if memory and region is not None:
            out.setdefault(region.name, self._word(i))
        return out

    def _word(self, i: Instruction) -> str:
        """The fixed-point number in memory that an instruction accesses."""
        return self.shown(self._accessed(i), Kind.FIXED)

    def _accessed(self, i: Instruction) -> int:
        """The word of memory that an instruction accesses."""
        return self.machine.memory[(self.machine.registers[i.ra] + i.imm) & self.w.mask]

    def _numbers_without_names(self, node: Op, i: Instruction) -> Iterator[tuple[str, str]]:
        """(name, value) of the other numbers that an instruction reads: elements, and values of expressions."""
        text = self.source.line(node.span) or ""
        for operand, register in dict.fromkeys(((node.a, i.ra), (node.b, i.rb))):
            if not isinstance(operand, Var) or not operand.kind.is_real:
                continue
            if operand.span == node.span or not re.search(rf"\b{operand.name}\b", text):
                yield (
                    self._element(register) or "an operand",
                    self.shown(self.machine.registers[register], operand.kind),
                )

    def _element(self, register: int) -> str:
        """The element that a register was loaded from within the last steps, as `x[2]`, or nothing."""
        program, address = self.compiled.program, None
        with closing(self._back(lambda: self.machine.registers[register], _NEAR)) as steps:
            for event in steps:
                if event.changed:
                    i = program.instructions[event.pc]
                    if "m" in i.opcode.reads and i.rd == register:
                        address = (self.machine.registers[i.ra] + i.imm) & self.w.mask
                    break
        found = None if address is None else self._element_at(address)
        return "" if found is None else found[0]

    def _word_of(self, name: str) -> int | None:
        """The word of a variable that is live here."""
        for v in self.compiled.program.variables:
            if v.name == name and v.first <= self.trap.pc <= v.last:
                return (self.machine.memory if v.memory else self.machine.registers)[v.number]
        return None

    def _element_at(self, address: int) -> tuple[str, Kind] | None:
        """The element of an array at an address, as `x[2]`, and the kind of its word."""
        for v in self.compiled.program.variables:
            if not v.first <= self.trap.pc <= v.last:
                continue
            if v.indirect and v.layout is not None:
                base = (self.machine.memory if v.memory else self.machine.registers)[v.number]
                v = v._replace(number=base + v.layout.offset, indirect=False)  # noqa: PLW2901
            at = v.indices(address)
            if at is not None and v.layout is not None:
                return f"`{v.name}{''.join(f'[{k}]' for k in at)}`", Kind(v.layout.kind)
        for region in self.compiled.module.regions:
            if region.address is not None and region.address <= address < region.address + region.size:
                for layout in region.layouts:
                    if (element := layout.element_at(address - region.address)) is not None:
                        return f"`{element}`", Kind(layout.kind)
        return None

    def point_that_holds(self, node: Op) -> int | None:
        """The finest point that holds the result of an instruction, where it has a point of its own."""
        w, i, registers = self.w, self.compiled.program.instructions[self.trap.pc], self.machine.registers
        d = node.d
        if (
            not isinstance(d, Var)
            or not d.kind.is_fixed
            or d.kind is Kind.FIXED
            or not i.opcode.entry.name.startswith("f")
        ):
            return None
        a, b, own = (w.signed(registers[r]) for r in (i.ra, i.rb, i.rd))
        shift = i.imm if i.opcode.entry.name.endswith("p") else w.frac
        match i.opcode.entry.name.removesuffix("p"):
            case "fmov":
                value = w.times(a, i.imm)
            case "fmul":
                value = w.times(a * b, -shift)
            case "fdiv" if b:
                value = w.times(a, shift) / b
            case _:
                return None
        forward = i.opcode.name.endswith(".add") == (self.trap.direction > 0)
        total = abs(own + value if forward else own - value)
        beyond = int(total).bit_length() + 1 - w.width
        point = d.kind.point(w) - max(beyond, 1)
        return point if point >= -w.width else None

    def format_that_holds(self, node: Op) -> Format | None:
        """A format in which the instruction has a result for its operands."""
        i, registers = self.compiled.program.instructions[self.trap.pc], self.machine.registers
        if "imm" in i.opcode.reads:
            return None
        words = {"d": registers[i.rd], "a": registers[i.ra], "b": registers[i.rb], "br": 0}
        operands = {"d": node.d, "a": node.a, "b": node.b}
        kinds = {p: x.kind.value for p, x in operands.items() if isinstance(x, Var) and x.kind.is_real}
        if "m" in i.opcode.reads or "m" in i.opcode.writes:
            words["m"], kinds["m"] = self._accessed(i), "fixed"
        return format_that_holds(i.opcode, words, kinds, self.w)

    # ------------------------------------------------------------------ the source

    def _pair(self, span: Span | None) -> tuple[Condition | None, Condition | None]:
        """(before, after) of the `if` or `while` whose first condition stands at this place."""
        return (None, None) if span is None else self.compiled.lowered.conditions.get(span, (None, None))

    def _statement(self, span: Span | None) -> str:
        """The condition or the bounds at this place, as text."""
        texts = self.compiled.lowered.statement_texts
        return "the value of an expression" if span is None else texts.get(span, "the value of an expression")

    def _values(self, condition: Condition | None, test: Test) -> str:
        """`: x is 3.0, y is 5.0` for the sides of a comparison that the branch makes itself."""
        if condition is None or any(isinstance(x, Var) and x.kind is Kind.BOOL for x in (test.a, test.b)):
            return ""
        a, b = self.operands(test)
        return condition.values(test.a, test.b).replace("{a}", a).replace("{b}", b)
