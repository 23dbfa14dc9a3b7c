"""Sources of a program: files and lines as an editor names them, and the addresses of their code.

lines[name][line]    the addresses at which a breakpoint of a line stops
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, TypedDict

from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError, Span, nearest
from retrograd.isa.encoding import write
from retrograd.isa.program import Program, VariableLocation
from retrograd.isa.words import numbers_of
from retrograd.observe._server import Arguments, Connection, Launched, Request, bad_request
from retrograd.observe._session import Event, Session
from retrograd.observe._variables import (
    UNSETTLED,
    Place,
    Variable,
    Word,
    cotangent_of,
    length,
    line_addresses,
    memory_names,
    named,
    shown,
    value_of,
    word_of_text,
)
from retrograd.simulator.machine import Machine


class Sources:
    """The source files of a program. A file that no longer exists is served from the text that was compiled."""

    def __init__(self, program: Program) -> None:
        self._program, self._map = program, program.source
        self._paths = {name: os.path.realpath(name) for name in self._map.files}

    @cached_property
    def lines(self) -> Mapping[str, Mapping[int, frozenset[int]]]:
        """name -> line -> the addresses at which a breakpoint of the line stops."""
        return line_addresses(self._program)

    def name_of(self, source: Arguments) -> str | None:
        """The file of a program that a Source object of the protocol stands for; None if it is another file."""
        number = source.maybe_integer("sourceReference", 0)
        if number:
            return self._map.files[number - 1] if number <= len(self._map.files) else None
        path = source.maybe_text("path")
        if path is None or "\0" in path:
            return None
        real = os.path.realpath(path)
        return next((name for name, known in self._paths.items() if known == real), None)

    def as_source(self, span: Span) -> dict[str, Any]:
        """The Source object of the protocol for the file of a span."""
        path = self._paths.get(span.file, span.file)
        found: dict[str, Any] = {"name": os.path.basename(span.file), "path": path}
        if not os.path.isfile(path):
            number = self._map.files.index(span.file) + 1
            if number <= len(self._map.texts):
                found = {"name": found["name"], "sourceReference": number}
        return found

    def text(self, number: int) -> str:
        """The text of a source by its reference. Raises InputError RG1306."""
        if not 1 <= number <= len(self._map.texts):
            raise bad_request(f"there is no source {number}")
        return "\n".join(line.rstrip("\r\n") for line in self._map.texts[number - 1])

    def all(self) -> list[dict[str, Any]]:
        """The Source objects of all files."""
        return [self.as_source(Span(name, 1)) for name in self._map.files]

    @property
    def known(self) -> bool:
        """Whether any instruction has a place in a source."""
        return any(self.lines.values())


# -----------------------------------------------------------------------------
# Views of a state for an editor: scopes, and variables as trees by structure.
#
#     p.x, p.v        →  p ▸ x, v          fields of a struct
#     m of 2 × 3      →  m ▸ [0] ▸ [0, 0]   elements of an array, by its axes
#
# A reference stands for a node of a tree until the session moves.

#: children of a node that are given where an editor does not ask for a part, elements in the text of an array
_MOST, _SHOWN = 10_000, 8


@dataclass
class Node:
    """A variable of a view: its text, the word that it stands for, and its children."""

    name: str
    value: str
    kind: str = ""
    place: Place | None = None
    #: the expression that has this value
    expression: str | None = None
    children: Callable[[], Iterator[Node]] | None = None
    #: the number of children, of those of an array
    indexed: int = 0
    settable: bool = True
    reference: int = 0


class Views:
    """The trees of one state. `reset` removes their references."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes: dict[int, Node] = {}

    def reset(self) -> None:
        """Forget all references: the session has moved."""
        self._nodes.clear()

    def registered(self, node: Node) -> Node:
        """The node, with a reference if it has children."""
        if node.children is not None and not node.reference:
            node.reference = len(self._nodes) + 1
            self._nodes[node.reference] = node
        return node

    def node(self, reference: int) -> Node:
        """The node of a reference. Raises InputError RG1306."""
        if reference not in self._nodes:
            raise bad_request(f"there are no variables {reference} here; references end where the program moves")
        return self._nodes[reference]

    def children(self, reference: int, start: int = 0, count: int = 0) -> list[Node]:
        """The children of a node, or `count` of them. Raises InputError RG1306."""
        node = self.node(reference)
        assert node.children is not None
        found = islice(node.children(), start, start + min(count or _MOST, _MOST))
        return [self.registered(child) for child in found]

    def child(self, reference: int, name: str) -> Node:
        """The child of a node by its name, however many there are. Raises InputError RG1306."""
        node = self.node(reference)
        assert node.children is not None
        index = re.fullmatch(r"(?:M)?\[(\d{1,9})\]", name)
        start = int(index[1]) if index is not None and node.indexed else 0
        for found in islice(node.children(), start, start + (1 if start else _MOST)):
            if found.name == name:
                return self.registered(found)
        raise bad_request(f"there is no variable `{name[:60]}`")

    # ------------------------------------------------------------------ scopes

    def scopes(self) -> list[Node]:
        """The scopes of the innermost frame. Editors unfold the first one, so a program without variables begins with its registers."""
        machine = self._session.machine
        found = [Node("Variables", "", children=self._variables)] if machine.program.variables else []
        if machine.cotangents:
            found.append(Node("Cotangents", "", children=lambda: self._tree(_cotangents(self._session), "")))
        found += [
            Node("Registers", "", children=self._registers),
            Node("Memory", "", children=self._memory, indexed=len(machine.memory)),
            Node("Machine", "", children=lambda: _machine(self._session)),
        ]
        return [self.registered(node) for node in found]

    def scopes_at(self, step: int) -> list[Node]:
        """The scope of an outer frame: its variables at the step of its call."""
        with self._session.at(step):
            nodes = [frozen(node) for node in self._variables()]
        return [self.registered(Node(f"Variables at the call, step {step}", "", children=lambda: iter(nodes)))]

    def _variables(self) -> Iterator[Node]:
        found = self._session.variables(_SHOWN)
        return self._tree([(v.name, self._variable(v)) for v in found], "")

    def _tree(self, leaves: Sequence[tuple[str, Node]], prefix: str) -> Iterator[Node]:
        """The nodes of dotted names: one for each first part."""
        groups: dict[str, list[tuple[str, Node]]] = {}
        for path, leaf in leaves:
            first, dot, rest = path.partition(".")
            groups.setdefault(first, []).append((rest if dot else "", leaf))
        for first, group in groups.items():
            whole = f"{prefix}{first}"
            if all(not rest for rest, _ in group):
                leaf = group[-1][1]
                leaf.name = first
                yield leaf
                continue
            fields = [(rest, leaf) for rest, leaf in group if rest]
            text = "{" + ", ".join(f"{rest}: {leaf.value}" for rest, leaf in fields) + "}"
            yield Node(
                first, text, "struct", expression=None, settable=False,
                children=lambda fields=fields, whole=whole: self._tree(fields, f"{whole}."),  # type: ignore[misc]
            )  # fmt: skip

    def _variable(self, v: Variable) -> Node:
        mark = f" {UNSETTLED}" * v.unsettled
        if isinstance(v.value, list):
            node = self.array(v.name, v.kind, v.value, v.shape, v.more)
            node.value += mark
            return node
        text = shown(v.value) + mark + ("" if v.cotangent is None else f"   ∂ {shown(v.cotangent)}")
        return Node(v.name, text, v.kind, v.place, v.name)

    def array(self, name: str, kind: str, values: Sequence[Any], shape: tuple[int, ...], more: bool) -> Node:
        """The node of an array, or of one of its axes, with its first values. `more`: it has others."""
        text = shown(list(values[:_SHOWN]))
        if more:
            text = f"{text[:-1]}, …]"
        axes = " × ".join(map(str, shape))
        return Node(
            name, text, f"{kind}[{axes}]", None, name, lambda: self._elements(name, kind, shape, ()), shape[0], False
        )

    def _elements(self, name: str, kind: str, shape: tuple[int, ...], before: tuple[int, ...]) -> Iterator[Node]:
        """The elements along the first axis that has no index yet."""
        session = self._session
        location = named(name, session.machine)

        def length_of(before: tuple[int, ...]) -> int:
            if isinstance(location, VariableLocation):
                return length(location, before, session.machine)
            return shape[len(before)]

        for i in range(length_of(before)):
            indices = (*before, i)
            path = f"{name}[{', '.join(map(str, indices))}]"
            label = f"[{i}]"
            if len(indices) < len(shape):
                count = length_of(indices)
                axes = " × ".join(map(str, (count, *shape[len(indices) + 1 :])))
                yield Node(
                    label, f"{axes} elements", kind, expression=None, settable=False, indexed=count,
                    children=lambda indices=indices: self._elements(name, kind, shape, indices),  # type: ignore[misc]
                )  # fmt: skip
                continue
            try:
                place = session.place(path)
            except InputError as error:
                yield Node(label, error.diagnostics[0].message, kind, settable=False)
                continue
            yield Node(label, _text(session.machine, place, kind), kind, place, path)

    def _registers(self) -> Iterator[Node]:
        machine = self._session.machine
        names = {number: name for name, number in machine.program.register_names.items()}
        used = {n for i in machine.program.instructions for n in (i.rd, i.ra, i.rb)}
        for number, word in enumerate(machine.registers):
            if number in used or number in names or word:
                place = Place(number)
                kind = f"register {place}" if number in names else "register"
                yield Node(
                    names.get(number, str(place)), _text(machine, place), kind, place, names.get(number, str(place))
                )

    def _memory(self) -> Iterator[Node]:
        machine = self._session.machine
        name_of = memory_names(machine.program, len(machine.memory))
        for address in range(len(machine.memory)):
            place = Place(address, memory=True)
            yield Node(name_of(address), _text(machine, place), "word", place, name_of(address))

    # ------------------------------------------------------------------ changes

    def set(self, node: Node, text: str) -> Node:
        """Change the word of a node; returns it with its new value. Raises InputError RG1306, RG1307, RG0601, RG0602."""
        if node.place is None or not node.settable:
            raise bad_request(f"`{node.name[:60]}` has no word of its own that could be set")
        machine = self._session.machine
        real = numbers_of(node.kind, machine.format) is not None
        kind = node.kind if real or node.kind in ("lognum", "bool", "uint") else "int"
        self._session.set(node.place, word_of_text(kind, text, machine.format))
        node.value = _text(machine, node.place, kind)
        return node


def frozen(node: Node) -> Node:
    """A node and its first children as they are now, not to be set."""
    if node.children is not None:
        inner = [frozen(child) for child in islice(node.children(), 100)]
        node.children = lambda: iter(inner)
    node.settable, node.expression, node.indexed, node.reference = False, None, 0, 0
    return node


def _text(machine: Machine, place: Place, kind: str = "int") -> str:
    """The value of a word, with its cotangent where the machine has one."""
    text = shown(value_of(kind, int(place.word(machine)), machine.format))
    cotangent = cotangent_of(place, machine, None if kind == "int" else kind)
    return text if cotangent is None else f"{text}   ∂ {shown(cotangent)}"


def _cotangents(session: Session) -> list[tuple[str, Node]]:
    """∂loss/∂variable of each variable."""
    found = []
    for v in session.variables(_SHOWN):
        of: Any = v.cotangent
        if isinstance(of, list):
            more = ", …" if v.more else ""
            node = Node(v.name, f"{shown(of)[:-1]}{more}]", "cotangents", settable=False)
        else:
            node = Node(
                v.name,
                shown(of if of is not None else Fraction(0)),
                "cotangent",
                None,
                f"cotangent({v.name})",
                settable=False,
            )
        found.append((v.name, node))
    return found


def _machine(session: Session) -> Iterator[Node]:
    """Registers that are no general ones, and the number of the step."""
    machine = session.machine
    way = "forward" if machine.direction > 0 else "backward"
    rows = {"step": session.position, "pc": machine.pc, "br": machine.br, "direction": way, "format": machine.format}
    for name, value in rows.items():
        yield Node(name, str(value), expression=name if name in ("pc", "br") else None, settable=False)


# -----------------------------------------------------------------------------
# Breakpoints as an editor sets them: of lines, procedures, instructions and data, each request replacing those of its kind.
#
# A breakpoint that cannot be set is answered as not verified, with the reason; the others of its request are set.


class _Tests(TypedDict):
    """When a breakpoint stops, as an editor states it."""

    condition: str | None
    hit: str | None


class Stops:
    """The breakpoints of an editor in a session. `base`: the number of an editor's first line."""

    def __init__(self, session: Session, sources: Sources, base: int) -> None:
        self._session, self._sources, self._base = session, sources, base
        #: kind of breakpoint, with the file for lines -> numbers in the session
        self._numbers: dict[str, list[int]] = {}
        #: number -> kind, for the reason of a stop
        self.kinds: dict[int, str] = {}

    def _replace(self, key: str, wanted: Sequence[Arguments], made: Callable[[Arguments], dict[str, Any]]) -> list[Any]:
        for number in self._numbers.pop(key, []):
            self._session.delete(number)
            self.kinds.pop(number, None)
        out, numbers = [], self._numbers.setdefault(key, [])
        for item in wanted:
            try:
                found = made(item)
            except RetrogradError as error:
                out.append({"verified": False, "message": error.diagnostics[0].message})
                continue
            numbers.append(found["id"])
            self.kinds[found["id"]] = key.partition(" ")[0]
            out.append({"verified": True, **found})
        return out

    @staticmethod
    def _tests(item: Arguments) -> _Tests:
        return {"condition": item.maybe_text("condition"), "hit": item.maybe_text("hitCondition")}

    # ------------------------------------------------------------------ lines

    def set_lines(self, source: Arguments, wanted: Sequence[Arguments]) -> list[Any]:
        """The breakpoints of a file. A line without code stands for the next line that has code."""
        name = self._sources.name_of(source)
        lines = {} if name is None else self._sources.lines[name]

        def made(item: Arguments) -> dict[str, Any]:
            line = item.integer("line") - self._base + 1
            found = next((n for n in lines if n >= line), None)
            if name is None or found is None:
                reason = "no code of the program comes from this file" if not lines else "no code from here on"
                raise InputError(Diagnostic("RG1302", reason))
            stop = self._session.break_on(
                lines[found], f":{found}", message=item.maybe_text("logMessage"), **self._tests(item)
            )
            return {"id": stop.number, "line": found + self._base - 1}

        return self._replace(f"line {name}", wanted, made)

    def locations(self, source: Arguments, first: int, last: int) -> list[Any]:
        """The lines with code between two lines."""
        name = self._sources.name_of(source)
        lines = {} if name is None else self._sources.lines[name]
        return [{"line": n + self._base - 1} for n in lines if first <= n + self._base - 1 <= last]

    # ------------------------------------------------------------------ procedures, instructions

    def set_functions(self, wanted: Sequence[Arguments]) -> list[Any]:
        """The breakpoints of procedures, by their labels."""
        labels = self._session.machine.program.labels

        def made(item: Arguments) -> dict[str, Any]:
            name = item.text("name")
            if name not in labels:
                hint = nearest(name, labels)
                raise InputError(Diagnostic("RG1302", f"the code has no procedure or label `{name[:60]}`{_also(hint)}"))
            return {"id": self._session.break_on(frozenset((labels[name],)), name, **self._tests(item)).number}

        return self._replace("function", wanted, made)

    def set_instructions(self, wanted: Sequence[Arguments]) -> list[Any]:
        """The breakpoints of addresses."""

        def made(item: Arguments) -> dict[str, Any]:
            pc = address_of(item.text("instructionReference")) + item.maybe_integer("offset", 0, -(1 << 53))
            if not 0 <= pc < len(self._session.machine.program.code):
                raise InputError(Diagnostic("RG1302", f"the code has no address {pc}"))
            stop = self._session.break_on(frozenset((pc,)), f"*{pc}", each=True, **self._tests(item))
            return {"id": stop.number, "instructionReference": reference(pc)}

        return self._replace("instruction", wanted, made)

    # ------------------------------------------------------------------ data

    def set_data(self, wanted: Sequence[Arguments]) -> list[Any]:
        """The watches of places, by the identifiers that `data_of` gave."""

        def made(item: Arguments) -> dict[str, Any]:
            if item.maybe_text("accessType") not in (None, "write"):
                raise InputError(Diagnostic("RG1306", "a watch stops at writes; reads leave no trace in a state"))
            return {"id": self._session.watch(item.text("dataId"), **self._tests(item)).number}

        return self._replace("data", wanted, made)


def _also(hint: str | None) -> str:
    return "" if hint is None else f": {hint}"


def reference(pc: int) -> str:
    """The reference of an instruction: its address, one unit for each instruction."""
    return f"0x{max(pc, 0):x}"


def address_of(text: str) -> int:
    """The address of a reference. Raises InputError RG1306."""
    try:
        if len(text) < 20:
            return int(text, 0)
    except ValueError:
        pass
    raise bad_request(f"`{text[:60]}` is no reference of an instruction")


# -----------------------------------------------------------------------------
# Code and words of memory as an editor sees them: disassembled instructions, and bytes.
#
# A word of W bits has ⌈W/8⌉ bytes, the lowest first. A reference `M[5]` stands for the first byte of word 5.

#: bytes and instructions of one answer
_MOST_BYTES, _MOST_INSTRUCTIONS = 1 << 20, 5000


def width_of(session: Session) -> int:
    """The bytes of a word."""
    return (session.machine.format.width + 7) // 8


def _first_byte(session: Session, text: str) -> int:
    found = re.fullmatch(r"M\[(\d{1,12})\]", text)
    if found is None:
        raise bad_request(f"`{text[:60]}` is no reference of memory")
    return int(found[1]) * width_of(session)


def read(session: Session, text: str, offset: int, count: int) -> dict[str, Any]:
    """The answer of `readMemory`. Raises InputError RG1306."""
    width, memory = width_of(session), session.machine.memory
    begin, size = _first_byte(session, text) + offset, len(memory) * width
    if not 0 <= begin <= size:
        return {"address": f"0x{max(begin, 0):x}", "unreadableBytes": count}
    end = min(begin + min(count, _MOST_BYTES), size)
    first, last = begin // width, -(-end // width)
    data = b"".join(int(memory[k]).to_bytes(width, "little") for k in range(first, last))
    data = data[begin - first * width : end - first * width]
    return {
        "address": f"0x{begin:x}",
        "data": base64.b64encode(data).decode(),
        "unreadableBytes": max(0, begin + count - size),
    }


def change(session: Session, text: str, offset: int, data: str) -> int:
    """Write bytes, all or none; returns their number. Raises InputError RG1306."""
    try:
        given = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("`data` is no Base64") from None
    width, memory = width_of(session), session.machine.memory
    begin = _first_byte(session, text) + offset
    if begin < 0 or begin + len(given) > len(memory) * width:
        raise bad_request(f"the bytes lie outside of the {len(memory)} words of memory")
    words = dict[int, bytearray]()
    for at, byte in enumerate(given, begin):
        k, part = divmod(at, width)
        words.setdefault(k, bytearray(int(memory[k]).to_bytes(width, "little")))[part] = byte
    changed = {k: int.from_bytes(word, "little") for k, word in words.items()}
    if any(word > session.machine.format.mask for word in changed.values()):
        raise bad_request(f"a word has {session.machine.format.width} bits")
    for k, word in changed.items():
        session.set(Place(k, memory=True), word)
    return len(given)


def disassemble(session: Session, sources: Sources, pc: int, count: int, base: int) -> list[dict[str, Any]]:
    """`count` instructions from an address on; those outside of the code are marked as invalid."""
    program = session.machine.program
    names = {address: name for name, address in program.labels.items()}
    out = list[dict[str, Any]]()
    for at in range(pc, pc + min(count, _MOST_INSTRUCTIONS)):
        if not 0 <= at < len(program.code):
            out.append({"address": _address(at), "instruction": "", "presentationHint": "invalid"})
            continue
        found: dict[str, Any] = {
            "address": reference(at),
            "instruction": write(program.instructions[at]),
            "instructionBytes": f"{program.code[at]:0{2 * _code_bytes(program.code)}x}",
        }
        if at in names:
            found["symbol"] = names[at]
        span = program.source.span(at)
        if span is not None:
            found |= {"location": sources.as_source(span), "line": span.line + base - 1}
        out.append(found)
    return out


def _address(at: int) -> str:
    """An address before the code is shown as one of 64 bits."""
    return f"0x{at % (1 << 64):x}"


def _code_bytes(code: Any) -> int:
    return max(-(-max(int(word).bit_length() for word in code) // 8), 1)


# -----------------------------------------------------------------------------
# The interface of the adapter for its parts: the program, and the messages to the editor.


class Host(Protocol):
    """The adapter, for motions, inspection and evaluation."""

    connection: Connection
    client: Arguments | None
    settings: Arguments
    launched: Launched | None
    ended: bool
    event: Event | None
    #: the numbers of an editor's first line and column
    base: int
    column: int
    #: the request that is carried out
    handling: Request | None

    @property
    def session(self) -> Session:
        """The session. Raises InputError RG1306 before `launch`."""

    @property
    def standing(self) -> Session:
        """The session of a program that is configured. Raises InputError RG1306."""

    @property
    def sources(self) -> Sources:
        """The sources of the program. Raises InputError RG1306 before `launch`."""

    @property
    def stops(self) -> Stops:
        """The breakpoints. Raises InputError RG1306 before `launch`."""

    @property
    def views(self) -> Views:
        """The trees of variables. Raises InputError RG1306 before `launch`."""

    def handle(self, request: Request, *, running: bool = False) -> None:
        """Carry out a request and respond."""

    def check_thread(self, given: Arguments) -> None:
        """Raise InputError RG1306 for another thread than that of the program."""

    def interruptible(self) -> AbstractContextManager[None]:
        """The request that is handled can be cancelled within the block."""

    def then(self, step: Callable[[], None]) -> None:
        """Do something once the request has its response."""

    def moved(self) -> None:
        """Forget frames and references: the state is another one."""

    def changed(self) -> None:
        """The words of the state were changed by hand."""

    def terminated(self, code: int) -> None:
        """End the program; the editor disconnects."""

    def stops_at_trap(self, code: str) -> bool:
        """Whether a trap stops the program."""

    def stopped_by_command(self) -> None:
        """Report that a command of the console moved the program."""


# -----------------------------------------------------------------------------
# Expressions and commands that an editor evaluates: in hovers, watches, and its console.
#
#     n + 1, xs[2], cotangent(x)         expressions of the debugger, anywhere
#     why x, last-write x, counts …      commands that leave the program where it is, anywhere but in hovers
#     turn, to 100, reverse-until x > 3  all commands of `retrograd debug`, in the console
#
# A text that is an expression here is no command: `n` is the variable, where there is one.

#: commands that change nothing
_PURE = ("why", "last-write", "counts", "backtrace", "list", "info", "print", "help")


def evaluated(adapter: Host, text: str, context: str) -> Node:
    """The value of a text. Raises InputError RG1301, RG1302, RG1305, RG1306."""
    name = text.strip().partition(" ")[0]
    try:
        return _expression(adapter, text.strip())
    except InputError:
        assert adapter.launched is not None
        is_command = name in adapter.launched.console.commands or name in ("quit", "q")
        if context in ("hover", "clipboard", "variables") or not is_command:
            raise
        if context == "watch" and name not in _PURE:
            raise bad_request(f"`{name}` moves or changes the program; the console takes it") from None
    return Node("", _command(adapter, text), settable=False)


def _expression(adapter: Host, text: str) -> Node:
    """The node of an expression; that of a variable or place has its structure."""
    session = adapter.session
    value = session.evaluate(text)
    if isinstance(value, list):
        location = named(text, session.machine)
        if isinstance(location, VariableLocation) and location.layout is not None:
            v = next((v for v in session.variables(_SHOWN) if v.name == text), None)
            shape, more = ((len(value),), len(value) > _SHOWN) if v is None else (v.shape, v.more)
            return adapter.views.array(text, location.kind, value, shape, more)
        return Node(text, shown(value), settable=False)
    try:
        found = named(text, session.machine)
        place = session.place(text)
    except InputError:
        return Node(text, shown(value), settable=False)
    kind = found.kind if isinstance(found, Word) else "int"
    return Node(text, shown(value), kind, place, text)


def _command(adapter: Host, text: str) -> str:
    """Carry out a command of the console; returns the lines that it prints."""
    assert adapter.launched is not None
    session, printed = adapter.session, io.StringIO()

    def state() -> tuple[Any, ...]:
        return session.position, session.pc, session.machine.direction

    before = state()
    try:
        with redirect_stdout(printed):
            ends = adapter.launched.console.execute(text)
        if ends:
            adapter.then(lambda: adapter.terminated(0))
        elif text.strip().partition(" ")[0] == "set":
            adapter.changed()
    finally:
        # A motion that is cancelled has moved the program, too.
        if state() != before:
            adapter.moved()
            adapter.then(adapter.stopped_by_command)
    return printed.getvalue().rstrip("\n")


def completions(adapter: Host, text: str, column: int) -> Sequence[dict[str, Any]]:
    """Commands and variables that begin as the last word before a column does."""
    assert adapter.launched is not None
    before = text[: max(column, 0)]
    begin = max(before.rfind(c) for c in " ([+-*=<>,") + 1
    word = before[begin:]
    program = adapter.session.machine.program
    names = {v.name: "variable" for v in adapter.session.variables(0)}
    names |= dict.fromkeys([*program.register_names, *program.data_labels], "variable")
    if not begin:
        names |= dict.fromkeys(adapter.launched.console.commands, "function")
    return [{"label": name, "type": kind} for name, kind in sorted(names.items()) if name.startswith(word)][:100]
