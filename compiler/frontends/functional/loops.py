"""Tail calls as loops: a call of the function itself that gives its value is the next pass of a loop.

    f(x …) = if c then b else f(e …)
    s := x;  while not c: (s := e, and the words that this loses go to the heap);  result += b

Each word of the captured values and of the arguments is one of these, by its values at all tail calls:

    kept       e = s                        it has no variable of its own, and is never written
    stepped    e = s + a constant           s += the constant, at the end of a pass: nothing is lost
    added      e = s + sum of others        s += the sum, where no later statement of the pass reads s: nothing lost
    lost       any other                    s′ += e;  exchange s into the heap;  swap s, s′: one word a pass

So the heap has the history of a loop in exactly the words that are lost, and the stack has nothing of it. A pass ends
with the test that words have been pushed, or counts itself where nothing is lost.
Functions of one recursion that call each other last are one loop, where the others are small: their bodies are lowered
in the place of the tail call.

While a body is lowered, a tail call is a marker. Its statements are made when all tail calls are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from retrograd.compiler.frontends.functional.core import Lambda
from retrograd.compiler.frontends.functional.types import Key, Type, Value
from retrograd.compiler.ir.expressions import E, read, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Const,
    Delocal,
    External,
    If,
    Kind,
    Local,
    Node,
    Op,
    Test,
    Var,
    While,
    Within,
    children,
    with_children,
)
from retrograd.compiler.ir.traversal import operands_of, walk
from retrograd.compiler.ir.value_numbering import Renaming
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE


@dataclass
class TailCalls:
    """The tail calls of one function, found while its body is lowered.

    `outs`: the variables to which the body adds its value, of type `result`; a place that adds to this very list is a
    tail position.
    `own`: the values in the body of what is captured, then of the arguments, each word a variable.
    """

    key: Key
    outs: list[Var]
    result: Type
    own: Sequence[Value]
    #: of each tail call: the words that it passes, and its place
    sites: list[tuple[tuple[E, ...], Span]] = field(default_factory=list)
    #: functions of the same recursion that are being lowered in a tail position
    entered: list[Key] = field(default_factory=list)

    def is_tail(self, outs: list[Var], t: Type) -> bool:
        return outs is self.outs and t == self.result

    def marker(self, key: Key, values: Sequence[Value], span: Span) -> External | None:
        """The statement in place of a call of a function with these values; None if it is no next pass."""
        if key != self.key or any(v.views != own.views for v, own in zip(values, self.own, strict=True)):
            return None
        self.sites.append((tuple(e for v in values for e in v.words), span))
        return External(-len(self.sites), span)

    def enters(self, key: Key, reaches: Callable[[Key, Key], bool], largest: int) -> bool:
        """Whether another function of the recursion is lowered in place of its tail call."""
        code = key[0]
        return (
            isinstance(code, Lambda)
            and code.size <= largest
            and key != self.key
            and key not in self.entered
            and reaches(key, self.key)
        )


@dataclass(frozen=True)
class Pieces:
    """What a loop is made of, beside its body. `hp`: the end of the heap."""

    hp: Var
    temporaries: Callable[[], Temporaries]
    #: exchange variables into the heap, from `hp` on, which grows
    push: Callable[[Sequence[Var]], Block]
    span: Span


@dataclass(frozen=True)
class Made:
    """The statements of a function, and the variables that they leave, which are not zero."""

    nodes: Block
    left: tuple[Var, ...] = ()


def loop(block: Block, tails: TailCalls, given: Sequence[Var], pieces: Pieces) -> Made:
    """The function with this body as a loop; without a tail call, the body itself. `given`: the function's words."""
    state = [e.param for v in tails.own for e in v.words]
    if not tails.sites:
        return Made(Renaming(dict(zip(state, given, strict=True))).block(block))
    return _Loop(block, tails, state, given, pieces).made()


class _Loop:
    def __init__(
        self, block: Block, tails: TailCalls, state: Sequence[Var], given: Sequence[Var], pieces: Pieces
    ) -> None:
        self._pieces, self._sites = pieces, tails.sites
        self._state = state
        kept = [all(words[i] == read(s) for words, _ in tails.sites) for i, s in enumerate(state)]
        self._renaming = Renaming({s: x for s, x, same in zip(state, given, kept, strict=True) if same})
        self._changed = [i for i, same in enumerate(kept) if not same]
        self._start = {state[i]: given[i] for i in self._changed}
        #: of a body that decides between the value and the next pass: (test of the next pass, next pass, value)
        self._head = _head(block)
        self._body = block if self._head is None else self._head[1]
        self._steps: dict[int, tuple[str, E]] = {}
        self._added: list[int] = []
        self._classify()
        self._next = {i: Var(state[i].name, state[i].kind, state[i].span) for i in self._lost}

    # ------------------------------------------------------------------ what a pass does with each word

    def _classify(self) -> None:
        added: list[int] = []
        for i in self._changed:
            s = self._state[i]
            rest = [_rest(words[i], s) for words, _ in self._sites]
            step = _step([words[i] for words, _ in self._sites], s)
            if any(r is None or any(s in variables(e) for _, e in r) for r in rest) or not _is_last(self._body, s):
                if step is not None and (s.kind is Kind.INT or self._head is not None):
                    self._steps[i] = step
            else:
                added.append(i)
        self._added = self._ordered(added)
        self._lost = [i for i in self._changed if i not in self._steps and i not in self._added]

    def _ordered(self, added: list[int]) -> list[int]:
        """The words in an order in which each is changed behind all sums that read it, as far as there is one."""
        out: list[int] = []
        left = list(added)
        while left:
            # Last is a word whose sum may read all others, and which no other sum reads behind it.
            read_by = {
                i: {
                    j for j in left if j != i and any(self._state[i] in variables(words[j]) for words, _ in self._sites)
                }
                for i in left
            }
            free = next((i for i in left if not read_by[i]), None)
            if free is None:
                left.pop()
                continue
            left.remove(free)
            out.append(free)
        return out

    # ------------------------------------------------------------------ statements

    def _tail(self, number: int, ends: Block) -> Block:
        """The statements of a tail call."""
        words, span = self._sites[number]
        out: list[Node] = []
        t = self._pieces.temporaries()
        t.span = span
        for i in self._lost:
            var = self._next[i]
            t.into(out, var, "xor" if var.kind is Kind.BOOL else "add", words[i], fresh=True)
        made = list(t.wrap(tuple(out)))
        for i in self._added:
            s, nodes = self._state[i], []  # type: ignore[var-annotated]
            t = self._pieces.temporaries()
            t.span = span
            for update, e in _rest(words[i], s) or ():
                t.into(nodes, s, update, e)
            made += t.wrap(tuple(nodes))
        return (*made, *ends)

    def _with_tails(self, block: Block, ends: Block) -> Block:
        out: list[Node] = []
        for node in block:
            if isinstance(node, External) and node.number < 0:
                out += self._tail(-node.number - 1, ends)
            else:
                inside = children(node)
                out.append(with_children(node, [self._with_tails(b, ends) for b in inside]) if inside else node)
        return tuple(out)

    def _advance(self) -> Block:
        """The end of a pass: the old words go to the heap, the new ones take their places."""
        span = self._pieces.span
        lost = [self._state[i] for i in self._lost]
        out: list[Node] = [*self._pieces.push(lost)] if lost else []
        out += [Op(TABLE["swap"], self._state[i], self._next[i], None, 0, span) for i in self._lost]
        # The last one that was born dies first, so the loop and its inverse have the same registers.
        out += [Delocal(self._next[i]) for i in reversed(self._lost)]
        for i, (update, e) in self._steps.items():
            t, nodes = self._pieces.temporaries(), []  # type: ignore[var-annotated]
            t.into(nodes, self._state[i], update, e)
            out += t.wrap(tuple(nodes))
        return tuple(out)

    def made(self) -> Made:
        span, hp = self._pieces.span, self._pieces.hp
        state = [self._state[i] for i in self._changed]
        before: list[Node] = []
        for s in state:
            before += (Local(s), Op(TABLE["mov.add"], s, self._start[s], None, 0, span))
        begin = tuple(Local(self._next[i]) for i in self._lost)
        advance = self._advance()
        left = list(state)
        if self._lost:
            mark = Var("start", Kind.ADDRESS, span)
            before += (Local(mark), Op(TABLE["mov.add"], mark, hp, None, 0, span))
            passed = Test("ne", hp, mark)
        else:
            mark = Var("passes", Kind.INT, span)
            before.append(Local(mark))
            advance = (*advance, Op(TABLE["mov.add"], mark, Const(1), None, 0, span))
            passed = Test("ne", mark, ZERO)
        after: Block
        if self._head is not None:
            test, again, value = self._head
            after = (While(test, (*begin, *self._with_tails(again, ()), *advance), passed, span), *value)
        else:
            more = Var("more", Kind.INT, span)
            one = Op(TABLE["mov.add"], more, Const(1), None, 0, span)
            ended = one._replace(opcode=TABLE["mov.sub"])
            body = (ended, *begin, *self._with_tails(self._body, (one,)), *advance)
            loop = While(Test("ne", more, ZERO), body, passed, span)
            after = (Local(more), one, loop, Delocal(more))
            # In the last pass no new words are made.
            zero = [self._state[i] for i in self._lost]
            after = (*after, *map(Delocal, reversed(zero)))
            left = [s for s in left if s not in zero]
        return Made(self._renaming.block((*before, *after)), (*left, mark))


def _is_marker(node: Node) -> bool:
    return isinstance(node, External) and node.number < 0


def _has_marker(block: Block) -> bool:
    return any(map(_is_marker, walk(block)))


def _always(block: Block) -> bool:
    """Whether each path through the block comes to a tail call."""
    for node in block:
        if isinstance(node, If):
            found = _always(node.then) and _always(node.orelse)
        else:
            found = _is_marker(node) or (isinstance(node, Within) and _always(node.body))
        if found:
            return True
    return False


def _head(block: Block) -> tuple[Test, Block, Block] | None:
    """(the test of a next pass, the next pass, the value) of a body that is one branch between them."""
    if len(block) != 1 or not isinstance(block[0], If):
        return None
    test, then, orelse = block[0].test, block[0].then, block[0].orelse
    if _has_marker(then):
        return (test, then, orelse) if _always(then) and not _has_marker(orelse) else None
    return (test.negated(), orelse, then) if _always(orelse) else None


def _is_last(block: Block, var: Var) -> bool:
    """Whether no statement on a path to a tail call reads the variable."""
    if not _has_marker(block):
        return True
    for node in block:
        if _is_marker(node):
            continue
        if isinstance(node, If) and _has_marker((node,)):
            read_here = var in (*node.test, *node.post)
            inside: tuple[Block, ...] = (node.then, node.orelse)
        elif isinstance(node, Within) and _has_marker(node.body):
            read_here = any(var in operands_of(n) for n in walk(node.compute))
            inside = (node.body,)
        else:
            read_here, inside = any(var in operands_of(n) for n in walk((node,))), ()
        if read_here or not all(_is_last(b, var) for b in inside):
            return False
    return True


def _terms(e: E, sign: int = 1) -> list[tuple[int, E]]:
    if e.op == "neg":
        return _terms(e.args[0], -sign)
    if e.op in ("add", "sub"):
        return _terms(e.args[0], sign) + _terms(e.args[1], sign if e.op == "add" else -sign)
    return [(sign, e)]


def _rest(e: E, s: Var) -> list[tuple[str, E]] | None:
    """The updates that make s the value of e = s + …; None if it has no such form."""
    if s.kind not in (Kind.INT, Kind.FIXED) or e.kind is not s.kind:
        return None
    terms = _terms(e)
    if (1, read(s)) not in terms:
        return None
    terms.remove((1, read(s)))
    return [("add" if sign > 0 else "sub", term) for sign, term in terms]


def _step(found: Sequence[E], s: Var) -> tuple[str, E] | None:
    """The update by a constant that makes s each of these values; None if there is none."""
    rests = [_rest(e, s) for e in found]
    first = rests[0]
    if first is None or len(first) != 1 or first[0][1].op != "const" or any(r != first for r in rests):
        return None
    return first[0]
