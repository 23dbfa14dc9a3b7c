"""The text of a program of Janus, in its dialect: the parser makes the same tree of it. Comments are not kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.parser import LEVELS

_LEVEL = {operator: level for level, operators in enumerate(LEVELS) for operator in operators} | {
    "*/": next(level for level, operators in enumerate(LEVELS) if "*" in operators)
}
_INDENT = "    "
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def program_text(program: syntax.Program) -> str:
    """The text of a program."""
    printer = _Printer(program.dialect == "jana")
    out = [declaration_text(d).removeprefix("int ") for d in program.globals]
    for p in program.procedures:
        out += [""] if out else []
        out += printer.procedure(p)
    return "\n".join(out) + "\n"


class _Printer:
    """Prints the lines of statements. `jana`: the dialect of the interpreter, else that of 1982."""

    def __init__(self, jana: bool) -> None:
        self._jana = jana

    def procedure(self, p: syntax.Procedure) -> Iterator[str]:
        """The lines of a procedure."""
        parameters = ", ".join(declaration_text(x) for x in p.parameters)
        yield f"procedure {p.name}" + (f"({parameters})" if self._jana else "")
        for d in p.declarations:
            yield f"{_INDENT}{declaration_text(d)}"
        if p.declarations and p.body:
            yield ""
        yield from self._body(p.body)

    def _body(self, body: Sequence[syntax.Statement], indent: str = _INDENT) -> Iterator[str]:
        for s in body:
            own = isinstance(s, syntax.Local) and s is body[-1] and s.declarations == s.releases
            if own and isinstance(s, syntax.Local) and s.declarations[0].role:
                # The variables are in scope up to the end of the block, which frees them.
                yield f"{indent}{_listed(s.declarations)}"
                yield from self._body(s.body, indent)
            else:
                yield from (f"{indent}{line}" for line in self._statement(s))

    def _statement(self, s: syntax.Statement) -> Iterator[str]:
        match s:
            case syntax.Update(target=target, operator=op, value=value):
                yield f"{text_of(target)} {op} {text_of(value)}"
            case syntax.Swap(left=left, right=right):
                yield f"{text_of(left)} <=> {text_of(right)}"
            case syntax.If(condition=before, then=then, orelse=orelse, exit=after):
                yield f"if {text_of(before)} then"
                yield from self._body(then)
                if orelse:
                    yield "else"
                    yield from self._body(orelse)
                yield f"fi {text_of(after)}"
            case syntax.Loop(entry=entry, do=do, loop=loop, exit=after):
                yield f"from {text_of(entry)}"
                for word, body in (("do", do), ("loop", loop)):
                    if body:
                        yield word
                        yield from self._body(body)
                yield f"until {text_of(after)}"
            case syntax.Iterate(type=kind, name=name, start=start, step=step, stop=stop, body=body):
                by = "" if step is None else f" by {text_of(step)}"
                yield f"iterate {kind} {name} = {text_of(start)}{by} to {text_of(stop)}"
                yield from self._body(body)
                yield "end"
            case syntax.Local(declarations=declarations, body=body, releases=releases):
                yield f"local {_listed(declarations)}"
                yield from self._body(body, "")
                yield f"delocal {_listed(releases)}"
            case _:
                yield self._simple(s)

    def _simple(self, s: syntax.Statement) -> str:
        """A statement of one line."""
        match s:
            case syntax.Push(value=value, stack=stack):
                return f"push({text_of(value)}, {stack})"
            case syntax.Pop(value=value, stack=stack):
                return f"pop({text_of(value)}, {stack})"
            case syntax.Call(name=name, arguments=arguments, backward=backward):
                given = f"({', '.join(map(text_of, arguments))})" if self._jana else ""
                return f"{'uncall' if backward else 'call'} {name}{given}"
            case syntax.Assert(condition=condition):
                return f"assert {text_of(condition)}"
            case syntax.Skip():
                return "skip"
            case syntax.Error(message=text):
                return f"error({_quoted(text)})"
            case syntax.Print(text=text):
                return f"print({_quoted(text)})"
            case syntax.Printf(text=text, arguments=arguments):
                return f"printf({', '.join([_quoted(text), *map(text_of, arguments)])})"
            case syntax.Show(arguments=arguments):
                names = ", ".join(map(text_of, arguments))
                return f"show({names})" if self._jana else f"write {names}"
        raise TypeError(s)


def _quoted(text: str) -> str:
    return f'"{"".join(_ESCAPES.get(c, c) for c in text)}"'


def declaration_text(d: syntax.Parameter) -> str:
    """A parameter, or the declaration of a variable."""
    lengths = "".join("[]" if n is None else f"[{text_of(n)}]" for n in d.lengths)
    out = f"{d.type} {d.name}{lengths}"
    if isinstance(d, syntax.Declaration):
        out = f"{d.role} {out}".lstrip()
        if d.initial is not None:
            out += f" = {text_of(d.initial)}"
        elif d.type == "stack":
            out += " = nil"
    return out


def _listed(declarations: Sequence[syntax.Declaration]) -> str:
    return ", ".join(map(declaration_text, declarations))


def text_of(e: syntax.Expression, least: int = 0) -> str:
    """The text of an expression, in parentheses if its operator binds looser than a level."""
    match e:
        case syntax.Number(value=value):
            return str(value)
        case syntax.Truth(value=truth):
            return str(truth).lower()
        case syntax.Reference(name=name, indices=indices):
            return name + "".join(f"[{text_of(i)}]" for i in indices)
        case syntax.Unary(operator=op, operand=x):
            return op + text_of(x, len(LEVELS))
        case syntax.Cast(type=kind, operand=x):
            return f"({kind}) {text_of(x, len(LEVELS))}"
        case syntax.Indicator(condition=condition):
            return text_of(condition, least)
        case syntax.Binary(operator=op, left=x, right=y):
            level = _LEVEL[op]
            out = f"{text_of(x, level)} {op} {text_of(y, level + 1)}"
            return f"({out})" if level < least else out
        case syntax.Size(name=name) | syntax.Empty(name=name) | syntax.Top(name=name):
            return f"{type(e).__name__.lower()}({name})"
        case syntax.Items(items=items):
            return "{" + ", ".join(map(text_of, items)) + "}"
    raise TypeError(e)
