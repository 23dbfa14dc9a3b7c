"""erase_routines: what a Within computes is erased, not uncomputed: the irreversible baseline.

    Within(c, b)  →  c; b; erase v; Delocal v; erase w; Delocal w …        v, w …: the locals that c leaves to b

where c writes nothing but locals of its own; where it writes more, those of its cells that do not are erased around a
Within of the others. The values forward are unchanged; the result cannot run backward and
cannot be inverted. So what would be inverted all the same is spared: a procedure that is called backward is
erased in its inverse, of which a copy is made, and whatever runs inside a compute block that stays is left as it is.
Inner Withins first.
Trap to avoid: run with `strict` off, or the first `erase` traps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import Enum

from retrograd.compiler.footprint import Footprints, locals_left
from retrograd.compiler.ir import (
    Block,
    Call,
    Delocal,
    Module,
    Node,
    Op,
    Var,
    Within,
    children,
    invert,
    with_children,
)
from retrograd.compiler.passes.cells import Cells
from retrograd.isa.table import TABLE


class _Version(Enum):
    """What a call needs of a procedure; the value is what is added to its name."""

    ERASED = ""
    ERASED_INVERSE = "_inverse"
    REVERSIBLE = "_reversible"


def erase_routines(module: Module, names: Collection[str] | None = None, *, temporaries: bool = True) -> Module:
    """The module with its Withins erased: those with these names, all by default; temporaries have none."""
    return _Eraser(module, names, temporaries).module()


class _Eraser:
    def __init__(self, module: Module, names: Collection[str] | None, temporaries: bool) -> None:
        self.source = module
        self.names = names
        self.temporaries = temporaries
        self.footprints = Footprints(module)
        self.cells = Cells(module, self.footprints)
        self.labels: dict[tuple[str, _Version], str] = {}
        self.todo: list[tuple[str, _Version]] = []

    def module(self) -> Module:
        entry = self.erase(self.source.entry)
        procedures = {}
        while self.todo:
            name, version = key = self.todo.pop()
            procedure = self.source.procedures[name]
            match version:
                case _Version.ERASED:
                    body = self.erase(procedure.body)
                case _Version.ERASED_INVERSE:
                    body = self.erase(invert(procedure.body))
                case _Version.REVERSIBLE:
                    body = self.keep(procedure.body)
            label = self.labels[key]
            procedures[label] = replace(procedure, name=label, body=body)
        return replace(self.source, entry=entry, procedures=procedures)

    def label(self, name: str, version: _Version) -> str:
        """The name of a procedure's version, which is made if need be."""
        key = (name, version)
        if key not in self.labels:
            label = name + version.value
            while version is not _Version.ERASED and (label in self.source.procedures or label in self.labels.values()):
                label += "_"
            self.labels[key] = label
            self.todo.append(key)
        return self.labels[key]

    def erase(self, block: Block) -> Block:
        """The block with its Withins erased. It runs forward only."""
        out: list[Node] = []
        for node in block:
            match node:
                case Call(name, backward=backward):
                    version = _Version.ERASED_INVERSE if backward else _Version.ERASED
                    out.append(node._replace(procedure=self.label(name, version), backward=False))
                case Within(compute, body) if self.wanted(node) and self.erasable(node):
                    out += [*self.erase(compute), *self.erase(body), *_erasures(locals_left(compute), node)]
                case Within(compute, body) if self.wanted(node):
                    out += self.erase_in_part(node)
                case Within(compute, body):
                    out.append(node._replace(compute=self.keep(compute), body=self.erase(body)))
                case _:
                    out.append(with_children(node, [self.erase(b) for b in children(node)]))
        return tuple(out)

    def wanted(self, node: Within) -> bool:
        """Whether it is meant."""
        if node.name is None:
            return self.temporaries
        return self.names is None or node.name in self.names

    def erasable(self, node: Within) -> bool:
        """Whether erasing its locals loses nothing but them."""
        footprint = self.footprints.block(node.compute)
        return footprint.writes <= frozenset(locals_left(node.compute)) and not footprint.stores

    def erase_in_part(self, node: Within) -> Block:
        """What changes nothing but its locals is erased, around what must be undone: an element that is swapped out."""
        cells = self.cells.of(node.compute)
        if not cells:
            # The host looks on.
            return (node._replace(compute=self.keep(node.compute), body=self.erase(node.body)),)
        values = [cell for cell in cells if not cell.opaque]
        rest = tuple(statement for cell in cells if cell.opaque for statement in cell.statements)
        left = node._replace(compute=self.keep(rest), body=self.erase(node.body))
        before = self.erase(tuple(statement for cell in values for statement in cell.statements))
        return (*before, left, *_erasures([var for cell in values for var in cell.locals], node))

    def keep(self, block: Block) -> Block:
        """The block as it is, for use in either direction."""
        out: list[Node] = []
        for node in block:
            if isinstance(node, Call):
                out.append(node._replace(procedure=self.label(node.procedure, _Version.REVERSIBLE)))
            else:
                out.append(with_children(node, [self.keep(b) for b in children(node)]))
        return tuple(out)


def _erasures(variables: Iterable[Var], node: Within) -> Block:
    """The variables erased and freed, last first."""
    out: list[Node] = []
    for var in reversed([*variables]):
        out += [Op(TABLE["erase"], var, span=node.span), Delocal(var, span=node.span)]
    return tuple(out)
