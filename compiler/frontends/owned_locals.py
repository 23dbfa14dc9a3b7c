"""Ledger of owned locals: variables and arrays that a function allocated itself and has to free.

A local that was allocated with the value of e is freed by subtracting e again. Its memory is zero exactly if e has its former
value and every update since has been undone. The ledger decides this from versions and from the history of updates; where it
cannot, the machine tests for zero. The test is made at the allocation too, which is where running backward frees the local.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from retrograd.compiler.frontends.builder import IRBuilder, Scope, Versions
from retrograd.compiler.ir.expressions import Address, E, Length, read
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Delocal,
    Kind,
    Local,
    Node,
    Region,
    Test,
    Var,
)
from retrograd.compiler.language.types import ScalarType, is_empty, words_of
from retrograd.compiler.language.values import ArrayView, Scalar, StackValue, Value
from retrograd.isa.diagnostics import Span


class Update(NamedTuple):
    """`x update= e`, with the versions of the places that e reads."""

    update: str
    e: E
    reads: Versions

    def undoes(self, other: Update) -> bool:
        return self.update == OPPOSITE[other.update] and self[1:] == other[1:]


class _Undoable(NamedTuple):
    """An update that the same block may undo, and the versions of its target before and after it."""

    made: Update
    before: int
    after: int


@dataclass(eq=False)
class OwnedLocal:
    """A variable or array that the function allocated."""

    name: str
    value: Value
    #: the variables and regions that it consists of
    parts: tuple[Var | Region, ...]
    #: (checked, place of a statement that frees it) → statements that undo the initial value and free it
    release: Callable[[bool, Span | None], Block]
    #: versions of the places from which its initial value was computed
    operands: Versions
    span: Span
    #: the words of memory from which its initial value was computed; None where they are not known
    read: Sequence[tuple[Address, int]] | None = None
    #: updates since the allocation, newest last; None where not all are known
    history: list[Update] | None = field(default_factory=list)
    #: the initial value of a scalar
    initial: E | None = None
    #: whether the initial value was subtracted again
    gone: bool = False
    #: the list that its allocation was emitted to, and where in it a test for zero belongs
    emitted: tuple[list[Node], int] | None = None
    #: statements that give back its words on the stack, in the order in which arrays were put there, the last first
    frame: Block = ()
    #: blocks around its allocation
    depth: int = 0
    #: the statement that freed it
    freed: Span | None = None
    #: whether it was made in a block `with rg.unchecked()`
    unchecked: bool = False


class OwnedLocals:
    """The owned locals of one function; the locals of the current block come last in `owned`."""

    def __init__(self, builder: IRBuilder, scope: Scope, fail: Callable[..., NoReturn]) -> None:
        self.builder, self.scope, self.fail = builder, scope, fail
        self.owned: list[OwnedLocal] = []
        #: locals with a constant integer as initial value, and where that value was used as a constant
        self._constants: dict[Var, int] = {}
        self._relied_on: dict[Var, Span] = {}
        self._freeing = False
        #: places whose writes are recorded already
        self._recorded: set[Var | Region] = set()
        #: (block, place) → its updates that may still be undone
        self._undoable: dict[tuple[int, Var | Address], list[_Undoable]] = {}
        builder.on_write = self._note_writes

    # ------------------------------------------------------------------ allocation

    def add(self, local: OwnedLocal) -> None:
        """Own a local whose allocation has been emitted."""
        local.depth = self.builder.depth
        local.unchecked = self.builder.unchecked
        self.owned.append(local)
        initial = local.initial
        if initial is not None and initial.op == "const" and initial.kind in (Kind.INT, Kind.UINT):
            (var,) = local.parts
            assert isinstance(var, Var)
            self._constants[var] = self.builder.w.signed(initial.param)

    def owner(self, part: Var | Address | Region | None) -> OwnedLocal | None:
        return next((m for m in self.owned if part in m.parts), None)

    def constant(self, value: Value, where: Span) -> int | None:
        """The value of an unchanged local that was allocated with a constant integer. It may not change from here on."""
        if isinstance(value, Scalar) and isinstance(value.place, Var) and value.place in self._constants:
            local = self.owner(value.place)
            if local is not None and local.history == []:
                self._relied_on[value.place] = where
                return self._constants[value.place]
        return None

    # ------------------------------------------------------------------ updates

    def emit_update(self, where: Var | Address, update: str, e: E, nodes: Sequence[Node]) -> None:
        """Emit `where update= e`, which `nodes` carry out, and record it.

        `x += e` followed by `x -= e` leaves x as it was, so that x has its former version.
        """
        builder = self.builder
        terms = [term for term, _ in where.terms] if isinstance(where, Address) else []
        made = Update(update, e, builder.snapshot(e, *terms))
        known: Var | None = None
        if isinstance(where, Var):
            local = self.owner(where)
            if (
                local is not None
                and local.history is not None
                and local.depth == builder.depth
                and isinstance(local.value, Scalar)
            ):
                self._record(local, local.history, made)
                known = where
        place, target = (where, where) if isinstance(where, Var) else (where.region, where._replace(checks=()))
        before = builder.versions[place]
        builder.emit(nodes, known, stores=words_at(where))
        updates = self._undoable.setdefault((id(builder.out), target), [])
        if updates and updates[-1].made.undoes(made) and before == updates[-1].after:
            builder.versions[place] = updates.pop().before
        else:
            updates.append(_Undoable(made, before, builder.versions[place]))

    def _record(self, local: OwnedLocal, history: list[Update], made: Update) -> None:
        if history:
            if history[-1].undoes(made):
                history.pop()
                return
        elif (
            local.initial == made.e
            and local.operands == made.reads
            and made.update in (("add", "xor", "mul") if local.gone else ("sub", "xor", "div"))
        ):
            # The initial value is subtracted, which leaves zero, or added again.
            local.gone = not local.gone
            return
        history.append(made)

    def erased(self, var: Var) -> None:
        """Record that a variable is zero now."""
        local = next((m for m in self.owned if var in m.parts and m.depth == self.builder.depth), None)
        if local is not None:
            local.gone, local.initial, local.history, local.operands = True, None, [], {}

    @contextmanager
    def recorded(self, locals: Sequence[OwnedLocal]) -> Iterator[None]:
        """Statements emitted within hold updates of these locals that were recorded before: their versions and histories stay."""
        parts = {p for m in locals for p in m.parts}
        versions = {p: self.builder.versions[p] for p in parts}
        outer, self._recorded = self._recorded, parts
        yield
        self._recorded = outer
        for place, version in versions.items():
            self.builder.versions[place] = version

    def _note_writes(self, written: set[Any], known: Var | None) -> None:
        written = written - self._recorded
        for place in written & self._relied_on.keys() if not self._freeing else ():
            line = self._relied_on[place].line
            message = f"`{place.name}` was used in line {line} as a constant, and changes here"
            hint = f"Use another variable than `{place.name}` for one of the two."
            self.fail("RG0709", message, self.builder.span, hint)
        for local in self.owned:
            if local.history is not None and any(p in written and p is not known for p in local.parts):
                local.history = None

    # ------------------------------------------------------------------ release

    def release(self, local: OwnedLocal, where: Span | None = None) -> None:
        """Free a local: its initial value is undone; that zero is left is known, or tested. `where`: the freeing expression."""
        builder = self.builder
        span = where or local.span
        versions = builder.versions
        stale = [
            p
            for p in local.operands
            if p not in local.parts and not builder.is_unchanged(p, local.operands, local.read)
        ]
        arrays = [p for p in local.parts if isinstance(p, Region)]
        if arrays:
            changed = any(versions[p] != local.operands[p] for p in arrays)
        else:
            changed = local.history is None or bool(local.history)
        changed = changed and not self.is_trusted(local)
        if stale:
            self._refuse_stale(local, stale[0], span)
        if local.history and local.initial is not None and not local.gone:
            left = self._certain_rest(local.history, local.initial)
            if left is not None:
                self.fail("RG0710", f"`{local.name}` holds {left} when it is freed", span)
        previous, builder.span = builder.span, span
        if local.gone:
            (var,) = local.parts
            assert isinstance(var, Var)
            block: Block = (Delocal(var, changed, local.span),)
        else:
            block = (*local.release(changed, where), *self.given_back(local))
        if changed:
            self.test_allocation(local)
        builder.span = previous
        self._freeing = True
        self.remove(local, block)
        self._freeing = False
        for part in local.parts:
            if isinstance(part, Var):
                # The block may be emitted again, as a part of the one around it.
                self._relied_on.pop(part, None)
        for name in [n for n, value in self.scope.names.items() if value is local.value]:
            self.scope.free(name, span)

    def given_back(self, local: OwnedLocal) -> Block:
        """The statements that give back the words of a local on the stack: below the words of a later one, these give back its words, too."""
        later = self.owned[self.owned.index(local) + 1 :]
        above = next((m for m in later if m.frame), None) if local.frame else None
        if above is None:
            return local.frame
        above.frame = (*above.frame, *local.frame)
        above.operands |= {p: version for p, version in local.operands.items() if p not in local.parts}
        return ()

    def is_trusted(self, local: OwnedLocal) -> bool:
        """Whether a local is freed without a test: it was made, or is freed, in a block `with rg.unchecked()`."""
        return local.unchecked or self.builder.unchecked

    def remove(self, local: OwnedLocal, release: Block) -> None:
        """Emit the statements that free a local, which is owned no more."""
        self.owned.remove(local)
        local.freed = self.builder.span
        self.builder.emit(release)

    def _refuse_stale(self, local: OwnedLocal, place: Var | Region, where: Span) -> NoReturn:
        what = own_name(place) if isinstance(place, Region) else place.name
        gone = self.scope.freed.get(what)
        since = "has changed since" if gone is None else f"was freed in line {gone.line}"
        hint = f"Free `{local.name}` before, with `del {local.name}`, or undo the change of `{what}` first."
        if isinstance(local.value, Scalar):
            hint = f"{hint[:-1].replace(', or', ',')}, or give the value that `{local.name}` has then: `rg.free({local.name}, …)`."
        self.fail("RG0718", f"`{local.name}` was made from `{what}`, which {since}", where, hint)

    def _certain_rest(self, history: Sequence[Update], initial: E) -> str | None:
        """The constant that a variable certainly holds beyond its initial value, or None."""
        w = self.builder.w
        if any(e.op != "const" or update not in ("add", "sub") for update, e, _ in history):
            return None
        total = sum(w.signed(e.param) * (1 if update == "add" else -1) for update, e, _ in history)

        def number(word: int) -> str:
            if initial.kind is Kind.UINT:
                return str(word & w.mask)
            return f"{float(w.to_real(w.wrap(word)))}" if initial.kind is Kind.FIXED else str(word)

        if initial.op != "const":
            return (
                f"{total if initial.kind is Kind.UINT else number(total)} more than it was made with" if total else None
            )
        start = w.signed(initial.param)
        return None if total == 0 or total + start == 0 else f"{number(total + start)} and not {number(start)}"

    # ------------------------------------------------------------------ tests for zero

    def test_allocation(self, local: OwnedLocal) -> None:
        """Test for zero at the allocation: a run backward frees the local there."""
        if self.is_trusted(local):
            return
        out = self.builder.out
        for index in range(len(out) - 1, -1, -1):
            node = out[index]
            if isinstance(node, Local) and node.var in local.parts:
                out[index] = node._replace(checked=True)
                break
        if isinstance(local.value, ArrayView | StackValue) and local.emitted is not None and local.emitted[0] is out:
            tests = self.zero_tests(local.value)
            at = local.emitted[1]
            out[at:at] = tests
            for other in self.owned:
                if other.emitted is not None and other.emitted[0] is out and other.emitted[1] > at:
                    other.emitted = (out, other.emitted[1] + len(tests))

    def tested(self, compute: Block, own: Sequence[OwnedLocal]) -> Block:
        """A compute block, with tests that each of its locals is zero when it is freed."""
        trusted = {p for local in own if local.unchecked for p in local.parts}
        out = [n._replace(checked=n.var not in trusted) if isinstance(n, Local) else n for n in compute]
        for local in reversed(own):
            if self.is_trusted(local):
                continue
            if isinstance(local.value, ArrayView | StackValue) and local.emitted is not None:
                # The list was copied since the allocation; the position is still valid.
                out[local.emitted[1] : local.emitted[1]] = self.zero_tests(local.value)
        return tuple(out)

    def zero_tests(self, view: ArrayView | StackValue) -> Block:
        """Tests that each word of an array is zero."""
        span = self.builder.span
        shape: tuple[Length, ...] = (
            (view.type.size,) if isinstance(view, StackValue) else (*view.shape, view.element.size)
        )
        if is_empty(shape):
            return ()
        region = view.address.region
        kind = view.element.kind if isinstance(view, ArrayView) and isinstance(view.element, ScalarType) else Kind.INT
        name = own_name(region)
        i, word = Var("i", Kind.INT), Var(name, kind, region.span)
        t = self.builder.temporaries()
        t.compute.append(Local(word, True, span))
        # The word is exchanged out and found to be zero: memory is as before.
        t.compute.append(t.memory("exch", word, view.address.shifted(read(i), 1)))
        match view:
            case StackValue():
                message = f"the stack `{name}` holds values when it is freed, and must be empty"
            case ArrayView(element=ScalarType(), shape=(_,)):
                message = f"`{name}[{{k}}]` is left with {{a}} when `{name}` is freed, and must be zero"
            case _:
                message = f"`{name}` is freed with an element that is not zero: number {{k}} is {{a}}"
        body = t.wrap((Check(Test("eq", word, ZERO), "RG0802", message, span),))
        outer = self.builder.temporaries()
        return outer.wrap(outer.loops((i,), (words_of(shape),), body))

    def histories(self) -> dict[int, list[Update] | None]:
        """The recorded updates of each local, by its identity."""
        return {id(m): None if m.history is None else list(m.history) for m in self.owned}


def words_at(*places: Var | Address | None) -> list[tuple[Address, int]]:
    """The words of memory among places, each with its number of words."""
    return [(place, 1) for place in places if isinstance(place, Address)]


def own_name(region: Region) -> str:
    """The user's name of an array: its region's name also has the function's, and a number."""
    parts = region.name.split(".")
    return next(p for p in (*reversed(parts), region.name) if not p.isdigit())
