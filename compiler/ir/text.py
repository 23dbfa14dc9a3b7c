"""The IR as text: `as_text` writes a module, `parse` reads it back.

    parse(as_text(m)) == m, up to renaming of variables      as_text(parse(t)) == t, for a text t that `as_text` wrote

    procedure complex_log(re: fixed, im: fixed, x: fixed, y: fixed) changes re, im
      within r
        local n: fixed
        fmul.add n, x, x
        fmul.add n, y, y
      do
        flog.add re, n
        fatan2.add im, y, x

One statement a line, or several separated by `;` where they contain no block; inner blocks indented; `#` begins a comment. A variable keeps its name; further variables of the same name in a
procedure are numbered, `n.2`. The text leaves out the texts of sources, `externals`, `remarks` and `unsettled` of a module, and, unless
`positions` is set, the places in sources. Both directions follow one table, at the end of the file: a `Row` for
each kind of line, and in it a `Part` for each field, with the two functions that write and read it.

Trap: a variable that is used before any declaration is declared by a line `free x: fixed` at the beginning of its block, so that a
fragment can be written on its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.isa.diagnostics import CalledSpan, Span
from retrograd.isa.encoding import address_text
from retrograd.isa.program import ArrayLayout
from retrograd.isa.table import TABLE
from retrograd.isa.words import Q32_32, Format, FormatError

_INDENT = "  "
_RELATIONS = {"eq": "=", "ne": "≠", "lt": "<", "ge": "≥", "ltu": "<ᵤ", "geu": "≥ᵤ"}
#: relations as they are read; the second half for keyboards without the signs
_CONDITIONS = {sign: cc for cc, sign in _RELATIONS.items()} | {"!=": "ne", ">=": "ge", "<u": "ltu", ">=u": "geu"}
#: numbers of a line of data
_ROW = 8


class IRSyntaxError(ValueError):
    """A text that is no module: what is wrong, at which line and column, both from 1."""

    def __init__(self, message: str, line: int, column: int, source: str) -> None:
        self.message, self.line, self.column = message, line, column
        super().__init__(f"{line}:{column}: {message}\n  {source}\n  {' ' * (column - 1)}^")


def as_text(module: ir.Module, positions: bool = False, header: bool = True, width: int = 0) -> str:
    """The whole module: format, memory, regions, procedures by name, entry. Without header: procedures and entry,
    whose free variables are declared nowhere.

    `width`: the columns of a line that statements without blocks share; 0 for one statement a line.
    """
    w = _Writer(module.format, positions, module.discarded, width)
    head = w.head(module)
    body: list[str] = []
    for name in sorted(module.procedures):
        procedure = module.procedures[name]
        w.begin()
        top = w.line(_PROCEDURE, procedure) + w.place(procedure.span)
        taken = [_INDENT + line for region in procedure.regions for line in w.region_lines("takes", region)]
        body += [top, *taken, *w.whole(procedure.body, 1), ""]
    w.begin()
    if header:
        body += ["entry", *w.whole(module.entry, 1)]
        return _joined([*head, *w.unlisted(), "", *body])
    entry = w.block(module.entry, int(bool(body)))
    return _joined([*filter(None, body), "entry", *entry] if body else entry)


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def block_text(block: ir.Block, w: Format = Q32_32) -> str:
    """Some statements on their own."""
    writer = _Writer(w)
    lines = writer.whole(block, 0)
    return _joined([*writer.unlisted(), *lines])


def relation_text(test: ir.Test, w: Format = Q32_32) -> str:
    """A test on its own."""
    return _Writer(w).test(test)


def parse(text: str) -> ir.Module:
    """The module of a text. Statements outside of a procedure and of `entry` belong to the entry, too.

    Without a line of its own the format is Q32.32, and the memory ends behind the last region.

    Raises IRSyntaxError.
    """
    return _Reader(text).module()


# ---------------------------------------------------------------- the writer


class _Writer:
    """The state while a module is written: the names of one procedure, given in order of appearance."""

    def __init__(
        self, w: Format, positions: bool = False, discarded: frozenset[ir.Var] = frozenset(), width: int = 0
    ) -> None:
        self.w, self.positions, self.discarded, self.width = w, positions, discarded, width
        self.regions: dict[ir.Region, str] = {}
        #: regions that are used and that the module does not list
        self.used: list[ir.Region] = []
        self.begin()

    def begin(self) -> None:
        """A new procedure."""
        self.names: dict[ir.Var, str] = {ir.SP: ir.SP.name}
        self.taken, self.counts = {ir.SP.name}, dict[str, int]()
        self.free: list[ir.Var] = []
        self.params: tuple[ir.Var, ...] = ()

    def new_name(self, name: str, taken: Iterable[str]) -> str:
        plain = chosen = _name_text(name)
        while chosen in taken:
            self.counts[plain] = self.counts.get(plain, 1) + 1
            chosen = f"{plain}.{self.counts[plain]}"
        return chosen

    def variable(self, var: ir.Var, declared: bool = False) -> str:
        if var not in self.names:
            self.names[var] = self.new_name(var.name, self.taken)
            self.taken.add(self.names[var])
            if not declared:
                self.free.append(var)
        return self.names[var]

    def region(self, region: ir.Region, declared: bool = False) -> str:
        if region not in self.regions:
            self.regions[region] = self.new_name(region.name, self.regions.values())
            if not declared:
                self.used.append(region)
        return self.regions[region]

    def declared(self, var: ir.Var) -> str:
        name = self.variable(var, True) + self.place(var.span)
        return f"{name}: {var.kind.value}{' discarded' * (var in self.discarded)}"

    def place(self, span: Span | None) -> str:
        if span is None or not self.positions:
            return ""
        text = f" @ {json.dumps(span.file)}:{span.line}:{span.column}:{span.end}"
        return text + (f" from{self.place(span.caller)}" if isinstance(span, CalledSpan) else "")

    def integer(self, word: int) -> str:
        value = self.w.signed(word)
        return str(value) if abs(value) < 1 << 20 else hex(value)

    def fixed(self, word: int) -> str:
        """The shortest decimal that means this word, as the assembler reads it."""
        text = repr(float(self.w.to_real(word)))
        whole = text.removesuffix(".0")
        within = -self.w.sign <= Fraction(whole) * (1 << self.w.frac) < self.w.sign
        if not within or self.w.from_real(Fraction(whole)) != word & self.w.mask:
            return self.integer(word)
        return f"{whole}q"

    def operand(self, operand: ir.Operand | None, fixed: bool = False) -> str:
        if operand is None:
            return "?"
        if isinstance(operand, ir.Var):
            return self.variable(operand)
        return self.fixed(operand.word) if fixed else self.integer(operand.word)

    def test(self, test: ir.Test) -> str:
        fixed = any(isinstance(x, ir.Var) and x.kind.is_fixed for x in (test.a, test.b))
        return f"{self.operand(test.a, fixed)} {_RELATIONS[test.cc]} {self.operand(test.b, fixed)}"

    def whole(self, block: ir.Block, depth: int) -> list[str]:
        """A block that stands on its own, behind declarations of what is declared in no statement."""
        body = self.block(block, depth)
        free = [f"{_INDENT * depth}free {', '.join(map(self.declared, self.free))}"] if self.free else []
        return free + body

    def unlisted(self) -> list[str]:
        return [line for region in self.used for line in self.region_lines("region", region)]

    def block(self, block: Sequence[ir.Node], depth: int) -> list[str]:
        lines: list[str] = []
        joins = False
        for node in block:
            written = self.node(node, depth)
            simple = not ir.children(node)
            together = f"{lines[-1]}; {written[0].lstrip()}" if joins and simple else ""
            if together and len(together) <= self.width:
                lines[-1] = together
            else:
                lines += written
            joins = simple
        return lines

    def node(self, node: ir.Node, depth: int) -> list[str]:
        indent = _INDENT * depth
        if isinstance(node, ir.Op):
            return [indent + self.op(node) + self.place(node.span)]
        lines: list[str] = []
        for row in _STATEMENTS[type(node)]:
            if isinstance(row, Inner):
                lines += self.block(getattr(node, row.field), depth + 1)
            elif row.optional is None or getattr(node, row.optional):
                lines.append(indent + self.line(row, node))
                if len(lines) == 1:
                    lines[0] += self.place(node.span)
        return lines

    def line(self, row: Row, node: object) -> str:
        """A line of a statement or declaration: words stand apart, punctuation follows the word before it."""
        text = ""
        for part in row.parts:
            if isinstance(part, str):
                text += part if part == ")" else f" {part}"
                continue
            value = getattr(node, part.field)
            if value == part.default and type(value) is type(part.default):
                continue
            before = part.before if part.before[:1] in (",", "(", ":", "[", "") else f" {part.before}"
            written = part.kind.write(self, value)
            text += before + (" " if written and before[-1:] not in ("(", "[") else "") + written + part.after
        return text.strip()

    def head(self, module: ir.Module) -> list[str]:
        regions = [line for region in module.regions for line in self.region_lines("region", region)]
        arguments = [] if module.arguments is None else [self.line(_ARGUMENTS, module)]
        files = [self.line(_FILES, module)] if self.positions and module.files else []
        return [self.line(_FORMAT, module), self.line(_MEMORY, module), *files, *regions, *arguments]

    def region_lines(self, word: str, region: ir.Region) -> list[str]:
        """A declaration of a region: by `region`, or by `takes` in place of a parameter."""
        unlisted = " unlisted" * (region in self.used)
        lines = [f"{word} {self.region(region, True)}{self.line(_REGION, region)}{unlisted}{self.place(region.span)}"]
        lines += [_INDENT + self.line(_LAYOUT, layout) for layout in region.layouts]
        if region.data is not None:
            lines += self.rows("words", [self.integer(x) for x in region.data])
        if region.exact is not None:
            lines += self.rows(f"exact {region.exact.kind.value}", [str(x) for x in region.exact.numbers])
        return lines

    def rows(self, word: str, numbers: Sequence[str]) -> list[str]:
        starts = range(0, len(numbers), _ROW) or (0,)
        return [f"{_INDENT}{word} {', '.join(numbers[at : at + _ROW])}".rstrip() for at in starts]

    def op(self, op: ir.Op) -> str:
        """The instruction as the assembler writes it, with names for registers."""
        variables = [x for x in (op.d, op.a, op.b) if isinstance(x, ir.Var)]
        memory = "[ra+imm]" in op.opcode.operands
        fixed = op.opcode.group == "fixed" or any(x.kind.is_fixed for x in variables)
        written: list[str] = []
        for kind in op.opcode.operands:
            if kind == "[ra+imm]":
                written.append(self.word_of_memory(op))
            elif kind == "imm":
                signed = self.w.signed(op.imm & self.w.mask) == op.imm
                is_fixed = signed and op.opcode.entry.name == "imm" and fixed
                written.append(self.fixed(op.imm) if is_fixed else str(op.imm))
            else:
                # An address in a memory instruction is an integer, also where the word holds another kind.
                written.append(self.operand(getattr(op, _FIELDS[kind]), fixed and not (memory and kind == "ra")))
        return f"{op.opcode.name} {', '.join(written)}".rstrip()

    def word_of_memory(self, op: ir.Op) -> str:
        """`table[i + 1]` counts from the beginning of the region, `[i + 1] of table` from zero, `[i + 1]` is in no known region.

        `table[5]` adds to the constant zero; another constant is written in front of the number that is added to it, `table[5 + 0]`.
        """
        at, base = op.imm, self.operand(op.a)
        if op.region is None:
            return f"[{base}{address_text(at)}]"
        name, address = self.region(op.region), op.region.address
        if address is None or at < address:
            return f"[{base}{address_text(at)}] of {name}"
        if op.a == ir.ZERO:
            return f"{name}[{at - address}]"
        return f"{name}[{base}{f' + {at - address}' if isinstance(op.a, ir.Const) else address_text(at - address)}]"


# ---------------------------------------------------------------- the reader

_TOKEN = re.compile(
    r"""\s*(?:\#.*)?(?:
    (?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"(?:\.[0-9]+)?)
    |(?P<number>-?(?:0x[0-9a-f]+|[0-9]+/[0-9]+|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?q?))
    |(?P<name>[^\W\d][\w.]*|%[\w.]+)
    |(?P<sign><ᵤ|≥ᵤ|>=u|<u\b|!=|>=|[=≠<≥()\[\],:@+?-])
    |(?P<end>;|$))""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"(?:[^\W\d]|%)[\w.]*")
_WORDS = re.compile(r"\w+|[^\w\s]")
_NUMBERED = re.compile(r".*\.[0-9]+", re.DOTALL)
#: words that are no names where a name may stand
_RESERVED = ("any",)
#: in place of a default: the field is always written
_REQUIRED: Any = object()
_FIELDS = {"rd": "d", "ra": "a", "rb": "b"}


def _name_text(name: str) -> str:
    plain = _PLAIN.fullmatch(name) and name not in _RESERVED and name != "%" and not _NUMBERED.fullmatch(name)
    return name if plain and name != ir.SP.name else json.dumps(name, ensure_ascii=False)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int
    column: int


@dataclass
class _Line:
    """The tokens of a line, of which the first ones are read."""

    indent: int
    tokens: list[_Token]
    at: int = 0


def _bare(text: str) -> str:
    """The name that is written so, without its number and quotes."""
    found = re.fullmatch(r"(.+)\.[0-9]+", text, re.DOTALL)
    plain = found.group(1) if found else text
    return str(json.loads(plain)) if plain.startswith('"') else plain


class _Reader:
    """The state while a text is read: the lines, of which those before `at` are read, and the names of the procedure."""

    def __init__(self, text: str) -> None:
        self.sources = text.split("\n")
        self.lines = [line for number, source in enumerate(self.sources, 1) if (line := self.cut(source, number))]
        self.at = 0
        self.w = Q32_32
        self.discarded: set[ir.Var] = set()
        self.names: dict[str, ir.Var] = {ir.SP.name: ir.SP}
        self.regions: dict[str, ir.Region] = {}
        self.listed: list[ir.Region] = []
        self.params: tuple[ir.Var, ...] = ()

    def cut(self, source: str, number: int) -> _Line | None:
        tokens: list[_Token] = []
        at = 0
        while not tokens or tokens[-1].kind != "end" or tokens[-1].text:
            found = _TOKEN.match(source, at)
            if found is None:
                at += len(source[at:]) - len(source[at:].lstrip())
                raise IRSyntaxError(f"no part of the language begins with {source[at]!r}", number, at + 1, source)
            kind = str(found.lastgroup)
            tokens.append(_Token(kind, found.group(kind), number, found.start(kind) + 1))
            at = found.end()
        return None if len(tokens) == 1 else _Line(tokens[0].column - 1, tokens)

    # -- tokens of the present line

    @property
    def line(self) -> _Line:
        return self.lines[self.at]

    @property
    def next(self) -> _Token:
        return self.line.tokens[self.line.at]

    def fail(self, message: str, token: _Token | None = None) -> IRSyntaxError:
        token = token or self.next
        return IRSyntaxError(message, token.line, token.column, self.sources[token.line - 1])

    def expected(self, what: str) -> IRSyntaxError:
        return self.fail(f"expected {what}, not {self.next.text or 'the end of the line'}")

    def take(self, kind: str = "", what: str = "") -> _Token:
        token = self.next
        if token.kind == "end" or (kind and token.kind not in kind.split()):
            raise self.expected(what)
        self.line.at += 1
        return token

    def follows(self, words: str) -> bool:
        """Whether these words come next; they are then read."""
        wanted = _WORDS.findall(words)
        tokens = self.line.tokens[self.line.at : self.line.at + len(wanted)]
        if [token.text for token in tokens] != wanted or any(token.kind == "string" for token in tokens):
            return False
        self.line.at += len(wanted)
        return True

    def need(self, words: str) -> None:
        if not self.follows(words):
            raise self.expected(f"`{words}`")

    def end(self) -> None:
        if self.next.kind != "end":
            raise self.expected("the end of the line")
        if self.next.text:
            self.line.at += 1
        else:
            self.at += 1

    def series(self, one: Callable[[], Any], ends: str = "") -> tuple[Any, ...]:
        """Values between commas; none where the series ends at once."""
        if self.next.kind == "end" or self.next.text == ends:
            return ()
        found = [one()]
        while self.follows(","):
            found.append(one())
        return tuple(found)

    # -- what is named

    def name(self) -> str:
        return _bare(self.take("name string", "a name").text)

    def quoted(self) -> str:
        token = self.take("string", "a text in quotes")
        if not token.text.endswith('"'):
            raise self.fail("a text has no number", token)
        return str(json.loads(token.text))

    def variable(self) -> ir.Var:
        token = self.take("name string", "a variable")
        if token.text not in self.names:
            hint = "declare it by `local`, or by `free` at the beginning of the block"
            raise self.fail(f"unknown variable {token.text}: {hint}", token)
        return self.names[token.text]

    def declared(self) -> ir.Var:
        token = self.take("name string", "a variable")
        span = self.place()
        self.need(":")
        kind = self.type()
        discarded = self.follows("discarded")
        var = self.names.get(token.text)
        if var is not None and var.kind is not kind:
            raise self.fail(f"{token.text} has been declared as {var.kind.value}", token)
        if var is None:
            var = self.names[token.text] = ir.Var(_bare(token.text), kind)
        var.span = span or var.span
        if discarded:
            self.discarded.add(var)
        return var

    def one_of(self, table: dict[str, Any], what: str) -> Any:
        token = self.next
        if token.text not in table:
            raise self.expected(f"{what} ({', '.join(table)})")
        self.line.at += 1
        return table[token.text]

    def type(self) -> ir.Kind:
        """`int`, `fixed`, or `fixed[50]` with a point of its own."""
        kind: ir.Kind = self.one_of(_KINDS, "a type")
        if kind is not ir.Kind.FIXED or not self.follows("["):
            return kind
        made = ir.fixed_at(self.integer())
        self.need("]")
        return made

    def region(self) -> ir.Region:
        token = self.take("name string", "a region")
        if token.text not in self.regions:
            raise self.fail(f"unknown region {token.text}: declare it by `region {token.text}[SIZE]`", token)
        return self.regions[token.text]

    def place(self) -> Span | None:
        if not self.follows("@"):
            return None
        file = self.quoted()
        numbers = []
        for _ in range(3):
            self.need(":")
            numbers.append(self.integer())
        span = Span(file, *numbers)
        if not self.follows("from"):
            return span
        caller = self.place()
        if caller is None:
            raise self.expected("`@`")
        return _called(span, caller)

    # -- numbers and operands

    def integer(self) -> int:
        token = self.take("number", "an integer")
        try:
            return int(token.text, 0)
        except ValueError:
            raise self.fail(f"{token.text} is no integer", token) from None

    def fraction(self) -> Fraction:
        token = self.take("number", "a number")
        try:
            return Fraction(token.text)
        except (ValueError, ZeroDivisionError):
            raise self.fail(f"{token.text} is no number", token) from None

    def word(self) -> int:
        """A word by its value: an integer, or `1.5q` in fixed point."""
        token = self.take("number", "a number")
        w = self.w
        if "/" in token.text or ("." in token.text and not token.text.endswith("q")):
            raise self.fail(f"{token.text} is no word: write an integer, or `1.5q` in fixed point", token)
        if token.text.endswith("q"):
            real = Fraction(token.text[:-1])
            if not -w.sign <= real * (1 << w.frac) < w.sign:
                raise self.fail(f"{token.text} is outside the range of {w}", token)
            return w.from_real(real)
        self.line.at -= 1
        value = self.integer()
        if not -w.sign <= value <= w.mask:
            raise self.fail(f"{token.text} does not fit in {w.width} bits", token)
        return value & w.mask

    def operand(self) -> ir.Operand:
        if self.next.kind == "number":
            return ir.Const(self.word())
        return self.variable()

    def test(self) -> ir.Test:
        a = self.operand()
        cc = self.one_of(_CONDITIONS, "a relation")
        return ir.Test(cc, a, self.operand())

    # -- statements

    def block(self, indent: int) -> ir.Block:
        """The following lines that are indented as the first of them, deeper than `indent`."""
        nodes: list[ir.Node] = []
        own: int | None = None
        while self.at < len(self.lines) and self.line.indent > indent:
            own = self.line.indent if own is None else own
            if self.line.indent != own:
                raise self.fail(f"indented by {self.line.indent}, the block by {own}")
            if not self.declares():
                nodes.append(self.node())
        return tuple(nodes)

    def declares(self) -> bool:
        """Whether the line declares free variables; it is then read."""
        if self.follows("free"):
            self.series(self.declared)
            self.end()
            return True
        return False

    def region_lines(self, taken: bool = False) -> ir.Region:
        """A region and what is known of it, behind `region` or `takes`. A region may be taken by several procedures."""
        indent, token = self.line.indent, self.take("name string", "a region")
        fields: dict[str, Any] = {"name": _bare(token.text)}
        self.row(_REGION, fields)
        region = self.regions.get(token.text)
        if region is not None and not taken:
            raise self.fail(f"the region {token.text} is declared twice", token)
        if region is None:
            region = self.regions[token.text] = ir.Region(**fields)
        if not taken and not self.follows("unlisted"):
            self.listed.append(region)
        region.span = self.place()
        self.end()
        data: tuple[int, ...] | None = None
        layouts: list[ArrayLayout] = []
        while self.at < len(self.lines) and self.line.indent > indent:
            if self.follows("words"):
                data = (data or ()) + self.series(self.word)
            elif self.follows("exact"):
                kind, earlier = self.type(), region.exact.numbers if region.exact else ()
                region.exact = ir.Exact(kind, earlier + self.series(self.fraction))
            else:
                fields = {}
                self.row(_LAYOUT, fields)
                layouts.append(ArrayLayout(**fields))
            self.end()
        region.data, region.layouts = data, tuple(layouts)
        return region

    def node(self) -> ir.Node:
        token, indent = self.next, self.line.indent
        made = _KEYWORDS.get(token.text)
        if made is None:
            return self.op()
        fields: dict[str, Any] = {}
        for number, row in enumerate(_STATEMENTS[made]):
            if isinstance(row, Inner):
                fields[row.field] = self.block(indent)
                continue
            if number:
                here = self.at < len(self.lines) and self.line.indent == indent
                if row.optional is not None and not (here and self.next.text == row.parts[0]):
                    fields[row.optional] = ()
                    continue
                if not here:
                    raise self.fail(f"`{token.text}` has no `{row.parts[0]}` below it", token)
            self.row(row, fields)
            if not number:
                fields["span"] = self.place()
            self.end()
        return made(**{name: value for name, value in fields.items() if name in made._fields})  # type: ignore[attr-defined,no-any-return]

    def row(self, row: Row, fields: dict[str, Any]) -> None:
        for part in row.parts:
            if isinstance(part, str):
                self.need(part)
                continue
            if part.default is not _REQUIRED:
                absent = (
                    not self.follows(part.before) if part.before else self.next.kind == "end" or self.next.text == "@"
                )
                if absent:
                    fields[part.field] = part.default
                    continue
            elif part.before:
                self.need(part.before)
            fields[part.field] = part.kind.read(self)
            if part.after:
                self.need(part.after)

    def op(self) -> ir.Op:
        token = self.take("name", "a statement")
        try:
            opcode = TABLE[token.text]
        except KeyError:
            known = f"{', '.join(map(str, _KEYWORDS))}, or an instruction"
            raise self.fail(f"unknown statement {token.text}: {known}", token) from None
        fields: dict[str, Any] = {}
        for number, kind in enumerate(opcode.operands):
            if number:
                self.need(",")
            if kind == "[ra+imm]":
                self.word_of_memory(fields)
            elif kind == "imm":
                if self.next.text.endswith("q"):
                    fields["imm"] = self.w.signed(self.word())
                else:
                    fields["imm"] = self.integer()
            elif not self.follows("?"):
                fields[_FIELDS[kind]] = self.operand()
        op = ir.Op(opcode, **fields, span=self.place())
        self.end()
        return op

    def word_of_memory(self, fields: dict[str, Any]) -> None:
        region = None if self.next.text == "[" else self.region()
        self.need("[")
        base = None if self.follows("?") else self.operand()
        sign = 1 if self.follows("+") else -1 if self.follows("-") else 0
        at = sign * self.integer() if sign else 0
        token = self.next
        self.need("]")
        if region is None:
            region = self.region() if self.follows("of") else None
        elif region.address is None:
            raise self.fail(f"the region {region.name} has no address: write `[…] of {region.name}`", token)
        elif isinstance(base, ir.Const) and not sign:
            base, at = ir.ZERO, region.address + self.w.signed(base.word)
        else:
            at += region.address
        fields |= {"a": base, "imm": at, "region": region}

    # -- declarations

    def module(self) -> ir.Module:
        fields: dict[str, Any] = {}
        procedures: dict[str, ir.Procedure] = {}
        entry: list[ir.Node] = []
        while self.at < len(self.lines):
            if self.line.indent:
                raise self.fail("an indented line below no line that it belongs to")
            row = next((row for row in (_FORMAT, _MEMORY, _FILES, _ARGUMENTS) if row.parts[0] == self.next.text), None)
            if row is not None:
                self.row(row, fields)
                self.w = fields.get("format", self.w)
                self.end()
            elif self.follows("region"):
                self.region_lines()
            elif self.next.text == "procedure":
                outside, self.names = self.names, {ir.SP.name: ir.SP}
                token = self.line.tokens[1]
                procedure = self.procedure()
                if procedure.name in procedures:
                    raise self.fail(f"the procedure {procedure.name} is declared twice", token)
                procedures[procedure.name] = procedure
                self.names = outside
            elif self.follows("entry"):
                self.end()
                entry += self.block(0)
            elif not self.declares():
                entry.append(self.node())
        ends = [region.address + region.size for region in self.listed if region.address is not None]
        fields = {"memory": max(ends, default=0), **fields, "regions": tuple(self.listed)}
        return ir.Module(tuple(entry), procedures, discarded=frozenset(self.discarded), **fields)

    def procedure(self) -> ir.Procedure:
        fields: dict[str, Any] = {}
        self.row(_PROCEDURE, fields)
        fields["span"] = self.place()
        self.end()
        taken: list[ir.Region] = []
        while self.at < len(self.lines) and self.line.indent and self.follows("takes"):
            taken.append(self.region_lines(taken=True))
        return ir.Procedure(regions=tuple(taken), body=self.block(0), **fields)

    def arguments(self) -> tuple[ir.Region, ...] | None:
        """The regions that the host reads and writes; None for `unknown`."""
        return None if self.follows("unknown") else self.series(self.region)

    def format(self) -> Format:
        token = self.take("name", "a format such as Q32.32")
        try:
            return Format.named(token.text)
        except FormatError as error:
            raise self.fail(error.reason, token) from None

    def parameters(self) -> tuple[ir.Var, ...]:
        self.params = self.series(self.declared, ")")
        return self.params

    def parameter(self) -> int:
        """The index of a parameter."""
        token = self.next
        var = self.variable()
        if var not in self.params:
            raise self.fail(f"{token.text} is no parameter", token)
        return self.params.index(var)

    def adjoint(self) -> ir.Adjoint:
        name = self.name()
        made_by = self.name() if self.follows("made by") else None
        self.need("of")
        return ir.Adjoint(name, self.series(self.integer, "@"), made_by)


def _called(span: Span, caller: Span) -> CalledSpan:
    made = CalledSpan(*span)
    made.caller = caller
    return made


# ---------------------------------------------------------------- the language


class Syntax(NamedTuple):
    """How values of a field are written and read."""

    write: Callable[[_Writer, Any], str]
    read: Callable[[_Reader], Any]


class Part(NamedTuple):
    """A field of a line between two words. With the default as its value all three are left out."""

    field: str
    kind: Syntax
    before: str = ""
    default: Any = _REQUIRED
    after: str = ""


class Row(NamedTuple):
    """A line: words, and fields. `optional`: the line stands there if this field, the block below it, is not empty."""

    parts: tuple[str | Part, ...]
    optional: str | None = None


class Inner(NamedTuple):
    """A field that is a block, on indented lines."""

    field: str


def _row(*parts: str | Part) -> Row:
    return Row(parts)


def _commas(write: Callable[[_Writer, Any], str]) -> Callable[[_Writer, Any], str]:
    return lambda w, values: ", ".join(write(w, value) for value in values)


def _params_text(w: _Writer, params: tuple[ir.Var, ...]) -> str:
    w.params = params
    return ", ".join(map(w.declared, params))


def _flag(name: str, word: str) -> Part:
    """A word for True, and nothing for False."""
    return Part(name, Syntax(lambda _, __: "", lambda _: True), word, False)


_KINDS = {kind.value: kind for kind in ir.Kind}
_CALLS = {"call": False, "uncall": True}

_INTEGER = Syntax(lambda _, x: str(x), _Reader.integer)
_INTEGERS = Syntax(lambda _, xs: ", ".join(map(str, xs)), lambda r: r.series(r.integer, "]"))
_NAME = Syntax(lambda _, name: _name_text(name), _Reader.name)
_STRING = Syntax(
    lambda _, text: json.dumps(text, ensure_ascii=False),
    _Reader.quoted,
)
_STRINGS = Syntax(lambda _, texts: ", ".join(map(json.dumps, texts)), lambda r: r.series(r.quoted))
_VARIABLE = Syntax(_Writer.variable, _Reader.variable)
_DECLARED = Syntax(_Writer.declared, _Reader.declared)
_OPERAND = Syntax(_Writer.operand, _Reader.operand)
_OPERANDS = Syntax(_commas(_Writer.operand), lambda r: r.series(r.operand, ")"))
_TEST = Syntax(_Writer.test, _Reader.test)
_ANY_REGIONS = Syntax(
    _commas(lambda w, region: w.region(region) if region else "any"),
    lambda r: r.series(lambda: None if r.follows("any") else r.region()),
)

#: statement -> its lines and inner blocks, in the order of the text
_STATEMENTS: dict[type, tuple[Row | Inner, ...]] = {
    ir.Local: (_row("local", Part("var", _DECLARED), _flag("checked", "checked")),),
    ir.Delocal: (_row("delocal", Part("var", _VARIABLE), _flag("checked", "checked")),),
    ir.Within: (_row("within", Part("name", _NAME, default=None)), Inner("compute"), _row("do"), Inner("body")),
    ir.If: (
        _row("if", Part("test", _TEST)), Inner("then"), Row(("else",), "orelse"), Inner("orelse"),
        _row("fi", Part("post", _TEST)),
    ),
    ir.While: (_row("while", Part("test", _TEST)), Inner("body"), _row("again", Part("post", _TEST))),
    ir.For: (
        _row(
            "for", Part("var", _DECLARED), "in", _flag("backward", "reversed"), Part("start", _OPERAND, "range("),
            Part("stop", _OPERAND, ","), Part("step", _INTEGER, ",", 1), ")", _flag("some", "nonempty"),
        ),
        Inner("body"),
    ),
    ir.Call: (
        _row(
            Part("backward", Syntax(lambda _, backward: "uncall" if backward else "call", lambda r: r.one_of(_CALLS, "a call"))),
            Part("procedure", _NAME), Part("args", _OPERANDS, "(", after=")"), Part("regions", _ANY_REGIONS, "on", ()),
        ),
    ),
    ir.Check: (
        _row(
            "check", Part("test", _TEST), Part("code", _NAME, ":"), Part("message", _STRING),
            Part("of", _OPERANDS, "for derivatives of", ()),
        ),
    ),
    ir.External: (_row("external", Part("number", _INTEGER), Part("args", _OPERANDS, "(", (), ")")),),
}  # fmt: skip
#: the first word of a statement that is no instruction
_KEYWORDS = {
    word: statement
    for statement, rows in _STATEMENTS.items()
    for word in (_CALLS if statement is ir.Call else rows[0].parts[:1])  # type: ignore[union-attr]
}

_FORMAT = _row("format", Part("format", Syntax(lambda _, w: str(w), _Reader.format)))
_MEMORY = _row(
    "memory", Part("memory", _INTEGER), Part("stack", _INTEGER, ", stack", 0), Part("above", _INTEGER, ", above", 0),
    _flag("recorded", ", recorded"),
)  # fmt: skip
_FILES = _row("files", Part("files", _STRINGS))
_ARGUMENTS = _row("arguments", Part("arguments", Syntax(_commas(_Writer.region), _Reader.arguments)))
#: behind the name
_REGION = _row(Part("size", _INTEGER, "[", after="]"), Part("address", _INTEGER, "at", None))
_LAYOUT = _row(
    "array", Part("name", _NAME), Part("kind", _NAME, ":"), Part("shape", _INTEGERS, "[", (), "]"),
    Part("strides", _INTEGERS, "strides [", (), "]"), Part("offset", _INTEGER, "at", 0),
    Part("counts", _INTEGERS, "counts [", (), "]"),
)  # fmt: skip


def _adjoint_text(_: Any, adjoint: ir.Adjoint) -> str:
    made_by = "" if adjoint.made_by is None else f" made by {_name_text(adjoint.made_by)}"
    return f"{_name_text(adjoint.name)}{made_by} of {', '.join(map(str, adjoint.of))}".rstrip()


_PROCEDURE = _row(
    "procedure", Part("name", _NAME), Part("params", Syntax(_params_text, _Reader.parameters), "(", after=")"),
    Part(
        "written",
        Syntax(
            lambda w, indices: ", ".join(w.variable(w.params[i]) for i in sorted(indices)),
            lambda r: frozenset(r.series(r.parameter)),
        ),
        "changes", frozenset(),
    ),
    _flag("recursive", "recursive"),
    Part(
        "adjoint",
        Syntax(_adjoint_text, _Reader.adjoint),
        "adjoint", None,
    ),
)  # fmt: skip
