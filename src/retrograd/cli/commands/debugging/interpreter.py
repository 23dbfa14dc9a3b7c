"""The commands of `retrograd debug`, as text in and text out, and the prompt of a terminal."""

from __future__ import annotations

import cmd
import sys
from collections.abc import Callable
from math import prod
from typing import Any

from retrograd.cli.files import constant
from retrograd.cli.options import fail, integer
from retrograd.cli.report import memory_table, registers_table
from retrograd.isa.diagnostics import RetrogradError, nearest, printable
from retrograd.isa.encoding import write as write_instruction
from retrograd.observe._session import Event, Session
from retrograd.observe._timeline import Write, save_state
from retrograd.observe._variables import UNSETTLED, UNSETTLED_NOTE, Place, Variable, is_among, shown, unsettled_names
from retrograd.presentation import columns
from retrograd.simulator.energy.counts import Counts, by_line
from retrograd.simulator.energy.pricing import PricingContext
from retrograd.simulator.energy.technology import Range, with_prefix

#: abbreviation -> command
_SHORT = {
    "s": "step", "b": "break", "c": "continue", "rc": "reverse-continue", "rs": "reverse-step", "n": "next",
    "rn": "reverse-next", "p": "print", "bt": "backtrace", "l": "list", "q": "quit", "i": "info", "?": "help",
}  # fmt: skip
_LISTED = 5
#: elements of an array that `info` shows
_ELEMENTS = 8


def say(text: str) -> None:
    """Print a text with names and lines of the program in it."""
    print(printable(text, lines=True))


class Interpreter:
    """Carries out the commands of one session and prints their results."""

    def __init__(self, session: Session, prices: PricingContext) -> None:
        self.session, self.prices = session, prices
        #: command -> (its function, its summary)
        self.commands: dict[str, tuple[Callable[[str], None], str]] = {
            "step": (self._repeated(session.step), "step [N]: one instruction"),
            "reverse-step": (self._repeated(session.step, back=True), "reverse-step [N]: one instruction back"),
            "next": (self._repeated(session.step_over), "next [N]: one instruction, calls as a whole"),
            "reverse-next": (self._repeated(session.step_over, back=True), "reverse-next [N]: the same, back"),
            "line": (self._repeated(session.step_line), "line [N]: to the next line of the source"),
            "reverse-line": (self._repeated(session.step_line, back=True), "reverse-line [N]: one line back"),
            "out": (self._repeated(session.step_out), "out [N]: until the procedure returns"),
            "reverse-out": (self._repeated(session.step_out, back=True), "reverse-out [N]: back to its call"),
            "continue": (self._repeated(session.resume), "continue [N]: to the next stop"),
            "reverse-continue": (
                self._repeated(session.resume, back=True),
                "reverse-continue [N]: to the last stop before",
            ),
            "turn": (self._turn, "turn: face the other way; steps are counted from 0 again"),
            "to": (self._to, "to N: to the step with a number"),
            "until": (self._until, "until EXPR: single steps until an expression is true"),
            "reverse-until": (self._reverse_until, "reverse-until EXPR: the same, back"),
            "break": (self._break, "break WHERE [if EXPR]: WHERE is a label, FILE:LINE, :LINE or *ADDRESS"),
            "watch": (self._watch, "watch PLACE: stop where a register or word changes"),
            "delete": (self._delete, "delete N: remove a breakpoint or watch"),
            "print": (self._print, "print EXPR: such as `n`, `r1`, `total[2] + 1`, `real(total)`, `cotangent(x)`"),
            "set": (self._set, "set PLACE = VALUE"),
            "why": (self._why, "why PLACE: the instructions that gave it its value"),
            "last-write": (self._last_write, "last-write PLACE: the last change before this step"),
            "backtrace": (self._backtrace, "backtrace: the active calls"),
            "list": (self._list, "list: the instructions around this one"),
            "info": (self._info, "info: variables, registers and memory"),
            "counts": (self._counts, "counts: bits erased, cycles and energy up to here, and of each line"),
            "save": (self._save, "save FILE: the state, for --resume"),
            "help": (self._help, "help: this list"),
        }

    def execute(self, line: str) -> bool:
        """Carry out one line; True for `quit`. Raises RetrogradError."""
        text = line.partition("#")[0].strip()
        if not text:
            return False
        name, _, rest = text.partition(" ")
        name = _SHORT.get(name, name)
        if name == "quit":
            return True
        if name not in self.commands:
            hint = nearest(name, self.commands) or "`help` lists the commands"
            raise fail("RG1305", f"there is no command `{name:.40}`", hint)
        carry_out, summary = self.commands[name]
        operands = summary.partition(":")[0].partition(" ")[2]
        if rest.strip() and not operands:
            raise fail("RG1305", f"`{name}` takes no operand", summary)
        if operands and not operands.startswith("[") and not rest.strip():
            raise fail("RG1305", f"{name}: {operands.partition(' ')[0]} is missing", summary)
        carry_out(rest.strip())
        return False

    # ------------------------------------------------------------------ motion

    def _repeated(self, move: Callable[..., Event], **how: Any) -> Callable[[str], None]:
        def run(text: str) -> None:
            event = None
            for _ in range(integer(text, "N", 1) if text else 1):
                event = move(**how)
                if event.reason not in ("step", "breakpoint", "watch"):
                    break
            assert event is not None
            self._stopped(event)

        return run

    def _stopped(self, event: Event) -> None:
        if event.breakpoint is not None:
            say(f"breakpoint {event.breakpoint.number}, {event.breakpoint.text}")
        elif event.write is not None:
            say(f"{event.write.place}: {self._change(event.write)}")
        elif event.trap is not None:
            say(f"trap {event.trap.diagnostics[0].code}: {event.trap.diagnostics[0].message}")
        elif event.reason in ("end", "beginning"):
            say(f"the {event.reason} of the run")
        self._here()

    def _here(self) -> None:
        session = self.session
        program = session.machine.program
        if 0 <= session.pc < len(program.code):
            say(f"step {session.position}, {self._located(session.pc)}")
        else:
            say(f"step {session.position}, pc {session.pc}, outside of the code")

    def _located(self, pc: int) -> str:
        program = self.session.machine.program
        span = program.source.span(pc)
        line = program.source.line(span)
        text = f"pc {pc}: {write_instruction(program.instructions[pc])}"
        return text if span is None else f"{text}    {span.file}:{span.line}: {(line or '').strip()}".rstrip(" :")

    def _to(self, text: str) -> None:
        self._stopped(self.session.to(integer(text, "to")))

    def _turn(self, text: str) -> None:
        self.session.turn()
        say("the run goes backward" if self.session.machine.direction < 0 else "the run goes forward")
        self._here()

    def _until(self, text: str) -> None:
        self._stopped(self.session.run_until(text))

    def _reverse_until(self, text: str) -> None:
        self._stopped(self.session.run_until(text, back=True))

    # ------------------------------------------------------------------ stops

    def _break(self, text: str) -> None:
        where, found, condition = text.partition(" if ")
        made = self.session.break_at(where.strip(), condition if found else None)
        say(f"breakpoint {made.number} at {', '.join(f'pc {pc}' for pc in sorted(made.addresses))}")

    def _watch(self, text: str) -> None:
        made = self.session.watch(text)
        say(f"watch {made.number} of {made.place}")

    def _delete(self, text: str) -> None:
        if not self.session.delete(integer(text, "delete", 0)):
            raise fail("RG1305", f"there is no breakpoint or watch {text:.20}")

    # ------------------------------------------------------------------ values

    def _word(self, word: int) -> str:
        return str(self.session.machine.format.signed(word))

    def _change(self, write: Write) -> str:
        return f"{self._word(write.before)} → {self._word(write.after)}"

    def _print(self, text: str) -> None:
        mark = f" {UNSETTLED_NOTE}" if is_among(text.strip(), unsettled_names(self.session.machine)) else ""
        say(f"{text} = {shown(self.session.evaluate(text))}{mark}")

    def _set(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if not equals:
            raise fail("RG1305", "set: `=` is missing", "write: set PLACE = VALUE")
        machine = self.session.machine
        word = constant(value.strip(), machine.format, machine.program.data_labels, "RG1305", "set")
        self.session.set(self.session.place(name.strip()), word)

    def _why(self, text: str) -> None:
        place = self.session.place(text)
        cause = self.session.why(place)
        for found in cause.writes:
            say(self._write(found))
        if cause.initial:
            last = self._source_of(cause.writes[-1]) if cause.writes else text
            say(f"{last} holds its value since the beginning")

    def _source_of(self, write: Write) -> str:
        return f"the place that step {write.step} exchanged into {write.place}"

    def _write(self, write: Write) -> str:
        return f"step {write.step}: {write.place}: {self._change(write)}, {self._located(write.pc)}"

    def _last_write(self, text: str) -> None:
        place: Place = self.session.place(text)
        found = self.session.last_write(place)
        say(f"{text} holds its value since the beginning" if found is None else self._write(found))

    def _backtrace(self, text: str) -> None:
        frames, whole = self.session.frames()
        for number, frame in enumerate(frames):
            say(f"#{number} {frame.procedure or 'the program'}, {self._located(frame.pc)}")
        if not whole:
            say("older calls lie too far back")

    def _list(self, text: str) -> None:
        pc, program = self.session.pc, self.session.machine.program
        for at in range(max(pc - _LISTED, 0), min(pc + _LISTED + 1, len(program.code))):
            say(f"{'→' if at == pc else ' '} {self._located(at)}")

    def _info(self, text: str) -> None:
        machine = self.session.machine
        found = self.session.variables(_ELEMENTS)
        if found:
            rows = [["variable", "value", "cotangent", "kind", "place"]]
            rows += [
                [
                    v.name, f"{self._first(v.value, v)}{f' {UNSETTLED}' * v.unsettled}", self._first(v.cotangent, v),
                    self._kind(v), str(v.place),
                ]
                for v in found
            ]  # fmt: skip
            if not machine.cotangents:
                rows = [[row[0], row[1], *row[3:]] for row in rows]
            say(columns(rows, right=(1, 2) if machine.cotangents else (1,)))
            say(f"{UNSETTLED_NOTE}\n" if any(v.unsettled for v in found) else "")
        say(registers_table(machine))
        memory = memory_table(machine)
        if memory:
            say("\n" + memory)

    def _first(self, value: object, variable: Variable) -> str:
        """A value; of a large array the first elements."""
        text = shown(value)
        return f"{text[:-1]}, …]" if isinstance(value, list) and prod(variable.shape) > _ELEMENTS else text

    @staticmethod
    def _kind(variable: Variable) -> str:
        axes = " × ".join(map(str, variable.shape))
        return f"{variable.kind}[{axes}]" if isinstance(variable.value, list) else variable.kind

    def _counts(self, text: str) -> None:
        found = self.session.counts()
        energy = f"{self._energy(found)} by {self.prices.technology.id}"
        say(f"{self.session.position} steps, {found.erased_bits} bits erased, {found.cycles} cycles, {energy}")
        lines = by_line(found)
        if lines:
            rows = [["line", "steps", "bits erased", "cycles", "energy"]]
            rows += [
                [str(line), f"{n.retired}", f"{n.erase_bits}", f"{n.cycles}", self._energy(n)]
                for line, n in lines.items()
            ]
            say(columns(rows, right=(1, 2, 3, 4)))

    def _energy(self, counts: Counts) -> str:
        energy = self.prices.price(counts).program
        return with_prefix(energy.nominal, "J") if isinstance(energy, Range) else "not modelled"

    def _save(self, text: str) -> None:
        save_state(text, self.session.machine, self.session.position)

    def _help(self, text: str) -> None:
        say("\n".join(summary for _, summary in self.commands.values()))
        say("short: " + ", ".join(f"{short} {name}" for short, name in _SHORT.items()))


class Prompt(cmd.Cmd):
    """The prompt of a terminal, with completion of commands and history by readline. An empty line repeats the last command."""

    prompt = "(retrograd) "

    def __init__(self, interpreter: Interpreter) -> None:
        super().__init__()
        self._interpreter = interpreter

    def onecmd(self, line: str) -> bool:
        if line == "EOF":
            say("")
            return True
        if not line.strip():
            return self.emptyline()
        self.lastcmd = line
        try:
            return self._interpreter.execute(line)
        except RetrogradError as error:
            print("\n\n".join(d.render() for d in error.diagnostics), file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted; the session stands where it was reached", file=sys.stderr)
        return False

    def completenames(self, text: str, *ignored: Any) -> list[str]:
        return [name for name in (*self._interpreter.commands, "quit") if name.startswith(text)]
