"""Views of a state for an editor: scopes, and variables as trees by structure.

    p.x, p.v        →  p ▸ x, v          fields of a struct
    m of 2 × 3      →  m ▸ [0] ▸ [0, 0]   elements of an array, by its axes

A reference stands for a node of a tree until the session moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import prod
from typing import Any

from retrograd.debug_adapter.messages import bad_request
from retrograd.debugger.breakpoints import shown
from retrograd.debugger.places import Place, cotangent_of, memory_names
from retrograd.debugger.session import Session
from retrograd.debugger.variables import UNSETTLED, Variable, value_of, word_of_text
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.machine import Machine

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
            node = self.array(v.name, v.kind, v.value, v.shape)
            node.value += mark
            return node
        text = shown(v.value) + mark + ("" if v.cotangent is None else f"   ∂ {shown(v.cotangent)}")
        return Node(v.name, text, v.kind, v.place, v.name)

    def array(self, name: str, kind: str, values: Sequence[Any], shape: tuple[int, ...]) -> Node:
        """The node of an array, or of one of its axes, with its first values."""
        text = shown(list(values[:_SHOWN]))
        if prod(shape) > _SHOWN:
            text = f"{text[:-1]}, …]"
        axes = " × ".join(map(str, shape))
        return Node(
            name, text, f"{kind}[{axes}]", None, name, lambda: self._elements(name, kind, shape, ()), shape[0], False
        )

    def _elements(self, name: str, kind: str, shape: tuple[int, ...], before: tuple[int, ...]) -> Iterator[Node]:
        """The elements along the first axis that has no index yet."""
        session = self._session
        for i in range(shape[len(before)]):
            indices = (*before, i)
            path = f"{name}[{', '.join(map(str, indices))}]"
            label = f"[{i}]"
            if len(indices) < len(shape):
                axes = " × ".join(map(str, shape[len(indices) :]))
                yield Node(
                    label, f"{axes} elements", kind, expression=None, settable=False, indexed=shape[len(indices)],
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
        kind = node.kind if node.kind in ("fixed", "lognum", "bool", "uint") else "int"
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
    cotangent = cotangent_of(place, machine)
    return text if cotangent is None else f"{text}   ∂ {shown(cotangent)}"


def _cotangents(session: Session) -> list[tuple[str, Node]]:
    """∂loss/∂variable of each variable."""
    found = []
    for v in session.variables(_SHOWN):
        of: Any = v.cotangent
        if isinstance(of, list):
            more = ", …" if prod(v.shape) > len(of) else ""
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
